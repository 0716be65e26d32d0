"""Compiled loops (*kernels*) over the bytes of a Fetch: batch headers, CRC32C, SipHash, records to columns, outcomes.

Records are read as Kafka's own consumer reads them (org.apache.kafka.common.record.DefaultRecord and utils.ByteUtils).
Lengths are 32-bit varints of one to five bytes, which need not be the shortest form. Every negative length means null.

All kernels are in this one module on purpose. numba's cache compares only the age of the module that holds a kernel,
and not of modules whose functions it calls. So if these were elsewhere, a change there would leave old code in use.

The bytes come from a network. Every kernel checks each read against the end of what it was given, and reports a problem
as a code (see ``PROBLEMS``). Nothing in here raises or reads out of bounds. The loads assume a little-endian machine.

Formats: KIP-98 (record batch v2, control records), KIP-534 (delete horizon), org.apache.kafka.common.record.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from parallax.replica.kernel_cache import allow_read_only

if sys.byteorder != "little":
    raise ImportError("parallax decodes records on little-endian machines only")

allow_read_only()

HEADER = 61
"""Bytes of a record batch up to its first record."""
_PREFIX = 12
"""Bytes of a record batch that its length does not count: base offset and the length itself."""
_CRC_FROM = 21
"""The CRC covers a batch from its attributes on."""
SMALLEST_RECORD = 7
"""Bytes: length, attributes, two deltas, two sizes and a count of headers."""

# Columns of the batch table, one row per whole batch.
AT, BODY, END, BASE, LAST, EPOCH, ATTRIBUTES, BASE_TIME, MAX_TIME, PRODUCER, PRODUCER_EPOCH, COUNT, CRC = range(13)
INFLATED, CONTROL, FIRST_ROW, ROWS = range(13, 17)
TABLE_WIDTH = 17

CODEC, LOG_APPEND_TIME, TRANSACTIONAL, IS_CONTROL = 0x07, 0x08, 0x10, 0x20
NO_MARKER, ABORT_MARKER, COMMIT_MARKER = -1, 0, 1

OK = 0
OLD_FORMAT, BAD_LENGTH, BAD_COUNT, BAD_ORDER, BAD_CRC, BAD_RECORD, BAD_OFFSET, LEFT_OVER, BAD_CONTROL = range(1, 10)
PROBLEMS = {
    OLD_FORMAT: "a message format that is not known",
    BAD_LENGTH: "its length is smaller than a batch's header",
    BAD_COUNT: "its number of records does not fit its size or its offsets",
    BAD_ORDER: "its offsets run backwards",
    BAD_CRC: "its CRC32C does not match",
    BAD_RECORD: "a record runs beyond its end",
    BAD_OFFSET: "a record's offset lies beyond the batch",
    LEFT_OVER: "bytes are left over after its last record",
    BAD_CONTROL: "its control record has no type",
}

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_I64 = types.int64
_U64 = types.uint64


def _array(element: Any, dimensions: int = 1) -> Any:
    return types.Array(element, dimensions, "C")


def _load(bits: int, *, swap: bool) -> Any:
    """Make an unaligned load of an unsigned integer; with ``swap``, of one in network byte order."""
    result = {8: types.uint8, 32: types.uint32, 64: types.uint64}[bits]

    @intrinsic
    def load(typing_context: Any, array: Any, position: Any) -> Any:
        del typing_context, position

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            word = ir.IntType(bits)
            pointer = builder.bitcast(builder.gep(data, [arguments[1]]), word.as_pointer())
            value = builder.load(pointer, align=1)
            return builder.bswap(value) if swap else value

        return result(array, types.int64), generate

    return load


_u8 = _load(8, swap=False)
_u64 = _load(64, swap=False)
_network_u32 = _load(32, swap=True)
_network_u64 = _load(64, swap=True)


@intrinsic
def _copy(typing_context: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    """``target[at:at + size] = source[start:start + size]`` by memcpy."""
    del typing_context, at, start, size

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, source_data = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        cgutils.raw_memcpy(
            builder, builder.gep(to, [arguments[1]]), builder.gep(source_data, [arguments[3]]), arguments[4], 1
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(forceinline=True)
def _i32(data: Any, at: Any) -> Any:
    return np.int64(np.int32(_network_u32(data, at)))


@njit(forceinline=True)
def _i16(data: Any, at: Any) -> Any:
    return np.int64(np.int16((np.int64(_u8(data, at)) << 8) | np.int64(_u8(data, at + 1))))


@njit(forceinline=True)
def _varint64(data: Any, at: Any, end: Any) -> Any:
    """Read a zigzag varint of up to 64 bits: (value, position behind it), position -1 if it does not end in time."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(_u8(data, at))
    raw = byte & np.uint64(0x7F)
    at += 1
    shift = np.uint64(7)
    while byte & np.uint64(0x80):
        if at >= end or shift > np.uint64(63):
            return np.int64(0), np.int64(-1)
        byte = np.uint64(_u8(data, at))
        raw |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        at += 1
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at


@njit(forceinline=True)
def _varint(data: Any, at: Any, end: Any) -> Any:
    """Read a zigzag varint of 32 bits: (value, position behind it, whether it is in its shortest form).

    As ByteUtils.readVarint: five bytes at most, of the fifth the lowest four bits. The position is -1 if it does not
    end in time.
    """
    if at >= end:
        return np.int64(0), np.int64(-1), True
    byte = np.uint64(_u8(data, at))
    at += 1
    if byte < np.uint64(0x80):
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at, True
    raw = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte & np.uint64(0x80):
        if at >= end or shift > np.uint64(28):
            return np.int64(0), np.int64(-1), True
        byte = np.uint64(_u8(data, at))
        raw |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
        at += 1
    shortest = byte != 0 and raw <= np.uint64(0xFFFFFFFF)
    raw &= np.uint64(0xFFFFFFFF)
    return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at, shortest


# --- batch headers ---


@njit(forceinline=True)
def _next_batch(data: Any, at: Any) -> Any:
    """End of the batch at ``at`` (0: it is truncated), and what is wrong with it so far."""
    size = data.shape[0]
    if at + 17 > size:
        return np.int64(0), OK
    if _u8(data, at + 16) != 2:
        return np.int64(0), OLD_FORMAT
    length = _i32(data, at + 8)
    if length < HEADER - _PREFIX:
        return np.int64(0), BAD_LENGTH
    end = at + _PREFIX + length
    return (end, OK) if end <= size else (np.int64(0), OK)


@njit(forceinline=True)
def _read_header(data: Any, at: Any, end: Any, row: Any) -> None:
    base = np.int64(_network_u64(data, at))
    row[AT] = at
    row[BODY] = at + HEADER
    row[END] = end
    row[BASE] = base
    row[LAST] = base + _i32(data, at + 23)
    row[EPOCH] = _i32(data, at + 12)
    row[CRC] = np.int64(_network_u32(data, at + 17))
    row[ATTRIBUTES] = _i16(data, at + 21)
    row[BASE_TIME] = np.int64(_network_u64(data, at + 27))
    row[MAX_TIME] = np.int64(_network_u64(data, at + 35))
    row[PRODUCER] = np.int64(_network_u64(data, at + 43))
    row[PRODUCER_EPOCH] = _i16(data, at + 51)
    row[COUNT] = _i32(data, at + 57)
    row[INFLATED] = 0
    row[CONTROL] = NO_MARKER
    row[FIRST_ROW] = 0
    row[ROWS] = 0


@njit([types.Tuple((_array(_I64, 2), _I64, _I64))(_BYTES)], cache=True, nogil=True)
def walk(data: Any) -> Any:
    """Find all whole batches in the bytes of a Fetch answer, and read their headers into a table.

    If the last batch is truncated, it is left out, and is no problem.

    Args:
        data: the bytes of a Fetch answer, uint8[n].

    Returns:
        A tuple of three:

        - the table, int64[m, `TABLE_WIDTH`], with a row for each whole batch before the first broken one;
        - a code of ``PROBLEMS``: what is wrong with the broken batch, or `OK` if none is broken;
        - the position in ``data`` at which the broken batch begins, or with `OK` the end of the last whole batch.
    """
    count = 0
    at = np.int64(0)
    while True:
        end, problem = _next_batch(data, at)
        if end == 0:
            break
        count += 1
        at = end
    table = np.empty((count, TABLE_WIDTH), np.int64)
    at = np.int64(0)
    reached = np.int64(-1)
    for i in range(count):
        end, _ = _next_batch(data, at)
        row = table[i]
        _read_header(data, at, end, row)
        records = row[COUNT]
        if records < 0 or row[LAST] < row[BASE] or records > row[LAST] - row[BASE] + 1:
            return table[:i].copy(), BAD_COUNT, at
        if row[BASE] <= reached:
            return table[:i].copy(), BAD_ORDER, at
        reached = row[LAST]
        at = end
    return table, problem, at


# --- CRC32C of small batches ---


def _crc_table() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Eight tables of 256, for eight bytes at a step ("slicing by 8"), polynomial 0x82F63B78."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(0x82F63B78), first >> 1).astype(np.uint32)
    tables = [first]
    for _ in range(7):
        last = tables[-1]
        tables.append((first[last & 0xFF] ^ (last >> 8)).astype(np.uint32))
    return np.ascontiguousarray(np.stack(tables))


_CRC_TABLE = _crc_table()


@njit([types.uint32(_BYTES, _I64, _I64)], cache=True, nogil=True)
def crc32c(data: Any, at: Any, end: Any) -> Any:
    """CRC32C (Castagnoli) of ``data[at:end]``, bytes as uint8[n]; for small batches faster than a call to a library."""
    crc = np.uint64(0xFFFFFFFF)
    low = np.uint64(0xFF)
    table = _CRC_TABLE
    while at + 8 <= end:
        word = _u64(data, at) ^ crc
        crc = np.uint64(0)
        for i in range(8):
            crc ^= np.uint64(table[7 - i, np.int64((word >> np.uint64(8 * i)) & low)])
        at += 8
    while at < end:
        crc = np.uint64(table[0, np.int64((crc ^ np.uint64(_u8(data, at))) & low)]) ^ (crc >> np.uint64(8))
        at += 1
    return np.uint32(crc ^ np.uint64(0xFFFFFFFF))


@njit([_I64(_BYTES, _array(_I64, 2), _I64)], cache=True, nogil=True)
def check_small(data: Any, table: Any, limit: Any) -> Any:
    """Index of the first batch whose CRC is wrong, among batches smaller than ``limit`` bytes; -1 if no CRC is wrong.

    Args:
        data: the bytes of a Fetch answer, uint8[n].
        table: one row for each batch, with columns such as `AT`, `END` and `CRC`.
        limit: bytes; larger batches are not checked here.
    """
    for i in range(table.shape[0]):
        at = table[i, AT]
        end = table[i, END]
        if end - at < limit and np.int64(crc32c(data, at + _CRC_FROM, end)) != table[i, CRC]:
            return i
    return -1


# --- SipHash-2-4 (Aumasson, Bernstein) with outputs of 64 and of 128 bits ---


@njit(forceinline=True)
def _rotate(x: Any, by: int) -> Any:
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@njit(forceinline=True)
def _sip_round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16) ^ v2
    v0 += v3
    v3 = _rotate(v3, 21) ^ v0
    v2 += v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@njit(forceinline=True)
def _sip_tail(data: Any, at: Any, size: Any) -> Any:
    """The last word: up to seven bytes left over, and the size modulo 256 on top."""
    left = size & 7
    word = np.uint64(size & 0xFF) << np.uint64(56)
    if left == 0:
        return word
    if size >= 8:
        return word | (_u64(data, at + size - 8) >> np.uint64(8 * (8 - left)))
    for i in range(left):
        word |= np.uint64(_u8(data, at + i)) << np.uint64(8 * i)
    return word


@njit(forceinline=True)
def _sip_finish(v0: Any, v1: Any, v2: Any, v3: Any, word: Any, wide: Any) -> Any:
    """Take the last word in; (low, high) halves of 128 bits if ``wide``, else (64 bits, 0)."""
    v3 ^= word
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE) if wide else np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    if not wide:
        return low, np.uint64(0)
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@njit(forceinline=True)
def _siphash(data: Any, at: Any, size: Any, k0: Any, k1: Any, wide: Any) -> Any:
    """SipHash-2-4 of ``data[at:at + size]``: (low, high) halves of 128 bits if ``wide``, else (64 bits, 0)."""
    v0 = k0 ^ np.uint64(0x736F6D6570736575)
    v1 = k1 ^ np.uint64(0x646F72616E646F6D)
    v2 = k0 ^ np.uint64(0x6C7967656E657261)
    v3 = k1 ^ np.uint64(0x7465646279746573)
    if wide:
        v1 ^= np.uint64(0xEE)
    for i in range(size >> 3):
        word = _u64(data, at + 8 * i)
        v3 ^= word
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
        v0 ^= word
    return _sip_finish(v0, v1, v2, v3, _sip_tail(data, at, size), wide)


@njit([types.UniTuple(_U64, 2)(_BYTES, _I64, _I64, _U64, _U64)], cache=True, nogil=True)
def siphash128(data: Any, at: Any, size: Any, k0: Any, k1: Any) -> Any:
    """The 128-bit SipHash-2-4 of ``data[at:at + size]``, as a tuple of its low and its high half, unsigned.

    Args:
        data: uint8[n].
        at: where the bytes begin.
        size: how many bytes.
        k0: first 64-bit word of the secret key.
        k1: second 64-bit word of the secret key.
    """
    return _siphash(data, at, size, k0, k1, True)


@njit([_U64(_BYTES, _I64, _I64, _U64, _U64)], cache=True, nogil=True)
def siphash64(data: Any, at: Any, size: Any, k0: Any, k1: Any) -> Any:
    """The 64-bit SipHash-2-4 of ``data[at:at + size]``, unsigned.

    Args:
        data: uint8[n].
        at: where the bytes begin.
        size: how many bytes.
        k0: first 64-bit word of the secret key.
        k1: second 64-bit word of the secret key.
    """
    return _siphash(data, at, size, k0, k1, False)[0]


# --- SipHash-2-4 of bytes that come piece by piece ---

STATE = 6
"""How many words of 64 bits hold a SipHash that is under way.

They are v0 to v3, the bytes of the last word that is not full, and how many bytes were added in all.
"""


@njit([types.void(_array(_U64), _U64, _U64)], cache=True, nogil=True)
def sip_start(state: Any, k0: Any, k1: Any) -> None:
    """Begin a 64-bit SipHash-2-4 of bytes that come piece by piece.

    Args:
        state: uint64[`STATE`], overwritten.
        k0: first 64-bit word of the secret key.
        k1: second 64-bit word of the secret key.
    """
    state[0] = k0 ^ np.uint64(0x736F6D6570736575)
    state[1] = k1 ^ np.uint64(0x646F72616E646F6D)
    state[2] = k0 ^ np.uint64(0x6C7967656E657261)
    state[3] = k1 ^ np.uint64(0x7465646279746573)
    state[4] = 0
    state[5] = 0


@njit([types.void(_array(_U64), _U64, _U64)], cache=True, nogil=True)
def sip_start_wide(state: Any, k0: Any, k1: Any) -> None:
    """Begin a 128-bit SipHash-2-4 of bytes that come piece by piece.

    Args:
        state: uint64[`STATE`], overwritten.
        k0: first 64-bit word of the secret key.
        k1: second 64-bit word of the secret key.
    """
    sip_start(state, k0, k1)
    state[1] ^= np.uint64(0xEE)


@njit(forceinline=True)
def _sip_word(state: Any, word: Any) -> None:
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3] ^ word
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    state[0], state[1], state[2], state[3] = v0 ^ word, v1, v2, v3


@njit(forceinline=True)
def _sip_byte(state: Any, byte: Any) -> None:
    place = state[5] & np.uint64(7)
    state[4] |= np.uint64(byte) << (np.uint64(8) * place)
    state[5] += np.uint64(1)
    if place == np.uint64(7):
        word = state[4]
        state[4] = 0
        _sip_word(state, word)


@njit([types.void(_array(_U64), _BYTES, _I64, _I64)], cache=True, nogil=True)
def sip_add(state: Any, data: Any, at: Any, size: Any) -> None:
    """Add ``data[at:at + size]`` to the hash that `sip_start` or `sip_start_wide` began in ``state``."""
    end = at + size
    while at < end and state[5] & np.uint64(7):
        _sip_byte(state, _u8(data, at))
        at += 1
    while at + 8 <= end:
        _sip_word(state, _u64(data, at))
        state[5] += np.uint64(8)
        at += 8
    while at < end:
        _sip_byte(state, _u8(data, at))
        at += 1


@njit([types.void(_array(_U64), _I64)], cache=True, nogil=True)
def sip_add_varint(state: Any, value: Any) -> None:
    """Add a 32-bit number, ``value``, to the hash in ``state``, as a zigzag varint in its shortest form."""
    raw = np.uint64((value << 1) ^ (value >> 63)) & np.uint64(0xFFFFFFFF)
    while raw > np.uint64(0x7F):
        _sip_byte(state, (raw & np.uint64(0x7F)) | np.uint64(0x80))
        raw >>= np.uint64(7)
    _sip_byte(state, raw)


@njit([types.UniTuple(_U64, 2)(_array(_U64), types.boolean)], cache=True, nogil=True)
def sip_end(state: Any, wide: Any) -> Any:
    """The hash of all bytes that were added to ``state``.

    Args:
        state: what `sip_start` or `sip_start_wide` has begun.
        wide: whether `sip_start_wide` began it.

    Returns:
        A tuple: if ``wide``, the low and the high half of the 128-bit hash; otherwise the 64-bit hash, and 0.
    """
    word = state[4] | ((state[5] & np.uint64(0xFF)) << np.uint64(56))
    return _sip_finish(state[0], state[1], state[2], state[3], word, wide)


# --- names of headers: text to Kafka, which a broker that cleans decodes and encodes again ---

_ASCII = np.uint64(0x8080808080808080)


@njit(forceinline=True)
def _follows(data: Any, at: Any) -> Any:
    """Whether the byte continues a character of UTF-8."""
    return (_u8(data, at) & np.uint8(0xC0)) == np.uint8(0x80)


@njit
def _three(data: Any, at: Any, left: Any) -> Any:
    """A character of three bytes: see :func:`_character`."""
    first = np.int64(_u8(data, at))
    if left < 2:
        return np.int64(1), False
    second = np.int64(_u8(data, at + 1))
    if not _follows(data, at + 1) or (first == 0xE0 and second < 0xA0):
        return np.int64(1), False
    if left < 3 or not _follows(data, at + 2):
        return np.int64(2), False
    # Half of a surrogate pair is one fault of three bytes.
    return np.int64(3), not (first == 0xED and second >= 0xA0)


@njit
def _four(data: Any, at: Any, left: Any) -> Any:
    """A character of four bytes: see :func:`_character`."""
    first = np.int64(_u8(data, at))
    if first > 0xF4 or left < 2:
        return np.int64(1), False
    second = np.int64(_u8(data, at + 1))
    wrong = (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F)
    if wrong or not _follows(data, at + 1):
        return np.int64(1), False
    if left < 3 or not _follows(data, at + 2):
        return np.int64(2), False
    if left < 4 or not _follows(data, at + 3):
        return np.int64(3), False
    return np.int64(4), True


@njit
def _character(data: Any, at: Any, end: Any) -> Any:
    """The next character of a text in UTF-8: (bytes that it takes, whether they are one).

    What is none is taken in the steps of java.lang.String, which puts U+FFFD for each of them.
    """
    first = np.int64(_u8(data, at))
    left = end - at
    if first < 0x80:
        return np.int64(1), True
    if first < 0xC2 or first > 0xF7:
        return np.int64(1), False
    if first < 0xE0:
        return (np.int64(2), True) if left > 1 and _follows(data, at + 1) else (np.int64(1), False)
    return _three(data, at, left) if first < 0xF0 else _four(data, at, left)


@njit(forceinline=True)
def _is_ascii(data: Any, at: Any, size: Any) -> Any:
    """Whether ``data[at:at + size]`` is plain ASCII."""
    seen = np.uint64(0)
    end = at + size
    while at + 8 <= end:
        seen |= _u64(data, at)
        at += 8
    while at < end:
        seen |= np.uint64(_u8(data, at))
        at += 1
    return seen & _ASCII == 0


@njit([types.void(_array(_U64), _BYTES, _I64, _I64)], cache=True, nogil=True)
def sip_add_text(state: Any, data: Any, at: Any, size: Any) -> None:
    """Add the text ``data[at:at + size]`` to the hash in ``state``, with its length in front.

    The bytes are those that Java would write after decoding the text, with broken UTF-8 replaced.
    """
    end = at + size
    length = np.int64(0)
    here = at
    while here < end:
        taken, good = _character(data, here, end)
        length += taken if good else 3
        here += taken
    sip_add_varint(state, length)
    here = at
    while here < end:
        taken, good = _character(data, here, end)
        if good:
            sip_add(state, data, here, taken)
        else:
            _sip_byte(state, np.uint64(0xEF))
            _sip_byte(state, np.uint64(0xBF))
            _sip_byte(state, np.uint64(0xBD))
        here += taken


# --- records to columns ---


@njit(forceinline=True)
def _skip_bytes(data: Any, at: Any, end: Any) -> Any:
    """Skip a length (negative: null) and that many bytes: (size, position behind, whether in canonical form).

    The size of null is -1, the position is -1 if the bytes run beyond ``end``.
    """
    size, at, shortest = _varint(data, at, end)
    if at < 0 or size > end - at:
        return np.int64(0), np.int64(-1), True
    if size < 0:
        return np.int64(-1), at, shortest and size == -1
    return size, at + size, shortest


@njit(forceinline=True)
def _skip_headers(data: Any, at: Any, end: Any) -> Any:
    """(position behind a record's headers, whether they are in canonical form for sure), position -1 if broken."""
    broken = (np.int64(-1), True)
    count, at, canonical = _varint(data, at, end)
    if at < 0 or count < 0 or count > end - at:
        return broken
    for _ in range(count):
        size, at, good = _skip_bytes(data, at, end)
        if at < 0 or size < 0:
            return broken
        canonical &= good and _is_ascii(data, at - size, size)
        size, at, good = _skip_bytes(data, at, end)
        if at < 0:
            return broken
        canonical &= good
    return at, canonical


@njit
def _canonical_hash(data: Any, at: Any, stop: Any, k0: Any, k1: Any) -> Any:
    """Hash of value and headers as a broker that cleans writes them again, where they lie in another form."""
    state = np.empty(STATE, np.uint64)
    sip_start(state, k0, k1)
    size, at, _ = _skip_bytes(data, at, stop)
    sip_add_varint(state, size)
    if size > 0:
        sip_add(state, data, at - size, size)
    count, at, _ = _varint(data, at, stop)
    sip_add_varint(state, count)
    for _ in range(count):
        size, at, _ = _skip_bytes(data, at, stop)
        sip_add_text(state, data, at - size, size)
        size, at, _ = _skip_bytes(data, at, stop)
        sip_add_varint(state, size)
        if size > 0:
            sip_add(state, data, at - size, size)
    return sip_end(state, False)[0]


@njit([types.UniTuple(_I64, 2)(_array(_U64), _BYTES, _I64, _I64, _I64)], cache=True, nogil=True)
def sip_add_headers(state: Any, data: Any, at: Any, stop: Any, count: Any) -> Any:
    """Add up to ``count`` headers to the hash, in the form in which a cleaner writes them again.

    It stops before a header that goes on beyond ``stop``.

    Args:
        state: the hash that is under way.
        data: bytes that hold the headers, uint8[n].
        at: where the first header begins in ``data``.
        stop: where the usable bytes of ``data`` end.
        count: how many headers are to be added.

    Returns:
        A tuple: the position in ``data`` where it stopped, and how many headers are left to add.
    """
    while count > 0:
        name, after_name, _ = _skip_bytes(data, at, stop)
        if after_name < 0 or name < 0:
            break
        size, after, _ = _skip_bytes(data, after_name, stop)
        if after < 0:
            break
        sip_add_text(state, data, after_name - name, name)
        sip_add_varint(state, size)
        if size > 0:
            sip_add(state, data, after - size, size)
        at = after
        count -= 1
    return at, count


@njit([types.UniTuple(_I64, 2)(_BYTES, _I64, _I64)], cache=True, nogil=True)
def read_varint(data: Any, at: Any, end: Any) -> Any:
    """Read the 32-bit varint at ``data[at]``: (value, position after it); position -1 if it goes beyond ``end``."""
    value, at, _ = _varint(data, at, end)
    return value, at


@njit([types.UniTuple(_I64, 2)(_BYTES, _I64, _I64)], cache=True, nogil=True)
def read_varlong(data: Any, at: Any, end: Any) -> Any:
    """Read the 64-bit varint at ``data[at]``: (value, position after it); position -1 if it goes beyond ``end``."""
    return _varint64(data, at, end)


@njit(forceinline=True)
def _record(data: Any, at: Any, end: Any) -> Any:
    """Take a record apart.

    Returns:
        (end of the record, timestamp delta, offset delta, key at, key size, value's length at, value at, value size,
        headers at, whether value and headers are in canonical form for sure); the first is -1 if the record is broken.
    """
    zero = np.int64(0)
    broken = (np.int64(-1), zero, zero, zero, zero, zero, zero, zero, zero, True)
    size, at, _ = _varint(data, at, end)
    if at < 0 or size < 1 or size > end - at:
        return broken
    stop = at + size
    time, at = _varint64(data, at + 1, stop)  # one byte of attributes, unused in format v2
    if at < 0:
        return broken
    delta, at, _ = _varint(data, at, stop)
    if at < 0:
        return broken
    key_size, after_key, _ = _skip_bytes(data, at, stop)
    if after_key < 0:
        return broken
    value_size, after_value, canonical = _skip_bytes(data, after_key, stop)
    if after_value < 0:
        return broken
    after_headers, good = _skip_headers(data, after_value, stop)
    if after_headers != stop:
        return broken
    key_at = after_key - max(key_size, zero)
    value_at = after_value - max(value_size, zero)
    return stop, time, delta, key_at, key_size, after_key, value_at, value_size, after_value, canonical and good


@njit(forceinline=True)
def _put_batch_fields(row: Any, n: Any, out: Any) -> None:
    """Write what a row takes from its batch's header."""
    out[3][n] = row[EPOCH]
    out[4][n] = row[PRODUCER]
    out[5][n] = row[PRODUCER_EPOCH]
    out[6][n] = (row[ATTRIBUTES] & TRANSACTIONAL) != 0


@njit(forceinline=True)
def _put_identity(data: Any, n: Any, found: Any, k0: Any, k1: Any, out: Any) -> None:
    """Write a record's hashes and sizes; ``found`` is what :func:`_record` returned."""
    stop, _, _, key_at, key_size, content_at, _, value_size, _, _ = found
    low, high = np.uint64(0), np.uint64(0)
    if key_size >= 0:
        low, high = _siphash(data, key_at, key_size, k0, k1, True)
    out[7][n] = np.int64(high)
    out[8][n] = np.int64(low)
    out[9][n] = np.int64(_siphash(data, content_at, stop - content_at, k0, k1, False)[0])
    out[10][n] = key_size
    out[11][n] = value_size


@njit(forceinline=True)
def _put_spans(n: Any, found: Any, spans: Any) -> None:
    """Write where key, value and headers lie, for :func:`gather`."""
    stop, _, _, key_at, key_size, _, value_at, value_size, headers_at, _ = found
    spans[n, 0] = key_at
    spans[n, 1] = key_size
    spans[n, 2] = value_at
    spans[n, 3] = value_size
    spans[n, 4] = headers_at
    spans[n, 5] = stop - headers_at


@njit(forceinline=True)
def _put_marker(n: Any, marker: Any, out: Any, spans: Any) -> None:
    """Write a marker: no key, no value, no hash."""
    out[0][n] = 2 - marker  # RowKind.ABORT is 2, RowKind.COMMIT 1
    out[7][n] = 0
    out[8][n] = 0
    out[9][n] = 0
    out[10][n] = -1
    out[11][n] = -1
    for i in range(spans.shape[1] if spans.shape[0] > 0 else 0):
        spans[n, i] = -1


@njit(forceinline=True)
def _marker_type(data: Any, key_at: Any, key_size: Any) -> Any:
    """Type of a control record: its key is a version and a type of two bytes each (KIP-98); -2 if it has none."""
    if key_size < 4 or _i16(data, key_at) < 0:
        return np.int64(-2)
    return max(_i16(data, key_at + 2), np.int64(NO_MARKER))


NEXT, TAKEN, REACHED, ODDS, ODD = range(5)
"""Indexes into a batch's cursor, an int64 array of `CURSOR` numbers: how far the batch has been decoded.

`NEXT`: where its next record begins. `TAKEN`: how many of its records were decoded or skipped. `REACHED`: the offset of
the last of them. `ODDS`: how many of the records just taken may not have their content in canonical form. From `ODD`
on: of each of these records its row, and where its content begins.
"""
_MOST_ODD = 64
CURSOR = ODD + 2 * _MOST_ODD


@njit(nogil=True)
def _run(data: Any, row: Any, cursor: Any, window: Any, n: Any, wanted: Any, out: Any, spans: Any) -> Any:
    """As :func:`_records`, but for the contents that may not be in canonical form; ends where these are many.

    Nothing in this loop calls code that is not inlined: one such call, never made, makes the loop half as fast.
    """
    stop, more = window
    start, end, k0, k1 = wanted
    base, last, count = row[BASE], row[LAST], row[COUNT]
    append_time = (row[ATTRIBUTES] & LOG_APPEND_TIME) != 0
    rows = out[0].shape[0]
    at, taken, reached, odds = cursor[NEXT], cursor[TAKEN], cursor[REACHED], np.int64(0)
    problem = OK
    while taken < count and n < rows and odds < _MOST_ODD:
        if more and not _is_whole(data, at, stop):
            break
        found = _record(data, at, stop)
        here = base + found[2]
        if found[0] < 0 or here > last:
            problem = BAD_RECORD if found[0] < 0 else BAD_OFFSET
            break
        at = found[0]
        taken += 1
        if here <= reached:
            continue  # Kafka's consumer has moved past it and skips it
        reached = here
        if here < start or here >= end:
            continue
        out[0][n] = 0
        out[1][n] = here
        out[2][n] = row[MAX_TIME] if append_time else row[BASE_TIME] + found[1]
        _put_batch_fields(row, n, out)
        _put_identity(data, n, found, k0, k1, out)
        if spans.shape[0] > 0:
            _put_spans(n, found, spans)
        cursor[ODD + 2 * odds] = n
        cursor[ODD + 2 * odds + 1] = found[5]
        odds += np.int64(not found[9])
        n += 1
    cursor[NEXT], cursor[TAKEN], cursor[REACHED], cursor[ODDS] = at, taken, reached, odds
    return n, problem


@njit(nogil=True)
def _records(data: Any, row: Any, cursor: Any, window: Any, n: Any, wanted: Any, out: Any, spans: Any) -> Any:
    """Decode records of one batch into the columns from row ``n`` on: (rows so far, problem).

    Args:
        data: where the records are.
        row: the batch's header.
        cursor: where to go on; moved behind what was taken.
        window: (end of the data, whether the batch goes on behind it): it then ends before a record that is not whole.
        n: row to write to.
        wanted: (first offset, offset to stop before, the hash key's two words).
        out: the columns; ends when they are full.
        spans: see :func:`_put_spans`.
    """
    while True:
        n, problem = _run(data, row, cursor, window, n, wanted, out, spans)
        for i in range(cursor[ODDS]):
            at = cursor[ODD + 2 * i + 1]
            out[9][cursor[ODD + 2 * i]] = np.int64(_canonical_hash(data, at, window[0], wanted[2], wanted[3]))
        if problem != OK or cursor[ODDS] < _MOST_ODD:
            return n, problem


@njit(forceinline=True)
def _is_whole(data: Any, at: Any, stop: Any) -> Any:
    """Whether the record at ``at`` ends before ``stop``; one that is broken counts as whole."""
    size, behind, _ = _varint(data, at, min(stop, at + 5))
    if behind < 0:
        return stop - at >= 5
    return size <= stop - behind


@njit(nogil=True)
def _control(data: Any, row: Any, n: Any, start: Any, end: Any, out: Any, spans: Any) -> Any:
    """Decode a control batch: one record, or none once the cleaner has emptied it; only markers become rows."""
    if row[COUNT] == 0:
        return n, OK
    found = _record(data, row[BODY], row[END])
    if found[0] < 0:
        return n, BAD_RECORD
    here = row[BASE] + found[2]
    if here < row[BASE] or here > row[LAST]:
        return n, BAD_OFFSET
    marker = _marker_type(data, found[3], found[4])
    if marker == -2:
        return n, BAD_CONTROL
    row[CONTROL] = marker
    if (marker != ABORT_MARKER and marker != COMMIT_MARKER) or here < start or here >= end:
        return n, OK
    out[1][n] = here
    out[2][n] = row[MAX_TIME] if row[ATTRIBUTES] & LOG_APPEND_TIME else row[BASE_TIME] + found[1]
    _put_batch_fields(row, n, out)
    _put_marker(n, marker, out, spans)
    return n + 1, OK


_COLUMNS = types.Tuple(
    [
        _array(element)
        for element in (
            types.int8,
            _I64,
            _I64,
            types.int32,
            _I64,
            types.int16,
            types.boolean,
            _I64,
            _I64,
            _I64,
            types.int32,
            types.int32,
        )
    ]
)
"""The types of the arrays that records are decoded into, in the order of `parallax.replica.parts.DTYPES`."""


@njit(
    [types.UniTuple(_I64, 3)(_BYTES, _BYTES, _array(_I64, 2), _I64, _I64, _U64, _U64, _COLUMNS, _array(_I64, 2))],
    cache=True,
    nogil=True,
)
def decode(raw: Any, inflated: Any, table: Any, start: Any, end: Any, k0: Any, k1: Any, out: Any, spans: Any) -> Any:
    """Decode the records of all batches at offsets in [start, end) into the columns ``out``, which must be long enough.

    Args:
        raw: the bytes of the Fetch answer.
        inflated: the decompressed bytes of those batches that ``table`` marks as `INFLATED`.
        table: a row for each batch (`walk`); each batch's first row in ``out`` and number of rows are filled in.
        start: first offset.
        end: offset to stop before.
        k0: first word of the secret key.
        k1: second word of the secret key.
        out: the columns to fill, in the order of `parallax.replica.parts.DTYPES`.
        spans: int64[n, 6], to be filled with start and size of each record's key, value and headers; without rows if
            that is not wanted.

    Returns:
        A tuple: how many rows were filled, a code of ``PROBLEMS`` (`OK` if no batch is broken), and the index of the
        broken batch in ``table``, or -1.
    """
    n = np.int64(0)
    cursor = np.empty(CURSOR, np.int64)
    for i in range(table.shape[0]):
        row = table[i]
        row[FIRST_ROW] = n
        data = inflated if row[INFLATED] else raw
        if row[ATTRIBUTES] & IS_CONTROL:
            n, problem = _control(data, row, n, start, end, out, spans)
        else:
            cursor[NEXT], cursor[TAKEN], cursor[REACHED] = row[BODY], 0, row[BASE] - 1
            n, problem = _records(data, row, cursor, (row[END], False), n, (start, end, k0, k1), out, spans)
            if problem == OK and row[COUNT] and cursor[NEXT] != row[END]:
                problem = LEFT_OVER
        row[ROWS] = n - row[FIRST_ROW]
        if problem != OK:
            return n, problem, i
    return n, OK, -1


@njit(
    [
        types.UniTuple(_I64, 2)(
            _BYTES,
            _array(_I64),
            _array(_I64),
            types.Tuple((_I64, types.boolean)),
            types.Tuple((_I64, _I64, _U64, _U64)),
            _COLUMNS,
            _array(_I64, 2),
        )
    ],
    cache=True,
    nogil=True,
)
def decode_part(data: Any, row: Any, cursor: Any, window: Any, wanted: Any, out: Any, spans: Any) -> Any:
    """Decode the records of one batch that lie whole in ``data`` into the columns ``out``, until ``out`` is full.

    Args:
        data: bytes that hold some of the batch's records.
        row: the batch's row of the table that `walk` makes.
        cursor: int64[`CURSOR`]: where the next record lies (`NEXT`) and the like; moved past the records that were
            decoded.
        window: the end of the records in ``data``, and whether the batch goes on after it.
        wanted: first offset, offset to stop before, and the two words of the secret key.
        out: the columns to fill, in the order of `parallax.replica.parts.DTYPES`.
        spans: int64[n, 6], to be filled with start and size of each record's key, value and headers; without rows if
            that is not wanted.

    Returns:
        A tuple: how many rows were filled, and a code of ``PROBLEMS`` (`OK` if the batch is not broken).
    """
    return _records(data, row, cursor, window, np.int64(0), wanted, out, spans)


@njit(
    [types.void(_BYTES, _BYTES, _array(_I64, 2), _array(_I64, 2), _I64, _array(types.int32), _array(types.uint8))],
    cache=True,
    nogil=True,
)
def gather(raw: Any, inflated: Any, table: Any, spans: Any, field: Any, offsets: Any, target: Any) -> None:
    """Copy one field of all records (their keys, values or headers) into ``target``, one record after the other.

    Args:
        raw: the bytes of the Fetch answer.
        inflated: the decompressed bytes of those batches that ``table`` marks as `INFLATED`.
        table: a row for each batch, as `decode` has filled it in: it says which rows are of the batch.
        spans: int64[n, 6], for each row where its key, value and headers lie, as `decode` has filled it in.
        field: 0 for keys, 2 for values, 4 for headers.
        offsets: int32[n + 1] for n rows: where each row's bytes begin in ``target``, and as the last item where the
            last row's bytes end.
        target: the bytes to fill.
    """
    for i in range(table.shape[0]):
        data = inflated if table[i, INFLATED] else raw
        for n in range(table[i, FIRST_ROW], table[i, FIRST_ROW] + table[i, ROWS]):
            at = np.int64(offsets[n])
            _copy(target, at, data, spans[n, field], np.int64(offsets[n + 1]) - at)


# --- transaction outcomes ---


@njit(
    [types.void(_array(_I64, 2), _array(_I64), _array(_I64), _array(_I64), _array(types.boolean), _array(types.int8))],
    cache=True,
    nogil=True,
)
def outcomes(table: Any, index: Any, first: Any, who: Any, aborted: Any, out: Any) -> None:
    """Write the outcome of each row: 0 not transactional, 1 committed, 2 aborted.

    It decides batch by batch, as Kafka's consumer does (org.apache.kafka.clients.consumer.internals.CompletedFetch).

    Args:
        table: a row for each batch, as `decode` has filled it in.
        index: int64[m], for each batch its producer's index in ``aborted``; -1 if that producer has no aborted
            transaction.
        first: int64[k], the first offsets of the k aborted transactions that the answer lists, rising.
        who: int64[k], for each of these transactions its producer's index in ``aborted``.
        aborted: working memory, all False: for each producer, whether its current transaction is an aborted one.
        out: int8[n]: the outcome of each row is written here.
    """
    taken = 0
    for i in range(table.shape[0]):
        row = table[i]
        outcome = 0
        if row[PRODUCER] >= 0:
            while taken < first.shape[0] and first[taken] <= row[LAST]:
                aborted[who[taken]] = True
                taken += 1
            if row[ATTRIBUTES] & IS_CONTROL:
                outcome = 2 if row[CONTROL] == ABORT_MARKER else 1
                if row[CONTROL] == ABORT_MARKER and index[i] >= 0:
                    aborted[index[i]] = False
            elif row[ATTRIBUTES] & TRANSACTIONAL:
                outcome = 2 if index[i] >= 0 and aborted[index[i]] else 1
        for n in range(row[FIRST_ROW], row[FIRST_ROW] + row[ROWS]):
            out[n] = outcome
