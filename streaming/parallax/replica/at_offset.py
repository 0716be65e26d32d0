"""Asks one replica what it has at one offset, and what consumers of each isolation level get there.

``parallax show-record`` and the status page show the answers of all replicas next to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.replica.client import ReplicaClient, watermarks_of
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import OffsetOutOfRange, ReplicaError
from parallax.replica.reader import read_range
from parallax.replica.types import Watermarks

_UNUSED_KEY = ContentHasher(bytes(16))
"""Nothing is compared by hashes here."""


class Held(StrEnum):
    """What a replica has at an offset, or why it has nothing there.

    Each value is the text that people read.
    """

    RECORD = "a record"
    COMMIT = "a COMMIT marker"
    ABORT = "an ABORT marker"
    EMPTIED = "an end marker that the cleaner has emptied"
    NOTHING = "nothing: the cleaner has removed it"
    DELETED = "no longer held: below the log start"
    NOT_REACHED = "never reached: the log ends below it"
    NOT_REPLICATED = "above the high watermark: no consumer gets it yet"
    UNREADABLE = "unreadable"
    SILENT = "not known: the broker did not answer"


class Served(StrEnum):
    """What a consumer of one replica gets at an offset: the record, nothing, or nothing yet.

    SHOWN is any record in read_uncommitted, and a record of no transaction in read_committed. NOT_SHOWN means that
    there is no record.
    """

    SHOWN = "shown"
    COMMITTED = "shown: committed"
    ABORTED = "left out: aborted"
    HELD_BACK = "held back: above the last stable offset"
    NOT_SHOWN = "nothing"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Record:
    """A record, or an end marker, as it lies in a log.

    Attributes:
        timestamp_ms: ms since 1970 UTC; -1 if it has none.
        leader_epoch: leader epoch of its batch.
        producer_id: its producer's id; -1 if it has none.
        producer_epoch: its producer's epoch; -1 if it has none.
        is_transactional: whether it is part of a transaction.
        key: bytes of its key; None if it has none, or if the key is too long to be read.
        value: bytes of its value; None for a tombstone, or if the value is too long to be read.
        key_size: size of its key in bytes; -1 if it has none.
        value_size: size of its value in bytes; -1 if it has none.
        headers: names and values, in their order; None if they are too long to be read.
    """

    timestamp_ms: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    key: bytes | None
    value: bytes | None
    key_size: int
    value_size: int
    headers: tuple[tuple[str, bytes | None], ...] | None


@dataclass(frozen=True, slots=True)
class AtOffset:
    """What one replica has at an offset.

    Attributes:
        held: what the replica has there, or why it has nothing.
        marks: the replica's log start, LSO, high watermark and log end; None if it did not answer.
        error: why the replica could not be asked, or the record not be read; None if nothing failed.
        record: the record or end marker there; None if there is none, or if it cannot be read.
        served: by isolation level, what a consumer of the replica gets there.
    """

    held: Held
    marks: Watermarks | None
    error: str | None
    record: Record | None
    served: Mapping[IsolationLevel, Served]


def at_offset(client: ReplicaClient, broker: int, place: TopicPartition, offset: int) -> AtOffset:
    """Ask one replica what it has at an offset, and what consumers of both isolation levels get there.

    READ and DESCRIBE on the topic are needed. If the broker does not answer, nothing is raised: the result says so in
    ``held`` and ``error``.

    Args:
        client: asks the broker.
        broker: id of the broker whose replica is asked.
        place: the partition.
        offset: the offset.
    """
    unknown = dict.fromkeys(IsolationLevel, Served.UNKNOWN)
    try:
        marks = watermarks_of(client, broker, place)
    except ReplicaError as error:
        return AtOffset(Held.SILENT, None, error.problem, None, unknown)
    if (outside := _outside(marks, offset)) is not None:
        return AtOffset(outside, marks, None, None, dict.fromkeys(IsolationLevel, Served.NOT_SHOWN))
    try:
        shown = {isolation: _read(client, broker, place, offset, isolation) for isolation in IsolationLevel}
    except OffsetOutOfRange:  # it was deleted, or truncated, meanwhile
        return AtOffset(Held.DELETED, marks, None, None, dict.fromkeys(IsolationLevel, Served.NOT_SHOWN))
    except ReplicaError as error:
        return AtOffset(Held.UNREADABLE, marks, error.problem, None, unknown)
    return _found(marks, offset, shown)


def _outside(marks: Watermarks, offset: int) -> Held | None:
    """Why a log has nothing there that could be fetched; None if it may have."""
    if offset < marks.log_start_offset:
        return Held.DELETED
    if offset >= marks.log_end_offset:
        return Held.NOT_REACHED
    return Held.NOT_REPLICATED if offset >= marks.high_watermark else None


@dataclass(frozen=True, slots=True)
class _Row:
    kind: RowKind
    outcome: Outcome
    record: Record


def _read(
    client: ReplicaClient, broker: int, place: TopicPartition, offset: int, isolation: IsolationLevel
) -> list[_Row]:
    chunks = read_range(
        client,
        broker,
        *place,
        offset,
        offset + 1,
        isolation=isolation,
        hasher=_UNUSED_KEY,
        payload=Payload.FULL,
        max_bytes=1 << 20,
    )
    return [_row(chunk, row) for chunk in chunks for row in range(len(chunk.columns))]


def _row(chunk: Any, row: int) -> _Row:
    columns = chunk.columns
    key, value, headers = (part[row].as_py() for part in (columns.keys, columns.values, columns.headers))
    record = Record(
        timestamp_ms=int(columns.timestamp[row]),
        leader_epoch=int(columns.leader_epoch[row]),
        producer_id=int(columns.producer_id[row]),
        producer_epoch=int(columns.producer_epoch[row]),
        is_transactional=bool(columns.transactional[row]),
        key=key,
        value=value,
        key_size=int(columns.key_size[row]),
        value_size=int(columns.value_size[row]),
        headers=None if headers is None else _headers(headers),
    )
    return _Row(RowKind(int(columns.kind[row])), Outcome(int(chunk.outcome[row])), record)


def _headers(raw: bytes) -> tuple[tuple[str, bytes | None], ...] | None:
    try:
        return headers_of(raw)
    except ValueError:
        return None


_KINDS = {
    RowKind.RECORD: Held.RECORD,
    RowKind.COMMIT: Held.COMMIT,
    RowKind.ABORT: Held.ABORT,
    RowKind.EMPTIED: Held.EMPTIED,
}
_SERVED = {Outcome.NONE: Served.SHOWN, Outcome.COMMITTED: Served.COMMITTED, Outcome.ABORTED: Served.ABORTED}


def _found(marks: Watermarks, offset: int, shown: Mapping[IsolationLevel, Sequence[_Row]]) -> AtOffset:
    """Put together what both readings show; what is undecided lies above the last stable offset."""
    rows = [row for isolation in reversed(IsolationLevel) for row in shown[isolation] if row.kind in _KINDS]
    if not rows:
        return AtOffset(Held.NOTHING, marks, None, None, dict.fromkeys(IsolationLevel, Served.NOT_SHOWN))
    first = rows[0]
    is_record = first.kind is RowKind.RECORD
    served = dict.fromkeys(IsolationLevel, Served.SHOWN if is_record else Served.NOT_SHOWN)
    if is_record:
        committed = [row.outcome for row in shown[IsolationLevel.READ_COMMITTED] if row.kind is RowKind.RECORD]
        is_above = offset >= marks.last_stable_offset
        decided = _SERVED.get(committed[0], Served.UNKNOWN) if committed else Served.NOT_SHOWN
        served[IsolationLevel.READ_COMMITTED] = Served.HELD_BACK if is_above and not committed else decided
    return AtOffset(_KINDS[first.kind], marks, None, first.record if is_record else _marker(first), served)


def _marker(row: _Row) -> Record | None:
    """Of an end marker whose it is counts; its key and value are Kafka's own."""
    return row.record if row.kind in (RowKind.COMMIT, RowKind.ABORT) else None


def headers_of(raw: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record as (name, value) pairs in their order; a null value is None.

    Args:
        raw: the headers as they lie in the record, from the number of headers on.

    Raises:
        ValueError: the bytes are broken.
    """
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(raw) or shift > 63:
                raise ValueError("headers that are broken")
            byte = raw[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def taken(size: int) -> bytes:
        nonlocal at
        if size > len(raw) - at:
            raise ValueError("headers that are broken")
        at += size
        return raw[at - size : at]

    found = []
    for _ in range(number()):
        name = taken(max(number(), 0)).decode(errors="replace")
        size = number()
        found.append((name, None if size < 0 else taken(size)))
    return tuple(found)


__all__ = ["AtOffset", "Held", "Record", "Served", "at_offset", "headers_of"]
