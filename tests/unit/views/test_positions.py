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


def table(*rows: tuple[int, int, str], ids: str = "") -> Any:
    """Position rows of one reader as they were recorded: (seconds since START, offset, event); a letter is an id."""
    return pa.table(
        {
            "topic": ["orders"] * len(rows),
            "partition": [0] * len(rows),
            "broker": [2] * len(rows),
            "offset": [offset for _, offset, _ in rows],
            "timestamp": [START + timedelta(seconds=seconds) for seconds, _, _ in rows],
            "leader_epoch": [offset // 100 for _, offset, _ in rows],
            "position": [
                {"event": event, "topic_id": of} for (_, _, event), of in zip(rows, ids or "A" * len(rows), strict=True)
            ],
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


def of_ids(ids: str, *rows: tuple[int, str]) -> tuple[int, str]:
    timed = [(number, *row) for number, row in enumerate(rows)]
    (entry,) = latest(table(*timed, ids=ids), IsolationLevel.READ_COMMITTED).values()
    return entry.position, entry.topic_id


def test_a_topic_that_begins_anew_after_its_readers_were_forgotten_replaces_the_deleted_one() -> None:
    old = (500, "ok"), (500, "topic_deleted")
    assert of_ids("AAB", *old, (0, "partition_added")) == (0, "B")
    assert of_ids("AABB", *old, (0, "partition_added"), (30, "ok")) == (30, "B")
    # An id that is not known (brokers below 2.8), and one that is the same after all.
    assert position(*((n, *row) for n, row in enumerate((*old, (0, "partition_added"), (30, "ok")))))[0] == 30


def test_a_position_of_another_topic_id_counts_though_its_first_row_is_gone() -> None:
    assert of_ids("AB", (500, "ok"), (30, "ok")) == (30, "B")
