"""What a log is made of: batches, records, end markers, and what a broker keeps beside them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

NO_PRODUCER = -1
IDEMPOTENT = 500
"""The producer that numbers its batches outside of transactions."""


class _Unchanging:
    """Is its own deep copy: copies of whole clusters are made before and after each probe."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Self:
        return self


class End(IntEnum):
    """The type of an end marker; the numbers are Kafka's in a control record's key."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Record(_Unchanging):
    """A data record; ``value`` is None in a tombstone, ``key`` where there is none (no compacted topic takes that)."""

    offset: int
    key: int | None
    value: int | None


@dataclass(frozen=True, slots=True)
class Batch(_Unchanging):
    """A record batch; ``control`` batches hold ``marker``, or nothing once the cleaner has emptied them."""

    base: int
    last: int
    timestamp: int
    leader_epoch: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False
    marker: End | None = None
    records: tuple[Record, ...] = ()
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class Aborted(_Unchanging):
    """An entry of a replica's transaction index, and of the aborted list in its Fetch responses."""

    producer_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ended(_Unchanging):
    """A transaction as one replica has ended it."""

    producer_id: int
    first: int
    marker: int
    end: End


@dataclass(frozen=True, slots=True)
class Cut(_Unchanging):
    """Offsets that a log gave up."""

    start: int
    end: int


@dataclass(slots=True)
class Producer:
    """A replica's state of one producer (``ProducerStateEntry``)."""

    epoch: int
    timestamp: int
    first: int | None = None
    last_data: int | None = None


@dataclass(frozen=True, slots=True)
class Limits(_Unchanging):
    """The settings of the topic and the brokers, in ms."""

    delete_retention: int
    producer_expiration: int
    segment: int = 100
