"""Finds up to which offset all replicas have shown the same rows, from the sums that were recorded with the rows. Pure.

Readers are compared at *cuts*: offsets up to which the sums of all readers are known (`parallax.compare.sums`). Cuts
are the ends of blocks that all readers have passed, and offsets at which a range ends that all readers have read.

The offsets up to a cut have *agreed* under two conditions. The sums of all replicas are equal at both isolation levels.
No replica shows a row that has to be judged by itself: a listed transaction, an emptied marker, or a record whose
outcome contradicts the replica's own end marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parallax.compare import sums
from parallax.compare.observations import VIEWS, Array
from parallax.compare.sums import Reader
from parallax.replica.digests import Digests, Open, carried

Opens = Mapping[int, Open]
"""The transactions that are open at a cut, by producer id."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """A range of offsets in which all replicas of a partition have shown the same rows, at both isolation levels.

    Attributes:
        start: first offset of the range.
        end: one past the last offset of the range.
        brokers: ids of the brokers whose replicas agree.
        opens: by view, the transactions that are still open at ``end``.
        rows: how many rows of the range need not be read, of all readers together.
        is_full: whether every reader has shown a record or an end marker at each offset of the range.
    """

    start: int
    end: int
    brokers: frozenset[int]
    opens: Mapping[int, Opens]
    rows: int = 0
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of one reader of a partition: which offsets it has read, and the sums of its rows.

    Attributes:
        ranges: rows of `parallax.views.blocks.RANGE`, one for each range of offsets that was read in one go, in order.
        topic_ids: for each of ``ranges``, Kafka's id of its topic.
        digests: the sums of the rows; the column ``range`` of ``digests.parts`` is an index into ``ranges``.
    """

    ranges: Array
    topic_ids: Sequence[str]
    digests: Digests

    @property
    def is_whole(self) -> bool:
        """Whether the recorded ranges have no gap and the sums of all their rows are known.

        All ranges are then of one topic, too.
        """
        starts, ends = self.ranges["start"], self.ranges["end"]
        goes_on = bool((starts[1:] == ends[:-1]).all()) and len(set(self.topic_ids)) == 1
        return goes_on and bool(self.ranges["whole"].all())

    @property
    def ends(self) -> Array:
        """For each part of the sums (``digests.parts``), the offset below which it and earlier parts count all rows.

        At such an offset the sums of several readers can be compared.
        """
        parts = self.digests.parts
        ends: Array = np.minimum(parts["block_end"], self.ranges["end"][parts["range"]])
        return ends

    def opens(self, before: Opens, start: int, end: int) -> Opens | None:
        """The transactions that are open on this reader at the offset ``end``, by producer id.

        None if the reader showed one of them as committed in one block and as aborted in the next.

        Args:
            before: the transactions that are open at ``start``.
            start: an offset up to which the sums are known, or where the recorded rows begin.
            end: an offset up to which the sums are known.
        """
        moves = self.digests.moves
        first, last = np.searchsorted(moves["part"], np.searchsorted(self.ends, (start, end), side="right"))
        opens, against = carried(before, moves[first:last])
        return None if against else opens


@dataclass(frozen=True, slots=True)
class Alike:
    """A range of offsets whose sums are equal on all readers of a partition.

    Which transactions are open at its end is not known yet. It depends on the transactions that are open where the
    range begins, and `agreed` is given these.

    Attributes:
        start: first offset of the range: where all readers begin. If they begin at different offsets, it is the first
            cut at or above the highest of these.
        end: one past the last offset of the range.
        rows: how many rows of the range need not be read, of all readers together.
        readers: by broker and view, what was recorded of one reader.
    """

    start: int
    end: int
    rows: int
    readers: Mapping[Reader, Recorded]

    @property
    def is_from_one_start(self) -> bool:
        """Whether all readers begin where the range begins."""
        return all(one.ranges["start"][0] == self.start for one in self.readers.values())

    @property
    def is_full(self) -> bool:
        """Whether every reader has shown a record or an end marker at each offset of the range."""
        # No reader shows an offset twice. What is neither of the two is not in such a range (`sums.agreeing`).
        return self.rows == (self.end - self.start) * len(self.readers)

    @property
    def brokers(self) -> frozenset[int]:
        """Ids of the brokers whose replicas agree."""
        return frozenset(broker for broker, _ in self.readers)

    def agreed(self, before: Mapping[int, Opens]) -> Agreed | None:
        """The same range, with the transactions that are open at its end.

        It is None in two cases. A reader showed a transaction as committed in one block and as aborted in the next. Or
        the two levels leave different transactions open.

        Args:
            before: by view, the transactions that are open at ``start``; a view that is left out has no open
                transaction.
        """
        opens = dict[int, Opens]()
        for (_, view), one in self.readers.items():
            if view not in opens:
                found = one.opens(before.get(view, {}), self.start, self.end)
                if found is None:
                    return None
                opens[view] = found
        # Of what a cleaner took between the two readings, only one level shows where a transaction ended.
        if len({frozenset((producer, one.start) for producer, one in its.items()) for its in opens.values()}) > 1:
            return None
        return Agreed(self.start, self.end, self.brokers, opens, self.rows, self.is_full)


def alike(readers: Mapping[Reader, Recorded]) -> Alike | None:
    """Find the range of offsets whose sums are equal on all readers of a partition.

    Args:
        readers: by broker and view, what was recorded of one reader; both views of each replica are needed.

    Returns:
        The range. None if no offset has equal sums, or if the sums of some rows are not known.
    """
    both = {(broker, view) for broker, _ in readers for view in VIEWS}
    if not readers or both != set(readers) or not all(one.is_whole for one in readers.values()):
        return None
    if len({one.topic_ids[0] for one in readers.values()}) > 1:
        return None
    marks = {reader: sums.recorded(one.digests.parts, one.ends, one.ranges) for reader, one in readers.items()}
    start = sums.first_cut(marks.values())
    marks = sums.behind(marks, start)
    if len(marks) < len(readers):
        return None
    cuts = sums.agreeing(marks, start)[-1:]
    return Alike(start, int(cuts[0]), int(sums.counted(marks, "rows", cuts)[0]), readers) if len(cuts) else None


def agreed(readers: Mapping[Reader, Recorded], before: Mapping[int, Opens] | None = None) -> Agreed | None:
    """Find the range of offsets whose sums are equal on all readers, and the transactions that are open behind it.

    Args:
        readers: by broker and view, what was recorded of one reader; both views of each replica are needed.
        before: by view, the transactions that are open where the recorded offsets begin; None if no transaction is open
            there.

    Returns:
        The range, from where the readers begin. None if no offset has equal sums. None if the readers begin at
        different offsets. None if the sums of some rows are not known.
    """
    found = alike(readers)
    return found.agreed(before or {}) if found is not None and found.is_from_one_start else None


__all__ = ["Agreed", "Alike", "Opens", "Recorded", "agreed", "alike"]
