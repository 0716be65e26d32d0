"""Up to which offset all replicas have shown the same rows, found by comparing sums of their rows. Pure.

The sums of each reader are kept block by block, and grow as it reads on. Two readers can be compared at a *cut*: an
offset up to which the sums of both are known. Cuts are the ends of the blocks that both have passed, and the ends of
their ranges. So replicas that are read up to the same offset are compared there. Replicas of a busy partition are
compared at the last end of a block.

The range between two cuts has *agreed* under two conditions. The sums of all replicas are equal at both isolation
levels. No replica shows a row that is judged by itself: a listed transaction, an emptied marker, or a record shown
otherwise than its own end marker. The sums also say which transactions are still open at a cut (`carried`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from parallax.compare.observations import VIEWS, Array
from parallax.replica.digests import BLOCK_BITS, Digests, Open, carried

Reader = tuple[int, int]
"""View and broker."""

Opens = Mapping[int, Open]
"""The transactions that are open at a cut, by producer id."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """A range in which all replicas have shown the same at both isolation levels.

    Attributes:
        start: its first offset.
        end: the offset behind its last one.
        brokers: the brokers whose replicas have.
        opens: by view, the transactions that are open at the end of the range.
        before: by reader, the transactions that were open at the offset up to which its rows had been taken in one by
            one. A reader of which this is not known is left out.
        rows: how many rows of all readers together need not be compared one by one.
    """

    start: int
    end: int
    brokers: frozenset[int]
    opens: Mapping[int, Opens]
    before: Mapping[Reader, Opens]
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a reader's rows below an offset add up to, from some beginning on, and what goes on there."""

    offset: int
    counts: tuple[int, int, int]
    low: int
    high: int
    odd: int
    opens: Opens

    def since(self, other: _Mark) -> tuple[object, ...]:
        """What must be the same on all replicas."""
        counts = tuple(mine - its for mine, its in zip(self.counts, other.counts, strict=True))
        return counts, (self.low - other.low) % 2**64, (self.high - other.high) % 2**64

    def plus(self, offset: int, part: Array, moves: Array) -> _Mark:
        """Behind one more part."""
        opens, against = carried(self.opens, moves) if len(moves) else (self.opens, 0)
        counts = self.counts[0] + int(part["records"]), self.counts[1] + int(part["commits"])
        odd = against + int(part["contradicted"]) + int(part["listed"]) + int(part["emptied"])
        return _Mark(
            offset,
            (*counts, self.counts[2] + int(part["aborts"])),
            (self.low + int(part["low"])) % 2**64,
            (self.high + int(part["high"])) % 2**64,
            self.odd + odd,
            opens,
        )


def _beginning(offset: int, opens: Opens) -> _Mark:
    return _Mark(offset, (0, 0, 0), 0, 0, 0, opens)


@dataclass(slots=True)
class _Reading:
    """One reader: its marks, in order; ``is_known``: what went on where they begin is known."""

    block_bits: int
    is_known: bool
    marks: list[_Mark] = field(default_factory=list)
    topic_id: str = ""

    @property
    def end(self) -> int:
        """Next offset to read; -1 before the first range."""
        return self.marks[-1].offset if self.marks else -1

    def take(self, span: Array, topic_id: str, parts: Array, moves: Sequence[Array]) -> None:
        """Take in a range, with its parts and the moves of each of them."""
        start, end = int(span["start"]), int(span["end"])
        goes_on = not self.marks or (start == self.end and topic_id == self.topic_id)
        self.topic_id = topic_id
        if not span["whole"] or not goes_on:
            self.marks, self.is_known = [_beginning(end, {})], False
            return
        if not self.marks:
            self.marks = [_beginning(start, {})]
        for part, mine in zip(parts, moves, strict=True):
            behind = min((int(part["block"]) + 1) << self.block_bits, end)
            self.marks.append(self.marks[-1].plus(behind, part, mine))
        if self.end < end:
            last = self.marks[-1]
            self.marks.append(_Mark(end, last.counts, last.low, last.high, last.odd, last.opens))

    def at(self, offset: int) -> _Mark | None:
        """What is known at an offset; None where that is no cut."""
        n = bisect_right(self.marks, offset, key=lambda mark: mark.offset)
        if not n or offset > self.end:
            return None
        mark = self.marks[n - 1]
        is_cut = mark.offset == offset or not offset & ((1 << self.block_bits) - 1)
        return mark if is_cut else None

    def forget_below(self, offset: int) -> None:
        """Keep what is known from an offset on."""
        n = bisect_right(self.marks, offset, key=lambda mark: mark.offset)
        del self.marks[: max(0, n - 1)]


class Sums:
    """The sums of the rows that each reader of one partition has shown since the last comparison.

    Args:
        fresh: nothing of the partition has been compared so far, so no transaction is open at its beginning. Otherwise
            it is not known which ones are.
        block_bits: see `parallax.replica.digests`.
    """

    def __init__(self, *, fresh: bool, block_bits: int = BLOCK_BITS) -> None:
        self._fresh = fresh
        self._block_bits = block_bits
        self._readers: dict[Reader, _Reading] = {}
        self._start: int | None = None
        """The offset up to which all were last compared.

        None if it is unknown whether the same transactions go on there on all of them.
        """

    def take(self, reader: Reader, ranges: Array, topic_ids: Sequence[str], digests: Digests) -> None:
        """Add what a reader has read: its ranges of offsets, and the sums of the rows in them.

        Args:
            reader: view and broker of the reader.
            ranges: `parallax.views.blocks.RANGE` rows of the partition, in order.
            topic_ids: the topic id of each range.
            digests: sums of the rows; ``range`` of each part is an index into ``ranges``.
        """
        reading = self._readers.setdefault(reader, _Reading(self._block_bits, self._fresh))
        for n, (span, topic_id) in enumerate(zip(ranges, topic_ids, strict=True)):
            at = (digests.parts["range"] == n).nonzero()[0]
            moves = [digests.moves[digests.moves["part"] == i] for i in at.tolist()]
            reading.take(span, topic_id, digests.parts[at], moves)

    def agreed(self, brokers: Collection[int], stood: Mapping[Reader, int]) -> Agreed | None:
        """Compare the readers' sums up to their last common cut; the next comparison begins there.

        Args:
            brokers: ids of the replica set.
            stood: by reader, the offset up to which its rows have been taken in one by one.

        Returns:
            The range since the last comparison, if all replicas have shown the same there. None if they have not, or if
            that is not known.
        """
        wanted = [(view, broker) for view in VIEWS for broker in brokers]
        readings = {reader: self._readers.get(reader) for reader in wanted}
        if not brokers or any(one is None or not one.is_known or not one.marks for one in readings.values()):
            self._start = None
            return None
        known = {reader: one for reader, one in readings.items() if one is not None}
        end = self._last_cut(list(known.values()))
        if self._start is None:
            self._start = self._common_beginning(known)
        if end is None or (self._start is not None and end <= self._start):
            return None
        start, self._start = self._start, None
        opens = _opens_at(known, end)
        if opens is not None:
            self._start = end
        made = None
        if start is not None and opens is not None and self._is_same(known, start, end):
            before = {r: mark.opens for r, one in known.items() if (mark := one.at(stood.get(r, -1))) is not None}
            rows = sum(_rows_between(one, start, end) for one in known.values())
            made = Agreed(start, end, frozenset(brokers), opens, before, rows)
        for one in known.values():
            one.forget_below(end)
        return made

    @staticmethod
    def _common_beginning(known: Mapping[Reader, _Reading]) -> int | None:
        """Where all of them begin, if that is one offset at which the same goes on."""
        begin = min(one.marks[0].offset for one in known.values())
        is_one = all(one.marks[0].offset == begin for one in known.values())
        return begin if is_one and _opens_at(known, begin) is not None else None

    def begin_at(self, offset: int, brokers: Collection[int]) -> None:
        """Let all sums begin at an offset, because the rows below it have been compared one by one.

        Nothing changes unless every reader of these brokers has read exactly up to the offset. Call it only where no
        transaction is open at the offset.
        """
        for view in VIEWS:
            for broker in brokers:
                reading = self._readers.get((view, broker))
                if reading is None or reading.end != offset:
                    return
        for (_, broker), reading in self._readers.items():
            if broker in brokers:
                reading.marks, reading.is_known = [_beginning(offset, {})], True
        self._start = offset

    def _last_cut(self, readings: Sequence[_Reading]) -> int | None:
        """The highest offset that is a cut of all of them."""
        lowest = min(one.end for one in readings)
        block = (lowest >> self._block_bits) << self._block_bits
        return next((at for at in (lowest, block) if all(one.at(at) is not None for one in readings)), None)

    @staticmethod
    def _is_same(known: Mapping[Reader, _Reading], start: int, end: int) -> bool:
        """Whether all have shown the same between two cuts, and nothing that is judged by itself."""
        sums: dict[int, set[tuple[object, ...]]] = {}
        for (view, _), one in known.items():
            first, last = one.at(start), one.at(end)
            if first is None or last is None or last.odd != first.odd:
                return False
            sums.setdefault(view, set()).add(last.since(first))
        return all(len(each) == 1 for each in sums.values())


def _opens_at(known: Mapping[Reader, _Reading], offset: int) -> dict[int, Opens] | None:
    """By view, what goes on at a cut on all replicas; None where it is no cut of all, or not the same on all."""
    found: dict[int, Opens] = {}
    for (view, _), one in known.items():
        mark = one.at(offset)
        if mark is None or found.setdefault(view, mark.opens) != mark.opens:
            return None
    return found


def _rows_between(one: _Reading, start: int, end: int) -> int:
    first, last = one.at(start), one.at(end)
    return 0 if first is None or last is None else sum(last.counts) - sum(first.counts)


__all__ = ["Agreed", "Opens", "Reader", "Sums"]
