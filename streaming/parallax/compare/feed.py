"""The Spark source ``parallax-comparison``: it reads the rows appended to the tables and compares them in its tasks.

No row enters the JVM, and there is no shuffle. Partitions are divided into *buckets*, by a hash of topic and number. A
Spark task takes some buckets and reads their rows from the micro-batch's files with pyarrow. It compares them and
writes the buckets' states into new files (*segments*) (`parallax.compare.segments`). Spark sees one row for each
bucket.

A micro-batch takes whole commits of all three tables, in the order in which they were made. So no replica runs ahead of
the others. It is divided into *stretches* of about a million rows (`parallax.compare.work.Stretch`). A Spark task
compares all stretches together if it need not read more than that. Otherwise it compares one after another, so a
backlog costs time and not memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from parallax.compare.following import Follower, TablePoint, admit, runs, tasks_for
from parallax.compare.segments import Manifest, Store, offset_mark
from parallax.compare.work import STRETCH, Options, Stretch, Work
from parallax.source.due import LONGEST_S
from parallax.stores import is_remote
from parallax.views.commits import TableLog
from parallax.views.tables import PROGRESS, VIEWS

TABLES = (*VIEWS, PROGRESS)


_LOCAL_S, _REMOTE_S = 0.05, 0.5
"""Seconds between looks for new commits, on a disk and on an object store. There a look costs money."""

_TOGETHER_S = 0.05
"""For how many seconds the first commit waits for others. Those of all tables come at about the same time."""

QUERY = "compare"
"""The query's name, and that of its checkpoint."""

RESULT_DDL = (
    "since string, until string, buckets int, bucket int, segment string, files array<string>, results array<string>, "
    "quiet binary, problem string"
)


class ComparisonSource(DataSource):
    """The Spark source ``parallax-comparison``: it reads what was appended to the tables `TABLES` and compares it.

    Its Spark tasks read the rows of the views and of progress from the tables' files. Spark itself is given only the
    results (`RESULT_DDL`): one row for each bucket (share of the partitions) in which something was observed, with its
    suspects, its coverage, and the names of the files with its new states.

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
        """Make the `ComparisonReader` that Spark asks for micro-batches; ``schema`` is not used."""
        del schema
        hash_key = bytes.fromhex(self.options["hash.key"])
        return ComparisonReader(Options.from_json(self.options["settings"], hash_key))


class Share(InputPartition):
    """What one Spark task compares of a micro-batch: the partitions in some buckets.

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
        self._begun_at = -math.inf
        self._look_every_s = _REMOTE_S if is_remote(options.storage) else _LOCAL_S

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where the comparison begins: before the first commit of each table.

        If old commits were removed from a table's log, it begins before the oldest file that the table still holds.
        """
        return {name: follower.beginning().to_json() for name, follower in self._follow().items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The most rows that one micro-batch takes if Spark sets no other limit: ``compare.max_rows_per_trigger``."""
        return ReadMaxRows(self._options.compare.max_rows_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The Spark offset where the next micro-batch ends; ``start`` itself if nothing was appended to the tables.

        It waits until something is, for a second at most, and ``compare.trigger_ms`` after the last micro-batch began.

        Args:
            start: the Spark offset where the last micro-batch ended: by table name, `TablePoint.to_json`.
            limit: the most rows that the micro-batch takes, if it is Spark's ``ReadMaxRows``. Otherwise it takes at
                most ``compare.max_rows_per_trigger``.

        Raises:
            LogGoneError: commits that the comparison has not read yet were removed from a table's log.
            OtherTableError: a table was replaced by another one with other commits since the last micro-batch.
        """
        places = _places(start)
        for name, follower in self._follow().items():
            follower.forget(places[name])
        until = time.monotonic() + LONGEST_S
        if not self._sleep(self._begun_at + self._options.compare.trigger_ms / 1000, until):
            return start
        while self._newest(places, limit) == start:
            if not self._sleep(time.monotonic() + self._look_every_s, until):
                return start
        self._sleep(time.monotonic() + _TOGETHER_S, until)
        self._begun_at = time.monotonic()
        return self._newest(places, limit)

    @staticmethod
    def _sleep(to: float, until: float) -> bool:
        """Sleep up to a moment, in monotonic seconds; False if that is not before ``until``, where it ends."""
        now = time.monotonic()
        time.sleep(max(0.0, min(to, until) - now))
        return to < until

    def _newest(self, places: Mapping[str, TablePoint], limit: ReadLimit) -> dict[str, Any]:
        new = [follower.appended(places[name]) for name, follower in self._follow().items()]
        most = self._options.compare.max_rows_per_trigger
        taken = admit(new, limit.max_rows if isinstance(limit, ReadMaxRows) else most)
        return {name: taken.get(name, place).to_json() for name, place in places.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a micro-batch into Spark tasks: one `Share` for each.

        Args:
            start: the Spark offset where the micro-batch begins: by table name, `TablePoint.to_json`.
            end: the Spark offset where the micro-batch ends, in the same form.

        Raises:
            LogGoneError: see `latestOffset`.
        """
        stretches = tuple(self._stretches(_places(start), _places(end)))
        manifest = _state_at(_store(self._options.checkpoint), start)
        work = Work(stretches, offset_mark(start), offset_mark(end), manifest, time.time_ns() // 1_000_000)
        rows = sum(file.rows for stretch in stretches for _, file in stretch.files)
        count = tasks_for(rows, self._options.parallelism)
        everything = range(manifest.buckets)
        return [Share(work, frozenset(everything[n::count])) for n in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Compare the partitions of one Spark task.

        Args:
            partition: a `Share`; of anything else nothing is compared.

        Yields:
            One Arrow batch with a row for each bucket (share of the partitions) in which something was observed.
        """
        from parallax.compare.passes import compared  # Spark's planning process reads no data files.

        if isinstance(partition, Share):
            yield compared(self._options, partition.work, partition.buckets, _store(self._options.checkpoint))

    def _stretches(self, since: Mapping[str, TablePoint], until: Mapping[str, TablePoint]) -> Iterator[Stretch]:
        """Divide a micro-batch into stretches."""
        since = dict(since)
        while since != until:
            new = {n: follower.between(since[n], until[n]) for n, follower in self._follow().items()}
            to = {**since, **admit(new.values(), STRETCH)}
            to = to if to != since else dict(until)  # What is left has no rows.
            parts = {n: list(follower.between(since[n], to[n])) for n, follower in self._follow().items()}
            files = tuple((name, f) for name, of in parts.items() for f in runs(f for part in of for f in part.files))
            yield Stretch(files, max((part.at_ms for of in parts.values() for part in of), default=0))
            since = to

    def _follow(self) -> Mapping[str, Follower]:
        # Made here, not in __init__: the reader is pickled for the tasks before it plans anything.
        if self._followers is None:
            self._followers = {name: Follower(name, TableLog(self._options.storage, name)) for name in TABLES}
        return self._followers


@lru_cache(maxsize=8)
def _store(checkpoint: str) -> Store:
    return Store(checkpoint)


def _places(offset: Mapping[str, Any]) -> dict[str, TablePoint]:
    return {name: TablePoint.from_json(offset[name]) for name in TABLES}


def _state_at(store: Store, offset: Mapping[str, Any]) -> Manifest:
    """The state at an offset; an empty one where nothing has been taken yet.

    Raises:
        StateGoneError: there is none.
        ValueError: it cannot be read.
    """
    if all(place.is_beginning for place in _places(offset).values()):
        return Manifest()
    return store.manifest(offset_mark(offset))


__all__ = ["QUERY", "RESULT_DDL", "ComparisonReader", "ComparisonSource", "Share"]
