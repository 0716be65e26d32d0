"""What the findings of a partition prove about its replicas: which are wrong, and which may be copied. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from parallax.findings.cleared import Shown
from parallax.findings.finding import Finding, has_spread, is_unsettled
from parallax.findings.grounds import grounds_of, in_words
from parallax.model import NOBODY, UNKNOWN
from parallax.shell import ANYWHERE


@dataclass(frozen=True, slots=True)
class Claim:
    """What one finding says: which replicas are wrong, and which may be copied.

    Attributes:
        finding: its id.
        wrong: the replicas that show now what is proven wrong.
        sources: replicas that the finding proves right, without those whose copy could spoil what another finding may
            be right about.
        offsets: the offsets that it is about.
        transaction: producer and start of the transaction that it is about; -1 where it is about none.
        missing: why no replica can be copied for it, a phrase with what to do; empty where one can.
        by_word: if none is proven right, each replica that may be right, with the replicas that are wrong then.
    """

    finding: str
    wrong: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    offsets: tuple[int, ...] = ()
    transaction: tuple[int, int] = (UNKNOWN, UNKNOWN)
    missing: str = ""
    by_word: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def wrong_if(self, right: int | None) -> frozenset[int]:
        """The replicas that are wrong if a person says that a certain replica is right."""
        return self.wrong if right is None else self.by_word.get(right, self.wrong)

    def lacks(self, right: int | None) -> str:
        """Why no replica can be copied to mend the finding, and what to do; empty where one can.

        Args:
            right: the replica that a person says is right; None where nobody does.
        """
        if right is None or right in self.sources or right in self.by_word:
            return self.missing if right is None or right not in self.by_word else ""
        if self.sources:
            named = in_words(self.sources)
            return f"--right {right} contradicts it: it proves that {named} may be copied, and not broker {right}"
        return self.missing or f"--right {right}: nothing shows what that broker holds of it"


def claims(findings: Collection[Finding]) -> tuple[Claim, ...]:
    """Return what each finding of a partition that is not over says, in the order of ids."""
    return tuple(_claim(one, findings) for one in sorted(findings, key=lambda one: one.finding_id))


def _claim(finding: Finding, findings: Collection[Finding]) -> Claim:
    known = grounds_of(finding, findings, ANYWHERE)
    places = (finding.offset, finding.transaction_start_offset, finding.marker_offset, finding.record_offset)
    wrong = known.shown.showing if finding.broker != NOBODY else frozenset()
    return Claim(
        finding.finding_id,
        wrong,
        frozenset(known.sources),
        tuple(sorted(set(places) - {UNKNOWN})),
        (finding.producer_id, finding.transaction_start_offset),
        _missing(finding, known.right, known.sources, known.beside),
        {} if known.right else _by_word(finding, known.shown, wrong),
    )


def _by_word(finding: Finding, shown: Shown, wrong: frozenset[int]) -> dict[int, frozenset[int]]:
    """By replica that a person may say is right, who is wrong then."""
    if has_spread(finding) or is_unsettled(finding):
        return {}
    if finding.broker != NOBODY:
        return dict.fromkeys(shown.answered - shown.alike - shown.was_accused, wrong)
    sides = [side & shown.answered for side in shown.sides.values()]
    return {
        right: frozenset().union(*(other for other in sides if right not in other)) for side in sides for right in side
    }


def _missing(finding: Finding, right: Sequence[int], sources: Sequence[int], beside: Sequence[Finding]) -> str:
    if has_spread(finding):
        return "all replicas share it: no copy can help. Have what is right written once more"
    if is_unsettled(finding) or finding.broker == NOBODY:
        return f"nothing proves which replica is right. {_FIND_OUT}"
    if not right:
        return f"no replica is proven right. {_FIND_OUT}"
    if not sources:
        named = ", ".join(one.finding_id for one in beside)
        return f"those that are right in it may be wrong in {named}: settle that first"
    return ""


_FIND_OUT = "Compare with the system that wrote it (`parallax findings explain`), and plan again with --right BROKER"


@dataclass(frozen=True, slots=True)
class Together:
    """Several findings' claims as one: which replicas are copied again, and from which.

    Attributes:
        findings: their ids.
        wrong: the replicas that are wrong by one of them.
        sources: those that are right by all of them.
        offsets: the offsets that the claims are about.
    """

    findings: tuple[str, ...]
    wrong: frozenset[int]
    sources: frozenset[int]
    offsets: tuple[int, ...]


def together(some: Iterable[Claim], right: int | None = None) -> Together | None:
    """Join the claims for which a replica can be copied into one; None if there are none.

    Args:
        some: claims of findings.
        right: the replica that a person says is right, where findings do not prove it; None where nobody does.
    """
    made = [one for one in some if not one.lacks(right)]
    if not made:
        return None
    wrong = frozenset().union(*(one.wrong_if(right) for one in made))
    able = [frozenset({right}) if right is not None else one.sources for one in made]
    offsets = sorted({offset for one in made for offset in one.offsets})
    return Together(tuple(one.finding for one in made), wrong, frozenset.intersection(*able) - wrong, tuple(offsets))


__all__ = ["Claim", "Together", "claims", "together"]
