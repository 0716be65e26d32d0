"""What a Spark task of the comparison does: it compares the stretches of a micro-batch together, or one by one.

A `Stretch` is a share of the micro-batch's files, of about a million rows. Where all replicas' recorded sums are equal
no row is read. So any number of stretches is compared together, unless that needs more rows than one stretch has. Then
each stretch is compared by itself. What is found is the same both ways.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from parallax.compare.again import Again
from parallax.compare.footers import Looked, Sparing, sparing
from parallax.compare.observations import ViewRows
from parallax.compare.recorded import observed
from parallax.compare.segments import Segment, States, Store
from parallax.compare.together import Gathering, Ready, TaskReport, TaskRows, Terms, step_buckets, without_rows
from parallax.compare.work import STRETCH, Options, Stretch, Work
from parallax.model import TopicPartition
from parallax.views.commits import DataFile, TableLog
from parallax.views.tables import VIEWS

_TRIES = 2
"""How often a Spark task tries to compare all stretches together. A try fails if it needs more rows than it reads."""


def compared(options: Options, work: Work, buckets: frozenset[int], store: Store) -> pa.RecordBatch:
    """Compare the partitions of one Spark task, and write their new states.

    Args:
        options: the options of the comparison's source.
        work: the micro-batch.
        buckets: numbers of the buckets (shares of the partitions) that the Spark task compares.
        store: the files of the comparison's state.

    Returns:
        An Arrow batch with the columns of `parallax.compare.feed.RESULT_DDL`. If all stretches were compared together,
        it has a row for each bucket in which something was observed. If they were compared one by one, it has such rows
        for each stretch, in order. If nothing was observed, it has one row, whose bucket is -1.

    Raises:
        OSError: a file or a state cannot be read, or a segment cannot be written.
        BrokenFileError: a file of the state does not hold what was written.
        VersionError: a state was written by another version of Parallax.
    """
    task = _Task(options, work, buckets, store)
    passes = list(task.passes()) or [TaskReport()]
    kept = store.save(list(task.states.values())) if task.states else {}
    # Where nothing was observed the driver has to learn between which offsets that was.
    made = [(told, at, *one) for told in passes for at, one in enumerate(list(told.results.items()) or [(-1, [])])]
    segments = [kept.get(bucket, Segment("")) for _, _, bucket, _ in made]
    columns: list[Any] = [
        pa.array([work.since] * len(made), pa.string()),
        pa.array([work.until] * len(made), pa.string()),
        pa.array([work.manifest.buckets] * len(made), pa.int32()),
        pa.array([bucket for _, _, bucket, _ in made], pa.int32()),
        pa.array([segment.name for segment in segments], pa.string()),
        pa.array([segment.files for segment in segments], pa.list_(pa.field("element", pa.string()))),
        pa.array([results for *_, results in made], pa.list_(pa.field("element", pa.string()))),
        pa.array([None if at else told.quiet for told, at, *_ in made], pa.binary()),
        pa.array([None if at else told.problem for told, at, *_ in made], pa.string()),
    ]
    names = ["since", "until", "buckets", "bucket", "segment", "files", "results", "quiet", "problem"]
    return pa.RecordBatch.from_arrays(columns, names=names)


@dataclass
class _Task:
    """A Spark task while it compares.

    Attributes:
        states: by bucket, the states of its partitions so far.
        looked: the footers that were read so far.
    """

    options: Options
    work: Work
    buckets: frozenset[int]
    store: Store
    states: dict[int, States] = field(default_factory=dict)
    looked: Looked = field(default_factory=dict)

    def passes(self) -> Iterator[TaskReport]:
        """Compare the stretches of the micro-batch; yields what each pass came to."""
        rest, tries = list(self.work.stretches), _TRIES
        while rest:
            if tries and len(rest) > 1:
                gathering, found = self._looked(rest)
                if found.rows <= STRETCH:
                    told = self._together(rest, gathering, found)
                    if told is not None:
                        yield told
                        return
                    tries -= 1
            yield self._alone(rest[0])
            rest = rest[1:]
            if rest:
                self.states |= {bucket: one.as_put() for bucket, one in self.states.items()}

    def _together(self, stretches: Sequence[Stretch], gathering: Gathering, found: Sparing) -> TaskReport | None:
        """Compare stretches in one pass; None, with no state changed, if rows that were not read are needed."""
        touched, seen, terms, ready = self._tried(stretches, gathering, found)
        return step_buckets(touched, seen, terms, ready) if ready.keys() == seen.spared.keys() else None

    def _alone(self, stretch: Stretch) -> TaskReport:
        """Compare one stretch; rows that were not read and are needed are read, of all partitions at a time."""
        touched, seen, terms, ready = self._tried([stretch], *self._looked([stretch]))
        if needed := seen.spared.keys() - ready.keys():
            seen = seen.with_rows(_rows(self.options, stretch.files, needed))
        return step_buckets(touched, seen, terms, ready)

    def _tried(
        self, stretches: Sequence[Stretch], gathering: Gathering, found: Sparing
    ) -> tuple[dict[int, States], TaskRows, Terms, Ready]:
        """What `step_buckets` takes, with the results of partitions that need none of the rows that were not read."""
        seen, terms = self._seen(stretches, gathering, found), self._terms(stretches)
        touched = self._touched(seen)
        return touched, seen, terms, without_rows(touched, seen, terms)

    def _looked(self, stretches: Sequence[Stretch]) -> tuple[Gathering, Sparing]:
        """Look at the footers: which rows of the task's partitions need not be read."""
        gathering = Gathering(self.work.manifest.buckets, self.buckets)
        opened = {name: _files(self.options.storage, name) for name in VIEWS}
        files = (file for stretch in stretches for file in stretch.files)
        return gathering, sparing(files, opened, gathering.wants, self.looked)

    def _seen(self, stretches: Sequence[Stretch], gathering: Gathering, found: Sparing) -> TaskRows:
        """What the files hold of the task's partitions, without the rows that need not be read."""
        files, options = [file for stretch in stretches for file in stretch.files], self.options
        for name, file in files:
            footer, folder = found.footers.get((name, file.path)), _files(options.storage, name)
            for part in observed(folder, name, file, gathering.wants, options.brokers, footer=footer):
                gathering.take(part)
        return gathering.seen(found.alike)

    def _touched(self, seen: TaskRows) -> dict[int, States]:
        """The states of the buckets in which something was observed; those that are new are loaded."""
        new = {bucket: self.work.manifest.segments.get(bucket) for bucket in seen.touched if bucket not in self.states}
        self.states |= self.store.load(new)
        return {bucket: self.states[bucket] for bucket in seen.touched}

    def _terms(self, stretches: Sequence[Stretch]) -> Terms:
        options = self.options
        views = Again(options.storage, stretches[-1].until_ms, options.hash_key).views
        return Terms(options.compare, self.work.now_ms, views, options.from_log_start)


def _rows(
    options: Options, files: Sequence[tuple[str, DataFile]], places: Collection[TopicPartition]
) -> dict[TopicPartition, ViewRows]:
    """All rows of some partitions in some files of the views."""

    def wanted(topic: str, partition: int) -> bool:
        return (topic, partition) in places

    found: dict[TopicPartition, list[ViewRows]] = {place: [] for place in places}
    for name, file in files:
        for part in observed(_files(options.storage, name), name, file, wanted) if name in VIEWS else ():
            for one in part.each():
                found[TopicPartition(one.topic, one.partition)].append(one.rows)
    return {place: ViewRows.concat(rows) for place, rows in found.items()}


@lru_cache(maxsize=8)
def _files(storage: str, name: str) -> Any:
    # Spark reuses its Python workers: what reads a store outlives the task.
    return TableLog(storage, name).files


__all__ = ["compared"]
