"""Sends the questions of a probe to the brokers: it does the IO for `parallax.findings.questions`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from parallax.config import FindingSettings
from parallax.findings.answers import Answers, CoordinatorAnswer, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.coordinators import ask
from parallax.findings.history import HistoryLookup, KeyHistory
from parallax.findings.index import Indexes
from parallax.findings.keys import Key
from parallax.findings.lanes import Lanes, Silence
from parallax.findings.lap import Lap
from parallax.findings.pace import Counted, Paces
from parallax.findings.questions import ProbeReading, driven, questions, reading
from parallax.findings.replica_probe import ReplicaProbe, chunks, holds
from parallax.findings.requests import (
    Coordinators,
    Policy,
    Question,
    RecordedTransactions,
    Recreated,
    TransactionRecords,
    Wants,
    Where,
    Whereabouts,
)
from parallax.findings.scan import LogScans, Replica
from parallax.model import TopicPartition
from parallax.moments import now_ms
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import DeadlineExceeded, ReplicaError, Unreachable
from parallax.replica.types import HowGone

_POLICY = "cleanup.policy"
_ASKS = 4
"""How many probes ask one broker at the same time."""


class _LazyHistory:
    """Looks up the recorded offsets of the keys at most once, when the first replica is asked for them."""

    def __init__(self, look_up: Callable[[], KeyHistory]) -> None:
        self._look_up = look_up
        self._lock = threading.Lock()
        self._found: KeyHistory | None = None

    def __call__(self) -> KeyHistory:
        """Return what was recorded."""
        with self._lock:
            if self._found is None:
                self._found = self._look_up()
            return self._found


class LooksUp(Protocol):
    """Answers a probe's questions to the views: records of transactions, and whether a log was replaced.

    `parallax.findings.history.RecordedHistory` does it.
    """

    def transactions(self, question: RecordedTransactions) -> list[TransactionRecords]:
        """Return what the views recorded of each transaction that a question names, in the question's order."""

    def was_recreated(self, question: Recreated) -> bool:
        """Whether the views recorded that the replica's log was replaced, since the time that the question names."""


class Prober:
    """Asks the brokers every question of a probe, and returns their answers.

    Args:
        client: sends each request to the broker that it is given; many threads use it.
        hasher: hashes keys as the views do, because keys are looked for by their hash.
        settings: deadlines and bounds of probes.
        payload: ``read.payload``; the key's bytes are read only where it is not ``hash``.
        history: looks up where the views recorded keys; with None the logs are read instead.
        recorded: looks up transactions and replaced logs in the views; with None the probe does not know them.
        scans: folder where scans (readings of whole logs for some keys) keep their results, so that these survive the
            process; None: nowhere.
        clock: monotonic seconds, for tests.
    """

    def __init__(
        self,
        client: ReplicaClient,
        hasher: ContentHasher,
        settings: FindingSettings,
        *,
        payload: str = "hash",
        history: HistoryLookup | None = None,
        recorded: LooksUp | None = None,
        scans: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.hasher = hasher
        self.settings = settings
        self.payload = Payload.HASH if payload == "hash" else Payload.KEY
        self._history = history
        self._recorded = recorded
        self._closed = threading.Event()
        self.paces = Paces(settings.max_bytes_per_second, clock, self._pause)
        """By broker, the limit in bytes per second for all that is read of it."""
        self.indexes = Indexes()
        self.scans = LogScans(self, self.indexes, scans, self._closed.wait)
        self._topic_ids: dict[str, str] = {}
        self._silence = Silence(settings.probe_timeout_ms / 1000, clock)
        self._lanes = Lanes(_ASKS, "probe-replica")

    def close(self) -> None:
        """Give up all probes and scans that are running."""
        self._closed.set()
        self._lanes.close()
        self.scans.close()

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise Unreachable("the probe was given up: the program ends")

    @property
    def read_bytes(self) -> Mapping[int, int]:
        """Bytes of records that were read so far, by broker."""
        return self.paces.read_bytes()

    def probe(self, claims: Sequence[Claim]) -> list[Answers]:
        """Ask the brokers about claims on one partition that all have the same pivot, the replica that is asked last.

        It never raises because of a broker: an answer then carries the error.

        Returns:
            The answers about each claim, in the order of the claims.
        """
        history: dict[frozenset[Key], _LazyHistory] = {}
        return driven(questions(claims, now_ms()), lambda question: self._answer(question, history))

    def _answer(self, question: Question, history: dict[frozenset[Key], _LazyHistory]) -> Any:
        if isinstance(question, Where):
            return self._where(question)
        if isinstance(question, Coordinators):
            return self._coordinators(question)
        if isinstance(question, RecordedTransactions):
            if self._recorded is None:
                return [TransactionRecords() for _ in question.of]
            return self._recorded.transactions(question)
        if isinstance(question, Recreated):
            return self._recorded is not None and self._recorded.was_recreated(question)
        if isinstance(question, Policy):
            return self._policy(question.topic)
        wants = question.wants
        look_up = history.setdefault(wants.keys, _LazyHistory(lambda: self._look_up(wants)))
        asked = {b: self._lanes.submit(b, partial(self._ask, wants, b, look_up)) for b in question.brokers}
        return {broker: answer.result() for broker, answer in asked.items()}

    def _look_up(self, wants: Wants) -> KeyHistory:
        if self._history is None:
            return KeyHistory()
        return self._history(wants.topic, wants.partition, sorted(wants.keys))

    def _where(self, where: Where) -> Whereabouts:
        """Return where a partition is."""
        topic, partition = where.topic, where.partition
        try:
            found = self.client.metadata([topic], timeout_ms=self.settings.probe_timeout_ms).get(topic)
        except ReplicaError as error:
            return Whereabouts(error=str(error))
        gone = HowGone.TOPIC if found is None else found.gone(partition)
        if found is None or gone is HowGone.TOPIC:
            return Whereabouts(gone=f"the topic {topic} does not exist any more")
        if found.error is not None:
            return Whereabouts(error=str(found.error))
        self._topic_ids[topic] = found.topic_id
        if gone is HowGone.PARTITION:
            return Whereabouts(gone=f"{topic}-{partition} does not exist any more")
        place = found.partitions[partition]
        return Whereabouts(tuple(place.replicas), tuple(place.isr), place.leader, found.topic_id, place.leader_epoch)

    def _policy(self, topic: str) -> str | None:
        """Return the topic's cleanup policy; None where no broker says, or it may not be read."""
        try:
            given = self.client.topic_configs([topic], [_POLICY], timeout_ms=self.settings.probe_timeout_ms)
        except ReplicaError:
            return None
        found = given.get(topic)
        return found.get(_POLICY) if isinstance(found, dict) else None

    def _coordinators(self, question: Coordinators) -> dict[int, CoordinatorAnswer]:
        """Ask the transaction coordinators about the producers; what they do not say is reported, not guessed."""
        wanted = question.producer_ids
        told = ask(self.client, wanted, self.settings.probe_timeout_ms)
        found = {pid: self._unlisted(pid, told.silent) for pid in wanted}
        for t in told.transactions:
            elsewhere = t.partitions is not None and question.place not in t.partitions
            found[t.producer_id] = CoordinatorAnswer(t.producer_id, t.transactional_id, t.state, elsewhere=elsewhere)
        return found

    @staticmethod
    def _unlisted(producer_id: int, silent: str) -> CoordinatorAnswer:
        if silent:
            return CoordinatorAnswer(producer_id, error=silent)
        return CoordinatorAnswer.not_listed(producer_id)

    def _ask(self, wants: Wants, broker: int, history: _LazyHistory) -> ProbeReading:
        """Ask one replica; a failure of any part makes the whole answer an error, so that no half of it is judged.

        Probes do not each wait for a broker that did not answer a moment ago.
        """
        silent = self._silence.of(broker)
        if silent is not None:
            return ProbeReading(ReplicaAnswer(broker, error=f"broker {broker} has not answered for {silent:.0f} s"))
        try:
            found = driven(reading(broker, wants), ReplicaProbe(self, wants, broker, history).answer)
        except ReplicaError as error:
            if isinstance(error, DeadlineExceeded):
                self._silence.timed_out(broker)
            return ProbeReading(ReplicaAnswer(broker, error=str(error)))
        self._silence.heard(broker)
        return found

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic as the last metadata had it; empty if it is not known."""
        return self._topic_ids.get(topic, "")

    def was_replaced(self, broker: int, place: TopicPartition, since_ms: int) -> bool:
        """Whether the views' readers have noticed that another log replaced a replica's log.

        Args:
            broker: the replica's broker.
            place: the partition.
            since_ms: only what was noticed since this time counts, milliseconds since 1970 UTC.
        """
        return self._recorded is not None and self._recorded.was_recreated(Recreated(*place, broker, since_ms))

    # What scans read by.

    def chunks(self, replica: Replica, start: int, end: int, after_epoch: int) -> Iterator[Any]:
        """Read a part of a replica's log for a scan, and yield it as chunks; probes that wait go first.

        The chunks hold what a read_committed consumer gets.

        Args:
            replica: the replica.
            start: the first offset to read.
            end: the offset to read up to.
            after_epoch: leader epoch of the last batch that was read before ``start``; -1: unknown.

        Raises:
            LogTruncated: below ``start`` the log holds another leader epoch. It is not the log that was read before.
        """
        broker, place = replica
        pace = Counted(self.paces.of(broker), behind=True)
        return chunks(self, broker, place, start, end, pace, after_epoch=after_epoch)

    def is_same_log(self, replica: Replica, lap: Lap) -> bool:
        """Whether a replica's log is still the one that a scan has read.

        A scan reads a whole log for some keys (`parallax.findings.lap`).
        """
        return holds(self, *replica, lap.read_to, lap.epoch)
