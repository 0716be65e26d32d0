"""Which replicas of a partition may lead: each is safe, unsafe or unknown, with the reasons. Pure.

A leader's log is what consumers read, and what every new copy is made of. So a replica that a finding proves wrong must
not lead. A replica is safe only if every open finding of the partition proves it right, and no other reason speaks
against it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from parallax.counts import agreed, brokers_text, named
from parallax.findings.cleared import cleared
from parallax.findings.finding import Finding, effect_in, has_spread, is_shared, is_unsettled
from parallax.findings.incident import answered_in
from parallax.findings.shown import Shown
from parallax.model import NOBODY, FindingStatus
from parallax.shell import Shell

_ID_CHARACTERS = 8


class May(StrEnum):
    """Whether a replica may lead."""

    SAFE = "safe"
    """Nothing that Parallax knows is against it."""
    UNKNOWN = "unknown"
    """Nobody knows whether it is right."""
    UNSAFE = "unsafe"
    """A finding proves it wrong."""


_ORDER = (May.SAFE, May.UNKNOWN, May.UNSAFE)


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether one replica may lead, and what speaks against it.

    Attributes:
        may: safe, unknown or unsafe.
        why: for a replica that is not safe, one phrase for each reason.
    """

    may: May = May.SAFE
    why: tuple[str, ...] = ()

    def also(self, other: Fitness) -> Fitness:
        """Join two judgements on the same replica: the graver one counts, and equally grave ones join their reasons."""
        if self.may is other.may:
            return Fitness(self.may, (*self.why, *other.why))
        return max(self, other, key=lambda one: _ORDER.index(one.may))

    @property
    def in_words(self) -> str:
        """The judgement and its reasons as text, e.g. "unknown (finding 1a2b3c4d does not prove it right)"."""
        return f"{self.may} ({'; '.join(self.why)})" if self.why else str(self.may)


SAFE = Fitness()


def unknown(*why: str) -> Fitness:
    """Return the judgement that nobody knows whether a replica may lead.

    Args:
        why: the reasons, in words. Without any, the judgement is that the replica is safe.
    """
    return Fitness(May.UNKNOWN, why) if why else SAFE


def worst(some: Iterable[Fitness]) -> May:
    """Return the gravest of the judgements on some replicas; safe if there are none."""
    return max((one.may for one in some), key=_ORDER.index, default=May.SAFE)


def may_lead(
    brokers: Iterable[int],
    findings: Collection[Finding],
    doubts: Mapping[int, Collection[str]] | None = None,
    unconfirmed: Mapping[str, Collection[int]] | None = None,
) -> dict[int, Fitness]:
    """Return by broker whether its replica of a partition may lead.

    Args:
        brokers: the brokers that hold a replica of the partition.
        findings: the last events of the findings about the partition; those that are over are ignored. One about what
            all replicas share is so too, once it is acknowledged, for those that answered its probe.
        doubts: by broker, phrases that say why its replica may be wrong although no finding says so.
        unconfirmed: by finding id, the brokers whose replicas may have been changed since that finding was last seen to
            be true (`parallax.findings.renewed`). It proves them wrong no more, nor right.
    """
    found = {broker: unknown(*(doubts or {}).get(broker, ())) for broker in brokers}
    for finding in findings:
        if not finding.stands:
            continue
        changed = (unconfirmed or {}).get(finding.finding_id, ())
        for broker, fitness in _by_one(finding, found).items():
            is_open = broker in changed and fitness.may is May.UNSAFE
            found[broker] = found[broker].also(_not_known_yet(finding) if is_open else fitness)
    for broker, names in _shared(findings, found).items():
        which = f"{agreed(len(names), 'finding', 'findings')} {named(names)}"
        why = f"it shares {which} with the others, so no election helps"
        found[broker] = found[broker].also(Fitness(May.UNSAFE, (why,)))
    return found


def _shared(findings: Iterable[Finding], brokers: Collection[int]) -> dict[int, list[str]]:
    """By broker, the findings about what all replicas share that it was seen to share, unless a person knows them."""
    shared: dict[int, list[str]] = {}
    for finding in findings:
        if finding.stands and has_spread(finding) and finding.status is not FindingStatus.ACKNOWLEDGED:
            for broker in Shown.of(finding).answered & set(brokers):
                shared.setdefault(broker, []).append(finding.finding_id[:_ID_CHARACTERS])
    return shared


def _by_one(finding: Finding, brokers: Iterable[int]) -> dict[int, Fitness]:
    """What one finding says of each replica."""
    name, shown = finding.finding_id[:_ID_CHARACTERS], Shown.of(finding)
    if finding.status is FindingStatus.ACKNOWLEDGED and is_shared(finding):
        # A person knows it, and it is the same whoever leads.
        same = answered_in(finding)
        return {
            broker: SAFE if broker in same else unknown(f"finding {name} proves nothing of it") for broker in brokers
        }
    if has_spread(finding):
        return {b: SAFE if b in shown.answered else unknown(f"finding {name} proves nothing of it") for b in brokers}
    if finding.broker == NOBODY or is_unsettled(finding):
        return dict.fromkeys(brokers, unknown(f"finding {name} leaves open which replica is right"))
    right = cleared(shown)
    return {broker: _by_accusing(name, shown, right, broker) for broker in brokers}


def _not_known_yet(finding: Finding) -> Fitness:
    name = finding.finding_id[:_ID_CHARACTERS]
    return unknown(f"finding {name} called it wrong, and it may have been changed since: ask again in a minute")


def _by_accusing(name: str, shown: Shown, right: Collection[int], broker: int) -> Fitness:
    if broker in right:
        return SAFE
    if broker in shown.showing_now:
        consumers = effect_in(shown.finding).consumers
        return Fitness(May.UNSAFE, (f"finding {name}: consumers of it {consumers}",))
    if broker in shown.alike or broker in shown.was_accused:
        return unknown(f"it was read to show what finding {name} calls wrong")
    return unknown(f"finding {name} does not prove it right")


def said(finding: Finding, others: Iterable[Finding], shell: Shell) -> str:
    """Say in sentences which replicas of a partition must not lead according to its findings.

    The text ends with the command that also checks the other reasons against a leader. Findings that have spread do not
    count, because no election changes what all replicas share. The text is empty if ``finding`` itself has spread.

    Args:
        finding: the last event of a finding that is not over; its evidence names the replicas.
        others: the last events of other findings.
        shell: the options by which the command names the cluster and the job.
    """
    if has_spread(finding):
        return ""
    around = [one for one in others if one.stands and _is_beside(one, finding)]
    found = may_lead(Shown.of(finding).assigned, [finding, *(one for one in around if not has_spread(one))])
    by = {may: [broker for broker, one in found.items() if one.may is may] for may in May}
    parts = []
    if by[May.UNSAFE]:
        parts.append(f"{brokers_text(by[May.UNSAFE]).capitalize()} must not.")
    if by[May.UNKNOWN]:
        parts.append(f"Of {brokers_text(by[May.UNKNOWN])} nobody can tell.")
    if by[May.SAFE]:
        but = ", but for what all replicas share" if any(map(has_spread, around)) else ""
        parts.append(f"No finding is against {brokers_text(by[May.SAFE])}{but}.")
    command = shell.parallax("lead", finding.topic, "--partition", finding.partition)
    return f"{' '.join(parts)} What else counts: {command}" if parts else ""


def leads_wrongly(leader: int) -> str:
    """Say in a sentence that a broker leads and must not. ``leader`` is `NOBODY` if its id is not known."""
    return f"{f'Broker {leader}' if leader != NOBODY else 'A broker that shows it'} leads, and must not."


def _is_beside(other: Finding, finding: Finding) -> bool:
    return other.place == finding.place and other.finding_id != finding.finding_id


__all__ = ["SAFE", "Fitness", "May", "leads_wrongly", "may_lead", "said", "unknown", "worst"]
