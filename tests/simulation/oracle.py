"""What is true, told by someone who sees everything: the whole history and every replica's inside.

Naive on purpose: dicts and loops over the uncompacted history, no code shared with the product. It answers two
questions. Is a finding true? And which divergences must have been found, given what the monitor was shown?
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.model import Batch, Cluster, End, Replica


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
    undirected: bool = False
    """No marker was shown that says who is wrong: a `visibility_mismatch` on any of the replicas will do."""


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


def passed_over(truth: Truth, replica: Replica, producer_id: int) -> bool:
    """Whether the replica has ever ended a transaction of the producer by another marker than the true one."""
    return any(
        t.producer_id == e.producer_id == producer_id
        and t.marker is not None
        and t.first <= e.first <= t.marker < e.marker
        for t in truth.transactions
        for e in replica.ended + replica.past
    )


def wrong_outcomes(truth: Truth, replica: Replica, *, ever: bool = False) -> dict[int, End]:
    """Offset to the outcome that the replica has decided against the truth; ``ever``, by logs that it had before."""
    wrong = {}
    for ended in replica.past + replica.ended if ever else replica.ended:
        for transaction in truth.transactions:
            if transaction.producer_id != ended.producer_id or transaction.end in (None, ended.end):
                continue
            wrong.update((o, ended.end) for o in transaction.offsets if ended.first <= o <= ended.marker)
    return wrong


def lost_markers(cluster: Cluster, producer_id: int, offset: int) -> set[End]:
    """The types of the end markers above an offset that an unclean election took from all, after they were written."""
    lost = [b for b in cluster.lost if b.producer_id == producer_id and b.base > offset]
    return {b.marker for b in lost if b.marker is not None}


def has_lost_tombstone(cluster: Cluster, key: int, offset: int) -> bool:
    """Whether an unclean election took a tombstone of the key above an offset from all, after it was written."""
    return any(r.key == key and r.value is None and r.offset > offset for b in cluster.lost for r in b.records)


def holds_lost(cluster: Cluster, replica: Replica, producer_id: int) -> bool:
    """Whether a transaction is open on a replica and on no other, since an unclean election took it from the cluster.

    Another one that the producer has begun since may be open on the others: it begins elsewhere.

    A log that was copied from a cleaned one knows an epoch only from the first record that is left of it. One that
    follows it is cut off there and keeps what it had shown below.
    """
    start = replica.open_transactions().get(producer_id, (0, -1))[1]
    gone = any(b.base <= start <= b.last and b.producer_id == producer_id for b in cluster.lost)
    others = [r for r in cluster.replicas.values() if r is not replica]
    return gone and not any(r.open_transactions().get(producer_id, (0, -1))[1] == start for r in others)


def is_passed_without(cluster: Cluster, replica: Replica, producer_id: int) -> bool:
    """Whether, after an unclean election, another has passed the transaction that is open here and never got it.

    A log that lacks what lies below the first record of its newest epoch is cut off there and not copied anew: it is
    the wrong one, but last stable offsets do differ, and all that can be asked says that the transaction is over there.
    """
    start = replica.open_transactions().get(producer_id, (0, -1))[1]
    others = [r for r in cluster.replicas.values() if r is not replica and r.lso > start >= r.log_start]
    lacking = [r for r in others if r.open_transactions().get(producer_id, (0, r.leo))[1] > start]
    return bool(cluster.lost) and start >= 0 and any(start not in held_offsets(r) for r in lacking)


def is_true(
    cluster: Cluster, kind: str, broker: int, producer_id: int, offset: int, key: int | None, *, lost: bool = True
) -> bool:
    """Whether a finding says what is so in the model at this moment.

    Args:
        cluster: the cluster as it is now.
        kind: the finding's kind.
        broker: the accused.
        producer_id: the producer of the transaction that it names, or -1.
        offset: the record (or the transaction's start) that it names.
        key: the key that it names, where it names one.
        lost: against what all replicas have lost as well, not only against what the cluster's log holds now.
    """
    truth, replica = Truth(cluster.history), cluster.replicas[broker]
    gone = lost_markers(cluster, producer_id, offset) if lost else set()
    if kind in ("marker_missing", "read_committed_frozen") and gone:
        return True
    if kind in ("marker_missing", "read_committed_frozen"):
        missed = any(pid == producer_id for pid, _ in missed_markers(truth, replica))
        passed = passed_over(truth, replica, producer_id) or is_passed_without(cluster, replica, producer_id)
        return missed or passed or holds_lost(cluster, replica, producer_id)
    if kind in ("aborted_record_committed", "committed_record_aborted"):
        end = End.COMMIT if kind == "aborted_record_committed" else End.ABORT
        around = transaction_around(replica, producer_id, offset)
        if End(1 - end) in gone:
            return True
        return any(o in around and wrong is end for o, wrong in wrong_outcomes(truth, replica, ever=True).items())
    if kind in ("log_truncated", "content_mismatch"):
        return any(batch.last >= offset for batch in cluster.lost)
    if key is None:
        elsewhere = any(offset in held_offsets(r) for r in cluster.replicas.values() if r is not replica)
        return kind == "record_missing" and elsewhere and offset not in held_offsets(replica)
    shown = shown_latest(replica, key, replica.lso)
    latest = truth.latest(key, replica.lso)
    if kind == "deleted_record_resurrected":
        deleted = latest[1] is None or (lost and has_lost_tombstone(cluster, key, shown[0]))
        return deleted and shown[1] is not None
    others = [shown_latest(r, key, replica.lso) for r in cluster.replicas.values() if r.up and r is not replica]
    if kind == "record_missing":
        alone = len(others) > 1 and all(value is not None and at > shown[0] for at, value in others)
        return alone or (latest[1] is not None and shown[0] != latest[0])
    differs = any(other != shown and (other[1], shown[1]) != (None, None) for other in others)
    return kind == "visibility_mismatch" and differs


def stands_now(
    cluster: Cluster, kind: str, broker: int, producer_id: int, start: int, offset: int, key: int | None
) -> bool:
    """Whether a divergence that was found can be seen on the accused at this moment.

    Args:
        cluster: a cluster at rest.
        kind: the finding's kind.
        broker: the accused.
        producer_id: of the transaction concerned.
        start: its first offset on the accused.
        offset: the record concerned.
        key: the key concerned.
    """
    truth, replica = Truth(cluster.history), cluster.replicas[broker]
    if kind in ("marker_missing", "read_committed_frozen"):
        return (producer_id, start) in missed_markers(truth, replica) and not hangs_on_all(cluster, producer_id)
    if kind in ("aborted_record_committed", "committed_record_aborted"):
        held = {r.offset for _, r in replica.held(replica.log_start, replica.lso) if r is not None}
        return offset in held and offset in wrong_outcomes(truth, replica)
    if kind == "record_missing" and key is None:
        return replica.log_start <= offset < replica.lso and offset not in held_offsets(replica)
    if kind != "deleted_record_resurrected" or key is None:
        return False
    old = shown_latest(replica, key, replica.lso)
    return old[1] is not None and old[0] < offset and truth.latest(key, replica.lso)[1] is None


def hangs_on_all(cluster: Cluster, producer_id: int) -> bool:
    """Whether no replica has ended the producer's transaction: all logs were copied from one that lacks the marker.

    Then none can be seen to differ from another, and only the coordinator, if it has begun no other one, knows better.
    """
    truth = Truth(cluster.history)
    return all(any(pid == producer_id for pid, _ in missed_markers(truth, r)) for r in cluster.replicas.values())


def has_spread(cluster: Cluster, kind: str, broker: int, offset: int, key: int | None) -> bool:
    """Whether all others show what this one shows wrongly: their logs were copied from a wrong one.

    The divergence is over then, and the finding is resolved; but nothing has healed (docs/theory.md).

    Args:
        cluster: a cluster at rest.
        kind: the finding's kind.
        broker: the accused.
        offset: the record whose outcome is wrong on all others that hold it, or the record or tombstone that all lack.
        key: the key that it names, where it names one.
    """
    truth = Truth(cluster.history)
    others = [r for r in cluster.replicas.values() if r.id != broker]
    if kind == "record_missing":
        return key is None and not any(offset in held_offsets(r) for r in others)
    if kind == "deleted_record_resurrected" and key is not None:
        latest = [shown_latest(r, key, r.lso) for r in others]
        return all(value is not None and at < offset for at, value in latest)
    holders = [r for r in others if offset in held_offsets(r)]
    return bool(holders) and all(offset in wrong_outcomes(truth, r) for r in holders)


def shows_the_truth(cluster: Cluster, broker: int, offset: int) -> bool:
    """Whether a replica holds a record and has its outcome right: what it has wrong was in a log that was cut off."""
    replica = cluster.replicas[broker]
    return offset in held_offsets(replica) and offset not in wrong_outcomes(Truth(cluster.history), replica)


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


def outcomes_differ(cluster: Cluster, offset: int) -> bool:
    """Whether some replica has ever decided the outcome of this record against the truth."""
    truth = Truth(cluster.history)
    if any(lost_markers(cluster, pid, offset) for pid in {b.producer_id for b in cluster.lost if b.marker is not None}):
        return True
    return any(offset in wrong_outcomes(truth, replica, ever=True) for replica in cluster.replicas.values())


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
    """What a replica had been read to show up to ``read_to``, in ``epoch``, before its log was cut off at ``start``."""

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
    """What logs that were cut off had shown."""
    skipped: set[int] = field(default_factory=set)
    """Brokers whose log start passed a reader: part of them was never shown."""


def must_be_found(
    cluster: Cluster, shown: Shown, positions: dict[tuple[int, int], int], *, compacted: bool = True
) -> list[Divergence]:
    """The divergences that stand in the model and whose proof the monitor was shown.

    Args:
        cluster: a cluster at rest: all brokers up and caught up.
        shown: what the monitor's reads returned.
        positions: (view, broker) to the position of that reader.
        compacted: the topic is; if not, every absence is a loss.
    """
    truth = Truth(cluster.history)
    found = [_cut_off(t) for t in shown.taken if _is_noticed(t, cluster.replicas[t.broker])]
    # What is deleted somewhere is not compared any more, and nobody knows what had been before that.
    start = max(r.log_start for r in cluster.replicas.values()) if shown.skipped else 0
    for broker, replica in cluster.replicas.items():
        if broker not in shown.skipped:
            found += _frozen(cluster, truth, replica, shown)
            found += [d for d in _wrong(truth, replica, shown) if max(d.offsets) >= start]
            if compacted:
                found += _resurrected(cluster, truth, replica, shown, positions)
            else:
                found += _lacking(cluster, truth, replica, shown)
    return found


def _cut_off(taken: Taken) -> Divergence:
    return Divergence(frozenset({"log_truncated"}), taken.broker, -1, frozenset(range(taken.start, taken.read_to)))


def _is_noticed(taken: Taken, replica: Replica) -> bool:
    """Whether the log tells that it is another: a newer epoch begins below, and it has not grown to just there."""
    newer = [start for epoch, start in replica.epochs if epoch > taken.epoch]
    return bool(newer) and min(newer) < taken.read_to != replica.leo


def held_offsets(replica: Replica) -> set[int]:
    """The offsets of the records that a replica holds and shows to read_committed consumers."""
    return {record.offset for _, record in replica.held(replica.log_start, replica.lso) if record is not None}


def _lacking(cluster: Cluster, truth: Truth, replica: Replica, shown: Shown) -> list[Divergence]:
    """Records that this replica never showed and does not hold, and that another showed and holds still."""
    start = max(r.log_start for r in cluster.replicas.values())
    mine = held_offsets(replica) | _visible(shown, replica.id)
    found = []
    for offset in range(start, min(r.lso for r in cluster.replicas.values())):
        witnesses = [
            b for b, r in cluster.replicas.items() if offset in _visible(shown, b) and offset in held_offsets(r)
        ]
        if offset < shown.known_from:
            continue
        if offset in truth.written and truth.committed(offset) and offset not in mine and witnesses:
            transaction = truth.of_offset.get(offset)
            producer = -1 if transaction is None else transaction.producer_id
            found.append(Divergence(frozenset({"record_missing"}), replica.id, producer, frozenset({offset})))
    return found


def _visible(shown: Shown, broker: int) -> set[int]:
    return {offset for records in shown.visible.get(broker, {}).values() for offset, _ in records}


def _frozen(cluster: Cluster, truth: Truth, replica: Replica, shown: Shown) -> list[Divergence]:
    """Transactions that pin a replica; one from below a log start only where its end marker was shown (theory, I4)."""
    others = max(r.lso for r in cluster.replicas.values() if r.id != replica.id)
    start = max(r.log_start for r in cluster.replicas.values())
    known = {first for d in _unmarked(truth, replica, shown) for first in d.offsets}
    return [
        Divergence(frozenset({"read_committed_frozen"}), replica.id, pid, frozenset({first}))
        for pid, first in missed_markers(truth, replica)
        if replica.lso == first < others and (first >= start or first in known)
    ]


def must_be_found_early(cluster: Cluster, shown: Shown) -> list[Divergence]:
    """The missed end markers that are found by their absence, before anything has stood still for long."""
    truth = Truth(cluster.history)
    return [d for replica in cluster.replicas.values() for d in _unmarked(truth, replica, shown)]


def _unmarked(truth: Truth, replica: Replica, shown: Shown) -> list[Divergence]:
    """Markers that another replica was read to show, of transactions that were read to be open on this one."""
    markers = {m for b, seen in shown.markers.items() if b != replica.id for m in seen}
    begun = shown.transactional.get(replica.id, set()) if replica.id not in shown.skipped else set()
    return [
        Divergence(frozenset({"marker_missing", "read_committed_frozen"}), replica.id, pid, frozenset({first}))
        for (pid, first), t in missed_markers(truth, replica).items()
        if (pid, t.marker) in markers and (pid, first) in begun and first >= shown.known_from
    ]


def _wrong(truth: Truth, replica: Replica, shown: Shown) -> list[Divergence]:
    mine = shown.outcomes.get(replica.id, {})
    found: dict[int, set[int]] = {}
    wrong = wrong_outcomes(truth, replica)
    for offset, end in wrong.items():
        proven = any(seen.get(offset, end) is not end for b, seen in shown.outcomes.items() if b != replica.id)
        if mine.get(offset) is end and proven and truth.of_offset[offset].first >= shown.known_from:
            found.setdefault(truth.of_offset[offset].first, set()).add(offset)
    return [
        Divergence(
            frozenset(
                {"aborted_record_committed" if wrong[min(offsets)] is End.COMMIT else "committed_record_aborted"}
            ),
            replica.id,
            truth.of_offset[first].producer_id,
            frozenset(transaction_around(replica, truth.of_offset[first].producer_id, first)),
            undirected=not _is_proven(truth.of_offset[first], replica, shown),
        )
        for first, offsets in found.items()
    ]


def _is_proven(transaction: Transaction, replica: Replica, shown: Shown) -> bool:
    """Whether the end markers were shown: the true one by another replica, by this one what it took for it."""
    pid, true = transaction.producer_id, (transaction.producer_id, transaction.marker)
    around = [e for e in replica.ended if e.producer_id == pid and e.first <= transaction.first <= e.marker]
    wrong = {(pid, e.marker) for e in around}
    told = any(true in seen for b, seen in shown.markers.items() if b != replica.id)
    return told and bool(wrong & shown.markers.get(replica.id, set()))


def transaction_around(replica: Replica, producer_id: int, offset: int) -> range:
    """The offsets, first to marker, of the transaction that the replica believes an offset to belong to."""
    for ended in replica.ended + replica.past:
        if ended.producer_id == producer_id and ended.first <= offset <= ended.marker:
            return range(ended.first, ended.marker + 1)
    return range(offset, offset + 1)


def _resurrected(
    cluster: Cluster, truth: Truth, replica: Replica, shown: Shown, positions: dict[tuple[int, int], int]
) -> list[Divergence]:
    bound = min(min(r.lso for r in cluster.replicas.values()), positions[1, replica.id])
    start = max(r.log_start for r in cluster.replicas.values())
    wrong = {o for r in cluster.replicas.values() for o in wrong_outcomes(truth, r)}
    pending = any(missed_markers(truth, r) for r in cluster.replicas.values())
    found = []
    for key, records in truth.records.items():
        if pending or any(o in wrong for o, _ in records):
            continue
        offset, value = truth.latest(key, bound)
        old = shown_latest(replica, key, bound)
        if offset < shown.known_from or value is not None or old[1] is None or old[0] < start:
            continue
        if any((offset, None) in seen.get(key, []) for b, seen in shown.visible.items() if b != replica.id):
            kinds = {"deleted_record_resurrected"}
            deleted = sum(
                shown_latest(r, key, bound)[1] is None for r in cluster.replicas.values() if r.id != replica.id
            )
            if offset in truth.of_offset and deleted == 1:
                kinds.add("visibility_mismatch")  # One witness of a transaction may have its outcome wrong.
            found.append(Divergence(frozenset(kinds), replica.id, key=key))
    return found
