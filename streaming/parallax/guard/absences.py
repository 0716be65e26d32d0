"""Which replicas are absent at one moment, and which copied something too late."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from parallax.guard.clock import Absence, Late, Presence
from parallax.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Absences:
    """What the clock says at one moment.

    Attributes:
        absent: replicas that lack something, or may.
        late: those that copied something too late, and that no audit has compared since.
    """

    absent: tuple[Absence, ...] = ()
    late: tuple[Late, ...] = ()

    @property
    def copied(self) -> dict[TopicPartition, int]:
        """When the newest late copy was seen of each partition, milliseconds since 1970 UTC.

        Without those that no audit can compare whole yet: a replica is away, or still copies.
        """
        replicas = {one.replica for one in self.late}
        missing = {one.place for one in self.absent if one.presence is not Presence.BEHIND or one.replica in replicas}
        found: dict[TopicPartition, int] = {}
        for one in self.late:
            if one.place not in missing:
                found[one.place] = max(found.get(one.place, 0), one.at_ms)
        return found

    def of(self, places: Collection[TopicPartition]) -> Absences:
        """Those of some partitions."""
        absent = tuple(one for one in self.absent if one.place in places)
        return Absences(absent, tuple(one for one in self.late if one.place in places))


__all__ = ["Absences"]
