"""Is the suspect a divergence? A pure function of what the replicas answered and what was recorded of them.

Three verdicts: *confirmed* needs proof, *dismissed* needs proof of the contrary, and everything else is *pending*
and asked again. The order in which replicas were asked is part of some proofs; parallax.findings.questions keeps it
and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parallax.findings.answers import Answers
from parallax.findings.claim import Claim
from parallax.findings.decide.case import Case, Decision, Resolution, Verdict
from parallax.findings.decide.content import record_at_offset
from parallax.findings.decide.log_start import head_missing
from parallax.findings.decide.others import another, shows_it
from parallax.findings.decide.spread import of_a_finding
from parallax.findings.decide.transactions import named, transaction
from parallax.findings.decide.truncation import truncated
from parallax.findings.decide.unsettled import differed, differs_anew
from parallax.findings.decide.values import latest_value
from parallax.kinds import KINDS, Family
from parallax.model import NOBODY

__all__ = ["Decision", "Resolution", "Verdict", "decide", "differed", "differs_anew", "named"]

_JUDGES: dict[Family, Callable[[Case], Decision]] = {
    Family.TRANSACTION: transaction,
    Family.KEY: latest_value,
    Family.CONTENT: record_at_offset,
    Family.TRUNCATION: truncated,
    Family.HEAD: head_missing,
}


def decide(claim: Claim, answers: Answers, *, live_only: bool = False) -> Decision:
    """Judge one claim.

    Args:
        claim: what is claimed of which replica.
        answers: what the replicas said to the probe.
        live_only: judge by what the accused shows now alone (a finding that is checked again): what was recorded of
            it earlier does not keep a finding open. Of a suspect that a finding had explained (`Claim.freed`) nothing
            was proven itself: where it does not hold, it is over.
    """
    claim = named(claim, answers)
    if answers.coordinator is not None and answers.coordinator.producer_id != claim.producer_id:
        # Another producer's transaction is meant now than the one that the coordinator was asked about.
        answers = replace(answers, coordinator=None)
    if answers.gone is not None:
        over = Decision(Verdict.DISMISSED, claim.kind, answers.gone, resolution=Resolution.GONE)
        if answers.pivot == NOBODY:
            return over
        # The replica is gone, and all that are left may have been copied from it before that.
        left = decide(claim, replace(answers, gone=None), live_only=live_only)
        are_away = any(answer.error is not None for answer in answers.replicas.values())
        if left.verdict is Verdict.CONFIRMED and are_away:
            return replace(left, verdict=Verdict.PENDING, reason=f"{answers.gone}; not all that are left were asked")
        is_left = left.has_spread or left.verdict is Verdict.PENDING or _is_shown_itself(claim, left, answers)
        return left if is_left else over
    accused = answers.replicas.get(claim.pivot)
    if accused is None or accused.error is not None:
        error = "it is not among the replicas" if accused is None else accused.error
        return Decision(Verdict.PENDING, claim.kind, f"broker {claim.pivot} could not be asked: {error}")
    rest = [a for b, a in sorted(answers.replicas.items()) if b != claim.pivot]
    others = [a for a in rest if a.error is None]
    absent = [a for a in rest if a.error is not None]
    case = Case(claim, accused, others, absent, answers, live_only)
    decision = _JUDGES[KINDS[claim.kind].family](case)
    if live_only and not claim.freed and decision.verdict is Verdict.DISMISSED:
        over = of_a_finding(case, decision)
        is_said = over.verdict is not Verdict.DISMISSED or over.has_spread or over.is_unsettled
        return over if is_said else another(case, _JUDGES[KINDS[claim.kind].family]) or over
    return decision


def _is_shown_itself(claim: Claim, left: Decision, answers: Answers) -> bool:
    """Whether one that is left is accused by what it shows itself, and not for the one that is gone."""
    accused = answers.replicas.get(left.accused)
    return left.verdict is Verdict.CONFIRMED and accused is not None and shows_it(claim, accused)
