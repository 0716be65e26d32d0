"""Decodes the record batches of a Fetch response into columns, one row for each record or end marker.

One pass over a Fetch response finds the batch headers. The batches are checked by CRC32C and decompressed. Compiled
code decodes them into numpy columns. Python runs once per compressed batch, never per record.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa

from parallax.replica import kernels
from parallax.replica.errors import ReplicaError, Unsupported
from parallax.replica.inflate import Array, BadStream, Inflater
from parallax.replica.parts import (
    DTYPES,
    SLICE_ROWS,
    LargeBatch,
    Wanted,
    broken_message,
    corrupt,
    empty_rows,
    of_batch,
    signed,
)

_MAGIC, _CURRENT = 16, 2
"""Where a batch says which format it is of, and the one that is decoded."""
_SMALL_BATCH = 1024
"""Batches below this many bytes are checked inside compiled code. The call to the crc32c package would cost more."""


class Payload(StrEnum):
    """Which bytes of a record are recorded besides hashes: none, keys, or all (setting ``read.payload``)."""

    HASH = "hash"
    KEY = "key"
    FULL = "full"


@dataclass(frozen=True)
class ContentHasher:
    """Hashes keys and contents of records with a secret key, by SipHash-2-4 (Aumasson, Bernstein 2012).

    Equal hashes stand for equal keys or contents. Without the secret key, a hash reveals nothing about what was hashed,
    not even to somebody who guesses.

    A record's key gets a hash of 128 bits. Its content, that is value and headers, gets one of 64 bits, over the bytes
    from the value's length to the end of the headers. So a null value differs from an empty one, and a byte that moved
    from value to headers would be noticed. Bytes are hashed in the form in which a cleaner writes them again: lengths
    are as short as possible, null is -1, and names of headers are decoded and encoded as Java does it
    (`parallax.model.CONTENT_VERSION`).

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
        """The secret key as two little-endian 64-bit words, the form that SipHash uses."""
        low, high = struct.unpack("<QQ", self.key)
        return np.uint64(low), np.uint64(high)

    def key_hash(self, key: bytes | None) -> tuple[int, int]:
        """The 128-bit hash of a record's key, as (high, low) signed 64-bit halves as in `Columns`; (0, 0) for null.

        With unsigned halves, ``high << 64 | low`` is the digest read as a little-endian number.
        """
        if key is None:
            return 0, 0
        low, high = kernels.siphash128(_frozen(key), 0, len(key), *self.words)
        return signed(high), signed(low)

    def content_hash(self, content: bytes) -> int:
        """The 64-bit hash of a record's value and headers.

        Args:
            content: the record's bytes from the value's length to the end of the headers.
        """
        return signed(kernels.siphash64(_frozen(content), 0, len(content), *self.words))


@dataclass(frozen=True)
class Columns:
    """Decoded rows of one partition: records and end markers in offset order, as arrays of equal length."""

    kind: Array
    """int8: RowKind (0 record, 1 commit marker, 2 abort marker, 4 listed, 5 emptied)."""
    offset: Array
    """int64: the row's offset."""
    timestamp: Array
    """int64, ms since 1970 UTC: the producer's timestamp, or with LogAppendTime the broker's."""
    leader_epoch: Array
    """int32: leader epoch of the row's batch."""
    producer_id: Array
    """int64, -1 where none."""
    producer_epoch: Array
    """int16, -1 where none."""
    transactional: Array
    """bool: whether the row's batch is of a transaction."""
    key_hash_hi: Array
    """int64: high half of the key's hash; 0 where the key is null and in markers."""
    key_hash_lo: Array
    """int64: low half of the same hash."""
    content_hash: Array
    """int64, 0 in markers."""
    key_size: Array
    """int32, -1 where the key is null and in markers."""
    value_size: Array
    """int32, -1 where the value is null and in markers."""
    keys: pa.BinaryArray | None
    """The keys; None if they were not asked for."""
    values: pa.BinaryArray | None
    """The values; None if they were not asked for."""
    headers: pa.BinaryArray | None
    """The headers as in the record, from their count on; None if they were not asked for."""
    next_offset: int
    """The next offset to read: the one after the last whole batch, even if that batch holds no record.

    Where the rows end within a batch, it is the offset after the last row. Without any batch, it is the offset where
    reading began.
    """
    batches: Array = field(repr=False)
    """int64[m, kernels.TABLE_WIDTH]: the headers of all whole batches, also of those without a row here."""

    def __len__(self) -> int:
        return len(self.offset)

    def only(self, wanted: Array) -> Columns:
        """A copy that holds only some of the rows.

        Its ``batches`` are still the headers of all batches, so their row counts do not fit the copy.

        Args:
            wanted: bool[n], whether to keep each row.
        """
        kept: dict[str, Any] = {name: getattr(self, name)[wanted] for name in DTYPES}
        for name in ("keys", "values", "headers"):
            payload = getattr(self, name)
            kept[name] = None if payload is None else payload.filter(pa.array(wanted))
        return replace(self, **kept)

    def epochs_at(self, offsets: Sequence[int]) -> dict[int, int]:
        """The leader epoch at each of ``offsets``, by offset.

        It is that of the first batch whose last offset is there or above. Offsets above all batches are left out.
        """
        at = np.searchsorted(self.batches[:, kernels.LAST], np.asarray(offsets, np.int64))
        known = zip(offsets, at.tolist(), strict=True)
        return {offset: int(self.batches[row, kernels.EPOCH]) for offset, row in known if row < len(self.batches)}


def decode(
    records: Any,
    *,
    hasher: ContentHasher,
    payload: Payload = Payload.HASH,
    start: int = 0,
    end: int | None = None,
    inflater: Inflater | None = None,
) -> Columns:
    """Decode the record batches of a Fetch response into one set of columns (`decode_slices` makes several).

    Args:
        records: bytes of whole batches of format v2, the last of which may be truncated.
        hasher: hashes keys and contents.
        payload: which bytes to copy out besides the hashes.
        start: rows below this offset are left out.
        end: rows at or above this offset are left out; no limit by default.
        inflater: memory for decompressing that calls of one thread share; by default the call takes its own.

    Raises:
        CorruptBatch: a CRC or the structure is wrong; it names the batch.
        Unsupported: an unknown message format or codec, or a batch that is too large to be held.
    """
    slices = list(decode_slices(records, hasher=hasher, payload=payload, start=start, end=end, inflater=inflater))
    return _joined(slices) if slices else no_columns(payload, start)


def decode_slices(
    records: Any,
    *,
    hasher: ContentHasher,
    payload: Payload = Payload.HASH,
    start: int = 0,
    end: int | None = None,
    inflater: Inflater | None = None,
    table: Array | None = None,
) -> Iterator[Columns]:
    """Decode the record batches of a Fetch response, in slices of bounded size.

    At most 32 MiB (`WINDOW`) of decompressed bytes and half a million rows (`SLICE_ROWS`) are in memory at a time,
    however large a batch is when decompressed. A slice may end within a batch. Its ``next_offset`` is then the offset
    after its last record.

    Args:
        records: bytes of whole batches of format v2, the last of which may be truncated. Slices do not refer to them.
        hasher: hashes keys and contents.
        payload: which bytes to copy out besides the hashes. Of a record larger than `WINDOW`, only a key of up to 1 MiB
            is copied.
        start: rows below this offset are left out.
        end: rows at or above this offset are left out; no limit by default.
        inflater: memory for decompressing that calls of one thread share; by default each call takes its own.
        table: the `batch_table` of the records, or its first rows to decode only these batches; by default it is made
            here.

    Yields:
        Columns in offset order. If a batch is broken, the rows before it are yielded before the error is raised.

    Raises:
        CorruptBatch: a CRC or the structure is wrong; it names the batch.
        Unsupported: an unknown message format or codec, or a batch that is too large to be held.
    """
    data = _frozen(records)
    failure: ReplicaError | None = None
    if table is None:
        table, failure = batch_table(data)
    bad = _first_bad_crc(data, table)
    if bad < len(table):
        table, failure = table[:bad], corrupt(kernels.BAD_CRC, table[bad])
    stop = np.iinfo(np.int64).max if end is None else end
    yield from _Decoding(data, table, (start, stop, *hasher.words), payload, inflater or Inflater()).slices()
    if failure is not None:
        raise failure


class _Decoding:
    """The slices of one response."""

    def __init__(self, data: Array, table: Array, wanted: Wanted, payload: Payload, inflater: Inflater) -> None:
        self._data = data
        self._table = table
        self._wanted = wanted
        self._payload = payload
        self._inflater = inflater

    def slices(self) -> Iterator[Columns]:
        first = 0
        while first < len(self._table):
            last = self._inflated(first)
            if last == first:
                if self._table[first, kernels.ATTRIBUTES] & kernels.IS_CONTROL:
                    raise corrupt(kernels.BAD_CONTROL, self._table[first])
                self._inflater.release()
                yield from self._parts(first)
                last += 1
            else:
                yield from self._whole(first, last)
            first = last

    def _inflated(self, first: int) -> int:
        """Decompress as many batches as fit: where they end; ``first`` itself where one is too large to be whole."""
        self._inflater.clear()
        rows = 0
        for i in range(first, len(self._table)):
            row = self._table[i]
            rows += int(row[kernels.COUNT])
            if rows > SLICE_ROWS or not self._placed(row, alone=i == first):
                return i
        return len(self._table)

    def _placed(self, row: Array, *, alone: bool) -> bool:
        """Whether the records of a batch are in memory, as the table then says; raises a fault of the first batch."""
        try:
            codec = int(row[kernels.ATTRIBUTES]) & kernels.CODEC
            place = row[kernels.BODY], row[kernels.END]
            if codec and row[kernels.COUNT]:
                found = self._inflater.add(codec, self._data.data[place[0] : place[1]])
                if found is None:
                    return False
                place = np.int64(found[0]), np.int64(found[1])
            # Before memory is taken for them: as many records as a batch claims must fit into its bytes.
            if row[kernels.COUNT] * kernels.SMALLEST_RECORD > place[1] - place[0]:
                raise corrupt(kernels.BAD_COUNT, row)
        except (BadStream, ReplicaError) as error:
            if not alone:
                return False  # those in front of it first
            raise of_batch(error, row) from None
        if codec and row[kernels.COUNT]:
            row[kernels.BODY], row[kernels.END], row[kernels.INFLATED] = *place, 1
        return True

    def _whole(self, first: int, last: int) -> Iterator[Columns]:
        batches = self._table[first:last]
        out = empty_rows(int(batches[:, kernels.COUNT].sum()))
        spans = self._spans(len(out[0]))
        inflated = self._inflater.memory
        n, problem, at = kernels.decode(self._data, inflated, batches, *self._wanted, out, spans)
        if problem:
            n, last = int(batches[at, kernels.FIRST_ROW]), first + at
        if last > first:
            payload = _payload(self._payload, self._data, inflated, batches[: last - first], spans[:n])
            yield self._columns(out, n, first, last, payload, int(self._table[last - 1, kernels.LAST]) + 1)
        if problem:
            raise corrupt(problem, batches[at])

    def _parts(self, i: int) -> Iterator[Columns]:
        """A batch that is too large for one slice."""
        row = self._table[i]
        parts = LargeBatch(self._data, row, self._wanted, with_spans=self._payload is not Payload.HASH).parts()
        for part in parts:
            row[kernels.FIRST_ROW], row[kernels.ROWS], row[kernels.INFLATED] = 0, len(part.out[0]), part.inflated
            if part.alone:
                payload = _key_alone(self._payload, part.key)
            else:
                payload = _payload(self._payload, self._data, part.data, self._table[i : i + 1], part.spans)
            reached = part.reached + 1 if part.more else int(row[kernels.LAST]) + 1
            yield self._columns(part.out, len(part.out[0]), i, i + 1, payload, reached)

    def _columns(self, out: Any, n: int, first: int, last: int, payload: Any, reached: int) -> Columns:
        """The slice with the rows of the batches from ``first`` to ``last``; its table begins with the response's."""
        table = self._table[:last]
        if first or reached <= table[-1, kernels.LAST]:
            table = table.copy()
            table[:first, kernels.ROWS] = 0
        columns: dict[str, Any] = {name: column[:n] for name, column in zip(DTYPES, out, strict=True)}
        keys, values, headers = payload
        return Columns(**columns, keys=keys, values=values, headers=headers, next_offset=reached, batches=table)

    def _spans(self, rows: int) -> Array:
        return np.empty((rows if self._payload is not Payload.HASH else 0, 6), np.int64)


def _frozen(data: Any) -> Array:
    """A read-only array of bytes: the one type that the kernels are compiled for."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


def batch_table(records: Any) -> tuple[Array, ReplicaError | None]:
    """The headers of all whole batches of a Fetch response, one row each; no CRC is checked.

    Args:
        records: the bytes of the response's records.

    Returns:
        A tuple of two:

        - int64[m, kernels.TABLE_WIDTH]: a row for each batch before the first one that is broken or of an older format.
          The constants from `kernels.AT` to `kernels.ROWS` number the columns.
        - What is wrong with that batch; None if there is no such batch.
    """
    data = _frozen(records)
    table, problem, at = kernels.walk(data)
    if problem == kernels.OLD_FORMAT and len(table) and data[at + _MAGIC] < _CURRENT:
        problem = kernels.OK  # It begins the next answer, which `parallax.replica.old_format` turns into batches.
    return table, _broken_header(data, problem, at) if problem else None


def _broken_header(data: Array, problem: int, at: int) -> ReplicaError:
    row = np.full(kernels.TABLE_WIDTH, -1, np.int64)
    row[kernels.BASE] = row[kernels.LAST] = int.from_bytes(data[at : at + 8].tobytes(), "big", signed=True)
    if problem == kernels.OLD_FORMAT:
        # What `parallax.replica.old_format` has left as it was is broken; its offset is that of its last record.
        if data[at + _MAGIC] < _CURRENT:
            return broken_message(row, int(data[at + _MAGIC]))
        row[kernels.LAST] = -1
    elif problem != kernels.BAD_LENGTH:
        row[kernels.LAST] += max(int.from_bytes(data[at + 23 : at + 27].tobytes(), "big", signed=True), 0)
    return corrupt(problem, row)


def _first_bad_crc(data: Array, table: Array) -> int:
    """Index of the first batch whose CRC does not match; the number of batches where all do."""
    bad = kernels.check_small(data, table, _SMALL_BATCH)
    limit = len(table) if bad < 0 else bad
    sizes = table[:limit, kernels.END] - table[:limit, kernels.AT]
    view = data.data
    for i in np.flatnonzero(sizes >= _SMALL_BATCH):
        at, end, crc = (int(table[i, c]) for c in (kernels.AT, kernels.END, kernels.CRC))
        if crc32c.crc32c(view[at + 21 : end]) != crc:
            return int(i)
    return limit


def _joined(slices: list[Columns]) -> Columns:
    """The slices of one response as one."""
    if len(slices) == 1:
        return slices[0]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in slices]) for name in DTYPES}
    for name in ("keys", "values", "headers"):
        parts = [getattr(part, name) for part in slices]
        columns[name] = None if parts[0] is None else pa.concat_arrays(parts)
    table = slices[-1].batches.copy()
    table[:, kernels.ROWS] = 0
    for part in slices:
        table[: len(part.batches), kernels.ROWS] += part.batches[:, kernels.ROWS]
    table[:, kernels.FIRST_ROW] = np.cumsum(table[:, kernels.ROWS]) - table[:, kernels.ROWS]
    return Columns(**columns, next_offset=slices[-1].next_offset, batches=table)


def no_columns(payload: Payload, start: int) -> Columns:
    """The `Columns` of a response that holds no batch: they have no rows.

    Args:
        payload: decides which of ``keys``, ``values`` and ``headers`` are empty arrays; the others are None.
        start: the offset where reading began; it becomes ``next_offset``.
    """
    rows: dict[str, Any] = dict(zip(DTYPES, empty_rows(0), strict=True))
    none: Any = pa.array([], pa.binary())
    keys, full = none if payload is not Payload.HASH else None, none if payload is Payload.FULL else None
    table = np.empty((0, kernels.TABLE_WIDTH), np.int64)
    return Columns(**rows, keys=keys, values=full, headers=full, next_offset=start, batches=table)


def _key_alone(payload: Payload, key: bytes | None) -> tuple[Any, Any, Any]:
    """The payload of a record of which no more than the key is copied out."""
    none: Any = pa.array([None], pa.binary())
    keys: Any = None if payload is Payload.HASH else pa.array([key], pa.binary())
    return (keys, none, none) if payload is Payload.FULL else (keys, None, None)


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
        raise Unsupported("a response holds more than 2 GiB of payload; fetch fewer bytes")
    target = np.empty(int(offsets[-1]), np.uint8)
    offsets = offsets.astype(np.int32)
    kernels.gather(raw, inflated, table, spans, position, offsets, target)
    valid = pa.array(sizes >= 0)
    buffers = [valid.buffers()[1], pa.py_buffer(offsets.data), pa.py_buffer(target.data)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
