"""What the log says of suspects that wait for a verdict."""

from __future__ import annotations

from structlog.testing import capture_logs

from parallax.findings.waits import AFTER_S, AGAIN_S, AT_ONCE, Waits
from parallax.model import TopicPartition
from tests.builders.clock import Clock


def said(waits: Waits, *partitions: int, why: str = "broker 2 does not answer") -> list[tuple[int, str]]:
    with capture_logs() as logs:
        waits.observe({TopicPartition("orders", number): why for number in partitions})
    assert {line["event"] for line in logs} <= {"suspects wait for a verdict"}
    return [(line["partition"], line["why"]) for line in logs]


def test_a_wait_is_said_with_its_reason_once_it_is_long_and_again_while_it_goes_on() -> None:
    waits = Waits(clock := Clock())
    assert said(waits, 0) == []
    clock.now += AFTER_S
    assert said(waits, 0, why="its log is being scanned") == [(0, "its log is being scanned")]
    assert said(waits, 0) == []
    clock.now += AGAIN_S
    assert said(waits, 0) == [(0, "broker 2 does not answer")]


def test_a_wait_that_ended_counts_from_its_next_beginning() -> None:
    waits = Waits(clock := Clock())
    assert said(waits, 0) == []
    clock.now += AFTER_S
    assert said(waits) == []
    assert said(waits, 0) == []


def test_of_many_some_are_named_at_a_time() -> None:
    waits = Waits(clock := Clock())
    many = range(2 * AT_ONCE)
    assert said(waits, *many) == []
    clock.now += AFTER_S
    assert [number for number, _ in said(waits, *many)] == [*range(AT_ONCE)]
    assert [number for number, _ in said(waits, *many)] == [*range(AT_ONCE, 2 * AT_ONCE)]
