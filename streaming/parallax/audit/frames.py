"""Spark DataFrames of an audit: rows that are read and packed, and the results of comparing them.

Each reader's rows are packed into chunks. The chunks are compared partition by partition. The result has one row for
each partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parallax.audit.compare import RESULT_DDL, STATE, Comparer
from parallax.audit.packing import PACKED_AT_DDL, pack_progress, pack_readers
from parallax.compare.batches import OF_POSITION, PROGRESS_COLUMNS, VIEW_COLUMNS
from parallax.compare.blocks import Agreed
from parallax.compare.recorded import lent
from parallax.config import Settings
from parallax.model import UNKNOWN, IsolationLevel, ReadEvent, RowKind, TopicPartition
from parallax.source.offsets import Range, Reader, to_json
from parallax.source.options import BOTH
from parallax.source.schema import ADDED
from parallax.views.commits import DataFile, TableLog
from parallax.views.queries import source_options
from parallax.views.shared import shared_files
from parallax.views.tables import PROGRESS, table_path

_CONF = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A packed blob is a megabyte or so; what a task holds at a time is a few of them, whatever their number.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.session.timeZone": "UTC",
}

_CHUNKS = "topic string, partition int, at bigint, packed binary"


def session_of(spark: Any, parallelism: int) -> Any:
    """A Spark session for an audit, whose Spark settings do not change those of the job.

    It is a clone of the given session, because only a clone knows the data sources that were registered from Python.
    PySpark has no call for that, so this calls the JVM.

    Args:
        spark: the session to clone.
        parallelism: how many of Spark's tasks compare at a time.
    """
    session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    for name, value in _CONF.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    session.conf.set("spark.sql.adaptive.enabled", "false")
    return session


def broker_chunks(
    session: Any,
    settings: Settings,
    ranges: Mapping[Reader, Range],
    *,
    hash_key: str,
    max_bytes_per_second: int | None,
    meter: str | None,
    slots: int | None,
) -> Any:
    """Read given offsets of replicas from the brokers. Returns a DataFrame of packed rows (`parallax.audit.packing`).

    Args:
        session: the Spark session of the audit (`session_of`).
        settings: how brokers are reached.
        ranges: by reader, the offsets to read; not empty.
        hash_key: the key of the hashes, 32 hexadecimal digits.
        max_bytes_per_second: limit for each broker; None without one.
        meter: folder in which tasks count the bytes that they read; None where tasks cannot write there.
        slots: how many of Spark's tasks may read at a time; None for as many as Spark has room for.
    """
    options = source_options(settings)
    options.pop("topics.pattern", None)
    options |= {
        "topics": ",".join(sorted({reader.topic for reader in ranges})),
        "isolation.level": BOTH,
        "hash.key": hash_key,
        "ranges": json.dumps(to_json(ranges), separators=(",", ":")),
        "onFailure": "tell",
    }
    if meter is not None:
        options["meter.path"] = meter
    if max_bytes_per_second is not None:
        options["maxBytesPerSecond"] = str(max_bytes_per_second)
    from pyspark.sql import functions as sf

    rows = session.read.format("kafka-replica").options(**options).load()
    if slots is not None:
        rows = rows.coalesce(slots)
    return narrowed(rows, sf.col("isolation")).mapInArrow(pack_readers, PACKED_AT_DDL)


def table_chunks(
    session: Any,
    storage: str,
    ends: Mapping[TopicPartition, tuple[int, int]],
    agreed: Mapping[TopicPartition, Agreed],
) -> Any:
    """Read the recorded rows of partitions up to given ends. Returns a DataFrame of packed rows, by rising offset.

    Args:
        session: the Spark session of the audit (`session_of`).
        storage: ``storage.path``.
        ends: by partition, the end offset at each isolation level.
        agreed: by partition, a range in which all replicas agreed. Below its end, only positions are read. If
            rows are no longer kept there, that counts for nothing, because their sums are.
    """
    from pyspark.sql import functions as sf

    wanted = session.createDataFrame(
        [(*place, *end, agreed[place].end if place in agreed else UNKNOWN) for place, end in ends.items()],
        "topic string, partition int, end_0 bigint, end_1 bigint, first bigint",
    )
    unread = min((agreed[place].end if place in agreed else UNKNOWN for place in ends), default=UNKNOWN)
    both = None
    for isolation in IsolationLevel:
        version, shared = shared_files(storage, isolation.option)
        recorded = session.read.format("delta").option("versionAsOf", version)
        recorded = recorded.load(table_path(storage, isolation.option))
        is_position = sf.col("kind") == int(RowKind.POSITION)
        # Said of the columns alone as well, for what the files' statistics leave out is not even read.
        recorded = recorded.where(is_position | (sf.col("offset") >= unread))
        part = narrowed(recorded, sf.lit(int(isolation)))
        part = part.union(_lent(session, part.schema, storage, isolation, shared, ends, unread)) if shared else part
        part = part.join(sf.broadcast(wanted), ["topic", "partition"])
        part = part.where(is_position | (sf.col("offset") >= sf.col("first")))
        is_known = (sf.col("event") == str(ReadEvent.NOT_KEPT)) & (sf.col("offset") <= sf.col("first"))
        part = part.withColumn("event", sf.when(is_known, str(ReadEvent.OK)).otherwise(sf.col("event")))
        # The row at the end itself may be a position, which says that all below it was shown.
        part = part.where(sf.col("offset") <= sf.col(f"end_{int(isolation)}")).select(*VIEW_COLUMNS)
        both = part if both is None else both.union(part)
    # Files that were compacted hold the rows of a reader in any order; positions at an offset come before its record.
    rows = both.repartition("topic", "partition").sortWithinPartitions(  # type: ignore[union-attr]
        "topic", "partition", "offset", sf.col("kind").desc()
    )
    return rows.mapInArrow(pack_readers, PACKED_AT_DDL)


def _lent(
    session: Any,
    columns: Any,
    storage: str,
    isolation: IsolationLevel,
    shared: Sequence[tuple[str, int]],
    places: Iterable[TopicPartition],
    unread: int,
) -> Any:
    """The rows of a view that lie only in files of other replicas (`parallax.views.shared`)."""
    wanted, view, name = frozenset(places), int(isolation), isolation.option

    def read(batches: Iterable[Any]) -> Iterator[Any]:
        folder = TableLog(storage, name).files
        for batch in batches:
            for one in batch.to_pylist():
                file = DataFile(one["path"], 0, one["broker"])
                yield from lent(folder, file, view, lambda *place: place in wanted, unread)

    files = session.createDataFrame(list(shared), "path string, broker int").repartition(len(shared))
    # Arrow's columns may be null; Spark refuses them for a column that may not.
    return files.mapInArrow(read, ", ".join(f"`{column.name}` {column.dataType.simpleString()}" for column in columns))


def progress_chunks(session: Any, storage: str, places: Iterable[TopicPartition]) -> Any:
    """Read all recorded rows of progress of partitions. Returns a DataFrame of packed rows (`parallax.audit.packing`).

    Their column ``at`` is 0, so the comparison gets them before all rows of the views.

    Args:
        session: the Spark session of the audit (`session_of`).
        storage: ``storage.path``.
        places: the partitions.
    """
    from pyspark.sql import functions as sf

    wanted = session.createDataFrame(list(places), "topic string, partition int")
    rows = session.read.format("delta").load(table_path(storage, PROGRESS))
    rows = rows.join(sf.broadcast(wanted), ["topic", "partition"])
    columns = [
        sf.unix_millis(name).alias(name) if name in ("observed_at", "policy_at") else sf.col(name)
        for name in PROGRESS_COLUMNS
    ]
    return rows.select(*columns).mapInArrow(pack_progress, PACKED_AT_DDL)


def narrowed(rows: Any, view: Any) -> Any:
    """The rows of a view with only the columns that the comparison needs, as a DataFrame.

    Args:
        rows: a DataFrame with the columns of the views.
        view: a column with the number of the isolation level.
    """
    from pyspark.sql import functions as sf

    made = {"view": view, "timestamp": sf.unix_millis("timestamp")}
    # Tables that no job has opened since an earlier version recorded them lack what was added.
    made |= {name: sf.lit(None).cast("tinyint") for name in ADDED if name not in rows.columns}
    columns = [
        made[name] if name in made else sf.col(f"position.{name}" if name in OF_POSITION else name)
        for name in VIEW_COLUMNS
    ]
    named = [column.alias(name) for column, name in zip(columns, VIEW_COLUMNS, strict=True)]
    return rows.select(*named)


def openings(session: Any, places: Iterable[TopicPartition]) -> Any:
    """A DataFrame with one row for each partition: the empty state in which its comparison begins.

    Args:
        session: the Spark session of the audit (`session_of`).
        places: the partitions.
    """
    return session.createDataFrame([(*place, STATE, b"") for place in places], _CHUNKS)


def compared(opening: Any, chunks: Any | None, comparer: Comparer) -> Any:
    """Compare partitions by Spark. Returns a DataFrame of their results (columns: `RESULT_DDL`), already computed.

    Args:
        opening: for each partition one row with the state in which its comparison begins. Its column ``at`` is `STATE`,
            so it comes first.
        chunks: packed rows (`parallax.audit.packing`); None if there are none.
        comparer: compares the chunks.
    """
    rows = opening if chunks is None else opening.union(chunks)
    return (
        rows.repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "at")
        .mapInArrow(comparer.compare, RESULT_DDL)
        .localCheckpoint(eager=True)
    )


__all__ = ["broker_chunks", "compared", "openings", "session_of", "table_chunks"]
