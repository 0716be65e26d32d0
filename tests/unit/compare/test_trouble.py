"""What is said in the log of partitions that could not be compared."""

from __future__ import annotations

from structlog.testing import capture_logs

from parallax.compare.suspect import Coverage
from parallax.compare.trouble import AGAIN_S, AT_ONCE, Trouble
from tests.builders.clock import Clock
from tests.builders.coverage import coverage


def failed(partition: int, error: str = "IndexError: 7") -> Coverage:
    return coverage(partition=partition, error=error)


def said(trouble: Trouble, *coverages: Coverage, problems: tuple[str, ...] = ()) -> list[tuple[int | None, str]]:
    with capture_logs() as logs:
        trouble.observe(coverages, problems)
    return [(line.get("partition"), line["error"]) for line in logs]


def test_a_partition_is_named_with_its_error() -> None:
    with capture_logs() as (logs):
        Trouble().observe([failed(3), failed(4, error="")], [])
    (line,) = logs
    assert (line["log_level"], line["topic"], line["partition"]) == ("error", "orders", 3)
    assert line["error"] == "IndexError: 7"
    assert "audit" in line["what"]


def test_what_goes_on_is_said_again_after_a_while_and_what_is_new_at_once() -> None:
    trouble = Trouble(clock := Clock(0.0))
    assert said(trouble, failed(3)) == [(3, "IndexError: 7")]
    assert said(trouble, failed(3)) == []
    assert said(trouble, failed(3, ""), failed(4)) == [(4, "IndexError: 7")]
    assert said(trouble, failed(3, "KeyError: 8")) == [(3, "KeyError: 8")]
    clock.now += AGAIN_S
    assert said(trouble, failed(3, "KeyError: 8")) == [(3, "KeyError: 8")]


def test_of_many_only_some_are_named() -> None:
    lines = said(trouble := Trouble(Clock(0.0)), *(failed(n) for n in range(500)))
    assert [partition for partition, _ in lines] == [*range(AT_ONCE), None]
    assert said(trouble, *(failed(n) for n in range(500))) == []


def test_that_nothing_is_taken_in_together_is_said_once() -> None:
    trouble = Trouble(clock := Clock(0.0))
    assert said(trouble, problems=("ValueError: 1", "ValueError: 1")) == [(None, "ValueError: 1")]
    assert said(trouble, problems=("ValueError: 1",)) == []
    clock.now += AGAIN_S
    assert said(trouble, problems=("ValueError: 1",)) == [(None, "ValueError: 1")]
