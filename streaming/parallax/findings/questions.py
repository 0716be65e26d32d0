"""Which questions a probe asks of which replica, in the order that the proofs need.

The questions come from generators, to which the caller sends the answers. No IO: `parallax.findings.probe` answers from
the cluster, the simulator from its model.

*The coordinator first.* If it says that a transaction has ended, the transaction had ended before any replica was
asked.

*The other replicas, then the accused.* So the others had ended the transaction, or deleted the key, before the accused
was asked. If the accused then still shows the old state, it is wrong.

*A claim on a key: the accused, the other replicas, and the accused again where it shows a value.* If only the others
show a value, it was not deleted in between, because the accused was asked before them. If only the accused shows a
value, it had been deleted before, because the accused was asked after them. Each replica is also asked where in its log
the leader epochs end that earlier answers have shown.

*A difference that accuses nobody: all replicas again, if the pivot is not as far as another replica on its side.* The
pivot, which is asked last, may be frozen or away. The other replica shows the same, so it is asked last instead.

*Each replica: where its log ends, then its open transactions, then where its log ends once more.* All three are needed,
because a replica goes on replicating between two requests:

- The accused holds a transaction open that it should have ended. This proves that it never got the end marker only if
  its log was past the marker *before* it was asked for its open transactions. In the other order, any follower that
  catches up between the two requests would be convicted.
- Another replica has ended the transaction. Its list shows that only if its log was past the transaction's first record
  *before* it was asked. The marker lies below the end of its log *after* the list was asked for, since it may have come
  after the first answer. It is the end of the log, not the high watermark: a replica applies a marker when it appends
  it. If no replica was read to show the marker, the accused must have passed that end of the log.

*A replica that is asked for keys: its last stable offset before and after.* Its cleaner goes on meanwhile. It may
remove a value because of a record between the two offsets. Another replica is proven wrong about that value only if it
has come as far as the second offset.

*The cleanup policy last.* It matters for a log that begins too high. If a policy has allowed Kafka to delete the head,
it was set before the logs were asked.

On a partition that is being written to, the accused has seldom passed an offset that another replica reached a moment
before. So it is asked again, a bounded number of times, until it has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from parallax.evidence.atoms import EpochEnd, has_entry
from parallax.findings.answers import (
    COMMITTED,
    NOT_ASKED,
    Answers,
    CoordinatorAnswer,
    KeyShown,
    MarkerShown,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.decide.own_end import needs_the_keys
from parallax.findings.effect import about_the_rest, covered, hides_alone, unknown_rest
from parallax.findings.keys import Key
from parallax.findings.requests import (
    Aborted,
    Ask,
    Coordinators,
    EndOfEpoch,
    Ends,
    Keys,
    KeysShown,
    Marks,
    Points,
    PointsShown,
    Policy,
    Producers,
    Question,
    RecordedTransactions,
    Recreated,
    Request,
    TransactionRecords,
    Wants,
    Where,
    Whereabouts,
)
from parallax.kinds import KEY_KINDS, TRANSACTION_KINDS
from parallax.model import NOBODY, UNKNOWN, FindingKind, IsolationLevel
from parallax.sides import Shows, Side

_ASKED_AGAIN = 3
"""How often the accused is asked again at most, until it has passed where another replica's log ended."""

T = TypeVar("T")


@dataclass(frozen=True)
class ProbeReading:
    """All answers of one replica in one probe, kept by offset and key.

    A page has up to some thousand claims, so the part about each claim must be found fast.

    Attributes:
        answer: all answers that are not in one of the other attributes.
        aborted: by the offset fetched from, (producer id, first offset) of each aborted transaction listed.
        keys: by key, its newest record that the replica shows.
        key_bytes: by hash of the key, the key itself, where keys are read at all.
        key_error: why a key is missing or not complete; None where all are complete.
    """

    answer: ReplicaAnswer
    aborted: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    keys: Mapping[Key, KeyShown] = field(default_factory=dict)
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    key_error: str | None = None

    def for_claim(self, claim: Claim) -> ReplicaAnswer:
        """Return the part of the answers that is about one claim."""
        if self.answer.error is not None:
            return self.answer
        key = None if claim.key is None else self.keys.get(claim.key)
        # What is there now, in place of the claim's record or marker, shows whether another log replaced this one.
        places = {claim.offset, claim.transaction_start_offset, claim.marker_offset, *_looked_at(claim)}
        offsets = {claim.offset, claim.transaction_start_offset}
        if key is not None and key.visible is not None:
            offsets.add(key.visible.offset)
        answer = self.answer
        listed = self.aborted.get(_aborted_from(claim), ())
        offsets |= self._offsets_of_key.get(claim.key_text, set()) if claim.key is not None else set()
        return replace(
            answer,
            committed={o: answer.committed[o] for o in sorted(offsets) if o in answer.committed},
            uncommitted={o: answer.uncommitted[o] for o in sorted(offsets | places) if o in answer.uncommitted},
            markers=tuple(m for place in sorted(places) for m in self._markers_at.get(place, ())),
            epochs_at={o: answer.epochs_at[o] for o in sorted(offsets | places) if o in answer.epochs_at},
            aborted=tuple(a for a in listed if a[0] == claim.producer_id),
            key=key,
            key_error=None if key is not None and key.complete else self.key_error,
        )

    @cached_property
    def _offsets_of_key(self) -> dict[str, set[int]]:
        return _offsets_of_keys(self.answer.committed, self.answer.uncommitted)

    @cached_property
    def _markers_at(self) -> dict[int, list[MarkerShown]]:
        found: dict[int, list[MarkerShown]] = {}
        for marker in self.answer.markers:
            found.setdefault(marker.offset, []).append(marker)
        return found


def driven(questions: Generator[Any, Any, T], answer: Callable[[Any], Any]) -> T:
    """Run a generator of questions to its end, and return its result.

    Args:
        questions: the generator (`questions` or `reading`).
        answer: takes a question, and returns the answer that the generator is sent. An error that it raises ends the
            generator, and is raised here.
    """
    try:
        question = next(questions)
        while True:
            question = questions.send(answer(question))
    except StopIteration as done:
        return done.value
    finally:
        questions.close()


def questions(claims: Sequence[Claim], asked_at_ms: int) -> Generator[Question, Any, list[Answers]]:
    """Yield the questions of a probe about some claims; return the answers about each claim.

    It is a generator. The caller sends it the answer to each question, in the form that the docstring of the question's
    class says. No error is thrown in: if the cluster or a broker does not answer, the answer says so.

    Args:
        claims: at least one claim, all on one partition and with one pivot; each has a suspect id of its own.
        asked_at_ms: the present time in milliseconds since 1970 UTC, for the evidence.

    Returns:
        One `Answers` for each claim, in the order of ``claims``.
    """
    first = claims[0]
    where: Whereabouts = yield Where(first.topic, first.partition)
    if where.error is not None:
        silent = {first.pivot: ReplicaAnswer(first.pivot, error=where.error)}
        return [Answers(silent, asked_at_ms=asked_at_ms) for _ in claims]
    gone: dict[str, str | None] = {}
    answers: dict[str, Answers] = {}
    groups: dict[int, list[Claim]] = {}
    for claim in claims:
        gone[claim.suspect_id], pivot = where.gone_for(claim), where.pivot_of(claim)
        if gone[claim.suspect_id] is None or pivot != claim.pivot:
            groups.setdefault(pivot, []).append(claim)
    for pivot, asked in groups.items():
        if pivot == first.pivot:
            answers |= yield from _asked(asked, where, asked_at_ms)
            continue
        found = yield from _asked([claim.asked_last(pivot) for claim in asked], where, asked_at_ms)
        answers |= {name: replace(said, gone=gone[name], pivot=pivot) for name, said in found.items()}
    for name in gone.keys() - answers.keys():
        answers[name] = Answers({}, leader=where.leader, gone=gone[name], asked_at_ms=asked_at_ms)
    further: dict[int, list[Claim]] = {}
    for claim in claims:
        if (beside := _further_beside(claim, answers[claim.suspect_id])) is not None:
            further.setdefault(beside, []).append(claim.asked_last(beside))
    for pivot, asked in further.items():
        found = yield from _asked(asked, where, asked_at_ms)
        answers |= {name: replace(said, pivot=pivot) for name, said in found.items()}
    return [answers[claim.suspect_id] for claim in claims]


def _further_beside(claim: Claim, answers: Answers) -> int | None:
    """Return another replica to be asked last about a difference without direction: one on the pivot's side of the key.

    It shows the very same value, or no value as well. The replica that was asked last may be frozen, or away: its
    position then says nothing about the others on its side.
    """
    own = answers.replicas.get(claim.pivot)
    if claim.broker != NOBODY or own is None:
        return None
    side = Side(Shows.VALUE, claim.offset) if own.error is not None else own.side
    beside = [a for _, a in sorted(answers.replicas.items()) if a.side is not None and a.side == side]
    furthest = max(beside, key=lambda a: a.last_stable_offset, default=own)
    return furthest.broker if furthest.last_stable_offset > own.last_stable_offset else None


def _asked(
    asked: Sequence[Claim], where: Whereabouts, asked_at_ms: int
) -> Generator[Question, Any, dict[str, Answers]]:
    """Ask about claims whose object exists; returns the answers by suspect id."""
    first = asked[0]
    producers = sorted({c.producer_id for c in asked if c.kind in TRANSACTION_KINDS and c.producer_id != UNKNOWN})
    coordinators: Mapping[int, CoordinatorAnswer] = {}
    if producers:
        coordinators = yield Coordinators(tuple(producers), first.place)
    found = yield from _rounds(asked, where.replicas)
    policy: str | None = None
    if any(c.kind is FindingKind.LOG_HEAD_MISSING for c in asked):
        policy = yield Policy(first.topic)
    rest, recorded = yield from _the_rest(asked, found, where.replicas)
    recreated: bool = False
    if since := [c.confirmed_at_ms for c in asked if c.suspect_id in rest and c.confirmed_at_ms]:
        recreated = yield Recreated(first.topic, first.partition, first.pivot, max(since))
    return {
        claim.suspect_id: Answers(
            {b: read.for_claim(claim) for b, read in found[claim.suspect_id].items()},
            leader=where.leader,
            leader_epoch=where.leader_epoch,
            isr=where.isr,
            assigned=where.replicas,
            coordinator=coordinators.get(claim.producer_id),
            asked_at_ms=asked_at_ms,
            key=_key_bytes(found[claim.suspect_id].values(), claim),
            rest=tuple(
                (
                    c,
                    Answers(
                        _of(read, c),
                        where.leader,
                        asked_at_ms=asked_at_ms,
                        isr=where.isr,
                        recreated=recreated,
                        leader_epoch=where.leader_epoch,
                    ),
                )
                for c, read in rest.get(claim.suspect_id, ())
            ),
            rest_unknown=unknown_rest(recorded.get(claim.suspect_id, TransactionRecords())),
            rest_left_out=recorded.get(claim.suspect_id, TransactionRecords()).left_out,
            recreated=recreated and claim.suspect_id in rest,
            cleanup_policy=policy,
        )
        for claim in asked
    }


_Readings = dict[int, ProbeReading]


def _rounds(claims: Sequence[Claim], replicas: Sequence[int]) -> Generator[Question, Any, dict[str, _Readings]]:
    """Ask about offsets and transactions, and about keys; about keys too where a record is no longer held."""
    about_keys = [c for c in claims if c.kind in KEY_KINDS and c.key is not None]
    by_key = {c.suspect_id for c in about_keys}
    rest = [c for c in claims if c.suspect_id not in by_key]
    found: dict[str, _Readings] = {}
    if rest:
        answers = yield from _about_offsets(rest, replicas)
        found |= {c.suspect_id: answers for c in rest}
        shown = {broker: read.answer for broker, read in answers.items()}
        about_keys += [c for c in rest if _is_shown_by_its_key(c, shown)]
    if about_keys:
        found |= yield from _about_keys(about_keys, replicas)
    return found


def _the_rest(
    claims: Sequence[Claim], found: Mapping[str, _Readings], replicas: Sequence[int]
) -> Generator[Question, Any, tuple[dict[str, list[tuple[Claim, _Readings]]], dict[str, TransactionRecords]]]:
    """Ask about the other records of transactions where a claim's own record no longer shows anything."""
    by_id = {claim.suspect_id: claim for claim in claims}
    shown = {sid: {broker: read.answer for broker, read in found[sid].items()} for sid in by_id}
    about = about_the_rest(claims, shown)
    said: Sequence[TransactionRecords] = ()
    if about:
        said = yield RecordedTransactions(claims[0].topic, claims[0].partition, tuple(about.values()))
    recorded = dict(zip(about, said, strict=True))
    members = {suspect_id: covered(by_id[suspect_id], records) for suspect_id, records in recorded.items()}
    every = [claim for part in members.values() for claim in part]
    read = (yield from _rounds(every, replicas)) if every else {}
    return {sid: [(c, read[c.suspect_id]) for c in part] for sid, part in members.items()}, recorded


def _of(readings: _Readings, claim: Claim) -> dict[int, ReplicaAnswer]:
    return {broker: read.for_claim(claim) for broker, read in readings.items()}


def _about_offsets(claims: Sequence[Claim], replicas: Sequence[int]) -> Generator[Question, Any, _Readings]:
    """Ask the others, then the accused; again where it has not come to the end of the others' logs yet."""
    accused, wants = claims[0].pivot, wanted(claims, replicas)
    others = tuple(b for b in replicas if b != accused)
    answers: _Readings = dict((yield Ask(others, wants)))
    answers |= yield Ask((accused,), wants)
    for _ in range(_ASKED_AGAIN):
        if not any(_is_short_of(c, answers) for c in claims):
            break
        answers |= yield Ask((accused,), wants)
    return answers


def _about_keys(claims: Sequence[Claim], replicas: Sequence[int]) -> Generator[Question, Any, dict[str, _Readings]]:
    """Ask the accused, the others, and the accused again where it shows a value."""
    accused, wants = claims[0].pivot, wanted(claims, replicas, keys=True)
    asked: _Readings = yield Ask((accused,), wants)
    before = asked[accused]
    shown = {known.live.offset for known in before.keys.values() if known.live is not None}
    wants = replace(wants, offsets=wants.offsets | shown, epochs=wants.epochs | _epochs_shown([before]))
    others: _Readings = yield Ask(tuple(b for b in replicas if b != accused), wants)
    after = before
    if shown:
        wants = replace(wants, epochs=wants.epochs | _epochs_shown(others.values()))
        again: _Readings = yield Ask((accused,), wants)
        after = again[accused]
    found: dict[str, _Readings] = {}
    for claim in claims:
        key = before.keys.get(claim.key) if claim.key is not None else None
        found[claim.suspect_id] = {**others, accused: after if key is not None and key.live is not None else before}
    return found


def _epochs_shown(readings: Iterable[ProbeReading]) -> set[int]:
    """Return the leader epochs of what is shown of the keys: where they end shows whether a log is of that line."""
    shown = (known.visible for reading in readings for known in reading.keys.values())
    return {record.leader_epoch for record in shown if record is not None and record.leader_epoch != UNKNOWN}


def _is_short_of(claim: Claim, answers: _Readings) -> bool:
    """Whether the accused may merely be behind.

    It holds a transaction open, and no end marker shows how far it should have come.
    """
    if claim.kind not in TRANSACTION_KINDS or claim.marker_offset != UNKNOWN:
        return False
    accused = answers[claim.pivot].answer
    ends = [
        r.answer.ended_below for b, r in answers.items() if b != claim.pivot and r.answer.open_transactions is not None
    ]
    return bool(accused.open_transactions) and bool(ends) and accused.high_watermark < min(ends)


def reading(broker: int, wants: Wants) -> Generator[Request, Any, ProbeReading]:
    """Yield the questions to one replica, one after another; return all its answers.

    It is a generator. The caller sends it the answer to each question, in the form that the docstring of the question's
    class says. If the broker does not answer, the caller gives the generator up. The module's docstring explains the
    order of the questions.

    Args:
        broker: the replica's broker.
        wants: what to ask.
    """
    marks: Marks = yield Ends()
    opened, after = None, marks
    open_error: str | None = NOT_ASKED
    if wants.producers:
        listed = yield Producers()
        opened, open_error = (None, listed) if isinstance(listed, str) else (listed, None)
        after = yield Ends()
    decided = frozenset(o for o in wants.offsets if marks.log_start_offset <= o < marks.last_stable_offset)
    held = frozenset(o for o in wants.offsets | wants.markers if marks.log_start_offset <= o < marks.high_watermark)
    committed = (yield Points(decided, IsolationLevel.READ_COMMITTED)) if decided else PointsShown()
    uncommitted = (yield Points(held, IsolationLevel.READ_UNCOMMITTED)) if held else PointsShown()
    aborted = {}
    for offset in sorted(wants.aborted_from):
        if marks.log_start_offset <= offset <= marks.log_end_offset:
            aborted[offset] = yield Aborted(offset)
    of_keys = _offsets_of_keys(committed.records)
    keys = (yield Keys(marks.log_start_offset, marks.last_stable_offset, of_keys)) if wants.keys else KeysShown()
    cleaned: Marks | None = (yield Ends()) if wants.keys else None
    ends: dict[int, EpochEnd | None] = {}
    for epoch in sorted(wants.epochs | {epoch - 1 for epoch in wants.epochs if epoch > 0}):
        end = yield EndOfEpoch(epoch)
        if not isinstance(end, str):
            ends[epoch] = None if end is None else EpochEnd(*end)
    answer = ReplicaAnswer(
        broker=broker,
        high_watermark=marks.high_watermark,
        last_stable_offset=marks.last_stable_offset,
        log_start_offset=marks.log_start_offset,
        log_end_offset=marks.log_end_offset,
        log_end_after=after.log_end_offset,
        stable_after=UNKNOWN if cleaned is None else cleaned.last_stable_offset,
        committed=committed.records,
        asked=decided,
        uncommitted=uncommitted.records,
        asked_uncommitted=held,
        markers=uncommitted.markers,
        open_transactions=opened,
        open_error=open_error,
        epoch_ends={e: None if end is None else end.end for e, end in ends.items() if e in wants.epochs},
        epochs_known=frozenset(epoch for epoch in ends if epoch in wants.epochs and has_entry(ends, epoch)),
        epochs_at=uncommitted.epochs,
    )
    key_bytes = {**committed.key_bytes, **uncommitted.key_bytes, **keys.key_bytes}
    return ProbeReading(answer, aborted, keys.keys, key_bytes, keys.error)


def _offsets_of_keys(*shown: Mapping[int, RecordShown]) -> dict[str, set[int]]:
    """Return the offsets of records by their key's hash."""
    found: dict[str, set[int]] = {}
    for records in shown:
        for offset, record in records.items():
            found.setdefault(record.key_hash, set()).add(offset)
    return found


def wanted(claims: Sequence[Claim], replicas: Sequence[int], *, keys: bool = False) -> Wants:
    """Return what a probe of some claims has to ask each replica of their partition.

    Args:
        claims: at least one claim.
        replicas: all replicas of the partition.
        keys: whether the values of the claims' keys are asked for as well.
    """
    with_producer = [c for c in claims if c.producer_id != UNKNOWN]
    return Wants(
        topic=claims[0].topic,
        partition=claims[0].partition,
        offsets=frozenset(o for c in claims for o in (c.offset, c.transaction_start_offset) if o != UNKNOWN),
        markers=frozenset(o for c in claims for o in (c.marker_offset, *_looked_at(c)) if o != UNKNOWN),
        aborted_from=frozenset(o for c in with_producer if (o := _aborted_from(c)) != UNKNOWN),
        producers=any(c.kind in TRANSACTION_KINDS for c in claims),
        keys=frozenset(c.key for c in claims if c.key is not None) if keys else frozenset(),
        epochs=frozenset(epoch for c in claims for epoch in _epochs(c)),
        replicas=tuple(replicas),
    )


def _looked_at(claim: Claim) -> Sequence[int]:
    """Return where else a log is looked at: the offsets where another end marker may have been, if that is not known.

    Also how far a log had been read whose transactions had all ended: what is there shows whether it is the same log.
    """
    before = claim.recorded.had_ended
    between = (claim.before_end or ()) if claim.recorded.end_unproven or before is not None else ()
    return between if before is None else (*between, before.last)


def _epochs(claim: Claim) -> list[int]:
    """Return the leader epochs whose end shows whether a log is the one that a claim is about."""
    ends = (claim.end_on(broker) for broker in claim.recorded.ends)
    epochs = [epoch for _, epoch in (*claim.proofs, *(end for end in ends if end is not None))]
    if claim.recorded.had_ended is not None:
        epochs.append(claim.recorded.had_ended.epoch)
    return epochs if claim.lost_epoch == UNKNOWN else [*epochs, claim.lost_epoch]


def _is_shown_by_its_key(claim: Claim, answers: Mapping[int, ReplicaAnswer]) -> bool:
    """Whether the key's value has to show what became of the transaction, for one of five reasons.

    - The accused no longer holds the record.
    - The accused alone holds the record, and hides it.
    - All replicas are wrong, and the question is what was written since.
    - The accused's index was wrong, and the question is what its cleaner has removed.
    - The accused shows a deletion as committed, and the question is what it lacks for that, while others show it.
    """
    accused = answers[claim.pivot]
    if claim.key is not None and needs_the_keys(claim, accused):
        return True
    return (
        claim.kind in TRANSACTION_KINDS
        and claim.key is not None
        and accused.error is None
        and accused.open_transactions is not None
        and not accused.holds_open(claim.producer_id, claim.transaction_start_offset, claim.marker_offset)
        and (
            claim.spread
            or claim.first_offset not in accused.committed
            or hides_alone(claim, answers)
            or _deletes(claim, accused)
        )
    )


def _deletes(claim: Claim, accused: ReplicaAnswer) -> bool:
    """Whether the accused shows the claim's record as a committed deletion, and what it lacks is not known yet."""
    shown = accused.committed.get(claim.first_offset)
    is_deletion = shown is not None and shown.outcome == COMMITTED and shown.value_size < 0
    return is_deletion and claim.recorded.lacks == UNKNOWN


def _aborted_from(claim: Claim) -> int:
    """Return where to fetch from so that the aborted list holds the claim's transaction."""
    return claim.transaction_start_offset if claim.transaction_start_offset != UNKNOWN else claim.offset


def _key_bytes(readings: Iterable[ProbeReading], claim: Claim) -> bytes | None:
    for read in readings:
        if claim.key is not None and (found := read.key_bytes.get(claim.key)) is not None:
            return found
    return None
