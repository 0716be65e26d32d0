"""The single pieces of evidence (atoms): a record or end marker that was seen, a reading, a reported offset.

Example: broker 1 showed a COMMIT of producer 9 at offset 5, in leader epoch 2.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from parallax.model import UNKNOWN

NEVER = sys.maxsize
"""An offset or an epoch above all others."""


class End(StrEnum):
    """How a transaction ended: by COMMIT or ABORT.

    OPEN means that it has not ended.
    """

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class Place(NamedTuple):
    """Where a record or an end marker lies: its offset, and the leader epoch in which it was written.

    One leader writes an offset of its epoch once. So two logs that hold a batch at one place are alike up to there.
    Only what cleaners have removed may differ (KIP-101). This presumes logs without gaps (KIP-279). A log that was
    truncated where a cleaner had left a gap may lack, or keep, what others hold there.
    """

    offset: int
    epoch: int


NOWHERE = Place(-1, -1)
"""No place."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A record or an end marker that was seen at a place.

    Attributes:
        place: where it lies.
        producer: id of the producer; `UNKNOWN` for a record without one.
        transactional: whether a record is part of a transaction; False for an end marker.
        end: COMMIT or ABORT for an end marker; None for a record.
        key: the record's key, in any form in which equal keys are equal, such as a hash.
        value: the record's value in such a form; None for a tombstone.
        producer_epoch: epoch of the producer; `UNKNOWN` for a record without a producer, or if it was not seen.
    """

    place: Place
    producer: int = UNKNOWN
    transactional: bool = False
    end: End | None = None
    key: Hashable = None
    value: Hashable = None
    producer_epoch: int = UNKNOWN

    @property
    def offset(self) -> int:
        """The offset at which the record or end marker lies."""
        return self.place.offset

    def joined(self, other: Fact) -> Fact | None:
        """Join this fact with another one that was seen at the same place; None if they contradict each other.

        If a fact has no producer epoch, it does not say either whether its record is part of a transaction. Both are
        then taken from the other fact.

        Args:
            other: a fact of the same place, as another replica or another answer shows it.

        Returns:
            The fact with a producer epoch, since it says more. None if the facts differ in anything else.
        """
        full, part = (self, other) if self.producer_epoch != UNKNOWN else (other, self)
        if part.producer_epoch == UNKNOWN:
            part = replace(part, producer_epoch=full.producer_epoch, transactional=full.transactional)
        return full if part == full else None


class EpochEnd(NamedTuple):
    """A broker's answer to the question where a leader epoch ends in its log (``LeaderEpochFileCache.endOffsetFor``).

    Attributes:
        epoch: the largest epoch of the log that is not newer than the one asked about.
        end: the offset at which the next epoch begins.
    """

    epoch: int
    end: int

    def reaches(self, upto: int, epoch: int) -> bool:
        """Whether this answer shows that the log is still the one that was read before.

        It shows that if the epoch of the last batch that was read does not end below ``upto``.

        Args:
            upto: the offset up to which the log was read.
            epoch: the leader epoch of the last batch that was read. If the answer is about another one, the result is
                False.
        """
        return self.epoch == epoch and self.end >= upto


def has_entry(ends: Mapping[int, EpochEnd | None], epoch: int) -> bool:
    """Whether a log has an entry for a leader epoch, by its answers to where this epoch and the one before it end.

    An entry says at which offset the epoch begins in the log.

    The answer about the epoch alone does not prove the entry. A log that begins with a newer epoch also answers about
    each older one, as if that epoch ended where the log begins (`LeaderEpochFileCache`). Such a log may be a copy of a
    log whose first epochs had been cleaned. But it gives all its older epochs the same end. So the log has an entry for
    an epoch if it says that the epoch before ends lower.

    If ``ends`` has no answer about the epoch before, as for epoch 0, the result rests on the answer about the epoch
    alone.

    Args:
        ends: the log's answers, by the epoch asked about; None: the log has not reached that epoch.
        epoch: the epoch for which the log may have an entry.
    """
    end, before = ends.get(epoch), ends.get(epoch - 1)
    return end is not None and end.epoch == epoch and (before is None or before.end < end.end)


class Reading(NamedTuple):
    """One reading: a replica was read from one offset to another, without leaving out any.

    Attributes:
        start: the first offset that was read.
        end: one past the last offset that was read.
        at: when it was read, in ms.
        epoch: the leader epoch of the last batch below ``end``; `UNKNOWN` if there was no batch.
    """

    start: int
    end: int
    at: int
    epoch: int


class Ended(NamedTuple):
    """The outcome (committed or aborted) that one replica showed of a transactional record.

    Attributes:
        end: the outcome.
        upto: the offset up to which the replica had been read when it showed the outcome.
        epoch: the leader epoch of the last batch below ``upto``.
    """

    end: End
    upto: int
    epoch: int


class Stable(NamedTuple):
    """A replica's last stable offset (LSO) as it reported it, with its log start and its high watermark.

    All transactions that began between the log start and the LSO had ended below the high watermark.

    Attributes:
        log_start: the log start offset.
        last_stable: the LSO.
        high_watermark: the replica's own high watermark.
        epoch: the leader epoch of the last batch below the high watermark; negative if there was none.
    """

    log_start: int
    last_stable: int
    high_watermark: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Look:
    """All that one replica answered at one moment, about its whole log or about some offsets and keys.

    A look at a part says nothing about other offsets and keys: the replica may hold a fact that is not in the look.
    `lacks` says what the replica surely does not hold.

    Attributes:
        broker: the broker whose replica it is.
        at: when it was asked, in ms.
        log_start: its log start offset.
        high_watermark: its own high watermark; consumers are shown nothing above it.
        last_stable: its own last stable offset (LSO).
        log_end: its log end offset.
        open: by producer, the first offset of the transaction that the replica has open. None if nobody asked: then it
            may have some open.
        facts: records and end markers that it holds from the log start to the high watermark.
        outcomes: for transactional records below the LSO, the outcome that it gives read_committed consumers.
        listed: producer and first offset of each of its aborted transactions.
        tops: last offset and epoch of each batch below the high watermark, also of batches without records; ascending.
            In a look at a part, an entry says only that the log holds this epoch at this offset or beyond.
        ends: its answers to where epochs end, by the epoch asked about; None: its log has not reached that epoch.
        latest_epoch: the newest leader epoch of its log, in which it may still grow; `UNKNOWN` for an empty log. In a
            look at a part, the log of a replica that does not lead may have a newer epoch than this one.
        asked: the offsets that were asked for; None: all from the log start to the high watermark.
        keys: keys whose newest record for read_committed consumers was asked for; None: all records of all keys were
            asked for, at both isolation levels.
        entries: epochs for which the log surely has an entry (`has_entry`), in addition to those for which ``ends`` or
            ``tops`` show it.
        has_grown: whether its log had grown by the time its open transactions had been listed.
    """

    broker: int
    at: int
    log_start: int
    high_watermark: int
    last_stable: int
    log_end: int
    open: Mapping[int, int] | None = field(default_factory=dict)
    facts: Mapping[Place, Fact] = field(default_factory=dict)
    outcomes: Mapping[Place, End] = field(default_factory=dict)
    listed: frozenset[tuple[int, int]] = frozenset()
    tops: tuple[Place, ...] = ()
    ends: Mapping[int, EpochEnd | None] = field(default_factory=dict)
    latest_epoch: int = UNKNOWN
    asked: frozenset[int] | None = None
    keys: frozenset[Hashable] | None = None
    entries: frozenset[int] = frozenset()
    has_grown: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the replica was asked for its whole log, and not only for some offsets."""
        return self.asked is None

    def lacks(self, place: Place) -> bool:
        """Whether the replica was asked for the offset of ``place``, and showed nothing of that place."""
        return (self.asked is None or place.offset in self.asked) and place not in self.facts

    def has_ended(self, producer: int, offset: int) -> bool | None:
        """Whether the replica has ended the transaction of a record that it has held.

        It has if it lists no open transaction of the producer that begins at the record or below. If nobody asked for
        its list, the answer is yes for a record below its LSO, and None for any other.

        Args:
            producer: producer of the record.
            offset: offset of the record.
        """
        if self.open is None:
            return True if offset < self.last_stable else None
        first = self.open.get(producer)
        return first is None or first > offset

    def tells_of(self, key: Hashable) -> bool:
        """Whether the replica was asked which value of a key its read_committed consumers get."""
        return self.keys is None or key in self.keys

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the replica's first batch that ends at or above ``offset``.

        `UNKNOWN` if there is none.
        """
        return next((top.epoch for top in self.tops if top.offset >= offset), UNKNOWN)

    def knows(self, epoch: int) -> bool:
        """Whether the replica's log surely has an entry for the leader epoch: it says where the epoch begins.

        It has one if it holds a batch of the epoch. Otherwise its answers about this epoch and the epoch before must
        show it (`has_entry`).
        """
        if any(top.epoch == epoch for top in self.tops) or epoch == self.latest_epoch or epoch in self.entries:
            return True
        return epoch - 1 in self.ends and has_entry(self.ends, epoch)

    def goes_on(self, upto: int, epoch: int) -> bool:
        """Whether the replica's log is surely still the one that was read before.

        It is if the log holds that epoch, and the epoch does not end below ``upto``. The answer is no if the replica
        was not asked about the epoch.

        Args:
            upto: the offset up to which the log was read.
            epoch: the leader epoch of the last batch that was read; negative if there was none, which gives no.
        """
        found = self.ends.get(epoch)
        return upto <= self.log_end and found is not None and found.reaches(upto, epoch)
