"""Array operations that several rules share.

In bit masks of replicas, bit number n is the replica in row n of ``state.brokers``. This number is its *slot*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from parallax.compare.observations import Array
from parallax.model import UNKNOWN
from parallax.replica.kernel_cache import allow_read_only

allow_read_only()

_SLOT_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


def bits(slots: Array) -> Array:
    """For each slot, the bit mask in which only the bit of that number is set: 4 for slot 2; ``uint32[n]``.

    Args:
        slots: indices of replicas, as rows of ``state.brokers``.
    """
    return _SLOT_BITS[slots]


def has_bit(masks: Array, slot: int | np.integer[Any] | Array) -> Array:
    """For each bit mask, whether the bit of number ``slot`` is set, so that the mask names this replica.

    Args:
        masks: bit masks of replicas.
        slot: index of the replica, as a row of ``state.brokers``: a single one, or one for each mask.
    """
    return (masks >> np.uint32(slot)) & 1 == 1


def slots_of(mask: int) -> list[int]:
    """The replicas that a bit mask names, as slots (rows of ``state.brokers``), ascending."""
    return [slot for slot in range(mask.bit_length()) if mask >> slot & 1]


def bit_counts(masks: Array) -> Array:
    """How many bits are set in each mask."""
    return np.bitwise_count(masks).astype(np.int64)


def table(dtype: np.dtype[Any], length: int, **columns: Any) -> Array:
    """A structured array with ``length`` rows, made from columns by name; columns that are not given are zero."""
    made = np.zeros(length, dtype)
    for name, value in columns.items():
        made[name] = value
    return made


def joined(*tables: Array) -> Array:
    """Structured arrays of one type, joined one after another.

    It is faster than ``np.concatenate``, which works out the common type in Python each time, field by field.
    """
    made = np.empty(sum(len(part) for part in tables), tables[0].dtype)
    start = 0
    for part in tables:
        made[start : start + len(part)] = part
        start += len(part)
    return made


def group_starts(sorted_keys: Array) -> Array:
    """The index of the first entry of each run of equal numbers in ``sorted_keys``.

    With it, rows are compared run by run, e.g. all rows of one offset.
    """
    if not len(sorted_keys):
        return np.empty(0, np.intp)
    return np.concatenate([[0], np.flatnonzero(sorted_keys[1:] != sorted_keys[:-1]) + 1])


def passed_without(positions: Array, members: int, offsets: Array, shown: Array) -> Array:
    """For each row, a bit mask of the replicas in ``members`` that were read past its offset and did not show it.

    Args:
        positions: next offset to read of each replica, by slot (row of ``state.brokers``).
        members: bit mask of the replica set.
        offsets: the offset of each row, ``int64[n]``.
        shown: for each row, a bit mask of the replicas that showed it, ``uint32[n]``.

    Returns:
        ``uint32[n]``.
    """
    passed = np.zeros(len(offsets), np.uint32)
    for slot in slots_of(members):
        passed |= np.where(positions[slot] > offsets, np.uint32(1 << slot), np.uint32(0))
    return passed & ~shown.astype(np.uint32)


@njit(cache=True)
def _mix(hi: int, lo: int) -> int:  # pragma: no cover - compiled
    return (hi * np.int64(-7046029254386353131)) ^ lo  # type: ignore[return-value]


@njit(cache=True)
def _build(hi: Array, lo: Array, slots: Array, mask: int) -> None:  # pragma: no cover - compiled
    for i in range(len(hi)):
        at = _mix(hi[i], lo[i]) & mask
        while slots[at] != UNKNOWN and (hi[slots[at]] != hi[i] or lo[slots[at]] != lo[i]):
            at = (at + 1) & mask
        slots[at] = i


@njit(cache=True)
def _find(
    hi: Array, lo: Array, slots: Array, mask: int, other_hi: Array, other_lo: Array, found: Array
) -> None:  # pragma: no cover - compiled
    for i in range(len(other_hi)):
        at = _mix(other_hi[i], other_lo[i]) & mask
        while slots[at] != UNKNOWN and not found[i]:
            found[i] = hi[slots[at]] == other_hi[i] and lo[slots[at]] == other_lo[i]
            at = (at + 1) & mask


@njit(cache=True)
def _raise_to(
    hi: Array, lo: Array, slots: Array, mask: int, latest: Array, other_hi: Array, other_lo: Array, offsets: Array
) -> None:  # pragma: no cover - compiled
    for i in range(len(other_hi)):
        at = _mix(other_hi[i], other_lo[i]) & mask
        while slots[at] != UNKNOWN:
            row = slots[at]
            if hi[row] == other_hi[i] and lo[row] == other_lo[i]:
                latest[row] = max(latest[row], offsets[i])
                break
            at = (at + 1) & mask


@njit(cache=True)
def _spread(hi: Array, lo: Array, slots: Array, mask: int, latest: Array) -> None:  # pragma: no cover - compiled
    for i in range(len(hi)):
        at = _mix(hi[i], lo[i]) & mask
        while hi[slots[at]] != hi[i] or lo[slots[at]] != lo[i]:
            at = (at + 1) & mask
        latest[i] = latest[slots[at]]


def _index(hi: Array, lo: Array) -> tuple[Array, Array, Array]:
    """The keys as contiguous arrays, and an open-addressing table of the last row of each; a power of two long."""
    hi, lo = np.ascontiguousarray(hi), np.ascontiguousarray(lo)
    slots = np.full(1 << (2 * len(hi)).bit_length(), UNKNOWN, np.int64)
    _build(hi, lo, slots, len(slots) - 1)
    return hi, lo, slots


def have_key_among(hi: Array, lo: Array, other_hi: Array, other_lo: Array) -> Array:
    """For each row, whether its key is in a set of keys; it is quick if the set is small.

    Args:
        hi: high halves of the rows' key hashes.
        lo: low halves of the rows' key hashes.
        other_hi: high halves of the key hashes in the set.
        other_lo: low halves of the key hashes in the set.
    """
    found = np.zeros(len(hi), np.bool_)
    keys_hi, keys_lo, slots = _index(other_hi, other_lo)
    _find(keys_hi, keys_lo, slots, len(slots) - 1, np.ascontiguousarray(hi), np.ascontiguousarray(lo), found)
    return found


def latest_of_keys(hi: Array, lo: Array, others: list[tuple[Array, Array, Array]]) -> Array:
    """For each key, the highest offset at which it occurs in some tables.

    Args:
        hi: high halves of the hashes of the keys.
        lo: low halves of the hashes of the keys.
        others: the tables to look in, each as (high halves, low halves, offsets).

    Returns:
        ``int64[n]``; -1 where the key does not occur.
    """
    latest = np.full(len(hi), UNKNOWN, np.int64)
    hi, lo, slots = _index(hi, lo)
    mask = len(slots) - 1
    for other in others:
        _raise_to(hi, lo, slots, mask, latest, *(np.ascontiguousarray(column) for column in other))
    _spread(hi, lo, slots, mask, latest)
    return latest
