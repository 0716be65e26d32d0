"""The events of repairs, as the table ``repair_events`` keeps them, and the state that they lead to. Pure.

Each event holds all that a later process needs. So a repair whose process was killed between two events can go on from
the last one. A repair has one owner, a process. A process that is no longer the owner can record no event, and so
change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from parallax.model import TopicPartition


class EventKind(StrEnum):
    """What an event says happened to a repair; the kinds are in the order in which they happen."""

    BEGUN = "begun"
    """A person runs a plan; ``document`` is the plan."""
    KEPT = "kept"
    """Before anything is changed: ``document`` is what each replica shows of it."""
    INTENDED = "intended"
    """A step is going to be done; ``document`` says how."""
    ANSWERED = "answered"
    """The cluster has accepted the step's change; whether the replicas show it is still to be seen."""
    BEAT = "beat"
    """The repair's process runs, and had nothing else to record for a while (`parallax.repair.owner.BEAT_S`)."""
    WORKING = "working"
    """A copy is under way, and the repair's process waits for it; ``reason`` says how far it is."""
    PROVEN = "proven"
    """Every replica shows what the step was to bring about."""
    STOPPED = "stopped"
    """Something is not as planned: nothing more is changed until a person says so."""
    RESUMED = "resumed"
    """A person resumes the repair."""
    OVER = "over"
    """All steps are proven."""
    UNDOING = "undoing"
    """A person undoes the repair: the partition is assigned to the brokers that held it before."""
    CLOSED = "closed"
    """The repair is given up, or undone; ``reason`` says what stays changed."""


SLOW = "is_slow"
"""Key in the document of a ``proven`` event. The copy took too long: it may lack tombstones or end markers."""
MAY_LACK = "may lack tombstones or end markers until an audit has compared it, which the job makes by itself"
"""What such a copy means, behind its subject. Messages say it, so it names no command that a person has to run."""

UNWRITTEN = "is_unwritten"
"""Key in the document of a ``proven`` event. The transaction had ended, and the repair wrote no end marker."""
WARNED = "is_warned"
"""Key in the document of a ``stopped`` event. The step's end marker may have ended another transaction as well."""
_JITTER_MS = 1_000
"""A clock that goes back by less than this was only adjusted."""


class Phase(StrEnum):
    """The phase of a repair: running, being undone, stopped, over, or given up."""

    RUNNING = "running"
    UNDOING = "undoing"
    STOPPED = "stopped"
    OVER = "over"
    CLOSED = "closed"


_PHASE = {
    EventKind.STOPPED: Phase.STOPPED,
    EventKind.OVER: Phase.OVER,
    EventKind.CLOSED: Phase.CLOSED,
    EventKind.UNDOING: Phase.UNDOING,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a repair; ``at_ms`` in milliseconds since 1970 UTC, ``sequence`` 0 until it is recorded.

    Attributes:
        repair_id: the repair's id, 32 hexadecimal digits.
        owner: the process that recorded the event (`parallax.repair.owner`).
        step: the number of the step that the event is about; 0 if it is about none.
        document: further facts, as JSON values.
        reason: why it happened, or what follows from it, in a sentence.
    """

    kind: EventKind
    repair_id: str
    topic: str
    partition: int
    at_ms: int
    owner: str
    step: int = 0
    document: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    sequence: int = 0

    @property
    def place(self) -> TopicPartition:
        """The partition that the event is about."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Repair:
    """The state of one repair, built from its events.

    Attributes:
        plan: the plan, as a document.
        owner: the process that may go on with the repair.
        began_ms: when the repair was begun, milliseconds since 1970 UTC.
        at_ms: when its last event was, milliseconds since 1970 UTC. No event counts as earlier than the one before it.
        changed_ms: the same without events that only say that it is at work.
        is_kept: whether an event holds what the replicas showed before anything was changed.
        intended: by number of a step that was begun, how it was going to be done. If a step intends to write an end
            marker a second time, ``below`` (the log end before the marker) stays that of the first time.
        answered: by step number, when the cluster answered that it made the step's change, milliseconds since 1970 UTC.
        proven: by number of a step whose result every replica shows, when that was seen, milliseconds since 1970 UTC.
        results: by number of a proven step, what its event says of the result: `SLOW` or `UNWRITTEN`, if one is true.
        warned: numbers of the steps of which an event says that their end marker may have ended another transaction.
        is_timed: whether no clock of a later process was behind, so that times of different processes can be compared.
        resumed_ms: when somebody last resumed the repair after a stop, milliseconds since 1970 UTC; -1 for never.
        reason: the reason of the last event that is no beat.
        sequence: the number of its last event. While it grows, the repair's process runs.
    """

    repair_id: str
    place: TopicPartition
    plan: Mapping[str, Any]
    owner: str
    began_ms: int
    at_ms: int
    changed_ms: int
    phase: Phase = Phase.RUNNING
    is_kept: bool = False
    intended: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    answered: Mapping[int, int] = field(default_factory=dict)
    proven: Mapping[int, int] = field(default_factory=dict)
    results: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    warned: frozenset[int] = frozenset()
    is_timed: bool = True
    resumed_ms: int = -1
    reason: str = ""
    sequence: int = 0

    @property
    def unanswered(self) -> frozenset[int]:
        """Numbers of the steps that were begun, and that the cluster has neither answered nor shown."""
        return frozenset(self.intended) - self.answered.keys() - self.proven.keys()

    @property
    def moves(self) -> list[Mapping[str, Any]]:
        """The steps that reassign the partition, as documents; the plan may be of any format."""
        return [step for step in self.plan.get("steps", ()) if "move" in step]

    @property
    def has_moved(self) -> bool:
        """Whether a step was begun that reassigns the partition."""
        return any(step["number"] in self.intended for step in self.moves)

    @property
    def states(self) -> set[tuple[int, ...]]:
        """How the partition is assigned before, between and after the steps: broker ids, the preferred leader first."""
        between = (state for step in self.moves for state in (step["before"], step["move"]["replicas"]))
        return {tuple(self.plan.get("replicas", ())), *map(tuple, between)}

    def is_slow(self, number: int) -> bool:
        """Whether the copy of the proven step ``number`` took too long (`SLOW`)."""
        return bool(self.results.get(number, {}).get(SLOW))

    @property
    def left(self) -> tuple[int, ...]:
        """The brokers that hold the partition since a repair is over; empty if they held it before, in this order.

        One step of a plan alone (``--step``) may leave others. ``parallax repair undo`` puts the former ones back.
        """
        last = self.moves[-1]["move"]["replicas"] if self.moves else []
        is_changed = self.phase is Phase.OVER and last and [*last] != [*self.plan["replicas"]]
        return tuple(last) if is_changed else ()

    @property
    def is_open(self) -> bool:
        """Whether the repair is running, being undone, or stopped; if so, no other repair of the partition begins."""
        return self.is_running or self.phase is Phase.STOPPED

    @property
    def is_running(self) -> bool:
        """Whether the repair is running or being undone, by its events; its process may have been killed since."""
        return self.phase in (Phase.RUNNING, Phase.UNDOING)


@dataclass(slots=True)
class Record:
    """The state of all repairs, built from their events.

    Attributes:
        repairs: by id, in the order in which they were begun.
    """

    repairs: dict[str, Repair] = field(default_factory=dict)

    def take_in(self, events: Iterable[Event]) -> None:
        """Update the state of repairs by events of the table that are new here, by rising sequence number."""
        for event in events:
            if event.kind is EventKind.BEGUN:
                self.repairs[event.repair_id] = Repair(
                    event.repair_id,
                    event.place,
                    event.document,
                    event.owner,
                    event.at_ms,
                    event.at_ms,
                    event.at_ms,
                    sequence=event.sequence,
                )
            elif event.repair_id in self.repairs:
                self.repairs[event.repair_id] = _after(self.repairs[event.repair_id], event)

    def open_in(self, place: TopicPartition) -> Repair | None:
        """The repair of a partition that is running, being undone, or stopped; None if there is none."""
        return next((one for one in self.repairs.values() if one.is_open and one.place == place), None)

    def slow(self) -> dict[tuple[TopicPartition, int], tuple[int, int]]:
        """By partition and broker whose last copy took too long: when that copy began, and when it was proven.

        Times are in milliseconds since 1970 UTC.
        """
        found: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        for repair in self.repairs.values():
            for step in repair.moves:
                number = step["number"]
                for broker in step["move"]["copied"] if number in repair.proven else ():
                    found.pop((repair.place, broker), None)
                    if repair.is_slow(number):
                        proven_ms = repair.proven[number]
                        began_ms = repair.intended.get(number, {}).get("at_ms", proven_ms)
                        found[repair.place, broker] = began_ms, proven_ms
        return found

    def later(self, known: Repair) -> Repair | None:
        """The last repair of the same partition that began after one and is not closed or has left no change.

        None if there is none. Repairs of a partition are undone in the reverse of their order.
        """
        since = [*self.repairs.values()]
        since = since[since.index(known) + 1 :]
        left = [one for one in since if one.place == known.place and (one.is_open or one.left)]
        return left[-1] if left else None


def _after(known: Repair, event: Event) -> Repair:
    if event.kind is EventKind.BEAT:
        return replace(known, sequence=event.sequence)
    # The clock of a later process may be behind; the order of the events is that of the table.
    is_behind = event.at_ms < known.at_ms - _JITTER_MS
    event = replace(event, at_ms=max(event.at_ms, known.at_ms))
    said = replace(
        known,
        is_timed=known.is_timed and not is_behind,
        sequence=event.sequence,
        owner=event.owner,
        at_ms=event.at_ms,
        changed_ms=known.changed_ms if event.kind is EventKind.WORKING else event.at_ms,
        phase=known.phase if event.kind is EventKind.WORKING else _PHASE.get(event.kind, Phase.RUNNING),
        reason=event.reason,
    )
    step = event.step
    match event.kind:
        case EventKind.KEPT:
            return replace(said, is_kept=True)
        case EventKind.INTENDED:
            first = known.intended.get(step, event.document)
            since = {"below": first["below"]} if "below" in first else {}
            return replace(said, intended={**known.intended, step: {**event.document, **since}})
        case EventKind.ANSWERED:
            return replace(said, answered={**known.answered, step: event.at_ms})
        case EventKind.STOPPED if event.document.get(WARNED):
            return replace(said, warned=known.warned | {step})
        case EventKind.RESUMED if known.phase is Phase.STOPPED:
            return replace(said, resumed_ms=event.at_ms)
        case EventKind.PROVEN:
            results = {**known.results, step: event.document}
            return replace(said, proven={**known.proven, step: event.at_ms}, results=results)
        case _:
            return said


__all__ = ["MAY_LACK", "SLOW", "UNWRITTEN", "WARNED", "Event", "EventKind", "Phase", "Record", "Repair"]
