"""The Spark source ``parallax-comparison``: it reads the rows appended to the tables and compares them in its tasks.

No row enters the JVM, and there is no shuffle. Partitions are divided into *buckets*, by a hash of topic and number. A
task takes some buckets and reads their rows from the micro-batch's files with pyarrow. It compares them and writes the
buckets' states into new files (*segments*) (`parallax.compare.segments`). Spark sees one row for each bucket.

A micro-batch takes whole commits of all three tables, in the order in which they were made. So no replica runs ahead of
the others. It takes no more rows than asked for, so a backlog costs time and not memory.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from parallax.compare.following import Follower, Place, admit, runs, tasks_for
from parallax.compare.segments import Manifest, Segment, Store, offset_mark
from parallax.config import CompareSettings
from parallax.views.commits import DataFile, TableLog
from parallax.views.tables import PROGRESS, VIEWS

if TYPE_CHECKING:
    from parallax.compare.observations import ViewRows
    from parallax.compare.together import Seen
    from parallax.model import TopicPartition

TABLES = (*VIEWS, PROGRESS)


QUERY = "compare"
"""The query's name, and that of its checkpoint."""

RESULT_DDL = (
    "since string, until string, buckets int, bucket int, segment string, files array<string>, results array<string>, "
    "quiet binary, problem string"
)


@dataclass(frozen=True)
class Options:
    """The settings of the comparison's Spark source, as its ``option("settings", ...)`` carries them.

    Attributes:
        storage: folder or URI of the tables (``storage.path``).
        parallelism: the highest number of Spark tasks of a micro-batch.
        compare: settings of the comparison.
        from_log_start: see `parallax.compare.step.step`.
        checkpoint: folder or URI of the query's checkpoint; the comparison's state lies in it.
        brokers: ids of the brokers that are read (``topics.brokers``); only their replicas are compared. None for all.
    """

    storage: str
    parallelism: int
    compare: CompareSettings
    from_log_start: bool = True
    checkpoint: str = ""
    brokers: Sequence[int] | None = None

    def to_json(self) -> str:
        """The options as JSON text."""
        document = {"storage": self.storage, "parallelism": self.parallelism, "from_log_start": self.from_log_start}
        document |= {"checkpoint": self.checkpoint, "brokers": self.brokers}
        return json.dumps(document | {"compare": self.compare.model_dump()})

    @classmethod
    def from_json(cls, text: str) -> Options:
        """The options from the text that `to_json` wrote."""
        document = json.loads(text)
        return cls(**document | {"compare": CompareSettings(**document["compare"])})


class ComparisonSource(DataSource):
    """The Spark data source of the comparison.

    Its one option is ``settings``: the JSON text of `Options.to_json`.
    """

    @classmethod
    def name(cls) -> str:
        """The name of this source in Spark's ``format()``."""
        return "parallax-comparison"

    def schema(self) -> str:
        """The columns of the source's rows, as Spark DDL.

        There is one row for each bucket (share of the partitions) in which something was observed.
        """
        return RESULT_DDL

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader that Spark asks for micro-batches."""
        del schema
        return ComparisonReader(Options.from_json(self.options["settings"]))


@dataclass(frozen=True)
class Work:
    """One micro-batch, as all of its Spark tasks need to know it.

    Attributes:
        files: the files to read, each with the name of its table, in the order of their commits.
        since: the mark of Spark's offset where the micro-batch begins (`parallax.compare.segments.offset_mark`).
        until: the mark of Spark's offset where the micro-batch ends.
        manifest: names the files (segments) that hold the comparison's state where the micro-batch begins.
        until_ms: the time of the last commit in the micro-batch (`parallax.views.order`).
        now_ms: when the micro-batch was planned, milliseconds since 1970 UTC.
    """

    files: tuple[tuple[str, DataFile], ...]
    since: str
    until: str
    manifest: Manifest
    until_ms: int
    now_ms: int


class Share(InputPartition):
    """The share of a micro-batch that one Spark task compares.

    Attributes:
        work: the micro-batch.
        buckets: numbers of the buckets (shares of the partitions, by a hash) that the task compares.
    """

    def __init__(self, work: Work, buckets: frozenset[int]) -> None:
        super().__init__(None)
        self.work, self.buckets = work, buckets


class ComparisonReader(DataSourceStreamReader):
    """Plans the comparison's micro-batches in Spark's planning process, and compares them in Spark's tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._followers: dict[str, Follower] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where the comparison begins: before the first commit of each table.

        If old commits were removed from a table's log, it begins before the oldest file that the table still holds.
        """
        return {name: follower.beginning().to_json() for name, follower in self._follow().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The most rows that one micro-batch takes: ``compare.max_rows_per_trigger``."""
        return ReadMaxRows(self._options.compare.max_rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where the next micro-batch ends; ``start`` itself if nothing was appended to the tables.

        Raises:
            LogGoneError: commits that the comparison has not read yet were removed from a table's log.
            OtherTableError: a table was replaced by another one with other commits since the last micro-batch.
        """
        places = _places(start)
        for name, follower in self._follow().items():
            follower.forget(places[name])
        new = [follower.appended(places[name]) for name, follower in self._follow().items()]
        most = self._options.compare.max_rows_per_trigger
        taken = admit(new, limit.max_rows if isinstance(limit, ReadMaxRows) else most)
        return {name: taken.get(name, place).to_json() for name, place in places.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a micro-batch into Spark tasks (`Share`).

        Each gets the list of files, and the buckets that it compares.

        Raises:
            LogGoneError: see `latestOffset`.
        """
        since, until = _places(start), _places(end)
        parts = {n: list(follower.between(since[n], until[n])) for n, follower in self._follow().items()}
        files = tuple((name, file) for name, of in parts.items() for file in runs(f for part in of for f in part.files))
        until_ms = max((part.at_ms for of in parts.values() for part in of), default=0)
        manifest = _state_at(_store(self._options.checkpoint), start)
        now_ms = time.time_ns() // 1_000_000
        work = Work(files, offset_mark(start), offset_mark(end), manifest, until_ms, now_ms)
        count = tasks_for(sum(file.rows for _, file in files), self._options.parallelism)
        everything = range(manifest.buckets)
        return [Share(work, frozenset(everything[n::count])) for n in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Compare the partitions of one Spark task; yields a row for each bucket (share of the partitions)."""
        if isinstance(partition, Share):
            yield compared(self._options, partition)

    def _follow(self) -> Mapping[str, Follower]:
        # Made here, not in __init__: the reader is pickled for the tasks before it plans anything.
        if self._followers is None:
            self._followers = {name: Follower(name, TableLog(self._options.storage, name)) for name in TABLES}
        return self._followers


@lru_cache(maxsize=8)
def _files(storage: str, name: str) -> Any:
    # Spark reuses its Python workers: what reads a store outlives the task.
    return TableLog(storage, name).files


@lru_cache(maxsize=8)
def _store(checkpoint: str) -> Store:
    return Store(checkpoint)


def _places(offset: Mapping[str, Any]) -> dict[str, Place]:
    return {name: Place.from_json(offset[name]) for name in TABLES}


def _state_at(store: Store, offset: Mapping[str, Any]) -> Manifest:
    """The state at an offset; an empty one where nothing has been taken yet.

    Raises:
        StateGoneError: there is none.
        ValueError: it cannot be read.
    """
    if all(place.is_beginning for place in _places(offset).values()):
        return Manifest()
    return store.manifest(offset_mark(offset))


def compared(options: Options, share: Share) -> Any:
    """Read and compare one Spark task's share of a micro-batch, and write the new states.

    Returns:
        An Arrow record batch with one row for each bucket (`RESULT_DDL`).

    Raises:
        OSError: a file or a state cannot be read, or a segment cannot be written.
        BrokenFileError: a file of the state does not hold what was written.
        VersionError: a state was written by another version of Parallax.
    """
    import pyarrow as pa

    from parallax.compare.again import Again
    from parallax.compare.together import step_buckets

    work = share.work
    seen = _observed(options, share)
    store = _store(options.checkpoint)
    states = store.load({bucket: work.manifest.segments.get(bucket) for bucket in seen.touched})
    views = Again(options.storage, work.until_ms).views
    told = step_buckets(states, seen, options.compare, work.now_ms, views, from_log_start=options.from_log_start)
    kept = store.save(list(states.values())) if states else {}
    made = [(bucket, kept[bucket], results) for bucket, results in told.results.items()]
    made = made or [(-1, Segment(""), [])]  # The driver has to learn between which offsets nothing was observed.
    columns: list[Any] = [
        pa.array([work.since] * len(made), pa.string()),
        pa.array([work.until] * len(made), pa.string()),
        pa.array([work.manifest.buckets] * len(made), pa.int32()),
        pa.array([bucket for bucket, _, _ in made], pa.int32()),
        pa.array([segment.name for _, segment, _ in made], pa.string()),
        pa.array([segment.files for _, segment, _ in made], pa.list_(pa.field("element", pa.string()))),
        pa.array([results for _, _, results in made], pa.list_(pa.field("element", pa.string()))),
        pa.array([told.quiet, *[None] * (len(made) - 1)], pa.binary()),
        pa.array([told.problem, *[None] * (len(made) - 1)], pa.string()),
    ]
    names = ["since", "until", "buckets", "bucket", "segment", "files", "results", "quiet", "problem"]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _observed(options: Options, share: Share) -> Seen:
    """What the files hold of the buckets of a task."""
    from parallax.compare.footers import sparing
    from parallax.compare.recorded import observed
    from parallax.compare.spared import Spared
    from parallax.compare.together import Gathering

    gathering, files = Gathering(share.work.manifest.buckets, share.buckets), share.work.files
    opened = {name: _files(options.storage, name) for name in VIEWS}
    found = sparing(files, opened, gathering.wants)
    for name, file in files:
        footer, folder = found.footers.get((name, file.path)), _files(options.storage, name)
        for part in observed(folder, name, file, gathering.wants, options.brokers, footer=footer):
            gathering.take(part)
    rows = partial(_rows, options, files)
    return gathering.seen({place: Spared(alike, partial(rows, place)) for place, alike in found.alike.items()})


def _rows(options: Options, files: Sequence[tuple[str, DataFile]], place: TopicPartition) -> ViewRows:
    """All rows of a partition in some files of the views."""
    from parallax.compare.observations import ViewRows
    from parallax.compare.recorded import observed

    def wanted(topic: str, partition: int) -> bool:
        return place == (topic, partition)

    views = [(name, file) for name, file in files if name in VIEWS]
    parts = (observed(_files(options.storage, name), name, file, wanted) for name, file in views)
    return ViewRows.concat(one.rows for of_file in parts for part in of_file for one in part.each())


__all__ = ["QUERY", "RESULT_DDL", "ComparisonReader", "ComparisonSource", "Options", "Share", "Work", "compared"]
