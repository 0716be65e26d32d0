"""Finds the room of a partition: the offsets where a record or an end marker may have come and gone unseen.

Example: offset 6 was never shown, and nobody read there before a cleaner can have passed. There is room at 6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from parallax.evidence.ledger import Ledger, Timely
from parallax.evidence.lineage import Lineage
from parallax.evidence.log import Belongs
from parallax.model import UNKNOWN

Span = tuple[int, int]
"""A first offset, and one past the last."""


class Room:
    """The offsets at which there may have been a record or an end marker that no reader was shown.

    There is no room where a fact of the current log is. There is none either where the current log was read *in time*.
    A cleaner removes a tombstone, or the end marker of a transaction without records, ``delete.retention.ms`` after its
    first pass over it (KIP-534). A cleaner passes only over offsets below the high watermark. So a reading is in time
    for all offsets that the leader's high watermark had not passed ``delete.retention.ms`` earlier. A record that a
    newer one of its key has superseded may be removed sooner. The newer one is then there, further up.

    Example: the leader's high watermark was 5 at 1 s, broker 2 was read from 3 to 9 at 2 s, and the retention is 2 s.
    There is no room from 5 on. Counter-example: with a retention of 0.5 s, nothing says how far the log had been
    cleaned by 1.5 s. There is room wherever no fact is.

    In a topic that is not compacted, no cleaner removes anything, and readings do not count: room is wherever no fact
    is.
    """

    def __init__(self, ledger: Ledger, lineage: Lineage, end: int, *, compacted: bool) -> None:
        """Find the room below ``end``; everything at ``end`` or beyond counts as room.

        Args:
            ledger: all evidence.
            lineage: says which of it is of the current log.
            end: offset up to which room is looked for.
            compacted: whether the topic is compacted.
        """
        self.end = end
        sure = [(place.offset, place.offset + 1) for place in ledger.facts if self._is_sure(ledger, lineage, place)]
        timely = in_time(lineage, ledger.timely()) if compacted else []
        self.gaps = without(end, [*sure, *timely])
        """The room below ``end``, as ranges in ascending order."""
        self._ends = [end for _, end in self.gaps]

    @staticmethod
    def _is_sure(ledger: Ledger, lineage: Lineage, place: tuple[int, int]) -> bool:
        return place not in ledger.unlike and lineage.of(place) is Belongs.YES  # type: ignore[arg-type]

    def between(self, low: int, high: int) -> bool:
        """Whether a record or an end marker may have come and gone unseen above ``low`` and below ``high``."""
        return bool(self.spans(low, high))

    def spans(self, low: int, high: int) -> list[Span]:
        """The ranges above ``low`` and below ``high`` where something may have come and gone unseen; ascending."""
        first, found = low + 1, list[Span]()
        for start, end in self.gaps[bisect_right(self._ends, first) :]:
            if max(start, first) >= high:
                break
            found.append((max(start, first), min(end, high)))
        beyond = max(self.end, first)
        return [*found, (beyond, high)] if beyond < high else found


def in_time(lineage: Lineage, timely: Iterable[Timely]) -> list[Span]:
    """The ranges of the current log that were read before a cleaner can have removed a tombstone or marker there.

    Args:
        lineage: says how far a log that was read is the same as the current one.
        timely: the ranges that were read in time, of any log.
    """
    found = []
    for start, end, epoch in timely:
        stands = lineage.stands_below(epoch) if epoch != UNKNOWN else start if lineage.cut_epochs else end
        if start < min(end, stands):
            found.append((start, min(end, stands)))
    return found


def without(end: int, spans: Iterable[Span]) -> list[Span]:
    """The ranges below ``end`` that none of some spans covers, ascending.

    Args:
        end: one past the last offset.
        spans: in any order; they may overlap.
    """
    left, at = list[Span](), 0
    for start, stop in [*sorted(spans), (end, end)]:
        if at < min(start, end):
            left.append((at, min(start, end)))
        at = max(at, stop)
    return left
