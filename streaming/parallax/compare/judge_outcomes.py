"""I2: end markers that a replica missed, and records whose outcome is not the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.accusing import (
    MARKER_NAME,
    OUTCOME_NAME,
    RAISED_MISSING,
    RAISED_TURNED,
    SHOWN_WRONG,
    broker_of,
    brokers_of,
    floor_of,
    named,
    without_direction,
)
from parallax.compare.observations import ABORT, COMMIT, READ_COMMITTED, READ_UNCOMMITTED, Array
from parallax.compare.rules import markers, outcome
from parallax.compare.rules.arrays import joined, slots_of
from parallax.compare.state import DISPUTE, NEVER, REPORTED, PartitionState
from parallax.compare.suspect import Accusation
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule, UnknownReason

_EXAMPLES = 8
"""Offsets that an accusation names at most."""


def judge_markers(state: PartitionState) -> list[Accusation]:
    """Accusations for end markers that a replica was read to have missed, or whose outcome it then turned round."""
    positions = replicas.positions(state, READ_UNCOMMITTED)
    state.intervals = markers.close_ended(state.intervals, positions)
    state.intervals = markers.end_at_own(state.intervals, state.markers, positions)
    proof = state.markers[~markers.disputed_offsets(state.markers)]
    unpassed = proof[proof["offset"] >= floor_of(state, READ_UNCOMMITTED)]
    members = replicas.members(state)
    state.intervals = markers.find_missed(state.intervals, unpassed, positions, members)
    later = markers.find_missed(markers.later_ones(state.intervals, state.pending), proof, positions, members)
    state.intervals = joined(state.intervals, later[later["missed"] != NEVER])
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
        if interval["end"] == NEVER and not interval["told"] & RAISED_MISSING:
            intervals["told"][i] |= RAISED_MISSING
            accusations.append(_missing(state, interval))
        elif turned[i]:
            own = outcome.wrongly_shown(_shown_committed(state), interval)
            if len(own):
                intervals["told"][i] |= SHOWN_WRONG
            if not len(own) and committed[interval["slot"]] <= interval["missed"]:
                continue
            if not interval["told"] & RAISED_TURNED:
                intervals["told"][i] |= RAISED_TURNED
                against = outcome.shown_against(state.unended, interval)[: 0 if len(own) else 1]
                contradicted = accuse_contradicted(state, against, np.repeat(interval["end"], len(against)))
                accusations += contradicted or [_turned(state, interval, own)]
            settling.append(int(i))
        elif passed_open[i] and not interval["told"] & RAISED_TURNED:
            found = _shown_against_the_missed(state, intervals[i : i + 1].copy())
            intervals["told"][i] |= RAISED_TURNED if found else 0
            accusations += found
    _settle(state, intervals[settling])
    return accusations


def _shown_against_the_missed(state: PartitionState, interval: Array) -> list[Accusation]:
    """Judge records of a transaction that is over, whose end was not read, and that missed an end marker.

    Where a record is held the marker that ended it is, unless the cleaner went by a wrong index of aborted
    transactions. So one that is shown otherwise than the missed marker says is wrong where there is no room for a lower
    one, and unknown elsewhere.
    """
    interval["end"], interval["end_type"] = NEVER, np.where(interval["missed_type"] == COMMIT, ABORT, COMMIT)
    one, missed = interval[0], int(interval["missed"][0])
    own = outcome.wrongly_shown(_shown_committed(state), one)
    direct = own[own["offset"] == missed - 1]
    if len(direct):
        return [_turned(state, one, direct)]
    unread.add_offsets(state, READ_COMMITTED, own["offset"], UnknownReason.SKIPPED, replicas.read_at(state))
    return []


def _shown_committed(state: PartitionState) -> Array:
    """Return what read_committed readers showed and no verdict has settled: pending rows, and absences that wait."""
    if not len(state.candidates):
        return state.pending
    waiting = np.empty(len(state.candidates), state.pending.dtype)
    for name in state.pending.dtype.names or ():
        waiting[name] = state.candidates[name]
    return joined(waiting, state.pending)


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
        offset=int(interval["start"]),
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=int(interval["start"]),
        marker_offset=int(interval["missed"]),
        observations={
            "markers": _markers_shown(state, interval),
            "leader_epoch": int(interval["missed_epoch"]),
            **({"end_unproven": True} if unread.may_lack_end(state, start, marker) else {}),
        },
    )


def _end_unproven(state: PartitionState, start: int, marker: int) -> dict[str, Any]:
    """Say so where the marker that a replica missed need not be the one that ended the transaction.

    What lies next to it may prove it yet, which a probe sees. Until an audit has done so, the outcome is unknown.
    """
    if not unread.may_lack_end(state, start, marker):
        return {}
    unread.add(state, READ_COMMITTED, start, start + 1, UnknownReason.SKIPPED, replicas.read_at(state))
    return {"end_unproven": True}


def _markers_shown(state: PartitionState, interval: Array) -> dict[str, str]:
    shown = named(state, int(interval["missed_shown"]), MARKER_NAME[int(interval["missed_type"])])
    if interval["end"] != NEVER:
        shown[str(broker_of(state, int(interval["slot"])))] = MARKER_NAME[int(interval["end_type"])]
    return shown


def _turned(state: PartitionState, interval: Array, rows: Array) -> Accusation:
    """A transaction that another type of marker ended on the accused than on the others.

    Where the accused was not read to show any of its records (``rows`` is empty), no key is given: the markers alone
    do not distinguish a wrong outcome from records that were cleaned, with their marker, before they were read.
    """
    slot, ended = int(interval["slot"]), int(interval["end_type"])
    disputed = rows[rows["aborted" if ended == COMMIT else "visible"] != 0]
    best = disputed if len(disputed) else rows
    observations: dict[str, Any] = {
        "markers": _markers_shown(state, interval),
        "leader_epoch": int(interval["missed_epoch"]),
        **_end_unproven(state, int(best[0]["offset"] if len(best) else interval["start"]), int(interval["missed"])),
    }
    if interval["end"] != NEVER:
        observations["closed_by_marker_offset"] = int(interval["end"])
    key = {}
    offset = int(interval["start"])
    if len(best):
        first = best[0]
        offset, key = int(first["offset"]), {name: int(first[name]) for name in ("key_hash_hi", "key_hash_lo")}
        observations |= _outcomes(state, best)
    return Accusation(
        Rule.OUTCOME,
        FindingKind.ABORTED_RECORD_COMMITTED if ended == COMMIT else FindingKind.COMMITTED_RECORD_ABORTED,
        broker_of(state, slot),
        offset=offset,
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=int(interval["start"]),
        marker_offset=int(interval["missed"]),
        observations=observations,
        **key,
    )


def _outcomes(state: PartitionState, rows: Array) -> dict[str, Any]:
    """Return who showed the first of the rows how; how many rows, and some of their offsets."""
    first = rows[0]
    return {
        "outcomes": {
            **named(state, int(first["visible"]), "committed"),
            **named(state, int(first["aborted"]), "aborted"),
        },
        "count": len(rows),
        "offsets": [int(o) for o in rows["offset"][:_EXAMPLES]],
    }


def judge_disputes(state: PartitionState) -> list[Accusation]:
    """Outcomes that differ although no interval is known to hold a missed marker."""
    disputed = np.flatnonzero(outcome.open_disputes(state.pending))
    if not len(disputed):
        state.disputes = state.disputes[:0]
        return []
    producers = np.unique(state.pending["producer_id"][disputed])
    horizons = {int(d["producer_id"]): int(d["horizon"]) for d in state.disputes}
    # An outcome is shown once its marker is below the high watermark, which may be beyond what has been read.
    known_end = int(state.brokers["high_watermark"][state.brokers["member"]].max(initial=UNKNOWN))
    read_to = max(replicas.furthest_position(state, READ_COMMITTED), known_end)
    horizons = {int(p): horizons.get(int(p), read_to) for p in producers}
    accusations = []
    for producer, horizon in list(horizons.items()):
        rows = disputed[state.pending["producer_id"][disputed] == producer]
        reached = _read_for_markers(state, rows)
        rows = rows[~_explained_by_interval(state, rows)]
        if reached >= horizon:
            if len(rows):
                unmarked = state.partition["unmarked"][0]
                verdicts = outcome.judge_disputes(state.pending, rows, state.markers, state.intervals, unmarked)
                accusations += [a for verdict in verdicts for a in _accuse_disputed(state, verdict)]
                judged = [row for verdict in verdicts for row in verdict.rows.tolist()]
                left = state.pending["offset"][np.setdiff1d(rows, judged)]
                unread.add_offsets(state, READ_COMMITTED, left, UnknownReason.SKIPPED, replicas.read_at(state))
            state.pending = state.pending.copy()
            state.pending["flags"][rows] |= REPORTED
            del horizons[producer]
    state.disputes = np.array(list(horizons.items()), DISPUTE)
    return accusations


def _read_for_markers(state: PartitionState, rows: Array) -> int:
    """How far all replicas have been read as read_uncommitted whose markers may decide these disputes.

    They are the replicas that can be reached, and, even if they cannot be, those that showed one of the outcomes.
    """
    showed = int(np.bitwise_or.reduce(state.pending["visible"][rows] | state.pending["aborted"][rows]))
    concerned = state.brokers["position"][slots_of(showed & replicas.members(state)), READ_UNCOMMITTED]
    return min(replicas.asked_position(state, READ_UNCOMMITTED), int(concerned.min(initial=NEVER)))


def _explained_by_interval(state: PartitionState, rows: Array) -> Array:
    # A transaction that is still open missed a marker: the marker that ended it there has not been read yet.
    missed = (state.intervals["missed"] != NEVER) & (state.intervals["end"] == NEVER)
    return outcome.explained(state.pending[rows], state.intervals[missed | outcome.turned(state.intervals)])


def _accuse_disputed(state: PartitionState, verdict: outcome.Verdict) -> list[Accusation]:
    """One accusation for each transaction among the rows, so far as a replica's intervals separate them."""
    rows = state.pending[verdict.rows]
    producer = int(rows["producer_id"][0])
    slot = verdict.slot
    if not verdict.proven:
        shown = slots_of(int(np.bitwise_or.reduce(rows["visible"] | rows["aborted"])))
        slot = min(shown, key=lambda s: broker_of(state, s))
    mine = state.intervals[(state.intervals["slot"] == slot) & (state.intervals["producer_id"] == producer)]
    mine = mine[np.argsort(mine["start"], kind="stable")]
    which = np.searchsorted(mine["start"], rows["offset"], side="right") - 1
    if len(mine):
        which[mine["end"][which] <= rows["offset"]] = UNKNOWN
    kind = FindingKind.VISIBILITY_MISMATCH
    if verdict.proven:
        aborted = verdict.shown_aborted
        kind = FindingKind.COMMITTED_RECORD_ABORTED if aborted else FindingKind.ABORTED_RECORD_COMMITTED
    accusations = []
    for group in np.unique(which):
        part = rows[which == group]
        first = part[0]
        observations = _outcomes(state, part)
        if not verdict.proven:
            sides = {name: brokers_of(state, int(first[name])) for name in ("visible", "aborted")}
            observations |= without_direction({"committed": sides["visible"], "aborted": sides["aborted"]})
            if ends := _ends_shown(state, first):
                observations["ends"] = ends
        marker = int(verdict.markers[which == group][0])
        if marker != UNKNOWN:
            observations["leader_epoch"] = _epoch_of(state, marker, producer)
        if verdict.proven:
            observations |= _end_unproven(state, int(first["offset"]), NEVER if marker == UNKNOWN else marker)
        accusations.append(
            Accusation(
                Rule.OUTCOME,
                kind,
                broker_of(state, slot) if verdict.proven else NOBODY,
                offset=int(first["offset"]),
                producer_id=producer,
                transaction_start_offset=int(mine["start"][group] if group != UNKNOWN else first["offset"]),
                marker_offset=marker,
                key_hash_hi=int(first["key_hash_hi"]),
                key_hash_lo=int(first["key_hash_lo"]),
                observations=observations,
            )
        )
    return accusations


def _ends_shown(state: PartitionState, row: Array) -> dict[str, str]:
    """By broker, the offset and the leader epoch of the first end marker that it showed behind a record."""
    behind = (state.markers["producer_id"] == row["producer_id"]) & (state.markers["offset"] > row["offset"])
    found: dict[str, str] = {}
    for marker in state.markers[behind][::-1]:
        found |= named(state, int(marker["shown"]), f"{marker['offset']}:{marker['leader_epoch']}")
    return found


def _epoch_of(state: PartitionState, offset: int, producer: int) -> int:
    """The leader epoch in which an end marker was shown; -1 where it is not known any more."""
    here = state.markers[(state.markers["offset"] == offset) & (state.markers["producer_id"] == producer)]
    return int(here["leader_epoch"].max(initial=UNKNOWN))


def accuse_contradicted(state: PartitionState, rows: Array, ends: Array) -> list[Accusation]:
    """Accuse each replica that shows a record otherwise than the end marker that it shows behind it.

    Args:
        state: for the brokers' ids.
        rows: `UNENDED`, the first record of each such transaction.
        ends: the offset of the end marker for each.
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
            },
        )
        for row, end in zip(rows, ends, strict=True)
    ]
