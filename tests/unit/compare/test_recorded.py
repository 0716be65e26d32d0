"""Rows of the tables' files, as the comparison takes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from parallax.compare.footers import Footer
from parallax.compare.observations import EVENT_CODE, Observations, topic_id_code
from parallax.compare.recorded import ROWS, observed
from parallax.model import IsolationLevel, ReadEvent, RowKind, TopicPartition
from parallax.source import schema
from parallax.views.commits import DataFile
from parallax.views.tables import PROGRESS

AT = datetime(2026, 1, 1, 12, 0, 0, 123_000, UTC)
AT_MS = int(AT.timestamp() * 1000)
RECORD = {
    "topic": "t",
    "partition": 4,
    "kind": 0,
    "offset": 7,
    "timestamp": AT,
    "leader_epoch": 3,
    "producer_id": 9,
    "producer_epoch": 1,
    "outcome": 2,
    "key_hash_hi": 11,
    "key_hash_lo": 12,
    "content_hash": 13,
    "key_size": -1,
    "value_size": 5,
}
STANDS = RECORD | {
    "kind": 3,
    "offset": 8,
    "position": {
        "high_watermark": 20,
        "last_stable_offset": None,
        "log_start_offset": 2,
        "event": "log_truncated",
        "topic_id": "abc",
    },
}


def written(folder: Path, rows: list[dict[str, Any]], of: pa.Schema, **more: Any) -> DataFile:
    """A file as the tables have it: the broker is in its path alone."""
    table = pa.Table.from_pylist(rows, schema=of)
    if of is schema.VIEW:
        table = table.drop_columns(["broker"])
    pq.write_table(table, folder / "part.parquet", **more)
    return DataFile("part.parquet", len(rows), 2 if of is schema.VIEW else None)


def read(folder: Path, table: str, file: DataFile) -> list[Observations]:
    files = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    return [part for found in observed(files, table, file, lambda *_: True) for part in found.each()]


@pytest.mark.parametrize("isolation", list(IsolationLevel))
@pytest.mark.parametrize("more", [{}, {"use_deprecated_int96_timestamps": True}], ids=["micros", "int96"])
def test_rows_of_a_view_come_with_view_and_broker(tmp_path: Path, isolation: IsolationLevel, more: Any) -> None:
    file = written(tmp_path, [RECORD, STANDS], schema.VIEW, **more)
    (one,) = read(tmp_path, isolation.option, file)
    assert (one.topic, one.partition) == ("t", 4)
    rows = one.rows
    same = {"leader_epoch": 3, "producer_id": 9, "producer_epoch": 1, "outcome": 2, "key_size": -1, "value_size": 5}
    same |= {"key_hash_hi": 11, "key_hash_lo": 12, "content_hash": 13, "timestamp": AT_MS}
    for name, value in {"view": int(isolation), "broker": 2, **same}.items():
        assert getattr(rows, name).tolist() == [value] * 2, name
    assert rows.kind.tolist() == [0, 3]
    assert rows.offset.tolist() == [7, 8]
    assert rows.high_watermark.tolist() == [-1, 20]
    assert rows.last_stable_offset.tolist() == [-1, -1]
    assert rows.log_start_offset.tolist() == [-1, 2]
    assert rows.event[1] == EVENT_CODE[ReadEvent.LOG_TRUNCATED]
    assert rows.topic_id.tolist() == [0, topic_id_code("abc")]


def test_progress_comes_with_its_lists(tmp_path: Path) -> None:
    row = {"topic": "t", "partition": 4, "broker": 2, "observed_at": AT, "reachable": True, "high_watermark": 20}
    opened = [{"producer_id": 9, "start_offset": 3}]
    described = row | {"replicas": [1, 2], "open_transactions": opened, "cleanup_policy": "compact", "policy_at": AT}
    file = written(tmp_path, [described, {**row, "broker": 3}], schema.PROGRESS)
    (one,) = read(tmp_path, PROGRESS, file)
    assert one.progress.broker.tolist() == [2, 3]
    assert one.progress.observed_at.tolist() == [AT_MS, AT_MS]
    assert one.progress.policy_at.tolist() == [AT_MS, -1]
    assert one.progress.compacted.tolist() == [1, -1]
    assert one.open_transactions.start_offset.tolist() == [3]
    assert one.replica_sets.broker.tolist() == [1, 2]


def test_progress_that_an_earlier_version_recorded_has_no_retention(tmp_path: Path) -> None:
    row = {"topic": "t", "partition": 4, "broker": 2, "observed_at": AT, "reachable": True, "high_watermark": 20}
    then = pa.schema([f for f in schema.PROGRESS if f.name != "delete_retention_ms"])
    for columns, retention in ((then, -1), (schema.PROGRESS, 5000)):
        made = row | ({"delete_retention_ms": 5000} if columns is schema.PROGRESS else {})
        (one,) = read(tmp_path, PROGRESS, written(tmp_path, [made], columns))
        assert one.progress.retention_ms.tolist() == [retention]


def test_a_large_file_comes_in_pieces(tmp_path: Path) -> None:
    file = written(tmp_path, [RECORD] * (ROWS + 5), schema.VIEW)
    pieces = read(tmp_path, "read_committed", file)
    assert [len(piece.rows) for piece in pieces] == [ROWS, 5]
    assert np.all(pieces[0].rows.offset == 7)


def test_a_file_that_upkeep_has_removed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path, "read_committed", DataFile("gone.parquet", 1, 1))


def test_row_groups_of_other_partitions_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [RECORD | {"partition": n // 4, "offset": n} for n in range(12)]
    written(tmp_path, rows, schema.VIEW, row_group_size=4)
    seen: list[list[int]] = []
    real = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, *args: Any, **options: Any) -> Any:
        seen.append(options["row_groups"])
        return real(self, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    file = DataFile("part.parquet", 12, 1)
    found = list(observed(files, "read_committed", file, lambda topic, partition: (topic, partition) == ("t", 1)))
    parts = [part for one in found for part in one.each()]
    assert [(p.partition, p.rows.offset.tolist()) for p in parts] == [(1, [4, 5, 6, 7])]
    assert seen == [[1]]
    assert list(observed(files, "read_committed", file, lambda *_: False)) == []


@pytest.mark.parametrize("other", [RowKind.RECORD, RowKind.LISTED, RowKind.EMPTIED])
def test_positions_of_a_partition_whose_rows_are_spared_are_read_beside_any_row_of_another(
    tmp_path: Path, other: RowKind
) -> None:
    file = written(tmp_path, [STANDS | {"offset": 8}, RECORD | {"partition": 5, "kind": int(other)}], schema.VIEW)
    mine = TopicPartition("t", 4)
    footer = Footer(pq.read_metadata(tmp_path / "part.parquet"), {mine: (0, 8)}, {mine: (0, 8)})
    files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    found = observed(files, "read_committed", file, lambda *place: place == mine, footer=footer)
    assert [(part.partition, part.rows.kind.tolist()) for one in found for part in one.each()] == [(4, [3])]


@pytest.mark.parametrize("first", [0, 3, 10, 19, 25])
@pytest.mark.parametrize("rows", [1, 7, 12])
def test_of_a_joined_file_the_rows_alone_that_are_meant_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, rows: int
) -> None:
    monkeypatch.setattr("parallax.compare.recorded.ROWS", 4)
    whole = written(tmp_path, [RECORD | {"offset": n} for n in range(40)], schema.VIEW, row_group_size=10)
    found = read(tmp_path, "read_committed", replace(whole, first=first, rows=rows))
    assert [n for seen in found for n in seen.rows.offset.tolist()] == list(range(first, first + rows))
