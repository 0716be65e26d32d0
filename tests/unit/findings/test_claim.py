from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from parallax.compare.observations import topic_id_code
from parallax.findings.claim import Claim, HadEnded, RecordedByViews, claim_from_row, explains
from parallax.model import NOBODY, FindingKind, Rule
from parallax.sides import parsed
from tests.builders.claims import of_offset, suspect


@pytest.mark.parametrize("kind", list(FindingKind))
def test_a_claim_has_the_cause_of_its_suspect(kind: FindingKind) -> None:
    raised = suspect(kind, key_hash_hi=-1, key_hash_lo=5)
    assert claim_from_row(raised.as_row()).cause == raised.cause


def test_a_log_that_is_truncated_at_the_same_offset_again_is_another_suspect() -> None:
    seen = {"epochs": {"2": 3}, "shown_to": {"2": 20}}
    raised = [
        suspect(FindingKind.LOG_TRUNCATED, observations=seen | other)
        for other in ({}, {"epochs": {"2": 4}}, {"shown_to": {"2": 21}}, {"epochs": {}, "shown_to": {"1": 20}})
    ]
    assert [s.cause for s in raised] == ["cut:10:3:20", "cut:10:4:20", "cut:10:3:21", "cut:10:-1:-1"]
    assert [claim_from_row(s.as_row()).cause for s in raised] == [s.cause for s in raised]
    assert len({s.suspect_id for s in raised}) == 4


def test_a_findings_id_leaves_the_kind_out() -> None:
    one = claim_from_row(suspect(FindingKind.MARKER_MISSING).as_row())
    two = claim_from_row(suspect(FindingKind.ABORTED_RECORD_COMMITTED).as_row())
    assert one.suspect_id != two.suspect_id
    assert one.finding_id("c") == two.finding_id("c")


@pytest.mark.parametrize("field", ["topic", "partition", "broker", "producer_id", "transaction_start_offset"])
def test_a_findings_id_tells_replicas_and_causes_apart(field: str) -> None:
    one = claim_from_row(suspect(FindingKind.MARKER_MISSING).as_row())
    other = replace(one, **{field: "x" if field == "topic" else 99})
    assert one.finding_id("c") != other.finding_id("c")
    assert one.finding_id("c") != one.finding_id("d")


def test_observations_are_taken_over_and_what_is_not_understood_is_no_evidence() -> None:
    recorded_as: dict[str, Any] = {
        "outcomes": {"1": "aborted", "2": "committed"},
        "markers": {"x": 1},
        "count": 3,
        "leader_epoch": 5,
        "end_epoch": 6,
    }
    recorded_as |= {"compared_from": 7, "uncompacted": True}
    had_ended = {"start": 0, "to": 4, "below": 6, "epoch": 1, "broker": 2}
    recorded_as |= {"had_ended": had_ended, "keys": [f"{1:032x}", f"{2:032x}", "no hash", 3]}
    recorded = RecordedByViews.parse(json.dumps(recorded_as))
    assert (recorded.leader_epoch, RecordedByViews.parse('{"leader_epoch": "x"}').leader_epoch) == (5, -1)
    assert (recorded.end_epoch, RecordedByViews.parse('{"end_epoch": "x"}').end_epoch) == (6, -1)
    assert (recorded.compared_from, RecordedByViews.parse('{"compared_from": "x"}').compared_from) == (7, 0)
    assert (recorded.uncompacted, RecordedByViews.parse('{"uncompacted": 1}').uncompacted) == (True, False)
    assert recorded.had_ended == HadEnded(**had_ended)
    assert (recorded.keys, RecordedByViews.parse('{"keys": 1}').keys) == ((f"{1:032x}", f"{2:032x}"), ())
    assert RecordedByViews.parse(json.dumps({"had_ended": {**had_ended, "to": None}})).had_ended is None
    assert recorded.outcomes == {1: "aborted", 2: "committed"}
    assert recorded.markers == {}
    for rubbish in ("", "[]", "{", '{"outcomes": [1]}'):
        assert RecordedByViews.parse(rubbish) == RecordedByViews()
    assert RecordedByViews.parse(json.dumps(recorded.as_json())) == recorded


def test_how_far_a_log_was_read_before_it_was_truncated_is_at_least_one_beyond_the_claim() -> None:
    claim = of_offset(FindingKind.LOG_TRUNCATED, offset=5)
    assert claim.lost_to == 6
    for shown_to, lost_to in (("9", 9), ("3", 6), ("-1", 6), ("far", 6)):
        assert replace(claim, recorded=RecordedByViews(shown_to={2: shown_to})).lost_to == lost_to
    assert replace(claim, recorded=RecordedByViews(shown_to={1: "9"})).lost_to == 6, "of another broker"


class TestExplains:
    """Which differences of a key's value a transaction's claim accounts for."""

    transaction = claim_from_row(
        {
            "suspect_id": "t",
            "rule": "I2",
            "kind": "aborted_record_committed",
            "topic": "t",
            "partition": 0,
            "broker": 2,
            "offset": 12,
            "producer_id": 9,
            "transaction_start_offset": 10,
            "marker_offset": 20,
            "key_hash_hi": 1,
            "key_hash_lo": 2,
        }
    )

    def value(self, **fields: Any) -> Claim:
        base = {"rule": Rule.LATEST_VALUE, "kind": FindingKind.VISIBILITY_MISMATCH, "broker": 3, "offset": 12}
        base |= {"key_hash_lo": 77}
        return replace(self.transaction, **(base | fields))

    def test_a_record_of_the_transaction_on_any_replica(self) -> None:
        assert explains(self.transaction, self.value())
        assert explains(self.transaction, self.value(offset=10))
        assert not explains(self.transaction, self.value(offset=9))

    def test_a_record_behind_the_missed_marker_has_a_cause_of_its_own(self) -> None:
        assert explains(self.transaction, self.value(offset=19))
        assert not explains(self.transaction, self.value(offset=20))
        assert not explains(self.transaction, self.value(offset=20, broker=2, key_hash_lo=2, producer_id=-1))

    def test_without_a_known_marker_only_what_the_same_replica_shows_may_be_of_the_transaction(self) -> None:
        frozen = replace(self.transaction, marker_offset=-1)
        assert explains(frozen, self.value(offset=500, broker=2))
        assert not explains(frozen, self.value(offset=500, broker=3))
        one_side = self.value(offset=500, broker=NOBODY, recorded=RecordedByViews(sides=parsed({"a": (2,), "b": (1,)})))
        assert explains(frozen, one_side)
        assert not explains(frozen, replace(one_side, recorded=RecordedByViews(sides=parsed({"a": (3,), "b": (1,)}))))

    def test_the_same_key_on_the_same_replica(self) -> None:
        same_key = self.value(producer_id=-1, key_hash_lo=2)
        assert explains(self.transaction, replace(same_key, broker=2))
        assert explains(self.transaction, replace(same_key, broker=2, offset=3))
        assert not explains(self.transaction, same_key)

    def test_another_key_that_it_has_written_on_the_same_replica(self) -> None:
        other = self.value(producer_id=-1, key_hash_hi=3, key_hash_lo=-4, broker=2, offset=3)
        assert not explains(self.transaction, other)
        both = replace(self.transaction, recorded=RecordedByViews(keys=("", other.key_text)))
        assert explains(both, other)
        assert explains(replace(both, key_hash_hi=0, key_hash_lo=0), other)
        assert not explains(both, replace(other, broker=3))
        assert not explains(both, replace(other, offset=20)), "it was written behind the end"
        assert not explains(both, replace(other, key_hash_hi=0, key_hash_lo=0)), "a record without a key"
        assert not explains(self.transaction, self.value(producer_id=8, broker=2))

    def test_the_same_key_says_nothing_of_how_a_record_of_another_transaction_is_shown(self) -> None:
        outcome = self.value(rule=Rule.OUTCOME, producer_id=8, key_hash_lo=2, broker=2)
        assert not explains(self.transaction, outcome)
        assert explains(self.transaction, outcome, by_value=True), "the record is gone, and the values alone differ"
        assert explains(self.transaction, replace(outcome, producer_id=9)), "its own transaction"

    def test_only_what_is_about_a_transaction_of_the_partition_explains(self) -> None:
        assert not explains(self.transaction, self.value(partition=1))
        assert not explains(self.transaction, self.value(topic="u"))
        assert not explains(replace(self.transaction, kind=FindingKind.RECORD_MISSING), self.value())


def test_a_claim_on_a_topic_that_was_re_created_has_lost_its_object() -> None:
    recorded = RecordedByViews(topic_id=str(topic_id_code("old")))
    claim = of_offset(FindingKind.LOG_TRUNCATED, recorded=recorded)
    assert claim.is_of("old")
    assert not claim.is_of("new")
    assert claim.is_of(""), "brokers that tell no topic id"
    assert replace(claim, recorded=RecordedByViews()).is_of("new"), "an older suspect"


def test_who_showed_the_record_is_read_of_a_suspect_and_of_one_of_an_earlier_version() -> None:
    now = RecordedByViews.of({"record_shown_by": [1, 3], "record_read_ms": 70})
    assert (now.record_shown_by, now.record_read_ms) == ((1, 3), 70)
    assert RecordedByViews.of({"shown_by": [1, 3], "not_shown_by": [2], "passed_at": 70, "read_to": 5}) == now
    assert RecordedByViews.of(now.as_json()) == now
