"""Turns the answers to a probe into looks (`parallax.evidence.atoms.Look`), the form that the judge takes.

A *look* is what one broker answered about its replica at one moment. A probe asks for a part of each replica: some
offsets, some leader epochs, and the value of one key as read_committed consumers get it. So each look says what was
asked for. A record that nobody asked for does not count as absent.

Some probes do not ask for open transactions. If a replica's last stable offset is its high watermark, its look then
says that it holds no transaction open.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from parallax.evidence.atoms import End, EpochEnd, Fact, Look, Place
from parallax.evidence.ledger import Ledger, Timely
from parallax.findings.answers import ABORTED, COMMITTED, Answers, MarkerShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.keys import Key
from parallax.judge.case import Case, Partition
from parallax.kinds import TOMBSTONE_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, Outcome, hash_halves

_ENDS: Mapping[str, End] = {"commit": End.COMMIT, "abort": End.ABORT}
_OUTCOMES: Mapping[str, End] = {COMMITTED: End.COMMIT, ABORTED: End.ABORT}
_PLAIN = Outcome.NONE.name.lower()


def case_of(
    claim: Claim,
    answers: Answers,
    ledger: Ledger,
    asked: Collection[int] = (),
    *,
    compacted: bool = True,
    deletes: bool = False,
) -> Case:
    """Return a claim and the answers to its probe as a `Case`, the form that the judge takes.

    Args:
        claim: the claim that the probe asked about.
        answers: the answers to the probe; all replicas answered under the same leader.
        ledger: the evidence that is known already; the evidence of the answers and the claim is added to it.
        asked: the offsets that were asked for because of this claim.
        compacted: whether the topic's policy compacts.
        deletes: whether records may be deleted from the head of the log.
    """
    _recorded(claim, ledger)
    looks = looks_of(claim, answers, asked)
    for broker, look in looks.items():
        ledger.look(look, leads=broker == answers.leader)
    partition = Partition(
        leader=answers.leader,
        in_sync=frozenset(answers.isr),
        replicas=frozenset(answers.replicas),
        compacted=compacted,
        deletes=deletes,
        unclean=True,
    )
    # What a cleaner had removed by the end of an answer was superseded by something below this offset.
    stable = max((answer.cleaned_below for answer in answers.replicas.values()), default=UNKNOWN)
    return Case(ledger, partition, looks, stable)


def _recorded(claim: Claim, ledger: Ledger) -> None:
    """Add what the comparison had seen when it raised a claim: its proof, of which nothing may be left by now."""
    if claim.kind is FindingKind.LOG_HEAD_MISSING:
        ledger.begun_below(claim.offset)
    known, end = claim.recorded, Place(claim.marker_offset, claim.recorded.leader_epoch)
    if claim.kind in TRANSACTION_KINDS and min(end) >= 0:
        for broker, shown in known.markers.items():
            if claim.end_on(broker) in (None, end) and shown in _ENDS:
                ledger.fact(Fact(end, claim.producer_id, end=_ENDS[shown]), broker, UNKNOWN)
        is_own = claim.kind is FindingKind.OUTCOME_CONTRADICTS_MARKER  # It may not be the first one.
        if not (known.end_unproven or is_own) and known.markers and claim.transaction_start_offset >= 0:
            # No end marker was lost between the transaction's first record and this one.
            ledger.seen_whole(Timely(claim.transaction_start_offset + 1, claim.marker_offset, end.epoch))
    if claim.kind in TOMBSTONE_KINDS and claim.key is not None:
        deleted, end = Place(claim.offset, known.leader_epoch), Place(claim.marker_offset, known.end_epoch)
        if min(deleted) >= 0:
            ledger.fact(
                Fact(deleted, claim.producer_id, claim.producer_id >= 0, None, claim.key, None), NOBODY, UNKNOWN
            )
        if min(end) >= 0:
            ledger.fact(Fact(end, claim.producer_id, end=End.COMMIT), NOBODY, UNKNOWN)


def looks_of(claim: Claim, answers: Answers, asked: Collection[int]) -> dict[int, Look]:
    """Return a look at each replica that answered about a claim, by broker.

    A *look* is what a broker answered about its replica at one moment. In it, a key is a pair of numbers: the two
    halves of its hash.

    Args:
        claim: the claim that the probe asked about.
        answers: the answers to the probe.
        asked: the offsets that were asked for because of this claim. A probe of a page asks for others as well.
    """
    found = {b: _look(claim, answers, answer, asked) for b, answer in sorted(answers.replicas.items())}
    return {broker: look for broker, look in found.items() if look is not None}


def _look(claim: Claim, answers: Answers, answer: ReplicaAnswer, asked: Collection[int]) -> Look | None:
    if answer.error is not None:
        return None
    facts = {fact.place: fact for fact in _facts(answer)}
    given = {record.offset: record for record in _given(answer)}
    held = {Place(offset, epoch) for offset, epoch in answer.epochs_at.items() if epoch >= 0}
    tops = tuple(sorted({*held, *(place for place in facts if place.epoch >= 0)}))
    is_told = claim.key is not None and answer.key is not None and answer.key.complete
    return Look(
        broker=answer.broker,
        at=answers.asked_at_ms,
        log_start=answer.log_start_offset,
        high_watermark=answer.high_watermark,
        last_stable=answer.last_stable_offset,
        log_end=answer.log_end_offset,
        open=_open(answer),
        facts=facts,
        outcomes={r.place: _OUTCOMES[r.outcome] for r in given.values() if r.outcome in _OUTCOMES},
        listed=frozenset(answer.aborted),
        tops=tops,
        ends={
            epoch: None if end is None else EpochEnd(epoch if epoch in answer.epochs_known else UNKNOWN, end)
            for epoch, end in answer.epoch_ends.items()
        },
        latest_epoch=_latest_epoch(answer, answers, tops),
        asked=frozenset(offset for offset in asked if offset in answer.asked_uncommitted),
        keys=frozenset({claim.key}) if is_told else frozenset(),
        entries=answer.epochs_known,
        has_grown=answer.log_end_after not in (UNKNOWN, answer.log_end_offset),
    )


def _open(answer: ReplicaAnswer) -> dict[int, int] | None:
    """Return by producer where the transaction begins that a replica holds open; None: it does not say."""
    if answer.open_transactions is not None:
        return {one.producer_id: one.start_offset for one in answer.open_transactions}
    return {} if answer.last_stable_offset >= answer.high_watermark else None


def _latest_epoch(answer: ReplicaAnswer, answers: Answers, tops: tuple[Place, ...]) -> int:
    """Return the newest leader epoch of a log: for the leader, the one that it leads in; for others, a lower bound."""
    behind = [epoch + 1 for epoch, end in answer.epoch_ends.items() if end is not None and end < answer.log_end_offset]
    led_in = answers.leader_epoch if answer.broker == answers.leader else UNKNOWN
    return max([led_in, *behind, *(top.epoch for top in tops), *answer.epochs_known], default=UNKNOWN)


def _given(answer: ReplicaAnswer) -> Iterator[RecordShown]:
    """Return the records that a replica gives to, or hides from, its read_committed consumers."""
    yield from answer.committed.values()
    if answer.key is not None and answer.key.visible is not None:
        yield answer.key.visible


def _facts(answer: ReplicaAnswer) -> Iterator[Fact]:
    for record in (*answer.uncommitted.values(), *_given(answer)):
        yield _record(record)
    for marker in answer.markers:
        yield _marker(marker)


def _record(record: RecordShown) -> Fact:
    return Fact(
        record.place,
        record.producer_id,
        is_transactional(record),
        None,
        key_of(record),
        None if record.value_size < 0 else hash_halves(record.content_hash)[0],
        record.producer_epoch,
    )


def is_transactional(record: RecordShown) -> bool:
    """Whether a record is part of a transaction, also if it is not known how that transaction ended."""
    return record.outcome != _PLAIN


def key_of(record: RecordShown) -> Key | None:
    """Return the hash of a record's key, as two numbers; None where the record has no key."""
    return hash_halves(record.key_hash) if record.key_hash else None


def _marker(marker: MarkerShown) -> Fact:
    return Fact(Place(marker.offset, marker.leader_epoch), marker.producer_id, end=_ENDS[marker.type])
