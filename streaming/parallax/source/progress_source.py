"""``format("kafka-progress")``: how far each replica's log goes and which transactions it holds open, without records.

An offset is the number of a tick. The brokers are asked in the driver-side planning process, each in a thread of its
own; the answers travel to the one task of a tick inside its input partition. So a broker that hangs delays nobody, and
a tick costs a task nothing but turning the answers into columns. With ``awaited.path`` a tick that only repeats what
was recorded is none (`parallax.source.repeats`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from parallax.model import ReadEvent, TopicPartition
from parallax.replica.errors import DeadlineExceeded, ReplicaError, Unauthorized
from parallax.replica.types import ProducerState, TopicMetadata, Watermarks
from parallax.source.feedback import AwaitedFile
from parallax.source.options import ProgressOptions, SourceOptions, progress_options
from parallax.source.repeats import Repeats
from parallax.source.schema import PROGRESS_DDL

DESCRIBE_EVERY_S = 10.0
_TICK_MS = 10_000
"""What a tick takes at most, by and large."""


class SteadyClock:
    """The time of day that nobody can set: the system's when it is made, then as much later as has gone by.

    A clock that is set forward and back again would have rows of progress wait for the time that they have reported
    already, and a gap that there never was would look like a replica that stands still.

    Args:
        not_before_ms: the lowest time that it gives, milliseconds since 1970 UTC: a time that was reported is not
            reported again.
        wall: nanoseconds since 1970 UTC, for tests.
        monotonic: nanoseconds of a clock that only runs, for tests.
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
    """A broker's answer.

    Attributes:
        at_ms: when it came, milliseconds since 1970 UTC.
        logs: by partition what was said of it, or why nothing was.
        log_ends: log end offsets of partitions that may not be read, as far as these may be asked.
    """

    at_ms: int
    logs: Mapping[TopicPartition, LogSaid | ReplicaError]
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)


class LogSaid(NamedTuple):
    """One replica's report on its log.

    Attributes:
        marks: how far it goes.
        transactions: that it holds open, as rows of the column; None where it was not asked for them.
    """

    marks: Watermarks
    transactions: list[dict[str, int]] | None


class KafkaProgressSource(DataSource):
    """The data source; see the module's text."""

    @classmethod
    def name(cls) -> str:
        """Spark's short name of the format."""
        return "kafka-progress"

    def schema(self) -> str:
        """The rows' schema; options are checked here.

        Raises:
            BadOption: an option is unknown, missing or ill-typed.
        """
        progress_options(self.options)
        return PROGRESS_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the stream reader."""
        del schema
        return ProgressStreamReader(progress_options(self.options))


class RowsPartition(InputPartition):
    """The rows of a tick."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(None)
        self.rows = rows


class ProgressStreamReader(DataSourceStreamReader):
    """With each trigger the brokers are asked; where they say anything new, a row per replica records it."""

    def __init__(self, options: ProgressOptions) -> None:
        self._options = options
        self._watch: Any = None
        self._clock: SteadyClock | None = None
        self._repeats = Repeats()
        self._awaited = AwaitedFile(options.awaited)
        self._planned: tuple[dict[str, Any], list[Any]] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Tick 0, which has no rows."""
        return {"tick": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The next tick, and when it was; ``start`` itself where nothing is worth recording.

        Raises:
            ReplicaError: no broker has answered yet since the query started.
        """
        del limit
        rows = self._ask(start)
        if self._options.awaited is not None:
            rows = self._repeats.without(rows, self._awaited.read())
        if not rows:
            return start
        end = {"tick": start["tick"] + 1, "at": self._steady(start)()}
        self._planned = end, rows
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task takes all the answers; a tick that is run again asks again.

        Raises:
            ReplicaError: see `latestOffset`.
        """
        if start == end:
            return []
        planned, self._planned = self._planned, None
        rows = planned[1] if planned is not None and planned[0] == end else self._ask(end)
        return [RowsPartition(rows)] if rows else []

    def _ask(self, offset: dict[str, Any]) -> list[dict[str, Any]]:
        if self._watch is None:
            self._watch = ProgressWatch(self._options, clock=self._steady(offset))
        return list(self._watch.tick())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Turn a tick's rows into a record batch."""
        import pyarrow as pa

        from parallax.source.schema import PROGRESS

        if isinstance(partition, RowsPartition):
            yield pa.RecordBatch.from_pylist([dict(row) for row in partition.rows], schema=PROGRESS)

    def _steady(self, offset: dict[str, Any]) -> SteadyClock:
        """The clock; a query that is started again goes on from the last tick, were the system's clock set back."""
        if self._clock is None:
            self._clock = SteadyClock(offset.get("at", -_TICK_MS) + _TICK_MS)
        return self._clock

    def stop(self) -> None:
        """End the threads that ask brokers."""
        if self._watch is not None:
            self._watch.close()


class ProgressWatch:
    """Asks the brokers tick by tick and remembers what they said last.

    Args:
        options: which topics and brokers, and the deadlines.
        describe_every_s: how often every replica is asked for its producers (`Described`), in seconds.
        clock: dates the rows; one of its own by default.
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
        self._brokers: Brokers[list[TopicPartition], Observed] = Brokers(
            self._observe,
            options.retry_ms / 1000,
            options.retry_max_ms / 1000,
        )

    def tick(self) -> list[dict[str, Any]]:
        """Ask all brokers and return a row per replica, whether its broker answered or not.

        A broker that has not answered within ``planning.patience.ms`` counts as unreachable in this tick.

        Raises:
            ReplicaError: no broker has answered yet.
        """
        topics = self._catalog.topics()
        chosen = self._options.brokers
        hosted: dict[int, list[TopicPartition]] = {}
        for topic in topics.values():
            for number, partition in topic.partitions.items():
                for broker in partition.replicas:
                    if chosen is None or broker in chosen:
                        hosted.setdefault(broker, []).append(TopicPartition(topic.name, number))
        answers = self._brokers.ask(hosted, self._options.patience_ms / 1000)
        failures = self._brokers.failures()
        now_ms = self._clock()
        rows = []
        for broker, partitions in sorted(hosted.items()):
            failure = failures.get(broker)
            silent = failure.error if failure else self._no_answer(broker)
            observed = answers.get(broker, Observed(now_ms, {}))
            rows += [_row(topics[name], number, broker, observed, silent) for name, number in partitions]
        return rows

    def _observe(self, broker: int, partitions: list[TopicPartition]) -> Observed:
        described = self._described.setdefault(broker, Described(self._describe_every_s))
        return observe(self._client, broker, partitions, self._options.timeout_ms, described, self._clock)

    def _no_answer(self, broker: int) -> ReplicaError:
        return DeadlineExceeded(f"no answer within {self._options.patience_ms} ms", broker=broker)

    def close(self) -> None:
        """Let the threads end."""
        self._brokers.close()
        self._catalog.close()
        self._client.close()


class Described:
    """Decides for which partitions one broker is asked for its producers in a tick; a new object asks for all of them.

    DescribeProducers lists every producer that a replica remembers, thousands where producers come and go, to report
    the few that hold a transaction open. The comparison needs two things of it: who holds a last stable offset that
    stands still behind the high watermark, and, sooner or later, which transactions are over. So a partition is asked
    where its last stable offset lies behind the high watermark and has not moved since the tick before, and all of them
    from time to time.

    Args:
        every_s: how often all are asked, in seconds.
        clock: monotonic seconds, for tests.
    """

    def __init__(self, every_s: float = DESCRIBE_EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._all_at = -math.inf
        self._stable: dict[TopicPartition, int] = {}

    def due(self, marks: Mapping[TopicPartition, Watermarks]) -> list[TopicPartition]:
        """The partitions to ask, by their watermarks now."""
        now = self._clock()
        before, self._stable = self._stable, {p: mark.last_stable_offset for p, mark in marks.items()}
        new = marks.keys() - before.keys()
        if now - self._all_at >= self._every_s:
            self._all_at = now
            return list(marks)
        return [p for p, mark in marks.items() if p in new or _stands(mark, before[p])]


def _stands(marks: Watermarks, stable_before: int) -> bool:
    return marks.last_stable_offset < marks.high_watermark and marks.last_stable_offset == stable_before


def observe(
    client: Any,
    broker: int,
    partitions: Sequence[TopicPartition],
    timeout_ms: int,
    described: Described,
    clock: Callable[[], int],
) -> Observed:
    """Ask one broker for watermarks and open transactions of its replicas.

    Args:
        client: a ``ReplicaClient``.
        broker: id of the broker.
        partitions: what it hosts.
        timeout_ms: deadline of all requests together.
        described: of which partitions the producers are asked for.
        clock: dates the answer, milliseconds since 1970 UTC.

    Raises:
        ReplicaError: the broker as a whole did not answer.
    """
    deadline = time.monotonic() + timeout_ms / 1000

    def left_ms() -> float:
        return max(1.0, (deadline - time.monotonic()) * 1000)

    said = client.watermarks(broker, partitions, timeout_ms=timeout_ms)
    marks = {partition: answer for partition, answer in said.items() if not isinstance(answer, ReplicaError)}
    due = described.due(marks)
    producers = client.describe_producers(broker, due, timeout_ms=left_ms()) if due else {}
    logs: dict[TopicPartition, LogSaid | ReplicaError] = {
        partition: answer if isinstance(answer, ReplicaError) else _said(answer, producers.get(partition))
        for partition, answer in said.items()
    }
    return Observed(clock(), logs, _log_ends(client, broker, logs, left_ms))


def _said(marks: Watermarks, states: Sequence[ProducerState] | ReplicaError | None) -> LogSaid | ReplicaError:
    if isinstance(states, ReplicaError):
        return states
    return LogSaid(marks, None if states is None else _open_transactions(states))


def _log_ends(
    client: Any, broker: int, logs: Mapping[TopicPartition, Any], left_ms: Callable[[], float]
) -> dict[TopicPartition, int]:
    """Where logs end that may not be read: ListOffsets needs DESCRIBE only. It says how much remains unread."""
    refused = [partition for partition, said in logs.items() if isinstance(said, Unauthorized)]
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


def _row(topic: TopicMetadata, number: int, broker: int, observed: Observed, silent: ReplicaError) -> dict[str, Any]:
    """A row of one replica; ``silent`` is what is wrong with its broker where that said nothing of it."""
    partition = topic.partitions[number]
    place = TopicPartition(topic.name, number)
    said = observed.logs.get(place, silent)
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
    marks, transactions = said
    return row | {
        "reachable": True,
        "high_watermark": marks.high_watermark,
        "last_stable_offset": marks.last_stable_offset,
        "log_start_offset": marks.log_start_offset,
        "log_end_offset": marks.log_end_offset,
        "open_transactions": transactions,
    }


def _silence(error: ReplicaError, log_end: int | None) -> dict[str, Any]:
    """The columns of a replica of which next to nothing is known."""
    return {
        "reachable": False,
        "error": str(error),
        "problem": str(error.event or ReadEvent.UNREACHABLE),
        "missing_right": str(error.missing) if isinstance(error, Unauthorized) else None,
        "log_end_offset": log_end,
    }
