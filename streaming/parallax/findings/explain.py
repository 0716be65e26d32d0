"""Explains a finding in plain words: what happened, what consumers see, who is right, what to run.

It says nothing that the evidence does not prove:

- A replica is called right only if `parallax.findings.cleared` clears it.
- What consumers read is said only if it is known on which side the leader is.
- A copy is advised only from a replica that the finding proves right. Every other finding of the partition that is not
  over must prove it right as well, unless it accuses the same broker or has spread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from parallax.counts import brokers_text
from parallax.findings import leading
from parallax.findings.cleared import unproven
from parallax.findings.decide import Resolution
from parallax.findings.finding import (
    Finding,
    asked_at,
    evidence_of,
    has_spread,
    is_blocking,
    is_unsettled,
    leans_on,
    proof_in,
)
from parallax.findings.grounds import Grounds, Leads, are, grounds_of, one_of
from parallax.findings.in_brief import suspected_in_words
from parallax.findings.moves import Purpose
from parallax.findings.repair import show_record, show_seen
from parallax.findings.steps import Step, steps
from parallax.findings.summary import asked_in_words
from parallax.kinds import KINDS, OPEN_KINDS
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.remedies import WITHOUT_DIRECTION
from parallax.runbook import RUNBOOK, section
from parallax.shell import ANYWHERE, Shell


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a finding; texts are a sentence or two, or empty.

    Attributes:
        happened: what the replicas show, or showed.
        asked: when it was first suspected, and when the replicas gave the answers that the last event holds.
        proof: the record or end marker that proves the finding, and who has shown it; empty where no single one does.
        now: what consumers see with the present leader; for a finding that is over, how it ended.
        after: what consumers see once another replica is elected leader. It is empty for a finding that is over, like
            ``right``, ``may_lead`` and ``steps``.
        right: which replicas the evidence proves right, and which it does not.
        may_lead: which replicas must not lead because of findings, and the command that shows all other reasons.
        look: the command that shows the finding's record on each broker.
        seen: the command that shows what consumers of each replica had seen at that record while it was wrong
            (`parallax.findings.repair.show_seen`).
        steps: what to do, in order.
        away: as JSON for kafka-reassign-partitions.sh, an assignment without the accused: the first step of a repair;
            None where such an assignment repairs nothing.
        back: as JSON, the assignment of all replicas with a right one first: the second step; None where none is known.
        runbook: where the runbook says more.
    """

    happened: str
    asked: str
    proof: str
    now: str
    after: str
    right: str
    may_lead: str
    look: str
    seen: str
    steps: tuple[Step, ...]
    away: str | None
    back: str | None
    runbook: str


def explain(finding: Finding, others: Iterable[Finding] = (), shell: Shell = ANYWHERE) -> Explanation:
    """Explain a finding in plain words, from its last event.

    Args:
        finding: the finding's last event.
        others: the last events of other findings. Those about the same partition that are not over may forbid a copy.
        shell: the options with which printed commands name the cluster and the job.
    """
    others = list(others)
    known = grounds_of(finding, others, shell)
    repair = known.repair
    is_kept = known.is_of_the_index or repair is None or repair.leaves_one
    return Explanation(
        happened=finding.summary,
        asked=_asked(finding),
        proof="" if (proof := proof_in(finding)) is None else proof.sentences,
        now=f"{_now(known)}{_blocked(finding)}" if finding.stands else _over(finding),
        after=_after(known) if finding.stands else "",
        right=_right(known) if finding.stands else "",
        may_lead=leading.said(finding, others, shell) if finding.stands else "",
        look=show_record(finding, shell),
        seen=show_seen(finding, shell),
        steps=steps(known) if finding.stands else (),
        away=None if is_kept or repair is None else repair.as_json(Purpose.DROP),
        back=None if repair is None else repair.as_json(Purpose.COPY),
        runbook=runbook_of(finding),
    )


def _asked(finding: Finding) -> str:
    said = f"It was {suspected_in_words(finding.first_suspected_at)}. This is what the replicas answered, "
    said += f"{asked_in_words(asked_at(finding))}."
    return f"{said} A replica that was moved or copied since may show something else." if finding.stands else said


_OVER = {
    Resolution.PART: "It is open as part of an incident, which is reported in its place: explain that one.",
    Resolution.EXPLAINED: "Another finding, named above, is about the same cause: explain that one.",
    Resolution.HEALED: "It is over: the replicas agreed when they were asked. "
    "What consumers had read before stays as they read it.",
}


def _over(finding: Finding) -> str:
    if finding.status is FindingStatus.DISMISSED:
        return _OVER[Resolution.EXPLAINED] if leans_on(finding) else "It was suspected, and not confirmed."
    ended = "It is over, and that proves no replica right: see above how it ended."
    if finding.kind in OPEN_KINDS:
        ended = (
            "It is over: the transaction is open no more. How the replica ended it is not proven, unless a repair is "
            "on record and every replica was read to show its end marker."
        )
    return next((text for how, text in _OVER.items() if evidence_of(finding).get("resolution") == how), ended)


def _now(known: Grounds) -> str:
    shown, finding, leader = known.shown, known.finding, known.shown.leader
    if has_spread(finding):
        if known.silent:
            sharing = shown.replicas.keys() - known.silent
            unknown = f"It is not known what consumers of {brokers_text(known.silent)} read."
            return f"Consumers of {brokers_text(sharing)} {known.consumers}. {unknown}" if sharing else unknown
        return f"Consumers of every replica {known.consumers}."
    if is_unsettled(finding):
        return (
            f"What the replicas show now proves none of them wrong. If one still is, its consumers {known.consumers}."
        )
    if finding.broker == NOBODY:
        if finding.exposed:
            return f"One of the sides leads. Whether consumers read the wrong one is not known: they {known.consumers}."
        return "No replica that is known to differ leads."
    if known.leads is Leads.ACCUSED:
        named = "The leader shows it" if finding.is_incident else f"Broker {finding.broker} leads the partition"
        return f"{named}: consumers {known.consumers}."
    if known.leads is Leads.ALIKE:
        shows = f"shows what broker {finding.broker} does"
        if finding.kind is FindingKind.LOG_TRUNCATED:
            shows = "lacks it as well"
        return f"Broker {leader} leads the partition and {shows}: consumers {known.consumers}."
    said = _of_the_leader(known)
    leads = f"Broker {shown.led} leads" if shown.led != NOBODY else "Who leads is not known here"
    return f"{leads}: {said} Those that fetch from {one_of(shown.showing)} (client.rack) {known.consumers}."


def _of_the_leader(known: Grounds) -> str:
    """Say what consumers of the leader meet if it does not show what the accused shows."""
    if known.leads is Leads.RIGHT:
        return "consumers that read from the leader do not meet it."
    if known.is_leader_undisputed:
        return "nothing is proven of what it shows, and nothing says that it is wrong."
    return "nothing is proven of what it shows, so it is not known what consumers of the leader read."


def _blocked(finding: Finding) -> str:
    if not is_blocking(finding):
        return ""
    at = evidence_of(finding)["blocked_at"]
    return f" Consumers of broker {finding.broker} in read_committed get nothing beyond offset {at}."


def _after(known: Grounds) -> str:
    if has_spread(known.finding):
        silent = f", unless it is of {one_of(known.silent)}" if known.silent else ""
        return f"No election is known to change anything{silent}."
    if is_unsettled(known.finding):
        return "What an election would change is not known: nothing proves which replica is right."
    if known.finding.broker == NOBODY:
        return f"After an election another side may lead: consumers {known.consumers}."
    if known.leads not in (Leads.ACCUSED, Leads.ALIKE):
        return f"If {one_of(known.shown.showing)} becomes the leader, consumers {known.consumers}."
    if not known.right:
        return "No other replica is proven right: what consumers read after an election is not known."
    return f"Once {one_of(known.right)} leads, consumers read what is right in this from then on."


def _right(known: Grounds) -> str:
    shown, finding, right = known.shown, known.finding, known.right
    if has_spread(finding):
        if known.silent:
            return f"None of those that show it: they share it. Nothing is proven of {brokers_text(known.silent)}."
        return "None: all replicas share it."
    if is_unsettled(finding):
        return "No replica is proven right: all may be wrong."
    if finding.broker == NOBODY:
        return "No replica is proven right or wrong. Wipe, reassign or re-elect nothing on this evidence."
    said = f"Broker {finding.broker} is proven wrong"
    if right:
        said += f", {brokers_text(right)} {'is' if len(right) == 1 else 'are'} right in this"
    alike = shown.alike - {finding.broker}
    if now := alike & shown.showing:
        said += f". {are(now, 'shows', 'show')} the same"
    if before := alike - shown.showing:
        said += f". {are(before, 'was', 'were')} read to show the same"
    if not right:
        why = ", and ".join(
            f"{brokers_text(brokers)} {one if len(brokers) == 1 else many}"
            for (one, many), brokers in unproven(shown).items()
        )
        return f"{said}. Which of the others is right is not proven{f': {why}' if why else ''}."
    others = shown.replicas.keys() - shown.alike - set(right)
    return f"{said}. Nothing is proven of {brokers_text(others)}." if others else f"{said}."


def runbook_of(finding: Finding, runbook: str = RUNBOOK) -> str:
    """Return the link to the runbook's section about a finding, e.g. ``docs/runbook.md#without-direction``.

    Args:
        finding: the finding's last event.
        runbook: address or path of the runbook.
    """
    return section(runbook, section_of(finding))


def section_of(finding: Finding) -> str:
    """Return the anchor of the runbook's section that says what to do about a finding."""
    if has_spread(finding):
        return "parallaxlosscomplete"
    if is_unsettled(finding):
        return "parallaxdivergenceunsettled"
    return WITHOUT_DIRECTION.anchor if finding.broker == NOBODY else KINDS[finding.kind].runbook
