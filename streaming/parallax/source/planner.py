"""The planning of ``kafka-replica``: asks the brokers how far their logs go, and decides what each micro-batch reads.

It lives in the driver-side Python process of one streaming query. Spark waits for that process without a timeout. So
each call here has a longest time: ``planning.patience.ms``, and for the first one ``request.timeout.ms`` as well.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import SystemRandom

import numpy as np

from parallax.backoff import backoff
from parallax.model import ReadEvent, TopicPartition
from parallax.replica.client import ReplicaClient, TopicMetadata
from parallax.replica.errors import BadOption, Unauthorized, UnknownTopic
from parallax.replica.places import Array, Places
from parallax.source.board import Board, boards
from parallax.source.feedback import FeedbackFile, PausedFile, Recorded
from parallax.source.offsets import Range, Reader
from parallax.source.options import ReplicaOptions
from parallax.source.planning import BYTES_PER_RECORD, LATER, LogState, admit, aligned, next_range, settled, stopped
from parallax.source.survey import Catalog, Survey, Surveyed, survey
from parallax.source.watch import Brokers

_DENSITY_AGE_S = 30.0
_READ_RETRY_S, _READ_RETRY_MAX_S = 1.0, 60.0
"""First and longest pause of a broker or partition that reports its watermarks and cannot be read."""
_BATCH_RETRY_S, _BATCH_RETRY_MAX_S = 5.0, 300.0
"""First and longest pause of a reader at a batch that it cannot read. A repair or a cleaner may remove the batch."""


class Pauses:
    """Remembers which brokers, partitions or readers failed, and until when each is not read.

    Each failure in a row makes the pause twice as long, up to ``longest_s``.

    Args:
        first_s: the first pause, in seconds.
        longest_s: the longest pause, in seconds.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._failures: dict[Hashable, tuple[int, float]] = {}
        self._draw = SystemRandom()

    def failed(self, who: Hashable) -> None:
        """Begin a pause for the broker, partition or reader that has failed.

        The pause is twice as long as the last one, up to the longest.

        Args:
            who: what has failed, e.g. a broker's id or a `Reader`.
        """
        count = self._failures.get(who, (0, 0.0))[0] + 1
        self._failures[who] = count, time.monotonic() + backoff(count, self._first_s, self._longest_s, self._draw)

    def worked(self, who: Hashable) -> None:
        """Forget the failures of a broker, partition or reader that was read: its next pause is short again."""
        self._failures.pop(who, None)

    def on(self, who: Hashable) -> bool:
        """Whether a broker, partition or reader is not to be read now, because its pause is not over."""
        return time.monotonic() < self._failures.get(who, (0, 0.0))[1]


class Planner:
    """Plans the micro-batches of one query: from which to which offset each reader reads.

    Args:
        options: which topics and brokers to read, and how.
        client: the connections to the brokers.

    Attributes:
        brokers: asks each broker.
    """

    def __init__(self, options: ReplicaOptions, client: ReplicaClient) -> None:
        self._options = options
        self._catalog = Catalog(client, options)
        self._feedback = FeedbackFile(options.feedback)
        self.brokers: Brokers[Survey, Surveyed] = Brokers(
            lambda broker, question: survey(client, broker, question, options.timeout_ms),
            options.retry_ms / 1000,
            options.retry_max_ms / 1000,
        )
        self._broker_pauses = Pauses(_READ_RETRY_S, _READ_RETRY_MAX_S)
        self._partition_pauses = Pauses(_READ_RETRY_S, _READ_RETRY_MAX_S)
        self._reader_pauses = Pauses(_BATCH_RETRY_S, _BATCH_RETRY_MAX_S)
        self._paused = PausedFile(options.paused)
        self._in_doubt_since: dict[Reader, float] = {}
        self._newest_batch = -1
        self._recorded: Mapping[Reader, Recorded] = {}
        self._topics_read: set[str] = set()
        self._boards: dict[int, Board] = {}
        self._hosted: Mapping[str, object] = {}
        self._strangers: set[Reader] = set()
        """Readers with a recorded position whose replica no longer exists, until that is reported."""
        self._cost: dict[tuple[int, TopicPartition], tuple[float, float]] = {}

    def recorded(self) -> Mapping[Reader, Recorded]:
        """The position of each reader that the sink has recorded; empty without a feedback file.

        The reader's next range begins there.
        """
        self._take_in()
        return self._recorded

    def without_paused(self, ranges: Mapping[Reader, Range]) -> dict[Reader, Range]:
        """The ranges of a plan, without those of brokers whose reading was paused after the plan was made.

        A reader is left out only if its position is recorded, because the next plan begins there. Without a recorded
        position, only this plan says where to begin. So that range is read in spite of the pause.

        Args:
            ranges: the planned range of each reader.
        """
        recorded = self.recorded()
        return {r: span for r, span in ranges.items() if r not in recorded or not self._paused.on(r.broker)}

    def failures(self) -> dict[int, str]:
        """The error of each broker that does not answer, in one line, by broker id."""
        return {broker: str(failure.error) for broker, failure in self.brokers.failures().items()}

    def plan(self, previous: Mapping[Reader, Range], *, limited: bool = True) -> dict[Reader, Range] | None:
        """Decide which offsets each reader reads in the next micro-batch.

        Args:
            previous: the range of each reader in the micro-batch before; empty for the first. With a feedback file,
                ranges that were empty may be left out.
            limited: whether ``maxBytesPerTrigger`` limits the ranges.

        Returns:
            The ranges of all known readers; with a feedback file, only of readers that may have anything to do. None if
            no reader has anything to do.

        Raises:
            ReplicaError: only for the first plan of a new stream: no broker answers, or a named topic cannot be read.
            BadOption: a broker in ``brokers`` is not of this cluster.
        """
        recorded = self.recorded()
        self._catalog.remember(self._topics_read | {reader.topic for reader in previous})
        topics = self._catalog.topics()
        self._follow(topics, new=not previous and not recorded)
        answers = self._ask(previous)
        ranges = dict(self._ranges(topics, answers, previous))
        gone = dict(self._gone(topics, previous))
        if self._options.feedback is not None:
            # They are reported once, and cost nothing more until the cluster changes.
            self._strangers -= {reader for reader, span in gone.items() if span.empty}
        ranges.update(gone)
        if all(span.empty for span in ranges.values()):
            return None
        admitted = admit(ranges, self._costs(ranges), self._options.max_bytes if limited else None)
        return aligned(ranges, admitted) if self._options.shared else admitted

    def close(self) -> None:
        """End the threads that ask the brokers."""
        self.brokers.close()
        self._catalog.close()

    def _take_in(self) -> None:
        """Take in the positions recorded since the last call, and which readers failed in the newest micro-batch."""
        new, is_all = self._feedback.news()
        if is_all:
            self._recorded, self._topics_read, self._boards = self._feedback.recorded, set(), {}
        self._topics_read |= {reader.topic for reader in new}
        self._note(new)
        newest = max((entry.batch for entry in new.values()), default=-1)
        if newest > self._newest_batch:
            self._newest_batch = newest
            self._judge({reader: entry.event for reader, entry in new.items() if entry.batch == newest})

    def _note(self, recorded: Mapping[Reader, Recorded]) -> None:
        for reader, entry in recorded.items():
            board = self._boards.get(reader.broker)
            if board is not None and board.hosts(reader):
                board.note(reader, entry)
            else:
                self._strangers.add(reader)

    def _judge(self, latest: Mapping[Reader, ReadEvent]) -> None:
        worked = {reader.broker for reader, event in latest.items() if event is not ReadEvent.UNREACHABLE}
        for reader, event in latest.items():
            (self._reader_pauses.failed if event in LATER else self._reader_pauses.worked)(reader)
            # A broker that shows some of its replicas is well: what fails is one partition's own.
            is_alone = event is ReadEvent.UNREACHABLE and reader.broker in worked
            (self._partition_pauses.failed if is_alone else self._partition_pauses.worked)(reader)
        for broker in {reader.broker for reader in latest}:
            (self._broker_pauses.worked if broker in worked else self._broker_pauses.failed)(broker)

    def _follow(self, topics: Mapping[str, TopicMetadata], *, new: bool) -> None:
        """Make new boards if the cluster's partitions or replicas have changed."""
        hosted = {name: (topic.topic_id, topic.partitions, str(topic.error)) for name, topic in topics.items()}
        if new:
            _refuse_unreadable(topics, self._options.topics)
            self._refuse_strangers(topics)
        if self._boards and hosted == self._hosted:
            return
        self._hosted = hosted
        self._boards = boards(topics, self._options.isolations, self._options.brokers)
        self._strangers = set()
        doubts = self._in_doubt_since.items()
        hosts = self._boards
        self._in_doubt_since = {r: s for r, s in doubts if r.broker in hosts and hosts[r.broker].hosts(r)}
        self._note(self._recorded)

    def _refuse_strangers(self, topics: Mapping[str, TopicMetadata]) -> None:
        hosts = {broker for topic in topics.values() for p in topic.partitions.values() for broker in p.replicas}
        strangers = [broker for broker in self._options.brokers or () if hosts and broker not in hosts]
        if strangers:
            raise BadOption(
                f"option brokers names {strangers[0]}, which hosts no replica of the topics "
                f"(these do: {', '.join(map(str, sorted(hosts)))}); correct it",
                option="brokers",
            )

    def _ask(self, previous: Mapping[Reader, Range]) -> dict[int, Surveyed]:
        planned: dict[int, list[tuple[Reader, int]]] = {}
        for reader, span in previous.items():
            board = self._boards.get(reader.broker)
            if reader not in self._recorded and board is not None and board.hosts(reader):
                planned.setdefault(reader.broker, []).append((reader, span.end))
        questions = {
            broker: Survey(board.places, board.lowest(planned.get(broker, ())), self._sampled(broker, board.places))
            for broker, board in self._boards.items()
            if not self._broker_pauses.on(broker) and not self._paused.on(broker)
        }
        answers = self.brokers.ask(questions, self._options.patience_ms / 1000)
        now = time.monotonic()
        for broker, answer in answers.items():
            for partition, density in answer.densities.items():
                self._cost[broker, partition] = (max(density.size, density.records * BYTES_PER_RECORD), now)
        return answers

    def _sampled(self, broker: int, places: Places) -> Array:
        """bool[n]: whether the density of each log is known; all True if no limit depends on it."""
        known = np.full(len(places), self._options.max_bytes is None)
        fresh = time.monotonic() - _DENSITY_AGE_S
        sampled = (p for (b, p), (_, at) in self._cost.items() if b == broker and at > fresh)
        known[[places.located[p] for p in sampled if p in places.located]] = True
        return known

    def _costs(self, readers: Iterable[Reader]) -> dict[Reader, float]:
        known = ((reader, self._cost.get((reader.broker, reader.place))) for reader in readers)
        return {reader: cost[0] for reader, cost in known if cost is not None}

    def _ranges(
        self, topics: Mapping[str, TopicMetadata], answers: Mapping[int, Surveyed], previous: Mapping[Reader, Range]
    ) -> Iterable[tuple[Reader, Range]]:
        known: set[TopicPartition] | None = None
        for reader in self._to_plan(answers):
            before, entry = previous.get(reader), self._recorded.get(reader)
            topic_id, known_so_far = topics[reader.topic].topic_id, settled(before, entry)
            log = self._log(reader, topic_id, known_so_far, answers)
            span = known_so_far
            if log is not None:
                starting = self._options.starting
                if before is None and entry is None:
                    if known is None:
                        known = {other.place for other in previous.keys() | self._recorded.keys()}
                    starting = "earliest" if known and reader.place not in known else starting
                span = next_range(reader, before, entry, log, topic_id, starting)
            if span is not None:
                yield reader, span

    def _to_plan(self, answers: Mapping[int, Surveyed]) -> Iterator[Reader]:
        """The readers that may have anything to do; all readers if the plan has to say how far each is."""
        for isolation, (broker, board) in product(self._options.isolations, self._boards.items()):
            if self._options.feedback is None:
                yield from board.readers(isolation)
            elif broker in answers:
                busy = board.busy(isolation, answers[broker].marks)
                found = list(board.readers(isolation, busy))
                yield from found
                # One whose log may be of another topic is looked at until that is over.
                yield from {r for r in self._in_doubt_since if r.isolation == isolation and r.broker == broker} - {
                    *found
                }

    def _is_of_this_topic(self, reader: Reader, known: Range | None, log: LogState) -> bool:
        """Whether it is certain that an answer is about the topic that was read, and not about a new one of its name.

        If a log ends below the position, or is not there, the topic may have been deleted and created again. That is
        certain once newer metadata than this answer have come.
        """
        if known is None or not _may_be_of_another(known, log):
            self._in_doubt_since.pop(reader, None)
            return True
        since = self._in_doubt_since.setdefault(reader, time.monotonic())
        if self._catalog.asked_at > since:
            del self._in_doubt_since[reader]
            return True
        self._catalog.refresh()
        return False

    def _log(
        self, reader: Reader, topic_id: str, known: Range | None, answers: Mapping[int, Surveyed]
    ) -> LogState | None:
        """What a replica reports of its log; None if the reader is not to be planned by it now."""
        if reader.broker not in answers or self._reader_pauses.on(reader) or self._partition_pauses.on(reader):
            return None
        log = answers[reader.broker].log(reader.place)
        if log is None or log.topic_id != topic_id or not self._is_of_this_topic(reader, known, log):
            return None  # An answer by another id was asked for before the metadata knew of this topic.
        if log.error is ReadEvent.TOPIC_DELETED:
            # The cluster still knows the topic: the broker has yet to learn of it, or knows already that it is to go.
            return replace(log, error=ReadEvent.NOT_HOSTED)
        return log

    def _gone(
        self, topics: Mapping[str, TopicMetadata], previous: Mapping[Reader, Range]
    ) -> Iterable[tuple[Reader, Range]]:
        """The ranges of readers whose partition or replica no longer exists."""
        boards = self._boards
        left = {r for r in previous if r.broker not in boards or not boards[r.broker].hosts(r)}
        for reader in left | self._strangers:
            known = settled(previous.get(reader), self._recorded.get(reader))
            of_another = self._options.brokers is not None and reader.broker not in self._options.brokers
            if known is None or of_another or reader.isolation not in self._options.isolations:
                continue
            topic = topics.get(reader.topic)
            error = UnknownTopic("no such topic", topic=reader.topic) if topic is None else topic.error
            if error is not None and error.event is not None:
                yield reader, stopped(known, error.event, str(error))
            elif topic is not None and reader.partition in topic.partitions:
                detail = f"broker {reader.broker} is no longer a replica of {reader.topic}-{reader.partition}"
                yield reader, stopped(known, ReadEvent.NOT_HOSTED, detail)
            else:
                yield reader, known


def _may_be_of_another(known: Range, log: LogState) -> bool:
    """Whether a replica's answer would be the same if a new topic had taken the name of the one that was read."""
    if log.error is not None:
        return log.error is ReadEvent.TOPIC_DELETED and known.state is not ReadEvent.NOT_HOSTED
    return known.start > log.log_end_offset


def _refuse_unreadable(topics: Mapping[str, TopicMetadata], named: Sequence[str]) -> None:
    for name in named:
        error = topics[name].error
        if isinstance(error, UnknownTopic):
            raise BadOption(
                f"option topics names {name}, which does not exist; create it or correct it", option="topics"
            )
        if isinstance(error, Unauthorized) and all(isinstance(topics[n].error, Unauthorized) for n in named):
            raise error
