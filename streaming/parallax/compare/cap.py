"""Keeps a partition's state under ``compare.state_cap_bytes``, by leaving out the rows with the highest offsets.

The offsets that are left out are a *deferred range*. They are not compared until an audit compares them, and the
coverage counts them as unknown.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import unread
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Array
from parallax.compare.replicas import common_position, furthest_position, read_at, unmark
from parallax.compare.rules.arrays import latest_of_keys
from parallax.compare.state import DEFERRED, EARLY, INTERVAL, MARKER, NEVER, NULL_KEY, TOMBSTONE, PartitionState
from parallax.model import UNKNOWN, UnknownReason

CONTENT_SHARE, COMMITTED_SHARE, _TRANSACTIONS_SHARE = 0.25, 0.5, 0.25


def stored(state: PartitionState, view: int, offsets: Array) -> Array:
    """For each of ``offsets``, whether the state takes in a row of the view ``view`` at that offset.

    It does not if the offset is below the floor or in a deferred range.
    """
    kept: Array = offsets >= state.partition["floor"][0, view]
    for deferred in state.deferred[state.deferred["view"] == view]:
        kept &= (offsets < deferred["start"]) | (offsets >= deferred["end"])
    return kept


def is_deferring(state: PartitionState, view: int) -> bool:
    """Whether the state leaves out rows of a view now, because it has reached its cap."""
    return bool((state.deferred["view"] == view).any())


def close_ranges(state: PartitionState) -> None:
    """End or drop deferred ranges, by how far the replicas have been read now.

    A growing range ends once the slowest replica has reached its start. Its end is the position of the furthest
    replica, and from there on rows are compared again. So a slow replica costs one range, and not all offsets that
    follow. A range that all replicas have passed is dropped, and its offsets become unknown until an audit.
    """
    if not len(state.deferred):
        return
    deferred = state.deferred.copy()
    for view in VIEWS:
        common = common_position(state, view)
        growing = (deferred["view"] == view) & (deferred["end"] == NEVER) & (deferred["start"] <= common)
        deferred["end"][growing] = np.maximum(deferred["start"][growing], furthest_position(state, view))
        passed = (deferred["view"] == view) & (deferred["end"] <= common)
        for start, end in zip(deferred["start"][passed].tolist(), deferred["end"][passed].tolist(), strict=True):
            unread.add(state, view, start, end, UnknownReason.DEFERRED, read_at(state))
        deferred = deferred[~passed]
    state.deferred = deferred


def lose_markers(state: PartitionState, offsets: Array) -> None:
    """Record that the state may lack end markers from the lowest to the highest of the given offsets.

    So the first marker that the state holds behind a record may be of a later transaction.
    """
    if len(offsets):
        unmark(state, int(offsets.min()), int(offsets.max()) + 1)


def may_lack_marker(state: PartitionState, offsets: Array) -> Array:
    """For each of ``offsets``, whether the state may lack an end marker that a replica showed there.

    It may where the cap kept markers out. A record whose COMMIT may be such a marker counts as unknown.
    """
    first, end = state.partition["unmarked"][0]
    mask: Array = (offsets >= first) & (offsets < end) & ~np.isin(offsets, state.markers["offset"])
    return mask


def may_lack_marker_between(state: PartitionState, starts: Array, ends: Array) -> Array:
    """For each range of offsets, whether the state may have left out an end marker in it.

    Args:
        state: the partition's state.
        starts: the first offset of each range.
        ends: for each range, one past its last offset.
    """
    first, end = state.partition["unmarked"][0]
    mask: Array = (starts < end) & (first < ends)
    return mask


def enforce(state: PartitionState, cap_bytes: int) -> None:
    """Shrink a state to ``cap_bytes`` by dropping the rows with the highest offsets.

    Their offsets become a deferred range, which an audit has to compare.
    """
    _cap_content(state, int(cap_bytes * CONTENT_SHARE) // state.content.itemsize)
    _cap_committed(state, int(cap_bytes * COMMITTED_SHARE) // state.candidates.itemsize)
    _cap_transactions(state, int(cap_bytes * _TRANSACTIONS_SHARE) // (MARKER.itemsize + 2 * INTERVAL.itemsize))


def _cap_content(state: PartitionState, limit: int) -> None:
    if len(state.content) > limit:
        cut = int(state.content["offset"][limit])
        state.content = state.content[state.content["offset"] < cut]
        _defer(state, READ_UNCOMMITTED, cut)


def _cap_committed(state: PartitionState, limit: int) -> None:
    if len(state.candidates) > limit:
        # What is judged early is pending as well, and judged once more when all have passed it.
        state.candidates = state.candidates[state.candidates["flags"] & EARLY == 0]
    if len(state.candidates) > limit:
        oldest = np.argsort(state.candidates["offset"], kind="stable")
        left_out = state.candidates["offset"][oldest[limit:]]
        unread.add_offsets(state, READ_COMMITTED, left_out, UnknownReason.DEFERRED, read_at(state))
        state.candidates = state.candidates[oldest[:limit]]
    room = limit - len(state.candidates)
    if len(state.pending) > room:
        state.pending = without_superseded(state.pending, int(state.partition["strict_from"][0]))
    if len(state.pending) > room:
        cut = int(state.pending["offset"][room])
        state.pending = state.pending[:room]
        _defer(state, READ_COMMITTED, cut)


def without_superseded(pending: Array, strict_from: int) -> Array:
    """Drop the records that a later record of the same key supersedes, because only a key's latest value is compared.

    Records of transactions are kept all the same, because their outcome is compared.

    Args:
        pending: the records (`PENDING` rows), in offset order.
        strict_from: first offset from which on the topic is not compacted. All records from there on are compared, so
            they are kept; `NEVER` if there is no such offset.

    Returns:
        The rows that are kept, in offset order.
    """
    plain = (pending["producer_id"] == UNKNOWN) & (pending["aborted"] == 0) & (pending["offset"] < strict_from)
    visible = (pending["visible"] != 0) & (pending["aborted"] == 0) & (pending["flags"] & NULL_KEY == 0)
    keys = pending["key_hash_hi"], pending["key_hash_lo"]
    latest = latest_of_keys(*keys, [(keys[0][visible], keys[1][visible], pending["offset"][visible])])
    return pending[~(plain & (latest > pending["offset"]))]


def _cap_transactions(state: PartitionState, limit: int) -> None:
    if len(state.markers) > limit:
        # Markers that all have been read past only give disputed outcomes a direction, or make a deletion sure.
        stays = state.markers["offset"] >= state.partition["floor"][0, READ_UNCOMMITTED]
        stays[_behind_deletions(state)[: limit // 2]] = True
        lose_markers(state, state.markers["offset"][~stays])
        state.markers = state.markers[stays]
    if len(state.markers) > limit:
        cut = int(state.markers["offset"][limit])
        lose_markers(state, state.markers["offset"][limit:])
        state.markers = state.markers[:limit]
        _defer(state, READ_UNCOMMITTED, cut)
        state.content = state.content[state.content["offset"] < cut]
    excess = len(state.intervals) - 2 * limit
    if excess > 0:
        settled = np.flatnonzero((state.intervals["end"] != NEVER) & (state.intervals["missed"] == NEVER))
        newest = settled[np.argsort(state.intervals["end"][settled], kind="stable")][-excess:]
        # An end marker that a replica missed within them shows only when another one is read past it.
        around = np.concatenate([state.intervals["start"][newest], state.intervals["end"][newest]])
        unread.add_offsets(state, READ_UNCOMMITTED, around, UnknownReason.DEFERRED, read_at(state))
        state.intervals = np.delete(state.intervals, newest)


def _behind_deletions(state: PartitionState) -> Array:
    """Indices of the end markers directly behind a tombstone that waits for its verdict, in offset order."""
    waiting = np.concatenate(
        [rows["offset"][rows["flags"] & TOMBSTONE != 0] for rows in (state.candidates, state.pending)]
    )
    return np.flatnonzero(np.isin(state.markers["offset"], waiting + 1))


def _defer(state: PartitionState, view: int, start: int) -> None:
    growing = (state.deferred["view"] == view) & (state.deferred["end"] == NEVER)
    if growing.any():
        start = min(start, int(state.deferred["start"][growing].min()))
    # A closed range above the new start is part of what is deferred now.
    kept = state.deferred[(state.deferred["view"] != view) | (~growing & (state.deferred["start"] < start))]
    state.deferred = np.concatenate([kept, np.array([(view, start, NEVER)], DEFERRED)])
