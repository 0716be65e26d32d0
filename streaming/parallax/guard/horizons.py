"""When tombstones and end markers that an absent replica lacks may go, by the horizons in the batches. Pure.

From Kafka 3.1 on the cleaner stamps some batches of format 2 (KIP-534): those that keep a tombstone, or an end marker
whose data are gone. Such a batch has bit 6 of its attributes set. Its base timestamp is then the *horizon*: the time
from when on a later pass may remove the tombstone or marker. Each replica is cleaned by itself, so each has horizons of
its own.

Pure: readings in, and what follows from them out. When that is right: docs/contribute/theory.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from parallax.model import TopicPartition

STAMPED_SINCE = (3, 1)
"""The first version of Kafka that stamps, and goes by, horizons (KAFKA-8522)."""
_MOST_WAITING = 8
"""Readings of one replica that are kept until they count."""


class Reading(NamedTuple):
    """The tombstones, end markers and horizons that were read of one replica at and above an offset.

    Attributes:
        at_ms: when the last of it was answered, milliseconds since 1970 UTC.
        topic_id: of the topic that was read.
        leader_epoch: of the partition, by metadata from before it was read.
        start: the first offset that was read.
        reached: the offset below which everything was read that this replica shows.
        first: the lowest offset of a tombstone or end marker; None where there is none below `reached`.
        unstamped: the lowest offset of one in a batch without a horizon; None where there is none.
        horizon_ms: the earliest horizon, by the broker's clock; None if no batch has one.
        whole_ms: the time since which every batch that may have been stamped was read, up to the high watermark; None
            if not all were.
        stamps: whether the broker uses horizons; otherwise it removes by the age of its segments.
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
        """The offset below which nothing that was read is a tombstone or an end marker."""
        return self.reached if self.first is None else self.first

    @property
    def unstamped_or_reached(self) -> int:
        """The offset below which every tombstone and end marker that was read has a horizon."""
        return self.reached if self.unstamped is None else self.unstamped


class Part(NamedTuple):
    """The tombstones, end markers and horizons that one Fetch has shown.

    Attributes:
        up_to: the offset below which everything was read.
        first, unstamped, horizon_ms: as in `Reading`, of this part.
    """

    up_to: int
    first: int | None = None
    unstamped: int | None = None
    horizon_ms: int | None = None


@dataclass(slots=True)
class Lap:
    """Reads one log again and again: each lap from the first batch without a horizon to the high watermark.

    Attributes:
        started: the first offset that was read, including earlier laps.
        position: where to go on.
        reached: the offset below which everything was read, including earlier laps.
        began_ms: when this lap began; None between two.
        due_ms: when to go on, or to begin the next one.
        left: bytes that may be read until it has to rest.
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
        """Go on with a lap, or begin one: more batches may have a horizon by now."""
        if self.left <= 0:
            self.left = budget
        if self.began_ms is None:
            self.began_ms = now_ms
            if self.unstamped is not None:
                self.position, self.unstamped = self.unstamped, None

    def took(self, part: Part) -> None:
        """Take in what one Fetch has read from `position` on."""
        self.first = _least(self.first, part.first)
        self.unstamped = _least(self.unstamped, part.unstamped)
        self.horizon_ms = _least(self.horizon_ms, part.horizon_ms)
        self.position = max(self.position, part.up_to)
        self.reached = max(self.reached, self.position)

    def rest(self, due_ms: int) -> None:
        """Make the next read wait until a time."""
        self.left, self.due_ms = 0, due_ms

    def end(self, due_ms: int) -> None:
        """Note that the lap has reached the high watermark."""
        self.whole_ms, self.began_ms = self.began_ms, None
        self.rest(due_ms)

    def reading(self, place: TopicPartition, broker: int, now_ms: int, *, stamps: bool) -> Reading:
        """What all laps have read by now. Where this lap has not come to yet, batches may lack a horizon."""
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
    """What the readings of all replicas say of what an absent replica lacks.

    Attributes:
        unstamped_from: below this offset, on every replica, each tombstone and end marker that it lacks has a horizon.
        horizon_ms: the earliest of these horizons, by the brokers' clocks; None where there is none.
        whole_ms: when the stamped batches of all replicas were last read; None if they were not.
    """

    unstamped_from: int
    horizon_ms: int | None
    whole_ms: int | None


class Readings:
    """What was read of the logs of one partition's replicas, as long as it can be relied on.

    Args:
        metadata_ms: how old metadata may be. A replica that was added may have been cleaned before anybody knew of it.
            So a reading counts only once newer metadata are known.
    """

    def __init__(self, metadata_ms: int) -> None:
        self._metadata_ms = metadata_ms
        self._waiting: dict[int, list[Reading]] = {}
        self._known: dict[int, Reading] = {}
        self._leader_epoch: int | None = None
        self._retention_ms: int | None = None

    def take_in(self, reading: Reading, retention_ms: int) -> None:
        """Take in a reading of one replica; it must have ended before anything in it could be removed.

        Args:
            reading: of one replica.
            retention_ms: the smallest ``delete.retention.ms`` by which this was judged.
        """
        if reading.leader_epoch != self._leader_epoch:
            return
        self._waiting.setdefault(reading.broker, []).append(reading)
        del self._waiting[reading.broker][:-_MOST_WAITING]
        self._retention_ms = retention_ms if self._retention_ms is None else min(self._retention_ms, retention_ms)

    def see(self, at_ms: int, leader_epoch: int, ends: dict[int, int | None]) -> None:
        """Take in a look at the partition, which says whether earlier readings still count.

        Args:
            at_ms: when, milliseconds since 1970 UTC.
            leader_epoch: by the metadata of the look.
            ends: the log end offsets of its replicas; None where one did not answer.
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
        """Return the offsets from which a clock must know when the leader's log ended there."""
        known = self._known.values()
        return [offset for one in known for offset in {one.first_or_reached, one.unstamped_or_reached}]

    def forget(self) -> None:
        """Forget all readings, because they can be relied on no more."""
        self._waiting, self._known, self._retention_ms = {}, {}, None

    def stand(self, offset: int, brokers: Collection[int], retention_ms: int) -> Stand | None:
        """What all readings together say of what a replica lacks; None if they say nothing.

        Args:
            offset: the first offset that it lacks.
            brokers: those that it may copy from, now or later.
            retention_ms: the smallest ``delete.retention.ms`` since. If it is smaller than the one that a reading was
                judged by, what was read may have been gone in part.
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
        read = [own[b].whole_ms if b in own else None for b in brokers]
        whole = None if None in read else min(at for at in read if at is not None)
        return Stand(unstamped, min(stamped, default=None), whole)


__all__ = ["STAMPED_SINCE", "Lap", "Part", "Reading", "Readings", "Stand"]
