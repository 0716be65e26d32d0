"""A finding covers every record of its transaction, and ends only when none of them is wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from parallax.findings.answers import Answers, KeyShown, MarkerShown, ReplicaAnswer
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.decide import ClaimState, Resolution, decide
from parallax.findings.effect import COVERED, JudgedRecord, about_the_rest, covered, remembered, unknown_rest, whole
from parallax.findings.requests import TransactionRecords
from parallax.model import FindingKind
from tests.builders.answers import NOTHING, OPEN, answers, holding, marker, record, replica, silent
from tests.builders.claims import claim

K1, K2 = (0, 1), (0, 2)
POISON = claim(FindingKind.ABORTED_RECORD_COMMITTED, key_hash_lo=1, recorded=RecordedByViews(markers={1: "abort"}))
"""K1 at 10 and K2 at 11 were aborted at 20; broker 2 shows both as committed."""
(SECOND,) = covered(POISON, TransactionRecords(((10, K1), (11, K2))))


def kept(claim: Claim, answers: Answers) -> RecordedByViews:
    """What is remembered of the replicas after a probe."""
    return remembered(claim, decide(claim, answers), answers)


def overwritten(*brokers: int) -> list[ReplicaAnswer]:
    """The first record is compacted away: a newer one of its key is shown."""
    return [replica(b, key=KeyShown(record(40), True, 40), asked=frozenset({10})) for b in brokers]


def second(broker: int, outcome: str) -> ReplicaAnswer:
    return replica(broker, committed={11: record(11, outcome=outcome)}, asked=frozenset({11}))


def judged(rest: Sequence[ReplicaAnswer] = (), **fields: Any) -> JudgedRecord:
    """A finding that is checked again, after its first record was overwritten and compacted away."""
    about = ((SECOND, answers(*rest)),) if rest else ()
    return whole(POISON, replace(answers(*overwritten(1, 2, 3)), rest=about, **fields), live_only=True)


def test_a_finding_stands_while_another_record_of_its_transaction_is_wrong() -> None:
    got = judged([second(1, "aborted"), second(2, "committed"), second(3, "aborted")])
    assert got.decision.verdict is ClaimState.CONFIRMED
    assert (got.claim.offset, got.claim.key) == (11, K2)
    assert got.claim.suspect_id == POISON.suspect_id


def test_a_finding_ends_when_all_records_of_its_transaction_are_overwritten() -> None:
    gone = [replica(b, key=KeyShown(record(41), True, 41), asked=frozenset({11})) for b in (1, 2, 3)]
    got = judged(gone)
    assert (got.decision.verdict, got.decision.resolution) == (ClaimState.DISMISSED, Resolution.COMPACTED)
    assert got.claim.offset == 10


def test_a_record_that_all_replicas_show_wrongly_by_now_has_spread() -> None:
    assert judged([second(b, "committed") for b in (1, 2, 3)]).decision.has_spread


def test_a_record_that_cannot_be_judged_yet_keeps_the_finding_open() -> None:
    away = ReplicaAnswer(2, error="broker 2: no answer")
    assert judged([second(1, "aborted"), away, second(3, "aborted")]).decision.verdict is ClaimState.PENDING


def test_a_record_that_the_accused_shows_rightly_again_says_so_of_all_of_its_transaction() -> None:
    got = judged([second(b, "aborted") for b in (1, 2, 3)])
    assert (got.decision.verdict, got.decision.resolution) == (ClaimState.DISMISSED, Resolution.UNPROVEN)
    marker = MarkerShown(POISON.marker_offset, POISON.producer_id, "abort")
    got = judged([replace(second(b, "aborted"), markers=(marker,)) for b in (1, 2, 3)])
    assert (got.decision.verdict, got.decision.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)


def test_the_value_of_another_record_proves_nothing_of_a_suspect_that_goes_by_what_is_live() -> None:
    value, none = KeyShown(record(15), True, 15), NOTHING
    shown = [replica(b, key=none if b == 2 else value, asked=frozenset({11, 15})) for b in (1, 2, 3)]
    given = replace(answers(*overwritten(1, 2, 3)), rest=((SECOND, answers(*shown)),))
    assert whole(POISON, given, live_only=True).decision.verdict is ClaimState.CONFIRMED
    assert whole(replace(POISON, freed=True), given, live_only=True).decision.verdict is ClaimState.DISMISSED


def test_records_that_were_not_asked_about_keep_the_finding_open() -> None:
    got = judged(rest_unknown="7 more records of the transaction were not asked about")
    assert got.decision.verdict is ClaimState.PENDING
    assert "7 more records" in got.decision.reason


def test_a_log_that_was_replaced_heals_nothing_of_records_that_were_not_asked_about() -> None:
    left_out = "7 more records of the transaction were not asked about"
    for unknown, verdict in ((None, ClaimState.DISMISSED), (left_out, ClaimState.PENDING)):
        got = judged(recreated=True, rest_unknown=unknown)
        assert (got.decision.verdict, got.decision.resolution) == (verdict, Resolution.HEALED)
    shown = marker(POISON.marker_offset, "abort", POISON.producer_id)
    ended = [replace(answer, markers=(shown,)) for answer in overwritten(1, 2, 3)]
    got = whole(POISON, answers(*ended, rest_unknown=left_out), live_only=True)
    assert (got.decision.verdict, got.decision.resolution) == (ClaimState.DISMISSED, Resolution.HEALED)


def test_nothing_is_left_of_a_transaction_below_the_log_start_whatever_the_views_know_of_it() -> None:
    unknown = "the other records of the transaction are not known: the views begin above it"
    for start, expected in ((11, ClaimState.PENDING), (21, ClaimState.DISMISSED)):
        gone = [replace(answer, log_start_offset=start, key=None) for answer in overwritten(1, 2, 3)]
        got = whole(POISON, answers(*gone, rest_unknown=unknown), live_only=True)
        assert (got.decision.verdict, got.decision.resolution) == (expected, Resolution.DELETED)


def test_the_first_record_is_enough_while_it_is_wrong() -> None:
    wrong = answers(holding(1, "aborted"), holding(2, "committed"), holding(3, "aborted"))
    assert whole(POISON, wrong, live_only=True).claim.offset == 10


class TestWhatIsAskedAbout:
    def asked(self, c: Claim, *shown: ReplicaAnswer) -> bool:
        return bool(about_the_rest([c], {c.suspect_id: {answer.broker: answer for answer in shown}}))

    def test_the_rest_once_the_accused_holds_the_record_no_more(self) -> None:
        (question,) = about_the_rest([POISON], {POISON.suspect_id: {2: replica(2)}}).values()
        assert (question.producer_id, question.start, question.end) == (POISON.producer_id, 10, 20)

    def test_the_rest_once_the_accused_hides_the_record_and_no_other_replica_holds_it(self) -> None:
        lacking = replica(1, asked_uncommitted=frozenset({10}))
        assert self.asked(POISON, lacking, holding(2, "aborted"))
        for shown in ((lacking, holding(2, "committed")), (lacking, holding(2, "aborted"), silent(3))):
            assert not self.asked(POISON, *shown)

    @pytest.mark.parametrize(
        "accused",
        [holding(2, "committed"), replica(2, open_transactions=OPEN), silent(2)],
        ids=["held", "open", "away"],
    )
    def test_nothing_where_the_record_itself_or_the_open_transaction_tells(self, accused: ReplicaAnswer) -> None:
        assert not self.asked(POISON, accused)

    def test_nothing_where_nobody_knows_where_the_transaction_ended(self) -> None:
        assert not self.asked(replace(POISON, marker_offset=-1), replica(2))
        assert not self.asked(claim(FindingKind.CONTENT_MISMATCH), replica(2))

    def test_the_rest_of_one_that_has_spread_although_the_record_is_held(self) -> None:
        assert self.asked(replace(POISON, spread=True), holding(2, "committed"))

    def test_a_bounded_number_of_records_for_one_claim_and_for_many(self) -> None:
        many = [replace(POISON, suspect_id=f"s{i}") for i in range(64)]
        asked = about_the_rest(many, {c.suspect_id: {2: replica(2)} for c in many})
        assert {question.limit for question in asked.values()} == {16}
        assert about_the_rest([POISON], {POISON.suspect_id: {2: replica(2)}})[POISON.suspect_id].limit == COVERED

    def test_what_is_not_known_of_the_rest_is_said(self) -> None:
        assert unknown_rest(TransactionRecords()) is None
        assert "3 more records" in (unknown_rest(TransactionRecords(left_out=3)) or "")
        assert "disk" in (unknown_rest(TransactionRecords(error="disk")) or "")


def test_that_the_record_was_a_deletion_is_remembered_when_no_replica_holds_it_any_more() -> None:
    held = replica(1, uncommitted={10: record(10, value_size=-1)})
    recorded = kept(POISON, answers(held, replica(2)))
    assert recorded.was_deletion
    assert RecordedByViews.parse(json.dumps(recorded.as_json())).was_deletion
    assert kept(replace(POISON, recorded=recorded), answers(replica(1), replica(2))).was_deletion
    assert not kept(POISON, answers(holding(1, "aborted"), replica(2))).was_deletion


def test_an_end_marker_that_another_replica_shows_is_remembered_and_the_accuseds_own_is_not() -> None:
    marker = (MarkerShown(20, POISON.producer_id, "abort"),)
    other, another = (MarkerShown(20, 1, "commit"),), (MarkerShown(21, POISON.producer_id, "commit"),)
    shown = [replica(1, markers=other), replica(2, markers=marker), replica(3, markers=marker)]
    got = kept(replace(POISON, recorded=RecordedByViews()), Answers({a.broker: a for a in shown}))
    assert got.markers == {3: "abort"}
    assert kept(replace(POISON, recorded=RecordedByViews()), answers(replica(1, markers=another))).markers == {}


def test_the_leader_epoch_of_the_end_marker_that_its_own_replica_contradicts_is_remembered() -> None:
    marker = (MarkerShown(20, POISON.producer_id, "abort", leader_epoch=4),)
    own = Answers({POISON.broker: replica(POISON.broker, markers=marker)})
    contradicting = replace(POISON, kind=FindingKind.OUTCOME_CONTRADICTS_MARKER, recorded=RecordedByViews())
    assert kept(contradicting, own).leader_epoch == 4
    assert kept(replace(POISON, recorded=RecordedByViews()), own).leader_epoch == -1


def test_the_record_that_the_claim_names_is_not_asked_about_twice() -> None:
    assert [c.offset for c in covered(POISON, TransactionRecords(((10, K1), (11, K2), (12, K1))))] == [11, 12]
    nameless = replace(POISON, key_hash_hi=0, key_hash_lo=0)
    assert [c.offset for c in covered(nameless, TransactionRecords(((10, K1), (11, K2))))] == [11]
    found = covered(replace(nameless, confirmed_at_ms=1), TransactionRecords(((10, K1), (11, K2))))
    assert [(c.offset, c.key) for c in found] == [(10, K1), (11, K2)], "a finding without a key"


def test_a_later_end_marker_of_the_accused_alone_says_nothing_of_records_it_lacks() -> None:
    # Broker 2 was read to hold the record at 18, and then nothing below the COMMIT at 60: it may have had the ABORT at
    # 20, and cleaned it with the records before it was read.
    recorded = RecordedByViews(markers={1: "abort", 2: "commit", 3: "abort"})
    suspect = replace(POISON, offset=18, transaction_start_offset=18, key_hash_lo=0, recorded=recorded)
    (rest,) = covered(suspect, TransactionRecords(((18, K1), (19, K2))))
    gone = [replica(b, asked=frozenset({18, 19}), key=KeyShown(None, True, -1)) for b in (1, 2, 3)]
    for one in (suspect, replace(suspect, offset=19, transaction_start_offset=19)):
        got = whole(one, replace(answers(*gone), rest=((rest, answers(*gone)),)))
        assert (got.decision.verdict, got.decision.was_shown) == (ClaimState.DISMISSED, False)


@pytest.mark.parametrize(("end_unproven", "is_told"), [(False, True), (True, False)])
def test_the_outcome_of_one_record_is_that_of_another_only_if_no_end_lay_between_them(
    end_unproven: bool, is_told: bool
) -> None:
    # Broker 2 has aborted the record at 10. That at 11 it may never have held: the ABORT of the first may have lain
    # between, and the COMMIT at 20 may have ended the second alone.
    recorded = RecordedByViews(outcomes={2: "aborted"}, markers={1: "commit", 2: "abort"}, end_unproven=end_unproven)
    suspect = claim(FindingKind.COMMITTED_RECORD_ABORTED, key_hash_lo=1, recorded=recorded)
    (rest,) = covered(suspect, TransactionRecords(((10, K1), (11, K2))))
    assert rest.recorded.outcomes == ({2: "aborted"} if is_told else {})
