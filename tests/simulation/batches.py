"""Record batches as Kafka lays them out on disk and on the wire (format v2), written from its protocol description.

Shares no code with the decoder. What the model's batch leaves open (codec, kind of timestamp, where the first timestamp
lies) follows from a number, so that all replicas hold the same bytes until one of them cleans its copy.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache

import cramjam
import crc32c

from tests.simulation.records import Batch, Record

CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
COORDINATOR_EPOCH = 3


def key_bytes(key: int | None) -> bytes | None:
    """The key as its producer writes it."""
    return None if key is None else b"key-%d" % key


def value_bytes(value: int | None) -> bytes | None:
    """The value as its producer writes it: None is a tombstone; some are empty, some long."""
    if value is None:
        return None
    return b"" if value == 0 else b"%d;" % value * (40 if value % 7 == 0 else 1)


def header_list(value: int | None) -> list[tuple[bytes, bytes | None]]:
    """The headers that go with a value."""
    if value is None:
        return [(b"why", b"deleted")]
    return [(b"trace", b"%d" % value), (b"", None)] if value % 5 == 0 else []


def content_bytes(value: int | None) -> bytes:
    """A record's bytes from the value's length to the end of its headers."""
    headers = header_list(value)
    return _sized(value_bytes(value)) + _varint(len(headers)) + b"".join(_sized(n) + _sized(v) for n, v in headers)


@lru_cache(maxsize=4096)
def encode(batch: Batch, salt: int = 0) -> bytes:
    """The bytes of a batch.

    Args:
        batch: one of the model.
        salt: decides, with the batch's place and time, what the model leaves open.
    """
    drawn = zlib.crc32(b"%d/%d/%d" % (salt, batch.base, batch.timestamp))
    # The cleaner rewrites the header of an empty batch without a codec; others keep it.
    plain = batch.control or (not batch.records and (drawn >> 16) % 2 == 0)
    codec = 0 if plain else drawn % 5
    attributes = codec | TRANSACTIONAL * batch.transactional | CONTROL * batch.control
    if (drawn >> 12) % 3 == 0 and not batch.control:
        attributes |= LOG_APPEND_TIME
    first = batch.timestamp - (drawn >> 8) % 3 * 70
    if batch.horizon is not None:
        attributes |= DELETE_HORIZON
        first = batch.horizon
    if batch.marker is not None:
        records = [_marker(batch, first)]
    else:
        records = [_of_model(record, batch, first) for record in batch.records]
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        batch.last - batch.base,
        first if records else batch.timestamp,
        batch.timestamp,
        batch.producer_id,
        batch.producer_epoch,
        -1 if batch.producer_id < 0 or batch.control else batch.base,
        len(records),
    )
    if records:
        covered += _COMPRESS[codec](b"".join(records))
    head = struct.pack(">qiibI", batch.base, 9 + len(covered), batch.leader_epoch, 2, crc32c.crc32c(covered))
    return head + covered


def _marker(batch: Batch, first: int) -> bytes:
    """The one record of a control batch: versions, type of marker, the coordinator's epoch."""
    assert batch.marker is not None
    content = _sized(struct.pack(">hi", 0, COORDINATOR_EPOCH)) + _varint(0)
    return _record(0, batch.timestamp - first, struct.pack(">hh", 0, int(batch.marker)), content)


def _of_model(record: Record, batch: Batch, first: int) -> bytes:
    key = key_bytes(record.key)
    return _record(record.offset - batch.base, batch.timestamp - first, key, content_bytes(record.value))


def _record(offset_delta: int, time_delta: int, key: bytes | None, content: bytes) -> bytes:
    body = b"\0" + _varint(time_delta) + _varint(offset_delta) + _sized(key) + content
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """A signed number in zigzag order, seven bits a byte, the lowest first."""
    left = 2 * number if number >= 0 else -2 * number - 1
    made = b""
    while left >= 0x80:
        made += bytes([left % 0x80 + 0x80])
        left //= 0x80
    return made + bytes([left])


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _snappy(data: bytes) -> bytes:
    """Framed as snappy-java does it, in two blocks."""
    half = max(1, len(data) // 2)
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + half])) for at in range(0, len(data), half)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


_COMPRESS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    lambda data: gzip.compress(data, 1),
    _snappy,
    lambda data: bytes(cramjam.lz4.compress(data)),
    lambda data: bytes(cramjam.zstd.compress(data)),
)
