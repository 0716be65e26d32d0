"""How fast probes read the brokers: one token bucket for each broker, shared by all that probe it.

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
    """Slows down everything that reads one broker; a `parallax.replica.reader.Pacing`.

    Over any time t at most ``rate * t`` bytes go through, plus one answer for each thread that reads.

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
        """Bytes that have been read so far."""
        return self._read

    def wait(self) -> None:
        """Return once the bucket allows the next Fetch: all that was read is paid for."""
        with self._lock:
            self._waiting += 1
        try:
            self._bucket.wait()
        finally:
            with self._lock:
                self._waiting -= 1

    def wait_behind(self) -> None:
        """Do the same, but after all that are in `wait`."""
        self._bucket.wait()
        while self._waiting:
            self._sleep(_YIELD_S)
            self._bucket.wait()

    def received(self, size: int) -> None:
        """Take in the size of an answer."""
        with self._lock:
            self._read += size
            self._bucket.take(size)


class Paces:
    """The pace of each broker.

    Args:
        rate: bytes per second from each.
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
        """Return the one pace of a broker; from any thread."""
        with self._lock:
            if broker not in self._paces:
                self._paces[broker] = BrokerPace(self._rate, self._clock, self._sleep)
            return self._paces[broker]

    def read_bytes(self) -> dict[int, int]:
        """Bytes that have been read so far, by broker."""
        with self._lock:
            return {broker: pace.read_bytes for broker, pace in self._paces.items()}


class Counted:
    """The pace of one reading, which also counts its own bytes; a `parallax.replica.reader.Pacing`.

    Args:
        pace: the broker's.
        behind: whether it lets others go first.
    """

    def __init__(self, pace: BrokerPace, *, behind: bool = False) -> None:
        self._pace = pace
        self._behind = behind
        self.read_bytes = 0

    def wait(self) -> None:
        """Return once the next Fetch may be sent."""
        if self._behind:
            self._pace.wait_behind()
        else:
            self._pace.wait()

    def received(self, size: int) -> None:
        """Take in the size of an answer."""
        self.read_bytes += size
        self._pace.received(size)


__all__ = ["BrokerPace", "Counted", "Paces"]
