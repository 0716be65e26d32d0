"""Reads given ranges of offsets from one broker's replicas, as a consumer of one isolation level, and decodes them.

One Fetch asks for all ranges that are not read to their end. The next Fetch is sent as soon as the batch headers in the
answer show where it has to begin. So the broker works on it while the answer is decoded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from parallax.model import IsolationLevel
from parallax.replica import kernels
from parallax.replica.client import FetchedPartition, FetchPosition, PendingFetch, ReplicaClient
from parallax.replica.connection import ReceiveBuffer
from parallax.replica.decode import Columns, ContentHasher, Payload, batch_table, decode_slices, no_columns
from parallax.replica.errors import CorruptBatch, LogTruncated, OffsetOutOfRange, ReplicaError, Throttled, Unsupported
from parallax.replica.fetch_response import no_aborted
from parallax.replica.inflate import Inflater
from parallax.replica.listed import with_emptied, with_listed
from parallax.replica.outcomes import Int8, outcomes

Int64 = np.ndarray[Any, np.dtype[np.int64]]

_MAX_FETCH = 1 << 29

_MOST_OFFSET = 1 << 62
"""No log reaches this offset: that would take a century at a thousand million records a second."""

_MOST = 1_000
"""Logs that one Fetch asks for at most."""

_DOUBTS = 2
"""How often a log is asked again whose answer contradicts itself."""

_SMALL = 1 << 16
"""Up to so many bytes a log's part of an answer is decoded together with others'. A pass costs some 50 microseconds."""

_MOST_THROTTLED_MS = 60_000
"""How long a quota may have a reader wait between two answers. Brokers ask for the length of their windows at most."""


@dataclass(frozen=True)
class Chunk:
    """Rows of one replica from one Fetch response: all rows, or a slice if they are many.

    Attributes:
        columns: records and end markers. In read_committed also rows for aborted transactions whose first record was
            cleaned away, and for emptied markers (`parallax.replica.listed`).
        outcome: int8[n] of Outcome, the outcome that this replica's consumers give each row.
        position: the next offset to read. All rows of the range below it are in this chunk or an earlier one.
        high_watermark: the replica's own high watermark when it answered.
        last_stable_offset: the replica's own last stable offset when it answered.
        log_start_offset: the replica's own log start when it answered.
        epoch: leader epoch of the last batch in the chunk; -1 if there was none.
    """

    columns: Columns
    outcome: Int8
    position: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    epoch: int = -1


class Pacing(Protocol):
    """Delays the Fetches of a reader, so that it reads at most some number of bytes a second."""

    def wait(self) -> None:
        """Wait until the next Fetch may be sent; a reader calls it before each."""

    def received(self, size: int) -> None:
        """Count ``size`` bytes of records, which an answer has brought; later calls of `wait` take longer for them.

        A reader calls it after each answer.
        """


@dataclass(frozen=True, slots=True)
class Span:
    """A range of offsets of one partition that `read_ranges` is to read.

    Attributes:
        topic: the topic's name.
        partition: the partition's number.
        start: first offset.
        end: offset to stop before.
        after_epoch: leader epoch of the last batch that was read below ``start``; -1 if that is not known. With it,
            each Fetch also asks the replica whether its log still holds what was read (`LogTruncated`).
        most: if the last answer happens to hold rows beyond ``end``, those below this offset are yielded too, so that a
            later reading need not transfer them again. -1: no rows beyond ``end`` are yielded.
        topic_id: Kafka's id of the topic. If another topic has its name, brokers answer with an error. Empty: any topic
            of that name is read.
        may_be_another: whether it is known that another log may have replaced the one that was read. Then a log without
            an entry for ``after_epoch`` is no error, but one that was truncated below ``start`` still is.
    """

    topic: str
    partition: int
    start: int
    end: int
    after_epoch: int = -1
    most: int = -1
    topic_id: str = ""
    may_be_another: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one range (`Span`) of a log has been read, with the watermarks in the replica's answer.

    Attributes:
        position: the next offset to read.
        high_watermark: the replica's own high watermark when it answered.
        last_stable_offset: the replica's own last stable offset when it answered.
        log_start_offset: the replica's own log start when it answered.
        epoch: leader epoch of the last batch that was read; -1 if there was none.
    """

    position: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    epoch: int = -1


@dataclass(frozen=True)
class Shown:
    """Rows of one Fetch response, of one or several of the ranges (`Span`) that `read_ranges` reads of one broker.

    The rows of one range are next to each other, in offset order. A range is named by its index in the list that
    `read_ranges` was given.

    Attributes:
        columns: records, end markers and listed transactions, as in `Chunk`.
        outcome: int8[n] of Outcome, the outcome that this replica's consumers give each row.
        of: int64[n], for each row the index of its range; None if all rows are of the first range in ``marks``.
        marks: for each range that the response has read further: its index, and how far it has been read (`Mark`). All
            rows of the range below that position are in this `Shown` or an earlier one.
    """

    columns: Columns
    outcome: Int8
    of: Int64 | None
    marks: Sequence[tuple[int, Mark]]


@dataclass(frozen=True, slots=True)
class Failed:
    """Says that a range (`Span`) could not be read to its end; rows of it that were yielded before stay valid.

    Attributes:
        index: index of the range in the list that `read_ranges` was given.
        error: why reading has stopped.
    """

    index: int
    error: ReplicaError


@dataclass
class Buffers:
    """Memory for received and decompressed bytes, which readers use one after another instead of new memory.

    After ranges that needed much memory, it shrinks to its usual size.
    """

    receive: ReceiveBuffer = field(default_factory=ReceiveBuffer)
    inflater: Inflater = field(default_factory=Inflater)


def read_range(
    client: ReplicaClient,
    broker: int,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    isolation: IsolationLevel,
    hasher: ContentHasher,
    payload: Payload = Payload.HASH,
    max_bytes: int = 4 << 20,
    deadline_ms: float = 3000,
    buffers: Buffers | None = None,
    after_epoch: int = -1,
    pace: Pacing | None = None,
    topic_id: str = "",
) -> Iterator[Chunk]:
    """Read what one replica shows in [start, end), chunk by chunk; `read_ranges` does the same for several partitions.

    If a batch is corrupt, all rows before it are yielded before the error is raised. A response that is very large when
    decompressed is yielded as several chunks, some of which may end within a batch.

    Args:
        client: connections to the cluster.
        broker: broker whose replica to read.
        topic: topic to read.
        partition: partition to read.
        start: first offset.
        end: offset to stop before.
        isolation: isolation level of the consumer to read as.
        hasher: hashes keys and contents.
        payload: which bytes to copy out besides the hashes.
        max_bytes: limit for one Fetch; a batch that is larger comes whole.
        deadline_ms: how long each Fetch may take, from when its answer is waited for.
        buffers: memory to use; its own by default.
        after_epoch: leader epoch of the last batch that was read below ``start``, to notice a truncation (see `Span`).
        pace: delays the Fetches; no delay by default.
        topic_id: Kafka's id of the topic; empty for any topic of that name.

    Yields:
        Chunks in offset order. Some may have no rows, if only the position has moved.

    Raises:
        ReplicaError: the broker failed or its data are corrupt. The chunks before that stay valid. To go on, read from
            the position of the last one, or from ``start`` if there was none.
    """
    span = Span(topic, partition, start, end, after_epoch, topic_id=topic_id)
    events = read_ranges(
        client,
        broker,
        [span],
        isolation=isolation,
        hasher=hasher,
        payload=payload,
        max_bytes=max_bytes,
        deadline_ms=deadline_ms,
        buffers=buffers,
        pace=pace,
    )
    for event in events:
        if isinstance(event, Failed):
            error = event.error
            raise error.at(broker=broker, topic=topic, partition=partition) from error.__cause__
        ((_, mark),) = event.marks
        yield Chunk(
            event.columns,
            event.outcome,
            mark.position,
            mark.high_watermark,
            mark.last_stable_offset,
            mark.log_start_offset,
            mark.epoch,
        )


def read_ranges(
    client: ReplicaClient,
    broker: int,
    spans: Sequence[Span],
    *,
    isolation: IsolationLevel,
    hasher: ContentHasher,
    payload: Payload = Payload.HASH,
    max_bytes: int = 4 << 20,
    log_bytes: int | None = None,
    deadline_ms: float = 3000,
    buffers: Buffers | None = None,
    pace: Pacing | None = None,
) -> Iterator[Shown | Failed]:
    """Read what one broker's replicas show in some spans of offsets, one span for each partition.

    A span is read until its position has reached its end. If the replica has no more records below its high watermark
    (in read_committed: last stable offset), the position moves to that watermark. If the watermark is below the span's
    end, reading stops there, because consumers get nothing beyond it at present.

    A fault of one log delays no other. If the broker itself fails, all spans that are not read to their end are
    `Failed`.

    Args:
        client: connections to the cluster.
        broker: broker whose replicas to read.
        spans: the spans, at most one of each partition; empty spans are skipped.
        isolation: isolation level of the consumer to read as.
        hasher: hashes keys and contents.
        payload: which bytes to copy out besides the hashes.
        max_bytes: limit for one Fetch.
        log_bytes: limit for one log in a Fetch; ``max_bytes`` by default.
        deadline_ms: how long each Fetch may take, from when its answer is waited for.
        buffers: memory to use; its own by default.
        pace: delays the Fetches; no delay by default.

    Yields:
        `Shown`: rows, and the positions that were reached by them; or `Failed`: a span that could not be read on.
    """
    buffers = buffers or Buffers()
    reading = _Reading(client, broker, isolation, max_bytes, deadline_ms, pace)
    decoder = _Decoder(isolation, hasher, payload, buffers.inflater)
    # What is short comes first: the long ones ride along until they are alone.
    logs = sorted(
        (_Log(broker, n, span, log_bytes or max_bytes) for n, span in enumerate(spans)),
        key=lambda log: log.end - log.position,
    )
    live = {log.index: log for log in logs if log.position < log.end}
    try:
        reading.ask(live.values())
        while live:
            found, failed = _look_at(live, reading.answer(buffers.receive))
            for failure in failed:
                del live[failure.index]
                yield failure
            over = {log.index for log, batches in found if not log.goes_on(batches)}
            reading.ask(log for log in live.values() if log.index not in over)
            for event in decoder.events(found):
                if isinstance(event, Failed):
                    live.pop(event.index, None)
                else:
                    for index, mark in event.marks:
                        live[index].position = mark.position
                yield event
            for log, batches in found:
                if log.index in live and (log.position >= log.end or not len(batches.table)):
                    del live[log.index]
    except ReplicaError as error:
        for index in live:
            yield Failed(index, error.at(broker=broker))
    finally:
        reading.forget()
        buffers.receive.shrink()


def _look_at(
    live: dict[int, _Log], answers: Sequence[tuple[_Log, FetchedPartition]]
) -> tuple[list[tuple[_Log, _Batches]], list[Failed]]:
    """The batches of an answer, of each log that is still read; and what is wrong with others.

    That a log has nothing more is only said by an answer that holds no records at all: else they may have left no room
    for those of this log, and the broker then answers as if there were none.
    """
    is_empty = not any(len(answer.records) for _, answer in answers)
    found: list[tuple[_Log, _Batches]] = []
    failed: list[Failed] = []
    for log, answer in answers:
        if log.index not in live:
            continue
        try:
            if log.checked(answer):
                continue
            batches = _Batches(answer, log.position, log.most)
            if log.doubts(batches):
                continue
            if batches.cut_short:
                log.widen()
            elif len(answer.records) or is_empty:
                found.append((log, batches))
        except ReplicaError as error:
            failed.append(log.failed(error))
    return found, failed


class _Log:
    """How far the reading of one span has come.

    Attributes:
        index: index of the span.
        place: topic and partition.
        topic_id: id of the topic that is meant.
        position: what was yielded lies below it.
        ahead: the offset that the Fetch in flight asks for.
        end: end of the span.
        most: the offset up to which an answer is taken.
        epoch: leader epoch of the last batch below ``ahead``, if it is known.
        max_bytes: how many bytes are asked for.
    """

    def __init__(self, broker: int, index: int, span: Span, max_bytes: int) -> None:
        self._broker = broker
        self.index = index
        self.place, self.topic_id = (span.topic, span.partition), span.topic_id
        self.position = self.ahead = span.start
        self.end = span.end
        self.most = max(span.end, span.most)
        self.epoch = span.after_epoch
        self._may_be_another = span.may_be_another
        self.max_bytes = max_bytes
        self._forgotten = -1
        self._doubted = 0

    def failed(self, error: ReplicaError) -> Failed:
        """That it is not read on; the error names its place."""
        topic, partition = self.place
        return Failed(self.index, error.at(broker=self._broker, topic=topic, partition=partition))

    def checked(self, answer: FetchedPartition) -> bool:
        """Whether the answer was about epochs and the same is to be asked without one.

        A broker answers with the largest epoch of its log that is not above the one that was read, and with where that
        ends, if it is another or ends below the position (``Partition.readRecords``,
        ``LeaderEpochFileCache.endOffsetFor``). Where it ends below, the log was truncated. Where it reaches up to the
        position, the epoch that was read is none of this log: what lies below is of older epochs. It may be a copy of a
        log whose records of that epoch had been cleaned, or another log that has taken the place of the one that was
        read, as after two unclean elections. That is said once (`Span.may_be_another`); then it is read on.

        Raises:
            LogTruncated: the log was truncated below the position, or may have been and nobody knows it yet.
            ReplicaError: what else the broker says of this partition.
        """
        epoch, position = self.epoch, self.position
        if answer.error is not None:
            if not (isinstance(answer.error, OffsetOutOfRange) and epoch >= 0):
                raise answer.error
            # Out of range of the log, or the log knows neither this epoch nor a higher one: the next answer shows
            # which.
            self._forgotten, self.epoch = epoch, -1
            return True
        if answer.diverging is not None:
            _, end = answer.diverging
            if end < position:
                problem = f"the log of leader epoch {epoch} ends at offset {end}, it was read up to {position}"
                raise LogTruncated(problem, end=end)
            self._forgotten, self.epoch = epoch, -1
        if self._forgotten >= 0 and not self._may_be_another:
            problem = f"the log does not know leader epoch {self._forgotten} any more, in which it was read"
            raise LogTruncated(problem, end=min(position, answer.high_watermark))
        return answer.diverging is not None

    def doubts(self, batches: _Batches) -> bool:
        """Whether the same is asked once more, since the answer contradicts itself in its first batch.

        A broker reads its high watermark before it reads the log, bounded by the high watermark of that later moment;
        after a restart it may have caught up with much in between (``Partition.fetchRecords``). What is garbled on a
        disk contradicts the next answer as well.
        """
        if not batches.contradicts:
            self._doubted = 0
            return False
        if self._doubted == _DOUBTS:
            return False
        self._doubted += 1
        batches.failure, batches.contradicts = None, False
        return not len(batches.table)

    def goes_on(self, batches: _Batches) -> bool:
        """Whether there is more behind these: they are neither the last ones nor followed by a fault."""
        if not len(batches.table) or batches.failure is not None:
            return False
        self.epoch, self.ahead = int(batches.table[-1, kernels.EPOCH]), batches.reached
        self._forgotten, self._may_be_another = -1, False
        return self.ahead < self.end

    def widen(self) -> None:
        """Ask again for twice as many bytes, since not even one batch came whole.

        Raises:
            Unsupported: they are too many.
        """
        self.max_bytes *= 2
        if self.max_bytes > _MAX_FETCH:
            raise Unsupported(f"a batch at offset {self.position} is larger than {_MAX_FETCH >> 20} MiB")


class _Reading:
    """The Fetches, one in flight at a time."""

    def __init__(
        self,
        client: ReplicaClient,
        broker: int,
        isolation: IsolationLevel,
        max_bytes: int,
        deadline_ms: float,
        pace: Pacing | None,
    ) -> None:
        self._client = client
        self._pace = pace
        self._broker = broker
        self._isolation = isolation
        self._max_bytes = max_bytes
        self._deadline_ms = deadline_ms
        self._asked: list[_Log] = []
        self._pending: PendingFetch | None = None
        self._failure: ReplicaError | None = None
        self._muted_ms = 0

    def ask(self, logs: Iterable[_Log]) -> None:
        """Send a Fetch for logs, as many as one asks for; a failure comes out in :meth:`answer`."""
        self.forget()
        self._asked = list(islice(logs, _MOST))
        if not self._asked:
            return
        if self._pace is not None:
            self._pace.wait()
        wanted = [FetchPosition(*log.place, log.ahead, log.max_bytes, log.epoch, log.topic_id) for log in self._asked]
        largest = max(self._max_bytes, *(log.max_bytes for log in self._asked))
        patience = self._deadline_ms + self._muted_ms
        try:
            self._pending = self._client.begin_fetch(
                self._broker, wanted, isolation=self._isolation, max_bytes=largest, timeout_ms=patience
            )
        except ReplicaError as error:
            self._failure = error

    def answer(self, into: ReceiveBuffer) -> list[tuple[_Log, FetchedPartition]]:
        """Wait for the Fetch in flight, and as long as the broker's quota asks for: what is said of each log.

        Raises:
            Throttled: a quota has asked for too much, and given nothing meanwhile.
            ReplicaError: the broker has failed.
        """
        waited_ms = 0
        while True:
            try:
                answers = self._received(into)
                break
            except Throttled as told:
                waited_ms += told.wait_ms
                if waited_ms > _MOST_THROTTLED_MS:
                    raise
                time.sleep(told.wait_ms / 1000)
                self.ask(self._asked)
        if self._pace is not None:
            self._pace.received(sum(len(answer.records) for answer in answers))
        return list(zip(self._asked, answers, strict=True))

    def _received(self, into: ReceiveBuffer) -> list[FetchedPartition]:
        if self._failure is not None:
            raise self._failure
        if self._pending is None:
            raise ReplicaError("no Fetch is in flight")
        pending, self._pending = self._pending, None
        answers = pending.result(self._deadline_ms + self._muted_ms, into)
        self._muted_ms = pending.throttle_ms
        return answers

    def forget(self) -> None:
        """Give up the Fetch in flight."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None


class _Decoder:
    """Makes rows of the batches of an answer."""

    def __init__(self, isolation: IsolationLevel, hasher: ContentHasher, payload: Payload, inflater: Inflater) -> None:
        self._isolation = isolation
        self._hasher = hasher
        self._payload = payload
        self._inflater = inflater

    def events(self, found: Sequence[tuple[_Log, _Batches]]) -> Iterator[Shown | Failed]:
        """Decode them: the small ones in one pass, the others one after the other."""
        small = [one for one in found if one[1].is_plain(self._isolation)]
        together = self._together(small) if len(small) > 1 else None
        done: set[int] = set()
        if together is not None:
            yield from together
            done = {log.index for log, _ in small}
        over = [(log.index, batches) for log, batches in found if batches.is_nothing]
        if over:
            marks = [(index, batches.mark(batches.shown_to(self._isolation))) for index, batches in over]
            yield Shown(no_columns(self._payload, 0), np.empty(0, np.int8), np.empty(0, np.int64), marks)
            done |= {index for index, _ in over}
        for log, batches in found:
            if log.index not in done:
                yield from self._alone(log, batches)

    def _alone(self, log: _Log, batches: _Batches) -> Iterator[Shown | Failed]:
        try:
            for chunk in batches.chunks(self._isolation, self._hasher, self._payload, self._inflater):
                yield replace(chunk, marks=[(log.index, chunk.marks[0][1])])
        except ReplicaError as error:
            yield log.failed(error)

    def _together(self, small: Sequence[tuple[_Log, _Batches]]) -> list[Shown] | None:
        """Decode the batches of several logs as if they were one; None if one of them is broken."""
        parts = [batches.answer.records for _, batches in small]
        table = np.concatenate([batches.table for _, batches in small])
        counts = [len(batches.table) for _, batches in small]
        begins = np.cumsum([0, *(len(part) for part in parts[:-1])])
        table[:, [kernels.AT, kernels.BODY, kernels.END]] += np.repeat(begins, counts)[:, None]
        of = np.repeat(np.array([log.index for log, _ in small], np.int64), counts)
        low, high = (
            np.repeat(np.array([getattr(b, name) for _, b in small], np.int64), counts) for name in ("position", "end")
        )
        whole = b"".join(parts)
        slices = decode_slices(whole, hasher=self._hasher, payload=self._payload, inflater=self._inflater, table=table)
        try:
            made = [self._rows(columns, of, low, high) for columns in slices]
        except ReplicaError:
            return None  # Which one, and what lies in front of it, shows when each is decoded alone.
        marks = [(log.index, batches.mark()) for log, batches in small]
        return [*made[:-1], replace(made[-1], marks=marks)]

    def _rows(self, columns: Columns, of: Int64, low: Int64, high: Int64) -> Shown:
        """A slice with which log each row is of, without rows beyond what is read."""
        counts = columns.batches[:, kernels.ROWS]
        n = len(counts)
        outcome = outcomes(columns, no_aborted(), self._isolation)
        of, low, high = (np.repeat(values[:n], counts) for values in (of, low, high))
        inside = (columns.offset >= low) & (columns.offset < high)
        if not inside.all():
            columns, outcome, of = columns.only(inside), outcome[inside], of[inside]
        return Shown(columns, outcome, of, [])


class _Batches:
    """The batches of an answer.

    Attributes:
        answer: of the broker.
        position: from where on they were asked for.
        end: where reading stops.
        table: the headers of the whole ones, in front of the first that is broken.
        failure: what is wrong with that one; None if nothing is.
        reached: next offset to read behind those of the table.
        cut_short: whether the answer holds a part of a batch only.
        contradicts: the failure is that the answer contradicts itself.
    """

    contradicts = False

    def __init__(self, answer: FetchedPartition, position: int, end: int) -> None:
        self.answer = answer
        self.end = end
        self.position = position
        self.table, self.failure = batch_table(answer.records)
        self._check_offsets()
        self.cut_short = bool(len(answer.records)) and not len(self.table) and self.failure is None
        self.reached = position
        if len(self.table):
            self.reached = min(int(self.table[-1, kernels.LAST]) + 1, end)
            if self.reached <= position:
                problem = f"the broker's answer ends at offset {self.reached}, below what was asked for: {position}"
                raise CorruptBatch(problem)

    def _check_offsets(self) -> None:
        """Refuse a batch whose offsets the answer itself contradicts: the CRC covers neither base offset nor length.

        A gap is nothing unusual, but a batch that lies beyond the answer's high watermark cannot stand for what was
        asked for. A batch within the range ends below the high watermark, which is always at a batch's border.
        """
        answer, end = self.answer, self.end
        base, last = self.table[:, kernels.BASE], self.table[:, kernels.LAST]
        before = np.concatenate(([self.position], last[:-1] + 1))
        beyond = np.where(base < end, last >= answer.high_watermark, base > answer.high_watermark)
        beyond |= (base >= _MOST_OFFSET) | (last < base)
        wrong = np.flatnonzero(beyond & (before < end))
        if len(wrong):
            offset = int(base[wrong[0]])
            self.table, self.contradicts = self.table[: wrong[0]], True
            self.failure = CorruptBatch(
                f"batch at offset {offset}: its offsets contradict the answer's high watermark "
                f"{answer.high_watermark}, or no log reaches them; it was garbled on the way, or look at this "
                "replica's log segment",
                base_offset=offset,
            )

    @property
    def is_nothing(self) -> bool:
        """Whether the log has no more to show up to the end, or up to what it shows at present."""
        return not len(self.table) and self.failure is None and not len(self.answer.aborted)

    def shown_to(self, isolation: IsolationLevel) -> int:
        """Where the log has been read to, where there is no batch."""
        answer = self.answer
        shown = answer.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else answer.high_watermark
        return max(self.position, min(shown, self.end))

    def is_plain(self, isolation: IsolationLevel) -> bool:
        """Whether they are few, and their outcomes follow from the batches alone."""
        if not len(self.table) or self.failure is not None or len(self.answer.aborted):
            return False
        if len(self.answer.records) > _SMALL:
            return False
        if isolation is not IsolationLevel.READ_COMMITTED:
            return True
        emptied = (self.table[:, kernels.ATTRIBUTES] & kernels.IS_CONTROL != 0) & (self.table[:, kernels.COUNT] == 0)
        return not emptied.any()

    def mark(self, position: int | None = None, epoch: int | None = None) -> Mark:
        """Where the log has been read to, with these or with some of them."""
        answer = self.answer
        if epoch is None:
            epoch = int(self.table[-1, kernels.EPOCH]) if len(self.table) else -1
        place = self.reached if position is None else position
        return Mark(place, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset, epoch)

    def chunks(
        self, isolation: IsolationLevel, hasher: ContentHasher, payload: Payload, inflater: Inflater
    ) -> Iterator[Shown]:
        """Decode them; the marks' index is 0.

        Raises:
            ReplicaError: one is broken; those in front of it have been yielded.
        """
        answer, start, end = self.answer, self.position, self.end
        slices = decode_slices(
            answer.records, hasher=hasher, payload=payload, start=start, end=end, inflater=inflater, table=self.table
        )
        for columns in slices:
            reached = min(columns.next_offset, end)
            if reached <= start:
                continue  # a part of a large batch that was read before
            yield self._chunk(columns, (start, reached), isolation)
            start = reached
            if reached == end:
                return
        if self.failure is not None:
            raise self.failure
        if not len(self.table):
            yield self._chunk(no_columns(payload, start), (start, self.shown_to(isolation)), isolation)

    def _chunk(self, columns: Columns, span: tuple[int, int], isolation: IsolationLevel) -> Shown:
        answer, table = self.answer, columns.batches
        outcome = outcomes(columns, answer.aborted, isolation)
        if len(answer.aborted):
            columns, outcome = with_listed(columns, outcome, answer.aborted, *span)
        if isolation is IsolationLevel.READ_COMMITTED:
            columns, outcome = with_emptied(columns, outcome, *span)
        epoch = int(table[-1, kernels.EPOCH]) if len(table) else -1
        return Shown(columns, outcome, None, [(0, self.mark(span[1], epoch))])


__all__ = ["Buffers", "Chunk", "Failed", "Mark", "Shown", "Span", "read_range", "read_ranges"]
