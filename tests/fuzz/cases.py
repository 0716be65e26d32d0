"""Record batches that no producer should write: drawn from a seed, with right CRCs where they are to be looked into."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random

import cramjam
import crc32c
import pyarrow as pa

from tests.unit.replica.batches import APPEND_TIME, HORIZON, TRANSACTIONAL, Batch, lz4, sized, varint, xerial

CODECS = (0, 0, 1, 2, 3, 4)
LENGTHS = (-(2**31), -70, -2, -1, 0, 1, 63, 64, 2**31 - 1)


def drawn_varint(random: Random, value: int) -> bytes:
    """A varint, now and then longer than it needs to be, or too long."""
    shortest = varint(value)
    if random.random() < 0.9:
        return shortest
    room = max(5 - len(shortest), 1)
    more = random.randint(1, room) if random.random() < 0.97 else random.choice((5, 9))
    stuffing = b"\x80" * (more - 1)
    # Of the fifth byte the lowest four bits count.
    last = bytes([random.randrange(8) << 4]) if len(shortest) + more == 5 else b"\0"
    return bytes(b | 0x80 for b in shortest) + stuffing + last


def drawn_bytes(random: Random, most: int = 30) -> bytes:
    """Bytes: text, broken text, noise, or zeros."""
    size = random.randrange(most) if random.random() < 0.95 else random.randrange(6000)
    kind = random.randrange(4)
    if kind == 0:
        return bytes(random.choice(b"abcdefgh") for _ in range(size))
    if kind == 1:
        return "".join(random.choice("aé€😀\u07ff\uffff") for _ in range(size // 2)).encode()
    if kind == 2:
        return bytes(
            random.choice(b"\x00\x41\x80\x8f\x90\xa0\xbf\xc1\xc2\xe0\xe1\xed\xf0\xf4\xf5\xff") for _ in range(size)
        )
    return random.randbytes(size)


def drawn_field(random: Random) -> bytes:
    """A length and as many bytes; sometimes null, sometimes a length that does not fit."""
    if random.random() < 0.003:
        return drawn_varint(random, random.choice(LENGTHS)) + drawn_bytes(random)
    if random.random() < 0.2:
        return drawn_varint(random, -1 if random.random() < 0.7 else -random.randrange(2, 1000))
    data = drawn_bytes(random)
    return drawn_varint(random, len(data)) + data


def drawn_record(random: Random, delta: int) -> bytes:
    """One record; its own length is mostly right."""
    count = random.choice((0, 0, 0, 1, 2, 5))
    named = [drawn_bytes(random) for _ in range(count)]
    headers = b"".join(drawn_varint(random, len(name)) + name + drawn_field(random) for name in named)
    if random.random() < 0.003:
        count = random.choice((-1, count + 1, 2**31 - 1))
    time = random.choice((0, 0, 1, -5, 2**40, -(2**62), 2**63 - 1))
    fields = drawn_varint(random, delta) + drawn_field(random) + drawn_field(random)
    body = bytes([random.choice((0, 0, 255))]) + varint(time) + fields + drawn_varint(random, count) + headers
    size = len(body) if random.random() < 0.997 else len(body) + random.randrange(-3, 4)
    return drawn_varint(random, size) + body


def drawn_batch(random: Random, base: int) -> Batch:
    """One batch with a right CRC."""
    records = []
    delta = random.choice((0, 0, 1))
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        records.append(drawn_record(random, delta))
        delta += random.choice((1, 1, 1, 2)) if random.random() < 0.99 else random.randrange(-3, 3)
    count = len(records) if random.random() < 0.99 else max(len(records) + random.randrange(-1, 2), 1)
    body = b"".join(records)
    if random.random() < 0.02:
        body += b"\0"
    return Batch(
        base,
        last_delta=max(delta, count) + random.choice((0, 0, 3)),
        count=count,
        body=body,
        codec=random.choice(CODECS),
        flags=random.choice((0, 0, APPEND_TIME, HORIZON, TRANSACTIONAL)),
        producer=random.choice((-1, 5)),
    )


def drawn_response(random: Random) -> bytes:
    """Some batches, whole or not."""
    base = random.choice((0, 7, 2**40))
    batches = []
    for _ in range(random.choice((1, 1, 2, 4))):
        batch = drawn_batch(random, base)
        batches.append(batch.encode())
        base = batch.last + random.choice((1, 1, 9))
    return mutated(random, batches)


def mutated(random: Random, batches: list[bytes]) -> bytes:
    """The batches as they are, or with changed bytes: under a right CRC, or any."""
    changes: tuple[Callable[[Random, bytes], bytes], ...] = (
        _same,
        _same,
        _same,
        _same,
        _same,
        _same,
        _changed,
        _resealed,
    )
    made = [random.choice(changes)(random, batch) for batch in batches]
    data = b"".join(made)
    return data[: random.randrange(len(data))] if random.random() < 0.03 else data


def _same(random: Random, batch: bytes) -> bytes:
    del random
    return batch


def _changed(random: Random, batch: bytes) -> bytes:
    """Bits flipped anywhere but in base offset, length and leader epoch, which no CRC covers."""
    changed = bytearray(batch)
    for _ in range(random.choice((1, 1, 3))):
        changed[random.randrange(16, len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _resealed(random: Random, batch: bytes) -> bytes:
    """Bits flipped in what is compressed (or in plain records), and the CRC made again."""
    changed = bytearray(batch)
    for _ in range(random.choice((1, 1, 3))):
        changed[random.randrange(61, len(changed))] ^= 1 << random.randrange(8)
    if random.random() < 0.1:
        del changed[random.randrange(61, len(changed)) :]
    return sealed(bytes(changed))


def sealed(batch: bytes) -> bytes:
    """A batch with its length and CRC made right."""
    covered = batch[21:]
    return (
        batch[:8]
        + struct.pack(">i", 9 + len(covered))
        + batch[12:17]
        + struct.pack(">I", crc32c.crc32c(covered))
        + covered
    )


def packed(codec: int, pieces: Iterable[bytes]) -> bytes:
    """Compress what comes piece by piece, so that no test needs the memory that the decoder must not need."""
    if codec == 1:
        made = zlib.compressobj(6, wbits=31)
        return b"".join([*(made.compress(piece) for piece in pieces), made.flush()])
    if codec == 2:
        blocks = (bytes(cramjam.snappy.compress_raw(piece)) for piece in pieces if piece)
        return xerial(b"") + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    if codec == 3:
        return lz4(b"")[:-4] + b"".join(lz4(piece)[7:-4] for piece in pieces) + bytes(4)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for piece in pieces:
            stream.write(piece)
    return bytes(sink.getvalue())


PIECE = 1 << 20


def bomb(codec: int, sizes: Sequence[int]) -> bytes:
    """A batch of records whose values are so many zeros: small as it is sent."""

    def pieces() -> Iterator[bytes]:
        held = bytearray()
        for delta, size in enumerate(sizes):
            head = b"\0" + varint(0) + varint(delta) + sized(b"key-%d" % (delta % 1000)) + varint(size)
            held += varint(len(head) + size + 1) + head
            for at in range(0, size, PIECE):
                held += bytes(min(PIECE, size - at))
                if len(held) >= PIECE:
                    yield bytes(held)
                    held.clear()
            held += varint(0)
        yield bytes(held)

    plain = Batch(0, last_delta=len(sizes) - 1, count=len(sizes), body=b"", flags=codec).encode()
    return sealed(plain + packed(codec, pieces()))
