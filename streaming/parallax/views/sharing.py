"""Takes rows out of a view's files that another replica shows alike. It is part of the upkeep, if a user wants it.

A row goes only if a file of a lower broker id has an equal one: equal in every column, and recorded on the same date.
A row of read_committed also goes if a file of read_uncommitted has it; what is undecided there is committed here. So
`parallax.views.shared` reads the same rows before and after. That holds whatever the comparison has made of them. Rows
that differ stay. Position rows stay too.

One commit replaces all files of a date. Retention drops whole dates, so files go together with those that lend to them,
or before them. Compaction leaves such a date alone.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from parallax.model import RowKind
from parallax.views import order
from parallax.views.blocks import blocks_of
from parallax.views.compaction import File, by_date, shaped
from parallax.views.compaction import replace as replaced
from parallax.views.filesystem import ABOVE, filesystem
from parallax.views.parquet import BROKER, FILE_SCHEMA, OF_VIEWS, Limits, TableFile, limits
from parallax.views.shared import LENDERS, RUN, Array, Shared, as_lent, borrowed_on, row_bounds, shared_of
from parallax.views.tables import rust_uri

_APART_MS = 60_000
"""A row is looked for in what a lender recorded up to so much earlier or later."""

_WORTH = 10
"""A file is written again if at least one of so many of its rows goes."""

_HELD = 4
"""How many row groups of lenders stay in memory, for the next row group that asks for them."""

_BATCH = 1 << 16
_KEY = ["topic", "partition", "offset"]

IsChosen = Callable[[str], bool]
"""Says of a topic whether its rows may be taken out."""

_Lent = Callable[["_Lender", int], tuple[int, pa.Table]]
"""`_Lender.rows`."""


class Saved(NamedTuple):
    """What sharing has taken out of a table.

    Attributes:
        rows: how many rows.
        size: by how many bytes the table's files have become smaller.
    """

    rows: int = 0
    size: int = 0


def share(storage: str, name: str, is_chosen: IsChosen, before: date, passed: set[date]) -> Saved:
    """Take out of a view the rows that another replica shows alike, of all dates before one.

    Args:
        storage: ``storage.path``.
        name: name of the view.
        is_chosen: says of a topic whether its rows may be taken out.
        before: that date; rows that were recorded on it or later stay.
        passed: the dates that need not be looked at any more; those that are looked at now are added.

    Returns:
        What was taken out, of all dates.

    Raises:
        deltalake.exceptions.DeltaError: a commit failed; earlier dates are done.
        OSError: a file cannot be read or written.
    """
    saved = Saved()
    dates = by_date(storage, name)
    due = due_of(dates, before, passed)
    if not due:
        return saved
    borrowed, view = borrowed_on(storage, name), LENDERS.get(name)
    others = {} if view is None else by_date(storage, view)
    for told in due:
        if told not in borrowed and not any(order.is_shared(file.path) for file in dates[told]):
            lenders = _lenders(storage, view, others.get(told, ()))
            found = _share_date(storage, name, is_chosen, dates[told], lenders)
            saved = Saved(saved.rows + found.rows, saved.size + found.size)
        passed.add(date.fromisoformat(told))
    return saved


def due_of(dates: Iterable[str], before: date, passed: Collection[date]) -> list[str]:
    """The dates to look at now, in order: those before a date that were not looked at yet.

    Args:
        dates: the dates of a view's files, as ISO 8601.
        before: that date.
        passed: the dates that were looked at.
    """
    return [told for told in sorted(dates) if (on := date.fromisoformat(told)) < before and on not in passed]


def _lenders(storage: str, view: str | None, files: Sequence[File]) -> list[_Lender]:
    """The files of another view that may lend; none if there is no other view."""
    if view is None:
        return []
    folder = filesystem(rust_uri(storage, view))
    return [_Lender(folder, file, f"{ABOVE}{view}/") for file in sorted(files, key=_place)]


class _Made(NamedTuple):
    """A shared file that was written, and the file that it takes the place of."""

    old: File
    action: AddAction
    rows: int


def _share_date(
    storage: str, name: str, is_chosen: IsChosen, files: Sequence[File], others: Sequence[_Lender]
) -> Saved:
    folder = filesystem(rust_uri(storage, name))
    lenders, lent = [*others], lru_cache(_HELD)(_Lender.rows)
    made: list[_Made] = []
    for _, its in groupby(sorted(files, key=_place), key=_broker):
        found = []
        for file in its:
            shared = _shared(folder, file, lenders, is_chosen, lent)
            made += [shared] if shared is not None else []
            found.append(_Lender(folder, file if shared is None else replace(file, path=shared.action.path)))
        lenders += found
    if not made:
        return Saved()
    replaced(storage, name, [one.old for one in made], [one.action for one in made], files)
    return Saved(sum(one.rows for one in made), sum(one.old.size - one.action.size for one in made))


def _broker(file: File) -> int:
    return int(dict(file.values)[BROKER])


def _place(file: File) -> tuple[int, int, str]:
    return _broker(file), file.at_ms, file.path


class _Lender:
    """A file whose rows may take the place of equal ones in other files.

    Args:
        files: the file system of its table's folder.
        file: the file.
        folder: of a file of another table, that table's folder, as `parallax.views.filesystem.place` takes it.

    Attributes:
        path: path of the file, as the footer of a file that borrows has it.
    """

    def __init__(self, files: fs.FileSystem, file: File, folder: str = "") -> None:
        self._files, self._file = files, unquote(file.path)
        self.path = f"{folder}{self._file}"
        with files.open_input_file(self._file) as source:
            metadata = pq.read_metadata(source)
        self._begins = row_bounds(metadata)
        shared, lent = shared_of(metadata.metadata), np.zeros(1, np.int64)
        runs = np.empty(0, RUN) if shared is None else shared.runs
        lent = np.concatenate([lent, np.cumsum(runs["count"])])
        times = order.parts_of(metadata.metadata, file.at_ms, int(self._begins[-1] + lent[-1]))
        ends = np.cumsum(times[:, 1])

        def recorded(rows: Array) -> Array:
            """When rows of the file were recorded; its commits count those that others lend to it, too."""
            places = rows + lent[np.searchsorted(runs["at"], rows, "right")]
            when: Array = times[np.searchsorted(ends, places, "right"), 0]
            return when

        self._firsts, self._lasts = recorded(self._begins[:-1]), recorded(self._begins[1:] - 1)
        self._limits = [limits(metadata.row_group(n), _KEY) for n in range(metadata.num_row_groups)]

    def near(self, low_ms: int, high_ms: int) -> list[tuple[int, Limits]]:
        """The row groups recorded about a time, the nearest first: number and `limits` of each."""
        is_near = (self._firsts <= high_ms + _APART_MS) & (self._lasts >= low_ms - _APART_MS)
        numbers = np.flatnonzero(is_near)
        apart = np.abs(self._firsts[numbers] + self._lasts[numbers] - low_ms - high_ms)
        return [(n, self._limits[n]) for n in numbers[np.argsort(apart, kind="stable")].tolist()]

    def rows(self, number: int) -> tuple[int, pa.Table]:
        """A row group as it is lent: the number of its first row, and the rows."""
        with self._files.open_input_file(self._file) as source:
            rows = _group(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"), number)
        return int(self._begins[number]), as_lent(self.path, rows)


def _group(parquet: pq.ParquetFile, number: int) -> pa.Table:
    table = parquet.read_row_group(number, use_threads=False)
    return pa.Table.from_batches([shaped(one, OF_VIEWS) for one in table.to_batches()], FILE_SCHEMA).combine_chunks()


def _shared(
    files: fs.FileSystem, file: File, lenders: Sequence[_Lender], is_chosen: IsChosen, lent: _Lent
) -> _Made | None:
    """A file without the rows that lenders have; None if few are alike."""
    if not lenders:
        return None
    path = unquote(file.path)
    with files.open_input_file(path) as source:
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        footer, total = parquet.metadata.metadata, parquet.metadata.num_rows
        times = order.parts_of(footer, file.at_ms, total)
        made = TableFile(files, f"{path.rpartition('/')[0]}/{order.SHARED}{uuid.uuid4()}.parquet", OF_VIEWS)
        ends, begin, runs = np.cumsum(times[:, 1]), 0, [np.empty(0, RUN)]
        for number in range(parquet.num_row_groups):
            rows = _group(parquet, number)
            first, last = np.searchsorted(ends, [begin, begin + len(rows) - 1], "right").tolist()
            left = _Left(rows, is_chosen)
            lender, row = _found(left, lenders, int(times[first, 0]), int(times[last, 0]), lent)
            runs.append(_runs(lender, row, made.rows))
            for batch in rows.filter(pa.array(lender < 0)).to_batches(_BATCH):
                made.take(batch)
            begin += len(rows)
    shared = _of_used(lenders, np.concatenate(runs))
    size = made.close({**order.told(times.tolist()), **blocks_of(footer).told(), **shared.told()})
    gone = total - made.rows
    if gone * _WORTH < total:
        files.delete_file(made.path)
        return None
    action = AddAction(made.path, size, dict(file.values), file.at_ms, data_change=False, stats=made.statistics)
    return _Made(file, action, gone)


def _of_used(lenders: Sequence[_Lender], runs: Array) -> Shared:
    """What the footer says: only lenders of which there are rows, because each is opened to read the file."""
    used, runs["lender"] = np.unique(runs["lender"], return_inverse=True)
    return Shared(tuple(lenders[number].path for number in used.tolist()), runs)


def _runs(lender: Array, row: Array, at: int) -> Array:
    """The rows that go as rows of `RUN`; ``at``: how many rows of the file stay before these."""
    gone = np.flatnonzero(lender >= 0)
    its, rows = lender[gone], row[gone]
    is_new = np.ones(len(gone), np.bool_)
    is_new[1:] = (np.diff(gone) > 1) | (np.diff(its) != 0) | (np.diff(rows) != 1)
    begins = np.flatnonzero(is_new)
    made = np.empty(len(begins), RUN)
    made["at"] = at + np.cumsum(lender < 0)[gone[begins]]
    made["lender"], made["first"] = its[begins], rows[begins]
    made["count"] = np.diff(np.append(begins, len(gone)))
    return made


class _Left:
    """The rows of a row group that may go, and of which no lender has an equal one so far.

    Args:
        rows: the row group.
        is_chosen: says of a topic whether its rows may go.

    Attributes:
        rows: the row group.
        numbers: int64[n], the numbers of the rows that are left.
    """

    def __init__(self, rows: pa.Table, is_chosen: IsChosen) -> None:
        self.rows = rows
        topics: Any = pa.concat_arrays(rows["topic"].chunks).dictionary_encode()
        names, codes = topics.dictionary.to_pylist(), topics.indices.to_numpy()
        chosen = np.array([is_chosen(topic) for topic in names], np.bool_)
        self.numbers = np.flatnonzero(chosen[codes] & (rows["kind"].to_numpy() != int(RowKind.POSITION)))
        self._topics = sorted(names)
        rank = {topic: n for n, topic in enumerate(self._topics)}
        ranks = np.array([rank[topic] for topic in names], np.int64)
        self._columns = {"topic": ranks[codes], **{name: rows[name].to_numpy() for name in _KEY[1:]}}
        self._bounds = self._extremes()

    def _extremes(self) -> dict[str, tuple[int, int]]:
        columns = {name: values[self.numbers] for name, values in self._columns.items() if len(self.numbers)}
        return {name: (int(values.min()), int(values.max())) for name, values in columns.items()}

    def within(self, its: Limits) -> Array:
        """The numbers of the rows that are left and lie within limits."""
        numbers, known = self.numbers, dict(its)
        if "topic" in its:
            low, high = its["topic"]
            known["topic"] = bisect_left(self._topics, low), bisect_right(self._topics, high) - 1
        of = [(name, *known[name], *bounds) for name, bounds in self._bounds.items() if name in known]
        if any(most < low or high < least for _, low, high, least, most in of):
            return numbers[:0]
        for name, low, high, least, most in of:
            if least < low or high < most:
                values = self._columns[name][numbers]
                numbers = numbers[(values >= low) & (values <= high)]
        return numbers

    def take(self, found: Array) -> None:
        """Leave out rows of which a lender has equal ones: int64[n], their numbers, in rising order."""
        if len(found):
            self.numbers = np.setdiff1d(self.numbers, found, assume_unique=True)
            self._bounds = self._extremes()


def _found(left: _Left, lenders: Sequence[_Lender], low_ms: int, high_ms: int, lent: _Lent) -> tuple[Array, Array]:
    """For each row, which lender has an equal one, and at which row; -1 where none has."""
    lender, row = np.full(len(left.rows), -1, np.int32), np.full(len(left.rows), -1, np.int64)
    for number, one in enumerate(lenders):
        if not len(left.numbers):
            break
        for group, its in one.near(low_ms, high_ms):
            asked = left.within(its)
            if len(asked):
                begin, others = lent(one, group)
                mine, other = _pairs(left.rows, asked, others)
                lender[mine], row[mine] = number, begin + other
                left.take(mine)
    return lender, row


def _pairs(rows: pa.Table, asked: Array, others: pa.Table) -> tuple[Array, Array]:
    """Rows that are equal in every column: their numbers in both tables, each of those asked for at most once."""
    is_row = pa.array(others["kind"].to_numpy() != int(RowKind.POSITION))
    known = others.select(_KEY).append_column("other", pa.array(np.arange(len(others)))).filter(is_row)
    numbers: Any = pa.array(asked)
    wanted = rows.select(_KEY).take(numbers).append_column("mine", numbers)
    both = wanted.join(known, _KEY, join_type="inner", use_threads=False)
    mine, other = both["mine"].to_numpy(), both["other"].to_numpy()
    same = np.ones(len(mine), np.bool_)
    a, b = rows.take(pa.array(mine)), others.take(pa.array(other))
    for name in FILE_SCHEMA.names:
        same &= _equal(a[name].combine_chunks(), b[name].combine_chunks())
    mine, other = mine[same], other[same]
    in_order = np.lexsort((other, mine))
    mine, other = mine[in_order], other[in_order]
    mine, first = np.unique(mine, return_index=True)
    return mine, other[first]


def _equal(a: Any, b: Any) -> Array:
    """Where two columns hold the same, null among it."""
    nothing = pc.is_null(a).to_numpy(zero_copy_only=False), pc.is_null(b).to_numpy(zero_copy_only=False)
    if pa.types.is_struct(a.type):
        same = np.ones(len(a), np.bool_)
        for n in range(a.type.num_fields):
            same &= _equal(pc.struct_field(a, [n]), pc.struct_field(b, [n]))
    else:
        if pa.types.is_timestamp(a.type):
            a, b = a.view(pa.int64()), b.view(pa.int64())
        same = pc.fill_null(pc.equal(a, b), False).to_numpy(zero_copy_only=False)
    made: Array = np.where(nothing[0] | nothing[1], nothing[0] & nothing[1], same)
    return made


__all__ = ["IsChosen", "Saved", "due_of", "share"]
