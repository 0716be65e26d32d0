"""Limits how fast probes read each broker: all readings of one broker share one limit in bytes per second.

A reading that a verdict waits for comes first. A scan of a whole log takes what is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from parallax.source.pace import TokenBucket

_YIELD_S = 0.05
"""How long a scan waits while probes wait."""


class BrokerPace:
    """The limit for one broker, shared by all threads that read it; a `parallax.replica.reader.Pacing`.

    In any time t the threads read at most ``rate * t`` bytes, plus one answer for each thread.

    Args:
        rate: bytes per second.
        clock: monotonic seconds.
        sleep: waits some seconds; may raise, which ends the reading.
    """

    def __init__(self, rate: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._bucket = TokenBucket(rate, clock, sleep)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._waiting = 0
        self._read = 0

    @property
    def read_bytes(self) -> int:
        """Bytes of the broker's answers that have been read so far."""
        return self._read

    def wait(self) -> None:
        """Wait until the limit allows the next Fetch."""
        with self._lock:
            self._waiting += 1
        try:
            self._bucket.wait()
        finally:
            with self._lock:
                self._waiting -= 1

    def wait_behind(self) -> None:
        """Wait until the limit allows the next Fetch, and no other thread is in `wait`.

        So a reading that can wait lets other readings of the broker go first.
        """
        self._bucket.wait()
        while self._waiting:
            self._sleep(_YIELD_S)
            self._bucket.wait()

    def received(self, size: int) -> None:
        """Count the ``size`` bytes of an answer. The larger it is, the longer the next Fetch waits."""
        with self._lock:
            self._read += size
            self._bucket.take(size)


class Paces:
    """The limits of all brokers: one `BrokerPace` for each, all with the same rate.

    Args:
        rate: bytes per second from each broker.
        clock: monotonic seconds, for tests.
        sleep: waits some seconds; may raise, which ends the reading.
    """

    def __init__(
        self,
        rate: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._paces: dict[int, BrokerPace] = {}

    def of(self, broker: int) -> BrokerPace:
        """Return the limit of one broker, always the same object; may be called from any thread."""
        with self._lock:
            if broker not in self._paces:
                self._paces[broker] = BrokerPace(self._rate, self._clock, self._sleep)
            return self._paces[broker]

    def read_bytes(self) -> dict[int, int]:
        """Return by broker how many bytes have been read so far."""
        with self._lock:
            return {broker: pace.read_bytes for broker, pace in self._paces.items()}


class Counted:
    """One reading of one broker: it keeps to the broker's limit, and counts its own bytes.

    It is a `parallax.replica.reader.Pacing`.

    Args:
        pace: the limit of the broker, which other readings share.
        behind: whether this reading lets other readings of the broker go first.
    """

    def __init__(self, pace: BrokerPace, *, behind: bool = False) -> None:
        self._pace = pace
        self._behind = behind
        self.read_bytes = 0

    def wait(self) -> None:
        """Wait until the broker's limit allows the next Fetch."""
        if self._behind:
            self._pace.wait_behind()
        else:
            self._pace.wait()

    def received(self, size: int) -> None:
        """Count the ``size`` bytes of an answer. The larger it is, the longer the next Fetch waits."""
        self.read_bytes += size
        self._pace.received(size)


__all__ = ["BrokerPace", "Counted", "Paces"]
