"""What lists, page and report say of a finding in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from parallax.findings.finding import Finding, asked_at, has_spread
from parallax.kinds import OPEN_KINDS
from parallax.model import NOBODY, FindingStatus


class Seen(StrEnum):
    """What is known of whether consumers see a finding."""

    NO = ""
    """No replica that shows it leads, or it is over."""
    PERHAPS = "consumers may see it"
    """One of the sides leads, and nobody knows which side is right."""
    YES = "consumers see it"


def seen(finding: Finding) -> Seen:
    """Return whether consumers see a finding; its text says so in a few words."""
    if not (finding.exposed and finding.stands):
        return Seen.NO
    return seen_by_state(finding.broker, has_spread=has_spread(finding))


def seen_by_state(accused: int, *, has_spread: bool) -> Seen:
    """Return whether consumers see a finding while a replica leads that shows it: yes, or perhaps without direction.

    Args:
        accused: the broker; `NOBODY` without direction.
        has_spread: whether all replicas show it; then the answer is yes.
    """
    return Seen.PERHAPS if accused == NOBODY and not has_spread else Seen.YES


def seen_counts(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings consumers see, and how many they may see. Each number is under the words for it."""
    every = [seen(finding) for finding in findings]
    return {"seen by consumers": every.count(Seen.YES), "perhaps seen by consumers": every.count(Seen.PERHAPS)}


def seen_counted(findings: Iterable[Finding]) -> str:
    """Return in words how many findings consumers see, or may see; empty where they see none."""
    return ", ".join(f"{count:,} {words}" for words, count in seen_counts(findings).items() if count)


def suspected_in_words(at: datetime) -> str:
    """Return when a finding was first suspected, in a few words."""
    return f"first suspected {at:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Freeze:
    """When a replica held back read_committed consumers, by a finding.

    Attributes:
        since: when it was first suspected.
        until: when the probe that ended it was made. None if it is not over.
    """

    since: datetime
    until: datetime | None = None

    @property
    def in_words(self) -> str:
        """That the replica is frozen or was, and since when, as the finding says it."""
        how = "frozen" if self.until is None else f"was frozen until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{how}, {suspected_in_words(self.since)}"


def freezes(findings: Iterable[Finding]) -> dict[int, list[Freeze]]:
    """Return by broker when its replica was frozen, by open findings and by those that are over."""
    found: dict[int, list[Freeze]] = {}
    for finding in findings:
        is_it = finding.stands or finding.status is FindingStatus.RESOLVED
        if is_it and finding.kind in OPEN_KINDS and finding.broker != NOBODY:
            until = None if finding.stands else asked_at(finding)
            found.setdefault(finding.broker, []).append(Freeze(finding.first_suspected_at, until))
    return {broker: sorted(one, key=lambda freeze: freeze.since) for broker, one in found.items()}


def standing_freeze(known: Iterable[Freeze]) -> Freeze | None:
    """Return the first of a replica's freezes that is not over; None if all are."""
    return next((one for one in known if one.until is None), None)


__all__ = [
    "Freeze",
    "Seen",
    "freezes",
    "seen",
    "seen_by_state",
    "seen_counted",
    "seen_counts",
    "standing_freeze",
    "suspected_in_words",
]
