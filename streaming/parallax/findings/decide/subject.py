"""Decides which transaction a claim is about: the one that its accused lists as open."""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.answers import Answers, OpenTransaction
from parallax.findings.claim import Claim
from parallax.kinds import OPEN_KINDS, TRANSACTION_KINDS
from parallax.model import UNKNOWN, FindingKind


def named(claim: Claim, answers: Answers) -> Claim:
    """Return the claim, changed where necessary so that it is about the transaction that the accused holds open.

    - A suspect may name a transaction that the accused does not hold open, or none. The claim is then about the
      transaction that keeps the accused's last stable offset from moving.
    - What a suspect took for one transaction may be several. The claim is then about the one that the accused lists.
    - A confirmed finding is returned unchanged. If another transaction holds the accused back later, that gets a
      suspect of its own.

    Args:
        claim: the claim; one that is not about a transaction is returned unchanged.
        answers: the replicas' answers to the probe.
    """
    accused = answers.replicas.get(claim.broker)
    frozen = claim.kind is FindingKind.READ_COMMITTED_FROZEN and not claim.confirmed_at_ms
    unnamed = claim.kind in TRANSACTION_KINDS and claim.producer_id == UNKNOWN
    if accused is None:
        return claim
    held = accused.open_transaction(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
    if held is not None and not unnamed:
        return _begun_there(claim, held)
    if not (frozen or unnamed):
        return claim
    for one in accused.open_transactions or ():
        if accused.is_held_by(one):
            return _renamed(claim, one, is_other=not unnamed)
    return claim


def _begun_there(claim: Claim, held: OpenTransaction) -> Claim:
    """Return the claim about the transaction as the accused lists it, if it may not be one with what lies below.

    It may not if the end of what lies below may have been cleaned everywhere before it was read.
    """
    is_suspect = claim.kind in OPEN_KINDS and not claim.confirmed_at_ms
    if not is_suspect or not claim.recorded.end_unproven or held.start_offset <= claim.transaction_start_offset:
        return claim
    recorded = replace(claim.recorded, outcomes={}, keys=())
    return replace(_renamed(claim, held, is_other=False), recorded=recorded, key_hash_hi=0, key_hash_lo=0)


def _renamed(claim: Claim, held: OpenTransaction, *, is_other: bool) -> Claim:
    """Return the claim about the transaction that the accused holds open.

    What was read of another producer's transaction, its end marker included, says nothing about this one.
    """
    marker_offset = claim.marker_offset if claim.marker_offset > held.start_offset else UNKNOWN
    if is_other and held.producer_id != claim.producer_id:
        recorded = replace(claim.recorded, outcomes={}, markers={}, ends={}, keys=(), leader_epoch=UNKNOWN)
        claim = replace(claim, recorded=recorded, key_hash_hi=0, key_hash_lo=0)
        marker_offset = UNKNOWN
    return replace(
        claim,
        offset=held.start_offset,
        producer_id=held.producer_id,
        transaction_start_offset=held.start_offset,
        marker_offset=marker_offset,
        renamed=is_other,
    )


__all__ = ["named"]
