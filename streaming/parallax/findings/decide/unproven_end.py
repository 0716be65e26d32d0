"""Decides on outcomes if the known end marker may not be the one that ended the transaction.

A lower marker may have been cleaned on every replica before anybody read it.
"""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.decide.case import ClaimCase, ClaimState, Decision
from parallax.findings.decide.lineage import is_another_log
from parallax.findings.decide.outcomes import ended
from parallax.kinds import OUTCOME_KINDS
from parallax.model import NOBODY, UNKNOWN


def is_end_proven(case: ClaimCase) -> bool:
    """Whether the claim's end marker is proven to be the one that ended its transaction.

    It is if all offsets between the record and the marker were read before a lower marker could be cleaned there. It is
    as well if there is no room for one (`has_room`). What a finding has proven stays proven.
    """
    claim = case.claim
    was_proven = claim.confirmed_at_ms and claim.kind in OUTCOME_KINDS and claim.broker != NOBODY
    return bool(not claim.recorded.end_unproven or was_proven) or not has_room(case)


def has_room(case: ClaimCase) -> bool:
    """Whether an end marker of the transaction may have been cleaned unread at one of the `Claim.before_end`.

    It may not if replicas hold a record, or another producer's marker, at each of these offsets.
    """
    claim, held = case.claim, set[int]()
    for answer in (case.accused, *case.others):
        if not is_another_log(claim, answer):
            held |= answer.uncommitted.keys() | {m.offset for m in answer.markers if m.producer_id != claim.producer_id}
    return claim.before_end is None or not held.issuperset(claim.before_end)


def ended_somewhere(case: ClaimCase) -> Decision:
    """Return the decision on a claim about an outcome if the claim's end marker may not have ended the transaction.

    The decision is made without that marker, and accuses nobody. A lower marker may have ended the transaction, and may
    have been cleaned unread. So replicas with either outcome may be right.
    """
    claim = replace(case.claim, marker_offset=UNKNOWN, recorded=replace(case.claim.recorded, markers={}))
    decision = ended(replace(case, claim=claim, end_read=case.claim.marker_offset))
    if decision.verdict is ClaimState.CONFIRMED or decision.was_shown:
        return decision.undirected
    return decision
