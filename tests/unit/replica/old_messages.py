"""Writes messages of format v0 and v1 byte by byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import xxhash

from tests.unit.replica.batches import compress

Row = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp, key, value."""


ROWS: list[Row] = [(5, 70, b"k", b"old"), (6, 71, None, b""), (9, 60, b"gone", None), (300, 72, b"", b"x" * 200)]


def dated(magic: int, rows: Sequence[Row]) -> list[Row]:
    return [(offset, time if magic else -1, key, value) for offset, time, key, value in rows]


def message(magic: int, offset: int, time: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    stamp = struct.pack(">q", time) if magic else b""
    body = struct.pack(">bB", magic, attributes) + stamp + sized(key) + sized(value)
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def compressed(codec: int, data: bytes, magic: int) -> bytes:
    """As clients of that time compressed: in v0 the checksum of an lz4 header covers the magic number as well."""
    done = compress(codec, data)
    if codec != 3 or magic:
        return done
    return done[:6] + bytes([xxhash.xxh32(done[:6]).intdigest() >> 8 & 0xFF]) + done[7:]


CODECS = (1, 2, 3)
"""gzip, snappy, lz4."""


def wrapped(magic: int, codec: int, rows: Sequence[Row], *, attributes: int = 0, time: int = 0) -> bytes:
    """A compressed set, with offsets as brokers of that time wrote them."""
    first, last = rows[0][0], rows[-1][0]
    inner = b"".join(message(magic, o - first if magic else o, t, k, v) for o, t, k, v in rows)
    return message(magic, last, time, None, compressed(codec, inner, magic), codec | attributes)
