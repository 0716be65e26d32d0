"""Decides which offsets each reader reads in a micro-batch, from recorded positions and the brokers' watermarks.

Pure functions: no broker is asked here. The result is kept in Spark's offset log (``parallax.source.offsets``), so a
micro-batch that is run again reads the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from parallax.model import IsolationLevel, ReadEvent, TopicPartition
from parallax.source.feedback import Recorded
from parallax.source.offsets import Range, Ranges, Reader

DEFAULT_BYTES_PER_OFFSET = 100.0
"""How many bytes one offset counts as until the log is sampled. It matters for the first micro-batch only."""

BYTES_PER_RECORD = 100.0
"""How many bytes a record counts as at least, even if compressed. Its row takes about as much memory."""

PIECE = 250_000
"""How many offsets a Spark task reads at least if a range is divided. A Spark task costs about 10 ms."""

LATER = frozenset({ReadEvent.CORRUPT_BATCH, ReadEvent.UNSUPPORTED, ReadEvent.UNAUTHORIZED})
"""Events that the reader would meet again in the next micro-batch. It is tried again after a pause."""


@dataclass(frozen=True, slots=True)
class LogState:
    """What one replica reported of its log for a plan; an offset is -1 if the replica did not report it.

    Attributes:
        high_watermark: the offset before which a read_uncommitted consumer has to stop.
        last_stable_offset: the offset before which a read_committed consumer has to stop.
        log_start_offset: the lowest offset that the replica shows.
        log_end_offset: the next offset that the replica will write.
        error: why the replica could not report, as an event; None if it did.
        detail: the error's text. Without an error: which offsets are only in tiered storage; empty if none are.
        topic_id: the topic id in the request; empty where none was known.
    """

    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    error: ReadEvent | None = None
    detail: str = ""
    topic_id: str = ""

    def bound(self, isolation: int) -> int:
        """The offset before which a reader of this isolation level stops, as consumers of that level do."""
        if isolation == IsolationLevel.READ_COMMITTED:
            return min(self.last_stable_offset, self.high_watermark)
        return self.high_watermark


def next_range(
    reader: Reader,
    previous: Range | None,
    recorded: Recorded | None,
    log: LogState,
    topic_id: str,
    starting: str = "earliest",
) -> Range | None:
    """The offsets that a reader reads next, now that its replica has answered.

    Args:
        reader: the reader.
        previous: its range in the micro-batch before; None if it had none.
        recorded: its position in the tables, which counts more than ``previous``; None if there is none.
        log: what its replica reported.
        topic_id: the topic's present id.
        starting: where the reader begins if it has never read: ``earliest`` or ``latest``.

    Returns:
        The range; None if the reader has never read and there is nothing to report about it.
    """
    position, known_id, state = _known(previous, recorded)
    if log.error is not None:
        if position is None:
            return None
        return stopped(Range(position, position, known_id, state), log.error, log.detail)
    bound = log.bound(reader.isolation)
    if position is None:
        start = log.log_start_offset if starting == "earliest" else max(bound, log.log_start_offset)
        detail = f"reading begins at offset {start}" + (f"; {log.detail}" if log.detail else "")
        return _reported(start, bound, topic_id, ReadEvent.PARTITION_ADDED, detail)
    if known_id and topic_id and known_id != topic_id:
        detail = f"topic id {known_id} became {topic_id}; reading starts again at offset {log.log_start_offset}"
        return _reported(log.log_start_offset, bound, topic_id, ReadEvent.TOPIC_RECREATED, detail)
    if position < log.log_start_offset:
        detail = f"offsets {position} to {log.log_start_offset - 1} were never shown"
        return _reported(log.log_start_offset, bound, topic_id, ReadEvent.LOG_START_ADVANCED, detail)
    if position > log.log_end_offset:
        detail = f"the log ends at offset {log.log_end_offset}, it was read up to {position}"
        return _reported(log.log_end_offset, bound, topic_id, ReadEvent.LOG_TRUNCATED, detail)
    recovered = state in STANDING
    detail = f"readable again after {state.value}" if recovered else ""
    # What was said of a log that may be another stands until something is read of it.
    goes_on = state if state is ReadEvent.LOG_TRUNCATED else ReadEvent.OK
    return Range(position, max(position, bound), topic_id or known_id, goes_on, recovered, detail)


STANDING = frozenset({ReadEvent.TOPIC_DELETED, ReadEvent.NOT_HOSTED, *LATER})
"""States of a reader that last until its replica can be read again."""


def _known(previous: Range | None, recorded: Recorded | None) -> tuple[int | None, str, ReadEvent]:
    """Position, topic id and state of a reader, as far as they are known."""
    if recorded is None:
        return (None, "", ReadEvent.OK) if previous is None else (previous.end, previous.topic_id, previous.state)
    # Events of planning (deleted, not hosted) are in the offset; those of reading are reported by the sink.
    return recorded.position, recorded.topic_id or (previous.topic_id if previous else ""), recorded.event


def _reported(start: int, bound: int, topic_id: str, event: ReadEvent, detail: str) -> Range:
    return Range(start, max(start, bound), topic_id, event, fresh=True, detail=detail)


def stopped(settled: Range, event: ReadEvent, detail: str) -> Range:
    """The empty range of a reader that cannot go on; it carries the event that says why.

    If the reader's last event was the same, the range does not report it again.

    Args:
        settled: an empty range at the reader's position, with the reader's last event.
        event: why the reader cannot go on.
        detail: the reason in words.
    """
    if settled.state is event:
        return settled
    return replace(settled, state=event, fresh=True, detail=detail)


def settled(previous: Range | None, recorded: Recorded | None) -> Range | None:
    """The empty range of a reader whose replica has not answered: the reader stays at its position.

    Args:
        previous: its range in the micro-batch before; None if it had none.
        recorded: its position in the tables, which counts more than ``previous``; None if there is none.

    Returns:
        The range, which starts and ends at the position; None if the reader has never read.
    """
    position, topic_id, state = _known(previous, recorded)
    return None if position is None else Range(position, position, topic_id, state)


def clip(reader: Reader, span: Range, recorded: Mapping[Reader, Recorded]) -> Range:
    """The planned range of a reader, without offsets that were recorded after the plan was made.

    There are such offsets only if another query has written into the same tables in between. A range that goes back to
    lower offsets is returned as it is: the log was truncated, or the range belongs to a new topic id.

    Args:
        reader: the reader.
        span: its planned range.
        recorded: the position of each reader that the tables hold.
    """
    known = recorded.get(reader)
    if known is None or known.position <= span.start or _goes_back(span):
        return span
    if known.topic_id and span.topic_id and known.topic_id != span.topic_id:
        return span
    return Range(known.position, max(known.position, span.end), span.topic_id, span.state)


def _goes_back(span: Range) -> bool:
    """Whether the plan found that the log was truncated: the range begins below the recorded position."""
    return span.fresh and span.state is ReadEvent.LOG_TRUNCATED


def known_epochs(ranges: Ranges, recorded: Mapping[Reader, Recorded]) -> dict[Reader, int]:
    """The leader epoch of the last batch below each range, by reader, as far as it is known.

    A Fetch carries this epoch, so the broker notices if its log no longer holds that batch. Readers whose range does
    not begin at their recorded position are left out. The exception is a truncated log: its reader has the epoch of the
    lost batch.

    Args:
        ranges: the ranges to read.
        recorded: the position of each reader that the tables hold, with the leader epoch below it.
    """
    return {
        reader: entry.epoch
        for reader, span in ranges.items()
        if (entry := recorded.get(reader)) is not None and (span.start == entry.position or _goes_back(span))
    }


def admit(ranges: Ranges, bytes_per_offset: Mapping[Reader, float], max_bytes: int | None) -> dict[Reader, Range]:
    """Shorten ranges, so that no broker has to send more than ``max_bytes`` at one isolation level.

    The readers of one broker and isolation level share the bytes evenly. What one of them does not need, the others
    get. Each may read at least one offset, even if that exceeds its share.

    Args:
        ranges: the planned ranges.
        bytes_per_offset: by reader, how many bytes one offset counts as: its compressed bytes, or `BYTES_PER_RECORD`
            for each record if that is more. `DEFAULT_BYTES_PER_OFFSET` for readers that are missing.
        max_bytes: the limit; None for none.

    Returns:
        The range of each reader, also of those whose range is not shortened.
    """
    admitted = dict(ranges)
    if max_bytes is None:
        return admitted
    for group in _by_consumer(ranges).values():
        cost = {reader: bytes_per_offset.get(reader, DEFAULT_BYTES_PER_OFFSET) for reader in group}
        wanted = {reader: (ranges[reader].end - ranges[reader].start) * cost[reader] for reader in group}
        left, rest = float(max_bytes), len(group)
        for reader in sorted(group, key=lambda reader: (wanted[reader], reader)):
            share = left / rest
            span = ranges[reader]
            if wanted[reader] > share:
                offsets = max(1, int(share / cost[reader]))
                admitted[reader] = replace(span, end=min(span.end, span.start + offsets))
            left -= min(wanted[reader], share)
            rest -= 1
    return admitted


def aligned(ranges: Ranges, admitted: Ranges) -> dict[Reader, Range]:
    """Let both isolation levels of a log be read up to the same offset, after `admit` has shortened their ranges.

    Otherwise one level would be ahead from then on, and the broker would send the offsets between the two twice. Only
    ranges that one Fetch can serve are changed.

    Args:
        ranges: the ranges before `admit`.
        admitted: the ranges after `admit`.

    Returns:
        The range of each reader, also of those whose range is not changed.
    """
    even = dict(admitted)
    for uncommitted, committed in _levels(admitted):
        one, other = admitted[uncommitted], admitted[committed]
        if max(one.start, other.start) < min(one.end, other.end):
            even[committed] = replace(other, end=min(one.end, other.end))
            if other.end < ranges[committed].end:
                even[uncommitted] = replace(one, end=even[committed].end)
    return even


def _levels(readers: Iterable[Reader]) -> list[tuple[Reader, Reader]]:
    """The readers of logs that are read in both isolation levels: read_uncommitted, read_committed."""
    known = set(readers)
    pairs = ((reader, reader._replace(isolation=int(IsolationLevel.READ_COMMITTED))) for reader in known)
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    return [pair for pair in pairs if pair[0].isolation == uncommitted and pair[1] in known]


def _by_consumer(ranges: Iterable[Reader]) -> dict[tuple[int, int], list[Reader]]:
    groups: dict[tuple[int, int], list[Reader]] = {}
    for reader in ranges:
        groups.setdefault((reader.isolation, reader.broker), []).append(reader)
    return groups


@dataclass(frozen=True, slots=True)
class Piece:
    """What one Spark task reads of one reader: all of its range in a micro-batch, or some consecutive offsets of it.

    Attributes:
        reader: the reader.
        span: the offsets that the Spark task reads. If several share a range, the first piece carries the event to
            report.
        last: whether the piece ends at the range's end; the Spark task then reports how far it has read (`Position`).
        epoch: leader epoch of the last batch that the tables hold of the reader; -1 where it is not known.
    """

    reader: Reader
    span: Range
    last: bool = True
    epoch: int = -1

    @property
    def follows_epoch(self) -> int:
        """Leader epoch of the last batch below the piece; -1 if it is not known.

        It is not known if the reader goes on elsewhere than where that batch ends, e.g. at a new log start.
        """
        return -1 if self.span.fresh and self.span.state is not ReadEvent.OK else self.epoch


def broker_tasks(ranges: Ranges, epochs: Mapping[Reader, int] | None = None) -> list[list[Piece]]:
    """Divide ranges into one Spark task for each broker, so that the Spark task can limit the broker's bytes.

    Args:
        ranges: the range of each reader; empty ranges are left out.
        epochs: by reader, the leader epoch of its last recorded batch, as far as it is known.

    Returns:
        For each Spark task its pieces, sorted by topic, partition and isolation level. The tasks are in the order of
        the brokers' ids.
    """
    by_broker: dict[int, list[Piece]] = {}
    for reader in sorted(ranges, key=lambda reader: (reader.broker, reader.topic, reader.partition, reader.isolation)):
        if not ranges[reader].empty:
            by_broker.setdefault(reader.broker, []).append(
                Piece(reader, ranges[reader], epoch=(epochs or {}).get(reader, -1))
            )
    return list(by_broker.values())


def tasks(
    ranges: Ranges,
    *,
    parallelism: int,
    split: bool,
    epochs: Mapping[Reader, int] | None = None,
    shared: bool = False,
) -> list[list[Piece]]:
    """Divide ranges into Spark tasks, each for one broker and one isolation level.

    A Spark task costs about 10 ms even if it is small, so small ranges share one. If ``split`` is set, several Spark
    tasks may share a large range. Do not set it if reading may stop in the middle of a range: a reader has one position
    only, so rows from behind a gap could not be recorded.

    Args:
        ranges: the range of each reader; empty ranges are left out.
        parallelism: how many Spark tasks there are for one isolation level and broker, at most.
        split: whether several Spark tasks may share a range.
        epochs: by reader, the leader epoch of its last recorded batch, as far as it is known.
        shared: whether one Fetch serves both isolation levels. Then a Spark task is for both, and no range is split.

    Returns:
        For each Spark task, the pieces that it reads.
    """
    known = epochs or {}
    work = {reader: span for reader, span in ranges.items() if not span.empty}
    if shared:
        return _shared_tasks(work, parallelism, known)
    planned: list[list[Piece]] = []
    for consumer in _by_consumer(work).values():
        total = sum(work[reader].end - work[reader].start for reader in consumer)
        count = max(1, min(parallelism, total // PIECE))
        size = -(-total // count) if split else total
        pieces = [
            piece
            for reader in sorted(consumer)
            for piece in _cut(reader, work[reader], max(size, 1), known.get(reader, -1))
        ]
        planned += [[piece for (piece,) in mine] for mine in _spread([(piece,) for piece in pieces], count)]
    return planned


def _shared_tasks(work: Ranges, parallelism: int, epochs: Mapping[Reader, int]) -> list[list[Piece]]:
    logs: dict[int, dict[TopicPartition, list[Piece]]] = {}
    for reader in sorted(work):
        piece = Piece(reader, work[reader], epoch=epochs.get(reader, -1))
        logs.setdefault(reader.broker, {}).setdefault(reader.place, []).append(piece)
    planned: list[list[Piece]] = []
    for mine in logs.values():
        total = sum(_offsets(pieces) for pieces in mine.values())
        count = max(1, min(parallelism, total // PIECE))
        planned += [[piece for pieces in task for piece in pieces] for task in _spread(list(mine.values()), count)]
    return planned


def _offsets(pieces: Iterable[Piece]) -> int:
    """How many offsets of one log some pieces read: those of the longest, since levels share them."""
    return max(piece.span.end - piece.span.start for piece in pieces)


def _cut(reader: Reader, span: Range, size: int, epoch: int) -> list[Piece]:
    edges = [*range(span.start + size, span.end, size), span.end]
    pieces, start = [], span.start
    for edge in edges:
        first = start == span.start
        part = Range(start, edge, span.topic_id, span.state, span.fresh and first, span.detail if first else "")
        pieces.append(Piece(reader, part, last=edge == span.end, epoch=epoch if first else -1))
        start = edge
    return pieces


def _spread(logs: Sequence[Sequence[Piece]], count: int) -> list[list[Sequence[Piece]]]:
    """Give the largest log to the task that has the least to do."""
    bins: list[list[Sequence[Piece]]] = [[] for _ in range(max(1, min(count, len(logs))))]
    load = [0] * len(bins)
    for pieces in sorted(logs, key=_offsets, reverse=True):
        least = load.index(min(load))
        bins[least].append(pieces)
        load[least] += _offsets(pieces)
    return bins
