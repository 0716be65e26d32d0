"""Decides whether a replica's log is still the one that was read, by its answers about leader epochs.

Leader epochs only grow along a log, and one leader writes all of an epoch. Cleaning or copying a log leaves epochs as
they are (KIP-101). So a log holds a place (offset, epoch) if it holds the epoch at that offset or beyond. If a newer
epoch begins at that offset or below, it is not the log in which the place was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from parallax.evidence.atoms import Place


class Belongs(StrEnum):
    """The answer to whether a place (offset, leader epoch) is of a log: yes, no, or perhaps."""

    YES = "yes"
    NO = "no"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True)
class Log:
    """One replica's log, as far as its answers about leader epochs describe it.

    Example: epoch 4 ends at 20 in a log that ends at 100. The place (20, 4) is not of this log: another leader wrote
    there. Counter-example: the log ends at 20 as well. It may only be behind.

    Attributes:
        end: the log end offset.
        ends: by leader epoch that was asked about, the offset where the next epoch begins in the log; None: the log has
            not reached that epoch.
        entries: the epochs in ``ends`` for which the log has an entry itself (`parallax.evidence.atoms.has_entry`).
        held: places where the log was seen to hold a batch of the place's epoch, there or beyond.
    """

    end: int
    ends: Mapping[int, int | None] = field(default_factory=dict)
    entries: Collection[int] = frozenset()
    held: Collection[Place] = frozenset()

    def of(self, place: Place, *, at_its_word: bool = False) -> Belongs:
        """Whether a place is of this log: yes, no or perhaps. It may be, although the record there is cleaned by now.

        Args:
            place: where something was seen, in this log or another.
            at_its_word: whether the log's answer about where the next epoch begins is enough for *yes*. That answer may
                be too high, because the log may be a copy of a log whose first records of the next epoch had been
                cleaned. If False, the log must have been seen to hold a batch of the place's epoch, at the place's
                offset or beyond, or it must not know a newer epoch.
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
        """Whether the log was truncated below a place that it has shown; False if it was not asked about the epoch.

        A log that has shown the place had an entry for its epoch. It still has that entry, unless all of the epoch was
        truncated.
        """
        if place.epoch not in self.ends:
            return False
        return place.epoch not in self.entries or self.of(place) is Belongs.NO

    def has_come_to(self, epoch: int) -> bool:
        """Whether the log is known to have records of the leader epoch ``epoch`` or of a newer one.

        It is False if the replica was not asked about the epoch.
        """
        return self.ends.get(epoch) is not None


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs of all replicas of a partition, as far as their answers about leader epochs describe them.

    Attributes:
        logs: by broker; brokers that did not answer are left out.
        leader: the broker that leads; `UNKNOWN` if none does.
        in_sync: the brokers in sync; empty if that is not known.
        is_whole: whether all replicas answered.
    """

    logs: Mapping[int, Log]
    leader: int
    in_sync: frozenset[int]
    is_whole: bool

    def of(self, place: Place, against: int, *, before: bool = False) -> Belongs:
        """Whether a place is of the current log, so that a record shown there may accuse a replica.

        *No*: some log does not hold the place, because another leader has written there (`Log.of` says no). It is the
        log of the accused replica, or any log that has records of the place's epoch or of a newer one. One such log is
        enough, although other logs may seem to hold the place. These may be copies of a log whose first records of a
        newer epoch had been cleaned, so they do not show where that epoch began.

        *Yes*: the log of the accused replica, of the leader or of a replica in sync holds the place.

        *Perhaps*: the answers show neither.

        Args:
            place: where a record or an end marker was shown.
            against: the broker that is accused, because it lacks the record or shows something else.
            before: whether the record was shown before any of these logs was asked. The leader's log held the record
                then. So if the leader's log now ends at the place's offset or below, the answer is no.
        """
        if self.logs[against].of(place) is Belongs.NO or self.is_cut(place):
            return Belongs.NO
        if before and self._leader_ends_below(place):
            return Belongs.NO
        standing = self.logs.keys() & {against, self.leader, *self.in_sync}
        is_held = any(self.logs[b].of(place, at_its_word=self.is_whole) is Belongs.YES for b in standing)
        return Belongs.YES if is_held else Belongs.PERHAPS

    def is_cut(self, place: Place) -> bool:
        """Whether another leader has written at a place. Some log that has come to its epoch does not hold it then."""
        known = (log for log in self.logs.values() if log.has_come_to(place.epoch))
        return any(log.of(place) is Belongs.NO for log in known)

    def counts(self, place: Place, against: int, *, before: bool = False) -> bool:
        """Whether a record shown at a place may accuse a replica.

        It may if the place is of the current log. It may as well if nobody was asked about the place's epoch, e.g.
        because no broker is new enough to answer.

        Args:
            place: where a record or an end marker was shown.
            against: the broker that is accused.
            before: whether the record was shown before any of these logs was asked. If so, and the leader's log now
                ends at the place's offset or below, the place is not of the current log.
        """
        match self.of(place, against, before=before):
            case Belongs.PERHAPS:
                return all(place.epoch not in log.ends for log in self.logs.values())
            case belongs:
                return belongs is Belongs.YES

    def all_hold(self, place: Place) -> bool:
        """Whether every replica answered and surely holds a place.

        Then their logs are the same up to there.
        """
        return self.is_whole and all(log.of(place) is Belongs.YES for log in self.logs.values())

    def none_holds(self, place: Place) -> bool:
        """Whether no replica that answered holds a place any more: each has another log there."""
        return all(log.of(place) is Belongs.NO for log in self.logs.values())

    def leader_lacks(self, place: Place) -> bool:
        """Whether the leader no longer holds a place that was shown before the leader was asked.

        Then the leader's log is another one there.
        """
        leading = self.logs.get(self.leader)
        return leading is not None and (leading.of(place) is Belongs.NO or self._leader_ends_below(place))

    def _leader_ends_below(self, place: Place) -> bool:
        leading = self.logs.get(self.leader)
        return leading is not None and leading.end <= place.offset
