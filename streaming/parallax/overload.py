"""Notices that this machine is too busy to start Spark's processes in time, and then delays restarts of queries.

A query that fails for this reason is not at fault. One line of the log says so.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from random import Random, SystemRandom

import structlog

from parallax.backoff import backoff

log = structlog.get_logger(__name__)

_SLOW = re.compile(r"Python worker failed to connect back|Timed out while waiting for the Python worker")
"""How Spark says that a process which it has started took too long to answer (``PythonWorkerFactory``)."""

_BUSY = 2.0
"""With so many waiting processes for each core, a start is slow for lack of processor time."""

_FIRST_S, _MOST_S = 5.0, 120.0
_OVER_AFTER_S = 600.0
"""After so many seconds without another overload the next wait is short again. The line is logged no more often."""


def load() -> tuple[float, int]:
    """The load average of this machine, and how many cores this process may use, as a tuple.

    The load average is how many processes ran or waited for a core in the last minute, on average.
    """
    return os.getloadavg()[0], len(os.sched_getaffinity(0))


class Overload:
    """Decides whether a query failed at its start for lack of processor time, and how long the next start then waits.

    Args:
        clock: returns monotonic seconds; a test gives its own.
        look: returns load and cores, as `load` does; a test gives its own.
        draw: random numbers that spread the waits; None for the system's.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        look: Callable[[], tuple[float, int]] = load,
        draw: Random | None = None,
    ) -> None:
        self._clock = clock
        self._look = look
        self._draw = draw or SystemRandom()
        self._in_a_row = 0
        self._until = self._last = self._said_at = float("-inf")

    def caused(self, error: str) -> bool:
        """Whether an error of a query means that the machine was too busy to start Spark's processes in time.

        If so, the next start of any query has to wait (`lasts`).
        """
        running, cores = self._look()
        if not _SLOW.search(error) or running < _BUSY * cores:
            return False
        now = self._clock()
        if now >= self._until:  # Those that fail together make one wait.
            self._in_a_row = self._in_a_row + 1 if now - self._last < _OVER_AFTER_S else 1
            self._last = now
            self._until = now + backoff(self._in_a_row, _FIRST_S, _MOST_S, self._draw)
        if now - self._said_at >= _OVER_AFTER_S:
            self._said_at = now
            what = "reading and comparing are late, nothing is lost; give the job more cores, or move other work away"
            log.warning("this machine is too small for the job", load=round(running, 1), cores=cores, what=what)
        return True

    def lasts(self) -> bool:
        """Whether the next start of a query still has to wait because of an overload."""
        return self._clock() < self._until


__all__ = ["Overload", "load"]
