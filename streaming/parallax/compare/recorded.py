"""Rows of the tables' Parquet files, packed for the comparison without ever being Spark's rows.

Knows Arrow, no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.compare.packing import OF_POSITION, PACKED_AT, PROGRESS_COLUMNS, VIEW_COLUMNS, pack_progress, pack_views
from parallax.model import IsolationLevel
from parallax.source.schema import PROGRESS, VIEW
from parallax.views.commits import DataFile
from parallax.views.tables import PROGRESS as PROGRESS_TABLE

ROWS = 65_536
"""Rows that are packed together at most: a blob of a few megabytes."""

_PIECE_BITS = 32

_NOT_IN_FILES = ("view", "broker")
_IN_FILES = (
    *(name for name in VIEW_COLUMNS if name not in (*OF_POSITION, *_NOT_IN_FILES)),
    *(f"position.{name}" for name in OF_POSITION),
)
_VIEWS = {isolation.option: int(isolation) for isolation in IsolationLevel}


def packed(files: fs.FileSystem, table: str, file: DataFile, number: int = 0) -> Iterator[pa.RecordBatch]:
    """Read one file of a table and pack it.

    Args:
        files: of the table (`parallax.views.commits.TableLog.files`).
        table: its name.
        file: which one.
        number: of the file among those of its table in the micro-batch, in the order of their commits.

    Yields:
        Record batches of `parallax.compare.packing.PACKED_AT`. Sorted by ``at``, the blobs of a partition have each
        reader's rows in the order in which they were recorded.

    Raises:
        FileNotFoundError: upkeep has removed it since.
        pyarrow.ArrowException: it cannot be read.
    """
    with files.open_input_file(file.path) as source:
        if table == PROGRESS_TABLE:
            pieces = pack_progress(map(_progress, _batches(source, PROGRESS_COLUMNS)))
        else:
            pieces = pack_views(_view(batch, _VIEWS[table], file.broker) for batch in _batches(source, _IN_FILES))
        for piece, batch in enumerate(pieces):
            at = pa.array(np.full(batch.num_rows, (number << _PIECE_BITS) + piece, np.int64))
            topic, partition, blob = batch.columns
            yield pa.RecordBatch.from_arrays([topic, partition, at, blob], schema=PACKED_AT)


def _batches(source: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    # Spark writes timestamps as INT96 unless set otherwise.
    parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="ms")
    yield from parquet.iter_batches(ROWS, columns=list(columns), use_threads=False)


def _view(batch: pa.RecordBatch, view: int, broker: int | None) -> pa.RecordBatch:
    """The columns that `pack_views` takes."""
    position = batch.column("position")
    constant = {"view": view, "broker": broker}
    arrays: list[Any] = []
    for name in VIEW_COLUMNS:
        if name in constant:
            arrays.append(pa.array(np.full(batch.num_rows, constant[name], np.int32)))
        elif name in OF_POSITION:
            arrays.append(pc.struct_field(position, name))
        elif name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, VIEW.field(name).type))  # in a file of an earlier version
        else:
            arrays.append(_millis(batch.column(name)) if name == "timestamp" else batch.column(name))
    return pa.RecordBatch.from_arrays(arrays, names=list(VIEW_COLUMNS))


def _progress(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that `pack_progress` takes."""
    columns = [_column(batch, name) for name in PROGRESS_COLUMNS]
    arrays: list[Any] = [_millis(column) if pa.types.is_timestamp(column.type) else column for column in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(PROGRESS_COLUMNS))


def _column(batch: pa.RecordBatch, name: str) -> Any:
    """A column; all null in a file of a version that did not know it yet."""
    if name in batch.schema.names:
        return batch.column(name)
    return pa.nulls(batch.num_rows, PROGRESS.field(name).type)


def _millis(column: Any) -> Any:
    """Milliseconds since the epoch."""
    return pc.cast(pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False), pa.int64())


__all__ = ["packed"]
