"""The Delta tables of the views and of progress: where they are, and how they are created."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from parallax.model import IsolationLevel
from parallax.source import schema
from parallax.source.schema import VIEW
from parallax.stores import hadoop_path, rust_path
from parallax.views import fencing
from parallax.views.parquet import OF_PROGRESS, OF_VIEWS, Shape

PROGRESS = "replica_progress"
LATE_REPLICAS = "late_replicas"
"""The guard's table of replicas that copied something too late, until an audit has compared them."""
VIEWS = tuple(isolation.option for isolation in IsolationLevel)

RECORDED_ON = "recorded_on"
"""Partition column that the sink adds: the UTC date of the recording. Retention drops whole dates, so that it rewrites
no file and conflicts with no append."""

_PROPERTIES: dict[str, str | None] = {
    # Statistics let readers skip files; of 26 leaf columns these are the ones that anybody filters by.
    "delta.dataSkippingStatsColumns": "topic,partition,kind,offset,timestamp",
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
    # The job cleans the log itself (parallax.views.maintenance).
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 2 hours",
    "delta.deletedFileRetentionDuration": "interval 2 hours",
}


class TableSize(NamedTuple):
    """How many files a table consists of (``files``), and how many bytes these have (``size``)."""

    files: int
    size: int
    """Bytes."""


def shape_of(name: str) -> Shape:
    """The columns and encodings of the files of a table: those of progress, or those of a view.

    Args:
        name: name of the table.
    """
    return OF_PROGRESS if name == PROGRESS else OF_VIEWS


def table_path(storage: str, name: str) -> str:
    """The path of the table ``name`` as Spark reads it, ``<storage>/<name>``; ``storage`` is ``storage.path``."""
    return f"{hadoop_path(storage.rstrip('/'))}/{name}"


def checkpoint_path(storage: str, query: str) -> str:
    """The path of a query's Spark checkpoint, ``<storage>/checkpoints/<query>``; ``storage`` is ``storage.path``."""
    return f"{storage.rstrip('/')}/checkpoints/{query}"


def create_tables(storage: str, hashed_by: str | None = None) -> None:
    """Create the tables of both views and of progress, unless they exist.

    Tables of an earlier version get the columns that they lack, which are null in the rows that are there. delta-rs
    does it, in milliseconds. With Spark it would cost a fresh job seconds before its first micro-batch.

    Args:
        storage: ``storage.path``.
        hashed_by: a text that identifies the hash key (`parallax.views.hash_key.name_of`); it becomes the description
            of each view. None to leave the description as it is.

    Raises:
        deltalake.exceptions.DeltaError: the path cannot be written.
    """
    for name in VIEWS:
        table = _create(storage, name, VIEW, ["broker", RECORDED_ON], _PROPERTIES, hashed_by)
        if hashed_by is not None and table.metadata().description is None:
            table.alter.set_table_description(hashed_by)
    progress = _PROPERTIES | {"delta.dataSkippingStatsColumns": "topic,partition,observed_at"}
    _create(storage, PROGRESS, schema.PROGRESS, [RECORDED_ON], progress)


def _create(
    storage: str,
    name: str,
    columns: Any,
    partition_by: list[str],
    properties: dict[str, str | None],
    description: str | None = None,
) -> Any:
    from deltalake import DeltaTable, Schema

    with_date = columns.append(pa.field(RECORDED_ON, pa.date32()))
    table = DeltaTable.create(
        rust_uri(storage, name),
        with_date,
        mode="ignore",
        partition_by=partition_by,
        configuration=properties,
        description=description,
    )
    known = {field.name for field in table.schema().fields}
    lacking = [field for field in Schema.from_arrow(with_date).fields if field.name not in known]
    if lacking:
        uri = rust_uri(storage, name)
        fencing.commit(
            lambda: DeltaTable(uri),
            lambda old, properties: old.alter.add_columns(lacking, commit_properties=properties),
        )
        table.update_incremental()
    return table


def rust_uri(storage: str, name: str) -> str:
    """The URI of a table as delta-rs spells it: with ``s3://``, and a plain path for ``file:``.

    Args:
        storage: ``storage.path``.
        name: name of the table.
    """
    return rust_path(table_path(storage, name))


REPLACED: dict[str, str | None] = {"delta.logRetentionDuration": "interval 2 hours"}
"""Delta properties of a small table whose rows are all replaced by each commit."""
_KEPT_HOURS = 2


def create_replaced(uri: str, columns: Any) -> None:
    """Create a small table for `replace_rows`, which replaces all of its rows; nothing if it exists.

    Args:
        uri: URI of the table.
        columns: its columns, a ``pyarrow.Schema``.

    Raises:
        deltalake.exceptions.DeltaError: the path cannot be written.
    """
    from deltalake import DeltaTable

    DeltaTable.create(uri, columns, mode="ignore", configuration=REPLACED)


def replace_rows(uri: str, rows: pa.Table) -> None:
    """Replace all rows of a small table in one commit, and make the table if it does not exist.

    Args:
        uri: URI of the table.
        rows: the new rows; the table gets their columns.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be written, or another job has taken the storage over.
    """
    from deltalake import DeltaTable, write_deltalake

    create_replaced(uri, rows.schema)
    fencing.commit(
        lambda: DeltaTable(uri),
        # Another version may have written other columns.
        lambda table, properties: write_deltalake(
            table, rows, mode="overwrite", schema_mode="overwrite", commit_properties=properties
        ),
    )


def tidy(uri: str) -> None:
    """Remove the old files of a table whose rows are replaced (`replace_rows`), and old entries of its log.

    Files that were replaced less than two hours ago stay, because somebody may be reading them.

    Args:
        uri: URI of the table.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read or written.
    """
    from deltalake import DeltaTable

    from parallax.views.unused import remove_unused

    remove_unused(uri, _KEPT_HOURS)
    table = DeltaTable(uri)
    table.create_checkpoint()
    table.cleanup_metadata()
