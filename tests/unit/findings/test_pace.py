"""The limit on what probes read from each broker, by a clock that the test moves."""

from __future__ import annotations

import pytest

from parallax.findings.pace import Counted, Paces
from tests.builders.clock import Clock


def test_all_readings_of_a_broker_share_its_bucket_and_no_other_brokers() -> None:
    clock = Clock(100.0)
    paces = Paces(1000, clock, clock.sleep)
    first, second, other = Counted(paces.of(1)), Counted(paces.of(1)), Counted(paces.of(2))
    first.received(3000)
    other.wait()
    assert clock.now == 100.0
    second.wait()
    assert clock.now == pytest.approx(103.0)


def test_no_more_than_the_rate_and_one_answer_goes_through() -> None:
    clock = Clock(100.0)
    pace = Paces(1000, clock, clock.sleep).of(1)
    taken = 0
    for size in (10, 5000, 1, 1, 3000, 700):
        pace.wait()
        assert taken <= 1000 * (clock.now - 100.0) + 1e-6
        pace.received(size)
        taken += size


def test_bytes_are_counted_by_broker_and_by_reading() -> None:
    paces = Paces(1 << 30)
    one, another = Counted(paces.of(1)), Counted(paces.of(1))
    one.received(3)
    another.received(4)
    Counted(paces.of(2)).received(5)
    assert (one.read_bytes, another.read_bytes) == (3, 4)
    assert paces.read_bytes() == {1: 7, 2: 5}


def test_a_scan_steps_back_for_a_probe_that_waits() -> None:
    clock = Clock(100.0)
    order: list[str] = []

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if not order:
            order.append("a probe came")
            pace._waiting += 1
        elif clock.now > 101.2 and pace._waiting:
            order.append("the probe went")
            pace._waiting -= 1

    pace = Paces(1000, clock, sleep).of(1)
    pace.received(1000)
    Counted(pace, behind=True).wait()
    assert order == ["a probe came", "the probe went"]
    assert clock.now > 101.2


def test_a_sleep_that_raises_ends_the_wait() -> None:
    def closed(_: float) -> None:
        raise InterruptedError

    pace = Paces(1000, sleep=closed).of(1)
    pace.received(1 << 20)
    with pytest.raises(InterruptedError):
        pace.wait()
    assert pace._waiting == 0
