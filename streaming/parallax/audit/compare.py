"""Compares partitions for an audit, in Spark's tasks. Chunks of rows go in; one result for each partition comes out.

The rows of a partition go through the same step as in the stream, one chunk after the other. The chunks of all readers
come in the order of their first offsets, so all readers are at about the same offset at any time. So the state, and
with it the memory, stays as small as in the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.audit.packing import unpack
from parallax.audit.result import NO_MORE, Compared, Stopped
from parallax.compare.agreed import take_in
from parallax.compare.blocks import Agreed
from parallax.compare.observations import (
    EVENTS,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Observations,
    ViewRows,
)
from parallax.compare.remembered import waiting
from parallax.compare.replicas import ended_up_to, retained_from
from parallax.compare.results import from_json, to_json
from parallax.compare.rules.outcome import open_disputes
from parallax.compare.state import NEVER, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.suspect import Coverage, Suspect, UnreadRange
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, FindingKind, ReadEvent, TopicPartition, UnknownReason

STATE = -1
"""The ``at`` of a partition's first row. The ``packed`` of that row is the state of the round before, or empty."""

STEP_ROWS = 1 << 17
"""About how many rows one step takes in. A step costs about a millisecond even with few."""

MAX_SUSPECTS = 20_000
"""How many suspects of one partition are probed at most; more would read its logs for hours."""

MAX_UNLIKE = 1000
"""How many offsets of a partition that only some replicas hold are kept to be counted. The highest are kept."""

RESULT_DDL = "topic string, partition int, at bigint, packed binary, result string"

_FIELDS: list[Any] = [
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("at", pa.int64()),
    pa.field("packed", pa.binary()),
    pa.field("result", pa.string()),
]
_RESULT = pa.schema(_FIELDS)

_BREAKS = {
    ReadEvent.LOG_TRUNCATED: "a replica's log was truncated",
    ReadEvent.TOPIC_RECREATED: "the topic was recreated",
    ReadEvent.TOPIC_DELETED: "the topic was deleted",
}


@dataclass(frozen=True, slots=True)
class PartitionInput:
    """What a Spark task gets to compare one partition, in addition to the partition's rows.

    Attributes:
        opening: packed observations (`parallax.audit.packing`), taken in one by one before the rows.
        closing: packed observations, taken in one by one after the rows.
        ends: by isolation level, the offset up to which the partition is compared.
        doubted: whether a record that one replica lacks may be lost rather than cleaned (`PartitionPlan.doubted`).
        left_out: ids of the brokers that ``topics.brokers`` leaves out of the comparison.
        agreed: the range in which all replicas agreed by their sums; None if there is none. Below its end, the task is
            given positions only.
    """

    opening: tuple[bytes, ...]
    closing: tuple[bytes, ...]
    ends: tuple[int, int]
    doubted: bool = False
    left_out: tuple[int, ...] = ()
    agreed: Agreed | None = None


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares the partitions of one round in Spark's tasks; its `compare` is for ``mapInArrow``.

    A round is one reading of all replicas, or of what has been written since. Rows sorted by (topic, partition, at) go
    in, and one row for each partition comes out.

    Attributes:
        inputs: by partition, what its comparison must know; each partition whose rows may come is in it.
        settings: settings of the comparison.
        read_at: when the round's rows count as read, ms since 1970 UTC. It lies between the looks before and after the
            reading.
        last: whether this is the last round, which judges everything that earlier rounds left waiting.
        from_log_start: whether each reader begins at its log start; recorded rows may begin anywhere instead.
        one_order: whether each reader's rows must have rising offsets. If they do not (after a truncation, say), the
            partition becomes unknown.
    """

    inputs: Mapping[TopicPartition, PartitionInput]
    settings: CompareSettings
    read_at: int
    last: bool
    from_log_start: bool = True
    one_order: bool = True

    def compare(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Compare chunks of rows, and yield one result for each partition, after its last chunk.

        Args:
            batches: Arrow batches of chunks, sorted by topic, partition and ``at``.
        """
        current: _Comparison | None = None
        for batch in batches:
            columns = [batch.column(name) for name in ("topic", "partition", "at", "packed")]
            for topic, partition, at, packed in zip(*columns, strict=True):
                place = TopicPartition(topic.as_py(), partition.as_py())
                if current is None or current.place != place:
                    if current is not None:
                        yield current.close()
                    current = _Comparison(place, self)
                current.take(at.as_py(), packed.as_buffer())
        if current is not None:
            yield current.close()


def dated(suspect: Suspect, raised_at: int, shown_from: int) -> Suspect:
    """A copy of an audit's suspect with the time at which it was raised.

    The suspect counts as raised once the audit has read everything. So an earlier verdict on the same claim, given
    while the audit was still reading, does not settle the suspect.

    Args:
        suspect: a suspect of an audit.
        raised_at: a time after everything was read, ms since 1970 UTC.
        shown_from: a time before anything was read, ms since 1970 UTC; 1 for rows of the tables, which may be of any
            time.
    """
    found = suspect.accusation
    told = replace(found, observations={**found.observations, "shown_from": shown_from})
    return replace(suspect, accusation=told, raised_at=raised_at)


class _Comparison:
    """One partition in one round."""

    def __init__(self, place: TopicPartition, task: Comparer) -> None:
        self.place = place
        self._task = task
        self._input = task.inputs[place]
        self._state = PartitionState()
        self._waiting: list[Observations] = []
        self._rows = self._waiting_rows = 0
        self._suspects: list[Suspect] = []
        self._overflow = False
        self._opened = False
        self._unlike = np.empty(0, np.int64)
        self._timed: list[Observations] = []
        self._broken = ""
        self._begun: dict[tuple[int, int], int] = {}
        self._events: dict[tuple[int, int], str] = {}

    def take(self, at: int, packed: Any) -> None:
        """Take in one row: the state, which comes first, or a chunk."""
        if at == STATE:
            self._open(bytes(packed))
            return
        if not self._opened:
            self._open(b"")
        observed = self._unpacked(packed)
        if self._task.one_order:
            # Only its positions and progress say when it was read.
            positions = observed.rows.kind == POSITION
            self._timed.append(replace(observed, rows=observed.rows.take(positions)))
        if not len(observed.rows):
            return
        rows = self._timeless(observed.rows)
        self._note(rows)
        self._waiting.append(Observations(*self.place, rows=rows))
        self._waiting.append(Observations(*self.place, rows=self._passed(rows)))
        self._rows += len(rows)
        self._waiting_rows += len(rows)
        if self._waiting_rows >= STEP_ROWS:
            self._flush()

    def close(self) -> Any:
        """Judge what is left; returns the partition's record batch."""
        if not self._opened:
            self._open(b"")
        self._flush()
        for packed in self._input.closing:
            self._step(self._unpacked(packed))
        result = self._step(Observations(*self.place))
        while self._task.last and not self._overflow:
            # Absences are judged some at a time, so that a stream does not raise thousands together.
            before = waiting(self._state.candidates)
            result = self._step(Observations(*self.place))
            if waiting(self._state.candidates) == before:
                break
        return self._batch(result.coverage)

    def _open(self, state: bytes) -> None:
        self._opened = True
        self._state = PartitionState.from_bytes(state)
        for packed in self._input.opening:
            self._step(self._unpacked(packed))
        if (agreed := self._input.agreed) is not None and not state:
            self._state = self._state.copy()
            take_in(self._state, agreed)
            self._begun = {(view, broker): agreed.start for view in VIEWS for broker in agreed.brokers}
            self._rows = agreed.rows

    def _unpacked(self, packed: bytes) -> Observations:
        """Observations without the replicas that are not to be read: nothing waits for these."""
        made = unpack(*self.place, packed)
        if not self._input.left_out:
            return made
        wanted = np.flatnonzero(~np.isin(made.replica_sets.broker, self._input.left_out))
        return replace(made, replica_sets=made.replica_sets.take(wanted))

    def _timeless(self, rows: ViewRows) -> ViewRows:
        """Date the positions between the two looks, by the clock of the looks: which was first is all that counts."""
        positions = rows.kind == POSITION
        if not positions.any():
            return rows
        timestamp, stable = rows.timestamp.copy(), rows.last_stable_offset.copy()
        timestamp[positions], stable[positions] = self._task.read_at, UNKNOWN
        return replace(rows, timestamp=timestamp, last_stable_offset=stable)

    def _note(self, rows: ViewRows) -> None:
        reader = int(rows.view[0]), int(rows.broker[0])
        self._begun.setdefault(reader, int(rows.offset[0]))
        for i in np.flatnonzero(rows.kind == POSITION):
            event = EVENTS[int(rows.event[i])]
            self._events[reader] = str(event)
            if self._task.one_order and event in _BREAKS:
                self._broken = f"{_BREAKS[event]} while it was recorded: its rows have no common order"

    def _passed(self, rows: ViewRows) -> ViewRows:
        """The position that a chunk vouches for: a reader's rows come in offset order, none is left out."""
        last = {
            "view": rows.view[-1:],
            "broker": rows.broker[-1:],
            "kind": [POSITION],
            "timestamp": [self._task.read_at],
        }
        end = int(rows.offset[-1]) + int(rows.kind[-1] != POSITION)
        return ViewRows.of({**last, "offset": [end]})

    def _flush(self) -> None:
        if self._waiting:
            self._step(Observations.concat(self._waiting))
        self._waiting, self._waiting_rows = [], 0

    def _step(self, observed: Observations) -> StepResult:
        task = self._task
        result = step(
            self._state,
            observed,
            task.settings,
            task.read_at,
            from_log_start=task.from_log_start,
        )
        self._state = result.state
        if self._input.doubted:
            self._unlike = np.concatenate([self._unlike, result.unlike])[-MAX_UNLIKE:]
        self._suspects += result.suspects
        if len(self._suspects) > MAX_SUSPECTS:
            self._suspects, self._overflow = self._suspects[:MAX_SUSPECTS], True
        return result

    def _batch(self, coverage: Coverage) -> Any:
        document = asdict(self._compared(coverage))
        suspects = [] if self._broken else self._suspects
        text = json.dumps({"compared": document, "step": to_json(suspects, coverage)})
        topic, partition = self.place
        row = {"topic": topic, "partition": partition, "at": STATE, "packed": self._state.to_bytes(), "result": text}
        return pa.RecordBatch.from_pylist([row], schema=_RESULT)

    def _compared(self, coverage: Coverage) -> Compared:
        state, ends = self._state, self._input.ends
        disputed = state.pending["offset"][open_disputes(state.pending)]
        begun = [*self._begun.values(), retained_from(state), 0] if not self._task.from_log_start else []
        ru, rc = coverage.compared_up_to
        compared_from = max(begun, default=max(retained_from(state), 0))
        return Compared(
            compared_from=compared_from,
            compared_up_to=(min(ru, ends[0]), min(rc, ends[1], ended_up_to(state))),
            stopped=tuple(self._stopped(coverage)),
            waiting=waiting(state.candidates[state.candidates["offset"] < ends[READ_COMMITTED]]),
            disputes=tuple(int(o) for o in disputed[disputed < ends[READ_COMMITTED]][:64]),
            deferred=_left_out(state, ends) + _left_behind(coverage, UnknownReason.DEFERRED),
            skipped=int(state.partition["skipped"][0].sum()) + _left_behind(coverage, UnknownReason.SKIPPED),
            lost=max(coverage.unknown_for(UnknownReason.LOST_UNREAD)),
            broken=self._broken,
            overflow=self._overflow,
            rows=self._rows,
            missing_head=self._missing_head(coverage),
            retained_unlike=max(coverage.unknown_for(UnknownReason.RETENTION_DIFFERS)),
            undecided=max(coverage.unknown_for(UnknownReason.UNDECIDED)),
            unread=tuple(self._unread(compared_from)),
            unlike=tuple(int(o) for o in self._unlike if retained_from(state) <= o < ends[READ_UNCOMMITTED]),
        )

    def _unread(self, compared_from: int) -> Iterator[UnreadRange]:
        """What was recorded, but by no reading in time: as the stream follows it, by when positions were read."""
        if not self._timed:
            return
        state, settings = PartitionState(), self._task.settings
        for part in _by_replica_set(Observations.concat(self._timed)):
            state = step(state, part, settings, 0).state
        for packed in self._input.opening:
            state = step(state, self._unpacked(packed), settings, 0).state
        told = step(state, Observations(*self.place), settings, 0).coverage
        for span in told.unread:
            start, end = max(span.start, compared_from), min(span.end, self._input.ends[span.view])
            # Positions say nothing of what lies between them.
            if start < end and span.may_be_audited:
                yield replace(span, start=start, end=end)

    def _missing_head(self, coverage: Coverage) -> int:
        suspected = any(suspect.kind is FindingKind.LOG_HEAD_MISSING for suspect in self._suspects)
        return 0 if suspected else max(coverage.unknown_for(UnknownReason.LOG_START_DIFFERS))

    def _stopped(self, coverage: Coverage) -> Iterator[Stopped]:
        for broker in coverage.brokers:
            for view, read_to in zip(VIEWS, (broker.read_uncommitted, broker.read_committed), strict=True):
                if read_to < self._input.ends[view]:
                    event = self._events.get((view, broker.broker), str(ReadEvent.OK))
                    why = NO_MORE if event == ReadEvent.OK else event
                    yield Stopped(broker.broker, view, read_to, self._input.ends[view], why)


def _by_replica_set(told: Observations) -> Iterator[Observations]:
    """Cut positions and progress where the partition's replicas became others, in the order of time.

    A step takes in the newest replica set alone: a replica that was taken off meanwhile, and is back, would not show.
    """
    sets = told.replica_sets
    order = np.lexsort((sets.broker, sets.observed_at))
    times, first = np.unique(sets.observed_at[order], return_index=True)
    hosts = [np.unique(brokers).tobytes() for brokers in np.split(sets.broker[order], first[1:])]
    cuts = [at for at, (before, now) in zip(times[1:].tolist(), pairwise(hosts), strict=True) if now != before]
    return told.cut(cuts, told.rows.timestamp)


def _left_out(state: PartitionState, ends: tuple[int, int]) -> int:
    """Offsets below the ends that the cap kept out of the comparison."""
    deferred = state.deferred
    size = 0
    for view in (READ_UNCOMMITTED, READ_COMMITTED):
        mine = deferred[deferred["view"] == view]
        end = np.where(mine["end"] == NEVER, ends[view], np.minimum(mine["end"], ends[view]))
        size += int(np.maximum(end - mine["start"], 0).sum())
    return size


def _left_behind(coverage: Coverage, reason: UnknownReason) -> int:
    """Offsets that were passed without verdict."""
    return sum(span.end - span.start for span in coverage.unread if span.reason is reason)


def parse(text: str) -> tuple[Compared, list[Suspect], Coverage]:
    """Read the column ``result`` of one partition's row.

    Args:
        text: the column's value, as `Comparer.compare` made it.

    Returns:
        What was compared.
        The suspects, not dated yet (`dated`).
        The coverage.
    """
    document = json.loads(text)
    suspects, coverage = from_json(document["step"])
    fields = document["compared"]
    up_to = fields.pop("compared_up_to")
    stopped = tuple(Stopped(**s) for s in fields.pop("stopped"))
    fields["unread"] = tuple(
        UnreadRange(**{**span, "reason": UnknownReason(span["reason"])}) for span in fields["unread"]
    )
    fields |= {name: tuple(fields[name]) for name in ("disputes", "unlike")}
    return (
        Compared(**fields, compared_up_to=(up_to[0], up_to[1]), stopped=stopped),
        suspects,
        coverage,
    )


__all__ = ["MAX_SUSPECTS", "RESULT_DDL", "STATE", "Comparer", "PartitionInput", "parse"]
