"""Compares the partitions of one Spark task: all quiet ones together in compiled code, the others one by one.

It works on the states of buckets (shares of the partitions) and on what was observed. It knows neither Spark nor the
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from parallax.compare import spared, withheld
from parallax.compare.anew import NOT_OF_ONE_PARTITION, begin_anew, line_of
from parallax.compare.blobs import Blobs
from parallax.compare.blocks import Alike
from parallax.compare.gathered import Gathered, Ordered
from parallax.compare.joint import MANY_ROWS, Quiet, step_quiet
from parallax.compare.observations import Array, Observations, ViewRows
from parallax.compare.results import pieces, to_columns, to_json
from parallax.compare.segments import States, bucket_of
from parallax.compare.step import StepResult
from parallax.compare.withheld import Views
from parallax.config import CompareSettings
from parallax.model import TopicPartition


@dataclass(frozen=True, slots=True)
class TaskRows:
    """What a micro-batch showed of the partitions that one Spark task compares.

    Attributes:
        few: the observations of partitions with at most `MANY_ROWS` rows, as columns, in the order of their buckets.
        buckets: for each partition of ``few``, the number of its bucket.
        many: by bucket and partition, the observations of the other partitions: they have many rows, or are in
            ``spared``.
        spared: by partition, the offsets whose rows were not read, because the sums of all replicas are equal.
    """

    few: Ordered
    buckets: Sequence[int]
    many: Mapping[int, Mapping[TopicPartition, list[Observations]]]
    spared: Mapping[TopicPartition, Alike]

    @property
    def touched(self) -> list[int]:
        """The numbers of the buckets (shares of the partitions) in which something was observed.

        Only their states are read and written.
        """
        return sorted({*self.buckets, *self.many})

    def with_rows(self, rows: Mapping[TopicPartition, ViewRows]) -> TaskRows:
        """The same, with all rows of some partitions of ``spared``.

        Args:
            rows: by partition, all rows that the micro-batch has of it, those of each reader in the order in which they
                were recorded.
        """
        many = {
            bucket: {
                place: [replace(Observations.concat(parts), rows=rows[place])] if place in rows else parts
                for place, parts in places.items()
            }
            for bucket, places in self.many.items()
        }
        return replace(self, many=many)


class Gathering:
    """Collects what a Spark task reads from the data files, for the partitions that it compares.

    Each partition belongs to one *bucket*, by a hash of its topic and number. A Spark task compares whole buckets.

    Args:
        buckets: how many buckets the state has.
        wanted: the numbers of the buckets to collect.
    """

    def __init__(self, buckets: int, wanted: frozenset[int]) -> None:
        self._buckets, self._wanted = buckets, wanted
        self._known: dict[tuple[str, int], int] = {}
        self._parts: list[Gathered] = []

    def wants(self, topic: str, partition: int) -> bool:
        """Whether the Spark task compares partition ``partition`` of ``topic``, so that its rows must be read."""
        return self._bucket(topic, partition) in self._wanted

    def take(self, part: Gathered) -> None:
        """Add rows that were read from a data file. Call it in the order in which the rows were recorded."""
        self._parts.append(part)

    def seen(self, spared: Mapping[TopicPartition, Alike]) -> TaskRows:
        """Everything that was collected; call it once, at the end.

        Args:
            spared: by partition, the offsets whose rows were not read, because the sums of all replicas are equal.
        """
        rows: dict[TopicPartition, int] = {}
        for part in self._parts:
            for place, count in zip(part.places, part.counts.tolist(), strict=True):
                rows[place] = rows.get(place, 0) + count
        alone = {place for place, count in rows.items() if count > MANY_ROWS or place in spared}
        few: list[Gathered] = []
        many: dict[int, dict[TopicPartition, list[Observations]]] = {}
        while self._parts:
            part = self._parts.pop(0)
            is_large = np.array([place in alone for place in part.places], np.bool_)
            for one in part.only(is_large).each():
                place = TopicPartition(one.topic, one.partition)
                many.setdefault(self._bucket(*place), {}).setdefault(place, []).append(one)
            few.append(part.only(~is_large))
        buckets = sorted((self._bucket(*place), place) for place, count in rows.items() if count and place not in alone)
        joined = Gathered.concat(few, [place for _, place in buckets])
        return TaskRows(joined.ordered(), [bucket for bucket, _ in buckets], many, spared)

    def _bucket(self, topic: str, partition: int) -> int:
        place = topic, partition
        if place not in self._known:
            self._known[place] = bucket_of(topic, partition, self._buckets)
        return self._known[place]


@dataclass(slots=True)
class TaskReport:
    """What a Spark task returns to the driver: the suspects and the coverage of its partitions.

    Attributes:
        results: by bucket, one text for each partition that was compared by itself
            (`parallax.compare.results.to_json`).
        quiet: the coverage of all partitions that were quiet (`parallax.compare.results.to_columns`); None if none was.
        problem: if comparing the quiet partitions together failed, the error in one line; they were then compared one
            by one. None if it did not fail.
    """

    results: dict[int, list[str]] = field(default_factory=dict)
    quiet: bytes | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What a comparison goes by, the same for all partitions of a Spark task.

    Attributes:
        settings: for the grace period and the cap of the state.
        now_ms: when the micro-batch was planned, milliseconds since 1970 UTC.
        views: returns what reads a partition's withheld rows again (`parallax.compare.again.Again.views`).
        from_log_start: whether readers begin at the log start; otherwise they begin at the log end.
    """

    settings: CompareSettings
    now_ms: int
    views: Callable[[TopicPartition], Views]
    from_log_start: bool


Ready = Mapping[TopicPartition, StepResult]
"""By partition, the result of comparing it. Some of its rows were left unread, because their sums are equal."""


def without_rows(before: Mapping[int, States], seen: TaskRows, terms: Terms) -> Ready:
    """Compare the partitions in ``seen.spared``: some of their rows were left unread, because their sums are equal.

    Args:
        before: by bucket (share of the partitions), the states of its partitions; they are not changed.
        seen: what the micro-batch showed, of these partitions and of others.
        terms: the settings and the time, the same for all partitions.

    Returns:
        The new state, suspects and coverage of those of these partitions whose unread rows are not needed. A partition
        whose comparison raised an error is not among them.

    Raises:
        OSError: a file of a state cannot be read.
        BrokenFileError: a file does not hold what was written.
        VersionError: another version of Parallax has written a state.
    """
    ready: dict[TopicPartition, StepResult] = {}
    for bucket, places in seen.many.items():
        for place in places.keys() & seen.spared.keys():
            try:
                made = spared.without_rows(
                    before[bucket].get(place),
                    Observations.concat(places[place]),
                    seen.spared[place],
                    terms.settings,
                    terms.now_ms,
                    terms.views(place),
                    from_log_start=terms.from_log_start,
                )
            except NOT_OF_ONE_PARTITION:
                raise
            except Exception:  # noqa: BLE001 - comparing it by its rows says what is wrong with it
                made = None
            if made is not None:
                ready[place] = made
    return ready


def step_buckets(before: Mapping[int, States], seen: TaskRows, terms: Terms, ready: Ready) -> TaskReport:
    """Compare what a micro-batch showed of one Spark task's partitions; the new states are put into ``before``.

    A partition whose comparison raises an error begins again alone, and its offsets are unknown (`begin_anew`).

    Args:
        before: by bucket (share of the partitions), the states of its partitions; it is changed.
        seen: what the micro-batch showed, with all rows of the partitions that are not in ``ready``.
        terms: the settings and the time, the same for all partitions.
        ready: what `without_rows` returned for the same states: these partitions are not compared again.

    Returns:
        The suspects and the coverage of all partitions in ``seen``.

    Raises:
        OSError: a file of a state or of the views cannot be read or written.
        BrokenFileError: a file does not hold what was written.
        VersionError: another version of Parallax has written a state.
    """
    settings, now_ms = terms.settings, terms.now_ms
    told = TaskReport({bucket: [] for bucket in before})
    is_quiet = np.zeros(len(seen.buckets), np.bool_)
    if len(seen.buckets):
        quiet = _quiet(before, seen, settings, told)
        if quiet is not None and len(quiet.at):
            is_quiet[quiet.at] = True
            told.quiet = to_columns([seen.few.places[n] for n in quiet.at.tolist()], quiet, now_ms)
            _keep(before, seen, quiet)

    def one(bucket: int, place: TopicPartition, observed: Callable[[], Observations]) -> None:
        state, observations = None, Observations(*place)
        try:
            observations = observed()
            state = before[bucket].get(place)
            result = ready.get(place) or withheld.compare(
                state, observations, settings, now_ms, terms.views(place), from_log_start=terms.from_log_start
            )
            text = to_json(result.suspects, result.coverage)
        except NOT_OF_ONE_PARTITION:
            raise
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one partition holds up no other
            result = begin_anew(state, observations, now_ms, settings.grace_ms, error)
            text, state = to_json(result.suspects, result.coverage), None
        before[bucket].put(place, state, result.state)
        told.results[bucket].append(text)

    for n in np.flatnonzero(~is_quiet).tolist():
        one(seen.buckets[n], seen.few.places[n], partial(seen.few.observations, n))
    for bucket, places in sorted(seen.many.items()):
        for place, parts in sorted(places.items()):
            one(bucket, place, partial(Observations.concat, parts))
    return told


def _quiet(before: Mapping[int, States], seen: TaskRows, settings: CompareSettings, told: TaskReport) -> Quiet | None:
    """What has become of the quiet partitions; None where that failed, so that each has to be stepped by itself."""
    try:
        heads, unmatched, may = _packed(before, seen)
        return step_quiet(heads, unmatched, may, seen.few, settings)
    except NOT_OF_ONE_PARTITION:
        raise
    except Exception as error:  # noqa: BLE001 - one of thousands may be to blame, and nobody knows which
        told.problem = line_of(error)
        return None


def _packed(before: Mapping[int, States], seen: TaskRows) -> tuple[Blobs, Blobs, Array]:
    found = [before[bucket].packed(seen.few.places[start:end]) for bucket, start, end in _runs(seen.buckets)]
    heads, unmatched, whole = zip(*found, strict=True)
    return Blobs.concat(heads), Blobs.concat(unmatched), np.concatenate(whole)


def _keep(before: Mapping[int, States], seen: TaskRows, quiet: Quiet) -> None:
    """Put what became of the quiet partitions into the states of their buckets."""
    heads, unmatched = (
        pieces(blobs.data, np.append(blobs.start, len(blobs.data))) for blobs in (quiet.heads, quiet.unmatched)
    )
    at = quiet.at.tolist()
    for bucket, start, end in _runs([seen.buckets[n] for n in at]):
        places = [seen.few.places[n] for n in at[start:end]]
        before[bucket].put_packed(places, heads[start:end], unmatched[start:end])


def _runs(buckets: Sequence[int]) -> list[tuple[int, int, int]]:
    """Each bucket of a sorted sequence, with where its run begins and ends."""
    numbers = np.array(buckets, np.int64)
    starts = np.flatnonzero(np.concatenate([np.ones(1, np.bool_), numbers[1:] != numbers[:-1]]))
    ends = [*starts[1:].tolist(), len(numbers)]
    return [(buckets[start], start, end) for start, end in zip(starts.tolist(), ends, strict=True)]


__all__ = ["Gathering", "Ready", "TaskReport", "TaskRows", "Terms", "step_buckets", "without_rows"]
