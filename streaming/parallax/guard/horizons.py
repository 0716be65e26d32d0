"""When the tombstones and end markers that an absent replica lacks may be removed, by the horizons in batches. Pure.

From Kafka 3.1 on, the cleaner stamps some batches of format 2 (KIP-534): those that keep a tombstone, or an end marker
whose data are gone. Such a batch has bit 6 of its attributes set. Its base timestamp is then the *horizon*: from that
time on, a later pass may remove the tombstone or marker. Each replica is cleaned at its own time, so each has horizons
of its own.

Under which conditions this is right: docs/contribute/theory.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from parallax.model import TopicPartition

STAMPED_SINCE = (3, 1)
"""The first version of Kafka, as (major, minor), that writes and respects horizons (KAFKA-8522)."""
_MOST_WAITING = 8
"""How many readings of one replica are kept until one counts."""


class Reading(NamedTuple):
    """All tombstones, end markers and horizons that were read of one replica's log from an offset on, summed up.

    Attributes:
        at_ms: when the last answer came, milliseconds since 1970 UTC.
        topic_id: Kafka's id of the topic that was read.
        leader_epoch: the partition's leader epoch, by metadata from before the reading.
        start: the first offset that was read.
        reached: the offset below which everything was read that this replica shows.
        first: the lowest offset of a tombstone or end marker; None if none was read.
        unstamped: the lowest offset of a tombstone or end marker in a batch without a horizon; None if none was read.
        horizon_ms: the earliest horizon, by the broker's clock; None if no batch has one.
        whole_ms: when the last complete lap began, milliseconds since 1970 UTC: it read all batches that could have a
            horizon, up to the high watermark (`Lap`). None if no lap is complete.
        stamps: whether the broker uses horizons; otherwise it removes tombstones and markers by the age of segments.
    """

    place: TopicPartition
    broker: int
    at_ms: int
    topic_id: str
    leader_epoch: int
    start: int
    reached: int
    first: int | None = None
    unstamped: int | None = None
    horizon_ms: int | None = None
    whole_ms: int | None = None
    stamps: bool = True

    @property
    def first_or_reached(self) -> int:
        """The lowest offset of a tombstone or end marker that was read.

        If none was read, it is the offset up to which the log was read.
        """
        return self.reached if self.first is None else self.first

    @property
    def unstamped_or_reached(self) -> int:
        """The lowest offset of a tombstone or end marker that was read without a horizon.

        If there is none, it is the offset up to which the log was read.
        """
        return self.reached if self.unstamped is None else self.unstamped


class Part(NamedTuple):
    """The tombstones, end markers and horizons that one Fetch has shown, summed up.

    Attributes:
        up_to: the offset below which everything was read.
        first: the lowest offset of a tombstone or end marker; None if there is none.
        unstamped: the lowest offset of a tombstone or end marker in a batch without a horizon; None if there is none.
        horizon_ms: the earliest horizon, by the broker's clock; None if no batch has one.
    """

    up_to: int
    first: int | None = None
    unstamped: int | None = None
    horizon_ms: int | None = None


@dataclass(slots=True)
class Lap:
    """The state of reading one replica's log for horizons, again and again; each time is a *lap*.

    The cleaner may give a tombstone or end marker a horizon at any time. So each lap reads from the first tombstone or
    marker without a horizon to the high watermark.

    Attributes:
        topic_id: Kafka's id of the topic that is read.
        leader_epoch: the partition's leader epoch, by metadata from before the first lap.
        started: the first offset that any lap has read.
        position: the offset to read next.
        reached: the offset below which everything was read, by this lap or an earlier one.
        began_ms: when this lap began, milliseconds since 1970 UTC; None between two laps.
        due_ms: when to read on, or to begin the next lap, milliseconds since 1970 UTC.
        left: how many bytes may be read before a pause.
        first: the lowest offset of a tombstone or end marker that any lap has read; None if none was read.
        unstamped: the lowest offset of a tombstone or end marker that this lap has read in a batch without a horizon;
            None if it has read none.
        horizon_ms: the earliest horizon that any lap has read, by the broker's clock; None if none was read.
        whole_ms: when the last complete lap began, milliseconds since 1970 UTC; None if no lap is complete.
    """

    topic_id: str
    leader_epoch: int
    started: int
    position: int
    reached: int
    began_ms: int | None = None
    due_ms: int = 0
    left: int = 0
    first: int | None = None
    unstamped: int | None = None
    horizon_ms: int | None = None
    whole_ms: int | None = None

    def go_on(self, now_ms: int, budget: int) -> None:
        """Prepare the next reading: continue the present lap, or begin the next one.

        Args:
            now_ms: the present, milliseconds since 1970 UTC.
            budget: how many bytes may be read before the next pause.
        """
        if self.left <= 0:
            self.left = budget
        if self.began_ms is None:
            self.began_ms = now_ms
            if self.unstamped is not None:
                self.position, self.unstamped = self.unstamped, None

    def took(self, part: Part) -> None:
        """Add the tombstones, end markers and horizons of one Fetch, and move `position` on."""
        self.first = _least(self.first, part.first)
        self.unstamped = _least(self.unstamped, part.unstamped)
        self.horizon_ms = _least(self.horizon_ms, part.horizon_ms)
        self.position = max(self.position, part.up_to)
        self.reached = max(self.reached, self.position)

    def rest(self, due_ms: int) -> None:
        """Pause the lap: read nothing more until ``due_ms``, in milliseconds since 1970 UTC."""
        self.left, self.due_ms = 0, due_ms

    def end(self, due_ms: int) -> None:
        """End the lap, because it has reached the high watermark.

        Args:
            due_ms: when the next lap begins, milliseconds since 1970 UTC.
        """
        self.whole_ms, self.began_ms = self.began_ms, None
        self.rest(due_ms)

    def reading(self, place: TopicPartition, broker: int, now_ms: int, *, stamps: bool) -> Reading:
        """Return all that this lap and earlier ones have read of the log.

        This lap has not yet read from its position on. So tombstones and end markers above the position count as
        without a horizon.

        Args:
            place: the partition.
            broker: the broker whose replica is read.
            now_ms: when the last answer came, milliseconds since 1970 UTC.
            stamps: whether the broker uses horizons.
        """
        unstamped = self.unstamped
        if unstamped is None and self.position < self.reached:
            unstamped = self.position
        return Reading(
            place,
            broker,
            now_ms,
            self.topic_id,
            self.leader_epoch,
            self.started,
            self.reached,
            self.first,
            unstamped,
            self.horizon_ms,
            self.whole_ms,
            stamps,
        )


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


class Stand(NamedTuple):
    """What the readings of all replicas together say of the tombstones and end markers that an absent replica lacks.

    Attributes:
        unstamped_from: below this offset every such tombstone and end marker has a horizon, on every replica.
        horizon_ms: the earliest of these horizons, by the brokers' clocks; None if there is none.
        is_of_lacked: whether that is a horizon of something that the replica lacks. Else it may be one of something
            lower, which was read for another replica, and say too early a time.
        whole_ms: when the last complete reading of a log began, on the replica where that is longest ago; milliseconds
            since 1970 UTC. None if some replica's log was never read completely.
    """

    unstamped_from: int
    horizon_ms: int | None
    is_of_lacked: bool
    whole_ms: int | None


class Readings:
    """Keeps the newest reading of each replica's log in one partition, as long as it can be relied on.

    A new reading waits at first. It counts once `see` was given metadata that are surely newer than the reading. Older
    metadata may not name a replica yet that was added, and cleaned, before the reading.

    Args:
        metadata_ms: how old the metadata of a look may be. So a look ``metadata_ms`` after a reading makes it count.
    """

    def __init__(self, metadata_ms: int) -> None:
        self._metadata_ms = metadata_ms
        self._waiting: dict[int, list[Reading]] = {}
        self._known: dict[int, Reading] = {}
        self._leader_epoch: int | None = None
        self._retention_ms: int | None = None

    def take_in(self, reading: Reading, retention_ms: int) -> None:
        """Add a reading of one replica.

        The caller has found that no tombstone or end marker could be removed there before it was read. A reading of
        another leader epoch than that of the last look is ignored.

        Args:
            reading: the reading.
            retention_ms: the smallest ``delete.retention.ms``, in milliseconds, with which the caller has found that.
                If a smaller one becomes known later, `stand` drops the reading.
        """
        if reading.leader_epoch != self._leader_epoch:
            return
        self._waiting.setdefault(reading.broker, []).append(reading)
        del self._waiting[reading.broker][:-_MOST_WAITING]
        self._retention_ms = retention_ms if self._retention_ms is None else min(self._retention_ms, retention_ms)

    def see(self, at_ms: int, leader_epoch: int, ends: dict[int, int | None]) -> None:
        """Update which readings count, by a look at the partition.

        Readings that the look shows to be outdated are dropped. Readings that are older than the look's metadata count
        from now on.

        Args:
            at_ms: when the look was, milliseconds since 1970 UTC.
            leader_epoch: the partition's leader epoch, by the metadata of the look.
            ends: by broker, the log end offset of its replica; None if it did not answer.
        """
        if leader_epoch != self._leader_epoch:
            # What was read may have been truncated, and written again.
            self.forget()
            self._leader_epoch = leader_epoch
        for broker in self._waiting.keys() | self._known.keys():
            end = ends.get(broker)
            if end is None or any(end < one.reached for one in self._of(broker)):
                # It may come back with another log.
                self._waiting.pop(broker, None)
                self._known.pop(broker, None)
        for broker, waiting in self._waiting.items():
            ripe = [one for one in waiting if one.at_ms <= at_ms - self._metadata_ms]
            if ripe:
                self._known[broker] = ripe[-1]
                del waiting[: len(ripe)]

    def _of(self, broker: int) -> Iterable[Reading]:
        known = self._known.get(broker)
        return [*self._waiting.get(broker, ()), *([known] if known is not None else ())]

    def offsets(self) -> list[int]:
        """Return the offsets at which the clock must know when the leader's log ended.

        These are the offsets of `Reading.first_or_reached` and `Reading.unstamped_or_reached` of each reading that
        counts. Bounds are computed from the time at which the leader's log last ended at or below such an offset.
        """
        known = self._known.values()
        return [offset for one in known for offset in {one.first_or_reached, one.unstamped_or_reached}]

    def forget(self) -> None:
        """Drop all readings, because they can no longer be relied on."""
        self._waiting, self._known, self._retention_ms = {}, {}, None

    def stand(self, offset: int, brokers: Collection[int], retention_ms: int) -> Stand | None:
        """Return what all readings together say of the tombstones and end markers that an absent replica lacks.

        None if the readings say nothing of them.

        Args:
            offset: the first offset that the replica lacks.
            brokers: the brokers that it may copy from, now or later.
            retention_ms: the smallest ``delete.retention.ms`` by now, in milliseconds. If `take_in` was only ever given
                larger values, something may have been removed before it was read. All readings are then dropped.
        """
        if self._retention_ms is not None and retention_ms < self._retention_ms:
            self.forget()
        known = {b: one for b, one in self._known.items() if b in brokers and one.start <= offset}
        if not known:
            return None
        # What one replica shows holds for all: a tombstone that is not in its log was overwritten later.
        first = max(offset, *(one.first_or_reached for one in known.values()))
        own = {b: one for b, one in known.items() if one.stamps}
        unstamped = min(max(first, own[b].unstamped_or_reached) if b in own else first for b in brokers)
        stamped = [one.horizon_ms for one in own.values() if one.horizon_ms is not None]
        is_of_lacked = all(one.first_or_reached >= offset for one in own.values() if one.horizon_ms is not None)
        read = [own[b].whole_ms if b in own else None for b in brokers]
        whole = None if None in read else min(at for at in read if at is not None)
        return Stand(unstamped, min(stamped, default=None), is_of_lacked, whole)


__all__ = ["STAMPED_SINCE", "Lap", "Part", "Reading", "Readings", "Stand"]
