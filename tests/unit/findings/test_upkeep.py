"""Suspects that had their verdict long ago go; what is still to be done stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parallax.compare.suspect import Suspect
from parallax.compare.tables import append_suspects, create_suspects
from parallax.findings import upkeep
from parallax.findings.claim import claim_from_row
from parallax.findings.groups import group_of_claim
from parallax.findings.members import MemberRow, State
from parallax.findings.table import FindingsTable, read_suspects
from parallax.findings.upkeep import look_after_suspects
from parallax.model import FindingStatus
from tests.builders.claims import key_suspect
from tests.builders.findings import finding

OLD = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEPT_FROM = datetime(2026, 1, 2, tzinfo=UTC).date()
DECIDED = finding("f", status=FindingStatus.DISMISSED, decided_at=OLD + timedelta(minutes=1))


def raised(offset: int, at: datetime = OLD) -> Suspect:
    return key_suspect(offset=offset, raised_at=int(at.timestamp() * 1000))


def in_the_table(storage: Path) -> set[int]:
    rows: Any = DeltaTable(f"{storage}/suspects").to_pyarrow_dataset().to_table(columns=["offset"])
    return set(rows["offset"].to_pylist())


def with_suspects(storage: Path, suspects: list[Suspect], decided: list[Suspect]) -> None:
    create_suspects(str(storage))
    for number, one in enumerate(suspects):
        append_suspects(str(storage), [one], "query", number)
    table = FindingsTable(str(storage))
    if decided:
        table.append([replace(DECIDED, suspect_id=one.suspect_id) for one in decided])


def test_those_without_a_verdict_or_raised_again_since_stay_however_old(tmp_path: Path) -> None:
    gone, waits, again = raised(1), raised(2), raised(3)
    later = raised(3, OLD + timedelta(minutes=2))
    with_suspects(tmp_path, [gone, waits, again, later], [gone, again])
    before = list(read_suspects(str(tmp_path), decided={gone.suspect_id: 2**60}))
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 2
    assert in_the_table(tmp_path) == {2, 3}
    after = list(read_suspects(str(tmp_path), decided={gone.suspect_id: 2**60}))
    assert {row["suspect_id"] for rows in after for row in rows} == {row["suspect_id"] for r in before for row in r}


def test_those_of_the_time_that_is_kept_stay_though_they_had_their_verdict(tmp_path: Path) -> None:
    kept = raised(1, datetime(2026, 1, 2, tzinfo=UTC))
    with_suspects(tmp_path, [kept], [kept])
    version = DeltaTable(f"{tmp_path}/suspects").version()
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 0
    assert in_the_table(tmp_path) == {1}
    assert DeltaTable(f"{tmp_path}/suspects").version() == version, "nothing is written where nothing goes"


def test_what_the_comparison_adds_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = raised(1)
    with_suspects(tmp_path, [gone], [gone])
    written = upkeep._replace

    def late(table: DeltaTable, rows: pa.Table, condition: str, properties: Any) -> None:
        append_suspects(str(tmp_path), [raised(5, OLD + timedelta(days=3))], "query", 9)
        written(table, rows, condition, properties)

    monkeypatch.setattr(upkeep, "_replace", late)
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 1
    assert in_the_table(tmp_path) == {5}
    append_suspects(str(tmp_path), [raised(6)], "query", 9)
    assert in_the_table(tmp_path) == {5}, "a batch that is in the log is not appended again"


def test_many_small_files_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "FILES", 4)
    with_suspects(tmp_path, [raised(n) for n in range(5)], [])
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 0
    assert len(DeltaTable(f"{tmp_path}/suspects").file_uris()) == 1
    assert in_the_table(tmp_path) == set(range(5))


def test_without_tables_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 0


def test_those_that_a_start_asks_about_stay(tmp_path: Path) -> None:
    """What was raised between the question and its answer, and what another incident than that of its group counts."""
    alone, meanwhile, gone, member = raised(1), raised(2, OLD + timedelta(seconds=30)), raised(3), raised(4)
    with_suspects(tmp_path, [alone, meanwhile, gone, member], [])
    asked_ms = int(OLD.timestamp() * 1000) + 1
    asked = f'{{"asked_at_ms": {asked_ms}}}'
    claims = {one.suspect_id: claim_from_row(one.as_row()) for one in (alone, member)}
    group = group_of_claim(claims[member.suspect_id])
    FindingsTable(str(tmp_path)).append(
        [
            replace(DECIDED, finding_id="m", suspect_id=meanwhile.suspect_id, evidence=asked),
            replace(DECIDED, finding_id="g", suspect_id=gone.suspect_id, evidence=asked),
        ],
        [
            MemberRow(group, False, claims[alone.suspect_id], State.ALONE, asked_ms),
            MemberRow(group, True, claims[member.suspect_id], State.WRONG, asked_ms),
        ],
    )
    assert look_after_suspects(str(tmp_path), KEPT_FROM) == 2
    assert in_the_table(tmp_path) == {1, 2}
