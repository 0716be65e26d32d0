"""One compacted partition and its replicas, as Kafka runs them: log, cleaner, producer state, high watermark.

Covers what decides which replica shows what: per-replica cleaning with delete horizons, the retention of empty batches,
legacy and version 2 transactions, producer expiry, high watermarks that trail by a fetch round, outages, leader moves
and trimmed logs. Offsets, times (ms) and producer ids are integers; keys and values are small integers.

Rules follow Kafka 4.2: ``Cleaner``, ``CleanedTransactionMetadata``, ``MemoryRecords.filterTo``, ``ProducerAppendInfo``,
``ProducerStateManager``, ``LogToClean``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Self

from tests.simulation.records import IDEMPOTENT, Batch, Cut, End, Limits, Record
from tests.simulation.replica import Replica


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
    decided: End | None = None
    """How its open transaction ends, where another partition has the end marker already."""


class Cluster:
    """The replica set of one partition, its clients, and the whole uncompacted history."""

    def __init__(self, limits: Limits, brokers: tuple[int, ...] = (1, 2, 3), writers: int = 3) -> None:
        self.now = 1_000
        self.replicas = {b: Replica(b, limits) for b in brokers}
        self.leader = brokers[0]
        self.led = [self.leader]
        """Who has led, in order."""
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
        self.elsewhere: dict[tuple[int, int], End] = {}
        """By producer and its epoch in the end marker: the last one that other partitions got of a transaction."""
        self.lost: list[Batch] = []
        """What was in the history until an unclean election."""
        self.is_split = False
        """One that was not in sync has led: epochs may begin in its log below where others have gone on."""
        self.cuts: dict[int, list[Cut]] = {}
        """By broker: what its log had to give up to follow a leader that was not in sync."""
        self.dropped: dict[int, list[Replica]] = {}
        """By broker: its logs of which nothing was kept, as they were then."""
        self.away: dict[int, Replica] = {}
        """Replicas whose log was given to nobody, by a reassignment, as they were then."""
        self.retired: set[int] = set()
        """Of these, the brokers that are not given it back."""
        self.writers = [Writer(100 + i, version2=i % 2 == 1) for i in range(writers)]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The same cluster, of which batches are shared: they never change. Histories that are one list stay one."""
        histories = {id(one): [*one] for one in (self.history, *self.followed.values())}
        memo |= histories
        twin = object.__new__(type(self))
        twin.__dict__ = {name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()}
        return twin

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
        end, w.decided = w.decided if w.decided is not None else end, None
        w.epoch += w.version2
        self._end(w, end)
        return True

    def end_elsewhere(self, writer: int, end: End) -> bool:
        """The coordinator has decided; another partition that has a part in the transaction gets its marker first."""
        w = self.writers[writer]
        if not w.open or w.decided is not None:
            return False
        w.decided = end
        self.elsewhere[w.producer_id, w.epoch + w.version2] = end
        return True

    def fence(self, writer: int) -> bool:
        """The coordinator gives the writer a new epoch, and aborts what it has open; of version 1 alone."""
        w = self.writers[writer]
        if w.version2 or w.decided is not None or not self.leading.up:
            return False
        w.epoch += 1
        if w.open:
            self._end(w, End.ABORT)
        return True

    def upgrade(self, writer: int) -> bool:
        """The writer goes on with transactions of version 2, in the epoch that it has."""
        w = self.writers[writer]
        if w.version2 or w.open:
            return False
        w.version2 = True
        return True

    def _end(self, w: Writer, end: End) -> None:
        w.open = False
        self.elsewhere[w.producer_id, w.epoch] = end
        base = self.leading.leo
        self._append(
            Batch(base, base, self.now, self.leader_epoch, w.producer_id, w.epoch, True, control=True, marker=end)
        )

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
        if self.is_split:
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
        self.dropped.setdefault(broker, []).append(before)
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
        self.is_split = True
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
        self.led.append(broker)
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

    def lost_so_far(self) -> dict[int, tuple[int, int]]:
        """By broker: how often its log was truncated, and where it begins."""
        return {broker: (len(self.cuts.get(broker, ())), log.log_start) for broker, log in self.replicas.items()}

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

    def is_left_to(self, producer_id: int) -> bool:
        """Whether the coordinator names the partition among those that have no end marker of a transaction yet."""
        mine = [b for b in self.history if b.producer_id == producer_id]
        return not mine or mine[-1].marker is None or mine[-1].base >= self.leading.hw

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
