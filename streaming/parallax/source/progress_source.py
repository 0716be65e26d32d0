"""``format("kafka-progress")``: how far each replica's log goes and which transactions it holds open, without records.

Spark's offset is the number of a *tick*, a look at all replicas. The brokers are asked in the driver-side planning
process, each in a thread of its own, so a broker that hangs delays nobody. Each tick has one Spark task. It gets the
answers inside its input partition, and only turns them into columns. With the option ``awaited.path``, there is no tick
while all rows only repeat what was recorded (`parallax.source.repeats`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from parallax.model import UNKNOWN, MissingRight, ReadEvent, TopicPartition
from parallax.replica.errors import DeadlineExceeded, ReplicaError, Unauthorized
from parallax.replica.places import Marks, Places
from parallax.replica.types import PartitionMetadata, ProducerState, TopicMetadata, Watermarks
from parallax.source.due import Due
from parallax.source.feedback import AwaitedFile
from parallax.source.options import ProgressOptions, SourceOptions, progress_options
from parallax.source.repeats import Repeats
from parallax.source.schema import PROGRESS_DDL
from parallax.source.ticks import NONE_OPEN, OFFSETS, SOME_OPEN, Layout, Row, Tick

DESCRIBE_EVERY_S = 10.0
_PATIENCE_S = 0.0002
"""How many seconds longer a broker is waited for, for each of its partitions. Then it counts as unreachable."""
_AWAITED_EVERY_S = 0.1
"""How often the source looks whether the comparison awaits a report."""
_TICK_MS = 10_000
"""How long a tick takes at most, roughly."""


class SteadyClock:
    """A time of day that does not jump when the system's clock is changed.

    It begins with the system's time, and then grows by what has passed on a monotonic clock. A clock that is set
    forward and back again would do harm in two ways. Later rows of progress would have an older time than earlier ones,
    and the comparison would ignore them for a while. The jump would look like a time in which replicas made no
    progress.

    Args:
        not_before_ms: the lowest time that it gives, in ms since 1970 UTC, so that no time is reported twice.
        wall: returns nanoseconds since 1970 UTC; tests give their own.
        monotonic: returns nanoseconds of a clock that only runs forward; tests give their own.
    """

    def __init__(
        self,
        not_before_ms: int = 0,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._monotonic = monotonic
        self._offset = max(wall(), not_before_ms * 1_000_000) - monotonic()

    def __call__(self) -> int:
        """Milliseconds since 1970 UTC."""
        return (self._offset + self._monotonic()) // 1_000_000


@dataclass(frozen=True)
class Observed:
    """What one broker answered for one tick.

    Attributes:
        at_ms: when the answer came, in ms since 1970 UTC.
        marks: the watermarks of the broker's logs, or the error of each log whose watermarks are not known.
        transactions: by partition whose producers the broker was asked for, its open transactions, as in the column
            ``open_transactions``; or the error if they are not known.
        log_ends: by partition whose records the user may not read, the log end offset, for which DESCRIBE on the topic
            is enough.
    """

    at_ms: int
    marks: Marks
    transactions: Mapping[TopicPartition, list[dict[str, int]] | ReplicaError] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def said(self, place: TopicPartition) -> Watermarks | ReplicaError | None:
        """The watermarks of one replica, or the error if they are not known.

        None if the answer leaves the log out.
        """
        listed = self.transactions.get(place)
        if isinstance(listed, ReplicaError):
            return listed
        at = self.marks.places.located.get(place)
        return None if at is None else self.marks.said(at)


class KafkaProgressSource(DataSource):
    """The Spark data source ``kafka-progress``: one row for each replica and tick, without records."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark's ``format()`` finds this source."""
        return "kafka-progress"

    def schema(self) -> str:
        """The schema of the rows, as Spark DDL; the options are checked here.

        Raises:
            BadOption: an option is unknown, missing or ill-typed.
        """
        progress_options(self.options)
        return PROGRESS_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader that Spark asks for micro-batches.

        Args:
            schema: what Spark passes; it is not used.
        """
        del schema
        return ProgressStreamReader(progress_options(self.options))


class RowsPartition(InputPartition):
    """The input partition of a tick's one Spark task; it holds the tick's rows as dicts."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(None)
        self.rows = rows


class ProgressStreamReader(DataSourceStreamReader):
    """Asks all brokers at each trigger, and gives Spark the rows of replicas that are worth recording.

    If no row is worth recording, there is no micro-batch. A Spark offset has the number of a tick (``tick``) and its
    time (``at``, ms since 1970 UTC).
    """

    def __init__(self, options: ProgressOptions) -> None:
        self._options = options
        self._watch: ProgressWatch | None = None
        self._clock: SteadyClock | None = None
        self._repeats = Repeats()
        self._awaited = AwaitedFile(options.awaited)
        self._planned: tuple[dict[str, Any], list[Any]] | None = None
        self._due = Due(options.trigger_ms)
        self._known_awaited: frozenset[TopicPartition] = frozenset()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where a new query begins: tick 0, which has no rows."""
        return {"tick": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Ask all brokers; returns the Spark offset of the new tick, or ``start`` if no row is worth recording.

        With the option ``trigger.ms`` it first waits until that is due. A broker that is back ends the wait, or a
        partition of which the comparison begins to await a report.

        Args:
            start: the Spark offset of the last tick.
            limit: what Spark passes; it is not used.

        Raises:
            ReplicaError: no broker has answered yet since the query started.
        """
        del limit
        if not self._due.wait(self._is_new):
            return start
        tick = self._ask(start)
        rows = tick.rows() if self._options.awaited is None else self._repeats.without(tick, self._awaited.read())
        if not rows:
            return start
        end = {"tick": start["tick"] + 1, "at": self._steady(start)()}
        self._planned = end, rows
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The one input partition of a tick, with all of its rows; no partition if it has no rows.

        If Spark runs a tick again, the brokers are asked again.

        Args:
            start: Spark offset of the tick before.
            end: Spark offset of the tick.

        Raises:
            ReplicaError: no broker has answered yet since the query started.
        """
        if start == end:
            return []
        planned, self._planned = self._planned, None
        rows = planned[1] if planned is not None and planned[0] == end else self._ask(end).rows()
        return [RowsPartition(rows)] if rows else []

    def _ask(self, offset: dict[str, Any]) -> Tick:
        if self._watch is None:
            self._watch = ProgressWatch(self._options, clock=self._steady(offset))
        return self._watch.tick()

    def _is_new(self, patience_s: float) -> bool:
        awaited = self._awaited.read()
        one_more, self._known_awaited = not awaited <= self._known_awaited, awaited
        # One report is seldom enough: what holds a replica back has to be so for a while.
        if one_more and self._due.hurry():
            return True
        return self._watch is not None and self._watch.brokers.is_back(min(patience_s, _AWAITED_EVERY_S))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows in a tick's input partition as one record batch; the Spark task calls it."""
        import pyarrow as pa

        from parallax.source.schema import PROGRESS

        if isinstance(partition, RowsPartition):
            yield pa.RecordBatch.from_pylist([dict(row) for row in partition.rows], schema=PROGRESS)

    def _steady(self, offset: dict[str, Any]) -> SteadyClock:
        """The clock of this query; it begins after the last recorded tick, even if the system's clock was set back."""
        if self._clock is None:
            self._clock = SteadyClock(offset.get("at", -_TICK_MS) + _TICK_MS)
        return self._clock

    def stop(self) -> None:
        """End the threads that ask the brokers."""
        if self._watch is not None:
            self._watch.close()


class ProgressWatch:
    """Asks all brokers how far their logs go, tick after tick.

    Args:
        options: which topics and brokers to ask, and how long to wait.
        describe_every_s: every how many seconds all replicas are asked for their producers (`Described`).
        clock: gives the rows their time, in ms since 1970 UTC; None for a `SteadyClock`.

    Attributes:
        brokers: asks each broker.
    """

    def __init__(
        self,
        options: SourceOptions,
        describe_every_s: float = DESCRIBE_EVERY_S,
        clock: Callable[[], int] | None = None,
    ) -> None:
        from parallax.replica.client import ReplicaClient
        from parallax.source.survey import Catalog
        from parallax.source.watch import Brokers

        self._options = options
        self._client = ReplicaClient(options.kafka, timeout_ms=options.timeout_ms)
        self._catalog = Catalog(self._client, options, policies=True)
        self._described: dict[int, Described] = {}
        self._describe_every_s = describe_every_s
        self._clock = clock or SteadyClock()
        self.brokers: Brokers[Places, Observed] = Brokers(
            self._observe,
            options.retry_ms / 1000,
            options.retry_max_ms / 1000,
        )
        self._topics: Mapping[str, TopicMetadata] = {}
        self._facts: Mapping[TopicPartition, object] = {}
        self._layout = Layout({}, {}, {})

    def tick(self) -> Tick:
        """Ask all brokers, and return their answers as one tick.

        The tick has every replica, even if its broker did not answer. A broker that has not answered within
        ``planning.patience.ms`` counts as unreachable in this tick.

        Raises:
            ReplicaError: no broker has answered yet.
        """
        topics = self._catalog.topics()
        layout = self._follow(topics)
        asked = {broker: places for broker, (places, _, _) in layout.hosted.items()}
        most = max(map(len, asked.values()), default=0)
        answers = self.brokers.ask(asked, self._options.patience_ms / 1000 + most * _PATIENCE_S)
        failures = self.brokers.failures()
        now_ms = self._clock()
        silent = {b: failures[b].error if b in failures else self._no_answer(b) for b in layout.hosted}
        said = {b: answers.get(b) or Observed(now_ms, Marks.of({})) for b in layout.hosted}

        def rows_of(at: Iterable[int]) -> list[Row]:
            return [
                _row(topics[layout.places[i].topic], layout.places[i].partition, broker, said[broker], silent[broker])
                for i in at
                for broker in sorted(layout.replicas[i])
                if broker in said
            ]

        tick = Tick.blank(layout, rows_of)
        for broker, observed in said.items():
            _take_in(tick, broker, observed, silent[broker])
        return tick

    def _follow(self, topics: Mapping[str, TopicMetadata]) -> Layout:
        """The layout of the cluster as it is now; the same one for as long as nothing has changed."""
        if topics is self._topics:
            return self._layout
        found = {
            TopicPartition(topic.name, number): (partition.replicas, _facts(topic, partition))
            for topic in topics.values()
            for number, partition in topic.partitions.items()
        }
        if found != self._facts:
            self._layout = Layout(
                {place: replicas for place, (replicas, _) in found.items()},
                {place: facts for place, (_, facts) in found.items()},
                {place: topics[place.topic].delete_retention_ms for place in found},
                self._options.brokers,
            )
        self._topics, self._facts = topics, found
        return self._layout

    def _observe(self, broker: int, places: Places) -> Observed:
        described = self._described.setdefault(broker, Described(self._describe_every_s))
        return observe(self._client, broker, places, self._options.timeout_ms, described, self._clock)

    def _no_answer(self, broker: int) -> ReplicaError:
        return DeadlineExceeded(f"no answer within {self._options.patience_ms} ms", broker=broker)

    def close(self) -> None:
        """End the threads that ask the brokers."""
        self.brokers.close()
        self._catalog.close()
        self._client.close()


class Described:
    """Decides, for one broker, for which partitions each tick asks for the producers (Kafka's DescribeProducers).

    That request lists every producer that a replica remembers, although few hold a transaction open. Where producers
    come and go, these are thousands. The comparison needs to know two things: which producer keeps a last stable offset
    from moving, and, sooner or later, which transactions are over.

    So a tick asks for a partition if its last stable offset is below the high watermark and has not moved since the
    tick before. It also asks for a partition whose watermarks the tick before did not get. The first tick, and then one
    every ``every_s``, asks for all partitions.

    Args:
        every_s: every how many seconds all partitions are asked for.
        clock: returns monotonic seconds; tests give their own.
    """

    def __init__(self, every_s: float = DESCRIBE_EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._all_at = -math.inf
        self._before = Marks.of({})

    def due(self, marks: Marks) -> list[TopicPartition]:
        """Decide for which partitions this tick asks the broker for the producers. Call it once in each tick.

        Args:
            marks: the watermarks that the broker has reported in this tick.
        """
        now, before, self._before = self._clock(), self._before, marks
        is_known = np.ones(len(marks), np.bool_)
        is_known[list(marks.errors)] = False
        due = is_known
        if now - self._all_at >= self._every_s:
            self._all_at = now
        else:
            at = marks.places.among(before.places)
            was_known = np.append(np.ones(len(before), np.bool_), [False])  # -1 stands for one that was not there
            was_known[list(before.errors)] = False
            stable = marks.last_stable_offset
            stands = (stable < marks.high_watermark) & (stable == np.append(before.last_stable_offset, [-1])[at])
            due = is_known & (~was_known[at] | stands)
        return [marks.places[at] for at in np.flatnonzero(due).tolist()]


def observe(
    client: Any,
    broker: int,
    places: Places,
    timeout_ms: int,
    described: Described,
    clock: Callable[[], int],
) -> Observed:
    """Ask one broker how far its logs go and which transactions are open, for one tick.

    Args:
        client: a ``ReplicaClient`` with the connections.
        broker: id of the broker.
        places: the partitions that it hosts.
        timeout_ms: deadline of all requests together.
        described: decides for which partitions to ask for the producers.
        clock: gives the answer its time, in ms since 1970 UTC.

    Raises:
        ReplicaError: the broker as a whole did not answer.
    """
    deadline = time.monotonic() + timeout_ms / 1000

    def left_ms() -> float:
        return max(1.0, (deadline - time.monotonic()) * 1000)

    marks = Marks.of(client.watermarks(broker, places, timeout_ms=timeout_ms))
    due = described.due(marks)
    producers = client.describe_producers(broker, due, timeout_ms=left_ms()) if due else {}
    transactions = {p: s if isinstance(s, ReplicaError) else _open_transactions(s) for p, s in producers.items()}
    silent = [(marks.places[at], error) for at, error in marks.errors.items()]
    silent += [(place, said) for place, said in transactions.items() if isinstance(said, ReplicaError)]
    return Observed(clock(), marks, transactions, _log_ends(client, broker, dict(silent), left_ms))


def _log_ends(
    client: Any, broker: int, silent: Mapping[TopicPartition, ReplicaError], left_ms: Callable[[], float]
) -> dict[TopicPartition, int]:
    """The log ends of partitions whose records may not be read: ListOffsets needs only the right DESCRIBE.

    From them it is known how many offsets stay unread.
    """
    refused = [partition for partition, error in silent.items() if isinstance(error, Unauthorized)]
    if not refused:
        return {}
    try:
        ends = client.log_end_offsets(broker, refused, timeout_ms=left_ms())
    except ReplicaError:
        return {}
    return {partition: end for partition, end in ends.items() if not isinstance(end, ReplicaError)}


def _open_transactions(states: Sequence[ProducerState]) -> list[dict[str, int]]:
    return [
        {
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "start_offset": state.current_transaction_start_offset,
            "last_timestamp": state.last_timestamp,
            "coordinator_epoch": state.coordinator_epoch,
        }
        for state in states
        if state.current_transaction_start_offset >= 0
    ]


def _facts(topic: TopicMetadata, partition: PartitionMetadata) -> tuple[Hashable, ...]:
    """What rows say of a partition as a whole, and not of one replica or one moment."""
    settings = topic.topic_id, topic.cleanup_policy, topic.delete_retention_ms
    return partition.leader, partition.leader_epoch, partition.isr, *settings


_EVENTS = tuple(ReadEvent)
_RIGHTS = (None, *MissingRight)


def _number(error: ReplicaError) -> int:
    """A number for the kind of failure of a replica that did not answer, whatever its text."""
    missing = error.missing if isinstance(error, Unauthorized) else None
    return 1 + _EVENTS.index(error.event or ReadEvent.UNREACHABLE) * len(_RIGHTS) + _RIGHTS.index(missing)


def _take_in(tick: Tick, broker: int, observed: Observed, silent: ReplicaError) -> None:
    """Write a broker's answer into the arrays of a tick.

    Args:
        tick: the tick.
        broker: the broker's id.
        observed: its answer.
        silent: the error of each of its replicas that the answer leaves out.
    """
    places, at, slot = tick.layout.hosted[broker]
    marks = observed.marks
    tick.silence[at, slot] = _number(silent)
    for n, error in marks.errors.items():
        if (i := places.located.get(marks.places[n])) is not None:
            tick.silence[at[i], slot[i]] = _number(error)
    tick.observed_us[at, slot] = observed.at_ms * 1000
    among = places.among(marks.places)
    has_failed = np.zeros(len(marks), np.bool_)
    has_failed[list(marks.errors)] = True
    mine = np.flatnonzero(among != UNKNOWN)
    mine = mine[~has_failed[among[mine]]]
    there, which = among[mine], (at[mine], slot[mine])
    tick.reachable[which], tick.silence[which] = True, 0
    for n, name in enumerate(OFFSETS):
        tick.offsets[n][which] = getattr(marks, name)[there]
    for place, listed in observed.transactions.items():
        i = places.located.get(place)
        if i is not None and isinstance(listed, ReplicaError):
            tick.reachable[at[i], slot[i]], tick.silence[at[i], slot[i]] = False, _number(listed)
            tick.offsets[:, at[i], slot[i]] = UNKNOWN
        elif i is not None:
            tick.listed[at[i], slot[i]] = SOME_OPEN if listed else NONE_OPEN
    for place, end in observed.log_ends.items():
        if (i := places.located.get(place)) is not None and not tick.reachable[at[i], slot[i]]:
            tick.offsets[OFFSETS.index("log_end_offset"), at[i], slot[i]] = end


def _row(topic: TopicMetadata, number: int, broker: int, observed: Observed, silent: ReplicaError) -> dict[str, Any]:
    """The row of one replica; ``silent`` is its error if the broker's answer leaves it out."""
    partition = topic.partitions[number]
    place = TopicPartition(topic.name, number)
    said = observed.said(place) or silent
    row: dict[str, Any] = {
        "topic": topic.name,
        "partition": number,
        "broker": broker,
        "observed_at": observed.at_ms * 1000,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
        "replicas": list(partition.replicas),
        "topic_id": topic.topic_id or None,
        "cleanup_policy": topic.cleanup_policy,
        "policy_at": None if topic.cleanup_policy is None else topic.policy_at_ms * 1000,
        "delete_retention_ms": topic.delete_retention_ms,
    }
    if isinstance(said, ReplicaError):
        return row | _silence(said, observed.log_ends.get(place))
    return row | {
        "reachable": True,
        **{name: getattr(said, name) for name in OFFSETS},
        "open_transactions": observed.transactions.get(place),
    }


def _silence(error: ReplicaError, log_end: int | None) -> dict[str, Any]:
    """The columns of a replica that did not answer."""
    return {
        "reachable": False,
        "error": str(error),
        "problem": str(error.event or ReadEvent.UNREACHABLE),
        "missing_right": str(error.missing) if isinstance(error, Unauthorized) else None,
        "log_end_offset": log_end,
    }
