"""Decides claims about a transaction: is it open on the accused, and did it end wrongly there?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parallax.evidence.atoms import Place
from parallax.evidence.log import Belongs
from parallax.findings.answers import MarkerShown, OpenTransaction, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide.case import (
    ClaimCase,
    ClaimState,
    Decision,
    Resolution,
    broker_list,
    names,
)
from parallax.findings.decide.endings import ended_by, live_outcome
from parallax.findings.decide.lineage import (
    end_shown,
    has_lost_its_end,
    is_another_log,
    is_beyond_all,
    lists_as_aborted,
    rests_on,
)
from parallax.findings.decide.outcomes import ended
from parallax.findings.decide.own_end import contradicted_before, contradiction, has_cleaned_its_end
from parallax.findings.decide.spread import hanging, open_everywhere
from parallax.findings.decide.unproven_end import ended_somewhere, has_room, is_end_proven
from parallax.kinds import OPEN_KINDS
from parallax.model import UNKNOWN, FindingKind
from parallax.sides import Shows, Side


def transaction(case: ClaimCase) -> Decision:
    """Return the decision on a claim about a transaction.

    The claim says that the accused holds it open, or has ended it in the wrong way.
    """
    claim, accused = case.claim, case.accused
    if claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER:
        if _has_truncated_its_end(case):
            return _unless_held_back(case, contradicted_before(case))
        if not has_cleaned_its_end(case):
            return _unless_held_back(case, contradiction(case))
    elif _is_cut_away(case):
        reason = f"another log has replaced the one in which broker {accused.broker} held offset {claim.first_offset}"
        return case.dismissed(reason, Resolution.UNPROVEN)
    elif rests_on(case) is not Belongs.YES:
        return _of_a_truncated_log(case)
    if claim.producer_id == UNKNOWN:
        return _nameless(case)
    if accused.open_transactions is None:
        return case.pending(f"broker {accused.broker} did not list its producers: {accused.open_error}")
    held = _held(claim, accused)
    if held is not None:
        return _about_to_end(case) or _may_go_on(case, held) or _still_open(case, held)
    if claim.kind in OPEN_KINDS and _is_decided_no_more(case):
        gone = f"the log of broker {accused.broker} was truncated, and does not hold the transaction open any more"
        return case.dismissed(gone)
    return _open_no_more(case)


def _open_no_more(case: ClaimCase) -> Decision:
    """Decide on a transaction that the accused does not hold open, or does not any more."""
    return _unless_held_back(case, ended(case) if is_end_proven(case) else ended_somewhere(case))


def _unless_held_back(case: ClaimCase, decision: Decision) -> Decision:
    """Return a decision, unless it is that a finding has to wait for an accused that a transaction holds back by now.

    Then the finding is over. Until the transaction ends, nobody can say what became of the finding's own. A replica
    that had ended its own was past it, so another log has replaced the one that was read. The new log may come to end
    it wrongly as well, if it holds the record and not the end marker. But then it contradicts no marker that it holds.
    """
    claim, accused = case.claim, case.accused
    held = next((one for one in accused.open_transactions or () if accused.is_held_by(one)), None)
    if not case.live_only or decision.verdict is not ClaimState.PENDING or held is None:
        return decision
    gone = "does not hold the transaction open any more"
    if claim.kind not in OPEN_KINDS:
        is_decided = accused.last_stable_offset > claim.first_offset
        is_another = claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER or accused.lacks(claim.first_offset)
        is_another |= is_another_log(claim, accused) or end_shown(claim, accused) is not None
        is_another |= has_lost_its_end(case, accused.broker)
        if is_decided or claim.spread or not is_another:
            return decision
        gone = f"does not show the outcome of offset {claim.first_offset} any more"
    which = "it" if held == _held(claim, accused) else "another one"
    reason = f"broker {accused.broker} {gone}; it holds {which} open, at offset {held.start_offset}"
    return case.dismissed(reason, Resolution.UNPROVEN)


def _is_cut_away(case: ClaimCase) -> bool:
    """Whether the accused's log is another one than was read, at the claim's record, or all logs end below that.

    A transaction that the accused holds open below is another one, or has lost the record.
    """
    return is_beyond_all(case) or is_another_log(case.claim, case.accused)


def _is_decided_no_more(case: ClaimCase) -> bool:
    """Whether a transaction that the accused held open is open no more, and its log has decided nothing there since.

    Its log ends below, or the transaction's end marker is known to be cut.
    """
    claim, accused = case.claim, case.accused
    ends_below = accused.log_end_offset <= claim.transaction_start_offset
    return accused.last_stable_offset <= claim.first_offset and (ends_below or case.end_replaced)


def _has_truncated_its_end(case: ClaimCase) -> bool:
    """Whether the end marker that a replica contradicted, and no longer shows, belongs to a truncated log.

    If no replica that answers is seen to have held the marker, an absent one may have: the accused has shown it.
    """
    if end_shown(case.claim, case.accused) is not None:
        return False
    belongs = rests_on(case)
    return belongs is Belongs.NO or (belongs is Belongs.PERHAPS and not case.absent)


def _of_a_truncated_log(case: ClaimCase) -> Decision:
    """Judge a claim whose recorded end marker is not, or not surely, part of the current log.

    Such a marker proves no replica wrong. What the replicas show now may differ all the same. If only no answering
    replica is seen to have held the marker, one that cannot be asked may have. If the marker is replaced, what a
    finding proved by it holds for no log any more. Then a state that all replicas share is no loss that has spread.
    """
    mark, is_gone = case.claim.marker_offset, rests_on(case) is Belongs.NO
    if case.live_only and _is_ended_anew(case):
        reason = (
            f"another leader has written an end marker at offset {mark}, by which broker {case.accused.broker} goes"
        )
        return case.dismissed(reason, Resolution.UNPROVEN)
    claim = replace(case.claim, marker_offset=UNKNOWN, recorded=RecordedByViews(ends=case.claim.recorded.ends))
    case_without = replace(case, claim=claim, end_read=mark, end_replaced=is_gone)
    decision = transaction(case_without)
    unsure = case.absent and not case.live_only and not is_gone
    if unsure and decision.verdict is ClaimState.DISMISSED:
        return case.pending(f"{names(case.absent)} may know whether the end marker at offset {mark} was truncated")
    if decision.verdict is ClaimState.CONFIRMED and decision.kind in OPEN_KINDS and is_gone:
        # A replica that shows the marker has ended the transaction in the old log: it is no witness for this one.
        others = [a for a in case.others if not isinstance(a.at(mark), MarkerShown)]
        return transaction(replace(case_without, others=others))
    if decision.verdict is not ClaimState.CONFIRMED or decision.kind in OPEN_KINDS:
        return decision
    return replace(decision.undirected, proof_truncated=is_gone)


def _is_ended_anew(case: ClaimCase) -> bool:
    """Whether the accused shows what another end marker says, which lies in its log where the claim's own lay.

    The log is the same below that, so no other marker has ended the transaction.
    """
    claim, accused = case.claim, case.accused
    end, epoch_end = accused.at(claim.marker_offset), accused.epoch_ends.get(claim.recorded.leader_epoch)
    if not isinstance(end, MarkerShown) or end.producer_id != claim.producer_id or epoch_end != end.offset:
        return False
    return live_outcome(claim, accused) == ended_by(end.type)


def _held(claim: Claim, answer: ReplicaAnswer) -> OpenTransaction | None:
    return answer.open_transaction(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)


def _holds_it(case: ClaimCase, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds this transaction open, and not a later one of its producer.

    Where a lower end marker may have been cleaned everywhere, a transaction that begins further up may be another.
    """
    held = _held(case.claim, answer)
    return held is not None and (held.start_offset <= case.claim.transaction_start_offset or is_end_proven(case))


def _nameless(case: ClaimCase) -> Decision:
    """Judge a claim whose transaction no replica has named; it is no divergence once the accused has caught up."""
    ahead = [a.broker for a in case.others if a.last_stable_offset > case.accused.last_stable_offset]
    if ahead:
        return case.pending(f"broker {case.accused.broker} does not say which transaction holds it back")
    return case.unproven("its last stable offset is not behind that of the others")


def _still_open(case: ClaimCase, held: OpenTransaction) -> Decision:
    """Judge a transaction that the accused holds open: a divergence once it is past the end that another has."""
    claim, accused = case.claim, case.accused
    start = claim.transaction_start_offset
    is_open = [accused.broker, *(a.broker for a in case.others if _holds_it(case, a))]
    has_ended = _is_recorded_to_have_ended(case, held) or _ended_by_coordinator(case)
    where = f"open at offset {held.start_offset} on {broker_list(sorted(is_open))}"
    leads = case.answers.leader in is_open
    closed = _closed(case)
    is_of_this_log = case.live_only and not case.end_replaced
    if leads and not closed and case.absent and not is_of_this_log and _is_nobodys_fault(case, held, closed):
        return hanging(where)
    past = _past_it(case, is_open, closed)
    if (complete := open_everywhere(case, held, is_open, past, has_ended=has_ended)) is not None:
        return complete
    if leads and (_is_nobodys_fault(case, held, closed) or _may_be_lost(case, closed)):
        return hanging(where)
    if not closed and not _ended_by_coordinator(case):
        unsure = [a for a in case.others if not _says(case, a) and not _never_got(claim, a)]
        if unsure and _ended_by_record(case):
            ended = sorted(claim.recorded.markers.keys() - set(is_open))
            reason = f"{where}, past the end marker that was read on {broker_list(ended)}"
            is_frozen = claim.kind is FindingKind.READ_COMMITTED_FROZEN or accused.is_held_by(held)
            kind = FindingKind.READ_COMMITTED_FROZEN if is_frozen else FindingKind.MARKER_MISSING
            return case.confirmed(reason, kind, sides={Side(Shows.OPEN): past, Side(Shows.ENDED_AS_READ): ended})
        if unsure:
            return case.pending(f"{names(unsure)} cannot say whether the transaction is open")
        # As it was: that it had ended is proven by no log that is left, and it may end otherwise yet.
        reason = f"the transaction at offset {start} is open on every replica that has it"
        return case.unproven(reason, Resolution.UNPROVEN)
    if closed and not _past_the_marker(claim, accused, closed):
        return case.pending(f"broker {accused.broker} has not caught up with the end of the transaction yet")
    if claim.marker_offset == UNKNOWN and case.answers.coordinator is not None and case.answers.coordinator.is_ending:
        return case.pending("the transaction coordinator is still writing the markers")
    ended = [a.broker for a in closed]
    sides = {Side(Shows.OPEN): past, Side(Shows.ENDED): ended}
    where = f"open at offset {held.start_offset} on {broker_list(past)}"
    where += f", ended on {broker_list(ended)}" if ended else ", ended by its coordinator"
    is_below = claim.kind is FindingKind.READ_COMMITTED_FROZEN and accused.last_stable_offset <= held.start_offset
    if is_below or accused.is_held_by(held):
        reason = f"{where}; the last stable offset of broker {accused.broker} is there"
        return case.confirmed(reason, FindingKind.READ_COMMITTED_FROZEN, sides=sides)
    reason = f"{where}; broker {accused.broker} is past the end marker"
    return case.confirmed(reason, FindingKind.MARKER_MISSING, sides=sides)


def _about_to_end(case: ClaimCase) -> Decision | None:
    """Wait where a replica no longer lists the transaction, but its end marker is above its high watermark.

    Its last stable offset is still at the transaction, so no reader is shown that end yet. The marker may belong to a
    later transaction of the producer, which ends this one as well.
    """
    claim = case.claim
    closed = _closed(case)
    ending = [a.broker for a in closed if a.last_stable_offset == claim.transaction_start_offset]
    return (
        case.pending(f"the end of the transaction on {broker_list(ending)} is not replicated yet") if ending else None
    )


def _may_go_on(case: ClaimCase, held: OpenTransaction) -> Decision | None:
    """Wait where replicas that do not list the transaction show nothing of it, and it may still be ongoing.

    A replica whose log was truncated may have got only what came after the transaction's first record. Then its holding
    nothing there does not mean that the cleaner has removed an ended transaction.
    """
    claim, coordinator, start = case.claim, case.answers.coordinator, case.claim.transaction_start_offset
    closed = _closed(case)
    if not closed or coordinator is None or not coordinator.is_ongoing or _is_recorded_to_have_ended(case, held):
        return None
    if any(_shows_any_of_it(claim, a) for a in closed):
        return None
    reason = f"the transaction at offset {start} may go on, by its coordinator"
    return case.pending(f"{reason}: {names(closed)} may never have got its first record")


def _shows_any_of_it(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica shows the transaction's first record, its end marker, or that it was aborted."""
    start = claim.transaction_start_offset
    is_held = start in answer.uncommitted or end_shown(claim, answer) is not None
    return is_held or lists_as_aborted(claim, answer, start)


def _is_recorded_to_have_ended(case: ClaimCase, held: OpenTransaction) -> bool:
    return not case.claim.renamed and (_ended_by_record(case) or _ended_before(case, held))


def _past_it(case: ClaimCase, is_open: Sequence[int], closed: Sequence[ReplicaAnswer]) -> list[int]:
    """Return the accused, and the others that hold the transaction open and have missed its end as well.

    A replica that has not reached the end marker may still get it. The leader may not: it gets nothing from anybody.
    """
    past = {a.broker for a in case.others if _past_the_marker(case.claim, a, closed) or a.broker == case.answers.leader}
    return sorted(past.intersection(is_open) | {case.accused.broker})


def _is_nobodys_fault(case: ClaimCase, held: OpenTransaction, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether a transaction has ended, but its end marker was never in a log that may be the partition's."""
    if not closed:
        return _ended_by_coordinator(case) and not _ended_by_record(case)
    return _past_the_marker(case.claim, case.accused, closed) and _had_ended(case, held)


def _may_be_lost(case: ClaimCase, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether an unclean election may have taken the end of a transaction that the leader holds open.

    Its marker was in no log that may be the partition's then. It may have, if no replica shows anything of the end, and
    another leader has followed since the first record was written. A replica whose cleaner had removed that record, and
    which lost the marker to the present leader, looks like one that has cleaned both.
    """
    claim, start = case.claim, case.claim.transaction_start_offset
    first, now = case.accused.uncommitted.get(start), case.answers.leader_epoch
    was_proven = claim.confirmed_at_ms and not claim.spread
    if was_proven or claim.recorded.markers or first is None or UNKNOWN in (first.leader_epoch, now):
        return False
    return bool(closed) and first.leader_epoch < now and not any(_shows_any_of_it(claim, a) for a in closed)


def _had_ended(case: ClaimCase, held: OpenTransaction) -> bool:
    """Whether a replica that holds the transaction open had ended it once, in a log that was truncated since.

    The cleaner never removes what is open. So if a replica's log reaches down to the transaction's first record and
    does not hold it, the cleaner had removed it there. A replica that was copied from this one has seen neither.
    """
    start = held.start_offset
    lacking = [a for a in (case.accused, *case.others) if a.lacks(start)]
    return any(a.holds_open(held.producer_id, start) for a in lacking)


def _says(case: ClaimCase, answer: ReplicaAnswer) -> bool:
    """Whether a replica says if the transaction is open: it lists it as open, or must have seen it end.

    Neither is said by a replica whose log is another one, or never got the transaction's first record.
    """
    claim = case.claim
    is_its_log = not is_another_log(claim, answer) and not _never_got(claim, answer)
    is_told = _holds_it(case, answer) or _has_come_past(claim, answer)
    return answer.open_transactions is not None and is_its_log and is_told


def _has_come_past(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica that does not list the transaction as open must have seen it end.

    A replica may never have known the transaction, or may have forgotten it with the records (DeleteRecords, or a log
    that was truncated and copied again): its log starts above.

    The end marker lies between the transaction's first record and the last stable offset. Where there is no offset in
    between, it was truncated, after the cleaner had removed the record.
    """
    start = claim.transaction_start_offset
    return answer.log_start_offset <= start < answer.high_watermark and answer.last_stable_offset != start + 1


def _closed(case: ClaimCase) -> list[ReplicaAnswer]:
    """Return the other replicas that must have seen the transaction end: they do not list it as open."""
    return [a for a in case.others if _says(case, a) and _held(case.claim, a) is None]


def _never_got(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica has lost the first record of a transaction: it lacks it, and no cleaner can have taken it."""
    start = claim.transaction_start_offset
    return claim.recorded.uncompacted and answer.lacks(start)


def _ended_by_coordinator(case: ClaimCase) -> bool:
    """Whether the coordinator, asked first, had ended the producer's transactions, and the accused is past that.

    The coordinator is asked only where no replica can say. The markers were below the leader's high watermark then.
    """
    coordinator, leader = case.answers.coordinator, case.answers.leader
    if coordinator is None or not coordinator.has_ended:
        return False
    leading = [a.high_watermark for a in case.others if a.broker == leader]
    return leader == case.accused.broker or any(case.accused.high_watermark >= mark for mark in leading)


def _ended_by_record(case: ClaimCase) -> bool:
    """Whether another replica was recorded to show the end marker, and the accused is past it."""
    claim = case.claim
    replaced = {a.broker for a in case.others if is_another_log(claim, a)}
    recorded = claim.recorded.markers.keys() - replaced - {claim.broker}
    return bool(recorded) and UNKNOWN < claim.marker_offset < case.accused.high_watermark


def _ended_before(case: ClaimCase, held: OpenTransaction) -> bool:
    """Whether a replica was read to hold the end of the transaction, in the very log that all hold open now.

    The transaction began in what that replica had read when its last stable offset was past it, so it had the end
    marker. What is open is never cleaned. So where all logs are that one, the accused is past the marker and has not
    got it. In a topic that is not compacted the replica may have lost the transaction's records, and so what held it
    open.
    """
    before = case.claim.recorded.had_ended
    if before is None or case.claim.recorded.uncompacted:
        return False
    is_past = case.accused.high_watermark >= before.below and before.start <= held.start_offset < before.to
    return is_past and has_room(case) and case.logs.all_hold(Place(before.last, before.epoch))


def _past_the_marker(claim: Claim, accused: ReplicaAnswer, closed: Sequence[ReplicaAnswer]) -> bool:
    """Whether the accused has replicated beyond the place where the transaction ended.

    If a replica does not list the transaction, it ended below the log end that the replica reported after that.
    Replicas append in offset order. So a replica never got the marker if it holds the transaction open and its high
    watermark, asked before, is past the marker.
    """
    if claim.marker_offset != UNKNOWN:
        return accused.high_watermark > claim.marker_offset
    return any(accused.high_watermark >= a.ended_below for a in closed)
