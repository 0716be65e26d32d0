"""Decides whether a claim is true, from the replicas' answers to a probe and from what the views recorded.

All functions are pure. There are three verdicts. *Confirmed* needs proof, *dismissed* needs proof of the contrary.
Everything else is *pending* and asked again. Some proofs need the replicas to be asked in a certain order:
parallax.findings.questions keeps that order and explains it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, ClaimState, Decision, Resolution
from parallax.findings.decide.content import record_at_offset
from parallax.findings.decide.lineage import is_proof_cut
from parallax.findings.decide.log_start import head_missing
from parallax.findings.decide.others import differing_values, showing_its_value, showing_the_same, unread
from parallax.findings.decide.proof import with_proof
from parallax.findings.decide.spread import held_back, of_a_finding, one_is_right
from parallax.findings.decide.subject import named
from parallax.findings.decide.transactions import transaction
from parallax.findings.decide.truncation import truncated
from parallax.findings.decide.unsettled import differed, differs_anew, unless_sides_agree
from parallax.findings.decide.values import latest_value
from parallax.kinds import KINDS, Family
from parallax.model import NOBODY

__all__ = [
    "ClaimState",
    "Decision",
    "Resolution",
    "decide",
    "differed",
    "differing_values",
    "differs_anew",
    "held_back",
    "is_proof_cut",
    "named",
    "showing_its_value",
    "showing_the_same",
    "unread",
]

_JUDGES: dict[Family, Callable[[ClaimCase], Decision]] = {
    Family.TRANSACTION: transaction,
    Family.KEY: latest_value,
    Family.CONTENT: record_at_offset,
    Family.TRUNCATION: truncated,
    Family.HEAD: head_missing,
}


def decide(claim: Claim, answers: Answers, *, live_only: bool = False) -> Decision:
    """Return the decision on one claim that follows from the answers to a probe.

    Args:
        claim: the claim.
        answers: the replicas' answers to the probe.
        live_only: whether only what the accused shows now counts, as for a finding that is checked again. If False,
            what was recorded of the accused may prove the claim as well.
    """
    claim = named(claim, answers)
    if answers.coordinator is not None and answers.coordinator.producer_id != claim.producer_id:
        # The claim is about another producer's transaction now than the coordinator was asked about.
        answers = replace(answers, coordinator=None)
    if answers.gone is not None:
        over = Decision(ClaimState.DISMISSED, claim.kind, answers.gone, resolution=Resolution.GONE)
        if answers.pivot == NOBODY:
            return over
        # The replica is gone, and all that are left may have been copied from it. Those that are held back become
        # suspects of their own (`parallax.findings.left`).
        if one_is_right(claim, answers) or held_back(claim, answers):
            return over
        left = decide(claim, replace(answers, gone=None), live_only=live_only)
        are_away = any(answer.error is not None for answer in answers.replicas.values())
        if left.verdict is ClaimState.CONFIRMED and are_away:
            return replace(left, verdict=ClaimState.PENDING, reason=f"{answers.gone}; not all that are left were asked")
        return left if left.has_spread or left.verdict is ClaimState.PENDING else over
    accused = answers.replicas.get(claim.pivot)
    if accused is None or accused.error is not None:
        error = "it is not among the replicas" if accused is None else accused.error
        return Decision(ClaimState.PENDING, claim.kind, f"broker {claim.pivot} could not be asked: {error}")
    rest = [a for b, a in sorted(answers.replicas.items()) if b != claim.pivot]
    others = [a for a in rest if a.error is None]
    absent = [a for a in rest if a.error is not None]
    case = ClaimCase(claim, accused, others, absent, answers, live_only)
    decision = with_proof(case, _JUDGES[KINDS[claim.kind].family](case))
    if not live_only or claim.freed:
        return decision
    if decision.verdict is ClaimState.DISMISSED:
        decision = of_a_finding(case, decision)
    return unless_sides_agree(case, decision)
