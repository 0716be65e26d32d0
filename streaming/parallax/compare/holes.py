"""Finds holes: offsets at which no replica holds anything, though no cleaner was ever there.

Kafka gives every offset to a record or an end marker. Only the cleaner takes some away; retention and DeleteRecords
take all up to an offset. So where nothing is compacted, an offset between two others that a log lacks was lost. If some
replica shows it, the rules find the difference. If none does, it was lost before anybody read it. That accuses nobody:
it may have been an end marker, or a record that was aborted. So the offset is unknown, and no audit can change that.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.observations import READ_UNCOMMITTED, VIEWS, Array
from parallax.compare.state import UNREAD_REASONS, PartitionState
from parallax.model import UnknownReason


def note(state: PartitionState, end: int) -> None:
    """Make the offsets unknown that every reader has passed and that no replica has shown, where nothing is compacted.

    Call it before a rule drops rows of the range, and before the floor of read_uncommitted is raised to its end.

    Args:
        state: the partition's state; its unknown ranges are changed.
        end: one past the last offset that every reader of read_uncommitted has passed.
    """
    partition = state.partition
    start = max(
        int(partition["floor"][0, READ_UNCOMMITTED]),
        int(partition["strict_from"][0]),
        replicas.retained_from(state),
    )
    if end <= start or _is_full(state.content["offset"], start, end):
        return
    shown = np.concatenate([table["offset"] for table in (state.content, state.markers, state.pending)])
    left = _gaps(np.unique(shown[(shown >= start) & (shown < end)]), start, end)
    for table in (state.unread, state.deferred):
        for span in table[table["view"] == READ_UNCOMMITTED]:
            left = [part for one in left for part in _outside(one, int(span["start"]), int(span["end"]))]
    for first, last in left:
        for view in VIEWS:
            unread.add(state, view, first, last, UnknownReason.LOST_UNREAD, replicas.read_at(state))


def forget(state: PartitionState, offset: int) -> None:
    """Take back what was noted from an offset on. A log was truncated there, and may hold other records now."""
    mine = state.unread["reason"] == UNREAD_REASONS.index(UnknownReason.LOST_UNREAD)
    table = state.unread.copy()
    table["end"][mine] = np.minimum(table["end"][mine], offset)
    state.unread = table[table["start"] < table["end"]]


def _is_full(offsets: Array, start: int, end: int) -> bool:
    """Whether offsets, which are ascending, contain a whole range."""
    first, last = np.searchsorted(offsets, (start, end))
    inside = offsets[first:last]
    return bool(len(inside) >= end - start and 1 + np.count_nonzero(inside[1:] != inside[:-1]) == end - start)


def _gaps(offsets: Array, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges between ``start`` and ``end`` that lack these offsets: a first offset, and one past the last."""
    edges = np.concatenate([[start - 1], offsets, [end]])
    at = np.flatnonzero(np.diff(edges) > 1)
    return list(zip((edges[at] + 1).tolist(), edges[at + 1].tolist(), strict=True))


def _outside(one: tuple[int, int], start: int, end: int) -> list[tuple[int, int]]:
    """What of a range is below ``start``, or from ``end`` on."""
    parts = (one[0], min(one[1], start)), (max(one[0], end), one[1])
    return [part for part in parts if part[0] < part[1]]


__all__ = ["forget", "note"]
