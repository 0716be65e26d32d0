"""The job's log: no write to it ends the thread that logs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from parallax.job import _Forgiving, configure_logging
from parallax.views.room import Room


def test_a_log_whose_stream_is_closed_ends_no_thread() -> None:
    stream = io.StringIO()
    log = _Forgiving(stream)
    log.write("before")
    stream.close()
    assert log.write("after") == len("after")
    log.flush()


@pytest.fixture
def _log_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("_log_as_before")
def test_a_full_disk_is_one_line_whoever_comes_to_notice_it(capsys: pytest.CaptureFixture[str]) -> None:
    free = [0]
    configure_logging(Room("/", look=lambda _: (free[0], 10**6)))
    log = structlog.get_logger("somebody")
    log.warning("upkeep failed", error="Generic error: No space left on device (os error 28)")
    log.error("spark", said="Task 0 in stage 5.0 failed 1 times; aborting job", logger="TaskSetManager")
    log.info("finding", summary="something else")
    free[0] = 1 << 30
    log.error("spark", said="Lost executor", logger="TaskSchedulerImpl")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    said = ["storage is full; recording has stopped", "finding", "spark"]
    assert [line["event"] for line in lines] == said
