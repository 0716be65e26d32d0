"""The versions of a record beside each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parallax.alerting.page.versions import Versions, as_asked, of_evidence, offsets_of
from parallax.model import IsolationLevel
from parallax.replica.at_offset import AtOffset, Held, Record, Served
from parallax.replica.types import Watermarks
from tests.builders.findings import finding

MARKS = {"log_start_offset": 0, "log_end_offset": 100, "last_stable_offset": 100, "asked": [17]}


def record(offset: int = 17, **more: Any) -> dict[str, Any]:
    whole = {"offset": offset, "outcome": "committed", "timestamp": 0, "producer_id": 7, "producer_epoch": 0}
    return whole | {"leader_epoch": 3, "content_hash": "ab" * 8, "value_size": 5} | more


def shown(replicas: dict[str, Any], **more: Any) -> list[Versions]:
    evidence = {"leader": 1, "replicas": {b: MARKS | a for b, a in replicas.items()}}
    fields = {name: more.pop(name) for name in ("marker_offset",) if name in more}
    return of_evidence(finding(evidence=json.dumps(evidence | more), **fields))[0]


def row(versions: Versions, name: str) -> list[tuple[str, str]]:
    (found,) = [row for row in versions.rows if row.name == name]
    return [(cell.text, cell.version) for cell in found.cells]


def test_what_differs_is_named_and_brokers_that_show_the_same_have_the_same_letter() -> None:
    other = record(content_hash="cd" * 8)
    (one,) = shown({"1": {"committed": [record()]}, "2": {"committed": [other]}, "3": {"committed": [record()]}})
    assert one.brokers == ("Broker 1 (leader)", "Broker 2 (accused)", "Broker 3")
    assert one.differing == ("value and headers, hash",)
    assert row(one, "value and headers, hash") == [("ab" * 8, "A"), ("cd" * 8, "B"), ("ab" * 8, "A")]
    assert row(one, "leader epoch") == [("3", "")] * 3


def test_an_outcome_that_differs_is_seen() -> None:
    (one,) = shown({"1": {"committed": [record()]}, "2": {"committed": [record(outcome="aborted")]}})
    assert row(one, "read_committed") == [("shown: committed", "A"), ("left out: aborted", "B")]


def test_the_newest_record_of_the_key_comes_first() -> None:
    none = {"key": {"visible": None, "complete": True}}
    newest, at = shown({"1": none, "2": {"key": {"visible": record(), "complete": True}}})
    assert (newest.title, at.title) == ("Newest record of the key", "Offset 17")
    assert row(newest, "offset") == [("no record", "A"), ("17", "B")]
    assert row(at, "what is there") == [("nothing", "A"), ("a record", "B")]


def test_a_missing_end_marker_is_seen_at_its_offset() -> None:
    marker = {"offset": 18, "producer_id": 7, "type": "commit", "leader_epoch": 3}
    held = {"committed": [record()], "asked": [17, 18]}
    _, one = shown({"1": held | {"markers": [marker]}, "2": held}, marker_offset=18)
    assert row(one, "what is there") == [("COMMIT marker", "A"), ("nothing", "B")]


def test_a_broker_that_did_not_answer_neither_differs_nor_agrees() -> None:
    (one,) = shown({"1": {"committed": [record()]}, "2": {"error": "refused"}})
    assert one.differing == ()
    assert row(one, "answer") == [("", ""), ("no answer: refused", "")]


@pytest.mark.parametrize(
    ("start", "note"),
    [(0, "No broker that answered held a record there"), (50, "It cannot be read any more: every log begins above it")],
)
def test_records_that_nobody_can_read_any_more_are_said_to_be_with_what_had_been_read(start: int, note: str) -> None:
    gone = {"log_start_offset": start}
    recorded = {"outcomes": {"1": "committed", "2": "aborted"}, "records": {"1": "7:0:aa:bb:1000"}}
    (one,) = shown({"1": gone, "2": gone}, recorded=recorded)
    assert one.note.startswith(note)
    assert row(one, "outcome when suspected") == [("committed", "A"), ("aborted", "B")]
    assert row(one, "value and headers when suspected, hash") == [("bb", ""), ("", "")]


def test_of_many_offsets_some_are_shown_and_the_others_counted() -> None:
    evidence = {"replicas": {"1": MARKS | {"committed": [record(offset) for offset in range(40)]}}}
    found, more = of_evidence(finding(evidence=json.dumps(evidence)))
    assert (len(found), more) == (6, 34)


def test_an_incident_shows_some_of_its_members() -> None:
    replicas = {"1": MARKS | {"key": {"visible": record(), "complete": True}}}
    proofs = [{"offset": n, "key": f"key {n}", "replicas": replicas} for n in range(8)]
    incident = finding(suspect_id="", evidence=json.dumps({"proofs": proofs}))
    found, more = of_evidence(incident)
    assert [one.title for one in found[:2]] == ["Newest record of the key key 0", "Newest record of the key key 1"]
    assert (len(found), more, offsets_of(incident)) == (6, 2, [0, 1, 2, 3, 4, 5])


def test_evidence_of_odd_form_is_shown_as_far_as_it_goes() -> None:
    odd = record(value_size="many", timestamp="then", leader_epoch=None, asked="x")
    (one,) = shown({"1": {"committed": [odd]}}, recorded={"records": {"1": 5}}, coordinator=7)
    assert row(one, "what is there") == [("a record", "")]
    assert of_evidence(finding()) == ([], 0)


def asked(value: bytes | None, **more: Any) -> AtOffset:
    size = -1 if value is None else len(value)
    fields = {"timestamp_ms": 0, "leader_epoch": 3, "producer_id": -1, "producer_epoch": -1, "is_transactional": False}
    made = Record(**fields, key=b"k", value=value, key_size=1, value_size=size, headers=((("h", b"v"),)))  # type: ignore[arg-type]
    served = dict.fromkeys(IsolationLevel, Served.SHOWN)
    return AtOffset(
        **({"held": Held.RECORD, "marks": Watermarks(9, 9, 0, 9), "error": None} | more), record=made, served=served
    )


def test_contents_that_may_not_be_shown_are_told_apart_by_a_hash_of_this_answer_alone() -> None:
    answers = {1: asked(b"payload"), 2: asked(b"another"), 3: asked(None)}
    first, second = (as_asked(17, answers, 1, 2) for _ in range(2))
    letters = [version for _, version in row(first, "value")]
    assert letters == ["A", "B", "C"]
    assert row(first, "value")[2] == ("null: a tombstone", "C")
    assert [version for _, version in row(first, "key")] == ["", "", ""]
    assert row(first, "value")[0] != row(second, "value")[0]
    assert "payload" not in str(first)


def test_contents_that_may_be_shown_are() -> None:
    one = as_asked(17, {1: asked(b"one\n"), 2: asked(b"\xff")}, 1, -1, "full")
    assert row(one, "value") == [("one\\n", "A"), ("0xff", "B")]
    assert row(one, "headers") == [("h=v", ""), ("h=v", "")]


def test_it_says_that_no_broker_holds_the_record_any_more() -> None:
    gone = AtOffset(Held.DELETED, Watermarks(9, 9, 5, 9), None, None, dict.fromkeys(IsolationLevel, Served.NOT_SHOWN))
    away = AtOffset(Held.SILENT, None, "refused", None, dict.fromkeys(IsolationLevel, Served.UNKNOWN))
    assert as_asked(1, {1: gone, 2: away}, 1, -1).note == "No broker that answered holds a record there any more."
    assert as_asked(1, {2: away}, 1, -1).note == ""
