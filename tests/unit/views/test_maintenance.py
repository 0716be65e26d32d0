"""Retention: what is carried over when old dates are dropped."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from parallax.config import StorageSettings
from parallax.model import IsolationLevel, ReadEvent
from parallax.source.offsets import Reader
from parallax.views.maintenance import Maintenance, drop_older
from parallax.views.positions import positions_since
from parallax.views.tables import create_tables
from tests.builders.positions import midnight, position, record_positions

OLD, TODAY = date(2026, 1, 1), date(2026, 1, 9)
RC = IsolationLevel.READ_COMMITTED


@pytest.fixture
def storage(tmp_path: Path) -> str:
    create_tables(str(tmp_path))
    return str(tmp_path)


def append(
    storage: str, on: date, broker: int, offset: int, topic_id: str = "A", event: ReadEvent = ReadEvent.OK
) -> None:
    row = position(Reader(int(RC), broker, "t", 0), offset, midnight(on) + broker, event, topic_id=topic_id)
    record_positions(storage, on, row)


def positions(storage: str) -> dict[int, tuple[int, str]]:
    return {r.broker: (e.position, e.topic_id) for r, e in positions_since(storage, RC, -1)[0].items()}


def test_the_position_of_an_idle_reader_is_carried_over(storage: str) -> None:
    append(storage, OLD, 1, 5)
    append(storage, OLD, 2, 7)
    append(storage, TODAY, 1, 6)
    assert drop_older(storage, RC.option, TODAY)
    assert positions(storage) == {1: (6, "A"), 2: (7, "A")}


def test_a_position_that_was_carried_over_sets_back_no_reader_that_has_moved_since(storage: str) -> None:
    append(storage, OLD, 1, 5000)
    append(storage, OLD, 2, 7)
    (*_, reached) = positions_since(storage, RC, -1)
    assert drop_older(storage, RC.option, TODAY)
    assert positions_since(storage, RC, reached) == ({}, reached)
    assert positions(storage) == {1: (5000, "A"), 2: (7, "A")}


def test_nothing_of_a_topic_is_carried_into_its_successor(storage: str) -> None:
    append(storage, OLD, 1, 5000)
    append(storage, OLD, 2, 5000)
    append(storage, TODAY, 1, 3, "B", ReadEvent.TOPIC_RECREATED)
    assert drop_older(storage, RC.option, TODAY)
    assert positions(storage) == {1: (3, "B")}


def test_the_id_of_a_topic_is_the_one_that_was_recorded_last(storage: str) -> None:
    append(storage, date(2026, 1, 3), 1, 5000)
    append(storage, OLD, 2, 3, "B", ReadEvent.TOPIC_RECREATED)  # The clock was set back.
    assert drop_older(storage, RC.option, TODAY)
    assert positions(storage) == {2: (3, "B")}


def test_a_successor_whose_predecessor_was_forgotten_is_carried_over(storage: str) -> None:
    for day, offset, topic_id, event in (
        (1, 500, "A", ReadEvent.OK),
        (2, 500, "A", ReadEvent.TOPIC_DELETED),
        (3, 0, "B", ReadEvent.PARTITION_ADDED),
        (4, 30, "B", ReadEvent.OK),
    ):
        append(storage, date(2026, 1, day), 1, offset, topic_id, event)
    assert drop_older(storage, RC.option, TODAY)
    assert positions(storage) == {1: (30, "B")}


def test_readers_of_a_deleted_topic_end_with_their_rows(storage: str) -> None:
    for broker in (1, 2):
        append(storage, OLD, broker, 9, event=ReadEvent.TOPIC_DELETED)
    assert drop_older(storage, RC.option, TODAY)
    assert positions(storage) == {}


def test_where_nothing_is_old_nothing_is_written(storage: str) -> None:
    append(storage, TODAY, 1, 5)
    assert not drop_older(storage, RC.option, TODAY)


def test_other_tables_are_looked_after_though_one_of_them_fails(storage: str) -> None:
    asked: list[tuple[str, str, date]] = []

    def broken(path: str, oldest: date) -> None:
        asked.append(("broken", path, oldest))
        raise OSError("the disk is full")

    others = {"broken": broken, "suspects": lambda path, oldest: asked.append(("suspects", path, oldest))}
    Maintenance(StorageSettings(path=storage, retention_hours=24), others=others).run_once(TODAY)
    assert asked == [(name, storage, date(2026, 1, 8)) for name in ("broken", "suspects")]
