"""What lists, page and report say of a finding in a few words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from parallax.findings.finding import Finding, has_spread
from parallax.kinds import OPEN_KINDS
from parallax.model import NOBODY


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


def frozen_since(findings: Iterable[Finding]) -> dict[int, datetime]:
    """Return the brokers that hold back read_committed by a finding that is not over, each with its time.

    That is when the first such finding of the broker was first suspected.
    """
    found: dict[int, datetime] = {}
    for finding in findings:
        if finding.stands and finding.kind in OPEN_KINDS and finding.broker != NOBODY:
            known = found.get(finding.broker, finding.first_suspected_at)
            found[finding.broker] = min(known, finding.first_suspected_at)
    return found


def frozen_in_words(at: datetime) -> str:
    """Return that a replica is frozen, and since when, as its finding says it."""
    return f"frozen, {suspected_in_words(at)}"


__all__ = [
    "Seen",
    "frozen_in_words",
    "frozen_since",
    "seen",
    "seen_by_state",
    "seen_counted",
    "seen_counts",
    "suspected_in_words",
]
