"""Compares all quiet partitions of a Spark task together, without unpacking their states one by one.

A partition is quiet if nothing in the micro-batch could need a verdict. The packed states of all partitions are copied
into columns. The compiled step (`parallax.compare.quiet`) takes in what was observed, and the result is packed again.
The format is that of `PartitionState`, so a partition may be quiet in one micro-batch and not in the next. Knows
neither files nor Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types

from parallax.compare.blobs import Blobs
from parallax.compare.cap import COMMITTED_SHARE, CONTENT_SHARE
from parallax.compare.gathered import Ordered
from parallax.compare.observations import Array
from parallax.compare.quiet import COVERED, Limits, Rows, Sets, Tables, Ticks, plain, take_in
from parallax.compare.rules.content import fingerprints
from parallax.compare.state import (
    BROKER,
    CANDIDATE,
    CONTENT,
    HEADER,
    MAX_BROKERS,
    NEW_HEADER,
    TABLES,
    UNMATCHED,
    UNREAD,
)
from parallax.config import CompareSettings

MANY_ROWS = 256
"""A partition with more rows than this in a micro-batch is stepped by itself. Then its arrays are worth their cost."""

MANY_WAITING = 1024
"""A partition is also stepped by itself if more of its records than this wait to be matched."""

_NAMES = tuple(name for name, _ in TABLES)
_SIZES = np.array([dtype.itemsize for _, dtype in TABLES], np.int64)
_GATHERED = ("partition", "broker", "unread", "content", "pending")
_HELD = (*_GATHERED, "told")
_AT = {name: _NAMES.index(name if name != "broker" else "brokers") for name in _HELD}
_IS_HEAD = np.array([name not in UNMATCHED for name in _NAMES])
_FOREIGN = np.array([n not in _AT.values() for n in range(len(_NAMES))])


@dataclass(frozen=True, slots=True)
class Quiet:
    """The result of `step_quiet`: the new states of the partitions that were quiet, and how far each was compared.

    Attributes:
        at: the index of each quiet partition in the arguments of `step_quiet`, ascending. All other columns are in the
            order of ``at``.
        heads: the packed head of each new state (`PartitionState.head_bytes`).
        unmatched: the packed unmatched tables of each new state (`PartitionState.unmatched_bytes`).
        covered: one `COVERED` row for each of these partitions: how far it was compared.
        brokers: `BROKER` rows of all of these partitions, one partition after another.
        broker_at: for each partition the index of its first row in ``brokers``, and as last entry the number of rows.
        spans: `UNREAD` rows of all of these partitions: offsets that are unknown until an audit.
        span_at: for each partition the index of its first row in ``spans``, and as last entry the number of rows.
    """

    at: Array
    heads: Blobs
    unmatched: Blobs
    covered: Array
    brokers: Array
    broker_at: Array
    spans: Array
    span_at: Array


def step_quiet(
    heads: Blobs,
    unmatched: Blobs,
    may: Array,
    seen: Ordered,
    settings: CompareSettings,
) -> Quiet:
    """Compare the partitions that are quiet in a micro-batch; the other partitions are left for `compare.step`.

    Args:
        heads: the packed head of each partition's state (`PartitionState.head_bytes`); empty for a partition without a
            state, which is never quiet.
        unmatched: the packed unmatched tables of each state (`PartitionState.unmatched_bytes`).
        may: for each partition, whether the caller allows that it is compared here.
        seen: what was observed of each partition, in the same order.
        settings: for the grace period and the cap of the state.

    Returns:
        The quiet partitions alone; a partition that ``Quiet.at`` does not name is as it was.
    """
    counts = _counted(heads, unmatched, may)
    is_quiet = may & (counts[:, _AT["partition"]] == 1)
    is_quiet &= sum(np.diff(at) for at in seen.at) <= MANY_ROWS
    states = _gathered(heads, unmatched, counts, np.diff(seen.at[0]))
    rows, progress, _, sets = seen.tables
    _, _, _, set_at = seen.at
    covered = np.zeros(len(may), COVERED)
    room = 2 * np.diff(states.unread_at)
    spans, span_at = np.zeros(int(room.sum()), UNREAD), _bounds(room)
    columns = {name: getattr(rows, name) for name in Rows._fields if name not in ("level", "fingerprint")}
    limit = Limits(
        settings.grace_ms,
        int(settings.state_cap_bytes * CONTENT_SHARE) // CONTENT.itemsize,
        int(settings.state_cap_bytes * COMMITTED_SHARE) // CANDIDATE.itemsize,
    )
    take_in(
        states,
        _contiguous(Rows(level=rows.view, fingerprint=fingerprints(rows), **columns)),
        seen.at[0],
        _contiguous(Ticks(*(getattr(progress, name) for name in Ticks._fields))),
        seen.at[1],
        _contiguous(Sets(*(getattr(sets, name) for name in Sets._fields))),
        set_at,
        limit,
        is_quiet,
        covered,
        spans,
        span_at,
    )
    return _packed(np.flatnonzero(is_quiet), heads, counts, states, covered, spans, span_at)


def _contiguous(columns: Any) -> Any:
    """Columns as the kernel is compiled for them."""
    return type(columns)(*(np.require(column, requirements=("C", "W")) for column in columns))


def _counted(heads: Blobs, unmatched: Blobs, may: Array) -> Array:
    """How many rows each table of each state has; 0 of one that is nothing for the kernel."""
    counts = np.zeros((len(may), len(TABLES)), np.int64)
    at = np.flatnonzero(may & (heads.size >= HEADER.itemsize))
    headers = np.zeros(len(at), HEADER)
    _copy(heads.data, heads.start[at], headers.view(np.uint8), *_places(len(at), HEADER.itemsize))
    rows = headers["rows"].astype(np.int64)
    is_ours = (headers["magic"] == NEW_HEADER["magic"]) & (headers["version"] == NEW_HEADER["version"])
    is_ours &= (rows[:, _FOREIGN] == 0).all(axis=1) & (rows[:, _AT["content"]] <= MANY_WAITING)
    is_ours &= (rows[:, _AT["pending"]] <= MANY_WAITING) & (rows[:, _AT["broker"]] <= MAX_BROKERS)
    sizes = rows * _SIZES
    is_ours &= HEADER.itemsize + sizes[:, _IS_HEAD].sum(axis=1) == heads.size[at]
    is_ours &= sizes[:, ~_IS_HEAD].sum(axis=1) == unmatched.size[at]
    counts[at[is_ours]] = rows[is_ours]
    return counts


def _gathered(heads: Blobs, unmatched: Blobs, counts: Array, new_rows: Array) -> Tables:
    tables: dict[str, Array] = {}
    for name in _GATHERED:
        dtype = dict(TABLES)[_NAMES[_AT[name]]]
        blobs = heads if _IS_HEAD[_AT[name]] else unmatched
        mine = counts[:, _AT[name]]
        bounds = _bounds(mine if _IS_HEAD[_AT[name]] else mine + new_rows)
        made = np.zeros(int(bounds[-1]), dtype)
        start = blobs.start + _offset_of(name, counts)
        _copy(blobs.data, start, made.view(np.uint8), bounds[:-1] * dtype.itemsize, mine * dtype.itemsize)
        tables |= {name: made.view(plain(dtype)), f"{name}_at": bounds}
        if not _IS_HEAD[_AT[name]]:
            tables[f"{name}_rows"] = mine.copy()
    return Tables(**tables)


def _offset_of(name: str, counts: Array) -> Array:
    """Where a table lies in the bytes of each state: of its head, or of what is unmatched."""
    n = _AT[name]
    is_head = bool(_IS_HEAD[n])
    before = (np.arange(len(TABLES)) < n) & (_IS_HEAD if is_head else ~_IS_HEAD)
    offset: Array = (counts * _SIZES)[:, before].sum(axis=1) + (HEADER.itemsize if is_head else 0)
    return offset


def _packed(
    at: Array, heads: Blobs, before: Array, states: Tables, covered: Array, spans: Array, span_at: Array
) -> Quiet:
    counts = before[at].copy()
    for name in ("content", "pending"):
        counts[:, _AT[name]] = getattr(states, f"{name}_rows")[at]
    sizes = counts * _SIZES
    covered = covered[at]
    covered["state_bytes"] = sizes.sum(axis=1)
    head_size = HEADER.itemsize + sizes[:, _IS_HEAD].sum(axis=1)
    made_heads = Blobs(np.zeros(int(head_size.sum()), np.uint8), np.cumsum(head_size) - head_size, head_size)
    rest_size = sizes[:, ~_IS_HEAD].sum(axis=1)
    made_rest = Blobs(np.zeros(int(rest_size.sum()), np.uint8), np.cumsum(rest_size) - rest_size, rest_size)
    headers = np.repeat(NEW_HEADER, len(at))
    headers["rows"] = counts
    into, size = _places(len(at), HEADER.itemsize)
    _copy(headers.view(np.uint8), into, made_heads.data, made_heads.start, size)
    for name in _GATHERED:
        made, n, table = made_heads if _IS_HEAD[_AT[name]] else made_rest, _AT[name], getattr(states, name)
        into = made.start + _offset_of(name, counts)
        first = getattr(states, f"{name}_at")[:-1]
        _copy(table.view(np.uint8), first[at] * table.itemsize, made.data, into, sizes[:, n])
    told = heads.start[at] + _offset_of("told", before[at])
    into = made_heads.start + _offset_of("told", counts)
    _copy(heads.data, told, made_heads.data, into, sizes[:, _AT["told"]])
    brokers, broker_at = _slices(states.broker, states.broker_at[:-1][at], counts[:, _AT["broker"]])
    spans, span_at = _slices(spans, span_at[:-1][at], covered["spans"])
    return Quiet(at, made_heads, made_rest, covered, brokers.view(BROKER), broker_at, spans, span_at)


def _slices(table: Array, start: Array, count: Array) -> tuple[Array, Array]:
    """Pieces of a table one behind the other, and where each begins."""
    bounds = _bounds(count)
    made = np.zeros(int(bounds[-1]), table.dtype)
    size = table.itemsize
    _copy(table.view(np.uint8), start * size, made.view(np.uint8), bounds[:-1] * size, count * size)
    return made, bounds


def _bounds(counts: Array) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _places(n: int, size: int) -> tuple[Array, Array]:
    """Where n pieces of one size lie, and their sizes."""
    return np.arange(n) * size, np.full(n, size)


_BYTES = types.Array(types.uint8, 1, "C")
_READ_ONLY = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)


@njit([types.void(_READ_ONLY, _NUMBERS, _BYTES, _NUMBERS, _NUMBERS)], cache=True, nogil=True)
def _copied(source: Array, start: Array, into: Array, to: Array, size: Array) -> None:  # pragma: no cover - compiled
    for i in range(len(start)):
        for j in range(size[i]):
            into[to[i] + j] = source[start[i] + j]


def _copy(source: Array, start: Array, into: Array, to: Array, size: Array) -> None:
    """Copy pieces of bytes; ``start``, ``to`` and ``size`` of each."""
    start, to, size = (np.ascontiguousarray(numbers, np.int64) for numbers in (start, to, size))
    _copied(source, start, into, to, size)


__all__ = ["MANY_ROWS", "Blobs", "Quiet", "step_quiet"]
