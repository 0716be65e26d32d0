"""What must be found early, and what was lost at all, of what the monitor was shown.

The properties of tests/simulation/properties.py say what must hold in the end; this says what must be found on the way:
a missed end marker as soon as it was read to be missed, a log truncated below what had been read of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.cluster import Cluster
from tests.simulation.records import Batch, End
from tests.simulation.replica import Replica


@dataclass(slots=True)
class Transaction:
    """One transaction as its producer wrote it; ``end`` and ``marker`` are None while it is open."""

    producer_id: int
    offsets: list[int] = field(default_factory=list)
    end: End | None = None
    marker: int | None = None

    @property
    def first(self) -> int:
        return self.offsets[0]


@dataclass(frozen=True, slots=True)
class Divergence:
    """A difference that the monitor must find: on which broker, of which kinds, and where."""

    kinds: frozenset[str]
    broker: int
    producer_id: int = -1
    offsets: frozenset[int] = frozenset()
    key: int | None = None


class Truth:
    """The history of a cluster, read once."""

    def __init__(self, history: list[Batch]) -> None:
        self.transactions: list[Transaction] = []
        self.of_offset: dict[int, Transaction] = {}
        self.records: dict[int | None, list[tuple[int, int | None]]] = {}
        self.written: dict[int, tuple[int | None, int | None]] = {}
        now_open: dict[int, Transaction] = {}
        for batch in history:
            if batch.marker is not None:
                done = now_open.pop(batch.producer_id, None)
                if done is not None:
                    done.end, done.marker = batch.marker, batch.base
                continue
            for record in batch.records:
                self.records.setdefault(record.key, []).append((record.offset, record.value))
                self.written[record.offset] = (record.key, record.value)
                if not batch.transactional:
                    continue
                if batch.producer_id not in now_open:
                    now_open[batch.producer_id] = Transaction(batch.producer_id)
                    self.transactions.append(now_open[batch.producer_id])
                now_open[batch.producer_id].offsets.append(record.offset)
                self.of_offset[record.offset] = now_open[batch.producer_id]

    def committed(self, offset: int) -> bool:
        """Whether a consumer may see the record: plain, or of a transaction that was committed."""
        transaction = self.of_offset.get(offset)
        return transaction is None or transaction.end is End.COMMIT

    def end_of(self, offset: int) -> End | None:
        """How the transaction of a record ended; None for a plain record and while it is open."""
        transaction = self.of_offset.get(offset)
        return None if transaction is None else transaction.end

    def latest(self, key: int, below: int) -> tuple[int, int | None]:
        """Offset and value of the newest record of a key that a consumer may see; (-1, None) where there is none."""
        seen = [(o, v) for o, v in self.records.get(key, []) if o < below and self.committed(o)]
        return max(seen, key=lambda r: r[0], default=(-1, None))


def shown_latest(replica: Replica, key: int, below: int) -> tuple[int, int | None]:
    """The newest record of a key that a read_committed consumer of this replica gets."""
    best: tuple[int, int | None] = (-1, None)
    for batch, record in replica.held(replica.log_start, min(below, replica.lso)):
        if record is None or record.key != key:
            continue
        if batch.transactional and replica.is_aborted(batch.producer_id, record.offset):
            continue
        best = (record.offset, record.value)
    return best


def missed_markers(truth: Truth, replica: Replica) -> dict[tuple[int, int], Transaction]:
    """(producer id, first offset) of what is open on a replica that has passed its end marker."""
    missed = {}
    for pid, (_, first) in replica.open_transactions().items():
        for transaction in truth.transactions:
            if transaction.producer_id != pid or transaction.marker is None:
                continue
            if transaction.first <= first <= transaction.marker < replica.leo:
                missed[pid, first] = transaction
    return missed


def wrong_outcomes(truth: Truth, replica: Replica) -> dict[int, End]:
    """Offset to the outcome that the replica has decided against the truth."""
    wrong = {}
    for ended in replica.ended:
        for transaction in truth.transactions:
            if transaction.producer_id != ended.producer_id or transaction.end in (None, ended.end):
                continue
            wrong.update((o, ended.end) for o in transaction.offsets if ended.first <= o <= ended.marker)
    return wrong


def lost(cluster: Cluster) -> list[str]:
    """What replicas have lost, one entry for each replica and transaction or key; whether or not it was shown."""
    truth = Truth(cluster.history)
    found: list[str] = []
    for replica in cluster.replicas.values():
        found += ["an end marker, and the transaction hangs" for _ in missed_markers(truth, replica)]
        wrong = wrong_outcomes(truth, replica)
        turned = {truth.of_offset[offset].first: end for offset, end in wrong.items()}
        found += [f"an end marker, and another ended it as {end.name}" for end in turned.values()]
        for key in truth.records:
            shown, latest = shown_latest(replica, key, replica.lso), truth.latest(key, replica.lso)
            explained = any(offset in wrong for offset, _ in truth.records[key])
            if shown[1] is not None and latest[1] is None and latest[0] >= 0 and not explained:
                found.append("a tombstone, and the deleted value is back")
    return found


def outcome_explains(cluster: Cluster, offset: int) -> bool:
    """Whether some replica has the outcome of this record wrong, or holds its ended transaction open."""
    truth = Truth(cluster.history)
    for replica in cluster.replicas.values():
        missed = missed_markers(truth, replica).values()
        if offset in wrong_outcomes(truth, replica) or any(offset in t.offsets for t in missed):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Taken:
    """What a replica had been read to show up to ``read_to``, in ``epoch``; ``start``: where its log was truncated."""

    broker: int
    start: int
    read_to: int
    epoch: int


@dataclass(slots=True)
class Shown:
    """What the monitor's reads have been shown so far, per broker."""

    markers: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Broker to (producer id, offset) of end markers that either reader was given."""
    transactional: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    """Broker to (producer id, offset) of records read as read_uncommitted."""
    outcomes: dict[int, dict[int, End]] = field(default_factory=dict)
    """Broker to offset to outcome, read as read_committed."""
    visible: dict[int, dict[int | None, list[tuple[int, int | None]]]] = field(default_factory=dict)
    """Broker to key to (offset, value) of what a read_committed consumer was given, tombstones too."""
    known_from: int = 0
    """Below it nothing is promised: some log there was replaced by another after it had been read."""
    taken: list[Taken] = field(default_factory=list)
    """What truncated logs had shown."""
    skipped: set[int] = field(default_factory=set)
    """Brokers whose log start passed a reader: part of them was never shown."""


def must_be_reported_as_truncated(cluster: Cluster, shown: Shown) -> list[Divergence]:
    """The logs that were truncated below what had been read of them, where the log that is there now shows it."""
    return [_truncated(t) for t in shown.taken if _is_noticed(t, cluster.replicas[t.broker])]


def _truncated(taken: Taken) -> Divergence:
    return Divergence(frozenset({"log_truncated"}), taken.broker, -1, frozenset(range(taken.start, taken.read_to)))


def _is_noticed(taken: Taken, replica: Replica) -> bool:
    """Whether the log tells that it is another: a newer epoch begins below, and it has not grown to just there."""
    newer = [start for epoch, start in replica.epochs if epoch > taken.epoch]
    return bool(newer) and min(newer) < taken.read_to != replica.leo


def must_be_found_early(cluster: Cluster, shown: Shown) -> list[Divergence]:
    """The missed end markers that are found by their absence, before anything has stood still for long."""
    truth = Truth(cluster.history)
    begun = max(replica.log_start for replica in cluster.replicas.values())
    return [d for replica in cluster.replicas.values() for d in _unmarked(truth, replica, shown, begun)]


def _unmarked(truth: Truth, replica: Replica, shown: Shown, begun: int) -> list[Divergence]:
    """Markers that another replica was read to show, of transactions that were read to be open on this one.

    Below the largest log start nothing is compared: there what one lacks may have been deleted.
    """
    markers = {m for b, seen in shown.markers.items() if b != replica.id for m in seen}
    open_here = shown.transactional.get(replica.id, set()) if replica.id not in shown.skipped else set()
    return [
        Divergence(frozenset({"marker_missing", "read_committed_frozen"}), replica.id, pid, frozenset({first}))
        for (pid, first), t in missed_markers(truth, replica).items()
        if (pid, t.marker) in markers and (pid, first) in open_here and first >= shown.known_from and t.marker >= begun
    ]
