"""The limit on bytes per second, by a clock that the test moves, and the meter."""

from __future__ import annotations

from pathlib import Path

import pytest

from parallax.replica.errors import BadOption
from parallax.source.offsets import Range, Reader, to_json
from parallax.source.options import replica_options
from parallax.source.pace import Meter, Metered, Pace, TokenBucket, metered
from parallax.source.planning import broker_tasks
from tests.builders.clock import Clock

LEAST = {"kafka.bootstrap.servers": "h:1", "topics": "t"}


@pytest.mark.parametrize("answers", [[1000] * 20, [10, 5000, 1, 1, 3000], [700, 700, 700]])
def test_never_more_than_the_rate_and_one_answer_goes_through(answers: list[int]) -> None:
    clock = Clock(100.0)
    bucket = TokenBucket(1000, clock, clock.sleep)
    began, taken = clock.now, 0
    for size in answers:
        bucket.wait()
        assert taken <= 1000 * (clock.now - began) + 1e-6
        bucket.take(size)
        taken += size
    bucket.wait()
    assert clock.now - began == pytest.approx(sum(answers) / 1000)


def test_what_was_not_used_is_not_saved_up() -> None:
    clock = Clock(100.0)
    bucket = TokenBucket(1000, clock, clock.sleep)
    clock.now += 60
    bucket.take(2000)
    bucket.wait()
    assert clock.slept == [pytest.approx(2.0)]


def test_all_that_is_read_of_one_broker_is_one_task_where_its_bytes_are_limited() -> None:
    spans = {Reader(i, b, "t", p): Range(0, 9, "id") for i in (0, 1) for b in (1, 2) for p in range(3)}
    spans[Reader(0, 3, "t", 0)] = Range(4, 4, "id")
    tasks = broker_tasks(spans)
    assert [{piece.reader.broker for piece in task} for task in tasks] == [{1}, {2}]
    assert sum(map(len, tasks)) == 12


def test_the_meter_adds_up_what_tasks_have_reported(tmp_path: Path) -> None:
    clock = Clock(100.0)
    folder = str(tmp_path / "meter")
    first, second = Meter(folder, 1, clock), Meter(folder, 1, clock)
    for meter, size in ((first, 10), (second, 5)):
        pace = Pace(None, meter)
        pace.received(size)
        pace.passed(3)
        pace.finished()
        pace.close()
    Pace(None, Meter(folder, 2, clock)).close()
    assert metered(folder) == {1: Metered(15, 6, 2), 2: Metered()}


def test_the_meter_writes_now_and_then_only(tmp_path: Path) -> None:
    clock = Clock(100.0)
    meter = Meter(str(tmp_path), 1, clock)
    meter.add(Metered(1))
    assert metered(str(tmp_path)) == {}
    clock.now += Meter.EVERY_S
    meter.add(Metered(1))
    assert metered(str(tmp_path)) == {1: Metered(2)}


def test_a_folder_that_is_gone_does_not_stop_the_reading(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Meter(str(tmp_path / "file"), 1).write()
    assert metered(str(tmp_path / "file")) == {}


def test_ranges_are_read_as_an_offset_of_the_source() -> None:
    import json

    spans = {Reader(0, 1, "t", 0): Range(3, 9, "id")}
    options = replica_options(LEAST | {"ranges": json.dumps(to_json(spans)), "onFailure": "tell"})
    assert options.ranges == spans
    assert options.tells_failures
    with pytest.raises(BadOption, match="option ranges must be an offset of this source"):
        replica_options(LEAST | {"ranges": "[1]"})
    with pytest.raises(BadOption, match="option onFailure is 'ignore'; it must be one of fail, tell"):
        replica_options(LEAST | {"onFailure": "ignore"})
