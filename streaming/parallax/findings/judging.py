"""Turn the answers to a probe into an event of the findings table, or a reason to ask again. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zlib import crc32

from parallax.findings.acknowledgement import status_of, still_acknowledged, worsened
from parallax.findings.alike import is_exposed
from parallax.findings.already import Already
from parallax.findings.answers import Answers
from parallax.findings.causes import Causes, accuses_by_proof, same_cause
from parallax.findings.claim import Claim
from parallax.findings.cleared import shows_against_its_end
from parallax.findings.decide import ClaimState, Decision, Resolution, differs_anew, is_proof_cut, named
from parallax.findings.decide.own_end import contradicts_its_end
from parallax.findings.effect import whole
from parallax.findings.finding import (
    Finding,
    Repaired,
    claim_of,
    has_proven_direction,
    has_spread,
    is_blocking,
    is_proof_past,
    made,
    never_repaired,
    sides_of,
    was_explained_in_part,
    was_spread,
)
from parallax.findings.groups import Groups
from parallax.findings.held import MemberOutcome, Page
from parallax.findings.incident import MemberProof
from parallax.findings.ledger import FindingLedger
from parallax.findings.left import claims_of, left_by, left_over
from parallax.findings.members import MemberGroup, State
from parallax.findings.onset import asked_at, showing_otherwise
from parallax.findings.shown import Shown
from parallax.findings.summary import blocked_at
from parallax.findings.tasks import Task, Tasks
from parallax.findings.who_led import WhoLed
from parallax.kinds import KEY_KINDS, KINDS, OPEN_KINDS, TOMBSTONE_KINDS, TRANSACTION_KINDS, refines, tells_more
from parallax.model import NOBODY, UNKNOWN, FindingKind, FindingStatus
from parallax.moments import milliseconds
from parallax.sides import (
    Shows,
    Side,
    against,
    are_outcomes,
    sides_differ,
    standing,
)

_ENDINGS = (Shows.OPEN, Shows.ENDED)
"""What the sides of a finding on a transaction say, other than values of its key."""
_UNSETTLED = {Resolution.AGREED: State.UNSETTLED, Resolution.DOUBTFUL: State.DOUBTFUL}
"""The state of a member of an incident that is unsettled."""
_DOUBTFUL_PROBES = 2
"""How many probes in a row must decide nothing of a finding. What is being written is decided in the next one."""
_GONE_PROBES = 2
"""How many probes must say that a partition is gone. A broker that has just started may not know it yet."""


@dataclass(frozen=True, slots=True)
class Later:
    """The result of a probe that has decided nothing: the claim must be asked about again.

    Attributes:
        reason: why the answers decide nothing, in one line.
        soon: whether to probe soon, because the answers point to a verdict and one more agreeing probe may reach it.
    """

    reason: str
    soon: bool


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The result of a probe: a finding that was checked again has not changed.

    Attributes:
        finding: the finding's last event; None where Parallax no longer checks it.
    """

    finding: Finding | None


class Judging:
    """Turns the replicas' answers to probes into verdicts on claims, and into events of findings.

    Several claims may have one cause. So it also looks at other suspects and findings of the partition.

    Args:
        tasks: the claims that are probed one by one.
        ledger: the last state of each finding and suspect.
        groups: the members of the findings that are about many keys, or transactions.
        repaired: returns what is on record of a finding's repairs.
    """

    def __init__(
        self, tasks: Tasks, ledger: FindingLedger, groups: Groups, repaired: Repaired = never_repaired
    ) -> None:
        self._ledger = ledger
        self._groups = groups
        self._repaired = repaired
        self._causes = Causes(tasks, ledger, groups)
        self._already = Already(ledger, groups, self._causes)

    def member(self, page: Page, at: int, answers: Answers, before: Sequence[Finding], when: datetime) -> MemberOutcome:
        """Return what a probe of a page has shown of one of the page's members.

        Args:
            page: the members that the probe asked about together.
            at: the member's index in the page, from 0.
            answers: the replicas' answers about this member.
            before: events that the same probe has caused so far.
            when: the present time.
        """
        named = "" if page.is_proven else None
        task = Task(page.claims[at], finding_id=named, counts=page.counts[at])
        rest, left_out = len(answers.rest), answers.rest_left_out
        live_only = page.is_proven or self._goes_by_what_is_live(task)
        claim, decision, answers, leans_on = self._verdict(task, answers, before, live_only=live_only)
        leans_on = leans_on or tuple(self._already.of_one_loss(task, claim, decision, before))
        outcome = self._outcome_of(page, at, claim, decision, answers, before, is_explained=bool(leans_on))
        left: list[Claim] = []
        if page.is_proven and outcome.state is State.OVER and _is_over(decision) and not leans_on:
            left = self._left_by_member(page, claim, decision, answers, when)
        led = WhoLed.at(answers)
        return replace(outcome, led=led, counts=task.counts, left=tuple(left), rest=rest, left_out=left_out)

    def _left_by_member(
        self, page: Page, claim: Claim, decision: Decision, answers: Answers, when: datetime
    ) -> list[Claim]:
        """Return the suspects about what other replicas show of a member that is over."""
        beside, has_healed = self._groups.beside(page.group), decision.resolution is Resolution.HEALED
        at_ms = milliseconds(when)
        found = claims_of(claim, left_over(claim, answers, beside), at_ms, has_healed=has_healed)
        return [one for one in found if not self._ledger.is_looked_at(one, when)]

    def _outcome_of(
        self,
        page: Page,
        at: int,
        claim: Claim,
        decision: Decision,
        answers: Answers,
        before: Sequence[Finding],
        *,
        is_explained: bool,
    ) -> MemberOutcome:
        original = page.originals[at]
        of_transactions = page.group.is_of_transactions
        if not page.is_proven and (of_transactions or not is_explained):
            said = self._outcome_of_one_said(original, decision, before) if of_transactions else None
            if said is None and of_transactions and decision.was_shown:
                said = _shown(claim, decision, answers)
            if said is not None:
                return said
        if decision.verdict is ClaimState.PENDING:
            return MemberOutcome(State.UNDECIDED, reason=decision.reason)
        if is_explained or decision.resolution is Resolution.EXPLAINED:
            state = State.IN_PART if decision.in_part else State.EXPLAINED
            return MemberOutcome(state, resolution=str(Resolution.EXPLAINED))
        agrees = page.is_proven and decision.is_unsettled
        if decision.verdict is ClaimState.DISMISSED and not (decision.has_spread or agrees):
            return MemberOutcome(State.OVER, resolution=str(decision.resolution))
        known = None if page.is_proven else self._ledger.standing(original.finding_id(self._groups.cluster_id))
        if known is not None and known.stands:
            return MemberOutcome(State.OVER)  # It is reported already.
        state = _UNSETTLED[decision.resolution] if agrees else State.SPREAD if decision.has_spread else State.WRONG
        return MemberOutcome(state, _group_by_now(page, claim, decision), MemberProof(claim, decision, answers))

    def _outcome_of_one_said(
        self, original: Claim, decision: Decision, before: Sequence[Finding]
    ) -> MemberOutcome | None:
        """Return the outcome for a suspect on a transaction that is, or will be, a finding by itself; None for others.

        A transaction that is open on the accused takes more than one probe. What says more than a single finding
        refines it.
        """
        if decision.kind in OPEN_KINDS:
            return MemberOutcome(State.ALONE)
        known = self._known(original.finding_id(self._groups.cluster_id), before)
        single = known if known is not None and known.stands else None
        counting = self._groups.counting(original)
        told = single or counting
        if told is None:
            return MemberOutcome(State.OVER) if decision.was_shown and known is not None else None
        if decision.verdict is ClaimState.PENDING:
            return MemberOutcome(State.EXPLAINED) if _says_it(told, original) else None
        if decision.verdict is ClaimState.DISMISSED and not decision.has_spread:
            return MemberOutcome(State.OVER) if decision.was_shown else None
        if _says_more(decision, told):
            return MemberOutcome(State.ALONE) if single is not None else None
        return MemberOutcome(State.EXPLAINED)

    def _known(self, finding_id: str, before: Sequence[Finding]) -> Finding | None:
        """Return the last event of a finding, counting the events that the same answers have caused so far."""
        said = (e for e in reversed(before) if e.finding_id == finding_id and e.status != FindingStatus.DISMISSED)
        return next(said, None) or self._ledger.standing(finding_id)

    def _verdict(
        self, task: Task, answers: Answers, before: Sequence[Finding], *, live_only: bool
    ) -> tuple[Claim, Decision, Answers, tuple[str, ...]]:
        """Return what a probe proves, the claim and answers that it is about, and the findings that it leans on."""
        # A suspect that is judged by what is live is no finding: nothing about it was proven.
        suspected = replace(task.claim, freed=True) if live_only and task.finding_id is None else task.claim
        own = suspected
        if answers.pivot != NOBODY:
            suspected = suspected.asked_last(answers.pivot)
        if task.finding_id is not None and suspected.kind in TRANSACTION_KINDS:
            suspected = self._knowing_losses(task, suspected, before)
            rest = tuple((self._knowing_losses(task, c, before), a) for c, a in answers.rest)
            answers = replace(answers, rest=rest)
        name = task.finding_id or task.claim.suspect_id
        if task.finding_id is not None and is_proof_cut(suspected, answers):
            self._ledger.note_cut(name, suspected.proofs)
        suspected = replace(suspected, is_cut=self._ledger.is_cut(name, suspected.proofs))
        judged = whole(named(suspected, answers), answers, live_only=live_only)
        claim, answers = judged.claim, judged.answers
        if judged.decision.resolution is Resolution.GONE:
            claim = own  # A finding that ends with its replica is about that replica.
        decision = self._twice(task, claim, _of_the_one_asked_instead(own, judged.decision, answers), answers)
        if task.finding_id is not None and decision.lacks != UNKNOWN:
            self._ledger.note_lack(task.finding_id or task.claim.suspect_id, claim.offset, decision.lacks)
        leans_on: tuple[str, ...] = ()
        if task.finding_id is None:
            if claim.kind in KEY_KINDS or decision.kind in KEY_KINDS:
                decision, leans_on = self._causes.linked(task, claim, decision, before, answers)
        elif decision.verdict is not ClaimState.PENDING:
            decision = self._causes.explained(task, claim, decision, before, answers)
        else:
            if standing(decision.sides) == answers.replicas.keys():
                decision = self._causes.explained_meanwhile(task, claim, decision, before)
            decision = self._causes.explained_as_reported(task, claim, decision, before)
        return claim, self._doubted(task, claim, decision, answers), answers, leans_on

    def event(
        self, task: Task, answers: Answers, before: Sequence[Finding], at: datetime
    ) -> Finding | Later | Unchanged:
        """Return the event to write after a probe of one claim; `Later` or `Unchanged` if there is none to write.

        Args:
            task: the claim that was asked about; its counters are updated.
            answers: the replicas' answers.
            before: events that the same answers have caused so far.
            at: the present time, for the event.
        """
        live_only = self._goes_by_what_is_live(task)
        claim, decision, answers, leans_on = self._verdict(task, answers, before, live_only=live_only)
        known = self._known(finding_id := task.finding_id or claim.finding_id(self._groups.cluster_id), before)
        decision = decision if task.finding_id is None else _as_proven(decision, known)
        same = self._already.said(task, claim, decision, answers, before)
        if same:
            is_new = task.finding_id is None and not decision.has_spread
            ended = decision.resolution if is_new else Resolution.EXPLAINED
            decision = replace(decision, verdict=ClaimState.DISMISSED, reason=same_cause(same), resolution=ended)
            leans_on = tuple(same)
        told = known if known is not None and known.stands else self._counting(task, claim, decision)
        if decision.verdict is ClaimState.PENDING and not (task.finding_id is None and _says_it(told, claim)):
            return Later(decision.reason, soon=0 < task.counts.agreed < KINDS[decision.kind].agreeing)
        if task.finding_id is not None:
            return _while_acknowledged(self._rechecked(claim, decision, answers, known, at), known)
        # A suspect that a finding covers needs no more proof: the finding is checked again until it is over.
        is_proven = decision.verdict is not ClaimState.DISMISSED or decision.has_spread
        status = FindingStatus.SPREAD if decision.has_spread else FindingStatus.CONFIRMED
        if is_proven and told is not None:
            if told is known and decision.verdict is not ClaimState.PENDING and _says_more(decision, told):
                looks = self._ledger.otherwise(finding_id)
                if is_proof_past(told) and not _takes_back(decision, told):
                    decision = _as_reported_before(decision, told)
                event = made(finding_id, status, claim, decision, answers, known, at, otherwise=looks)
                return worsened(event, told) or event
            leans_on = (told.finding_id,)
            reason = f"duplicate of finding {told.finding_id} ({told.kind})"
            decision = replace(decision, verdict=ClaimState.DISMISSED, reason=reason)
            is_proven = False
        if decision.was_shown and known is None and told is None:
            status = FindingStatus.RESOLVED
        elif not is_proven:
            # Under its own id if the finding's is in use: a dismissal takes nothing back.
            finding_id = finding_id if known is None else claim.suspect_id
            status = FindingStatus.DISMISSED
        return made(finding_id, status, claim, decision, answers, known, at, leans_on=leans_on)

    def _counting(self, task: Task, claim: Claim, decision: Decision) -> Finding | None:
        """Return the incident that counts a suspect's transaction and says all about it; None where there is none.

        It does not say that the accused holds the transaction open by now.
        """
        counting = None if task.finding_id is not None else self._groups.counting(claim)
        if counting is None or decision.kind in OPEN_KINDS or _says_more(decision, counting):
            return None
        return counting

    def _goes_by_what_is_live(self, task: Task) -> bool:
        """Whether what was recorded proves nothing any more: of a finding, or of a suspect that already had a verdict.

        Another finding explained the suspect, or was the same. That finding has ended, and what was recorded before its
        end says nothing about what is left.
        """
        claim = task.claim
        if task.finding_id is not None or claim.freed:
            return True
        known = self._ledger.standing(claim.finding_id(self._groups.cluster_id))
        handled = self._ledger.handled(claim.suspect_id)
        verdicts = [milliseconds(known.decided_at)] if known is not None and not known.stands else []
        if handled is not None:
            verdicts.append(handled.decided_ms)
        return any(0 < claim.shown_at_ms <= at for at in verdicts)

    def _rechecked(
        self, claim: Claim, decision: Decision, answers: Answers, known: Finding | None, at: datetime
    ) -> Finding | Unchanged:
        """Return what a finding that was checked again has become."""
        if known is None:
            return Unchanged(None)
        otherwise = showing_otherwise(claim, decision, answers)
        self._ledger.note_otherwise(known.finding_id, otherwise, asked_at(answers, at))
        looks = self._ledger.otherwise(known.finding_id)
        status = FindingStatus.CONFIRMED
        was = status_of(known) if known.stands else known.status
        decision = self._by_word(decision, known)
        is_left = known.status is FindingStatus.RESOLVED and was_explained_in_part(known)
        if decision.has_spread:
            status = FindingStatus.SPREAD
            says_more = claim.broker != known.broker or refines(decision.kind, known.kind)
            changed = (known.stands or is_left or was_spread(known)) and (says_more or not has_spread(known))
        elif decision.is_unsettled:
            # A loss that has spread stays one, unless it held back consumers everywhere and holds back nobody any more.
            holds_nobody = was is FindingStatus.SPREAD and known.kind in OPEN_KINDS
            changed = was is FindingStatus.CONFIRMED or is_left or holds_nobody
            status = FindingStatus.UNSETTLED
        elif decision.verdict is ClaimState.DISMISSED:
            status = FindingStatus.RESOLVED
            changed = known.stands
        else:
            is_past = is_proof_past(known) or not known.stands
            changed = is_past or _has_changed(claim, decision, answers, known)
        if status is FindingStatus.RESOLVED and changed and decision.resolution is not Resolution.EXPLAINED:
            left = left_by(known, claim, answers)
            repaired = self._repaired(known)
            return made(known.finding_id, status, claim, decision, answers, known, at, left=left, repaired=repaired)
        if status is FindingStatus.CONFIRMED and known.stands and not _takes_back(decision, known):
            decision = _as_reported_before(decision, known)
        if not changed:
            return Unchanged(known)
        return made(known.finding_id, status, claim, decision, answers, known, at, otherwise=looks)

    def _by_word(self, decision: Decision, known: Finding) -> Decision:
        """Return the decision on replicas that agree on what nobody has proven; a person's word may have ended that."""
        names_nobody = known.stands and known.broker == NOBODY
        agree = decision.is_unsettled and decision.resolution is Resolution.AGREED
        if not agree or not names_nobody or not self._repaired(known).mended:
            return decision
        return replace(decision, resolution=Resolution.BY_WORD)

    def _knowing_losses(self, task: Task, claim: Claim, before: Sequence[Finding]) -> Claim:
        """Return a claim on a transaction with the values of its key that others show although deleted.

        It knows as well which value its replica was seen to lack.
        """
        lacked = self._ledger.lacked(task.finding_id or task.claim.suspect_id, claim.offset)
        if lacked is not None:
            claim = replace(claim, recorded=replace(claim.recorded, lacks=lacked))
        found = self._causes.beside(task, claim, before).values()
        deleted_at = [f.offset for f in found if accuses_by_proof(f) and f.kind in TOMBSTONE_KINDS]
        if claim.key is not None:
            deleted_at += self._groups.deleted_at(claim.place, claim.key)
        return replace(claim, deleted_at=max(deleted_at, default=UNKNOWN))

    def _twice(self, task: Task, claim: Claim, decision: Decision, answers: Answers) -> Decision:
        """Hold back a verdict that one probe alone cannot be trusted with."""
        counts = task.counts
        task.counts = counts = counts._replace(gone=counts.gone + 1 if answers.gone is not None else 0)
        if 0 < counts.gone < _GONE_PROBES:
            return replace(decision, verdict=ClaimState.PENDING, reason=f"{answers.gone}; asked once more")
        if decision.verdict is not ClaimState.CONFIRMED and not decision.has_spread:
            task.counts = counts._replace(agreed=0, proven=0)
            return decision
        proven = crc32(f"{decision.kind} {claim.producer_id} {claim.transaction_start_offset}".encode()) or 1
        in_a_row = counts.agreed + 1 if proven == counts.proven else 1
        task.counts = counts._replace(agreed=in_a_row, proven=proven)
        if in_a_row < KINDS[decision.kind].agreeing:
            return replace(decision, verdict=ClaimState.PENDING, reason=f"{decision.reason}; asked once more")
        return decision

    def _doubted(self, task: Task, claim: Claim, decision: Decision, answers: Answers) -> Decision:
        """Return the decision on a finding, which is unsettled once probes after an election have decided nothing.

        What was proven of a log holds until another leader is elected, for without one no log is truncated. Then what
        had proven it may be gone, and whoever was proven wrong is accused only if a probe proves it again. What has
        spread stays so.
        """
        name = task.finding_id or task.claim.suspect_id
        if decision.verdict is ClaimState.CONFIRMED:
            # A suspect becomes a finding, or a member of an incident.
            for one in {name} if task.finding_id else {name, claim.finding_id(self._groups.cluster_id)}:
                self._ledger.note_proven(one, answers.leader_epoch)
        is_found = task.finding_id is not None and not claim.spread
        is_undecided = decision.verdict is ClaimState.PENDING and not task.counts.agreed
        was_elected = self._ledger.proven_in(name) < answers.leader_epoch
        is_doubtful = is_found and is_undecided and was_elected and answers.are_whole
        task.counts = task.counts._replace(doubtful=task.counts.doubtful + 1 if is_doubtful else 0)
        if task.counts.doubtful < _DOUBTFUL_PROBES:
            return decision
        return replace(decision, verdict=ClaimState.DISMISSED, resolution=Resolution.DOUBTFUL)


def _of_the_one_asked_instead(claim: Claim, decision: Decision, answers: Answers) -> Decision:
    """Return the verdict on a loss that had spread and whose first accused replica is gone.

    The replica that was asked in its place is not accused for that: an absent one may show the same.
    """
    is_accused = decision.verdict is ClaimState.CONFIRMED and decision.accused == answers.pivot
    if not claim.spread or answers.pivot == NOBODY or not is_accused:
        return decision
    if all(answer.error is None for answer in answers.replicas.values()):
        return decision
    return replace(decision, verdict=ClaimState.PENDING, reason=f"{decision.reason}; not all that are left were asked")


def _shown(claim: Claim, decision: Decision, answers: Answers) -> MemberOutcome:
    """Return the outcome for a suspect on a transaction that only recorded answers prove, and that is over."""
    group = MemberGroup(claim.place, decision.accused, decision.kind, claim.rule_of(decision.kind))
    return MemberOutcome(State.SHOWN, group, MemberProof(claim, decision, answers), resolution=str(decision.resolution))


def _group_by_now(page: Page, claim: Claim, decision: Decision) -> MemberGroup:
    """Return the group that counts what a probe has proven: a proven member's own, unless another is accused by now.

    That may be nobody, or a replica that was asked in place of an accused that is gone.
    """
    if decision.verdict is not ClaimState.CONFIRMED:
        accused = claim.broker
    elif page.is_proven and not claim.ended and _keeps_direction(decision, page.group.kind, page.group.broker):
        accused = page.group.broker
    else:
        accused = decision.accused
    if page.is_proven and accused == page.group.broker:
        return page.group
    return MemberGroup(claim.place, accused, decision.kind, claim.rule_of(decision.kind))


def _is_over(decision: Decision) -> bool:
    """Whether a suspicion or proof about a replica no longer holds, or never did, and no other finding explains it."""
    is_shared = decision.has_spread or decision.is_unsettled
    return (
        decision.verdict is ClaimState.DISMISSED and not is_shared and decision.resolution is not Resolution.EXPLAINED
    )


def _while_acknowledged(found: Finding | Unchanged, known: Finding | None) -> Finding | Unchanged:
    """Return what to report of a finding that was checked again; one that is no worse stays acknowledged."""
    is_acknowledged = known is not None and known.status is FindingStatus.ACKNOWLEDGED
    if known is None or not is_acknowledged or not isinstance(found, Finding) or not found.stands:
        return found
    return worsened(found, known) or still_acknowledged(found, known)


def _has_changed(claim: Claim, decision: Decision, answers: Answers, known: Finding) -> bool:
    """Whether a finding that is not over must be reported again, with what it says now."""
    blocked = blocked_at(claim, _as_reported_before(decision, known), answers)
    if (blocked is not None) != is_blocking(known):
        return True
    if _says_more(decision, known) or _takes_back(decision, known) or _is_shown_by_others(decision, known):
        return True
    if _takes_more_than_an_index(claim, decision, answers, known):
        return True
    # Another record of the transaction may still be wrong.
    moved = claim.first_offset != claim_of(known).first_offset
    if decision.accused == NOBODY:
        moved |= differs_anew(claim.recorded.differed, answers)
    if known.kind in TRANSACTION_KINDS:
        # How each replica ended it was proven once: what is shown later, of fewer and fewer records, proves no more.
        is_elsewhere = _has_answered_since(answers, known)
    else:
        is_elsewhere = sides_differ(sides_of(known), decision.sides)
    return moved or is_elsewhere or is_exposed(decision.accused, claim, decision, answers) != known.exposed


def _has_answered_since(answers: Answers, known: Finding) -> bool:
    """Whether a replica answers that is not in a finding's evidence, while no other one shows less than there."""
    before = Shown.of(known)
    now = {broker for broker, answer in answers.replicas.items() if answer.error is None}
    return before.answered < now and all(_shows_as_much(answers, before, broker) for broker in before.answered)


def _shows_as_much(answers: Answers, before: Shown, broker: int) -> bool:
    was, answer = before.replicas[broker], answers.replicas[broker]
    shown = {*answer.committed, *(marker.offset for marker in answer.markers)}
    return {one["offset"] for part in ("committed", "markers") for one in was.get(part, ())} <= shown


def _is_shown_by_others(decision: Decision, known: Finding) -> bool:
    """Whether another replica has started, or stopped, showing a transaction's outcome as wrongly as the accused."""
    before = sides_of(known)
    if known.kind not in TRANSACTION_KINDS or not are_outcomes({*before, *decision.sides}, *_ENDINGS):
        return False
    own = next((side for side, on in before.items() if known.broker in on), None)
    if own is None or known.broker not in decision.sides.get(own, ()):
        return False
    otherwise = {b for side, on in decision.sides.items() if side != own for b in on}
    return not set(decision.sides[own]) <= set(before[own]) or not otherwise.isdisjoint(before[own])


def _takes_more_than_an_index(claim: Claim, decision: Decision, answers: Answers, known: Finding) -> bool:
    """Whether a finding says that an index is wrong, and a rebuilt index would no longer make its replica right.

    Its cleaner has removed the end marker from which the index would be rebuilt. That it lacks a value that another
    shows is not reported again: the value may have been deleted on all but that one.
    """
    is_of_the_index = decision.kind is known.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER
    if not is_of_the_index or not are_outcomes(decision.sides.keys()):
        return False
    accused = answers.replicas.get(decision.accused)
    return shows_against_its_end(Shown.of(known)) and not (
        accused is not None and contradicts_its_end(claim, decision, accused)
    )


def _as_reported_before(decision: Decision, known: Finding) -> Decision:
    """Return a verdict that says less than its finding in the finding's words: how the accused ended it stays proven.

    The accused may hold the transaction open by now, where the end marker was truncated.
    """
    if not refines(known.kind, decision.kind):
        return decision
    open_on = decision.sides.get(Side(Shows.OPEN), ())
    return replace(decision, kind=known.kind, sides=sides_of(known) or decision.sides, open_on=open_on)


def _takes_back(decision: Decision, known: Finding) -> bool:
    """Whether a finding that is not over accuses somebody, and a verdict nobody."""
    return known.stands and known.broker != NOBODY and decision.accused == NOBODY


def _as_proven(decision: Decision, known: Finding | None) -> Decision:
    """Return the verdict on a finding: its direction was proven, although what had proven it may be gone."""
    if decision.verdict is not ClaimState.CONFIRMED or known is None or not known.stands:
        return decision
    is_past = is_proof_past(known) or not has_proven_direction(known)
    if is_past or not _keeps_direction(decision, known.kind, known.broker):
        return decision
    return replace(decision, kind=known.kind, accused=known.broker)


def _keeps_direction(decision: Decision, kind: FindingKind, accused: int) -> bool:
    """Whether what a finding, or a member of an incident, accuses stays proven, although the verdict accuses nobody.

    What had proven the direction proves it no more for one of three reasons.

    - It was truncated: a tombstone that the log does not have deletes nothing.
    - The replicas against the accused differ, so the newest value may be wrong too.
    - What the accused had held open has ended, and how is not proven.

    Args:
        decision: the verdict of a confirming probe.
        kind: the kind as which it was reported.
        accused: whom it accused, or nobody.
    """
    differ = kind is FindingKind.RECORD_MISSING and len(against(decision.sides, accused)) > 1
    has_ended = kind in OPEN_KINDS and decision.kind not in OPEN_KINDS
    is_refuted = decision.proof_truncated or differ or has_ended
    return decision.accused == NOBODY != accused and not is_refuted


def _says_it(known: Finding | None, claim: Claim) -> bool:
    """Whether a finding that is not over says what a suspect claims of the same transaction, or more."""
    if known is None or not known.stands or claim.kind not in TRANSACTION_KINDS or _may_be_proven_again(known):
        return False
    return known.broker == claim.broker and not refines(claim.kind, known.kind)


def _says_more(decision: Decision, known: Finding) -> bool:
    """Whether a verdict refines a finding: by its kind, or by proving what nothing proves, or proves any more."""
    is_proof = decision.verdict is ClaimState.CONFIRMED and _may_be_proven_again(known)
    return is_proof or tells_more(decision.kind, decision.accused, known.kind, known.broker)


def _may_be_proven_again(known: Finding) -> bool:
    """Whether the proof of a single finding is past; an incident's status does not say it of each of its members."""
    return is_proof_past(known) and not known.is_incident


__all__ = ["Judging", "Later", "Unchanged"]
