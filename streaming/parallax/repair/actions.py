"""The actions that a repair can take next, as plain values: `parallax.repair.decide` returns them, `run` acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parallax.repair.record import Event, EventKind, Repair
from parallax.replica.changes import EndMarker

TAKES_MS = 30_000
"""If not every replica shows a change after this time, a person has to look; milliseconds."""


@dataclass(frozen=True, slots=True)
class Put:
    """An action: append an event of the repair to its table; the event counts once it is there."""

    event: Event


@dataclass(frozen=True, slots=True)
class Write:
    """An action: ask the broker ``leader`` to write the end marker of the plan's step numbered ``step``."""

    step: int
    leader: int
    marker: EndMarker


@dataclass(frozen=True, slots=True)
class Assign:
    """An action: assign the partition to the brokers ``replicas``, the preferred leader first.

    ``step`` is the number of the plan's step, or 0 if the repair is being undone.
    """

    step: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """An action: cancel the reassignment that is under way, so that the partition is assigned as it was before it.

    Where it has become complete meanwhile, nothing happens. So it deletes only what that reassignment was adding,
    whenever it arrives; an `Assign` that arrives late begins another reassignment, which deletes what the first added.

    ``step`` is the number of the plan's step, or 0 if the repair is being undone.
    """

    step: int


@dataclass(frozen=True, slots=True)
class Elect:
    """An action: have the controller elect the preferred leader, as the plan's step with the number ``step`` says."""

    step: int


@dataclass(frozen=True, slots=True)
class Wait:
    """An action: do nothing now and look again in a moment; ``why`` says the reason in a phrase."""

    why: str


Change = Write | Assign | Cancel | Elect
Action = Put | Change | Wait


@dataclass(frozen=True, slots=True)
class Asked:
    """The last change (`Write`, `Assign`, `Cancel` or `Elect`) that this process asked the cluster to make.

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
    """Makes events of one repair, with the repair's id, time and owner filled in.

    Attributes:
        repair: the repair's state.
        at_ms: the time of the events, milliseconds since 1970 UTC.
        owner: the process that records them (`parallax.repair.owner.myself`).
    """

    repair: Repair
    at_ms: int
    owner: str

    def event(
        self, kind: EventKind, step: int = 0, *, reason: str = "", document: Mapping[str, Any] | None = None
    ) -> Put:
        """Make an event of the repair, as the action (`Put`) that records it.

        Args:
            kind: what happened.
            step: the number of the step that the event is about; 0 for none.
            reason: why it happened, in a sentence.
            document: further facts, as JSON values.
        """
        repair = self.repair
        where = repair.place
        return Put(Event(kind, repair.repair_id, *where, self.at_ms, self.owner, step, dict(document or {}), reason))


__all__ = ["TAKES_MS", "Action", "Asked", "Assign", "Cancel", "Change", "Elect", "Maker", "Put", "Wait", "Write"]
