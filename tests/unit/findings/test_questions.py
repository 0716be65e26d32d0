"""What a probe asks of whom and when, and what that proves while the cluster goes on between any two requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from parallax.findings.answers import Answers, CoordinatorAnswer, KeyShown, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim, HadEnded, RecordedByViews
from parallax.findings.decide import ClaimState, decide
from parallax.findings.questions import ProbeReading, driven, questions, reading, wanted
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
    Producers,
    RecordedTransactions,
    Recreated,
    Transaction,
    TransactionRecords,
    Wants,
    Where,
    Whereabouts,
)
from parallax.model import NOBODY, FindingKind, Rule, TopicPartition
from parallax.sides import parsed
from tests.builders.answers import NOTHING, newest, replica, silent
from tests.builders.claims import claim as claim_of
from tests.builders.claims import of_key, of_offset

KEY = (0, 5)
FROZEN = claim_of(FindingKind.READ_COMMITTED_FROZEN, rule=Rule.PROGRESS, marker_offset=-1)


@dataclass
class Log:
    """A replica: where its log ends, and its open transactions by producer."""

    end: int
    open: dict[int, int] = field(default_factory=dict)

    def answer(self, request: Any) -> Any:
        if isinstance(request, Ends):
            return Marks(self.end, min([self.end, *self.open.values()]), 0, self.end)
        if isinstance(request, Producers):
            return tuple(OpenTransaction(pid, start) for pid, start in self.open.items())
        return () if isinstance(request, Aborted) else PointsShown()


@dataclass
class Cluster:
    """Replicas that answer one request after another; ``happens`` is called before each, with what has been asked."""

    logs: dict[int, Log]
    happens: Callable[[Cluster], None] = lambda _: None
    asked: list[tuple[int, Any]] = field(default_factory=list)

    def probe(self, claim: Claim) -> Any:
        (answers,) = driven(questions([claim], 0), self._answer)
        return decide(claim, answers)

    def _answer(self, question: Any) -> Any:
        if isinstance(question, Where):
            return Whereabouts(tuple(self.logs), tuple(self.logs), 1)
        if isinstance(question, Coordinators):
            return {}
        return {b: driven(reading(b, question.wants), lambda r, b=b: self._one(b, r)) for b in question.brokers}

    def _one(self, broker: int, request: Any) -> Any:
        self.asked.append((broker, request))
        self.happens(self)
        return self.logs[broker].answer(request)

    def count(self, broker: int, kind: type) -> int:
        return sum(b == broker and isinstance(r, kind) for b, r in self.asked)


class TestATransactionThatIsOpenOnAHealthyReplica:
    """Producer 7's transaction is from 10 to 29, its end marker is at 30. Broker 2 catches up with the others."""

    def test_that_ends_on_another_between_two_requests_is_not_reported(self) -> None:
        # The others ended at 30 when they were first asked; the marker came before they listed what is open.
        def ends(cluster: Cluster) -> None:
            if cluster.count(3, Producers) == 1 and cluster.logs[3].open:
                cluster.logs[1], cluster.logs[3] = Log(31), Log(31)

        cluster = Cluster({b: Log(30, {7: 10}) for b in (1, 2, 3)}, ends)
        assert cluster.probe(FROZEN).verdict is ClaimState.PENDING

    def test_that_another_has_not_begun_when_it_lists_what_is_open_is_not_reported(self) -> None:
        # Broker 1 leads, 3 is behind: it lists nothing at 8, and is far beyond the transaction's start after that.
        def catches_up(cluster: Cluster) -> None:
            if cluster.count(3, Ends) == 2:
                cluster.logs[3] = Log(30, {7: 10})

        cluster = Cluster({1: Log(30, {7: 10}), 2: Log(30, {7: 10}), 3: Log(8)}, catches_up)
        assert cluster.probe(FROZEN).verdict is not ClaimState.CONFIRMED

    def test_that_replicates_the_marker_after_it_listed_what_is_open_is_not_reported(self) -> None:
        # Broker 2 is asked last; the marker and more come to it as soon as it has listed what is open.
        def catches_up(cluster: Cluster) -> None:
            if cluster.asked[-1][0] == 2 and isinstance(cluster.asked[-1][1], Ends) and cluster.count(2, Producers):
                cluster.logs[2] = Log(31)

        cluster = Cluster({1: Log(31), 2: Log(20, {7: 10}), 3: Log(31)}, catches_up)
        for marker in (-1, 30):
            cluster.asked.clear()
            cluster.logs[2] = Log(20, {7: 10})
            assert cluster.probe(replace(FROZEN, marker_offset=marker)).verdict is not ClaimState.CONFIRMED

    def test_that_is_followed_by_an_interleaved_one_is_not_reported(self) -> None:
        """A second transaction (8, from 20, marker at 40) is named instead while the follower catches up over both."""

        def goes_on(cluster: Cluster) -> None:
            step = len(cluster.asked)
            cluster.logs[1] = Log(31 + step, {8: 20} if step < 4 else {})
            cluster.logs[3] = Log(31 + step, {8: 20} if step < 4 else {})
            cluster.logs[2] = Log(31 + max(0, step - 5), {8: 20} if step < 30 else {})

        cluster = Cluster({1: Log(31, {8: 20}), 2: Log(31, {8: 20}), 3: Log(31, {8: 20})}, goes_on)
        assert cluster.probe(FROZEN).verdict is not ClaimState.CONFIRMED


def test_a_transaction_that_is_open_past_its_end_is_found_though_the_partition_is_busy() -> None:
    # With every request the logs grow; the accused has reached where the others were only when it is asked again.
    def grows(cluster: Cluster) -> None:
        lag = 12
        for broker, log in cluster.logs.items():
            log.end = 100 + len(cluster.asked) - (lag if broker == 2 else 0)

    cluster = Cluster({1: Log(100), 2: Log(94, {7: 10}), 3: Log(100)}, grows)
    assert cluster.probe(FROZEN).verdict is ClaimState.CONFIRMED
    assert cluster.count(2, Producers) == 2


def test_an_accused_that_stays_behind_is_asked_a_bounded_number_of_times() -> None:
    cluster = Cluster({1: Log(100), 2: Log(50, {7: 10}), 3: Log(100)})
    assert cluster.probe(FROZEN).verdict is ClaimState.PENDING
    assert cluster.count(2, Producers) == 4
    cluster.asked.clear()
    assert cluster.probe(replace(FROZEN, marker_offset=30)).verdict is ClaimState.CONFIRMED
    assert cluster.count(2, Producers) == 1, "where the end marker is known, that decides"


# What is asked, in order.


def asked_of(claims: list[Claim], **shows: dict[int, ProbeReading]) -> list[Any]:
    """The questions that claims lead to, where replicas answer as said: by the number of the ask."""
    return put(claims, **shows)[0]


def put(claims: list[Claim], **shows: dict[int, ProbeReading]) -> tuple[list[Any], list[Answers]]:
    """The questions, and what they made of the answers."""
    asked: list[Any] = []

    def answer(question: Any) -> Any:
        asked.append(question)
        if isinstance(question, Where):
            return Whereabouts((1, 2, 3), (1, 2, 3), 1, "id")
        if isinstance(question, Coordinators):
            return {pid: CoordinatorAnswer(pid, "t", "Ongoing") for pid in question.producer_ids}
        if isinstance(question, RecordedTransactions):
            return [TransactionRecords(((10, KEY), (11, (0, 6))), 3) for _ in question.of]
        if isinstance(question, Recreated):
            return True
        number = sum(isinstance(a, Ask) for a in asked)
        return {b: shows.get(f"ask{number}", {}).get(b, ProbeReading(ReplicaAnswer(b))) for b in question.brokers}

    return asked, driven(questions(claims, 0), answer)


def brokers(asked: list[Any]) -> list[tuple[int, ...]]:
    return [a.brokers for a in asked if isinstance(a, Ask)]


def test_the_coordinator_is_asked_before_the_replicas_and_the_accused_after_the_others() -> None:
    asked = asked_of([FROZEN])
    assert asked[:2] == [Where("orders", 0), Coordinators((7,), TopicPartition("orders", 0))]
    assert brokers(asked) == [(1, 3), (2,)]


VALUE = of_key(FindingKind.DELETED_RECORD_RESURRECTED, "v", key_hash_lo=5)


def showing(broker: int, offset: int) -> ProbeReading:
    shown = KeyShown(RecordShown(offset, "none", value_size=3), True, offset)
    return ProbeReading(ReplicaAnswer(broker), keys={KEY: shown})


def test_about_a_key_the_accused_is_asked_first_and_again_where_it_shows_a_value() -> None:
    assert brokers(asked_of([VALUE])) == [(2,), (1, 3)]
    asked = asked_of([VALUE], ask1={2: showing(2, 4)})
    assert brokers(asked) == [(2,), (1, 3), (2,)]
    assert [a.wants.offsets for a in asked if isinstance(a, Ask)] == [{10}, {4, 10}, {4, 10}]
    assert all(a.wants.keys == {KEY} for a in asked if isinstance(a, Ask))


def test_the_accused_counts_by_its_last_answer_if_it_shows_the_key_and_else_by_its_first() -> None:
    def answer(question: Any) -> Any:
        if isinstance(question, Where):
            return Whereabouts((1, 2), (1, 2), 1)
        asks.append(question)
        if question.brokers == (2,):
            return {2: replace(showing(2, 4), answer=ReplicaAnswer(2, high_watermark=len(asks)))}
        return {1: ProbeReading(ReplicaAnswer(1))}

    asks: list[Any] = []
    other = replace(VALUE, suspect_id="w", key_hash_lo=6)
    first, second = driven(questions([VALUE, other], 0), answer)
    assert [a.replicas[2].high_watermark for a in (first, second)] == [3, 1]


DIFFERS = replace(
    VALUE,
    kind=FindingKind.VISIBILITY_MISMATCH,
    broker=NOBODY,
    recorded=RecordedByViews(sides=parsed({"no value at offset 10": (1,), "value at offset 10": (2, 3)}), pivot=2),
)


def at(broker: int, stable: int, offset: int) -> ProbeReading:
    read = showing(broker, offset)
    return replace(read, answer=ReplicaAnswer(broker, last_stable_offset=stable))


@pytest.mark.parametrize(
    ("claim", "own", "other", "instead"),
    [
        (DIFFERS, at(2, 20, 10), at(3, 30, 10), 3),
        (DIFFERS, ProbeReading(ReplicaAnswer(2, error="down")), at(3, 30, 10), 3),
        (DIFFERS, at(2, 30, 10), at(3, 30, 10), NOBODY),
        (DIFFERS, at(2, 20, 10), at(3, 30, 9), NOBODY),
        (DIFFERS, ProbeReading(ReplicaAnswer(2, error="down")), at(3, 30, 9), NOBODY),
        (DIFFERS, at(2, 20, 10), ProbeReading(ReplicaAnswer(3, last_stable_offset=30)), NOBODY),
        (DIFFERS, ProbeReading(ReplicaAnswer(2, last_stable_offset=20)), at(3, 30, 10), NOBODY),
        (replace(DIFFERS, broker=2), at(2, 20, 10), at(3, 30, 10), NOBODY),
    ],
    ids=["behind", "away", "as far", "shows an older one", "away, and an older one", "none", "shows none", "accused"],
)
def test_if_nobody_is_accused_the_furthest_that_shows_the_value_is_asked_last(
    claim: Claim, own: ProbeReading, other: ProbeReading, instead: int
) -> None:
    shown = {2: own, 3: other, 1: ProbeReading(ReplicaAnswer(1, last_stable_offset=40))}
    asked, (answers,) = put([claim], **{f"ask{n}": shown for n in range(1, 7)})
    assert answers.pivot == instead
    again = [] if instead == NOBODY else [(3,), (1, 2), (3,)]
    assert brokers(asked)[-3:] == again or not again
    assert len(brokers(asked)) <= (6 if again else 3)


def test_a_transaction_whose_record_is_gone_is_asked_about_by_its_key() -> None:
    claim = replace(FROZEN, kind=FindingKind.MARKER_MISSING, key_hash_lo=5, marker_offset=20)
    gone = ProbeReading(ReplicaAnswer(2, open_transactions=()))
    asked = asked_of([claim], ask2={2: gone}, ask3={2: gone})
    assert brokers(asked) == [(1, 3), (2,), (2,), (1, 3), (1, 3), (2,)]
    assert RecordedTransactions("orders", 0, (Transaction(7, 10, 20, 256),)) in asked
    assert not any(isinstance(question, Recreated) for question in asked)
    about_the_rest = [a.wants.offsets for a in asked if isinstance(a, Ask)][-1]
    assert about_the_rest == {10, 11}
    assert Recreated("orders", 0, 2, 5) in asked_of([replace(claim, confirmed_at_ms=5)], ask2={2: gone}, ask3={2: gone})
    held = replace(gone, answer=replace(gone.answer, committed={10: RecordShown(10, "committed", value_size=1)}))
    still_open = replace(gone, answer=replace(gone.answer, open_transactions=(OpenTransaction(7, 10),)))
    for reads in (held, still_open, ProbeReading(ReplicaAnswer(2))):
        assert brokers(asked_of([claim], ask2={2: reads})) == [(1, 3), (2,)]


def test_a_committed_deletion_is_asked_about_by_its_key_until_what_it_took_is_known() -> None:
    claim = replace(FROZEN, kind=FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=5, marker_offset=20)
    knows = replace(claim, recorded=replace(claim.recorded, lacks=4))
    deleted = ReplicaAnswer(2, open_transactions=(), committed={10: RecordShown(10, "committed", value_size=-1)})
    for one, rounds in ((claim, [(1, 3), (2,), (2,), (1, 3)]), (knows, [(1, 3), (2,)])):
        assert brokers(asked_of([one], ask2={2: ProbeReading(deleted)})) == rounds


def test_a_record_that_the_accused_alone_holds_and_hides_is_asked_about_by_its_key() -> None:
    claim = replace(FROZEN, kind=FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=5, marker_offset=20)

    def asked(outcome: str, other: ReplicaAnswer) -> list[tuple[int, ...]]:
        own = ReplicaAnswer(2, open_transactions=(), committed={10: RecordShown(10, outcome, value_size=1)})
        return brokers(
            asked_of(
                [claim], ask1={b: ProbeReading(replace(other, broker=b)) for b in (1, 3)}, ask2={2: ProbeReading(own)}
            )
        )

    lacks = ReplicaAnswer(1, asked_uncommitted=frozenset({10}))
    assert asked("aborted", lacks)[:4] == [(1, 3), (2,), (2,), (1, 3)]
    holds = replace(lacks, uncommitted={10: RecordShown(10, "undecided")})
    for outcome, other in (("committed", lacks), ("aborted", holds), ("aborted", ReplicaAnswer(1))):
        assert asked(outcome, other) == [(1, 3), (2,)]


@pytest.mark.parametrize(("confirmed_at_ms", "recreated"), [(0, False), (5, True)])
def test_that_a_log_is_another_one_is_said_of_a_finding_and_of_the_rest_of_its_transaction(
    confirmed_at_ms: int, recreated: bool
) -> None:
    claim = replace(FROZEN, kind=FindingKind.MARKER_MISSING, key_hash_lo=5, marker_offset=20)
    claim = replace(claim, confirmed_at_ms=confirmed_at_ms)
    gone = {2: ProbeReading(ReplicaAnswer(2, open_transactions=()))}
    _, (answers,) = put([claim], ask2=gone, ask3=gone)
    assert answers.recreated is recreated
    assert [(c.offset, a.recreated, a.leader, a.isr) for c, a in answers.rest] == [(11, recreated, 1, (1, 2, 3))]
    assert "3" in (answers.rest_unknown or "")
    held = put([claim, replace(FROZEN, suspect_id="w", confirmed_at_ms=9)], ask2=gone, ask3=gone)[1][1]
    assert (held.recreated, held.rest, held.rest_unknown) == (False, (), None)


def test_a_log_is_asked_to_be_another_one_since_the_last_of_the_findings() -> None:
    claim = replace(FROZEN, kind=FindingKind.MARKER_MISSING, key_hash_lo=5, marker_offset=20)
    both = [replace(claim, suspect_id=str(at), confirmed_at_ms=at) for at in (5, 9, 7)]
    gone = {2: ProbeReading(ReplicaAnswer(2, open_transactions=()))}
    assert Recreated("orders", 0, 2, 9) in asked_of(both, ask2=gone, ask3=gone)


def test_the_bytes_of_a_key_are_those_that_any_replica_showed() -> None:
    read = ProbeReading(ReplicaAnswer(3), key_bytes={KEY: b"k"})
    for ask in ({2: replace(read, answer=ReplicaAnswer(2))}, {}):
        _, (answers,) = put([VALUE], ask1=ask, ask2={3: read})
        assert answers.key == b"k"
    _, (other,) = put([replace(VALUE, key_hash_lo=6)], ask2={3: read})
    assert other.key is None


def test_coordinators_are_asked_about_the_producers_of_transactions_that_are_known() -> None:
    first, nameless = replace(FROZEN, producer_id=0), replace(FROZEN, suspect_id="n", producer_id=-1)
    value = replace(VALUE, producer_id=8)
    asked, answers = put([first, nameless, value, replace(FROZEN, suspect_id="o")])
    assert [q for q in asked if isinstance(q, Coordinators)] == [Coordinators((0, 7), TopicPartition("orders", 0))]
    assert [a.coordinator.producer_id if a.coordinator else None for a in answers] == [0, None, None, 7]
    assert not any(isinstance(question, Coordinators) for question in asked_of([nameless, value]))


def test_what_is_wanted_are_the_places_producers_and_keys_that_the_claims_know() -> None:
    nowhere = of_offset(name="n", offset=-1)
    assert wanted([nowhere], (1, 2), keys=True) == Wants("orders", 0, replicas=(1, 2))
    begun_at_0 = replace(FROZEN, offset=0, producer_id=0, transaction_start_offset=0, marker_offset=1)
    late = replace(FROZEN, offset=12, transaction_start_offset=-1, marker_offset=30)
    got = wanted([begun_at_0, late, VALUE], (1, 2), keys=True)
    offsets, markers, aborted = frozenset({0, 10, 12}), frozenset({1, 30}), frozenset({0, 12})
    assert got == Wants("orders", 0, offsets, markers, aborted, True, frozenset({KEY}), frozenset(), (1, 2))
    assert wanted([VALUE], (1,)) == Wants("orders", 0, frozenset({10}), replicas=(1,))


@pytest.mark.parametrize(("end", "times"), [(99, 4), (100, 1)])
def test_an_accused_that_has_come_to_where_the_others_end_is_asked_once(end: int, times: int) -> None:
    cluster = Cluster({1: Log(100), 2: Log(end, {7: 10}), 3: Log(120)})
    cluster.probe(FROZEN)
    assert cluster.count(2, Producers) == times


def test_of_a_replica_that_left_one_that_showed_the_same_is_asked_last() -> None:
    where = Whereabouts((1, 3, 4), (1, 3, 4), 1)
    finding = replace(FROZEN, confirmed_at_ms=5, recorded=RecordedByViews(beside=(3,)))
    assert where.pivot_of(finding) == 3
    assert where.pivot_of(replace(DIFFERS, confirmed_at_ms=5)) == 3
    assert where.pivot_of(replace(finding, recorded=RecordedByViews())) == 1


def test_what_has_lost_its_object_is_not_asked_about() -> None:
    for where, reason in (
        (Whereabouts(gone="the topic orders does not exist any more"), "does not exist"),
        (Whereabouts((1, 3), (1, 3), 1), "broker 2 holds no replica of orders-0"),
        (Whereabouts((1, 2, 3), (1, 2, 3), 1, "another"), "re-created"),
    ):
        claim = replace(FROZEN, recorded=RecordedByViews(topic_id="12345"))
        asked: list[Any] = []

        def answer(question: Any, where: Whereabouts = where, asked: list[Any] = asked) -> Any:
            asked.append(question)
            return where

        (answers,) = driven(questions([claim], 5), answer)
        assert reason in (answers.gone or "")
        assert answers.asked_at_ms == 5
        assert len(asked) == 1


def test_a_cluster_that_does_not_answer_leaves_every_claim_with_the_reason() -> None:
    both = [FROZEN, replace(FROZEN, suspect_id="other")]
    for answers in driven(questions(both, 0), lambda _: Whereabouts(error="no broker answers")):
        assert answers.replicas[2].error == "no broker answers"
        assert decide(FROZEN, answers).verdict is ClaimState.PENDING


@pytest.mark.parametrize(("two", "last"), [(NOTHING, [1, 2]), (newest(10), [1])])
def test_one_that_shows_no_value_either_is_asked_last_in_place_of_a_frozen_one(two: KeyShown, last: list[int]) -> None:
    shown = {1: NOTHING, 2: two, 3: newest(10)}
    asked: list[int] = []

    def answer(question: Any) -> Any:
        if isinstance(question, Where):
            return Whereabouts((1, 2, 3), (1, 2, 3), 3)
        assert isinstance(question, Ask)
        asked.extend(question.brokers[:1] if len(question.brokers) == 1 else ())
        return {b: ProbeReading(replica(b, 5 if b == 1 else 100), keys={KEY: shown[b]}) for b in question.brokers}

    recorded = RecordedByViews(sides=parsed({"value at offset 10": (3,), "no value at offset 10": (1, 2)}), pivot=1)
    (got,) = driven(
        questions([replace(VALUE, kind=FindingKind.VISIBILITY_MISMATCH, broker=NOBODY, recorded=recorded)], 0), answer
    )
    assert (list(dict.fromkeys(asked)), got.pivot) == (last, last[-1] if len(last) > 1 else NOBODY)


# One replica.


def requests_of(
    claim: Claim, marks: Marks, *, keys: bool = False, epoch_end: Any = ()
) -> tuple[list[Any], ProbeReading]:
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        shown = NOTHING
        match request:
            case Ends():
                return replace(marks, log_end_offset=marks.log_end_offset + len(asked))
            case Producers():
                return (OpenTransaction(7, 10),)
            case Aborted():
                return ((7, 10), (9, 3))
            case Keys():
                return KeysShown({KEY: shown}, {KEY: b"k"})
            case EndOfEpoch():
                plain = epoch_end == () or request.epoch != 7
                return (request.epoch, request.epoch + 100) if plain else epoch_end
        shown_there = {o: RecordShown(o, "none", key_hash="") for o in request.offsets}
        return PointsShown(shown_there, epochs=dict.fromkeys(request.offsets, 3))

    return asked, driven(reading(2, wanted([claim], (1, 2, 3), keys=keys)), answer)


def test_of_a_transaction_the_ends_of_the_log_are_asked_before_and_after_what_is_open() -> None:
    asked, read = requests_of(FROZEN, Marks(50, 40, 0, 60))
    assert [type(a) for a in asked[:3]] == [Ends, Producers, Ends]
    assert (read.answer.log_end_offset, read.answer.log_end_after, read.answer.ended_below) == (61, 63, 63)
    assert read.answer.open_transactions == (OpenTransaction(7, 10),)
    asked, read = requests_of(VALUE, Marks(50, 40, 0, 60))
    assert [type(a) for a in asked].count(Ends) == 1
    assert (read.answer.open_transactions, read.answer.open_error) == (None, "not asked")


def test_what_a_replica_has_just_shown_of_keys_goes_with_the_question_for_them() -> None:
    def answer(request: Any) -> Any:
        asked.append(request)
        if isinstance(request, Points):
            return PointsShown({o: RecordShown(o, "none", key_hash="a") for o in request.offsets})
        return Marks(50, 40, 0, 60) if isinstance(request, Ends) else KeysShown()

    asked: list[Any] = []
    others = replace(VALUE, offset=12), replace(VALUE, offset=45)
    driven(reading(2, wanted([VALUE, *others], (1, 2), keys=True)), answer)
    assert [a for a in asked if isinstance(a, Keys)] == [Keys(0, 40, {"a": {10, 12}})]


def test_of_a_key_the_last_stable_offset_is_asked_once_more_when_it_was_read() -> None:
    asked, read = requests_of(VALUE, Marks(50, 40, 0, 60), keys=True)
    kinds = [type(a) for a in asked]
    assert [i for i, kind in enumerate(kinds) if kind is Ends] == [0, kinds.index(Keys) + 1]
    assert (read.answer.last_stable_offset, read.answer.stable_after) == (40, 40)
    stable = iter((40, 45))

    def answer(request: Any) -> Any:
        if isinstance(request, Ends):
            return Marks(50, next(stable), 0, 60)
        return KeysShown() if isinstance(request, Keys) else PointsShown()

    said = driven(reading(2, wanted([VALUE], (1, 2), keys=True)), answer).answer
    assert (said.last_stable_offset, said.stable_after) == (40, 45)
    assert requests_of(FROZEN, Marks(50, 40, 0, 60))[1].answer.stable_after == -1


def test_producers_that_are_not_listed_are_an_answer_with_its_reason() -> None:
    def answer(request: Any) -> Any:
        return "not authorized" if isinstance(request, Producers) else Log(0).answer(request)

    read = driven(reading(2, wanted([FROZEN], (2,))), answer)
    assert (read.answer.open_transactions, read.answer.open_error) == (None, "not authorized")


@pytest.mark.parametrize(("lso", "mark", "start", "decided", "held"), [
    (11, 21, 10, {10}, {10, 20}),
    (10, 20, 10, set(), {10}),
    (30, 30, 11, set(), {20}),
    (21, 21, 0, {10}, {10, 20}),
])  # fmt: skip
def test_only_what_a_consumer_could_get_is_asked_for(
    lso: int, mark: int, start: int, decided: set[int], held: set[int]
) -> None:
    asked, read = requests_of(replace(FROZEN, marker_offset=20), Marks(mark, lso, start, 90))
    points = {a.isolation.option: a.offsets for a in asked if isinstance(a, Points)}
    assert points.get("read_committed", set()) == decided == read.answer.asked
    assert points.get("read_uncommitted", set()) == held
    assert set(read.answer.committed) == decided


def test_a_reading_has_the_part_of_each_claim() -> None:
    _, read = requests_of(VALUE, Marks(50, 40, 0, 60), keys=True)
    answer = read.for_claim(VALUE)
    assert answer.key == NOTHING
    assert read.for_claim(replace(VALUE, key_hash_lo=9)).key is None
    asked, read = requests_of(FROZEN, Marks(50, 40, 0, 60))
    assert Aborted(10) in asked
    assert read.for_claim(FROZEN).aborted == ((7, 10),)
    assert read.for_claim(replace(FROZEN, producer_id=9)).aborted == ((9, 3),)
    failed = ProbeReading(silent(2))
    assert failed.for_claim(FROZEN).error == silent(2).error


def test_it_holds_what_lies_at_the_claims_places_and_where_its_key_is_shown_and_nothing_else() -> None:
    """In the marker's place lies what shows that the log was replaced; the key's records may lie anywhere."""
    claim = replace(FROZEN, offset=10, transaction_start_offset=9, marker_offset=20, key_hash_lo=5)
    own, other = claim.key_text, "f" * 32
    held = {o: RecordShown(o, "undecided", key_hash=own if o in (10, 33) else other) for o in (9, 10, 20, 31, 33, 40)}
    answer = ReplicaAnswer(2, committed=held, uncommitted=held, epochs_at=dict.fromkeys(held, 4))
    assert claim.key is not None
    read = ProbeReading(answer, keys={claim.key: KeyShown(held[31], True, 31)}).for_claim(claim)
    assert set(read.uncommitted) == set(read.epochs_at) == {9, 10, 20, 31, 33}
    assert set(read.committed) == {9, 10, 31, 33}


def test_where_the_leader_epoch_of_what_proves_a_claim_ends_is_asked() -> None:
    recorded = RecordedByViews(leader_epoch=7)
    ended = replace(FROZEN, marker_offset=30, recorded=recorded)
    for claim, epochs in ((ended, {7: 107}), (replace(VALUE, recorded=recorded), {7: 107}), (VALUE, {})):
        answer = requests_of(claim, Marks(50, 40, 0, 60), keys=True)[1].answer
        assert (answer.epoch_ends, answer.epochs_known) == (epochs, epochs.keys())
    assert replace(ended, marker_offset=-1).proofs == ()


def test_of_a_deletion_that_its_end_marker_proves_the_epochs_of_both_are_asked() -> None:
    deleted = replace(VALUE, kind=FindingKind.DELETED_RECORD_RESURRECTED, producer_id=7, marker_offset=VALUE.offset + 1)
    known = replace(deleted, recorded=RecordedByViews(leader_epoch=7, end_epoch=8))
    assert known.proofs == ((VALUE.offset, 7), (VALUE.offset + 1, 8))
    assert wanted([known], (1, 2, 3)).epochs == {7, 8}


def test_the_log_whose_transactions_ended_is_named_by_its_last_offset_and_leader_epoch() -> None:
    before = HadEnded(start=0, to=20, below=30, epoch=7, broker=1)
    claim = replace(FROZEN, recorded=RecordedByViews(had_ended=before))
    wants = wanted([claim], (1, 2, 3))
    assert (wants.epochs, wants.markers) == ({7}, set(range(11, 30))), "what is behind its record shows if it has room"
    far = replace(claim, recorded=RecordedByViews(had_ended=replace(before, below=1000)))
    assert wanted([far], (1, 2, 3)).markers == {999}
    read = ProbeReading(ReplicaAnswer(2, epochs_at={29: 7, 28: 6, 9: 6})).for_claim(claim)
    assert read.epochs_at == {29: 7, 28: 6}


@pytest.mark.parametrize(("found", "end", "known"), [((6, 107), 107, set()), ((7, 107), 107, {7}), (None, None, set())])
def test_a_log_may_end_an_epoch_that_it_does_not_know(found: Any, end: int | None, known: set[int]) -> None:
    claim = replace(FROZEN, marker_offset=30, recorded=RecordedByViews(leader_epoch=7))
    answer = requests_of(claim, Marks(50, 40, 0, 60), epoch_end=found)[1].answer
    assert (answer.epoch_ends, answer.epochs_known) == ({7: end}, known)


@pytest.mark.parametrize(("before", "known"), [((7, 9), set()), ((6, 8), {7}), ((6, 9), set()), (None, {7})])
def test_a_log_that_begins_with_a_newer_epoch_does_not_know_the_one_that_it_answers_with(
    before: Any, known: set[int]
) -> None:
    def answer(request: Any) -> Any:
        if isinstance(request, EndOfEpoch):
            return (7, 9) if request.epoch == 7 else before
        return Marks(50, 40, 0, 60) if isinstance(request, Ends) else PointsShown()

    claim = replace(VALUE, recorded=RecordedByViews(leader_epoch=7))
    said = driven(reading(2, wanted([claim], (1, 2, 3))), answer).answer
    assert (said.epoch_ends, said.epochs_known) == ({7: 9}, known)


def test_the_epoch_of_what_is_left_at_a_claims_places_is_part_of_its_answer() -> None:
    claim = replace(FROZEN, marker_offset=30)
    read = requests_of(claim, Marks(50, 40, 0, 60))[1]
    assert read.for_claim(claim).epochs_at == {10: 3, 30: 3}
    assert read.for_claim(replace(claim, marker_offset=-1)).epochs_at == {10: 3}


@pytest.mark.parametrize(("epoch", "asked_about"), [(0, [0]), (1, [0, 1]), (7, [6, 7])])
def test_the_end_of_the_epoch_before_is_asked_as_well_where_there_is_one(epoch: int, asked_about: list[int]) -> None:
    claim = replace(VALUE, recorded=RecordedByViews(leader_epoch=epoch))
    asked, read = requests_of(claim, Marks(50, 40, 0, 60))
    assert [a.epoch for a in asked if isinstance(a, EndOfEpoch)] == asked_about
    assert read.answer.epoch_ends == {epoch: epoch + 100}


@pytest.mark.parametrize(("start", "end", "is_asked"), [(10, 60, True), (11, 60, False), (0, 10, True), (0, 9, False)])
def test_aborted_transactions_are_listed_only_from_an_offset_that_the_log_has(
    start: int, end: int, is_asked: bool
) -> None:
    asked, read = requests_of(FROZEN, Marks(0, 0, start, end - 1))  # It grows by one with the first request.
    assert (Aborted(10) in asked) is is_asked
    assert bool(read.aborted) is is_asked


def test_why_a_key_was_not_read_is_said_of_that_which_is_not_there_or_not_complete() -> None:
    whole, partly = NOTHING, KeyShown(None, False)
    for keys, error in (({KEY: whole}, None), ({KEY: partly}, "too long"), ({}, "too long")):
        read = ProbeReading(ReplicaAnswer(2), keys=keys, key_error="too long")
        assert read.for_claim(VALUE).key_error == error


def test_a_broker_that_is_too_old_to_say_where_an_epoch_ends_says_nothing_of_it() -> None:
    claim = replace(VALUE, recorded=RecordedByViews(leader_epoch=7))
    assert requests_of(claim, Marks(50, 40, 0, 60), epoch_end="too old")[1].answer.epoch_ends == {}


def test_each_is_asked_where_the_epochs_end_of_what_those_before_it_show() -> None:
    def shown(broker: int, epoch: int) -> ProbeReading:
        known = KeyShown(RecordShown(5, "none", value_size=3, leader_epoch=epoch), True, 5)
        return ProbeReading(ReplicaAnswer(broker), keys={KEY: known})

    asked: list[tuple[tuple[int, ...], frozenset[int]]] = []

    def answer(question: Any) -> Any:
        if isinstance(question, Where):
            return Whereabouts((1, 2, 3), (1, 2, 3), 1)
        asked.append((question.brokers, question.wants.epochs))
        return {b: shown(b, 10 * b) for b in question.brokers}

    driven(questions([replace(VALUE, recorded=RecordedByViews(leader_epoch=7))], 0), answer)
    assert asked == [((2,), {7}), ((1, 3), {7, 20}), ((2,), {7, 10, 20, 30})]
    asked.clear()
    shown_in = {2: 0, 1: -1, 3: 4}

    def other(question: Any) -> Any:
        answer(question)
        return (
            Whereabouts((1, 2, 3), (1, 2, 3), 1)
            if isinstance(question, Where)
            else {b: shown(b, shown_in[b]) for b in question.brokers}
        )

    driven(questions([VALUE], 0), other)
    assert asked == [((2,), set()), ((1, 3), {0}), ((2,), {0, 4})]


def test_where_a_leader_epoch_ends_is_asked_of_a_log_that_was_truncated() -> None:
    claim = of_offset(FindingKind.LOG_TRUNCATED, recorded=RecordedByViews(epochs={2: "4"}))
    _, read = requests_of(claim, Marks(50, 50, 0, 50))
    assert read.answer.epoch_ends == {4: 104}
