"""Reads one producer's records and end markers from a replica's log, or what the replica shows at single offsets.

A log is read once, no faster than probes read. Later calls go on from where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from parallax.counts import counted
from parallax.errors import one_line
from parallax.findings.keys import record_shown
from parallax.findings.pace import BrokerPace
from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.repair.seen import END_MARKERS, Log, Row
from parallax.replica.client import ReplicaClient, watermarks_of
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Chunk, read_range
from parallax.replica.types import Watermarks

_MOST_ROWS = 1_000_000
"""A transaction with more rows than this on one replica is not mended by an end marker."""
Progress = Callable[[int, int], None]
"""Called with the offset to read next, and the offset before which the reading ends."""


class ProducerLog:
    """Reads the records and end markers of one producer in one replica's log, from a transaction's first offset on.

    Each further call of `read` reads only what has been added to the log.

    Args:
        client: asks the broker.
        broker: id of the broker that has the replica.
        place: the partition.
        producer_id: the producer.
        start: the first offset to read, at which the transaction begins.
        hasher: hashes keys and contents.
        pace: limits how many bytes a second are read.
        timeout_ms: timeout of each request.
    """

    def __init__(
        self,
        client: ReplicaClient,
        broker: int,
        place: TopicPartition,
        producer_id: int,
        start: int,
        hasher: ContentHasher,
        pace: BrokerPace,
        timeout_ms: int,
    ) -> None:
        self._client = client
        self._broker = broker
        self._place = place
        self._producer_id = producer_id
        self._start = start
        self._hasher = hasher
        self._pace = pace
        self._timeout_ms = timeout_ms
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[int, Row] = {}
        self._position = self._start

    def read(self, most: int | None, since: int | None, progress: Progress) -> Log:
        """Read on to the end of the replica's log; returns the producer's records and end markers of all calls so far.

        If the reading fails, `Log.error` says why.

        Args:
            most: after reading this many bytes, skip to ``since``; None to skip nothing. Skip only on a replica that
                has ended the transaction: of others, all has to be read.
            since: the offset to skip to; None: the present high watermark.
            progress: called with the offset to read next, and the offset before which the reading ends.
        """
        try:
            marks = watermarks_of(self._client, self._broker, self._place)
            if marks.log_end_offset < self._position:
                self._forget()  # it was truncated
            self._decide(marks)
            self._go_on(marks, most, since, progress)
        except ReplicaError as error:
            return self._log(one_line(error.problem))
        return self._log(f"more than {counted(_MOST_ROWS, 'record')} of it" if len(self._rows) > _MOST_ROWS else "")

    def _log(self, error: str) -> Log:
        return Log(tuple(row for _, row in sorted(self._rows.items())), error)

    def _decide(self, marks: Watermarks) -> None:
        """Read once more what was not decided when it was read, and is below the last stable offset now."""
        open_rows = (offset for offset, row in self._rows.items() if row.outcome is Outcome.UNDECIDED)
        found = [offset for offset in open_rows if offset < marks.last_stable_offset]
        if not found:
            return
        for offset in found:
            del self._rows[offset]
        low, end = max(min(found), marks.log_start_offset), max(found) + 1
        for chunk in self._chunks(low, end, IsolationLevel.READ_COMMITTED):
            self._take(chunk)

    def _go_on(self, marks: Watermarks, most: int | None, since: int | None, progress: Progress) -> None:
        # What the cleaner or DeleteRecords took from below the log start is nobody's to read.
        self._position = max(self._position, marks.log_start_offset)
        before, goal = self._pace.read_bytes, marks.high_watermark if since is None else since
        stable = (IsolationLevel.READ_COMMITTED, marks.last_stable_offset)
        for isolation, end in (stable, (IsolationLevel.READ_UNCOMMITTED, marks.high_watermark)):
            for chunk in self._chunks(self._position, end, isolation):
                self._take(chunk)
                self._position = max(self._position, chunk.position)
                progress(self._position, marks.high_watermark)
                if len(self._rows) > _MOST_ROWS:
                    return
                if most is not None and self._position < goal and self._pace.read_bytes - before > most:
                    self._position = goal
                    self._go_on(marks, None, None, progress)
                    return

    def _chunks(self, start: int, end: int, isolation: IsolationLevel) -> Iterable[Chunk]:
        if start >= end:
            return ()
        return read_range(
            self._client,
            self._broker,
            *self._place,
            start,
            end,
            isolation=isolation,
            hasher=self._hasher,
            deadline_ms=self._timeout_ms,
            pace=self._pace,
        )

    def _take(self, chunk: Chunk) -> None:
        for at in (chunk.columns.producer_id == self._producer_id).nonzero()[0].tolist():
            row = _row(chunk, at)
            if row is not None:
                self._rows[row.offset] = row


def _row(chunk: Chunk, at: int) -> Row | None:
    """A record, or an end marker; None if it is anything else."""
    columns = chunk.columns
    kind, offset = RowKind(int(columns.kind[at])), int(columns.offset[at])
    if kind is RowKind.RECORD:
        shown, outcome = record_shown(chunk, at), Outcome(int(chunk.outcome[at]))
        return Row(offset, kind, shown.key_hash, shown.content_hash, outcome, shown.fingerprint, shown.value_size >= 0)
    return Row(offset, kind, "", "", Outcome.NONE) if kind in END_MARKERS else None


def rows_at(
    client: ReplicaClient, broker: int, place: TopicPartition, offsets: Iterable[int], hasher: ContentHasher
) -> dict[int, Row]:
    """The record or end marker that one replica shows at each of some offsets, by offset.

    Offsets where the replica has neither are left out.

    Args:
        client: asks the broker.
        broker: id of the broker that has the replica.
        place: the partition.
        offsets: the offsets to ask for.
        hasher: hashes keys and contents.

    Raises:
        ReplicaError: the broker could not be asked.
    """
    marks = watermarks_of(client, broker, place)
    found: dict[int, Row] = {}
    for offset in offsets:
        if not marks.log_start_offset <= offset < marks.high_watermark:
            continue
        is_stable = offset < marks.last_stable_offset
        isolation = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        for chunk in read_range(client, broker, *place, offset, offset + 1, isolation=isolation, hasher=hasher):
            rows = (_row(chunk, at) for at in range(len(chunk.columns)))
            found |= {row.offset: row for row in rows if row is not None}
    return found


__all__ = ["ProducerLog", "Progress", "rows_at"]
