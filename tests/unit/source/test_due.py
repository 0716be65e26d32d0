from __future__ import annotations

import pytest

from parallax.source.due import BURST_AGAIN_S, BURST_EVERY_S, BURST_S, LONGEST_S, Due


class Clock:
    """A wall clock and a monotonic one that go on only while somebody waits."""

    def __init__(self, now: float = 1_000.3) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def nothing(self, seconds: float) -> bool:
        self.now += seconds
        return False

    def soon(self, _: float) -> bool:
        self.now += 0.01
        return True


def looks(due: Due, clock: Clock, until: float) -> list[float]:
    found = []
    while clock.now < until:
        if due.wait(clock.nothing):
            found.append(round(clock.now, 2))
            clock.now += 0.02
    return found


def test_looks_are_due_at_once_and_then_at_whole_multiples_of_the_interval() -> None:
    clock = Clock()
    assert looks(Due(2_000, clock, clock), clock, 1_007) == [1_000.3, 1_002, 1_004, 1_006]


def test_a_look_that_took_longer_than_the_interval_is_followed_by_the_next_at_once() -> None:
    clock = Clock()
    due = Due(1_000, clock, clock)
    assert due.wait(clock.nothing)
    clock.now += 1.5
    assert due.left_s() == 0


def test_one_call_waits_no_longer_than_spark_may_have_to() -> None:
    clock = Clock(1_000.0)
    due = Due(60_000, clock, clock)
    assert due.wait(clock.nothing)
    assert not due.wait(clock.nothing)
    assert clock.now == pytest.approx(1_000 + LONGEST_S)


@pytest.mark.parametrize("interval", [None, 0])
def test_without_an_interval_every_call_is_a_look(interval: int | None) -> None:
    clock = Clock()
    due = Due(interval, clock, clock)
    assert due.wait(clock.nothing)
    assert due.wait(clock.nothing)
    assert clock.now == 1_000.3


def test_what_is_new_is_looked_at_before_the_interval_is_over() -> None:
    clock = Clock()
    due = Due(60_000, clock, clock)
    assert due.wait(clock.nothing)
    assert due.wait(clock.soon)
    assert clock.now == pytest.approx(1_000.31)


def test_a_burst_looks_often_for_a_while_and_does_not_begin_again_soon() -> None:
    clock = Clock(1_000.0)
    due = Due(10_000, clock, clock)
    assert due.wait(clock.nothing)
    assert due.hurry()
    often = looks(due, clock, 1_000 + BURST_S)
    assert len(often) == pytest.approx(BURST_S / BURST_EVERY_S, abs=2)
    assert looks(due, clock, 1_020) == [1_010, 1_020]
    assert not due.hurry()
    clock.now = 1_000 + BURST_AGAIN_S
    assert due.hurry()


def test_a_clock_that_is_set_back_delays_no_look() -> None:
    wall, clock = Clock(), Clock()
    due = Due(2_000, wall, clock)
    assert due.wait(clock.nothing)
    wall.now -= 3_600
    assert due.left_s() == 0
