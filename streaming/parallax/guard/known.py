"""What the guard's clock remembers of its looks at topics, partitions and replicas. Pure.

A *look* is what a broker answered about one replica at one moment. The clock remembers each topic's
``delete.retention.ms``, where each leader's log ended, and each replica's last answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from parallax.guard.absences import Absence
from parallax.guard.horizons import Readings
from parallax.guard.looks import UNLED, Look

SETTINGS_MS = 60_000
"""How long before a look a setting may have been in force, and how long after one it counts as known; milliseconds.

Brokers take over a change one after the other. The time is longer where settings are asked for more rarely.
"""
FIRST_MS = 10_000
"""How long after a time the first known setting may be seen and still count for that time; milliseconds.

Settings are asked for with the metadata, and so not at the very time of a look.
"""
_MOST_LOOKS = 16
"""With more log ends than this, `Ends.thin` forgets some."""


class Retentions:
    """The values of one topic's ``delete.retention.ms`` over time, to find the smallest since a given time.

    Args:
        settings_ms: for how many milliseconds before a look the value that it shows may have been in force. If no look
            follows for as long, the value is no longer known.
    """

    def __init__(self, settings_ms: int = SETTINGS_MS) -> None:
        self._settings_ms = settings_ms
        self._known: list[tuple[int, int]] = []
        self._first_ms = 0

    @property
    def newest(self) -> int | None:
        """The value of ``delete.retention.ms`` that was seen last, in milliseconds; None if none was."""
        return self._known[-1][0] if self._known else None

    def see(self, at_ms: int, retention_ms: int) -> int | None:
        """Add a value that the topic's ``delete.retention.ms`` had at a time, for `smallest_since`.

        Args:
            at_ms: the time, milliseconds since 1970 UTC. If a value of a later time is known, that later time counts.
            retention_ms: the value, in milliseconds.

        Returns:
            If the value is lower than the last one: since when it may have been in force, milliseconds since 1970 UTC.
            Otherwise None.
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
        """Return the smallest ``delete.retention.ms`` that was in force at a time or later.

        Args:
            at_ms: the time, milliseconds since 1970 UTC.
            now_ms: the present, milliseconds since 1970 UTC.

        Returns:
            The value in milliseconds; None if the first value was seen after that time, or if none was seen lately.
        """
        if not self._known or self._first_ms > at_ms + FIRST_MS or self._known[-1][1] < now_ms - self._settings_ms:
            return None
        since_ms = min(at_ms - self._settings_ms, self._known[-1][1])
        return next(value for value, until in self._known if until >= since_ms)


@dataclass(slots=True)
class Replica:
    """What looks have shown of one replica until now.

    Attributes:
        high_watermark: the replica's high watermark by its last answer; None if it has never answered.
        log_end_offset: the replica's log end offset by its last answer; None if it has never answered.
        has_answered: whether the replica answered at the last look.
        absent_since_ms: when the first look was at which the replica was absent, milliseconds since 1970 UTC; None if
            it is not absent.
        was_in_sync: whether any look has shown the replica in sync.
        had_nothing_ms: a time at which the replica's log was empty, milliseconds since 1970 UTC: it has copied
            everything since. None if no such time is known, or if the leader has changed since (`Partition.lead`).
    """

    high_watermark: int | None = None
    log_end_offset: int | None = None
    has_answered: bool = False
    absent_since_ms: int | None = None
    was_in_sync: bool = False
    had_nothing_ms: int | None = None

    def take_in(self, look: Look) -> None:
        """Update the replica by a look at it."""
        self.has_answered = look.log_end_offset is not None
        if look.log_end_offset == 0:
            self.had_nothing_ms = look.at_ms
        if look.log_end_offset is not None:
            end = self.log_end_offset = look.log_end_offset
            self.high_watermark = end if look.high_watermark is None else min(look.high_watermark, end)


class Ends:
    """Remembers at which offset the log of a partition's leader ended, and when that was seen.

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
        """Add a look, which says which broker leads. A look at the leader also says where the leader's log ends."""
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
        """Add a log end of the leader that counts for good, for `last_without`.

        Args:
            at_ms: when it was seen, milliseconds since 1970 UTC.
            end: the log end offset.
        """
        while self._sure and self._sure[-1][1] >= end:
            self._sure.pop()
        if not self._sure or self._sure[-1][0] < at_ms:
            self._sure.append((at_ms, end))

    def thin(self, offsets: Iterable[int]) -> None:
        """Forget every second one of the older log ends, if many are remembered.

        Log ends that `last_without` needs for the given offsets are kept.
        """
        if len(self._sure) <= _MOST_LOOKS:
            return
        kept = {_last_without(self._sure, offset) for offset in offsets}
        half = len(self._sure) // 2
        self._sure = [one for i, one in enumerate(self._sure) if i == 0 or i >= half or i % 2 == 0 or one[0] in kept]

    def last_without(self, offset: int) -> int | None:
        """Return when the leader's log was last seen without anything at or above an offset.

        The time is in milliseconds since 1970 UTC; None if the log was never seen so short.
        """
        recent = _last_without(self._recent, offset)
        return _last_without(self._sure, offset) if recent is None else recent

    def __len__(self) -> int:
        return len(self._sure) + len(self._recent)


def _last_without(looks: Sequence[tuple[int, int]], offset: int) -> int | None:
    return next((at for at, end in reversed(looks) if end <= offset), None)


@dataclass(slots=True)
class Partition:
    """What looks have shown of one partition until now.

    Attributes:
        ends: at which offsets the leader's log ended, and when.
        readings: the tombstones, end markers and horizons that were read of the replicas' logs.
        topic_id: Kafka's id of its topic; empty if it is not known.
        seen_at_ms: when the last look was, milliseconds since 1970 UTC.
        leader_epoch: the leader epoch by the last look.
        led_by: the last known leader, and the epoch in which it led; None if no leader is known.
        assigned: the brokers that hold the partition.
        removed: by broker that no longer holds the partition, when the first look was that did not name it,
            milliseconds since 1970 UTC. If the broker was away at that time, it may still have its log.
        answering: the brokers of ``removed`` that answered at the last look before their removal.
        emptied: the brokers of ``answering`` whose log is certainly deleted, since they were removed for longer than
            the metadata of a broker may be old.
        is_cleaned: whether the topic is compacted, as far as is known.
        is_gone: whether the cluster answered that this partition no longer exists (`parallax.guard.gone`). Nothing is
            lost of it then, so nothing is said of it. What is known of it stays, since a broker that has just started
            may not know a topic yet.
        added: by broker that was given the partition while it was watched: a time before that, when the broker had
            nothing of it, milliseconds since 1970 UTC.
        replicas: by broker, what looks have shown of its replica.
        absences: by broker of an absent replica, its absence.
    """

    ends: Ends
    readings: Readings
    topic_id: str = ""
    seen_at_ms: int = 0
    leader_epoch: int = UNLED
    led_by: tuple[int, int] | None = None
    assigned: tuple[int, ...] = ()
    removed: dict[int, int] = field(default_factory=dict)
    answering: set[int] = field(default_factory=set)
    emptied: set[int] = field(default_factory=set)
    is_cleaned: bool = False
    is_gone: bool = False
    added: dict[int, int] = field(default_factory=dict)
    replicas: dict[int, Replica] = field(default_factory=dict)
    absences: dict[int, Absence] = field(default_factory=dict)

    def assign(self, replicas: tuple[int, ...], at_ms: int, metadata_ms: int) -> None:
        """Update which brokers hold the partition, and note that a newly added broker's log was empty before.

        Args:
            replicas: the brokers that hold the partition.
            at_ms: when the look was that showed these brokers, milliseconds since 1970 UTC.
            metadata_ms: how old the metadata of a look may be.
        """
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
        """Update which broker leads the partition, by the last look at it.

        If another leader may have led in between, replicas may have copied from two leaders, whose logs are cleaned
        independently. So it is then forgotten when each log was empty (`Replica.had_nothing_ms`, ``added``). Of a
        replica that certainly was in sync before the change it is still known. This is so in two cases:

        - The replica leads now, in the epoch directly after the last known one.
        - The leader leads in that epoch, this replica is in sync, and the old leader no longer holds the partition.

        Args:
            newest: the last look at the partition; it names the leader, the leader epoch and the replicas in sync.
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
        """Whether the leader that a look names answered at the last look at the leader's own replica."""
        leader = self.replicas.get(newest.leader)
        return leader is not None and leader.has_answered

    def log_ends(self, replicas: Collection[int]) -> dict[int, int | None]:
        """Return, for each of some brokers, the log end offset of its replica.

        It is None if the replica did not answer at the last look.

        Args:
            replicas: ids of the brokers.
        """
        known = {broker: self.replicas.get(broker) for broker in replicas}
        return {b: one.log_end_offset if one is not None and one.has_answered else None for b, one in known.items()}


__all__ = ["FIRST_MS", "SETTINGS_MS", "Ends", "Partition", "Replica", "Retentions"]
