"""Sums of each reader's rows below some offsets, which show without the rows whether readers have shown the same. Pure.

A *mark* (a `SUM` row) holds the sums of all rows of one reader below one offset: how many rows, and the sum of their
fingerprints. A reader has several marks, in offset order. Of withheld rows there is one every ``2**STRIDE_BITS``
offsets. In strides in which a reader is now there is one every ``2**RECENT_BITS`` offsets. So two readers can be
compared nearly up to where they end, and a day of rows costs little memory. When marks become many, each second one is
dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from parallax.compare.observations import NOT_TRANSACTIONAL, RECORD, VIEWS, Array, ViewRows
from parallax.compare.state import SUM, PartitionState, empty
from parallax.model import UNKNOWN
from parallax.replica.digests import COLUMNS, KINDS, Digester, Digests

STRIDE_BITS = 12
"""Of withheld rows there is a mark every 2**12 = 4,096 offsets: a *stride*."""

RECENT_BITS = 6
"""In a stride in which a reader is now, there is a mark every 2**6 = 64 offsets."""

Reader = tuple[int, int]
"""A replica, by its slot or its broker id, and a view."""

KEY_BEFORE = b"withheld by blk."
"""The key of the sums of a state whose partition is not ``keyed``. An earlier version had it for all."""

_COUNTS = ("rows", "transactional", "odd", "low", "high", "shape")


@dataclass(frozen=True, slots=True)
class Grain:
    """At which offsets marks are kept (a mark holds the sums of a reader's rows below one offset).

    Only tests of short histories change the defaults.

    Attributes:
        stride: there is a mark every ``2**stride`` offsets.
        recent: in a stride in which a reader is now, there is a mark every ``2**recent`` offsets.
    """

    stride: int = STRIDE_BITS
    recent: int = RECENT_BITS

    def up(self, offset: int) -> int:
        """The lowest end of a stride that is at or above ``offset``."""
        return -(-offset >> self.stride) << self.stride

    def down(self, offset: int) -> int:
        """The highest end of a stride that is at or below ``offset``."""
        return offset >> self.stride << self.stride


def marks_of(state: PartitionState) -> dict[Reader, Array]:
    """The marks that a state holds, by reader, in offset order.

    A mark holds the sums of a reader's rows below one offset. A reader has marks if some of its rows are withheld, or
    if it was read up to offsets where rows of other readers are withheld.
    """
    table = np.concatenate([state.sums, state.recent_sums])
    table = table[np.lexsort((table["end"], table["view"], table["slot"]))]
    if not len(table):
        return {}
    readers = _numbers(table)
    begins = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), readers[1:] != readers[:-1]]))
    ends = [*begins[1:].tolist(), len(table)]
    return {
        (int(table["slot"][at]), int(table["view"][at])): table[at:end]
        for at, end in zip(begins.tolist(), ends, strict=True)
    }


def readers_of(state: PartitionState) -> set[Reader]:
    """The readers of which a state holds marks (`marks_of`)."""
    numbers = np.union1d(_numbers(state.sums), _numbers(state.recent_sums))
    return {divmod(number, len(VIEWS)) for number in numbers.tolist()}


def _numbers(marks: Array) -> Array:
    """For each mark, its reader as a number."""
    numbers: Array = marks["slot"].astype(np.int64) * len(VIEWS) + marks["view"]
    return numbers


def store(state: PartitionState, marks: Mapping[Reader, Array], grain: Grain) -> None:
    """Put the marks of all readers back into the state.

    A mark holds the sums of a reader's rows below one offset. Marks at the end of a stride go into the table
    ``state.sums``, because they no longer change. All others go into ``state.recent_sums``.

    Args:
        state: the partition's state; these two tables are replaced.
        marks: all marks, by reader.
        grain: the size of the strides.
    """
    table = np.concatenate([empty(SUM), *marks.values()])
    is_stride = ends_stride(table["end"], grain.stride)
    strides = table[is_stride]
    if len(strides) != len(state.sums) or bool((strides != state.sums).any()):
        state.sums = strides
    state.recent_sums = table[~is_stride]


def digested(rows: ViewRows, grain: Grain, key: bytes) -> Digests:
    """The sums of one reader's rows, one for each block of ``2**grain.recent`` offsets (`parallax.replica.digests`).

    Args:
        rows: the reader's records and end markers, in offset order; no rows of kind `POSITION`.
        grain: its ``recent`` gives the size of the blocks.
        key: 16 secret bytes. Who knows them can write records whose contents count for nothing in the sums.
    """
    columns = {name: getattr(rows, name) for name in COLUMNS}
    return _digester(key, grain.recent).add_up(np.array([0, len(rows)]), np.zeros(1, np.int32), columns)


def added(marks: Array, reader: Reader, rows: ViewRows, digests: Digests, reached: int) -> Array:
    """The marks of a reader after it has shown more rows.

    A mark holds the sums of the reader's rows below one offset.

    Args:
        marks: the reader's marks so far, `SUM` rows in offset order.
        reader: the reader that has shown the rows, by its slot and view.
        rows: the rows that it has shown since its last mark: records and end markers in offset order, and no rows of
            kind `POSITION`.
        digests: the sums of these rows (`digested`).
        reached: the offset below which the reader has been shown everything.

    Returns:
        The old marks and the new ones, in offset order. The last one is at ``reached``.
    """
    last = marks[-1:] if len(marks) else np.zeros(1, SUM)
    found = _summed(_parts(rows, digests), last)
    found["end"] = np.minimum(digests.parts["block_end"], reached)
    made = np.concatenate([marks, found])
    if not len(made) or int(made["end"][-1]) < reached:
        end = made[-1:].copy() if len(made) else last.copy()
        end["end"] = reached
        made = np.concatenate([made, end])
    made["slot"], made["view"] = reader
    return made


def recorded(parts: Array, ends: Array, ranges: Array) -> Array:
    """The marks of a reader, from the sums that were recorded with its rows.

    A mark holds the sums of the reader's rows below one offset.

    Args:
        parts: rows of `parallax.replica.digests.PART`, each with the sums of the rows in one block of offsets, or in
            several; in the order of offsets.
        ends: for each of ``parts``, the offset where it ends: the rows below are those of this part and all before it.
        ranges: rows of `parallax.views.blocks.RANGE`, each a range of offsets that the reader read in one micro-batch.

    Returns:
        `SUM` rows in offset order: one without rows where the first range starts, and one for the end of each part and
        of each range. The columns ``slot`` and ``view`` are not set.
    """
    made = np.concatenate([np.zeros(1, SUM), _of_parts(parts), np.zeros(len(ranges), SUM)])
    made["end"] = np.concatenate([ranges["start"][:1], ends, ranges["end"]])
    return _summed(made[np.argsort(made["end"], kind="stable")], np.zeros(1, SUM))


def totals(rows: ViewRows, key: bytes) -> Array:
    """The sums of all given rows of one reader, as one `SUM` row.

    Args:
        rows: the reader's records and end markers, in offset order; no rows of kind `POSITION`.
        key: 16 secret bytes, as for `digested`.
    """
    nothing = np.zeros(1, SUM)
    return _summed(np.concatenate([nothing, _parts(rows, digested(rows, Grain(), key))]), nothing)[-1:]


def _summed(parts: Array, last: Array) -> Array:
    """The sums of parts, each with those of all before it, and of the mark before them."""
    for name in _COUNTS:
        parts[name] = np.cumsum(parts[name], dtype=parts.dtype[name]) + last[name]
    return parts


def _parts(rows: ViewRows, digests: Digests) -> Array:
    made = _of_parts(digests.parts)
    if not len(made):
        return made
    begins = np.cumsum(made["rows"]) - made["rows"]
    is_plain = (rows.kind == RECORD) & (rows.outcome == NOT_TRANSACTIONAL)
    made["transactional"] = np.add.reduceat(~is_plain, begins, dtype=np.int64)
    made["shape"] = np.add.reduceat(np.where(is_plain, np.uint64(0), _shape(rows)), begins, dtype=np.uint64)
    return made


def _of_parts(parts: Array) -> Array:
    """What digests say of each part; which rows are transactional they do not say."""
    made = np.zeros(len(parts), SUM)
    made["low"], made["high"] = parts["low"], parts["high"]
    made["odd"] = parts["listed"] + parts["emptied"] + parts["contradicted"]
    made["rows"] = np.sum([parts[name] for name in KINDS], axis=0, dtype=np.int64)
    return made


def _shape(rows: ViewRows) -> Array:
    """64 bits of each row: splitmix64 over what both views show alike of it."""
    mixed = rows.offset.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += rows.producer_id.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93) + rows.kind.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    shape: Array = mixed ^ (mixed >> np.uint64(31))
    return shape


@lru_cache(maxsize=4)
def _digester(key: bytes, bits: int) -> Digester:
    return Digester(key, block_bits=bits, joined_bits=bits)


def thinned(marks: Mapping[Reader, Array], grain: Grain, most: int) -> dict[Reader, Array]:
    """Reduce the marks of each reader to one per stride, but for the strides in which a reader is now.

    A mark holds the sums of a reader's rows below one offset. So any two readers can be compared nearly up to where the
    one behind has come, however far behind a third one is. If more than ``most`` marks are left, there is one for each
    second stride, or for each fourth, and so on.

    Args:
        marks: the marks of each reader, in offset order.
        grain: the size of the strides.
        most: how many marks of all readers together may be left. Those of the strides in which a reader is now stay
            even if they are more.

    Returns:
        By reader, the marks that are left, in offset order.
    """
    lasts = np.unique(np.array([its["end"][-1] for its in marks.values()], np.int64))
    strides = lasts >> grain.stride
    left = {reader: _thinned(its, strides, grain) for reader, its in marks.items()}
    for bits in range(grain.stride + 1, 63):
        if sum(map(len, left.values())) <= most:
            break
        for reader, its in left.items():
            left[reader] = its[
                ends_stride(its["end"], bits) | np.isin(_stride(its, grain), strides) | np.isin(its["end"], lasts)
            ]
    return left


def ends_stride(offsets: Array, bits: int) -> Array:
    """For each offset, whether a stride ends there.

    Args:
        offsets: int64[n].
        bits: a stride has ``2**bits`` offsets.

    Returns:
        bool[n].
    """
    mask: Array = offsets & ((1 << bits) - 1) == 0
    return mask


def _stride(marks: Array, grain: Grain) -> Array:
    """For each mark, the number of the stride that it is in, or at the end of."""
    stride: Array = (marks["end"] - 1) >> grain.stride
    return stride


def _thinned(marks: Array, kept: Array, grain: Grain) -> Array:
    """One mark at the end of each stride, but for the strides ``kept``, of which all marks stay."""
    stride = _stride(marks, grain)
    is_last = np.ones(len(marks), np.bool_)
    is_last[:-1] = stride[1:] != stride[:-1]
    is_kept = np.isin(stride, kept)
    left = is_kept | is_last
    made, is_end = marks[left], ~is_kept[left]
    made["end"][is_end] = (stride[left][is_end] + 1) << grain.stride
    return made


def at(marks: Array, cuts: Array) -> Array:
    """The sums of a reader's rows below each of some offsets.

    Args:
        marks: the reader's marks, `SUM` rows in offset order.
        cuts: the offsets; the reader's sums are known there (`known`).

    Returns:
        A `SUM` row for each of ``cuts``. For an offset beyond the reader's last mark it has the sums of all its rows.
    """
    number = np.searchsorted(marks["end"], cuts, side="right") - 1
    found = marks[np.maximum(number, 0)]
    for name in _COUNTS:
        found[name][number < 0] = 0
    return found


def known(marks: Iterable[Array], cuts: Array) -> Array:
    """For each offset, whether the sums of all given readers are known there.

    They are at a mark, between two marks without a row between them, and behind all that a reader has shown.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        cuts: the offsets.
    """
    mask = np.ones(len(cuts), np.bool_)
    for its in marks:
        below = np.searchsorted(its["end"], cuts, side="right")
        rows = np.concatenate([[0], its["rows"], its["rows"][-1:]])
        mask &= (rows[below] == rows[below + 1]) | np.isin(cuts, its["end"])
    return mask


def common_cuts(marks: Iterable[Array], start: int) -> Array:
    """The offsets above ``start`` at which all given readers can be compared, ascending.

    Each reader has come there, and the sums of all of them are known.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        start: only higher offsets are returned.
    """
    several = list(marks)
    cuts = _ends(several)
    cuts = cuts[(cuts > start) & (cuts <= min(int(its["end"][-1]) for its in several))]
    return cuts[known(several, cuts)]


def first_cut(marks: Iterable[Array]) -> int:
    """The lowest offset, from the one on at which the last of all given readers begins, at which all sums are known.

    Args:
        marks: the marks of each reader, the first where it begins (`recorded`).
    """
    several = list(marks)
    cuts = _ends(several)
    cuts = cuts[cuts >= max(int(its["end"][0]) for its in several)]
    return int(cuts[known(several, cuts)][0])


def stride_ends(marks: Mapping[Reader, Array], grain: Grain, *more: int) -> Array:
    """The ends of strides at which the sums of all readers are known, ascending: there rows can be cut.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        grain: the size of the strides.
        more: ends of strides that are looked at, too. Otherwise only those are that some reader has a mark at.
    """
    cuts = np.union1d(_ends(marks.values()), np.array(more, np.int64))
    cuts = cuts[ends_stride(cuts, grain.stride)]
    return cuts[known(marks.values(), cuts)]


def _ends(marks: Iterable[Array]) -> Array:
    return np.unique(np.concatenate([empty(SUM)["end"], *(its["end"] for its in marks)]))


def same(marks: Mapping[Reader, Array], cuts: Array) -> Array:
    """For each offset, whether all readers of each view have shown the same rows below it.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        cuts: offsets at which the sums of all readers are known (`common_cuts`).
    """
    mask = np.ones(len(cuts), np.bool_)
    for view in VIEWS:
        found = [at(its, cuts) for (_, of), its in marks.items() if of == view]
        for other in found[1:]:
            for name in ("rows", "low", "high"):
                mask &= other[name] == found[0][name]
    return mask


def differ(marks: Mapping[Reader, Array], start: int) -> bool:
    """Whether any two readers of a view have shown unlike rows, nearly as far as both have come.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        start: the offset from which on rows are added up.
    """
    pairs = (dict(pair) for pair in combinations(marks.items(), 2))
    return any(
        not same(pair, common_cuts(pair.values(), start)[-1:]).all()
        for pair in pairs
        if len({view for _, view in pair}) == 1
    )


def agreeing(marks: Mapping[Reader, Array], start: int) -> Array:
    """The offsets above ``start`` below which all readers of each view have shown the same rows.

    Only offsets where the sums of all readers are known are returned, and none above a row that has to be judged by
    itself, such as a listed transaction.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        start: only higher offsets are returned.
    """
    cuts = common_cuts(marks.values(), start)
    return cuts[same(marks, cuts) & (counted(marks, "odd", cuts) == 0)]


def is_one_shape(marks: Mapping[Reader, Array], cuts: Array) -> Array:
    """For each offset, whether the two readers of every replica have shown the same transactions below it.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        cuts: offsets at which the sums of all readers are known (`common_cuts`).
    """
    mask = np.ones(len(cuts), np.bool_)
    for (slot, view), its in marks.items():
        other = marks.get((slot, 1 - view))
        mask &= other is not None and at(its, cuts)["shape"] == at(other, cuts)["shape"]
    return mask


def agreed_to(state: PartitionState, view: int) -> int:
    """The highest offset below which the withheld rows of all replicas have equal sums in the view ``view``.

    -1 if there is none, or if rows of some replica of the replica set are not withheld.
    """
    marks = {reader: its for reader, its in marks_of(state).items() if reader[1] == view}
    if {slot for slot, _ in marks} < set(np.flatnonzero(state.brokers["member"]).tolist()) or not marks:
        return UNKNOWN
    cuts = common_cuts(marks.values(), 0)
    cuts = cuts[same(marks, cuts)]
    return int(cuts[-1]) if len(cuts) else UNKNOWN


def counted(marks: Mapping[Reader, Array], name: str, cuts: Array) -> Array:
    """For each offset, one column of the sums, added up over all readers: for example how many rows lie below.

    Args:
        marks: the marks of each reader (a mark holds the sums of its rows below one offset).
        name: the column of `SUM` to add up.
        cuts: the offsets.
    """
    found: Array = np.zeros(len(cuts), np.int64)
    for its in marks.values():
        found += at(its, cuts)[name].astype(np.int64)
    return found


def behind(marks: Mapping[Reader, Array], cut: int) -> dict[Reader, Array]:
    """The marks of each reader above the offset ``cut``, with only the rows from ``cut`` on added up.

    A mark holds the sums of a reader's rows below one offset. Readers that were read no further than ``cut`` are left
    out. The given marks are not changed.
    """
    found = {}
    for reader, its in marks.items():
        left = its[its["end"] > cut].copy()
        if len(left):
            before = at(its, np.array([cut]))
            for name in _COUNTS:
                left[name] -= before[name]
            found[reader] = left
    return found


__all__ = [
    "KEY_BEFORE",
    "Grain",
    "Reader",
    "added",
    "agreed_to",
    "agreeing",
    "at",
    "behind",
    "common_cuts",
    "counted",
    "differ",
    "digested",
    "ends_stride",
    "first_cut",
    "is_one_shape",
    "known",
    "marks_of",
    "readers_of",
    "recorded",
    "same",
    "store",
    "stride_ends",
    "thinned",
    "totals",
]
