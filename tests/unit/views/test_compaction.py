"""Compaction: fewer files, the same rows, in the order in which they were recorded."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from parallax.compare.following import Follower
from parallax.source import schema
from parallax.source.schema import VIEW
from parallax.views import compaction, order
from parallax.views.commits import TableLog
from parallax.views.compaction import LARGE, File, compact, joined
from parallax.views.maintenance import shorten_log
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables

RC = "read_committed"
DAY = date(2026, 1, 1)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def append(storage: str, *offsets: int, broker: int = 1, on: date = DAY) -> None:
    same = {"topic": "t", "partition": 0, "broker": broker, "kind": 0, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    table = pa.Table.from_pylist([{**same, "offset": offset} for offset in offsets], schema=VIEW)
    table = table.append_column(RECORDED_ON, pa.array([on] * len(offsets), pa.date32()))
    write_deltalake(f"{storage}/{RC}", table, mode="append")


def in_order(storage: str, broker: int = 1) -> list[int]:
    """The offsets as who rebuilds the comparison takes them."""
    log = TableLog(storage, RC)
    found: list[int] = []
    for part in log.standing()[1]:
        for file in part.files:
            if file.broker == broker:
                with log.files.open_input_file(file.path) as source:
                    rows = pq.read_table(source)["offset"].to_pylist()
                    found += rows if file.first is None else rows[file.first : file.first + file.rows]
    return found


def files(storage: str) -> list[dict[str, Any]]:
    actions: Any = pa.table(DeltaTable(f"{storage}/{RC}").get_add_actions(flatten=True))
    return list(actions.to_pylist())


def test_rows_keep_the_order_in_which_they_were_recorded(storage: str) -> None:
    for offsets in ((5, 6), (7,), (2, 3)):  # The log was truncated in between.
        append(storage, *offsets)
        append(storage, *offsets, broker=2)
    assert compact(storage, RC) == 6
    append(storage, 4)
    assert in_order(storage) == [5, 6, 7, 2, 3, 4]
    assert in_order(storage, 2) == [5, 6, 7, 2, 3]
    assert len(files(storage)) == 3
    compact(storage, RC)
    assert in_order(storage) == [5, 6, 7, 2, 3, 4]


def test_a_follower_sees_no_row_again(storage: str) -> None:
    append(storage, 1)
    append(storage, 2)
    follower = Follower(RC, TableLog(storage, RC))
    (*_, last) = follower.appended(follower.beginning())
    compact(storage, RC)
    append(storage, 3)
    assert [part.rows for part in follower.appended(last.place)] == [0, 1]


def test_dates_and_brokers_stay_apart(storage: str) -> None:
    for on in (DAY, date(2026, 1, 2)):
        for n in range(2):
            append(storage, n, on=on)
            append(storage, n, broker=2, on=on)
    compact(storage, RC)
    assert len(files(storage)) == 4


def test_what_was_recorded_over_midnight_while_clocks_differ_stays_in_order(storage: str) -> None:
    for n, on in enumerate((DAY, date(2026, 1, 2), DAY, date(2026, 1, 2), date(2026, 1, 2))):
        append(storage, n, on=on)
    compact(storage, RC)
    assert in_order(storage) == [0, 1, 2, 3, 4]


def test_a_joined_file_has_the_time_of_its_newest_part_and_tells_its_rows(storage: str) -> None:
    append(storage, 1)
    append(storage, 9)
    newest = max(file["modification_time"] for file in files(storage))
    compact(storage, RC)
    (after,) = files(storage)
    assert after["modification_time"] == newest
    assert (after["num_records"], after["min.offset"], after["max.offset"]) == (2, 1, 9)


def parts(storage: str) -> list[tuple[int, int | None, int | None, int]]:
    """Of the table as it stands: place, broker, number of the first row, rows."""
    found = TableLog(storage, RC).standing()[1]
    return [(part.at_ms, file.broker, file.first, file.rows) for part in found for file in part.files]


def test_the_rows_of_a_joined_file_keep_their_places_among_those_of_others(storage: str) -> None:
    for n in range(6):
        append(storage, *range(n + 1), broker=1 + n % 2)
    before = parts(storage)
    for _ in range(2):
        compact(storage, RC)
        assert len(files(storage)) == 2
        assert [(at_ms, broker, rows) for at_ms, broker, _, rows in parts(storage)] == [
            (at_ms, broker, rows) for at_ms, broker, _, rows in before
        ]
        append(storage, 9)
        before = [*before, parts(storage)[-1]]
    assert [first for _, broker, first, _ in parts(storage) if broker == 1] == [0, 1, 4, 9, None]


def test_a_joined_file_whose_footer_is_garbled_is_an_error(storage: str) -> None:
    with pytest.raises(ValueError, match="garbled"):
        order.parts_of({b"parallax.commits": b"AAAA"}, 1, 1)
    append(storage, 1)
    assert [(first, rows) for _, _, first, rows in parts(storage)] == [(None, 1)]


def test_what_was_joined_stays_on_the_disk_for_those_who_read_it(storage: str) -> None:
    append(storage, 1)
    append(storage, 2)
    old = [Path(storage, RC, file["path"]) for file in files(storage)]
    compact(storage, RC)
    table = DeltaTable(f"{storage}/{RC}")
    assert table.vacuum(2, dry_run=True, enforce_retention_duration=False, full=True) == []
    assert all(path.exists() for path in old)


def test_progress_is_joined_with_its_lists(storage: str) -> None:
    row = {"topic": "t", "partition": 4, "broker": 2, "observed_at": datetime(2026, 1, 1, tzinfo=UTC), "isr": [1, 2]}
    opened = {"producer_id": 9, "producer_epoch": 0, "start_offset": 3, "last_timestamp": 1, "coordinator_epoch": 1}
    for n in range(3):
        made = pa.Table.from_pylist([row | {"leader": n, "open_transactions": [opened]}], schema=schema.PROGRESS)
        made = made.append_column(RECORDED_ON, pa.array([DAY], pa.date32()))
        write_deltalake(f"{storage}/{PROGRESS}", made, mode="append")
    before = DeltaTable(f"{storage}/{PROGRESS}").to_pyarrow_table().sort_by("leader")
    assert compact(storage, PROGRESS) == 3
    after = DeltaTable(f"{storage}/{PROGRESS}").to_pyarrow_table().sort_by("leader")
    assert after.to_pylist() == before.to_pylist()


def test_the_log_may_be_shortened_behind_it(storage: str) -> None:
    append(storage, 1)
    append(storage, 2)
    compact(storage, RC)
    shorten_log(storage, RC)
    assert in_order(storage) == [1, 2]


SIZES = st.lists(st.integers(1, LARGE), max_size=12)


@given(sizes=SIZES, other=SIZES)
def test_neighbours_alone_are_joined_and_no_file_becomes_larger_than_it_may(sizes: list[int], other: list[int]) -> None:
    mine = [File(f"a{n}", size, n, (("broker", "1"),)) for n, size in enumerate(sizes)]
    more = [File(f"b{n}", size, n, (("broker", "2"),)) for n, size in enumerate(other)]
    for run in joined([*more, *mine], ()):
        assert len(run) > 1
        assert sum(file.size for file in run) <= LARGE
        of = mine if run[0].values == (("broker", "1"),) else more
        assert run == of[run[0].at_ms : run[-1].at_ms + 1]


def test_a_row_is_rewritten_a_few_times_and_not_at_each_run() -> None:
    rewritten, held = 0, list[File]()
    for n in range(2000):
        held.append(File(f"f{n}", 10_000, n))
        for run in joined(held, ()):
            size = sum(file.size for file in run)
            rewritten += size
            held = sorted(
                [*(f for f in held if f not in run), File(f"j{n}", size, run[-1].at_ms)], key=lambda f: f.at_ms
            )
    assert sum(file.size for file in held) == 2000 * 10_000
    assert rewritten < 15 * 2000 * 10_000
    assert len(held) < 15


def test_a_kill_between_two_joins_leaves_a_whole_table(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in (1, 2):
        append(storage, 1, broker=broker)
        append(storage, 2, broker=broker)
    real, count = compaction._join, iter(range(9))

    def join(*arguments: Any) -> None:
        if next(count):
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(compaction, "_join", join)
    with pytest.raises(KeyboardInterrupt):
        compact(storage, RC)
    assert in_order(storage) == in_order(storage, 2) == [1, 2]


def test_the_commit_says_that_no_data_changed(storage: str) -> None:
    append(storage, 1)
    append(storage, 2)
    compact(storage, RC)
    version = DeltaTable(f"{storage}/{RC}").version()
    entry = Path(storage, RC, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    changes = [part["dataChange"] for line in entry for name, part in json.loads(line).items() if name != "commitInfo"]
    assert changes == [False] * 3
