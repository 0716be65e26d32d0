from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from parallax.model import IsolationLevel, ReadEvent
from parallax.source.offsets import Reader
from parallax.views.positions import latest

START = datetime(2026, 1, 1, tzinfo=UTC)


def table(*rows: tuple[int, int, str]) -> Any:
    """Position rows of one reader as they were recorded: (seconds since START, offset, event)."""
    return pa.table(
        {
            "topic": ["orders"] * len(rows),
            "partition": [0] * len(rows),
            "broker": [2] * len(rows),
            "offset": [offset for _, offset, _ in rows],
            "timestamp": [START + timedelta(seconds=seconds) for seconds, _, _ in rows],
            "leader_epoch": [offset // 100 for _, offset, _ in rows],
            "position": [{"event": event, "topic_id": "A"} for _, _, event in rows],
        }
    )


def position(*rows: tuple[int, int, str]) -> tuple[int, ReadEvent]:
    entry = latest(table(*rows), IsolationLevel.READ_COMMITTED)[Reader(1, 2, "orders", 0)]
    return entry.position, entry.event


@given(st.permutations([(0, 0, "partition_added"), (0, 10, "ok"), (1, 30, "ok"), (2, 35, "unreachable")]))
def test_the_position_is_the_highest_in_whatever_order_the_rows_lie(rows: list[tuple[int, int, str]]) -> None:
    assert position(*rows) == (35, ReadEvent.UNREACHABLE)


def test_a_clock_that_was_set_back_does_not_bring_a_position_back() -> None:
    assert position((10, 100, "ok"), (5, 200, "ok"))[0] == 200
    assert position((10, 500, "ok"), (5, 20, "log_truncated"), (6, 30, "ok"))[0] == 30


def test_the_leader_epoch_is_that_of_the_position() -> None:
    (entry,) = latest(table((0, 100, "ok"), (1, 300, "ok")), IsolationLevel.READ_COMMITTED).values()
    assert (entry.position, entry.epoch) == (300, 3)


def test_a_reset_lowers_the_position() -> None:
    assert position((1, 500, "ok"), (2, 0, "topic_recreated"), (2, 7, "ok")) == (7, ReadEvent.OK)
    assert position((1, 500, "ok"), (2, 20, "log_truncated")) == (20, ReadEvent.LOG_TRUNCATED)
