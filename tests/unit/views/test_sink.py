"""Positions that are recorded, and known again at the next start, whatever the clocks do meanwhile."""

from __future__ import annotations

import os
import shutil
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parallax import moments
from parallax.config import StorageSettings
from parallax.model import IsolationLevel, ReadEvent
from parallax.source import feedback, schema
from parallax.source.columns import Position, position_batch
from parallax.source.offsets import Reader
from parallax.views import appending, recording, sink
from parallax.views.compaction import compact
from parallax.views.maintenance import Maintenance, drop_older
from parallax.views.recording import Recorded
from parallax.views.sink import SinkError, ViewSink
from parallax.views.tables import PROGRESS, create_tables
from parallax.views.unused import GoneError, remove_unused

RC = IsolationLevel.READ_COMMITTED


class Clock:
    """The driver's clock and the storage's, which may step; tasks' clocks are ``task_s`` off it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._real, self.step_s, self.task_s = time.time_ns, 0.0, 0.0
        patch.setattr(time, "time_ns", self.now_ns)
        patch.setattr(moments, "today", lambda: self.today)

    def now_ns(self) -> int:
        return self._real() + int(self.step_s * 1e9)

    @property
    def today(self) -> str:
        return datetime.fromtimestamp(self.now_ns() / 1e9 + self.task_s, UTC).date().isoformat()


class Job:
    """A query's sink over real tables; the rest of the query is left out."""

    def __init__(self, storage: Path, clock: Clock) -> None:
        self.path, self.clock = storage, clock
        self.feedback = storage / "feedback.json"
        self.sparkSession = self.sparkContext = self
        self.files: list[Recorded] = []
        create_tables(str(storage))
        self.start()

    def getLocalProperty(self, _: str) -> str:  # noqa: N802 - Spark's name
        return "query"

    def start(self) -> None:
        """Begin as a new process does."""
        self._sink = ViewSink(str(self.path), [RC], str(self.feedback))
        self._sink.prepare()
        self._stamp()

    def task(self, offset: int, event: str = "ok", broker: int = 2, topic: str = "t") -> Recorded:
        """What a task writes."""
        file = recording._ViewFile(str(self.path), int(RC), broker, bytes(16))
        at_ms = self.clock.now_ns() // 1_000_000 + int(self.clock.task_s * 1000)
        row = Position(reader(broker, topic), offset, at_ms, ReadEvent(event), "", "A", 9000, 9000, 0)
        file.take(position_batch([row], with_isolation=True))
        return file.close([])

    def batch(self, number: int, *files: Recorded) -> None:
        self.files = list(files)
        self._sink(self, number)
        self._stamp()

    def dies_behind_the_commit(self, number: int, *files: Recorded) -> None:
        def killed(*_: Any) -> None:
            raise OSError("killed")

        self._sink._journal.append = killed  # type: ignore[method-assign]
        with pytest.raises(SinkError, match="killed"):
            self.batch(number, *files)

    def _stamp(self) -> None:
        if self.feedback.exists():
            os.utime(self.feedback, ns=(self.clock.now_ns(),) * 2)

    @property
    def positions(self) -> dict[int, int]:
        """By broker, as the source is told."""
        known, *_ = feedback.load(self.feedback)
        return {one.broker: entry.position for one, entry in known.items()}


def reader(broker: int, topic: str = "t") -> Reader:
    return Reader(int(RC), broker, topic, 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def job(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(sink, "files_of", lambda batch: batch.files)
    return Job(tmp_path, clock)


STEPS = [-10.0, -600.0, -7200.0, -100_000.0, 7200.0]


@pytest.mark.parametrize("step_s", STEPS)
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_clock_that_steps_before_a_reset_undoes_it_at_no_start(
    job: Job, clock: Clock, step_s: float, is_kept: bool
) -> None:
    job.batch(0, job.task(5000))
    clock.step_s = step_s
    job.batch(1, job.task(1000, "log_truncated"))
    job.batch(2, job.task(1200))
    if not is_kept:
        job.feedback.unlink()
    job.start()
    assert job.positions == {2: 1200}


@pytest.mark.parametrize("step_s", STEPS)
@pytest.mark.parametrize("task_s", [0.0, -10_000.0, 10_000.0])
def test_what_was_committed_before_a_death_is_known_at_the_next_start(
    job: Job, clock: Clock, step_s: float, task_s: float
) -> None:
    job.batch(0, job.task(100))
    clock.step_s, clock.task_s = step_s, task_s
    job.dies_behind_the_commit(1, job.task(200))
    job.start()
    assert job.positions == {2: 200}
    job.batch(1, job.task(200))
    assert job.positions == {2: 200}
    assert DeltaTable(f"{job.path}/{RC.option}").to_pyarrow_table().num_rows == 2


def test_a_start_reads_no_file_again_whose_commit_is_written_down(
    job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.batch(0, job.task(100), job.task(70, broker=3))
    job.start()
    for file in job.path.glob(f"{RC.option}/broker=*/*/*.parquet"):
        file.write_bytes(b"not to be read")
    job.start()
    assert job.positions == {2: 100, 3: 70}


def test_the_feedback_file_of_an_earlier_version_is_taken_over_and_the_table_goes_before_it(job: Job) -> None:
    job.batch(0, job.task(100))
    job.dies_behind_the_commit(1, job.task(200))
    old = {reader(2): feedback.Recorded(100, "A", ReadEvent.OK), reader(9): feedback.Recorded(7, "A", ReadEvent.OK)}
    feedback.write(job.feedback, old)
    job.start()
    assert job.positions == {2: 200, 9: 7}


def test_a_table_that_was_put_back_from_a_copy_is_read_as_a_whole(job: Job) -> None:
    job.batch(0, job.task(100))
    job.dies_behind_the_commit(1, job.task(200))
    feedback.write(job.feedback, {reader(2): feedback.Recorded(50, "A", ReadEvent.OK)}, {int(RC): 1 << 60})
    job.start()
    assert job.positions == {2: 200}


def test_a_reader_that_a_table_put_back_from_a_copy_does_not_know_begins_anew(
    job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    view, copy = job.path / RC.option, tmp_path_factory.mktemp("copy") / "view"
    job.batch(0, job.task(100))
    shutil.copytree(view, copy)
    job.batch(1, job.task(200), job.task(70, broker=3), job.task(5, topic="u"))
    known, reached = feedback.load(job.feedback)
    other = Reader(int(IsolationLevel.READ_UNCOMMITTED), 2, "t", 0)
    feedback.write(job.feedback, known | {other: feedback.Recorded(9, "A", ReadEvent.OK)}, reached)
    shutil.rmtree(view)
    shutil.copytree(copy, view)
    job.start()
    assert {one: entry.position for one, entry in feedback.load(job.feedback)[0].items()} == {reader(2): 100, other: 9}


def test_a_table_that_was_made_anew_has_no_positions(job: Job) -> None:
    job.batch(0, job.task(100))
    shutil.rmtree(job.path / RC.option)
    create_tables(str(job.path))
    job.start()
    assert job.positions == {}


@pytest.mark.parametrize("step_s", [-600.0, -100_000.0, -200_000.0])
def test_upkeep_after_a_clock_was_set_back_undoes_no_reset(job: Job, clock: Clock, step_s: float) -> None:
    job.batch(0, job.task(5000))
    job.batch(1, job.task(5100))
    clock.step_s = step_s
    job.batch(2, job.task(1000, "log_truncated"))
    job.batch(3, job.task(1200))
    clock.step_s = 0
    job.batch(4, job.task(1300))
    compact(str(job.path), RC.option)
    job.feedback.unlink()
    job.start()
    assert job.positions == {2: 1300}


def test_a_position_that_retention_carries_over_sets_back_no_reader_that_moves_meanwhile(
    job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    clock.step_s = -9 * 86_400.0
    job.batch(0, job.task(5000))
    job.batch(1, job.task(20, "log_truncated"))
    clock.step_s = 0
    moved: list[int] = []
    real = appending.add

    def slow(*arguments: Any, **more: Any) -> Any:
        if not moved:
            moved.append(now())
            job.batch(2, job.task(30))
        return real(*arguments, **more)

    monkeypatch.setattr("parallax.views.maintenance.add", slow)
    assert drop_older(str(job.path), RC.option, date.fromisoformat(clock.today))
    assert moved
    for _ in range(2):
        job.feedback.unlink()
        job.start()
        assert job.positions == {2: 30}
        compact(str(job.path), RC.option)


def hours_pass(job: Job, file: Recorded, hours: float) -> None:
    """As if everything had stood still for so many hours behind the task that wrote a file."""
    then = time.time_ns() - int(hours * 3600e9)
    os.utime(job.path / RC.option / file.path, ns=(then, then))


def offsets(job: Job) -> list[int]:
    return sorted(DeltaTable(f"{job.path}/{RC.option}").to_pyarrow_table()["offset"].to_pylist())


def test_a_batch_that_stood_still_until_upkeep_took_its_files_is_refused_and_read_again(job: Job) -> None:
    job.batch(0, job.task(100))
    done, other = job.task(200), job.task(70, broker=3)
    hours_pass(job, done, 3)
    Maintenance(StorageSettings(path=str(job.path))).run_once()
    with pytest.raises(SinkError, match=r"removed before its commit \(1, such as broker=2/"):
        job.batch(1, done, other)
    assert offsets(job) == [100]
    job.start()
    assert job.positions == {2: 100}
    job.batch(1, job.task(200), job.task(70, broker=3))
    assert (job.positions, offsets(job)) == ({2: 200, 3: 70}, [70, 100, 200])


def test_what_is_committed_while_upkeep_decides_is_refused_or_stays(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is read by upkeep between the list and the removal; it commits there."""
    job.batch(0, job.task(100))
    done = job.task(200)
    hours_pass(job, done, 3)
    uri, refused = f"{job.path}/{RC.option}", list[str]()

    class Table(DeltaTable):
        def get_add_actions(self, **more: Any) -> Any:
            found = super().get_add_actions(**more)
            try:
                job.batch(1, done)
            except SinkError as error:
                refused.append(str(error))
            return found

    monkeypatch.setattr("parallax.views.unused.DeltaTable", Table)
    assert remove_unused(uri, 2, full=True) == 1
    assert len(refused) == 1
    assert offsets(job) == [100]


def test_what_is_being_committed_while_upkeep_lists_stays(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.batch(0, job.task(100))
    done, removed = job.task(200), list[int]()
    hours_pass(job, done, 3)
    uri, real = f"{job.path}/{RC.option}", DeltaTable.create_write_transaction

    def slow(*arguments: Any, **more: Any) -> Any:
        removed.append(remove_unused(uri, 2, full=True))
        return real(*arguments, **more)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", slow)
    job.batch(1, done)
    assert removed == [0]
    assert offsets(job) == [100, 200]
    assert remove_unused(uri, 2, full=True) == 0


def test_a_tick_whose_file_was_removed_before_its_commit_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    real = appending.written

    def slow(*arguments: Any) -> Any:
        action = real(*arguments)
        (job.path / PROGRESS / action.path).unlink()
        return action

    monkeypatch.setattr(appending, "written", slow)
    row = {"topic": "t", "partition": 0, "broker": 2, "observed_at": datetime(2026, 1, 1, tzinfo=UTC)}
    with pytest.raises(GoneError):
        sink.append(appending.Appender(str(job.path), PROGRESS), pa.Table.from_pylist([row], schema.PROGRESS), "q", 0)
    assert DeltaTable(f"{job.path}/{PROGRESS}").to_pyarrow_table().num_rows == 0


def test_readers_of_deleted_topics_leave_the_feedback_file_and_do_not_come_back_at_a_start(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def topics() -> set[str]:
        return {one.topic for one in feedback.load(job.feedback)[0]}

    job.batch(0, job.task(100), job.task(70, broker=3))
    for generation in range(1, 4):
        topic = f"short-lived-{generation}"
        job.batch(3 * generation, job.task(5, topic=topic))
        job.batch(3 * generation + 1, job.task(5, "topic_deleted", topic=topic))
        assert topics() == {"t", topic}
        now[0] += 6 * 3600 + 1
        job.batch(3 * generation + 2, job.task(100 + generation))
        assert topics() == {"t"}
    job.start()
    assert job.positions == {2: 103, 3: 70}
    job.feedback.unlink()
    job.start()
    now[0] += 6 * 3600 + 1
    job.batch(100, job.task(200))
    assert topics() == {"t"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[BROKEN] a table\n\tat java", "[BROKEN] a table"),
        (
            (
                "\n  An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
                '  File "x.py", line 1, in f\n    f()\nOSError: [Errno 28] No space left on device\n\n\tat org.apache'
            ),
            "OSError: [Errno 28] No space left on device",
        ),
        ("An error occurred while calling o1.save:", "An error occurred while calling o1.save:"),
    ],
    ids=["of Spark", "of a worker", "no more than that"],
)
def test_an_error_of_spark_is_the_line_that_says_what_happened(text: str, line: str) -> None:
    with pytest.raises(SinkError) as raised, sink.short_errors():
        raise RuntimeError(text)
    assert str(raised.value) == line
