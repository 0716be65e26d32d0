"""Transactions (I2, I4): the marker that the accused never got, and what became of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from parallax.findings.answers import ABORTED, COMMITTED, Answers, OpenTransaction, ReplicaAnswer
from parallax.findings.claim import Claim, Recorded
from parallax.findings.decide.case import (
    Case,
    Decision,
    Resolution,
    Verdict,
    broker_list,
    is_another_log,
    is_of_another_epoch,
    is_truncated,
    lists_as_aborted,
    names,
    shows_deleted,
)
from parallax.findings.decide.repaired import repaired
from parallax.findings.decide.spread import agreed, hanging, open_everywhere
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import NOBODY, FindingKind

_OPEN = frozenset({FindingKind.MARKER_MISSING, FindingKind.READ_COMMITTED_FROZEN})
"""The kinds of a transaction that is still open on the accused."""


def transaction(case: Case) -> Decision:
    """Judge a claim on a transaction: as one that is still open, or by the outcome of its records."""
    claim, accused = case.claim, case.accused
    if claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER:
        return contradiction(case)
    if _is_marker_truncated(case):
        return _of_a_truncated_log(case)
    if claim.producer_id < 0:
        return _nameless(case)
    if accused.open_transactions is None:
        return case.pending(f"broker {accused.broker} did not list its producers: {accused.open_error}")
    held = _held(claim, accused)
    if held is not None:
        return _still_open(case, held)
    return _outcome(case)


def _is_marker_truncated(case: Case) -> bool:
    """Whether the end marker that the claim is about is of a log that was truncated.

    By its leader epoch, or by what a replica holds in its place: the tail of the log may be of an older epoch.
    """
    claim = case.claim
    if claim.proof is not None and is_truncated(case, *claim.proof):
        return True
    mark = claim.marker_offset
    if mark < 0:
        return False
    answers = (case.accused, *case.others)
    another = any(m.offset == mark and m.producer_id != claim.producer_id for a in answers for m in a.markers)
    return another or any(mark in a.uncommitted for a in answers)


def _of_a_truncated_log(case: Case) -> Decision:
    """The end marker that was recorded is none of the log that stands: it says of no replica that it is wrong.

    What the replicas show now may differ all the same.
    """
    claim = replace(case.claim, marker_offset=-1, recorded=Recorded())
    decision = transaction(replace(case, claim=claim))
    if decision.verdict is not Verdict.CONFIRMED or decision.kind in _OPEN:
        return decision
    return replace(decision, kind=FindingKind.VISIBILITY_MISMATCH, accused=NOBODY)


def named(claim: Claim, answers: Answers) -> Claim:
    """Set a claim right that names no transaction, or a frozen one that names another than the accused is held by.

    The transaction meant is then the one that the accused holds open where its last stable offset stands.
    """
    accused = answers.replicas.get(claim.broker)
    frozen = claim.kind is FindingKind.READ_COMMITTED_FROZEN
    unnamed = claim.kind in TRANSACTION_KINDS and claim.producer_id < 0
    if accused is None or not (frozen or unnamed) or (not unnamed and _held(claim, accused) is not None):
        return claim
    for held in accused.open_transactions or ():
        if _pins(held, accused):
            return replace(
                claim,
                offset=held.start_offset,
                producer_id=held.producer_id,
                transaction_start_offset=held.start_offset,
                marker_offset=claim.marker_offset if claim.marker_offset > held.start_offset else -1,
                renamed=not unnamed,
            )
    return claim


def _pins(held: OpenTransaction, accused: ReplicaAnswer) -> bool:
    """Whether it is this transaction that the replica's last stable offset stands at.

    It stands at the first offset of the first open transaction; where the cleaner has taken that record, at the next
    that is left (UnifiedLog.maybeConvertToOffsetMetadata, LogSegment.read).
    """
    first = min((t.start_offset for t in accused.open_transactions or ()), default=-1)
    if held.start_offset != first:
        return False
    return held.start_offset == accused.last_stable_offset or (
        held.start_offset < accused.last_stable_offset < accused.high_watermark
    )


def _held(claim: Claim, answer: ReplicaAnswer) -> OpenTransaction | None:
    return answer.open_transaction(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)


def _nameless(case: Case) -> Decision:
    """No replica has said which transaction it is; it is no divergence once the accused has caught up."""
    ahead = [a.broker for a in case.others if a.last_stable_offset > case.accused.last_stable_offset]
    if ahead:
        return case.pending(f"broker {case.accused.broker} does not say which transaction holds it back")
    return case.unproven("its last stable offset does not stand behind that of the others")


def _still_open(case: Case, held: OpenTransaction) -> Decision:
    """The accused holds the transaction open: a divergence once it is past the marker and another has closed it."""
    claim, accused = case.claim, case.accused
    start = claim.transaction_start_offset
    is_open = [accused.broker, *(a.broker for a in case.others if _held(claim, a) is not None)]
    has_ended = _ended_by_coordinator(case) or (not claim.renamed and _ended_by_record(case, held))
    where = f"open at offset {held.start_offset} on {broker_list(sorted(is_open))}"
    leads = case.answers.leader in is_open
    if leads and case.absent and not case.live_only and _is_nobodys_fault(case, held, ()):
        return hanging(where)
    if (complete := open_everywhere(case, held, is_open, has_ended=has_ended)) is not None:
        return complete
    closed = [a for a in case.others if _knew(claim, a) and _held(claim, a) is None]
    if leads and _is_nobodys_fault(case, held, closed):
        return hanging(where)
    if not closed and not _ended_by_coordinator(case):
        unsure = [a for a in case.others if not _knew(claim, a)]
        if unsure and _ended_by_record(case, held):
            ended = sorted(claim.recorded.markers.keys() - set(is_open))
            return case.confirmed(
                f"{where}, past the end marker that was read on {broker_list(ended)}",
                claim.kind if claim.kind is FindingKind.READ_COMMITTED_FROZEN else FindingKind.MARKER_MISSING,
                sides={"open": is_open, "ended, as it was read": ended},
            )
        if unsure:
            return case.pending(f"{names(unsure)} cannot say whether the transaction is open")
        return case.unproven(f"the transaction at offset {start} is open on every replica that answered")
    if closed and not _past_the_marker(claim, accused, closed):
        return case.pending(f"broker {accused.broker} has not caught up with the end of the transaction yet")
    if claim.marker_offset < 0 and case.answers.coordinator is not None and case.answers.coordinator.is_ending:
        return case.pending("the transaction coordinator is still writing the markers")
    ended = [a.broker for a in closed]
    where += f", ended on {broker_list(ended)}" if ended else ", ended by its coordinator"
    sides = {"open": is_open, "ended": ended}
    frozen = accused.last_stable_offset <= held.start_offset or _pins(held, accused)
    if claim.kind is FindingKind.READ_COMMITTED_FROZEN and frozen:
        reason = f"{where}; the last stable offset of broker {accused.broker} stands there"
        return case.confirmed(reason, FindingKind.READ_COMMITTED_FROZEN, sides=sides)
    reason = f"{where}; broker {accused.broker} is past the end marker"
    return case.confirmed(reason, FindingKind.MARKER_MISSING, sides=sides)


def _is_nobodys_fault(case: Case, held: OpenTransaction, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether a transaction has ended, and no log that may be the partition's has ever held its end marker."""
    if not closed:
        return _ended_by_coordinator(case) and not _ended_by_record(case, held)
    return _past_the_marker(case.claim, case.accused, closed) and _had_ended(case, held)


def _had_ended(case: Case, held: OpenTransaction) -> bool:
    """Whether one that holds the transaction open had ended it once, in a log that was truncated since.

    The cleaner leaves alone what is open. So one whose log reaches down to the transaction's first record and does not
    hold it had let the cleaner take it. Who was copied from it since never had the transaction, and has seen no end.
    """
    start = held.start_offset
    lacking = [a for a in (case.accused, *case.others) if start in a.asked_uncommitted - a.uncommitted.keys()]
    return any(a.holds_open(held.producer_id, start) for a in lacking)


def _knew(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica that does not list the transaction as open must have seen it end.

    One whose log starts above it may never have known it, or has forgotten it with the records (DeleteRecords, or a log
    that was truncated and copied again); one with another log has not known it either.
    """
    start = claim.transaction_start_offset
    reaches = answer.log_start_offset <= start < answer.high_watermark
    return answer.open_transactions is not None and reaches and not is_another_log(claim, answer)


def _ended_by_coordinator(case: Case) -> bool:
    """Whether the coordinator, asked first, had ended the producer's transactions, and the accused is past that.

    Asked for only where no replica can say. The markers were below the leader's high watermark then.
    """
    coordinator, leader = case.answers.coordinator, case.answers.leader
    if coordinator is None or not coordinator.has_ended:
        return False
    leading = [a.high_watermark for a in case.others if a.broker == leader]
    return leader == case.accused.broker or any(case.accused.high_watermark >= mark for mark in leading)


def _ended_by_record(case: Case, held: OpenTransaction) -> bool:
    """Whether another replica was recorded to show the end marker, and the accused is past it."""
    claim = case.claim
    replaced = {a.broker for a in case.others if is_another_log(claim, a)}
    recorded = claim.recorded.markers.keys() - replaced - {claim.broker}
    return bool(recorded) and held.start_offset < claim.marker_offset < case.accused.high_watermark


def _past_the_marker(claim: Claim, accused: ReplicaAnswer, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether the accused has replicated beyond the place where the transaction ended.

    A transaction that a replica does not list ended below where its log ended after that. A replica appends in offset
    order: one whose high watermark, asked before, is past the marker and that holds the transaction open never got it.
    """
    if claim.marker_offset >= 0:
        return accused.high_watermark > claim.marker_offset
    return any(accused.high_watermark >= a.ended_below for a in closed)


def _outcome(case: Case) -> Decision:
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
        return case.dismissed(f"offset {claim.first_offset} is {own} on broker {accused.broker}, by its end marker")
    if against:
        gone = (
            "" if claim.first_offset in accused.committed else ", which lists the transaction and has no record there,"
        )
        return case.confirmed(
            f"offset {claim.first_offset} is {own} on broker {accused.broker}{gone} and {truth[against[0]]} on "
            f"{broker_list(against)}",
            _kind_of(own),
            sides=_by_outcome(truth | {accused.broker: own}),
        )
    if truth:
        return agreed(case, own)
    reason = f"no other replica shows an outcome for offset {claim.first_offset}"
    return case.not_shown(claim.first_offset, reason, Resolution.INCOMPARABLE)


def _by_recorded_marker(claim: Claim) -> str | None:
    """The outcome by the end marker that the accused is said to lack; None where it is not known.

    One that shows it is right, whatever others had shown: its log may have been replaced since by one that has it.
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
    if claim.key is not None and case.accused.key is not None:
        if (shown := _shown_by_the_key(case)) is not None:
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

    Of a finding that is the wrong outcome still. Of a suspect it gives no direction: another may have missed what
    deleted the value. Where the accused was not read to show a wrong outcome it says nothing of the transaction.
    """
    recorded = case.claim.recorded.outcomes.get(case.claim.broker)
    is_proven = case.live_only and not case.claim.freed
    differing = _latest_differs(case)
    if differing is None or (recorded is None and not is_proven):
        return None
    if not is_proven:
        # What differs may be the outcome on another replica, and the comparison be about to say so.
        difference = case.differs(_by_value(case), differing[0], FindingKind.VISIBILITY_MISMATCH)
        return replace(difference, lone_witness=True)
    kind = _kind_of(recorded) if recorded is not None else _wrong_outcome_kind(case.claim)
    return case.confirmed(differing[0], kind, sides=differing[1])


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
    own = _live_outcome(claim, accused)
    reaches = accused.log_start_offset <= claim.offset
    if own is None and not case.live_only and reaches and not _has_lost_its_end(claim, accused):
        own = claim.recorded.outcomes.get(accused.broker)
    # Of one that cannot be asked nobody knows whether its log is still the one that was read.
    absent = {a.broker for a in case.absent}
    truth = {b: outcome for b, outcome in _outcomes_of_others(case).items() if b not in absent}
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    # The record may be gone where it had the other outcome, and a value with it.
    if (own is None or not against) and (differing := _latest_differs(case)) is not None:
        return case.differs(_by_value(case), differing[0])
    if own is None:
        return case.not_held(f"broker {accused.broker} does not hold offset {claim.offset} any more", claim.offset)
    if against:
        sides = _by_outcome(truth | {accused.broker: own})
        shown = f"{own} on broker {accused.broker} and {truth[against[0]]} on {broker_list(against)}"
        if all(claim.offset not in a.committed for a in (accused, *case.others)) and not case.absent:
            # What each had shown need not be of the log that it has now, and nobody can read it wrongly any more.
            return case.was_shown(
                f"offset {claim.offset} was {shown}; no replica holds it", claim.kind, claim.offset, sides
            )
        return case.differs(sides, f"offset {claim.offset} is {shown}; no end marker was read that says which is right")
    if truth:
        return case.unproven(f"every replica that answered shows offset {claim.offset} as {own}")
    return case.not_shown(claim.offset, f"no other replica shows an outcome for offset {claim.offset}")


def _by_value(case: Case) -> dict[str, list[int]]:
    """Who shows a value of the key and who shows none, of those that are past the claim's offset."""
    sides: dict[str, list[int]] = {}
    for answer in (case.accused, *case.others):
        if answer.key is not None and answer.last_stable_offset > case.claim.first_offset:
            sides.setdefault("no value" if answer.key.live is None else "a value", []).append(answer.broker)
    return sides


def _wrong_outcome_kind(claim: Claim) -> FindingKind:
    """The kind to report where only the key's value tells: a claim on the marker alone has become a hidden commit."""
    if claim.kind in (FindingKind.ABORTED_RECORD_COMMITTED, FindingKind.COMMITTED_RECORD_ABORTED):
        return claim.kind
    return FindingKind.COMMITTED_RECORD_ABORTED


def _live_outcome(claim: Claim, answer: ReplicaAnswer) -> str | None:
    """The outcome that a replica gives the record now: by the record, else by its list of aborted transactions."""
    shown = answer.committed.get(claim.first_offset)
    if shown is not None and shown.outcome in (COMMITTED, ABORTED):
        known = shown.producer_id >= 0 and claim.producer_id >= 0
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
    return case.not_held(f"broker {accused.broker} does not show the end marker any more", claim.marker_offset)


def _live_outcomes(case: Case) -> dict[int, str]:
    found = {a.broker: _live_outcome(case.claim, a) for a in (case.accused, *case.others)}
    return {broker: own for broker, own in found.items() if own is not None}


def _ended_by(marker: str) -> str:
    return COMMITTED if marker == "commit" else ABORTED


def _kind_of(accused_outcome: str) -> FindingKind:
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def _other_outcome(outcome: str) -> str:
    return ABORTED if outcome == COMMITTED else COMMITTED


def _latest_differs(case: Case) -> tuple[str, dict[str, list[int]]] | None:
    """Whether readers of the accused and of another replica see a value of the key where the other sees none.

    One that has not decided the record yet shows nothing of it: what its readers see is older.
    """
    accused = case.accused
    if accused.key is None:
        return None
    own = accused.key.live
    for other in (a for a in case.others if a.last_stable_offset > case.claim.first_offset):
        if own is not None and own.offset < other.last_stable_offset:
            if shows_deleted(other, own.offset, accused.last_stable_offset):
                return (
                    f"broker {accused.broker} shows a live value at offset {own.offset}, "
                    f"broker {other.broker} none for that key"
                ), {"a value": [accused.broker], "no value": [other.broker]}
        elif own is None and _lacks(accused, other):
            reason = f"broker {other.broker} shows a live value, broker {accused.broker} none for that key"
            return reason, {"a value": [other.broker], "no value": [accused.broker]}
    return None


def _lacks(accused: ReplicaAnswer, other: ReplicaAnswer) -> bool:
    """Whether the accused, past the other's live value, shows neither it nor a record of the key above it."""
    theirs = other.key.live if other.key is not None else None
    if theirs is None or accused.key is None or not accused.key.complete:
        return False
    explained = accused.key.visible is not None and accused.key.visible.offset > theirs.offset
    return not explained and accused.log_start_offset <= theirs.offset < accused.last_stable_offset
