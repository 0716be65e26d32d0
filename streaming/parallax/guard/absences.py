"""Which replicas are absent at one moment, and which copied something too late."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from parallax.guard.clock import Absence, Late, Presence
from parallax.guard.endings import Outage
from parallax.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Absences:
    """The replicas that are absent, or copied something too late, as the clock knows them at one moment.

    Attributes:
        absent: replicas that lack something that the others hold, or may lack it.
        late: replicas that copied something too late, and that no audit has compared since.
        outages: outages of brokers that last, or ended a moment ago, the oldest first.
        unwatched: by topic, its ``delete.retention.ms``, if that is too short for any look to say whether a replica
            was back in time.
    """

    absent: tuple[Absence, ...] = ()
    late: tuple[Late, ...] = ()
    outages: tuple[Outage, ...] = ()
    unwatched: Mapping[str, int] = field(default_factory=dict)

    @property
    def copied(self) -> dict[TopicPartition, int]:
        """By partition, when its newest late copy was seen, milliseconds since 1970 UTC.

        Partitions of which a replica is away or still copies are left out, since no audit can compare them whole.
        """
        replicas = {one.replica for one in self.late}
        missing = {one.place for one in self.absent if one.presence is not Presence.BEHIND or one.replica in replicas}
        found: dict[TopicPartition, int] = {}
        for one in self.late:
            if one.place not in missing:
                found[one.place] = max(found.get(one.place, 0), one.at_ms)
        return found

    def of(self, places: Collection[TopicPartition]) -> Absences:
        """A copy with only the absent and late replicas of some partitions."""
        absent = tuple(one for one in self.absent if one.place in places)
        late = tuple(one for one in self.late if one.place in places)
        topics = {place.topic for place in places}
        unwatched = {topic: kept for topic, kept in self.unwatched.items() if topic in topics}
        return replace(self, absent=absent, late=late, unwatched=unwatched)


__all__ = ["Absences"]
