"""Reads the files of a view from which upkeep has taken the rows that another replica shows alike.

With ``storage.record: differing`` a row that several replicas show alike lies only once. It lies in a file of the
replica with the lowest broker id, the *lender*; a row that both views have, in a file of read_uncommitted. A *shared
file* has the other rows of its replica. Its footer says where each row lies that it lacks: in which file, and at which
row number. So `WholeFile` and `rows_of` yield the same rows in the same order as before. No reader can take a row that
lies elsewhere for one that the replica lacks.

Rows of kind POSITION (how far a reader has read) are never taken out. Who reads only these, or the sums in the footer
(`parallax.views.blocks`), needs no lender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.model import IsolationLevel, Outcome
from parallax.views import order
from parallax.views.filesystem import ABOVE, filesystem, place
from parallax.views.packed import Array, GarbledError, head_of, packed, tables_of
from parallax.views.parquet import BROKER
from parallax.views.positions import open_table
from parallax.views.tables import RECORDED_ON

RUN = np.dtype([("at", "<i8"), ("lender", "<i4"), ("first", "<i8"), ("count", "<i8")])
"""Rows of a lender that belong before row ``at`` of a shared file: ``count`` of them, from row ``first`` on.

``lender`` is an index into `Shared.lenders`. Rows are numbered from 0, as they lie in the files.
"""

ROWS = 1 << 17
"""How many rows are yielded at a time, about."""

LENDERS = {IsolationLevel.READ_COMMITTED.option: IsolationLevel.READ_UNCOMMITTED.option}
"""By the name of a view, the other view whose files may lend it rows. They must not go before its own."""

_VALUES = {f"partition.{name}": name for name in (BROKER, RECORDED_ON)}
_KEY = "parallax.shared"
_FORMAT = 1
_OWN = -1
_PIECE = np.dtype([("file", "<i4"), ("first", "<i8"), ("count", "<i8"), ("group", "<i4")])

Holds = Callable[[str, int, Any], bool]
"""Says whether to read a row group of a file. It takes the file's path, the group's number and its Parquet metadata."""


class LenderError(OSError):
    """A shared file cannot be read: its footer is not as it was written, or a file that lends it rows is not.

    The text is one line.
    """


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the rows lie that a shared file lacks; it is in the footer of the file.

    Attributes:
        lenders: paths of the files that have these rows, below the table's folder, or as `place` takes them.
        runs: rows of `RUN`, in the order of the rows.
    """

    lenders: tuple[str, ...]
    runs: Array

    def told(self) -> dict[str, str]:
        """A key and its value for the footer of the file; `shared_of` reads them.

        They say in which files the rows are that this one lacks.
        """
        told = self.runs.copy()
        # Small numbers, which are packed well: rows go on where the rows before ended.
        told["at"][1:] = np.diff(self.runs["at"])
        told["first"][1:] -= self.runs["first"][:-1] + self.runs["count"][:-1]
        head = {"format": _FORMAT, "lenders": self.lenders, "runs": len(told)}
        return {_KEY: packed(head, (told[name] for name in RUN.names or ()))}


def shared_of(footer: Mapping[bytes, bytes] | None) -> Shared | None:
    """Where the rows lie that a file lacks; None if it is no shared file.

    Args:
        footer: key-value metadata of the file; None for none.

    Raises:
        LenderError: the footer is garbled, or of a later version.
    """
    text = (footer or {}).get(_KEY.encode())
    if text is None:
        return None
    try:
        head, raw = head_of(text)
        if head["format"] != _FORMAT:
            raise LenderError(f"rows are shared in a format ({head['format']}) of another version of Parallax")
        names = RUN.names or ()
        columns = tables_of(raw, [(RUN[name], head["runs"]) for name in names])
        lenders = tuple(head["lenders"])
        runs = np.empty(head["runs"], RUN)
        for name, column in zip(names, columns, strict=True):
            runs[name] = column
        runs["at"] = np.cumsum(runs["at"])
        runs["first"] = np.cumsum(runs["first"]) + np.cumsum(runs["count"]) - runs["count"]
        if not _is_sound(lenders, runs):
            raise GarbledError("rows are lent that cannot be")
    except (GarbledError, KeyError, TypeError) as error:
        raise LenderError(f"a footer is garbled ({error})") from error
    return Shared(lenders, runs)


def _is_sound(lenders: Sequence[Any], runs: Array) -> bool:
    """Whether each run has rows of a file that is named, and they are in the order of the rows."""
    is_run = (runs["lender"] >= 0) & (runs["lender"] < len(lenders)) & (runs["first"] >= 0) & (runs["count"] > 0)
    is_run &= np.diff(runs["at"], prepend=0) >= 0
    return all(isinstance(one, str) for one in lenders) and bool(is_run.all())


class WholeFile:
    """A shared file with all rows of its replica, in the order in which they were recorded; a context manager.

    The file itself lacks rows that other replicas show alike. They are taken from files of these replicas, the
    *lenders*.

    Args:
        files: the file system of the table's folder.
        path: path of the file below it.
        unit: unit of the timestamps that Spark wrote as INT96.

    Raises:
        LenderError: the file is no shared file, or a lender has fewer rows than were lent.
        OSError: a file cannot be read.
    """

    def __init__(self, files: fs.FileSystem, path: str, unit: str = "us") -> None:
        with ExitStack() as opened:
            own = _opened(opened, files, path, unit)
            shared = shared_of(own.metadata.metadata)
            if shared is None:
                raise LenderError(f"{path}: the footer does not say where the rows lie that the file shares")
            self._paths = [*shared.lenders, path]  # The last one is the file itself: its number is -1.
            self._parquets = [*(_opened(opened, *place(files, one), unit) for one in shared.lenders), own]
            self._bounds = [row_bounds(one.metadata) for one in self._parquets]
            self._pieces = _pieces(shared.runs, own.metadata.num_rows)
            ends = self._pieces["first"] + self._pieces["count"]
            for number, bounds in enumerate(self._bounds):
                if (ends[self._pieces["file"] == number] > bounds[-1]).any():
                    raise LenderError(f"{path}: {self._paths[number]} has fewer rows than it lends")
            self._read: dict[int, tuple[int, pa.Table]] = {}
            self._columns: tuple[str, ...] | None = None
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        """The file itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file and its lenders."""
        self._opened.close()

    @property
    def rows(self) -> int:
        """How many rows its replica has shown: those in this file, and those in lenders' files."""
        return int(self._pieces["count"].sum())

    def batches(
        self,
        columns: Sequence[str] | None = None,
        holds: Holds = lambda *_: True,
        *,
        start: int = 0,
        stop: int | None = None,
        lent: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in the order in which they were recorded.

        Args:
            columns: names of columns, as pyarrow's ``ParquetFile`` takes them; None for all. A column that no file has
                is left out.
            holds: says which row groups to read; rows of others are left out.
            start: number of the first row to yield, of all rows of the replica.
            stop: number of the row after the last one; None for all.
            lent: whether to yield only rows that others lend.

        Raises:
            OSError: a file cannot be read.
        """
        wanted = None if columns is None else tuple(columns)
        if wanted != self._columns:
            self._read, self._columns = {}, wanted
        pieces = _clipped(self._pieces, start, self.rows if stop is None else stop)
        pieces = self._by_group(pieces[pieces["file"] != _OWN] if lent else pieces)
        pieces = pieces[self._held(pieces, holds)]
        window = np.cumsum(pieces["count"]) // ROWS
        for some in np.split(pieces, np.flatnonzero(np.diff(window)) + 1) if len(pieces) else ():
            yield from self._gathered(some).to_batches()

    def _by_group(self, pieces: Array) -> Array:
        """The pieces, cut where row groups end."""
        low, high = np.empty(len(pieces), np.int64), np.empty(len(pieces), np.int64)
        for number, bounds in zip(self._numbers, self._bounds, strict=True):
            mine = pieces["file"] == number
            low[mine] = np.searchsorted(bounds, pieces["first"][mine], "right") - 1
            high[mine] = np.searchsorted(bounds, pieces["first"][mine] + pieces["count"][mine] - 1, "right") - 1
        counts = high - low + 1
        made = np.repeat(pieces, counts)
        made["group"] = np.repeat(low, counts) + np.arange(len(made)) - np.repeat(np.cumsum(counts) - counts, counts)
        ends = made["first"] + made["count"]
        for number, bounds in zip(self._numbers, self._bounds, strict=True):
            mine = made["file"] == number
            groups = made["group"][mine]
            made["first"][mine] = np.maximum(made["first"][mine], bounds[groups])
            ends[mine] = np.minimum(ends[mine], bounds[groups + 1])
        made["count"] = ends - made["first"]
        return made

    @property
    def _numbers(self) -> list[int]:
        return [*range(len(self._paths) - 1), _OWN]

    def _held(self, pieces: Array, holds: Holds) -> Array:
        mask = np.zeros(len(pieces), np.bool_)
        for number, group in _groups(pieces):
            metadata = self._parquets[number].metadata.row_group(group)
            if holds(self._paths[number], group, metadata):
                mask |= (pieces["file"] == number) & (pieces["group"] == group)
        return mask

    def _gathered(self, pieces: Array) -> pa.Table:
        """The rows of pieces, in their order."""
        tables, begin, row_ends = [], 0, np.cumsum(pieces["count"])
        of_piece = np.repeat(np.arange(len(pieces)), pieces["count"])
        within = np.arange(len(of_piece)) - (row_ends - pieces["count"])[of_piece]
        shift = np.empty(len(pieces), np.int64)
        for number, group in _groups(pieces):
            mine = (pieces["file"] == number) & (pieces["group"] == group)
            inside = pieces["first"][mine] - self._bounds[number][group]
            low, high = int(inside.min()), int((inside + pieces["count"][mine]).max())
            tables.append(self._group(number, group).slice(low, high - low))
            shift[mine] = inside - low + begin
            begin += high - low
        rows = pa.concat_tables(tables, promote_options="permissive")
        if len(pieces) == 1:
            return rows
        return rows.combine_chunks().take(pa.array(shift[of_piece] + within))

    def _group(self, number: int, group: int) -> pa.Table:
        known = self._read.get(number)
        if known is None or known[0] != group:
            columns = None if self._columns is None else list(self._columns)
            table = self._parquets[number].read_row_group(group, columns=columns, use_threads=False)
            known = self._read[number] = group, as_lent(self._paths[number], table.replace_schema_metadata(None))
        return known[1]


def _groups(pieces: Array) -> list[tuple[int, int]]:
    """The files and row groups in which pieces lie."""
    found: list[tuple[int, int]] = np.unique(pieces[["file", "group"]]).tolist()
    return found


def as_lent(path: str, rows: pa.Table) -> pa.Table:
    """The rows of a file as it lends them.

    read_committed shows a transaction only once it is committed, read_uncommitted as undecided.

    Args:
        path: path of the lender, as `Shared` has it.
        rows: its rows, with any columns of a view.
    """
    at = rows.schema.get_field_index("outcome")
    if not path.startswith(ABOVE) or at < 0:
        return rows
    outcome: Any = rows.column(at)
    is_undecided = pc.equal(outcome, pa.scalar(int(Outcome.UNDECIDED), outcome.type))
    committed = pa.scalar(int(Outcome.COMMITTED), outcome.type)
    return rows.set_column(at, rows.schema.field(at), pc.if_else(is_undecided, committed, outcome))


def _opened(opened: ExitStack, files: fs.FileSystem, path: str, unit: str) -> pq.ParquetFile:
    source = opened.enter_context(files.open_input_file(path))
    return pq.ParquetFile(source, coerce_int96_timestamp_unit=unit)


def row_bounds(metadata: Any) -> Array:
    """The number of each row group's first row in a Parquet file, and at last the number of all rows.

    Args:
        metadata: the file's metadata, as pyarrow gives them (``FileMetaData``).

    Returns:
        int64[g + 1] for g row groups.
    """
    return np.cumsum([0, *(metadata.row_group(n).num_rows for n in range(metadata.num_row_groups))])


def _pieces(runs: Array, own: int) -> Array:
    """All rows as rows of `_PIECE`: runs of lenders, and the own rows before, between and after them."""
    made = np.zeros(2 * len(runs) + 1, _PIECE)
    at = np.concatenate([[0], runs["at"], [own]])
    made["file"][::2], made["first"][::2], made["count"][::2] = _OWN, at[:-1], np.diff(at)
    made["file"][1::2], made["first"][1::2], made["count"][1::2] = runs["lender"], runs["first"], runs["count"]
    return made[made["count"] > 0]


def _clipped(pieces: Array, start: int, stop: int) -> Array:
    """The pieces with only the rows from ``start`` to below ``stop``."""
    ends = np.cumsum(pieces["count"])
    begins = ends - pieces["count"]
    low, high = np.maximum(begins, start), np.minimum(ends, stop)
    made = pieces.copy()
    made["first"] += low - begins
    made["count"] = high - low
    return made[low < high]


def rows_of(
    uri: str,
    table: Any,
    columns: Iterable[str],
    wanted: Any,
    reads: Iterable[str] = (),
    *,
    files: str | None = None,
    threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a view, with those that lie in files of other replicas.

    Args:
        uri: URI of the table, as delta-rs spells it.
        table: the view, a ``deltalake.DeltaTable``: one snapshot of it.
        columns: names of the columns to yield.
        wanted: which rows to yield, a ``pyarrow.compute.Expression`` on columns of the view.
        reads: the further columns that ``wanted`` looks at.
        files: the condition on files that may hold wanted rows (`parallax.views.sql`); None for all files. It is not
            applied to files whose rows lie in files of others: what the log says of these is not of all of their rows.
        threads: whether to read with several threads.

    Yields:
        The rows, in the order in which they were recorded.

    Raises:
        OSError: a file cannot be read.
        LenderError: the footer of a shared file is garbled, or a lender has fewer rows than were lent.
    """
    names = list(columns)
    whole: Any = table.to_pyarrow_dataset(file_pruning_predicate=files)
    in_order = order.files_of(table)
    fragments = {fragment.path: fragment for fragment in whole.get_fragments()}
    rows = in_order.select([name for name in in_order.column_names if name in (order.PATH, *_VALUES)]).to_pylist()
    for apart, some in groupby(rows, key=lambda row: order.is_shared(row[order.PATH])):
        if not apart:
            plain = [fragments[row[order.PATH]] for row in some if row[order.PATH] in fragments]
            dataset: Any = pds.FileSystemDataset(plain, whole.schema, whole.format, whole.filesystem)
            yield from dataset.scanner(columns=names, filter=wanted, use_threads=threads).to_batches()
            continue
        for row in some:
            values = {name: row[column] for column, name in _VALUES.items()}
            yield from _shared_rows(uri, whole, row[order.PATH], values, names, wanted, reads)


def shared_files(storage: str, name: str) -> tuple[int, list[tuple[str, int]]]:
    """Find the files of a view's newest version that lack the rows which a file of another replica holds, too.

    Args:
        storage: ``storage.path``.
        name: name of the view.

    Returns:
        A tuple: the number of that version; and for each such file its path below the table's folder, and the id of
        the broker whose rows it has.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    table = open_table(storage, name)
    files = order.files_of(table).select([order.PATH, f"partition.{BROKER}"]).to_pylist()
    shared = [one for one in files if order.is_shared(one[order.PATH])]
    return table.version(), [(unquote(one[order.PATH]), one[f"partition.{BROKER}"]) for one in shared]


def borrowed_on(storage: str, name: str) -> set[str]:
    """The dates, as ISO 8601, of which another view may borrow rows from a table's files.

    Args:
        storage: ``storage.path``.
        name: name of the table that may lend.

    Raises:
        deltalake.exceptions.DeltaError: the other view cannot be read.
    """
    column = f"partition.{RECORDED_ON}"
    borrowers = (borrower for borrower, lender in LENDERS.items() if lender == name)
    files = (row for one in borrowers for row in order.files_of(open_table(storage, one)).to_pylist())
    return {str(row[column]) for row in files if order.is_shared(row[order.PATH])}


def table_of(
    uri: str, table: Any, columns: Iterable[str], wanted: Any, reads: Iterable[str] = (), *, files: str | None = None
) -> pa.Table:
    """The rows of a view, with those that lie in files of other replicas, as one table (`rows_of` yields them).

    Args:
        uri: URI of the table, as delta-rs spells it.
        table: the view, a ``deltalake.DeltaTable``: one snapshot of it.
        columns: names of the columns.
        wanted: which rows, a ``pyarrow.compute.Expression`` on columns of the view.
        reads: the further columns that ``wanted`` looks at.
        files: the condition on files that may hold wanted rows, as `rows_of` takes it.

    Raises:
        OSError: a file cannot be read.
    """
    names, schema = list(columns), pa.schema(table.schema().to_arrow())
    rows = rows_of(uri, table, names, wanted, reads, files=files)
    return pa.Table.from_batches(rows, pa.schema([schema.field(name) for name in names]))


def _shared_rows(
    uri: str,
    whole: Any,
    path: str,
    values: Mapping[str, Any],
    columns: Sequence[str],
    wanted: Any,
    reads: Iterable[str],
) -> Iterator[pa.RecordBatch]:
    """The rows of one shared file that are wanted."""
    parquet, held, files = whole.format, dict[str, frozenset[int]](), filesystem(uri)
    # The lender's rows count as rows of this file's broker. What the log says of this file's own rows is not of these.
    of_file = pc.field(BROKER) == values[BROKER]
    of_file &= pc.field(RECORDED_ON) == pa.scalar(values[RECORDED_ON], pa.date32())

    def holds(of: str, group: int, _: Any) -> bool:
        if of not in held:
            lender_files, lender = place(files, of)
            one = parquet.make_fragment(lender, lender_files, of_file)
            parts = one.split_by_row_group(wanted, whole.schema)
            held[of] = frozenset(group.id for part in parts for group in part.row_groups)
        return group in held[of]

    names = list(dict.fromkeys((*columns, *reads)))
    with WholeFile(files, unquote(path)) as file:
        for batch in file.batches([name for name in names if name not in values], holds):
            arrays = [_column(batch, whole.schema.field(name), values) for name in names]
            made = pa.table(arrays, schema=pa.schema([whole.schema.field(name) for name in names]))
            yield from made.filter(wanted).select(list(columns)).to_batches()


def _column(batch: pa.RecordBatch, field: Any, values: Mapping[str, Any]) -> Any:
    if field.name in values:
        return pa.repeat(pa.scalar(values[field.name], field.type), len(batch))
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)  # in files of an earlier version
    return batch.column(field.name).cast(field.type)


__all__ = [
    "LENDERS",
    "RUN",
    "Array",
    "LenderError",
    "Shared",
    "WholeFile",
    "as_lent",
    "borrowed_on",
    "row_bounds",
    "rows_of",
    "shared_files",
    "shared_of",
    "table_of",
]
