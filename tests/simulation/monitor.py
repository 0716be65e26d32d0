"""The monitor's life against the model: reads at any time, tables, micro-batches, crashes, probes.

What a reader gets is what a consumer of that one replica gets. The comparison and the decision of the probe are the
real ones; the comparison's state goes through bytes after every micro-batch, as it does in a state store.
"""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from parallax.compare.observations import Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.compare.suspect import KEY_KINDS, TRANSACTION_KINDS
from parallax.config import CompareSettings
from parallax.findings.claim import Claim, claim_from_row, explains
from parallax.findings.decide import Decision, Verdict
from parallax.model import Outcome, ReadEvent, RowKind
from tests.simulation import wire
from tests.simulation.content import content_hash, key_halves, key_of_halves, key_size, value_size
from tests.simulation.model import Batch, Cluster, End, Record, Replica
from tests.simulation.oracle import Shown
from tests.simulation.probe import probe

RU, RC, PROGRESS = 0, 1, 2
TOPIC, PARTITION = "t", 0

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """A suspect that the probe has confirmed."""

    kind: str
    broker: int
    producer_id: int
    offset: int
    key: int | None
    reason: str
    confirmed_at: int
    claim: Claim = field(repr=False)
    before: Cluster = field(repr=False)
    """The cluster as it was when the probe began."""


@dataclass
class Monitor:
    """Six readers, a progress reader, the comparison and the probe, over one partition."""

    cluster: Cluster
    settings: CompareSettings
    seed: int = 0
    positions: dict[tuple[int, int], int] = field(default_factory=dict)
    queues: dict[tuple[int, int], deque[Row]] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)
    delivered: list[Row] = field(default_factory=list)
    suspects: list[Any] = field(default_factory=list)
    pending: list[Claim] = field(default_factory=list)
    confirmed: list[Finding] = field(default_factory=list)
    dismissed: list[tuple[Claim, str]] = field(default_factory=list)
    coverage: Any = None
    steps: int = 0
    late: bool = False
    """The readers begin at the end of the log, each at its own time."""
    compacted: bool = True
    wired: bool = False
    """What a replica holds goes over the wire as bytes, through the product's reader and decoder."""
    reads_decoded: int = 0

    def __post_init__(self) -> None:
        self.state = PartitionState().to_bytes()
        self.random = random.Random(self.seed)
        self.draw = random.Random(f"wire {self.seed}")
        self.begun: set[tuple[int, int]] = set()
        self.positions = {(v, b): 0 for v in (RU, RC) for b in self.cluster.replicas}
        self.queues = {(v, b): deque() for v in (RU, RC, PROGRESS) for b in self.cluster.replicas}

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, view: int, broker: int, limit: int = 1_000) -> bool:
        """One pinned read of at most ``limit`` offsets; nothing where the broker is down or has nothing new."""
        replica = self.cluster.replicas[broker]
        if not replica.up:
            return False
        start = self._begin(view, replica) if self.late else self.positions[view, broker]
        if start < replica.log_start:
            start = replica.log_start
            self.shown.skipped.add(broker)
            self._position(view, replica, start, ReadEvent.LOG_START_ADVANCED)
        end = min(replica.hw if view == RU else replica.lso, start + limit)
        if end <= start:
            return False
        rows = [
            self._marker(view, replica, batch) if record is None else self._data(view, replica, batch, record)
            for batch, record in replica.held(start, end)
        ]
        if self.wired:
            rows = self._decoded(view, replica, (start, end), rows)
        self.queues[view, broker] += rows
        self._position(view, replica, end, ReadEvent.OK)
        return True

    def _decoded(self, view: int, replica: Replica, span: tuple[int, int], told: list[Row]) -> list[Row]:
        """The rows of a range as the product makes them of the bytes; they must be what the model told of it."""
        rows, reached = wire.read(wire.Broker(replica, self.draw, self.seed), view, *span)
        assert rows == told, f"what is decoded must be what the replica holds: {rows} of {span}; it holds {told}"
        assert reached == span[1], f"a range must be read to its end: {reached} of {span}"
        self.reads_decoded += 1
        return rows

    def _begin(self, view: int, replica: Replica) -> int:
        name = view, replica.id
        if name not in self.begun:
            self.begun.add(name)
            self.positions[name] = replica.hw if view == RU else replica.lso
            self.shown.skipped.add(replica.id)
        return self.positions[name]

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

    def _position(self, view: int, replica: Replica, offset: int, event: ReadEvent) -> None:
        self.positions[view, replica.id] = offset
        row = {
            "view": view,
            "broker": replica.id,
            "kind": int(RowKind.POSITION),
            "offset": offset,
            "timestamp": self.cluster.now,
            "high_watermark": replica.hw,
            "last_stable_offset": replica.lso,
            "log_start_offset": replica.log_start,
            "event": str(event),
            "topic_id": 1,
        }
        self.queues[view, replica.id].append(row)

    def progress(self, broker: int) -> None:
        """One tick of the progress reader for one broker."""
        replica = self.cluster.replicas[broker]
        row: Row = {"broker": broker, "observed_at": self.cluster.now, "reachable": replica.up}
        if replica.up:
            row |= {
                "high_watermark": replica.hw,
                "last_stable_offset": replica.lso,
                "log_start_offset": replica.log_start,
                "log_end_offset": replica.leo,
                "leader": self.cluster.leader,
                "replicas": tuple(self.cluster.replicas),
                "open_transactions": [(pid, first) for pid, (_, first) in replica.open_transactions().items()],
            }
        self.queues[PROGRESS, broker].append(row)

    # -- comparing ---------------------------------------------------------------------------------------------------

    def batch(self, take: float = 1.0, crash: bool = False, repeat: bool = False) -> None:
        """One micro-batch of the comparison.

        Args:
            take: share of each queue that the batch gets; 1.0 takes everything.
            crash: the batch is computed, lost, and computed again from the same state and rows.
            repeat: rows that were delivered before come once more.
        """
        fresh: list[Row] = []
        names = list(self.queues)
        self.random.shuffle(names)
        for name in names:
            queue = self.queues[name]
            count = len(queue) if take >= 1.0 else self.random.randint(0, round(len(queue) * min(1.0, 2 * take)))
            fresh += [queue.popleft() for _ in range(count)]
        again = sorted(self.random.sample(range(len(self.delivered)), min(4, len(self.delivered)))) if repeat else []
        rows = [self.delivered[i] for i in again] + fresh
        self.delivered += fresh
        if rows:
            self._step(rows, crash)

    def _step(self, rows: list[Row], crash: bool) -> None:
        seen = Observations.of(TOPIC, PARTITION, rows)
        before = PartitionState.from_bytes(self.state)
        options = {"from_log_start": not self.late, "compacted": self.compacted}
        result = step(before, seen, self.settings, self.cluster.now, **options)
        state = result.state.to_bytes()
        if crash:
            assert before.to_bytes() == self.state, "a step must not write into its input"
            again = step(PartitionState.from_bytes(self.state), seen, self.settings, self.cluster.now, **options)
            assert again.state.to_bytes() == state, "a replayed batch must leave the same state"
            assert again.suspects == result.suspects, "a replayed batch must raise the same suspects"
        self.steps += 1
        self.state = state
        self.coverage = result.coverage
        self.suspects += result.suspects
        self.pending += [claim_from_row(s.as_row()) for s in result.suspects]

    # -- confirming --------------------------------------------------------------------------------------------------

    def probe(self, between: Callable[[], None] | None = None) -> list[Finding]:
        """Ask the replicas about every pending suspect; returns what was confirmed now.

        Args:
            between: called between any two questions; None asks everything in one moment.
        """
        found: list[Finding] = []
        waiting, self.pending = self.pending, []
        self.pending = [c for c in waiting if c.kind in TRANSACTION_KINDS]
        for claim in sorted(waiting, key=lambda c: c.kind not in TRANSACTION_KINDS):
            before = self.cluster if between is None else copy.deepcopy(self.cluster)
            decision = self._linked(claim, probe(self.cluster, claim, between or _nothing))
            if claim in self.pending:
                self.pending.remove(claim)
            if decision.verdict is Verdict.PENDING:
                self.pending.append(claim)
            elif decision.verdict is Verdict.DISMISSED:
                self.dismissed.append((claim, decision.reason))
            else:
                found.append(_finding(claim, decision, self.cluster.now, before))
                self.confirmed.append(found[-1])
        return found

    def _linked(self, claim: Claim, decision: Decision) -> Decision:
        """What the findings manager makes of a difference of value that a transaction's claim or finding explains."""
        if claim.kind in KEY_KINDS and decision.verdict is not Verdict.DISMISSED:
            if any(explains(finding.claim, claim) for finding in self.confirmed):
                return replace(decision, verdict=Verdict.DISMISSED, reason="the same cause")
            if any(explains(other, claim) for other in self.pending):
                return replace(decision, verdict=Verdict.PENDING, reason="waits for the verdict on its transaction")
        return decision

    def round(self, order: random.Random, between: Callable[[], None] | None = None) -> list[Finding]:
        """One full round: every reader reads to its end, progress, a batch, a probe."""
        names = list(self.positions)
        order.shuffle(names)
        for view, broker in names:
            self.read(view, broker)
        for broker in self.cluster.replicas:
            self.progress(broker)
        self.batch()
        return self.probe(between)


def _finding(claim: Claim, decision: Decision, now: int, before: Cluster) -> Finding:
    return Finding(
        str(decision.kind),
        claim.broker,
        claim.producer_id,
        claim.first_offset,
        None if claim.key is None else key_of_halves(*claim.key),
        decision.reason,
        now,
        replace(claim, kind=decision.kind),
        before,
    )


def _nothing() -> None:
    """The cluster stands still."""


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
