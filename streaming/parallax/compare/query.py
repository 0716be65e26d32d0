"""The comparison as a streaming query: the three tables in, suspects and coverage out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from parallax.compare.packing import PACKED_DDL, PROGRESS_COLUMNS, VIEW_COLUMNS, pack_progress, pack_views
from parallax.compare.results import from_json
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.config import Settings
from parallax.model import IsolationLevel
from parallax.views.checkpoints import Checkpoint
from parallax.views.queries import QuerySpec
from parallax.views.sink import short_errors
from parallax.views.tables import PROGRESS, checkpoint_path, create_tables, has_whole_log, table_path

QUERY = "compare"

_HOPELESS_AFTER = 3
"""Failures in a row after which the state is held to be broken and is built anew from the tables."""

OnBatch = Callable[[Sequence[Suspect], Sequence[Coverage]], None]

_CONF = {
    # Rows of a file go to Python in one piece; a packed blob stays at a few megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def comparison_query(settings: Settings, on_batch: OnBatch | None = None) -> QuerySpec:
    """Define the query that compares the views.

    Args:
        settings: of the job.
        on_batch: is told the suspects and the coverage of each micro-batch, after the suspects are in their table; in
            the query's thread. A batch that is replayed after a crash is told again, with the same suspects.
    """
    sink = SuspectSink(settings.storage.path, on_batch)

    def start(spark: Any) -> Any:
        create_tables(spark, settings.storage.path)
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

    storage = settings.storage.path
    packed = None
    for isolation in IsolationLevel:
        rows = _view(session, table_path(storage, isolation.option), isolation)
        part = rows.mapInArrow(pack_views, PACKED_DDL)
        packed = part if packed is None else packed.union(part)
    progress = _progress(session, table_path(storage, PROGRESS)).mapInArrow(pack_progress, PACKED_DDL)
    processor = CompareProcessor(settings.compare, from_log_start=settings.read.starting_offsets == "earliest")
    return (
        packed.union(progress)  # type: ignore[union-attr]
        .groupBy("topic", "partition")
        .transformWithStateInPandas(
            statefulProcessor=processor, outputStructType=RESULT_DDL, outputMode="Update", timeMode="ProcessingTime"
        )
    )


def _stream(session: Any, path: str) -> Any:
    """Follow a table's appends; what its upkeep rewrites or deletes was compared when it was appended."""
    stream = session.readStream.format("delta").option("skipChangeCommits", "true")
    if has_whole_log(path):
        # From the first commit on; the default, the table as it stands and then its commits, costs seconds to plan.
        stream = stream.option("startingVersion", "0")
    return stream.load(path)


def _view(session: Any, path: str, isolation: IsolationLevel) -> Any:
    from pyspark.sql import functions as sf

    return narrowed(_stream(session, path), sf.lit(int(isolation)))


def narrowed(rows: Any, view: Any) -> Any:
    """The columns of the views' rows that are compared.

    Args:
        rows: a DataFrame with the columns of the views.
        view: a column with the number of the isolation level.
    """
    from pyspark.sql import functions as sf

    of_position = {"high_watermark", "last_stable_offset", "log_start_offset", "event", "topic_id"}
    made = {"view": view, "timestamp": sf.unix_millis("timestamp")}
    columns = [
        made[name] if name in made else sf.col(f"position.{name}" if name in of_position else name)
        for name in VIEW_COLUMNS
    ]
    named = [column.alias(name) for column, name in zip(columns, VIEW_COLUMNS, strict=True)]
    return rows.select(*named)


def _progress(session: Any, path: str) -> Any:
    return narrowed_progress(_stream(session, path))


def narrowed_progress(rows: Any) -> Any:
    """The columns of progress that are compared."""
    from pyspark.sql import functions as sf

    columns = [
        sf.unix_millis(name).alias(name) if name in ("observed_at", "policy_at") else sf.col(name)
        for name in PROGRESS_COLUMNS
    ]
    return rows.select(*columns)


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


__all__ = ["QUERY", "OnBatch", "SuspectSink", "compared", "comparison_query", "narrowed", "narrowed_progress"]
