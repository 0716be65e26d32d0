"""The lag of views in time."""

from __future__ import annotations

import pytest

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.lag import Lags, View
from parallax.alerting.state import MonitorState
from parallax.model import IsolationLevel
from tests.builders.coverage import progress

VIEW: View = (("orders", 0, 2), IsolationLevel.READ_COMMITTED)


@pytest.fixture
def lags() -> Lags:
    return Lags()


def test_a_view_that_has_read_all_is_not_behind(lags: Lags) -> None:
    lags.shown(VIEW, 10, 10, now=0)
    assert lags.since() == {}


def test_one_that_reads_on_is_behind_by_what_it_has_not_read_yet(lags: Lags) -> None:
    """A busy partition: at each look there is something to read, and never the same for more than two looks."""
    for now in range(100):
        lags.shown(VIEW, 10 * now, 10 * (now - 2), now)
        lags.read(VIEW, 10 * (now - 1))
        assert lags.since() == {VIEW: now}


def test_one_that_stands_still_is_behind_by_all_the_time_since(lags: Lags) -> None:
    for now in range(1000):
        lags.shown(VIEW, 10 * now, 0, now)
    assert lags.since() == {VIEW: 1}, "also where more has come since than is remembered one by one"
    lags.read(VIEW, 5000)
    (since,) = lags.since().values()
    assert 500 < since < 600


def test_a_log_that_was_truncated_is_read_where_it_ends_now(lags: Lags) -> None:
    lags.shown(VIEW, 100, 50, now=0)
    lags.shown(VIEW, 60, 50, now=1)
    assert lags.since() == {VIEW: 1}
    lags.read(VIEW, 60)
    assert lags.since() == {}


def test_what_a_scrape_gets_is_seconds_and_0_where_all_is_read() -> None:
    now = [1000.0]
    state = MonitorState(lambda: now[0])

    def lag() -> dict[str, float]:
        (family,) = (f for f in ParallaxCollector(state).collect() if f.name == "parallax_view_lag_seconds")
        return {sample.labels["isolation_level"]: sample.value for sample in family.samples}

    def shown(end: int) -> None:
        state.update_progress([progress(broker=2, high_watermark=end, last_stable_offset=10)])

    for level in IsolationLevel:
        state.update_positions(level, {("orders", 0, 2): 10})
    shown(20)
    now[0] += 60
    shown(30)
    assert lag() == {"read_uncommitted": 60.0, "read_committed": 0.0}
    state.update_positions(IsolationLevel.READ_UNCOMMITTED, {("orders", 0, 2): 20})
    assert lag() == {"read_uncommitted": 0.0, "read_committed": 0.0}
