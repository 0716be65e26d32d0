"""Remembers how each replica showed a record whose value is already judged, until its outcome can be judged too.

The read_committed reader may be ahead of the read_uncommitted reader. But only the latter shows which end markers a
replica missed, and so whether the replica showed a record with the right outcome. By then other replicas may have
cleaned the record, and its key may have a newer value. So the state keeps the record as a `CANDIDATE` row with a flag.
It does so until all read_uncommitted readers have passed the end of the record's transaction. The replicas that showed
the record say where that end lies.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import replicas
from parallax.compare.observations import READ_UNCOMMITTED, Array
from parallax.compare.rules import latest, markers
from parallax.compare.rules.arrays import has_bit
from parallax.compare.state import EARLY, FOR_OUTCOME, MAX_BROKERS, NEVER, PartitionState
from parallax.model import UNKNOWN


def is_judged(candidates: Array) -> Array:
    """For each row, whether its value is judged already, and it is kept only until its outcome can be judged.

    Args:
        candidates: `CANDIDATE` rows.
    """
    mask: Array = candidates["flags"] & FOR_OUTCOME != 0
    return mask


def waiting(candidates: Array) -> int:
    """How many absences still wait for a verdict on their value.

    Args:
        candidates: `CANDIDATE` rows; those that are kept only for their outcome do not count.
    """
    return int(np.count_nonzero(~is_judged(candidates)))


def still(state: PartitionState) -> Array:
    """The remembered records that must be kept, as `CANDIDATE` rows.

    These are the records of which some read_uncommitted reader has not passed the end of the transaction. An end marker
    that this reader shows later may prove a replica wrong.
    """
    rows = state.candidates[is_judged(state.candidates)]
    return rows[_within(rows, _unended(state))]


def passed(state: PartitionState, rows: Array, members: Array) -> Array:
    """Of the records that all read_committed readers have just passed, those to remember, as `CANDIDATE` rows.

    A record that some replicas lack is remembered if the end of its transaction may still prove one of them wrong. A
    record that all replicas show is remembered only if one of them is known to have missed an end marker within its
    transaction.

    Args:
        state: the partition's state, which holds the transactions.
        rows: `PENDING` rows that all readers have passed, without the absences that wait for a verdict.
        members: for each row, a bit mask of the replica set.
    """
    mine = rows["producer_id"] != UNKNOWN
    rows, unended = rows[mine], _unended(state)
    if not len(rows) or not len(unended):
        return state.candidates[:0]
    proof = state.markers[~markers.disputed_offsets(state.markers)]
    known = markers.find_missed(unended, proof, np.full(MAX_BROKERS, NEVER), replicas.members(state))
    is_absent = latest.lacking(rows, members[mine]) != 0
    wanted = (is_absent & _within(rows, unended)) | _within(rows, known[known["missed"] != NEVER])
    return _remembered(latest.as_candidates(rows[wanted], UNKNOWN))


def judged(state: PartitionState, before: Array, after: Array) -> Array:
    """Of the absences that have just been judged or explained, those to remember, as `CANDIDATE` rows.

    An absent record is remembered if its outcome can still be judged: some read_uncommitted reader has not passed the
    end of its transaction.

    Args:
        state: the partition's state, which holds the transactions.
        before: `CANDIDATE` rows before the step.
        after: the rows of ``before`` that still wait for a verdict.
    """
    # What is judged early is pending as well.
    gone = (before["flags"] & EARLY == 0) & (before["producer_id"] != UNKNOWN)
    rows = before[gone & ~np.isin(before["offset"], after["offset"])]
    return _remembered(rows[_within(rows, _unended(state))])


def _remembered(rows: Array) -> Array:
    rows["flags"] = (rows["flags"] & ~np.uint8(EARLY)) | FOR_OUTCOME
    return rows


def _unended(state: PartitionState) -> Array:
    """The transactions within which an end marker may come to be known that their replica has missed.

    Of one of which no end was read, until all have been read as far as any replica shows its log.
    """
    common, member = replicas.common_position(state, READ_UNCOMMITTED), state.brokers["member"]
    shown_to = int(state.brokers["high_watermark"][member].max(initial=UNKNOWN))
    end = state.intervals["end"]
    # Where the marker was not read, the replica has said that it had ended below that offset.
    passed_end = common >= end + (state.intervals["end_type"] != markers.UNREAD)
    return state.intervals[np.where(end == NEVER, common < shown_to, ~passed_end)]


def _within(rows: Array, intervals: Array) -> Array:
    """Mask of the records that lie in a transaction of a replica that showed them."""
    found = np.zeros(len(rows), np.bool_)
    showed = rows["visible"] | rows["aborted"]
    for slot in np.unique(intervals["slot"]).tolist() if len(rows) else ():
        at = np.flatnonzero(has_bit(showed, slot) & ~found)
        slots = np.full(len(at), slot)
        found[at] = markers.within(intervals, slots, rows["producer_id"][at], rows["offset"][at])
    return found


__all__ = ["is_judged", "judged", "passed", "still", "waiting"]
