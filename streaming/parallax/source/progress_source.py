"""``format("kafka-progress")``: how far each replica's log goes and which transactions it holds open, without records.

An offset is the number of a tick. The brokers are asked in the driver-side planning process, each in a thread of its
own; the answers travel to the one task of a tick inside its input partition. So a broker that hangs delays nobody, and
a tick costs a task nothing but turning the answers into columns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from parallax.source.options import SourceOptions, progress_options
from parallax.source.schema import PROGRESS_DDL

Partition = tuple[str, int]


@dataclass(frozen=True)
class Observed:
    """A broker's answer: per partition its watermarks and open transactions, or the error's text."""

    at_ms: int
    logs: Mapping[Partition, Any]


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
    """Each trigger is a tick: the brokers are asked, and a row per replica tells what they said."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._watch: Any = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Tick 0, which has no rows."""
        return {"tick": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The next tick; the trigger's interval paces them."""
        del limit
        return {"tick": start["tick"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Ask the brokers; one task takes all the answers.

        Raises:
            ReplicaError: no broker has answered yet since the query started.
        """
        if start == end:
            return []
        if self._watch is None:
            self._watch = ProgressWatch(self._options)
        rows = self._watch.tick()
        return [RowsPartition(rows)] if rows else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Turn a tick's rows into a record batch."""
        import pyarrow as pa

        from parallax.source.schema import PROGRESS

        if isinstance(partition, RowsPartition):
            yield pa.RecordBatch.from_pylist([dict(row) for row in partition.rows], schema=PROGRESS)

    def stop(self) -> None:
        """End the threads that ask brokers."""
        if self._watch is not None:
            self._watch.close()


class ProgressWatch:
    """Asks the brokers tick by tick and remembers what they said last.

    Args:
        options: which topics and brokers, and the deadlines.
    """

    def __init__(self, options: SourceOptions) -> None:
        from parallax.replica.client import ReplicaClient
        from parallax.source.survey import Catalog
        from parallax.source.watch import Brokers

        self._options = options
        self._client = ReplicaClient(options.kafka, timeout_ms=options.timeout_ms)
        self._catalog = Catalog(self._client, options, policies=True)
        self._brokers: Brokers[list[Partition], Observed] = Brokers(
            lambda broker, partitions: observe(self._client, broker, partitions, options.timeout_ms),
            options.retry_ms / 1000,
            options.retry_max_ms / 1000,
        )

    def tick(self) -> list[dict[str, Any]]:
        """Ask all brokers and return a row per replica, whether its broker answered or not.

        A broker that has not answered within ``planning.patience.ms`` is told as unreachable in this tick.

        Raises:
            ReplicaError: no broker has answered yet.
        """
        topics = self._catalog.topics()
        chosen = self._options.brokers
        hosted: dict[int, list[Partition]] = {}
        for topic in topics.values():
            for number, partition in topic.partitions.items():
                for broker in partition.replicas:
                    if chosen is None or broker in chosen:
                        hosted.setdefault(broker, []).append((topic.name, number))
        answers = self._brokers.ask(hosted, self._options.patience_ms / 1000)
        failures = self._brokers.failures()
        now_ms = time.time_ns() // 1_000_000
        rows = []
        for broker, partitions in sorted(hosted.items()):
            observed = answers.get(broker)
            failure = failures.get(broker)
            silent = failure.error if failure else f"broker {broker}: no answer within {self._options.patience_ms} ms"
            for name, number in partitions:
                said = silent if observed is None else observed.logs.get((name, number), silent)
                at_ms = now_ms if observed is None else observed.at_ms
                rows.append(_row(topics[name], number, broker, at_ms, said))
        return rows

    def close(self) -> None:
        """Let the threads end."""
        self._brokers.close()
        self._catalog.close()
        self._client.close()


def observe(client: Any, broker: int, partitions: Sequence[Partition], timeout_ms: int) -> Observed:
    """Ask one broker for watermarks and open transactions of its replicas.

    Args:
        client: a ``ReplicaClient``.
        broker: id of the broker.
        partitions: what it hosts.
        timeout_ms: deadline of both requests together.

    Raises:
        ReplicaError: the broker as a whole did not answer.
    """
    from parallax.replica.errors import ReplicaError

    deadline = time.monotonic() + timeout_ms / 1000
    marks = client.watermarks(broker, partitions, timeout_ms=timeout_ms)
    left_ms = max(1.0, (deadline - time.monotonic()) * 1000)
    producers = client.describe_producers(broker, partitions, timeout_ms=left_ms)
    logs: dict[Partition, Any] = {}
    for partition, said in marks.items():
        states = producers[partition]
        failed = next((str(part) for part in (said, states) if isinstance(part, ReplicaError)), None)
        logs[partition] = failed or (said, _open_transactions(states))
    return Observed(time.time_ns() // 1_000_000, logs)


def _open_transactions(states: Sequence[Any]) -> list[dict[str, int]]:
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


def _row(topic: Any, number: int, broker: int, at_ms: int, said: Any) -> dict[str, Any]:
    """A row: ``said`` is the error's text, or watermarks and open transactions."""
    partition = topic.partitions[number]
    row: dict[str, Any] = {
        "topic": topic.name,
        "partition": number,
        "broker": broker,
        "observed_at": at_ms * 1000,
        "reachable": not isinstance(said, str),
        "error": said if isinstance(said, str) else None,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "isr": list(partition.isr),
        "replicas": list(partition.replicas),
        "topic_id": topic.topic_id or None,
        "cleanup_policy": topic.cleanup_policy,
        "policy_at": None if topic.cleanup_policy is None else topic.policy_at_ms * 1000,
    }
    if not isinstance(said, str):
        marks, transactions = said
        row |= {
            "high_watermark": marks.high_watermark,
            "last_stable_offset": marks.last_stable_offset,
            "log_start_offset": marks.log_start_offset,
            "log_end_offset": marks.log_end_offset,
            "open_transactions": transactions,
        }
    return row
