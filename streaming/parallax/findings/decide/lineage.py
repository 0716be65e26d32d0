"""Decides whether the records and markers that prove a claim are part of the current log.

An unclean election truncates logs. What was read before it says nothing about the log that took over. Leader epochs
show whether a record was truncated, and so do other records at the same offsets. No other module of
`parallax.findings.decide` uses leader epochs for that.
"""

from __future__ import annotations

from parallax.evidence.atoms import Place
from parallax.evidence.log import Belongs
from parallax.findings.answers import Answers, MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import UNKNOWN


def rests_on(case: ClaimCase) -> Belongs:
    """Return whether all proofs of the claim (`Claim.proofs`) are part of the current log: yes, no or perhaps.

    It is *no* as well if a replica holds another record or marker at the offset of a proof. So another log is there.
    Leader epochs may not show it: the last records of that log may be of an older epoch.
    """
    another = holds_another_end if case.claim.kind in TRANSACTION_KINDS else holds_another_record
    if is_proof_replaced(case) or any(another(case.claim, answer) for answer in (case.accused, *case.others)):
        return Belongs.NO
    is_held = all(case.logs.counts(proof, case.accused.broker, before=True) for proof in case.claim.proofs)
    return Belongs.YES if is_held else Belongs.PERHAPS


def is_proof_replaced(case: ClaimCase) -> bool:
    """Whether some log shows that a proof of the claim is not part of the current log.

    A proof is the place of a record or end marker (`Claim.proofs`). What an earlier probe has seen of it stays so.
    """
    if case.claim.is_cut and case.claim.proofs:
        return True
    return any(case.logs.of(p, case.accused.broker, before=True) is Belongs.NO for p in case.claim.proofs)


def is_proof_cut(claim: Claim, answers: Answers) -> bool:
    """Whether some replica's log shows that a proof of the claim is not part of the current log.

    It needs no answer of the accused. See `parallax.evidence.log.Logs.is_cut`.
    """
    logs = answers.logs((answer for answer in answers.replicas.values() if answer.error is None), is_whole=False)
    return any(map(logs.is_cut, claim.proofs))


def is_proof_gone(case: ClaimCase) -> bool:
    """Whether some proof of the claim is in no replica's log any more, by the replicas that answered.

    A proof is the place of a record or end marker (`Claim.proofs`).
    """
    return any(case.logs.none_holds(proof) for proof in case.claim.proofs)


def end_shown(claim: Claim, answer: ReplicaAnswer) -> MarkerShown | None:
    """Return the claim's end marker if the replica shows it now; else None.

    A marker of another leader epoch does not count, because it belongs to a log that has replaced the one that was
    read.
    """
    epoch = claim.recorded.leader_epoch if claim.kind in TRANSACTION_KINDS else UNKNOWN
    for marker in answer.markers:
        is_another = UNKNOWN not in (epoch, marker.leader_epoch) and marker.leader_epoch != epoch
        if (marker.offset, marker.producer_id) == (claim.marker_offset, claim.producer_id) and not is_another:
            return marker
    return None


def has_lost_its_end(case: ClaimCase, broker: int) -> bool:
    """Whether the end marker that had ended the claim's transaction on a replica is not of the current log.

    Then the outcome that the replica had shown by it proves nothing. The replica itself may still hold the marker. A
    follower that has just started has not truncated its log yet.

    Args:
        case: the claim with its answers.
        broker: the broker that holds the replica.
    """
    end = case.claim.end_on(broker)
    if end is None:
        return False
    own = case.logs.logs.get(broker)
    is_truncated = own is not None and own.has_lost(end)
    return is_truncated or case.logs.of(end, case.accused.broker, before=True) is Belongs.NO


def has_cut_the_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica's log shows that the claim's end marker was truncated.

    A log that ends below the marker may show it too, by its answers about leader epochs.
    """
    return holds_another_end(claim, answer) or any(answer.log.of(proof) is Belongs.NO for proof in claim.proofs)


def holds_another_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds a record, or another producer's marker, at the offset of the claim's end marker.

    So the claim's marker is not part of its log there.
    """
    return _holds_another(answer, claim.marker_offset, MarkerShown, producer_id=claim.producer_id)


def holds_another_record(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds an end marker, or another key's record, at the offset of the claim's record.

    Its log there is not the one that was read. So it need not hold the claim's record.
    """
    return _holds_another(answer, claim.offset, RecordShown, key_hash=claim.key_text)


def is_beyond_all(case: ClaimCase) -> bool:
    """Whether every replica answered, and every log ends at the claim's record or below: it was truncated."""
    offset = case.claim.first_offset
    return not case.absent and all(0 <= a.log_end_offset <= offset for a in (case.accused, *case.others))


def is_another_log(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether another log has replaced the one in which a replica held the claim's record, one of a transaction.

    Then what the replica shows of the claim's producer is about other transactions. One of two proofs is enough:

    - The replica holds a marker, or another producer's record, at the offset of a record of the transaction.
    - In its log a newer leader epoch than that of a proof begins at the record's offset or below. The record lies no
      higher than the proof, so its own epoch is no newer.
    """
    log, epochs = answer.log, [epoch for offset, epoch in claim.proofs if claim.first_offset <= offset]
    if any(log.has_come_to(epoch) and log.of(Place(claim.first_offset, epoch)) is Belongs.NO for epoch in epochs):
        return True
    places = (claim.offset, claim.transaction_start_offset)
    return any(_holds_another(answer, place, RecordShown, producer_id=claim.producer_id) for place in places)


def lists_as_aborted(claim: Claim, answer: ReplicaAnswer, offset: int) -> bool:
    """Whether a replica's list of aborted transactions covers an offset that the claim's producer wrote.

    False where another log has replaced the replica's, because its list is then about other transactions. The list
    includes a transaction that ended at the very offset: ``TransactionIndex.collectAbortedTxns`` returns all whose last
    offset is not below the fetched one.
    """
    listed = any(pid == claim.producer_id and first <= offset for pid, first in answer.aborted)
    return listed and not is_another_log(claim, answer)


def _holds_another(answer: ReplicaAnswer, offset: int, of: type, **as_read: object) -> bool:
    """Whether a replica holds something else at an offset than was read there: another log replaced its own."""
    held = answer.at(offset)
    return held is not None and not (isinstance(held, of) and all(getattr(held, n) == v for n, v in as_read.items()))
