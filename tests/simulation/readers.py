"""The readers of a simulated partition: what a consumer of each replica gets, as rows of the views and of progress."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from parallax.compare.observations import topic_id_code
from parallax.model import Outcome, ReadEvent, RowKind, TopicPartition
from parallax.source.offsets import Range, Reader
from parallax.source.planning import LogState, Piece, aligned, next_range, stopped
from parallax.source.repeats import Repeats
from tests.simulation import wire
from tests.simulation.cluster import Cluster
from tests.simulation.content import content_hash, key_halves, key_size, value_size
from tests.simulation.expected import Shown, Taken
from tests.simulation.records import Aborted, Batch, End, Record
from tests.simulation.replica import Replica
from tests.ticks import tick_of

RU, RC, PROGRESS = 0, 1, 2
TOPIC, PARTITION, TOPIC_ID = "t", 0, "1"

Row = dict[str, Any]


@dataclass
class Readers:
    """Six readers and a progress reader over one partition."""

    cluster: Cluster
    _: KW_ONLY
    seed: int = 0
    positions: dict[tuple[int, int], int] = field(default_factory=dict)
    queues: dict[tuple[int, int], deque[Row]] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)
    late: bool = False
    """The readers begin at the end of the log, each at its own time."""
    deletes: bool = False
    """The cleanup policy deletes as well, so that log starts may move."""
    wired: bool = False
    """What a replica holds goes over the wire as bytes, through the product's reader and decoder."""
    shared: bool = False
    """One Fetch serves both isolation levels; now and then one level is read alone all the same, as after a failure."""
    reads_decoded: int = 0
    listed_alone: int = 0
    """Transactions that an aborted list named, and no record."""
    eventful: bool = False
    """Replicas come, go, or lose what they had."""

    def __post_init__(self) -> None:
        self.draw = random.Random(f"wire {self.seed}")
        self.draw_levels = random.Random(f"levels {self.seed}")
        self.ranges: dict[Reader, Range] = {}
        self.recorded: dict[tuple[int, tuple[int, int]], list[int]] = {}
        """Offsets that the read_committed view has recorded, by broker and key, in the order of reading."""
        self.events_read: list[tuple[int, int, str, int]] = []
        """Its position rows: broker, offset, event, leader epoch."""
        if not (self.late or self.eventful):
            # They began when the log did.
            readers = [Reader(v, b, TOPIC, PARTITION) for v in (RU, RC) for b in self.cluster.replicas]
            self.ranges = dict.fromkeys(readers, Range(0, 0, TOPIC_ID))
            self.events_read = [(b, 0, str(ReadEvent.PARTITION_ADDED), -1) for b in self.cluster.replicas]
        self.epochs: dict[Reader, int] = {}
        self.taken_back: set[Reader] = set()
        """Readers that were shown a truncated log, and have read nothing of the log that took its place."""
        self.given_up: dict[int, int] = {}
        # One that the partition was taken from may get it back.
        brokers = (*self.cluster.replicas, *self.cluster.away)
        self.positions = {(v, b): 0 for v in (RU, RC) for b in brokers}
        self.queues = {(v, b): deque() for v in (RU, RC, PROGRESS) for b in brokers}
        self.repeats = Repeats()
        self.ticked: dict[tuple[int, int], Row] = {}

    def give(self, view: int, broker: int, rows: list[Row]) -> None:
        """Hand over rows that were read of a broker, in order, to whatever compares them."""
        self.queues[view, broker] += rows

    def read(self, view: int, broker: int, limit: int = 1_000) -> bool:
        """What a micro-batch reads of one replica, at most ``limit`` offsets; False where there is nothing to read."""
        if self.shared and self.draw_levels.random() < 0.8:
            return self._read_both(broker, limit)
        planned = self._plan(view, broker)
        if planned is None:
            return False
        reader, replica, span = planned
        follows = self._tell(reader, span)
        return self._range(reader, replica, replace(span, end=min(span.end, span.start + limit)), follows)

    def _read_both(self, broker: int, limit: int) -> bool:
        """What a micro-batch reads of one replica in both levels, by one Fetch as far as that can be."""
        planned = [one for view in (RU, RC) if (one := self._plan(view, broker)) is not None]
        if not planned:
            return False
        whole = {reader: span for reader, _, span in planned}
        cut = {r: replace(s, end=max(s.start, min(s.end, s.start + limit))) for r, s in whole.items()}
        spans, replica = aligned(whole, cut), planned[0][1]
        follows = {reader: self._tell(reader, span) for reader, span in whole.items()}
        wanted = [Piece(r, replace(spans[r], fresh=False), epoch=follows[r]) for r in whole]
        wanted = [piece for piece in wanted if piece.span.start < piece.span.end]
        done: dict[int, wire.Done] = {}
        if self.wired and wanted:
            done = wire.read_pieces(wire.Broker(replica, self.draw, self.seed), wanted)
        has_read = False
        for piece in wanted:
            has_read |= self._range(piece.reader, replica, piece.span, piece.epoch, done.get(piece.reader.isolation))
        return has_read

    def _plan(self, view: int, broker: int) -> tuple[Reader, Replica, Range] | None:
        """What a reader would read, and of which replica; None where there is nothing to read."""
        reader = Reader(view, broker, TOPIC, PARTITION)
        previous = self.ranges.get(reader)
        replica = self.cluster.replicas.get(broker)
        if replica is None:
            if previous is not None:
                self._tell(reader, stopped(previous, ReadEvent.NOT_HOSTED, "no longer a replica"))
            return None
        if not replica.up:
            return None
        log = LogState(replica.hw, replica.lso, replica.log_start, replica.leo)
        span = next_range(reader, previous, None, log, TOPIC_ID, "latest" if self.late else "earliest")
        assert span is not None
        return reader, replica, span

    def begun(self) -> dict[tuple[int, int], int]:
        """Where the readers stand that have ever read, by view and broker."""
        readers = {(reader.isolation, reader.broker) for reader in self.ranges}
        return {reader: position for reader, position in self.positions.items() if reader in readers}

    def _tell(self, reader: Reader, span: Range) -> int:
        """Tell of what the plan says; returns the leader epoch that the range follows on, -1 where none is known."""
        self.ranges[reader] = Range(span.start, span.start, span.topic_id, span.state)
        if span.state is ReadEvent.LOG_TRUNCATED:
            self.taken_back.add(reader)
        before = self.positions[reader.isolation, reader.broker]
        self.positions[reader.isolation, reader.broker] = span.start
        if span.start != before and span.state is not ReadEvent.LOG_TRUNCATED:
            self.epochs.pop(reader, None)
        epoch = self.epochs.get(reader, -1)
        if not span.fresh:
            return epoch
        if span.state is ReadEvent.LOG_START_ADVANCED or (span.state is ReadEvent.PARTITION_ADDED and self.late):
            self.shown.skipped.add(reader.broker)
        # Where nothing happens to the replicas themselves, the histories do without the row that begins a reader.
        if span.state is not ReadEvent.PARTITION_ADDED or self.eventful:
            self._position(reader, span.start, span.state, epoch)
        return epoch if span.state is ReadEvent.OK else -1

    def _range(
        self,
        reader: Reader,
        replica: Replica,
        span: Range,
        follows: int,
        done: wire.Done | None = None,
    ) -> bool:
        """Read one range, unless the log turns out to have been truncated below it.

        ``done`` is what the product has made of it, where it has read it together with another one.
        """
        view = reader.isolation
        start, end = span.start, span.end
        if end <= start:
            return False
        cut = _cut_below(replica, start, follows, may_be_another=span.may_be_another)
        if self.wired:
            done = done or wire.read(
                wire.Broker(replica, self.draw, self.seed),
                view,
                start,
                end,
                follows,
                may_be_another=span.may_be_another,
            )
            assert done.cut == cut, f"a truncated log must be noticed, and no other: {done.cut}, not {cut}"
        if cut is not None:
            self._close(reader, replica, cut, ReadEvent.LOG_TRUNCATED, follows)
            return True
        if done is not None:
            # What came beyond the end with the last answer is taken.
            assert start < done.position <= (replica.hw if view == RU else replica.lso)
            end = done.position
        rows = [
            self._marker(view, replica, batch) if record is None else self._data(view, replica, batch, record)
            for batch, record in replica.held(start, end)
        ]
        if view == RC:
            shown, rows = len(rows), _with_listed(rows, replica, start, end)
            self.listed_alone += len(rows) - shown
            rows = _with_emptied(rows, replica, start, end)
        # The last answer holds the batch that lies around the end or beyond it, if there is one below the bound.
        bound = replica.hw if view == RU else replica.lso
        epoch = next((b.leader_epoch for b in replica.batches if b.last >= end - 1 and b.base < bound), -1)
        if self.wired:
            assert done is not None
            assert done.rows == rows, f"what is decoded must be what the replica holds: {done.rows}; it holds {rows}"
            assert done.position == end >= span.end, f"a range must be read to its end: {done.position} of {span}"
            self.reads_decoded += 1
            rows, epoch = done.rows, done.epoch
        self.give(view, replica.id, rows)
        self._close(reader, replica, end, ReadEvent.OK, epoch)
        return True

    def _close(self, reader: Reader, replica: Replica, offset: int, event: ReadEvent, epoch: int) -> None:
        """The row that ends a range."""
        self.ranges[reader] = Range(offset, offset, TOPIC_ID, event)
        if event is ReadEvent.LOG_TRUNCATED:
            self.taken_back.add(reader)
        else:
            self.taken_back.discard(reader)
        self.positions[reader.isolation, reader.broker] = offset
        self.epochs[reader] = epoch
        self._position(reader, offset, event, epoch, replica)

    def _marker(self, view: int, replica: Replica, batch: Batch) -> Row:
        is_commit = batch.marker is End.COMMIT
        self.shown.markers.setdefault(replica.id, set()).add((batch.producer_id, batch.base))
        return {
            **_head(view, replica, batch, batch.base),
            "kind": int(RowKind.COMMIT if is_commit else RowKind.ABORT),
            "outcome": int(Outcome.COMMITTED if is_commit else Outcome.ABORTED),
            "key_hash_hi": 0,
            "key_hash_lo": 0,
            "content_hash": 0,
            "key_size": -1,
            "value_size": -1,
        }

    def _data(self, view: int, replica: Replica, batch: Batch, record: Record) -> Row:
        outcome, end = Outcome.NONE, None
        if batch.transactional and view == RU:
            outcome = Outcome.UNDECIDED
            self.shown.transactional.setdefault(replica.id, set()).add((batch.producer_id, record.offset))
        elif batch.transactional:
            end = End.ABORT if replica.is_aborted(batch.producer_id, record.offset) else End.COMMIT
            outcome = Outcome.ABORTED if end is End.ABORT else Outcome.COMMITTED
            self.shown.outcomes.setdefault(replica.id, {})[record.offset] = end
        if view == RC and end is not End.ABORT:
            seen = self.shown.visible.setdefault(replica.id, {})
            seen.setdefault(record.key, []).append((record.offset, record.value))
        hi, lo = key_halves(record.key)
        if view == RC:
            self.recorded.setdefault((replica.id, (hi, lo)), []).append(record.offset)
        return {
            **_head(view, replica, batch, record.offset),
            "kind": int(RowKind.RECORD),
            "outcome": int(outcome),
            "key_hash_hi": hi,
            "key_hash_lo": lo,
            "content_hash": content_hash(record.value),
            "key_size": key_size(record.key),
            "value_size": value_size(record.value),
        }

    def _position(
        self, reader: Reader, offset: int, event: ReadEvent, epoch: int, replica: Replica | None = None
    ) -> None:
        """A position row; one that only tells an event names no watermarks."""
        if reader.isolation == RC:
            self.events_read.append((reader.broker, offset, str(event), epoch))
        row: Row = {
            "view": reader.isolation,
            "broker": reader.broker,
            "kind": int(RowKind.POSITION),
            "offset": offset,
            "timestamp": self.cluster.now,
            "leader_epoch": epoch,
            "event": str(event),
            "topic_id": topic_id_code(TOPIC_ID),
        }
        if replica is not None:
            row |= {
                "high_watermark": replica.hw,
                "last_stable_offset": replica.lso,
                "log_start_offset": replica.log_start,
            }
        self.give(reader.isolation, reader.broker, [row])

    def progress(self, broker: int) -> None:
        """What the progress reader is told of one broker, recorded whatever it is."""
        replica = self.cluster.replicas.get(broker)
        if replica is not None:
            self.give(PROGRESS, broker, [self._told(replica)])

    def tick(self, *, awaited: bool) -> None:
        """One tick of the progress reader: what only repeats the one before is held back, unless it is awaited."""
        rows = {(r.id, self.cluster.now): self._told(r) for r in self.cluster.replicas.values()}
        self.ticked |= rows
        asked = ("leader", "replicas", "high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset")
        known = dict.fromkeys((*asked, "open_transactions"))
        worth = self.repeats.without(
            tick_of(
                [
                    {
                        "topic": TOPIC,
                        "partition": PARTITION,
                        **known,
                        **row,
                        "observed_at": row["observed_at"] * 1000,
                        "delete_retention_ms": self.cluster.limits.delete_retention,
                    }
                    for row in rows.values()
                ]
            ),
            [TopicPartition(TOPIC, PARTITION)] if awaited else (),
        )
        for row in worth:
            self.give(PROGRESS, row["broker"], [self.ticked[row["broker"], row["observed_at"] // 1000]])

    def _told(self, replica: Replica) -> Row:
        broker = replica.id
        row: Row = {"broker": broker, "observed_at": self.cluster.now, "reachable": replica.up}
        if replica.up:
            row |= {
                "high_watermark": replica.hw,
                "last_stable_offset": replica.lso,
                "log_start_offset": replica.log_start,
                "log_end_offset": replica.leo,
                "leader": self.cluster.leader,
                "replicas": tuple(self.cluster.replicas),
                "retention_ms": self.cluster.limits.delete_retention,
                "deletes": int(self.deletes),
                "open_transactions": [(pid, first) for pid, (_, first) in replica.open_transactions().items()],
            }
        return row

    def forget(self, *brokers: int) -> None:
        """Nothing is promised of what lies below where these replicas have been read to: their logs are others now."""
        read_to = [position for (_, broker), position in self.positions.items() if broker in brokers]
        self.shown.known_from = max(self.shown.known_from, *read_to)

    def give_up(self, broker: int) -> None:
        """The log of a replica was given up as a whole; what it had shown does not count any more."""
        self.forget(broker)
        self.given_up[broker] = self.positions[RU, broker]
        self.shown.taken = [t for t in self.shown.taken if t.broker != broker]

    def lose_sight(self, broker: int, start: int) -> None:
        """The log of a replica was truncated at an offset: what had been read of it beyond is to be reported."""
        self.forget(broker)
        reader = Reader(RU, broker, TOPIC, PARTITION)
        read_to, epoch = self.positions[RU, broker], self.epochs.get(reader, -1)
        if self.given_up.get(broker) == read_to or reader in self.taken_back:
            return  # What had been read is of a log that was given up or truncated before.
        unread = [t for t in self.shown.taken if t.broker == broker and t.read_to == read_to]
        self.shown.taken = [t for t in self.shown.taken if t not in unread]
        start = min([start, *(t.start for t in unread)])
        if read_to > start and epoch >= 0:
            self.shown.taken.append(Taken(broker, start, read_to, epoch))


def _with_listed(rows: list[Row], replica: Replica, start: int, end: int) -> list[Row]:
    """The rows, and what the aborted list of the replica tells beside: transactions without a record at their start."""
    held = {row["offset"] for row in rows}
    listed = [a for a in replica.aborted if start <= a.first < end and a.first not in held]
    return sorted([*rows, *(_listed(replica, a) for a in listed)], key=lambda row: row["offset"]) if listed else rows


def _with_emptied(rows: list[Row], replica: Replica, start: int, end: int) -> list[Row]:
    """The rows, and the end markers that the cleaner has emptied."""
    left = [b for b in replica.batches if b.control and b.marker is None and start <= b.last < end]
    emptied = [_nameless(replica, b.last, b.producer_id, RowKind.EMPTIED, Outcome.UNDECIDED) for b in left]
    return sorted([*rows, *emptied], key=lambda row: row["offset"]) if emptied else rows


def _listed(replica: Replica, entry: Aborted) -> Row:
    return _nameless(replica, entry.first, entry.producer_id, RowKind.LISTED, Outcome.ABORTED)


def _nameless(replica: Replica, offset: int, producer_id: int, kind: RowKind, outcome: Outcome) -> Row:
    """What a replica tells of a transaction without a record."""
    blank = dict.fromkeys(("timestamp", "key_hash_hi", "key_hash_lo", "content_hash"), 0)
    unknown = dict.fromkeys(("leader_epoch", "producer_epoch", "key_size", "value_size"), -1)
    return {
        "view": RC,
        "broker": replica.id,
        "offset": offset,
        "producer_id": producer_id,
        "kind": int(kind),
        "outcome": int(outcome),
        **blank,
        **unknown,
    }


def _cut_below(replica: Replica, position: int, epoch: int, *, may_be_another: bool) -> int | None:
    """Where reading goes on in a log that was read up to a position in a leader epoch; None: at the position.

    A broker names the largest epoch of its log up to the one that was read, and where that ends
    (``LeaderEpochFileCache.endOffsetFor``). The log is the one that was read where it knows that epoch, and holds it up
    to the position; where it begins with a newer one it says nothing of what lies below. Otherwise it ends where the
    answer says; or it is another log, and nobody is told from where on: that is said once.
    """
    if epoch < 0:
        return None
    found = replica.epoch_end(epoch)
    if found is not None and found[1] < position:
        return found[1]
    is_another = found is None or found[0] < epoch
    return min(position, replica.hw) if is_another and not may_be_another else None


def _head(view: int, replica: Replica, batch: Batch, offset: int) -> Row:
    return {
        "view": view,
        "broker": replica.id,
        "offset": offset,
        "timestamp": batch.timestamp,
        "leader_epoch": batch.leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
    }
