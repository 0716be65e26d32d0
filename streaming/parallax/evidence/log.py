"""Whether a log is still the one that was read, by its leader epochs: the one definition, for one log and for several.

Leader epochs only grow along a log, one leader writes all that is of an epoch, and cleaning or copying a log leaves
them as they are (KIP-101). So a log holds a place if it holds the place's epoch there or beyond, and it is another one
if a newer epoch begins there or below.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.evidence.atoms import Place


class Belongs(StrEnum):
    """Whether a place is of a log, or of the log that stands."""

    YES = "yes"
    NO = "no"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Log:
    """One replica's log, by what it says of its leader epochs.

    Example: epoch 4 ends at 20 in a log that ends at 100. The place (20, 4) is none of it, another leader has written
    there. Counter-example: the log ends at 20 as well. It may only be behind.

    Attributes:
        end: its log end offset.
        ends: by the epochs that it was asked about, up to where it is of that epoch or an older one; None: it has come
            to no epoch as new.
        entries: of those epochs, the ones that it has an entry of itself (`parallax.evidence.atoms.has_entry`).
        held: places that it is seen to hold, or to hold the epoch of beyond.
    """

    end: int
    ends: Mapping[int, int | None] = field(default_factory=dict)
    entries: Collection[int] = frozenset()
    held: Collection[Place] = frozenset()

    def of(self, place: Place, *, at_its_word: bool = False) -> Belongs:
        """Whether a place is of this log, though the cleaner may have taken what lay there.

        Args:
            place: where something was seen, in this log or another.
            at_its_word: nobody may know better where the next epoch begins. A copy of a log whose first records of
                that had been cleaned says an offset that is too high, so only a batch of the place's epoch counts else.
        """
        if place.epoch not in self.ends:
            return Belongs.PERHAPS
        end = self.ends[place.epoch]
        if end is None:
            return Belongs.NO if place.offset < self.end else Belongs.PERHAPS
        if end <= place.offset:
            # The last epoch of a log may still grow, so one that ends there may only be behind.
            return Belongs.NO if end < self.end else Belongs.PERHAPS
        is_sure = at_its_word or end >= self.end or place in self.held
        return Belongs.YES if is_sure and place.epoch in self.entries else Belongs.PERHAPS

    def has_lost(self, place: Place) -> bool:
        """Whether it holds a place no more that it was read to hold itself; False where it was not asked.

        It had an entry of the epoch then, and has it still unless all of that was cut.
        """
        if place.epoch not in self.ends:
            return False
        return place.epoch not in self.entries or self.of(place) is Belongs.NO

    def has_come_to(self, epoch: int) -> bool:
        """Whether it was asked about an epoch, and has come to that or a newer one."""
        return self.ends.get(epoch) is not None


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of a partition's replicas, as far as they were asked.

    Attributes:
        logs: by broker; those that did not answer are left out.
        leader: the broker that leads; `UNKNOWN` where nobody does.
        in_sync: the brokers in sync; empty where that is not known.
        is_whole: all replicas answered.
    """

    logs: Mapping[int, Log]
    leader: int
    in_sync: frozenset[int]
    is_whole: bool

    def of(self, place: Place, against: int, *, before: bool = False) -> Belongs:
        """Whether a place is of the log that stands, where that would be held against a replica.

        *No*: the log of that replica, or any that has come to an epoch as new, is another one there. It may have copied
        that one when the first records of its newer epoch had been cleaned, so each that answers may know better.
        *Yes*: the log of that replica, the leader's or one in sync is seen to hold it.

        Args:
            place: where something was seen.
            against: the broker that lacks it, or shows otherwise.
            before: it was shown before any of these was asked. It was in the leader's log then, so that is another one
                if it ends there or below.
        """
        known = [log for log in self.logs.values() if log.has_come_to(place.epoch)]
        if any(log.of(place) is Belongs.NO for log in (self.logs[against], *known)):
            return Belongs.NO
        if before and self._leader_ends_below(place):
            return Belongs.NO
        standing = self.logs.keys() & {against, self.leader, *self.in_sync}
        is_held = any(self.logs[b].of(place, at_its_word=self.is_whole) is Belongs.YES for b in standing)
        return Belongs.YES if is_held else Belongs.PERHAPS

    def counts(self, place: Place, against: int, *, before: bool = False) -> bool:
        """Whether what was seen at a place may be held against a replica; see `of`.

        Where none says anything of its epochs, as brokers that are too old, what was shown counts.
        """
        match self.of(place, against, before=before):
            case Belongs.PERHAPS:
                return all(place.epoch not in log.ends for log in self.logs.values())
            case belongs:
                return belongs is Belongs.YES

    def all_hold(self, place: Place) -> bool:
        """Whether every replica answered, and is seen to hold a place: their logs are one up to there."""
        return self.is_whole and all(log.of(place) is Belongs.YES for log in self.logs.values())

    def none_holds(self, place: Place) -> bool:
        """Whether every log that answered is another one at a place."""
        return all(log.of(place) is Belongs.NO for log in self.logs.values())

    def leader_lacks(self, place: Place) -> bool:
        """Whether the leader's log is another one at a place that was seen before it was asked."""
        leading = self.logs.get(self.leader)
        return leading is not None and (leading.of(place) is Belongs.NO or self._leader_ends_below(place))

    def _leader_ends_below(self, place: Place) -> bool:
        leading = self.logs.get(self.leader)
        return leading is not None and leading.end <= place.offset
