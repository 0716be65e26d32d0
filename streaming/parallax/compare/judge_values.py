"""Invariant I3 (latest value): raises an accusation if a replica lacks what others show.

Something may explain the absence, such as a later record of the key. Then no accusation is raised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import cap, early, remembered, replicas, unread
from parallax.compare.accusing import SHOWN_WRONG, broker_of, brokers_of, floor_of, without_direction
from parallax.compare.observations import ABORT, READ_COMMITTED, Array
from parallax.compare.rules import latest, outcome
from parallax.compare.rules.arrays import bits, has_bit, joined
from parallax.compare.state import NEVER, TOMBSTONE, PartitionState, kept
from parallax.compare.suspect import Accusation
from parallax.kinds import TOMBSTONE_KINDS
from parallax.model import NOBODY, UNKNOWN, Rule, UnknownReason
from parallax.sides import Shows, Side

MAX_KEY_VERDICTS = 256
"""How many absences are judged in one step, oldest first. The rest wait, so that a flood does not swamp the probe."""


def judge_latest(state: PartitionState, left_out: Array, leader: int | None) -> list[Accusation]:
    """Accuse where some replicas show a record that others lack, and nothing explains it.

    An explanation is, for example, a later record of the same key on any replica. Absences that cannot be judged yet
    stay in the state. An accusation names the wrong replica if that is proven. Otherwise it accuses `NOBODY`, and its
    evidence names the sides.

    Args:
        state: the partition's state; it is changed.
        left_out: records (`PENDING` rows) that were shown, and that the cap kept out of the state.
        leader: broker id of the leader; -1 if there is none. None if the micro-batch has no progress row.
    """
    strict_from = int(state.partition["strict_from"][0])
    common = replicas.common_position(state, READ_COMMITTED)
    below = state.pending["offset"] < common
    released = state.pending[below & ~outcome.open_disputes(state.pending)]
    judged = released[released["offset"] >= max(replicas.retained_from(state), floor_of(state, READ_COMMITTED))]
    passed_at = int(state.partition["passed_at"][0])
    holding = replicas.holding(state, judged["offset"])
    absent = latest.absences(judged, holding, state.markers, strict_from=strict_from, passed_at=passed_at)
    other = ~np.isin(judged["offset"], absent["offset"])
    _leave_unknown(state, judged[other & latest.doubted_deletions(judged, holding)])
    outcomes = joined(remembered.still(state), remembered.passed(state, judged[other], holding[other]))
    state.candidates = kept(state.candidates, ~remembered.is_judged(state.candidates))
    early_absent = early.follow_leader(state, leader, common)
    absences = candidates = joined(early.waiting(state, common), absent, early_absent)
    strict = candidates["offset"] >= strict_from
    shown = [latest.superseding(rows) for rows in (state.pending, left_out, candidates[strict])]
    shown = [_but_turned(state, rows) for rows in (*shown, candidates[~strict])]
    explainable = latest.unexplained(candidates[~strict], shown)
    candidates = joined(explainable, candidates[strict])
    if len(released):
        state.pending = state.pending[~below | outcome.open_disputes(state.pending)]
    accusations = _judge(state, candidates)
    done = remembered.judged(state, absences, state.candidates)
    state.candidates = joined(state.candidates, outcomes, done)
    return accusations


def _judge(state: PartitionState, candidates: Array) -> list[Accusation]:
    """Accuse of those absences that may be judged; the others wait on."""
    state.candidates = candidates
    if not len(candidates):
        return []
    strict_from = int(state.partition["strict_from"][0])
    candidates = latest.set_horizons(candidates, state.brokers)
    held = early.concerned(state, candidates)
    ripe = latest.ripe(candidates, replicas.positions(state, READ_COMMITTED), held)
    # The policy must have been seen after all had passed: what was compacted meanwhile is no loss.
    settled = (candidates["offset"] < strict_from) | (candidates["passed_at"] < state.partition["policy_at"][0])
    at = np.flatnonzero(ripe & settled)
    at = at[np.argsort(candidates["offset"][at], kind="stable")][:MAX_KEY_VERDICTS]
    state.candidates = np.delete(candidates, at)
    rows, held = candidates[at], held[at]
    held = held & ~_accounted_for(state, rows, held)
    wanted = (latest.lacking(rows, held) != 0) & (rows["offset"] >= replicas.retained_from(state))
    sure, is_early = latest.surely_committed(rows, state.markers), early.is_early(rows)
    _leave_unknown(state, rows[wanted & ~sure & ~is_early & latest.doubted_deletions(rows, held)])
    wanted &= sure | ~(is_early | latest.is_doubted(rows))
    rows, held, sure = rows[wanted], held[wanted], sure[wanted]
    verdicts = latest.judge(rows, held, strict_from=strict_from, sure=sure)
    return [_accuse_key(state, rows[v.row], v, int(held[v.row]), strict_from) for v in verdicts]


def _leave_unknown(state: PartitionState, deletions: Array) -> None:
    """Count those of doubted deletions whose COMMIT may be among the end markers that were left out.

    It would make them sure, so that who lacks them were accused (`latest.surely_committed`).
    """
    lost = deletions["offset"][cap.may_lack_marker(state, deletions["offset"] + 1)]
    unread.add_offsets(state, READ_COMMITTED, lost, UnknownReason.DEFERRED, replicas.read_at(state))


def _but_turned(state: PartitionState, rows: Array) -> Array:
    """Return the rows without those that are shown only by replicas that missed the ABORT of their transaction.

    Such a record supersedes nothing.
    """
    missed = (state.intervals["missed"] != NEVER) & (state.intervals["missed_type"] == ABORT)
    wrongly = np.zeros(len(rows), np.uint32)
    for interval in state.intervals[missed]:
        inside = outcome.covered(rows["offset"], rows["producer_id"], interval)
        wrongly |= np.where(inside, bits(interval["slot"]), np.uint32(0))
    return rows[rows["visible"] & ~wrongly != 0] if len(rows) else rows


def _accounted_for(state: PartitionState, rows: Array, members: Array) -> Array:
    """The replicas whose lack of a record a wrongly ended transaction accounts for: that is part of that finding.

    A replica that aborted what is committed elsewhere lacks the record itself; where one that committed what is aborted
    elsewhere holds it, all others lack it rightly.
    """
    found = np.zeros(len(rows), np.uint32)
    lacking = latest.lacking(rows, members)
    wrong = outcome.turned(state.intervals) & (state.intervals["told"] & SHOWN_WRONG != 0)
    for interval in state.intervals[wrong]:
        inside = outcome.covered(rows["offset"], rows["producer_id"], interval)
        if interval["end_type"] == ABORT:
            found |= np.where(inside, bits(interval["slot"]), np.uint32(0))
        else:
            found |= np.where(inside & has_bit(rows["visible"], interval["slot"]), lacking, np.uint32(0))
    return found


def _accuse_key(
    state: PartitionState, row: Array, verdict: latest.AbsenceRuling, members: int, strict_from: int
) -> Accusation:
    """Where every record is compared, the offset says which one it is: a later one of its key explains nothing."""
    named = row["offset"] < strict_from
    end = _end_behind(state, row) if verdict.kind in TOMBSTONE_KINDS and row["producer_id"] != UNKNOWN else None
    holding = brokers_of(state, int(row["visible"]) & members)
    absent = brokers_of(state, members & ~int(row["visible"]) & ~int(row["aborted"]))
    observations: dict[str, Any] = {
        "record_shown_by": brokers_of(state, int(row["visible"])),
        "record_read_ms": int(row["passed_at"]),
        "not_shown_by": absent,
        "read_to": int(row["horizon"]),
        "leader_epoch": int(row["leader_epoch"]),
    }
    if end is not None:
        observations["end_epoch"] = int(end["leader_epoch"])
    if (start := replicas.retained_from(state)) > 0:
        observations["compared_from"] = start
    if verdict.slot == NOBODY:
        # A replica that shows a value is asked last: the value that a tombstone deletes may be on those that lack it.
        deletes = bool(row["flags"] & TOMBSTONE)
        held, lacks = (Shows.TOMBSTONE, Shows.LACKS_TOMBSTONE) if deletes else (Shows.VALUE, Shows.LACKS_VALUE)
        shown, lacking = Side(held, int(row["offset"])), Side(lacks, int(row["offset"]))
        observations |= without_direction({shown: holding, lacking: absent}, lacking if deletes else shown)
    return Accusation(
        Rule.LATEST_VALUE,
        verdict.kind,
        NOBODY if verdict.slot == NOBODY else broker_of(state, verdict.slot),
        offset=int(row["offset"]),
        producer_id=int(row["producer_id"]),
        marker_offset=UNKNOWN if end is None else int(end["offset"]),
        key_hash_hi=int(row["key_hash_hi"]) if named else 0,
        key_hash_lo=int(row["key_hash_lo"]) if named else 0,
        observations=observations,
    )


def _end_behind(state: PartitionState, row: Array) -> Array:
    """The COMMIT directly behind a record of a transaction, which makes it sure (`latest.surely_committed`)."""
    found: Array = state.markers[state.markers["offset"] == row["offset"] + 1][0]
    return found
