"""``format("parallax-recorded")``: what is appended to the tables, as a stream of packed rows for the comparison.

Delta's own streaming source makes Spark's rows of Parquet's columns, which become Arrow's columns again for Python:
more work than comparing them. Here each task reads its files with pyarrow and packs them, and Spark sees a few blobs. A
micro-batch takes whole commits, of all three tables in the order in which they were made, so that no replica runs ahead
of the others; and no more rows than asked for, so that a backlog costs time and not memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from parallax.compare.following import Follower, Numbered, Place, admit, shares
from parallax.compare.packing import PACKED_AT_DDL
from parallax.views.commits import TableLog
from parallax.views.tables import PROGRESS, VIEWS

TABLES = (*VIEWS, PROGRESS)


class RecordedSource(DataSource):
    """The data source. Options: ``path``, ``maxRows`` of a micro-batch, ``parallelism`` of its tasks."""

    @classmethod
    def name(cls) -> str:
        """Spark's short name of the format."""
        return "parallax-recorded"

    def schema(self) -> str:
        """One row for each partition of a topic and piece of a file."""
        return PACKED_AT_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the stream reader."""
        del schema
        options = self.options
        return RecordedReader(options["path"], int(options["maxRows"]), int(options["parallelism"]))


class Share(InputPartition):
    """The files that one task reads.

    Attributes:
        files: each with the name of its table, and its number there (`parallax.compare.recorded.packed`).
    """

    def __init__(self, files: Sequence[Numbered]) -> None:
        super().__init__(None)
        self.files = tuple(files)


class RecordedReader(DataSourceStreamReader):
    """Plans micro-batches in the driver-side process, reads them in Spark's tasks.

    Args:
        storage: ``storage.path``.
        max_rows: of a micro-batch; a commit that is larger comes alone.
        parallelism: tasks of a micro-batch, at most.
    """

    def __init__(self, storage: str, max_rows: int, parallelism: int) -> None:
        self._storage, self._max_rows, self._parallelism = storage, max_rows, parallelism
        self._followers: dict[str, Follower] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first commit of each table; or before all that it holds, where its log was shortened."""
        return {name: follower.beginning().to_json() for name, follower in self._follow().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """``maxRows``."""
        return ReadMaxRows(self._max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next micro-batch; ``start`` itself if nothing was appended.

        Raises:
            LogGoneError: the comparison is further behind than the tables' logs go back.
        """
        places = _places(start)
        for name, follower in self._follow().items():
            follower.forget(places[name])
        new = [follower.appended(places[name]) for name, follower in self._follow().items()]
        taken = admit(new, limit.max_rows if isinstance(limit, ReadMaxRows) else self._max_rows)
        return {name: taken.get(name, place).to_json() for name, place in places.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch.

        Raises:
            LogGoneError: see `latestOffset`.
        """
        since, until = _places(start), _places(end)
        files = [
            (name, number, file)
            for name, follower in self._follow().items()
            for number, file in enumerate(f for p in follower.between(since[name], until[name]) for f in p.files)
        ]
        return [Share(share) for share in shares(files, self._parallelism)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read and pack one task's share."""
        from parallax.compare.recorded import packed

        for name, number, file in partition.files if isinstance(partition, Share) else ():
            yield from packed(_files(self._storage, name), name, file, number)

    def _follow(self) -> Mapping[str, Follower]:
        # Made here, not in __init__: the reader is pickled for the tasks before it plans anything.
        if self._followers is None:
            self._followers = {name: Follower(name, TableLog(self._storage, name)) for name in TABLES}
        return self._followers


@lru_cache(maxsize=8)
def _files(storage: str, name: str) -> Any:
    # Spark reuses its Python workers: what reads a store outlives the task.
    return TableLog(storage, name).files


def _places(offset: Mapping[str, Any]) -> dict[str, Place]:
    return {name: Place.from_json(offset[name]) for name in TABLES}


__all__ = ["RecordedReader", "RecordedSource"]
