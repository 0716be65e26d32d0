"""A live probe in the model: its replicas answer the questions of `parallax.findings.questions`, one after another.

The answers hold no more than a client can ask: pinned reads, high watermarks, last stable offsets, aborted lists and
open transactions of each replica, and the coordinator's word. What is asked of whom, and in which order, is the
product's; the cluster may move on between any two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from parallax.evidence.atoms import EpochEnd
from parallax.findings.answers import (
    ABORTED,
    COMMITTED,
    Answers,
    CoordinatorAnswer,
    MarkerShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision
from parallax.findings.effect import whole
from parallax.findings.history import KeyHistory
from parallax.findings.keys import Key
from parallax.findings.pointing import KnownPlaces, RecordsOfKeys, Replaced, StretchShown, newest_of_keys
from parallax.findings.questions import ProbeReading, driven, questions, reading
from parallax.findings.requests import (
    Aborted,
    Ask,
    Coordinators,
    EndOfEpoch,
    Ends,
    Keys,
    Marks,
    Points,
    PointsShown,
    Policy,
    Producers,
    Question,
    RecordedTransactions,
    Recreated,
    Request,
    Transaction,
    TransactionRecords,
    Wants,
    Where,
    Whereabouts,
)
from parallax.model import IsolationLevel
from tests.simulation.cluster import Cluster
from tests.simulation.content import content_hash, key_halves, key_size, value_size
from tests.simulation.records import Batch, End, Record
from tests.simulation.replica import Replica


class Unreachable(Exception):  # noqa: N818 - what a request meets
    """The broker is down."""


def probe(
    cluster: Cluster, claim: Claim, between: Callable[[], None] = lambda: None, *, live_only: bool = False
) -> Decision:
    """Ask every replica about a claim, and judge.

    Args:
        cluster: the cluster to ask.
        claim: what is claimed of which replica.
        between: called before each request; lets the cluster move on.
        live_only: the claim is a finding that is checked again.
    """
    (answers,) = ask(cluster, [claim], between)
    return whole(claim, answers, live_only=live_only).decision


def ask(
    cluster: Cluster,
    claims: Sequence[Claim],
    between: Callable[[], None] = lambda: None,
    history: Callable[[], KeyHistory] = KeyHistory,
    policy: str | None = None,
    more: Callable[[Wants], Wants] = lambda wants: wants,
) -> list[Answers]:
    """What the replicas answer to a probe of claims that accuse one of them.

    Args:
        cluster: the cluster to ask.
        claims: what is claimed.
        between: called before each request; lets the cluster move on.
        history: what the views have recorded of keys when it is called.
        policy: the topic's cleanup policy; None where nobody says.
        more: what each replica is asked for, of what the product asks.
    """

    def answer(question: Question) -> Any:
        if isinstance(question, Ask):
            question = replace(question, wants=more(question.wants))
        return _answer(cluster, question, between, history, policy)

    return driven(questions(claims, cluster.now), answer)


def _answer(
    cluster: Cluster,
    question: Question,
    between: Callable[[], None],
    history: Callable[[], KeyHistory],
    policy: str | None,
) -> Any:
    if isinstance(question, Where):
        in_sync, epoch = tuple(sorted(cluster.isr)), cluster.leader_epoch
        return Whereabouts(tuple(cluster.replicas), in_sync, cluster.leader, leader_epoch=epoch)
    if isinstance(question, Coordinators):
        between()
        said = {pid: _coordinator(cluster, pid) for pid in question.producer_ids}
        return {pid: answer for pid, answer in said.items() if answer is not None}
    if isinstance(question, RecordedTransactions):
        return [_transaction(cluster, one) for one in question.of]
    if isinstance(question, Recreated):
        return False
    if isinstance(question, Policy):
        return policy
    return {broker: _reading(cluster, broker, question.wants, between, history) for broker in question.brokers}


def _transaction(cluster: Cluster, question: Transaction) -> TransactionRecords:
    """What the views may have recorded at most: all that was ever written."""
    last = {
        record.key: record.offset
        for batch in cluster.history
        for record in batch.records
        if batch.producer_id == question.producer_id and question.start <= record.offset < question.end
    }
    found = sorted((offset, key_halves(key)) for key, offset in last.items() if key is not None)
    return TransactionRecords(tuple(found[: question.limit]), max(0, len(found) - question.limit))


def _reading(
    cluster: Cluster, broker: int, wants: Wants, between: Callable[[], None], history: Callable[[], KeyHistory]
) -> ProbeReading:
    def answer(request: Request | KnownPlaces | RecordsOfKeys | Replaced) -> Any:
        if isinstance(request, Keys):
            return driven(newest_of_keys(wants.keys, request), answer)
        if isinstance(request, KnownPlaces):
            recorded = history().of_current_log(broker, holds)
            return {key: recorded.of(broker, key) for key in request.keys}
        if isinstance(request, Replaced):
            return None
        between()
        replica = cluster.replicas.get(broker)
        if replica is None or not replica.up:
            raise Unreachable
        return _ANSWERS[type(request)](replica, wants, request)

    def holds(read_to: int, epoch: int) -> bool:
        end = answer(EndOfEpoch(epoch))
        return end is not None and EpochEnd(*end).reaches(read_to, epoch)

    try:
        return driven(reading(broker, wants), answer)
    except Unreachable:
        return ProbeReading(ReplicaAnswer(broker, error="connection refused"))


def _ends(replica: Replica, _wants: Wants, _request: Ends) -> Marks:
    return Marks(replica.hw, replica.lso, replica.log_start, replica.leo)


def _producers(replica: Replica, _wants: Wants, _request: Producers) -> tuple[OpenTransaction, ...]:
    return tuple(OpenTransaction(pid, first, epoch) for pid, (epoch, first) in replica.open_transactions().items())


def _points(replica: Replica, _wants: Wants, request: Points) -> PointsShown:
    bound = min(replica.leo, replica.lso if request.isolation is IsolationLevel.READ_COMMITTED else replica.hw)
    records: dict[int, RecordShown] = {}
    markers: list[MarkerShown] = []
    for offset in sorted(request.offsets):
        for batch, record in replica.held(max(offset, replica.log_start), min(offset + 1, bound)):
            if record is not None:
                records[record.offset] = _shown(replica, batch, record)
            else:
                kind = "commit" if batch.marker is End.COMMIT else "abort"
                markers.append(MarkerShown(batch.base, batch.producer_id, kind, batch.leader_epoch))
    left = {o: next((b.leader_epoch for b in replica.batches if b.last >= o), None) for o in request.offsets}
    return PointsShown(records, tuple(markers), epochs={o: e for o, e in left.items() if e is not None})


def _aborted(replica: Replica, _wants: Wants, request: Aborted) -> tuple[tuple[int, int], ...]:
    return tuple((a.producer_id, a.first) for a in replica.aborted if a.last >= request.offset)


def _stretch(replica: Replica, _wants: Wants, request: RecordsOfKeys) -> StretchShown:
    visible: dict[Key, RecordShown] = {}
    newest: dict[Key, int] = {}
    for batch, record in replica.held(max(request.start, replica.log_start), min(request.end, replica.lso)):
        key = None if record is None else key_halves(record.key)
        if record is None or key not in request.keys:
            continue
        shown = _shown(replica, batch, record)
        newest[key] = record.offset
        if shown.outcome != ABORTED:
            visible[key] = shown
    return StretchShown(request.end, visible, newest)


def _epoch_end(replica: Replica, _wants: Wants, request: EndOfEpoch) -> tuple[int, int] | None:
    return replica.epoch_end(request.epoch)


_ANSWERS: dict[type, Callable[[Replica, Wants, Any], Any]] = {
    Ends: _ends,
    Producers: _producers,
    Points: _points,
    Aborted: _aborted,
    RecordsOfKeys: _stretch,
    EndOfEpoch: _epoch_end,
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


def _coordinator(cluster: Cluster, producer_id: int) -> CoordinatorAnswer | None:
    state = cluster.coordinator_state(producer_id)
    if state is None:
        return None
    elsewhere = state.startswith("Prepare") and not cluster.is_left_to(producer_id)
    return CoordinatorAnswer(producer_id, "t", state, elsewhere=elsewhere)
