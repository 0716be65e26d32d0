"""Appends by delta-rs: each batch of a query once, whoever else commits to the table."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyarrow import fs

from parallax.source.schema import VIEW
from parallax.views.appending import Appender, Began, lacking, may_be_gone
from parallax.views.filesystem import filesystem
from parallax.views.maintenance import shorten_log
from parallax.views.parquet import TableFile
from parallax.views.recording import Recorded
from parallax.views.tables import RECORDED_ON, create_tables
from parallax.views.unused import GoneError

VIEW_NAME = "read_committed"


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def rows(*offsets: int) -> Any:
    one = {"topic": "t", "partition": 0, "broker": 2, "kind": 0}
    return pa.RecordBatch.from_pylist([{**one, "offset": offset} for offset in offsets], schema=VIEW)


def written(storage: str, name: str, *offsets: int) -> Recorded:
    files, path = filesystem(f"{storage}/{VIEW_NAME}"), f"broker=2/recorded_on=2026-01-01/{name}.parquet"
    files.create_dir("broker=2/recorded_on=2026-01-01", recursive=True)
    file = TableFile(files, path)
    file.take(
        rows(*offsets).set_column(
            5, VIEW.field("timestamp"), pa.array([0] * len(offsets), VIEW.field("timestamp").type)
        )
    )
    return Recorded(1, 2, "2026-01-01", path, file.close(), file.rows, file.statistics, b"")


def offsets(storage: str) -> list[int]:
    return sorted(DeltaTable(f"{storage}/{VIEW_NAME}").to_pyarrow_table()["offset"].to_pylist())


def test_files_become_part_of_the_table_in_one_commit_with_the_mark_of_their_batch(storage: str) -> None:
    appender = Appender(storage, VIEW_NAME)
    assert appender.last_batch("query") == -1
    appender.append_files([written(storage, "a", 1, 2), written(storage, "b", 3)], "query", 5)
    assert offsets(storage) == [1, 2, 3]
    assert (appender.last_batch("query"), appender.last_batch("another")) == (5, -1)
    assert Appender(storage, VIEW_NAME).last_batch("query") == 5
    entry = Path(storage, VIEW_NAME, "_delta_log", f"{DeltaTable(f'{storage}/{VIEW_NAME}').version():020d}.json")
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    assert sorted(name for action in actions for name in action) == ["add", "add", "commitInfo", "txn"]


def test_the_mark_survives_the_shortening_of_the_log(storage: str) -> None:
    Appender(storage, VIEW_NAME).append_files([written(storage, "a", 1)], "query", 7)
    shorten_log(storage, VIEW_NAME)
    assert Appender(storage, VIEW_NAME).last_batch("query") == 7


def test_commits_of_others_in_between_are_kept_and_hold_up_nothing(storage: str) -> None:
    appender = Appender(storage, VIEW_NAME)
    appender.append_files([written(storage, "a", 1)], "query", 0)
    other = pa.Table.from_batches([rows(2)]).append_column(RECORDED_ON, pa.array([date(2026, 1, 1)], pa.date32()))
    write_deltalake(f"{storage}/{VIEW_NAME}", other, mode="append")
    DeltaTable(f"{storage}/{VIEW_NAME}").optimize.compact()
    appender.append_files([written(storage, "b", 3)], "query", 1)
    assert offsets(storage) == [1, 2, 3]


def test_a_second_writer_of_the_same_query_does_not_commit_a_batch_again(storage: str) -> None:
    late, other = Appender(storage, VIEW_NAME), Appender(storage, VIEW_NAME)
    assert late.last_batch("query") == -1
    state = late._newest()
    other.append_files([written(storage, "a", 1)], "query", 0)
    late._newest = lambda: state  # type: ignore[method-assign] # it has looked before the other committed
    with pytest.raises(DeltaError):
        late.append_files([written(storage, "b", 1)], "query", 0)
    assert offsets(storage) == [1]


def test_an_append_that_failed_leaves_an_appender_that_goes_on(storage: str) -> None:
    appender = Appender(storage, VIEW_NAME)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the library makes of it
        appender.append_rows(pa.table({"unknown": [1]}), "2026-01-01", "query", 0)
    appender.append_files([written(storage, "a", 1)], "query", 0)
    assert offsets(storage) == [1]


def test_a_file_that_is_gone_is_in_no_commit(storage: str) -> None:
    appender, lost = Appender(storage, VIEW_NAME), written(storage, "a", 1)
    Path(storage, VIEW_NAME, lost.path).unlink()
    with pytest.raises(GoneError, match="removed before its commit"):
        appender.append_files([written(storage, "b", 2), lost], "query", 0)
    assert (offsets(storage), appender.last_batch("query")) == ([], -1)
    appender.append_files([written(storage, "a", 1), written(storage, "b", 2)], "query", 0)
    assert offsets(storage) == [1, 2]


def test_a_store_is_asked_whether_a_file_is_there(storage: str) -> None:
    files = filesystem(f"file://{storage}/{VIEW_NAME}")
    assert isinstance(files, fs.PyFileSystem)
    assert lacking(files, [written(storage, "a", 1).path, "broker=2/none.parquet"]) == ["broker=2/none.parquet"]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (Began(1001, 11, 3), False),
        (Began(1000 + 3600, 11, 3), True),
        (Began(1000 - 3600, 11, 3), True),
        (Began(1001, 10 + 3600, 3), True),
        (Began(1001, 11, 4), True),
    ],
)
def test_a_store_is_asked_where_a_file_is_old_by_some_clock_or_files_were_removed_since(
    now: Began, expected: bool
) -> None:
    assert may_be_gone(Began(1000, 10, 3), now) is expected
    assert may_be_gone(None, now)
