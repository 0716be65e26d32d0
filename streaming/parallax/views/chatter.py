"""Turns what Spark's JVM and its Python processes print into lines of the job's log.

All of them print to the JVM's output, each in its own way: banners, log4j's lines, stack traces, messages of PySpark's
workers. Here each message becomes one log line, with its level. Empty messages, and those that every start prints, are
left out.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Any, NamedTuple

import structlog

log = structlog.get_logger(__name__)

SPARK_SAID = "spark"
"""The event of the log lines that hold what Spark printed."""

_LOGGED = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([^:]+): (.*)")
"""A line of Spark's default log4j profile."""
_LEVELS = {"WARN": "warning", "ERROR": "error", "FATAL": "critical"}
_OF_A_TRACE = re.compile(r"\s+\S|Caused by: |Suppressed: |Traceback \(most recent call last\)")
"""A line that belongs to the message of the line before, such as one of a stack trace."""
_NOISE = re.compile(
    r"\s*$|WARNING: Using incubator modules|Using Spark's default log4j|Setting default log level"
    r"|To adjust logging level|(Starting )?Streaming TransformWithState|Deleted \d+ files and directories"
)
_NOISE_OF = re.compile(r"NativeCodeLoader$|Utils$")
"""Loggers whose errors alone are logged; their warnings name addresses of this host, or missing native code."""
_CAUSE = "Caused by: "
_SUPERVISED = re.compile(r"Query .* terminated with error$")
"""A message that is not logged, because the supervisor logs which query failed, and how."""
_CHARACTERS = 2000


class Line(NamedTuple):
    """One message that Spark printed.

    Attributes:
        level: level for the job's log, such as ``warning``.
        logger: Spark's class that printed it; empty where it is not known.
        text: the message.
    """

    level: str
    logger: str
    text: str


def heard(line: str) -> Line | None:
    """The message in a line that Spark printed; None if the line should not be logged.

    Args:
        line: the line, without its end or with it.
    """
    if (found := _LOGGED.match(line)) is not None:
        level, logger, text = found.groups()
        is_noise = level not in _LEVELS or (level == "WARN" and _NOISE_OF.search(logger)) or _SUPERVISED.match(text)
        return None if is_noise else Line(_LEVELS[level], logger, text[:_CHARACTERS])
    if _NOISE.match(line) or _OF_A_TRACE.match(line):
        return None
    return Line("warning", "", line.rstrip()[:_CHARACTERS])


class Chatter:
    """Reads what Spark's JVM prints, in a thread of its own, and writes it to the job's log.

    The thread ends once all processes that print into its pipe have ended.

    Attributes:
        options: arguments for ``subprocess.Popen`` of the JVM.
        cause: the innermost cause of the last stack trace that was printed; empty if there was none.
    """

    def __init__(self) -> None:
        read, self._write = os.pipe()
        self.cause = ""
        self.options: dict[str, Any] = {"stdout": self._write, "stderr": self._write}
        self._thread = threading.Thread(target=self._listen, args=(read,), name="spark-output", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Close this process's own end of the pipe, because the thread ends only when all ends are closed.

        Call it once the JVM has been started. It has an end of its own by then.
        """
        os.close(self._write)

    def ended(self, timeout_s: float = 5.0) -> None:
        """Wait until everything that was printed is logged. Call it when the processes that print have ended.

        Args:
            timeout_s: how many seconds to wait, at most.
        """
        self._thread.join(timeout_s)

    def _listen(self, read: int) -> None:
        with os.fdopen(read, encoding="utf-8", errors="replace", newline="\n") as output:
            for text in output:
                if text.startswith(_CAUSE):
                    self.cause = text.removeprefix(_CAUSE).strip()[:_CHARACTERS]
                line = heard(text)
                if line is not None:
                    about = {"logger": line.logger} if line.logger else {}
                    getattr(log, line.level)(SPARK_SAID, said=line.text, **about)
