"""Says who shows its consumers what the accused of a finding shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from parallax.findings.answers import Answers, holds_tombstone
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, showing_its_value
from parallax.kinds import OPEN_KINDS, OUTCOME_KINDS, SHOWING_OLDER, TRANSACTION_KINDS, Variant
from parallax.model import NOBODY, FindingKind, Rule
from parallax.sides import OUTCOMES, Shows, are_outcomes

_LACKING = frozenset({Shows.NO_VALUE, Shows.LACKS_VALUE})
_OF_A_KEY = _LACKING | {Shows.VALUE, Shows.SOME_VALUE, Shows.TOMBSTONE, Shows.LACKS_TOMBSTONE}


def variant_of(claim: Claim, decision: Decision, answers: Answers) -> Variant:
    """Return what a finding is about, as far as that changes what consumers meet.

    Args:
        claim: what is claimed.
        decision: confirmed, with what the replicas show.
        answers: the replicas' answers.
    """
    kind, sides = decision.kind, decision.sides
    shown = {side.shows for side in sides}
    if kind is FindingKind.VISIBILITY_MISMATCH:
        is_of_outcomes = claim.rule_of(kind) is Rule.OUTCOME and _OF_A_KEY.isdisjoint(shown)
        return Variant.OUTCOMES if is_of_outcomes else Variant.PLAIN
    if kind is FindingKind.OUTCOME_CONTRADICTS_MARKER:
        return Variant.TAKEN if OUTCOMES.isdisjoint(shown) else Variant.PLAIN
    if kind not in OUTCOME_KINDS:
        return Variant.PLAIN
    if any(side.shows in _LACKING and decision.accused in on for side, on in sides.items()):
        return Variant.TAKEN
    is_hidden = kind is FindingKind.COMMITTED_RECORD_ABORTED
    is_older = is_hidden and _shows_older(claim, decision, answers)
    if holds_tombstone(claim.first_offset, answers.replicas.values()):
        return Variant.UNDELETED if is_older else Variant.DELETION
    if not is_hidden or not _is_gone(claim.first_offset, answers):
        return Variant.PLAIN
    if not is_older:
        return Variant.GONE
    return Variant.DELETED if _has_no_value(claim, decision, answers) else Variant.OLDER


def beside(claim: Claim, decision: Decision, answers: Answers) -> frozenset[int]:
    """Return the brokers other than the accused whose replicas show the same as the accused.

    Args:
        claim: knows the brokers that showed the same when they were last asked. Those among them that do not answer
            now are part of the result.
        decision: names the accused and the sides.
        answers: the replicas' answers.
    """
    if decision.kind in TRANSACTION_KINDS - OPEN_KINDS and not are_outcomes(decision.sides.keys(), Shows.OPEN):
        # Values of the key say who shows what for two replicas only.
        shown = showing_its_value(decision.accused, answers)
    else:
        shown = frozenset(b for side in decision.sides.values() if decision.accused in side for b in side)
    if variant_of(claim, decision, answers) in SHOWING_OLDER:
        # A copy from which the cleaner had taken the record shows no outcome of it.
        past = {b for b, a in answers.replicas.items() if a.last_stable_offset > claim.first_offset}
        shown |= past & showing_its_value(decision.accused, answers)
    away = {b for b, answer in answers.replicas.items() if answer.error is not None}
    return (shown | away.intersection(claim.recorded.beside)) - {decision.accused}


def is_exposed(accused: int, claim: Claim, decision: Decision, answers: Answers) -> bool:
    """Whether consumers of the leader get what the accused shows; without direction, whether a replica of a side leads.

    Args:
        accused: the broker; `NOBODY` without direction.
        claim: what is claimed.
        decision: the decision on the claim, with its sides.
        answers: the replicas' answers, which name the leader.
    """
    return bool(_met_on({answers.leader}, accused, claim, decision, answers))


def meeting(accused: int, claim: Claim, decision: Decision, answers: Answers) -> frozenset[int]:
    """Return the brokers whose consumers get what the accused shows, if the broker leads; arguments as `is_exposed`."""
    return _met_on({answers.leader, *answers.replicas}, accused, claim, decision, answers)


def _met_on(
    brokers: Collection[int], accused: int, claim: Claim, decision: Decision, answers: Answers
) -> frozenset[int]:
    """Those of some brokers whose consumers get what the accused shows, if the broker leads."""
    alike = {accused, *(beside(claim, decision, answers) if accused == decision.accused else ())}

    def is_met(broker: int) -> bool:
        return broker in alike or decision.is_shared_by_leader(accused, replace(answers, leader=broker))

    return frozenset(broker for broker in brokers if broker != NOBODY and is_met(broker))


def _is_gone(offset: int, answers: Answers) -> bool:
    """Whether every replica that answered was asked about an offset, and holds no record there."""
    asked = [a for a in answers.replicas.values() if a.error is None]
    return all(offset in a.asked and offset not in {*a.committed, *a.uncommitted} for a in asked)


def _shows_older(claim: Claim, decision: Decision, answers: Answers) -> bool:
    """Whether the accused shows a value of the claim's key from before its record."""
    answer = answers.replicas.get(decision.accused)
    key = answer.key if answer is not None else None
    return key is not None and key.complete and key.live is not None and key.live.offset < claim.first_offset


def _has_no_value(claim: Claim, decision: Decision, answers: Answers) -> bool:
    """Whether another replica shows no value of the claim's key, and none shows one from behind its record."""
    keys = [a.key for a in answers.replicas.values() if a.broker != decision.accused and a.key is not None]
    live = [key.live for key in keys if key.complete]
    return None in live and all(value is None or value.offset < claim.first_offset for value in live)


__all__ = ["beside", "is_exposed", "meeting", "variant_of"]
