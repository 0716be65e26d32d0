"""A live probe of a suspect: the model's replicas answer, the product decides.

The answers hold no more than a client can ask: pinned reads, high watermarks, last stable offsets, aborted lists and
open transactions of each replica, and the coordinator's word.
"""

from __future__ import annotations

from parallax.findings.answers import (
    ABORTED,
    COMMITTED,
    Answers,
    CoordinatorAnswer,
    KeyShown,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, decide
from tests.simulation.content import content_hash, key_halves, key_of_halves, value_size
from tests.simulation.model import Batch, Cluster, End, Record, Replica


def probe(cluster: Cluster, claim: Claim) -> Decision:
    """Ask every replica at one moment, and judge."""
    replicas = {broker: _answer(replica, claim) for broker, replica in cluster.replicas.items()}
    return decide(claim, Answers(replicas, cluster.leader, _coordinator(cluster, claim), asked_at_ms=cluster.now))


def _answer(replica: Replica, claim: Claim) -> ReplicaAnswer:
    if not replica.up:
        return ReplicaAnswer(replica.id, error="connection refused")
    at, marker = claim.first_offset, claim.marker_offset
    return ReplicaAnswer(
        replica.id,
        high_watermark=replica.hw,
        last_stable_offset=replica.lso,
        log_start_offset=replica.log_start,
        log_end_offset=replica.leo,
        committed=_records(replica, at, replica.lso),
        uncommitted=_records(replica, at, replica.hw),
        markers=tuple(
            MarkerShown(batch.base, batch.producer_id, "commit" if batch.marker is End.COMMIT else "abort")
            for batch, record in replica.held(marker, min(marker + 1, replica.hw))
            if record is None
        ),
        aborted=tuple((a.producer_id, a.first) for a in replica.aborted if a.last >= at and a.last < replica.lso),
        open_transactions=tuple(
            OpenTransaction(pid, first, epoch) for pid, (epoch, first) in replica.open_transactions().items()
        ),
        key=_key(replica, claim),
    )


def _records(replica: Replica, offset: int, bound: int) -> dict[int, RecordShown]:
    return {
        record.offset: _shown(replica, batch, record)
        for batch, record in replica.held(max(offset, replica.log_start), min(offset + 1, bound))
        if record is not None
    }


def _shown(replica: Replica, batch: Batch, record: Record) -> RecordShown:
    outcome = "none"
    if batch.transactional:
        outcome = ABORTED if replica.is_aborted(batch.producer_id, record.offset) else COMMITTED
    hi, lo = key_halves(record.key)
    return RecordShown(
        record.offset,
        outcome,
        batch.timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.leader_epoch,
        f"{hi:016x}{lo:016x}",
        f"{content_hash(record.value):016x}",
        1,
        value_size(record.value),
    )


def _key(replica: Replica, claim: Claim) -> KeyShown | None:
    if claim.key is None:
        return None
    key = key_of_halves(*claim.key)
    records = [
        _shown(replica, batch, record)
        for batch, record in replica.held(replica.log_start, replica.lso)
        if record is not None and record.key == key
    ]
    visible = [r for r in records if r.outcome != ABORTED]
    return KeyShown(visible[-1] if visible else None, True, records[-1].offset if records else -1)


def _coordinator(cluster: Cluster, claim: Claim) -> CoordinatorAnswer | None:
    """The coordinator's state: it is done once the marker is below the leader's high watermark."""
    if claim.producer_id < 0:
        return None
    mine = [b for b in cluster.history if b.producer_id == claim.producer_id]
    if not mine:
        return None
    last = mine[-1]
    if last.marker is None:
        return CoordinatorAnswer(claim.producer_id, "t", "Ongoing")
    name = "Commit" if last.marker is End.COMMIT else "Abort"
    done = last.base < cluster.leading.hw
    return CoordinatorAnswer(claim.producer_id, "t", ("Complete" if done else "Prepare") + name)
