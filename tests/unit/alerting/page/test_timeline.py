"""Offsets over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from parallax.alerting.page import timeline
from parallax.alerting.page.timeline import drawn, recorded
from parallax.model import TopicPartition
from tests.pages import Job, progress

PLACE = TopicPartition("orders", 0)
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)


def row(seconds: int, broker: int, offset: int, stable: int | None = None, **more: object) -> dict[str, object]:
    at = BEGAN + timedelta(seconds=seconds)
    shown = {"high_watermark": offset, "last_stable_offset": offset if stable is None else stable}
    return progress(broker=broker, observed_at=at, recorded_on=at.date(), **shown, **more)


def test_what_was_recorded_of_the_partition_is_read_by_broker(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record(
        [row(0, 1, 10), row(60, 1, 20), row(0, 2, 10), row(60, 3, 5, reachable=False), row(0, 1, 7, partition=1)]
    )
    shown = recorded(job.storage, PLACE, BEGAN - timedelta(minutes=1))
    assert {broker: [o for _, o in of] for broker, of in shown["high_watermark"].items()} == {1: [10, 20], 2: [10]}


def test_what_is_older_is_left_out(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record([row(0, 1, 10), row(600, 1, 20)])
    shown = recorded(job.storage, PLACE, BEGAN + timedelta(seconds=300))
    assert [o for _, o in shown["last_stable_offset"][1]] == [20]


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
    seen = [recent.of(PLACE)["high_watermark"]]
    job.record([row(-20, 1, 4), row(8, 1, 5), row(9, 2, 5)])
    now[0] += timedelta(seconds=10)
    seen.append(recent.of(PLACE)["high_watermark"])
    now[0] += timedelta(seconds=800)
    seen.append(recent.of(PLACE)["high_watermark"])
    assert [{broker: [o for _, o in of] for broker, of in points.items()} for points in seen] == [
        {1: [2, 3]},
        {1: [2, 3, 4, 5], 2: [5]},
        {1: [4, 5], 2: [5]},  # by now 3 and 4 lie in one stretch of time
    ]
    assert asked == [BEGAN + timedelta(seconds=s) for s in (-3600, -60, -50)]
    assert recent.of(TopicPartition("orders", 7))["high_watermark"] == {}


@pytest.mark.parametrize("topic", ["o'clock", 'a"b', "';--"])
def test_a_name_is_never_taken_for_a_query(tmp_path: Path, topic: str) -> None:
    job = Job(tmp_path)
    job.record([row(0, 1, 10), row(0, 1, 20) | {"topic": topic}])
    shown = recorded(job.storage, TopicPartition(topic, 0), BEGAN - timedelta(minutes=1))
    assert [o for _, o in shown["high_watermark"][1]] == [20]


def test_a_stretch_of_time_keeps_its_last_report(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.record([row(second, 1, second) for second in range(0, 1200, 2)])
    points = recorded(job.storage, PLACE, BEGAN)["high_watermark"][1]
    assert len(points) <= 240
    assert points[-1][1] == 1198


def test_a_replica_whose_last_stable_offset_stands_is_told_in_words() -> None:
    moving = [(BEGAN + timedelta(seconds=s), 100 + s) for s in range(0, 600, 10)]
    frozen = [(at, min(offset, 130)) for at, offset in moving]
    (line,) = drawn({"last_stable_offset": {1: moving, 2: frozen}})
    assert [(broker, text.partition(" since")[0]) for broker, _, text in line.legend] == [
        (1, "690"),
        (2, "130, has stood there"),
    ]
    assert "broker 2: 130, has stood there since" in ET.fromstring(line.svg).attrib["aria-label"]


def test_a_replica_of_which_nothing_was_heard_is_told_in_words() -> None:
    heard = [(BEGAN, 5)]
    going = [(BEGAN + timedelta(seconds=s), 5 + s) for s in range(300)]
    (line,) = drawn({"high_watermark": {1: going, 2: heard}})
    assert line.legend[1][2] == f"5, says nothing since {BEGAN:%H:%M:%S}"


def test_an_offset_stands_until_the_next_report() -> None:
    (line,) = drawn({"high_watermark": {1: [(BEGAN, 0), (BEGAN + timedelta(seconds=10), 10)]}})
    points = ET.fromstring(line.svg).find("polyline")
    assert points is not None
    (x0, y0), (x1, y1), (x2, y2) = (map(float, p.split(",")) for p in points.attrib["points"].split())
    assert y0 == y1 > y2
    assert x0 < x1 == x2


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn({"high_watermark": {}, "last_stable_offset": {}}) == []


def test_brokers_beyond_the_styles_use_them_again() -> None:
    (line,) = drawn({"high_watermark": {broker: [(BEGAN, broker)] for broker in range(8)}})
    assert [style for _, style, _ in line.legend] == [0, 1, 2, 3, 4, 5, 0, 1]
