"""Files of a view, and what the table's log is told of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from parallax.source.schema import VIEW
from parallax.views import parquet
from parallax.views.parquet import FILE_SCHEMA, TableFile

TIMES = st.datetimes(datetime(1960, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001


def batch(*rows: dict[str, Any]) -> Any:
    given = {"topic": "t", "partition": 0, "broker": 1, "kind": 0, "timestamp": datetime(2026, 1, 1, tzinfo=UTC)}
    return pa.RecordBatch.from_pylist([{**given, **row} for row in rows], schema=VIEW)


def written(folder: Path, *batches: Any) -> tuple[TableFile, int]:
    file = TableFile(fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), "one.parquet")
    for rows in batches:
        file.take(rows)
    return file, file.close()


def test_a_file_holds_the_rows_in_order_and_tells_its_size(tmp_path: Path) -> None:
    rows = [
        {"offset": 3, "payload": {"key": b"k", "value": None, "headers": b""}},
        {"offset": 4, "key_hash_hi": -1},
        {"offset": 5, "kind": 3, "position": {"event": "ok", "high_watermark": 9}},
    ]
    file, size = written(tmp_path, batch(*rows[:2]), batch(rows[2]))
    assert size == (tmp_path / "one.parquet").stat().st_size
    held = pq.read_table(tmp_path / "one.parquet")
    assert held.schema.remove_metadata() == FILE_SCHEMA
    assert held.to_pylist() == pa.Table.from_batches([batch(*rows)]).select(FILE_SCHEMA.names).to_pylist()
    assert file.rows == json.loads(file.statistics)["numRecords"] == 3


@given(times=st.lists(TIMES, min_size=1, max_size=4))
def test_what_is_told_of_a_column_bounds_all_its_values(
    times: list[datetime], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [{"topic": f"t{i}", "offset": 100 - i, "partition": i, "timestamp": at} for i, at in enumerate(times)]
    file, _ = written(tmp_path_factory.mktemp("file"), *(batch(row) for row in rows))
    told = json.loads(file.statistics)
    low, high = (datetime.fromisoformat(told[name]["timestamp"]) for name in ("minValues", "maxValues"))
    assert low <= min(times) <= max(times) <= high
    assert max(min(times) - low, high - max(times)) < timedelta(milliseconds=1)
    assert (told["minValues"]["offset"], told["maxValues"]["offset"]) == (101 - len(times), 100)
    assert (told["minValues"]["topic"], told["maxValues"]["topic"]) == ("t0", f"t{len(times) - 1}")
    assert set(told["nullCount"]) == set(told["minValues"]) == set(told["maxValues"])


FURTHEST = 2**63 - 1
BEYOND = [(-FURTHEST, False), (253_402_300_799_000_000, False), (1_795_612_539_769_000_000, False), (FURTHEST, False)]


@pytest.mark.parametrize(("at", "is_told"), [(0, True), (253_402_300_798_999_999, True), *BEYOND])
def test_a_record_may_bear_any_timestamp_and_one_that_the_log_cannot_tell_bounds_nothing(
    tmp_path: Path, at: int, is_told: bool
) -> None:
    rows = batch({"offset": 7})
    column = pa.array([at], pa.int64()).view(VIEW.field("timestamp").type)
    file, _ = written(tmp_path, rows.set_column(VIEW.get_field_index("timestamp"), VIEW.field("timestamp"), column))
    told = json.loads(file.statistics)
    assert ["timestamp" in told[name] for name in ("minValues", "maxValues")] == [is_told] * 2
    assert told["minValues"]["offset"] == told["maxValues"]["offset"] == 7
    held = pq.read_table(tmp_path / "one.parquet")
    assert held["timestamp"].combine_chunks().view(pa.int64()).to_pylist() == [at]


def test_a_task_holds_a_row_group_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 4)
    written(tmp_path, *(batch({"offset": n}, {"offset": n + 1}) for n in range(0, 10, 2)))
    metadata = pq.read_metadata(tmp_path / "one.parquet")
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [4, 4, 2]


def test_large_payloads_end_a_row_group_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1000)
    large = {"payload": {"key": None, "value": b"v" * 1000, "headers": None}}
    written(tmp_path, batch({"offset": 1, **large}), batch({"offset": 2, **large}))
    assert pq.read_metadata(tmp_path / "one.parquet").num_row_groups == 2


def test_a_row_of_plain_traffic_takes_few_bytes(tmp_path: Path) -> None:
    def rows(count: int) -> Any:
        hashes = ((n * 0x9E3779B97F4A7C15 + 1) % (1 << 63) for n in range(3 * count))
        drawn = list(zip(*[hashes] * 3, strict=True))
        return batch(
            *(
                {"offset": n, "key_hash_hi": a, "key_hash_lo": b, "content_hash": c, "key_size": 7, "value_size": 90}
                for n, (a, b, c) in enumerate(drawn)
            )
        )

    _, few = written(tmp_path, rows(1_000))
    _, many = written(tmp_path, rows(11_000))
    assert (many - few) / 10_000 < 26


def test_a_row_group_ends_where_another_partition_begins_once_it_is_worth_skipping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "RUN_ROWS", 3)
    parts = [(0, 2), (1, 2), (1, 1), (2, 1), (2, 3)]
    written(
        tmp_path, *(batch(*[{"partition": partition, "offset": n} for n in range(rows)]) for partition, rows in parts)
    )
    metadata = pq.read_metadata(tmp_path / "one.parquet")
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [5, 4]
