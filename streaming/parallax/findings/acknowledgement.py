"""Decides when an acknowledged finding has become worse, so that it alarms again.

`Gravity.worse_than` says what counts as worse, for a single finding and for an incident. No other change of an
acknowledged finding raises an alarm: an event that stays acknowledged says what the finding is now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from parallax.findings.finding import Finding, evidence_of, has_spread, is_blocking, is_unsettled, sides_of
from parallax.findings.incident import tally_of
from parallax.kinds import TRANSACTION_KINDS, refines
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.people import ended
from parallax.sides import OUTCOMES


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One acknowledgement of a finding: who wants no more alarms about it, and why.

    Attributes:
        by: the person.
        reason: why, in that person's words.
        at: when; the time of the event if its evidence holds no time.
    """

    by: str
    reason: str
    at: datetime


def in_words(by: str, reason: str) -> str:
    """Return the sentence that ends the summary of an acknowledged finding.

    An example is "Acknowledged by alice: known, see 123."

    Args:
        by: the person who acknowledged the finding.
        reason: why, in that person's words.
    """
    return f"Acknowledged by {by}: {ended(reason)}"


def acknowledgement_of(finding: Finding) -> Acknowledgement | None:
    """Return the acknowledgement in a finding's last event; None if the finding is not acknowledged."""
    return _acknowledgement(finding) if finding.status is FindingStatus.ACKNOWLEDGED else None


def _acknowledgement(finding: Finding) -> Acknowledgement:
    said = _said(finding)
    at = datetime.fromisoformat(said["at"]) if said.get("at") else finding.decided_at
    return Acknowledgement(said.get("by") or "somebody", said.get("reason") or "no reason given", at)


def is_by_a_person(finding: Finding) -> bool:
    """Whether a person made the finding's last event by acknowledging it; else the replicas' answers did."""
    return finding.status is FindingStatus.ACKNOWLEDGED and _EXTENT not in _said(finding)


def with_acknowledgement(event: Finding, said: Acknowledgement, was: Gravity | None = None) -> Finding:
    """Return an event as one that is acknowledged.

    Args:
        event: what the finding is.
        said: who acknowledged it, when and why.
        was: how bad it was then; None if a person acknowledges what it is.
    """
    document: dict[str, Any] = {"reason": said.reason, "by": said.by, "at": said.at.isoformat()}
    if was is not None:
        document[_EXTENT] = was.as_json()
    evidence = evidence_of(event) | {_KEY: document}
    return replace(
        event,
        status=FindingStatus.ACKNOWLEDGED,
        summary=f"{event.summary} {in_words(said.by, said.reason)}",
        evidence=json.dumps(evidence, separators=(",", ":")),
    )


_KEY, _EXTENT = "acknowledgement", "extent"
"""The keys of the evidence that hold the acknowledgement, and in it how bad the acknowledged finding was."""


def _said(finding: Finding) -> Mapping[str, Any]:
    return evidence_of(finding).get(_KEY) or {}


@dataclass(frozen=True, slots=True)
class Gravity:
    """How bad one finding is at one moment; two extents are compared to see whether it got worse.

    Attributes:
        kind: what is shown wrongly.
        status: confirmed, spread or unsettled.
        accused: the broker; `NOBODY` without direction.
        is_exposed: whether consumers meet the divergence, or may meet it.
        is_blocking: whether the accused's last stable offset holds back its read_committed consumers as well.
        alike: the accused and the brokers that show the same outcome of the transaction; empty where the accused shows
            none.
        count: how many keys or transactions an incident counts; 1 for a single finding.
    """

    kind: FindingKind
    status: FindingStatus
    accused: int
    is_exposed: bool
    is_blocking: bool = False
    alike: frozenset[int] = frozenset()
    count: int = 1

    @classmethod
    def of(cls, finding: Finding) -> Gravity:
        """Return how bad a finding is, from its last event. The finding must be open."""
        return cls(
            kind=finding.kind,
            status=status_of(finding),
            accused=finding.broker,
            is_exposed=finding.exposed,
            is_blocking=is_blocking(finding),
            alike=_alike(finding),
            count=tally_of(finding).count if finding.is_incident else 1,
        )

    @classmethod
    def acknowledged(cls, finding: Finding) -> Gravity:
        """Return how bad an acknowledged finding was when it was acknowledged, from its last event."""
        was = _said(finding).get(_EXTENT)
        if was is None:
            return cls.of(finding)
        kind, status = FindingKind(was["kind"]), FindingStatus(was["status"])
        return cls(**{**was, "kind": kind, "status": status, "alike": frozenset(was["alike"])})

    def as_json(self) -> dict[str, Any]:
        """Return the extent as `acknowledged` reads it."""
        return asdict(self) | {"alike": sorted(self.alike)}

    def worse_than(self, known: Gravity) -> list[str]:
        """Return in what this extent is worse than ``known``, an earlier one; empty if it is not.

        Each entry is a clause for people, e.g. ``it counts 40, not 20``.
        If this extent is unsettled (no replica is proven wrong any more), only a higher count is worse.
        """
        more = sorted(self.alike - known.alike) if known.alike else []
        has_spread = self.status is FindingStatus.SPREAD
        is_settled = self.status is FindingStatus.UNSETTLED
        leads = "shows it" if has_spread or self.accused != NOBODY else "may be wrong"
        grown = [(f"it counts {self.count:,}, not {known.count:,}", self.count > known.count)]
        graver = [
            ("every replica that answered shares it", has_spread and self.status is not known.status),
            ("the replicas differ again", not has_spread and self.status is not known.status),
            (f"the leader {leads}", self.is_exposed and not known.is_exposed),
            ("it holds back consumers in read_committed", self.is_blocking and not known.is_blocking),
            (f"it is {self.kind}, not {known.kind}", refines(self.kind, known.kind)),
            (f"broker {self.accused} is proven to be wrong", known.accused == NOBODY != self.accused),
            ("nothing proves any more who is wrong", known.accused != NOBODY == self.accused),
            (f"broker {', '.join(map(str, more))} shows the same", bool(more)),
        ]
        return [words for words, is_so in (*grown, *(() if is_settled else graver)) if is_so]


def worsened(event: Finding, known: Finding) -> Finding | None:
    """Return the event that ends an acknowledgement because the finding got worse; None while it holds.

    Args:
        event: the finding's new event.
        known: the finding's last event, which is acknowledged.
    """
    said = acknowledgement_of(known)
    how = Gravity.of(event).worse_than(Gravity.acknowledged(known))
    if said is None or not how:
        return None
    return replace(event, summary=f"{event.summary} Worse than when {said.by} acknowledged it: {', '.join(how)}.")


def still_acknowledged(event: Finding, known: Finding) -> Finding:
    """Return the event that says what an acknowledged finding is now.

    Args:
        event: the finding's new event, no worse than what was acknowledged.
        known: the finding's last event, which is acknowledged.
    """
    return with_acknowledgement(event, _acknowledgement(known), Gravity.acknowledged(known))


def status_of(finding: Finding) -> FindingStatus:
    """Return the status that an open finding would have without an acknowledgement: confirmed, spread or unsettled.

    A finding that gets worse than it was when it was acknowledged alarms again, so this is compared.
    """
    if has_spread(finding):
        return FindingStatus.SPREAD
    return FindingStatus.UNSETTLED if is_unsettled(finding) else FindingStatus.CONFIRMED


def _alike(finding: Finding) -> frozenset[int]:
    """Return who shows the same outcome of a transaction as the accused.

    For values each replica has a finding of its own.
    """
    sides = sides_of(finding) if finding.kind in TRANSACTION_KINDS else {}
    own = (on for side, on in sides.items() if side.shows in OUTCOMES and finding.broker in on)
    return frozenset().union(*own)
