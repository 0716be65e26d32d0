"""Writes record batches byte by byte, so that tests can also write what no producer would."""

from __future__ import annotations

import codecs
import gzip
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cramjam
import crc32c
import xxhash
from hypothesis import strategies as st

Header = tuple[bytes, bytes | None]


def varint(value: int) -> bytes:
    """Zigzag varint, as protobuf's sint64."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def java_text(data: bytes) -> bytes:
    """The bytes of a text after java.lang.String has decoded and encoded it: U+FFFD for what is no UTF-8."""

    def replaced(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        # Half of a surrogate pair is one fault to Java, where Python sees one in each byte.
        half = re.match(rb"\xed[\xa0-\xbf][\x80-\xbf]?", error.object[error.start :])
        return "\ufffd", error.start + len(half[0]) if half else error.end

    codecs.register_error("java", replaced)
    return data.decode("utf-8", "java").encode()


@dataclass(frozen=True)
class Record:
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    delta: int = 0
    time_delta: int = 0

    @property
    def header_bytes(self) -> bytes:
        items = b"".join(varint(len(name)) + name + sized(value) for name, value in self.headers)
        return varint(len(self.headers)) + items

    @property
    def content(self) -> bytes:
        """Value and headers in canonical form: what is hashed."""
        items = b"".join(sized(java_text(name)) + sized(value) for name, value in self.headers)
        return sized(self.value) + varint(len(self.headers)) + items

    def encode(self) -> bytes:
        body = (
            b"\0"
            + varint(self.time_delta)
            + varint(self.delta)
            + sized(self.key)
            + sized(self.value)
            + self.header_bytes
        )
        return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    base: int = 0
    records: Sequence[Record] = ()
    last_delta: int | None = None
    codec: int = 0
    flags: int = 0
    epoch: int = 0
    base_time: int = 1_700_000_000_000
    max_time: int = 1_700_000_000_500
    producer: int = -1
    producer_epoch: int = -1
    count: int | None = None
    body: bytes | None = field(default=None, repr=False)

    @property
    def last(self) -> int:
        if self.last_delta is not None:
            return self.base + self.last_delta
        return self.base + (self.records[-1].delta if self.records else 0)

    def encode(self) -> bytes:
        body = b"".join(r.encode() for r in self.records) if self.body is None else self.body
        covered = struct.pack(
            ">hiqqqhii",
            self.codec | self.flags,
            self.last - self.base,
            self.base_time,
            self.max_time,
            self.producer,
            self.producer_epoch,
            -1,
            len(self.records) if self.count is None else self.count,
        ) + compress(self.codec, body)
        length = 4 + 1 + 4 + len(covered)
        return struct.pack(">qiibI", self.base, length, self.epoch, 2, crc32c.crc32c(covered)) + covered


def compress(codec: int, data: bytes) -> bytes:
    if codec == 0 or not data:
        return data
    if codec == 1:
        return gzip.compress(data)
    if codec == 2:
        return xerial(data)
    return lz4(data) if codec == 3 else bytes(cramjam.zstd.compress(data))


def lz4(data: bytes, block: int = 1 << 16) -> bytes:
    """An lz4 frame of independent blocks, as Kafka's clients write it (Lz4BlockOutputStream)."""
    descriptor = b"\x60\x40"  # version 1, independent blocks; of 64 KiB
    out = [b"\x04\x22\x4d\x18", descriptor, bytes([xxhash.xxh32(descriptor).intdigest() >> 8 & 0xFF])]
    for at in range(0, len(data), block):
        plain = data[at : at + block]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        small = len(packed) < len(plain)
        size = len(packed) if small else len(plain) | 1 << 31
        out.append(struct.pack("<I", size) + (packed if small else plain))
    return b"".join([*out, bytes(4)])


def xerial(data: bytes, block: int = 1 << 15) -> bytes:
    """snappy-java's framing: a magic, two versions, then blocks with their sizes in network order."""
    out = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for at in range(0, len(data), block):
        packed = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out.append(struct.pack(">i", len(packed)) + packed)
    return b"".join(out)


TRANSACTIONAL, CONTROL, APPEND_TIME, HORIZON = 0x10, 0x20, 0x08, 0x40


def marker(base: int, producer: int, *, commit: bool, epoch: int = 0) -> Batch:
    record = Record(key=struct.pack(">hh", 0, int(commit)), value=struct.pack(">hi", 0, 7))
    return Batch(base, [record], flags=TRANSACTIONAL | CONTROL, producer=producer, producer_epoch=epoch)


def transactional(base: int, producer: int, records: int = 1) -> Batch:
    held = [Record(b"k", b"v%d" % (base + i), delta=i) for i in range(records)]
    return Batch(base, held, flags=TRANSACTIONAL, producer=producer, producer_epoch=0)


_small = st.binary(max_size=40)
_record = st.builds(
    Record,
    key=st.none() | _small,
    value=st.none() | _small | st.binary(min_size=60, max_size=400),
    headers=st.lists(st.tuples(_small, st.none() | _small), max_size=3),
    time_delta=st.integers(-(2**40), 2**40),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Batches as a compacted log may hold them: gaps between and inside batches, empty ones, all codecs."""
    at = draw(st.integers(0, 2**40))
    batches = []
    for _ in range(draw(st.integers(0, 6))):
        at += draw(st.integers(0, 3))
        held = []
        delta = 0
        for record in draw(st.lists(_record, max_size=8)):
            delta += draw(st.integers(0, 2))
            held.append(replace(record, delta=delta))
            delta += 1
        batch = Batch(
            base=at,
            records=held,
            last_delta=delta + draw(st.integers(0, 2)),
            codec=draw(st.integers(0, 4)),
            flags=draw(st.sampled_from([0, APPEND_TIME, HORIZON, TRANSACTIONAL])),
            epoch=draw(st.integers(0, 2**31 - 1)),
            producer=draw(st.integers(-1, 2**62)),
            producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        )
        batches.append(batch)
        at = batch.last + 1
    return batches


def not_below(data: bytes, offset: int) -> bytes:
    """The batches that do not end below an offset."""
    while len(data) > 27:
        base, length, last_delta = struct.unpack_from(">qi11xi", data)
        if base + last_delta >= offset:
            return data
        data = data[12 + length :]
    return b""
