"""Which replica is wrong, by the truth alone: every acknowledged record and end marker, in offset order, never cleaned.

A replica is wrong where what a consumer ends up with that reads it from its beginning differs from what it would end
up with from the truth. Nothing here knows what the product looks for, or how: loops over logs, and dicts.

What is compared begins at the largest log start that DeleteRecords explains, and ends where the replica's consumers
are: a replica that is still catching up is not wrong in a key that the truth writes again further up, for the cleaner
of the log that it copies may have taken the record that it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.cluster import Cluster
from tests.simulation.records import Batch, End, Record
from tests.simulation.replica import Replica

Key = int | None
Shown = dict[Key, tuple[int, int | None]]
"""Key to the offset and the value of the latest record of it that a consumer got."""


@dataclass(slots=True)
class Transaction:
    """A transaction of the truth; ``end`` and ``marker`` are None while it is open."""

    producer_id: int
    first: int
    offsets: list[int] = field(default_factory=list)
    end: End | None = None
    marker: int | None = None


class Truth:
    """The truth, read once: every record with its transaction, and every end marker."""

    def __init__(self, history: list[Batch], end: int) -> None:
        self.records: list[tuple[Record, Transaction | None]] = []
        self.of_offset: dict[int, tuple[Record, Transaction | None]] = {}
        self.transactions: list[Transaction] = []
        self.markers: dict[int, tuple[int, End]] = {}
        self.written_at: dict[int, int] = {}
        self.latest: dict[Key, int] = {}
        """The offset of the last record of each key that a cleaner may have let supersede others.

        Committed, or of no transaction, and below the first transaction that is open: cleaners go no further.
        """
        now_open: dict[int, Transaction] = {}
        for batch in history:
            if batch.marker is not None:
                self.markers[batch.base] = batch.producer_id, batch.marker
                self.written_at[batch.base] = batch.timestamp
                done = now_open.pop(batch.producer_id, None)
                if done is not None:
                    done.end, done.marker = batch.marker, batch.base
                continue
            transaction = None
            if batch.transactional:
                transaction = now_open.get(batch.producer_id)
                if transaction is None:
                    transaction = now_open[batch.producer_id] = Transaction(batch.producer_id, batch.base)
                    self.transactions.append(transaction)
            for record in batch.records:
                self.records.append((record, transaction))
                self.of_offset[record.offset] = record, transaction
                self.written_at[record.offset] = batch.timestamp
                if transaction is not None:
                    transaction.offsets.append(record.offset)
        stable = self.stable_below(end, 0)
        for record, transaction in self.records:
            if record.offset < stable and (transaction is None or transaction.end is End.COMMIT):
                self.latest[record.key] = record.offset

    def end_of(self, offset: int) -> End | None:
        """How the transaction of a record ended; None where it is of none, or open."""
        transaction = self.of_offset[offset][1] if offset in self.of_offset else None
        return None if transaction is None else transaction.end

    def stable_below(self, end: int, start: int) -> int:
        """How far a read_committed consumer comes below ``end``; what began below ``start`` stops nobody."""
        for transaction in self.transactions:
            if transaction.first >= end:
                break
            if transaction.first >= start and (transaction.marker is None or transaction.marker >= end):
                return transaction.first
        return end


@dataclass(frozen=True, slots=True)
class Span:
    """A transaction as a replica has it: from its first record there to its end marker, or to the log end if open."""

    producer_id: int
    first: int
    end: int

    def holds(self, producer_id: int, offset: int) -> bool:
        """Whether an offset of this producer lies in it."""
        return self.producer_id == producer_id and self.first <= offset <= self.end


@dataclass(frozen=True)
class Wrong:
    """In what a replica is wrong.

    Attributes:
        keys: those whose value differs at the end for read_committed or read_uncommitted consumers. Where nothing is
            compacted, each record counts by itself, and there are none.
        unlike: all such keys, and those where the same value comes from another record.
        offsets: of records that it lacks although nothing may be gone, or that the truth does not have there.
        turned: by transaction of the replica, the records whose outcome is not the true one.
        hanging: transactions that the replica holds open and the truth has ended.
        stops_at: where its read_committed consumers stop although the truth goes on; None where they do not.
    """

    keys: frozenset[Key] = frozenset()
    unlike: frozenset[Key] = frozenset()
    offsets: frozenset[int] = frozenset()
    turned: tuple[tuple[Span, frozenset[int]], ...] = ()
    hanging: frozenset[Span] = frozenset()
    stops_at: int | None = None

    def __bool__(self) -> bool:
        return bool(
            self.keys or self.unlike or self.offsets or self.turned or self.hanging or self.stops_at is not None
        )

    @property
    def spans(self) -> list[Span]:
        """The transactions concerned, as the replica has them."""
        return [span for span, _ in self.turned] + sorted(self.hanging, key=lambda s: s.first)


RIGHT = Wrong()


def truth_of(cluster: Cluster) -> Truth:
    """The truth of a cluster at this moment."""
    return Truth(cluster.history, cleaned_to(cluster))


def cleaned_to(cluster: Cluster) -> int:
    """How far a cleaner of the log that is written now may have come: the highest high watermark in that log.

    Of a log that an unclean election has replaced, what lies beyond the place where the two part is of another log: no
    cleaner has let anything that is written there now supersede what a replica lacks.
    """
    return max(min(replica.hw, _shared_to(cluster, b)) for b, replica in cluster.replicas.items())


def _shared_to(cluster: Cluster, broker: int) -> int:
    """Up to where a replica's log is the one that is written now; one that has followed the leader holds nothing else.

    By the leader epochs of what was written.
    """
    replica = cluster.replicas[broker]
    if not cluster.is_split or broker == cluster.leader or cluster.follower_epoch.get(broker) == cluster.leader_epoch:
        return replica.leo
    other = (batch.base for batch in cluster.history if epoch_at(replica, batch.base) != batch.leader_epoch)
    return min(other, default=replica.leo)


def epoch_at(log: Replica, offset: int) -> int:
    """The leader epoch in which a log has, or had, what is at an offset."""
    return max((epoch for epoch, start in log.epochs if start <= offset), default=-1)


def compared_from(cluster: Cluster, *, up: bool = False) -> int:
    """The largest log start that something explains; with ``up``, of the replicas that are up."""
    known = (r.log_start for r in cluster.replicas.values() if r.log_start <= cluster.deleted_to and (r.up or not up))
    return max(known, default=0)


def judge(cluster: Cluster, compacted: bool) -> dict[int, Wrong]:
    """By broker, in what its replica is wrong now; right ones are left out.

    Args:
        cluster: at any moment.
        compacted: the topic is, so that a record may be gone where a later one of its key is left.
    """
    truth, start = truth_of(cluster), compared_from(cluster)
    found = {b: wrong_in(truth, replica, start, compacted) for b, replica in cluster.replicas.items()}
    return {b: wrong for b, wrong in found.items() if wrong}


class Remembering:
    """What `judge` says of one cluster, moment after moment.

    The truth is read again only where the history has changed, and a replica judged again only where the truth has, or
    what the replica is judged by.
    """

    def __init__(self) -> None:
        self._history: list[Batch] = []
        self._truth = Truth([], 0)
        self._end = 0
        self._judged: dict[int, tuple[tuple[object, ...], Wrong]] = {}

    def judge(self, cluster: Cluster, compacted: bool) -> dict[int, Wrong]:
        """The same as the function of this name, of the same cluster each time."""
        end = cleaned_to(cluster)
        if end != self._end or cluster.history != self._history:
            self._end, self._history, self._truth = end, list(cluster.history), Truth(cluster.history, end)
        start, found = compared_from(cluster), {}
        for broker, replica in cluster.replicas.items():
            picture = self._truth, start, compacted, *_picture(replica)
            known = self._judged.get(broker)
            if known is None or known[0] != picture:
                known = self._judged[broker] = picture, wrong_in(self._truth, replica, start, compacted)
            if known[1]:
                found[broker] = known[1]
        return found


def _picture(replica: Replica) -> tuple[object, ...]:
    """All that `wrong_in` reads of a replica, as it is now."""
    offsets = replica.leo, replica.hw, replica.lso, replica.log_start
    logs = list(replica.batches), list(replica.aborted), list(replica.ended)
    return *offsets, *logs, frozenset(replica.copied), replica.open_transactions()


def wrong_in(truth: Truth, replica: Replica, start: int, compacted: bool) -> Wrong:
    """In what one replica is wrong, from ``start`` on."""
    stable = replica.lso
    keys: set[Key] = set()
    unlike: set[Key] = set()
    offsets = _foreign(truth, replica, start)
    for committed in (True, False):
        bound = stable if committed else replica.hw
        mine = _read(replica, start, bound, committed)
        differing = _compare_keys(truth, mine, start, bound, committed)
        if not committed:
            rest = _compare_keys(truth, _without_aborted(truth, mine), start, bound, committed)
            differing = {key: other and rest[key] for key, other in differing.items() if key in rest}
        unlike |= differing.keys()
        if compacted:
            keys |= {key for key, is_other_value in differing.items() if is_other_value}
        else:
            offsets |= _lacking(truth, mine, start, bound, committed)
    hanging = _hanging(truth, replica)
    true_end = truth.stable_below(replica.hw, start)
    stops_at = stable if stable < true_end and hanging and not _stands_rightly(replica, hanging) else None
    turned = turned_in(truth, replica, start, stable)
    if not (keys or unlike or offsets or turned or hanging or stops_at is not None):
        return RIGHT
    return Wrong(frozenset(keys), frozenset(unlike), frozenset(offsets), turned, hanging, stops_at)


def _read(replica: Replica, start: int, bound: int, committed: bool) -> dict[int, Record]:
    """What a consumer gets of a replica, by offset."""
    got: dict[int, Record] = {}
    start = max(start, replica.log_start)
    for batch in replica.batches:
        if batch.last < start or batch.base >= bound or not batch.records:
            continue
        for record in batch.records:
            if not start <= record.offset < bound:
                continue
            if committed and batch.transactional and replica.is_aborted(batch.producer_id, record.offset):
                continue
            got[record.offset] = record
    return got


def values_shown(replica: Replica, key: Key, start: int) -> tuple[int | None, ...]:
    """The latest value of a key to consumers of a replica in read_committed, and of all but what it has aborted."""
    return tuple(_latest(_read(replica, start, end, True)).get(key, (-1, None))[1] for end in (replica.lso, replica.hw))


def newest_shown(replica: Replica, key: Key) -> int:
    """The offset of the record of a key that a replica's consumers end up with, the lower one of both; -1 for none."""
    return min(_newest(replica, key, replica.lso, committed=True), newest_uncommitted(replica, key))


def newest_uncommitted(replica: Replica, key: Key) -> int:
    """The same of its read_uncommitted consumers alone, whom no open transaction holds up."""
    return _newest(replica, key, replica.hw, committed=False)


def _newest(replica: Replica, key: Key, end: int, *, committed: bool) -> int:
    return _latest(_read(replica, 0, end, committed)).get(key, (-1, None))[0]


def shows_superseded(truth: Truth, replica: Replica, key: Key, start: int) -> bool:
    """Whether a replica's read_committed consumers end up with a value that was superseded where they have come by.

    What superseded it may be superseded itself further up, where they do not come: a copy of a cleaned log shows that
    for a while, and it is no fault of it (`_compare_keys`). Who says so of a replica that stands there is not mistaken.
    """
    offset, value = _latest(_read(replica, start, replica.lso, True)).get(key, (-1, None))
    true = _true_records(truth, {}, start, replica.lso, True)
    return value is not None and any(record.key == key for later, record in true.items() if later > offset)


def _true_records(truth: Truth, got: dict[int, Record], start: int, bound: int, committed: bool) -> dict[int, Record]:
    """What a consumer gets of the truth: a read_uncommitted one may get what was aborted, or not.

    The truth is taken to show of that what the replica shows: a consumer that it gives an aborted record is misled by
    the others only.
    """
    true = {}
    for record, transaction in truth.records:
        if not start <= record.offset < bound:
            continue
        end = None if transaction is None else transaction.end
        if end is End.ABORT and (committed or record.offset not in got):
            continue
        if committed and transaction is not None and end is not End.COMMIT:
            continue
        true[record.offset] = record
    return true


def _latest(records: dict[int, Record]) -> Shown:
    return {record.key: (offset, record.value) for offset, record in records.items()}


def _without_aborted(truth: Truth, got: dict[int, Record]) -> dict[int, Record]:
    """What a consumer gets but for what was aborted.

    A read_uncommitted one may get that or not: a difference that is there in one of the two cases alone is none.
    """

    def is_aborted(record: Record) -> bool:
        known = truth.of_offset.get(record.offset)
        return known is not None and known[0] == record and truth.end_of(record.offset) is End.ABORT

    return {offset: record for offset, record in got.items() if not is_aborted(record)}


def _compare_keys(truth: Truth, got: dict[int, Record], start: int, bound: int, committed: bool) -> dict[Key, bool]:
    """The keys whose latest records differ, each with whether the values do."""
    differing = {}
    mine, true = _latest(got), _latest(_true_records(truth, got, start, bound, committed))
    nothing = (-1, None)
    for key in mine.keys() | true.keys():
        shown, should = mine.get(key, nothing), true.get(key, nothing)
        if shown == should or (shown[1] is None and should[1] is None) or truth.latest.get(key, -1) >= bound:
            continue
        differing[key] = shown[1] != should[1]
    return differing


def records_of(truth: Truth, replica: Replica, start: int, key: Key) -> set[int]:
    """The offsets of the latest records of a key that consumers of a replica get, and that they should get."""
    found = set()
    for committed in (True, False):
        bound = replica.lso if committed else replica.hw
        mine = _read(replica, start, bound, committed)
        for records in (mine, _without_aborted(truth, mine), _true_records(truth, mine, start, bound, committed)):
            latest = max((offset for offset, record in records.items() if record.key == key), default=None)
            found |= set() if latest is None else {latest}
    return found


def _lacking(truth: Truth, got: dict[int, Record], start: int, bound: int, committed: bool) -> set[int]:
    true = _true_records(truth, got, start, bound, committed)
    return {o for o in true.keys() | got.keys() if true.get(o) != got.get(o)}


def _foreign(truth: Truth, replica: Replica, start: int) -> set[int]:
    """Offsets at which the replica shows a record or a marker that the truth has not there."""
    found = set()
    for batch in replica.batches:
        if batch.last < start or batch.base >= replica.hw:
            continue
        if batch.marker is not None and truth.markers.get(batch.base) != (batch.producer_id, batch.marker):
            found.add(batch.base)
        for record in batch.records:
            true = truth.of_offset.get(record.offset)
            if record.offset < replica.hw and (true is None or true[0] != record):
                found.add(record.offset)
    return found


def _hanging(truth: Truth, replica: Replica) -> frozenset[Span]:
    """Open on the replica beyond where the truth has ended it, or never in the truth at all."""
    found = set()
    for producer_id, (_, first) in replica.open_transactions().items():
        mine = [t for t in truth.transactions if t.producer_id == producer_id]
        around = [t for t in mine if t.first <= first and (t.marker is None or first < t.marker)]
        ended = any(t.marker is not None and t.marker < replica.leo for t in around)
        if ended or not around:
            found.add(Span(producer_id, first, replica.leo))
    return frozenset(found)


def _stands_rightly(replica: Replica, hanging: frozenset[Span]) -> bool:
    """Whether a replica's consumers would get no further without the transactions that hang there.

    One that is open in truth, and began below the log start, holds them there.
    """
    held = {
        p: first for p, (_, first) in replica.open_transactions().items() if Span(p, first, replica.leo) not in hanging
    }
    return any(max(first, replica.log_start) <= replica.lso for first in held.values())


def turned_in(truth: Truth, replica: Replica, start: int, stable: int) -> tuple[tuple[Span, frozenset[int]], ...]:
    """Transactions that the replica has ended, or shows as ended, otherwise than the truth."""
    found: dict[Span, set[int]] = {}
    for ended in replica.ended:
        if ended.marker >= replica.hw and truth.markers.get(ended.marker) != (ended.producer_id, ended.end):
            continue  # It was never replicated: no consumer was shown it, and a new leader has it truncated.
        span = Span(ended.producer_id, ended.first, ended.marker)
        for transaction in truth.transactions:
            if transaction.producer_id == ended.producer_id and transaction.end is not ended.end:
                mine = (o for o in transaction.offsets if max(start, ended.first) <= o <= ended.marker)
                found.setdefault(span, set()).update(replica.copied.intersection(mine))
    for batch, record in replica.held(max(start, replica.log_start), stable):
        transaction = None if record is None else truth.of_offset.get(record.offset, (None, None))[1]
        if record is None or transaction is None or not batch.transactional:
            continue
        shown = End.ABORT if replica.is_aborted(batch.producer_id, record.offset) else End.COMMIT
        if shown is not transaction.end:
            found.setdefault(_span_of(replica, batch.producer_id, record.offset), set()).add(record.offset)
    wrong = [(span, frozenset(offsets)) for span, offsets in found.items() if offsets]
    return tuple(sorted(wrong, key=lambda f: (f[0].first, f[0].producer_id)))


def _span_of(replica: Replica, producer_id: int, offset: int) -> Span:
    """The transaction that the replica takes an offset to be of."""
    for ended in replica.ended:
        if ended.producer_id == producer_id and ended.first <= offset <= ended.marker:
            return Span(producer_id, ended.first, ended.marker)
    return Span(producer_id, offset, offset)
