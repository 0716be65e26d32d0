"""The events of the guard's holds, and the state of each hold that follows from them. Pure.

A *hold* is about one topic: the guard gives some of its settings values of its own, and puts the old values back later.
Each event holds all that the next start needs. So if a guard is killed between two steps, the next one goes on from the
last step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from parallax.shell import ANYWHERE

RETENTION = "delete.retention.ms"
RATIO = "min.cleanable.dirty.ratio"
LAG = "max.compaction.lag.ms"
SETTINGS = (RETENTION, RATIO, LAG)
NO_LAG = 2**63 - 1
"""The value of ``max.compaction.lag.ms`` that sets no limit: Kafka's default."""


class EventKind(StrEnum):
    """What happened to a hold. The kinds are in the order in which they usually happen."""

    INTENDED = "intended"
    """The guard is about to give the topic's settings the values that the event names."""
    SET = "set"
    """The cluster has accepted these values."""
    HELD = "held"
    """Every broker that hosts the topic shows these values."""
    RELEASING = "releasing"
    """The guard is about to put the earlier values back."""
    RELEASED = "released"
    """The settings have their earlier values again, or values that somebody else has set."""
    OVERRULED = "overruled"
    """Somebody else has changed a setting. The guard leaves it, and holds no more for this absence."""
    ABANDONED = "abandoned"
    """The topic is gone, or another topic has its name: nothing is put back."""
    REFUSED = "refused"
    """The topic is not held, because the cluster or a rule of the guard forbids it."""
    ADVISED = "advised"
    """The guard may not act, and says what it would do."""
    IN_SYNC = "in_sync"
    """Replicas of a hold that ended early are in sync again. The event names them; without names, all are."""
    ASKED_HOLD = "asked_hold"
    """A person asks for a hold, no matter which replicas are absent."""
    ASKED_RELEASE = "asked_release"
    """A person asks for the end of a hold."""


class Absentee(NamedTuple):
    """An absent replica of a topic, as a reason to hold the topic."""

    partition: int
    broker: int


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a hold makes to one setting of a topic.

    Attributes:
        before: the topic's own value before the hold; None if it had none and a default applied.
        ours: the value that the guard gives it.
    """

    name: str
    before: str | None
    ours: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a hold; ``at_ms`` is in milliseconds since 1970 UTC, ``sequence`` is 0 until the event is recorded.

    Attributes:
        hold_id: the hold; empty for an event that is about none, e.g. a refusal.
        topic_id: Kafka's id of the topic; empty if it is not known.
        level: 1: tombstones and end markers are kept for longer; 2: cleaning is paused as well; 0 if the event does not
            say.
        changes: the changes of all settings of the hold. For `EventKind.OVERRULED`: only the settings that somebody
            else has changed, with the values that are put back if the guard's own value comes late.
        absent: the absent replicas for whose sake the topic is held.
        reason: why the event happened, in a few words.
        shown: for `EventKind.HELD`, ids of the brokers that show the hold's settings; else empty.
    """

    kind: EventKind
    hold_id: str
    topic: str
    topic_id: str
    at_ms: int
    level: int = 0
    changes: tuple[Change, ...] = ()
    absent: tuple[Absentee, ...] = ()
    reason: str = ""
    sequence: int = 0
    shown: tuple[int, ...] = ()


class Phase(StrEnum):
    """How far a hold has come: intended, set, held, releasing, over."""

    INTENDED = "intended"
    SET = "set"
    HELD = "held"
    RELEASING = "releasing"
    OVER = "over"


_PHASE = {
    EventKind.INTENDED: Phase.INTENDED,
    EventKind.SET: Phase.SET,
    EventKind.HELD: Phase.HELD,
    EventKind.RELEASING: Phase.RELEASING,
    EventKind.RELEASED: Phase.OVER,
    EventKind.ABANDONED: Phase.OVER,
}
LATE = "came late"
"""The reason of a `RELEASING` event after the end of a hold: a requested change came late."""
EARLY = frozenset({"expired", "space", "overruled", "asked", "refused"})
"""Reasons for which a hold ends before its replicas are back. The topic is not held for these replicas again."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The state of one hold of a topic, as its events say.

    Attributes:
        began_ms: when the guard first decided on it, milliseconds since 1970 UTC.
        at_ms: when its present phase began, milliseconds since 1970 UTC.
        level: 1: tombstones and end markers are kept for longer; 2: cleaning is paused as well.
        changes: the changes of all settings that the hold has changed.
        absent: the absent replicas for whose sake the topic is held.
        left: names of settings that somebody else has changed since, so that the guard leaves them as they are.
        held: names of settings that every broker has shown as the guard set them.
        reason: the reason of its newest event that gives one, in a few words.
    """

    hold_id: str
    topic: str
    topic_id: str
    began_ms: int
    at_ms: int
    phase: Phase
    level: int
    changes: tuple[Change, ...]
    absent: frozenset[Absentee]
    left: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the hold is not over: some setting may still have to be put back."""
        return self.phase is not Phase.OVER

    @property
    def own(self) -> tuple[Change, ...]:
        """The changes that the guard has to put back: not those that somebody else has overruled."""
        return tuple(change for change in self.changes if change.name not in self.left)


@dataclass(slots=True)
class Record:
    """The state of all holds of a storage, as the recorded events say.

    Attributes:
        holds: by topic, the newest hold.
        spent: by topic, the absent replicas of a hold that was ended early, e.g. for lack of space, or that somebody
            overruled. The topic is not held for them again until they are in sync.
        asked: by topic, whether a person wants it held (true) or wants its hold to end (false).
        refused: by topic, the last event that says why the guard does not hold it.
        ever: by topic and name of a setting, the last change that any hold intended. If the cluster makes that change
            after the hold has ended, the guard recognises it by this as its own.
        last: by topic and name of a setting, the newest event of the last hold that changed the setting. It says since
            when such a late change is possible.
    """

    holds: dict[str, Hold] = field(default_factory=dict)
    spent: dict[str, frozenset[Absentee]] = field(default_factory=dict)
    asked: dict[str, bool] = field(default_factory=dict)
    refused: dict[str, Event] = field(default_factory=dict)
    ever: dict[str, dict[str, Change]] = field(default_factory=dict)
    last: dict[str, dict[str, Event]] = field(default_factory=dict)

    def take_in(self, events: Iterable[Event]) -> None:
        """Update the state of the holds by further events.

        Args:
            events: the recorded events that were not taken in before, in the order of `Event.sequence`.
        """
        for event in events:
            self._take_in(event)

    def _take_in(self, event: Event) -> None:
        if event.kind in (EventKind.ASKED_HOLD, EventKind.ASKED_RELEASE):
            self._ask(event)
            return
        if event.kind is EventKind.IN_SYNC:
            self._back(event)
            return
        if event.kind in (EventKind.REFUSED, EventKind.ADVISED):
            self._refuse(event)
            return
        known = self.holds.get(event.topic)
        if known is None or known.hold_id != event.hold_id:
            known = Hold(
                event.hold_id,
                event.topic,
                event.topic_id,
                event.at_ms,
                event.at_ms,
                Phase.INTENDED,
                event.level,
                (),
                frozenset(),
            )
        self.holds[event.topic] = after = self._after(known, event)
        said = self.refused.get(event.topic)
        if said is not None and (
            (event.kind is EventKind.INTENDED and said.level <= event.level)
            or (event.kind is EventKind.RELEASED and after.reason != "refused")
        ):
            del self.refused[event.topic]
        ever = self.ever.setdefault(event.topic, {})
        if event.kind in (EventKind.INTENDED, EventKind.OVERRULED):
            ever.update({change.name: change for change in event.changes})
        changed = {change.name: event for change in after.changes}
        self.last.setdefault(event.topic, {}).update(changed)
        if event.kind is EventKind.INTENDED and event.level == 2 and RATIO not in changed:
            ever.pop(RATIO, None)  # somebody else had paused it already: no request of the guard's did

    def _back(self, event: Event) -> None:
        left = self.spent.pop(event.topic, frozenset()) - set(event.absent)
        if event.absent and left:
            self.spent[event.topic] = left
        if not event.absent:
            self.refused.pop(event.topic, None)

    def _refuse(self, event: Event) -> None:
        """What a person asked for and is refused is not done later, when nobody expects it any more."""
        self.refused[event.topic] = event
        known = self.holds.get(event.topic)
        is_refused = event.kind is EventKind.REFUSED and self.asked.get(event.topic)
        if is_refused and (known is None or not known.is_open or event.level > known.level):
            del self.asked[event.topic]

    def _ask(self, event: Event) -> None:
        known = self.holds.get(event.topic)
        self.refused.pop(event.topic, None)  # it is said again to who asks
        if event.kind is EventKind.ASKED_HOLD:
            self.asked[event.topic] = True
        elif known is not None and known.is_open and known.phase is not Phase.RELEASING:
            self.asked[event.topic] = False
        else:
            self.asked.pop(event.topic, None)

    def _after(self, known: Hold, event: Event) -> Hold:
        if event.kind is EventKind.OVERRULED:
            self._spend(event.topic, known.absent | set(event.absent))
            theirs = {change.name: change for change in event.changes}
            changes = tuple(theirs.get(change.name, change) for change in known.changes)
            return replace(known, changes=changes, left=known.left | theirs.keys())
        if event.kind is EventKind.RELEASING and event.reason in EARLY:
            self._spend(event.topic, known.absent | set(event.absent))
            self.asked.pop(event.topic, None)
        if event.kind is EventKind.ABANDONED:
            self.asked.pop(event.topic, None)
        if event.kind is EventKind.HELD:
            known = replace(known, held=frozenset(change.name for change in known.own))
        if event.kind is EventKind.RELEASING and event.reason == LATE:
            known = replace(known, left=frozenset())
        return replace(
            known,
            topic_id=event.topic_id or known.topic_id,
            phase=_PHASE[event.kind],
            at_ms=event.at_ms,
            level=max(known.level, event.level),
            changes=event.changes or known.changes,
            absent=known.absent | set(event.absent),
            reason=event.reason or known.reason,
        )

    def _spend(self, topic: str, absent: frozenset[Absentee]) -> None:
        self.spent[topic] = self.spent.get(topic, frozenset()) | absent


def is_marked(name: str, value: str) -> bool:
    """Whether a guard set this value of ``delete.retention.ms`` or ``max.compaction.lag.ms``.

    Guards set odd numbers of milliseconds, which nobody writes by hand.

    Args:
        name: the setting's name; for any other setting the answer is False.
        value: its value, in milliseconds.
    """
    if name not in (RETENTION, LAG):
        return False
    number = int(value) if value.isdecimal() else 0
    return number % 2 == 1 and number != NO_LAG and (name == RETENTION or number > 2**62)


def is_same(mine: str | None, other: str | None) -> bool:
    """Whether ``mine`` and ``other`` mean the same value of a setting, e.g. ``0.5`` and ``0.50``.

    Kafka writes numbers in its own way. None, no value, is the same only as None.
    """
    if mine is None or other is None:
        return mine is other
    try:
        return mine == other or ("." in mine + other and float(mine) == float(other))
    except ValueError:
        return False


BROKERS = ANYWHERE.brokers()
"""What commands have in place of the brokers, until `parallax.guard.command.addressed` names these."""


def commands(topic: str, settings: Mapping[str, str | None]) -> str:
    """Return the commands that change a topic's settings by hand.

    One line of kafka-configs.sh sets values, one deletes values; either may be missing.

    Args:
        topic: the topic's name.
        settings: values by name; None deletes the topic's own value.
    """
    base = f"kafka-configs.sh {BROKERS} --alter --entity-type topics --entity-name {topic}"
    added = ",".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    gone = ",".join(name for name, value in settings.items() if value is None)
    return "\n".join([f"{base} --add-config {added}"] * bool(added) + [f"{base} --delete-config {gone}"] * bool(gone))


def open_holds(record: Record) -> list[Hold]:
    """Return the holds that are not over, in the order of topics."""
    return [hold for _, hold in sorted(record.holds.items()) if hold.is_open]


def stranded(topic: str, mode: str) -> str:
    """Return a warning if no guard is going to end a topic's hold, with the command that ends it.

    The text is empty if ``guard.mode`` is ``act``.

    Args:
        topic: the topic's name.
        mode: setting ``guard.mode``.
    """
    if mode == "act":
        return ""
    return f"guard.mode is {mode}: nothing puts back what is held of {topic} but `parallax guard release {topic}`"


__all__ = [
    "BROKERS",
    "EARLY",
    "LAG",
    "LATE",
    "NO_LAG",
    "RATIO",
    "RETENTION",
    "SETTINGS",
    "Absentee",
    "Change",
    "Event",
    "EventKind",
    "Hold",
    "Phase",
    "Record",
    "commands",
    "is_marked",
    "is_same",
    "open_holds",
    "stranded",
]
