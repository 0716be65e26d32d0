"""What the findings of a partition prove about its replicas: which are wrong, and which may be copied. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from parallax.findings.finding import Finding, has_spread, is_unsettled
from parallax.findings.grounds import grounds_of
from parallax.findings.repair import record_offset
from parallax.model import NOBODY, UNKNOWN
from parallax.shell import ANYWHERE


@dataclass(frozen=True, slots=True)
class Claim:
    """What one finding says.

    Attributes:
        finding: its id.
        wrong: the replicas that show now what is proven wrong.
        sources: those that are right in it, and make nothing wrong that another finding may be right about.
        offsets: where what it is about lies.
        transaction: producer and start of the transaction that it is about; -1 where it is about none.
        missing: why no replica can be copied for it, a phrase with what to do; empty where one can.
    """

    finding: str
    wrong: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    offsets: tuple[int, ...] = ()
    transaction: tuple[int, int] = (UNKNOWN, UNKNOWN)
    missing: str = ""


def claims(findings: Collection[Finding]) -> tuple[Claim, ...]:
    """What each of the findings that stand about one partition says, in the order of their ids."""
    return tuple(_claim(one, findings) for one in sorted(findings, key=lambda one: one.finding_id))


def _claim(finding: Finding, findings: Collection[Finding]) -> Claim:
    known = grounds_of(finding, findings, ANYWHERE)
    places = (finding.offset, finding.transaction_start_offset, finding.marker_offset, record_offset(finding))
    return Claim(
        finding.finding_id,
        known.shown.showing if finding.broker != NOBODY else frozenset(),
        frozenset(known.sources),
        tuple(sorted(set(places) - {UNKNOWN})),
        (finding.producer_id, finding.transaction_start_offset),
        _missing(finding, known.right, known.sources, known.beside),
    )


def _missing(finding: Finding, right: Sequence[int], sources: Sequence[int], beside: Sequence[Finding]) -> str:
    if has_spread(finding):
        return "all replicas share it: no copy can help. Have what is right written once more"
    if is_unsettled(finding) or finding.broker == NOBODY:
        return "nothing proves which replica is right. Compare with the system that wrote it"
    if not right:
        return "no replica is proven right: none may be copied. `parallax findings explain` says how to find out"
    if not sources:
        named = ", ".join(one.finding_id for one in beside)
        return f"those that are right in it may be wrong in {named}: settle that first"
    return ""


@dataclass(frozen=True, slots=True)
class Together:
    """Several claims as one: who is copied anew, and from whom.

    Attributes:
        findings: their ids.
        wrong: the replicas that are wrong by one of them.
        sources: those that are right by all of them.
        offsets: where what they are about lies.
    """

    findings: tuple[str, ...]
    wrong: frozenset[int]
    sources: frozenset[int]
    offsets: tuple[int, ...]


def together(some: Iterable[Claim]) -> Together | None:
    """The claims for which a replica can be copied, as one; None where there is none."""
    made = [one for one in some if not one.missing]
    if not made:
        return None
    wrong = frozenset().union(*(one.wrong for one in made))
    sources = frozenset.intersection(*(one.sources for one in made)) - wrong
    offsets = sorted({offset for one in made for offset in one.offsets})
    return Together(tuple(one.finding for one in made), wrong, sources, tuple(offsets))


__all__ = ["Claim", "Together", "claims", "together"]
