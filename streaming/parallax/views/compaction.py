"""Joins many small files of a table into few large ones; the rows keep the order in which they were recorded.

A table is read from its beginning by taking files in the order of their commits (`parallax.views.order`), and rows in
the order in which they are in a file. So only files next to each other in that order are joined. The new file has the
commit time of the last of them. Its footer holds the commit times of all, and the sums of all rows
(`parallax.views.blocks`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake._internal import RemoveAction
from deltalake.transaction import AddAction

from parallax.moments import now_ms
from parallax.views import fencing, order
from parallax.views.blocks import Blocks, blocks_of
from parallax.views.filesystem import filesystem
from parallax.views.parquet import Shape, TableFile
from parallax.views.positions import open_table
from parallax.views.shared import borrowed_on
from parallax.views.tables import RECORDED_ON, rust_uri, shape_of

LARGE = 128 << 20
"""A file of so many bytes is not joined with others any more."""

_GROWTH = 2
"""A file is joined with younger files once they have half its size. So each row is rewritten a few times only."""

_ROWS = 1 << 16


@dataclass(frozen=True)
class File:
    """One file of a table, as compaction sees it.

    Attributes:
        path: below the table's folder, URL-encoded.
        size: size in bytes.
        at_ms: the file's time in the order of commits (`parallax.views.order`).
        values: name and value of each partition column.
    """

    path: str
    size: int
    at_ms: int
    values: tuple[tuple[str, str], ...] = ()


def compact(storage: str, name: str) -> int:
    """Join the small files of a table, with one commit for each new file.

    Args:
        storage: ``storage.path``.
        name: name of the table.

    Returns:
        How many small files were replaced.

    Raises:
        deltalake.exceptions.DeltaError: a commit failed; files that were joined before stay joined.
        OSError: a file cannot be read or written.
    """
    table = open_table(storage, name)
    gone = 0
    for run in joined(files_in(table), borrowed_on(storage, name)):
        _join(storage, name, run)
        gone += len(run)
    return gone


def joined(files: Sequence[File], borrowed: Collection[str]) -> list[list[File]]:
    """The files to join, as lists: the files of one list become one file.

    The files of a list are next to each other in the order of commits, and have the same broker and date. A date says
    nothing about the order: a clock may be set back over midnight, or the clocks of two workers differ. If a file of
    another date is between two files of one date, these two are not joined. A shared file names other files of its date
    (`parallax.views.shared`). So files of such a date are not joined.

    Args:
        files: all files of the table.
        borrowed: the dates of which shared files of another table name files of this one.
    """
    runs: list[list[File]] = []
    lent = {dict(file.values).get(RECORDED_ON) for file in files if order.is_shared(file.path)}.union(borrowed)
    for whose in sorted({_whose(file) for file in files}):
        mine = sorted((f for f in files if _whose(f) == whose), key=lambda f: (f.at_ms, f.path))
        runs += [run for run in _runs(mine) if len(run) > 1 and dict(run[0].values).get(RECORDED_ON) not in lent]
    return runs


def _whose(file: File) -> tuple[tuple[str, str], ...]:
    """The partition values of a file except the date; among files with equal values the order counts."""
    return tuple((column, value) for column, value in file.values if column != RECORDED_ON)


def _runs(files: Sequence[File]) -> list[list[File]]:
    """Runs of files to join, from the youngest file on: an older one is added if it is not much larger than the run."""
    runs: list[list[File]] = [[]]
    total = 0
    for file in reversed(files):
        is_other = bool(total) and file.values != runs[-1][0].values
        if is_other or (total and (file.size > _GROWTH * total or total + file.size > LARGE)):
            runs.append([])
            total = 0
        runs[-1].insert(0, file)
        total += file.size
    return runs


def files_in(table: Any) -> list[File]:
    """The files of a table, in the order of their commits.

    Args:
        table: a ``deltalake.DeltaTable``.
    """
    files: Any = order.files_of(table)
    columns = [name for name in files.column_names if name.startswith("partition.")]
    rows = files.select(columns).rename_columns([name.removeprefix("partition.") for name in columns]).to_pylist()
    values = [tuple((name, str(value)) for name, value in row.items()) for row in rows]
    paths, sizes, places = (files[name].to_pylist() for name in (order.PATH, "size_bytes", order.AT_MS))
    return [File(*row) for row in zip(paths, sizes, places, values, strict=True)]


def _join(storage: str, name: str, run: Sequence[File]) -> None:
    shape = shape_of(name)
    uri = rust_uri(storage, name)
    files = filesystem(uri)
    values: dict[str, str | None] = dict(run[0].values)
    folder = "/".join(f"{column}={value}" for column, value in values.items())
    made = TableFile(files, f"{folder}/{order.JOINED}{uuid.uuid4()}.parquet", shape)
    parts: list[tuple[int, int]] = []
    blocks: list[Blocks] = []
    for file in run:
        with files.open_input_file(unquote(file.path)) as source:
            # Spark wrote timestamps as INT96 unless set otherwise.
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            parts += order.parts_of(parquet.metadata.metadata, file.at_ms, parquet.metadata.num_rows).tolist()
            blocks.append(blocks_of(parquet.metadata.metadata))
            for batch in parquet.iter_batches(_ROWS, use_threads=False):
                made.take(shaped(batch, shape))
    size = made.close({**order.told(parts), **Blocks.concat(blocks).joined().told()})
    at_ms = max(file.at_ms for file in run)
    replace(storage, name, run, [AddAction(made.path, size, values, at_ms, data_change=False, stats=made.statistics)])


def replace(
    storage: str, name: str, old: Sequence[File], new: Sequence[AddAction], read: Sequence[File] | None = None
) -> None:
    """Put new files in the place of old ones, in one commit. Who follows the table passes over it.

    Args:
        storage: ``storage.path``.
        name: name of the table.
        old: the files that go; not empty.
        new: the files that come.
        read: files that have to be in the table still, or another job has changed it; by default the old ones.

    Raises:
        deltalake.exceptions.DeltaError: the commit failed; nothing has changed.
    """
    removed_ms = now_ms()
    actions: list[Any] = [*new, *(RemoveAction(f.path, False, removed_ms, f.size, dict(f.values)) for f in old)]

    def write(table: Any, properties: CommitProperties) -> None:
        columns = [column for column, _ in old[0].values]
        table.create_write_transaction(actions, "append", table.schema(), columns, commit_properties=properties)

    def is_over(table: Any) -> bool:
        """Whether a file is gone: by this commit, whose answer was lost, or by a job that has the storage now."""
        return not {file.path for file in read or old} <= {file.path for file in files_in(table)}

    fencing.commit(lambda: open_table(storage, name), write, is_done=is_over)


def by_date(storage: str, name: str) -> dict[str, list[File]]:
    """The files of a view by the date (ISO 8601) on which their rows were recorded, in the order of their commits.

    Args:
        storage: ``storage.path``.
        name: name of the view.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    dates: dict[str, list[File]] = {}
    for file in files_in(open_table(storage, name)):
        dates.setdefault(dict(file.values)[RECORDED_ON], []).append(file)
    return dates


def shaped(batch: pa.RecordBatch, shape: Shape) -> pa.RecordBatch:
    """Rows that an earlier version may have written, with the columns and types of today.

    Args:
        batch: rows as they lie in a file.
        shape: the columns of the table's files.
    """
    known = set(batch.schema.names)
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in known else pa.nulls(len(batch), field.type)
        for field in shape.schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)


__all__ = ["LARGE", "File", "by_date", "compact", "files_in", "joined", "replace", "shaped"]
