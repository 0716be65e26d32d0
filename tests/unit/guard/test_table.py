from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from parallax.guard import table
from parallax.guard.holds import LAG, Absentee, Change, Event, EventKind
from parallax.guard.table import GuardTable
from parallax.views.event_log import EventLogError, WrittenMeanwhile

INTENDED = Event(
    EventKind.INTENDED,
    "orders:1:7",
    "orders",
    "a",
    1_700_000_000_000,
    2,
    (Change(LAG, None, "9223372036854775793"), Change("delete.retention.ms", "1000", "259200007")),
    (Absentee(0, 2),),
    "absent",
)


def test_what_was_appended_is_read_by_another_process_as_it_was(tmp_path: Path) -> None:
    mine, other = GuardTable(str(tmp_path)), GuardTable(str(tmp_path))
    first = mine.append(INTENDED)
    assert (first.sequence, mine.news()) == (1, [])
    assert other.news() == [first]
    assert other.news() == []


def test_a_command_that_reads_it_last_exits_with_its_own_code(tmp_path: Path) -> None:
    """Arrow's threads that are busy while the interpreter is taken down abort the process, about every second time."""
    GuardTable(str(tmp_path)).append(INTENDED)
    command = [sys.executable, "-m", "parallax.cli", "guard", "status", "--data", str(tmp_path)]
    ended = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(6)]
    assert [(one.returncode, one.stderr) for one in ended] == [(0, "")] * 6


def test_nobody_appends_to_what_they_have_not_read(tmp_path: Path) -> None:
    mine, other = GuardTable(str(tmp_path)), GuardTable(str(tmp_path))
    mine.append(INTENDED)
    other.news()
    mine.append(INTENDED)
    with pytest.raises(WrittenMeanwhile):
        other._table.update_incremental() or other.append(INTENDED)
    assert [event.sequence for event in other.news()] == [2]
    assert other.append(INTENDED).sequence == 3


def test_events_of_a_version_with_fewer_columns_are_read_and_gone_on_from(tmp_path: Path) -> None:
    schema = pa.schema([field for field in table.SCHEMA if field.name != "shown"])
    uri = str(tmp_path / table.GUARD_EVENTS)
    DeltaTable.create(uri, schema=schema, configuration={"delta.appendOnly": "true"})
    row = GuardTable(str(tmp_path)).row(replace(INTENDED, sequence=1))
    row.pop("shown")
    commit = CommitProperties(app_transactions=[Transaction("parallax-guard", 1)])
    write_deltalake(uri, pa.Table.from_pylist([row], schema=schema), mode="append", commit_properties=commit)
    mine = GuardTable(str(tmp_path))
    assert mine.news() == [replace(INTENDED, sequence=1)]
    held = mine.append(replace(INTENDED, kind=EventKind.HELD, shown=(1, 3)))
    assert GuardTable(str(tmp_path)).news() == [replace(INTENDED, sequence=1), held]


def test_a_storage_without_a_guard_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="no guard has ever held anything here"):
        GuardTable(str(tmp_path), create=False)
