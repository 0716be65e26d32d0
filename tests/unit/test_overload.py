"""A machine without processor time: what is laid to it, how long is waited, and that one line says so."""

from __future__ import annotations

from random import Random

import pytest
import structlog

from parallax.overload import Overload, load

SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."


class Nominal(Random):
    """Draws no jitter."""

    def random(self) -> float:
        return 0.0


class Machine:
    """Its load, and its clock."""

    def __init__(self) -> None:
        self.now, self.running = 0.0, 30.0
        self.overload = Overload(lambda: self.now, lambda: (self.running, 2), Nominal())


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize("text", [SLOW, "Timed out while waiting for the Python worker to connect back after 60000 ms"])
def test_a_start_that_is_slow_on_a_busy_machine_waits_for_the_next_try(machine: Machine, text: str) -> None:
    assert machine.overload.caused(text)
    assert machine.overload.lasts()
    machine.now = 5.0
    assert not machine.overload.lasts()


def test_on_an_idle_machine_it_is_a_failure_like_any_other_and_so_is_another_error(machine: Machine) -> None:
    assert not machine.overload.caused("java.io.IOException: broken")
    machine.running = 3.9
    assert not machine.overload.caused(SLOW)
    assert not machine.overload.lasts()


def test_the_waits_double_up_to_two_minutes_and_are_short_again_after_a_calm_while(machine: Machine) -> None:
    waits = []
    for _ in range(7):
        machine.overload.caused(SLOW)
        since = machine.now
        while machine.overload.lasts():
            machine.now += 1.0
        waits.append(machine.now - since)
    assert waits == [5, 10, 20, 40, 80, 120, 120]
    machine.now += 600.0
    machine.overload.caused(SLOW)
    machine.now += 5.0
    assert not machine.overload.lasts()


def test_queries_that_fail_together_make_one_wait_and_one_line(machine: Machine) -> None:
    with structlog.testing.capture_logs() as logged:
        for _ in range(4):
            assert machine.overload.caused(SLOW)
        machine.now = 300.0
        assert machine.overload.caused(SLOW)
    machine.now = 310.0
    assert not machine.overload.lasts(), "the second wait, not the fifth"
    (line,) = logged
    assert (line["event"], line["load"], line["cores"]) == ("this machine is too small for the job", 30.0, 2)


def test_the_real_load_is_asked() -> None:
    running, cores = load()
    assert running >= 0
    assert cores >= 1
