"""What one Spark task of ``kafka-replica`` does: it reads offsets of one broker's logs, and reports how far it came.

If reading fails in the middle of a range, the range ends early. A position row (`parallax.source.columns.Position`)
says why, and the next micro-batch goes on from there. Without a sink to take that row, the Spark task fails instead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from parallax.model import IsolationLevel, ReadEvent
from parallax.moments import now_ms
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
from parallax.replica.reader import Buffers, Failed, Shown, Span, read_ranges
from parallax.source.columns import ROWS, Position, Readers, position_batch, record_batches
from parallax.source.offsets import Reader
from parallax.source.options import ReplicaOptions
from parallax.source.pace import Meter, Pace, TokenBucket
from parallax.source.planning import Piece
from parallax.source.sharing import Levels, Shared, shared
from parallax.source.standing import Progress
from parallax.source.unreadable import end_of_unreadable

_PIECE_TIMEOUTS = 20
"""A piece ends early after this many request timeouts. So a slow broker does not delay the batch for long."""


_BEYOND, _BEYOND_IN_ALL = 1_000, 100_000
"""How many offsets beyond its end a range may be read, at least: each range, and all that are read together.

They came with the last answer, and were written between the plan and the Fetch. On a busy machine these are many.
"""

_HELD_BACK_S = 60
"""How many seconds longer a read may take if its bytes are limited."""


@lru_cache(maxsize=8)
def _client(kafka: tuple[tuple[str, str], ...], timeout_ms: int) -> ReplicaClient:
    # Spark reuses its Python workers: connections outlive the task.
    return ReplicaClient(dict(kafka), timeout_ms=timeout_ms)


@lru_cache(maxsize=1)
def _buffers() -> Buffers:
    return Buffers()


def read_pieces(options: ReplicaOptions, pieces: Sequence[Piece]) -> Iterator[Any]:
    """Read the pieces of one Spark task, several logs at the same time, as record batches.

    The last batches hold position rows (`parallax.source.columns.Position`): how far each piece was read.

    Args:
        options: how to read, and what of each record to keep.
        pieces: the offsets to read (`parallax.source.planning.Piece`), all of one broker.

    Yields:
        ``pyarrow.RecordBatch`` of the source's schema.

    Raises:
        ReplicaError: reading failed, and by the options no position row may report it (``feedback``,
            ``tells_failures``).
    """
    client = _client(tuple(sorted(options.kafka.items())), options.timeout_ms)
    pace = _pace(options, pieces[0].reader.broker)
    begun = [_event_row(piece) if piece.span.fresh else None for piece in pieces]
    broken: Unreachable | None = None
    read = [Progress.of(piece) for piece in pieces]
    left = [progress for progress in read if progress.is_wanted]
    if options.shared and (logs := shared(left)):
        broken = yield from _read_shared(client, options, logs, pace)
        over = [progress for log in logs for progress in log.over]
        for _ in over:
            pace.finished()
        left = [progress for progress in left if not any(progress is one for one in over)]
    for wave in _waves(left):
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
    yield from _position_rows(options, begun, read)


def _position_rows(
    options: ReplicaOptions, begun: Sequence[Position | None], read: Sequence[Progress]
) -> Iterator[Any]:
    """The position rows with which ranges begin and end, by isolation level."""
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


def _waves(read: Iterable[Progress]) -> list[list[Progress]]:
    """Pieces that can be read at the same time: of one isolation level, and no partition twice."""
    waves: dict[tuple[int, int], list[Progress]] = {}
    seen: Counter[Reader] = Counter()
    for progress in read:
        reader = progress.piece.reader
        waves.setdefault((reader.isolation, seen[reader]), []).append(progress)
        seen[reader] += 1
    return [waves[key] for key in sorted(waves)]


def _failure_of_the_broker(wave: Sequence[Progress]) -> Unreachable | None:
    """The error of the broker, if the failure is not of a single partition; None otherwise."""
    errors = [progress.error for progress in wave]
    return next((e for e in errors if isinstance(e, Unreachable) and e.partition is None), None)


def _read(client: ReplicaClient, options: ReplicaOptions, wave: Sequence[Progress], pace: Pace) -> Iterator[Any]:
    """Read the pieces of a wave; the error of each is kept in its `Progress`, if a position row will report it."""
    readers = [progress.piece.reader for progress in wave]
    named = Readers(readers)
    spans = _spans(options, [(progress, progress.piece.span.end) for progress in wave])
    give_up_at = _give_up_at(options)
    for event in _events(client, options, readers[0].broker, spans, IsolationLevel(readers[0].isolation), pace):
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
            for progress in wave:
                _give_up(progress, _shown(progress))
            break
    if not _tells(options):
        _refuse_short(wave)


def _spans(options: ReplicaOptions, read: Sequence[tuple[Progress, int]]) -> list[Span]:
    """The offsets to fetch for each piece, and up to which offset rows beyond its end are kept.

    With a sink, such rows are kept if they came with the last answer, because they would be sent again. A micro-batch
    stays bounded: they are at most as many offsets as were planned, or as `_BEYOND` if that is more.
    """
    beyond = max(_BEYOND, _BEYOND_IN_ALL // len(read))
    spans = []
    for progress, end in read:
        reader, planned, start = progress.piece.reader, progress.piece.span, progress.position
        most = -1 if options.feedback is None else end + max(end - start, beyond)
        log = planned.topic_id, planned.may_be_another
        spans.append(Span(reader.topic, reader.partition, start, end, progress.epoch, most, *log))
    return spans


def _read_shared(
    client: ReplicaClient, options: ReplicaOptions, logs: Sequence[Shared], pace: Pace
) -> Generator[Any, None, Unreachable | None]:
    """Read logs for both isolation levels; an error is kept with read_committed, if it is being read.

    Then read_uncommitted gets a Fetch of its own: a broker that cannot list aborted transactions can still send
    records.

    Returns:
        The error of the broker, if the failure is not of a single partition; None otherwise.
    """
    levels = Levels(logs)
    give_up_at = _give_up_at(options)
    broker = logs[0].behind.piece.reader.broker
    broken: Unreachable | None = None
    for event in _events(
        client,
        options,
        broker,
        _spans(options, [(log.behind, log.end) for log in logs]),
        IsolationLevel.READ_COMMITTED,
        pace,
    ):
        if isinstance(event, Failed):
            broken = _take_in_shared(client, options, logs[event.index], event.error) or broken
            continue
        for index, mark in event.marks:
            pace.passed(sum(mark.position - progress.position for progress in logs[index].served))
        for rows, named in levels.take(event):
            yield from record_batches(rows, named, with_isolation=options.with_isolation)
        if not len(event.columns) and _tells(options):
            _doubt(client, [progress for index, _ in event.marks for progress in logs[index].served])
        if options.feedback is not None and time.monotonic() > give_up_at:
            for progress, end in [(progress, log.end) for log in logs for progress in log.served]:
                _give_up(progress, min(_shown(progress), end))
            break
    return broken


def _take_in_shared(
    client: ReplicaClient, options: ReplicaOptions, log: Shared, error: ReplicaError
) -> Unreachable | None:
    """Keep the error of one log; return it if it is the broker's."""
    committed = log.of_level(IsolationLevel.READ_COMMITTED)
    if any(committed is progress for progress in log.served):
        _take_in_error(client, options, committed, error)
    return error if isinstance(error, Unreachable) and error.partition is None else None


def _events(
    client: ReplicaClient,
    options: ReplicaOptions,
    broker: int,
    spans: Sequence[Span],
    isolation: IsolationLevel,
    pace: Pace,
) -> Iterator[Shown | Failed]:
    return read_ranges(
        client,
        broker,
        spans,
        isolation=isolation,
        hasher=ContentHasher(options.hash_key),
        payload=Payload(options.payload),
        max_bytes=_fetch_bytes(options),
        deadline_ms=options.timeout_ms,
        buffers=_buffers(),
        pace=pace,
    )


def _give_up_at(options: ReplicaOptions) -> float:
    patience_s = options.timeout_ms * _PIECE_TIMEOUTS / 1000
    return time.monotonic() + patience_s + (0 if options.max_bytes_per_second is None else _HELD_BACK_S)


def _doubt(client: ReplicaClient, passed: Sequence[Progress]) -> None:
    """Note which offsets were passed without a record because tiered storage alone still holds them.

    A broker that may not, or cannot, read from there now answers without records and without an error
    (``RemoteLogManager``'s quota; ``remote.fetch.max.wait.ms``). So its answer says nothing of these offsets.
    """
    moved = [progress for progress in passed if progress.position > progress.came_from]
    if not moved:
        return
    places = list(dict.fromkeys(progress.piece.reader.place for progress in moved))
    try:
        starts = client.local_log_starts(passed[0].piece.reader.broker, places)
    except ReplicaError:
        return  # It knows no tiered storage; or it has failed, which the next plan meets.
    for progress in moved:
        start = starts[progress.piece.reader.place]
        if not isinstance(start, ReplicaError) and start > progress.came_from:
            progress.pass_over(progress.came_from, start, in_tiered_storage=True)


def _give_up(progress: Progress, shown: int) -> None:
    """Note that the piece is read too slowly, unless its reading has ended for another reason."""
    reader = progress.piece.reader
    is_read = progress.mark is not None and progress.position >= min(progress.piece.span.end, shown)
    if not progress.has_ended and not is_read:
        progress.error = DeadlineExceeded("it answers too slowly", broker=reader.broker)


def _shown(progress: Progress) -> int:
    """The offset up to which the replica has said that it shows its log."""
    if progress.mark is None:
        return progress.piece.span.end
    committed = progress.piece.reader.isolation == IsolationLevel.READ_COMMITTED
    return progress.mark.last_stable_offset if committed else progress.mark.high_watermark


def _refuse_short(wave: Sequence[Progress]) -> None:
    """Raise an error if a replica shows less of its log than it said."""
    for progress in wave:
        reader, end = progress.piece.reader, progress.piece.span.end
        if progress.position < end:
            problem = f"shows offsets below {progress.position} only, a moment ago below {end}; read again"
            raise Unreachable(problem, broker=reader.broker, topic=reader.topic, partition=reader.partition)


def _take_in_error(client: ReplicaClient, options: ReplicaOptions, progress: Progress, error: ReplicaError) -> None:
    """Pass over the offsets that cannot be read of one piece; if they cannot be passed over, keep the error.

    Offsets are passed over if the replica's own log no longer holds them: retention has deleted them, or they have
    moved to tiered storage. Fetch below version 14 is answered "out of range" in both cases. So is a batch that no
    replica can show.

    Raises:
        ReplicaError: the error, if no position row will report it.
    """
    if not _tells(options):
        raise error
    reader, position = progress.piece.reader, progress.position
    if isinstance(error, MovedToTieredStorage | OffsetOutOfRange):
        start = _local_log_start(client, reader)
        if start > position:
            progress.pass_over(position, start, in_tiered_storage=isinstance(error, MovedToTieredStorage))
            return
    topic_id = progress.piece.span.topic_id
    end = end_of_unreadable(client, reader, position, error, timeout_ms=options.timeout_ms, topic_id=topic_id)
    if end is not None:
        progress.skipped = f"no replica can be read at offsets {position} to {end - 1}: {error}"
        progress.move(end)
        return
    progress.error, progress.at_ms = error, now_ms()


def _local_log_start(client: ReplicaClient, reader: Reader) -> int:
    """The first offset that the replica's own log holds; -1 if the replica does not say."""
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
    """Whether position rows report that a range has ended early, so that an error is not raised."""
    return options.feedback is not None or options.tells_failures


def _pace(options: ReplicaOptions, broker: int) -> Pace:
    rate = options.max_bytes_per_second
    bucket = TokenBucket(rate) if rate is not None else None
    return Pace(bucket, Meter(options.meter, broker) if options.meter is not None else None)


def _fetch_bytes(options: ReplicaOptions) -> int:
    """Size of a Fetch response: at most half a second's share of the limit."""
    rate = options.max_bytes_per_second
    return options.fetch_bytes if rate is None else max(1024, min(options.fetch_bytes, rate // 2))


def _event_row(piece: Piece) -> Position:
    span = piece.span
    return Position(piece.reader, span.start, now_ms(), span.state, span.detail, span.topic_id, epoch=piece.epoch)


def _end_row(progress: Progress) -> Position:
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
    position = progress.position
    if isinstance(error, LogTruncated):
        position = min(position, error.end)
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
        progress.epoch,
    )
