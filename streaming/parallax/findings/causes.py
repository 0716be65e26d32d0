"""Finds what explains a claim: other findings of the partition that have the same cause. No IO.

A lost end marker changes what a replica shows of several keys. That is one divergence, and one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from parallax.counts import agreed
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, explains
from parallax.findings.decide import ClaimState, Decision, Resolution
from parallax.findings.finding import (
    Finding,
    claim_of,
    has_proven_direction,
    has_spread,
    is_proof_past,
    sides_of,
)
from parallax.findings.groups import Groups
from parallax.findings.ledger import FindingLedger
from parallax.findings.tasks import Task, Tasks
from parallax.kinds import KEY_KINDS, TOMBSTONE_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule
from parallax.sides import (
    Side,
    Sides,
    are_outcomes,
    showing_a_value_below,
    showing_the_value_of,
)

_LONE_PROBES = 4
"""How many probes a difference that rests on a lone witness waits for a suspect about its outcome."""


class Cause(NamedTuple):
    """A finding that explains another claim, reduced to whom it accuses, and of what.

    Attributes:
        broker: the replica that the finding accuses.
        kind: the kind of the finding.
        deleted_at: if the finding says that every replica shows a deleted value: the offset of the deletion; else -1.
    """

    broker: int
    kind: FindingKind
    deleted_at: int = UNKNOWN
    """Below this offset each replica that shows a value of the key is wrong; -1: not known."""


class Causes:
    """Says which findings explain a claim, and ends it by them.

    Args:
        tasks: the claims that are probed one by one.
        ledger: the last state of each finding and suspect.
        groups: the members of the findings that are about many keys, or transactions.
    """

    def __init__(self, tasks: Tasks, ledger: FindingLedger, groups: Groups) -> None:
        self._tasks = tasks
        self._ledger = ledger
        self._groups = groups

    def linked(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding], answers: Answers
    ) -> tuple[Decision, tuple[str, ...]]:
        """Make a difference of value part of the outcome divergence that explains it, not a second finding."""
        if decision.verdict is ClaimState.DISMISSED:
            return decision, ()
        if causes := self._causes(task, claim, decision, before, answers):
            return replace(decision, verdict=ClaimState.DISMISSED, reason=same_cause(causes)), tuple(causes)
        # Two suspects on outcomes of one transaction, or two that accuse, would wait for each other.
        for other in self._awaited_by(claim) if claim.kind in KEY_KINDS else ():
            is_without = claim.key is not None and claim.broker == decision.accused == NOBODY
            says_more = is_without and other.accused_key == claim.key
            if says_more or _is_cause(other, claim, decision):
                reason = f"waits for the verdict on {other.kind} at offset {other.first_offset}"
                return replace(decision, verdict=ClaimState.PENDING, reason=reason), ()
        if decision.verdict is ClaimState.CONFIRMED and decision.lone_witness and task.counts.lone < _LONE_PROBES:
            task.counts = task.counts._replace(lone=task.counts.lone + 1)
            return replace(decision, verdict=ClaimState.PENDING, reason=f"{decision.reason}; asked once more"), ()
        return decision, ()

    def explained(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding], answers: Answers
    ) -> Decision:
        """End a finding on a value if a finding on an outcome explains it, which was confirmed since.

        Both are one divergence.
        """
        if decision.is_unsettled and claim.broker == NOBODY:
            causes = self._about_the_key(task, claim, before) or self._causes(task, claim, decision, before, answers)
        elif decision.verdict is ClaimState.DISMISSED or claim.kind not in KEY_KINDS:
            return decision
        else:
            causes = self._causes(task, claim, decision, before, answers)
        return self._ended_by(task, claim, decision, causes, before)

    def explained_meanwhile(self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]) -> Decision:
        """End a finding without direction that waits for a frozen replica, if another finding explains it.

        It does if the frozen replica shows the value that another one is accused of. That value is proven wrong. What
        the frozen replica has still to decide changes nothing, and all others show the same.
        """
        differing = replace(decision, verdict=ClaimState.CONFIRMED)
        causes = self._accused_about(task, claim, differing, before)
        if not causes or not differing.is_explained_by(_showing_what_is_accused(decision.sides, causes)):
            return decision
        return self._ended_by(task, claim, decision, causes, before)

    def explained_as_reported(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]
    ) -> Decision:
        """End a finding without direction once it is proven who was wrong, although a replica is absent.

        A finding about an outcome, which was confirmed since, says the same of one of the replicas.
        """
        reported = self._reported_by(task, claim)
        if decision.verdict is not ClaimState.PENDING or claim.spread or not (reported and reported[-1]):
            return decision
        differing = replace(decision, verdict=ClaimState.CONFIRMED, accused=NOBODY, sides=reported[-1])
        causes = self._causes(task, claim, differing, before)
        return self._ended_by(task, claim, decision, causes, before)

    def _ended_by(
        self,
        task: Task,
        claim: Claim,
        decision: Decision,
        causes: Mapping[str, Cause],
        before: Sequence[Finding],
    ) -> Decision:
        """Return the decision, ended as explained by others if there are any; in part where more had been reported.

        For a difference that accuses nobody, all that was ever reported counts: who was on which side first, and last.
        What the other findings do not say of it is proven by nobody, and may be lost.
        """
        reported = self._reported_by(task, claim)
        if not causes or not reported:
            return _explained_by(decision, causes)
        there = standing_claims(self._ledger.causes(claim.place), claim, before).values()
        frozen = {c.broker for c in there if c.kind is FindingKind.READ_COMMITTED_FROZEN}
        about = {name: cause for name, cause in causes.items() if cause.kind in KEY_KINDS}
        in_part = False
        for sides in reported:
            brokers = {cause.broker for cause in causes.values()}
            brokers |= frozen | _showing_what_is_accused(sides, about) if about else frozenset()
            differing = replace(decision, verdict=ClaimState.CONFIRMED, accused=NOBODY, sides=sides)
            in_part |= not differing.is_explained_by(brokers)
        return replace(_explained_by(decision, causes), in_part=in_part)

    def _reported_by(self, task: Task, claim: Claim) -> list[Mapping[Side, tuple[int, ...]]]:
        """Return who was on which side of a difference that accuses nobody and is not over; none for others.

        It is who was there first, and last; for a difference that an incident counts, only the first is kept.
        """
        if task.is_counted:
            return [claim.recorded.sides] if claim.broker == NOBODY else []
        known = self._ledger.standing(task.finding_id or "")
        if known is None or not known.stands or known.broker != NOBODY:
            return []
        return [claim.recorded.sides, sides_of(known)]

    def _causes(
        self,
        task: Task,
        claim: Claim,
        decision: Decision,
        before: Sequence[Finding],
        answers: Answers | None = None,
    ) -> dict[str, Cause]:
        """Return the findings that together explain a difference of value, by their ids; none where none do.

        They are about transactions, and for a difference that accuses nobody about its key as well. Two replicas may
        have lost the same end marker, or tombstone. What is found of one says nothing about the other.

        A freeze explains what its replica shows as long as the answers do not show it beyond; None where the
        difference is what was reported, not what is answered.
        """
        standing = standing_claims(self._ledger.causes(claim.place), claim, before)
        counted = [(event.finding_id, one) for event, one in self._groups.causes_of(claim)]
        named = [*standing.items(), *counted]
        causes = {name: Cause(c.broker, c.kind) for name, c in named if _is_cause(c, claim, decision)}
        brokers = {cause.broker for cause in causes.values()}
        if about := self._accused_about(task, claim, decision, before):
            causes |= about
            brokers |= _showing_what_is_accused(decision.sides, about)
            if not decision.is_explained_by(brokers):
                # What a frozen replica shows of a key does not change until the freeze ends.
                frozen = {name: c for name, c in standing.items() if _may_freeze(c, answers)}
                brokers |= {c.broker for c in frozen.values()}
                causes |= {name: Cause(c.broker, c.kind) for name, c in frozen.items() if decision.may_be_of(c.broker)}
        return causes if causes and decision.is_explained_by(brokers) else {}

    def _accused_about(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]
    ) -> dict[str, Cause]:
        """Return the findings that accuse replicas about the key of a difference that accuses nobody, by their ids."""
        if claim.key is None or decision.accused != NOBODY or decision.verdict is not ClaimState.CONFIRMED:
            return {}
        # If some replicas ended a record's transaction otherwise, only its key's value may still differ.
        if claim.rule_of(decision.kind) is not Rule.LATEST_VALUE and are_outcomes(decision.sides.keys()):
            return {}
        found = self._about_the_key(task, claim, before, lambda f: accuses_by_proof(f) or _is_shown_by_all(f))
        return {name: cause for name, cause in found.items() if decision.may_be_of(cause.broker)}

    def _about_the_key(
        self,
        task: Task,
        claim: Claim,
        before: Sequence[Finding],
        which: Callable[[Finding], bool] = attrgetter("stands"),
    ) -> dict[str, Cause]:
        """Return the findings, and incidents, that accuse a replica about the key of a claim, by their ids.

        ``which`` is asked of findings; of incidents those count that are not over.
        """
        if claim.key is None:
            return {}
        found = {
            name: Cause(f.broker, f.kind, f.offset if _is_shown_by_all(f) else UNKNOWN)
            for name, f in self.beside(task, claim, before).items()
            if which(f)
        }
        counted = self._groups.wrong_about(claim.place, claim.key)
        found |= {f.finding_id: Cause(f.broker, f.kind, deleted_at) for f, deleted_at in counted}
        found.pop(task.finding_id or "", None)
        return found

    def beside(self, task: Task, claim: Claim, before: Sequence[Finding]) -> dict[str, Finding]:
        """Return the other findings that accuse a replica about a claim's key.

        The result has the last event of each, by its id.
        """
        if claim.key is None:
            return {}
        known = {finding.finding_id: finding for finding in self._ledger.about_key(claim.place, claim.key)}
        known |= {e.finding_id: e for e in before if e.place == claim.place and e.accused_key == claim.key}
        known.pop(task.finding_id or "", None)
        return known

    def _awaited_by(self, claim: Claim) -> Iterator[Claim]:
        """Return the suspects of a partition that may explain a claim on a value."""
        for task in self._tasks.suspects_of(claim.place):
            yield task.claim
        yield from self._groups.awaited_by(claim)


def standing_claims(known: Mapping[str, Claim], claim: Claim, before: Sequence[Finding]) -> dict[str, Claim]:
    """Return what findings about the claim's partition claim, by their ids, if they are not over.

    Args:
        known: findings that the ledger knows.
        claim: on the partition.
        before: events that the same answers have caused so far. One of them may have ended a known finding.
    """
    now = {e.finding_id: e for e in before if e.place == claim.place}
    left = {name: one for name, one in known.items() if name not in now}
    return left | {name: claim_of(event) for name, event in now.items() if event.stands}


def _may_freeze(claim: Claim, answers: Answers | None) -> bool:
    """Whether a finding is about a freeze, and no answer shows its replica beyond the transaction that holds it."""
    if claim.kind is not FindingKind.READ_COMMITTED_FROZEN:
        return False
    answer = None if answers is None else answers.replicas.get(claim.broker)
    return answer is None or answer.error is not None or answer.last_stable_offset <= claim.first_offset


def _showing_what_is_accused(sides: Sides, causes: Mapping[str, Cause]) -> frozenset[int]:
    """Return who is accused about a key, and who shows the same value, which is proven wrong."""
    accused = {cause.broker for cause in causes.values() if cause.deleted_at == UNKNOWN}
    deleted_at = max(cause.deleted_at for cause in causes.values())
    return showing_the_value_of(sides, accused) | showing_a_value_below(sides, deleted_at)


def _explained_by(decision: Decision, causes: Mapping[str, Cause]) -> Decision:
    """Return the decision, ended as explained by others if there are any."""
    if not causes:
        return decision
    return replace(decision, verdict=ClaimState.DISMISSED, reason=same_cause(causes), resolution=Resolution.EXPLAINED)


def same_cause(causes: Mapping[str, Cause]) -> str:
    """Return in a clause that findings, which are given by their ids, are the cause of a claim."""
    named = " and ".join(f"{name} ({cause.kind})" for name, cause in causes.items())
    return f"the same cause as {agreed(len(causes), 'finding', 'findings')} {named}"


def _is_cause(transaction: Claim, claim: Claim, decision: Decision) -> bool:
    """Whether a claim on a transaction explains a difference of value, as that was found.

    What one replica makes of a transaction explains no difference between two others. It explains a record of another
    transaction only by the value of its key, where that is all that differs by now.
    """
    by_value = claim.rule is not Rule.OUTCOME or not are_outcomes(decision.sides.keys())
    return explains(transaction, claim, by_value=by_value) and decision.may_be_of(transaction.broker)


def accuses_by_proof(finding: Finding) -> bool:
    """Whether a finding is open, has not spread, and accuses a replica by a proof."""
    return finding.stands and not is_proof_past(finding) and has_proven_direction(finding)


def _is_shown_by_all(finding: Finding) -> bool:
    """Whether a finding says of every replica that it shows a value that was deleted."""
    return finding.stands and has_spread(finding) and finding.kind in TOMBSTONE_KINDS
