"""One Parquet file of a view, written by the task that reads its rows, with the statistics that the table's log holds.

Each column is encoded for what it holds: hashes are random, so that neither a dictionary nor a codec makes them
smaller; offsets and timestamps grow by little from row to row; the rest has few distinct values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.source.schema import VIEW

BROKER = "broker"
"""Partition column of the views: its value is in the table's log, not in the files."""

FILE_SCHEMA = pa.schema([field for field in VIEW if field.name != BROKER])

GROUP_ROWS = 1 << 19
GROUP_BYTES = 64 << 20
"""A row group ends at so many rows, or bytes in memory: that much a task holds at a time."""

_RANDOM = frozenset({"key_hash_hi", "key_hash_lo", "content_hash"})
_GROWING = frozenset({"offset", "timestamp"})
_INDEXED = ("topic", "partition", "kind", "offset", "timestamp")
"""What anybody filters by; the tables' ``delta.dataSkippingStatsColumns``."""


def _leaves(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", field.type


_LEAVES = dict(_leaves(FILE_SCHEMA))
_FEW = [n for n, kind in _LEAVES.items() if n not in _RANDOM | _GROWING and not pa.types.is_binary(kind)]


class ViewFile:
    """A file under way.

    Args:
        files: where the table is.
        path: below the table's folder.
    """

    def __init__(self, files: fs.FileSystem, path: str) -> None:
        self.path = path
        self._sink = files.open_output_stream(path)
        self._writer = pq.ParquetWriter(
            self._sink,
            FILE_SCHEMA,
            compression={name: "none" if name in _RANDOM else "snappy" for name in _LEAVES},
            use_dictionary=_FEW,  # type: ignore[arg-type] # the stubs know no list of columns
            column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=list(_INDEXED),
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._written = 0
        self._lowest: dict[str, Any] = {}
        self._highest: dict[str, Any] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows in; `VIEW`, all of one broker.

        Raises:
            OSError: they cannot be written.
        """
        rows = batch.select(FILE_SCHEMA.names)
        self._count(rows)
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        """Finish the file; returns its size in bytes.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return size

    @property
    def rows(self) -> int:
        """How many were taken in."""
        return self._written + self._rows

    @property
    def statistics(self) -> str:
        """As Delta's log has them (PROTOCOL.md, Per-file Statistics)."""
        stats = {
            "numRecords": self.rows,
            "minValues": {name: _told(value, math.floor) for name, value in self._lowest.items()},
            "maxValues": {name: _told(value, math.ceil) for name, value in self._highest.items()},
            "nullCount": dict.fromkeys(_INDEXED, 0),
        }
        return json.dumps(stats, separators=(",", ":"))

    def _count(self, rows: pa.RecordBatch) -> None:
        for name in _INDEXED:
            ends: Any = pc.min_max(rows.column(name))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            self._lowest[name] = min(low, self._lowest.get(name, low))
            self._highest[name] = max(high, self._highest.get(name, high))

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, FILE_SCHEMA), row_group_size=GROUP_ROWS)
        self._written += self._rows
        self._waiting, self._rows, self._bytes = [], 0, 0


def _told(value: Any, whole: Any) -> Any:
    """Timestamps are told in milliseconds: bounds, so a minimum is rounded down and a maximum up."""
    if not isinstance(value, datetime):
        return value
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    ms = whole((since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) / 1000)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


__all__ = ["BROKER", "FILE_SCHEMA", "ViewFile"]
