"""One compacted partition and its replicas, as Kafka runs them: log, cleaner, producer state, high watermark.

Covers what decides which replica shows what: per-replica cleaning with delete horizons, the retention of empty batches,
legacy and version 2 transactions, producer expiry, high watermarks that trail by a fetch round, outages, leader moves
and trimmed logs. Offsets, times (ms) and producer ids are integers; keys and values are small integers.

Rules follow Kafka 4.2: ``Cleaner``, ``CleanedTransactionMetadata``, ``MemoryRecords.filterTo``, ``ProducerAppendInfo``,
``ProducerStateManager``, ``LogToClean``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum

NO_PRODUCER = -1
IDEMPOTENT = 500
"""The producer that numbers its batches outside of transactions."""


class End(IntEnum):
    """The type of an end marker; the numbers are Kafka's in a control record's key."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """A data record; ``value`` is None in a tombstone, ``key`` where there is none (no compacted topic takes that)."""

    offset: int
    key: int | None
    value: int | None


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch; ``control`` batches hold ``marker``, or nothing once the cleaner has emptied them."""

    base: int
    last: int
    timestamp: int
    leader_epoch: int
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    transactional: bool = False
    control: bool = False
    marker: End | None = None
    records: tuple[Record, ...] = ()
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class Aborted:
    """An entry of a replica's transaction index, and of the aborted list in its Fetch responses."""

    producer_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction as one replica has ended it."""

    producer_id: int
    first: int
    marker: int
    end: End


@dataclass(frozen=True, slots=True)
class Cut:
    """Offsets that a log gave up."""

    start: int
    end: int


@dataclass(slots=True)
class Producer:
    """A replica's state of one producer (``ProducerStateEntry``)."""

    epoch: int
    timestamp: int
    first: int | None = None
    last_data: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings of the topic and the brokers, in ms."""

    delete_retention: int
    producer_expiration: int
    segment: int = 100


class _Traversal:
    """What one pass over the batches knows of transactions (``CleanedTransactionMetadata``)."""

    def __init__(self, aborted: list[Aborted]) -> None:
        self._waiting = sorted(aborted, key=lambda a: a.first, reverse=True)
        self._aborted: dict[int, list] = {}
        self._committed: set[int] = set()
        self.kept: list[Aborted] = []

    def _advance(self, offset: int) -> None:
        while self._waiting and self._waiting[-1].first <= offset:
            entry = self._waiting.pop()
            self._aborted.setdefault(entry.producer_id, [entry, False])

    def data(self, batch: Batch) -> bool:
        """Whether the batch belongs to an aborted transaction, and may go."""
        self._advance(batch.last)
        if not batch.transactional:
            return False
        state = self._aborted.get(batch.producer_id)
        if state is None:
            self._committed.add(batch.producer_id)
            return False
        state[1] = True
        return True

    def control(self, batch: Batch) -> bool:
        """Whether no data of the transaction lies before its marker, so that the marker may go."""
        self._advance(batch.last)
        if batch.marker is None:
            return True
        if batch.marker is End.COMMIT:
            known = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not known
        state = self._aborted.pop(batch.producer_id, None)
        if state is not None and state[1]:
            self.kept.append(state[0])
            return False
        return True


@dataclass(slots=True)
class Replica:
    """The log of one broker and everything that the broker derives from it."""

    id: int
    limits: Limits
    batches: list[Batch] = field(default_factory=list)
    segments: list[int] = field(default_factory=lambda: [0])
    segment_time: int | None = None
    leo: int = 0
    hw: int = 0
    log_start: int = 0
    clean_to: int = 0
    up: bool = True
    producers: dict[int, Producer] = field(default_factory=dict)
    unreplicated: list[Ended] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    passes: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Leader epochs and where they begin in this log (``LeaderEpochFileCache``), rising."""
    past: list[Ended] = field(default_factory=list)
    """What logs of this broker had ended that it does not have any more."""
    copied: set[int] = field(default_factory=set)
    """Offsets of the records that this log was ever given; cleaning takes none of them away."""

    # -- what a client sees ------------------------------------------------------------------------------------------

    @property
    def lso(self) -> int:
        """The last stable offset: below every open or not yet replicated transaction."""
        firsts = [p.first for p in self.producers.values() if p.first is not None]
        firsts += [e.first for e in self.unreplicated if e.marker >= self.hw]
        return max(self.log_start, min([*firsts, self.hw]))

    def open_transactions(self) -> dict[int, tuple[int, int]]:
        """Producer id to (producer epoch, first offset), as DescribeProducers tells."""
        return {pid: (p.epoch, p.first) for pid, p in self.producers.items() if p.first is not None}

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """What a read_committed consumer of this replica makes of a transactional record."""
        return any(a.producer_id == producer_id and a.first <= offset <= a.last for a in self.aborted)

    def epoch_end(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch of this log up to ``epoch``, and where it ends; None where it knows no epoch as large."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            return None
        if self.epochs[-1][0] == epoch:
            return epoch, self.leo
        higher = min(start for known, start in self.epochs if known > epoch)
        return max((known for known, _ in self.epochs if known <= epoch), default=epoch), higher

    def held(self, start: int, end: int) -> Iterator[tuple[Batch, Record | None]]:
        """The records and markers (a None record) of [start, end), in offset order."""
        for batch in self.batches:
            if batch.last < start or batch.base >= end:
                continue
            if batch.marker is not None:
                yield batch, None
            for record in batch.records:
                if start <= record.offset < end:
                    yield batch, record

    # -- append ------------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Append as leader or follower: roll the segment, update the producer's state."""
        if self.segment_time is None:
            self.segment_time = batch.timestamp
        elif batch.timestamp - self.segment_time > self.limits.segment:
            self.segments.append(batch.base)
            self.segment_time = batch.timestamp
        self.batches.append(batch)
        self.copied.update(record.offset for record in batch.records)
        self.leo = batch.last + 1
        self.begin_epoch(batch.leader_epoch, batch.base)
        self._track(batch)

    def begin_epoch(self, epoch: int, start: int) -> None:
        """Note where an epoch begins, if it is new to this log."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [e for e in self.epochs if e[1] < start] + [(epoch, start)]

    def _track(self, batch: Batch) -> None:
        if batch.producer_id == NO_PRODUCER or (batch.control and batch.marker is None):
            return
        entry = self.producers.setdefault(batch.producer_id, Producer(batch.producer_epoch, batch.timestamp))
        if entry.epoch != batch.producer_epoch:
            entry.epoch, entry.last_data = batch.producer_epoch, None
        entry.timestamp = batch.timestamp
        if not batch.control:
            entry.last_data = batch.last
            if batch.transactional and entry.first is None:
                entry.first = batch.base
        elif entry.first is not None:
            done = Ended(batch.producer_id, entry.first, batch.base, batch.marker)
            entry.first = None
            self.unreplicated.append(done)
            self.ended.append(done)
            if done.end is End.ABORT:
                self.aborted.append(Aborted(done.producer_id, done.first, done.marker))

    def advance_hw(self, hw: int) -> None:
        """Take over a high watermark; it never passes the log end and never steps back while the broker is up."""
        self.hw = max(self.hw, min(hw, self.leo))
        self.unreplicated = [e for e in self.unreplicated if e.marker >= self.hw]

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def expire(self, now: int) -> None:
        """Forget idle producers; never one with an open transaction (``isProducerExpired``)."""
        keep = self.limits.producer_expiration
        self.producers = {
            pid: p for pid, p in self.producers.items() if p.first is not None or now - p.timestamp < keep
        }

    def trim(self, log_start: int) -> None:
        """Raise the log start offset (DeleteRecords or retention), at most to the high watermark."""
        self.log_start = max(self.log_start, min(log_start, self.hw))
        self.batches = [b for b in self.batches if b.last >= self.log_start]
        self.aborted = [a for a in self.aborted if a.last >= self.log_start]
        self.unreplicated = [e for e in self.unreplicated if e.marker >= self.log_start]
        below = [epoch for epoch, start in self.epochs if start <= self.log_start]
        if below:
            self.epochs = [(below[-1], self.log_start)] + [e for e in self.epochs if e[1] > self.log_start]

    def lose(self, tenths: int) -> bool:
        """Lose one batch of decided records without a trace, as a bad disk does; ``tenths`` says where in the log."""
        mine = [b for b in self.batches if b.records and b.last < self.lso]
        if not mine:
            return False
        self.batches.remove(mine[len(mine) * tenths // 10])
        return True

    def lose_index(self, tenths: int) -> bool:
        """Lose the index of aborted transactions of one segment; a log is loaded without complaint where it is gone."""
        starts = [*self.segments, self.leo]
        at = (len(self.segments) * tenths) // 10
        kept = [a for a in self.aborted if not starts[at] <= a.last < starts[at + 1]]
        lost, self.aborted = len(kept) < len(self.aborted), kept
        return lost

    def lose_head(self) -> bool:
        """Lose the first segment: the log begins with the second one when it is loaded."""
        if len(self.segments) < 2 or self.segments[1] > self.hw:
            return False
        self.segments = self.segments[1:]
        self.trim(self.segments[0])
        return True

    def start_at(self, offset: int) -> None:
        """Throw everything away and start at the leader's log start (``truncateFullyAndStartAt``)."""
        self.batches, self.segments, self.segment_time = [], [offset], None
        self.leo = self.hw = self.log_start = self.clean_to = offset
        self.producers, self.unreplicated, self.aborted, self.epochs = {}, [], [], []
        self.copied = set()

    def truncate(self, end: int) -> None:
        """Drop everything from ``end`` on and rebuild the producers' state, as a follower of a new leader does."""
        # An epoch that began at the end of the log, without a record yet, goes as well (UnifiedLog.truncateTo).
        self.epochs = [e for e in self.epochs if e[1] < end]
        if end >= self.leo:
            return
        batches = [b for b in self.batches if b.last < end]
        open_below = {pid: p.first for pid, p in self.producers.items() if p.first is not None and p.first < end}
        aborted, ended = [a for a in self.aborted if a.last < end], [e for e in self.ended if e.marker < end]
        reopened = {e.producer_id: e.first for e in self.ended if e.first < end <= e.marker}
        self.batches, self.leo = batches, end
        self.copied = {offset for offset in self.copied if offset < end}
        self.hw, self.clean_to = min(self.hw, end), min(self.clean_to, end)
        self.segments = [s for s in self.segments if s < end] or [0]
        self.producers, self.unreplicated = {}, []
        for batch in batches:
            self._track(batch)
        for entry in self.producers.values():
            entry.first = None
        for pid, first in (open_below | reopened).items():
            self.producers.setdefault(pid, Producer(0, 0)).first = first
        self.aborted, self.ended = aborted, ended
        self.unreplicated = [e for e in ended if e.marker >= self.hw]

    def cleanable_to(self) -> int:
        """The first offset that a pass must leave alone: the segment of the LSO, or the active one."""
        bound = min(self.lso, self.segments[-1])
        return max(s for s in self.segments if s <= bound)

    def clean(self, now: int) -> bool:
        """One pass of the cleaner; False when no closed segment holds anything new.

        A pass drops what is superseded or aborted, stamps tombstones and markers of emptied transactions with a
        delete horizon, and drops them in a later pass once that horizon has gone by (KIP-534).
        """
        bound = self.cleanable_to()
        dirty = [b for b in self.batches if max(self.clean_to, self.log_start) <= b.last < bound]
        if not dirty:
            return False
        latest = self._latest_offsets(dirty)
        end = dirty[-1].last
        active = {pid: (p.last_data, p.epoch) for pid, p in self.producers.items()}
        traversal = _Traversal(self.aborted)
        cleaned = []
        for batch in self.batches:
            if batch.last >= bound:
                cleaned.append(batch)
            elif (kept := self._filter(batch, traversal, latest, end, active, bound, now)) is not None:
                cleaned.append(kept)
        self.batches = cleaned
        self.aborted = traversal.kept + [a for a in self.aborted if a.last >= bound]
        self.segments = [self.segments[0], *(s for s in self.segments if s >= bound)]
        self.clean_to = end + 1
        self.passes += 1
        return True

    def _latest_offsets(self, dirty: list[Batch]) -> dict[int, int]:
        latest: dict[int, int] = {}
        traversal = _Traversal([a for a in self.aborted if a.last >= dirty[0].base])
        for batch in dirty:
            if batch.control:
                traversal.control(batch)
            elif not traversal.data(batch):
                latest.update((r.key, r.offset) for r in batch.records)
        return latest

    def _filter(
        self,
        batch: Batch,
        traversal: _Traversal,
        latest: dict[int, int],
        end: int,
        active: dict[int, tuple[int | None, int]],
        bound: int,
        now: int,
    ) -> Batch | None:
        expired = batch.horizon is not None and batch.horizon <= now
        discardable = traversal.control(batch) if batch.control else traversal.data(batch)
        discard = discardable and (expired or not batch.control)
        retain_empty = _is_last_of_producer(batch, active) or batch.last + 1 == bound
        marker = None if discard else batch.marker
        records = (
            ()
            if discard
            else tuple(
                r
                for r in batch.records
                if r.offset > end or (r.offset >= latest.get(r.key, -1) and (r.value is not None or not expired))
            )
        )
        if marker is None and not records:
            return replace(batch, marker=None, records=(), horizon=None) if retain_empty else None
        stamp = batch.horizon is None and ((batch.control and discardable) or any(r.value is None for r in records))
        horizon = now + self.limits.delete_retention if stamp else batch.horizon
        if records == batch.records and horizon == batch.horizon:
            return batch
        return replace(batch, records=records, horizon=horizon)


def _is_last_of_producer(batch: Batch, active: dict[int, tuple[int | None, int]]) -> bool:
    state = active.get(batch.producer_id)
    if batch.producer_id == NO_PRODUCER or state is None:
        return False
    last_data, epoch = state
    if last_data is not None:
        return batch.last == last_data
    return batch.control and batch.producer_epoch == epoch


class Coordinator(IntEnum):
    """How the transaction coordinator answers."""

    KNOWING = 0
    SILENT = 1
    IGNORANT = 2
    """It has forgotten the transactional id, and knows of no transaction."""
    BUSY = 3
    """It has markers left to write to other partitions."""


@dataclass(slots=True)
class Writer:
    """A producer of the cluster; version 2 transactions (KIP-890) bump its epoch with every end marker."""

    producer_id: int
    version2: bool
    epoch: int = 0
    open: bool = False


class Cluster:
    """The replica set of one partition, its clients, and the whole uncompacted history."""

    def __init__(self, limits: Limits, brokers: tuple[int, ...] = (1, 2, 3), writers: int = 3) -> None:
        self.now = 1_000
        self.replicas = {b: Replica(b, limits) for b in brokers}
        self.leader = brokers[0]
        self.leader_epoch = 0
        self.epoch_starts: list[tuple[int, int]] = [(0, 0)]
        self.isr = set(brokers)
        self.fetched = dict.fromkeys(brokers, 0)
        self.follower_epoch = dict.fromkeys(brokers, 0)
        self.checkpointed = dict.fromkeys(brokers, 0)
        self.history: list[Batch] = []
        """The truth: every record and marker that is in the log, in offset order, whatever cleaners have dropped."""
        self.followed: dict[int, list[Batch]] = dict.fromkeys(brokers, self.history)
        """By broker: the history that its log was copied from last, up to its log end."""
        self.deleted_to = 0
        """The largest log start that DeleteRecords explains."""
        self.coordinator = Coordinator.KNOWING
        self.limits = limits
        self.lost: list[Batch] = []
        """What was in the history until an unclean election."""
        self.cuts: dict[int, list[Cut]] = {}
        """By broker: what its log had to give up to follow a leader that was not in sync."""
        self.away: dict[int, Replica] = {}
        """Replicas whose log was given to nobody, by a reassignment, as they were then."""
        self.writers = [Writer(100 + i, version2=i % 2 == 1) for i in range(writers)]

    @property
    def leading(self) -> Replica:
        return self.replicas[self.leader]

    # -- clients -----------------------------------------------------------------------------------------------------

    def write(
        self, records: list[tuple[int | None, int | None]], writer: int | None = None, *, idempotent: bool = False
    ) -> bool:
        """Append one batch of (key, value); with a writer, as part of its transaction (begun when none is open).

        An idempotent one without a writer is numbered by a producer, and of no transaction.
        """
        if not self.leading.up:
            return False
        base = self.leading.leo
        rows = tuple(Record(base + i, k, v) for i, (k, v) in enumerate(records))
        batch = Batch(base, base + len(rows) - 1, self.now, self.leader_epoch, records=rows)
        if writer is not None:
            w = self.writers[writer]
            w.open = True
            batch = replace(batch, producer_id=w.producer_id, producer_epoch=w.epoch, transactional=True)
        elif idempotent:
            batch = replace(batch, producer_id=IDEMPOTENT, producer_epoch=0)
        self._append(batch)
        return True

    def end(self, writer: int, end: End) -> bool:
        """Write the end marker of the writer's open transaction."""
        w = self.writers[writer]
        if not w.open or not self.leading.up:
            return False
        w.epoch += w.version2
        w.open = False
        base = self.leading.leo
        self._append(
            Batch(base, base, self.now, self.leader_epoch, w.producer_id, w.epoch, True, control=True, marker=end)
        )
        return True

    def _append(self, batch: Batch) -> None:
        self.leading.append(batch)
        self.history.append(batch)
        self._raise_hw()

    def trim(self, log_start: int) -> None:
        """DeleteRecords on the leader; followers learn the log start with their next fetch."""
        if self.leading.up:
            self.leading.trim(log_start)
            self.deleted_to = max(self.deleted_to, self.leading.log_start)

    # -- replication -------------------------------------------------------------------------------------------------

    def fetch(self, broker: int, batches: int = 1_000) -> bool:
        """One fetch round of a follower; it gets what the leader holds *now*. False when nothing changed."""
        follower, leader = self.replicas[broker], self.leading
        if broker == self.leader or not follower.up or not leader.up:
            return False
        before = (follower.leo, follower.hw, follower.log_start, broker in self.isr, self.fetched[broker], leader.hw)
        self._align(broker)
        self.followed[broker] = self.history
        self.fetched[broker] = follower.leo
        if follower.leo >= max(leader.hw, self.epoch_starts[-1][1]):
            self.isr.add(broker)
        self._raise_hw()
        if follower.leo < leader.log_start:
            follower.start_at(leader.log_start)
        for batch in [b for b in leader.batches if b.last >= follower.leo][:batches]:
            follower.append(batch)
        follower.advance_hw(leader.hw)
        follower.trim(leader.log_start)
        self.follower_epoch[broker] = self.leader_epoch
        after = (follower.leo, follower.hw, follower.log_start, broker in self.isr, self.fetched[broker], leader.hw)
        return before != after

    def _align(self, broker: int) -> None:
        """Truncate to the end of the last epoch that the follower and the leader share (KIP-101)."""
        if self.lost:
            self._follow_epochs(self.replicas[broker], self.leading)
            return
        self.replicas[broker].truncate(self._shared_end(broker))

    def _shared_end(self, broker: int) -> int:
        """Where the first epoch of the leader that the replica has not followed begins; else the leader's log end."""
        last = self.follower_epoch[broker]
        return min((start for epoch, start in self.epoch_starts if epoch > last), default=self.leading.leo)

    def _follow_epochs(self, follower: Replica, leader: Replica) -> None:
        """As `_align`, where a leader that was not in sync may have begun an epoch below what others hold (KIP-279)."""
        before, exposed = follower.leo, follower.ended
        while follower is not leader and follower.epochs:
            epoch = follower.epochs[-1][0]
            found = leader.epoch_end(epoch)
            if found is None or (found[0] == epoch and found[1] >= follower.leo):
                break
            own = follower.epoch_end(found[0])
            assert own is not None
            follower.truncate(min(found[1], own[1]))
            if own[0] == found[0]:
                break
        if follower.leo < before:
            self.cuts.setdefault(follower.id, []).append(Cut(follower.leo, before))
            follower.past = follower.past + [e for e in exposed if e.marker >= follower.leo]

    def _raise_hw(self) -> None:
        ends = [self.leading.leo if b == self.leader else self.fetched[b] for b in self.isr]
        self.leading.advance_hw(min(ends))

    def sync(self) -> None:
        """Fetch until every live follower has all and the high watermarks agree."""
        changed = self.leading.up
        while changed:
            changed = sum(self.fetch(b) for b in self.replicas) > 0

    def behind(self, broker: int) -> bool:
        """Whether the replica lacks something of the leader's log; a tail that it alone has makes up for nothing."""
        return min(self._shared_end(broker), self.replicas[broker].leo) < self.leading.leo

    # -- brokers -----------------------------------------------------------------------------------------------------

    def stop(self, broker: int) -> bool:
        """Stop a broker; the last of the in-sync replicas stays. A stopped leader hands over."""
        heirs = [b for b in self.isr if b != broker and self.replicas[b].up]
        if not self.replicas[broker].up or not heirs:
            return False
        self.replicas[broker].up = False
        self.isr.discard(broker)
        if broker == self.leader:
            self._elect(min(heirs))
        self._raise_hw()
        return True

    def start(self, broker: int) -> bool:
        """Start a broker; its high watermark comes from its checkpoint and may have stepped back."""
        replica = self.replicas[broker]
        if replica.up:
            return False
        replica.up = True
        replica.hw = max(replica.log_start, min(replica.hw, self.checkpointed[broker]))
        replica.unreplicated = [e for e in replica.ended if e.marker >= max(replica.hw, replica.log_start)]
        return True

    def wipe(self, broker: int) -> bool:
        """Stop a broker, whose disk is then replaced by an empty one."""
        if self.replicas[broker].up and not self.stop(broker):
            return False
        self._place(broker, self.replicas[broker]).up = False
        return True

    def unassign(self, broker: int) -> bool:
        """Take the partition from a broker, with its log; one of the others is in sync."""
        heirs = [b for b in self.isr if b != broker and self.replicas[b].up]
        if not heirs:
            return False
        self.isr.discard(broker)
        if broker == self.leader:
            self._elect(min(heirs))
        self.away[broker] = self.replicas.pop(broker)
        self._raise_hw()
        return True

    def assign(self, broker: int) -> bool:
        """Give the partition back to a broker that it was taken from; its log begins empty."""
        if broker not in self.away:
            return False
        self._place(broker, self.away.pop(broker))
        return True

    def _place(self, broker: int, before: Replica) -> Replica:
        """An empty log on a broker that had another one."""
        past, passes = before.past + before.ended, before.passes
        placed = self.replicas[broker] = Replica(broker, self.limits, past=past, passes=passes)
        self.fetched[broker] = self.checkpointed[broker] = 0
        self.followed[broker] = []
        self.follower_epoch[broker] = self.leader_epoch
        return placed

    def checkpoint(self) -> None:
        """What brokers do every 5 s: write their high watermarks to disk."""
        self.checkpointed.update((b, r.hw) for b, r in self.replicas.items() if r.up)

    def lead(self, broker: int) -> bool:
        """Move the leadership to an in-sync replica."""
        if broker == self.leader or broker not in self.isr or not self.replicas[broker].up:
            return False
        self._elect(broker)
        return True

    def usurp(self, broker: int) -> bool:
        """All replicas in sync die, and one that is not leads with what it has: an unclean election."""
        replica = self.replicas[broker]
        if broker in self.isr or replica.leo < max(r.log_start for r in self.replicas.values()):
            return False
        self.start(broker)
        for member in self.isr:
            self.replicas[member].up = False
        before, self.history = self.history, self._history_of(broker)
        kept = {(b.base, b.leader_epoch) for b in self.history}
        self.lost += [b for b in before if (b.base, b.leader_epoch) not in kept]
        self.isr = {broker}
        self._lead(broker)
        self._raise_hw()
        return True

    def _history_of(self, broker: int) -> list[Batch]:
        """What a log would hold if nothing had ever been cleaned: the history that it followed, up to its log end.

        And what it holds beside: one that was truncated too high has kept what the others gave up.
        """
        replica, followed = (
            self.replicas[broker],
            [b for b in self.followed[broker] if b.last < self.replicas[broker].leo],
        )
        known = {(b.base, b.leader_epoch) for b in followed}
        own = [b for b in replica.batches if (b.base, b.leader_epoch) not in known and (b.records or b.control)]
        taken = {offset for b in own for offset in range(b.base, b.last + 1)}
        kept = [b for b in followed if b.base not in taken and b.last not in taken]
        return sorted(kept + own, key=lambda b: b.base)

    def _elect(self, broker: int) -> None:
        self._align(broker)
        self._lead(broker)

    def _lead(self, broker: int) -> None:
        leader = self.replicas[broker]
        self.leader = broker
        self.leader_epoch += 1
        self.epoch_starts.append((self.leader_epoch, leader.leo))
        leader.begin_epoch(self.leader_epoch, leader.leo)
        self.follower_epoch[broker] = self.leader_epoch
        self.fetched = {b: min(r.leo, leader.hw) for b, r in self.replicas.items()}
        if self.history and self.history[-1].last >= leader.leo:
            self.history = [b for b in self.history if b.last < leader.leo]
        self.followed[broker] = self.history
        open_now = self._open_in_history()
        for w in self.writers:
            w.open = w.producer_id in open_now

    def _open_in_history(self) -> set[int]:
        now_open: set[int] = set()
        for batch in self.history:
            if batch.marker is not None:
                now_open.discard(batch.producer_id)
            elif batch.transactional:
                now_open.add(batch.producer_id)
        return now_open

    def damage(self, broker: int, how: Callable[[Replica], bool]) -> bool:
        """Let a broker that is down find another disk than it left."""
        return not self.replicas[broker].up and how(self.replicas[broker])

    # -- what else is asked ------------------------------------------------------------------------------------------

    def coordinator_state(self, producer_id: int) -> str | None:
        """The state that the coordinator tells; None where it does not answer. Done once the marker is replicated."""
        mine = [b for b in self.history if b.producer_id == producer_id]
        if not mine or self.coordinator is Coordinator.SILENT:
            return None
        if self.coordinator is Coordinator.IGNORANT:
            return "Empty"
        last, gone = mine[-1], [b for b in self.lost if b.producer_id == producer_id]
        forgotten = gone and gone[-1].timestamp > last.timestamp and gone[-1].marker is not None
        if forgotten:
            last = gone[-1]  # The log has lost the marker, the coordinator knows that it wrote it.
        if last.marker is None:
            return "Ongoing"
        done = (forgotten or last.base < self.leading.hw) and self.coordinator is not Coordinator.BUSY
        return ("Complete" if done else "Prepare") + ("Commit" if last.marker is End.COMMIT else "Abort")

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, ms: int) -> None:
        """Let time pass; idle producers expire on every live replica."""
        self.now += ms
        for replica in self.replicas.values():
            if replica.up:
                replica.expire(self.now)

    def clean(self, broker: int) -> bool:
        """Run the cleaner of one broker."""
        replica = self.replicas[broker]
        return replica.up and replica.clean(self.now)
