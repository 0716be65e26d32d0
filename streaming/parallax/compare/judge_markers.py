"""Invariant I2 (outcome): accuses replicas that missed an end marker, or whose marker contradicts what they show."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import cap, replicas, unread
from parallax.compare.accusing import (
    MARKER_NAME,
    OUTCOME_NAME,
    RAISED_MISSING,
    RAISED_TURNED,
    SHOWN_WRONG,
    broker_of,
    end_unproven,
    epoch_of,
    floor_of,
    leave_no_room,
    named,
    other_keys,
    outcome_unproven,
    outcome_unseen,
    outcomes_shown,
    shown_committed,
)
from parallax.compare.observations import ABORT, COMMIT, READ_COMMITTED, READ_UNCOMMITTED, Array
from parallax.compare.rules import markers, outcome
from parallax.compare.rules.arrays import has_bit, joined
from parallax.compare.state import NEVER, REPORTED, PartitionState
from parallax.compare.suspect import Accusation
from parallax.model import UNKNOWN, FindingKind, Rule, UnknownReason


def judge_markers(state: PartitionState) -> list[Accusation]:
    """Accuse replicas that missed an end marker.

    Args:
        state: the partition's state; it is changed.

    Returns:
        An accusation of ``marker_missing`` for a transaction that is still open on the accused. If a marker of the
        other type ended it there, the accusation is of the wrong outcome. If the replica's own marker contradicts the
        outcome that it shows, it is of ``outcome_contradicts_marker``. None is raised twice.
    """
    positions = replicas.positions(state, READ_UNCOMMITTED)
    state.intervals = markers.close_ended(state.intervals, positions)
    state.intervals = markers.end_at_own(state.intervals, state.markers, positions)
    proof = state.markers[~markers.disputed_offsets(state.markers)]
    unpassed = proof[proof["offset"] >= floor_of(state, READ_UNCOMMITTED)]
    members = replicas.members(state)
    state.intervals = markers.find_missed(state.intervals, unpassed, positions, members)
    _add_later_ones(state, proof, positions, members)
    missed = np.flatnonzero(state.intervals["missed"] != NEVER)
    if not len(missed):
        return []
    intervals = state.intervals = state.intervals.copy()
    committed = replicas.positions(state, READ_COMMITTED)
    turned, passed_open = outcome.turned(intervals), markers.passed_open(intervals)
    accusations = []
    settling: list[int] = []
    for i in missed:
        interval = intervals[i]
        if interval["end"] == NEVER and not interval["told"] & RAISED_TURNED:
            accusations += _open_there(state, interval)
        elif turned[i]:
            own = outcome.wrongly_shown(shown_committed(state), interval)
            if len(own):
                intervals["told"][i] |= SHOWN_WRONG
            if not len(own) and committed[interval["slot"]] <= interval["missed"]:
                continue
            if not interval["told"] & RAISED_TURNED:
                intervals["told"][i] |= RAISED_TURNED
                against = outcome.shown_against(state.unended, interval)[: 0 if len(own) else 1]
                contradicted = accuse_contradicted(state, against, np.repeat(interval["end"], len(against)))
                apart = [one for one in _last_of(state, interval, own) if not _is_whole(one, interval)]
                accusations += contradicted or [_turned(state, interval, own), *apart]
            settling.append(int(i))
        elif passed_open[i] and not interval["told"] & RAISED_TURNED:
            found = _directly_turned(state, interval)
            accusations += found
            if any(_is_whole(one, interval) for one in found):
                intervals["told"][i] |= RAISED_TURNED
            else:
                own = outcome.wrongly_shown(shown_committed(state), _as_missed(interval))
                unread.add_offsets(state, READ_COMMITTED, own["offset"], UnknownReason.SKIPPED, replicas.read_at(state))
    _settle(state, intervals[settling])
    unended = missed[passed_open[missed] | (intervals["end"][missed] == NEVER)]
    return accusations + [a for i in unended for a in _later_turned(state, intervals[i], proof)]


def _add_later_ones(state: PartitionState, proof: Array, positions: Array, members: int) -> None:
    """Add what lies behind a missed end marker and missed another one; behind that, there may be one more."""
    if not (state.intervals["missed"] != NEVER).any():
        return
    shown = shown_committed(state)
    while True:
        later = markers.find_missed(markers.later_ones(state.intervals, shown), proof, positions, members)
        later = later[later["missed"] != NEVER]
        if not len(later):
            return
        state.intervals = joined(state.intervals, later)


def _open_there(state: PartitionState, interval: Array) -> list[Accusation]:
    """Accuse a replica of which no end of the transaction was read; ``told`` of the interval is changed.

    What it shows of the transaction by then has ended there already, by no marker that was read.
    """
    found = _directly_turned(state, interval)
    is_whole = any(_is_whole(one, interval) for one in found)
    is_told = interval["told"] & RAISED_MISSING
    interval["told"] |= RAISED_MISSING | (RAISED_TURNED if is_whole else 0)
    return [] if is_told and not is_whole else found or [_missing(state, interval)]


def _directly_turned(state: PartitionState, interval: Array) -> list[Accusation]:
    """Accuse a replica of a record that it shows otherwise than the missed end marker directly behind it says.

    Where a record is held the marker that ended it is, unless the cleaner went by a wrong index of aborted
    transactions. There is no room for a lower marker; of a record further below nobody knows whether one was there. So
    unless the end of the first is proven, what is accused begins with that record.
    """
    supposed = _as_missed(interval)
    return _last_of(state, supposed, outcome.wrongly_shown(shown_committed(state), supposed))


def _is_whole(accusation: Accusation, interval: Array) -> bool:
    """Whether an accusation is of a transaction from its start on; if not, the rest is accused once its end is read."""
    return accusation.transaction_start_offset == int(interval["start"])


def _last_of(state: PartitionState, interval: Array, own: Array) -> list[Accusation]:
    """Accuse a replica of the transaction whose last record lies directly below a missed end marker.

    It is the whole transaction if its end is proven. Else it is that record by itself: what the replica takes for one
    transaction may be several, each of which missed its end marker.

    Args:
        state: the partition's state.
        interval: the transaction, with the marker that was missed.
        own: the records that the replica shows otherwise than that marker says.
    """
    start, marker = int(interval["start"]), int(interval["missed"])
    direct = own[own["offset"] == marker - 1]
    if not len(direct):
        return []
    if not end_unproven(state, start, marker) or leave_no_room(state, own, start, marker):
        return [_turned(state, interval, own)]
    alone = interval.copy()
    alone["start"] = marker - 1
    return [_turned(state, alone, direct)]


def _later_turned(state: PartitionState, interval: Array, proof: Array) -> list[Accusation]:
    """The same of transactions behind a missed end marker, of which no end was read either.

    To a replica that missed the first marker they are one transaction. What it shows of them in read_committed has
    ended there all the same. Each begins where it will be found to begin once its end is read (`later_ones`), unless
    the end of its first record is not proven.
    """
    shown, slot = shown_committed(state), interval["slot"]
    own = shown["offset"][
        (shown["producer_id"] == interval["producer_id"]) & has_bit(shown["visible"] | shown["aborted"], slot)
    ]
    later = (proof["producer_id"] == interval["producer_id"]) & (proof["offset"] > interval["missed"])
    later &= (proof["offset"] < replicas.positions(state, READ_UNCOMMITTED)[slot]) & ~has_bit(proof["shown"], slot)
    accusations: list[Accusation] = []
    below = int(interval["missed"])
    for marker in proof[later]:
        end = int(marker["offset"])
        mine, below = own[(own > below) & (own < end)], end
        if end - 1 not in mine:
            continue
        supposed = interval.copy()
        supposed["start"], supposed["missed"] = mine[0], end
        for name in ("type", "shown"):
            supposed[f"missed_{name}"] = marker[name]
        supposed["missed_epoch"] = marker["leader_epoch"]
        accusations += _directly_turned(state, supposed)
    return accusations


def _as_missed(interval: Array) -> Array:
    """Return an interval whose end was not read, as one that ended otherwise than the missed end marker says."""
    supposed = interval.copy()
    supposed["end"], supposed["end_type"] = NEVER, ABORT if interval["missed_type"] == COMMIT else COMMIT
    return supposed


def _settle(state: PartitionState, intervals: Array) -> None:
    """Mark the disputes that wrongly ended transactions explain."""
    explained = outcome.explained(state.pending, intervals) & outcome.open_disputes(state.pending)
    if explained.any():
        state.pending = state.pending.copy()
        state.pending["flags"][explained] |= REPORTED


def _missing(state: PartitionState, interval: Array) -> Accusation:
    start, marker = int(interval["start"]), int(interval["missed"])
    return Accusation(
        Rule.OUTCOME,
        FindingKind.MARKER_MISSING,
        broker_of(state, int(interval["slot"])),
        offset=start,
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=start,
        marker_offset=marker,
        observations={
            "markers": _markers_shown(state, interval),
            "leader_epoch": int(interval["missed_epoch"]),
            **end_unproven(state, start, marker),
        },
    )


def _markers_shown(state: PartitionState, interval: Array) -> dict[str, str]:
    shown = named(state, int(interval["missed_shown"]), MARKER_NAME[int(interval["missed_type"])])
    if interval["end"] != NEVER:
        shown[str(broker_of(state, int(interval["slot"])))] = MARKER_NAME[int(interval["end_type"])]
    return shown


def _turned(state: PartitionState, interval: Array, rows: Array) -> Accusation:
    """A transaction that another type of marker ended on the accused than on the others.

    If the accused was not read to show any of its records, ``rows`` is empty. Then no key is given, and the outcome is
    unknown until an audit. The markers alone do not distinguish a wrong outcome from records that were cleaned, with
    their marker, before they were read.
    """
    slot, ended = int(interval["slot"]), int(interval["end_type"])
    disputed = rows[rows["aborted" if ended == COMMIT else "visible"] != 0]
    best = disputed if len(disputed) else rows
    start, marker, key = int(interval["start"]), int(interval["missed"]), {}
    offset = int(best[0]["offset"]) if len(best) else start
    observations: dict[str, Any] = {
        "markers": _markers_shown(state, interval),
        "leader_epoch": int(interval["missed_epoch"]),
        **(outcome_unproven(state, rows, start, marker) if len(rows) else outcome_unseen(state, start, marker)),
    }
    if interval["end"] != NEVER:
        end = observations["closed_by_marker_offset"] = int(interval["end"])
        if (epoch := epoch_of(state, end, int(interval["producer_id"]))) != UNKNOWN:
            observations["ends"] = {str(broker_of(state, slot)): f"{end}:{epoch}"}
    if len(best):
        key = {name: int(best[0][name]) for name in ("key_hash_hi", "key_hash_lo")}
        observations |= outcomes_shown(state, best) | other_keys(joined(best[:1], rows))
    return Accusation(
        Rule.OUTCOME,
        FindingKind.ABORTED_RECORD_COMMITTED if ended == COMMIT else FindingKind.COMMITTED_RECORD_ABORTED,
        broker_of(state, slot),
        offset=offset,
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=start,
        marker_offset=marker,
        observations=observations,
        **key,
    )


def judge_ends_ahead(state: PartitionState) -> list[Accusation]:
    """Accuse replicas whose own end marker contradicts an outcome that they show (``outcome_contradicts_marker``).

    It compares outcomes only with markers that the replica's read_uncommitted reader has passed and its read_committed
    reader has not: while an earlier transaction stays open, the latter does not get there. Call this after
    `judge_markers`, which finds the markers that a replica missed.

    Args:
        state: the partition's state; a transaction of which such a marker was found is removed from ``state.unended``.
    """
    if not len(state.unended):
        return []
    missed = state.intervals[state.intervals["missed"] != NEVER]
    state.unended, told, at = outcome.ended_ahead(state.unended, state.markers, missed)
    sure = (at >= replicas.positions(state, READ_COMMITTED)[told["slot"]]) & ~cap.may_lack_marker_between(
        state, told["offset"], at
    )
    return accuse_contradicted(state, told[sure], at[sure])


def accuse_contradicted(state: PartitionState, rows: Array, ends: Array) -> list[Accusation]:
    """Accuse each replica that shows a transaction as committed or aborted while its own end marker says the opposite.

    Args:
        state: the partition's state, which knows the broker ids and the leader epochs of end markers.
        rows: `UNENDED` rows, each the first record of a transaction on one replica, with the outcome that it shows.
        ends: for each row, the offset of the replica's end marker that contradicts the outcome.
    """
    return [
        Accusation(
            Rule.OUTCOME,
            FindingKind.OUTCOME_CONTRADICTS_MARKER,
            broker := broker_of(state, int(row["slot"])),
            offset=int(row["offset"]),
            producer_id=int(row["producer_id"]),
            transaction_start_offset=int(row["offset"]),
            marker_offset=int(end),
            key_hash_hi=int(row["key_hash_hi"]),
            key_hash_lo=int(row["key_hash_lo"]),
            observations={
                "outcomes": {str(broker): OUTCOME_NAME[ABORT if row["aborted"] else COMMIT]},
                "markers": {str(broker): MARKER_NAME[COMMIT if row["aborted"] else ABORT]},
                "leader_epoch": epoch_of(state, int(end), int(row["producer_id"])),
            },
        )
        for row, end in zip(rows, ends, strict=True)
    ]
