"""Adds up the rows that a reader showed, by blocks of offsets. Readers with equal sums showed the same rows.

A block is 128 (`BLOCK`) offsets. Each row has a keyed fingerprint of 128 bits. The digest of a block is how many rows
of each kind it has, and the sum of their fingerprints. A block may be divided into parts at any offset: their sums add
up to the sum of the block, in any order. A part may also have several blocks: where many producers have transactions,
their list would be longer than the rows are worth.

A cleaner or an election may change some fields of a row that stays. These fields do not go into the fingerprint: the
batch's leader epoch, and of an end marker all but its offset, producer and type (docs/contribute/theory.md).

Sums say nothing of transactions that are open at the end of a block. So each part also lists, for each producer, which
transaction it ends and which it leaves open (`MOVE`). `carried` follows transactions from part to part.

The fingerprint is NH (Black and others, UMAC, 1999) of the row's words under a secret key. It is mixed, so that
differences in two rows do not cancel out in a sum. Two given rows that differ have equal fingerprints with a
probability of at most 2^-64 over the keys. Keys and contents are keyed hashes already, so a fingerprint behaves as a
random number of 128 bits. Among 10^15 pairs of blocks that differ, one is taken for equal with a probability of 3 in
10^24.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.extending import intrinsic

from parallax.model import CONTENT_VERSION, Outcome, RowKind
from parallax.replica.kernel_cache import allow_read_only

allow_read_only()

Array = np.ndarray[Any, Any]

BLOCK_BITS = 7
BLOCK = 1 << BLOCK_BITS
"""Offsets of a block; a power of two, and a block begins at a multiple of it.

Readers of a partition end their micro-batches at unlike offsets. Up to the last end of a block that all have passed,
none of their rows need be read. The sums of a block take about 22 bytes of a file's footer."""

JOINED_BITS = 12
"""A part ends where 2**12 = 4,096 offsets end, however many producers have transactions there."""

MOVE_OFFSETS = 128
"""Parts go on over the end of a block while they have more than one `MOVE` for so many offsets.

More exactly, for so many of the largest power of two that divides the end. So all readers end parts at like offsets."""

KINDS = ("records", "commits", "aborts", "listed", "emptied")
"""Columns of `PART` that count rows, one for each `RowKind` but POSITION, in the order of the kinds."""

PART = np.dtype(
    [
        ("range", "<i4"),
        ("block_end", "<i8"),
        *((name, "<i4") for name in KINDS),
        ("low", "<u8"),
        ("high", "<u8"),
        ("first_epoch", "<i4"),
        ("last_epoch", "<i4"),
        ("contradicted", "<i4"),
    ]
)
"""The sums of some neighbouring rows, of one block or several. ``range``: the number that the caller gave to the run of
rows to which they belong (`Digester.add_up`). ``block_end``: one past the last offset of the last block. ``low`` and
``high``: the sum of their fingerprints, each half modulo 2^64. ``first_epoch``, ``last_epoch``: the lowest and the
highest leader epoch of their batches, -1 if no batch has one. ``contradicted``: how many records have another outcome
than the first record of their transaction in the part, and how many end markers contradict that first record."""

MOVE = np.dtype(
    [
        ("part", "<i4"),
        ("producer_id", "<i8"),
        ("shown", "i1"),
        ("end", "<i8"),
        ("end_kind", "i1"),
        ("start", "<i8"),
        ("outcome", "i1"),
        ("key_hash_hi", "<i8"),
        ("key_hash_lo", "<i8"),
    ]
)
"""What a part (a row of `PART`) says of one producer's transactions. ``part``: the part's index. ``shown``: the
`Outcome` of the producer's first record, if that is before its first end marker in the part; else -1. ``end``,
``end_kind``: offset and `RowKind` of this marker; -1 without one. ``start``, ``outcome``, ``key_hash_*``: the first
record after the producer's last end marker, where a transaction begins that the part leaves open; ``start`` is -1 if
there is none."""

NOTHING = -1

_WORDS = 8
_SLOT_BITS = JOINED_BITS + 1
_SLOTS = 1 << _SLOT_BITS
"""Places of the table of a part's producers: twice as many as it can have."""

_RECORD, _COMMIT, _ABORT, _LISTED = (
    int(kind) for kind in (RowKind.RECORD, RowKind.COMMIT, RowKind.ABORT, RowKind.LISTED)
)
_NONE, _COMMITTED, _ABORTED, _UNDECIDED = (
    int(outcome) for outcome in (Outcome.NONE, Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNDECIDED)
)
_OF_CONTENT = int(CONTENT_VERSION)
_MOST = np.iinfo(np.int32).max

COLUMNS: Mapping[str, Any] = {
    "kind": np.int8,
    "offset": np.int64,
    "timestamp": np.int64,
    "leader_epoch": np.int32,
    "producer_id": np.int64,
    "producer_epoch": np.int32,
    "outcome": np.int8,
    "key_hash_hi": np.int64,
    "key_hash_lo": np.int64,
    "content_hash": np.int64,
    "key_size": np.int32,
    "value_size": np.int32,
}
"""The columns of a view (docs/reference/tables.md) that sums are made of, and their types."""


@intrinsic
def _add_product(typing_context: Any, x: Any, y: Any, low: Any, high: Any) -> Any:
    """Add ``x * y`` to a number of 128 bits, modulo 2^128: (low, high)."""
    del typing_context, x, y, low, high

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        by = ir.Constant(wide, 64)
        left, right, lower, upper = (builder.zext(one, wide) for one in arguments)
        total = builder.add(builder.mul(left, right), builder.or_(lower, builder.shl(upper, by)))
        halves = [builder.trunc(total, word), builder.trunc(builder.lshr(total, by), word)]
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(*[types.uint64] * 4), generate


@njit(forceinline=True)
def _mixed(low: Any, high: Any) -> Any:
    """A permutation of 128 bits, in halves, that does not keep sums: what differs in two rows does not cancel."""
    low ^= low >> np.uint64(32)
    low *= np.uint64(0xFF51AFD7ED558CCD)
    high ^= low ^ (low >> np.uint64(29))
    high *= np.uint64(0xC4CEB9FE1A85EC53)
    high ^= high >> np.uint64(32)
    low += high
    low ^= low >> np.uint64(29)
    low *= np.uint64(0x9FB21C651E98DF25)
    return low ^ (low >> np.uint64(32)), high


@njit(forceinline=True)
def _hashed(producer: Any) -> Any:
    """Where a producer's move is looked for first."""
    x = np.uint64(producer) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.int64(x >> np.uint64(64 - _SLOT_BITS))


@njit(forceinline=True)
def _new_part(part: Any, of: Any) -> None:
    part.range = of
    part.records = part.commits = part.aborts = part.listed = part.emptied = 0
    part.low = part.high = np.uint64(0)
    part.first_epoch = part.last_epoch = NOTHING
    part.contradicted = 0


@njit(forceinline=True)
def _end(offset: Any, bits: Any) -> Any:
    """One past the last of ``2**bits`` offsets that begin at a multiple of it."""
    return ((offset >> bits) + 1) << bits


@njit(forceinline=True)
def _is_enough(block_end: Any, moves: Any) -> Any:
    """Whether a part may end at the end of a block, for all moves that it has."""
    return moves * MOVE_OFFSETS <= block_end & -block_end


@njit(forceinline=True)
def _count(part: Any, kind: Any) -> None:
    """Count a row that is no record."""
    if kind == _COMMIT:
        part.commits += 1
    elif kind == _ABORT:
        part.aborts += 1
    elif kind == _LISTED:
        part.listed += 1
    else:
        part.emptied += 1


@njit(forceinline=True)
def _move_of(table: Any, at: Any, producer: Any, moves: Any, first: Any, n: Any) -> Any:
    """(index of the producer's move of this part, how many moves there are now); a new one where it has none."""
    slot = _hashed(producer)
    while True:
        move = table[slot]
        if move < first or move >= n:
            break
        if moves[move].producer_id == producer:
            return move, n
        slot = (slot + 1) & (_SLOTS - 1)
    table[slot] = n
    new = moves[n]
    new.part, new.producer_id = at, producer
    new.shown = new.end_kind = new.outcome = NOTHING
    new.end = new.start = NOTHING
    new.key_hash_hi = new.key_hash_lo = 0
    return n, n + 1


@njit(forceinline=True)
def _moved(move: Any, kind: Any, offset: Any, outcome: Any, hi: Any, lo: Any) -> Any:
    """Take in a record or an end marker of a transaction; 1 where it contradicts what came before it, else 0."""
    open_as = move.outcome
    if kind == _RECORD:
        if move.start < 0:
            move.start, move.outcome, move.key_hash_hi, move.key_hash_lo = offset, outcome, hi, lo
            if move.end < 0 and move.shown < 0:
                move.shown = outcome
            return 0
        return np.int64(open_as != outcome)
    against = move.start >= 0 and open_as != _UNDECIDED and open_as != (_COMMITTED if kind == _COMMIT else _ABORTED)
    if move.end < 0:
        move.end, move.end_kind = offset, kind
    move.start = move.outcome = NOTHING
    move.key_hash_hi = move.key_hash_lo = 0
    return np.int64(against)


def _kernel(frozen: tuple[int, ...]) -> Any:
    """The loop over rows; ``frozen``: what is compiled into it of other modules, which numba does not see."""

    def add_up(
        begins: Array,
        ranges: Array,
        columns: Any,
        keys: Array,
        mask: Array,
        table: Array,
        parts: Array,
        moves: Array,
        bits: int,
        joined_bits: int,
    ) -> tuple[int, int]:  # pragma: no cover - compiled
        kinds, offsets, times, epochs, producers, producer_epochs, outcomes, his, los, contents, key_sizes, sizes = (
            columns
        )
        n_parts, n_moves = 0, 0
        k0, k1, k2, k3, k4, k5, k6, k7 = keys[0], keys[1], keys[2], keys[3], keys[4], keys[5], keys[6], keys[7]
        of_content = np.uint64(_OF_CONTENT << 16)
        for run in range(len(ranges) if len(frozen) else 0):
            i, end = begins[run], begins[run + 1]
            while i < end:
                # One part: its sums stay in registers.
                first, begin = n_moves, i
                block_end, last = _end(offsets[i], bits), _end(offsets[i], joined_bits)
                low, high, others, against = np.uint64(0), np.uint64(0), np.int64(0), np.int64(0)
                first_epoch, last_epoch = np.int32(_MOST), np.int32(NOTHING)
                part = parts[n_parts]
                _new_part(part, ranges[run])
                while i < end:
                    offset, kind, outcome, producer = offsets[i], kinds[i], outcomes[i], producers[i]
                    if offset >= last or (offset >= block_end and _is_enough(block_end, n_moves - first)):
                        break
                    block_end = max(block_end, _end(offset, bits))
                    what = np.uint64(kind) | np.uint64(np.uint8(outcome)) << np.uint64(8)
                    if kind == _RECORD:
                        what |= np.uint64(np.uint32(producer_epochs[i])) << np.uint64(32) | of_content
                        size = np.uint64(np.uint32(key_sizes[i])) << np.uint64(32) | np.uint64(np.uint32(sizes[i]))
                        x, y = _add_product(np.uint64(his[i]) + k0, np.uint64(los[i]) + k1, k1, k0)
                        x, y = _add_product(np.uint64(contents[i]) + k2, np.uint64(times[i]) + k3, x, y)
                        x, y = _add_product(size + k4, what + k5, x, y)
                    else:
                        x, y = _add_product(k4, what + k5, k0, k1)
                        others += 1
                        _count(part, kind)
                    x, y = _add_product(np.uint64(offset) + k6, np.uint64(producer) + k7, x, y)
                    x, y = _mixed(x, y)
                    low += x & mask[0]
                    high += y & mask[1]
                    epoch = epochs[i]
                    if epoch >= 0:
                        first_epoch, last_epoch = min(first_epoch, epoch), max(last_epoch, epoch)
                    if outcome != _NONE and producer >= 0 and kind <= _ABORT:
                        move, n_moves = _move_of(table, n_parts, producer, moves, first, n_moves)
                        against += _moved(moves[move], kind, offset, outcome, his[i], los[i])
                    i += 1
                part.block_end, part.records, part.contradicted = block_end, i - begin - others, against
                part.low, part.high = low, high
                if last_epoch >= 0:
                    part.first_epoch, part.last_epoch = first_epoch, last_epoch
                n_parts += 1
        return n_parts, n_moves

    return add_up


_SAMPLE = (
    np.empty(0, np.int64),
    np.empty(0, np.int32),
    tuple(np.empty(0, dtype) for dtype in COLUMNS.values()),
    *(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64)),
    *(np.empty(0, PART), np.empty(0, MOVE)),
)


_FROZEN = (
    _RECORD,
    _COMMIT,
    _ABORT,
    _LISTED,
    _NONE,
    _COMMITTED,
    _ABORTED,
    _UNDECIDED,
    _OF_CONTENT,
    MOVE_OFFSETS,
    _SLOT_BITS,
)


def _read_only(sample: Any) -> Any:
    kind = typeof(sample)
    return types.Array(kind.dtype, 1, "C", readonly=True)


_add_up = njit(
    [
        types.UniTuple(types.int64, 2)(
            _read_only(_SAMPLE[0]),
            _read_only(_SAMPLE[1]),
            types.Tuple([_read_only(one) for one in _SAMPLE[2]]),
            _read_only(_SAMPLE[3]),
            _read_only(_SAMPLE[4]),
            *(typeof(one) for one in _SAMPLE[5:]),
            types.int64,
            types.int64,
        )
    ],
    cache=True,
    nogil=True,
)(_kernel(_FROZEN))


@dataclass(frozen=True, slots=True)
class Digests:
    """The sums of some rows that one reader was shown, and which transactions these rows end or leave open.

    The rows are divided into *parts*: each has rows that follow one another, of one block or several. A block may also
    have several.

    Attributes:
        parts: an array of `PART`, one item for each part, in the order of the rows: how many rows of each kind the part
            has, and the sum of their fingerprints. The sums of all parts of a block add up to those of the block.
        moves: an array of `MOVE`, in the order of the parts. It has an item for each part and each producer with
            transactional rows there: which transaction the part ends, and which it leaves open. A part that was
            `joined` may have several of one producer, in the order of its rows.
    """

    parts: Array
    moves: Array

    @classmethod
    def none(cls) -> Digests:
        """The sums of no rows."""
        return cls(np.empty(0, PART), np.empty(0, MOVE))

    @classmethod
    def concat(cls, several: list[Digests]) -> Digests:
        """Join several `Digests` into one, with their parts one after another, and then their moves.

        Args:
            several: the sums of consecutive rows, in the order of the rows. ``part`` of their moves is counted from 0
                in each; in the result it is counted through. Empty: the result has no rows.
        """
        if not several:
            return cls.none()
        moves = [one.moves.copy() for one in several]
        begin = 0
        for one, its in zip(several, moves, strict=True):
            its["part"] += begin
            begin += len(one.parts)
        return cls(np.concatenate([one.parts for one in several]), np.concatenate(moves))

    def joined(self, ranges: Array | None = None) -> Digests:
        """The same sums in as few parts as may be: one for each range and ``2**JOINED_BITS`` offsets.

        A part then has one move of each producer, as if its rows had been added up as one part.

        Args:
            ranges: int32[n], where several ranges have become one: for each value of the column ``range`` of ``parts``,
                its new value. Those of one new range are in offset order. None if the ranges stay as they are.
        """
        if not len(self.parts):
            return self
        of = self.parts["range"] if ranges is None else ranges[self.parts["range"]]
        in_turn = np.argsort(of, kind="stable")
        parts, of = self.parts[in_turn], of[in_turn]
        many = (parts["block_end"] - 1) >> JOINED_BITS
        is_first = np.ones(len(parts), np.bool_)
        is_first[1:] = (many[1:] != many[:-1]) | (of[1:] != of[:-1])
        begins, to = np.flatnonzero(is_first), np.empty(len(parts), np.int32)
        to[in_turn] = np.cumsum(is_first) - 1
        made = parts[begins]
        made["range"] = of[begins]
        for name in (*KINDS, "low", "high", "contradicted"):
            made[name] = np.add.reduceat(parts[name], begins, dtype=PART[name])
        for name in ("block_end", "last_epoch"):
            made[name] = np.maximum.reduceat(parts[name], begins)
        # As numbers without a sign -1, which is none, is the highest.
        made["first_epoch"] = np.minimum.reduceat(parts["first_epoch"].astype(np.uint32), begins).astype(np.int32)
        moves, against = _joined_moves(self.moves, to)
        np.add.at(made["contradicted"], against, 1)
        return Digests(made, moves)


def _joined_moves(moves: Array, parts: Array) -> tuple[Array, Array]:
    """Join the moves of each producer whose parts have become one; and in which parts one contradicts the next.

    Args:
        moves: rows of `MOVE`.
        parts: for each part its new number.
    """
    if not len(moves):
        return moves, np.empty(0, np.int64)
    of = parts[moves["part"]]
    in_turn = np.lexsort((moves["part"], moves["producer_id"], of))
    its, of = moves[in_turn], of[in_turn]
    is_first = np.ones(len(its), np.bool_)
    is_first[1:] = (np.diff(of) != 0) | (np.diff(its["producer_id"]) != 0)
    begins, at = np.flatnonzero(is_first), np.arange(len(its))
    group, none = np.cumsum(is_first) - 1, len(its)
    ends = its["end"] >= 0
    first_end = np.minimum.reduceat(np.where(ends, at, none), begins)
    last_end = np.maximum.reduceat(np.where(ends, at, -1), begins)
    opens = np.minimum.reduceat(np.where((its["start"] >= 0) & (at >= last_end[group]), at, none), begins)
    made = its[begins].copy()
    made["part"] = of[begins]
    blank = np.zeros(1, MOVE)
    for name in ("end", "end_kind", "start", "outcome"):
        blank[name] = NOTHING
    padded = np.concatenate([its, blank])
    for names, found in ((("end", "end_kind"), first_end), (("start", "outcome", "key_hash_hi", "key_hash_lo"), opens)):
        for name in names:
            made[name] = padded[name][found]
    return made, of[contradicting(its) & ~is_first].astype(np.int64)


def contradicting(moves: Array) -> Array:
    """For each of the moves, whether it gives the transaction that the one before leaves open another outcome.

    There is one if, and only if, `carried` counts any.

    Args:
        moves: rows of `MOVE` of one reader, those of each producer one after another, in the order of their parts.
    """
    against = np.zeros(len(moves), np.bool_)
    before, after = moves[:-1], moves[1:]
    ended_as = np.where(after["end_kind"] == _COMMIT, _COMMITTED, _ABORTED)
    differs = np.where(
        after["shown"] >= 0,
        after["shown"] != before["outcome"],
        (after["end"] >= 0) & (before["outcome"] != _UNDECIDED) & (before["outcome"] != ended_as),
    )
    against[1:] = differs & (before["start"] >= 0) & (before["producer_id"] == after["producer_id"])
    return against


class Digester:
    """Adds up the rows of readers by blocks of offsets (`Digests`). Each thread needs a digester of its own.

    Args:
        key: the 16 secret bytes with which keys and contents were hashed; sums are comparable only under the same key.
        bits: how many of the fingerprint's 128 bits to use; fewer for tests of collisions.
        block_bits: a block has ``2**block_bits`` offsets; fewer bits for tests with few rows.
        joined_bits: a part has at most ``2**joined_bits`` offsets; ``block_bits`` for parts of one block each.

    Raises:
        ValueError: the key is not 16 bytes long, or parts are too large for the table of their producers.
    """

    def __init__(
        self, key: bytes, bits: int = 128, block_bits: int = BLOCK_BITS, joined_bits: int = JOINED_BITS
    ) -> None:
        if len(key) != 16:
            raise ValueError(f"the hash key must be 16 bytes (128 bits), not {len(key)}")
        if joined_bits > JOINED_BITS:
            raise ValueError(f"a part is too long if it may have 2^{joined_bits}: the most is 2^{JOINED_BITS}")
        derived = hashlib.blake2b(key=key, person=b"parallax blocks", digest_size=8 * _WORDS).digest()
        self._keys = np.frombuffer(derived, np.uint64)
        self._of_parts = block_bits, joined_bits
        kept = (1 << bits) - 1
        self._mask = np.array([kept & (2**64 - 1), kept >> 64], np.uint64)
        self._table = np.full(_SLOTS, NOTHING, np.int64)
        self._parts, self._moves = np.empty(0, PART), np.empty(0, MOVE)

    def add_up(self, begins: Array, ranges: Array, columns: Mapping[str, Array]) -> Digests:
        """Add up the rows of one reader by blocks of offsets, so that readers can be compared by their sums.

        Args:
            begins: int64[m + 1]. The rows consist of m runs, each read in one go. It has the index of each run's first
                row, and as the last item the number of all rows.
            ranges: int32[m]: for each run a number of the caller's choice, which the run's ``parts`` have in the column
                ``range``.
            columns: the rows as arrays by name (`COLUMNS`), in offset order, without rows of kind POSITION.
        """
        n = len(columns["offset"])
        if len(self._parts) < n:
            self._parts, self._moves = np.empty(n, PART), np.empty(n, MOVE)
        given = tuple(np.ascontiguousarray(columns[name], dtype) for name, dtype in COLUMNS.items())
        where = np.ascontiguousarray(begins, np.int64), np.ascontiguousarray(ranges, np.int32)
        made = self._table, self._parts, self._moves
        counts = _add_up(*where, given, self._keys, self._mask, *made, *self._of_parts)
        self._table[:] = NOTHING
        return Digests(self._parts[: counts[0]].copy(), self._moves[: counts[1]].copy())


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that is still open after some rows of a reader: they show its records, but no end marker.

    Attributes:
        start: offset of the transaction's first record that the reader showed.
        outcome: the `Outcome` that the reader gives its records.
        key_hash_hi: high half of the hash of the first record's key; 0 if the key is null.
        key_hash_lo: low half of the same hash.
    """

    start: int
    outcome: int
    key_hash_hi: int
    key_hash_lo: int


def carried(before: Mapping[int, Open], moves: Array) -> tuple[dict[int, Open], int]:
    """Follow the open transactions of one reader through neighbouring parts (items of `PART`).

    Args:
        before: by producer id, the transactions that are open where the first part begins.
        moves: the rows of `MOVE` of all these parts, in their order.

    Returns:
        A tuple: by producer id, the transactions that are open where the last part ends; and how often a part
        contradicts a transaction that is open where it begins. It does so if its records, or its end marker, have
        another outcome.
    """
    after, against = dict(before), 0
    for _, producer, shown, end, end_kind, *begins in moves.tolist():
        known = after.get(producer)
        if known is not None:
            against += _differs(known.outcome, shown, end, end_kind)
            if end >= 0:
                del after[producer]
        if begins[0] >= 0 and producer not in after:
            after[producer] = Open(*begins)
    return after, against


def _differs(outcome: int, shown: int, end: int, end_kind: int) -> bool:
    """Whether a part goes on otherwise with a transaction that was shown with an outcome; the rest is as in `MOVE`."""
    if shown >= 0:
        return shown != outcome  # And what it shows is held against its own end marker.
    if end < 0 or outcome == _UNDECIDED:
        return False
    return outcome != (_COMMITTED if end_kind == _COMMIT else _ABORTED)


__all__ = [
    "BLOCK",
    "BLOCK_BITS",
    "COLUMNS",
    "JOINED_BITS",
    "KINDS",
    "MOVE",
    "MOVE_OFFSETS",
    "NOTHING",
    "PART",
    "Digester",
    "Digests",
    "Open",
    "carried",
    "contradicting",
]
