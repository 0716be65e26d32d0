"""What a table's transaction log tells of what was appended, on tables that delta-rs writes."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from parallax.source.schema import VIEW
from parallax.views.commits import LogGoneError, TableLog
from parallax.views.filesystem import filesystem
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables

NAME = "read_committed"


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def append(storage: str, *brokers: int, on: date = date(2026, 1, 1)) -> None:
    rows: list[dict[str, Any]] = [{"topic": "t", "partition": 0, "broker": broker, "offset": 7} for broker in brokers]
    table = pa.Table.from_pylist(rows, schema=VIEW)
    table = table.append_column(RECORDED_ON, pa.array([on] * len(rows), pa.date32()))
    write_deltalake(f"{storage}/{NAME}", table, mode="append")


def brokers_of(log: TableLog, version: int) -> list[tuple[int | None, int]]:
    commit = log.appended(version)
    assert commit is not None
    return sorted((file.broker, file.rows) for file in commit.files)  # type: ignore[type-var]


def test_each_commit_tells_its_files_their_rows_and_whose_they_are(storage: str) -> None:
    log = TableLog(storage, NAME)
    append(storage, 1, 1, 2)
    append(storage, 3)
    assert log.is_whole()
    assert brokers_of(log, 0) == []
    assert brokers_of(log, 1) == [(1, 2), (2, 1)]
    assert brokers_of(log, 2) == [(3, 1)]
    assert log.appended(3) is None
    commit = log.appended(2)
    assert commit is not None
    assert log.files.get_file_info(commit.files[0].path).is_file
    assert commit.at_ms > 1_700_000_000_000


def test_compaction_and_retention_append_nothing(storage: str) -> None:
    log = TableLog(storage, NAME)
    append(storage, 1, on=date(2025, 1, 1))
    append(storage, 1)
    append(storage, 1)
    DeltaTable(f"{storage}/{NAME}").optimize.compact()
    DeltaTable(f"{storage}/{NAME}").delete(f"{RECORDED_ON} < '2026-01-01'")
    assert brokers_of(log, 4) == brokers_of(log, 5) == []
    assert log.appended(6) is None


def test_a_commit_that_was_cleaned_from_the_log_is_not_one_that_was_never_made(storage: str) -> None:
    log = TableLog(storage, NAME)
    for broker in (1, 2, 3):
        append(storage, broker)
    DeltaTable(f"{storage}/{NAME}").create_checkpoint()
    assert log.appended(4) is None
    for version in (0, 1):
        Path(storage, NAME, "_delta_log", f"{version:020d}.json").unlink()
    assert not log.is_whole()
    with pytest.raises(LogGoneError, match="version 1 has been cleaned"):
        log.appended(1)
    assert brokers_of(log, 2) == [(2, 1)]
    version, standing = log.standing()
    assert version == 3
    assert sorted(file.broker for part in standing for file in part.files if file.broker) == [1, 2, 3]
    assert [part.at_ms for part in standing] == sorted(part.at_ms for part in standing)


def test_rows_are_guessed_where_the_log_does_not_tell_them(storage: str) -> None:
    append(storage, 1)
    path = Path(storage, NAME, "_delta_log", f"{1:020d}.json")
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"] |= {"stats": None, "size": 3200}
    path.write_text("\n".join(map(json.dumps, actions)))
    assert brokers_of(TableLog(storage, NAME), 1) == [(1, 100)]


def test_progress_belongs_to_no_broker(storage: str) -> None:
    path = f"{storage}/{PROGRESS}"
    schema = DeltaTable(path).to_pyarrow_table().schema
    row = {"topic": "t", "partition": 0, "broker": 1, RECORDED_ON: date(2026, 1, 1)}
    write_deltalake(path, pa.Table.from_pylist([row], schema=schema), mode="append")
    commit = TableLog(storage, PROGRESS).appended(1)
    assert commit is not None
    assert [(file.broker, file.rows) for file in commit.files] == [(None, 1)]


def test_a_store_that_is_named_by_a_uri_is_read_as_a_folder_is(storage: str) -> None:
    append(storage, 1)
    files = filesystem(f"file://{storage}/{NAME}")
    assert isinstance(files, fs.PyFileSystem)
    commit = TableLog(storage, NAME).appended(1)
    assert commit is not None
    with files.open_input_file(commit.files[0].path) as source:
        assert source.read(4) == b"PAR1"
    with pytest.raises(FileNotFoundError):
        files.open_input_stream("_delta_log/none.json")


def test_a_log_that_was_cleaned_is_known_to_be_without_its_hint_at_the_last_checkpoint(storage: str) -> None:
    for _ in range(3):
        append(storage, 1)
    log = Path(storage, NAME, "_delta_log")
    DeltaTable(f"{storage}/{NAME}").create_checkpoint()
    (log / "_last_checkpoint").unlink()
    for version in range(3):
        (log / f"{version:020d}.json").unlink()
    with pytest.raises(LogGoneError):
        TableLog(storage, NAME).appended(1)
    assert TableLog(storage, NAME).appended(4) is None


HINTS = [
    "",
    '{"ver',
    "{}",
    "[]",
    "null",
    '{"version": null}',
    '{"version": "x"}',
    '{"version": 99}',
    '{"version": 0}',
    "\xff",
]


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_at_the_last_checkpoint_is_believed_only_where_the_log_agrees(storage: str, hint: str) -> None:
    for _ in range(3):
        append(storage, 1)
    log = Path(storage, NAME, "_delta_log")
    DeltaTable(f"{storage}/{NAME}").create_checkpoint()
    (log / "_last_checkpoint").write_bytes(hint.encode("latin-1"))
    for version in range(3):
        (log / f"{version:020d}.json").unlink()
    for version in (1, 2):
        with pytest.raises(LogGoneError):
            TableLog(storage, NAME).appended(version)
    assert brokers_of(TableLog(storage, NAME), 3) == [(1, 1)]
    assert TableLog(storage, NAME).appended(4) is None


def test_a_hint_that_becomes_stale_is_noticed_in_time(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append(storage, 1)
    DeltaTable(f"{storage}/{NAME}").create_checkpoint()
    hint = Path(storage, NAME, "_delta_log", "_last_checkpoint")
    stale, log, now = hint.read_bytes(), TableLog(storage, NAME), [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert log.appended(2) is None
    append(storage, 1)
    DeltaTable(f"{storage}/{NAME}").create_checkpoint()
    Path(storage, NAME, "_delta_log", f"{2:020d}.json").unlink()
    hint.write_bytes(stale)
    now[0] += 301
    with pytest.raises(LogGoneError):
        log.appended(2)


def test_a_commit_that_is_made_with_its_checkpoint_while_it_is_asked_for_was_not_cleaned(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TableLog(storage, NAME)
    answer, asked = log._text, list[str]()

    def text(path: str) -> str | None:
        found = answer(path)
        if not asked:
            append(storage, 1)
            DeltaTable(f"{storage}/{NAME}").create_checkpoint()
        asked.append(path)
        return found

    monkeypatch.setattr(log, "_text", text)
    assert brokers_of(log, 1) == [(1, 1)]
