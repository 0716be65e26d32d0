"""The outcome of a transaction that has ended: what replicas show of its records, and by which end marker (I2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from parallax.findings.answers import ABORTED, COMMITTED, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import (
    Case,
    Decision,
    Resolution,
    Verdict,
    broker_list,
    is_another_log,
    is_of_another_epoch,
    lists_as_aborted,
    names,
    shows_deleted,
    shows_its_end,
    verb,
)
from parallax.findings.decide.repaired import repaired
from parallax.findings.decide.spread import agreed, rightly_shown
from parallax.kinds import OUTCOME_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind


def ended(case: Case) -> Decision:
    """Compare what the replicas decided for the record: live where they hold it, else as recorded."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.first_offset:
        return case.pending(f"broker {accused.broker} has not decided offset {claim.first_offset} yet")
    own = _live_outcome(claim, accused)
    if own is None:
        return _outcome_without_record(case)
    truth = _outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if against and own == _by_recorded_marker(claim):
        return rightly_shown(case, f"offset {claim.first_offset} is {own} on broker {accused.broker}")
    if against:
        gone = (
            "" if claim.first_offset in accused.committed else ", which lists the transaction and has no record there,"
        )
        return case.confirmed(
            f"offset {claim.first_offset} is {own} on broker {accused.broker}{gone} and {_other_outcome(own)} on "
            f"{broker_list(against)}",
            _kind_of(own),
            sides=_by_outcome(truth | {accused.broker: own}),
        )
    if truth:
        decision = agreed(case, own)
        is_complete = decision.resolution is Resolution.SPREAD and len(_live_outcomes(case)) > len(case.others)
        return decision if is_complete else _by_their_markers(case, own) or decision
    reason = f"no other replica shows an outcome for offset {claim.first_offset}"
    return case.not_shown(claim.first_offset, reason, Resolution.INCOMPARABLE)


def is_end_proven(case: Case) -> bool:
    """Whether the end marker of a claim is the one that ended the transaction, and not one of a later transaction.

    It is where readers passed the end markers in time, or where something else lies at each offset before it: then
    there is no room for another one, which may be cleaned by now. What a finding has proven stays so.
    """
    claim = case.claim
    was_proven = claim.confirmed_at_ms and claim.kind in OUTCOME_KINDS and claim.broker != NOBODY
    if not claim.recorded.end_unproven or was_proven:
        return True
    between = claim.before_end
    held: set[int] = set()
    for answer in (case.accused, *case.others):
        if between is not None and not is_another_log(claim, answer):
            held |= answer.uncommitted.keys() | {m.offset for m in answer.markers if m.producer_id != claim.producer_id}
    return between is not None and held.issuperset(between)


def ended_somewhere(case: Case) -> Decision:
    """Compare outcomes where the end marker that is known need not be the one that ended the transaction.

    Nobody is accused by it: who ended the transaction higher up may have done so rightly, though it lacks the marker.
    """
    claim = replace(case.claim, marker_offset=UNKNOWN, recorded=replace(case.claim.recorded, markers={}))
    decision = ended(replace(case, claim=claim))
    if decision.verdict is Verdict.CONFIRMED or decision.was_shown:
        return replace(decision, kind=FindingKind.VISIBILITY_MISMATCH, accused=NOBODY)
    return decision


def _by_their_markers(case: Case, own: str) -> Decision | None:
    """Others show the record as the accused does, and one of them holds the end marker that says otherwise.

    Its index of aborted transactions is wrong there, so that what it shows bears no witness; its end marker does.
    """
    claim = case.claim
    against = [a.broker for a in case.others if _shows_end(claim, a, _other_outcome(own))]
    if not against or _shows_end(claim, case.accused, _other_outcome(own)):
        return None
    return case.confirmed(
        f"offset {claim.first_offset} is {own} on broker {claim.broker}, and {broker_list(against)} "
        f"{'shows' if len(against) == 1 else 'show'} the end marker of offset {claim.marker_offset}, by which it is "
        f"{_other_outcome(own)}",
        _kind_of(own),
        sides=_by_outcome(_live_outcomes(case)),
    )


def _shows_end(claim: Claim, answer: ReplicaAnswer, outcome: str) -> bool:
    """Whether a replica holds the end marker of the claim, and that gives the record this outcome."""
    return not is_another_log(claim, answer) and any(
        (marker.offset, marker.producer_id) == (claim.marker_offset, claim.producer_id)
        and _ended_by(marker.type) == outcome
        for marker in answer.markers
    )


def _by_recorded_marker(claim: Claim) -> str | None:
    """The outcome by the end marker that the accused is said to lack; None where it is not known.

    A replica that shows it is right, whatever others had shown: its log may have been replaced since by one that has
    it.
    """
    outcomes = {_ended_by(marker) for broker, marker in claim.recorded.markers.items() if broker != claim.broker}
    return outcomes.pop() if len(outcomes) == 1 else None


def _unread_key(case: Case) -> str | None:
    """Why it is not known what a replica shows of the key, where that may be known later; None where it is known."""
    if case.claim.key is None:
        return None
    return next((a.key_error for a in (case.accused, *case.others) if a.key_error is not None), None)


def _outcome_without_record(case: Case) -> Decision:
    """The accused does not hold the record any more: the key's latest value, else what was recorded of it."""
    claim = case.claim
    if case.accused.key is not None:
        if (shown := _shown_by_the_key(case) or _behind(case)) is not None:
            return shown
        if not case.accused.key.complete:
            return case.pending(case.accused.key_error or f"the log of broker {claim.broker} was not read as a whole")
    if (unread := _unread_key(case)) is not None:
        return case.pending(unread)
    if (past := _was_shown(case)) is not None:
        return past
    if (healed := repaired(case)) is not None:
        return case.dismissed(healed)
    if case.live_only and case.absent and claim.key is not None and case.accused.log_start_offset <= claim.first_offset:
        # It may be one of these that shows another value of the key.
        return case.pending(f"the values of the key were not compared with {names(case.absent)}")
    return case.not_held(
        f"broker {claim.broker} holds neither the transaction open nor its record at offset {claim.first_offset}",
        claim.first_offset,
    )


def _shown_by_the_key(case: Case) -> Decision | None:
    """The readers of the accused see a value of the key where those of another see none, or the other way round.

    For a finding that is the wrong outcome still. For a suspect it gives no direction: another may have missed what
    deleted the value. Where the accused was not read to show a wrong outcome it says nothing of the transaction. Nor
    does a value that was written behind the transaction's end: whatever that was, the value is newer.
    """
    recorded = case.claim.recorded.outcomes.get(case.claim.broker)
    # That an end marker is missing proves no outcome: the key may differ by what was written since.
    has_outcome = case.claim.kind in OUTCOME_KINDS or recorded is not None
    is_proven = case.live_only and not case.claim.freed and has_outcome
    differing = _latest_differs(case)
    if differing is None or (recorded is None and not is_proven):
        return None
    if UNKNOWN < case.claim.marker_offset < differing.offset:
        return None
    if not is_proven:
        # What differs may be the outcome on another replica, and the comparison be about to say so.
        difference = case.differs(_by_value(case), differing.reason, FindingKind.VISIBILITY_MISMATCH)
        return replace(difference, lone_witness=True)
    kind = _kind_of(recorded) if recorded is not None else case.claim.kind
    return case.confirmed(differing.reason, kind, sides=differing.sides)


def _was_shown(case: Case) -> Decision | None:
    """The accused was read to show another outcome than the others, and does not hold the record any more."""
    claim = case.claim
    own = claim.recorded.outcomes.get(claim.broker)
    if own is None or case.live_only or case.accused.log_start_offset > claim.first_offset:
        return None
    truth = _outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if not against:
        return None
    return case.was_shown(
        f"offset {claim.first_offset} was {own} on broker {claim.broker} when it was read, and "
        f"{_other_outcome(own)} on {broker_list(against)}; broker {claim.broker} does not hold it any more",
        _kind_of(own),
        claim.first_offset,
        _by_outcome(truth | {claim.broker: own}),
    )


def unlike_outcomes(case: Case) -> Decision:
    """Outcomes differ, and no end marker was read that says which is right: a difference is all that is proven."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.offset:
        return case.pending(f"broker {accused.broker} has not decided offset {claim.offset} yet")
    own, truth = _compared_outcomes(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    live = _live_outcomes(case)
    stands = len(set(live.values())) > 1
    if own is None and stands:
        # The one that was asked last holds the record no more; two others differ about it still.
        unlike = f"{broker_list(sorted(live))} do not show offset {claim.offset} alike"
        return case.differs(_by_outcome(live), unlike)
    # The record may be gone where it had the other outcome, and a value with it.
    if (own is None or not stands) and (differing := _latest_differs(case)) is not None:
        return case.differs(_by_value(case), differing.reason)
    if own is None:
        gone = f"broker {accused.broker} does not hold offset {claim.offset} any more"
        return _behind(case) or case.not_held(gone, claim.offset)
    if against:
        sides = _by_outcome(truth | {accused.broker: own})
        shown = f"{own} on broker {accused.broker} and {_other_outcome(own)} on {broker_list(against)}"
        if not stands:
            return _was_unlike(case, f"offset {claim.offset} was {shown}", sides)
        return case.differs(sides, f"offset {claim.offset} is {shown}; no end marker was read that says which is right")
    if truth:
        return case.unproven(f"every replica that answered shows offset {claim.offset} as {own}")
    return case.not_shown(claim.offset, f"no other replica shows an outcome for offset {claim.offset}")


def _compared_outcomes(case: Case) -> tuple[str | None, dict[int, str]]:
    """Return the outcome of the replica that was asked last, and by broker those of the others that count against it.

    Of a finding what is shown now alone counts: what one had shown, and holds no more, is no difference that stands.
    """
    claim, accused = case.claim, case.accused
    own = _live_outcome(claim, accused)
    if case.live_only:
        truth = _live_outcomes(case)
        truth.pop(accused.broker, None)
        return own, truth
    if own is None and accused.log_start_offset <= claim.offset and not _has_lost_its_end(claim, accused):
        own = claim.recorded.outcomes.get(accused.broker)
    # It is not known of a replica that cannot be asked whether its log is still the one that was read.
    absent = {a.broker for a in case.absent}
    return own, {b: outcome for b, outcome in _outcomes_of_others(case).items() if b not in absent}


def _was_unlike(case: Case, reason: str, sides: Mapping[str, list[int]]) -> Decision:
    """Judge outcomes that were unlike, of which the replicas do not show two any more.

    What one had shown need not be of the log that it has now, and nobody can read it wrongly there.
    """
    if case.absent:
        return case.pending(f"{reason}; {names(case.absent)} may show it still")
    return case.was_shown(f"{reason}; no two replicas show it otherwise now", case.claim.kind, case.claim.offset, sides)


def _by_value(case: Case) -> dict[str, list[int]]:
    """Return who shows a value of the key and who shows none, of those that are past the claim's offset."""
    sides: dict[str, list[int]] = {}
    for answer in (case.accused, *case.others):
        if answer.key is not None and answer.last_stable_offset > case.claim.first_offset:
            sides.setdefault("no value" if answer.key.live is None else "a value", []).append(answer.broker)
    return sides


def _live_outcome(claim: Claim, answer: ReplicaAnswer) -> str | None:
    """The outcome that a replica gives the record now: by the record, else by its list of aborted transactions.

    None where it has not decided the record yet: what it lists may be of a log that it has still to truncate.
    """
    if answer.last_stable_offset <= claim.first_offset:
        return None
    shown = answer.committed.get(claim.first_offset)
    if shown is not None and shown.outcome in (COMMITTED, ABORTED):
        known = UNKNOWN not in (shown.producer_id, claim.producer_id)
        # Another producer's record lies there where the log was replaced by another one.
        return None if known and shown.producer_id != claim.producer_id else shown.outcome
    if shown is None and lists_as_aborted(claim, answer, claim.transaction_start_offset):
        return ABORTED
    return None


def _outcomes_of_others(case: Case) -> dict[int, str]:
    """By broker: the live answer, else the end marker that it shows or showed, else the recorded outcome."""
    claim = case.claim
    truth = {broker: _ended_by(marker) for broker, marker in claim.recorded.markers.items()}
    truth |= claim.recorded.outcomes
    for answer in case.others:
        if is_another_log(claim, answer):
            truth.pop(answer.broker, None)
            continue
        if answer.last_stable_offset <= claim.first_offset or _has_lost_its_end(claim, answer):
            # An outcome is for good: what it showed was of a log that was truncated, or it cannot show it yet.
            truth.pop(answer.broker, None)
        for marker in answer.markers:
            if marker.offset == claim.marker_offset and marker.producer_id == claim.producer_id:
                truth[answer.broker] = _ended_by(marker.type)
        if (live := _live_outcome(claim, answer)) is not None:
            truth[answer.broker] = live
    truth.pop(case.accused.broker, None)
    return truth


def _has_lost_its_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether the end marker by which a replica had ended the transaction was truncated with its log.

    What it has held itself is of an epoch that its log knows, unless all of that epoch was truncated.
    """
    end = claim.end_on(answer.broker)
    if end is None or end[1] not in answer.epoch_ends:
        return False
    return end[1] not in answer.epochs_known or is_of_another_epoch(answer, *end)


def _by_outcome(outcomes: Mapping[int, str]) -> dict[str, list[int]]:
    sides: dict[str, list[int]] = {}
    for broker, outcome in outcomes.items():
        sides.setdefault(outcome, []).append(broker)
    return sides


def contradiction(case: Case) -> Decision:
    """Judge a claim that a replica shows a record otherwise than its own first end marker behind the record.

    A marker stays for as long as a record of its transaction does. So where the record is held still, no other end
    marker of the producer lay between the two, and the replica's index of aborted transactions is what is wrong. Where
    it is held no more, the marker that ended it may have been cleaned with it before it was read.
    """
    claim, accused = case.claim, case.accused
    own = _live_outcome(claim, accused) if claim.first_offset in accused.committed else None
    if accused.last_stable_offset <= claim.first_offset or accused.high_watermark <= claim.marker_offset:
        return case.pending(f"broker {accused.broker} does not show what lies up to offset {claim.marker_offset} yet")
    if own is None:
        return case.not_held(f"broker {accused.broker} does not hold offset {claim.offset} any more", claim.offset)
    for marker in accused.markers:
        if marker.offset == claim.marker_offset and marker.producer_id == claim.producer_id:
            if _ended_by(marker.type) == own:
                return case.dismissed(f"broker {accused.broker} shows offset {claim.offset} as its end marker says")
            return case.confirmed(
                f"broker {accused.broker} shows offset {claim.offset} as {own}, and behind it the {marker.type} marker "
                f"of offset {marker.offset}",
                sides=_by_outcome(_live_outcomes(case)),
            )
    if claim.confirmed_at_ms and own == claim.recorded.outcomes.get(accused.broker):
        # Its cleaner goes by the same index: it takes an ABORT of which that knows nothing, and leaves the records.
        return case.confirmed(
            f"broker {accused.broker} shows offset {claim.offset} as {own} still, though its end marker is cleaned",
            sides=_by_outcome(_live_outcomes(case)),
        )
    return case.not_held(f"broker {accused.broker} does not show the end marker any more", claim.marker_offset)


def has_cleaned_its_end(case: Case) -> bool:
    """Whether a replica that contradicted its end marker shows the record so still, and has cleaned the marker.

    The cleaner goes by the index of aborted transactions: where that is wrong it may take the marker and leave the
    record. If that marker lay directly behind the record, that was ended so all the same.
    """
    claim, accused = case.claim, case.accused
    was_read = accused.broker in claim.recorded.markers and accused.broker in claim.recorded.outcomes
    is_held = claim.first_offset in accused.committed and not shows_its_end(claim, accused)
    return was_read and is_held and claim.marker_offset == claim.first_offset + 1


def _live_outcomes(case: Case) -> dict[int, str]:
    others = [a for a in case.others if not is_another_log(case.claim, a)]
    found = {a.broker: _live_outcome(case.claim, a) for a in (case.accused, *others)}
    return {broker: own for broker, own in found.items() if own is not None}


def _ended_by(marker: str) -> str:
    return COMMITTED if marker == "commit" else ABORTED


def _kind_of(accused_outcome: str) -> FindingKind:
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def _other_outcome(outcome: str) -> str:
    return ABORTED if outcome == COMMITTED else COMMITTED


class _Differing(NamedTuple):
    """A value of the key, by its offset, that one replica shows and another does not."""

    reason: str
    offset: int
    sides: Mapping[str, list[int]]


def _latest_differs(case: Case) -> _Differing | None:
    """Whether readers of the accused and of another replica see a value of the key where the other sees none.

    A replica that has not decided the record yet shows nothing of it: what its readers see is older. One that is behind
    another may still show what it will see deleted (`_behind`).
    """
    accused = case.accused
    if accused.key is None:
        return None
    own = accused.key.live
    for other in _decided(case):
        if own is not None and own.offset < other.last_stable_offset:
            if shows_deleted(other, own.offset, accused.last_stable_offset) and not _is_behind(accused, other):
                reason = (
                    f"broker {accused.broker} shows a live value at offset {own.offset}, "
                    f"broker {other.broker} none for that key"
                )
                sides = {"a value": [accused.broker], "no value": [other.broker]}
                return _Differing(reason, own.offset, sides)
        elif other.live is not None and own is None and _lacks(accused, other) and not _is_behind(other, accused):
            reason = f"broker {other.broker} shows a live value, broker {accused.broker} none for that key"
            sides = {"a value": [other.broker], "no value": [accused.broker]}
            return _Differing(reason, other.live.offset, sides)
    return None


def _decided(case: Case) -> list[ReplicaAnswer]:
    """Those of the others whose readers in read_committed are past the claim's record."""
    return [a for a in case.others if a.last_stable_offset > case.claim.first_offset]


def _is_behind(showing: ReplicaAnswer, lacking: ReplicaAnswer) -> bool:
    """Whether a replica that shows a value may not have come to what had deleted it on another."""
    return showing.last_stable_offset < lacking.cleaned_below


def _behind(case: Case) -> Decision | None:
    """Wait for one that shows a value where another shows none, and may not have decided yet what deleted it."""
    accused = case.accused
    if accused.key is None:
        return None
    own = accused.key.live
    if own is None:
        showing, lacking = [a for a in _decided(case) if _is_behind(a, accused) and _lacks(accused, a)], [accused]
    else:
        ahead = [a for a in _decided(case) if own.offset < a.last_stable_offset and _is_behind(accused, a)]
        showing, lacking = [accused], [a for a in ahead if shows_deleted(a, own.offset, a.last_stable_offset)]
    if not showing or not lacking:
        return None
    lack = f"{names(lacking)} {verb(lacking, 'lack')}"
    return case.pending(f"{names(showing)} may not have decided yet what deleted the value that {lack}")


def _lacks(accused: ReplicaAnswer, other: ReplicaAnswer) -> bool:
    """Whether the accused, past the other's live value, shows neither it nor a record of the key above it."""
    theirs, key = other.live, accused.key
    if theirs is None or key is None or not key.complete:
        return False
    explained = key.visible is not None and key.visible.offset > theirs.offset
    return not explained and accused.log_start_offset <= theirs.offset < accused.last_stable_offset
