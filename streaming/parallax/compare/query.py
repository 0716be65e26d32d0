"""The comparison as a Spark streaming query: rows of three tables in, suspects and coverage out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyarrow import fs

from parallax.compare.feed import QUERY, ComparisonSource
from parallax.compare.following import TablePoint
from parallax.compare.results import told_by
from parallax.compare.segments import Manifest, Segment, StateGoneError, Store
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.compare.trouble import Trouble
from parallax.compare.work import Options
from parallax.config import Settings
from parallax.model import TopicPartition
from parallax.source.feedback import AwaitedFile, write_awaited
from parallax.stores import rust_path
from parallax.views.checkpoints import Checkpoint
from parallax.views.commits import Followed
from parallax.views.filesystem import filesystem
from parallax.views.hash_key import hash_key
from parallax.views.queries import QuerySpec, awaited_path
from parallax.views.sink import short_errors
from parallax.views.tables import create_tables

_HOPELESS_AFTER = 3
"""After this many failures in a row the state counts as broken, and is rebuilt from the tables."""

OnBatch = Callable[[Sequence[Suspect], Sequence[Coverage]], None]


def comparison_query(settings: Settings, on_batch: OnBatch | None = None) -> QuerySpec:
    """The definition of the streaming query that compares the views; the job's supervisor starts it.

    Args:
        settings: the job's settings.
        on_batch: called with the suspects and the coverage of each micro-batch, in the query's thread, once the
            suspects are in their table. A micro-batch that runs again after a crash is reported again, with the same
            suspects.
    """
    storage = settings.storage.path
    sink = ComparisonSink(storage, on_batch)
    checkpoint = Checkpoint(storage, QUERY, hopeless_after=_HOPELESS_AFTER, check=_lacks_state)

    def start(spark: Any) -> Any:
        create_tables(storage)
        create_suspects(storage)
        location = checkpoint.location()
        sink.prepare(location)
        return (
            compared(spark, settings, location)
            .writeStream.queryName(QUERY)
            .option("checkpointLocation", location)
            .trigger(processingTime="0 seconds")  # The source waits until something is recorded.
            .foreachBatch(sink)
            .start()
        )

    return QuerySpec(QUERY, start, checkpoint)


def _lacks_state(checkpoint: Path) -> str | None:
    """What is wrong where something was compared and no manifest lies there: an earlier version kept it elsewhere."""
    has_compared = any((checkpoint / "commits").glob("[0-9]*"))
    return "it holds no state" if has_compared and not any((checkpoint / "segments").glob("at-*")) else None


def followed(storage: str) -> dict[str, Followed]:
    """By table name, up to where the comparison has read the table; upkeep must keep the files after that.

    It is the end of the last micro-batch that Spark has recorded as done. A later micro-batch may run again.

    Args:
        storage: folder or URI of the tables (``storage.path``).

    Returns:
        The points in the tables' histories; empty if no micro-batch is done yet.

    Raises:
        FencedError: another job has taken the storage over.
        OSError: the checkpoint cannot be read.
        ValueError: the checkpoint is garbled.
    """
    files = filesystem(rust_path(Checkpoint(storage, QUERY).location()))
    found = files.get_file_info(fs.FileSelector("commits", allow_not_found=True))
    batches = [int(info.base_name) for info in found if info.base_name.isdigit()]
    if not batches:
        return {}
    with files.open_input_stream(f"offsets/{max(batches)}") as stream:
        *_, offset = stream.read().decode().splitlines()
    return {name: TablePoint.from_json(place).followed for name, place in json.loads(offset).items()}


def compared(session: Any, settings: Settings, checkpoint: str) -> Any:
    """The streaming DataFrame that runs the comparison, with one row for each bucket (share of the partitions).

    The rows have the columns of `RESULT_DDL`.

    Args:
        session: the Spark session.
        settings: the job's settings.
        checkpoint: folder or URI of the query's checkpoint.

    Raises:
        ConfigError: the file with the hash key cannot be used.
    """
    session.dataSource.register(ComparisonSource)
    options = Options(
        settings.storage.path,
        session.sparkContext.defaultParallelism,
        settings.compare,
        settings.read.starting_offsets == "earliest",
        checkpoint=checkpoint,
        brokers=settings.topics.brokers,
    )
    source = session.readStream.format(ComparisonSource.name()).option("settings", options.to_json())
    return source.option("hash.key", hash_key(settings.storage.path, settings.read)).load()


class ComparisonSink:
    """A ``foreachBatch`` function: appends suspects to their table, calls ``on_batch``, then commits the state.

    Args:
        storage: folder or URI of the tables (``storage.path``).
        on_batch: called with each micro-batch's suspects and coverage (`comparison_query`); None for no call.
    """

    def __init__(self, storage: str, on_batch: OnBatch | None) -> None:
        self._storage = storage
        self._on_batch = on_batch or (lambda _suspects, _coverages: None)
        self._state: Store | None = None
        self._known: tuple[str, Manifest] | None = None
        self._awaited: set[TopicPartition] | None = None
        self._trouble = Trouble()

    def prepare(self, checkpoint: str) -> None:
        """Open the comparison's state in the query's checkpoint, before each start of the query.

        Args:
            checkpoint: folder or URI of the query's checkpoint.
        """
        self._known = None
        self._state = Store(checkpoint)
        # What the file names from before stays until the partition has been compared: a report too many does no harm.
        self._awaited = set(AwaitedFile(awaited_path(self._storage)).read())
        self._state.prepare()

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Take in one micro-batch.

        Raises:
            SinkError: it could not be; Spark then fails the query.
        """
        with short_errors():
            self._take_in(batch, batch_id)

    def _take_in(self, batch: Any, batch_id: int) -> None:
        rows = batch.toArrow().to_pylist()
        if not rows:
            raise RuntimeError("the comparison's tasks have returned nothing")
        suspects, coverages = told_by(rows)
        if suspects:
            query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            append_suspects(self._storage, suspects, query_id, batch_id)
        self._await_reports(coverages)
        self._trouble.observe(coverages, [row["problem"] for row in rows if row["problem"]])
        self._on_batch(suspects, coverages)
        new = {row["bucket"]: Segment(row["segment"], tuple(row["files"])) for row in rows if row["segment"]}
        manifest = self._before(rows[0]).with_segments(new)
        self._store.commit(rows[0]["until"], manifest)
        self._known = rows[0]["until"], manifest

    @property
    def _store(self) -> Store:
        if self._state is None:
            raise RuntimeError("prepare has not been called")
        return self._state

    def _await_reports(self, coverages: Sequence[Coverage]) -> None:
        """Have what the replicas report next recorded where a verdict waits for it."""
        compared = {coverage.place for coverage in coverages}
        awaited = {coverage.place for coverage in coverages if coverage.awaits_report}
        awaited |= (self._awaited or set()) - compared
        if awaited != self._awaited:
            write_awaited(awaited_path(self._storage), awaited)
            self._awaited = awaited

    def _before(self, row: dict[str, Any]) -> Manifest:
        """The state at the start of a micro-batch."""
        if self._known is not None and self._known[0] == row["since"]:
            return self._known[1]
        try:
            return self._store.manifest(row["since"])
        except StateGoneError:
            return Manifest(row["buckets"])  # the first one; that of another would have failed its tasks


__all__ = ["QUERY", "ComparisonSink", "OnBatch", "compared", "comparison_query", "followed"]
