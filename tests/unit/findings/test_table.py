"""The log of events: what is appended is read back, by delta-rs alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.findings import table as findings_table
from parallax.findings.acknowledge import acknowledged
from parallax.findings.answers import Answers
from parallax.findings.claim import Claim, RecordedByViews
from parallax.findings.finding import current
from parallax.findings.happenings import Append
from parallax.findings.incident import is_part_of_incident
from parallax.findings.left import claims_left
from parallax.findings.members import MemberRow, State
from parallax.findings.table import (
    SCHEMA,
    FindingsTable,
    FindingsTableError,
    as_read,
    read_events,
    read_members,
    read_suspects,
    table_uri,
)
from parallax.model import NOBODY, FindingKind, FindingStatus
from parallax.sides import parsed
from tests.builders.answers import NOTHING, newest
from tests.builders.findings import EVENT
from tests.unit.findings.floods import ALONE, DIFFERS, Flood, everywhere, flood, healthy, lost, resurrected, values
from tests.unit.findings.lives import RECHECK_S, Life, deleted, old_value, value
from tests.unit.findings.transactions import flood as transactions_flood
from tests.unit.findings.transactions import healed


def test_events_come_back_as_they_were_appended_numbered_on(tmp_path: Path) -> None:
    table = FindingsTable(str(tmp_path))
    first = table.append([EVENT, replace(EVENT, finding_id="b", key=None)])
    second = FindingsTable(str(tmp_path))
    assert second.load() == first
    third = second.append([replace(EVENT, status=FindingStatus.RESOLVED)])
    assert [e.sequence for e in (*first, *third)] == [1, 2, 3]
    assert read_events(str(tmp_path)) == [*first, *third]


def test_many_small_files_are_put_together_and_no_event_is_lost(tmp_path: Path) -> None:
    table = FindingsTable(str(tmp_path))
    for _ in range(130):
        table.append([EVENT])
    assert len(DeltaTable(str(tmp_path / "findings")).file_uris()) < 10
    assert [e.sequence for e in read_events(str(tmp_path))] == list(range(1, 131))
    again = FindingsTable(str(tmp_path))
    again.load()
    assert again.append([EVENT])[0].sequence == 131


def members_of(life: Flood) -> list[MemberRow]:
    """What the last row of each member says."""
    return list({row.key: row for row in life.members}.values())


def test_members_are_read_as_their_last_rows_say(tmp_path: Path) -> None:
    for life in (flood(range(20)).after(RECHECK_S, everywhere), transactions_flood(20)):
        storage = str(tmp_path / str(len(life.members)))
        first = FindingsTable(storage)
        assert first.members() == []
        for row in life.members:
            first.append([], [row])
        assert {row.key: row for row in FindingsTable(storage).members()} == {row.key: row for row in members_of(life)}
        assert read_members(storage) == FindingsTable(storage).members()


def test_rows_of_members_are_there_before_the_events_that_rest_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = flood(range(20))
    killed = FindingsTable(str(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(findings_table, "_as_rows", _killed)
        with pytest.raises(KeyboardInterrupt):
            killed.append(life.table, life.members)
    assert read_events(str(tmp_path)) == []
    assert len(read_members(str(tmp_path))) == 20
    after = Flood(members=read_members(str(tmp_path)))
    assert after.counts == []
    after.settle(lambda claim: replace(resurrected(claim), leader=2))
    assert (after.counts, after.open[0].exposed) == ([20], True), "they are reported once they have been asked about"


def _killed(_: object) -> None:
    raise KeyboardInterrupt


def test_rows_of_members_that_are_over_go_when_they_are_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings_table, "_KEEP_UP_EVERY", 3)
    wrong, over = flood(range(2)), flood(range(20), healthy)
    (first, *rest), name = members_of(flood(range(20))), str(tmp_path)
    dismissed = members_of(over)
    assert wrong.members == [], "single findings have their events"
    table = FindingsTable(name, kept_hours=-1)
    for row in (first, replace(first, state=State.UNSETTLED), dismissed[0], dismissed[1]):
        table.append([], [row])
    assert [row.state for row in read_members(name)] == [State.UNSETTLED, State.OVER]
    assert len(DeltaTable(f"{tmp_path}/members").file_uris()) < 3
    table.append([], rest)
    assert len(FindingsTable(name).members()) == 20


def test_the_table_has_the_columns_of_the_contract_in_order(tmp_path: Path) -> None:
    FindingsTable(str(tmp_path))
    names = [field.name for field in DeltaTable(str(tmp_path / "findings")).schema().fields]
    assert names == SCHEMA.names


def test_the_last_event_of_an_id_stands_and_a_dismissal_takes_nothing_back() -> None:
    dismissed = replace(EVENT, status=FindingStatus.DISMISSED, suspect_id="other")
    resolved = replace(EVENT, finding_id="b", status=FindingStatus.RESOLVED)
    cleared = replace(EVENT, finding_id="c", status=FindingStatus.DISMISSED)
    standing = current([EVENT, dismissed, replace(EVENT, finding_id="b"), resolved, cleared, replace(cleared)])
    assert {i: f.status.value for i, f in standing.items()} == {"a": "confirmed", "b": "resolved", "c": "dismissed"}


def test_a_second_writer_does_not_interleave(tmp_path: Path) -> None:
    one, two = FindingsTable(str(tmp_path)), FindingsTable(str(tmp_path))
    one.append([EVENT])
    with pytest.raises(FindingsTableError, match=r"storage\.path"):
        two.append([EVENT])
    assert len(read_events(str(tmp_path))) == 1


def test_a_path_without_a_table_is_one_line_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(FindingsTableError, match=r"storage\.path: .*no findings table there") as error:
        read_events(str(tmp_path))
    assert "\n" not in str(error.value)


def test_no_suspects_table_yet_is_no_suspects(tmp_path: Path) -> None:
    assert list(read_suspects(str(tmp_path))) == []


def test_suspects_are_read_that_have_no_verdict_or_were_raised_again_since(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    raised = {"no verdict": [at], "decided": [at], "again": [at, at + timedelta(seconds=9)]}
    said = {"rule": "I1", "kind": "marker_missing", "topic": "orders", "partition": 0, "broker": 2}
    rows = [said | {"suspect_id": name, "raised_at": time} for name, times in raised.items() for time in times]
    write_deltalake(f"{tmp_path}/suspects", pa.Table.from_pylist(rows))
    decided_ms = int(at.timestamp() * 1000) + 5000
    (read,) = read_suspects(str(tmp_path), decided={"decided": decided_ms, "again": decided_ms})
    assert {row["suspect_id"] for row in read} == {"no verdict", "again"}
    assert max(row["raised_at"] for row in read) == at + timedelta(seconds=9)
    assert list(read_suspects(str(tmp_path), decided=dict.fromkeys(raised, decided_ms * 2))) == []


def test_a_path_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FindingsTableError, match=r"storage\.path") as error:
        FindingsTable(str(tmp_path / "file"))
    assert "\n" not in str(error.value)


def test_uris_are_spelt_as_delta_rs_has_them(tmp_path: Path) -> None:
    assert table_uri("s3a://bucket/data/", "findings") == "s3://bucket/data/findings"
    assert table_uri("abfss://c@a.dfs.core.windows.net/d", "findings").startswith("abfss://")
    assert table_uri(f"file:{tmp_path}", "findings") == str(tmp_path / "findings")
    assert Path(table_uri("data", "findings")).is_absolute()


def overwrite(folder: Path, content: bytes | None = None) -> None:
    """Put something else in the place of a table's files; zeros by default, as after a lost page of the disk."""
    for file in folder.glob("*.parquet"):
        file.write_bytes(bytes(file.stat().st_size) if content is None else content)


@pytest.mark.parametrize("content", [None, b"PAR1xxxxPAR1", b""])
def test_a_damaged_file_is_one_line_for_every_reader(tmp_path: Path, content: bytes | None) -> None:
    table = FindingsTable(str(tmp_path))
    table.append([EVENT])
    write_deltalake(f"{tmp_path}/suspects", pa.Table.from_pylist([SUSPECT]))
    overwrite(tmp_path / "findings", content)
    overwrite(tmp_path / "suspects", content)
    readers: list[Callable[[], object]] = [
        lambda: read_events(str(tmp_path)),
        table.load,
        lambda: list(read_suspects(str(tmp_path))),
    ]
    for read in readers:
        with pytest.raises(FindingsTableError, match=r"^storage\.path: ") as error:
            read()
        assert str(error.value).isprintable()


SUSPECT = {
    "suspect_id": "a",
    "rule": "I1",
    "kind": "marker_missing",
    "topic": "orders",
    "partition": 0,
    "broker": 2,
    "raised_at": datetime(2026, 1, 1, tzinfo=UTC),
}


def test_another_table_in_the_place_of_ours_is_called_so(tmp_path: Path) -> None:
    for name in ("findings", "suspects"):
        write_deltalake(f"{tmp_path}/{name}", pa.table({"x": [1]}))
    with pytest.raises(FindingsTableError, match="another table, without the columns finding_id, sequence"):
        read_events(str(tmp_path))
    with pytest.raises(FindingsTableError, match="another table, without the columns suspect_id"):
        list(read_suspects(str(tmp_path)))


def test_columns_of_other_types_are_one_line(tmp_path: Path) -> None:
    rows = pa.table({name: ["x"] for name in SCHEMA.names})
    write_deltalake(f"{tmp_path}/findings", rows)
    with pytest.raises(FindingsTableError, match=r"^storage\.path: "):
        read_events(str(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"evidence": "not json"}, "its evidence is no JSON document"),
        ({"evidence": "[1]"}, "its evidence is no JSON document"),
        ({"suspect_id": "", "evidence": '{"incident": 5}'}, "its evidence is of another form than that of an event"),
        ({"suspect_id": "", "evidence": '{"incident": {"count": "many"}}'}, "its evidence is of another form .*"),
        ({"suspect_id": "", "evidence": '{"incident": {"count": 1e999}}'}, "its evidence is of another form .*"),
        ({"suspect_id": "", "evidence": '{"incident": {"samples": [{}]}}'}, "its evidence is of another form .*"),
        ({"suspect_id": "", "evidence": '{"proofs": [7]}'}, "its evidence is of another form .*"),
        ({"suspect_id": "", "evidence": '{"incident": "0"}'}, "its evidence is of another form .*"),
        ({"broker": NOBODY, "evidence": '{"recorded": [1]}'}, "its evidence is of another form .*"),
        ({"evidence": '{"recorded": {"sides": {"a": [{}]}}}'}, "its evidence is of another form .*"),
        ({"first_suspected_at": None}, "no first_suspected_at"),
        ({"kind": None, "summary": None}, "no kind, summary"),
    ],
)
def test_a_damaged_event_is_named_by_the_command_line_and_counted_by_the_job(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    FindingsTable(str(tmp_path)).append([EVENT])
    table = FindingsTable(str(tmp_path))
    table.load()
    table.append([replace(EVENT, finding_id="b", **wrong)])
    with pytest.raises(FindingsTableError, match=rf"event 2 is damaged \({said}\)"):
        read_events(str(tmp_path))
    job = FindingsTable(str(tmp_path))
    assert [event.finding_id for event in job.load()] == ["a"]
    assert job.skipped == 1


def undirected(key: int) -> Claim:
    recorded = RecordedByViews(sides=parsed({f"value at offset {1_000 + key}": (1, 3), "no value": (2,)}), pivot=2)
    return lost(key, kind=DIFFERS, broker=NOBODY, recorded=recorded)


def differing(claim: Claim) -> Answers:
    return values(NOTHING, newest(claim.offset))


def _lives() -> list[Life]:
    """Lives in which findings, and incidents of keys and of transactions, come to be whatever they can be."""
    single = Life().confirmed(value("leads", key_hash_lo=1), answering=old_value)
    single.confirmed(value("cleared", key_hash_lo=2), answering=deleted)
    single.until_asked(everywhere)
    single.until_asked(deleted)
    one_by_one = flood(range(ALONE + 1), at_once=1)
    one_by_one.after(RECHECK_S, everywhere)
    at_once = flood(range(100))
    at_once.after(RECHECK_S, healthy)
    unlike = Flood()
    unlike.suspect(*(undirected(key) for key in range(100)))
    few = Flood()
    few.suspect(*(undirected(key) for key in range(3)))
    for life in (unlike, few):
        life.settle(differing)
        life.after(RECHECK_S, healthy)
    transactions = transactions_flood(100)
    transactions.after(RECHECK_S, healed)
    lives = [single, one_by_one, at_once, unlike, few, transactions]
    for life in (one_by_one, few):
        life.commit(Append((acknowledged(life.open[0], "known", "me", life.moment.at),)))
    return lives


def test_whatever_a_life_writes_is_read_back_by_everybody(tmp_path: Path) -> None:
    lives = _lives()
    written = [replace(event, sequence=0) for life in lives for event in life.table]
    told = {(event.is_incident, event.status) for event in written}
    assert told == {(i, s) for i in (True, False) for s in FindingStatus} - {(True, FindingStatus.DISMISSED)}
    assert sum(map(is_part_of_incident, written)) == ALONE + 1
    numbered = FindingsTable(str(tmp_path)).append(written)
    assert read_events(str(tmp_path)) == numbered
    assert FindingsTable(str(tmp_path), strict=True).load() == numbered


def test_what_an_end_leaves_is_read_of_an_earlier_version_and_refused_where_it_is_damaged() -> None:
    left = {"offset": 17, "key": [0, 7], "sides": {"value at offset 17": [1], "no value": [2]}, "pivot": 1}
    ended = replace(EVENT, status=FindingStatus.RESOLVED, kind=FindingKind.DELETED_RECORD_RESURRECTED)
    read = as_read(replace(ended, sequence=1, evidence=json.dumps({"differing": [left]})))
    assert [(claim.offset, claim.key) for claim in claims_left(read)] == [(17, (0, 7))]
    for damage in ({"key": 5}, {"offset": [1]}, {"sides": 5}):
        with pytest.raises(FindingsTableError, match="is damaged"):
            as_read(replace(ended, sequence=1, evidence=json.dumps({"differing": [left | damage]})))
