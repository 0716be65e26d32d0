"""Commits micro-batches to the views and to the table of progress, and passes recorded positions to the source.

Each row is recorded exactly once, for three reasons. Delta keeps the query's id and the batch's number in the same
commit as the files with its rows (`parallax.views.appending`). A batch that is in the table already is not committed
again. The source goes on from the recorded positions, not from the planned ones. That matters because a replica need
not show the same twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import structlog

from parallax import moments
from parallax.model import IsolationLevel, ReadEvent
from parallax.source import feedback, schema
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views import recording
from parallax.views.appending import Appender
from parallax.views.deleted import Deleted
from parallax.views.positions import positions_since
from parallax.views.recording import files_of
from parallax.views.tables import PROGRESS

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class PositionSeen:
    """A position that was committed: up to which offset a reader has read, for other modules of the job.

    Attributes:
        reader: the reader whose position it is.
        offset: next offset to read.
        event: what happened there; ``ok`` if nothing did.
        detail: the event in words; empty for ``ok``.
        topic_id: id of the topic that the offset belongs to.
        high_watermark: the replica's high watermark when it was read; None where it did not say.
        last_stable_offset: the replica's last stable offset then; None where it did not say.
        log_start_offset: the replica's log start then; None where it did not say.
        read_at: when the replica was read, in seconds since 1970 UTC.
        leader_epoch: leader epoch of the last batch below the offset; -1 where it is not known.
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
    """A micro-batch could not be recorded; the text is one line."""


@contextmanager
def short_errors() -> Iterator[None]:
    """Within this context, turn an error of a ``foreachBatch`` function into a `SinkError` of one line.

    Spark searches the text of such an error for an interruption (``StreamExecution.PROXY_ERROR``). Its regular
    expression overflows the stack on a long text such as a Java stack trace. If the query was stopped in the middle of
    a commit, the one line has the words that Spark looks for.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again
        text = str(error)
        if any(word in text for word in ("InterruptedException", "ClosedByInterrupt", "was stopped", "cancelled")):
            text = "py4j.protocol.Py4JJavaError: An error occurred while calling save: java.lang.InterruptedException"
        raise SinkError((_telling_line(text) or repr(error))[:500]) from None


def _telling_line(text: str) -> str:
    """The line of an error that says what it was: the first one, or the one behind a Python worker's traceback."""
    lines = [line for line in text.splitlines() if line.strip()]
    if lines and lines[0].rstrip().endswith(":"):
        began = next((n for n, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
        lines = [line for line in lines[began + 1 :] if not line[0].isspace()] or lines
    return lines[0].strip() if lines else ""


OnProgress = Callable[[Sequence[Mapping[str, Any]]], None]
OnPositions = Callable[[Sequence[PositionSeen]], None]


class ViewSink:
    """Records the micro-batches of one query over ``parallax-recording``; it is the query's ``foreachBatch`` function.

    Args:
        storage: ``storage.path``.
        isolations: isolation levels that the query reads.
        feedback_path: path of the file that passes recorded positions to the source (`parallax.source.feedback`).
        on_positions: called after each commit, in the query's thread, with the position that it has recorded of each
            reader.
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
        self._journal = feedback.Journal(feedback_path)
        self._on_positions = on_positions or (lambda _: None)
        self.rows = 0
        """How many rows it has committed."""
        self._recorded: dict[Reader, Recorded] = {}
        self._reached: dict[int, int] = {}
        self._deleted = Deleted({}, time.monotonic())
        self._tables = {isolation: Appender(storage, isolation.option) for isolation in isolations}

    def prepare(self) -> None:
        """Find in the tables the recorded position of each reader. Call it before each start of the query.

        The feedback file of an earlier run holds everything up to the commits that it names, so only later commits are
        read from the tables. Without the file, or if it names no commits, the whole tables are read. If a table ends
        before the commit that the file names, it was replaced, for instance by a copy. Then its positions in the file
        are ignored, and a reader that the table does not know begins again.
        """
        known, reached = feedback.load(self._feedback_path)
        # Batches are numbered from 0 again where a checkpoint was deleted: what is known is older than any of them.
        self._recorded = {reader: entry._replace(batch=-1) for reader, entry in known.items()}
        self._tables = {isolation: Appender(self._storage, isolation.option) for isolation in self._isolations}
        for isolation in self._isolations:
            before = reached.get(int(isolation), -1)
            moved, place = positions_since(self._storage, isolation, before)
            if place < before:
                log.warning(
                    "a table was replaced since it was recorded to last: positions are taken from all of it",
                    table=isolation.option,
                )
                self._recorded = {r: entry for r, entry in self._recorded.items() if r.isolation != isolation}
            self._recorded |= moved
            self._reached[int(isolation)] = place
        self._deleted = Deleted(self._recorded, time.monotonic())
        self._journal.write(self._recorded, self._reached)
        # The source reports a refusal once; a process that was started since then has not received that report.
        refused = [_standing(r, e) for r, e in self._recorded.items() if e.event is ReadEvent.UNAUTHORIZED]
        if refused:
            self._on_positions(refused)

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Have a micro-batch read and written, commit its files, then report what was recorded.

        Args:
            batch: the micro-batch, a DataFrame of `parallax.views.recording.FILES_DDL`.
            batch_id: its number.

        Raises:
            SinkError: a commit failed; Spark then fails the query.
        """
        with short_errors():
            self._record(batch, batch_id)

    def _record(self, batch: Any, batch_id: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        for table in self._tables.values():
            table.begin()
        files = files_of(batch)
        seen: list[PositionSeen] = []
        reached = dict(self._reached)
        for isolation, table in self._tables.items():
            mine = [file for file in files if file.isolation == isolation]
            # What was committed before a crash has moved the positions: these files hold nothing that it lacks.
            if not mine or batch_id <= table.last_batch(query_id):
                continue
            commit(table, mine, query_id, batch_id)
            reached[int(isolation)] = table.reached_ms
            seen += _positions(mine)
            self.rows += sum(file.rows for file in mine)
        moved = {p.reader: Recorded(p.offset, p.topic_id, p.event, batch_id, p.leader_epoch) for p in seen}
        self._recorded |= moved
        self._reached = reached
        self._journal.append(moved, self._recorded, reached)
        self._forget(moved)
        self._on_positions(seen)

    def _forget(self, moved: Mapping[Reader, Recorded]) -> None:
        """Forget the readers of topics that were deleted some hours ago."""
        now_s = time.monotonic()
        self._deleted.note(moved, now_s)
        gone = self._deleted.over(self._recorded, now_s)
        if gone:
            self._recorded = {reader: entry for reader, entry in self._recorded.items() if reader not in gone}
            self._journal.write(self._recorded, self._reached)


def commit(table: Appender, files: Sequence[recording.Recorded], query_id: str, batch_id: int) -> None:
    """Commit the files that a micro-batch has written for one view.

    Args:
        table: appends to the view's table.
        files: the files to commit.
        query_id: id of Spark's query.
        batch_id: number of the micro-batch.
    """
    table.append_files(files, query_id, batch_id)


def _standing(reader: Reader, recorded: Recorded) -> PositionSeen:
    detail = "not authorized when it was last asked"
    place = reader, recorded.position, recorded.event, detail, recorded.topic_id
    return PositionSeen(*place, None, None, None, time.time(), recorded.epoch)


def _positions(files: Sequence[recording.Recorded]) -> list[PositionSeen]:
    """The last position of each reader in some files; all rows of a reader are in one file, in their order."""
    found: dict[Reader, PositionSeen] = {}
    for file in files:
        for row in file.position_rows().to_pylist():
            seen = _seen(IsolationLevel(file.isolation), row)
            found[seen.reader] = seen
    return list(found.values())


def _seen(isolation: IsolationLevel, row: Mapping[str, Any]) -> PositionSeen:
    position = row["position"]
    return PositionSeen(
        reader=Reader(int(isolation), row["broker"], row["topic"], row["partition"]),
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


class ProgressSink:
    """Records the micro-batches of the query over ``kafka-progress``; it is the query's ``foreachBatch`` function.

    Args:
        storage: ``storage.path``.
        on_rows: called with a micro-batch's rows of ``replica_progress`` once they are committed, in the query's
            thread.
    """

    def __init__(self, storage: str, on_rows: OnProgress | None = None) -> None:
        self._table = Appender(storage, PROGRESS)
        self._on_rows = on_rows or (lambda _: None)

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Append the rows of a tick to the table, then pass them on.

        Args:
            batch: the rows, a DataFrame.
            batch_id: number of the micro-batch.

        Raises:
            SinkError: the commit failed; Spark then fails the query.
        """
        with short_errors():
            query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            rows = batch.toArrow()
            if batch_id > self._table.last_batch(query_id):
                append(self._table, rows, query_id, batch_id)
            self._on_rows(rows.to_pylist())


def append(table: Appender, rows: pa.Table, query_id: str, batch_id: int) -> None:
    """Append the rows of a tick to the table of progress.

    Args:
        table: appends to that table.
        rows: the rows.
        query_id: id of Spark's query.
        batch_id: number of the micro-batch.
    """
    table.append_rows(rows.cast(schema.PROGRESS), moments.today(), query_id, batch_id)


__all__ = [
    "OnPositions",
    "OnProgress",
    "PositionSeen",
    "ProgressSink",
    "SinkError",
    "ViewSink",
    "append",
    "commit",
    "short_errors",
]
