"""A job of one partition, by what it is given, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from parallax.alerting.state import MonitorState
from parallax.alerting.status import Status, Watch
from parallax.compare.suspect import Coverage
from parallax.findings.happenings import FindingsStatus
from parallax.model import IsolationLevel
from tests.builders.clock import Clock
from tests.builders.coverage import BROKERS, coverage, progress
from tests.unit.alerting.reported import Report

LEVELS = tuple(IsolationLevel)


@dataclass
class Monitor:
    """A job of one partition, and what is said of it."""

    clock: Clock
    state: MonitorState
    watch: Watch

    def compared(self, **more: object) -> Coverage:
        whole = replace(coverage(**more), compared_at=int(self.clock.now * 1000))  # type: ignore[arg-type]
        self.state.update_query(replace(Report(), last_progress=self.clock.now))
        self.state.update_coverage([whole])
        return whole

    def read(self, offset: int = 100, brokers: tuple[int, ...] = BROKERS) -> None:
        for level in LEVELS:
            self.state.update_positions(level, {("orders", 0, b): offset for b in brokers})

    def started(self) -> None:
        self.state.update_findings(FindingsStatus())
        self.state.update_query(Report())
        self.state.update_progress([progress(broker=b) for b in BROKERS])
        self.read()
        self.compared()

    def says(self) -> Status:
        return self.watch.look(self.state.snapshot())
