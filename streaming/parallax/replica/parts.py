"""Decodes a batch that is too large to be decompressed as a whole: some bytes of it at a time (the *window*).

A record that is larger than the window is read field by field. Its value is hashed as it passes, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parallax.replica import kernels
from parallax.replica.errors import BatchError, CorruptBatch, ReplicaError, Unsupported
from parallax.replica.inflate import WINDOW, Array, BadStream, Stream, open_stream

SLICE_ROWS = 1 << 19
"""Rows that are decoded at a time: 35 MB of columns."""
_LARGEST_BATCH = 16 << 30
"""A batch that inflates to more is not read. Each reading would hold its partition up for minutes."""
_KEY = 1 << 20
"""A key of a record beyond the window is copied out up to this size."""
_LARGEST_NAME = 32 << 20
"""A header's name is looked at as a whole."""

DTYPES = {
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
"""The columns of decoded rows and their types, in the order in which compiled functions (`kernels`) take them."""

Wanted = tuple[int, int, np.uint64, np.uint64]
"""First offset, offset to stop before, the hash key's two words."""


def empty_rows(count: int) -> tuple[Any, ...]:
    """Arrays for ``count`` decoded rows, not yet filled, one for each column in the order of `DTYPES`."""
    return tuple(np.empty(count, dtype) for dtype in DTYPES.values())


def corrupt(problem: int, row: Any) -> ReplicaError:
    """The error for a corrupt batch.

    Args:
        problem: a code of ``kernels.PROBLEMS``.
        row: the batch's row of the table of headers (`kernels.walk`).
    """
    what, base = kernels.PROBLEMS[problem], int(row[kernels.BASE])
    offsets = {"base_offset": base, "last_offset": int(row[kernels.LAST])}
    if problem == kernels.OLD_FORMAT:
        return Unsupported(f"batch at offset {base}: {what}", **offsets)
    return CorruptBatch(f"batch at offset {base}: {what}; look at this replica's log segment", **offsets)


def broken_message(row: Any, magic: int) -> CorruptBatch:
    """The error for a message of format v0 or v1 that cannot be decoded.

    Args:
        row: a row of a table of headers (`kernels.walk`) whose `kernels.LAST` is the message's offset.
        magic: the number of the message's format: 0 or 1.
    """
    offset = int(row[kernels.LAST])
    problem = f"message of format v{magic} at offset {offset}: its checksum, structure or compression is wrong"
    return CorruptBatch(f"{problem}; look at this replica's log segment", base_offset=offset, last_offset=offset)


def of_batch(error: BadStream | ReplicaError, row: Any) -> ReplicaError:
    """The error for a batch that could not be decompressed or decoded, with the batch's offsets.

    Args:
        error: what went wrong.
        row: the batch's row of the table of headers (`kernels.walk`).
    """
    base, last = int(row[kernels.BASE]), int(row[kernels.LAST])
    if isinstance(error, BadStream):
        return CorruptBatch(
            f"batch at offset {base}: does not decompress ({error})", base_offset=base, last_offset=last
        )
    if isinstance(error, BatchError) and error.base_offset < 0:
        return type(error)(f"batch at offset {base}: {error.problem}", base_offset=base, last_offset=last)
    return error


@dataclass(frozen=True)
class Part:
    """Some consecutive records of a large batch, decoded.

    Attributes:
        out: the columns, in the order of `DTYPES`.
        reached: offset of the last record of the batch that has been decoded or skipped; one below the batch's base
            offset if there was none yet.
        data: the bytes that ``spans`` point into; they may change as soon as the next part is asked for.
        spans: where keys, values and headers lie in ``data``, if asked for (`kernels.gather`).
        inflated: whether ``data`` is decompressed bytes; otherwise it is the response.
        more: whether records of the batch follow.
        alone: whether this is a single record larger than the window; of its payload, only the key is copied out.
        key: the key of that single record; None if it is null or longer than 1 MiB.
    """

    out: tuple[Any, ...]
    reached: int
    data: Array
    spans: Array
    inflated: bool
    more: bool = True
    alone: bool = False
    key: bytes | None = None


class LargeBatch:
    """Decodes the records of one large batch, some records at a time.

    Args:
        data: the bytes of the whole response, as uint8.
        row: the batch's row of the table of headers (`kernels.walk`).
        wanted: the first offset to decode, the offset to stop before, and the two 64-bit words of the hash key.
        with_spans: whether keys, values and headers are wanted as well as their hashes.
    """

    def __init__(self, data: Array, row: Array, wanted: Wanted, *, with_spans: bool) -> None:
        self._data = data
        self._row = row
        self._wanted = wanted
        self._with_spans = with_spans
        self._cursor = np.zeros(kernels.CURSOR, np.int64)
        self._cursor[kernels.REACHED] = row[kernels.BASE] - 1

    def parts(self) -> Iterator[Part]:
        """Yield all records of the batch, some at a time, in order.

        Raises:
            CorruptBatch: the batch is broken; the records before the fault have been yielded.
            Unsupported: the codec is unknown, or the batch needs too much memory.
        """
        codec = int(self._row[kernels.ATTRIBUTES]) & kernels.CODEC
        body = int(self._row[kernels.BODY]), int(self._row[kernels.END])
        if not codec:
            self._cursor[kernels.NEXT] = body[0]
            yield from self._in_place(body[1])
            return
        try:
            yield from self._streamed(Window(open_stream(codec, self._data.data[body[0] : body[1]])))
        except (BadStream, Unsupported) as error:
            raise of_batch(error, self._row) from None

    def _in_place(self, end: int) -> Iterator[Part]:
        while not self._done():
            part, problem = self._part(self._data, (end, False), inflated=False)
            if not problem and self._done() and self._next != end:
                problem = kernels.LEFT_OVER
            yield replace(part, more=not self._done() or bool(problem))
            if problem:
                raise corrupt(problem, self._row)

    def _streamed(self, window: Window) -> Iterator[Part]:
        while not self._done():
            window.refill()
            taken = int(self._cursor[kernels.TAKEN])
            self._cursor[kernels.NEXT] = window.at
            part, problem = self._part(window.view, (window.filled, window.more), inflated=True)
            window.at = self._next
            if not problem and int(self._cursor[kernels.TAKEN]) == taken:
                part, problem = self._alone(window)
            if not problem and self._done() and not window.is_over():
                problem = kernels.LEFT_OVER
            yield replace(part, more=not self._done() or bool(problem))
            if problem:
                raise corrupt(problem, self._row)

    def _done(self) -> bool:
        return bool(self._cursor[kernels.TAKEN] >= self._row[kernels.COUNT])

    @property
    def _next(self) -> int:
        return int(self._cursor[kernels.NEXT])

    def _part(self, data: Array, limit: tuple[int, bool], *, inflated: bool) -> tuple[Part, int]:
        """Return what can be decoded now, and what is wrong behind it."""
        out = empty_rows(min(SLICE_ROWS, int(self._row[kernels.COUNT] - self._cursor[kernels.TAKEN])))
        spans = np.empty((len(out[0]) if self._with_spans else 0, 6), np.int64)
        n, problem = kernels.decode_part(data, self._row, self._cursor, limit, self._wanted, out, spans)
        rows = tuple(column[:n] for column in out)
        return Part(rows, int(self._cursor[kernels.REACHED]), data, spans[:n], inflated), problem

    def _alone(self, window: Window) -> tuple[Part, int]:
        """One record that is larger than the window."""
        start, end, k0, k1 = self._wanted
        nothing = Part(empty_rows(0), int(self._cursor[kernels.REACHED]), window.view, np.empty((0, 6), np.int64), True)
        try:
            record = _read_alone(_Fields(window), k0, k1)
        except _BrokenError:
            return nothing, kernels.BAD_RECORD
        row = self._row
        here = int(row[kernels.BASE]) + record.delta
        if here > row[kernels.LAST]:
            return nothing, kernels.BAD_OFFSET
        self._cursor[kernels.TAKEN] += 1
        if here <= self._cursor[kernels.REACHED]:
            return nothing, kernels.OK
        self._cursor[kernels.REACHED] = here
        if not start <= here < end:
            return replace(nothing, reached=here), kernels.OK
        append_time = int(row[kernels.ATTRIBUTES]) & kernels.LOG_APPEND_TIME
        fields: list[int] = [
            0,
            here,
            int(row[kernels.MAX_TIME]) if append_time else _wrapped(int(row[kernels.BASE_TIME]) + record.time),
            int(row[kernels.EPOCH]),
            int(row[kernels.PRODUCER]),
            int(row[kernels.PRODUCER_EPOCH]),
            bool(int(row[kernels.ATTRIBUTES]) & kernels.TRANSACTIONAL),
            *record.key_hash,
            record.content_hash,
            record.key_size,
            record.value_size,
        ]
        out: tuple[Any, ...] = tuple(
            np.array([value], dtype) for value, dtype in zip(fields, DTYPES.values(), strict=True)
        )
        return replace(nothing, out=out, reached=here, alone=True, key=record.key), kernels.OK


def _wrapped(number: int) -> int:
    """A number as 64 bits with a sign hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Window:
    """Memory that holds some decompressed bytes of a batch; those from ``at`` to ``filled`` are not decoded yet.

    Args:
        stream: the batch; `refill` takes the next bytes from it.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._bytes = np.empty(WINDOW, np.uint8)
        self._passed = 0
        self.at = 0
        self.filled = 0
        self.more = True
        """Whether the stream may go on."""

    @property
    def view(self) -> Array:
        """The window's memory, as a read-only array for the compiled functions (`kernels`)."""
        view = self._bytes.view()
        view.flags.writeable = False
        return view

    def refill(self) -> None:
        """Move the bytes that are not decoded yet to the front, and fill the memory behind them with the next bytes.

        Raises:
            BadStream: the stream cannot be decompressed.
            Unsupported: the batch is larger than any that is read.
        """
        left = self.filled - self.at
        self._bytes[:left] = self._bytes[self.at : self.filled]
        self.at, self.filled = 0, left
        if self.more:
            got = self._stream.fill(self._bytes[left:])
            self.filled += got
            self._passed += got
            self.more = self.filled == self._bytes.size
        if self._passed > _LARGEST_BATCH:
            raise Unsupported(f"it decompresses to more than {_LARGEST_BATCH >> 30} GiB")

    def is_over(self) -> bool:
        """Whether all bytes of the batch are decoded: none is left in the window or in the stream.

        The bytes in the window are not moved.
        """
        return self.at == self.filled and not (self.more and self._stream.fill(np.empty(1, np.uint8)))


class _BrokenError(Exception):
    """The record is none."""


@dataclass(frozen=True)
class _Alone:
    """One record, as far as it is kept."""

    time: int
    delta: int
    key_hash: tuple[int, int]
    key_size: int
    key: bytes | None
    value_size: int
    content_hash: int


def _read_alone(fields: _Fields, k0: Any, k1: Any) -> _Alone:
    """Read a record that begins at the window's front.

    Raises:
        _BrokenError: it is broken.
    """
    fields.left = fields.varint()
    fields.skip(1)  # attributes, unused in format v2
    time, delta = fields.varlong(), fields.varint()
    state = np.empty(kernels.STATE, np.uint64)
    key_size = max(fields.varint(), -1)
    key = fields.copied(key_size) if 0 <= key_size <= _KEY else None
    key_hash = 0, 0
    if key_size >= 0:
        kernels.sip_start_wide(state, k0, k1)
        if key is None:
            fields.hashed(key_size, state)
        else:
            kernels.sip_add(state, key, 0, len(key))
        low, high = kernels.sip_end(state, True)
        key_hash = signed(high), signed(low)
    kernels.sip_start(state, k0, k1)
    value_size = max(fields.varint(), -1)
    kernels.sip_add_varint(state, value_size)
    fields.hashed(max(value_size, 0), state)
    fields.hash_headers(state)
    if fields.left:
        raise _BrokenError
    content = signed(kernels.sip_end(state, False)[0])
    return _Alone(time, delta, key_hash, key_size, None if key is None else key.tobytes(), value_size, content)


def signed(word: Any) -> int:
    """The signed number with the same 64 bits as an unsigned one.

    Args:
        word: the unsigned number, below 2^64.
    """
    return int(word) - (1 << 64) if int(word) >> 63 else int(word)


class _Fields:
    """Reads the fields of a record one after the other, moving the window along; never beyond ``left`` bytes."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self.left = 1 << 40

    def varint(self) -> int:
        return self._number(kernels.read_varint)

    def varlong(self) -> int:
        return self._number(kernels.read_varlong)

    def _number(self, read: Any) -> int:
        window = self._window
        self._at_hand(10)
        value, at = read(window.view, window.at, min(window.filled, window.at + self.left))
        if at < 0:
            raise _BrokenError
        self.left -= at - window.at
        window.at = at
        return int(value)

    def _at_hand(self, size: int) -> None:
        if self._window.filled - self._window.at < size and self._window.more:
            self._window.refill()

    def skip(self, size: int) -> None:
        for _ in self._pieces(size):
            pass

    def hashed(self, size: int, state: Any) -> None:
        for at, length in self._pieces(size):
            kernels.sip_add(state, self._window.view, at, length)

    def copied(self, size: int) -> Array:
        """Bytes as an array of their own."""
        parts = [self._window.view[at : at + length].copy() for at, length in self._pieces(size)]
        copy: Array = np.concatenate([np.empty(0, np.uint8), *parts])
        copy.flags.writeable = False
        return copy

    def _pieces(self, size: int) -> Iterator[tuple[int, int]]:
        """(place, length) of the next bytes, as they come into the window."""
        if size > self.left:
            raise _BrokenError
        self.left -= size
        window = self._window
        while size:
            if window.at == window.filled:
                window.refill()
            length = min(size, window.filled - window.at)
            if not length:
                raise _BrokenError
            at = window.at
            window.at += length
            size -= length
            yield at, length

    def hash_headers(self, state: Any) -> None:
        count = self.varint()
        if count < 0 or count > self.left:
            raise _BrokenError
        kernels.sip_add_varint(state, count)
        window = self._window
        while count:
            stop = min(window.filled, window.at + self.left)
            at, left_over = kernels.sip_add_headers(state, window.view, window.at, stop, count)
            self.left -= at - window.at
            window.at = at
            if left_over == count:
                self._hash_header(state)
                left_over -= 1
            count = left_over

    def _hash_header(self, state: Any) -> None:
        """One header that does not lie whole in the window."""
        name = self.varint()
        if name < 0:
            raise _BrokenError
        if name > _LARGEST_NAME:
            raise Unsupported(f"a header's name of {name >> 20} MiB is not read")
        text = self.copied(name)
        kernels.sip_add_text(state, text, 0, len(text))
        size = max(self.varint(), -1)
        kernels.sip_add_varint(state, size)
        self.hashed(max(size, 0), state)


__all__ = [
    "DTYPES",
    "SLICE_ROWS",
    "LargeBatch",
    "Part",
    "Wanted",
    "broken_message",
    "corrupt",
    "empty_rows",
    "of_batch",
    "signed",
]
