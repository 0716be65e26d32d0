"""The judge's answer to a claim, and how it stands to the one that is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from parallax.evidence.ledger import Ledger
from parallax.findings import second_opinion
from parallax.findings.answers import Answers, KeyShown, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState as Decided
from parallax.findings.decide import Decision, Resolution, decide
from parallax.findings.effect import JudgedRecord
from parallax.findings.second_opinion import Agreement, Opinion, Says, SecondOpinions, agreement, opinion
from parallax.logs import FIELDS
from parallax.model import NOBODY, FindingKind, hash_text
from tests.builders.answers import OPEN, PRODUCER, answers, marker, record, replica, silent
from tests.builders.claims import claim, of_key, of_offset

KEY = (3, 4)
OF_A_KEY = of_key(FindingKind.RECORD_MISSING, key_hash_hi=3, key_hash_lo=4)
HEAD = claim(FindingKind.LOG_HEAD_MISSING, offset=5)
CONTENT = of_offset(FindingKind.CONTENT_MISMATCH)
FROZEN = claim(FindingKind.READ_COMMITTED_FROZEN)
MARKED = marker(20, "commit", epoch=0)


def of(known: Claim, *replicas: ReplicaAnswer, deletes: bool = False, **fields: Any) -> Opinion:
    told = answers(*replicas, leader_epoch=0, isr=tuple(r.broker for r in replicas), **fields)
    return opinion(known, told, Ledger(1_000), compacted=True, deletes=deletes)


def one_log(broker: int, **fields: Any) -> ReplicaAnswer:
    """A log of one leader epoch, asked at the claim's offsets."""
    asked = frozenset({10, 20})
    known: dict[str, Any] = {"epoch_ends": {0: 100}, "epochs_known": frozenset({0}), "epochs_at": {10: 0}}
    return replica(broker, asked_uncommitted=asked, asked=asked, **(known | fields))


def valued(broker: int, visible: RecordShown | None) -> ReplicaAnswer:
    return one_log(broker, key=KeyShown(visible, True))


def at(offset: int) -> RecordShown:
    return record(offset, leader_epoch=0, producer_id=-1, key_hash=hash_text(*KEY), content_hash=hash_text(offset))


def test_one_that_shows_an_older_value_than_the_newest_is_wrong() -> None:
    judged = of(OF_A_KEY, valued(1, at(10)), valued(2, at(5)), valued(3, at(10)))
    assert (judged.says, judged.accused) == (Says.WRONG, {2})
    assert judged.right == set()


def test_a_value_that_may_have_been_deleted_unseen_makes_a_difference() -> None:
    assert of(OF_A_KEY, valued(1, at(10)), valued(2, None), valued(3, at(10))).says is Says.DIFFER


def test_all_that_show_the_newest_value_may_have_missed_a_deletion() -> None:
    assert of(OF_A_KEY, *(valued(broker, at(10)) for broker in (1, 2, 3))).says is Says.UNKNOWN


def test_a_log_that_begins_above_another_has_lost_its_head() -> None:
    lost = replica(2, log_start_offset=5)
    assert of(HEAD, replica(1), lost, replica(3)).accused == {2}
    assert of(HEAD, replica(1), lost, replica(3), deletes=True).says is Says.UNKNOWN
    assert of(HEAD, replica(1), replica(2), replica(3)).says is Says.RIGHT
    assert of(HEAD, replica(1), replica(2), silent(3)).says is Says.UNKNOWN


def test_unlike_records_at_a_place_differ_and_like_ones_are_right() -> None:
    held = [one_log(broker, uncommitted={10: at(10)}) for broker in (1, 2, 3)]
    assert of(CONTENT, *held).says is Says.RIGHT
    other = replace(held[1], uncommitted={10: replace(at(10), content_hash=hash_text(1))})
    assert of(CONTENT, held[0], other, held[2]).says is Says.DIFFER


def test_one_that_holds_a_transaction_open_behind_its_end_marker_is_wrong() -> None:
    ended = [one_log(broker, markers=(MARKED,)) for broker in (1, 3)]
    held = one_log(2, open_transactions=OPEN, last_stable_offset=10, epochs_at={10: 0, 20: 0})
    judged = of(FROZEN, ended[0], held, ended[1])
    assert (judged.says, judged.accused) == (Says.WRONG, {2})
    assert of(replace(FROZEN, producer_id=PRODUCER + 1), ended[0], held, ended[1]).says is Says.UNKNOWN


WRONG = of(HEAD, replica(1), replica(2, log_start_offset=5), replica(3))
STAND: dict[str, tuple[Decided, dict[str, Any], Opinion, Agreement]] = {
    "both accuse one": (Decided.CONFIRMED, {"accused": 2}, WRONG, Agreement.SAME),
    "they accuse two": (Decided.CONFIRMED, {"accused": 4}, WRONG, Agreement.DECIDED),
    "one accuses whom the other calls right": (Decided.CONFIRMED, {"accused": 3}, WRONG, Agreement.CONTRADICT),
    "the judge has a direction": (Decided.CONFIRMED, {"accused": NOBODY}, WRONG, Agreement.JUDGE),
    "nothing is decided": (Decided.PENDING, {}, WRONG, Agreement.JUDGE),
    "the judge does not know": (Decided.CONFIRMED, {"accused": 2}, Opinion(), Agreement.DECIDED),
    "neither knows": (Decided.PENDING, {}, Opinion(), Agreement.SAME),
    "it is nothing to the judge": (Decided.CONFIRMED, {"accused": 2}, Opinion(is_over=True), Agreement.CONTRADICT),
    "it is over": (Decided.DISMISSED, {}, Opinion(is_over=True), Agreement.SAME),
    "it is over, and stands": (Decided.DISMISSED, {}, WRONG, Agreement.CONTRADICT),
    "nothing is left of it": (Decided.DISMISSED, {"resolution": Resolution.COMPACTED}, WRONG, Agreement.JUDGE),
    "all are wrong": (Decided.DISMISSED, {"resolution": Resolution.SPREAD}, WRONG, Agreement.DECIDED),
}


@pytest.mark.parametrize("name", STAND)
def test_two_answers_stand_to_each_other_by_what_each_knows(name: str) -> None:
    verdict, more, judged, how = STAND[name]
    assert agreement(HEAD, Decision(verdict, FindingKind.LOG_HEAD_MISSING, "", **more), judged) is how


def test_that_another_replica_is_wrong_contradicts_no_decision_on_the_one_that_was_suspected() -> None:
    over = Decision(Decided.DISMISSED, FindingKind.LOG_HEAD_MISSING, "")
    assert agreement(replace(HEAD, broker=3), over, WRONG) is Agreement.JUDGE
    assert agreement(replace(HEAD, broker=NOBODY), over, WRONG) is Agreement.CONTRADICT


def test_what_is_decided_of_a_lost_head_the_judge_says_as_well() -> None:
    told = answers(replica(1), replica(2, log_start_offset=5), replica(3), cleanup_policy="compact")
    judged = opinion(HEAD, told, Ledger(0), compacted=True, deletes=False)
    assert agreement(HEAD, decide(HEAD, told), judged) is Agreement.SAME


def contradicted(_: Claim) -> Answers:
    """Broker 2 shows an older value, and the decision has it that all is well."""
    return answers(valued(1, at(10)), valued(2, at(5)), valued(3, at(10)), leader_epoch=0, isr=(1, 2, 3))


@pytest.fixture
def dismissing(monkeypatch: pytest.MonkeyPatch) -> None:
    over = Decision(Decided.DISMISSED, FindingKind.RECORD_MISSING, "all is well")
    monkeypatch.setattr(second_opinion, "whole", lambda c, a, **_: JudgedRecord(c, over, a))


@pytest.mark.usefixtures("dismissing")
def test_a_contradiction_is_counted_each_time_and_logged_once_a_suspect() -> None:
    opinions = SecondOpinions()
    with capture_logs() as logged:
        for suspect in ("a", "a", "b"):
            opinions.hear([replace(OF_A_KEY, suspect_id=suspect)], [contradicted(OF_A_KEY)])
    assert opinions.counts == {"contradict": 3}
    assert [(line["suspect"], line["text"], line["why"]) for line in logged] == [
        (suspect, "right: all is well", "wrong in every possible truth: broker 2") for suspect in ("a", "b")
    ]
    assert all({*line} - {"event", "log_level"} <= {*FIELDS} for line in logged)


def test_what_the_judge_says_as_well_is_counted_and_not_logged() -> None:
    told = answers(replica(1), replica(2, log_start_offset=5), replica(3), cleanup_policy="compact")
    opinions = SecondOpinions()
    with capture_logs() as logged:
        opinions.hear([HEAD], [told])
        opinions.hear([HEAD], [replace(told, gone="the topic is gone")])
    assert opinions.counts == {"same": 1}
    assert logged == []


def test_a_judge_that_raises_is_counted_and_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any, **__: Any) -> Opinion:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(second_opinion, "opinion", breaks)
    opinions = SecondOpinions()
    with capture_logs() as logged:
        opinions.hear([HEAD], [answers(replica(1), replica(2), replica(3))])
    assert opinions.counts == {"failed": 1}
    assert [(line["log_level"], line["suspect"]) for line in logged] == [("error", "s")]


def test_of_a_page_only_some_claims_have_a_second_opinion() -> None:
    told = answers(replica(1), replica(2), replica(3), cleanup_policy="compact")
    opinions = SecondOpinions()
    opinions.hear([HEAD] * 1_000, [told] * 1_000)
    assert sum(opinions.counts.values()) == 16
