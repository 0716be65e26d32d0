"""Absent replicas, each with its bound, and late replicas, which copied something after their bound.

The *bound* is the time from which on something that the replica lacks may be gone from the other replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from parallax.guard.endings import Outage
from parallax.model import TopicPartition


class Presence(StrEnum):
    """The way in which a replica is absent: away, behind or copying."""

    AWAY = "away"
    """It is not in sync, and does not answer."""
    BEHIND = "behind"
    """It answers, and is not in sync. Or its log has lacked for some time what the leader has."""
    COPYING = "copying"
    """It is being added: it has not been in sync yet, and its log was empty at first."""


class Unclear(StrEnum):
    """Why the bound of an absent replica is not known."""

    BEFORE_WATCH = "before_watch"
    """No look at the leader's log is known from a time when the replica lacked nothing of it."""
    COPYING = "copying"
    """It copies records from before Parallax watched, and the log that it copies may be cleaned meanwhile."""
    SETTINGS = "settings"
    """The topic's settings cannot be read."""
    NO_TIME = "no_time"
    """``delete.retention.ms`` is no longer than the sum of how far clocks may be apart and how long a look may take.

    So no look can say whether a replica was back in time. If a bound is known, it has passed when the absence begins.
    This comes before all other reasons but `REASSIGNED`.
    """
    REASSIGNED = "reassigned"
    """The replica was taken off its broker and given back while the broker answered. Its log is copied again."""
    SLOW = "slow"
    """A repair copied the replica, and the copy took longer than half of ``delete.retention.ms``."""


NO_OUTAGE = (Unclear.NO_TIME, Unclear.REASSIGNED, Unclear.SLOW)
"""Reasons of late copies that no outage has caused.

Somebody ordered the copy, as in a reassignment. Or ``delete.retention.ms`` is too short to be watched, so that replicas
count as late after each restart.
"""


@dataclass(frozen=True, slots=True)
class Absence:
    """One replica that is absent, and its bound; times in milliseconds since 1970 UTC.

    Attributes:
        lacks_from: the offset below which the replica has everything, by its last answer; None if it never answered.
        since_ms: the last look at which it lacked nothing. If none is known: the first look at which it was absent.
        retention_ms: the smallest ``delete.retention.ms`` in force since ``since_ms``; None if it is not known.
        bound_ms: from when on the first tombstone or end marker that it lacks may be gone; None if that is not known.
        unclear: why no bound is known, or why the known one says nothing of this replica (`Unclear.NO_TIME`).
        horizon_ms: the earliest horizon of a tombstone or end marker that it lacks, as read from other replicas' logs,
            less how far clocks may be apart; None if none was read.
        read_ms: when all batches with horizons were last read, on all replicas that it may copy from. None if they were
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
        """The absent replica, as (topic, partition, broker)."""
        return *self.place, self.broker

    @property
    def leaves_no_time(self) -> bool:
        """Whether something that it lacks may have been gone from the first moment on, so that no bound is reported.

        False while nothing is cleaned (`is_held`), and where no bound is known.
        """
        if self.is_held or self.bound_ms is None:
            return False
        return self.unclear is Unclear.NO_TIME or self.bound_ms <= self.since_ms

    def has_copied(self, now: Absence | None) -> bool:
        """Whether the replica got something since: it is back, or its high watermark has moved.

        Args:
            now: its absence by a later look; None if that shows it to be absent no more.
        """
        return now is None or (now.lacks_from or 0) > (self.lacks_from or 0)


@dataclass(frozen=True, slots=True)
class Late:
    """One late replica: it copied something after its bound, or while no bound was known.

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
        """The late replica, as (topic, partition, broker)."""
        return *self.place, self.broker

    @property
    def is_of_an_outage(self) -> bool:
        """Whether the replica is, or may be, late because its broker was away for too long (`NO_OUTAGE`)."""
        return self.absence.unclear not in NO_OUTAGE


@dataclass(frozen=True, slots=True)
class Absences:
    """All absent and late replicas, as the clock knows them at one moment.

    Attributes:
        absent: replicas that lack something that the others hold, or may lack it.
        late: replicas that copied something after their bound, and that no audit has compared since.
        outages: outages of brokers that last, or ended a moment ago, the oldest first.
        unwatched: by topic, its ``delete.retention.ms``, if that is too short for any look to say whether a replica was
            back in time.
    """

    absent: tuple[Absence, ...] = ()
    late: tuple[Late, ...] = ()
    outages: tuple[Outage, ...] = ()
    unwatched: Mapping[str, int] = field(default_factory=dict)

    @property
    def copied(self) -> dict[TopicPartition, int]:
        """By partition with a late replica: when the newest late copy was seen, in milliseconds since 1970 UTC.

        Only partitions that an audit can compare are included. A partition is left out while one of its replicas is
        away or still copies.
        """
        replicas = {one.replica for one in self.late}
        missing = {one.place for one in self.absent if one.presence is not Presence.BEHIND or one.replica in replicas}
        found: dict[TopicPartition, int] = {}
        for one in self.late:
            if one.place not in missing:
                found[one.place] = max(found.get(one.place, 0), one.at_ms)
        return found

    def of(self, places: Collection[TopicPartition]) -> Absences:
        """Return a copy with only the absent and late replicas of some partitions, and with the same outages."""
        absent = tuple(one for one in self.absent if one.place in places)
        late = tuple(one for one in self.late if one.place in places)
        topics = {place.topic for place in places}
        unwatched = {topic: kept for topic, kept in self.unwatched.items() if topic in topics}
        return replace(self, absent=absent, late=late, unwatched=unwatched)


def leaves_no_time(retention_ms: int, skew_ms: int, look_ms: int) -> bool:
    """Whether ``delete.retention.ms`` is too short for any look to say whether a replica was back in time.

    Args:
        retention_ms: ``delete.retention.ms``.
        skew_ms: how far the brokers' clocks may be from this machine's, in milliseconds.
        look_ms: how long a look may take, in milliseconds.
    """
    return retention_ms <= skew_ms + look_ms


__all__ = ["NO_OUTAGE", "Absence", "Absences", "Late", "Presence", "Unclear", "leaves_no_time"]
