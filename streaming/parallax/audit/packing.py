"""Packs observations (rows of views and of progress) into bytes, so that Spark can shuffle them, and unpacks them.

It uses Arrow and numpy, and no Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.compare.batches import progress_observations, view_observations
from parallax.compare.gathered import KINDS
from parallax.compare.observations import Array, Columns, Observations, ViewRows

PACKED_AT_DDL = "topic string, partition int, at bigint, packed binary"

_FIELDS: list[Any] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("at", pa.int64()),
    pa.field("packed", pa.binary()),
]
PACKED_AT: Any = pa.schema(_FIELDS)

_COUNTS = struct.Struct("<4Q")


def pack(observations: Observations) -> bytes:
    """The observations of one partition as bytes: their columns one after the other, as they are in memory.

    Topic and partition are left out; `unpack` is given them.
    """
    parts = (
        observations.rows,
        observations.progress,
        observations.open_transactions,
        observations.replica_sets,
    )
    return b"".join(
        [_COUNTS.pack(*(len(part) for part in parts)), *(part.to_bytes() if len(part) else b"" for part in parts)]
    )


def unpack(topic: str, partition: int, packed: bytes) -> Observations:
    """Read observations from bytes that `pack` has made.

    Args:
        topic: the topic that they are about.
        partition: number of the partition.
        packed: the bytes.

    Raises:
        ValueError: `pack` has not made these bytes.
    """
    counts = _COUNTS.unpack_from(packed)
    made: list[Any] = []
    start = _COUNTS.size
    columns: type[Columns]
    for columns, count in zip(KINDS, counts, strict=True):
        size = count * sum(dtype.itemsize for dtype in columns.dtypes().values())
        made.append(columns.from_bytes(packed[start : start + size], count) if count else columns.none())
        start += size
    if start != len(packed):
        raise ValueError(f"packed observations: {len(packed)} bytes where {start} were announced")
    return Observations(topic, partition, *made)


def pack_readers(batches: Iterable[Any]) -> Iterator[Any]:
    """For Spark's ``mapInArrow``: pack the rows of each reader in a batch into one row with a blob.

    The result has the columns of `PACKED_AT_DDL`. The column ``at`` holds the lowest offset in the blob. A reader's
    rows come in offset order, so sorting by ``at`` restores that order.

    Args:
        batches: Arrow batches with rows of the views.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        made: list[tuple[str, int, int, bytes]] = []
        for shown in view_observations(batch).each():
            for reader in _readers(shown.rows):
                part = shown.rows.take(reader)
                packed = pack(Observations(shown.topic, shown.partition, rows=part))
                made.append((shown.topic, shown.partition, int(part.offset[0]), packed))
        topics, partitions, at, blobs = zip(*made, strict=True)
        arrays: list[Any] = [
            pa.array(topics, pa.string()),
            pa.array(partitions, pa.int32()),
            pa.array(at, pa.int64()),
            pa.array(blobs, pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=PACKED_AT)


def pack_progress(batches: Iterable[Any]) -> Iterator[Any]:
    """For Spark's ``mapInArrow``: pack the rows of progress of each partition in a batch into one row with a blob.

    The result has the columns of `PACKED_AT_DDL`. Rows of progress have no offset, so their column ``at`` is 0.

    Args:
        batches: Arrow batches with rows of progress.
    """
    for batch in batches:
        made = [(one.topic, one.partition, pack(one)) for one in progress_observations(batch).each()]
        if made:
            rows = [{"topic": topic, "partition": number, "at": 0, "packed": blob} for topic, number, blob in made]
            yield pa.RecordBatch.from_pylist(rows, schema=PACKED_AT)


def _readers(rows: ViewRows) -> list[Array]:
    """Index of the rows of each (view, broker), in their order."""
    order = np.lexsort((rows.broker, rows.view))
    view, broker = rows.view[order], rows.broker[order]
    return np.split(order, np.flatnonzero((view[1:] != view[:-1]) | (broker[1:] != broker[:-1])) + 1)


__all__ = ["PACKED_AT", "PACKED_AT_DDL", "pack", "pack_progress", "pack_readers", "unpack"]
