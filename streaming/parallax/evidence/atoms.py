"""The atoms of evidence: what was seen, of whom, in which log."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from parallax.model import UNKNOWN

NEVER = 1 << 62
"""An offset or an epoch above all others."""


class End(StrEnum):
    """How a transaction ended, or that it has not."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class Place(NamedTuple):
    """Where a batch lies: its offset, and the epoch of the leader that wrote it.

    Two logs that hold the same place hold the same record there, and the same below it (KIP-101).
    """

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Fact:
    """A record or an end marker at a place.

    Attributes:
        place: where it lies.
        producer: its producer's id; `UNKNOWN` for a record of none.
        transactional: a record is part of a transaction; False of an end marker.
        end: COMMIT or ABORT of an end marker, None of a record.
        key: of a record, in any form that compares.
        value: of a record, in any form that compares (a hash); None in a tombstone.
        producer_epoch: its producer's epoch; `UNKNOWN` for a record of none.
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
        """The offset of its place."""
        return self.place.offset

    def joined(self, other: Fact) -> Fact | None:
        """The fuller of two tellings of one place; None where they contradict each other.

        One without its producer's epoch leaves open whether its producer wrote it in a transaction, too.
        """
        full, part = (self, other) if self.producer_epoch != UNKNOWN else (other, self)
        if part.producer_epoch == UNKNOWN:
            part = replace(part, producer_epoch=full.producer_epoch, transactional=full.transactional)
        return full if part == full else None


class EpochEnd(NamedTuple):
    """A broker's answer to where an epoch ends in its log (``LeaderEpochFileCache.endOffsetFor``).

    The largest epoch of its log that is no newer than the one asked about, and the offset at which the next one begins.
    """

    epoch: int
    end: int

    def reaches(self, upto: int, epoch: int) -> bool:
        """Whether a log that answers so is still the one that was read up to an offset in an epoch."""
        return self.epoch == epoch and self.end >= upto


def has_entry(ends: Mapping[int, EpochEnd | None], epoch: int) -> bool:
    """Whether a log is seen to have an entry of an epoch itself, by its answers about that one and the one before.

    A log that begins with a newer epoch answers of each older one as if it had that (`LeaderEpochFileCache`): it is a
    copy of one whose first epochs had been cleaned. A log that has it names a lower end for the epoch before. Of an
    epoch without one before, its own answer counts.
    """
    end, before = ends.get(epoch), ends.get(epoch - 1)
    return end is not None and end.epoch == epoch and (before is None or before.end < end.end)


class Reading(NamedTuple):
    """A replica was read from one offset to another, without a hole, at a time.

    ``epoch`` is that of the last batch below ``end``; `UNKNOWN` where no batch was there.
    """

    start: int
    end: int
    at: int
    epoch: int


class Ended(NamedTuple):
    """How a replica showed a record's transaction to have ended, when it had been read up to ``upto`` in ``epoch``."""

    end: End
    upto: int
    epoch: int


class Stable(NamedTuple):
    """A replica's last stable offset (LSO), with its log start and its high watermark.

    All transactions that began between the log start and the LSO had ended below the high watermark.
    ``epoch`` is that of the last batch below the high watermark.
    """

    log_start: int
    last_stable: int
    high_watermark: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Look:
    """What one replica shows at one moment to a client that asks for everything, or for a part.

    A part says nothing of what was not asked for: that it does not hold a fact is no absence (`lacks`).

    Attributes:
        broker: whose replica it is.
        at: when it was asked.
        log_start: its log start offset.
        high_watermark: its own; no client is shown more.
        last_stable: its own last stable offset (LSO).
        log_end: its log end offset.
        open: by producer, where the transaction begins that it holds open; None: nobody asked, and it may hold some.
        facts: what it holds from the log start to the high watermark.
        outcomes: of transactional records below the LSO, what its read_committed consumers make of them.
        listed: the producers and first offsets of its aborted transactions.
        tops: last offset and epoch of each batch below the high watermark, rising; of batches without records too.
        ends: its answers to where epochs end, by the epoch asked about; None: it knows no epoch as new.
        latest_epoch: the newest leader epoch of its log, which may still grow; `UNKNOWN` of an empty log. Of a log that
            was asked for a part and does not lead, a lower bound.
        asked: the offsets that were asked for; None: all from the log start to the high watermark. Of a part, ``tops``
            says only that the log holds that epoch at the offset or beyond.
        keys: the keys of which the newest record that read_committed consumers are given was asked for; None: all, and
            of read_uncommitted consumers as well.
        entries: of the epochs that were asked about, those that the log is seen to have an entry of, where ``ends``
            does not say it.
        has_grown: its log had grown when its open transactions had been listed.
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
        """Whether it was asked for everything."""
        return self.asked is None

    def lacks(self, place: Place) -> bool:
        """Whether it was asked for what lies at a place, and does not hold that."""
        return (self.asked is None or place.offset in self.asked) and place not in self.facts

    def has_ended(self, producer: int, offset: int) -> bool | None:
        """Whether it has ended the transaction of a record that it holds or held; None: nobody asked.

        It has where it lists none of the producer that begins there or below, or shows the record's outcome.
        """
        if self.open is None:
            return True if offset < self.last_stable else None
        return self.open.get(producer, offset + 1) > offset

    def tells_of(self, key: Hashable) -> bool:
        """Whether it says what its read_committed consumers are given of a key."""
        return self.keys is None or key in self.keys

    def epoch_at(self, offset: int) -> int:
        """The epoch of the first batch that it holds at an offset or beyond; `UNKNOWN` where there is none."""
        return next((top.epoch for top in self.tops if top.offset >= offset), UNKNOWN)

    def knows(self, epoch: int) -> bool:
        """Whether its log is seen to have an entry of an epoch itself; of the first one, only a batch says so."""
        if any(top.epoch == epoch for top in self.tops) or epoch == self.latest_epoch or epoch in self.entries:
            return True
        return epoch - 1 in self.ends and has_entry(self.ends, epoch)

    def goes_on(self, upto: int, epoch: int) -> bool:
        """Whether its log is still the one that was read up to an offset in an epoch.

        It is where the log knows that epoch, and holds it up to there. Where it was not asked about that epoch, it is
        taken for another log.
        """
        if epoch < 0 or upto > self.log_end:
            return False
        found = self.ends.get(epoch)
        return found is not None and found.reaches(upto, epoch)
