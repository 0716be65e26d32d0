"""The comparison as a streaming query: the three tables in, suspects and coverage out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from parallax.compare.feed import RecordedSource
from parallax.compare.results import from_json
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.config import Settings
from parallax.views.checkpoints import Checkpoint
from parallax.views.queries import QuerySpec
from parallax.views.sink import short_errors
from parallax.views.tables import checkpoint_path, create_tables

QUERY = "compare"

_HOPELESS_AFTER = 3
"""Failures in a row after which the state is held to be broken and is rebuilt from the tables."""

OnBatch = Callable[[Sequence[Suspect], Sequence[Coverage]], None]

_CONF = {
    # Blobs are megabytes: so many bytes go to Python at a time, not so many rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def comparison_query(settings: Settings, on_batch: OnBatch | None = None) -> QuerySpec:
    """Define the query that compares the views.

    Args:
        settings: of the job.
        on_batch: called with the suspects and the coverage of each micro-batch, after the suspects are in their
            table; in the query's thread. A batch that is replayed after a crash is reported again, with the same
            suspects.
    """
    sink = SuspectSink(settings.storage.path, on_batch)

    def start(spark: Any) -> Any:
        create_tables(settings.storage.path)
        create_suspects(settings.storage.path)
        session = spark.newSession()
        for name, value in (*_inherited(spark), *_CONF.items()):
            session.conf.set(name, value)
        return (
            compared(session, settings)
            .writeStream.queryName(QUERY)
            .outputMode("update")
            .option("checkpointLocation", checkpoint_path(settings.storage.path, QUERY))
            .trigger(processingTime=f"{settings.compare.trigger_ms} milliseconds")
            .foreachBatch(sink)
            .start()
        )

    checkpoint = Checkpoint(settings.storage.path, QUERY, hopeless_after=_HOPELESS_AFTER)
    return QuerySpec(QUERY, start, checkpoint)


def _inherited(spark: Any) -> list[tuple[str, str]]:
    """Settings of the job's session that a new one would take from Spark's defaults."""
    names = (
        "spark.sql.shuffle.partitions",
        "spark.sql.adaptive.enabled",
        "spark.sql.session.timeZone",
        "spark.sql.streaming.noDataMicroBatches.enabled",
        "spark.sql.streaming.minBatchesToRetain",
    )
    return [(name, spark.conf.get(name)) for name in names]


def compared(session: Any, settings: Settings) -> Any:
    """The streaming DataFrame of `RESULT_DDL`: one row for each partition that something was observed of."""
    from parallax.compare.processor import RESULT_DDL, CompareProcessor

    session.dataSource.register(RecordedSource)
    options = {
        "path": settings.storage.path,
        "maxRows": str(settings.compare.max_rows_per_trigger),
        "parallelism": str(session.sparkContext.defaultParallelism),
    }
    processor = CompareProcessor(settings.compare, from_log_start=settings.read.starting_offsets == "earliest")
    return (
        session.readStream.format(RecordedSource.name())
        .options(**options)
        .load()
        .groupBy("topic", "partition")
        .transformWithStateInPandas(
            statefulProcessor=processor, outputStructType=RESULT_DDL, outputMode="Update", timeMode="ProcessingTime"
        )
    )


class SuspectSink:
    """A ``foreachBatch`` function: suspects into their table, then the callback.

    Args:
        storage: ``storage.path``.
        on_batch: see `comparison_query`.
    """

    def __init__(self, storage: str, on_batch: OnBatch | None) -> None:
        self._storage = storage
        self._on_batch = on_batch or (lambda _suspects, _coverages: None)

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Take in one micro-batch.

        Raises:
            SinkError: it could not be; Spark then fails the query.
        """
        with short_errors():
            self._take_in(batch, batch_id)

    def _take_in(self, batch: Any, batch_id: int) -> None:
        suspects: list[Suspect] = []
        coverages: list[Coverage] = []
        for row in batch.collect():
            raised, coverage = from_json(row["result"])
            suspects += raised
            coverages.append(coverage)
        if suspects:
            query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            append_suspects(self._storage, suspects, query_id, batch_id)
        self._on_batch(suspects, coverages)


__all__ = ["QUERY", "OnBatch", "SuspectSink", "compared", "comparison_query"]
