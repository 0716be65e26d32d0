"""The upkeep of the tables, on real Delta tables."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parallax import moments
from parallax.audit import frames, inputs
from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.compare import Comparer, parse
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.audit.result import Compared
from parallax.compare.suspect import Suspect
from parallax.config import CompareSettings, StorageSettings
from parallax.findings.seen import seen
from parallax.findings.sight import What
from parallax.model import FindingKind, IsolationLevel
from parallax.source.offsets import Reader
from parallax.views.maintenance import Maintenance
from parallax.views.positions import positions_since
from parallax.views.settled import BLOCK, Settled
from parallax.views.shown import Asked
from parallax.views.tables import PROGRESS, VIEWS, TableSize, create_tables
from tests.builders.micro_batches import BROKERS, PLACE, read
from tests.builders.positions import midnight, position, record_positions

BUSY, IDLE = Reader(1, 1, "orders", 0), Reader(1, 2, "orders", 0)


def append(storage: Path, recorded_on: date, *rows: tuple[Reader, int]) -> None:
    at_ms = midnight(recorded_on)
    record_positions(storage, recorded_on, *(position(reader, offset, at_ms + offset) for reader, offset in rows))


@pytest.mark.timeout(900)
def test_upkeep_compacts_and_drops_old_dates_and_keeps_every_position_and_stream(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, today = tmp_path / "data", datetime.now(UTC).date()
    monkeypatch.setattr(moments, "today", today.isoformat)
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


END = 3 * BLOCK + 100


def audited(spark: Any, storage: str) -> tuple[Compared, list[Suspect]]:
    """What an audit of the tables says of a partition, by Spark."""
    plan = PartitionPlan(*PLACE, "id", TopicTraits(), BROKERS, (END, END), dict.fromkeys(BROKERS, 0))
    agreed = agreeing(recorded_blocks(storage), [plan])
    given = inputs.from_tables([plan], [], 2, agreed)
    comparer = Comparer(given, CompareSettings(), 2, last=True, from_log_start=False)
    session = frames.session_of(spark, 2)
    chunks = frames.table_chunks(session, storage, {PLACE: (END, END)}, agreed)
    (row,) = frames.compared(frames.openings(session, [PLACE]), chunks, comparer).select("result").collect()
    compared, suspects, _ = parse(row["result"])
    return compared, suspects


@pytest.mark.timeout(900)
@pytest.mark.parametrize("differs", [False, True])
def test_an_audit_of_sums_alone_says_the_same_and_behind_a_difference_unknown(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    storage = str(tmp_path)
    create_tables(storage)
    monkeypatch.setattr(moments, "today", lambda: "2026-01-01")

    def change(broker: int, _: IsolationLevel, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "content_hash": 1} if differs and broker == 2 and row["offset"] == BLOCK + 7 else row

    for start in range(0, END, BLOCK // 2):
        read(storage, start, min(END, start + BLOCK // 2), change)
    before, suspects = audited(spark, storage)
    assert [(s.kind, s.accusation.offset) for s in suspects] == [(FindingKind.CONTENT_MISMATCH, BLOCK + 7)] * differs
    assert (before.compared_up_to, before.reasons()) == ((END, END), [])
    settings = StorageSettings(path=storage, retention_hours=1e5, record="blocks")
    nothing_open = {PLACE: Settled(frozenset(BROKERS), END)}
    Maintenance(settings, compared=lambda: nothing_open).run_once(date(2026, 1, 4))
    rows = DeltaTable(f"{storage}/read_committed").to_pyarrow_dataset().count_rows()
    assert rows < 6 * 100 + differs * 6 * BLOCK
    after, suspects = audited(spark, storage)
    if differs:
        assert {s.accusation.offset for s in suspects} <= {BLOCK + 7}
        assert any("storage.record: blocks" in reason for reason in after.reasons())
    else:
        assert (after, suspects) == (before, [])
    now = datetime.now(UTC)
    for offset, what in ((5, What.UNKNOWN), (END - 1, What.RECORD), (BLOCK + 7, [What.UNKNOWN, What.RECORD][differs])):
        found = seen(storage, Asked(PLACE.topic, 0, None, offset, IsolationLevel.READ_COMMITTED, now))
        assert {one.what for one in found} == {what}
