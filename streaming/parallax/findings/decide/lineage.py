"""Whether what a claim rests on is of the log that stands: by leader epochs, and by what lies in its place.

An unclean election cuts logs: what was read of one before says nothing of the log that took its place. Nothing else in
`parallax.findings.decide` looks at leader epochs for that.
"""

from __future__ import annotations

from parallax.evidence.log import Belongs
from parallax.findings.answers import MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import Case
from parallax.kinds import TRANSACTION_KINDS
from parallax.model import UNKNOWN


def rests_on(case: Case) -> Belongs:
    """Whether all that was recorded and proves a claim is of the log that stands.

    *No* also by what a replica holds in its place, for the tail of a log may be of an older epoch. That is seen only
    while what took the place has not been cleaned.
    """
    another = holds_another_end if case.claim.kind in TRANSACTION_KINDS else holds_another_record
    if is_proof_replaced(case) or any(another(case.claim, answer) for answer in (case.accused, *case.others)):
        return Belongs.NO
    is_held = all(case.logs.counts(proof, case.accused.broker, before=True) for proof in case.claim.proofs)
    return Belongs.YES if is_held else Belongs.PERHAPS


def is_proof_replaced(case: Case) -> bool:
    """Whether a log shows that some of what was recorded and proves the claim is none of the log that stands."""
    return any(case.logs.of(p, case.accused.broker, before=True) is Belongs.NO for p in case.claim.proofs)


def is_proof_gone(case: Case) -> bool:
    """Whether every log that answered is another one where what proves the claim was recorded."""
    return any(case.logs.none_holds(proof) for proof in case.claim.proofs)


def end_shown(claim: Claim, answer: ReplicaAnswer) -> MarkerShown | None:
    """The end marker that a claim is about, as a replica shows it; None where it shows none of that producer there.

    Nor is one of another leader epoch that one: it is of a log in which it has taken that one's place.
    """
    epoch = claim.recorded.leader_epoch if claim.kind in TRANSACTION_KINDS else UNKNOWN
    for marker in answer.markers:
        is_another = UNKNOWN not in (epoch, marker.leader_epoch) and marker.leader_epoch != epoch
        if (marker.offset, marker.producer_id) == (claim.marker_offset, claim.producer_id) and not is_another:
            return marker
    return None


def has_lost_its_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether the end marker by which a replica had ended the transaction was truncated with its log."""
    end = claim.end_on(answer.broker)
    return end is not None and answer.log.has_lost(end)


def has_cut_the_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a log shows that the claim's end marker was truncated, though it be shorter by now."""
    return holds_another_end(claim, answer) or any(answer.log.of(proof) is Belongs.NO for proof in claim.proofs)


def holds_another_end(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds a record, or another producer's end marker, where the claim's end marker was read."""
    return _holds_another(answer, claim.marker_offset, MarkerShown, producer_id=claim.producer_id)


def holds_another_record(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds an end marker or another key's record where the one that is claimed was read to be."""
    return _holds_another(answer, claim.offset, RecordShown, key_hash=claim.key_text)


def is_another_log(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica holds an end marker or another producer's record where the transaction has one of its own.

    What its log says of the producer is of other transactions.
    """
    places = (claim.offset, claim.transaction_start_offset)
    return any(_holds_another(answer, place, RecordShown, producer_id=claim.producer_id) for place in places)


def lists_as_aborted(claim: Claim, answer: ReplicaAnswer, offset: int) -> bool:
    """Whether a replica lists the claim's producer as having aborted what it wrote at an offset.

    The list of a log that was replaced names other transactions: one that ended at the very offset is listed as well
    (``TransactionIndex.collectAbortedTxns`` takes those whose last offset is not below the one that is fetched).
    """
    listed = any(pid == claim.producer_id and first <= offset for pid, first in answer.aborted)
    return listed and not is_another_log(claim, answer)


def _holds_another(answer: ReplicaAnswer, offset: int, of: type, **as_read: object) -> bool:
    """Whether something lies at an offset that is not what was read there: its log was replaced by another one."""
    held = answer.at(offset)
    return held is not None and not (isinstance(held, of) and all(getattr(held, n) == v for n, v in as_read.items()))
