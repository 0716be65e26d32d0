"""Runs calls to brokers in threads of each broker, and remembers which brokers do not answer.

So a broker that hangs delays calls to no other broker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Lanes:
    """Runs calls to brokers; each broker has a few threads, started with the first call to it.

    Args:
        width: how many calls to one broker run at the same time; further calls wait.
        name: what the threads are called.
    """

    def __init__(self, width: int, name: str) -> None:
        self._width = width
        self._name = name
        self._lock = threading.Lock()
        self._lanes: dict[int, ThreadPoolExecutor] = {}
        self._closed = False

    def submit(self, broker: int, work: Callable[[], T]) -> Future[T]:
        """Run a call to a broker in one of that broker's threads; returns the future of its result.

        Args:
            broker: the broker's id.
            work: makes the call.

        Raises:
            RuntimeError: the lanes are closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            if broker not in self._lanes:
                self._lanes[broker] = ThreadPoolExecutor(self._width, thread_name_prefix=f"{self._name}-{broker}")
            return self._lanes[broker].submit(work)

    def close(self) -> None:
        """Accept no more calls, and drop the calls that have not begun."""
        with self._lock:
            self._closed = True
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.shutdown(wait=False, cancel_futures=True)


class Silence:
    """Remembers which brokers did not answer in time, so that callers do not wait for a dead broker again and again.

    For ``pause_s`` seconds nobody may ask a silent broker. Then one caller may try it, and for all others the pause
    begins again.

    Args:
        pause_s: how long a broker is left alone after each time that it did not answer.
        clock: monotonic seconds, for tests.
    """

    def __init__(self, pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._pause_s = pause_s
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[int, float] = {}
        self._until: dict[int, float] = {}

    def of(self, broker: int) -> float | None:
        """Return for how many seconds a broker has been silent; None if the caller may ask it now."""
        with self._lock:
            now = self._clock()
            since = self._since.get(broker)
            if since is None:
                return None
            if now >= self._until[broker]:
                self._until[broker] = now + self._pause_s  # the caller that asks now tries it for all
                return None
            return now - since

    def heard(self, broker: int) -> None:
        """Note that a broker has answered, so that it counts as silent no longer."""
        with self._lock:
            self._since.pop(broker, None)
            self._until.pop(broker, None)

    def timed_out(self, broker: int) -> None:
        """Note that a broker has not answered in time, so that it is left alone for a while."""
        with self._lock:
            now = self._clock()
            self._since.setdefault(broker, now)
            self._until[broker] = now + self._pause_s


__all__ = ["Lanes", "Silence"]
