"""From matched arrays to accusations: runs the rules over a state, and lets go of what is settled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parallax.compare import early, replicas
from parallax.compare.observations import ABORT, COMMIT, READ_COMMITTED, READ_UNCOMMITTED, UNKNOWN, Array
from parallax.compare.rules import content, latest, markers, outcome
from parallax.compare.rules.arrays import bit_counts, has_bit, joined, slots_of
from parallax.compare.state import DISPUTE, NEVER, REPORTED, TOMBSTONE, PartitionState, kept
from parallax.compare.suspect import Accusation
from parallax.model import NOBODY, FindingKind, Rule

MAX_KEY_VERDICTS = 256
"""Absences judged in one step, oldest first; the rest wait, so that a flood is neither lost nor drowns the probe."""

_EXAMPLES = 8

_RAISED_MISSING, _RAISED_TURNED, _SHOWN_WRONG = 1, 2, 4
"""Bits of an interval's ``told``: what was raised of it; its replica was read to show a wrong outcome."""

_OUTCOME_NAME = {COMMIT: "committed", ABORT: "aborted"}
_MARKER_NAME = {COMMIT: "commit", ABORT: "abort"}


def judge(state: PartitionState, left_out: Array, leader: int | None = None) -> list[Accusation]:
    """Apply I1 to I3 to a state whose rows and positions have been taken in.

    Args:
        state: written to: what is settled leaves it.
        left_out: `PENDING` rows that were shown and not stored.
        leader: broker id, -1 where there is none; None where no progress was reported.
    """
    if state.is_settled:
        _raise_floors(state)
        return []
    accusations = _judge_content(state)
    accusations += _judge_markers(state)
    accusations += _judge_disputes(state)
    accusations += _judge_latest(state, left_out, leader)
    _let_go(state)
    return accusations


def _broker(state: PartitionState, slot: int) -> int:
    return int(state.brokers["broker"][slot])


def _named(state: PartitionState, mask: int, value: str) -> dict[str, str]:
    return {str(_broker(state, slot)): value for slot in slots_of(mask)}


# I1


def _judge_content(state: PartitionState) -> list[Accusation]:
    differs = content.contradictions(state.content)
    ripe = differs & (state.content["offset"] < replicas.asked_position(state, READ_UNCOMMITTED))
    tracked = state.brokers["mismatch_last"] != UNKNOWN
    if not ripe.any() and not tracked.any():
        return []
    agreed = state.content[~differs & (bit_counts(state.content["shown"]) > 1)]
    accusations = []
    rows = state.content[ripe]
    for offset, sides in content.differences(rows):
        if len(sides) < 2:
            continue  # The log of one of them was given up since.
        if not _continues_run(state, sides, offset, agreed):
            accusations.append(_unlike_records(state, offset, rows[rows["offset"] == offset]))
    state.content = state.content[~ripe]
    _end_runs(state, agreed)
    return accusations


def _unlike_records(state: PartitionState, offset: int, rows: Array) -> Accusation:
    sides: dict[str, list[int]] = {}
    records: dict[str, str] = {}
    for row in rows[rows["shown"] != 0]:
        brokers = _brokers(state, int(row["shown"]))
        fingerprint = f"{int(row['fingerprint']) & (1 << 64) - 1:016x}"
        sides[_marker_at(state, offset, int(row["shown"])) or f"record {fingerprint}"] = brokers
        records |= dict.fromkeys(map(str, brokers), fingerprint)
    return Accusation(
        Rule.CONTENT,
        FindingKind.CONTENT_MISMATCH,
        NOBODY,
        offset,
        observations={"records": dict(sorted(records.items())), **_without_direction(sides)},
    )


def _marker_at(state: PartitionState, offset: int, shown: int) -> str:
    """The end marker that these replicas show at an offset, in words; empty where it is a record."""
    here = state.markers[(state.markers["offset"] == offset) & (state.markers["shown"] & np.uint32(shown) != 0)]
    return f"{_MARKER_NAME[int(here['type'][0])]} of producer {here['producer_id'][0]}" if len(here) else ""


def _without_direction(sides: Mapping[str, list[int]], pivot: str | None = None) -> dict[str, Any]:
    """The evidence of a difference that accuses nobody: who shows what, and who is to be asked last.

    Args:
        sides: by what they show, the ids of the brokers; one without brokers is left out.
        pivot: the side of which one is asked last; the first one if not given.
    """
    named = {text: sorted(brokers) for text, brokers in sorted(sides.items()) if brokers}
    return {"sides": named, "pivot": min(named[pivot] if pivot in named else next(iter(named.values())))}


def _brokers(state: PartitionState, mask: int) -> list[int]:
    return sorted(_broker(state, slot) for slot in slots_of(mask))


def _continues_run(state: PartitionState, sides: list[int], offset: int, agreed: Array) -> bool:
    """Whether differing records belong to the run of differing records before them: one accusation for the run.

    They do if each two replicas that differ did so before, and one of the two has not agreed with any since.
    """
    last = state.brokers["mismatch_last"].copy()
    before = state.brokers["mismatch_side"].copy()
    going_on = {
        slot: last[slot] != UNKNOWN and not _agreed_since(agreed, slot, last[slot], offset)
        for side in sides
        for slot in slots_of(side)
    }
    continues = True
    for side in sides:
        for slot in slots_of(side):
            for other in slots_of(sum(sides) & ~side):
                differed = last[slot] != UNKNOWN and last[other] != UNKNOWN and not int(before[slot]) >> other & 1
                continues &= differed and (going_on[slot] or going_on[other])
            state.brokers["mismatch_last"][slot], state.brokers["mismatch_side"][slot] = offset, side
    return continues


def _agreed_since(agreed: Array, slot: int, last: int, offset: int) -> bool:
    mine = agreed["offset"][has_bit(agreed["shown"], slot)]
    return bool(((mine > last) & (mine < offset)).any())


def _end_runs(state: PartitionState, agreed: Array) -> None:
    """A record that a replica shows as others do ends its run of differing records."""
    for slot in np.flatnonzero(state.brokers["mismatch_last"] != UNKNOWN):
        mine = agreed["offset"][has_bit(agreed["shown"], slot)]
        if mine.max(initial=UNKNOWN) > state.brokers["mismatch_last"][slot]:
            state.brokers["mismatch_last"][slot] = UNKNOWN


# I2


def _judge_markers(state: PartitionState) -> list[Accusation]:
    positions = replicas.positions(state, READ_UNCOMMITTED)
    state.intervals = markers.close_ended(state.intervals, positions)
    state.intervals = markers.end_at_own(state.intervals, state.markers, positions)
    proof = state.markers[~markers.disputed_offsets(state.markers)]
    unpassed = proof[proof["offset"] >= _floor(state, READ_UNCOMMITTED)]
    state.intervals = markers.find_missed(state.intervals, unpassed, positions, replicas.members(state))
    missed = np.flatnonzero(state.intervals["missed"] != NEVER)
    if not len(missed):
        return []
    intervals = state.intervals = state.intervals.copy()
    committed = replicas.positions(state, READ_COMMITTED)
    accusations = []
    settling: list[int] = []
    for i in missed:
        interval = intervals[i]
        if interval["end"] == NEVER and not interval["told"] & _RAISED_MISSING:
            intervals["told"][i] |= _RAISED_MISSING
            accusations.append(_missing(state, interval))
        elif outcome.turned(intervals[i : i + 1])[0]:
            own = outcome.wrongly_shown(_shown_committed(state), interval)
            if len(own):
                intervals["told"][i] |= _SHOWN_WRONG
            if not len(own) and committed[interval["slot"]] <= interval["missed"]:
                continue
            if not interval["told"] & _RAISED_TURNED:
                intervals["told"][i] |= _RAISED_TURNED
                accusations.append(_turned(state, interval, own))
            settling.append(int(i))
    _settle(state, intervals[settling])
    return accusations


def _shown_committed(state: PartitionState) -> Array:
    """What read_committed readers showed and no verdict has settled: what is pending, and the absences that wait."""
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
    return Accusation(
        Rule.OUTCOME,
        FindingKind.MARKER_MISSING,
        _broker(state, int(interval["slot"])),
        offset=int(interval["start"]),
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=int(interval["start"]),
        marker_offset=int(interval["missed"]),
        observations={"markers": _markers_shown(state, interval), "leader_epoch": int(interval["missed_epoch"])},
    )


def _markers_shown(state: PartitionState, interval: Array) -> dict[str, str]:
    shown = _named(state, int(interval["missed_shown"]), _MARKER_NAME[int(interval["missed_type"])])
    if interval["end"] != NEVER:
        shown[str(_broker(state, int(interval["slot"])))] = _MARKER_NAME[int(interval["end_type"])]
    return shown


def _turned(state: PartitionState, interval: Array, rows: Array) -> Accusation:
    """A transaction that another type of marker ended on the accused than on the others.

    Where the accused was not read to show any of its records (``rows`` is empty), no key is given: the markers alone
    do not tell a wrong outcome from records that were cleaned, with their marker, before they were read.
    """
    slot, ended = int(interval["slot"]), int(interval["end_type"])
    disputed = rows[(rows["visible"] != 0) & (rows["aborted"] != 0)]
    best = disputed if len(disputed) else rows
    observations: dict[str, Any] = {
        "markers": _markers_shown(state, interval),
        "leader_epoch": int(interval["missed_epoch"]),
        "closed_by_marker_offset": int(interval["end"]),
    }
    offset = int(best["offset"][0]) if len(best) else int(interval["start"])
    if len(best):
        observations |= _outcomes(state, best)
    first = best[0] if len(best) else None
    return Accusation(
        Rule.OUTCOME,
        FindingKind.ABORTED_RECORD_COMMITTED if ended == COMMIT else FindingKind.COMMITTED_RECORD_ABORTED,
        _broker(state, slot),
        offset=offset,
        producer_id=int(interval["producer_id"]),
        transaction_start_offset=int(interval["start"]),
        marker_offset=int(interval["missed"]),
        key_hash_hi=int(first["key_hash_hi"]) if first is not None else 0,
        key_hash_lo=int(first["key_hash_lo"]) if first is not None else 0,
        observations=observations,
    )


def _outcomes(state: PartitionState, rows: Array) -> dict[str, Any]:
    """Who showed the first of the rows how; how many rows, and some of their offsets."""
    return {
        "outcomes": {
            **_named(state, int(rows["visible"][0]), "committed"),
            **_named(state, int(rows["aborted"][0]), "aborted"),
        },
        "count": len(rows),
        "offsets": [int(o) for o in rows["offset"][:_EXAMPLES]],
    }


def _judge_disputes(state: PartitionState) -> list[Accusation]:
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
                judged = np.unique(np.concatenate([v.rows for v in verdicts])) if verdicts else rows[:0]
                state.partition["skipped"][0, READ_COMMITTED] += len(rows) - len(judged)
            state.pending = state.pending.copy()
            state.pending["flags"][rows] |= REPORTED
            del horizons[producer]
    state.disputes = np.array(list(horizons.items()), DISPUTE)
    return accusations


def _read_for_markers(state: PartitionState, rows: Array) -> int:
    """How far all have been read as read_uncommitted whose markers may tell of these disputes.

    Those that can be reached, and, even if they cannot at present, those that showed one of the outcomes.
    """
    showed = int(np.bitwise_or.reduce(state.pending["visible"][rows] | state.pending["aborted"][rows]))
    concerned = state.brokers["position"][slots_of(showed & replicas.members(state)), READ_UNCOMMITTED]
    return min(replicas.asked_position(state, READ_UNCOMMITTED), int(concerned.min(initial=NEVER)))


def _explained_by_interval(state: PartitionState, rows: Array) -> Array:
    # One that is still open missed a marker: the marker that ended it there has not been read yet.
    missed = (state.intervals["missed"] != NEVER) & (state.intervals["end"] == NEVER)
    return outcome.explained(state.pending[rows], state.intervals[missed | outcome.turned(state.intervals)])


def _accuse_disputed(state: PartitionState, verdict: outcome.Verdict) -> list[Accusation]:
    """One accusation for each transaction among the rows, so far as a replica's intervals tell them apart."""
    rows = state.pending[verdict.rows]
    producer = int(rows["producer_id"][0])
    slot = verdict.slot
    if not verdict.proven:
        shown = slots_of(int(np.bitwise_or.reduce(rows["visible"] | rows["aborted"])))
        slot = min(shown, key=lambda s: _broker(state, s))
    mine = state.intervals[(state.intervals["slot"] == slot) & (state.intervals["producer_id"] == producer)]
    mine = mine[np.argsort(mine["start"], kind="stable")]
    which = np.searchsorted(mine["start"], rows["offset"], side="right") - 1
    if len(mine):
        which[mine["end"][which] <= rows["offset"]] = -1
    kind = FindingKind.VISIBILITY_MISMATCH
    if verdict.proven:
        aborted = verdict.shown_aborted
        kind = FindingKind.COMMITTED_RECORD_ABORTED if aborted else FindingKind.ABORTED_RECORD_COMMITTED
    accusations = []
    for group in np.unique(which):
        part = rows[which == group]
        observations = _outcomes(state, part)
        if not verdict.proven:
            sides = {name: _brokers(state, int(part[name][0])) for name in ("visible", "aborted")}
            observations |= _without_direction({"committed": sides["visible"], "aborted": sides["aborted"]})
            if ends := _ends_shown(state, part[0]):
                observations["ends"] = ends
        marker = int(verdict.markers[which == group][0])
        if marker != UNKNOWN:
            observations["leader_epoch"] = _epoch_of(state, marker, producer)
        accusations.append(
            Accusation(
                Rule.OUTCOME,
                kind,
                _broker(state, slot) if verdict.proven else NOBODY,
                offset=int(part["offset"][0]),
                producer_id=producer,
                transaction_start_offset=int(mine["start"][group]) if group >= 0 else int(part["offset"][0]),
                marker_offset=marker,
                key_hash_hi=int(part["key_hash_hi"][0]),
                key_hash_lo=int(part["key_hash_lo"][0]),
                observations=observations,
            )
        )
    return accusations


def _ends_shown(state: PartitionState, row: Array) -> dict[str, str]:
    """By broker, the offset and the leader epoch of the first end marker that it showed behind a record."""
    behind = (state.markers["producer_id"] == row["producer_id"]) & (state.markers["offset"] > row["offset"])
    found: dict[str, str] = {}
    for marker in state.markers[behind][::-1]:
        found |= _named(state, int(marker["shown"]), f"{marker['offset']}:{marker['leader_epoch']}")
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
            broker := _broker(state, int(row["slot"])),
            offset=int(row["offset"]),
            producer_id=int(row["producer_id"]),
            transaction_start_offset=int(row["offset"]),
            marker_offset=int(end),
            key_hash_hi=int(row["key_hash_hi"]),
            key_hash_lo=int(row["key_hash_lo"]),
            observations={
                "outcomes": {str(broker): _OUTCOME_NAME[ABORT if row["aborted"] else COMMIT]},
                "markers": {str(broker): _MARKER_NAME[COMMIT if row["aborted"] else ABORT]},
            },
        )
        for row, end in zip(rows, ends, strict=True)
    ]


# I3


def _judge_latest(state: PartitionState, left_out: Array, leader: int | None) -> list[Accusation]:
    strict_from = int(state.partition["strict_from"][0])
    common = replicas.common_position(state, READ_COMMITTED)
    below = state.pending["offset"] < common
    released = state.pending[below & ~outcome.open_disputes(state.pending)]
    judged = released[released["offset"] >= max(replicas.retained_from(state), _floor(state, READ_COMMITTED))]
    passed_at = int(state.partition["passed_at"][0])
    absent = latest.absences(
        judged, replicas.holding(state, judged["offset"]), strict_from=strict_from, passed_at=passed_at
    )
    early_absent = early.follow_leader(state, leader, common)
    candidates = joined(early.waiting(state, common), absent, early_absent)
    strict = candidates["offset"] >= strict_from
    explainable = latest.unexplained(candidates[~strict], [state.pending, left_out, candidates[strict]])
    candidates = joined(explainable, candidates[strict])
    if len(released):
        state.pending = state.pending[~below | outcome.open_disputes(state.pending)]
    if not len(candidates):
        state.candidates = candidates
        return []
    candidates = latest.set_horizons(candidates, state.brokers)
    held = early.concerned(state, candidates)
    ripe = latest.ripe(candidates, replicas.positions(state, READ_COMMITTED), held)
    # The policy must have been seen after all had passed: what was compacted meanwhile is no loss.
    settled = (candidates["offset"] < strict_from) | (candidates["passed_at"] < state.partition["policy_at"][0])
    at = np.flatnonzero(ripe & settled)
    at = at[np.argsort(candidates["offset"][at], kind="stable")][:MAX_KEY_VERDICTS]
    state.candidates = np.delete(candidates, at)
    rows, held = candidates[at], held[at]
    wanted = ~_belongs_to_transaction(state, rows, held) & (rows["offset"] >= replicas.retained_from(state))
    sure = latest.surely_committed(rows, state.markers)
    wanted &= sure | ~early.is_early(rows)
    rows, held, sure = rows[wanted], held[wanted], sure[wanted]
    verdicts = latest.judge(rows, held, strict_from=strict_from, sure=sure)
    return [_accuse_key(state, rows[v.row], v, int(held[v.row]), strict_from) for v in verdicts]


def _belongs_to_transaction(state: PartitionState, rows: Array, members: Array) -> Array:
    """Mask of the absences that a wrongly ended transaction accounts for: they are part of that finding.

    A replica that aborted what is committed elsewhere lacks the record; one that committed what is aborted elsewhere
    holds it alone.
    """
    belongs = np.zeros(len(rows), np.bool_)
    lacking = latest.lacking(rows, members)
    wrong = outcome.turned(state.intervals) & (state.intervals["told"] & _SHOWN_WRONG != 0)
    for interval in state.intervals[wrong]:
        concerned = lacking if interval["end_type"] == ABORT else rows["visible"]
        belongs |= outcome.covered(rows["offset"], rows["producer_id"], interval) & (
            has_bit(concerned, interval["slot"])
        )
    return belongs


def _accuse_key(
    state: PartitionState, row: Array, verdict: latest.Verdict, members: int, strict_from: int
) -> Accusation:
    """Where every record is compared, the offset says which one it is: a later one of its key explains nothing."""
    named = row["offset"] < strict_from
    holding = _brokers(state, int(row["visible"]) & members)
    absent = _brokers(state, members & ~int(row["visible"]) & ~int(row["aborted"]))
    observations: dict[str, Any] = {
        "shown_by": _brokers(state, int(row["visible"])),
        "not_shown_by": absent,
        "passed_at": int(row["passed_at"]),
        "read_to": int(row["horizon"]),
        "leader_epoch": int(row["leader_epoch"]),
    }
    if verdict.slot == NOBODY:
        # Who shows a value is asked last: that of a tombstone may be on those that lack it.
        deletes = bool(row["flags"] & TOMBSTONE)
        shown = f"{'tombstone' if deletes else 'value'} at offset {row['offset']}"
        lacking = f"no {shown}"
        observations |= _without_direction({shown: holding, lacking: absent}, lacking if deletes else shown)
    sure = verdict.kind is FindingKind.DELETED_RECORD_RESURRECTED and row["producer_id"] >= 0
    return Accusation(
        Rule.LATEST_VALUE,
        verdict.kind,
        NOBODY if verdict.slot == NOBODY else _broker(state, verdict.slot),
        offset=int(row["offset"]),
        producer_id=int(row["producer_id"]),
        marker_offset=int(row["offset"]) + 1 if sure else -1,
        key_hash_hi=int(row["key_hash_hi"]) if named else 0,
        key_hash_lo=int(row["key_hash_lo"]) if named else 0,
        observations=observations,
    )


# What is settled


def _floor(state: PartitionState, view: int) -> int:
    return int(state.partition["floor"][0, view])


def _raise_floors(state: PartitionState) -> None:
    retained = replicas.retained_from(state)
    for view in (READ_UNCOMMITTED, READ_COMMITTED):
        common = replicas.common_position(state, view)
        state.partition["floor"][0, view] = max(_floor(state, view), common, retained)


def _let_go(state: PartitionState) -> None:
    """Drop what every replica has passed, or what retention has deleted somewhere."""
    _raise_floors(state)
    retained = replicas.retained_from(state)
    floor = _floor(state, READ_UNCOMMITTED)
    unjudged = content.contradictions(state.content) & (state.content["offset"] >= retained)
    stays = (state.content["offset"] >= floor) | unjudged
    state.partition["skipped"][0, READ_UNCOMMITTED] += content.incomparable(state.content[~stays])
    state.content = kept(state.content, stays)
    disputed = outcome.open_disputes(state.pending)
    state.pending = kept(state.pending, (state.pending["offset"] >= _floor(state, READ_COMMITTED)) | disputed)
    # The marker directly behind a tombstone says whether it was surely committed.
    deleting = state.candidates["offset"][(state.candidates["flags"] & TOMBSTONE != 0)]
    oldest = int(deleting.min(initial=_floor(state, READ_COMMITTED)))
    needed = min(floor, int(state.pending["offset"].min(initial=oldest)))
    state.markers = kept(state.markers, state.markers["offset"] >= needed)
    state.candidates = kept(state.candidates, state.candidates["offset"] >= retained)
    _let_go_intervals(state, floor)


def _let_go_intervals(state: PartitionState, floor: int) -> None:
    """An ended transaction is settled once no marker below its end can come; a wrongly ended one, once it was reported.

    One that missed a marker and whose end was not read, once no outcome before that marker can come into dispute.
    """
    if not len(state.intervals):
        return
    intervals = state.intervals
    turned = outcome.turned(intervals)
    oldest = min(
        int(state.candidates["offset"].min(initial=NEVER)),
        int(state.pending["offset"][outcome.open_disputes(state.pending)].min(initial=NEVER)),
    )
    raised = (intervals["told"] & _RAISED_TURNED) != 0
    unsettled = (intervals["missed"] >= _floor(state, READ_COMMITTED)) | (oldest < intervals["missed"])
    awaited = (turned & (~raised | unsettled)) | (markers.passed_open(intervals) & unsettled)
    state.intervals = intervals[(intervals["end"] >= floor) | awaited]
