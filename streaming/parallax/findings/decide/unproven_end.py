"""Judges outcomes where the known end marker may not have ended the transaction.

A lower end marker of the same producer may have ended it, and may have been cleaned before anybody read it.
"""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.decide.case import Case, Decision, Verdict
from parallax.findings.decide.lineage import is_another_log
from parallax.findings.decide.outcomes import ended
from parallax.kinds import OUTCOME_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind


def is_end_proven(case: Case) -> bool:
    """Whether the claim's end marker is surely the one that ended its transaction.

    It is in any of three cases. A reader passed the offsets before it while a lower marker would still have been there.
    Or replicas hold something else at each of these offsets, so there was no room for a lower one. Or a finding has
    proven it already.
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
    """Judge whether replicas show different outcomes, where the known end marker may not have ended the transaction.

    If they do, the finding accuses nobody. The marker may be of a later transaction, so a replica that contradicts it
    may be right.
    """
    claim = replace(case.claim, marker_offset=UNKNOWN, recorded=replace(case.claim.recorded, markers={}))
    decision = ended(replace(case, claim=claim, end_read=case.claim.marker_offset))
    if decision.verdict is Verdict.CONFIRMED or decision.was_shown:
        return replace(decision, kind=FindingKind.VISIBILITY_MISMATCH, accused=NOBODY)
    return decision
