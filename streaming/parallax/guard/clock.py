"""From when on may the first tombstone or end marker that an absent replica lacks be gone from the others?

That time is the replica's *bound*. The cleaner keeps a tombstone and an end marker for ``delete.retention.ms`` at
least. The time counts from the first pass that met it (KIP-534). Before Kafka 3.1, and for old message formats, it
counts from when its segment was last written.

All that an absent replica lacks was written after the last look at which the leader's log did not go beyond what that
replica has. So the bound is the time of that look plus the smallest ``delete.retention.ms`` in force since. If the
logs themselves were read, the first tombstone or marker that can be removed counts instead (`parallax.guard.horizons`).

Pure: looks and readings in, absences out. Leaving out a look makes a bound earlier, never later. So the clock needs
only those looks that are recorded (`parallax.source.repeats`), and may forget some of them. What can break a bound:
docs/contribute/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from parallax.guard.horizons import Reading, Readings, Stand
from parallax.guard.pauses import GAP_MS, Paused, Pauses, Span
from parallax.model import TopicPartition

TRAILING_MS = 30_000
"""A replica whose log end others had passed so long ago is behind (``replica.lag.time.max.ms`` of Kafka)."""
SETTINGS_MS = 60_000
"""For how long after it was last seen a setting counts as known, and for how long before a look it may have applied.

Brokers take over a change one after the other. The time is longer where settings are asked for more rarely.
"""
FORGET_MS = 900_000
"""Of a partition that is watched there is a row every five minutes (`parallax.source.repeats`)."""
_FIRST_MS = 10_000
"""The settings are asked for with the metadata, and so not at the very time of a look."""
_MOST_LOOKS = 16
"""Looks that are kept of a replica at most."""


class Presence(StrEnum):
    """In which way a replica is absent."""

    AWAY = "away"
    """It is not in sync, and does not answer."""
    BEHIND = "behind"
    """It answers, but it is not in sync, or its log ends below what was written some time ago."""
    COPYING = "copying"
    """It has not been in sync yet, and was empty when first watched: the replica is being added."""


class Unclear(StrEnum):
    """Why the bound of an absent replica is not known."""

    BEFORE_WATCH = "before_watch"
    """No look is known at which the others had nothing that it lacks."""
    COPYING = "copying"
    """It copies what was written before the watch, and that log may be cleaned meanwhile."""
    SETTINGS = "settings"
    """The topic's settings cannot be read."""
    NO_TIME = "no_time"
    """``delete.retention.ms`` is not longer than clocks may be apart and a look may take.

    So no look can say whether a replica was back in time. The bound is kept, and has passed immediately.
    """
    REASSIGNED = "reassigned"
    """The replica was taken off its broker, which answered, and given back: its log is copied again."""


class Look(NamedTuple):
    """What one look showed of one replica, from a row of ``replica_progress``.

    Attributes:
        at_ms: when the answer came, milliseconds since 1970 UTC.
        high_watermark: the replica's own high watermark; None if it did not answer.
        log_end_offset: the replica's log end offset; None if it did not answer.
        policy: the topic's ``cleanup.policy``; None if it is not known.
        policy_at_ms: when the topic's settings were asked for, milliseconds since 1970 UTC; None if they are not known.
    """

    place: TopicPartition
    broker: int
    at_ms: int
    high_watermark: int | None
    log_end_offset: int | None
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    topic_id: str
    policy: str | None
    policy_at_ms: int | None
    retention_ms: int | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any], not_after_ms: int) -> Look:
        """Make a look from a row of ``replica_progress``; if the row's time is later than its arrival, that counts.

        Args:
            row: a row of ``replica_progress``.
            not_after_ms: when the row arrived, milliseconds since 1970 UTC.
        """
        has_answered = bool(row["reachable"])
        policy_at = row.get("policy_at")
        return cls(
            TopicPartition(str(row["topic"]), int(row["partition"])),
            int(row["broker"]),
            min(_milliseconds(row["observed_at"]), not_after_ms),
            row["high_watermark"] if has_answered else None,
            row["log_end_offset"] if has_answered else None,
            UNLED if row.get("leader") is None else int(row["leader"]),
            UNLED if row.get("leader_epoch") is None else int(row["leader_epoch"]),
            tuple(row.get("isr") or ()),
            tuple(row.get("replicas") or ()),
            row.get("topic_id") or "",
            row.get("cleanup_policy"),
            None if policy_at is None else min(_milliseconds(policy_at), not_after_ms),
            row.get("delete_retention_ms"),
        )


UNLED = -1


class Ended(NamedTuple):
    """A log end offset of a partition's leader, with the time at which it was seen."""

    place: TopicPartition
    topic_id: str
    at_ms: int
    log_end_offset: int


def _milliseconds(at: Any) -> int:
    """A time of a row: a datetime, or microseconds since 1970 UTC."""
    return int(at.timestamp() * 1000) if isinstance(at, datetime) else int(at) // 1000


@dataclass(frozen=True, slots=True)
class Absence:
    """An absent replica and its bound; times in milliseconds since 1970 UTC.

    Attributes:
        lacks_from: the offset below which it has everything, by its last answer; None if it never answered.
        since_ms: the last look at which it lacked nothing, or else the first at which it was absent.
        retention_ms: the smallest ``delete.retention.ms`` in force since then; None if it is not known.
        bound_ms: from when on the first tombstone or end marker that it lacks may be gone; None if that is not known.
        unclear: why no bound is known, or why the known one says nothing of this replica (`Unclear.NO_TIME`).
        horizon_ms: the earliest horizon of what it lacks, as read from other replicas' logs, less how far clocks may be
            apart; None if none was read.
        read_ms: when all batches with horizons were last read, on all replicas that it may copy from; None if they were
            not.
        is_held: whether all replicas that it may copy from have cleaned nothing since before the bound, up to the last
            look. So the bound is not before that look.
    """

    place: TopicPartition
    broker: int
    presence: Presence
    lacks_from: int | None
    since_ms: int
    retention_ms: int | None
    bound_ms: int | None
    unclear: Unclear | None
    horizon_ms: int | None = None
    read_ms: int | None = None
    is_held: bool = False

    @property
    def replica(self) -> tuple[str, int, int]:
        """The replica that is absent: topic, partition, broker."""
        return *self.place, self.broker


@dataclass(frozen=True, slots=True)
class Late:
    """A late replica: it copied something after its bound, or while no bound was known.

    Only an audit can say whether it misses anything.

    Attributes:
        at_ms: the last look at which it was seen to have copied late, milliseconds since 1970 UTC.
        absence: the replica's absence as it was known before that look.
    """

    place: TopicPartition
    broker: int
    at_ms: int
    absence: Absence

    @property
    def replica(self) -> tuple[str, int, int]:
        """The replica that is late: topic, partition, broker."""
        return *self.place, self.broker

    @property
    def is_of_an_outage(self) -> bool:
        """Whether the replica is late because its broker was away for too long, or may have been.

        False if somebody ordered the copy, as in a reassignment. False, too, for topics whose ``delete.retention.ms``
        is too short to be watched, since their replicas count as late after each restart.
        """
        return self.absence.unclear not in (Unclear.REASSIGNED, Unclear.NO_TIME)


class _Kept(NamedTuple):
    """That nothing which a replica lacks was gone when others came to clean nothing.

    Attributes:
        retention_ms: by the largest of which that was judged.
        since: by broker, since when it cleans nothing, and the look by which that was seen to be early enough.
    """

    topic_id: str
    lacks_from: int
    retention_ms: int
    since: dict[int, tuple[int, int]]


class Retentions:
    """Knows, for one topic, the smallest ``delete.retention.ms`` that was in force since a given time.

    Args:
        settings_ms: a value that was seen counts as in force for so long before, and as known for so long after.
    """

    def __init__(self, settings_ms: int = SETTINGS_MS) -> None:
        self._settings_ms = settings_ms
        self._known: list[tuple[int, int]] = []
        self._first_ms = 0

    @property
    def newest(self) -> int | None:
        """The value of the setting that was seen last; None if none was."""
        return self._known[-1][0] if self._known else None

    def see(self, at_ms: int, retention_ms: int) -> int | None:
        """Add a value that the setting had at a time; `smallest_since` goes by it.

        Args:
            at_ms: the time, milliseconds since 1970 UTC. If a later value is already known, its time counts instead.
            retention_ms: the value.

        Returns:
            If the value is lower than the last one: the time since when it may have been in force. Otherwise None.
        """
        lowered = None
        if self._known:
            last, until = self._known[-1]
            if retention_ms < last:
                lowered = until - self._settings_ms
            at_ms = max(at_ms, until)
            # It may have been in force until the look that shows another one.
            self._known[-1] = last, at_ms
        else:
            self._first_ms = at_ms
        while self._known and self._known[-1][0] >= retention_ms:
            self._known.pop()
        self._known.append((retention_ms, at_ms))
        return lowered

    def smallest_since(self, at_ms: int, now_ms: int) -> int | None:
        """The smallest value of the setting that was in force at a time or later.

        Args:
            at_ms: the time, milliseconds since 1970 UTC.
            now_ms: the present, milliseconds since 1970 UTC.

        Returns:
            The value; None if the first value was seen after that time, or if none was seen lately.
        """
        if not self._known or self._first_ms > at_ms + _FIRST_MS or self._known[-1][1] < now_ms - self._settings_ms:
            return None
        since_ms = min(at_ms - self._settings_ms, self._known[-1][1])
        return next(value for value, until in self._known if until >= since_ms)


@dataclass(slots=True)
class _Replica:
    """What is known of one replica: how it answered last."""

    high_watermark: int | None = None
    log_end_offset: int | None = None
    has_answered: bool = False
    absent_since_ms: int | None = None
    was_in_sync: bool = False
    had_nothing_ms: int | None = None
    """It copied everything that it holds after this time; None if it may hold something from before the watch."""

    def take_in(self, look: Look) -> None:
        self.has_answered = look.log_end_offset is not None
        if look.log_end_offset == 0:
            self.had_nothing_ms = look.at_ms
        if look.log_end_offset is not None:
            end = self.log_end_offset = look.log_end_offset
            self.high_watermark = end if look.high_watermark is None else min(look.high_watermark, end)


class Ends:
    """Knows when the log of a partition's leader was seen to end at which offset.

    Metadata names the leader and may be old, and a broker that no longer leads answers as if it did. So a log end
    counts for good only once the leader epoch has stayed the same for as long as metadata may be old.

    Args:
        metadata_ms: how old the metadata of a look may be.
    """

    def __init__(self, metadata_ms: int) -> None:
        self._metadata_ms = metadata_ms
        self._sure: list[tuple[int, int]] = []
        """Time and log end offset, both rising: of two looks with the same end the later one says more."""
        self._recent: list[tuple[int, int]] = []
        self._epoch: tuple[int, int] | None = None
        self._epoch_seen_ms = 0

    def see(self, look: Look) -> None:
        """Learn from a look which broker leads. A look at the leader also says where its log ends."""
        epoch = look.leader_epoch, look.leader
        if epoch != self._epoch:
            sure_ms = self._epoch_seen_ms - self._metadata_ms
            self._recent = [one for one in self._recent if one[0] <= sure_ms]
            self._epoch = epoch
        self._epoch_seen_ms = max(self._epoch_seen_ms, look.at_ms)
        while self._recent and self._recent[0][0] <= look.at_ms - self._metadata_ms:
            self.add(*self._recent.pop(0))
        if look.broker == look.leader and look.log_end_offset is not None:
            self._recent.append((look.at_ms, look.log_end_offset))

    def add(self, at_ms: int, end: int) -> None:
        """Add a log end of the leader that counts for good; `last_without` goes by it.

        Args:
            at_ms: when it was seen, milliseconds since 1970 UTC.
            end: the log end offset.
        """
        while self._sure and self._sure[-1][1] >= end:
            self._sure.pop()
        if not self._sure or self._sure[-1][0] < at_ms:
            self._sure.append((at_ms, end))

    def thin(self, offsets: Iterable[int]) -> None:
        """If many log ends are remembered, forget every second one of the older ones.

        Those that `last_without` needs for the given offsets are kept.
        """
        if len(self._sure) <= _MOST_LOOKS:
            return
        kept = {_last_without(self._sure, offset) for offset in offsets}
        half = len(self._sure) // 2
        self._sure = [one for i, one in enumerate(self._sure) if i == 0 or i >= half or i % 2 == 0 or one[0] in kept]

    def last_without(self, offset: int) -> int | None:
        """When the leader's log was last seen to end at or below an offset, milliseconds since 1970 UTC.

        None if it never was.
        """
        recent = _last_without(self._recent, offset)
        return _last_without(self._sure, offset) if recent is None else recent

    def __len__(self) -> int:
        return len(self._sure) + len(self._recent)


def _last_without(looks: Sequence[tuple[int, int]], offset: int) -> int | None:
    return next((at for at, end in reversed(looks) if end <= offset), None)


@dataclass(slots=True)
class _Partition:
    ends: Ends
    readings: Readings
    topic_id: str = ""
    seen_at_ms: int = 0
    leader_epoch: int = UNLED
    led_by: tuple[int, int] | None = None
    """The last leader that was known, and its epoch."""
    assigned: tuple[int, ...] = ()
    removed: dict[int, int] = field(default_factory=dict)
    """Brokers that once hosted it, and the look that showed them no more; one that was away may still have its log."""
    answering: set[int] = field(default_factory=set)
    """Of those, the ones that answered when they were taken off."""
    emptied: set[int] = field(default_factory=set)
    """Those of them that were off for longer than metadata may be old: they have deleted their logs."""
    is_cleaned: bool = False
    """Whether it is cleaned by key, as far as is known."""
    added: dict[int, int] = field(default_factory=dict)
    """Those that were added since it is watched, and until when they had nothing."""
    replicas: dict[int, _Replica] = field(default_factory=dict)
    absences: dict[int, Absence] = field(default_factory=dict)

    def assign(self, replicas: tuple[int, ...], at_ms: int, metadata_ms: int) -> None:
        """Take in which replicas there are; one that is added to those that were known has nothing yet."""
        added = set(replicas) - set(self.assigned) - self.removed.keys() if self.assigned else ()
        self.added |= dict.fromkeys(added, self.seen_at_ms - metadata_ms)
        self.added = {b: at for b, at in self.added.items() if b in replicas}
        removed = set(self.assigned) - set(replicas)
        self.removed |= dict.fromkeys(removed, at_ms)
        answered = {b for b in removed if b in self.replicas and self.replicas[b].has_answered}
        self.answering = (self.answering - removed) | answered
        self.emptied -= removed
        self.assigned = replicas
        self.replicas = {b: one for b, one in self.replicas.items() if b in replicas}

    def lead(self, newest: Look) -> None:
        """Take in who leads. What is copied from two that are cleaned on their own counts as if it were held before.

        One that leads now, or was in sync when the old leader was taken off, was so before that one ceased to lead.
        """
        if newest.leader == UNLED:
            return
        before, epoch = self.led_by or (newest.leader, newest.leader_epoch)
        self.led_by = newest.leader, newest.leader_epoch
        if newest.leader == before and newest.leader_epoch <= epoch + 1:
            return
        is_next, is_off = newest.leader_epoch == epoch + 1, before not in newest.replicas
        for broker, one in self.replicas.items():
            if not (is_next and broker in newest.isr and (is_off or broker == newest.leader)):
                one.had_nothing_ms = None
                self.added.pop(broker, None)

    def leads(self, newest: Look) -> bool:
        """Whether the leader answers."""
        leader = self.replicas.get(newest.leader)
        return leader is not None and leader.has_answered

    def log_ends(self, replicas: Collection[int]) -> dict[int, int | None]:
        """Where the logs of replicas end; None if one does not answer."""
        known = {broker: self.replicas.get(broker) for broker in replicas}
        return {b: one.log_end_offset if one is not None and one.has_answered else None for b, one in known.items()}


class Clock:
    """Computes the bound of each absent replica from looks at all replicas; a job has one clock.

    Args:
        clock_skew_ms: how far a broker's clock may be from the clock of this machine.
        look_ms: how long a look may take; what an answer says was true at most this long before it came.
        metadata_ms: how old the metadata of a look may be.
    """

    def __init__(self, clock_skew_ms: int, look_ms: int, metadata_ms: int) -> None:
        self._skew_ms = clock_skew_ms
        self._look_ms = look_ms
        self.metadata_ms = metadata_ms
        # The settings are asked for with the metadata.
        self._settings_ms = max(SETTINGS_MS, metadata_ms + _FIRST_MS)
        self._began_ms: int | None = None
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._retentions: dict[str, Retentions] = {}
        self._late: dict[tuple[TopicPartition, int], Late] = {}
        self._pauses: dict[str, Pauses] = {}
        self._kept: dict[tuple[TopicPartition, int], _Kept] = {}
        self._unsettled: list[tuple[Late, tuple[int, ...]]] = []
        """Replicas that may be late, until a look has shown whether a pause went on.

        Each comes with all replicas of its partition.
        """
        self._now_ms = 0

    def recall(self, retentions: Iterable[tuple[str, int, int]], ends: Iterable[Ended], looks: Iterable[Look]) -> None:
        """Restore the clock from what an earlier process recorded (`parallax.guard.recall`).

        Args:
            retentions: triples of a topic, a time in milliseconds since 1970 UTC, and the ``delete.retention.ms`` that
                the topic had then.
            ends: log ends of leaders that led on for as long as metadata may be old.
            looks: looks at any replicas, in any order.
        """
        for one in sorted(ends, key=lambda one: one.at_ms):
            self._of_place(one.place, one.topic_id).ends.add(one.at_ms, one.log_end_offset)
        for topic, at_ms, retention_ms in sorted(retentions, key=lambda one: one[1]):
            self._of_topic(topic).see(at_ms, retention_ms)
        for look in sorted(looks, key=lambda look: look.at_ms):
            # Nothing is forgotten by the way: of what stands still the newest look may be hours old.
            self._observe(look.place, [look])
            self._now_ms = max(self._now_ms, look.at_ms)
        self._late, self._unsettled = {}, []

    def observe(self, looks: Collection[Look]) -> list[Late]:
        """Update absences and bounds by the looks of one tick, or of several.

        Returns:
            The replicas that these looks show, for the first time, to have copied something too late.
        """
        found: list[Late] = []
        in_turn = sorted(looks, key=lambda look: (look.place, look.at_ms))
        for place, own in groupby(in_turn, key=lambda look: look.place):
            found += self._observe(place, list(own))
        newest = max((look.at_ms for look in looks), default=0)
        self._now_ms = max(self._now_ms, newest)
        if looks:
            self._forget(newest)
        return self._settled(found)

    def paused(self, looks: Iterable[Paused]) -> list[Late]:
        """Update bounds by which brokers were seen not to clean certain topics, so that nothing is removed there.

        Returns:
            The replicas that are now known to have copied something too late.
        """
        for look in looks:
            self._pauses.setdefault(look.topic, Pauses()).see(look)
            self._now_ms = max(self._now_ms, look.ended_ms)
        for place, known in self._partitions.items():
            if place.topic in self._pauses:
                for absence in known.absences.values():
                    self._keep(known, absence)
        return self._settled(())

    def _settled(self, found: Iterable[Late]) -> list[Late]:
        """The replicas that are late by what is known now.

        One that may have copied during a pause is late only if a look shows that the pause had ended.
        """
        late = list(found)
        waiting, self._unsettled = self._unsettled, []
        for one, replicas in waiting:
            reach = self._reach(self._kept.get((one.place, one.broker)), one.absence, replicas)
            if reach is None or not (reach.until_ms >= one.at_ms or self._goes_on(reach)):
                late.append(one)
            elif reach.until_ms < one.at_ms:
                self._unsettled.append((one, replicas))
        news = [one for one in late if (one.place, one.broker) not in self._late]
        self._late |= {(one.place, one.broker): one for one in late}
        return news

    # --- pauses -------------------------------------------------------------------------------------------------------

    def _keep(self, known: _Partition, absence: Absence) -> None:
        """Put down that nothing which a replica lacks was gone yet when the others came to clean nothing.

        The bound may turn earlier afterwards, where what was read does not count any more; that stays so.
        """
        key = absence.place, absence.broker
        kept = self._kept.get(key)
        lacks_from = absence.lacks_from
        if kept is not None and (lacks_from is None or lacks_from < kept.lacks_from or kept.topic_id != known.topic_id):
            del self._kept[key]  # it lost what it had
        pauses = self._pauses.get(absence.place.topic)
        if lacks_from is None or absence.bound_ms is None or pauses is None or pauses.topic_id != known.topic_id:
            return
        in_force, retention = self._of_topic(absence.place.topic), absence.retention_ms or 0
        smallest = in_force.smallest_since(absence.since_ms, known.seen_at_ms)
        if smallest is None or smallest < retention:
            return  # its bound is judged by what was in force before
        before = self._kept[key].since if key in self._kept else {}
        retention = max(retention, self._kept[key].retention_ms if before else 0)
        since = {b: (span.from_ms, known.seen_at_ms) for b, span in pauses.spans.items()}
        since = {b: one for b, one in since.items() if one[0] < absence.bound_ms}
        since |= {b: one for b, one in before.items() if b not in since or since[b][0] == one[0]}
        self._kept[key] = _Kept(known.topic_id, lacks_from, retention, since)

    def _doubt(self, place: TopicPartition, seen_ms: int) -> None:
        """Another broker leads: what was put down shortly before may rest on what a deposed one said."""
        sure_ms = seen_ms - self.metadata_ms
        for key, kept in self._kept.items():
            if key[0] == place:
                sure = {b: one for b, one in kept.since.items() if one[1] <= sure_ms}
                self._kept[key] = kept._replace(since=sure)

    def _doubt_since(self, topic: str, lowered_ms: int, retention_ms: int) -> None:
        """A lower retention may have been in force since a time: what began later may be judged by too late a bound.

        Not where that was judged by one as low: a hold that ends, and holds of two jobs, lower it from far above.
        """
        for key, kept in self._kept.items():
            if key[0].topic == topic and retention_ms < kept.retention_ms:
                sure = {b: one for b, one in kept.since.items() if one[0] <= lowered_ms}
                self._kept[key] = kept._replace(since=sure)

    def _reach(self, kept: _Kept | None, absence: Absence, replicas: Iterable[int]) -> Span | None:
        """The time for which none of the others began a pass, where nothing was gone when it began."""
        pauses = self._pauses.get(absence.place.topic)
        if kept is None or pauses is None or pauses.topic_id != kept.topic_id:
            return None
        spans = [(b, pauses.spans.get(b)) for b in replicas if b != absence.broker]
        own = [span for b, span in spans if span is not None and kept.since.get(b, (None,))[0] == span.from_ms]
        if not own or len(own) < len(spans):
            return None
        return Span(
            max(span.from_ms for span in own),
            min(span.until_ms for span in own),
            is_open=all(span.is_open for span in own),
        )

    def _goes_on(self, span: Span) -> bool:
        return span.is_open and self._now_ms - span.until_ms <= GAP_MS

    def _with_pauses(self, known: _Partition, absence: Absence) -> Absence:
        if absence.bound_ms is None:
            return absence
        reach = self._reach(self._kept.get((absence.place, absence.broker)), absence, known.assigned)
        if reach is None:
            return absence
        return replace(absence, bound_ms=max(absence.bound_ms, reach.until_ms), is_held=self._goes_on(reach))

    def read(self, readings: Iterable[Reading]) -> None:
        """Update bounds by what was read of replicas' logs.

        A reading that ended after a bound is ignored, since something in the log may have been cleaned before.
        """
        for one in readings:
            known = self._partitions.get(one.place)
            if known is None or known.topic_id != one.topic_id:
                continue
            about = [a for a in known.absences.values() if a.lacks_from is not None and a.lacks_from >= one.start]
            if about and all(a.bound_ms is not None and one.at_ms < a.bound_ms for a in about):
                known.readings.take_in(one, min(a.retention_ms for a in about if a.retention_ms is not None))

    def absences(self) -> list[Absence]:
        """The replicas that are absent, by the last look at their partitions."""
        return [self._with_pauses(known, one) for known in self._partitions.values() for one in known.absences.values()]

    def answers(self, place: TopicPartition, broker: int) -> bool | None:
        """Whether a replica answered at the last look.

        None if it is no longer watched: it was taken off its broker, or its topic was deleted or is not compacted any
        more.
        """
        known = self._partitions.get(place)
        replica = None if known is None or not known.is_cleaned else known.replicas.get(broker)
        return None if replica is None else replica.has_answered

    def unwatched(self) -> dict[str, int]:
        """By topic whose ``delete.retention.ms`` is too short to be watched, that value in milliseconds.

        No look can say whether a replica of such a topic was back in time.
        """
        names = {place.topic for place, known in self._partitions.items() if known.is_cleaned}
        kept = {name: self._of_topic(name).newest for name in names}
        return {name: value for name, value in kept.items() if value is not None and self._leaves_no_time(value)}

    def _leaves_no_time(self, retention_ms: int) -> bool:
        return leaves_no_time(retention_ms, self._skew_ms, self._look_ms)

    def remember(self, late: Iterable[Late]) -> None:
        """Count the replicas as late that the table ``late_replicas`` names."""
        self._late |= {(one.place, one.broker): one for one in late}

    def late(self) -> list[Late]:
        """The replicas that copied something too late, and that no audit has compared since (`audited`)."""
        return list(self._late.values())

    def unsettled(self) -> list[Late]:
        """The replicas of which it is not decided yet whether they copied something too late.

        A look must first show whether the other replicas were still not cleaned at the time.
        """
        return [one for one, _ in self._unsettled]

    def audited(self, place: TopicPartition, began_ms: int) -> None:
        """Forget what was copied late in a partition before an audit began that had a verdict on it.

        Args:
            place: the partition.
            began_ms: when the audit began, milliseconds since 1970 UTC.
        """
        self._late = {key: one for key, one in self._late.items() if key[0] != place or one.at_ms >= began_ms}

    def _forget(self, now_ms: int) -> None:
        """Let go of partitions that nothing is said of any more: they were deleted, or are not watched.

        A clock that starts with what was recorded has to look at all of them first.
        """
        self._began_ms = now_ms if self._began_ms is None else min(self._began_ms, now_ms)
        if now_ms - self._began_ms < FORGET_MS:
            return
        gone = [place for place, known in self._partitions.items() if known.seen_at_ms < now_ms - FORGET_MS]
        for place in gone:
            del self._partitions[place]
        if gone:
            names = {place.topic for place in self._partitions}
            self._retentions = {topic: known for topic, known in self._retentions.items() if topic in names}
            self._late = {key: one for key, one in self._late.items() if key[0] in self._partitions}
            self._kept = {key: one for key, one in self._kept.items() if key[0] in self._partitions}
            self._pauses = {topic: one for topic, one in self._pauses.items() if topic in names}

    def _assign(self, known: _Partition, newest: Look) -> None:
        known.assign(newest.replicas, newest.at_ms, self.metadata_ms)
        # Metadata that do not name a replica may be older than those that did.
        sure_ms = newest.at_ms - self.metadata_ms
        off = {b for b, at in known.removed.items() if b not in newest.replicas and at < sure_ms}
        if off:
            known.emptied |= off & known.answering
            self._drop_late(newest.place, off.__contains__)

    def _drop_late(self, place: TopicPartition, is_gone: Callable[[int], bool]) -> None:
        """Forget who was late of a partition, where what it copied is gone with its log."""
        self._late = {key: one for key, one in self._late.items() if key[0] != place or not is_gone(key[1])}
        self._unsettled = [one for one in self._unsettled if one[0].place != place or not is_gone(one[0].broker)]

    def _of_topic(self, topic: str) -> Retentions:
        return self._retentions.setdefault(topic, Retentions(self._settings_ms))

    def _observe(self, place: TopicPartition, looks: Sequence[Look]) -> list[Late]:
        newest = looks[-1]
        known = self._of_place(place, newest.topic_id)
        if known.leader_epoch != newest.leader_epoch:
            self._doubt(place, known.seen_at_ms)
            known.leader_epoch = newest.leader_epoch
        self._assign(known, newest)
        known.lead(newest)
        for look in looks:
            known.ends.see(look)
            if look.broker in newest.replicas:
                new = _Replica(had_nothing_ms=known.added.get(look.broker))
                known.replicas.setdefault(look.broker, new).take_in(look)
            if look.policy_at_ms is not None and look.retention_ms is not None:
                lowered = self._of_topic(place.topic).see(look.policy_at_ms, look.retention_ms)
                if lowered is not None:
                    self._doubt_since(place.topic, lowered, look.retention_ms)
        reached = [r.high_watermark for r in known.replicas.values() if r.high_watermark is not None]
        known.ends.thin([*reached, *known.readings.offsets()])
        known.seen_at_ms = max(known.seen_at_ms, newest.at_ms)
        known.readings.see(newest.at_ms, newest.leader_epoch, known.log_ends(newest.replicas))
        before = known.absences
        known.is_cleaned = not _is_not_compacted(newest)
        known.absences = {} if not known.is_cleaned else dict(self._absent(place, known, newest))
        late = []
        for broker, was in before.items():
            if (
                broker in known.replicas
                and _has_copied(was, known.absences.get(broker))
                and (_is_late(was, newest.at_ms) or _copied_from_two(was, known.replicas[broker]))
            ):
                one = Late(place, broker, newest.at_ms, self._with_pauses(known, was))
                if one.absence == was:
                    late.append(one)
                else:
                    self._unsettled.append((one, known.assigned))
        for absence in known.absences.values():
            self._keep(known, absence)
        return late

    def _of_place(self, place: TopicPartition, topic_id: str) -> _Partition:
        """What is known of a partition; nothing where another topic had its name."""
        known = self._partitions.get(place)
        if known is None or (topic_id and known.topic_id and topic_id != known.topic_id):
            if known is not None:
                self._retentions.pop(place.topic, None)
                self._drop_late(place, lambda _: True)
            known = self._partitions[place] = _Partition(Ends(self.metadata_ms), Readings(self.metadata_ms))
        known.topic_id = topic_id or known.topic_id
        return known

    def _absent(self, place: TopicPartition, known: _Partition, newest: Look) -> Iterator[tuple[int, Absence]]:
        for broker in newest.replicas:
            replica = known.replicas.get(broker)
            if replica is None:
                continue  # no look at it was among these, nor ever: a source that reads chosen brokers only
            is_in_sync = broker in newest.isr
            reached = known.ends.last_without(replica.log_end_offset or 0)
            trails = replica.has_answered and reached is not None and newest.at_ms - reached > TRAILING_MS
            trails = trails and known.leads(newest)
            if is_in_sync and not trails:
                # What is committed is on it, for all that the leader knows, whether or not it answers us.
                replica.was_in_sync, replica.absent_since_ms = True, None
                continue
            if replica.absent_since_ms is None:
                replica.absent_since_ms = newest.at_ms
            offset = replica.high_watermark
            without = None if offset is None else known.ends.last_without(offset)
            absence = self._absence(place, broker, replica, without, newest)
            if absence.bound_ms is None and broker in known.emptied and not replica.was_in_sync:
                absence = replace(absence, unclear=Unclear.REASSIGNED)
            yield broker, self._sharpened(known, absence, newest)

    def _absence(
        self, place: TopicPartition, broker: int, replica: _Replica, without: int | None, newest: Look
    ) -> Absence:
        presence = Presence.BEHIND if replica.has_answered else Presence.AWAY
        since = (newest.at_ms if replica.absent_since_ms is None else replica.absent_since_ms) - self._look_ms
        in_force = since
        if without is not None:
            since = in_force = without - self._look_ms
        elif replica.has_answered and not replica.was_in_sync and replica.had_nothing_ms is not None:
            presence = Presence.COPYING
            since = replica.had_nothing_ms - self._look_ms
            # Settings count from before a time, by more than metadata may be old: they are known since these were.
            in_force = since + self.metadata_ms
        known = self._retentions.get(place.topic)
        retention = None if known is None else known.smallest_since(in_force, newest.at_ms)
        unclear = None
        if without is None:
            unclear = Unclear.COPYING if presence is Presence.COPYING else Unclear.BEFORE_WATCH
        elif retention is None:
            unclear = Unclear.SETTINGS
        bound = None if retention is None or unclear is not None else since + retention - self._skew_ms
        if bound is not None and retention is not None and self._leaves_no_time(retention):
            unclear = Unclear.NO_TIME
        return Absence(place, broker, presence, replica.high_watermark, since, retention, bound, unclear)

    def _sharpened(self, known: _Partition, absence: Absence, newest: Look) -> Absence:
        """An absence by what was read of the replicas that it may copy, where that says more than the looks alone."""
        offset, bound, retention = absence.lacks_from, absence.bound_ms, absence.retention_ms
        if offset is None or bound is None or retention is None:
            return absence
        others = set(newest.replicas) - {absence.broker}
        stand = known.readings.stand(offset, others, retention)
        if stand is None:
            return absence
        unstamped = self._later(known, absence, stand, newest)
        if stand.horizon_ms is None:
            return replace(absence, bound_ms=max(bound, unstamped), read_ms=stand.whole_ms)
        horizon = stand.horizon_ms - self._skew_ms
        # One that is earlier than can be shows that a clock is further off than it may.
        sharper = horizon if stand.horizon_ms < bound else max(bound, min(unstamped, horizon))
        return replace(absence, bound_ms=sharper, horizon_ms=horizon, read_ms=stand.whole_ms)

    def _later(self, known: _Partition, absence: Absence, stand: Stand, newest: Look) -> int:
        """From when on the first of what has no horizon may be gone."""
        without = known.ends.last_without(stand.unstamped_from)
        since = absence.since_ms if without is None else without - self._look_ms
        retention = self._of_topic(absence.place.topic).smallest_since(since, newest.at_ms)
        return since + (absence.retention_ms or 0 if retention is None else retention) - self._skew_ms


def leaves_no_time(retention_ms: int, skew_ms: int, look_ms: int) -> bool:
    """Whether ``delete.retention.ms`` is too short for any look to say whether a replica was back in time.

    Args:
        retention_ms: ``delete.retention.ms``.
        skew_ms: how far clocks may be apart, in milliseconds.
        look_ms: how long a look may take, in milliseconds.
    """
    return retention_ms <= skew_ms + look_ms


def _is_not_compacted(look: Look) -> bool:
    """Whether nothing is ever cleaned by key; where the policy is not known it may be."""
    return (look.policy is not None and "compact" not in look.policy) or len(look.replicas) < 2


def _has_copied(was: Absence, now: Absence | None) -> bool:
    """Whether a replica got something between two looks: it is back, or its high watermark has moved."""
    return now is None or (now.lacks_from or 0) > (was.lacks_from or 0)


def _copied_from_two(was: Absence, now: _Replica) -> bool:
    """Whether one that was being added may have copied what was written before the watch from two leaders."""
    return was.bound_ms is None and was.presence is Presence.COPYING and now.had_nothing_ms is None


def _is_late(was: Absence, at_ms: int) -> bool:
    """Whether something of what a replica lacked may have been gone when it was copied, a time ago at most.

    Where it is being added, and copies what was written before the watch, that counts as in time for half of the
    retention: whatever value it was given was still there then, so its tombstone had not been stamped.
    """
    if was.bound_ms is not None:
        return at_ms >= was.bound_ms
    if was.presence is Presence.COPYING and was.retention_ms is not None:
        return at_ms - was.since_ms > was.retention_ms // 2
    return True


__all__ = [
    "SETTINGS_MS",
    "TRAILING_MS",
    "Absence",
    "Clock",
    "Ended",
    "Ends",
    "Late",
    "Look",
    "Presence",
    "Retentions",
    "Unclear",
    "leaves_no_time",
]
