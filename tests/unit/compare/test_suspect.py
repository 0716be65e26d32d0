"""What names a suspect so that it is the same one tomorrow."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from parallax.compare.suspect import Accusation, Coverage, Suspect, UnreadRange, suspect_id
from parallax.model import FindingKind, IsolationLevel, RowKind, Rule, UnknownReason
from tests.builders.coverage import coverage
from tests.unit.compare.history import BROKERS, Comparison, both, record, tick


def accusation(kind: FindingKind, **more: Any) -> Accusation:
    given = {"producer_id": 9, "transaction_start_offset": 2, "key_hash_hi": -1, "key_hash_lo": 255} | more
    return Accusation(Rule.LATEST_VALUE, kind, 2, 5, **given)


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        (FindingKind.MARKER_MISSING, "txn:9:2"),
        (FindingKind.READ_COMMITTED_FROZEN, "txn:9:2"),
        (FindingKind.ABORTED_RECORD_COMMITTED, "txn:9:2"),
        (FindingKind.COMMITTED_RECORD_ABORTED, "txn:9:2"),
        (FindingKind.DELETED_RECORD_RESURRECTED, f"key:{'f' * 16}{'0' * 14}ff:5"),
        (FindingKind.RECORD_MISSING, f"key:{'f' * 16}{'0' * 14}ff:5"),
        (FindingKind.VISIBILITY_MISMATCH, f"key:{'f' * 16}{'0' * 14}ff:5"),
        (FindingKind.CONTENT_MISMATCH, "offset:5"),
        (FindingKind.LOG_TRUNCATED, "cut:5:-1:-1"),
        (FindingKind.LOG_HEAD_MISSING, "head:5"),
    ],
)
def test_a_divergence_is_distinguished_by_its_transaction_its_key_or_its_offset(kind: FindingKind, cause: str) -> None:
    assert accusation(kind).cause == cause


@pytest.mark.parametrize(("hi", "lo", "cause"), [(0, 0, "offset:5"), (1, 0, f"key:{1:016x}{0:016x}:5")])
def test_a_record_without_a_key_is_distinguished_by_its_offset(hi: int, lo: int, cause: str) -> None:
    assert accusation(FindingKind.RECORD_MISSING, key_hash_hi=hi, key_hash_lo=lo).cause == cause


def test_two_cuts_of_a_log_at_one_offset_differ_by_what_was_lost() -> None:
    seen = {"epochs": {"1": 8, "2": 3}, "shown_to": {"1": 70, "2": 14}}
    assert accusation(FindingKind.LOG_TRUNCATED, observations=seen).cause == "cut:5:3:14"


def test_what_a_rule_does_not_name_is_minus_one_and_no_key() -> None:
    row = Suspect("t", 0, Accusation(Rule.CONTENT, FindingKind.CONTENT_MISMATCH, 2, 5), {}, 0).as_row()
    named = ("producer_id", "transaction_start_offset", "marker_offset", "key_hash_hi", "key_hash_lo", "observations")
    assert [row[name] for name in named] == [-1, -1, -1, 0, 0, "{}"]


def test_an_id_is_of_topic_and_its_id_partition_broker_cause_and_kind_alone() -> None:
    first = accusation(FindingKind.MARKER_MISSING)
    known = suspect_id("t", 0, first)
    assert len(known) == 32
    for same in ({"marker_offset": 30}, {"offset": 6}, {"observations": {"count": 2}}):
        assert suspect_id("t", 0, dataclasses.replace(first, **same)) == known
    others = [
        suspect_id("u", 0, first),
        suspect_id("t", 1, first),
        suspect_id("t", 0, dataclasses.replace(first, observations={"topic_id": "8"})),
        suspect_id("t", 0, dataclasses.replace(first, observations={"topic_id": "9"})),
        suspect_id("t", 0, dataclasses.replace(first, broker=3)),
        suspect_id("t", 0, dataclasses.replace(first, producer_id=8)),
        suspect_id("t", 0, dataclasses.replace(first, kind=FindingKind.READ_COMMITTED_FROZEN)),
    ]
    assert len({known, *others}) == 8


def test_a_row_has_the_id_and_what_was_seen() -> None:
    made = accusation(FindingKind.RECORD_MISSING, marker_offset=4, observations={"shown_by": [1, 3]})
    suspect = Suspect("t", 7, made, {"1": {"read_committed": 9}}, 1234)
    row = suspect.as_row()
    assert row["suspect_id"] == suspect.suspect_id == suspect_id("t", 7, made)
    named = [row[n] for n in ("rule", "kind", "topic", "partition", "broker", "offset", "marker_offset", "raised_at")]
    assert named == ["I3", "record_missing", "t", 7, 2, 5, 4, 1234]
    assert json.loads(row["positions"]) == {"1": {"read_committed": 9}}
    assert json.loads(row["observations"]) == {"shown_by": [1, 3]}


class TestCoverage:
    FIRST, GAP = UnknownReason.BEFORE_FIRST_READING, UnknownReason.RETENTION_GAP
    RU, RC = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED

    def coverage(self) -> Coverage:
        spans = (
            UnreadRange(self.RU, 0, 4, self.FIRST, 1),
            UnreadRange(self.RC, 0, 3, self.FIRST, 1),
            UnreadRange(self.RC, 10, 17, self.GAP, 2),
        )
        unknown = {self.FIRST: (4, 3), self.GAP: (0, 7), UnknownReason.SKIPPED: (2, 1)}
        return coverage(unknown=unknown, unread=spans)

    def test_a_reason_that_is_not_named_leaves_nothing_unknown(self) -> None:
        assert self.coverage().unknown_for(UnknownReason.SKIPPED) == (2, 1)
        assert self.coverage().unknown_for(UnknownReason.DEFERRED) == (0, 0)

    def test_what_an_audit_has_ended_is_unknown_no_longer_in_its_view_and_for_its_reason(self) -> None:
        left = self.coverage().settled(lambda span: span.view == self.RC)
        assert left.unread == (UnreadRange(self.RU, 0, 4, self.FIRST, 1),)
        assert left.unknown == {self.FIRST: (4, 0), self.GAP: (0, 0), UnknownReason.SKIPPED: (2, 1)}
        left = self.coverage().settled(lambda span: span.view == self.RU)
        assert [span.view for span in left.unread] == [self.RC, self.RC]
        assert left.unknown == {self.FIRST: (0, 3), self.GAP: (0, 7), UnknownReason.SKIPPED: (2, 1)}

    def test_where_no_audit_has_ended_nothing_changes(self) -> None:
        known = self.coverage()
        assert known.settled(lambda span: False) == known


@pytest.mark.parametrize(("topic_id", "said"), [(77, "77"), (0, None)])
def test_each_says_by_its_id_of_which_topic_it_is_where_that_is_known(topic_id: int, said: str | None) -> None:
    def read(broker: int, value: str) -> list[dict[str, Any]]:
        rows = both(broker, [record(0, "K", value)], 1, 1)
        return [{**row, "topic_id": topic_id} if row["kind"] == RowKind.POSITION else row for row in rows]

    compared = Comparison()
    compared.feed(tick(0, dict.fromkeys(BROKERS, 1)), *(read(b, "W" if b == 2 else "V") for b in BROKERS))
    compared.feed(tick(10, dict.fromkeys(BROKERS, 1)))
    (suspect,) = compared.suspects
    assert json.loads(suspect.as_row()["observations"]).get("topic_id") == said
