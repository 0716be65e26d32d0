"""When the accused is right again, or gone: another may show what the finding has proven wrong, and goes on doing so.

It was copied from the accused before that was put right, and its readers do not go back. What proves the finding, a
tombstone, an end marker or a newer value, is true of it as well, so that the finding accuses it from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parallax.findings.answers import ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import Case, Decision, Verdict
from parallax.findings.decide.endings import live_outcome
from parallax.findings.decide.spread import WRONG, is_wrong
from parallax.kinds import KEY_KINDS
from parallax.model import NOBODY, FindingKind


def another(case: Case, judge: Callable[[Case], Decision]) -> Decision | None:
    """Judge a finding that is over for its accused, of whoever else shows what it is about.

    Args:
        case: the claim with its answers.
        judge: of the claim's family.

    Returns:
        None where nobody is proven to show it, or where all are wrong, which is said otherwise (`spread`). Pending
        where one shows it, and may not have come yet to what replaced it on the others.
    """
    claim = case.claim
    if claim.broker == NOBODY or claim.spread:
        return None
    waits: Decision | None = None
    for other in case.others:
        if not shows_it(claim, other):
            continue
        if claim.key is not None and claim.kind in KEY_KINDS and not _has_passed(case, other):
            if other.last_stable_offset == other.high_watermark:
                waits = case.pending(f"broker {other.broker} may not have come yet to what replaced its value")
            continue
        decision = judge(_of(case, other))
        if decision.verdict is Verdict.CONFIRMED and decision.accused == other.broker:
            return decision
    return waits


def shows_it(claim: Claim, answer: ReplicaAnswer) -> bool:
    """Whether a replica shows itself what a finding is about: the value, or that it lacks it, or the wrong outcome."""
    if claim.kind in WRONG:
        return live_outcome(claim, answer) == WRONG[claim.kind]
    is_of_a_value = claim.kind in (FindingKind.DELETED_RECORD_RESURRECTED, FindingKind.RECORD_MISSING)
    return is_of_a_value and answer.last_stable_offset > claim.offset and is_wrong(claim, answer) is True


def _of(case: Case, other: ReplicaAnswer) -> Case:
    others = [a for a in (case.accused, *case.others) if a.broker != other.broker]
    return replace(case, claim=case.claim.of_another(other.broker), accused=other, others=others)


def _has_passed(case: Case, other: ReplicaAnswer) -> bool:
    """Whether one has come as far as the newest record of the key on every other replica that answered.

    The leader has to be among them: what another is behind with, and what has replaced the proof there, it may hold.
    """
    rest = [a for a in (case.accused, *case.others) if a.broker != other.broker]
    asked = {other.broker, *(a.broker for a in rest)}
    if case.answers.leader not in asked:
        return False
    return all(a.key is not None and a.key.newest_offset < other.last_stable_offset for a in rest)
