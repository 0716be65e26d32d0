"""A job as it begins, and one that has compared all."""

from __future__ import annotations

import pytest

from parallax.alerting.state import MonitorState
from parallax.alerting.status import Condition, Watch
from tests.builders.clock import Clock
from tests.unit.alerting.monitored import Monitor


@pytest.fixture
def monitor() -> Monitor:
    clock = Clock()
    return Monitor(clock, MonitorState(clock), Watch())


@pytest.fixture
def healthy(monitor: Monitor) -> Monitor:
    monitor.started()
    assert monitor.says().condition is Condition.AGREE
    return monitor
