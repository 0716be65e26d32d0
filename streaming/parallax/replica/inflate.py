"""Decompresses record batches with bounded memory.

Small batches are decompressed whole, into memory that is used again. Large ones are decompressed as a stream, some
bytes at a time, since a batch's header gives its compressed size only, and 35 KB of zstd may hold a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import cramjam
import numpy as np
import pyarrow as pa

from parallax.replica.errors import Unsupported

Array = np.ndarray[Any, np.dtype[Any]]

WINDOW = 32 << 20
"""Bytes that are decompressed at a time, and the most that an `Inflater` keeps."""
_FIRST = 1 << 20
_LARGEST_BLOCK = 256 << 20
"""A block of snappy can only be decompressed whole; producers write 32 KiB."""
_SNAPPY_RATIO = 22
"""Three bytes of snappy stand for 64 bytes at most (its format description, "copies")."""

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
"""Codecs by their number in a batch's attributes (org.apache.kafka.common.record.CompressionType)."""


class BadStream(Exception):  # noqa: N818 - it says what happened
    """The bytes of a compressed batch are no valid stream of its codec, or end too early."""


class Inflater:
    """Decompresses several batches one after another into one piece of memory of at most 32 MiB (`WINDOW`)."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)
        self._used = 0

    @property
    def memory(self) -> Array:
        """The memory with the decompressed bytes of all batches that were added, as a read-only array."""
        memory = self._memory.view()
        memory.flags.writeable = False
        return memory

    def clear(self) -> None:
        """Forget the decompressed batches: the next batch is written to the front of the memory."""
        self._used = 0

    def release(self) -> None:
        """Free the memory and forget the decompressed batches."""
        self._memory, self._used = np.empty(0, np.uint8), 0

    def add(self, codec: int, body: memoryview) -> tuple[int, int] | None:
        """Decompress one batch into the memory, directly after the batches before it.

        Args:
            codec: the codec's number: `GZIP`, `SNAPPY`, `LZ4` or `ZSTD`.
            body: the batch's compressed bytes.

        Returns:
            A tuple: the index in `memory` at which the batch begins, and the one after its end. None if the batch does
            not fit; then nothing was added.

        Raises:
            BadStream: the batch cannot be decompressed.
            Unsupported: an unknown codec.
        """
        start = self._used
        try:
            fits = self._add_snappy(body) if codec == SNAPPY else self._add(codec, body)
        except cramjam.DecompressionError as error:
            self._used = start
            raise BadStream(str(error)) from None
        if not fits:
            self._used = start
            return None
        return start, self._used

    def _add_snappy(self, body: memoryview) -> bool:
        for block in _snappy_blocks(body):
            room = self._room(_snappy_size(block))
            if room is None:
                return False
            self._used += cramjam.snappy.decompress_raw_into(block, room.data)
        return True

    def _add(self, codec: int, body: memoryview) -> bool:
        if codec not in _WHOLE:
            raise Unsupported(f"compression codec {codec} is not known")
        body = _as_java_reads(codec, body)
        room = self._room(0)
        while room is not None:
            try:
                self._used += _WHOLE[codec](body, room.data)
            except cramjam.DecompressionError as error:
                if _TOO_SMALL not in str(error):
                    raise
                # The memory suffices but for the first batches; then the batch is done again with more of it.
                room = self._room(max(min(4 * max(room.size, len(body)), WINDOW - self._used), room.size + 1))
            else:
                return True
        return False

    def _room(self, size: int) -> Array | None:
        """The unused memory, at least ``size`` bytes of it; None if that would be too much."""
        needed = self._used + size
        if needed > WINDOW:
            return None
        if needed > self._memory.size:
            grown = np.empty(min(max(needed + needed // 4, _FIRST), WINDOW), np.uint8)
            grown[: self._used] = self._memory[: self._used]
            self._memory = grown
        return self._memory[self._used :]


_WHOLE: dict[int, Callable[..., int]] = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
_TOO_SMALL = "failed to write whole buffer"
"""What Rust's standard library, and so cramjam, says when the memory given does not suffice (io::Write::write_all)."""


class Stream(Protocol):
    """A compressed batch that is decompressed some bytes at a time, in order."""

    def fill(self, target: Array) -> int:
        """Write the next bytes to ``target``, as many as fit; returns how many, fewer only at the stream's end.

        Raises:
            BadStream: the rest cannot be decompressed.
            Unsupported: decompressing would take too much memory.
        """


def open_stream(codec: int, body: memoryview) -> Stream:
    """Open a compressed batch as a stream, to decompress it some bytes at a time.

    Args:
        codec: the codec's number: `GZIP`, `SNAPPY`, `LZ4` or `ZSTD`.
        body: the batch's compressed bytes.

    Raises:
        Unsupported: an unknown codec.
    """
    if codec == SNAPPY:
        return _Snappy(body)
    if codec not in _STREAMED:
        raise Unsupported(f"compression codec {codec} is not known")
    return _Arrow(codec, body)


_STREAMED: dict[int, Any] = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}


class _Arrow:
    """gzip, lz4 and zstd, by Arrow's streams: their memory is the codec's own window."""

    def __init__(self, codec: int, body: memoryview) -> None:
        body = _as_java_reads(codec, body)
        self._stream: Any = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), _STREAMED[codec])

    def fill(self, target: Array) -> int:
        done = 0
        while done < target.size:
            try:
                got = int(self._stream.readinto(target[done:].data))
            except (OSError, pa.ArrowException) as error:
                raise BadStream(" ".join(str(error).split())) from None
            if not got:
                break
            done += got
        return done


_GZIP_FLAGS, _GZIP_RESERVED = 3, 0xE0
_LZ4_FLAGS, _LZ4_CONTENT_CHECKSUM = 4, 0x04
_LZ4_OTHER_END = b"\x00\x00\x00\x80"


def _as_java_reads(codec: int, body: memoryview) -> memoryview:
    """A body without what other decoders refuse and Kafka's own pass over.

    These are gzip's reserved flags (RFC 1952, 2.3.1.2, has a reader refuse them), and an end mark of lz4 that says that
    its block is not compressed (KafkaLZ4BlockInputStream looks at the size alone).
    """
    if codec == GZIP and len(body) > _GZIP_FLAGS and body[_GZIP_FLAGS] & _GZIP_RESERVED:
        return _with(body, _GZIP_FLAGS, body[_GZIP_FLAGS] & ~_GZIP_RESERVED)
    if codec == LZ4 and len(body) > _LZ4_FLAGS and not body[_LZ4_FLAGS] & _LZ4_CONTENT_CHECKSUM:
        return _with(body, len(body) - 1, 0) if body[-4:] == _LZ4_OTHER_END else body
    return body


def _with(body: memoryview, at: int, value: int) -> memoryview:
    changed = bytearray(body)
    changed[at] = value
    return memoryview(changed)


class _Snappy:
    """snappy, block by block."""

    def __init__(self, body: memoryview) -> None:
        self._blocks = _snappy_blocks(body)
        self._left = np.empty(0, np.uint8)

    def fill(self, target: Array) -> int:
        done = 0
        while done < target.size:
            if not self._left.size and not self._next():
                break
            taken = min(self._left.size, target.size - done)
            target[done : done + taken] = self._left[:taken]
            self._left = self._left[taken:]
            done += taken
        return done

    def _next(self) -> bool:
        try:
            block = next(self._blocks, None)
            if block is None:
                return False
            size = _snappy_size(block)
            if size > _LARGEST_BLOCK:
                raise Unsupported(f"a block of snappy holds {size >> 20} MiB, more than {_LARGEST_BLOCK >> 20}")
            self._left = np.empty(size, np.uint8)
            cramjam.snappy.decompress_raw_into(block, self._left.data)
        except cramjam.DecompressionError as error:
            raise BadStream(str(error)) from None
        return True


_XERIAL = b"\x82SNAPPY\x00"


def _snappy_blocks(body: memoryview) -> Iterator[memoryview]:
    """The raw snappy blocks of a body: in snappy-java's framing, which the Java client writes, or the body itself."""
    if bytes(body[:8]) != _XERIAL:
        yield body
        return
    at = 16
    while at < len(body):
        if at + 4 > len(body):
            raise cramjam.DecompressionError("its framing is cut short")
        size = int.from_bytes(body[at : at + 4], "big", signed=True)
        at += 4
        if size < 0 or at + size > len(body):
            raise cramjam.DecompressionError("a block of its framing runs beyond its end")
        yield body[at : at + size]
        at += size


def _snappy_size(block: memoryview) -> int:
    """Bytes that a block says it holds.

    Raises:
        cramjam.DecompressionError: more than it can hold.
    """
    size = int(cramjam.snappy.decompress_raw_len(block))
    if size > _SNAPPY_RATIO * len(block):
        raise cramjam.DecompressionError(f"{len(block)} bytes cannot hold the {size} that they announce")
    return size
