"""Computes each absent replica's *bound*: from when on something that it lacks may be gone from the others.

What may be gone are tombstones and end markers. The cleaner keeps each for ``delete.retention.ms`` at least, from the
first pass that met it (KIP-534). Before Kafka 3.1, and for old message formats, the time counts from the last write to
its segment.

All that an absent replica lacks was written after the last look at which the leader's log went no further than that
replica's. So the bound is the time of that look plus the smallest ``delete.retention.ms`` in force since. *Example.*
That look was at 12:00, and the retention is 24 h: the bound is 12:00 tomorrow. If the logs themselves were read, the
first tombstone or marker that can be removed counts instead (`parallax.guard.horizons`).

Pure: looks and readings in, absences out. Leaving out a look makes a bound earlier, never later. So the clock needs
only those looks that are recorded (`parallax.source.repeats`), and may forget some of them. What can break a bound:
docs/contribute/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from parallax.guard.absences import Absence, Late, Presence, Unclear, leaves_no_time
from parallax.guard.horizons import Reading, Readings, Stand
from parallax.guard.kept import Kept, goes_on
from parallax.guard.known import FIRST_MS, SETTINGS_MS, Ends, Partition, Replica, Retentions
from parallax.guard.looks import Ended, Look
from parallax.guard.pauses import Paused
from parallax.model import TopicPartition

TRAILING_MS = 30_000
"""For how long the leader's log must have been longer until a replica counts as behind, in milliseconds.

It is Kafka's default of ``replica.lag.time.max.ms``.
"""
FORGET_MS = 900_000
"""After this time without a look a partition is forgotten, in milliseconds.

A watched partition has a row at least every five minutes (`parallax.source.repeats`).
"""


class Clock:
    """Computes the bounds of all absent replicas from looks at all replicas; a job has one clock.

    A *look* is what a broker answered about one replica at one moment.

    Args:
        clock_skew_ms: how far a broker's clock may be from the clock of this machine, in milliseconds.
        look_ms: how long a look may take, in milliseconds; what an answer says was true at most this long before it
            came.
        metadata_ms: how old the metadata of a look may be, in milliseconds.
    """

    def __init__(self, clock_skew_ms: int, look_ms: int, metadata_ms: int) -> None:
        self._skew_ms = clock_skew_ms
        self._look_ms = look_ms
        self.metadata_ms = metadata_ms
        # The settings are asked for with the metadata.
        self._settings_ms = max(SETTINGS_MS, metadata_ms + FIRST_MS)
        self._began_ms: int | None = None
        self._partitions: dict[TopicPartition, Partition] = {}
        self._retentions: dict[str, Retentions] = {}
        self._late: dict[tuple[TopicPartition, int], Late] = {}
        self._kept = Kept(metadata_ms)
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
            ends: where leaders' logs ended. Each was seen at least ``metadata_ms`` before its leader was last seen to
                lead.
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
        """Update absences and bounds from new looks at replicas; a look is a broker's answer about one replica.

        Args:
            looks: the looks, in any order.

        Returns:
            The replicas that these looks show, for the first time, to have copied something after their bound.
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
        """Take in which brokers' cleaners are paused for which topics, and update the bounds of absent replicas.

        While the cleaners of all other replicas are paused, nothing is removed, so the bound moves on.

        Args:
            looks: looks at topics' settings, one for each topic that was looked at.

        Returns:
            The replicas that these looks show, for the first time, to have copied something after their bound.
        """
        for look in looks:
            self._kept.see(look)
            self._now_ms = max(self._now_ms, look.ended_ms)
        for place, known in self._partitions.items():
            if self._kept.knows(place.topic):
                for absence in known.absences.values():
                    self._kept.keep(known, absence, self._of_topic(absence.place.topic))
        return self._settled(())

    def _settled(self, found: Iterable[Late]) -> list[Late]:
        """The replicas that are late by what is known now.

        One that may have copied during a pause is late only if a look shows that the pause had ended.
        """
        late = list(found)
        waiting, self._unsettled = self._unsettled, []
        for one, replicas in waiting:
            reach = self._kept.reach(one.absence, replicas)
            if reach is None or not (reach.until_ms >= one.at_ms or goes_on(reach, self._now_ms)):
                late.append(one)
            elif reach.until_ms < one.at_ms:
                self._unsettled.append((one, replicas))
        news = [one for one in late if (one.place, one.broker) not in self._late]
        self._late |= {(one.place, one.broker): one for one in late}
        return news

    def read(self, readings: Iterable[Reading]) -> None:
        """Update bounds from the tombstones, end markers and horizons that were read in replicas' logs.

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
        """Return an `Absence`, which has the bound, for each replica that the last look at its partition showed absent.

        They are in no order.
        """
        return [
            self._kept.applied(one, known.assigned, self._now_ms)
            for known in self._partitions.values()
            if not known.is_gone
            for one in known.absences.values()
        ]

    def in_question(self) -> dict[TopicPartition, str]:
        """Return the partitions with absent or late replicas, also those that are gone, each with its topic's id.

        An id is empty if it is not known.
        """
        late = {place for place, _ in self._late} | {one.place for one, _ in self._unsettled}
        return {place: known.topic_id for place, known in self._partitions.items() if known.absences or place in late}

    def are_gone(self, gone: Mapping[TopicPartition, str]) -> None:
        """Say nothing of partitions that no longer exist, and of all others again.

        Args:
            gone: the partitions of `in_question` that no longer exist, each with the id of the topic that is gone.
        """
        for place, known in self._partitions.items():
            known.is_gone = gone.get(place) == known.topic_id

    def _exists(self, late: Late) -> bool:
        known = self._partitions.get(late.place)
        return known is None or not known.is_gone

    def answers(self, place: TopicPartition, broker: int) -> bool | None:
        """Whether a replica answered at the last look; None if the clock does not watch it any more.

        The clock stops watching if the replica was taken off its broker. It also stops if the topic was deleted
        (`are_gone`), or is not compacted any more.

        Args:
            place: the replica's partition.
            broker: the id of its broker.
        """
        known = self._partitions.get(place)
        is_watched = known is not None and known.is_cleaned and not known.is_gone
        replica = known.replicas.get(broker) if known is not None and is_watched else None
        return None if replica is None else replica.has_answered

    def unwatched(self) -> dict[str, int]:
        """Return by topic its ``delete.retention.ms``, for topics where that is too short to be watched.

        No look can say whether a replica of such a topic was back in time.
        """
        names = {place.topic for place, known in self._partitions.items() if known.is_cleaned and not known.is_gone}
        kept = {name: self._of_topic(name).newest for name in names}
        return {name: value for name, value in kept.items() if value is not None and self._leaves_no_time(value)}

    def _leaves_no_time(self, retention_ms: int) -> bool:
        return leaves_no_time(retention_ms, self._skew_ms, self._look_ms)

    def remember(self, late: Iterable[Late]) -> None:
        """Add late replicas that an earlier process recorded in the table ``late_replicas``."""
        self._late |= {(one.place, one.broker): one for one in late}

    def copied(self, late: Iterable[Late], at_ms: int) -> list[Late]:
        """Add late replicas that others than the clock have noticed. Those that it does not watch are left out.

        Args:
            late: the replicas.
            at_ms: when that is noticed, in milliseconds since 1970 UTC. Only an audit that begins later counts, by the
                clock of this machine.

        Returns:
            The replicas that are watched, with ``at_ms``.
        """
        found = [replace(one, at_ms=at_ms) for one in late if self.answers(one.place, one.broker) is not None]
        self._late |= {(one.place, one.broker): one for one in found}
        return found

    def late(self) -> list[Late]:
        """Return all late replicas that exist. A replica stays late until `audited` removes it."""
        return [one for one in self._late.values() if self._exists(one)]

    def unsettled(self) -> list[Late]:
        """Return the replicas of which a later look decides whether they are late.

        They copied something after the bound that ``delete.retention.ms`` gives. But the other brokers' cleaners may
        have been paused at that time, so that nothing was gone. The next look at the topic's settings says whether the
        pause went on. (For a finding, *unsettled* means something else.)
        """
        return [one for one, _ in self._unsettled if self._exists(one)]

    def audited(self, place: TopicPartition, began_ms: int) -> None:
        """Remove a partition's late replicas, because an audit has compared what they copied.

        Args:
            place: the partition.
            began_ms: when the audit began, milliseconds since 1970 UTC. A replica that copied late after that time
                stays late.
        """
        self._late = {key: one for key, one in self._late.items() if key[0] != place or one.at_ms >= began_ms}

    def _forget(self, now_ms: int) -> None:
        """Let go of partitions that have had no rows for long: they were deleted (see `are_gone`), or are not watched.

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
            self._kept.forget(self._partitions.keys())

    def _assign(self, known: Partition, newest: Look) -> None:
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
            self._kept.doubt(place, known.seen_at_ms)
            known.leader_epoch = newest.leader_epoch
        self._assign(known, newest)
        known.lead(newest)
        for look in looks:
            known.ends.see(look)
            if look.broker in newest.replicas:
                new = Replica(had_nothing_ms=known.added.get(look.broker))
                known.replicas.setdefault(look.broker, new).take_in(look)
            if look.policy_at_ms is not None and look.retention_ms is not None:
                lowered = self._of_topic(place.topic).see(look.policy_at_ms, look.retention_ms)
                if lowered is not None:
                    self._kept.doubt_since(place.topic, lowered, look.retention_ms)
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
                and was.has_copied(known.absences.get(broker))
                and (_is_late(was, newest.at_ms) or _copied_from_two(was, known.replicas[broker]))
            ):
                one = Late(place, broker, newest.at_ms, self._kept.applied(was, known.assigned, self._now_ms))
                if one.absence == was:
                    late.append(one)
                else:
                    self._unsettled.append((one, known.assigned))
        for absence in known.absences.values():
            self._kept.keep(known, absence, self._of_topic(absence.place.topic))
        return late

    def _of_place(self, place: TopicPartition, topic_id: str) -> Partition:
        """What is known of a partition; nothing where another topic had its name."""
        known = self._partitions.get(place)
        if known is None or (topic_id and known.topic_id and topic_id != known.topic_id):
            if known is not None:
                self._retentions.pop(place.topic, None)
                self._drop_late(place, lambda _: True)
            known = self._partitions[place] = Partition(Ends(self.metadata_ms), Readings(self.metadata_ms))
        known.topic_id = topic_id or known.topic_id
        return known

    def _absent(self, place: TopicPartition, known: Partition, newest: Look) -> Iterator[tuple[int, Absence]]:
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
        self, place: TopicPartition, broker: int, replica: Replica, without: int | None, newest: Look
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
        kept = known.newest if retention is None and known is not None else retention
        if kept is not None and self._leaves_no_time(kept):
            unclear = Unclear.NO_TIME  # whatever else is unclear of such a topic, it is not watched
        return Absence(place, broker, presence, replica.high_watermark, since, retention, bound, unclear)

    def _sharpened(self, known: Partition, absence: Absence, newest: Look) -> Absence:
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
        is_off = stand.is_of_lacked and stand.horizon_ms < bound
        sharper = horizon if is_off else max(bound, min(unstamped, horizon))
        told = horizon if stand.is_of_lacked else None
        return replace(absence, bound_ms=sharper, horizon_ms=told, read_ms=stand.whole_ms)

    def _later(self, known: Partition, absence: Absence, stand: Stand, newest: Look) -> int:
        """From when on the first of what has no horizon may be gone."""
        without = known.ends.last_without(stand.unstamped_from)
        since = absence.since_ms if without is None else without - self._look_ms
        retention = self._of_topic(absence.place.topic).smallest_since(since, newest.at_ms)
        return since + (absence.retention_ms or 0 if retention is None else retention) - self._skew_ms


def _is_not_compacted(look: Look) -> bool:
    """Whether nothing is ever cleaned by key; where the policy is not known it may be."""
    return (look.policy is not None and "compact" not in look.policy) or len(look.replicas) < 2


def _copied_from_two(was: Absence, now: Replica) -> bool:
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


__all__ = ["TRAILING_MS", "Clock"]
