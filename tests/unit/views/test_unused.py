"""Files that nobody needs are removed; what is committed while the upkeep stands still is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from parallax.views.unused import remove_unused

ROWS = pa.table({"a": [1]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    write_deltalake(str(tmp_path / "t"), ROWS)
    pq.write_table(ROWS, tmp_path / "t" / "of-a-task.parquet")
    return str(tmp_path / "t")


def commit_it(uri: str) -> None:
    size = (Path(uri) / "of-a-task.parquet").stat().st_size
    actions: list[Any] = [AddAction("of-a-task.parquet", size, {}, 1, True, "{}")]
    table = DeltaTable(uri)
    table.create_write_transaction(actions, "append", table.schema(), [])


def test_a_file_of_no_commit_goes_when_its_time_is_over(uri: str) -> None:
    assert remove_unused(uri, 1, full=True) == 0
    assert remove_unused(uri, 0, full=True) == 1
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1


def test_what_another_job_commits_between_the_look_and_the_removal_stays(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeltaTable.vacuum

    def frozen(self: DeltaTable, *arguments: Any, **more: Any) -> list[str]:
        found = real(self, *arguments, **more)
        assert found == ["of-a-task.parquet"]
        commit_it(uri)
        return found

    monkeypatch.setattr(DeltaTable, "vacuum", frozen)
    assert remove_unused(uri, 0, full=True) == 0
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 2
