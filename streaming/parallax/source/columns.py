"""Turns the arrays that the decoder made of a broker's answer into Spark's record batches, without copying records.

Some columns are the same in every row, such as ``broker``, or the struct ``position`` in the rows of records, where it
is null. They are built once per process for the longest batch, and sliced. The other columns are the decoder's own
arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.model import CONTENT_VERSION, ReadEvent, RowKind
from parallax.source import schema
from parallax.source.offsets import Reader

Array = Any
"""A ``pyarrow.Array``; its stubs are generic in the scalar type, which says nothing here."""

ROWS = 32_768
"""How many rows a record batch has at most, about 5 MB. It bounds what a worker and the JVM hold."""


_FURTHEST_MS = (2**63 - 1) // 1000
"""The largest time in milliseconds that is a 64-bit number in microseconds."""


@dataclass(frozen=True, slots=True)
class Position:
    """What a *position row* of a view says: up to which offset a reader has read its replica, and what happened there.

    Such a row (`RowKind.POSITION`) holds no record.

    Attributes:
        reader: the reader that has read up to there.
        offset: the next offset that it reads.
        read_at_ms: when it read up to there, in ms since 1970 UTC.
        event: what happened: ``ok``, or why the reader cannot go on or goes on elsewhere.
        detail: the event in words, for people; empty for ``ok``.
        topic_id: id of the topic that the offset belongs to.
        high_watermark: the replica's high watermark at that time; None if the replica did not say.
        last_stable_offset: the replica's last stable offset at that time; None if the replica did not say.
        log_start_offset: the replica's log start at that time; None if the replica did not say.
        epoch: leader epoch of the last batch that was read. It lies below ``offset``, unless the event is
            ``log_truncated``: then the log may have lost it. -1 if it is not known.
    """

    reader: Reader
    offset: int
    read_at_ms: int
    event: ReadEvent
    detail: str
    topic_id: str
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    epoch: int = -1


class Readers:
    """The readers that were shown some rows; makes the columns ``topic`` and ``partition`` of these rows.

    Args:
        readers: the readers, all of one broker and isolation level. A row names its reader by the index in this list.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = readers
        self._topics: Array = pa.array([reader.topic for reader in readers], pa.string())
        self._partitions = np.array([reader.partition for reader in readers], np.int32)

    def places(self, of: Any, n: int, only: int) -> tuple[Array, Array]:
        """The columns ``topic`` and ``partition`` for n rows, as a tuple.

        Args:
            of: int64[n], the index of each row's reader; None if all rows are of one reader.
            n: how many rows.
            only: the index of that one reader, if ``of`` is None.
        """
        if of is None:
            reader = self.readers[only]
            return _repeated_text(reader.topic).slice(0, n), _repeated(reader.partition, "i4").slice(0, n)
        return self._topics.take(pa.array(of)), pa.array(self._partitions[of])


def record_batches(shown: Any, readers: Readers, *, with_isolation: bool) -> Iterator[pa.RecordBatch]:
    """Yield rows that the decoder made of a broker's answer as record batches of the source's schema.

    Args:
        shown: rows (``parallax.replica.reader.Shown``) of one broker's replicas.
        readers: the readers of the rows; a row whose index in ``shown.of`` is n is of reader n.
        with_isolation: whether to add the column ``isolation``.
    """
    columns = shown.columns
    only = shown.marks[0][0] if shown.marks else 0
    reader = readers.readers[only]
    for start in range(0, len(columns.offset), ROWS):
        part = slice(start, start + ROWS)
        n = len(columns.offset[part])
        of = None if shown.of is None else shown.of[part]
        arrays: list[Array] = [
            *readers.places(of, n, only),
            _repeated(reader.broker, "i4").slice(0, n),
            _column(columns.kind[part], np.int8),
            _column(columns.offset[part], np.int64),
            _timestamps(columns.timestamp[part]),
            _column(columns.leader_epoch[part], np.int32),
            _column(columns.producer_id[part], np.int64),
            _column(columns.producer_epoch[part], np.int32),
            _column(shown.outcome[part], np.int8),
            _column(columns.key_hash_hi[part], np.int64),
            _column(columns.key_hash_lo[part], np.int64),
            _column(columns.content_hash[part], np.int64),
            _column(columns.key_size[part], np.int32),
            _column(columns.value_size[part], np.int32),
            _payload(columns, start, n),
            _nulls(schema.POSITION).slice(0, n),
            _repeated(CONTENT_VERSION, "i1").slice(0, n),
        ]
        yield _batch(arrays, reader, n, with_isolation)


def position_batch(rows: Sequence[Position], *, with_isolation: bool) -> pa.RecordBatch:
    """A record batch of position rows (`Position`), all of one isolation level.

    Args:
        rows: at least one.
        with_isolation: whether to add the column ``isolation``.
    """
    n = len(rows)
    position = pa.array(
        [
            {
                "high_watermark": row.high_watermark,
                "last_stable_offset": row.last_stable_offset,
                "log_start_offset": row.log_start_offset,
                "event": row.event.value,
                "detail": row.detail or None,
                "topic_id": row.topic_id or None,
            }
            for row in rows
        ],
        schema.POSITION,
    )
    zeros = _repeated(0, "i8").slice(0, n)
    arrays: list[Array] = [
        pa.array([row.reader.topic for row in rows], pa.string()),
        pa.array([row.reader.partition for row in rows], pa.int32()),
        pa.array([row.reader.broker for row in rows], pa.int32()),
        _repeated(int(RowKind.POSITION), "i1").slice(0, n),
        pa.array([row.offset for row in rows], pa.int64()),
        pa.array([row.read_at_ms * 1000 for row in rows], schema.TIMESTAMP),
        pa.array([row.epoch for row in rows], pa.int32()),
        _repeated(-1, "i8").slice(0, n),
        _repeated(-1, "i4").slice(0, n),
        _repeated(0, "i1").slice(0, n),
        zeros,
        zeros,
        zeros,
        _repeated(-1, "i4").slice(0, n),
        _repeated(-1, "i4").slice(0, n),
        _nulls(schema.PAYLOAD).slice(0, n),
        position,
        _nulls(pa.int8()).slice(0, n),
    ]
    return _batch(arrays, rows[0].reader, n, with_isolation)


def empty_batch(*, with_isolation: bool) -> pa.RecordBatch:
    """A record batch without rows, so that a Spark task that reads nothing still has a schema.

    Args:
        with_isolation: whether the schema has the column ``isolation``.
    """
    wanted = schema.VIEW_WITH_ISOLATION if with_isolation else schema.VIEW
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in wanted], schema=wanted)


def _batch(arrays: list[Array], reader: Reader, n: int, with_isolation: bool) -> pa.RecordBatch:
    if not with_isolation:
        return pa.RecordBatch.from_arrays(arrays, schema=schema.VIEW)
    arrays.append(_repeated(int(reader.isolation), "i1").slice(0, n))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.VIEW_WITH_ISOLATION)


def _column(values: Any, dtype: Any) -> Array:
    # Only producer_epoch (int16 on the wire) is converted; the others come in the type that Spark wants.
    return pa.array(values.astype(dtype, copy=False))


def _timestamps(milliseconds: Any) -> Array:
    # A producer may have written any 64 bits.
    micros: Any = np.multiply(np.clip(milliseconds, -_FURTHEST_MS, _FURTHEST_MS), 1000, dtype=np.int64)
    return pa.Array.from_buffers(schema.TIMESTAMP, len(micros), [None, pa.py_buffer(micros)])


def _payload(columns: Any, start: int, n: int) -> Array:
    if columns.keys is None and columns.values is None and columns.headers is None:
        return _nulls(schema.PAYLOAD).slice(0, n)
    parts = [columns.keys, columns.values, columns.headers]
    return pa.StructArray.from_arrays(
        [_nulls(pa.binary()).slice(0, n) if part is None else part.slice(start, n) for part in parts],
        fields=list(schema.PAYLOAD),
    )


@lru_cache(maxsize=512)
def _repeated(value: int, dtype: str) -> Array:
    return pa.array(np.full(ROWS, value, dtype))


@lru_cache(maxsize=64)
def _repeated_text(text: str) -> Array:
    raw = text.encode()
    ends: Any = np.arange(ROWS + 1, dtype=np.int32) * len(raw)
    return pa.Array.from_buffers(pa.string(), ROWS, [None, pa.py_buffer(ends), pa.py_buffer(raw * ROWS)])


@lru_cache(maxsize=8)
def _nulls(kind: Any) -> Array:
    return pa.nulls(ROWS, kind)
