"""Says who led when replicas were asked, and whether consumers of that leader meet what a finding reports.

An incident is asked about in parts, and the leader may move in between. Each part is a look of its own; the newest
says who leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from parallax.findings.answers import Answers
from parallax.findings.finding import Finding, evidence_of
from parallax.model import NOBODY, UNKNOWN


@dataclass(frozen=True, slots=True)
class WhoLed:
    """What one look, or several looks together, say of the leader.

    Attributes:
        leader: the broker that led; `NOBODY` where it is not known.
        leader_epoch: the epoch in which it led; -1 where it is not known.
        shows: whether it shows its consumers what was asked about as the accused shows it; without direction, whether
            it is on one of the sides.
    """

    leader: int = NOBODY
    leader_epoch: int = UNKNOWN
    shows: bool = False

    @classmethod
    def at(cls, answers: Answers, *, shows: bool) -> WhoLed:
        """Return who led by the answers of one probe.

        Args:
            answers: the replicas' answers.
            shows: whether the leader shows what was asked about as the accused does.
        """
        return cls(answers.leader, answers.leader_epoch, shows)

    @classmethod
    def of(cls, event: Finding) -> WhoLed:
        """Return who led when the replicas were last asked about a finding.

        Of an incident it is the newest look at its members. Events of an earlier version do not say it.
        """
        evidence = evidence_of(event)
        many = evidence.get("incident")
        said = many.get("led") or {} if event.is_incident and isinstance(many, dict) else evidence
        leader, epoch = said.get("leader", NOBODY), said.get("leader_epoch", UNKNOWN)
        return cls(int(leader), int(epoch), bool(said.get("shows", event.exposed)))

    def then(self, *later: WhoLed) -> WhoLed:
        """Return what this look and later ones say together, in the order in which they came.

        Leader epochs only grow. So a look of a lower epoch is an older one: it says nothing of the present leader.
        Looks under one leader add up: that leader shows what any of them saw.
        """
        return reduce(_newer, later, self)

    def or_rather(self, looks: Iterable[WhoLed]) -> WhoLed:
        """Return what newer looks say together, in place of this one.

        If their leader epoch is lower, they are older. Then this look stays.
        """
        newer = reduce(_newer, looks, NOT_KNOWN)
        return self if newer.leader_epoch < self.leader_epoch else newer

    def as_json(self) -> dict[str, Any]:
        """Return it as values for JSON, in the form that an incident's evidence holds."""
        return {"leader": self.leader, "leader_epoch": self.leader_epoch, "shows": self.shows}


NOT_KNOWN = WhoLed()
"""Before the first look."""


def _newer(known: WhoLed, later: WhoLed) -> WhoLed:
    if later.leader_epoch < known.leader_epoch:
        return known
    return replace(later, shows=later.shows or known.shows) if later.leader == known.leader else later


__all__ = ["NOT_KNOWN", "WhoLed"]
