"""``format("kafka-replica")``: what single brokers show of their replicas, as a stream or as a batch.

Register it with ``spark.dataSource.register(KafkaReplicaSource)``. Options are in ``parallax.source.options``, rows in
``parallax.source.schema``. The reader objects travel to Spark's workers by pickle, so they hold options only.
Connections are made in the process that uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from parallax.replica.errors import Unreachable
from parallax.source.due import Due
from parallax.source.offsets import Range, Reader, from_json, to_json
from parallax.source.options import ReplicaOptions, replica_options
from parallax.source.planning import Piece, broker_tasks, clip, known_epochs, tasks
from parallax.source.schema import ISOLATION_DDL, VIEW_DDL


class KafkaReplicaSource(DataSource):
    """The Spark data source ``kafka-replica``: records and end markers as single brokers show them."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark's ``format()`` finds this source."""
        return "kafka-replica"

    def schema(self) -> str:
        """The schema of the rows, as Spark DDL; the options are checked here, when ``load()`` is called.

        Raises:
            BadOption: an option is unknown, missing or ill-typed.
        """
        with_isolation = replica_options(self.options).with_isolation
        return VIEW_DDL + (ISOLATION_DDL if with_isolation else "")

    def reader(self, schema: Any) -> DataSourceReader:
        """Make the reader that Spark asks for a single batch.

        Args:
            schema: what Spark passes; it is not used.
        """
        del schema
        return ReplicaBatchReader(replica_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader that Spark asks for micro-batches.

        Args:
            schema: what Spark passes; it is not used.
        """
        del schema
        return ReplicaStreamReader(replica_options(self.options))


class PiecesPartition(InputPartition):
    """Spark's input partition of one Spark task: the pieces (offsets of readers) that it reads, all of one broker.

    ``parallax.source.planning.tasks`` or ``broker_tasks`` has made them.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = pieces


def _read(options: ReplicaOptions, partition: InputPartition) -> Iterator[Any]:
    from parallax.source.columns import empty_batch

    pieces = pieces_of(partition)
    if pieces:
        from parallax.source.reading import read_pieces

        yield from read_pieces(options, pieces)
    else:
        yield empty_batch(with_isolation=options.with_isolation)


def pieces_of(partition: InputPartition) -> Sequence[Piece]:
    """The pieces (offsets of readers) that a Spark task reads; none if Spark itself made the input partition."""
    return partition.pieces if isinstance(partition, PiecesPartition) else ()


class ReplicaBatchReader(DataSourceReader):
    """Reads every replica once, from its log start to its present end.

    If any range fails, the whole read fails, because no micro-batch follows that could read the missing offsets. With
    the option ``onFailure`` set to ``tell``, only that range ends early. With the option ``ranges``, it reads the given
    ranges, and does not ask the brokers how far their logs go.
    """

    def __init__(self, options: ReplicaOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """The Spark tasks of the read, one input partition each; the brokers are asked how far their logs go.

        Raises:
            Unreachable: a broker did not answer.
            ReplicaError: the cluster or a topic cannot be read.
        """
        options = self._options
        ranges = _plan_once(options) if options.ranges is None else options.ranges
        return [PiecesPartition(pieces) for pieces in _tasks(options, ranges, split=not options.tells_failures)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the offsets in one Spark task's input partition; yields record batches."""
        return _read(self._options, partition)


def _tasks(
    options: ReplicaOptions, ranges: Mapping[Reader, Range], *, split: bool, epochs: Mapping[Reader, int] | None = None
) -> list[list[Piece]]:
    if options.max_bytes_per_second is not None:
        return broker_tasks(ranges, epochs)
    return tasks(ranges, parallelism=options.parallelism, split=split, epochs=epochs, shared=options.shared)


def _plan_once(options: ReplicaOptions) -> Mapping[Reader, Range]:
    from dataclasses import replace

    from parallax.replica.client import ReplicaClient
    from parallax.source.planner import Planner

    client = ReplicaClient(options.kafka, timeout_ms=options.timeout_ms)
    planner = Planner(replace(options, patience_ms=options.timeout_ms, feedback=None), client)
    try:
        ranges = planner.plan({}, limited=False) or {}
        for broker, error in planner.failures().items():
            raise Unreachable(error, broker=broker)
        return ranges
    finally:
        planner.close()
        client.close()


class ReplicaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of ``kafka-replica`` in Spark's planning process, and reads them in Spark tasks.

    A Spark offset holds the range of each reader, as `parallax.source.offsets.to_json` writes it.
    """

    def __init__(self, options: ReplicaOptions) -> None:
        self._options = options
        self._planner: Any = None
        self._until: dict[Reader, int] | None = None
        self._due = Due(options.trigger_ms)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where a new query begins. It names no reader: each joins when its broker first answers."""
        return to_json({})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The limit of a micro-batch that the option ``maxBytesPerTrigger`` sets; without the option, no limit."""
        limit = self._options.max_bytes
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Plan the next micro-batch: the Spark offset at its end, or ``start`` if no reader has anything to do.

        With the option ``trigger.ms`` it first waits until that is due. A broker that is back ends the wait.

        Args:
            start: the Spark offset at the end of the last micro-batch.
            limit: whether ``maxBytesPerTrigger`` limits the micro-batch: not if it is ``ReadAllAvailable``.

        Raises:
            ReplicaError: only for the first plan of a new stream: no broker answers, or a named topic cannot be read.
        """
        planner = self._plan()
        if not self._due.wait(planner.brokers.is_back):
            return start
        ranges = planner.plan(from_json(start), limited=not isinstance(limit, ReadAllAvailable))
        if ranges is not None and self._until is not None:
            ranges = _stop_at(ranges, self._until)
        if ranges is None:
            return start
        if self._options.feedback is not None:
            # What is recorded says how far the others are: the offset grows with what moves.
            ranges = {reader: span for reader, span in ranges.items() if not span.empty}
        return to_json(ranges)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember where the logs end now; the query ends once it has read up to there."""
        ranges = self._plan().plan({}, limited=False) or {}
        self._until = {reader: span.end for reader, span in ranges.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The Spark tasks of a micro-batch, one input partition each; none if ``start`` and ``end`` are equal.

        They follow from ``end``, and from the positions that were recorded since it was planned.

        Args:
            start: the Spark offset at the end of the micro-batch before.
            end: the Spark offset at the end of this one; it holds the planned ranges.
        """
        if start == end:
            return []
        recorded = self._plan().recorded()
        planned = self._plan().without_paused(from_json(end))
        ranges = {reader: clip(reader, span, recorded) for reader, span in planned.items()}
        epochs = known_epochs(ranges, recorded)
        split = self._options.feedback is None
        return [PiecesPartition(pieces) for pieces in _tasks(self._options, ranges, split=split, epochs=epochs)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the offsets in one Spark task's input partition; yields record batches."""
        return _read(self._options, partition)

    def stop(self) -> None:
        """End the threads that ask the brokers."""
        if self._planner is not None:
            self._planner.close()

    def _plan(self) -> Any:
        if self._planner is None:
            # Made here, not in __init__: the reader is pickled for the tasks before it plans anything.
            from parallax.replica.client import ReplicaClient
            from parallax.source.planner import Planner

            client = ReplicaClient(self._options.kafka, timeout_ms=self._options.timeout_ms)
            self._planner = Planner(self._options, client)
        return self._planner


def _stop_at(ranges: Mapping[Reader, Range], until: Mapping[Reader, int]) -> dict[Reader, Range] | None:
    """Cut ranges at the ends that were remembered; None if nothing is left."""
    from dataclasses import replace

    cut = {
        reader: replace(span, end=max(span.start, min(span.end, until.get(reader, span.start))))
        for reader, span in ranges.items()
        if reader in until
    }
    return None if all(span.empty for span in cut.values()) else cut


__all__ = ["KafkaReplicaSource", "PiecesPartition", "ReplicaBatchReader", "ReplicaStreamReader", "pieces_of"]
