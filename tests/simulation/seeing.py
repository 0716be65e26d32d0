"""What the simulated readers and a look at a simulated replica say, as evidence of `parallax.evidence`."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from parallax.evidence.atoms import End, Ended, EpochEnd, Fact, Look, Place, Reading, Stable
from parallax.evidence.ledger import Ledger
from parallax.model import Outcome, ReadEvent, RowKind
from tests.simulation import records
from tests.simulation.cluster import Cluster
from tests.simulation.content import content_hash, key_of_halves
from tests.simulation.readers import PROGRESS, RC, RU, Row
from tests.simulation.replica import Replica

ENDS = {records.End.COMMIT: End.COMMIT, records.End.ABORT: End.ABORT}
_MARKERS = {RowKind.COMMIT: End.COMMIT, RowKind.ABORT: End.ABORT}


class Reports:
    """Takes what readers report into a ledger, row by row; keys in the form that ``key_of`` gives their halves."""

    def __init__(self, ledger: Ledger, key_of: Callable[[int, int], Hashable] = key_of_halves) -> None:
        self.ledger = ledger
        self._key_of = key_of
        self._undated: dict[int, dict[Place, End]] = {}
        """By broker: outcomes that were read, before the position row that says how far."""
        self._read_from: dict[tuple[int, int], int] = {}
        self._read_in: dict[tuple[int, int], int] = {}

    def begin(self, positions: dict[tuple[int, int], int]) -> None:
        """Readers begin at these positions, by view and broker."""
        self._read_from.update(positions)

    def take(self, view: int, broker: int, row: Row, now: int) -> None:
        """Take in one row of a view, or of progress."""
        if view == PROGRESS:
            self._progress(broker, row)
        elif row["kind"] == RowKind.POSITION:
            self._position(view, broker, row)
        elif row["kind"] not in (RowKind.LISTED, RowKind.EMPTIED):  # A look shows them.
            fact = self._fact(row)
            self.ledger.fact(fact, broker, now)
            if view == RC and fact.transactional:
                end = End.ABORT if row["outcome"] == Outcome.ABORTED else End.COMMIT
                self._undated.setdefault(broker, {})[fact.place] = end

    def _progress(self, broker: int, row: Row) -> None:
        if row["reachable"]:
            self.ledger.started(broker, row["log_start_offset"], row["log_end_offset"])
            if row["leader"] == broker:
                self.ledger.led(row["observed_at"], row["high_watermark"])

    def _position(self, view: int, broker: int, row: Row) -> None:
        offset, epoch, event = row["offset"], row["leader_epoch"], row["event"]
        if event == ReadEvent.OK:
            if view == RC:
                for place, end in self._undated.pop(broker, {}).items():
                    self.ledger.ended(broker, place, Ended(end, offset, epoch))
            start = self._read_from.get((view, broker), offset)
            self.ledger.read(broker, Reading(start, offset, row["timestamp"], epoch))
            if view == RU and row.get("high_watermark") == offset:
                self.ledger.is_stable(Stable(row["log_start_offset"], row["last_stable_offset"], offset, epoch))
        elif event == ReadEvent.LOG_TRUNCATED:
            read_in = epoch if epoch >= 0 else self._read_in.get((view, broker), -1)
            self.ledger.replaced(broker, offset, *([read_in] if read_in >= 0 else []))
        elif event == ReadEvent.NOT_HOSTED:
            self.ledger.replaced(broker)
        self._read_from[view, broker] = offset
        if epoch >= 0:
            self._read_in[view, broker] = epoch

    def _fact(self, row: Row) -> Fact:
        place, producer = Place(row["offset"], row["leader_epoch"]), row["producer_id"]
        if row["kind"] != RowKind.RECORD:
            return Fact(place, producer, end=_MARKERS[RowKind(row["kind"])], producer_epoch=row["producer_epoch"])
        key = self._key_of(row["key_hash_hi"], row["key_hash_lo"]) if row["key_size"] >= 0 else None
        value = None if row["value_size"] < 0 else row["content_hash"]
        return Fact(place, producer, row["outcome"] != Outcome.NONE, None, key, value, row["producer_epoch"])


def look_at(cluster: Cluster, broker: int) -> Look | None:
    """All that a client can ask one replica for; None where it does not answer."""
    replica = cluster.replicas.get(broker)
    if replica is None or not replica.up:
        return None
    facts, outcomes = _held(replica)
    asked = range(cluster.leader_epoch + 1)
    return Look(
        broker=broker,
        at=cluster.now,
        log_start=replica.log_start,
        high_watermark=replica.hw,
        last_stable=replica.lso,
        log_end=replica.leo,
        open={producer: first for producer, (_, first) in replica.open_transactions().items()},
        facts=facts,
        outcomes=outcomes,
        listed=frozenset(
            (entry.producer_id, entry.first)
            for entry in replica.aborted
            if replica.log_start <= entry.first < replica.lso
        ),
        tops=tuple(Place(batch.last, batch.leader_epoch) for batch in replica.batches if batch.last < replica.hw),
        ends={epoch: None if (end := replica.epoch_end(epoch)) is None else EpochEnd(*end) for epoch in asked},
        latest_epoch=replica.epochs[-1][0] if replica.epochs else -1,
    )


def _held(replica: Replica) -> tuple[dict[Place, Fact], dict[Place, End]]:
    """The records and end markers that consumers of a replica are shown, and the outcomes of the records."""
    facts: dict[Place, Fact] = {}
    outcomes: dict[Place, End] = {}
    for batch, record in replica.held(replica.log_start, replica.hw):
        if record is None:
            assert batch.marker is not None
            place = Place(batch.base, batch.leader_epoch)
            facts[place] = Fact(place, batch.producer_id, end=ENDS[batch.marker], producer_epoch=batch.producer_epoch)
            continue
        place = Place(record.offset, batch.leader_epoch)
        value = None if record.value is None else content_hash(record.value)
        facts[place] = Fact(
            place, batch.producer_id, batch.transactional, None, record.key, value, batch.producer_epoch
        )
        if batch.transactional and record.offset < replica.lso:
            is_aborted = replica.is_aborted(batch.producer_id, record.offset)
            outcomes[place] = End.ABORT if is_aborted else End.COMMIT
    return facts, outcomes
