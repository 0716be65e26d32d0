"""How fast probes may read each broker: one limit for a broker, shared by all that read it.

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
    """Limits how fast one broker is read by all threads together; a `parallax.replica.reader.Pacing`.

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
        """Wait as ``wait`` does, but let all threads that are in ``wait`` go first."""
        self._bucket.wait()
        while self._waiting:
            self._sleep(_YIELD_S)
            self._bucket.wait()

    def received(self, size: int) -> None:
        """Count the bytes of an answer: the more there are, the longer the next Fetch waits."""
        with self._lock:
            self._read += size
            self._bucket.take(size)


class Paces:
    """Limits how fast each broker is read: one `BrokerPace` for each.

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
        """Return the limit of one broker, always the same object; may be called from any thread."""
        with self._lock:
            if broker not in self._paces:
                self._paces[broker] = BrokerPace(self._rate, self._clock, self._sleep)
            return self._paces[broker]

    def read_bytes(self) -> dict[int, int]:
        """Bytes that have been read so far, by broker."""
        with self._lock:
            return {broker: pace.read_bytes for broker, pace in self._paces.items()}


class Counted:
    """Limits the speed of one reading of one broker, and counts its bytes; a `parallax.replica.reader.Pacing`.

    Args:
        pace: the limit of the broker, which other readings share.
        behind: whether this reading lets the others go first.
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
        """Count the bytes of an answer: the more there are, the longer the next Fetch waits."""
        self.read_bytes += size
        self._pace.received(size)


__all__ = ["BrokerPace", "Counted", "Paces"]
