"""What one Spark task of ``kafka-replica`` does: reads its pieces of one replica's logs, and says where it got to.

A failure in the middle of a piece either ends it early, with a position row that says why (the sink then says
where the source goes on), or fails the task where nothing takes that row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from parallax.model import IsolationLevel, ReadEvent
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import (
    DeadlineExceeded,
    LogTruncated,
    MovedToTieredStorage,
    OffsetOutOfRange,
    ReplicaError,
    Unreachable,
)
from parallax.replica.reader import Buffers, read_range
from parallax.source.columns import ROWS, Position, position_batch, record_batches
from parallax.source.offsets import Reader
from parallax.source.options import ReplicaOptions
from parallax.source.pace import Meter, Pace, TokenBucket
from parallax.source.planning import Piece
from parallax.source.unreadable import end_of_unreadable

_PIECE_TIMEOUTS = 20
"""A piece is ended early after this many request timeouts, so that a slow broker does not hold the batch for long."""


@lru_cache(maxsize=8)
def _client(kafka: tuple[tuple[str, str], ...], timeout_ms: int) -> ReplicaClient:
    # Spark reuses its Python workers: connections outlive the task.
    return ReplicaClient(dict(kafka), timeout_ms=timeout_ms)


@lru_cache(maxsize=1)
def _buffers() -> Buffers:
    return Buffers()


@dataclass
class _Progress:
    """How far a piece has been read, and what the replica said when."""

    position: int
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    epoch: int = -1
    passed_over: str = ""
    skipped: str = ""


def read_pieces(options: ReplicaOptions, pieces: Sequence[Piece]) -> Iterator[Any]:
    """Read pieces one after the other; position rows come last.

    Args:
        options: how to read.
        pieces: all of one broker.

    Yields:
        ``pyarrow.RecordBatch`` of the source's schema.

    Raises:
        ReplicaError: something failed, and there is no feedback file to go on from.
    """
    client = _client(tuple(sorted(options.kafka.items())), options.timeout_ms)
    positions: list[Position] = []
    pace = _pace(options, pieces[0].reader.broker)
    broken: Unreachable | None = None
    for piece in pieces:
        if piece.span.fresh:
            positions.append(_event_row(piece))
        progress = _Progress(piece.span.start, epoch=piece.follows_epoch)
        error: ReplicaError | None = broken  # a broker that fails one piece is not asked for the others
        if error is None and piece.span.start < piece.span.end:
            try:
                yield from _read_local(client, options, piece, progress, pace)
            except ReplicaError as problem:
                if not _tells(options):
                    raise
                error = _behind_unreadable(client, options, piece, progress, problem)
                # Without its place: the others' rows must not name this partition.
                broken = (
                    Unreachable(problem.problem, broker=problem.broker) if isinstance(problem, Unreachable) else None
                )
        pace.finished()
        if piece.last and piece.span.start < piece.span.end:
            positions.append(_end_row(piece, progress, error))
    pace.close()
    for isolation in sorted({position.reader.isolation for position in positions}):
        mine = [position for position in positions if position.reader.isolation == isolation]
        for start in range(0, len(mine), ROWS):
            yield position_batch(mine[start : start + ROWS], with_isolation=options.with_isolation)


def _read_local(
    client: ReplicaClient, options: ReplicaOptions, piece: Piece, progress: _Progress, pace: Pace
) -> Iterator[Any]:
    """As `_read`; passes over what has left the replica's own log meanwhile, and says so.

    Retention deletes it, or it moves to tiered storage; Fetch below version 14 is answered "out of range" in both
    cases.
    """
    try:
        yield from _read(client, options, piece, progress, pace)
    except (MovedToTieredStorage, OffsetOutOfRange) as error:
        start = _local_log_start(client, piece.reader) if _tells(options) else -1
        if start <= progress.position:
            raise
        where = " but in tiered storage" if isinstance(error, MovedToTieredStorage) else ""
        progress.passed_over = (
            f"offsets {progress.position} to {start - 1} are no longer in the replica's own log{where}"
        )
        progress.position, progress.epoch = start, -1


def _behind_unreadable(
    client: ReplicaClient, options: ReplicaOptions, piece: Piece, progress: _Progress, error: ReplicaError
) -> ReplicaError | None:
    """The error; or None, once the position is behind a batch that no replica can be read at."""
    end = end_of_unreadable(client, piece.reader, progress.position, error, timeout_ms=options.timeout_ms)
    if end is None:
        return error
    progress.skipped = f"no replica can be read at offsets {progress.position} to {end - 1}: {error}"
    progress.position, progress.epoch = end, -1
    return None


def _local_log_start(client: ReplicaClient, reader: Reader) -> int:
    """From where on the replica holds its log itself; -1 where it does not say."""
    try:
        start = client.local_log_starts(reader.broker, [reader.place])[reader.place]
    except ReplicaError:
        return -1
    return -1 if isinstance(start, ReplicaError) else start


def _tells(options: ReplicaOptions) -> bool:
    """Whether somebody learns from position rows that a range has ended early."""
    return options.feedback is not None or options.tells_failures


def _pace(options: ReplicaOptions, broker: int) -> Pace:
    rate = options.max_bytes_per_second
    bucket = TokenBucket(rate) if rate is not None else None
    return Pace(bucket, Meter(options.meter, broker) if options.meter is not None else None)


def _fetch_bytes(options: ReplicaOptions) -> int:
    """Size of a Fetch response: no more than half a second of what may be read."""
    rate = options.max_bytes_per_second
    return options.fetch_bytes if rate is None else max(1024, min(options.fetch_bytes, rate // 2))


def _read(
    client: ReplicaClient, options: ReplicaOptions, piece: Piece, progress: _Progress, pace: Pace
) -> Iterator[Any]:
    reader, span = piece.reader, piece.span
    chunks = read_range(
        client,
        reader.broker,
        reader.topic,
        reader.partition,
        span.start,
        span.end,
        isolation=IsolationLevel(reader.isolation),
        hasher=ContentHasher(options.hash_key),
        payload=Payload(options.payload),
        max_bytes=_fetch_bytes(options),
        deadline_ms=options.timeout_ms,
        buffers=_buffers(),
        after_epoch=piece.follows_epoch,
        pace=pace,
    )
    give_up_at = time.monotonic() + options.timeout_ms * _PIECE_TIMEOUTS / 1000
    for chunk in chunks:
        pace.passed(chunk.position - progress.position)
        yield from record_batches(chunk, reader, with_isolation=options.with_isolation)
        # What lies below a position that moved without a batch is of no epoch that is known.
        progress.epoch = chunk.epoch if chunk.position > progress.position else progress.epoch
        progress.position = chunk.position
        progress.high_watermark = chunk.high_watermark
        progress.last_stable_offset = chunk.last_stable_offset
        progress.log_start_offset = chunk.log_start_offset
        if options.feedback is not None and time.monotonic() > give_up_at and chunk.position < span.end:
            raise DeadlineExceeded("it answers too slowly", broker=reader.broker)
    if not _tells(options) and progress.position < span.end:
        problem = f"shows offsets below {progress.position} only, a moment ago below {span.end}; read again"
        raise Unreachable(problem, broker=reader.broker, topic=reader.topic, partition=reader.partition)


def _event_row(piece: Piece) -> Position:
    span = piece.span
    return Position(piece.reader, span.start, _now_ms(), span.state, span.detail, span.topic_id, epoch=piece.epoch)


def _end_row(piece: Piece, progress: _Progress, error: ReplicaError | None) -> Position:
    event, detail = ReadEvent.OK, ""
    if progress.passed_over:
        event, detail = ReadEvent.LOG_START_ADVANCED, progress.passed_over
    if progress.skipped:
        event, detail = ReadEvent.BATCH_SKIPPED, progress.skipped
    if error is not None:
        # OffsetOutOfRange has no event: the next plan sees what became of the log and reports that.
        event, detail = error.event or ReadEvent.UNREACHABLE, str(error)
    if event is ReadEvent.TOPIC_DELETED:
        event = ReadEvent.NOT_HOSTED  # One broker's word; the next plan asks the cluster.
    position, epoch = progress.position, progress.epoch
    if isinstance(error, LogTruncated):
        position, epoch = min(position, error.end), epoch if error.known else -1
    return Position(
        piece.reader,
        position,
        _now_ms(),
        event,
        detail,
        piece.span.topic_id,
        progress.high_watermark,
        progress.last_stable_offset,
        progress.log_start_offset,
        epoch,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
