"""How far partitions were compared, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parallax.alerting.page import compared
from parallax.alerting.page.compared import Compared
from parallax.alerting.state import Snapshot
from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition
from tests.builders.coverage import coverage
from tests.pages import Job

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return Job(tmp_path).state.snapshot()


def seen(snapshot: Snapshot, second: int, *coverages: Coverage) -> Snapshot:
    return replace(snapshot, taken_at=1_000.0 + second, coverage={one.place: one for one in coverages})


def upto(remembered: Compared, snapshot: Snapshot) -> Sequence[tuple[int, tuple[int, int]]]:
    return [(int(at.timestamp()) - 1_000, both) for at, both in remembered.of(PLACE, snapshot)]


def test_what_changes_is_remembered_once_a_minute_and_what_stands_is_known(snapshot: Snapshot) -> None:
    remembered = Compared()
    for second, both in ((0, (-1, -1)), (60, (5, 4)), (70, (6, 6)), (120, (7, 7)), (180, (7, 7))):
        remembered.note(last := seen(snapshot, second, coverage(compared_up_to=both)))
    assert upto(remembered, last) == [(60, (5, 4)), (120, (7, 7)), (180, (7, 7))]
    assert remembered.of(PLACE, last)[0][0].tzinfo is UTC
    assert remembered.of(TopicPartition("none", 0), last) == []


def test_an_hour_is_remembered_and_no_partition_that_is_gone(snapshot: Snapshot) -> None:
    remembered = Compared()
    for minute in range(100):
        remembered.note(last := seen(snapshot, 60 * minute, coverage(compared_up_to=(minute, minute))))
    assert len(upto(remembered, last)) == 62
    remembered.note(last := seen(snapshot, 60 * 101))
    assert upto(remembered, last) == []


def test_of_more_partitions_than_are_remembered_what_stands_is_known(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared, "MOST", 1)
    remembered = Compared()
    for second in (0, 60):
        both = coverage("first", compared_up_to=(second, second)), coverage(compared_up_to=(second, second))
        remembered.note(last := seen(snapshot, second, *both))
    assert upto(remembered, last) == [(60, (60, 60))]
    assert datetime.fromtimestamp(1_060, UTC) == remembered.of(PLACE, last)[0][0]
