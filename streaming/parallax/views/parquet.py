"""Writes one Parquet file of a table, with the statistics that the table's log needs.

The process that has the rows writes it, e.g. a Spark task. Each column is encoded in the way that suits its values.
Hashes are random, so neither a dictionary nor a codec makes them smaller. Offsets and timestamps grow by little from
row to row. All other columns have few distinct values.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.source.schema import PROGRESS, VIEW

BROKER = "broker"
"""Partition column of the views: its value is in the table's log, not in the files."""

GROUP_ROWS = 1 << 19
GROUP_BYTES = 64 << 20
"""A row group ends at this many rows, or bytes in memory. A Spark task holds no more at a time."""

RUN_ROWS = 1 << 15
"""A row group with so many rows ends where another partition begins. So readers of that partition can skip it."""

APART_ROWS = 1 << 12
"""A row group with so many rows ends before rows of kind POSITION. So readers of such rows can skip it."""


_MS_US = 1000
_FIRST_US, _LAST_US = -30_610_224_000_000_000, 253_402_300_798_999_999
"""Timestamps of a year of four digits: from 1000 to 9999, microseconds since 1970 UTC."""


@dataclass(frozen=True)
class Shape:
    """The columns of a table's files, and how each is encoded.

    Attributes:
        schema: the columns of the files, without the table's partition columns.
        indexed: columns that readers filter by; they have statistics (``delta.dataSkippingStatsColumns``).
        random: columns with random values, such as hashes, which are not compressed.
        growing: columns whose values grow by little from row to row.
    """

    schema: pa.Schema
    indexed: tuple[str, ...]
    random: frozenset[str] = frozenset()
    growing: frozenset[str] = frozenset()

    def writer(self, sink: Any) -> pq.ParquetWriter:
        """Open a Parquet writer for one new file that has these columns, encodings and statistics.

        Args:
            sink: the file to write to, as pyarrow takes it: an open stream or a path. The caller closes the writer.
        """
        leaves = dict(_leaves(self.schema))
        few = [n for n, kind in leaves.items() if n not in self.random | self.growing and not pa.types.is_binary(kind)]
        return pq.ParquetWriter(
            sink,
            self.schema,
            compression={name: "none" if name in self.random else "snappy" for name in leaves},
            use_dictionary=few,  # type: ignore[arg-type] # the stubs know no list of columns
            column_encoding=dict.fromkeys(self.growing, "DELTA_BINARY_PACKED"),
            write_statistics=list(self.indexed),
        )


def _leaves(fields: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for field in fields:
        yield from _leaf(field.type, prefix + field.name)


def _leaf(kind: Any, path: str) -> Iterator[tuple[str, Any]]:
    if pa.types.is_struct(kind):
        yield from _leaves(kind, f"{path}.")
    elif pa.types.is_list(kind):
        yield from _leaf(kind.value_type, f"{path}.list.element")
    else:
        yield path, kind


FILE_SCHEMA = pa.schema([field for field in VIEW if field.name != BROKER])

OF_VIEWS = Shape(
    FILE_SCHEMA,
    ("topic", "partition", "kind", "offset", "timestamp"),
    random=frozenset({"key_hash_hi", "key_hash_lo", "content_hash"}),
    growing=frozenset({"offset", "timestamp"}),
)
OF_PROGRESS = Shape(PROGRESS, ("topic", "partition", "observed_at"), growing=frozenset({"observed_at"}))


class TableFile:
    """A Parquet file of a table while it is being written.

    Args:
        files: the file system of the table's folder.
        path: path of the file below the table's folder.
        shape: how the file is written.
    """

    def __init__(self, files: fs.FileSystem, path: str, shape: Shape = OF_VIEWS) -> None:
        self.path = path
        self._shape = shape
        self._sink = files.open_output_stream(path)
        self._writer = shape.writer(self._sink)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._written = 0
        self._last: tuple[Any, Any] | None = None
        self._lowest: dict[str, Any] = {}
        self._highest: dict[str, Any] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Write rows into the file; they may stay in memory until more have come or the file is closed.

        Args:
            batch: rows with at least the file's columns. For a view's file, all rows must be of one broker.

        Raises:
            OSError: the rows cannot be written.
        """
        if not batch.num_rows:
            return
        rows = batch.select(self._shape.schema.names)
        if self._rows >= RUN_ROWS and _place(rows, 0) != self._last:
            self._flush()
        self._last = _place(rows, rows.num_rows - 1)
        self._count(rows)
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def divide(self) -> None:
        """End the row group here if it is large: a reader of later rows can then skip it.

        Raises:
            OSError: the rows cannot be written.
        """
        if self._rows >= APART_ROWS:
            self._flush()

    def close(self, told: Mapping[str, str] | None = None) -> int:
        """Finish the file; its footer gets the keys and values in ``told``, if there are any.

        Returns:
            The file's size in bytes.

        Raises:
            OSError: the file cannot be written.
        """
        self._flush()
        if told:
            self._writer.add_key_value_metadata(dict(told))
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return size

    @property
    def rows(self) -> int:
        """How many rows the file has so far."""
        return self._written + self._rows

    @property
    def statistics(self) -> str:
        """The file's statistics as JSON text for Delta's log (PROTOCOL.md, Per-file Statistics).

        By them a query skips files in which it can find nothing.
        """
        stats = {
            "numRecords": self.rows,
            "minValues": self._bounds(self._lowest, 0),
            "maxValues": self._bounds(self._highest, _MS_US - 1),
            "nullCount": dict.fromkeys(self._shape.indexed, 0),
        }
        return json.dumps(stats, separators=(",", ":"))

    def _count(self, rows: pa.RecordBatch) -> None:
        for name in self._shape.indexed:
            column = rows.column(name)
            if pa.types.is_timestamp(column.type):
                # A producer may write any 64 bits, and Python's calendar ends with the year 9999.
                column = column.view(pa.int64())
            ends: Any = pc.min_max(column)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            self._lowest[name] = min(low, self._lowest.get(name, low))
            self._highest[name] = max(high, self._highest.get(name, high))

    def _bounds(self, values: Mapping[str, Any], up_us: int) -> dict[str, Any]:
        """Bounds for Delta's statistics.

        Timestamps are rounded to milliseconds; one that Delta cannot express is left out.
        """
        told = {}
        for name, value in values.items():
            if not pa.types.is_timestamp(self._shape.schema.field(name).type):
                told[name] = value
            elif _FIRST_US <= value <= _LAST_US:
                seconds, ms = divmod((value + up_us) // _MS_US, 1000)
                told[name] = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
        return told

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(
                pa.Table.from_batches(self._waiting, self._shape.schema), row_group_size=GROUP_ROWS
            )
        self._written += self._rows
        self._waiting, self._rows, self._bytes = [], 0, 0


Limits = Mapping[str, tuple[Any, Any]]
"""By the name of a column, two values between which all of its values lie."""


def limits(group: Any, names: Collection[str]) -> Limits:
    """The bounds of columns of a row group, by its statistics. A column without statistics is left out.

    Args:
        group: the row group's metadata, as pyarrow gives them (``RowGroupMetaData``).
        names: names of the columns; all are of the first level.
    """
    columns = [group.column(n) for n in range(group.num_columns)]
    told = {one.path_in_schema: one.statistics for one in columns if one.path_in_schema in names}
    return {name: (one.min, one.max) for name, one in told.items() if one is not None and one.has_min_max}


def _place(rows: pa.RecordBatch, number: int) -> tuple[Any, Any]:
    """The partition of one row: topic and number."""
    return rows.column("topic")[number].as_py(), rows.column("partition")[number].as_py()


__all__ = ["BROKER", "FILE_SCHEMA", "OF_PROGRESS", "OF_VIEWS", "Limits", "Shape", "TableFile", "limits"]
