"""What a repair may do next, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parallax.repair.record import Event, EventKind, Repair
from parallax.replica.changes import EndMarker

TAKES_MS = 30_000
"""What not every replica shows after so long is a case for a person."""


@dataclass(frozen=True, slots=True)
class Put:
    """Put an event on record; only then does it count."""

    event: Event


@dataclass(frozen=True, slots=True)
class Write:
    """Have the leader write an end marker."""

    step: int
    leader: int
    marker: EndMarker


@dataclass(frozen=True, slots=True)
class Assign:
    """Have brokers hold the partition, the preferred leader first."""

    step: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """Have the preferred leader lead."""

    step: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again in a moment; ``why`` in a phrase."""

    why: str


Change = Write | Assign | Elect
Action = Put | Change | Wait


@dataclass(frozen=True, slots=True)
class Asked:
    """What this process knows of what it asked the cluster for; nothing after a kill.

    Attributes:
        change: the request.
        at_ms: when.
        refusal: why it was refused; empty where it was not, or nobody answered.
    """

    change: Change
    at_ms: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes events of a repair."""

    repair: Repair
    at_ms: int
    owner: str

    def event(
        self, kind: EventKind, step: int = 0, *, reason: str = "", document: Mapping[str, Any] | None = None
    ) -> Put:
        """Put an event of the repair on record."""
        repair = self.repair
        where = repair.place
        return Put(Event(kind, repair.repair_id, *where, self.at_ms, self.owner, step, dict(document or {}), reason))


__all__ = ["TAKES_MS", "Action", "Asked", "Assign", "Change", "Elect", "Maker", "Put", "Wait", "Write"]
