"""A comparison that is far behind, while upkeep runs as ever: what it still needs stays for it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parallax.compare.feed import QUERY, TABLES
from parallax.compare.query import followed
from parallax.compare.tables import create_suspects
from parallax.config import StorageSettings
from parallax.model import ReadEvent
from parallax.views import compaction, maintenance
from parallax.views.commits import Followed, LogGoneError, OtherTableError
from parallax.views.maintenance import Maintenance
from parallax.views.tables import PROGRESS, VIEWS, create_tables, table_path
from tests.unit.compare.feeding import Comparison, record_as_the_job_does
from tests.unit.compare.history import BROKERS, RC, RU, Row, both, everywhere, record, shown, tick

VIEW = "read_committed"


class Job:
    """Records an offset at a time; hours pass by the times of its files."""

    def __init__(self, storage: Path) -> None:
        self.storage, self.end = storage, 0

    def record(self, count: int) -> None:
        for n in range(self.end, self.end + count):
            rows = [row for broker in BROKERS for row in both(broker, [record(n, f"K{n}", "V")], n + 1)]
            record_as_the_job_does(self.storage, n, *tick(n, everywhere(n + 1)), *rows)
        self.end += count

    def hours_pass(self, hours: float) -> None:
        for path in self.storage.rglob("*"):
            if path.is_file():
                at = path.stat().st_mtime - hours * 3600
                os.utime(path, (at, at))
        Maintenance(StorageSettings(path=str(self.storage), retention_hours=1e6), followed=followed).run_once()

    def entries(self) -> list[int]:
        return sorted(int(p.stem) for p in Path(table_path(str(self.storage), VIEW), "_delta_log").glob("*.json"))


def compare(comparison: Comparison) -> bool:
    """One micro-batch, and its offset as Spark notes it; whether there was one."""
    if comparison.reader().latestOffset(comparison.offset, None) == comparison.offset:  # type: ignore[arg-type]
        return False
    comparison.step()
    note(Path(comparison.storage), comparison.batch, comparison.offset)
    return True


def note(storage: Path, batch: int, offset: dict[str, Any], *, is_done: bool = True) -> None:
    offsets, commits = (storage / "checkpoints" / QUERY / name for name in ("offsets", "commits"))
    for folder in (offsets, commits):
        folder.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offset)}')
    if is_done:
        (commits / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def job(storage: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(compaction, "LARGE", 1)  # files stay apart, so that a replay takes many micro-batches
    return Job(storage)


def test_a_replay_that_takes_many_hours_ends_though_upkeep_runs_every_hour(job: Job) -> None:
    job.record(12)
    for _ in range(2):
        job.hours_pass(3)
    comparison, hours = Comparison(job.storage, max_rows_per_trigger=40), 0
    assert comparison.offset[VIEW]["files"] == 0
    while compare(comparison):
        hours += 1
        job.record(int(hours < 12))
        job.hours_pass(1)
    assert hours > 8
    assert comparison.compared_up_to == {"t": (job.end, job.end)}
    job.hours_pass(3)
    assert len(job.entries()) == 1


def test_files_that_were_joined_since_stay_for_a_replay_of_the_table_as_it_stood(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.record(4)
    for _ in range(2):
        job.hours_pass(3)
    comparison = Comparison(job.storage, max_rows_per_trigger=40)
    assert compare(comparison)
    monkeypatch.setattr(compaction, "LARGE", 1 << 30)
    for _ in range(4):
        job.record(1)
        job.hours_pass(3)
    assert DeltaTable(table_path(str(job.storage), VIEW)).to_pyarrow_dataset().count_rows()
    while compare(comparison):
        pass
    assert comparison.compared_up_to == {"t": (8, 8)}


def test_what_a_follower_has_passed_goes_though_it_is_behind(job: Job) -> None:
    comparison = Comparison(job.storage, max_rows_per_trigger=1)
    for _ in range(6):
        job.record(1)
        assert comparison.batch or compare(comparison)
        job.hours_pass(1)
    assert job.entries()[0] == 0
    for _ in range(4):
        assert compare(comparison)
    note(job.storage, comparison.batch + 1, {name: {"version": 4} for name in TABLES})
    job.hours_pass(3)
    assert 0 < job.entries()[0] <= 4
    for name in TABLES:
        DeltaTable(table_path(str(job.storage), name), version=4)


def test_what_is_kept_for_a_comparison_is_let_go_of_after_a_stated_time(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = Comparison(job.storage, max_rows_per_trigger=1)
    job.record(4)
    assert compare(comparison)
    job.hours_pass(maintenance.LONGEST.total_seconds() / 3600 + 1)
    assert job.entries()[0] == 0, "a job that was stopped for so long begins with what it left"
    real = time.monotonic
    long_ago = Maintenance(StorageSettings(path=str(job.storage), retention_hours=1e6), followed=followed)
    monkeypatch.setattr(time, "monotonic", lambda: real() + maintenance.LONGEST.total_seconds() + 1)
    long_ago.run_once()
    with pytest.raises(LogGoneError):
        compare(comparison)


def test_a_place_that_cannot_be_read_fails_the_upkeep_and_costs_no_file(job: Job) -> None:
    job.record(4)
    note(job.storage, 0, {})
    (job.storage / "checkpoints" / QUERY / "offsets" / "0").write_text("v1\n{}\n{")
    told: dict[str, Any] = {}
    job.hours_pass(3)
    Maintenance(
        StorageSettings(path=str(job.storage), retention_hours=1e6), told.__setitem__, None, followed
    ).run_once()
    assert set(told.values()) == {None}
    assert job.entries()[0] == 0


def test_where_a_comparison_stands_is_where_the_last_micro_batch_has_ended_that_is_done(tmp_path: Path) -> None:
    create_tables(str(tmp_path))
    assert followed(str(tmp_path)) == {}
    for batch, place in ((9, {"version": 7}), (10, {"version": 8, "files": 3}), (11, {"version": 9})):
        note(tmp_path, batch, dict.fromkeys(TABLES, place), is_done=batch < 11)
    assert followed(str(tmp_path)) == dict.fromkeys(TABLES, Followed(8, is_standing=True))


MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], tuple[Path, Comparison]]:
    """What was recorded while a comparison followed it, with files joined so many times; made once for each number."""
    made: dict[int, tuple[Path, Comparison]] = {}

    def joined(joins: int) -> tuple[Path, Comparison]:
        if joins not in made:
            folder = tmp_path_factory.mktemp("joined") / "data"
            create_tables(str(folder))
            create_suspects(str(folder))
            made[joins] = folder, _recorded_and_joined(folder, joins)
        return made[joins]

    return joined


def _recorded_and_joined(storage: Path, joins: int) -> Comparison:
    followed_live, batch = Comparison(storage), iter(range(1000))

    def recorded(*rows: Row) -> None:
        record_as_the_job_does(storage, next(batch), *rows)
        followed_live.step()

    recorded(*tick(MINUTE_MS, everywhere(0)))
    added = ReadEvent.PARTITION_ADDED
    recorded(*(row for view in (RU, RC) for b in BROKERS for row in shown(view, b, [], 0, MINUTE_MS + 1, event=added)))
    for n in range(10):
        at, end = (n + 2) * MINUTE_MS, n * 10 + 10
        rows = [record(offset, f"K{offset}", "V") for offset in range(end - 10, end)]
        if n == 5:
            rows[5] = record(end - 5, "K3", None)
        for broker in BROKERS:
            recorded(*both(broker, [r for r in rows if (n, broker, r["offset"]) != (5, 2, end - 5)], end, at))
        recorded(*tick(at + 1000, everywhere(end)))
        if n % (10 // joins) == 0:
            for name in TABLES:
                compaction.compact(str(storage), name)
    for n in range(12, 15):
        recorded(*tick(n * MINUTE_MS, everywhere(100)))
    assert followed_live.suspects() == [("deleted_record_resurrected", 2)]
    for name in TABLES:
        compaction.compact(str(storage), name)
        assert len(DeltaTable(table_path(str(storage), name)).file_uris()) == (1 if name == PROGRESS else 3)
        DeltaTable(table_path(str(storage), name)).create_checkpoint()
        Path(table_path(str(storage), name), "_delta_log", f"{0:020d}.json").unlink()
    shutil.rmtree(storage / "checkpoints")
    return followed_live


@pytest.mark.parametrize("most", [1, 100, 700, 10**6])
@pytest.mark.parametrize("joins", [pytest.param(1, marks=pytest.mark.release), 3])
def test_a_comparison_that_is_rebuilt_from_joined_files_knows_what_was_read_in_time(
    joined: Callable[[int], tuple[Path, Comparison]], tmp_path: Path, most: int, joins: int
) -> None:
    recorded, followed_live = joined(joins)
    storage = shutil.copytree(recorded, tmp_path / "data")
    rebuilt = Comparison(storage, max_rows_per_trigger=most)
    while compare(rebuilt):
        pass
    assert rebuilt.suspects() == followed_live.suspects()
    last = rebuilt.told[-1][1][0]
    assert last.compared_up_to == (100, 100)
    assert not any(map(any, last.unknown.values()))


@pytest.mark.parametrize("is_overgrown", [False, True])
def test_a_comparison_notices_that_the_views_were_put_back_from_an_older_copy(
    job: Job, tmp_path_factory: pytest.TempPathFactory, is_overgrown: bool
) -> None:
    copy, views = tmp_path_factory.mktemp("copy"), [Path(table_path(str(job.storage), name)) for name in VIEWS]
    comparison = Comparison(job.storage)
    job.record(3)
    assert compare(comparison)
    for view in views:
        shutil.copytree(view, copy / view.name)
    job.record(3)
    assert compare(comparison)
    for view in views:
        shutil.rmtree(view)
        shutil.copytree(copy / view.name, view)
    if is_overgrown:
        job.record(6)
    with pytest.raises(OtherTableError, match="put back or replaced"):
        compare(comparison)
    shutil.rmtree(job.storage / "checkpoints")
    again = Comparison(job.storage)
    assert compare(again)
    assert again.compared_up_to == {"t": (12, 12) if is_overgrown else (3, 3)}


def test_a_comparison_goes_on_where_the_same_tables_were_put_back(job: Job) -> None:
    comparison = Comparison(job.storage)
    job.record(3)
    assert compare(comparison)
    for name in TABLES:
        path = Path(table_path(str(job.storage), name))
        path.rename(path.with_name("moved"))
        shutil.copytree(path.with_name("moved"), path)
        shutil.rmtree(path.with_name("moved"))
    job.record(1)
    assert compare(comparison)
    assert comparison.compared_up_to == {"t": (4, 4)}
