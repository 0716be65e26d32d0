"""Says who led when replicas were asked.

An incident is asked about in parts, and the leader may move in between. Each part is a look of its own; the newest one
at anything of the partition says who leads. What that leader shows of each member is known by the last look at the
member (`parallax.findings.members.Members.see`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from parallax.findings.answers import Answers
from parallax.findings.finding import Finding, evidence_of
from parallax.model import NOBODY, UNKNOWN


@dataclass(frozen=True, slots=True)
class WhoLed:
    """What one look, or several looks together, say of who leads.

    Attributes:
        leader: the broker that led; `NOBODY` where it is not known.
        leader_epoch: the epoch in which it led; -1 where it is not known.
    """

    leader: int = NOBODY
    leader_epoch: int = UNKNOWN

    @classmethod
    def at(cls, answers: Answers) -> WhoLed:
        """Return who led by the answers of one probe."""
        return cls(answers.leader, answers.leader_epoch)

    @classmethod
    def of(cls, event: Finding) -> WhoLed:
        """Return who led when the replicas were last asked about a finding.

        Of an incident it is the newest look at its members. Events of an earlier version do not say it.
        """
        evidence = evidence_of(event)
        many = evidence.get("incident")
        said = many.get("led") or {} if event.is_incident and isinstance(many, dict) else evidence
        leader, epoch = said.get("leader", NOBODY), said.get("leader_epoch", UNKNOWN)
        return cls(int(leader), int(epoch))

    def then(self, *later: WhoLed) -> WhoLed:
        """Return what this look and later ones say together, in the order in which they came.

        Leader epochs only grow. So a look of a lower epoch is an older one: it says nothing of the present leader.
        """
        seen = [one for one in later if one != NOT_KNOWN]
        return reduce(lambda known, one: known if one.leader_epoch < known.leader_epoch else one, seen, self)

    def as_json(self) -> dict[str, Any]:
        """Return it as values for JSON, in the form that an incident's evidence holds."""
        return {"leader": self.leader, "leader_epoch": self.leader_epoch}


NOT_KNOWN = WhoLed()
"""Before the first look."""


__all__ = ["NOT_KNOWN", "WhoLed"]
