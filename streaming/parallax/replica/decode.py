"""Record batches to columns.

A Fetch response's records are walked once for the batch headers, checked by CRC32C, decompressed, and decoded by one
compiled kernel into numpy columns. Python runs per compressed batch, never per record.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import cramjam
import crc32c
import numpy as np
import pyarrow as pa

from parallax.replica import kernels
from parallax.replica.errors import CorruptBatch, ReplicaError, Unsupported

Array = np.ndarray[Any, np.dtype[Any]]

_SMALL_BATCH = 1024
"""Batches below this many bytes are checked inside compiled code: the call to the crc32c package would cost more."""
_MAX_INFLATED = 1 << 30
"""A response that decompresses to more than this is refused rather than let it take the process's memory."""


class Payload(StrEnum):
    """Which of a record's bytes leave the cluster beside their hashes (setting ``read.payload``)."""

    HASH = "hash"
    KEY = "key"
    FULL = "full"


@dataclass(frozen=True)
class ContentHasher:
    """The keyed identity of keys and contents: SipHash-2-4 (Aumasson, Bernstein 2012).

    A pseudo-random function: without the key a hash tells nothing about what was hashed, not even by guessing.
    The key's hash is the 128-bit variant. The content's is the 64-bit variant over the record's own bytes from the
    value's length to the end of the headers, so a null value differs from an empty one, and no byte can move
    between value and headers unnoticed.

    Args:
        key: 16 secret bytes; views are comparable only if they were hashed with the same key.

    Raises:
        ValueError: the key is not 16 bytes long.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != 16:
            raise ValueError(f"the hash key must be 16 bytes (128 bits), not {len(self.key)}")

    @staticmethod
    def random() -> ContentHasher:
        """A hasher with a new secret key."""
        return ContentHasher(os.urandom(16))

    @property
    def words(self) -> tuple[np.uint64, np.uint64]:
        """The key as SipHash takes it: two little-endian words."""
        low, high = struct.unpack("<QQ", self.key)
        return np.uint64(low), np.uint64(high)

    def key_hash(self, key: bytes | None) -> tuple[int, int]:
        """(hi, lo) as in the columns, (0, 0) for a null key; ``hi << 64 | lo`` is the digest read little-endian."""
        if key is None:
            return 0, 0
        low, high = kernels.siphash128(_frozen(key), 0, len(key), *self.words)
        return _signed(high), _signed(low)

    def content_hash(self, content: bytes) -> int:
        """Hash of a record's bytes from the value's length varint to the end of its headers."""
        return _signed(kernels.siphash64(_frozen(content), 0, len(content), *self.words))


@dataclass(frozen=True)
class Columns:
    """Records and markers in offset order, as arrays of equal length."""

    kind: Array
    """int8: RowKind (0 record, 1 commit marker, 2 abort marker)."""
    offset: Array
    """int64."""
    timestamp: Array
    """int64, milliseconds since the epoch: the producer's, or with LogAppendTime the broker's."""
    leader_epoch: Array
    """int32."""
    producer_id: Array
    """int64, -1 where none."""
    producer_epoch: Array
    """int16, -1 where none."""
    transactional: Array
    """bool."""
    key_hash_hi: Array
    """int64, 0 where the key is null and in markers."""
    key_hash_lo: Array
    """int64."""
    content_hash: Array
    """int64, 0 in markers."""
    key_size: Array
    """int32, -1 where the key is null and in markers."""
    value_size: Array
    """int32, -1 where the value is null and in markers."""
    keys: pa.BinaryArray | None
    """The keys, where asked for."""
    values: pa.BinaryArray | None
    """The values, where asked for."""
    headers: pa.BinaryArray | None
    """The headers as they lie in the record, from their count on, where asked for."""
    next_offset: int
    """Behind the last whole batch, whether it holds records or not; ``start`` where there was none."""
    batches: Array = field(repr=False)
    """int64[m, kernels.TABLE_WIDTH]: the headers of all whole batches, also of those below ``start``."""

    def __len__(self) -> int:
        return len(self.offset)


_DTYPES = {
    "kind": np.int8,
    "offset": np.int64,
    "timestamp": np.int64,
    "leader_epoch": np.int32,
    "producer_id": np.int64,
    "producer_epoch": np.int16,
    "transactional": np.bool_,
    "key_hash_hi": np.int64,
    "key_hash_lo": np.int64,
    "content_hash": np.int64,
    "key_size": np.int32,
    "value_size": np.int32,
}
"""The columns in the order in which the kernels take them."""


class Inflater:
    """Decompresses batches end to end into memory that it keeps for the next response."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)
        self._used = 0

    def inflate(self, data: memoryview, table: Array) -> Array:
        """Decompress every compressed batch; its body's place in ``table`` is then one in the array returned.

        Raises:
            CorruptBatch: a body cannot be decompressed.
            Unsupported: an unknown codec, or too much data.
        """
        self._used = 0
        codecs = table[:, kernels.ATTRIBUTES] & kernels.CODEC
        # A batch that the cleaner has emptied has nothing to decompress, whatever codec it names.
        emptied = table[:, kernels.COUNT] == 0
        table[(codecs != 0) & emptied, kernels.END] = table[(codecs != 0) & emptied, kernels.BODY]
        for i in np.flatnonzero((codecs != 0) & ~emptied):
            row = table[i]
            body = data[row[kernels.BODY] : row[kernels.END]]
            start = self._used
            try:
                self._append(int(codecs[i]), body)
            except cramjam.DecompressionError as error:
                base = int(row[kernels.BASE])
                problem = f"batch at offset {base}: does not decompress ({error})"
                raise CorruptBatch(problem, base_offset=base, intact=int(row[kernels.AT])) from None
            row[kernels.BODY], row[kernels.END], row[kernels.INFLATED] = start, self._used, 1
        return self._memory

    def _append(self, codec: int, body: memoryview) -> None:
        if codec == 2:
            for block in _snappy_blocks(body):
                size = cramjam.snappy.decompress_raw_len(block)
                self._used += cramjam.snappy.decompress_raw_into(block, self._room(size).data)
            return
        if codec not in _CODECS:
            raise Unsupported(f"compression codec {codec} is not known")
        room = self._room(0)
        while True:
            try:
                self._used += _CODECS[codec](body, room.data)
                return
            except cramjam.DecompressionError as error:
                # The memory suffices but for the first batches; then the batch is done again with more of it.
                if _TOO_SMALL not in str(error):
                    raise
            left = _MAX_INFLATED - self._used
            room = self._room(max(min(4 * max(room.size, len(body)), left), room.size + 1))

    def _room(self, size: int) -> Array:
        """The unused memory, at least ``size`` bytes of it."""
        needed = self._used + size
        if needed > _MAX_INFLATED:
            raise Unsupported(
                f"a response decompresses to more than {_MAX_INFLATED >> 20} MiB; fetch fewer bytes at once"
            )
        if needed > self._memory.size:
            grown = np.empty(max(needed + needed // 4, 1 << 20), np.uint8)
            grown[: self._used] = self._memory[: self._used]
            self._memory = grown
        return self._memory[self._used :]


_CODECS: dict[int, Callable[..., int]] = {
    1: cramjam.gzip.decompress_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}
_TOO_SMALL = "failed to write whole buffer"
"""What Rust's standard library, and so cramjam, says when the memory given does not suffice (io::Write::write_all)."""

_XERIAL = b"\x82SNAPPY\x00"


def _snappy_blocks(body: memoryview) -> list[memoryview]:
    """The raw snappy blocks of a body: in snappy-java's framing, which the Java client writes, or the body itself."""
    if bytes(body[:8]) != _XERIAL:
        return [body]
    blocks = []
    at = 16
    while at < len(body):
        if at + 4 > len(body):
            raise cramjam.DecompressionError("its framing is cut off")
        size = int.from_bytes(body[at : at + 4], "big", signed=True)
        at += 4
        if size < 0 or at + size > len(body):
            raise cramjam.DecompressionError("a block of its framing runs beyond its end")
        blocks.append(body[at : at + size])
        at += size
    return blocks


def decode(
    records: Any,
    *,
    hasher: ContentHasher,
    payload: Payload = Payload.HASH,
    start: int = 0,
    end: int | None = None,
    inflater: Inflater | None = None,
) -> Columns:
    """Decode the record batches of a Fetch response.

    Args:
        records: bytes-like; whole batches of format v2, the last possibly cut off. Not referred to afterwards.
        hasher: identity of keys and contents.
        payload: which bytes to copy out beside the hashes.
        start: rows below this offset are left out.
        end: rows at or above this offset are left out; no limit by default.
        inflater: reuses memory from call to call, of one thread; by default each call takes its own.

    Raises:
        CorruptBatch: a CRC or the structure is wrong; it names the batch's base offset.
        Unsupported: an old message format or an unknown codec.
    """
    data = _frozen(records)
    table = _checked_table(data)
    inflated = (inflater or Inflater()).inflate(data.data, table)
    inflated = inflated.view()
    inflated.flags.writeable = False
    rows = int(table[:, kernels.COUNT].sum())
    _check_counts(table)
    out: tuple[Any, ...] = tuple(np.empty(rows, dtype) for dtype in _DTYPES.values())
    spans = np.empty((rows if payload is not Payload.HASH else 0, 6), np.int64)
    stop = np.iinfo(np.int64).max if end is None else end
    n, problem, batch = kernels.decode(data, inflated, table, start, stop, *hasher.words, out, spans)
    if problem:
        raise _corrupt(problem, table[batch])
    keys, values, headers = _payload(payload, data, inflated, table, spans[:n])
    next_offset = int(table[-1, kernels.LAST]) + 1 if len(table) else start
    columns: dict[str, Any] = {name: column[:n] for name, column in zip(_DTYPES, out, strict=True)}
    return Columns(**columns, keys=keys, values=values, headers=headers, next_offset=next_offset, batches=table)


def _frozen(data: Any) -> Array:
    """A read-only array of bytes: the one type that the kernels are compiled for."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


def _signed(word: int) -> int:
    return int(word) - (1 << 64) if int(word) >> 63 else int(word)


def batch_table(records: Any) -> Array:
    """The headers of the whole batches, int64[m, kernels.TABLE_WIDTH], unchecked by CRC."""
    data = _frozen(records)
    table, problem, at = kernels.walk(data)
    if problem:
        base = int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)
        raise _corrupt(problem, {kernels.BASE: base, kernels.AT: at})
    return table


def _checked_table(data: Array) -> Array:
    table = batch_table(data)
    bad = kernels.check_small(data, table, _SMALL_BATCH)
    if bad < 0:
        sizes = table[:, kernels.END] - table[:, kernels.AT]
        view = data.data
        for i in np.flatnonzero(sizes >= _SMALL_BATCH):
            at, end, crc = (int(table[i, c]) for c in (kernels.AT, kernels.END, kernels.CRC))
            if crc32c.crc32c(view[at + 21 : end]) != crc:
                bad = int(i)
                break
    if bad >= 0:
        raise _corrupt(kernels.BAD_CRC, table[bad])
    return table


def _check_counts(table: Array) -> None:
    """Before memory is taken for them: as many records as a batch claims must fit into its bytes."""
    size = table[:, kernels.END] - table[:, kernels.BODY]
    wrong = np.flatnonzero(table[:, kernels.COUNT] * kernels.SMALLEST_RECORD > size)
    if len(wrong):
        raise _corrupt(kernels.BAD_COUNT, table[wrong[0]])


def _corrupt(problem: int, row: Any) -> ReplicaError:
    what, base, at = kernels.PROBLEMS[problem], int(row[kernels.BASE]), int(row[kernels.AT])
    if problem == kernels.OLD_FORMAT:
        return Unsupported(f"batch at offset {base}: {what}; let the topic be rewritten by Kafka 4.0 or later")
    return CorruptBatch(
        f"batch at offset {base}: {what}; look at this replica's log segment", base_offset=base, intact=at
    )


def _payload(payload: Payload, raw: Array, inflated: Array, table: Array, spans: Array) -> tuple[Any, Any, Any]:
    if payload is Payload.HASH:
        return None, None, None
    key = _binary(raw, inflated, table, spans, 0)
    if payload is Payload.KEY:
        return key, None, None
    return key, _binary(raw, inflated, table, spans, 2), _binary(raw, inflated, table, spans, 4)


def _binary(raw: Array, inflated: Array, table: Array, spans: Array, position: int) -> Any:
    """One field of every record as an Arrow binary array; size -1 is null."""
    sizes = spans[:, position + 1]
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(np.maximum(sizes, 0), out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise Unsupported("a response holds more than 2 GiB of payload; fetch fewer bytes at once")
    target = np.empty(int(offsets[-1]), np.uint8)
    offsets = offsets.astype(np.int32)
    kernels.gather(raw, inflated, table, spans, position, offsets, target)
    valid = pa.array(sizes >= 0)
    buffers = [valid.buffers()[1], pa.py_buffer(offsets.data), pa.py_buffer(target.data)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
