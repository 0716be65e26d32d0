from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parallax.model import TopicPartition
from parallax.source.repeats import LONGEST_US, Repeats
from parallax.source.ticks import OFFSETS
from tests.ticks import tick_of

SECOND = 1_000_000
DAY_MS = 86_400_000

Row = dict[str, Any]


def row(broker: int, at: int, end: int = 10, **said: Any) -> Row:
    return {
        "topic": "orders",
        "partition": 0,
        "broker": broker,
        "observed_at": at,
        "policy_at": at,
        "leader": 1,
        "isr": [1, 2],
        "replicas": [1, 2],
        "delete_retention_ms": DAY_MS,
        "reachable": True,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "log_end_offset": end,
        "open_transactions": None,
    } | said


def tick(at: int, end: int = 10, **second: Any) -> list[Row]:
    """Two replicas; what is said of the second may differ."""
    return [row(1, at, end), row(2, at, end, **second)]


def times(rows: Any) -> list[int]:
    return sorted({r["observed_at"] // SECOND for r in rows})


class ByRows:
    """`Repeats`, fed with rows."""

    def __init__(self) -> None:
        self._repeats = Repeats()

    def without(self, rows: Sequence[Row], awaited: Sequence[TopicPartition] = ()) -> list[Row]:
        return self._repeats.without(tick_of(rows), awaited)


@pytest.fixture
def repeats() -> ByRows:
    return ByRows()


def test_the_first_tick_is_recorded_whole(repeats: ByRows) -> None:
    assert repeats.without(tick(0)) == tick(0)


def test_the_last_equal_tick_is_recorded_once_something_changes(repeats: ByRows) -> None:
    repeats.without(tick(0))
    assert [repeats.without(tick(at * SECOND)) for at in (2, 4, 6)] == [[], [], []]
    assert repeats.without(tick(8 * SECOND, 11)) == [*tick(6 * SECOND), *tick(8 * SECOND, 11)]


@pytest.mark.parametrize(
    "said",
    [
        {"last_stable_offset": 4},
        {"high_watermark": 9},
        {"log_start_offset": 3},
        {"log_end_offset": 11},
        {"reachable": False},
    ],
)
def test_what_is_out_of_step_is_recorded_with_every_tick_at_first(repeats: ByRows, said: Row) -> None:
    for at in (0, 2, 4):
        assert times(repeats.without(tick(at * SECOND, **said))) == [at]


def test_a_replica_of_which_no_row_tells_is_out_of_step(repeats: ByRows) -> None:
    for at in (0, 2):
        assert times(repeats.without(tick(at * SECOND)[:1])) == [at]


def test_a_transaction_that_all_show_open_is_recorded_with_every_tick_at_first(repeats: ByRows) -> None:
    held = {"last_stable_offset": 4}
    for at in (0, 2):
        assert times(repeats.without([row(1, at * SECOND, **held), row(2, at * SECOND, **held)])) == [at]


AWAY: Row = {"reachable": False, **dict.fromkeys(OFFSETS), "problem": "unreachable"}


@pytest.mark.parametrize(
    "said", [AWAY, {"last_stable_offset": 8}, {"last_stable_offset": 8, "open_transactions": [{"producer_id": 1}]}]
)
def test_what_stays_out_of_step_is_recorded_the_more_rarely_the_longer_it_lasts(repeats: ByRows, said: Row) -> None:
    recorded = [at for at in range(0, 3 * 3600, 2) if repeats.without(tick(at * SECOND, **said))]
    assert recorded[:4] == [0, 2, 4, 6]
    assert all(b - a <= max(a // 2, 2) + 2 for a, b in pairwise(recorded)), (
        "a time that passes is seen within half of it"
    )
    assert max(b - a for a, b in pairwise(recorded)) == LONGEST_US // SECOND
    of_an_hour = [sum(hour * 3600 <= at < hour * 3600 + 3600 for at in recorded) for hour in range(3)]
    files = 12  # that a tick costs: progress, the comparison, their checkpoints
    assert of_an_hour[0] * files <= 320
    assert max(of_an_hour[1:]) * files <= 160


def test_rows_of_what_is_out_of_step_vouch_for_each_other_within_the_retention(repeats: ByRows) -> None:
    recorded = [
        at
        for at in range(0, 1200, 2)
        if repeats.without([row(1, at * SECOND, delete_retention_ms=60_000), row(2, at * SECOND, **AWAY)])
    ]
    assert max(b - a for a, b in pairwise(recorded)) <= 16


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (AWAY, {**AWAY, "problem": "not_hosted"}),
        (AWAY, {**AWAY, "problem": "unauthorized", "missing_right": "read"}),
        ({**AWAY, "problem": "unauthorized"}, {**AWAY, "problem": "unauthorized", "log_end_offset": 11}),
        (AWAY, {}),
        ({"last_stable_offset": 8}, {"last_stable_offset": 9}),
        ({"last_stable_offset": 8}, {"last_stable_offset": 8, "open_transactions": [{"producer_id": 1}]}),
        ({"last_stable_offset": 8, "open_transactions": [{}]}, {"last_stable_offset": 8, "open_transactions": []}),
    ],
)
def test_a_change_of_what_is_out_of_step_is_recorded_at_once_with_the_tick_before(
    repeats: ByRows, before: Row, after: Row
) -> None:
    for at in range(0, 1000, 2):
        repeats.without(tick(at * SECOND, **before))
    assert repeats.without(tick(1000 * SECOND, **after)) == [
        *tick(998 * SECOND, **before),
        *tick(1000 * SECOND, **after),
    ]
    if after and before.get("open_transactions") == after.get("open_transactions"):
        assert times(repeats.without(tick(1002 * SECOND, **after))) == [1002], "it is watched closely again"


def test_that_nothing_is_open_is_recorded_once_it_was_asked(repeats: ByRows) -> None:
    repeats.without(tick(0))
    assert times(repeats.without(tick(2 * SECOND, open_transactions=[]))) == [2]
    assert repeats.without(tick(4 * SECOND, open_transactions=[])) == []
    assert repeats.without(tick(6 * SECOND)) == []


def test_an_idle_partition_is_recorded_each_five_minutes_at_most_whoever_lists(
    repeats: ByRows,
) -> None:
    recorded = []
    for at in range(0, 2 * 3600, 2):
        turn = at // 2 % 3  # the third time nobody is asked
        listed = {broker: [] if turn == broker - 1 else None for broker in (1, 2)}
        rows = [row(broker, at * SECOND, open_transactions=listed[broker]) for broker in (1, 2)]
        recorded += times(repeats.without(rows))
    assert len(set(recorded)) <= 2 * 3600 // 300 * 2 + 4, (
        "the last of each run of equal ones, and the first of the next"
    )


@pytest.mark.parametrize("retention_ms", [8_000, 60_000, DAY_MS, None])
def test_rows_vouch_for_each_other_within_the_retention(repeats: ByRows, retention_ms: int | None) -> None:
    recorded = [
        at
        for at in range(0, 1200, 2)
        if repeats.without([row(b, at * SECOND, delete_retention_ms=retention_ms) for b in (1, 2)])
    ]
    longest = LONGEST_US // SECOND if retention_ms is None else min(LONGEST_US // SECOND, retention_ms // 4000)
    assert {b - a for a, b in pairwise(recorded)} == {longest + longest % 2}


def test_partitions_that_are_due_one_after_the_other_are_recorded_together(repeats: ByRows) -> None:
    def both(at: int) -> list[Row]:
        return [*tick(at), *({**r, "partition": 1} for r in (tick(at) if at >= 100 * SECOND else []))]

    recorded = {at: rows for at in range(0, 400, 2) if (rows := repeats.without(both(at * SECOND)))}
    assert {at: {r["partition"] for r in rows} for at, rows in recorded.items()} == {0: {0}, 100: {1}, 300: {0, 1}}


def test_what_is_awaited_is_recorded_with_every_tick(repeats: ByRows) -> None:
    for at in (0, 2, 4):
        assert times(repeats.without(tick(at * SECOND), [TopicPartition("orders", 0)])) == [at]
    assert repeats.without(tick(6 * SECOND), [TopicPartition("orders", 1)]) == []


def test_a_partition_that_is_gone_is_forgotten(repeats: ByRows) -> None:
    repeats.without(tick(0))
    repeats.without([])
    assert times(repeats.without(tick(4 * SECOND))) == [4]


@given(st.lists(st.tuples(st.integers(10, 12), st.booleans()), max_size=30))
def test_each_change_is_recorded_together_with_the_tick_before_it(steps: list[tuple[int, bool]]) -> None:
    repeats, recorded = ByRows(), list[Row]()
    ticks = [tick(at * SECOND, end, reachable=up) for at, (end, up) in enumerate(steps)]
    for one in ticks:
        recorded += repeats.without(one)
    assert [r["observed_at"] for r in recorded] == sorted(r["observed_at"] for r in recorded)
    for before, after in pairwise(ticks):
        if [r["log_end_offset"] for r in before] != [r["log_end_offset"] for r in after]:
            assert all(r in recorded for r in (*before, *after))


def test_where_there_are_many_partitions_they_take_turns(repeats: ByRows, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = 20
    monkeypatch.setattr("parallax.source.repeats.CHUNK", chunk)

    def all_of_them(at: int) -> list[Row]:
        return [{**r, "partition": n} for n in range(3 * chunk) for r in tick(at * SECOND)]

    recorded: dict[int, list[int]] = {n: [] for n in range(3 * chunk)}
    for at in range(0, 1000, 20):
        rows = repeats.without(all_of_them(at))
        assert at == 0 or len(rows) <= 2 * chunk
        for row in rows[::2]:
            recorded[row["partition"]].append(at)
    assert {b - a for mine in recorded.values() for a, b in pairwise(mine)} <= set(range(1, LONGEST_US // SECOND + 1))
    assert {len(mine) for mine in recorded.values()} <= set(range(4, 9))
