"""Is the suspect a divergence? A pure function of what the replicas answered and what was recorded of them.

Three verdicts: *confirmed* needs proof, *dismissed* needs proof of the contrary, and everything else is *pending*
and asked again. The order in which replicas were asked is part of some proofs; parallax.findings.probe holds to it:
the others first, the accused after them, and (where the accused shows nothing) the others once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from parallax.compare.suspect import TRANSACTION_KINDS
from parallax.findings.answers import ABORTED, COMMITTED, Answers, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.model import FindingKind, IsolationLevel, Rule


class Verdict(StrEnum):
    """What a probe makes of a claim."""

    CONFIRMED = "confirmed"
    DISMISSED = "dismissed"
    PENDING = "pending"


class Resolution(StrEnum):
    """Why a claim that held does not hold any more."""

    HEALED = "healed"
    """The accused shows what the others show, or what it showed is superseded."""
    COMPACTED = "evidence_compacted"
    """The accused does not hold the record any more, so nothing shows what it makes of it; that has not changed."""
    DELETED = "evidence_deleted"
    """The record lies below the log start: retention or DeleteRecords took it, right or wrong."""
    SPREAD = "spread"
    """All replicas show what the accused shows: those that were right have been copied anew from a wrong one."""
    GONE = "object_gone"
    """The topic, the partition or the replica is gone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason.

    Attributes:
        kind: what it is; may say more than the claim did (``marker_missing`` that has turned into a wrong outcome).
        reason: one line for people.
        lone_witness: the difference is proven, but it hangs on a transactional record that one replica alone shows:
            that replica may have its outcome wrong, and the comparison may be about to say so. Worth a moment's wait.
        resolution: where it is dismissed and had been confirmed before: why it does not hold any more.
    """

    verdict: Verdict
    kind: FindingKind
    reason: str
    lone_witness: bool = False
    resolution: Resolution = Resolution.HEALED


@dataclass(frozen=True, slots=True)
class _Case:
    """A claim with the answers, sorted by who gave them."""

    claim: Claim
    accused: ReplicaAnswer
    others: Sequence[ReplicaAnswer]
    absent: Sequence[ReplicaAnswer]
    answers: Answers
    live_only: bool

    def confirmed(self, reason: str, kind: FindingKind | None = None) -> Decision:
        return Decision(Verdict.CONFIRMED, kind or self.claim.kind, reason)

    def dismissed(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        return Decision(Verdict.DISMISSED, self.claim.kind, reason, resolution=resolution)

    def not_held(self, reason: str, offset: int) -> Decision:
        """The accused does not hold the record any more, so there is nothing left to show what it makes of it."""
        if self.accused.log_start_offset > offset:
            return self.dismissed(
                f"{reason}: it is below the log start {self.accused.log_start_offset}", Resolution.DELETED
            )
        return self.dismissed(reason, Resolution.COMPACTED)

    def pending(self, reason: str) -> Decision:
        return Decision(Verdict.PENDING, self.claim.kind, reason)

    def unproven(self, reason: str, resolution: Resolution = Resolution.HEALED) -> Decision:
        """Nobody who answered proves it: wait for those who did not answer, else it is no divergence."""
        if self.absent:
            return self.pending(f"{reason}; not reached: {_names(self.absent)} ({self.absent[0].error})")
        return self.dismissed(reason, resolution)

    def not_shown(
        self,
        offset: int,
        reason: str,
        resolution: Resolution = Resolution.HEALED,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Decision:
        """No other shows the offset: wait for those whose log reaches beyond it and that do not show it yet.

        One that was started again begins with the high watermark of its last checkpoint.
        """
        held_back = [a for a in self.others if _shown_to(a, isolation) <= offset < a.log_end_offset]
        if held_back:
            return self.pending(f"{reason}; {_names(held_back)} cannot show it yet")
        return self.unproven(reason, resolution)


def _shown_to(answer: ReplicaAnswer, isolation: IsolationLevel) -> int:
    """The first offset that a replica does not show to its consumers."""
    is_committed = isolation is IsolationLevel.READ_COMMITTED
    return answer.last_stable_offset if is_committed else answer.high_watermark


def decide(claim: Claim, answers: Answers, *, live_only: bool = False) -> Decision:
    """Judge one claim.

    Args:
        claim: what is claimed of which replica.
        answers: what the replicas said to the probe.
        live_only: judge by what the accused shows now alone (a finding that is checked again): what was recorded of
            it earlier does not keep a finding open.
    """
    claim = named(claim, answers)
    if answers.coordinator is not None and answers.coordinator.producer_id != claim.producer_id:
        # Another producer's transaction is meant now than the one that the coordinator was asked about.
        answers = replace(answers, coordinator=None)
    if answers.gone is not None:
        return Decision(Verdict.DISMISSED, claim.kind, answers.gone, resolution=Resolution.GONE)
    accused = answers.replicas.get(claim.broker)
    if accused is None or accused.error is not None:
        error = "it is not among the replicas" if accused is None else accused.error
        return Decision(Verdict.PENDING, claim.kind, f"broker {claim.broker} could not be asked: {error}")
    rest = [a for b, a in sorted(answers.replicas.items()) if b != claim.broker]
    others = [a for a in rest if a.error is None]
    absent = [a for a in rest if a.error is not None]
    return _JUDGES[claim.kind](_Case(claim, accused, others, absent, answers, live_only))


# Transactions: the marker that the accused never got, and what becomes of it (I2, I4).


def _transaction(case: _Case) -> Decision:
    claim, accused = case.claim, case.accused
    if claim.producer_id < 0:
        return _nameless(case)
    if accused.open_transactions is None:
        return case.pending(f"broker {accused.broker} did not list its producers: {accused.open_error}")
    held = _held(claim, accused)
    if held is not None:
        return _still_open(case, held)
    return _outcome(case)


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


def _nameless(case: _Case) -> Decision:
    """Nobody has told which transaction it is; it is no divergence once the accused has caught up."""
    ahead = [a.broker for a in case.others if a.last_stable_offset > case.accused.last_stable_offset]
    if ahead:
        return case.pending(f"broker {case.accused.broker} does not say which transaction holds it back")
    return case.unproven("its last stable offset does not stand behind that of the others")


def _still_open(case: _Case, held: OpenTransaction) -> Decision:
    """The accused holds the transaction open: a divergence once it is past the marker and another has closed it."""
    claim, accused = case.claim, case.accused
    start = claim.transaction_start_offset
    closed = [a for a in case.others if _knew(claim, a) and _held(claim, a) is None]
    if not closed and not _ended_by_coordinator(case):
        unsure = [a for a in case.others if not _knew(claim, a)]
        if unsure and _ended_by_record(case, held):
            return case.confirmed(
                f"open at offset {held.start_offset} on broker {accused.broker}, past the end marker that was recorded",
                claim.kind if claim.kind is FindingKind.READ_COMMITTED_FROZEN else FindingKind.MARKER_MISSING,
            )
        if unsure:
            return case.pending(f"{_names(unsure)} cannot say whether the transaction is open")
        return case.unproven(f"the transaction at offset {start} is open on every replica that answered")
    if closed and not _past_the_marker(claim, accused, closed):
        return case.pending(f"broker {accused.broker} has not caught up with the end of the transaction yet")
    if claim.marker_offset < 0 and case.answers.coordinator is not None and case.answers.coordinator.is_ending:
        return case.pending("the transaction coordinator is still writing the markers")
    frozen = accused.last_stable_offset <= held.start_offset or _pins(held, accused)
    if claim.kind is FindingKind.READ_COMMITTED_FROZEN and frozen:
        return case.confirmed(
            f"open at offset {held.start_offset} on broker {accused.broker} only; its last stable offset stands there",
            FindingKind.READ_COMMITTED_FROZEN,
        )
    return case.confirmed(
        f"open at offset {held.start_offset} on broker {accused.broker} only, past the end marker",
        FindingKind.MARKER_MISSING,
    )


def _knew(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica that does not list the transaction as open must have seen it end.

    One whose log starts above it may never have known it, or has forgotten it with the records (DeleteRecords, or a log
    that was truncated and copied anew); one with another log has not known it either.
    """
    start = claim.transaction_start_offset
    reaches = answer.log_start_offset <= start < answer.high_watermark
    return answer.open_transactions is not None and reaches and not _is_another_log(claim, answer)


def _ended_by_coordinator(case: _Case) -> bool:
    """Whether the coordinator, asked first, had ended the producer's transactions, and the accused is past that.

    Asked for only where no replica can tell. The markers were below the leader's high watermark then.
    """
    coordinator, leader = case.answers.coordinator, case.answers.leader
    if coordinator is None or not coordinator.has_ended:
        return False
    leading = [a.high_watermark for a in case.others if a.broker == leader]
    return leader == case.accused.broker or any(case.accused.high_watermark >= mark for mark in leading)


def _ended_by_record(case: _Case, held: OpenTransaction) -> bool:
    """Whether another replica was recorded to show the end marker, and the accused is past it."""
    claim = case.claim
    replaced = {a.broker for a in case.others if _is_another_log(claim, a)}
    recorded = claim.recorded.markers.keys() - replaced - {claim.broker}
    return bool(recorded) and held.start_offset < claim.marker_offset < case.accused.high_watermark


def _past_the_marker(claim: Claim, accused: ReplicaAnswer, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether the accused has replicated beyond the place where the transaction ended.

    A transaction that a replica has closed ended below the high watermark that it tells. A replica appends in offset
    order, so one whose high watermark is past the marker and that still holds the transaction open never got it.
    """
    if claim.marker_offset >= 0:
        return accused.high_watermark > claim.marker_offset
    return any(accused.high_watermark >= a.high_watermark for a in closed)


def _outcome(case: _Case) -> Decision:
    """Compare what the replicas decided for the record: live where they hold it, else as recorded."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.first_offset:
        return case.pending(f"broker {accused.broker} has not decided offset {claim.first_offset} yet")
    own = _live_outcome(claim, accused)
    if own is None:
        return _outcome_without_record(case)
    truth = _outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if against:
        return case.confirmed(
            f"offset {claim.first_offset} is {own} on broker {accused.broker} and {truth[against[0]]} on "
            f"{_broker_list(against)}",
            _kind_of(own),
        )
    if truth:
        # One that shows what it was found to show wrongly is not put right by the others' showing it as well.
        spread = _kind_of(own) is claim.kind
        reason = f"every replica shows offset {claim.first_offset} as {own}"
        return case.dismissed(reason, Resolution.SPREAD if spread else Resolution.HEALED)
    return case.not_shown(claim.first_offset, f"no other replica shows an outcome for offset {claim.first_offset}")


def _outcome_without_record(case: _Case) -> Decision:
    """The accused does not hold the record any more: the key's latest value, else what was recorded of it."""
    claim = case.claim
    if claim.key is not None and case.accused.key is not None:
        if (differing := _latest_differs(case)) is not None:
            recorded = claim.recorded.outcomes.get(claim.broker)
            kind = _kind_of(recorded) if recorded is not None else _wrong_outcome_kind(claim)
            return case.confirmed(differing, kind)
        if not case.accused.key.complete:
            return case.pending(f"the log of broker {claim.broker} is longer than one probe may read")
    own = claim.recorded.outcomes.get(claim.broker)
    if own is not None and not case.live_only:
        against = sorted(b for b, outcome in _outcomes_of_others(case).items() if outcome != own)
        if against:
            return case.confirmed(
                f"offset {claim.first_offset} was {own} on broker {claim.broker} when it was read, and "
                f"{_other_outcome(own)} on {_broker_list(against)}",
                _kind_of(own),
            )
    return case.not_held(
        f"broker {claim.broker} holds neither the transaction open nor its record at offset {claim.first_offset}",
        claim.first_offset,
    )


def _unlike_outcomes(case: _Case) -> Decision:
    """Outcomes differ, and no end marker was read that says which is right: a difference is all that is proven."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.offset:
        return case.pending(f"broker {accused.broker} has not decided offset {claim.offset} yet")
    own = _live_outcome(claim, accused)
    if own is None and not case.live_only:
        own = claim.recorded.outcomes.get(claim.broker)
    if own is None:
        return case.not_held(f"broker {accused.broker} does not hold offset {claim.offset} any more", claim.offset)
    truth = _outcomes_of_others(case)
    against = sorted(b for b, outcome in truth.items() if outcome != own)
    if against:
        return case.confirmed(
            f"offset {claim.offset} is {own} on broker {accused.broker} and {truth[against[0]]} on "
            f"{_broker_list(against)}; no end marker was read that says which is right"
        )
    if truth:
        return case.dismissed(f"every replica shows offset {claim.offset} as {own}")
    return case.not_shown(claim.offset, f"no other replica shows an outcome for offset {claim.offset}")


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
    if shown is None and _lists_as_aborted(claim, answer, claim.transaction_start_offset):
        return ABORTED
    return None


def _lists_as_aborted(claim: Claim, answer: ReplicaAnswer, offset: int) -> bool:
    """Whether a replica lists the claim's producer as having aborted what it wrote at an offset.

    The list of a log that was replaced tells of other transactions: one that ended at the very offset is listed as well
    (``TransactionIndex.collectAbortedTxns`` takes those whose last offset is not below the one that is fetched).
    """
    listed = any(pid == claim.producer_id and first <= offset for pid, first in answer.aborted)
    return listed and not _is_another_log(claim, answer)


def _is_another_log(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds an end marker or another producer's record where the transaction has one of its own.

    Its log was replaced by another one, as after an unclean election: what it says of the producer is of other
    transactions.
    """
    for place in (claim.offset, claim.transaction_start_offset):
        held = answer.uncommitted.get(place)
        if _has_marker(answer, place) or (held is not None and held.producer_id != claim.producer_id):
            return True
    return False


def _has_marker(answer: ReplicaAnswer, offset: int) -> bool:
    return any(marker.offset == offset for marker in answer.markers)


def _outcomes_of_others(case: _Case) -> dict[int, str]:
    """By broker: the live answer, else the end marker that it shows or showed, else the recorded outcome."""
    claim = case.claim
    truth = {broker: _ended_by(marker) for broker, marker in claim.recorded.markers.items()}
    truth |= claim.recorded.outcomes
    for answer in case.others:
        if _is_another_log(claim, answer):
            truth.pop(answer.broker, None)
            continue
        for marker in answer.markers:
            if marker.offset == claim.marker_offset and marker.producer_id == claim.producer_id:
                truth[answer.broker] = _ended_by(marker.type)
        if (live := _live_outcome(claim, answer)) is not None:
            truth[answer.broker] = live
    truth.pop(claim.broker, None)
    return truth


def _ended_by(marker: str) -> str:
    return COMMITTED if marker == "commit" else ABORTED


def _kind_of(accused_outcome: str) -> FindingKind:
    if accused_outcome == COMMITTED:
        return FindingKind.ABORTED_RECORD_COMMITTED
    return FindingKind.COMMITTED_RECORD_ABORTED


def _other_outcome(outcome: str) -> str:
    return ABORTED if outcome == COMMITTED else COMMITTED


def _latest_differs(case: _Case) -> str | None:
    """Whether readers of the accused and of another replica see a value of the key where the other sees none."""
    accused = case.accused
    if accused.key is None:
        return None
    own = accused.key.live
    for other in case.others:
        if own is not None and own.offset < other.last_stable_offset:
            if _shows_deleted(other, own.offset, accused.last_stable_offset):
                return (
                    f"broker {accused.broker} shows a live value at offset {own.offset}, "
                    f"broker {other.broker} none for that key"
                )
        elif own is None and _lacks(accused, other):
            return f"broker {other.broker} shows a live value, broker {accused.broker} none for that key"
    return None


def _lacks(accused: ReplicaAnswer, other: ReplicaAnswer) -> bool:
    """Whether the accused, past the other's live value, shows neither it nor a record of the key above it."""
    theirs = other.key.live if other.key is not None else None
    if theirs is None or accused.key is None or not accused.key.complete:
        return False
    explained = accused.key.visible is not None and accused.key.visible.offset > theirs.offset
    return not explained and accused.log_start_offset <= theirs.offset < accused.last_stable_offset


# The latest value of a key (I3).


def _latest_value(case: _Case) -> Decision:
    claim, accused = case.claim, case.accused
    if claim.rule is Rule.OUTCOME and claim.kind is FindingKind.VISIBILITY_MISMATCH:
        return _unlike_outcomes(case)
    if claim.key is None:
        return _missing_offset(case)
    if accused.last_stable_offset <= claim.offset:
        return case.pending(f"broker {accused.broker} does not show offset {claim.offset} to its consumers yet")
    if (told := _told_by_outcome(claim, accused)) is not None:
        return case.dismissed(told)
    if accused.key is None:
        return case.pending(f"broker {accused.broker}: {accused.key_error or 'the key was not read'}")
    if (live := accused.key.live) is not None:
        return _accused_shows(case, live)
    return _accused_lacks(case)


def _told_by_outcome(claim: Claim, accused: ReplicaAnswer) -> str | None:
    """A record that the accused holds but hides is a difference of outcome, which has a finding of its own."""
    shown = accused.committed.get(claim.offset)
    recorded = claim.recorded.outcomes.get(accused.broker)
    if (shown is not None and shown.outcome == ABORTED) or (shown is None and recorded == ABORTED):
        return f"broker {accused.broker} hides offset {claim.offset} as aborted: its outcome is the cause"
    if shown is None and claim.producer_id >= 0 and _lists_as_aborted(claim, accused, claim.offset):
        return (
            f"broker {accused.broker} lists the transaction around offset {claim.offset} as aborted: that is the cause"
        )
    return None


def _accused_shows(case: _Case, live: RecordShown) -> Decision:
    """The accused shows a live value: old news where the others have deleted or replaced it."""
    claim, accused = case.claim, case.accused
    if live.offset == claim.offset and claim.kind is FindingKind.VISIBILITY_MISMATCH:
        return _shown_against_others(case, live)
    if live.offset >= claim.offset:
        return case.dismissed(f"broker {accused.broker} shows a value as new as that of the others (at {live.offset})")
    others = [a for a in case.others if a.key is not None and a.last_stable_offset > claim.offset]
    if claim.kind is FindingKind.DELETED_RECORD_RESURRECTED:
        # One that shows it deleted decides: another that shows a newer value may have missed the tombstone as well.
        others.sort(key=lambda a: a.key is not None and a.key.live is not None)
    for other in others:
        theirs = other.key.live if other.key is not None else None
        if theirs is not None and live.offset < theirs.offset < accused.last_stable_offset:
            reason = (
                f"broker {accused.broker} shows the key's value of offset {live.offset}, "
                f"broker {other.broker} the newer one of offset {theirs.offset}"
            )
            return _missing(case, theirs, reason)
        if theirs is None and _shows_deleted(other, live.offset, accused.last_stable_offset):
            return _resurrected(case, live, other)
    decision = _undecided_key(case, f"no other replica has replaced or deleted the value at offset {live.offset}")
    if claim.kind is FindingKind.DELETED_RECORD_RESURRECTED and _all_show_a_value(case.others):
        return replace(decision, resolution=Resolution.SPREAD)
    return decision


def _all_show_a_value(others: Sequence[ReplicaAnswer]) -> bool:
    return bool(others) and all(other.key is not None and other.key.live is not None for other in others)


def _shown_against_others(case: _Case, live: RecordShown) -> Decision:
    """The accused shows the very value that others lack, and no tombstone is known: either may be right.

    A difference only if the accused, asked after another, is as far as that one was: whatever had deleted the value
    there lay below, so the accused has passed it. One that is behind may still copy a later record of the key.
    """
    accused = case.accused
    lacking = [a for a in case.others if _shows_deleted(a, live.offset, accused.last_stable_offset)]
    if not lacking:
        return _undecided_key(case, f"no other replica lacks the value at offset {live.offset}")
    passed = [a for a in lacking if accused.last_stable_offset >= a.last_stable_offset > live.offset]
    if not passed:
        return case.pending(f"broker {accused.broker} has not caught up with {_names(lacking)} yet")
    reason = (
        f"broker {accused.broker} shows the key's value of offset {live.offset} and nothing newer; "
        f"{_names(passed)}, past it, shows none"
    )
    return replace(case.confirmed(reason), lone_witness=live.outcome == COMMITTED)


def _shows_deleted(other: ReplicaAnswer, offset: int, bound: int) -> bool:
    """Whether a replica tells its readers that the key has no value, by what the accused must have seen as well."""
    if other.key is None or other.log_start_offset > offset:
        return False
    if other.key.newest_offset >= bound or other.key.live is not None:
        return False
    if other.key.visible is not None and other.key.visible.offset > offset:
        return True
    return other.key.complete or (offset in other.asked and offset not in other.committed)


def _witnesses(case: _Case, live: RecordShown) -> int:
    """How many others have deleted the value that the accused shows, by what the accused has passed."""
    accused, offset = case.accused, case.claim.offset
    past = [a for a in case.others if a.last_stable_offset > offset]
    return sum(_shows_deleted(a, live.offset, accused.last_stable_offset) for a in past)


def _resurrected(case: _Case, live: RecordShown, other: ReplicaAnswer) -> Decision:
    shown = other.key.visible if other.key is not None else None
    what = "nothing" if shown is None else f"a tombstone at offset {shown.offset}"
    reason = (
        f"broker {case.accused.broker} shows a live value at offset {live.offset} and nothing newer for the key; "
        f"broker {other.broker} shows {what}"
    )
    if shown is None and any(_holds_another(case.claim, answer) for answer in (case.accused, *case.others)):
        # The log that held the tombstone was replaced: the value may be the truth, and what had replaced it lost.
        return case.confirmed(reason, FindingKind.VISIBILITY_MISMATCH)
    past = [a.key for a in case.others if a.last_stable_offset > live.offset and a.key is not None]
    alone = len(past) < 2 or any(key.live is not None for key in past)
    if not alone and _witnesses(case, live) > 1:
        # Whoever showed the tombstone is not the only one to have deleted the key: it hangs on no lone outcome.
        return case.confirmed(reason, FindingKind.DELETED_RECORD_RESURRECTED)
    if shown is not None and shown.outcome == COMMITTED and alone:
        return replace(case.confirmed(reason, FindingKind.VISIBILITY_MISMATCH), lone_witness=True)
    if case.claim.kind is FindingKind.RECORD_MISSING:
        return case.confirmed(reason, FindingKind.VISIBILITY_MISMATCH)
    return case.confirmed(reason)


def _accused_lacks(case: _Case) -> Decision:
    """The accused shows no value: something is missing where another shows one that nothing on the accused explains."""
    claim, accused = case.claim, case.accused
    key = accused.key
    resurrected = claim.kind is FindingKind.DELETED_RECORD_RESURRECTED
    if key is None or not (key.complete or (not resurrected and key.complete_from <= claim.offset)):
        return case.pending(f"the log of broker {accused.broker} is longer than one probe may read")
    if resurrected:
        return case.dismissed(f"broker {accused.broker} shows no live value of the key")
    if key.visible is not None and key.visible.offset > claim.offset:
        return case.dismissed(f"broker {accused.broker} has deleted the key at offset {key.visible.offset}")
    if accused.log_start_offset > claim.offset:
        reason = f"offset {claim.offset} is below the log start of broker {accused.broker}"
        return case.dismissed(reason, Resolution.DELETED)
    for other in case.others:
        theirs = other.key.live if other.key is not None else None
        if theirs is not None and claim.offset <= theirs.offset < accused.last_stable_offset:
            reason = (
                f"broker {other.broker} shows the key's value at offset {theirs.offset}; "
                f"broker {accused.broker} is past it and shows none"
            )
            return _missing(case, theirs, reason)
    return _undecided_key(case, f"no other replica shows a live value of the key at offset {claim.offset}")


def _missing(case: _Case, theirs: RecordShown, reason: str) -> Decision:
    """Missing on the accused if two others, and all that are past it, show it; else nobody knows who is right.

    A single replica that shows it may as well be the one that missed what deleted it.
    """
    past = [a.key for a in case.others if a.last_stable_offset > theirs.offset and a.key is not None]
    if len(past) > 1 and all(key.live is not None and key.live.offset >= theirs.offset for key in past):
        return case.confirmed(reason, FindingKind.RECORD_MISSING)
    decision = case.confirmed(reason, FindingKind.VISIBILITY_MISMATCH)
    return replace(decision, lone_witness=theirs.outcome == COMMITTED)


def _undecided_key(case: _Case, reason: str) -> Decision:
    """Dismiss only when every other replica was read as far as the claim needs."""
    live = None if case.accused.key is None else case.accused.key.live
    lacks = case.claim.kind is not FindingKind.DELETED_RECORD_RESURRECTED
    lacks &= live is None or live.offset < case.claim.offset
    unread = [
        a
        for a in case.others
        if not (lacks and _holds_another(case.claim, a))
        and (
            a.key is None
            or not (a.key.complete or a.key.complete_from <= case.claim.offset)
            or a.last_stable_offset <= case.claim.offset
            or a.key.newest_offset >= case.accused.last_stable_offset
        )
    ]
    if unread:
        why = unread[0].key_error or "it is behind, or ahead of the accused"
        return case.pending(f"{_names(unread)} could not be compared: {why}")
    return case.unproven(reason)


def _holds_another(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds an end marker or another key's record where the one that is claimed was read to be.

    Its log was replaced by another one, as after an unclean election: it lacks the record as well.
    """
    held = answer.uncommitted.get(claim.offset)
    return _has_marker(answer, claim.offset) or (held is not None and held.key_hash != claim.key_text)


def _missing_offset(case: _Case) -> Decision:
    """A record without a key is never compacted away: its absence is judged by its offset alone."""
    claim, accused = case.claim, case.accused
    if accused.last_stable_offset <= claim.offset:
        return case.pending(f"broker {accused.broker} does not show offset {claim.offset} to its consumers yet")
    if accused.log_start_offset > claim.offset:
        reason = f"offset {claim.offset} is below the log start of broker {accused.broker}"
        return case.dismissed(reason, Resolution.DELETED)
    if claim.offset in accused.committed or claim.offset in accused.uncommitted:
        return case.dismissed(f"broker {accused.broker} holds offset {claim.offset}")
    holders = [a.broker for a in case.others if claim.offset in a.committed]
    if holders:
        return case.confirmed(f"{_broker_list(holders)} hold offset {claim.offset}, broker {accused.broker} does not")
    trimmed = any(a.log_start_offset > claim.offset for a in case.others)
    resolution = Resolution.DELETED if trimmed else Resolution.SPREAD
    return case.not_shown(claim.offset, f"no other replica holds offset {claim.offset}", resolution)


# One offset, one record (I1).


def _content(case: _Case) -> Decision:
    claim, accused = case.claim, case.accused
    shown = accused.uncommitted.get(claim.offset)
    if shown is None:
        return _recorded_content(case) or _not_held(case)
    held = {a.broker: a.uncommitted[claim.offset].fingerprint for a in case.others if claim.offset in a.uncommitted}
    against = [broker for broker, fingerprint in held.items() if fingerprint != shown.fingerprint]
    if against:
        return case.confirmed(
            f"offset {claim.offset} holds another record on broker {accused.broker} than on {_broker_list(against)}"
        )
    if held:
        return case.dismissed(f"every replica that holds offset {claim.offset} holds the same record")
    none = f"no other replica holds offset {claim.offset}"
    return _recorded_content(case) or case.not_shown(claim.offset, none, isolation=IsolationLevel.READ_UNCOMMITTED)


def _recorded_content(case: _Case) -> Decision | None:
    """What was read at that offset before it was compacted away: fingerprints compare with recorded ones only."""
    records, accused = case.claim.recorded.records, case.claim.broker
    against = sorted(b for b, fingerprint in records.items() if fingerprint != records.get(accused, fingerprint))
    if case.live_only or not against:
        return None
    return case.confirmed(
        f"offset {case.claim.offset} held another record on broker {accused} than on {_broker_list(against)} "
        "when it was read"
    )


def _not_held(case: _Case) -> Decision:
    claim, accused = case.claim, case.accused
    if accused.high_watermark <= claim.offset:
        return case.pending(f"broker {accused.broker} does not show offset {claim.offset} yet")
    return case.not_held(f"broker {accused.broker} does not hold offset {claim.offset} any more", claim.offset)


def _truncated(case: _Case) -> Decision:
    """The accused was cut off below what it had shown; a log that was only copied anew shows the same in the end.

    Leader epochs only grow along a log, and cleaning or copying a log leaves them as they are. So a log in which a
    newer epoch than the one that was read begins below where it was read to has lost what was read from there on.
    """
    claim, accused = case.claim, case.accused
    if accused.log_start_offset >= claim.lost_to:
        return case.dismissed(f"offset {claim.lost_to - 1} is below the log start of broker {accused.broker}")
    end = _epoch_end(claim, accused)
    epochs = (
        f"broker {accused.broker} had shown records of leader epoch {claim.lost_epoch} below offset {claim.lost_to}; "
        f"that epoch ends at offset {end} of its log now"
    )
    # The last epoch's end is that of the log, and may grow (LeaderEpochFileCache.endOffsetFor); it was asked for later.
    if end < min(claim.lost_to, accused.log_end_offset):
        return case.confirmed(epochs)
    if accused.log_end_offset >= claim.lost_to:
        return case.dismissed(f"the log of broker {accused.broker} reaches up to offset {claim.lost_to} again")
    if case.answers.isr and accused.broker not in case.answers.isr:
        return case.pending(f"broker {accused.broker} is not in sync: it may be copying its log anew")
    beyond = [a.broker for a in case.others if a.high_watermark >= claim.lost_to]
    if beyond:
        return case.confirmed(
            f"the log of broker {accused.broker} ends at {accused.log_end_offset}, "
            f"{_broker_list(beyond)} reach up to offset {claim.lost_to}"
        )
    if end <= claim.offset:
        return case.confirmed(epochs)
    return case.pending(f"no replica reaches up to offset {claim.lost_to}: nothing was written there since")


def _epoch_end(claim: Claim, accused: ReplicaAnswer) -> int:
    """Where the epoch that was read ends in the log as it is now; where it was read to if nobody knows."""
    end = accused.epoch_ends.get(claim.lost_epoch)
    return claim.lost_to if end is None else end


def _names(answers: Sequence[ReplicaAnswer]) -> str:
    return _broker_list([a.broker for a in answers])


def _broker_list(brokers: Sequence[int]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + " and ".join(str(b) for b in brokers)


_JUDGES: dict[FindingKind, Callable[[_Case], Decision]] = {
    **dict.fromkeys(TRANSACTION_KINDS, _transaction),
    FindingKind.DELETED_RECORD_RESURRECTED: _latest_value,
    FindingKind.RECORD_MISSING: _latest_value,
    FindingKind.VISIBILITY_MISMATCH: _latest_value,
    FindingKind.CONTENT_MISMATCH: _content,
    FindingKind.LOG_TRUNCATED: _truncated,
}
