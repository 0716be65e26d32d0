"""Finds the finding that says already what a probe has shown of another claim. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parallax.findings.answers import Answers
from parallax.findings.causes import Cause, Causes, accuses_by_proof, standing_claims
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Decision
from parallax.findings.finding import (
    Finding,
    claim_of,
    is_proof_past,
    sides_of,
)
from parallax.findings.groups import Groups
from parallax.findings.ledger import FindingLedger
from parallax.findings.tasks import Task
from parallax.kinds import OPEN_KINDS, TOMBSTONE_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule
from parallax.sides import (
    sides_differ,
    standing,
)


class Already:
    """Says which finding reports already what a probe has shown.

    Args:
        ledger: the last state of each finding and suspect.
        groups: the members of the findings that are about many keys, or transactions.
        causes: knows the findings that accuse a replica about a key.
    """

    def __init__(self, ledger: FindingLedger, groups: Groups, causes: Causes) -> None:
        self._ledger = ledger
        self._groups = groups
        self._causes = causes

    def said(
        self, task: Task, claim: Claim, decision: Decision, answers: Answers, before: Sequence[Finding]
    ) -> dict[str, Cause]:
        """Return the finding that says already what a probe has shown of a claim, by its id; none where there is none.

        Args:
            task: the claim that was asked about.
            claim: the claim, as the answers have changed it.
            decision: what the probe has shown.
            answers: the replicas' answers.
            before: events that the same answers have caused so far.
        """
        known = self._deleted_before(task, claim, decision, answers, before)
        known = known or self._undirected_before(task, claim, decision, before)
        if known is not None:
            return {known.finding_id: Cause(known.broker, known.kind)}
        return self.of_one_loss(task, claim, decision, before) or self._cut_before(task, claim, decision, before)

    def of_one_loss(self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]) -> dict[str, Cause]:
        """Return the finding that reports the loss that a probe has shown, by its id; none where there is none.

        It is asked of a claim that is probed alone and of a member of an incident: both are the same loss.

        Args:
            task: the claim that was asked about.
            claim: the claim, as the answers have changed it.
            decision: what the probe has shown.
            before: events that the same answers have caused so far.
        """
        return self._ended_with_others(claim, decision, before) or self._spread_before(task, claim, decision, before)

    def _deleted_before(
        self, task: Task, claim: Claim, decision: Decision, answers: Answers, before: Sequence[Finding]
    ) -> Finding | None:
        """Return the finding on another deletion of the key that covers a suspect; None where there is none.

        A key may be deleted several times while a replica misses all of it. The value that it still shows is older than
        each of these tombstones, so they are one divergence.
        """
        is_new = task.finding_id is None and decision.verdict is ClaimState.CONFIRMED
        answer = answers.replicas.get(decision.accused)
        if not is_new or decision.kind not in TOMBSTONE_KINDS or answer is None or answer.key is None:
            return None
        shown = answer.key.visible
        own = claim.finding_id(self._groups.cluster_id)
        for found in self._causes.beside(task, claim, before).values():
            is_alike = found.kind in TOMBSTONE_KINDS and found.broker == decision.accused and found.finding_id != own
            if is_alike and accuses_by_proof(found) and shown is not None and shown.offset < found.offset:
                return found
        return None

    def _undirected_before(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]
    ) -> Finding | None:
        """Return another finding without direction that says what is found; None where there is none.

        Two replicas that have lost the same end marker are suspected one after the other. Where nothing proves who is
        wrong, or proves it any more, that is one difference, whichever of the two was asked last. The finding must name
        all that differ, and be about the same record of the same transaction.
        """
        if decision.verdict is not ClaimState.CONFIRMED or decision.accused != NOBODY:
            return None
        own = task.finding_id or claim.finding_id(self._groups.cluster_id)
        known = {f.finding_id: f for f in self._ledger.undirected(claim.place, claim.offset)}
        known |= {f.finding_id: f for f in self._ledger.undirected_about(claim)}
        known |= {e.finding_id: e for e in before if e.place == claim.place}
        for found in known.values():
            is_other = found.finding_id != own and found.kind is decision.kind and found.broker == NOBODY
            if not is_other or not found.stands or is_proof_past(found):
                continue
            is_of_key = claim.rule is found.rule is Rule.LATEST_VALUE
            is_of_key &= claim.key == (found.key_hash_hi, found.key_hash_lo)
            if is_of_key and not sides_differ(sides_of(found), decision.sides):
                return found
            if _are_of_one_record(claim, claim_of(found)) and standing(decision.sides) <= standing(sides_of(found)):
                return found
        return None

    def _ended_with_others(self, claim: Claim, decision: Decision, before: Sequence[Finding]) -> dict[str, Cause]:
        """Return the finding that accuses the same replica of the claim's whole transaction; none where there is none.

        If records were not known to belong to one transaction, the last of them is suspected by itself. It belongs to
        the transaction if the same end marker is proven to have ended the first, before or after it was reported. That
        follows from the two claims: the probe need not decide the last record once more.
        """
        is_over = decision.verdict is ClaimState.DISMISSED and not decision.has_spread
        if is_over:
            return {}
        accused = decision.accused if decision.verdict is ClaimState.CONFIRMED else claim.broker
        standing = standing_claims(self._ledger.causes(claim.place), claim, before)
        counted = [(event.finding_id, other) for event, other in self._groups.causes_of(claim)]
        return {
            name: Cause(other.broker, other.kind)
            for name, other in [*standing.items(), *counted]
            if other.broker == accused
            and {other.kind, decision.kind} <= TRANSACTION_KINDS - OPEN_KINDS
            and _have_one_end(claim, other)
            and other.transaction_start_offset < claim.transaction_start_offset
        }

    def _cut_before(self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]) -> dict[str, Cause]:
        """Return the truncation finding that explains a suspect's whole loss; none where there is none.

        A log that has grown again is noticed by its end first, and by its leader epochs at the next record.
        """
        if task.finding_id is not None or decision.kind is not FindingKind.LOG_TRUNCATED or claim.lost_epoch == UNKNOWN:
            return {}
        return {
            name: Cause(other.broker, other.kind)
            for name, other in standing_claims(self._ledger.cuts(claim.place), claim, before).items()
            if (other.kind, other.broker, other.lost_epoch) == (decision.kind, decision.accused, claim.lost_epoch)
            and name != claim.finding_id(self._groups.cluster_id)
            and other.offset <= claim.offset
            and claim.lost_to <= other.lost_to
        }

    def _spread_before(
        self, task: Task, claim: Claim, decision: Decision, before: Sequence[Finding]
    ) -> dict[str, Cause]:
        """Return another finding that says the same of all replicas; none where there is none.

        Each of them is suspected, and reported, by itself. Once all show it, it is one loss.
        """
        if not decision.has_spread:
            return {}
        said = replace(claim, kind=decision.kind)
        if said.kind in TRANSACTION_KINDS:
            known = standing_claims(self._ledger.causes(claim.place), claim, before)
        else:
            known = {name: claim_of(f) for name, f in self._causes.beside(task, claim, before).items() if f.stands}
        return {
            name: Cause(other.broker, other.kind)
            for name, other in known.items()
            if other.spread and name != (task.finding_id or task.claim.finding_id(self._groups.cluster_id))
            if other.cause == said.cause or (said.kind in TRANSACTION_KINDS and _have_one_end(said, other))
            if other.kind is said.kind or {other.kind, said.kind} <= OPEN_KINDS
        }


def _have_one_end(one: Claim, other: Claim) -> bool:
    """Whether one end marker is known to have ended the transactions of two claims, so that they are one."""
    ends = {(claim.producer_id, claim.marker_offset) for claim in (one, other)}
    return len(ends) == 1 and one.marker_offset != UNKNOWN


def _are_of_one_record(one: Claim, other: Claim) -> bool:
    """Whether two claims are about the same record of the same transaction; of one, the key may be unknown."""
    # If the transaction's first record was gone, a later one was taken for its start.
    is_one = one.offset != UNKNOWN or one.transaction_start_offset == other.transaction_start_offset
    is_one &= (one.offset, one.producer_id) == (other.offset, other.producer_id)
    return is_one and (one.key == other.key or None in (one.key, other.key))
