"""The upkeep of the tables, on real Delta tables."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parallax.config import StorageSettings
from parallax.model import IsolationLevel
from parallax.source.offsets import Reader
from parallax.views.maintenance import Maintenance
from parallax.views.positions import positions_since
from parallax.views.tables import PROGRESS, VIEWS, TableSize, create_tables
from tests.builders.positions import midnight, position, record_positions

BUSY, IDLE = Reader(1, 1, "orders", 0), Reader(1, 2, "orders", 0)


def append(storage: Path, recorded_on: date, *rows: tuple[Reader, int]) -> None:
    at_ms = midnight(recorded_on)
    record_positions(storage, recorded_on, *(position(reader, offset, at_ms + offset) for reader, offset in rows))


@pytest.mark.timeout(900)
def test_upkeep_compacts_and_drops_old_dates_and_keeps_every_position_and_stream(spark: Any, tmp_path: Path) -> None:
    storage, today = tmp_path / "data", datetime.now(UTC).date()
    create_tables(str(storage))
    old = date(2026, 1, 1)
    append(storage, old, (BUSY, 5), (IDLE, 7))
    append(storage, old, (BUSY, 6))
    for offset in (10, 11, 12):
        append(storage, today, (BUSY, offset))
    path = str(storage / "read_committed")
    reader = spark.readStream.format("delta").option("ignoreDeletes", "true").load(path)
    seen: list[tuple[int, int]] = []

    def run() -> None:
        writer = reader.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        )
        query = writer.foreachBatch(
            lambda batch, _: seen.extend((row.broker, row.offset) for row in batch.collect())
        ).start()
        assert query.awaitTermination(300)

    run()
    assert sorted(seen) == [(1, 5), (1, 6), (1, 10), (1, 11), (1, 12), (2, 7)]
    before = positions_since(str(storage), IsolationLevel.READ_COMMITTED, -1)[0]
    failed, under_way = (
        storage / "read_committed" / f"broker=1/recorded_on={today}" / f"part-{n}.parquet" for n in "ab"
    )
    for orphan in (failed, under_way):
        orphan.write_bytes(b"what a task has written that is in no commit")
    os.utime(failed, (time.time() - 3 * 3600,) * 2)
    done: dict[str, TableSize | None] = {}
    settings = StorageSettings(path=str(storage), retention_hours=24)
    Maintenance(settings, done.__setitem__).run_once()

    assert list(done) == [*VIEWS, PROGRESS]
    assert not failed.exists()
    assert under_way.exists()
    table = DeltaTable(path)
    sizes = [Path(uri.removeprefix("file://")).stat().st_size for uri in table.file_uris()]
    assert done["read_committed"] == TableSize(len(sizes), sum(sizes))
    assert {partition["recorded_on"] for partition in table.partitions()} == {today.isoformat()}
    assert len([uri for uri in table.file_uris() if "broker=1" in uri]) == 1
    assert positions_since(str(storage), IsolationLevel.READ_COMMITTED, -1)[0] == before
    assert before[IDLE].position == 7
    append(storage, today, (BUSY, 13))
    run()
    assert sorted(seen[6:]) == [(1, 13), (2, 7)]
