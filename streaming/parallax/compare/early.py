"""Judges tombstones while a replica is away or frozen, by comparing only the replicas that are still read.

Usually an absence is judged once every replica has passed the record. So an absent replica would keep all others from
being compared. A surely committed tombstone need not wait: a replica is wrong if it has passed the tombstone, and
everything that may have superseded the tombstone, and still shows an older value. What the absent replica holds does
not matter.

What may have superseded the tombstone lies below the leader's last stable offset, because replicas copy from the
leader. So no tombstone is judged early unless the leader reports its last stable offset.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import replicas
from parallax.compare.observations import READ_COMMITTED, Array
from parallax.compare.rules import latest
from parallax.compare.rules.arrays import slots_of
from parallax.compare.state import EARLY, PartitionState, kept
from parallax.model import UNKNOWN


def at_hand(state: PartitionState) -> int:
    """Bit mask (bit n is slot n) of the replicas that are still being read.

    They are members of the replica set that answer, and their last stable offset moves.
    """
    able = state.brokers["reachable"] & (state.brokers["stalled_since"] == UNKNOWN)
    return replicas.members(state) & sum(1 << slot for slot, is_able in enumerate(able.tolist()) if is_able)


def follow_leader(state: PartitionState, leader: int | None, common: int) -> Array:
    """Find tombstones to judge without the absent replicas; returns them as absences (`CANDIDATE` rows).

    It also marks them in ``state.pending``. If no broker leads, or the leader does not answer, it finds none and
    removes earlier marks. Then those tombstones wait for all replicas again.

    Args:
        state: the partition's state; it is changed.
        leader: broker id of the leader; -1 if there is none. None if no progress row has named one since the last step:
            then nothing changes.
        common: the read_committed offset below which every replica was read.
    """
    none = state.candidates[:0]
    if leader is None:
        return none
    if not bool(state.brokers["reachable"][state.brokers["broker"] == leader].any()):
        _give_up(state)
        return none
    able = at_hand(state)
    if able in (0, replicas.members(state)):
        return none
    reached = int(state.brokers["position"][slots_of(able), READ_COMMITTED].min())
    first, end = np.searchsorted(state.pending["offset"], (common, reached))
    strict_from = int(state.partition["strict_from"][0])
    rows = state.pending[first:end]
    found = first + np.flatnonzero(latest.early_absences(rows, able, state.markers, strict_from=strict_from))
    if not len(found):
        return none
    state.pending = state.pending.copy()
    state.pending["flags"][found] |= EARLY
    return latest.as_candidates(state.pending[found], int(state.partition["passed_at"][0]))


def _give_up(state: PartitionState) -> None:
    """Let what waits be found again, once the leader can be asked again."""
    if (is_early(state.pending)).any():
        state.pending = state.pending.copy()
        state.pending["flags"] &= ~np.uint8(EARLY)
    state.candidates = kept(state.candidates, ~is_early(state.candidates))


def is_early(rows: Array) -> Array:
    """For each row, whether it is marked as a tombstone that is judged before absent replicas are back (flag `EARLY`).

    Args:
        rows: `PENDING` or `CANDIDATE` rows.
    """
    mask: Array = rows["flags"] & EARLY != 0
    return mask


def waiting(state: PartitionState, common: int) -> Array:
    """The absences in the state that still wait (`CANDIDATE` rows).

    A tombstone that was found early is left out once every replica has passed it. It is still in ``state.pending``, and
    is now judged like any other record.

    Args:
        state: the partition's state.
        common: the read_committed offset below which every replica was read.
    """
    return kept(state.candidates, ~is_early(state.candidates) | (state.candidates["offset"] >= common))


def concerned(state: PartitionState, candidates: Array) -> Array:
    """For each absence (`CANDIDATE` row), a bit mask of the replicas whose reading its verdict needs.

    These are the replicas whose logs reach down to the offset. If the absence is judged early, only replicas that are
    still read and have passed the offset count.
    """
    held = replicas.holding(state, candidates["offset"])
    early = is_early(candidates)
    if not early.any():
        return held
    positions = replicas.positions(state, READ_COMMITTED)
    passed = np.zeros(len(candidates), np.uint32)
    for slot in slots_of(at_hand(state)):
        passed |= np.where(positions[slot] > candidates["offset"], np.uint32(1 << slot), np.uint32(0))
    return np.where(early, held & passed, held)
