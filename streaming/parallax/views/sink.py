"""Writes micro-batches to the tables of the views, each once, and reports to the source what has been recorded.

A plain append is several times faster than Delta's streaming sink. Exactly-once comes from three things: Delta
keeps the query and its batch in the same commit as its rows (``userMetadata``); a batch that
it knows is not run again, since a replica need not show the same twice; and the source goes on from what is recorded,
not from what was planned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Observation
from pyspark.sql import functions as sf

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.source import feedback
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.source.replica_source import ONLY
from parallax.source.schema import VIEW
from parallax.views.positions import batch_mark, last_batch, recorded_positions
from parallax.views.tables import PROGRESS, RECORDED_ON, table_path

_OBSERVED = "positions"
_METRICS_WAIT_S = 10.0
_CLOCK_SLACK_MS = 60_000
"""How far the clocks of the tables' storage and of the feedback file may be apart."""


@dataclass(frozen=True)
class PositionSeen:
    """The content of a position row, reported after it was committed.

    Attributes:
        reader: whose position.
        offset: next offset to read.
        event: what happened.
        detail: the event in words; empty for ``ok``.
        topic_id: id of the topic.
        high_watermark: of the replica when it was read; None where it did not say. So the next two.
        last_stable_offset: of the replica.
        log_start_offset: of the replica.
        read_at: seconds since the epoch.
        leader_epoch: of the last batch below the offset; -1 where it is not known.
    """

    reader: Reader
    offset: int
    event: ReadEvent
    detail: str
    topic_id: str
    high_watermark: int | None
    last_stable_offset: int | None
    log_start_offset: int | None
    read_at: float
    leader_epoch: int = -1


class SinkError(RuntimeError):
    """A micro-batch could not be recorded; one line."""


@contextmanager
def short_errors() -> Iterator[None]:
    """Turn what Spark throws into one line.

    Spark looks for an interruption in the text of an error of ``foreachBatch`` with a regular expression that overflows
    the stack on a long text (``StreamExecution.PROXY_ERROR``), and a Java stack trace is one.
    A query that is stopped in the middle of a commit says so in the words that Spark looks for.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again
        text = str(error)
        if any(word in text for word in ("InterruptedException", "ClosedByInterrupt", "was stopped", "cancelled")):
            text = "py4j.protocol.Py4JJavaError: An error occurred while calling save: java.lang.InterruptedException"
        first = next((line.strip() for line in text.splitlines() if line.strip()), repr(error))
        raise SinkError(first[:500]) from None


OnProgress = Callable[[Sequence[Mapping[str, Any]]], None]
OnPositions = Callable[[Sequence[PositionSeen]], None]


class ViewSink:
    """A ``foreachBatch`` function for one query over ``kafka-replica``.

    Args:
        storage: ``storage.path``.
        isolations: levels that the query reads; with more than one its rows carry the column ``isolation``.
        feedback_path: file that shows the source what is recorded.
        on_positions: called with the position rows of each commit, in the query's thread.
    """

    def __init__(
        self,
        storage: str,
        isolations: Sequence[IsolationLevel],
        feedback_path: str,
        on_positions: OnPositions | None = None,
    ) -> None:
        self._storage = storage
        self._isolations = tuple(isolations)
        self._feedback_path = feedback_path
        self._on_positions = on_positions or (lambda _: None)
        self._recorded: dict[Reader, Recorded] = {}
        self._committed: dict[str, int] = {}

    def prepare(self) -> None:
        """Rebuild the recorded positions from the tables; to be called before each start of the query.

        The feedback file of an earlier run holds everything up to when it was written, so that only younger files of
        the tables need to be read; without it, all of them.
        """
        known, written_ms = feedback.load(self._feedback_path)
        # Batches are numbered from 0 again where a checkpoint was deleted: what is known is older than any of them.
        self._recorded = {reader: entry._replace(batch=-1) for reader, entry in known.items()}
        self._committed = {}
        for isolation in self._isolations:
            self._recorded.update(recorded_positions(self._storage, isolation, written_ms - _CLOCK_SLACK_MS))
        feedback.write(self._feedback_path, self._recorded)
        # The source reports a refusal once; a process that was started since then has not received that report.
        refused = [_standing(r, e) for r, e in self._recorded.items() if e.event is ReadEvent.UNAUTHORIZED]
        if refused:
            self._on_positions(refused)

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Append a micro-batch to its tables, then report what was recorded.

        Raises:
            SinkError: a commit failed; Spark then fails the query.
        """
        with short_errors():
            self._record(batch, batch_id)

    def _record(self, batch: Any, batch_id: int) -> None:
        context = batch.sparkSession.sparkContext
        query_id = context.getLocalProperty("sql.streaming.queryId")
        seen: list[PositionSeen] = []
        for isolation in self._isolations:
            if batch_id <= self._last_batch(isolation.option, query_id):
                continue
            rows = batch
            if len(self._isolations) > 1:
                # The tasks of the other level end at once: no row is read from a broker twice.
                context.setLocalProperty(ONLY, str(int(isolation)))
                rows = batch.drop("isolation")
            try:
                seen += self._append(rows, isolation, query_id, batch_id)
            finally:
                context.setLocalProperty(ONLY, None)
            self._committed[isolation.option] = batch_id
        for position in seen:
            self._recorded[position.reader] = Recorded(
                position.offset, position.topic_id, position.event, batch_id, position.leader_epoch
            )
        feedback.write(self._feedback_path, self._recorded)
        self._on_positions(seen)

    def _last_batch(self, table: str, query_id: str) -> int:
        if table not in self._committed:
            self._committed[table] = last_batch(self._storage, table, query_id)
        return self._committed[table]

    def _append(self, rows: Any, isolation: IsolationLevel, query_id: str, batch_id: int) -> list[PositionSeen]:
        observation = _Observed(rows, isolation)
        append(observation.rows, table_path(self._storage, isolation.option), query_id, batch_id)
        return observation.positions()


def _standing(reader: Reader, recorded: Recorded) -> PositionSeen:
    detail = "not authorized when it was last asked"
    place = reader, recorded.position, recorded.event, detail, recorded.topic_id
    return PositionSeen(*place, None, None, None, time.time(), recorded.epoch)


def today() -> str:
    """The UTC date, as the partition column ``recorded_on`` has it."""
    return datetime.now(UTC).date().isoformat()


def append(rows: Any, path: str, query_id: str, batch_id: int) -> None:
    """Append rows to a table as one batch of a query; the caller makes sure that it is not there yet (``last_batch``).

    Delta's own ``txnAppId`` and ``txnVersion`` would do that as well, but each append then rebuilds the state of the
    table's whole log, by Spark jobs of its own: more than half of the time of a small commit.
    """
    (
        rows.withColumn(RECORDED_ON, sf.lit(today()).cast("date"))
        .write.format("delta")
        .mode("append")
        .option("userMetadata", batch_mark(query_id, batch_id))
        .save(path)
    )


class _Observed:
    """Collects the position rows while the rows pass by to the table, without a second pass."""

    def __init__(self, rows: Any, isolation: IsolationLevel) -> None:
        self._isolation = isolation
        self._observation = Observation(_OBSERVED)
        fields = [
            sf.col(name) for name in ("topic", "partition", "broker", "offset", "timestamp", "leader_epoch", "position")
        ]
        position = sf.when(sf.col("kind") == int(RowKind.POSITION), sf.struct(*fields))
        names = VIEW.names
        self.rows = rows.select(*names).observe(self._observation, sf.collect_list(position).alias(_OBSERVED))

    def positions(self) -> list[PositionSeen]:
        """Return what was seen; to be called after the rows were written."""
        found: dict[Reader, PositionSeen] = {}
        for row in _get(self._observation)[_OBSERVED]:
            # A reader's rows come from one task, in order: the last one is where it stands now.
            seen = self._seen(row)
            found[seen.reader] = seen
        return list(found.values())

    def _seen(self, row: Any) -> PositionSeen:
        position = row["position"]
        return PositionSeen(
            reader=Reader(int(self._isolation), row["broker"], row["topic"], row["partition"]),
            offset=row["offset"],
            event=ReadEvent(position["event"]),
            detail=position["detail"] or "",
            topic_id=position["topic_id"] or "",
            high_watermark=position["high_watermark"],
            last_stable_offset=position["last_stable_offset"],
            log_start_offset=position["log_start_offset"],
            read_at=row["timestamp"].timestamp(),
            leader_epoch=row["leader_epoch"],
        )


def _get(observation: Any) -> Mapping[str, Any]:
    """Wait for the metrics, but not for ever: Spark delivers them after the write, and never if none took place."""
    result: list[Mapping[str, Any]] = []
    thread = threading.Thread(target=lambda: result.append(observation.get), daemon=True)
    thread.start()
    thread.join(_METRICS_WAIT_S)
    if not result:
        raise RuntimeError(f"Spark did not report what a commit recorded within {_METRICS_WAIT_S:.0f} s")
    return result[0]


class ProgressSink:
    """A ``foreachBatch`` function for the query over ``kafka-progress``.

    Args:
        storage: ``storage.path``.
        on_rows: called with the rows of each commit, in the query's thread.
    """

    def __init__(self, storage: str, on_rows: OnProgress | None = None) -> None:
        self._storage = storage
        self._on_rows = on_rows or (lambda _: None)

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Append a tick.

        Raises:
            SinkError: the commit failed; Spark then fails the query.
        """
        with short_errors():
            query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            observation = Observation(_OBSERVED)
            rows = batch.observe(observation, sf.collect_list(sf.struct("*")).alias(_OBSERVED))
            append(rows, table_path(self._storage, PROGRESS), query_id, batch_id)
            self._on_rows([row.asDict() for row in _get(observation)[_OBSERVED]])


__all__ = [
    "OnPositions",
    "OnProgress",
    "PositionSeen",
    "ProgressSink",
    "SinkError",
    "ViewSink",
    "append",
    "short_errors",
    "today",
]
