"""The actions that a repair can take next, as plain values."""

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
    """An action: record an event of the repair; the event counts only after that."""

    event: Event


@dataclass(frozen=True, slots=True)
class Write:
    """An action: make the leader write an end marker."""

    step: int
    leader: int
    marker: EndMarker


@dataclass(frozen=True, slots=True)
class Assign:
    """An action: assign the partition to brokers, the preferred leader first."""

    step: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Elect:
    """An action: make Kafka elect the preferred leader."""

    step: int


@dataclass(frozen=True, slots=True)
class Wait:
    """An action: do nothing now and look again in a moment; ``why`` says the reason in a phrase."""

    why: str


Change = Write | Assign | Elect
Action = Put | Change | Wait


@dataclass(frozen=True, slots=True)
class Asked:
    """The last change that this process asked the cluster for; a process that has just started knows none.

    Attributes:
        change: the change.
        at_ms: when it was asked for, milliseconds since 1970 UTC.
        refusal: why it was refused; empty if it was not, or if nobody answered.
    """

    change: Change
    at_ms: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the events of one repair, which are then recorded."""

    repair: Repair
    at_ms: int
    owner: str

    def event(
        self, kind: EventKind, step: int = 0, *, reason: str = "", document: Mapping[str, Any] | None = None
    ) -> Put:
        """Make an action that records an event of the repair.

        Args:
            kind: what happened.
            step: the number of the step that it is about; 0 for none.
            reason: why, in a sentence.
            document: further facts, as JSON values.
        """
        repair = self.repair
        where = repair.place
        return Put(Event(kind, repair.repair_id, *where, self.at_ms, self.owner, step, dict(document or {}), reason))


__all__ = ["TAKES_MS", "Action", "Asked", "Assign", "Change", "Elect", "Maker", "Put", "Wait", "Write"]
