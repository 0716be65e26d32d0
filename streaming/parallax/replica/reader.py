"""A range of one replica's log, read as a consumer of one isolation level, chunk by chunk.

While a chunk is decoded, the broker already works on the next Fetch: the request goes out as soon as the batch headers
of the last answer say where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from parallax.model import IsolationLevel
from parallax.replica import kernels
from parallax.replica.client import FetchedPartition, FetchPosition, PendingFetch, ReplicaClient
from parallax.replica.connection import ReceiveBuffer
from parallax.replica.decode import Columns, ContentHasher, Payload, batch_table, decode_slices, no_columns
from parallax.replica.errors import CorruptBatch, LogTruncated, OffsetOutOfRange, ReplicaError, Throttled, Unsupported
from parallax.replica.inflate import Inflater
from parallax.replica.listed import with_emptied, with_listed
from parallax.replica.outcomes import Int8, outcomes

_MAX_FETCH = 1 << 29

_MOST_THROTTLED_MS = 60_000
"""How long a quota may have a reader wait between two answers; brokers ask for the length of their windows at most."""


@dataclass(frozen=True)
class Chunk:
    """Rows of one Fetch response: all of them, or a slice of those that are many.

    Attributes:
        columns: records and markers; as read_committed, aborted transactions without their first record and end
            markers that were emptied as well (`parallax.replica.listed`).
        outcome: int8[n] of Outcome, what this replica's consumers make of each row.
        position: next offset to read; everything below it that this replica shows in the range is in this chunk or
            in an earlier one.
        high_watermark: the replica's own, when it answered.
        last_stable_offset: the replica's own.
        log_start_offset: the replica's own.
        epoch: leader epoch of the last batch in the chunk; -1 where there was none.
    """

    columns: Columns
    outcome: Int8
    position: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    epoch: int = -1


class Pacing(Protocol):
    """Holds the Fetches of a reader back, so that it reads no more in a second than it may."""

    def wait(self) -> None:
        """Called before each Fetch: returns once it may be sent."""

    def received(self, size: int) -> None:
        """Called with the bytes of records in each answer."""


@dataclass
class Buffers:
    """Memory for one reader at a time, for range after range. It goes back to its usual size at the end of each."""

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
) -> Iterator[Chunk]:
    """Read what one replica shows in [start, end).

    What stands in front of a corrupt batch is still yielded, before the error is raised. A response that inflates to
    much comes as several chunks (`parallax.replica.decode.decode_slices`), some of which may end within a batch.

    Ends when the position has reached ``end``: by a batch there, or because the replica has nothing more below its high
    watermark (last stable offset in read_committed), as in a compacted tail. If that watermark is below ``end``,
    reading ends there, and the last chunk's position is below ``end``: the replica does not show the rest at present.

    Args:
        client: connections to the cluster.
        broker: whose replica to read.
        topic: topic to read.
        partition: partition to read.
        start: first offset.
        end: offset to stop before.
        isolation: which consumer to be.
        hasher: identity of keys and contents.
        payload: which bytes to copy out beside the hashes.
        max_bytes: of one Fetch; a batch that is larger comes whole.
        deadline_ms: for each Fetch, from when it is waited for.
        buffers: memory to use; its own by default.
        after_epoch: leader epoch of the last batch that was read below ``start``; -1 where that is not known. From then
            on each Fetch asks the replica as well whether its log still holds what was read (`LogTruncated`).
        pace: holds the Fetches back; as fast as it goes by default.

    Yields:
        Chunks, in offset order; also empty ones, where only the position has moved.

    Raises:
        ReplicaError: the broker failed or its data are corrupt. The chunks before it stand: the position of the last
            one (``start`` where there is none) is where to go on.
    """
    reader = _Range(client, broker, topic, partition, end, isolation, max_bytes, deadline_ms, pace)
    reader.epoch = after_epoch
    buffers = buffers or Buffers()
    try:
        reader.ask(start)
        position = start
        while position < end:
            try:
                answer = reader.answer(buffers.receive)
            except Throttled as told:
                reader.wait_out(told, position)
                continue
            if reader.checked(answer, position):
                continue
            batches = _Batches(answer, position, end)
            if batches.cut_short:
                reader.widen(position)
                continue
            reader.go_on(batches)
            for chunk in batches.chunks(isolation, hasher, payload, buffers.inflater):
                position = chunk.position
                yield chunk
            if not len(batches.table):
                return
    except ReplicaError as error:
        raise error.at(broker=broker, topic=topic, partition=partition) from error.__cause__
    finally:
        reader.forget()
        buffers.receive.shrink()


class _Range:
    """The Fetches of one range, one in flight at a time."""

    def __init__(
        self,
        client: ReplicaClient,
        broker: int,
        topic: str,
        partition: int,
        end: int,
        isolation: IsolationLevel,
        max_bytes: int,
        deadline_ms: float,
        pace: Pacing | None,
    ) -> None:
        self._client = client
        self._pace = pace
        self._broker = broker
        self._place = topic, partition
        self._max_bytes = max_bytes
        self._deadline_ms = deadline_ms
        self._pending: PendingFetch | None = None
        self._failure: ReplicaError | None = None
        self._forgotten = -1
        self._muted_ms = 0
        self._waited_ms = 0
        self.end = end
        self.isolation = isolation
        self.epoch = -1
        """Leader epoch of the last batch below the position, if it is known."""

    def ask(self, position: int) -> None:
        """Send the Fetch from ``position`` on, unless the range ends there; a failure comes out in :meth:`answer`."""
        self.forget()
        if position >= self.end:
            return
        if self._pace is not None:
            self._pace.wait()
        wanted = [FetchPosition(*self._place, position, self._max_bytes, self.epoch)]
        patience = self._deadline_ms + self._muted_ms
        try:
            self._pending = self._client.begin_fetch(
                self._broker, wanted, isolation=self.isolation, max_bytes=self._max_bytes, timeout_ms=patience
            )
        except ReplicaError as error:
            self._failure = error

    def answer(self, into: ReceiveBuffer) -> FetchedPartition:
        """Wait for the Fetch in flight."""
        if self._failure is not None:
            raise self._failure
        if self._pending is None:
            raise ReplicaError("no Fetch is in flight")
        pending, self._pending = self._pending, None
        (answer,) = pending.result(self._deadline_ms + self._muted_ms, into)
        self._muted_ms, self._waited_ms = pending.throttle_ms, 0
        if answer.error is not None and not (isinstance(answer.error, OffsetOutOfRange) and self.epoch >= 0):
            raise answer.error
        if self._pace is not None:
            self._pace.received(len(answer.records))
        return answer

    def wait_out(self, told: Throttled, position: int) -> None:
        """Wait as long as the broker's quota asks for, and send the Fetch again.

        Raises:
            Throttled: it has asked for too much, and given nothing meanwhile.
        """
        self._waited_ms += told.wait_ms
        if self._waited_ms > _MOST_THROTTLED_MS:
            raise told
        time.sleep(told.wait_ms / 1000)
        self.ask(position)

    def checked(self, answer: FetchedPartition, position: int) -> bool:
        """Whether the answer was about epochs and the Fetch has been sent again without one.

        A log may not know an epoch that was read and still hold all of it: a copy of a log whose records of that epoch
        had been cleaned. It is truncated only if a higher epoch begins below the position.

        Raises:
            LogTruncated: the log was truncated below the position.
        """
        epoch = self.epoch
        if answer.error is not None:
            # Out of range of the log, or the log knows neither this epoch nor a higher one: the next answer shows
            # which.
            self._forgotten, self.epoch = epoch, -1
            self.ask(position)
            return True
        if self._forgotten >= 0:
            problem = f"the log does not know leader epoch {self._forgotten} any more, in which it was read"
            raise LogTruncated(problem, end=min(position, answer.high_watermark), known=False)
        if answer.diverging is None:
            return False
        _, end = answer.diverging
        if end < position:
            problem = f"the log of leader epoch {epoch} ends at offset {end}, it was read up to {position}"
            raise LogTruncated(problem, end=end)
        self.epoch = -1
        self.ask(position)
        return True

    def go_on(self, batches: _Batches) -> None:
        """Send the next Fetch, if these batches are neither the last ones nor followed by a fault."""
        if len(batches.table) and batches.failure is None:
            self.epoch = int(batches.table[-1, kernels.EPOCH])
            self.ask(batches.reached)

    def widen(self, position: int) -> None:
        """Ask again for twice as many bytes, since not even one batch came whole."""
        self._max_bytes *= 2
        if self._max_bytes > _MAX_FETCH:
            raise Unsupported(f"a batch at offset {position} is larger than {_MAX_FETCH >> 20} MiB")
        self.ask(position)

    def forget(self) -> None:
        """Give up the Fetch in flight."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None


class _Batches:
    """The batches of an answer.

    Attributes:
        position: from where on they were asked for.
        table: the headers of the whole ones, in front of the first that is broken.
        failure: what is wrong with that one; None where nothing is.
        reached: next offset to read behind those of the table.
        cut_short: whether the answer holds a part of a batch only.
    """

    def __init__(self, answer: FetchedPartition, position: int, end: int) -> None:
        self._answer = answer
        self._end = end
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
        answer, end = self._answer, self._end
        base, last = self.table[:, kernels.BASE], self.table[:, kernels.LAST]
        before = np.concatenate(([self.position], last[:-1] + 1))
        beyond = np.where(base < end, last >= answer.high_watermark, base > answer.high_watermark)
        wrong = np.flatnonzero(beyond & (before < end))
        if len(wrong):
            offset = int(base[wrong[0]])
            self.table = self.table[: wrong[0]]
            self.failure = CorruptBatch(
                f"batch at offset {offset}: its offsets contradict the answer's high watermark "
                f"{answer.high_watermark}; it was garbled on the way, or look at this replica's log segment",
                base_offset=offset,
            )

    def chunks(
        self, isolation: IsolationLevel, hasher: ContentHasher, payload: Payload, inflater: Inflater
    ) -> Iterator[Chunk]:
        """Decode them.

        Raises:
            ReplicaError: one is broken; those in front of it have been yielded.
        """
        answer, start, end = self._answer, self.position, self._end
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
            shown = answer.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else answer.high_watermark
            self.reached = max(start, min(shown, end))
            yield self._chunk(no_columns(payload, start), (start, self.reached), isolation)

    def _chunk(self, columns: Columns, span: tuple[int, int], isolation: IsolationLevel) -> Chunk:
        answer, table = self._answer, columns.batches
        outcome = outcomes(columns, answer.aborted, isolation)
        if len(answer.aborted):
            columns, outcome = with_listed(columns, outcome, answer.aborted, *span)
        if isolation is IsolationLevel.READ_COMMITTED:
            columns, outcome = with_emptied(columns, outcome, *span)
        return Chunk(
            columns=columns,
            outcome=outcome,
            position=span[1],
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable_offset,
            log_start_offset=answer.log_start_offset,
            epoch=int(table[-1, kernels.EPOCH]) if len(table) else -1,
        )


__all__ = ["Buffers", "Chunk", "read_range"]
