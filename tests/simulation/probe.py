"""A live probe of a suspect: the model's replicas answer one after another, the product decides.

The answers hold no more than a client can ask: pinned reads, high watermarks, last stable offsets, aborted lists and
open transactions of each replica, and the coordinator's word. They are asked in the order of
``parallax.findings.probe``, and the cluster may move on between any two questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from parallax.compare.suspect import KEY_KINDS, TRANSACTION_KINDS
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
from tests.simulation.content import content_hash, key_halves, key_of_halves, key_size, value_size
from tests.simulation.model import Batch, Cluster, End, Record, Replica


def probe(
    cluster: Cluster, claim: Claim, between: Callable[[], None] = lambda: None, *, live_only: bool = False
) -> Decision:
    """Ask every replica about a claim, and judge.

    Args:
        cluster: the cluster to ask.
        claim: what is claimed of which replica.
        between: called between questions; lets the cluster move on.
        live_only: the claim is a finding that is checked again.
    """
    if claim.broker not in cluster.replicas:
        gone = f"broker {claim.broker} holds no replica any more"
        return decide(claim, Answers({}, cluster.leader, gone=gone), live_only=live_only)
    # The metadata and the coordinator are asked first, as by the product's probe.
    leader, isr, coordinator = cluster.leader, tuple(sorted(cluster.isr)), _coordinator(cluster, claim)
    answers = Answers(_rounds(cluster, claim, between), leader, coordinator, asked_at_ms=cluster.now, isr=isr)
    return decide(claim, answers, live_only=live_only)


def _rounds(cluster: Cluster, claim: Claim, between: Callable[[], None]) -> dict[int, ReplicaAnswer]:
    """The others, then the accused; about a key, the accused before the others, and again where it shows a value."""

    def ask(broker: int, keys: bool) -> ReplicaAnswer:
        between()
        return _answer(cluster.replicas[broker], claim, between, keys=keys)

    others = [b for b in cluster.replicas if b != claim.broker]
    if claim.kind not in KEY_KINDS or claim.key is None:
        answers = {b: ask(b, keys=False) for b in others}
        accused = answers[claim.broker] = ask(claim.broker, keys=False)
        if not _has_lost_its_record(claim, accused):
            return answers
    before = ask(claim.broker, keys=True)
    answers = {b: ask(b, keys=True) for b in others}
    shows = before.key is not None and before.key.live is not None
    answers[claim.broker] = ask(claim.broker, keys=True) if shows else before
    return answers


def _has_lost_its_record(claim: Claim, accused: ReplicaAnswer) -> bool:
    return (
        claim.kind in TRANSACTION_KINDS
        and claim.key is not None
        and accused.error is None
        and not accused.holds_open(claim.producer_id, claim.transaction_start_offset)
        and claim.first_offset not in accused.committed
    )


def _answer(replica: Replica, claim: Claim, between: Callable[[], None], *, keys: bool) -> ReplicaAnswer:
    """Ask one replica: its watermarks first, then what is judged against them."""
    down = ReplicaAnswer(replica.id, error="connection refused")
    if not replica.up:
        return down
    hw, lso, log_start, leo = replica.hw, replica.lso, replica.log_start, replica.leo
    between()
    opened = tuple(OpenTransaction(pid, first, epoch) for pid, (epoch, first) in replica.open_transactions().items())
    between()
    wanted = [claim.offset, claim.transaction_start_offset]
    committed = {o: r for offset in wanted for o, r in _records(replica, offset, lso).items()}
    between()
    uncommitted = {o: r for offset in wanted for o, r in _records(replica, offset, hw).items()}
    markers = tuple(
        MarkerShown(batch.base, batch.producer_id, "commit" if batch.marker is End.COMMIT else "abort")
        for offset in sorted({*wanted, claim.marker_offset})
        for batch, record in replica.held(max(offset, replica.log_start), min(offset + 1, hw))
        if record is None
    )
    between()
    start = claim.transaction_start_offset if claim.transaction_start_offset >= 0 else claim.offset
    listed = start <= leo and start >= log_start
    aborted = tuple((a.producer_id, a.first) for a in replica.aborted if listed and a.last >= start)
    between()
    key = _key(replica, claim, lso) if keys else None
    if not replica.up:
        return down
    return ReplicaAnswer(
        replica.id,
        high_watermark=hw,
        last_stable_offset=lso,
        log_start_offset=log_start,
        log_end_offset=leo,
        committed=committed,
        asked=frozenset(o for o in wanted if log_start <= o < lso),
        uncommitted=uncommitted,
        markers=markers,
        aborted=tuple(a for a in aborted if a[0] == claim.producer_id),
        open_transactions=opened,
        key=key,
        epoch_ends=_epoch_ends(replica, claim.lost_epoch),
    )


def _epoch_ends(replica: Replica, epoch: int) -> dict[int, int | None]:
    if epoch < 0:
        return {}
    found = replica.epoch_end(epoch)
    return {epoch: None if found is None else found[1]}


def _records(replica: Replica, offset: int, bound: int) -> dict[int, RecordShown]:
    return {
        record.offset: _shown(replica, batch, record)
        for batch, record in replica.held(max(offset, replica.log_start), min(offset + 1, bound, replica.leo))
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
        "" if record.key is None else f"{_unsigned(hi):016x}{_unsigned(lo):016x}",
        f"{_unsigned(content_hash(record.value)):016x}",
        key_size(record.key),
        value_size(record.value),
    )


def _unsigned(word: int) -> int:
    return word & (1 << 64) - 1


def _key(replica: Replica, claim: Claim, bound: int) -> KeyShown | None:
    if claim.key is None:
        return None
    key = key_of_halves(*claim.key)
    records = [
        _shown(replica, batch, record)
        for batch, record in replica.held(replica.log_start, min(bound, replica.lso))
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
    forgotten = [b for b in cluster.lost if b.producer_id == claim.producer_id and b.timestamp > last.timestamp]
    if forgotten and forgotten[-1].marker is not None:
        last = replace(forgotten[-1], base=-1)  # The log has lost the marker, the coordinator knows that it wrote it.
    if last.marker is None:
        return CoordinatorAnswer(claim.producer_id, "t", "Ongoing")
    name = "Commit" if last.marker is End.COMMIT else "Abort"
    done = last.base < cluster.leading.hw
    return CoordinatorAnswer(claim.producer_id, "t", ("Complete" if done else "Prepare") + name)
