"""What has series where only what differs has them."""

from __future__ import annotations

import pytest

from parallax.alerting.collector import ParallaxCollector
from parallax.alerting.detail import LASTING_S, SHOWN_S, Lasting, Series
from parallax.alerting.state import MonitorState
from parallax.compare.suspect import Coverage
from parallax.findings.happenings import FindingsStatus
from parallax.model import IsolationLevel, UnknownReason
from tests.builders.clock import Clock
from tests.builders.coverage import broker, coverage, progress
from tests.builders.findings import finding

STEP_S = 60.0


class Job:
    """Two replicas each of some partitions, scraped every minute."""

    def __init__(self, partitions: int = 3, series: Series = Series.DIFFERING) -> None:
        self.clock = Clock()
        self.state = MonitorState(self.clock)
        self.collector = ParallaxCollector(self.state, series)
        self.partitions = partitions
        self.lag: dict[int, int] = {}
        self.unknown: dict[int, int] = {}
        self.unread: set[int] = set()

    def scrape(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The samples by name, and by the values of their labels."""
        replicas = [(n, b) for n in range(self.partitions) for b in (1, 2)]
        self.state.update_progress([progress("t", n, b) for n, b in replicas])
        for level in IsolationLevel:
            read = {("t", n, b): 100 - self.lag.get(n, 0) for n, b in replicas if n not in self.unread}
            self.state.update_positions(level, read)
        self.state.update_coverage([self._coverage(n) for n in range(self.partitions)])
        return {
            family.name.removeprefix("parallax_"): {tuple(s.labels.values()): s.value for s in family.samples}
            for family in self.collector.collect()
        }

    def after(self, seconds: float) -> dict[str, dict[tuple[str, ...], float]]:
        """Scrape every minute for so long; the last scrape."""
        end = self.clock.now + seconds
        found = self.scrape()
        while self.clock.now < end:
            self.clock.now += STEP_S
            found = self.scrape()
        return found

    def _coverage(self, n: int) -> Coverage:
        unknown = dict.fromkeys(UnknownReason, (0, 0)) | {UnknownReason.NOT_READ_YET: (0, self.unknown.get(n, 0))}
        return coverage("t", n, unknown=unknown, brokers=[broker(1)], compared_at=int(self.clock.now * 1000))


def partitions(samples: dict[tuple[str, ...], float]) -> set[str]:
    return {labels[1] for labels in samples}


@pytest.fixture
def job() -> Job:
    return Job()


def test_a_partition_of_which_there_is_nothing_to_tell_has_no_series(job: Job) -> None:
    found = job.after(3600)
    assert found["partitions_watched"] == {(): 3}
    assert found["partitions_detailed"] == {(): 0}
    assert not {name for name, samples in found.items() if any(labels[:1] == ("t",) for labels in samples)}
    assert found["heartbeat_timestamp_seconds"][()] == job.clock.now


def test_a_partition_with_a_finding_has_them_at_once(job: Job) -> None:
    job.scrape()
    job.state.update_findings(FindingsStatus(open=(finding("a", topic="t", partition=1),)))
    found = job.scrape()
    assert partitions(found["replica_high_watermark"]) == partitions(found["view_position"]) == {"1"}
    assert found["partitions_detailed"] == {(): 1}


def test_what_has_lasted_is_shown_with_its_partition(job: Job) -> None:
    job.scrape()
    job.unknown[1], job.lag[2] = 5, 7
    found = job.after(LASTING_S - STEP_S)
    assert (found["unknown_offsets"], found["view_lag_offsets"]) == ({}, {})
    found = job.after(STEP_S)
    assert found["unknown_offsets"]["t", "1", "read_committed", "not_read_yet"] == 5
    assert {labels[:2] for labels, lag in found["view_lag_offsets"].items() if lag} == {("t", "2")}
    for name in ("unknown_offsets", "view_lag_offsets", "replica_log_end_offset"):
        assert partitions(found[name]) == {"1", "2"}


def test_what_comes_and_goes_is_not_shown(job: Job) -> None:
    for _ in range(20):
        job.unknown[1] = job.lag[1] = 5
        job.after(LASTING_S / 2)
        job.unknown[1] = job.lag[1] = 0
        found = job.after(STEP_S)
    assert (found["unknown_offsets"], found["view_lag_offsets"]) == ({}, {})


def test_the_end_of_what_was_shown_is_seen_before_it_is_left_out(job: Job) -> None:
    job.unknown[1] = 5
    job.after(LASTING_S)
    job.unknown[1] = 0
    found = job.after(SHOWN_S - STEP_S)
    assert found["unknown_offsets"]["t", "1", "read_committed", "not_read_yet"] == 0
    assert job.after(2 * STEP_S)["unknown_offsets"] == {}


def test_a_partition_that_was_not_read_at_first_is_shown_once_that_lasts(job: Job) -> None:
    job.unread = {1}
    found = job.after(LASTING_S - STEP_S)
    assert found["initial_reading_complete"] == {}
    assert found["initial_readings_outstanding"] == {(): 1}
    assert job.after(STEP_S)["initial_reading_complete"] == {("t", "1"): 0}


def test_something_that_lasts_is_remembered_by_its_own_beginning() -> None:
    lasting = Lasting()
    assert lasting.shown(0.0, {"a"}) == set()
    assert lasting.shown(LASTING_S / 2, {"a", "b"}) == set()
    assert lasting.shown(LASTING_S, {"a", "b"}) == {"a"}
    assert lasting.shown(LASTING_S * 1.5, {"b"}) == {"a", "b"}
    assert lasting.shown(LASTING_S + SHOWN_S, {"b"}) == {"b"}


@pytest.mark.parametrize(("partitions", "detailed"), [(3, 3), (4, 0)])
def test_without_a_choice_all_have_series_until_there_are_too_many_and_then_it_stays_so(
    monkeypatch: pytest.MonkeyPatch, partitions: int, detailed: int
) -> None:
    monkeypatch.setattr("parallax.alerting.collector.MOST_REPLICAS", 6)
    job = Job(partitions, Series.AUTO)
    assert job.after(3600)["partitions_detailed"] == {(): detailed}
    monkeypatch.setattr("parallax.alerting.collector.MOST_REPLICAS", 100)
    assert job.after(60)["partitions_detailed"] == {(): detailed}
