"""What one Spark task of ``kafka-replica`` does: reads its pieces of one broker's logs, and says where it got to.

A failure in the middle of a piece either ends it early, with a position row that says why (the sink then says
where the source goes on), or fails the task where nothing takes that row.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from parallax.model import IsolationLevel, ReadEvent
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import (
    BrokerTooOld,
    DeadlineExceeded,
    LogTruncated,
    MovedToTieredStorage,
    OffsetOutOfRange,
    ReplicaError,
    Unreachable,
)
from parallax.replica.reader import Buffers, Failed, Mark, Span, read_ranges
from parallax.source.columns import ROWS, Position, Readers, position_batch, record_batches
from parallax.source.offsets import Reader
from parallax.source.options import ReplicaOptions
from parallax.source.pace import Meter, Pace, TokenBucket
from parallax.source.planning import Piece
from parallax.source.unreadable import end_of_unreadable

_PIECE_TIMEOUTS = 20
"""A piece is ended early after this many request timeouts, so that a slow broker does not hold the batch for long."""


_HELD_BACK_S = 60
"""How much longer a read may take whose bytes are limited."""


@lru_cache(maxsize=8)
def _client(kafka: tuple[tuple[str, str], ...], timeout_ms: int) -> ReplicaClient:
    # Spark reuses its Python workers: connections outlive the task.
    return ReplicaClient(dict(kafka), timeout_ms=timeout_ms)


@lru_cache(maxsize=1)
def _buffers() -> Buffers:
    return Buffers()


@dataclass
class _Progress:
    """How far a piece has been read, what the replica said when, and why it ended early."""

    piece: Piece
    position: int
    at_ms: int
    came_from: int = -1
    mark: Mark | None = None
    epoch: int = -1
    passed_over: str = ""
    skipped: str = ""
    error: ReplicaError | None = None

    @classmethod
    def of(cls, piece: Piece) -> Self:
        return cls(piece, piece.span.start, _now_ms(), epoch=piece.follows_epoch)

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to read."""
        return self.piece.span.start < self.piece.span.end

    def reached(self, mark: Mark) -> None:
        self.came_from = self.position
        # What lies below a position that moved without a batch is of no epoch that is known.
        self.epoch = mark.epoch if mark.position > self.position else self.epoch
        self.position, self.mark, self.at_ms = mark.position, mark, _now_ms()

    def pass_over(self, position: int, start: int, *, in_tiered_storage: bool) -> None:
        where = " but in tiered storage" if in_tiered_storage else ""
        self.passed_over = f"offsets {position} to {start - 1} are no longer in the replica's own log{where}"
        self.move(start)

    def move(self, position: int) -> None:
        """Go on from an offset, whatever lies below."""
        self.position, self.epoch, self.at_ms = position, -1, _now_ms()


def read_pieces(options: ReplicaOptions, pieces: Sequence[Piece]) -> Iterator[Any]:
    """Read pieces, those of different partitions at the same time; position rows come last.

    Args:
        options: how to read.
        pieces: all of one broker.

    Yields:
        ``pyarrow.RecordBatch`` of the source's schema.

    Raises:
        ReplicaError: something failed, and there is no feedback file to go on from.
    """
    client = _client(tuple(sorted(options.kafka.items())), options.timeout_ms)
    pace = _pace(options, pieces[0].reader.broker)
    begun = [_event_row(piece) if piece.span.fresh else None for piece in pieces]
    broken: Unreachable | None = None
    read = [_Progress.of(piece) for piece in pieces]
    for wave in _waves(progress for progress in read if progress.is_wanted):
        if broken is None:
            yield from _read(client, options, wave, pace)
            broken = _failure_of_the_broker(wave)
        else:
            for progress in wave:
                progress.error = broken  # a broker that has failed is not asked for the others
        for _ in wave:
            pace.finished()
    pace.wait()  # What was read last is paid for as well: the next task knows nothing of it.
    pace.close()
    positions: list[Position] = []
    for event, progress in zip(begun, read, strict=True):
        if event is not None:
            positions.append(event)
        if progress.piece.last and progress.is_wanted:
            positions.append(_end_row(progress))
    for isolation in sorted({position.reader.isolation for position in positions}):
        mine = [position for position in positions if position.reader.isolation == isolation]
        for start in range(0, len(mine), ROWS):
            yield position_batch(mine[start : start + ROWS], with_isolation=options.with_isolation)


def _waves(read: Iterable[_Progress]) -> list[list[_Progress]]:
    """Pieces that can be read at the same time: of one isolation level, and no partition twice."""
    waves: dict[tuple[int, int], list[_Progress]] = {}
    seen: Counter[Reader] = Counter()
    for progress in read:
        reader = progress.piece.reader
        waves.setdefault((reader.isolation, seen[reader]), []).append(progress)
        seen[reader] += 1
    return [waves[key] for key in sorted(waves)]


def _failure_of_the_broker(wave: Sequence[_Progress]) -> Unreachable | None:
    """What is wrong with the broker, where it is not with one partition of it alone."""
    errors = [progress.error for progress in wave]
    return next((e for e in errors if isinstance(e, Unreachable) and e.partition is None), None)


def _read(client: ReplicaClient, options: ReplicaOptions, wave: Sequence[_Progress], pace: Pace) -> Iterator[Any]:
    """Read the pieces of a wave; an error is noted with each, where somebody learns from position rows."""
    readers = [progress.piece.reader for progress in wave]
    named = Readers(readers)
    events = read_ranges(
        client,
        readers[0].broker,
        [Span(p.piece.reader.topic, p.piece.reader.partition, p.position, p.piece.span.end, p.epoch) for p in wave],
        isolation=IsolationLevel(readers[0].isolation),
        hasher=ContentHasher(options.hash_key),
        payload=Payload(options.payload),
        max_bytes=_fetch_bytes(options),
        deadline_ms=options.timeout_ms,
        buffers=_buffers(),
        pace=pace,
    )
    patience_s = options.timeout_ms * _PIECE_TIMEOUTS / 1000
    give_up_at = time.monotonic() + patience_s + (0 if options.max_bytes_per_second is None else _HELD_BACK_S)
    for event in events:
        if isinstance(event, Failed):
            _take_in_error(client, options, wave[event.index], event.error)
            continue
        for index, mark in event.marks:
            pace.passed(mark.position - wave[index].position)
        yield from record_batches(event, named, with_isolation=options.with_isolation)
        for index, mark in event.marks:
            wave[index].reached(mark)
        if not len(event.columns) and _tells(options):
            _doubt(client, [wave[index] for index, _ in event.marks])
        if options.feedback is not None and time.monotonic() > give_up_at:
            _give_up(wave)
            break
    if not _tells(options):
        _refuse_short(wave)


def _doubt(client: ReplicaClient, passed: Sequence[_Progress]) -> None:
    """Take back what was passed without a record where it lies in tiered storage.

    A broker that may not, or cannot, read from there now answers without records and without an error
    (``RemoteLogManager``'s quota; ``remote.fetch.max.wait.ms``): that says nothing of what lies there, nor behind.
    """
    moved = {progress.piece.reader.place: progress for progress in passed if progress.position > progress.came_from}
    if not moved:
        return
    try:
        starts = client.local_log_starts(passed[0].piece.reader.broker, list(moved))
    except ReplicaError:
        return  # It knows no tiered storage; or it has failed, which the next plan meets.
    for place, start in starts.items():
        progress = moved[place]
        if not isinstance(start, ReplicaError) and start > progress.came_from:
            progress.pass_over(progress.came_from, start, in_tiered_storage=True)


def _give_up(wave: Sequence[_Progress]) -> None:
    for progress in wave:
        reader, mark = progress.piece.reader, progress.mark
        is_read = mark is not None and progress.position >= min(progress.piece.span.end, _shown(mark, reader))
        if progress.error is None and not is_read:
            progress.error = DeadlineExceeded("it answers too slowly", broker=reader.broker)


def _shown(mark: Mark, reader: Reader) -> int:
    committed = reader.isolation == IsolationLevel.READ_COMMITTED
    return mark.last_stable_offset if committed else mark.high_watermark


def _refuse_short(wave: Sequence[_Progress]) -> None:
    """Raise an error where a replica shows less than it said."""
    for progress in wave:
        reader, end = progress.piece.reader, progress.piece.span.end
        if progress.position < end:
            problem = f"shows offsets below {progress.position} only, a moment ago below {end}; read again"
            raise Unreachable(problem, broker=reader.broker, topic=reader.topic, partition=reader.partition)


def _take_in_error(client: ReplicaClient, options: ReplicaOptions, progress: _Progress, error: ReplicaError) -> None:
    """Pass over what cannot be read of one piece, and say so; or note why it ends here.

    What has left the replica's own log meanwhile is passed over: retention deletes it, or it moves to tiered storage.
    Fetch below version 14 is answered "out of range" in both cases. So is a batch that no replica can be read at.

    Raises:
        ReplicaError: the error, where nobody learns from position rows.
    """
    if not _tells(options):
        raise error
    reader, position = progress.piece.reader, progress.position
    if isinstance(error, MovedToTieredStorage | OffsetOutOfRange):
        start = _local_log_start(client, reader)
        if start > position:
            progress.pass_over(position, start, in_tiered_storage=isinstance(error, MovedToTieredStorage))
            return
    end = end_of_unreadable(client, reader, position, error, timeout_ms=options.timeout_ms)
    if end is not None:
        progress.skipped = f"no replica can be read at offsets {position} to {end - 1}: {error}"
        progress.move(end)
        return
    progress.error, progress.at_ms = error, _now_ms()


def _local_log_start(client: ReplicaClient, reader: Reader) -> int:
    """From where on the replica holds its log itself; -1 where it does not say."""
    try:
        start = client.local_log_starts(reader.broker, [reader.place])[reader.place]
    except BrokerTooOld:
        return _log_start(client, reader)  # It knows no tiered storage: the log's start is the replica's own.
    except ReplicaError:
        return -1
    return -1 if isinstance(start, ReplicaError) else start


def _log_start(client: ReplicaClient, reader: Reader) -> int:
    try:
        marks = client.watermarks(reader.broker, [reader.place])[reader.place]
    except ReplicaError:
        return -1
    return -1 if isinstance(marks, ReplicaError) else marks.log_start_offset


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


def _event_row(piece: Piece) -> Position:
    span = piece.span
    return Position(piece.reader, span.start, _now_ms(), span.state, span.detail, span.topic_id, epoch=piece.epoch)


def _end_row(progress: _Progress) -> Position:
    piece, error, mark = progress.piece, progress.error, progress.mark
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
        progress.at_ms,
        event,
        detail,
        piece.span.topic_id,
        None if mark is None else mark.high_watermark,
        None if mark is None else mark.last_stable_offset,
        None if mark is None else mark.log_start_offset,
        epoch,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
