"""Remembers in a finding's evidence when consumers of the leader met what it reports.

Each event is decided from the answers to one probe. These name the leader, so no other table is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from parallax.counts import agreed
from parallax.kinds import OPEN_KINDS, effect_of
from parallax.model import NOBODY, UNKNOWN, FindingKind
from parallax.moments import time_text

MET = "met"
"""Key in an event's evidence: a `Met`. It is absent if no leader was seen to show what the finding reports."""
SHOWED = "showed"
"""Key in an event's evidence: the brokers that were ever seen to show it, sorted."""
_ID_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Met:
    """When a leader was seen to show what a finding reports. Times are in milliseconds since 1970 UTC.

    Attributes:
        leaders: the brokers that led then, sorted; empty if unknown.
        since_ms: when a probe saw it first.
        until_ms: when a probe saw first that it was no longer so; -1 if it was so at the last probe.
    """

    leaders: tuple[int, ...]
    since_ms: int
    until_ms: int = UNKNOWN

    @classmethod
    def of(cls, evidence: Mapping[str, Any]) -> Self | None:
        """Return what an event's evidence says; None if it says nothing."""
        said = evidence.get(MET)
        return None if said is None else cls(tuple(said["leaders"]), said["since_ms"], said["until_ms"])

    def in_words(self, finding_id: str, kind: FindingKind, variant: str) -> str:
        """Say in two sentences who led and when, for the text of a finding that is over, and where more is said.

        Args:
            finding_id: the finding's id.
            kind: the finding's kind.
            variant: what the finding is about (`parallax.kinds.Variant`), which says what consumers could see.
        """
        named = " and ".join(map(str, self.leaders))
        who = f"{agreed(len(self.leaders), 'Broker', 'Brokers')} {named}" if named else "A replica that showed it"
        since, until = time_text(self.since_ms), time_text(self.until_ms)
        what = "were held back" if kind in OPEN_KINDS else effect_of(kind, variant).could
        return (
            f"{who} led meanwhile, first seen {since} and no longer so {until}: consumers of the leader {what}. "
            f"Groups that it may concern: `parallax findings readers {finding_id[:_ID_CHARACTERS]}`."
        )


def as_evidence(known: Met | None) -> dict[str, Any]:
    """Return what an event's evidence says of it, as values for JSON; empty for None."""
    return {} if known is None else {MET: asdict(known)}


def met(before: Met | None, leader: int, at_ms: int, *, is_exposed: bool) -> Met | None:
    """Return what is known after another probe of when consumers of the leader met a finding.

    Args:
        before: what was known; None if the leader was never seen to show it.
        leader: the broker that leads, by this probe; `NOBODY` if unknown.
        at_ms: when the probe began, milliseconds since 1970 UTC.
        is_exposed: whether the leader shows what the finding reports.
    """
    if is_exposed:
        leaders = {*(() if before is None else before.leaders), leader} - {NOBODY}
        return Met(tuple(sorted(leaders)), at_ms if before is None else before.since_ms)
    if before is None or before.until_ms != UNKNOWN:
        return before
    return replace(before, until_ms=at_ms)


__all__ = ["MET", "SHOWED", "Met", "as_evidence", "met"]
