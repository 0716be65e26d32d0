"""Audits inside the job: when they run, and that a failing one stops nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from parallax.audit.plan import Place
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.audit.schedule import AuditSchedule, CaughtUp
from parallax.compare.suspect import Coverage, DeferredRange


def coverage(*deferred: DeferredRange, partition: int = 0) -> Coverage:
    return Coverage("orders", partition, (0, 0), (0, 0), deferred, 0, 0, (), 0)


class Runs:
    def __init__(self, fails: bool = False) -> None:
        self.ran: list[tuple[str, tuple[Place, ...]]] = []
        self.reports: list[AuditReport] = []
        self.failures = 0
        self.fails = fails
        self.now = 0.0
        self.changed = threading.Event()

    def __call__(self, source: str, places: Sequence[Place]) -> AuditReport:
        self.ran.append((source, tuple(places)))
        self.changed.set()
        if self.fails:
            raise RuntimeError("the session is gone\nlong trace")
        return AuditReport(source, 0, 1, (PartitionResult("orders", 0, Result.CONSISTENT),))

    def failed(self) -> None:
        self.failures += 1

    def schedule(self, interval_s: float = 0.0) -> AuditSchedule:
        return AuditSchedule(interval_s, self, self.reports.append, self.failed, clock=lambda: self.now)


def test_a_partition_is_due_once_its_deferred_range_has_been_passed() -> None:
    caught_up = CaughtUp()
    assert caught_up.observe([coverage(DeferredRange(1, 5, -1)), coverage(partition=1)]) == []
    assert caught_up.observe([coverage(DeferredRange(1, 5, 9))]) == []
    assert caught_up.observe([coverage()]) == [("orders", 0)]
    assert caught_up.observe([coverage()]) == []


def test_a_deferred_range_that_was_passed_is_audited_by_the_tables() -> None:
    runs = Runs()
    schedule = runs.schedule()
    schedule.observe([coverage(DeferredRange(1, 5, 9))])
    assert not schedule.run_due()
    schedule.observe([coverage()])
    assert schedule.run_due()
    assert runs.ran == [("tables", (("orders", 0),))]
    assert len(runs.reports) == 1
    assert not schedule.run_due()


def test_the_brokers_are_audited_at_the_interval_and_never_when_it_is_off() -> None:
    runs = Runs()
    off, on = runs.schedule(), runs.schedule(interval_s=60)
    runs.now = 59
    assert not on.run_due()
    runs.now = 61
    assert on.run_due()
    assert not off.run_due()
    assert runs.ran == [("brokers", ())]
    assert not on.run_due()
    runs.now = 122
    assert on.run_due()


def test_an_audit_that_fails_is_counted_and_the_next_one_runs() -> None:
    runs = Runs(fails=True)
    schedule = runs.schedule(interval_s=60)
    runs.now = 61
    schedule.run_due()
    assert (runs.failures, runs.reports) == (1, [])
    runs.fails = False
    runs.now = 122
    schedule.run_due()
    assert len(runs.reports) == 1


def test_its_thread_wakes_for_what_is_queued_and_ends() -> None:
    runs = Runs()
    schedule = runs.schedule()
    schedule.start()
    schedule.observe([coverage(DeferredRange(0, 5, 9))])
    schedule.observe([coverage()])
    assert runs.changed.wait(20)
    schedule.stop()
    assert not schedule._thread.is_alive()
