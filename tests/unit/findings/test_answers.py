"""What replicas answered to a probe: what is not said is not known, and evidence is what was said."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from parallax.findings.answers import (
    Answers,
    CoordinatorAnswer,
    KeyShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from tests.builders.answers import marker


@pytest.mark.parametrize(
    "answer",
    [
        RecordShown(3, "none"),
        marker(3, "abort", 3),
        OpenTransaction(3, 3),
        ReplicaAnswer(3),
        Answers({}, isr=(3,)),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_a_number_that_was_not_said_is_minus_one(answer: Any) -> None:
    counted = {"asked_at_ms", "rest_left_out"}
    numbers = {v for k, v in asdict(answer).items() if type(v) is int and k not in counted}
    assert numbers <= {3, -1}
    assert -1 in numbers


def test_of_a_key_nothing_was_overlooked_unless_it_is_said() -> None:
    shown = KeyShown(None, complete=True)
    assert (shown.newest_offset, shown.complete_from) == (-1, 0)


def test_a_tombstone_is_no_live_value_and_an_empty_value_is_one() -> None:
    for size, is_live in ((-1, False), (0, True), (5, True)):
        assert (KeyShown(RecordShown(3, "none", value_size=size), complete=True).live is not None) is is_live
    assert KeyShown(None, complete=True).live is None


@pytest.mark.parametrize(
    ("listed", "marker", "covers"),
    [
        ((7, 10), -1, True),
        ((7, 9), -1, True),
        ((7, 11), -1, False),
        ((7, 19), 20, True),
        ((7, 20), 20, False),
        ((8, 10), 20, False),
    ],
)
def test_what_is_listed_is_the_transaction_where_it_begins_no_later_or_below_the_marker(
    listed: tuple[int, int], marker: int, covers: bool
) -> None:
    other = OpenTransaction(9, 0)
    answer = ReplicaAnswer(1, open_transactions=(other, OpenTransaction(*listed)))
    assert answer.holds_open(7, 10, marker) is covers
    found = answer.open_transaction(7, 10, marker)
    assert (found is not None and found.start_offset == listed[1]) is covers
    assert not ReplicaAnswer(1).holds_open(7, 10, marker), "it was not listed"


def test_what_the_cleaner_took_was_superseded_below_the_last_stable_offset_asked_last() -> None:
    assert ReplicaAnswer(1, last_stable_offset=5).cleaned_below == 5
    assert ReplicaAnswer(1, last_stable_offset=5, stable_after=8).cleaned_below == 8


def test_what_is_not_listed_ended_below_where_the_log_ended_last() -> None:
    assert ReplicaAnswer(1, log_end_offset=5).ended_below == 5
    assert ReplicaAnswer(1, log_end_offset=5, log_end_after=8).ended_below == 8


def test_two_records_of_one_offset_agree_by_producer_key_content_and_time() -> None:
    same = {"timestamp": 5, "producer_id": 7, "producer_epoch": 1, "key_hash": "a", "content_hash": "b"}
    first = RecordShown(3, "committed", leader_epoch=2, **same)
    assert first.fingerprint == RecordShown(3, "aborted", leader_epoch=4, **same).fingerprint
    for name, value in {"timestamp": 6, "producer_id": 8, "producer_epoch": 2, "key_hash": "c"}.items():
        assert first.fingerprint != RecordShown(3, "committed", **(same | {name: value})).fingerprint


def test_the_evidence_holds_what_each_said_in_order_and_nothing_of_who_did_not_answer() -> None:
    said = ReplicaAnswer(
        1,
        committed={9: RecordShown(9, "none")},
        asked=frozenset({9, 4}),
        aborted=((7, 2),),
        open_transactions=(),
        epoch_ends={3: None},
    )
    silent = ReplicaAnswer(2, error="away")
    coordinator = CoordinatorAnswer.not_listed(7)
    evidence = json.loads(
        json.dumps(Answers({2: silent, 1: said}, 1, coordinator, asked_at_ms=5, isr=(1, 2)).evidence())
    )
    assert list(evidence["replicas"]) == ["1", "2"]
    assert evidence["replicas"]["2"] == {"error": "away"}
    first = evidence["replicas"]["1"]
    assert [record["offset"] for record in first["committed"]] == [9]
    assert (first["asked"], first["aborted"]) == ([4, 9], [{"producer_id": 7, "first_offset": 2}])
    assert first["open_transactions"] == []
    assert not {"broker", "error", "key", "open_error"} & first.keys()
    assert (evidence["leader"], evidence["isr"], evidence["asked_at_ms"]) == (1, [1, 2], 5)
    assert evidence["coordinator"]["producer_id"] == 7
    assert Answers({}).evidence()["coordinator"] is None


def test_a_producer_that_is_not_listed_is_distinguished_from_one_that_was_not_answered() -> None:
    assert CoordinatorAnswer.not_listed(7).is_not_listed
    assert not CoordinatorAnswer(7, error="no answer").is_not_listed
    assert not CoordinatorAnswer(7, "t", "CompleteAbort").is_not_listed
