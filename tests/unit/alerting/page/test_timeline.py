"""Offsets over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from parallax.alerting.page import timeline
from parallax.alerting.page.timeline import Tracks, recorded
from parallax.model import TopicPartition
from tests.builders.coverage import progress
from tests.pages import Job

PLACE = TopicPartition("orders", 0)
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)


def row(seconds: int, broker: int, offset: int, stable: int | None = None, **more: object) -> dict[str, object]:
    at = BEGAN + timedelta(seconds=seconds)
    shown = {"high_watermark": offset, "last_stable_offset": offset if stable is None else stable}
    return progress(broker=broker, observed_at=at, recorded_on=at.date(), **shown, **more)


def marks(tracks: Tracks) -> dict[int, list[int | None]]:
    return {broker: [one.high_watermark for one in own] for broker, own in tracks.items()}


def test_what_was_recorded_of_the_partition_is_read_by_broker(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record(
        [row(0, 1, 10), row(60, 1, 20), row(0, 2, 10), row(60, 3, 5, reachable=False), row(0, 1, 7, partition=1)]
    )
    shown = recorded(job.storage, PLACE, BEGAN - timedelta(minutes=1))
    assert marks(shown) == {1: [10, 20], 2: [10], 3: [None]}


def test_what_is_older_is_left_out(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record([row(0, 1, 10), row(600, 1, 20)])
    shown = recorded(job.storage, PLACE, BEGAN + timedelta(seconds=300))
    assert [one.last_stable_offset for one in shown[1]] == [20]


def test_only_what_is_new_is_read_again_of_a_partition_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[datetime] = []
    read = timeline._rows

    def rows(storage: str, place: TopicPartition, since: datetime, until: datetime) -> Any:
        asked.append(since)
        return read(storage, place, since, until)

    monkeypatch.setattr(timeline, "_rows", rows)
    job, now = Job(tmp_path), [BEGAN]
    recent = timeline.Recent(job.storage, lambda: now[0])
    job.record([row(-3700, 1, 1), row(-3000, 1, 2), row(-30, 1, 3)])
    seen = [recent.of(PLACE)]
    job.record([row(-20, 1, 4), row(8, 1, 5), row(9, 2, 5)])
    now[0] += timedelta(seconds=10)
    seen.append(recent.of(PLACE))
    now[0] += timedelta(seconds=800)
    seen.append(recent.of(PLACE))
    assert [marks(tracks) for tracks in seen] == [
        {1: [2, 3]},
        {1: [2, 3, 4, 5], 2: [5]},
        {1: [3, 4, 5], 2: [5]},
    ]
    assert asked == [BEGAN + timedelta(seconds=s) for s in (-3600, -60, -50)]
    assert recent.of(TopicPartition("orders", 7)) == {}


@pytest.mark.parametrize("topic", ["o'clock", 'a"b', "';--"])
def test_a_name_is_never_taken_for_a_query(tmp_path: Path, topic: str) -> None:
    job = Job(tmp_path)
    job.record([row(0, 1, 10), row(0, 1, 20) | {"topic": topic}])
    shown = recorded(job.storage, TopicPartition(topic, 0), BEGAN - timedelta(minutes=1))
    assert marks(shown) == {1: [20]}


def test_many_reports_are_thinned_out_between_the_first_and_the_last(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record([row(second, 1, second) for second in range(0, 1200, 2)])
    points = recorded(job.storage, PLACE, BEGAN)[1]
    assert len(points) <= 240
    assert points[0].high_watermark == 0
    assert points[-1].high_watermark == 1198


def test_a_silence_is_as_long_as_it_was_and_nobody_lags_for_a_report_that_is_left_out(tmp_path: Path) -> None:
    """Broker 1 does not answer for three seconds, and all replicas go on alike."""
    job = Job(tmp_path)
    job.record(
        [row(s, b, s, reachable=b != 1 or not 600 <= s < 603) for s in range(1200) for b in (1, 2)],
    )
    shown = recorded(job.storage, PLACE, BEGAN - timedelta(minutes=30))
    assert all(len(own) < 200 for own in shown.values())
    silent = [i for i, one in enumerate(shown[1]) if not one.answers]
    until = shown[1][silent[-1] + 1].at
    assert (shown[1][silent[0]].at, until) == (BEGAN + timedelta(seconds=600), BEGAN + timedelta(seconds=603))
    for at, one in ((one.at, one) for one in shown[1] if one.answers):
        (other,) = [two for two in shown[2] if two.at == at]
        assert other.high_watermark == one.high_watermark


def test_of_an_offset_that_stands_the_report_is_kept_from_which_on_it_does(tmp_path: Path) -> None:
    job, ends = Job(tmp_path), range(0, 1500, 2)
    rows = [row(s, 1, s) for s in ends]
    rows += [row(s, 2, s, min(s, 517), reachable=not 900 <= s < 906) for s in range(1, 1500, 2)]
    job.record(rows)
    shown = recorded(job.storage, PLACE, BEGAN)
    assert len(shown[2]) < len(rows) / 4
    stands = [one.at for one in shown[2] if one.last_stable_offset == 517]
    assert stands[0] == BEGAN + timedelta(seconds=517)


def test_of_few_reports_all_are_kept(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record([row(0, 1, 10), row(1, 1, 11, reachable=False), row(2, 1, 12), row(3, 1, 13)])
    hour = timedelta(hours=1)
    (own,) = recorded(job.storage, PLACE, BEGAN - hour, BEGAN + hour).values()
    assert [one.high_watermark for one in own] == [10, None, 12, 13]
