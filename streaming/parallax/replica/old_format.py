"""Messages of format v0 and v1 as record batches of format v2, so that all other code knows one format.

Brokers before Kafka 0.11 wrote such messages, and so did brokers up to 3.9 with an older ``message.format.version``.
They stay in a log until its cleaner rewrites it. A Fetch returns them as they lie in the log. They have no
transactions, producers, headers or leader epochs, and those of v0 have no timestamps. This module makes the same
batches of them as Kafka's own cleaner (``MemoryRecords.filterTo``, ``AbstractLegacyRecordBatch.DeepRecordsIterator``).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import crc32c
import numpy as np

from parallax.replica.errors import Unsupported

MAGIC = 16
"""The position of the format's number, in a message as in a batch."""
_PREFIX = struct.Struct(">qi")
_HEADS = struct.Struct(">IbB"), struct.Struct(">IbBq")
"""CRC, format, attributes, and in v1 the timestamp."""
_SIZE = struct.Struct(">i")
_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_LARGEST = 256 << 20
"""A compressed set of messages that holds more is not read. Producers of that time kept to about a megabyte."""
_STEP = 1 << 20
_TOGETHER = 1000
"""Messages that make one batch, at most."""
_BATCH = struct.Struct(">hiqqqhii")
"""From the attributes, which the CRC covers, to the number of records."""
_NO_BEYONDTAMP = -1
_BEYOND = 1 << 63
"""The first number that is too large for an offset, a timestamp, or a difference of two."""


class _BrokenError(Exception):
    """The bytes are no such message."""


class _Message(NamedTuple):
    """One message; ``key`` and ``value`` are None for null."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    size: int


def is_old(records: memoryview) -> bool:
    """Whether the records of a Fetch answer begin with a message of format v0 or v1.

    Then `as_batches` has to rewrite them.
    """
    return len(records) > MAGIC and records[MAGIC] < 2


def as_batches(records: memoryview) -> memoryview:
    """Rewrite the old messages at the beginning of a Fetch answer's records as batches of format v2.

    Args:
        records: the records of an answer that begins with old messages (`is_old`).

    Returns:
        Batches of all whole old messages before the first broken one. From there on, or after the last old message, the
            bytes are unchanged. A truncated message at the end stays too: no reader mistakes it for a batch.
    """
    made: list[bytes] = []
    loose: list[_Message] = []
    at = 0
    while is_old(records[at:]):
        try:
            message = _message(records, at)
            if message is None:
                break
            inner = list(_inner(message)) if message.attributes & _CODEC else []
        except _BrokenError:
            return memoryview(b"".join([*made, *_batches(loose), bytes(records[at:])]))
        if inner:
            made += [*_batches(loose), *_batches(inner)]
            loose = []
        else:
            loose.append(message)
        at += message.size
    made += _batches(loose)
    rest = records[at:]
    return memoryview(b"".join([*made, bytes(rest[:MAGIC] if is_old(rest) else rest)]))


def _message(data: memoryview, at: int) -> _Message | None:
    """The message at a place; None if it is cut short.

    Raises:
        _BrokenError: its checksum or its structure is wrong.
    """
    if at + _PREFIX.size > len(data):
        return None
    offset, size = _PREFIX.unpack_from(data, at)
    begin = at + _PREFIX.size
    end = begin + size
    if size < _HEADS[0].size + 2 * _SIZE.size:
        raise _BrokenError
    if end > len(data):
        return None
    magic = data[at + MAGIC]
    if magic > 1 or size < _HEADS[magic].size:
        raise _BrokenError
    crc, _, attributes, *rest = _HEADS[magic].unpack_from(data, begin)
    if zlib.crc32(data[begin + 4 : end]) != crc:
        raise _BrokenError
    key, place = _bytes(data, begin + _HEADS[magic].size, end)
    value, place = _bytes(data, place, end)
    if place != end:
        raise _BrokenError
    return _Message(offset, magic, attributes, rest[0] if rest else _NO_BEYONDTAMP, key, value, end - at)


def _bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, and the place behind them."""
    if at + _SIZE.size > end:
        raise _BrokenError
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    if size < 0:
        return None, at
    if at + size > end:
        raise _BrokenError
    return bytes(data[at : at + size]), at + size


def _inner(wrapper: _Message) -> Iterator[_Message]:
    """The messages of a compressed set, with their own offsets and timestamps."""
    data = memoryview(_inflated(wrapper))
    found: list[_Message] = []
    at = 0
    while at < len(data) and (message := _message(data, at)) is not None:
        if message.magic != wrapper.magic or message.attributes & _CODEC:
            raise _BrokenError
        found.append(message)
        at += message.size
    if not found:
        raise _BrokenError
    # In v1 they count from the set's beginning, and the set has the offset of its last one; 0 stands for offsets as
    # they are, of data that certain versions of librdkafka have produced.
    base = wrapper.offset - found[-1].offset if wrapper.magic and wrapper.offset else 0
    if base < 0 or max(one.offset for one in found) >= _BEYOND - base:
        raise _BrokenError
    by_broker = wrapper.magic and wrapper.attributes & _LOG_APPEND_TIME
    for one in found:
        yield one._replace(offset=base + one.offset, timestamp=wrapper.timestamp if by_broker else one.timestamp)


def _inflated(wrapper: _Message) -> bytes:
    # Arrow, which a client that never meets such messages does without.
    from parallax.replica.inflate import GZIP, LZ4, SNAPPY, BadStream, open_stream

    codec = wrapper.attributes & _CODEC
    if wrapper.value is None or codec not in (GZIP, SNAPPY, LZ4):
        raise _BrokenError
    body = wrapper.value
    if codec == LZ4 and not wrapper.magic:
        body = _with_right_checksum(body)
    stream, parts, size = open_stream(codec, memoryview(body)), [], 0
    while size <= _LARGEST:
        step = np.empty(_STEP, np.uint8)
        try:
            got = stream.fill(step)
        except (BadStream, Unsupported):
            raise _BrokenError from None
        parts.append(step[:got].tobytes())
        size += got
        if got < _STEP:
            return b"".join(parts)
    raise _BrokenError


_LZ4_MAGIC = 0x184D2204
_LZ4_SIZE, _LZ4_DICTIONARY = 0x08, 0x01


def _with_right_checksum(body: bytes) -> bytes:
    """A frame of lz4 whose header's checksum covers what it should: in v0 it covers the magic number as well."""
    if len(body) < 7 or int.from_bytes(body[:4], "little") != _LZ4_MAGIC:
        raise _BrokenError
    end = 6 + 8 * bool(body[4] & _LZ4_SIZE) + 4 * bool(body[4] & _LZ4_DICTIONARY)
    if len(body) <= end:
        raise _BrokenError
    changed = bytearray(body)
    changed[end] = (_xxh32(body[4:end]) >> 8) & 0xFF
    return bytes(changed)


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes (its specification, "Special case: input is less than 16 bytes")."""
    p1, p2, p3, p4, p5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    acc = (p5 + len(data)) & mask
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        acc = (acc + int.from_bytes(data[i : i + 4], "little") * p3) & mask
        acc = (((acc << 17) | (acc >> 15)) & mask) * p4 & mask
    for byte in data[whole:]:
        acc = (acc + byte * p5) & mask
        acc = (((acc << 11) | (acc >> 21)) & mask) * p1 & mask
    acc = ((acc ^ (acc >> 15)) * p2) & mask
    acc = ((acc ^ (acc >> 13)) * p3) & mask
    return acc ^ (acc >> 16)


def _batches(messages: list[_Message]) -> Iterator[bytes]:
    """Batches of messages whose offsets ascend; one whose does not begins a batch, which a reader then refuses."""
    at = 0
    while at < len(messages):
        end = at + 1
        while end < len(messages) and end - at < _TOGETHER and _goes_on(messages, at, end):
            end += 1
        yield _batch(messages[at:end])
        at = end


def _goes_on(messages: list[_Message], first: int, at: int) -> bool:
    """Whether a message fits into the batch of the first: the batch holds how far each number is above the first's."""
    began, one = messages[first], messages[at]
    return (
        messages[at - 1].offset < one.offset < began.offset + (1 << 31)
        and -_BEYOND <= one.timestamp - began.timestamp < _BEYOND
    )


def _batch(messages: list[_Message]) -> bytes:
    base, began = messages[0].offset, messages[0].timestamp
    records = b"".join(_record(one, one.offset - base, one.timestamp - began) for one in messages)
    latest = max(one.timestamp for one in messages)
    count = len(messages)
    rest = _BATCH.pack(0, messages[-1].offset - base, began, latest, -1, -1, -1, count) + records
    return struct.pack(">qiibI", base, len(rest) + 9, -1, 2, crc32c.crc32c(rest)) + rest


def _record(one: _Message, delta: int, later: int) -> bytes:
    body = b"".join((b"\0", _varint(later), _varint(delta), _sized(one.key), _sized(one.value), b"\0"))
    return _varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return b"\1" if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """A number in zigzag's form, seven bits to a byte."""
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


__all__ = ["as_batches", "is_old"]
