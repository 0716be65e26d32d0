"""The job's log: one JSON object a line on standard error, whoever has something to say."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any, TextIO, cast

import structlog
from structlog.typing import Processor

_FIELDS: list[Any] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.format_exc_info,
]
_RENDERED = structlog.processors.JSONRenderer(default=str)


class Forgiving:
    """A text stream of which no write fails: a full disk or a closed stream must not end the thread that logs.

    Args:
        stream: what is written to.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written; returns the length of the text."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure_logging(stream: IO[str] | None = None, also: Sequence[Processor] = ()) -> None:
    """Log one JSON object a line; the libraries' chatter only from warnings on, and what ends a thread as well.

    Args:
        stream: standard error by default.
        also: what else each event goes through; structlog's `DropEvent` leaves it out.
    """
    to = cast("TextIO", Forgiving(stream or sys.stderr))
    structlog.configure(
        processors=[*_FIELDS, *also, _RENDERED],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=to),
        cache_logger_on_first_use=False,
    )
    of_libraries = logging.StreamHandler(to)
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    name = structlog.stdlib.add_logger_name
    of_libraries.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[name, *_FIELDS],
            processors=[drop_meta, *also, _RENDERED],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[of_libraries], force=True)
    # What it reports with a traceback is raised in Spark as well, and is said by whoever runs the query.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    logging.captureWarnings(True)
    threading.excepthook = _thread_ended


def _thread_ended(ended: Any) -> None:
    """One line where Python would print a traceback of many."""
    if ended.exc_type is SystemExit:
        return
    error = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    thread = "" if ended.thread is None else ended.thread.name
    structlog.get_logger(__name__).error("a thread has ended by an error", thread=thread, exc_info=error)


def said(text: str) -> None:
    """Log how far the job has come."""
    structlog.get_logger("parallax").info(text)


__all__ = ["Forgiving", "configure_logging", "said"]
