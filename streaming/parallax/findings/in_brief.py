"""Short texts about a finding for lists, the status page and the report.

Do consumers see it? Since when is it suspected, or was a replica frozen?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from parallax.findings.about import OLDER_OVER
from parallax.findings.ended import clause
from parallax.findings.finding import Finding, asked_at, effect_in, evidence_of, has_spread
from parallax.findings.tense import in_past
from parallax.kinds import KINDS, OPEN_KINDS, Clears
from parallax.model import NOBODY, FindingStatus


class Seen(StrEnum):
    """Whether consumers of the leader see a finding: no, perhaps, or yes."""

    NO = ""
    """The leader does not show what the finding reports, or the finding is over."""
    PERHAPS = "consumers may see it"
    """The leader is on one of the sides, and it is not known whether it is wrong (`is_sure`)."""
    YES = "consumers see it"


def seen(finding: Finding) -> Seen:
    """Return whether consumers of the leader see a finding: no, perhaps, or yes."""
    if not (finding.exposed and finding.stands):
        return Seen.NO
    return Seen.YES if has_spread(finding) or is_sure(finding) else Seen.PERHAPS


def is_sure(finding: Finding) -> bool:
    """Whether the leader is known to be wrong if it shows what a finding reports.

    It is not known if the finding accuses nobody. It is not known either if the accused's own end marker proves it
    wrong, and another replica leads. That replica may have another end marker, by which the same record is right.
    """
    if KINDS[finding.kind].clears is Clears.OWN_END:
        return bool(evidence_of(finding).get("leader") == finding.broker != NOBODY)
    return finding.broker != NOBODY


def seen_counts(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings are ``seen by consumers``, and how many ``perhaps seen by consumers``, by these labels.

    Args:
        findings: their last events.
    """
    every = [seen(finding) for finding in findings]
    return {"seen by consumers": every.count(Seen.YES), "perhaps seen by consumers": every.count(Seen.PERHAPS)}


def seen_counted(findings: Iterable[Finding]) -> str:
    """Return in words how many findings consumers see or may see, e.g. ``2 seen by consumers``; empty if none."""
    return ", ".join(f"{count:,} {words}" for words, count in seen_counts(findings).items() if count)


def suspected_in_words(at: datetime) -> str:
    """Return the phrase ``first suspected 2026-01-02 14:03:10 UTC`` for the time ``at``, which is in UTC."""
    return f"first suspected {at:%Y-%m-%d %H:%M:%S} UTC"


def was_in_words(finding: Finding) -> str:
    """Return what a finding was, as a title in the past tense: ``Broker 2 lacked a record of orders-0, or ...``.

    Args:
        finding: its last known event.
    """
    place = finding.place.name
    if finding.broker == NOBODY:
        return f"Replicas of {place} differed ({finding.kind})"
    return in_past(effect_in(finding).headline.format(broker=finding.broker, partition=place))


def ended_in_words(event: Finding) -> str:
    """Return how a resolved finding ended, in a clause: ``it was repaired``. Empty if the event does not say.

    Args:
        event: the finding's last event.
    """
    evidence = evidence_of(event)
    return clause(
        evidence.get("resolution"),
        str(evidence.get("reason", "")),
        event.kind,
        is_directed=event.broker != NOBODY,
        is_repaired=bool(evidence.get("repaired")),
        is_older_over=bool(evidence.get(OLDER_OVER)),
    )


@dataclass(frozen=True, slots=True)
class Freeze:
    """A period in which one replica held back its read_committed consumers, as a finding says.

    Attributes:
        since: when the freeze was first suspected.
        until: when the replicas gave the answers that showed its end; None if it is not over.
    """

    since: datetime
    until: datetime | None = None

    @property
    def in_words(self) -> str:
        """The phrase that says whether the replica is frozen or was, and since when."""
        how = "frozen" if self.until is None else f"was frozen until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        return f"{how}, {suspected_in_words(self.since)}"


def freezes(findings: Iterable[Finding]) -> dict[int, list[Freeze]]:
    """Return by broker id the periods in which its replica of one partition was frozen, as findings say.

    A finding gives one period if it says that a replica holds an ended transaction open. Dismissed suspects give none.
    The periods of a replica are in the order in which they began.

    Args:
        findings: the last events of findings about one partition. Those of other kinds, and those that accuse nobody,
            are ignored.
    """
    found: dict[int, list[Freeze]] = {}
    for finding in findings:
        is_it = finding.stands or finding.status is FindingStatus.RESOLVED
        if is_it and finding.kind in OPEN_KINDS and finding.broker != NOBODY:
            until = None if finding.stands else asked_at(finding)
            found.setdefault(finding.broker, []).append(Freeze(finding.first_suspected_at, until))
    return {broker: sorted(one, key=lambda freeze: freeze.since) for broker, one in found.items()}


def standing_freeze(known: Iterable[Freeze]) -> Freeze | None:
    """Return the earliest of a replica's freezes that is not over; None if all are over.

    Args:
        known: the replica's freezes, the earliest first.
    """
    return next((one for one in known if one.until is None), None)


__all__ = [
    "Freeze",
    "Seen",
    "ended_in_words",
    "freezes",
    "is_sure",
    "seen",
    "seen_counted",
    "seen_counts",
    "standing_freeze",
    "suspected_in_words",
    "was_in_words",
]
