"""What the comparison's tasks make of the tables' files, and what is left between two micro-batches."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from parallax.compare import joint, segments, withheld
from parallax.compare.feed import QUERY, RESULT_DDL, TABLES
from parallax.compare.joint import MANY_ROWS
from parallax.compare.segments import Manifest, StateGoneError, Store, bucket_of, offset_mark
from parallax.compare.sums import Grain
from parallax.compare.withheld import WithholdingLimits
from parallax.model import ReadEvent
from parallax.views.compaction import compact
from parallax.views.tables import table_path
from tests.unit.compare.feeding import Comparison, record_as_the_job_does
from tests.unit.compare.history import RC, RU, Row, both, everywhere, record, shown, tick
from tests.unit.compare.tabled import tables_of


def append(storage: Path, *rows: Row, topic: str = "t") -> None:
    for name, table in tables_of([{**row, "topic": topic} for row in rows]):
        write_deltalake(table_path(str(storage), name), table, mode="append")


def healthy(start: int, end: int) -> Iterator[Row]:
    rows = [record(n, f"K{n}", "V") for n in range(start, end)]
    yield from tick(end, everywhere(end))
    for broker in (1, 2, 3):
        yield from both(broker, rows, end)


@pytest.mark.parametrize("step_s", [-3, -60, -3600, 3600])
@pytest.mark.parametrize("most", [10, *(pytest.param(n, marks=pytest.mark.release) for n in (25, 40)), 10**6])
@pytest.mark.parametrize("is_joined", [False, True])
def test_a_comparison_that_is_rebuilt_after_a_clock_step_takes_the_commits_in_order(
    storage: Path, monkeypatch: pytest.MonkeyPatch, step_s: int, most: int, is_joined: bool
) -> None:
    def records(end: int) -> list[Row]:
        return [record(n, f"K{n}", "V") for n in range(end - 10, end)]

    real, at = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + int((at[0] if at[0] < 3 else at[0] + step_s) * 1e9))
    history = [
        [*tick(1, everywhere(10)), *(row for broker in (1, 2, 3) for row in both(broker, records(10), 10, 1))],
        [*tick(2, everywhere(20)), *(row for broker in (1, 2) for row in both(broker, records(20), 20, 2))],
        [*tick(3, everywhere(20)), *both(3, records(20), 20, 3)],
        [*tick(4, everywhere(30)), *(row for broker in (1, 2, 3) for row in both(broker, records(30), 30, 4))],
        [row for view in (RU, RC) for row in shown(view, 3, [], 25, 5, event=ReadEvent.LOG_TRUNCATED)],
        [*tick(6, everywhere(30)), *both(3, [record(n, f"K{n}", "V") for n in range(25, 30)], 30, 6)],
    ]
    followed = Comparison(storage)
    for number, rows in enumerate(history):
        at[0] = number + 1
        record_as_the_job_does(storage, number, *rows)
        followed.step()
    for name in TABLES:
        if is_joined:
            compact(str(storage), name)
        DeltaTable(table_path(str(storage), name)).create_checkpoint()
        Path(table_path(str(storage), name), "_delta_log", f"{0:020d}.json").unlink()
    shutil.rmtree(storage / "checkpoints")
    rebuilt = Comparison(storage, max_rows_per_trigger=most)
    while rebuilt.reader().latestOffset(rebuilt.offset, None) != rebuilt.offset:  # type: ignore[arg-type]
        rebuilt.step()
    assert rebuilt.compared_up_to == followed.compared_up_to == {"t": (30, 30)}
    assert rebuilt.suspects() == followed.suspects()


def test_the_columns_are_those_that_spark_is_told(storage: Path) -> None:
    append(storage, *healthy(0, 3))
    (batch,) = Comparison(storage).tasks()
    assert [f"{f.name} {_sql(f.type)}" for f in batch.schema] == RESULT_DDL.split(", ")


def _sql(kind: Any) -> str:
    if pa.types.is_list(kind):
        assert kind.value_field.name == "element"
        return f"array<{_sql(kind.value_type)}>"
    return "int" if kind == pa.int32() else str(kind)


def test_a_log_that_was_truncated_and_has_grown_again_is_taken_in_the_order_of_the_commits(storage: Path) -> None:
    old, lost = [record(0, "K", "V")], [record(1, "L", "lost"), record(2, "L", "lost too")]
    new = [record(1, "G", "a"), record(2, "G", "b"), record(3, "G", "c")]
    before = [row for broker in (2, 3) for row in both(broker, old, 1)] + both(1, [*old, *lost], 3)
    comparison = Comparison(storage)
    append(storage, *before, *tick(1, everywhere(1)))
    comparison.step()
    append(storage, *(row for broker in (2, 3) for row in both(broker, new, 4, 1)))
    append(storage, *(row for view in (RU, RC) for row in shown(view, 1, [], 1, 1, event=ReadEvent.LOG_TRUNCATED)))
    append(storage, *both(1, new, 4, 1))
    comparison.step()
    assert comparison.compared_up_to == {"t": (4, 4)}
    assert comparison.suspects() == [("log_truncated", 1)]


def test_replicas_of_the_brokers_that_are_read_are_compared_among_each_other(storage: Path) -> None:
    """With ``topics.brokers``: the third is assigned, and nobody is ever to read it."""

    def append_of_two(*rows: Row) -> None:
        append(storage, *(row for row in rows if row["broker"] != 3))

    comparison = Comparison(storage)
    comparison.options = replace(comparison.options, brokers=(1, 2))
    append_of_two(*healthy(0, 2))
    comparison.step()
    ((_, (told,)),) = comparison.told
    assert (told.compared_up_to, told.waits_from) == ((2, 2), (-1, -1))
    assert not any(map(any, told.unknown.values()))
    assert [one.broker for one in told.brokers] == [1, 2]
    append_of_two(*tick(3, everywhere(3)), *both(1, [record(2, "K2", "V")], 3), *both(2, [record(2, "K2", "W")], 3))
    comparison.step()
    assert comparison.suspects()


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_partitions_are_shared_out_by_bucket_and_each_is_compared_once(
    storage: Path, parallelism: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parallax.compare.following.SHARE", 1)
    comparison = Comparison(storage)
    comparison.options = replace(comparison.options, parallelism=parallelism)
    topics = [f"t{n}" for n in range(12)]
    for topic in topics:
        append(storage, *healthy(0, 2), topic=topic)
    reader = comparison.reader()
    end = reader.latestOffset(comparison.offset, None)  # type: ignore[arg-type]
    assert len(reader.partitions(comparison.offset, end)) == parallelism
    for _ in range(2):
        comparison.step()
        for topic in topics[::3]:
            append(storage, *healthy(2, 5), topic=topic)
    assert len(comparison.told[0][1]) == 12
    assert len(comparison.told[1][1]) == 4
    assert comparison.compared_up_to == {t: (5, 5) if n % 3 == 0 else (2, 2) for n, t in enumerate(topics)}
    assert comparison.suspects() == []


def test_a_partition_has_the_same_bucket_for_ever() -> None:
    assert [bucket_of("orders", n, 16) for n in range(5)] == [0, 6, 12, 10, 9]


def test_a_micro_batch_that_is_run_again_begins_with_the_state_of_its_start(storage: Path) -> None:
    comparison = Comparison(storage)
    append(storage, *tick(1, everywhere(5)), *both(1, [record(n, f"K{n}", "V") for n in range(5)], 5))
    comparison.step()
    append(storage, *both(2, [record(n, f"K{n}", "V") for n in range(5)], 5))
    since = comparison.offset
    comparison.step()
    after_kill = Comparison(storage)
    after_kill.offset, after_kill.batch = since, 1
    after_kill.step()
    assert after_kill.told == [
        ([], [replace(comparison.told[1][1][0], compared_at=after_kill.told[0][1][0].compared_at)])
    ]
    append(storage, *both(3, [record(n, f"K{n}", "V") for n in range(5)], 5))
    after_kill.step()
    assert after_kill.compared_up_to == {"t": (5, 5)}
    assert after_kill.suspects() == []


def test_a_state_that_is_gone_is_never_taken_for_an_empty_one(storage: Path) -> None:
    comparison = Comparison(storage)
    append(storage, *healthy(0, 3))
    comparison.step()
    append(storage, *healthy(3, 6))
    (manifest,) = (storage / "checkpoints" / QUERY / "segments").glob("at-*")
    manifest.unlink()
    with pytest.raises(StateGoneError):
        comparison.tasks()


def test_what_a_task_has_left_that_died_is_removed_and_what_is_needed_stays(storage: Path) -> None:
    comparison = Comparison(storage)
    append(storage, *healthy(0, 3))
    comparison.step()
    folder = storage / "checkpoints" / QUERY / "segments"
    needed = {path.name for path in folder.iterdir()}
    append(storage, *healthy(3, 6))
    comparison.tasks()
    assert {path.name for path in folder.iterdir()} > needed
    again = Comparison(storage)
    assert {path.name for path in folder.iterdir()} == needed
    again.offset, again.batch = comparison.offset, 1
    again.step()
    assert again.compared_up_to == {"t": (6, 6)}


def test_files_do_not_pile_up(storage: Path) -> None:
    comparison = Comparison(storage)
    counts = []
    for n in range(12):
        append(storage, *healthy(3 * n, 3 * n + 3))
        comparison.step()
        counts.append(len(list((storage / "checkpoints" / QUERY / "segments").iterdir())))
    assert max(counts) == counts[5] == counts[-1] == 8


def test_a_large_state_is_written_again_only_when_it_changes(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LARGE", 1000)
    comparison, end = Comparison(storage), MANY_ROWS
    folder = storage / "checkpoints" / QUERY / "segments"

    def large() -> set[str]:
        return {path.name for path in folder.glob("unmatched-*")}

    append(storage, *tick(1, everywhere(end)), *both(1, [record(n, f"K{n}", "V") for n in range(end)], end))
    comparison.step()
    first = large()
    assert len(first) == 1
    append(storage, *tick(2, everywhere(end)))
    comparison.step()
    assert large() == first
    for broker in (2, 3):
        append(storage, *both(broker, [record(n, f"K{n}", "V") for n in range(end)], end))
    for n in range(6):
        append(storage, *tick(3 + n, everywhere(end)))
        comparison.step()
    assert large() == set()
    assert comparison.compared_up_to == {"t": (end, end)}


def test_a_segment_that_is_not_what_was_written_is_an_error(storage: Path) -> None:
    comparison = Comparison(storage)
    append(storage, *healthy(0, 3))
    comparison.step()
    append(storage, *healthy(3, 6))
    (segment,) = (storage / "checkpoints" / QUERY / "segments").glob("segment-*")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with pytest.raises(ValueError, match="not what was written"):
        comparison.tasks()


def test_a_manifest_that_is_no_manifest_is_an_error(storage: Path) -> None:
    store = Store(str(storage / "checkpoints" / QUERY))
    store.prepare()
    for text in ("", "{}", '{"buckets": 4}', "[]"):
        (storage / "checkpoints" / QUERY / "segments" / f"at-{offset_mark({})}").write_text(text)
        with pytest.raises(ValueError, match=r"manifest|Expecting"):
            store.manifest(offset_mark({}))
        store.prepare()


def test_which_manifests_are_old_is_not_told_by_the_times_of_their_files(storage: Path) -> None:
    folder = storage / "checkpoints" / QUERY
    store = Store(str(folder))
    store.prepare()
    manifest = Manifest()
    for number in range(4):
        manifest = manifest.with_segments({})
        store.commit(f"mark{number}", manifest)
    for number in range(4):
        os.utime(folder / "segments" / f"at-mark{number}", (1000 - number, 1000 - number))
    again = Store(str(folder))
    again.prepare()
    again.commit("mark4", manifest.with_segments({}))
    assert {path.name for path in (folder / "segments").iterdir()} == {f"at-mark{n}" for n in (1, 2, 3, 4)}


class TestWithheld:
    """Rows that are left in the tables while a replica is away."""

    SIZE = 40

    @pytest.fixture(autouse=True)
    def little(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limits = WithholdingLimits(worth=2_000, few=10, at_a_time=100, grain=Grain(stride=4, recent=2))
        monkeypatch.setattr(withheld, "WithholdingLimits", lambda: limits)
        monkeypatch.setattr(joint, "MANY_WAITING", 10)

    def record(self, storage: Path, batch: int, brokers: Iterable[int], end: int, *rows: Row) -> None:
        made = [record(n, f"K{n}", "V") for n in range(end - self.SIZE, end)]
        down = tuple(broker for broker in (1, 2, 3) if broker not in brokers)
        progress = tick(batch, everywhere(end), down=() if rows else down)
        shown_ = [row for broker in brokers for row in both(broker, made, end, batch)]
        record_as_the_job_does(storage, batch, *progress, *shown_, *rows)

    def outage(self, storage: Path) -> Comparison:
        comparison = Comparison(storage)
        self.record(storage, 0, (1, 2, 3), self.SIZE)
        comparison.step()
        for n in range(1, 12):
            self.record(storage, n, (1, 3), (n + 1) * self.SIZE)
            comparison.step()
        ((_, (told,)),) = comparison.told[-1:]
        assert told.compared_up_to == (self.SIZE, self.SIZE)
        assert told.deferred == ()
        assert told.state_bytes < 15_000
        return comparison

    @pytest.mark.parametrize("lost", [None, 200])
    @pytest.mark.parametrize("is_joined", [False, True])
    def test_are_read_once_more_when_it_is_back(self, storage: Path, is_joined: bool, lost: int | None) -> None:
        comparison, end = self.outage(storage), 12 * self.SIZE
        if is_joined:
            for name in TABLES:
                compact(str(storage), name)
        rows = [record(n, f"K{n}", "other" if n == lost else "V") for n in range(self.SIZE, end)]
        record_as_the_job_does(storage, 20, *tick(20, everywhere(end)), *both(2, rows, end, 20))
        since = comparison.offset
        comparison.step()
        again = Comparison(storage)
        again.offset, again.batch = since, comparison.batch - 1
        again.step()
        for one in (comparison, again):
            assert one.compared_up_to == {"t": (end, end)}
            assert [(str(s.kind), s.accusation.offset) for raised, _ in one.told for s in raised] == (
                [] if lost is None else [("content_mismatch", lost)]
            )

    def test_that_are_gone_by_then_are_unknown_until_an_audit(self, storage: Path) -> None:
        comparison, end = self.outage(storage), 12 * self.SIZE
        for table in ("read_uncommitted", "read_committed"):
            DeltaTable(table_path(str(storage), table)).delete("broker = 1")
        rows = [record(n, f"K{n}", "other" if n == 200 else "V") for n in range(self.SIZE, end)]
        record_as_the_job_does(storage, 20, *tick(20, everywhere(end)), *both(2, rows, end, 20))
        comparison.step()
        ((raised, (told,)),) = comparison.told[-1:]
        assert raised == []
        assert "are not in the views as they were compared" in (told.error or "")
        assert {(span.view, span.start, span.end) for span in told.unread} == {(RU, 0, end), (RC, 0, end)}
