"""``format("parallax-recording")``: a Spark source that writes what ``kafka-replica`` reads into view files.

No row of a replica enters the JVM. A Spark task reads, decodes and writes Parquet, and gives Spark one row for each
file. The driver commits the files (`parallax.views.sink`). Files of a Spark task that failed, or ran twice, are in no
commit, and upkeep removes them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from parallax import moments
from parallax.model import IsolationLevel, RowKind
from parallax.source.options import replica_options
from parallax.source.planning import Piece
from parallax.source.replica_source import ReplicaStreamReader, pieces_of
from parallax.source.schema import VIEW

if TYPE_CHECKING:
    from parallax.source.options import ReplicaOptions

STORAGE = "storage.path"
"""The option of this source that ``kafka-replica`` does not have."""

FILES_DDL = (
    "isolation tinyint, broker int, recorded_on string, path string, size bigint, rows bigint, statistics string, "
    "positions binary"
)
_FIELDS: list[Any] = [
    pa.field("isolation", pa.int8()),
    pa.field("broker", pa.int32()),
    pa.field("recorded_on", pa.string()),
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("rows", pa.int64()),
    pa.field("statistics", pa.string()),
    pa.field("positions", pa.binary()),
]
_FILES = pa.schema(_FIELDS)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A file of a view that a Spark task has written, and that the driver is to commit.

    Attributes:
        isolation: number of the isolation level of the view.
        broker: id of the broker whose rows they are.
        recorded_on: UTC date of the recording, ``YYYY-MM-DD``. Broker and date are the partition columns of the table.
        path: path of the file below the table's folder.
        size: its size in bytes.
        rows: how many rows it holds.
        statistics: its statistics as JSON text, as Delta's log has them.
        positions: its rows of kind POSITION, as an Arrow stream with the columns of `VIEW`.
    """

    isolation: int
    broker: int
    recorded_on: str
    path: str
    size: int
    rows: int
    statistics: str
    positions: bytes

    def position_rows(self) -> pa.Table:
        """The rows of kind POSITION in the file, as an Arrow table with the columns of `VIEW`.

        They say how far each reader has read, and what happened there.
        """
        return pa.ipc.open_stream(self.positions).read_all()


class RecordingSource(DataSource):
    """The Spark data source ``parallax-recording``.

    Its options are those of ``kafka-replica``, and ``storage.path``.
    """

    @classmethod
    def name(cls) -> str:
        """The name by which Spark's ``format()`` finds this source."""
        return "parallax-recording"

    def schema(self) -> str:
        """The schema of the rows as Spark DDL, with one row for each file; the options are checked here.

        Raises:
            BadOption: an option is unknown, missing or ill-typed.
        """
        self._split()
        return FILES_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader that Spark asks for micro-batches.

        Args:
            schema: what Spark passes; it is not used.
        """
        del schema
        return RecordingReader(*self._split())

    def _split(self) -> tuple[ReplicaOptions, str]:
        given: Mapping[str, str] = {name: value for name, value in self.options.items() if name != STORAGE}
        return replica_options(given), self.options[STORAGE]


class RecordingReader(ReplicaStreamReader):
    """Plans micro-batches as ``kafka-replica`` does; its Spark tasks write what they read into view files.

    Args:
        options: how to read.
        storage: ``storage.path``.
    """

    def __init__(self, options: ReplicaOptions, storage: str) -> None:
        super().__init__(options)
        self._storage = storage

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the offsets of one Spark task, and write what the replicas show there into files of the views.

        Args:
            partition: the Spark task's input partition, which names the offsets.

        Yields:
            One Arrow batch with the columns of `FILES_DDL`: a row for each file that was written, at most one for each
                isolation level. It has no rows if there are no offsets to read.
        """
        pieces = sorted(pieces_of(partition), key=lambda piece: piece.reader)
        yield _files(_write(replace(self._options, with_isolation=True), self._storage, pieces) if pieces else [])


def _write(options: ReplicaOptions, storage: str, pieces: Sequence[Piece]) -> list[Recorded]:
    """Read pieces of one broker into one file for each isolation level that has rows."""
    from parallax.source.reading import read_pieces

    files: dict[int, _ViewFile] = {}
    for batch in read_pieces(options, pieces):
        if not batch.num_rows:
            continue
        isolation = batch.column("isolation")[0].as_py()
        if isolation not in files:
            files[isolation] = _ViewFile(storage, isolation, pieces[0].reader.broker, options.hash_key)
        files[isolation].take(batch)
    return [files[isolation].close(pieces) for isolation in sorted(files)]


class _ViewFile:
    """A file of one view under way, with what one broker shows."""

    def __init__(self, storage: str, isolation: int, broker: int, hash_key: bytes) -> None:
        from parallax.views.blocks import AddingUp
        from parallax.views.parquet import TableFile

        self._isolation, self._broker, self._recorded_on = isolation, broker, moments.today()
        folder = f"broker={broker}/recorded_on={self._recorded_on}"
        files = _folder(storage, IsolationLevel(isolation).option)
        files.create_dir(folder, recursive=True)
        self._file = TableFile(files, f"{folder}/part-{uuid.uuid4()}.parquet")
        self._told: list[pa.RecordBatch] = []
        self._sums = AddingUp(hash_key)

    def take(self, batch: pa.RecordBatch) -> None:
        if batch.column("kind")[0].as_py() == RowKind.POSITION:
            self._file.divide()
            self._told.append(batch.select(VIEW.names))
            self._sums.take_positions(batch)
        else:
            self._sums.take(batch)
        self._file.take(batch)

    def close(self, pieces: Sequence[Piece]) -> Recorded:
        blocks = self._sums.blocks([piece for piece in pieces if piece.reader.isolation == self._isolation])
        size, file = self._file.close(blocks.told()), self._file
        told = _stream(self._told)
        return Recorded(
            self._isolation, self._broker, self._recorded_on, file.path, size, file.rows, file.statistics, told
        )


@lru_cache(maxsize=8)
def _folder(storage: str, table: str) -> Any:
    # Spark reuses its Python workers: what writes to a store outlives the task.
    from parallax.views.filesystem import filesystem
    from parallax.views.tables import rust_uri

    return filesystem(rust_uri(storage, table))


def _stream(batches: Iterable[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, VIEW) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _files(written: list[Recorded]) -> pa.RecordBatch:
    columns = [pa.array([getattr(file, field.name) for file in written], field.type) for field in _FILES]
    return pa.RecordBatch.from_arrays(columns, schema=_FILES)


def files_of(batch: Any) -> list[Recorded]:
    """The view files that the Spark tasks of a micro-batch have written.

    Args:
        batch: a DataFrame of `FILES_DDL`.
    """
    return [Recorded(**row) for row in batch.toArrow().to_pylist()]


__all__ = ["STORAGE", "Recorded", "RecordingSource", "files_of"]
