"""The order of commits, whatever the clock does."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from parallax.source.schema import VIEW
from parallax.views import order
from parallax.views.tables import RECORDED_ON, create_tables

NAME = "read_committed"


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def append(storage: str, broker: int) -> None:
    """As an earlier version did: the file has the time of the clock."""
    rows: list[dict[str, Any]] = [{"topic": "t", "partition": 0, "broker": broker, "offset": 7}]
    table = pa.Table.from_pylist(rows, schema=VIEW)
    table = table.append_column(RECORDED_ON, pa.array([date(2026, 1, 1)], pa.date32()))
    write_deltalake(f"{storage}/{NAME}", table, mode="append")


@given(st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=20))
def test_each_commit_lies_behind_the_one_before(steps: list[int]) -> None:
    now = 1_790_000_000_000
    given = []
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            patch.setattr(time, "time_ns", lambda step=step: max(0, now + step) * 1_000_000)
            given.append(order.next_ms("/nowhere/at/all"))
    order.forget("/nowhere/at/all")
    assert given == sorted(set(given))


def test_the_time_is_the_clocks_where_the_clock_moves_on(storage: str) -> None:
    before = time.time_ns() // 1_000_000
    assert before <= order.next_ms(storage) <= time.time_ns() // 1_000_000 + 1


def test_a_new_process_goes_on_behind_what_an_earlier_one_or_version_has_committed(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(storage, 1)
    (newest,) = order.files_of(DeltaTable(f"{storage}/{NAME}"))[order.AT_MS].to_pylist()
    order.forget(storage)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000)
    assert order.next_ms(f"file://{storage}/") == newest + 1
    assert order.next_ms(storage) == newest + 2
