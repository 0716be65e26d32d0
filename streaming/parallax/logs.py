"""The job's log: one JSON object a line on standard error, from every part of the program."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from typing import IO, Any, TextIO, cast

import structlog
from structlog.typing import Processor

FIELDS: Mapping[str, str] = {
    "about": "what it is about, if that is no partition",
    "address": "host:port of a broker",
    "before": "the date before which everything was dropped",
    "behind_h": "hours that a reader of the table is behind",
    "broker": "the id of a broker",
    "brokers": "the ids of brokers",
    "by": "who asked for it",
    "bytes": "how many bytes of files",
    "cluster": "the id of the cluster that the storage belongs to",
    "complete_until": "when replicas were last known to lack nothing, or else first seen to be absent, UTC",
    "cores": "processors that the job may use",
    "error": "what went wrong, in the words of what failed",
    "failed_pings": "how many pings of the heartbeat failed in a row",
    "findings": "how many findings",
    "free": "space that is free, MiB",
    "free_files": "how many new files are possible",
    "id": "the id of a finding, for parallax findings explain",
    "its_cluster": "the id of the cluster that answers at the address",
    "kept_until": "until when Kafka keeps what replicas lack, UTC",
    "kind": "the kind of a finding (docs/runbook.md)",
    "load": "processes that wait for a processor, on average",
    "logger": "which part of Spark or of a library said it",
    "needed": "space that must be free, MiB",
    "needed_files": "how many new files must be possible",
    "not_known_of": "topics for which that time is not known",
    "offset": "an offset of the partition",
    "partition": "the number of a partition",
    "partitions": "how many partitions",
    "path": "a file",
    "pattern": "topics.pattern",
    "place": "the folder or bucket",
    "producer_id": "the id of a producer",
    "query": "a streaming query of the job",
    "read_from": "what an audit compared: brokers, or tables of what the job recorded",
    "reason": "the reason that somebody gave",
    "receiver": "the name of a receiver of alerting.webhooks",
    "replicas": "how many replicas",
    "result": "result of an audit: consistent, diverged or unknown",
    "retry_after_s": "seconds until it is tried again",
    "rows": "how many rows of a table",
    "said": "what Spark said",
    "set_aside_as": "where the damaged file is now",
    "settings": "settings of the topic, with their values",
    "since": "since when, UTC",
    "status": "status of a finding, or of a message: firing, acknowledged, resolved",
    "suspect": "the id of a suspect",
    "table": "a table of the storage",
    "text": "what the finding says",
    "thread": "a thread of the job",
    "topic": "the name of a topic",
    "topics": "the names of topics, the first three and how many more",
    "took_s": "seconds that it lasted",
    "what": "what it means, and what to do",
    "where": "the names of partitions, the first three and how many more",
    "why": "what speaks against it, or is in the way",
    "missing_right": "the right that Kafka refuses (docs/operate/security.md)",
}
"""What each field of an event says, with its unit; an event has no other. ``exception`` is a traceback."""


def _without_nothing(_logger: Any, _level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Leave out the fields of which nothing is known."""
    return {name: value for name, value in event.items() if value is not None and value not in ("", (), [], {})}


_FIRST = ("timestamp", "level", "event", "what")


def _main_thing_first(_logger: Any, _level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Say when, what happened, and what it means and what to do, before the details."""
    return {name: event[name] for name in (*_FIRST, *event) if name in event}


_FIELDS: list[Any] = [
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso"),
    structlog.processors.format_exc_info,
    _without_nothing,
]
_RENDERED: Sequence[Any] = (_main_thing_first, structlog.processors.JSONRenderer(default=str))


class Forgiving:
    """A text stream whose writes never fail: a full disk or a closed stream must not end the thread that logs.

    Args:
        stream: the stream to write to.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text if possible; returns how many characters were written, or the text's length after a failure."""
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if possible; a failure is ignored."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure_logging(stream: IO[str] | None = None, also: Sequence[Processor] = ()) -> None:
    """Set logging up for this process: each event becomes one JSON object on a line.

    Libraries' messages are logged from warnings on. So are the exceptions that end a thread.

    Args:
        stream: where to write; None for standard error.
        also: further structlog processors that each event passes through; one that raises `DropEvent` leaves it out.
    """
    to = cast("TextIO", Forgiving(stream or sys.stderr))
    structlog.configure(
        processors=[*_FIELDS, *also, *_RENDERED],
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
            processors=[drop_meta, *also, *_RENDERED],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[of_libraries], force=True)
    # What it reports with a traceback is raised in Spark as well, and is logged by what runs the query.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    logging.captureWarnings(True)
    threading.excepthook = _thread_ended


def _thread_ended(ended: Any) -> None:
    """One line where Python would print a traceback of many."""
    if ended.exc_type is SystemExit:
        return
    error = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    thread = "" if ended.thread is None else ended.thread.name
    what = "a part of the job may stand still, by a fault of Parallax; restart the job, and report the traceback"
    structlog.get_logger(__name__).error("a thread has ended by an error", thread=thread, exc_info=error, what=what)


def said(text: str) -> None:
    """Log a text as an event of its own, about the start or stop of the job."""
    structlog.get_logger("parallax").info(text)


__all__ = ["FIELDS", "Forgiving", "configure_logging", "said"]
