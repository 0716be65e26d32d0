"""Fences on tables: behind that of another job nothing is committed, whenever the old one looked last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from parallax.findings.table import FindingsTable, FindingsTableError
from parallax.views import fencing
from parallax.views.appending import Appender
from parallax.views.fencing import FencedError, commit, epoch_of, hold, raise_fence, release
from parallax.views.tables import create_replaced, replace_rows
from tests.builders.findings import EVENT

ROWS = pa.table({"a": [1]})


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[str]:
    hold(str(tmp_path), 1)
    yield str(tmp_path)
    release(str(tmp_path))


@pytest.fixture
def uri(storage: str) -> str:
    write_deltalake(f"{storage}/t", ROWS)
    return f"{storage}/t"


def append(table: DeltaTable, properties: CommitProperties) -> None:
    write_deltalake(table, ROWS, mode="append", commit_properties=properties)


def test_each_commit_carries_the_epoch_that_is_held(storage: str, uri: str) -> None:
    raise_fence(uri, 1)
    table = commit(lambda: DeltaTable(uri), append, marks=[Transaction("q", 7)])
    assert table.transaction_version(fencing.EPOCH) == 1
    assert table.transaction_version("q") == 7
    release(storage)
    assert epoch_of(storage) == 0
    assert commit(lambda: DeltaTable(uri), append).version() == 3


def test_nothing_is_committed_behind_a_higher_fence(uri: str) -> None:
    raise_fence(uri, 2)
    with pytest.raises(FencedError, match="epoch 2 after 1"):
        commit(lambda: DeltaTable(uri), append)
    with pytest.raises(FencedError):
        raise_fence(uri, 1)


def test_a_fence_that_is_raised_while_a_commit_is_on_its_way_refuses_it(uri: str) -> None:
    raise_fence(uri, 1)

    def frozen(table: DeltaTable, properties: CommitProperties) -> None:
        if DeltaTable(uri).transaction_version(fencing.EPOCH) == 1:
            raise_fence(uri, 2)
        append(table, properties)

    with pytest.raises(FencedError):
        commit(lambda: DeltaTable(uri), frozen)
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 1


def test_two_commits_of_one_job_that_meet_are_both_made(uri: str) -> None:
    raise_fence(uri, 1)
    met = []

    def meets(table: DeltaTable, properties: CommitProperties) -> None:
        if not met:
            met.append(True)
            commit(lambda: DeltaTable(uri), append)
        append(table, properties)

    commit(lambda: DeltaTable(uri), meets)
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 3


def test_a_commit_whose_answer_was_lost_is_not_made_twice(uri: str) -> None:
    raise_fence(uri, 1)

    def lossy(table: DeltaTable, properties: CommitProperties) -> None:
        stale = DeltaTable(uri)
        append(table, properties)
        append(stale, properties)

    def is_there(table: DeltaTable) -> bool:
        return table.transaction_version("q") == 3

    commit(lambda: DeltaTable(uri), lossy, marks=[Transaction("q", 3)], is_done=is_there)
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 2


def test_the_writers_of_a_job_are_fenced(storage: str, uri: str) -> None:
    create_replaced(f"{storage}/replaced", ROWS.schema)
    findings = FindingsTable(storage)
    for name in ("t", "replaced", "findings"):
        raise_fence(f"{storage}/{name}", 2)
    with pytest.raises(FencedError):
        Appender(storage, "t").append_files([], "q", 0)
    with pytest.raises(FencedError):
        replace_rows(f"{storage}/replaced", ROWS)
    findings.news()
    with pytest.raises(FindingsTableError, match="taken over"):
        findings.append([EVENT])
