"""Decides what the guard does next for each topic, from bounds, the topic's settings, space and time. Pure.

In every round it looks at each topic again, and takes at most one step for it. It records each change before it asks
for it, so a guard that starts later can carry on. Kafka has no compare-and-set. So each step is decided by the settings
that every broker of the topic shows now. If a value is neither the one before the hold nor the guard's own, somebody
else has set it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from parallax.guard.absences import Absence, Presence
from parallax.guard.holds import (
    LAG,
    LATE,
    NO_LAG,
    RATIO,
    RETENTION,
    SETTINGS,
    Absentee,
    Change,
    Event,
    EventKind,
    Hold,
    Phase,
    Record,
    commands,
    is_marked,
    is_same,
)
from parallax.guard.seen import TopicSeen

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
TAKES_MS = 30_000
"""A change that no broker shows after this time was put back by somebody, or never came; milliseconds."""
AGAIN_MS = 10_000
"""A change that was asked for without an answer is asked for again after this time; milliseconds."""
LINGERS_MS = 600_000
"""How late a requested change may come, in milliseconds; until then a released topic is still looked at."""
_PAUSED = "1.0"
"""The ``min.cleanable.dirty.ratio`` that no log exceeds."""
_HOUR_MS = 3_600_000
_UNIT_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings by which the guard decides; times in milliseconds.

    Attributes:
        may_act: True to act, False only to advise.
        lead_ms: the guard acts when a bound is nearer than this. With half of that time left, it also pauses cleaning
            if something that a replica lacks has a near horizon. With a quarter left, it pauses cleaning in any case.
        max_hold_ms: how long a hold may last.
        min_free_percent: free space, in percent, that each log directory with a replica must have; 0: it is not asked
            for.
        settle_ms: for how long all replicas of a topic must be in sync before it is released.
        stagger_ms: the time between the releases of two topics.
        topics: the topics that the guard may hold; empty: all.
        internal_topics: whether the guard may hold Kafka's own topics (`INTERNAL`).
        may_shorten: topics whose finite ``max.compaction.lag.ms`` the guard may raise, so that they are compacted later
            than it demands.
        mark: an odd number below a million. It is part of the numbers of milliseconds that the guard sets, so that the
            guard recognises these values later as its own.
    """

    may_act: bool
    lead_ms: int
    max_hold_ms: int
    min_free_percent: float
    settle_ms: int
    stagger_ms: int
    topics: frozenset[str] = frozenset()
    internal_topics: bool = False
    may_shorten: frozenset[str] = frozenset()
    mark: int = 1


@dataclass(frozen=True, slots=True)
class Append:
    """An action: record an event of a hold. The event takes effect only once it is recorded."""

    event: Event


@dataclass(frozen=True, slots=True)
class Alter:
    """An action: change settings of a topic by IncrementalAlterConfigs.

    Attributes:
        hold_id: the hold that the change is for.
        topic: the topic's name.
        settings: by name of a setting, its new value; None deletes the topic's own value.
    """

    hold_id: str
    topic: str
    settings: Mapping[str, str | None]


Action = Append | Alter


@dataclass(slots=True)
class _Asked:
    """What this process knows of changes that it asked for; nothing after a restart."""

    at_ms: int
    was_taken: bool = False
    refusal: str = ""


@dataclass(slots=True)
class Guard:
    """Decides the guard's next step for each topic. First give it all recorded events by `take_in`.

    Attributes:
        rules: the settings by which it decides.
        record: the state of all holds, by the events that were taken in.
    """

    rules: Rules
    record: Record = field(default_factory=Record)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _in_sync_since: dict[str, int] = field(default_factory=dict)
    _back_since: dict[str, dict[Absentee, int]] = field(default_factory=dict)
    _let_go_ms: int | None = None

    def take_in(self, events: Iterable[Event]) -> None:
        """Update `record` by recorded events of holds, oldest first. They include the guard's own."""
        for event in events:
            self.record.take_in([event])
            if event.kind in (EventKind.INTENDED, EventKind.RELEASING):
                self._asked.pop(event.hold_id, None)
            if event.kind is EventKind.RELEASING:
                self._let_go_ms = max(self._let_go_ms or 0, event.at_ms)

    def asked(self, alter: Alter, now_ms: int) -> None:
        """Note that the cluster was asked to change settings, so that `tick` knows since when it waits for the change.

        Args:
            alter: the change.
            now_ms: when it was asked for, milliseconds since 1970 UTC.
        """
        self._asked[alter.hold_id] = _Asked(now_ms)

    def answered(self, alter: Alter, refusal: str = "") -> None:
        """Note the cluster's answer to a change of settings. If no answer came, do not call this.

        Args:
            alter: the change.
            refusal: why the cluster refused it; empty if it made the change.
        """
        known = self._asked.setdefault(alter.hold_id, _Asked(0))
        known.was_taken, known.refusal = not refusal, refusal

    def topics(self, absences: Iterable[Absence], now_ms: int) -> set[str]:
        """Return the topics that the guard must look at in this round.

        These are topics with absent replicas, and topics that are held, were held a moment ago, or wait for something.

        Args:
            absences: the absences of all replicas, as the clock knows them.
            now_ms: the present, milliseconds since 1970 UTC.
        """
        found = {one.place.topic for one in absences}
        found |= {t for t, h in self.record.holds.items() if h.is_open or now_ms - h.at_ms < LINGERS_MS}
        found |= self.record.spent.keys() | self.record.refused.keys()
        return found | {t for t, wanted in self.record.asked.items() if wanted}

    def tick(self, now_ms: int, seen: Mapping[str, TopicSeen], absences: Collection[Absence]) -> list[Action]:
        """Return the next actions, in the order of topics: at most one for each topic that was looked at.

        Args:
            now_ms: milliseconds since 1970 UTC.
            seen: by topic, what its brokers showed at the look of this round.
            absences: the absences of all replicas, as the clock knows them.
        """
        by_topic: dict[str, list[Absence]] = {}
        for one in absences:
            by_topic.setdefault(one.place.topic, []).append(one)
        actions: list[Action] = []
        for topic, looked in sorted(seen.items()):
            if looked.is_in_sync and topic not in by_topic:
                self._in_sync_since.setdefault(topic, now_ms)
            else:
                self._in_sync_since.pop(topic, None)
            self._note_back(now_ms, topic, looked, by_topic.get(topic, ()))
            step = next(self._steps(now_ms, topic, looked, by_topic.get(topic, [])), None)
            if isinstance(step, Append) and step.event.kind is EventKind.RELEASING:
                self._let_go_ms = now_ms
            if step is not None:
                actions.append(step)
        return actions

    def _steps(self, now_ms: int, topic: str, seen: TopicSeen, absent: Collection[Absence]) -> Iterator[Action]:
        """What could be done for a topic, the first thing first; only that is."""
        hold = self.record.holds.get(topic)
        if hold is not None and hold.is_open:
            yield from self._carry_on(now_ms, hold, seen, absent)
            return
        if hold is not None and (stray := self._stray(now_ms, hold, seen)) is not None:
            yield stray
            return
        refused = self.record.refused.get(topic)
        is_of_another = refused is not None and refused.topic_id != seen.topic_id  # and that one is gone
        is_over = (topic in self.record.spent or refused is not None) and self._is_settled(now_ms, topic)
        if is_of_another or is_over:
            yield Append(Event(EventKind.IN_SYNC, "", topic, seen.topic_id, now_ms))
            return
        since = self._back_since.get(topic, {})
        if back := sorted(who for who, at_ms in since.items() if now_ms - at_ms >= self.rules.settle_ms):
            yield Append(Event(EventKind.IN_SYNC, "", topic, seen.topic_id, now_ms, absent=tuple(back)))
            return
        yield from self._begin(now_ms, topic, seen, absent)

    def _note_back(self, now_ms: int, topic: str, seen: TopicSeen, absent: Iterable[Absence]) -> None:
        """Note since when replicas that it holds for no more are in sync: their next absence is another one."""
        away = {Absentee(one.place.partition, one.broker) for one in absent}
        before = self._back_since.get(topic, {})
        back = (self.record.spent.get(topic, frozenset()) & seen.in_sync) - away
        self._back_since[topic] = {who: before.get(who, now_ms) for who in back}

    # --- to hold ----------------------------------------------------------------------------------------------------

    def _wanted(self, now_ms: int, topic: str, absent: Iterable[Absence]) -> tuple[int, tuple[Absentee, ...]]:
        """The level that the absences ask for, and for whom."""
        # A broker is away with all of its replicas: that another of them comes near is the same absence.
        spent = {who.broker for who in self.record.spent.get(topic, frozenset())}
        level, found = 0, []
        for one in absent:
            who = Absentee(one.place.partition, one.broker)
            if one.broker in spent:
                continue
            left = one.bound_ms - now_ms if one.bound_ms is not None else None
            if left is None and self._may_be_near(now_ms, one):
                left = 1
            if left is None or left <= 0 or left > self.rules.lead_ms:
                continue
            level = max(level, 2 if self._must_pause(now_ms, one, left) else 1)
            found.append(who)
        return level, tuple(sorted(found))

    def _may_be_near(self, now_ms: int, one: Absence) -> bool:
        """Whether to act for a replica whose bound is not known.

        What it is copying may be stamped already. One that has been away since before anything was known of it, or of
        its topic's settings, may not have missed anything yet: a topic may have been created a moment before. It is
        given a quarter of the retention first, in which a broker restarts.
        """
        if one.presence is Presence.COPYING:
            return True
        return now_ms - one.since_ms >= min(self.rules.lead_ms, one.retention_ms or 0) // 4

    def _must_pause(self, now_ms: int, one: Absence, left: int) -> bool:
        """Whether more time alone is not enough for a replica whose bound is so near.

        That helps what the cleaner has not stamped. Near the end it is paused all the same: a pass that is under way
        may still stamp by what was set when it began, and shows nothing of that until it is through.
        """
        if left > self.rules.lead_ms / 2:
            return False
        span_ms = self.rules.lead_ms if one.retention_ms is None else min(self.rules.lead_ms, one.retention_ms)
        is_read = one.read_ms is not None and now_ms - one.read_ms <= span_ms / 8
        is_far = one.horizon_ms is None or one.horizon_ms - now_ms > self.rules.lead_ms / 2
        return not (is_read and is_far) or left <= max(span_ms / 4, TAKES_MS)

    def _begin(self, now_ms: int, topic: str, seen: TopicSeen, absent: Collection[Absence]) -> Iterator[Action]:
        level, found = self._wanted(now_ms, topic, absent)
        if self.rules.topics and topic not in self.rules.topics:
            level = 0
        promise = self._promise(topic, seen) if level == 2 else ""
        if promise:
            level = 1  # which puts nothing off
        if self.record.asked.get(topic):
            level = 2
        if level == 0 or not seen.topic_id:
            return
        changes = self._changes(now_ms, topic, seen, level)
        refusal = self._refusal(topic, seen, changes)
        if not refusal and promise and changes == ():
            level, refusal = 2, promise
        if refusal:
            yield from self._once(now_ms, topic, seen, EventKind.REFUSED, level, found, refusal)
        elif changes and not self.rules.may_act:
            text = commands(topic, {change.name: change.ours for change in changes})
            text += f"\nno more than that: {promise}" if promise and level == 1 else ""
            yield from self._once(now_ms, topic, seen, EventKind.ADVISED, level, found, text)
        elif changes:  # else they do not agree, or do not answer: looked at again
            hold_id = f"{topic}:{now_ms}:{self.rules.mark}"
            yield Append(
                Event(EventKind.INTENDED, hold_id, topic, seen.topic_id, now_ms, level, changes, found, "absent")
            )

    def _once(
        self,
        now_ms: int,
        topic: str,
        seen: TopicSeen,
        kind: EventKind,
        level: int,
        found: tuple[Absentee, ...],
        reason: str,
    ) -> Iterator[Action]:
        known = self.record.refused.get(topic)
        if known is None or (known.kind, known.level) != (kind, level):
            yield Append(Event(kind, "", topic, seen.topic_id, now_ms, level, (), found, reason))

    def _refusal(self, topic: str, seen: TopicSeen, changes: Collection[Change] | None) -> str:
        """Why nothing may be held; empty if it may."""
        if seen.unreadable:
            return seen.unreadable
        if topic in INTERNAL and not self.rules.internal_topics:
            return "an internal topic: guard.internal_topics allows it"
        if space := self._too_little_space(seen):
            return space
        for name in (RETENTION, LAG):
            shown = seen.agreed(name)
            if shown is None or not shown.is_own or self._is_mine(name, shown.value):
                continue
            if is_marked(name, shown.value):
                return f"held by another guard: {name}={shown.value}"
        return self._promise(topic, seen) if any(change.name == LAG for change in changes or ()) else ""

    def _changes(self, now_ms: int, topic: str, seen: TopicSeen, level: int) -> tuple[Change, ...] | None:
        """The settings of a level as they would be changed; None if it is not known what they are."""
        made = []
        for name in SETTINGS if level == 2 else (RETENTION,):
            shown = seen.agreed(name)
            if shown is None:
                return None
            known = self.record.ever.get(topic, {}).get(name)
            ours = self._ours(name, shown.value)
            if known is not None and self._came_late(now_ms, topic, seen, known):
                made.append(replace(known, ours=shown.value))  # by a request of an earlier hold
            elif ours is not None:
                made.append(Change(name, shown.own, ours))
        return tuple(made)

    def _ours(self, name: str, now: str) -> str | None:
        """The value that the guard gives a setting; None if it need not."""
        if name == RATIO:
            return None if is_same(now, _PAUSED) else _PAUSED
        if name == LAG:
            return str(NO_LAG - 2 * self.rules.mark)
        wanted = int(now) + self.rules.max_hold_ms
        if wanted >= 2**62:
            return None  # it is kept for good
        return str((wanted // _UNIT_MS + 1) * _UNIT_MS + self.rules.mark)

    # --- to carry on ------------------------------------------------------------------------------------------------

    def _carry_on(self, now_ms: int, hold: Hold, seen: TopicSeen, absent: Collection[Absence]) -> Iterator[Action]:
        if seen.topic_id != hold.topic_id:
            yield from self._another_topic(now_ms, hold, seen)
            return
        if not self.rules.may_act:
            return
        if seen.unreadable:
            yield from self._told(now_ms, hold, seen, f"it is held, and nothing can be put back: {seen.unreadable}")
        elif (changed := self._changed_by_others(now_ms, hold, seen)) is not None:
            yield changed
        elif hold.phase is Phase.RELEASING:
            yield from self._put_back(now_ms, hold, seen)
        elif reason := self._end(now_ms, hold, seen, absent):
            if reason == "refused":
                yield from self._told(now_ms, hold, seen, f"{self._asked[hold.hold_id].refusal}\n{_by_hand(hold)}")
            yield self._event(now_ms, hold, EventKind.RELEASING, reason)
        elif hold.phase is Phase.HELD:
            yield from self._escalate(now_ms, hold, seen, absent)
        else:
            yield from self._set(now_ms, hold, seen, absent)

    def _told(self, now_ms: int, hold: Hold, seen: TopicSeen, reason: str) -> Iterator[Action]:
        """Report once what cannot be done with a hold that is not over."""
        return self._once(now_ms, hold.topic, seen, EventKind.REFUSED, hold.level, tuple(sorted(hold.absent)), reason)

    def _event(self, now_ms: int, hold: Hold, kind: EventKind, reason: str = "") -> Append:
        return Append(
            Event(kind, hold.hold_id, hold.topic, hold.topic_id, now_ms, hold.level, hold.changes, (), reason)
        )

    def _another_topic(self, now_ms: int, hold: Hold, seen: TopicSeen) -> Iterator[Action]:
        """The topic is gone; another one of its name is left alone, unless the guard's values came to it.

        Only a mark proves that: the ratio has none, and comes with the lag, which has.
        """
        mine = tuple(
            c
            for c in hold.changes  # one that was overruled may have come late
            if seen.topic_id and self._is_ours(seen, c) and (c.name != RATIO or self._has_my_lag(seen))
        )
        if mine and self.rules.may_act:
            event = self._event(now_ms, hold, EventKind.RELEASING, "recreated").event
            yield Append(replace(event, topic_id=seen.topic_id, changes=mine))
        elif not mine and (not seen.topic_id or self._all_show(seen)):
            yield self._event(now_ms, hold, EventKind.ABANDONED, "recreated" if seen.topic_id else "deleted")

    def _all_show(self, seen: TopicSeen) -> bool:
        return all(seen.agreed(name) is not None for name in SETTINGS)

    def _is_ours(self, seen: TopicSeen, change: Change) -> bool:
        if change.name == RATIO and self._is_anothers(seen):
            return False
        shown = seen.agreed(change.name)
        return shown is not None and shown.is_own and is_same(shown.value, change.ours)

    def _is_anothers(self, seen: TopicSeen) -> bool:
        """Whether another guard has paused the topic: the ratio, which has no mark, is its own then."""
        lag = seen.agreed(LAG)
        return lag is not None and lag.is_own and is_marked(LAG, lag.value) and not self._is_mine(LAG, lag.value)

    def _is_before(self, seen: TopicSeen, change: Change) -> bool:
        shown = seen.agreed(change.name)
        return shown is not None and is_same(shown.own, change.before)

    def _changed_by_others(self, now_ms: int, hold: Hold, seen: TopicSeen) -> Action | None:
        """A setting that is not as the guard left it: of a hold that all brokers showed, or to any other value."""
        came = hold.phase is Phase.SET and now_ms - hold.at_ms > TAKES_MS
        goes = hold.phase is Phase.RELEASING
        theirs = [
            replace(change, before=self._theirs(seen, change))
            for change in hold.own
            if seen.agreed(change.name) is not None
            and not self._is_ours(seen, change)
            and (came or (change.name in hold.held and not goes) or not self._is_before(seen, change))
        ]
        if not theirs:
            return None
        values = ", ".join(f"{c.name}={'(default)' if c.before is None else c.before}" for c in theirs)
        event = self._event(now_ms, hold, EventKind.OVERRULED, f"somebody else's: {values}").event
        return Append(replace(event, changes=tuple(theirs)))

    def _theirs(self, seen: TopicSeen, change: Change) -> str | None:
        """The values to restore if the guard's own value comes late; another guard puts back its own."""
        shown = seen.agreed(change.name)
        own = None if shown is None else shown.own
        is_of_a_guard = own is not None and is_marked(change.name, own)
        return change.before if is_of_a_guard or (change.name == RATIO and self._is_anothers(seen)) else own

    def _is_stale(self, now_ms: int, hold: Hold, absent: Collection[Absence]) -> bool:
        """Whether what a process that is gone intended is needed by no absence any more, nor by a person."""
        is_of_another = hold.hold_id not in self._asked and now_ms - hold.at_ms > TAKES_MS
        if hold.phase is not Phase.INTENDED or not is_of_another or self.record.asked.get(hold.topic):
            return False
        return self._wanted(now_ms, hold.topic, absent)[0] == 0

    def _end(self, now_ms: int, hold: Hold, seen: TopicSeen, absent: Collection[Absence]) -> str:
        """Why a hold is over; empty if it is not."""
        if hold.left:
            return "overruled"
        if self.record.asked.get(hold.topic) is False:
            return "asked"
        if not hold.held and self._is_stale(now_ms, hold, absent):
            return "stale"  # a request that was made all the same, and comes late, is put back as any
        known = self._asked.get(hold.hold_id)
        if known is not None and known.refusal:
            return "refused"
        if now_ms - hold.began_ms >= self.rules.max_hold_ms:
            return "expired"
        if seen.free_percent is not None and seen.free_percent < self.rules.min_free_percent:
            return "space"
        if self.record.asked.get(hold.topic) or not self._is_settled(now_ms, hold.topic):
            return ""
        if self._let_go_ms is not None and now_ms - self._let_go_ms < self.rules.stagger_ms:
            return ""
        return "in_sync"

    def _is_settled(self, now_ms: int, topic: str) -> bool:
        since = self._in_sync_since.get(topic)
        return since is not None and now_ms - since >= self.rules.settle_ms

    def _escalate(self, now_ms: int, hold: Hold, seen: TopicSeen, absent: Collection[Absence]) -> Iterator[Action]:
        """Pause cleaning where more time alone is not enough."""
        level, found = self._wanted(now_ms, hold.topic, absent)
        if self.record.asked.get(hold.topic):
            level = 2
        more = frozenset(found) - hold.absent
        if hold.level == 1 and level == 2:
            names = {change.name for change in hold.changes}
            changes = self._changes(now_ms, hold.topic, seen, 2)
            added = tuple(c for c in changes or () if c.name not in names)
            refusal = self._promise(hold.topic, seen) or self._too_little_space(seen)
            if refusal:
                yield from self._once(now_ms, hold.topic, seen, EventKind.REFUSED, 2, found, refusal)
            elif added:
                event = self._event(now_ms, hold, EventKind.INTENDED, "near").event
                yield Append(replace(event, level=2, changes=hold.changes + added, absent=found))
        elif more:
            yield Append(replace(self._event(now_ms, hold, EventKind.HELD, "absent").event, absent=tuple(sorted(more))))

    def _is_mine(self, name: str, value: str) -> bool:
        """Whether a value has this guard's own mark, of whichever of its holds."""
        if name == LAG:
            return value == str(NO_LAG - 2 * self.rules.mark)
        return name == RETENTION and value.isdecimal() and int(value) % _UNIT_MS == self.rules.mark

    def _too_little_space(self, seen: TopicSeen) -> str:
        """Why nothing may be held for want of space; empty if there is enough, or nobody asks."""
        if seen.free_percent is None and self.rules.min_free_percent > 0:
            return f"space is not known: {seen.spaceless or 'a broker does not answer'}"
        if seen.free_percent is not None and seen.free_percent < self.rules.min_free_percent:
            return f"space: a log directory has {seen.free_percent:.0f} % left, less than guard.min_free_percent"
        return ""

    def _promise(self, topic: str, seen: TopicSeen) -> str:
        """Why cleaning may not be paused; empty if it may."""
        lag = seen.agreed(LAG)
        if lag is not None and int(lag.value) < 2**62 and topic not in self.rules.may_shorten:
            return f"{LAG}={lag.value} may be a promise to delete: guard.compaction_lag_topics allows it"
        return ""

    def _set(self, now_ms: int, hold: Hold, seen: TopicSeen, absent: Collection[Absence]) -> Iterator[Action]:
        """From the intent to where every broker shows it."""
        if all(self._is_ours(seen, change) for change in hold.own):
            event = self._event(now_ms, hold, EventKind.HELD).event
            yield Append(replace(event, shown=tuple(sorted(seen.must_show))))
            return
        known = self._asked.get(hold.hold_id)
        if hold.phase is Phase.INTENDED and known is not None and known.was_taken:
            yield self._event(now_ms, hold, EventKind.SET)
            return
        to_send = {c.name: c.ours for c in hold.own if c.name not in hold.held and self._is_before(seen, c)}
        rests = known is not None and now_ms - known.at_ms < AGAIN_MS
        if hold.phase is Phase.INTENDED and to_send and not rests and not self._is_stale(now_ms, hold, absent):
            yield Alter(hold.hold_id, hold.topic, to_send)

    def _put_back(self, now_ms: int, hold: Hold, seen: TopicSeen) -> Iterator[Action]:
        if all(self._is_before(seen, change) for change in hold.own):
            yield self._event(now_ms, hold, EventKind.RELEASED)
            return
        known = self._asked.get(hold.hold_id)
        if known is not None and known.refusal:
            yield from self._told(now_ms, hold, seen, f"it is held, and nothing can be put back: {known.refusal}")
        rests = known is not None and now_ms - known.at_ms < AGAIN_MS
        to_send = {c.name: c.before for c in hold.own if self._is_ours(seen, c) and not self._is_before(seen, c)}
        if to_send and not rests:
            yield Alter(hold.hold_id, hold.topic, to_send)

    def _stray(self, now_ms: int, hold: Hold, seen: TopicSeen) -> Action | None:
        """A change that came after the hold had ended: it is put back as well."""
        came = []
        for known in self.record.ever.get(hold.topic, {}).values():
            shown = seen.agreed(known.name)
            if shown is not None and self._came_late(now_ms, hold.topic, seen, known):
                came.append(replace(known, ours=shown.value))
        if not came or not self.rules.may_act:
            return None
        event = self._event(now_ms, hold, EventKind.RELEASING, LATE).event
        return Append(replace(event, topic_id=seen.topic_id, changes=tuple(came)))

    def _came_late(self, now_ms: int, topic: str, seen: TopicSeen, known: Change) -> bool:
        """Whether a setting has a value that an earlier hold asked for.

        The ratio has no room for a mark: it is the guard's where the lag, which comes with it, has one, and for some
        time after the last hold of this very topic that changed it.
        """
        shown = seen.agreed(known.name)
        if shown is None or not shown.is_own or is_same(shown.value, known.before):
            return False
        if known.name != RATIO:
            return self._is_mine(known.name, shown.value)
        if not is_same(shown.value, _PAUSED) or self._is_anothers(seen):
            return False
        lag = seen.agreed(LAG)
        if lag is None or lag.is_own:  # without a mark both are somebody's who has paused it by hand
            return self._has_my_lag(seen)
        last = self.record.last[topic].get(RATIO)
        return last is not None and last.topic_id == seen.topic_id and now_ms - last.at_ms < LINGERS_MS

    def _has_my_lag(self, seen: TopicSeen) -> bool:
        lag = seen.agreed(LAG)
        return lag is not None and lag.is_own and self._is_mine(LAG, lag.value)


def _by_hand(hold: Hold) -> str:
    return commands(hold.topic, {change.name: change.ours for change in hold.own})


__all__ = [
    "AGAIN_MS",
    "INTERNAL",
    "LINGERS_MS",
    "TAKES_MS",
    "Action",
    "Alter",
    "Append",
    "Guard",
    "Rules",
]
