"""Invariant I2 (outcome): raises an accusation if replicas show a record as committed and aborted.

It handles records whose unlike outcomes are not explained by a replica that missed an end marker;
`parallax.compare.judge_markers` handles those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.accusing import (
    broker_of,
    brokers_of,
    epoch_of,
    leave_no_room,
    named,
    other_keys,
    outcome_unproven,
    outcomes_shown,
    without_direction,
)
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, Array
from parallax.compare.rules import outcome
from parallax.compare.rules.arrays import slots_of
from parallax.compare.state import DISPUTE, NEVER, REPORTED, PartitionState
from parallax.compare.suspect import Accusation
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule, UnknownReason
from parallax.sides import Shows, Side


def judge_disputes(state: PartitionState) -> list[Accusation]:
    """Accuse where replicas show unlike outcomes of a record, and no replica's missed end marker explains that.

    Two kinds of replicas may show the end marker that decides: those that answer, and those that showed one of the
    outcomes. A record is judged once all of these have been read, as read_uncommitted, up to the record's horizon. That
    is the furthest high watermark or position at the time when the unlike outcomes were first seen.

    Args:
        state: the partition's state; it is changed. Outcomes that no marker decides become unknown.

    Returns:
        For each transaction one accusation or several. Each names the wrong replica if end markers prove which it is.
        Otherwise its kind is ``visibility_mismatch``, and it accuses `NOBODY`.
    """
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


def _accuse_disputed(state: PartitionState, verdict: outcome.OutcomeRuling) -> list[Accusation]:
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
    starts = np.where(which == UNKNOWN, rows["offset"], mine["start"][which] if len(mine) else UNKNOWN)
    for at in _by_transaction(state, verdict, rows, which, starts):
        part, start = rows[at], int(starts[at[0]])
        first = part[0]
        observations = outcomes_shown(state, part)
        if not verdict.proven:
            views = {Shows.COMMITTED: "visible", Shows.ABORTED: "aborted"}
            sides = {Side(shows): brokers_of(state, int(first[name])) for shows, name in views.items()}
            observations |= without_direction(sides)
        if ends := _ends_shown(state, first):
            observations["ends"] = ends
        marker = int(verdict.markers[at[0]])
        if marker != UNKNOWN:
            observations["leader_epoch"] = epoch_of(state, marker, producer)
        if verdict.proven:
            observations |= other_keys(part)
            observations |= outcome_unproven(state, part, start, NEVER if marker == UNKNOWN else marker)
        accusations.append(
            Accusation(
                Rule.OUTCOME,
                kind,
                broker_of(state, slot) if verdict.proven else NOBODY,
                offset=int(first["offset"]),
                producer_id=producer,
                transaction_start_offset=start,
                marker_offset=marker,
                key_hash_hi=int(first["key_hash_hi"]),
                key_hash_lo=int(first["key_hash_lo"]),
                observations=observations,
            )
        )
    return accusations


def _by_transaction(
    state: PartitionState, verdict: outcome.OutcomeRuling, rows: Array, which: Array, starts: Array
) -> Iterator[Array]:
    """Indices of the rows of each transaction.

    Where the end of the first is not proven, each that lies directly before its end marker is one by itself.

    Args:
        state: for what may have been cleaned.
        verdict: on the rows.
        rows: the verdict's rows (`PENDING`), in offset order.
        which: for each row, the interval of the accused that it lies in; -1 for none, then only end markers separate
            rows.
        starts: where the transaction of each begins.
    """
    offsets = rows["offset"]
    is_direct = verdict.markers == offsets + 1
    apart_by = np.where(which == UNKNOWN, verdict.markers, UNKNOWN)
    for group, end in np.unique(np.stack([which, apart_by]), axis=1).T:
        at = np.flatnonzero((which == group) & (apart_by == end))
        marker = int(verdict.markers[at[0]])
        if marker != UNKNOWN and leave_no_room(state, rows[at], int(starts[at[0]]), marker):
            yield at[offsets[at] < marker]
            at = at[offsets[at] >= marker]
        yield from _where_room_is_left(state, verdict, offsets, at, is_direct)


def _where_room_is_left(
    state: PartitionState, verdict: outcome.OutcomeRuling, offsets: Array, at: Array, is_direct: Array
) -> Iterator[Array]:
    if not len(at):
        return
    marker = int(verdict.markers[at[0]])
    is_proven = marker != UNKNOWN and not unread.may_lack_end(state, int(offsets[at[0]]), marker)
    apart = at[is_direct[at] & verdict.proven & (not is_proven)]
    if len(rest := np.setdiff1d(at, apart)):
        yield rest
    yield from apart[:, None]


def _ends_shown(state: PartitionState, row: Array) -> dict[str, str]:
    """By broker, the offset and the leader epoch of the first end marker that it showed behind a record."""
    behind = (state.markers["producer_id"] == row["producer_id"]) & (state.markers["offset"] > row["offset"])
    found: dict[str, str] = {}
    for marker in state.markers[behind][::-1]:
        found |= named(state, int(marker["shown"]), f"{marker['offset']}:{marker['leader_epoch']}")
    return found
