"""Sums of withheld rows for each reader, to find out without the rows whether readers showed the same.

A *mark* holds the sums of all withheld rows of a reader below one offset; a reader has several, in offset order. Below
the offset that all readers have passed there is one for each block (`BLOCK_BITS`). Above it they are closer to each
other (`RECENT_BITS`). So two readers can be compared nearly up to where they end, and a day of rows costs little. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parallax.compare.observations import NOT_TRANSACTIONAL, RECORD, VIEWS, Array, ViewRows
from parallax.compare.state import SUM, PartitionState, empty
from parallax.model import UNKNOWN
from parallax.replica.digests import BLOCK_BITS, COLUMNS, KINDS, Digester, Digests

RECENT_BITS = 6
"""Marks lie so close where some reader has yet to come: every 64 offsets."""

Reader = tuple[int, int]
"""A replica, by its slot or its broker id, and a view."""

_KEY = b"withheld by blk."
"""Hashes of keys and contents are keyed already; these sums are compared with their own kind only."""

_COUNTS = ("rows", "transactional", "odd", "low", "high", "shape")


@dataclass(frozen=True, slots=True)
class Grain:
    """How close marks lie, as powers of two; only tests of short histories use other values than the defaults.

    Attributes:
        block: distance of marks where all readers have passed.
        recent: distance of marks behind that.
    """

    block: int = BLOCK_BITS
    recent: int = RECENT_BITS

    def up(self, offset: int) -> int:
        """The first end of a block at or behind an offset."""
        return -(-offset >> self.block) << self.block


def marks_of(state: PartitionState) -> dict[Reader, Array]:
    """The marks of each reader, in offset order.

    Readers with withheld rows have them, and readers that were read to where others have such rows.
    """
    table = np.concatenate([state.sums, state.recent_sums])
    table = table[np.lexsort((table["end"], table["view"], table["slot"]))]
    if not len(table):
        return {}
    readers = table["slot"].astype(np.int64) * len(VIEWS) + table["view"]
    begins = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), readers[1:] != readers[:-1]]))
    ends = [*begins[1:].tolist(), len(table)]
    return {
        (int(table["slot"][at]), int(table["view"][at])): table[at:end]
        for at, end in zip(begins.tolist(), ends, strict=True)
    }


def store(state: PartitionState, marks: Mapping[Reader, Array], grain: Grain) -> None:
    """Put the marks of all readers back into the state.

    Those at the end of a block stay as they are; they are kept apart from those that change all the time.
    """
    table = np.concatenate([empty(SUM), *marks.values()])
    is_block = table["end"] & ((1 << grain.block) - 1) == 0
    blocks = table[is_block]
    if len(blocks) != len(state.sums) or bool((blocks != state.sums).any()):
        state.sums = blocks
    state.recent_sums = table[~is_block]


def digested(rows: ViewRows, grain: Grain) -> Digests:
    """The digests of one reader's rows, in offset order and without position rows."""
    columns = {name: getattr(rows, name) for name in COLUMNS}
    return _digester(grain.recent).add_up(np.array([0, len(rows)]), np.zeros(1, np.int32), columns)


def added(marks: Array, reader: Reader, rows: ViewRows, digests: Digests, reached: int, grain: Grain) -> Array:
    """The marks of a reader after more of its rows were read.

    Args:
        marks: the reader's marks so far.
        reader: the reader that has shown the rows.
        rows: those behind the last mark, in offset order; none of them a position row.
        digests: of the rows.
        reached: how far the reader was read.
        grain: see `Grain`.
    """
    last = marks[-1:] if len(marks) else np.zeros(1, SUM)
    found = _summed(_parts(rows, digests), last)
    found["end"] = np.minimum((digests.parts["block"] + 1) << grain.recent, reached)
    made = np.concatenate([marks, found])
    if not len(made) or int(made["end"][-1]) < reached:
        end = made[-1:].copy() if len(made) else last.copy()
        end["end"] = reached
        made = np.concatenate([made, end])
    made["slot"], made["view"] = reader
    return made


def recorded(parts: Array, ends: Array, ranges: Array) -> Array:
    """The marks of a reader by the parts that were recorded with its rows; ``slot`` and ``view`` are not set.

    Args:
        parts: `parallax.replica.digests.PART`, in order.
        ends: up to where each of them is known.
        ranges: `parallax.views.blocks.RANGE` of the parts.
    """
    made = np.concatenate([_of_parts(parts), np.zeros(len(ranges), SUM)])
    made["end"] = np.concatenate([ends, ranges["end"]])
    return _summed(made[np.argsort(made["end"], kind="stable")], np.zeros(1, SUM))


def totals(rows: ViewRows) -> Array:
    """The sums of one reader's rows, as one row of `SUM`; the rows are in offset order."""
    return _summed(np.concatenate([np.zeros(1, SUM), _parts(rows, digested(rows, Grain()))]), np.zeros(1, SUM))[-1:]


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
def _digester(bits: int) -> Digester:
    return Digester(_KEY, block_bits=bits)


def thinned(marks: Mapping[Reader, Array], grain: Grain) -> dict[Reader, Array]:
    """The marks of each reader, with one for each block below what all readers have passed."""
    if not marks:
        return {}
    passed = min(int(its["end"][-1]) for its in marks.values())
    return {reader: _thinned(its, passed, grain) for reader, its in marks.items()}


def _thinned(marks: Array, passed: int, grain: Grain) -> Array:
    block = (marks["end"] - 1) >> grain.block
    ends = (block + 1) << grain.block
    is_passed = ends <= passed
    is_last = np.ones(len(marks), np.bool_)
    is_last[:-1] = block[1:] != block[:-1]
    made = marks[~is_passed | is_last]
    at = (is_passed & is_last)[~is_passed | is_last]
    made["end"][at] = ends[~is_passed | is_last][at]
    return made


def at(marks: Array, cuts: Array) -> Array:
    """The sums of a reader's rows below each of some offsets.

    Args:
        marks: the reader's marks, rows of `SUM` in offset order.
        cuts: offsets.

    Returns:
        A row of `SUM` for each cut. Above where the reader was read to, the sums are of all its rows.
    """
    number = np.searchsorted(marks["end"], cuts, side="right") - 1
    found = marks[np.maximum(number, 0)]
    for name in _COUNTS:
        found[name][number < 0] = 0
    return found


def common_cuts(marks: Iterable[Array], start: int, grain: Grain) -> Array:
    """Offsets above ``start`` up to which the sums of all given readers are known, in order."""
    several = list(marks)
    lowest = min(int(its["end"][-1]) for its in several)
    block = np.int64(1 << grain.block)
    cuts = np.unique(np.concatenate([*(its["end"] for its in several), [lowest // block * block]]))
    cuts = cuts[(cuts > start) & (cuts <= lowest)]
    for its in several:
        cuts = cuts[(cuts % block == 0) | np.isin(cuts, its["end"])]
    return cuts


def same(marks: Mapping[Reader, Array], cuts: Array) -> Array:
    """Mask of the offsets up to which all readers of each view have shown the same rows."""
    mask = np.ones(len(cuts), np.bool_)
    for view in VIEWS:
        found = [at(its, cuts) for (_, of), its in marks.items() if of == view]
        for other in found[1:]:
            for name in ("rows", "low", "high"):
                mask &= other[name] == found[0][name]
    return mask


def agreeing(marks: Mapping[Reader, Array], start: int, grain: Grain) -> Array:
    """The cuts up to which all readers have shown the same rows.

    Those are left out up to which one has shown a row that is judged by itself.
    """
    cuts = common_cuts(marks.values(), start, grain)
    return cuts[same(marks, cuts) & (counted(marks, "odd", cuts) == 0)]


def is_one_shape(marks: Mapping[Reader, Array], cuts: Array) -> Array:
    """Mask of the offsets below which both readers of each replica have shown rows of the same transactions."""
    mask = np.ones(len(cuts), np.bool_)
    for (slot, view), its in marks.items():
        other = marks.get((slot, 1 - view))
        mask &= other is not None and at(its, cuts)["shape"] == at(other, cuts)["shape"]
    return mask


def agreed_to(state: PartitionState, view: int) -> int:
    """Up to which offset the withheld rows of all replicas agree, in a view.

    -1 if no rows are withheld.
    """
    marks = {reader: its for reader, its in marks_of(state).items() if reader[1] == view}
    if {slot for slot, _ in marks} < set(np.flatnonzero(state.brokers["member"]).tolist()) or not marks:
        return UNKNOWN
    cuts = common_cuts(marks.values(), 0, Grain())
    cuts = cuts[same(marks, cuts)]
    return int(cuts[-1]) if len(cuts) else UNKNOWN


def counted(marks: Mapping[Reader, Array], name: str, cuts: Array) -> Array:
    """One column of `SUM`, added up over all readers, for the rows below each of some offsets."""
    found: Array = np.zeros(len(cuts), np.int64)
    for its in marks.values():
        found += at(its, cuts)[name].astype(np.int64)
    return found


def behind(marks: Mapping[Reader, Array], cut: int) -> dict[Reader, Array]:
    """The marks of a reader behind an offset; none if the reader was read no further."""
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
    "Grain",
    "Reader",
    "added",
    "agreed_to",
    "agreeing",
    "at",
    "behind",
    "common_cuts",
    "counted",
    "digested",
    "is_one_shape",
    "marks_of",
    "recorded",
    "same",
    "store",
    "thinned",
    "totals",
]
