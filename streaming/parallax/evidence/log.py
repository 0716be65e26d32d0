"""Whether a log is still the one that was read, by its leader epochs. This is the one definition.

Leader epochs only grow along a log, and one leader writes all of an epoch. Cleaning or copying a log leaves epochs as
they are (KIP-101). So a log holds a place if it holds the place's epoch there or beyond. It is another log if a newer
epoch begins there or below.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.evidence.atoms import Place


class Belongs(StrEnum):
    """The answer to the question whether a place is of a log, or of the current log."""

    YES = "yes"
    NO = "no"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Log:
    """One replica's log, by what it says of its leader epochs.

    Example: epoch 4 ends at 20 in a log that ends at 100. The place (20, 4) is not of this log: another leader wrote
    there. Counter-example: the log ends at 20 as well. It may only be behind.

    Attributes:
        end: the log end offset.
        ends: by leader epoch that was asked about, the offset where the next epoch begins in the log; None: the log has
            not reached that epoch.
        entries: epochs among those asked about that the log has an entry for itself
            (`parallax.evidence.atoms.has_entry`).
        held: places that the log was seen to hold, or behind which it was seen to hold a batch of the same epoch.
    """

    end: int
    ends: Mapping[int, int | None] = field(default_factory=dict)
    entries: Collection[int] = frozenset()
    held: Collection[Place] = frozenset()

    def of(self, place: Place, *, at_its_word: bool = False) -> Belongs:
        """Whether a place is of this log, even if the cleaner may have taken what lay there.

        Args:
            place: where something was seen, in this log or another.
            at_its_word: trust the log about where the next epoch begins, because nobody can know better. Otherwise only
                a batch of the place's epoch counts: a copy of a log whose first records of the next epoch had been
                cleaned names too high an offset.
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
        """Whether the log no longer holds a place that it was read to hold; False where it was not asked.

        It had an entry for the epoch then. It still has that entry unless the whole epoch was truncated.
        """
        if place.epoch not in self.ends:
            return False
        return place.epoch not in self.entries or self.of(place) is Belongs.NO

    def has_come_to(self, epoch: int) -> bool:
        """Whether the log was asked about an epoch, and has reached that epoch or a newer one."""
        return self.ends.get(epoch) is not None


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of all replicas of a partition, by their answers about leader epochs.

    Attributes:
        logs: by broker; brokers that did not answer are left out.
        leader: the broker that leads; `UNKNOWN` where nobody does.
        in_sync: the brokers in sync; empty where that is not known.
        is_whole: whether all replicas answered.
    """

    logs: Mapping[int, Log]
    leader: int
    in_sync: frozenset[int]
    is_whole: bool

    def of(self, place: Place, against: int, *, before: bool = False) -> Belongs:
        """Whether a place is of the current log, so that evidence from it may accuse a replica.

        *No*: the log of this replica is another one at that place, or a log that has reached the epoch is. Each log
        that answers may know better than the others. One may have copied when the first records of its newer epoch had
        already been cleaned.

        *Yes*: the log of this replica, of the leader or of a replica in sync is seen to hold the place.

        Args:
            place: where something was seen.
            against: the broker that lacks it, or shows something else.
            before: whether it was shown before any of these logs was asked. The leader's log held it then, so a
                leader's log that ends there or below is another one.
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
        """Whether evidence from a place may be held against a replica.

        It also counts where no log says anything of that epoch, as with brokers that are too old to say it.
        """
        match self.of(place, against, before=before):
            case Belongs.PERHAPS:
                return all(place.epoch not in log.ends for log in self.logs.values())
            case belongs:
                return belongs is Belongs.YES

    def all_hold(self, place: Place) -> bool:
        """Whether every replica answered and holds a place, so that their logs are one up to there."""
        return self.is_whole and all(log.of(place) is Belongs.YES for log in self.logs.values())

    def none_holds(self, place: Place) -> bool:
        """Whether no log holds a place any more: each that answered is another one there."""
        return all(log.of(place) is Belongs.NO for log in self.logs.values())

    def leader_lacks(self, place: Place) -> bool:
        """Whether the leader's log is another one at a place that was shown before the leader was asked."""
        leading = self.logs.get(self.leader)
        return leading is not None and (leading.of(place) is Belongs.NO or self._leader_ends_below(place))

    def _leader_ends_below(self, place: Place) -> bool:
        leading = self.logs.get(self.leader)
        return leading is not None and leading.end <= place.offset
