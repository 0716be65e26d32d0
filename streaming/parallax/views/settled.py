"""Decides which rows of the views no longer need to be kept, with ``storage.record: blocks``. Pure.

A row may go if all of this holds of its block of 4,096 offsets (`BLOCK`):

- Each broker that holds the partition has shown the whole block, at both isolation levels, in one reading that went
  through. So has each other broker that has recorded any of it. In each level their sums are equal. No row there is
  judged by itself: no listed transaction, no emptied marker, no record against its own end marker.
- The comparison has taken in all of the block, and nothing in the partition is open (`Settled`).
- No transaction that goes through the block goes through a block of which this does not hold, too. So a difference
  stays together with all rows of its transactions that were recorded on its date.

Where any of this is not known, the rows stay. All rows that are looked at were recorded on one date. A block that was
read around midnight stays. A transaction that goes on over midnight counts on each date by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from parallax.model import TopicPartition
from parallax.replica.digests import JOINED_BITS, KINDS, Array, Digests, contradicting
from parallax.views.blocks import Blocks, ByPlace
from parallax.views.tables import VIEWS

_SUMS = (*KINDS, "low", "high")
_BY_THEMSELVES = ("listed", "emptied", "contradicted")
_BITS = JOINED_BITS
BLOCK = 1 << _BITS
"""Offsets whose rows stay or go together; a block begins at a multiple of it."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What the comparison and the findings say of a partition in which nothing is open.

    Attributes:
        brokers: ids of the brokers that hold the partition.
        up_to: the offset below which everything was compared and no row is needed again.
        but: ranges of offsets below that are unknown, each as its first offset and one past its last.
    """

    brokers: frozenset[int]
    up_to: int
    but: tuple[tuple[int, int], ...] = ()


Reader = tuple[str, int]
"""A view by its name, and a broker."""


def agreed_spans(
    sums: Mapping[Reader, Blocks], settled: Mapping[TopicPartition, Settled]
) -> dict[TopicPartition, Array]:
    """Find the offsets whose rows no longer need to be kept.

    Args:
        sums: by view and broker, the sums of all rows that were recorded on one date. They are empty if some rows are
            in no sum; then nobody knows what the broker has shown, and all rows stay.
        settled: the partitions in which nothing is open.

    Returns:
        By partition, int64[n, 2]: n ranges of offsets, each by its first offset and one past its last, in order. A
        partition without any is left out.
    """
    if not all(its.places for its in sums.values()):
        return {}
    readers = {reader: ByPlace(its) for reader, its in sums.items()}
    made = {}
    for place, one in settled.items():
        of_place = {reader: _Reading(*its.of(place)) for reader, its in readers.items()}
        spans = _spans(of_place, one)
        if len(spans):
            made[place] = spans
    return made


def unsettled(sums: Mapping[Reader, Blocks], settled: Mapping[TopicPartition, Settled]) -> frozenset[TopicPartition]:
    """The partitions of which more rows may go once what is open there is over.

    Args:
        sums: as in `agreed_spans`.
        settled: the partitions in which nothing is open.
    """
    found = set[TopicPartition]()
    for its in sums.values() if all(one.places for one in sums.values()) else ():
        ranges = its.ranges[its.ranges["start"] < its.ranges["end"]]
        starts, ends = np.full(len(its.places), np.iinfo(np.int64).max), np.zeros(len(its.places), np.int64)
        np.minimum.at(starts, ranges["place"], ranges["start"])
        np.maximum.at(ends, ranges["place"], ranges["end"])
        for place, start, end in zip(its.places, starts.tolist(), ends.tolist(), strict=True):
            if start < end and not _is_settled(settled.get(place), start, end):
                found.add(place)
    return frozenset(found)


def _is_settled(one: Settled | None, start: int, end: int) -> bool:
    return one is not None and end <= one.up_to and not any(low < end and start < high for low, high in one.but)


class _Reading:
    """What one reader of a partition has recorded on the date: its ranges, and the sums of its rows by blocks."""

    def __init__(self, ranges: Array, topic_ids: list[str], digests: Digests) -> None:
        self.ids, self.digests = set(topic_ids), digests
        self._moves = digests.moves[np.lexsort((digests.moves["part"], digests.moves["producer_id"]))]
        self._starts, self._ends = ranges["start"], ranges["end"]
        self.is_in_order = bool((self._starts[1:] >= self._ends[:-1]).all())
        # A number of each range; ranges without a gap, and without an event in them, have the same.
        self._run = np.cumsum(np.append(0, self._starts[1:] != self._ends[:-1]))
        self._events = np.append(0, np.cumsum(~ranges["whole"]))

    @property
    def blocks(self) -> Array:
        """The number of each part's block."""
        return np.asarray((self.digests.parts["block_end"] - 1) >> _BITS)

    def touches(self, blocks: Array) -> Array:
        """For each block, whether the reader has read any offset of it."""
        first = np.searchsorted(self._ends, blocks * BLOCK, "right")
        starts = np.append(self._starts, np.iinfo(np.int64).max)
        return np.asarray(starts[first] < (blocks + 1) * BLOCK)

    def covers(self, blocks: Array) -> Array:
        """For each block, whether the reader has read all of it in one go, without an event."""
        mask = np.zeros(len(blocks), np.bool_)
        first = np.searchsorted(self._starts, blocks * BLOCK, "right") - 1
        last = np.searchsorted(self._ends, (blocks + 1) * BLOCK)
        known = (first >= 0) & (last < len(self._ends))
        first, last = first[known], last[known]
        mask[known] = (self._run[first] == self._run[last]) & (self._events[last + 1] == self._events[first])
        return mask

    def totals(self, blocks: Array) -> dict[str, Array]:
        """For each block, what all of its rows add up to."""
        parts = self.digests.parts
        at, made = np.searchsorted(blocks, self.blocks), {}
        for name in dict.fromkeys((*_SUMS, *_BY_THEMSELVES)):
            made[name] = np.zeros(len(blocks), np.uint64)
            np.add.at(made[name], at, parts[name].astype(np.uint64))
        # A part's own count knows nothing of the parts before.
        np.add.at(made["contradicted"], at[self._moves["part"][contradicting(self._moves)]], 1)
        return made

    def transactions(self) -> tuple[Array, Array]:
        """The first and the last block of each transaction, as far as the reader shows rows of it."""
        moves = self._moves
        block = self.blocks[moves["part"]]
        ends = np.flatnonzero(moves["end"] >= 0)
        last = np.searchsorted(moves["producer_id"], moves["producer_id"], "right") - 1
        begun = np.flatnonzero(moves["start"] >= 0)
        ended = np.append(ends, len(moves))[np.searchsorted(ends, begun, "right")]
        return block[begun], block[np.minimum(ended, last[begun])]


def _spans(readers: Mapping[Reader, _Reading], settled: Settled) -> Array:
    """The ranges of one partition; int64[n, 2]."""
    nothing = np.empty((0, 2), np.int64)
    recorded = [one for one in readers.values() if len(one.blocks)]
    ids = set[str]().union(*(one.ids for one in readers.values()))
    is_whole = {(view, broker) for view in VIEWS for broker in settled.brokers} <= set(readers)
    is_whole &= bool(settled.brokers) and all(one.is_in_order for one in readers.values())
    if not recorded or not is_whole or len(ids) != 1 or "" in ids:
        return nothing
    blocks = np.unique(np.concatenate([one.blocks for one in recorded]))
    agrees = _agrees(readers, settled.brokers, blocks)
    agrees &= (blocks + 1) * BLOCK <= settled.up_to
    for start, end in settled.but:
        agrees &= ((blocks + 1) * BLOCK <= start) | (blocks * BLOCK >= end)
    agrees &= ~_goes_on(recorded, blocks, ~agrees)
    if not agrees.any():
        return nothing
    edges = np.flatnonzero(np.diff(np.concatenate([[False], agrees, [False]]).astype(np.int8)))
    return np.stack([blocks[edges[::2]] * BLOCK, (blocks[edges[1::2] - 1] + 1) * BLOCK], axis=1)


def _agrees(readers: Mapping[Reader, _Reading], hosting: frozenset[int], blocks: Array) -> Array:
    """For each block, whether all brokers have shown all of it alike, and nothing that is judged by itself."""
    agrees = np.ones(len(blocks), np.bool_)
    covers, touches = dict[int, Array](), dict[int, Array]()
    none = np.zeros(len(blocks), np.bool_)
    for broker in {broker for _, broker in readers}:
        of = [readers.get((view, broker)) for view in VIEWS]
        covers[broker] = np.logical_and.reduce([none if one is None else one.covers(blocks) for one in of])
        touches[broker] = np.logical_or.reduce([none if one is None else one.touches(blocks) for one in of])
        agrees &= covers[broker] if broker in hosting else covers[broker] | ~touches[broker]
    for view in VIEWS:
        shown = {broker: one.totals(blocks) for (of, broker), one in readers.items() if of == view}
        reference = shown[min(hosting)]
        for name in _BY_THEMSELVES:
            agrees &= reference[name] == 0
        for broker, its in shown.items():
            for name in _SUMS:
                agrees &= ~covers[broker] | (its[name] == reference[name])
            agrees &= its["contradicted"] == 0
    return agrees


def _goes_on(readers: Iterable[_Reading], blocks: Array, stays: Array) -> Array:
    """For each block, whether a transaction goes through it that also goes through a block whose rows stay."""
    before = np.append(0, np.cumsum(stays))
    change = np.zeros(len(blocks) + 1, np.int64)
    for one in readers:
        first, last = (np.searchsorted(blocks, ends) for ends in one.transactions())
        touches = before[last + 1] > before[first]
        np.add.at(change, first[touches], 1)
        np.add.at(change, last[touches] + 1, -1)
    return np.asarray(np.cumsum(change)[:-1] > 0)


__all__ = ["BLOCK", "Reader", "Settled", "agreed_spans", "unsettled"]
