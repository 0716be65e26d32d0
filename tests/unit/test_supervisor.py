"""Supervision of queries, with a clock and queries that the test commands."""

import threading
from random import Random
from typing import Any

import pytest
import structlog

from parallax.config import SupervisorSettings
from parallax.lab.waiting import until
from parallax.supervisor import QueryReport, Supervised, Supervisor
from tests.builders.clock import Clock
from tests.patience import PATIENCE_S

SETTINGS = SupervisorSettings(restart_backoff_ms=1000, restart_backoff_max_ms=4000, no_progress_deadline_s=10)


class Commanded:
    """A query that does what the test says."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress: dict[str, Any] | None = None
        self.stopped = False
        self.error: Exception | None = None

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True
        self.isActive = False

    def die(self, error: Exception) -> None:
        self.isActive, self.error = False, error

    def advance(self, batch: int, rows: int = 0) -> None:
        durations = {"triggerExecution": 1250, "latestOffset": 1000}
        self.lastProgress = {"batchId": batch, "timestamp": str(batch), "numInputRows": rows, "durationMs": durations}


class Nominal(Random):
    """Draws no jitter."""

    def random(self) -> float:
        return 0.0


class Bench:
    def __init__(self) -> None:
        self.clock = Clock(0.0)
        self.started: list[Commanded] = []
        self.refuse: Exception | None = None
        self.activity: Any = None
        self.mark: Any = None
        query = Supervised("q", self.start, activity=lambda _: self.activity, mark=lambda _: self.mark)
        self.report = QueryReport("q")
        self.supervisor = Supervisor([query], SETTINGS, self.reported, clock=self.clock, draw=Nominal())

    def reported(self, report: QueryReport) -> None:
        self.report = report

    def start(self) -> Commanded:
        if self.refuse:
            raise self.refuse
        self.started.append(Commanded())
        return self.started[-1]

    def look_at(self, now: float) -> None:
        """Look once; what it stops, in threads, has stopped by its end."""
        self.clock.now = now
        self.supervisor.look()
        for watch in self.supervisor._watches:
            if watch.stopping is not None:
                watch.stopping.join(PATIENCE_S)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_query_that_dies_is_restarted_after_the_backoff(bench: Bench) -> None:
    bench.look_at(0)
    bench.started[0].die(RuntimeError("broken\nlong trace"))
    bench.look_at(1)
    bench.look_at(1.9)
    assert len(bench.started) == 1
    assert bench.report.error == "broken"
    bench.look_at(2.0)
    assert len(bench.started) == 2
    assert bench.report.restarts == 1


def test_of_an_error_that_came_back_through_java_the_line_behind_the_traceback_is_reported(bench: Bench) -> None:
    bench.look_at(0)
    text = "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    text += '  File "sink.py", line 1, in save\n    save()\nparallax.views.sink.SinkError: disk full\n\n\tat py4j'
    bench.started[0].die(RuntimeError(text))
    bench.look_at(1)
    assert bench.report.error == "parallax.views.sink.SinkError: disk full"


def test_the_backoff_doubles_up_to_its_cap_and_progress_resets_it(bench: Bench) -> None:
    bench.refuse = ValueError("cannot start")
    waits = []
    now = 0.0
    for _ in range(5):
        bench.look_at(now)
        before = bench.report.restarts
        step = now
        while bench.report.restarts == before:
            step += 0.25
            bench.look_at(step)
        waits.append(step - now)
        now = step
    assert waits == [1.0, 2.0, 4.0, 4.0, 4.0]
    bench.refuse = None
    bench.look_at(now + 4)
    bench.started[0].advance(1)
    bench.look_at(now + 5)
    bench.started[0].die(RuntimeError("again"))
    bench.look_at(now + 6)
    bench.look_at(now + 7)
    assert len(bench.started) == 2


def test_a_query_that_stands_still_past_the_deadline_is_stopped_and_restarted(bench: Bench) -> None:
    bench.look_at(0)
    bench.started[0].advance(1, rows=3)
    bench.look_at(5)
    bench.look_at(14)
    assert not bench.started[0].stopped
    bench.look_at(15.5)
    report = bench.report
    assert report.error is not None
    assert "no progress for 10 s" in report.error
    assert bench.started[0].stopped
    bench.look_at(17)
    assert len(bench.started) == 2


def test_where_a_query_cannot_be_stopped_the_last_resort_is_taken_and_it_starts_again() -> None:
    clock, release, started = Clock(0.0), threading.Event(), list[Commanded]()

    class Stuck(Commanded):
        def stop(self) -> None:
            release.wait(PATIENCE_S)

    def start() -> Commanded:
        started.append(Stuck())
        return started[-1]

    resorts: list[float] = []

    def last_resort() -> None:
        resorts.append(clock.now)
        release.set()

    supervisor = Supervisor([Supervised("q", start)], SETTINGS, clock=clock, draw=Nominal(), last_resort=last_resort)
    for now in (0.0, 11.0, 20.0):
        clock.now = now
        supervisor.look()
    assert (len(started), resorts) == (1, []), "stopping has not taken as long as the deadline yet"
    clock.now = 22.0
    supervisor.look()
    assert resorts == [22.0]
    until(lambda: supervisor.look() or len(started) == 2, "a second start")


def test_what_does_not_answer_at_all_is_ended_and_its_queries_start_again() -> None:
    clock, release, started = Clock(0.0), threading.Event(), list[Commanded]()

    def asked(_: Any) -> bool:
        release.wait(PATIENCE_S)
        raise ConnectionError("the JVM is gone")

    frozen = type("Frozen", (Commanded,), {"isActive": property(asked, lambda *_: None)})

    def start() -> Commanded:
        started.append(frozen() if not started else Commanded())
        return started[-1]

    supervisor = Supervisor([Supervised("q", start)], SETTINGS, clock=clock, draw=Nominal(), last_resort=release.set)
    supervisor.start(interval_s=0.01)
    try:
        until(lambda: supervisor._awaiting is not None, "a question without an answer")
        assert not release.wait(0.1), "the deadline is not over yet"

        def is_started_again() -> bool:
            clock.now += 5.0
            return len(started) == 2

        until(is_started_again, "a second start")
        assert release.is_set()
    finally:
        release.set()
        supervisor.stop()


def test_rows_are_counted_once_per_batch(bench: Bench) -> None:
    bench.look_at(0)
    bench.started[0].advance(1, rows=3)
    bench.look_at(1)
    bench.look_at(2)
    bench.started[0].advance(2, rows=4)
    bench.look_at(3)
    report = bench.report
    assert (report.rows, report.batch_seconds, report.up) == (7, 0.25, True)


def test_one_query_that_cannot_start_does_not_keep_the_other_from_running() -> None:
    ran: list[Commanded] = []

    def good() -> Commanded:
        ran.append(Commanded())
        return ran[-1]

    def bad() -> Commanded:
        raise RuntimeError("no")

    reports: list[QueryReport] = []
    queries = [Supervised("bad", bad), Supervised("good", good)]
    Supervisor(queries, SETTINGS, reports.append, clock=Clock(0.0)).look()
    assert [report.up for report in reports] == [False, True]


def test_stop_stops_every_query(bench: Bench) -> None:
    bench.supervisor.start(interval_s=0.01)
    bench.supervisor.stop()
    assert bench.started[0].stopped


def test_what_mends_a_checkpoint_is_asked_before_each_start_and_what_it_did_is_counted() -> None:
    asked: list[tuple[int, str | None]] = []
    clock = Clock(0.0)

    def start() -> Commanded:
        raise ValueError("cannot start")

    def mend(failures: int, error: str | None) -> str | None:
        asked.append((failures, error))
        return "set aside" if failures == 2 else None

    reports: list[QueryReport] = []
    supervisor = Supervisor([Supervised("q", start, mend)], SETTINGS, reports.append, clock=clock)
    for now in (0.0, 1.0, 3.0, 7.0):
        clock.now = now
        supervisor.look()
    assert asked == [(0, None), (1, "cannot start"), (2, "cannot start"), (3, "cannot start")]
    assert reports[-1].checkpoints_set_aside == 1


def test_a_batch_whose_tasks_end_is_not_restarted_however_long_it_takes(bench: Bench) -> None:
    bench.look_at(0)
    for now in range(1, 100):
        bench.activity = (7, now // 4)
        bench.look_at(now)
    assert len(bench.started) == 1
    for now in range(100, 120):
        bench.look_at(now)
    assert bench.started[0].stopped, "no task has ended for longer than the deadline"


def test_what_was_done_before_the_deadline_was_half_over_is_no_sign_of_life(bench: Bench) -> None:
    bench.look_at(0)
    bench.activity = (7, 1)
    for now in range(1, 11):
        bench.look_at(now)
    assert not bench.started[0].stopped
    bench.look_at(10.5)
    assert bench.started[0].stopped


def test_a_query_that_never_completes_its_first_batch_gets_more_time_with_each_restart(bench: Bench) -> None:
    seen, now = [], 0.0
    bench.look_at(now)
    for _ in range(5):
        began, running = now, bench.started[-1]
        while not running.stopped:
            now += 1.0
            bench.look_at(now)
        seen.append(round(now - began))
        while bench.started[-1] is running:
            now += 1.0
            bench.look_at(now)
    assert [round(s / 10) for s in seen] == [1, 2, 4, 8, 8]
    bench.started[-1].advance(0)
    bench.look_at(now + 1)
    bench.look_at(now + 12)
    assert bench.started[-1].stopped, "once a batch has been completed the deadline is as it was set"


def test_a_report_is_read_only_where_its_mark_is_new(bench: Bench) -> None:
    bench.look_at(0)
    query = bench.started[0]
    bench.mark = (1, "a")
    query.advance(1)
    bench.look_at(1)
    seen = bench.report.last_progress
    query.advance(2)  # its report is not looked at
    bench.look_at(2)
    assert bench.report.last_progress == seen
    bench.mark = (2, "b")
    bench.look_at(3)
    assert bench.report.last_progress != seen


def test_the_mark_of_a_query_that_was_started_again_counts_from_the_beginning(bench: Bench) -> None:
    bench.look_at(0)
    bench.mark = (1, "a")
    bench.started[0].advance(1)
    bench.look_at(1)
    bench.started[0].die(RuntimeError("gone"))
    bench.look_at(2)
    bench.look_at(100)
    bench.started[1].advance(1)
    seen = bench.report.last_progress
    bench.look_at(101)
    assert bench.report.last_progress != seen


class Outage:
    """Lasts for as long as the test says; whatever fails then fails by it."""

    under_way = False

    def caused(self, error: str) -> bool:
        return self.under_way and bool(error)

    def lasts(self) -> bool:
        return self.under_way


def test_what_an_outage_ends_waits_for_its_end_and_is_no_failure_of_the_query() -> None:
    bench, outage, mended = Bench(), Outage(), []
    query = Supervised("q", bench.start, mend=lambda failures, _: mended.append(failures))
    supervisor = Supervisor([query], SETTINGS, bench.reported, clock=bench.clock, draw=Nominal(), outages=[outage])

    def look_at(now: float) -> None:
        bench.clock.now = now
        supervisor.look()

    look_at(0)
    outage.under_way = True
    bench.started[0].die(OSError("No space left on device"))
    with structlog.testing.capture_logs() as logged:
        for now in range(1, 100):
            look_at(now)
    assert (len(bench.started), bench.report.up, bench.report.restarts, logged) == (1, False, 0, [])
    assert bench.report.error == "No space left on device"
    outage.under_way = False
    look_at(100)
    assert (len(bench.started), bench.report.up) == (2, True)
    assert mended == [0, 0], "it says nothing against the checkpoint"


def test_all_queries_are_started_at_the_same_time() -> None:
    """Each start runs processes of its own, and takes seconds."""
    met = threading.Barrier(3, timeout=PATIENCE_S)
    reports: dict[str, QueryReport] = {}

    def start() -> Commanded:
        met.wait()
        return Commanded()

    def reported(report: QueryReport) -> None:
        reports[report.name] = report

    supervisor = Supervisor([Supervised(name, start) for name in "abc"], SETTINGS, reported)
    supervisor.start()
    supervisor.stop()
    assert {name: (report.up, report.restarts) for name, report in reports.items()} == dict.fromkeys("abc", (True, 0))
    assert supervisor._awaiting is None
