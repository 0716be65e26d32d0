"""The job's log: each line is one JSON object, and no write to it ends the thread that logs."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator

import pytest
import structlog

from parallax.job import _once
from parallax.logs import Forgiving, configure_logging, said
from parallax.views.room import Room


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What a job has logged; everything is as it was afterwards."""
    root, hook, settings = logging.getLogger(), threading.excepthook, structlog.get_config()
    handlers, level = list(root.handlers), root.level
    logging.captureWarnings(False)  # pytest puts its own back behind a test that has left this on
    stream = io.StringIO()
    configure_logging(stream)
    yield stream
    logging.captureWarnings(False)
    logging.basicConfig(handlers=handlers, level=level, force=True)
    threading.excepthook = hook
    structlog.configure(**settings)


def lines(stream: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def failed() -> None:
    raise ValueError("two\nlines")


def test_a_log_whose_stream_is_closed_ends_no_thread() -> None:
    stream = io.StringIO()
    log = Forgiving(stream)
    log.write("before")
    stream.close()
    assert log.write("after") == len("after")
    log.flush()


def test_a_full_disk_is_one_line_whoever_comes_to_notice_it(stream: io.StringIO) -> None:
    free = [0]
    configure_logging(stream, also=[_once(Room("/", look=lambda _: (free[0], 10**6)))])
    log = structlog.get_logger("somebody")
    log.warning("upkeep failed", error="Generic error: No space left on device (os error 28)")
    log.error("spark", said="Task 0 in stage 5.0 failed 1 times; aborting job", logger="TaskSetManager")
    log.info("finding", summary="something else")
    free[0] = 1 << 30
    log.error("spark", said="Lost executor", logger="TaskSchedulerImpl")
    said_by = ["storage is full; recording has stopped", "finding", "spark"]
    assert [line["event"] for line in lines(stream)] == said_by


def test_a_line_says_when_and_what_happened_and_what_to_do_before_the_details(stream: io.StringIO) -> None:
    structlog.get_logger("a").warning("a thing has happened", broker=2, what="look after it")
    logging.getLogger("a library").error("another")
    line, of_library = lines(stream)
    assert list(line) == ["timestamp", "level", "event", "what", "broker"]
    assert list(of_library) == ["timestamp", "level", "event", "logger"]


def test_what_the_job_says_of_itself_is_an_event(stream: io.StringIO) -> None:
    said("the job runs")
    (line,) = lines(stream)
    assert (line["event"], line["level"]) == ("the job runs", "info")


def test_an_error_of_a_library_is_one_line_with_its_traceback(stream: io.StringIO) -> None:
    try:
        failed()
    except ValueError:
        logging.getLogger("py4j").exception("it went %s", "wrong")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("it went wrong", "error", "py4j")
    assert "ValueError: two\nlines" in line["exception"]


def test_what_spark_is_told_of_as_well_is_not_said_with_a_traceback_before(stream: io.StringIO) -> None:
    try:
        failed()
    except ValueError:
        logging.getLogger("py4j.clientserver").exception("There was an exception while executing the Python Proxy")
    assert lines(stream) == []


def test_a_library_that_has_nothing_to_warn_of_is_not_heard(stream: io.StringIO) -> None:
    logging.getLogger("py4j").info("chatter")
    assert lines(stream) == []


def test_a_thread_that_ends_by_an_error_is_one_line(stream: io.StringIO) -> None:
    thread = threading.Thread(target=failed, name="reader")
    thread.start()
    thread.join()
    (line,) = lines(stream)
    assert (line["event"], line["thread"]) == ("a thread has ended by an error", "reader")
    assert "ValueError" in line["exception"]


def test_a_warning_is_one_line(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old\nand\nworn", UserWarning, stacklevel=1)
    (line,) = lines(stream)
    assert line["level"] == "warning"
