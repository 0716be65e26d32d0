"""Reads the rows of the tables' Parquet files into the columns that the comparison works on. Knows Arrow, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.compare.batches import (
    OF_POSITION,
    PROGRESS_COLUMNS,
    VIEW_COLUMNS,
    progress_observations,
    view_observations,
)
from parallax.compare.footers import VIEW_OF, Footer, Span, Wanted
from parallax.compare.gathered import Gathered
from parallax.compare.observations import POSITION
from parallax.model import TopicPartition
from parallax.source.schema import PROGRESS, VIEW
from parallax.views import order
from parallax.views.commits import DataFile
from parallax.views.parquet import limits
from parallax.views.shared import WholeFile
from parallax.views.tables import PROGRESS as PROGRESS_TABLE

ROWS = 1 << 17
"""How many rows are read from a file at a time."""

_LAST = (1 << 63) - 1
_NOT_IN_FILES = ("view", "broker")
_IN_FILES = (
    *(name for name in VIEW_COLUMNS if name not in (*OF_POSITION, *_NOT_IN_FILES)),
    *(f"position.{name}" for name in OF_POSITION),
)


def observed(
    files: fs.FileSystem,
    table: str,
    file: DataFile,
    wanted: Wanted,
    read: Collection[int] | None = None,
    span: Span | None = None,
    footer: Footer | None = None,
) -> Iterator[Gathered]:
    """Read one data file of a table, and yield its rows as observations, some at a time.

    Args:
        files: the file system of the table (`parallax.views.commits.TableLog.files`).
        table: name of the table.
        file: the data file to read.
        wanted: says of a topic and partition number whether to read it; row groups without any such partition are
            skipped.
        read: ids of the brokers that are read (``topics.brokers``); None for all.
        span: for a file of a view, the first offset wanted and one past the last; row groups without any of these are
            skipped. None for all offsets.
        footer: says which rows of a view's file need not be read; None to read all.

    Yields:
        Observations of partitions that are wanted. Within a partition each reader's rows are in the order in which they
        were recorded.

    Raises:
        FileNotFoundError: the file was removed in the meantime, by the upkeep of the table.
        pyarrow.ArrowException: the file cannot be read.
    """
    with files.open_input_file(file.path) as source:
        # Spark wrote timestamps as INT96 unless set otherwise.
        metadata = None if footer is None else footer.metadata
        parquet = pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="ms")
        columns = PROGRESS_COLUMNS if table == PROGRESS_TABLE else _IN_FILES
        for batch in _batches(files, parquet, list(columns), file, wanted, span, footer):
            if table == PROGRESS_TABLE:
                found = progress_observations(_progress(batch), read)
            else:
                found = view_observations(_view(batch, VIEW_OF[table], file.broker))
                found = _without(found, footer) if footer is not None and footer.spared else found
            yield found.only(np.array([wanted(*place) for place in found.places], np.bool_))


def lent(files: fs.FileSystem, file: DataFile, view: int, wanted: Wanted, start: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a shared file lacks, because they lie in files of other replicas.

    Args:
        files: the file system of the view (`parallax.views.commits.TableLog.files`).
        file: the shared file (`parallax.views.shared`).
        view: `READ_UNCOMMITTED` or `READ_COMMITTED`, the view that the file is of.
        wanted: says of a topic and partition number whether to read it.
        start: row groups whose offsets are all below this offset are left out.

    Yields:
        Rows of partitions that are wanted, and maybe of others, with the columns `VIEW_COLUMNS`.

    Raises:
        OSError: a file cannot be read.
    """
    with WholeFile(files, file.path, "ms") as whole:
        holds = partial(_lends, wanted=wanted, span=(start, _LAST), footer=None)
        for batch in whole.batches(_IN_FILES, holds, lent=True):
            yield _view(batch, view, file.broker)


def _without(found: Gathered, footer: Footer) -> Gathered:
    """Without the rows that need not be read."""
    rows, of = found.tables[0], found.of[0]
    spans = np.array([footer.spared.get(place, (0, 0)) for place in found.places], np.int64).reshape(-1, 2)[of]
    is_left = (rows.kind == POSITION) | (rows.offset < spans[:, 0]) | (rows.offset >= spans[:, 1])
    if is_left.all():
        return found
    return Gathered(found.places, (rows.take(is_left), *found.tables[1:]), (of[is_left], *found.of[1:]))


def _batches(
    files: fs.FileSystem,
    parquet: pq.ParquetFile,
    columns: list[str],
    file: DataFile,
    wanted: Wanted,
    span: Span | None,
    footer: Footer | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows that are meant of a file, without row groups that hold nothing that is wanted."""
    metadata = parquet.metadata
    if order.is_shared(file.path):
        stop = None if file.first is None else file.first + file.rows
        with WholeFile(files, file.path, "ms") as whole:
            holds = partial(_lends, wanted=wanted, span=span, footer=footer)
            yield from whole.batches(columns, holds, start=file.first or 0, stop=stop)
        return
    groups = [n for n in range(parquet.num_row_groups) if _may_hold(metadata.row_group(n), wanted, span, footer)]
    if file.first is None:
        if groups:
            yield from parquet.iter_batches(ROWS, row_groups=groups, columns=columns, use_threads=False)
        return
    begins = np.cumsum([0, *(metadata.row_group(n).num_rows for n in range(parquet.num_row_groups))]).tolist()
    end = file.first + file.rows
    for n in groups:
        at = begins[n]
        if begins[n + 1] <= file.first or at >= end:
            continue
        for batch in parquet.iter_batches(ROWS, row_groups=[n], columns=columns, use_threads=False):
            start, stop = max(file.first - at, 0), min(end - at, len(batch))
            at += len(batch)
            if start < stop:
                yield batch.slice(start, stop - start)
            if at >= end:
                break


def _lends(_: str, __: int, group: Any, **of: Any) -> bool:
    """See `parallax.views.shared.Holds`."""
    return _may_hold(group, **of)


def _may_hold(group: Any, wanted: Wanted, span: Span | None, footer: Footer | None) -> bool:
    """Whether a row group may hold rows that are wanted; the writer ends one where a large run of a partition ends."""
    told = limits(group, _TOLD)
    if span is not None and "offset" in told and (told["offset"][1] < span[0] or told["offset"][0] >= span[1]):
        return False
    if any(name not in told for name in _TOLD[:2]):
        return True
    low, high = (TopicPartition(told["topic"][n], told["partition"][n]) for n in range(2))
    if low == high and not wanted(*low):
        return False
    if footer is None or len(told) < len(_TOLD) or told["kind"][0] <= POSITION <= told["kind"][1]:
        return True
    return not footer.is_spared(low, high, (told["offset"][0], told["offset"][1] + 1))


_TOLD = ("topic", "partition", "offset", "kind")
"""Columns whose lowest and highest values are looked at."""


def _view(batch: pa.RecordBatch, view: int, broker: int | None) -> pa.RecordBatch:
    """The columns that `view_observations` takes."""
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
    """The columns that `progress_observations` takes."""
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


__all__ = ["lent", "observed"]
