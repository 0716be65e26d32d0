"""One replica: its log, index of aborted transactions, producer state, leader epochs, and its cleaner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from tests.simulation.records import NO_PRODUCER, Aborted, Batch, End, Ended, Limits, Producer, Record


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

    def __deepcopy__(self, memo: object) -> Self:
        """The same log, of which batches and entries are shared: they never change."""
        return replace(
            self,
            batches=[*self.batches],
            segments=[*self.segments],
            producers={pid: replace(producer) for pid, producer in self.producers.items()},
            unreplicated=[*self.unreplicated],
            aborted=[*self.aborted],
            ended=[*self.ended],
            epochs=[*self.epochs],
            past=[*self.past],
            copied={*self.copied},
        )

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
        """Drop everything from ``end`` on and rebuild the producers' state, as a follower of a new leader does.

        A log that began above begins there then.
        """
        # An epoch that began at the end of the log, without a record yet, goes as well (UnifiedLog.truncateTo).
        self.epochs = [e for e in self.epochs if e[1] < end]
        if end >= self.leo:
            return
        batches = [b for b in self.batches if b.last < end]
        open_below = {pid: p.first for pid, p in self.producers.items() if p.first is not None and p.first < end}
        aborted, ended = [a for a in self.aborted if a.last < end], [e for e in self.ended if e.marker < end]
        reopened = {e.producer_id: e.first for e in self.ended if e.first < end <= e.marker}
        self.batches, self.leo, self.log_start = batches, end, min(self.log_start, end)
        self.copied = {offset for offset in self.copied if offset < end}
        self.hw, self.clean_to = min(self.hw, end), min(self.clean_to, end)
        self.segments = [s for s in self.segments if s < end] or [end]
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
