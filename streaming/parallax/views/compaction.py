"""Few large files instead of many small ones, in the order in which their rows were recorded.

Whoever rebuilds something from a table takes its files by the time that the log gives each (``modificationTime``), and
the rows of a file as they lie. So neighbours alone are joined, rows keep their order, and the new file has the time of
the newest of them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake._internal import RemoveAction
from deltalake.transaction import AddAction

from parallax.views import fencing
from parallax.views.commits import filesystem
from parallax.views.parquet import OF_PROGRESS, OF_VIEWS, Shape, TableFile
from parallax.views.positions import open_table
from parallax.views.tables import PROGRESS, rust_uri

LARGE = 128 << 20
"""Bytes of a file that is joined with no other any more."""

_GROWTH = 2
"""A file is joined with younger ones once these have half its size: each row is rewritten a few times in all."""

_ROWS = 1 << 16


@dataclass(frozen=True)
class File:
    """A file of a table.

    Attributes:
        path: below the table's folder.
        size: bytes.
        at_ms: when the newest of its rows was recorded, milliseconds since the epoch.
        values: of the partition columns.
    """

    path: str
    size: int
    at_ms: int
    values: tuple[tuple[str, str], ...] = ()


def compact(storage: str, name: str) -> int:
    """Join the small files of a table, each join in a commit of its own; returns how many files went.

    Raises:
        deltalake.exceptions.DeltaError: a commit failed; what was joined before stays joined.
        OSError: a file cannot be read or written.
    """
    table = open_table(storage, name)
    gone = 0
    for run in joined(_files(table)):
        _join(storage, name, run)
        gone += len(run)
    return gone


def joined(files: Sequence[File]) -> list[list[File]]:
    """Choose which files become one: runs of neighbours of one partition of the table, each in order."""
    runs: list[list[File]] = []
    for values in sorted({file.values for file in files}):
        mine = sorted((f for f in files if f.values == values), key=lambda f: (f.at_ms, f.path))
        runs += [run for run in _runs(mine) if len(run) > 1]
    return runs


def _runs(files: Sequence[File]) -> list[list[File]]:
    """From the youngest to the oldest: an older one joins where it is not much larger than what it would join."""
    runs: list[list[File]] = [[]]
    total = 0
    for file in reversed(files):
        if total and (file.size > _GROWTH * total or total + file.size > LARGE):
            runs.append([])
            total = 0
        runs[-1].insert(0, file)
        total += file.size
    return runs


def _files(table: Any) -> list[File]:
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    times = pc.cast(pc.cast(actions["modification_time"], pa.timestamp("ms")), pa.int64()).to_pylist()
    columns = [name for name in actions.column_names if name.startswith("partition.")]
    rows = actions.select(columns).rename_columns([name.removeprefix("partition.") for name in columns]).to_pylist()
    values = [tuple((name, str(value)) for name, value in row.items()) for row in rows]
    paths, sizes = actions["path"].to_pylist(), actions["size_bytes"].to_pylist()
    return [File(*row) for row in zip(paths, sizes, times, values, strict=True)]


def _join(storage: str, name: str, run: Sequence[File]) -> None:
    shape = OF_PROGRESS if name == PROGRESS else OF_VIEWS
    uri = rust_uri(storage, name)
    files = filesystem(uri)
    values: dict[str, str | None] = dict(run[0].values)
    folder = "/".join(f"{column}={value}" for column, value in values.items())
    made = TableFile(files, f"{folder}/part-{uuid.uuid4()}.parquet", shape)
    for file in run:
        with files.open_input_file(unquote(file.path)) as source:
            # Spark wrote timestamps as INT96 unless set otherwise.
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            for batch in parquet.iter_batches(_ROWS, use_threads=False):
                made.take(_shaped(batch, shape))
    size = made.close()
    at_ms = max(file.at_ms for file in run)
    actions: list[Any] = [AddAction(made.path, size, values, at_ms, data_change=False, stats=made.statistics)]
    now_ms = time.time_ns() // 1_000_000
    actions += [RemoveAction(f.path, False, now_ms, f.size, values) for f in run]

    def write(table: Any, properties: CommitProperties) -> None:
        table.create_write_transaction(actions, "append", table.schema(), list(values), commit_properties=properties)

    def is_over(table: Any) -> bool:
        """Whether a file is gone: by this commit, whose answer was lost, or by a job that has the storage now."""
        return not {file.path for file in run} <= {file.path for file in _files(table)}

    fencing.commit(lambda: open_table(storage, name), write, is_done=is_over)


def _shaped(batch: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """The columns of a file that an earlier version may have written, in the order and types of today."""
    known = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in known else pa.nulls(len(batch), field.type)
        for field in shape.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)


__all__ = ["LARGE", "File", "compact", "joined"]
