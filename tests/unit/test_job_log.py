"""The job's log: no write to it ends the thread that logs."""

from __future__ import annotations

import io

from parallax.job import _Forgiving


def test_a_log_whose_stream_is_closed_ends_no_thread() -> None:
    stream = io.StringIO()
    log = _Forgiving(stream)
    log.write("before")
    stream.close()
    assert log.write("after") == len("after")
    log.flush()
