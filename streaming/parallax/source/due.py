"""When a streaming source looks at the brokers or tables again: at its interval, and sooner where something is new.

Spark asks a source for its newest offset as soon as the micro-batch before is done. The source waits in that call until
its next look is due. Spark's own trigger is a fixed interval: what came right after a look would wait for the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_S = 1.0
"""How long one call waits, in seconds. Spark cannot stop a query meanwhile."""

BURST_S, BURST_EVERY_S, BURST_AGAIN_S = 5.0, 0.25, 30.0
"""Of a burst of looks, in seconds: how long it is, and the time between looks. Another may begin after the third."""


class Due:
    """Decides when the next look of one source is due.

    Looks are due at whole multiples of the interval. So the sources of a job look at about the same time. If a look
    took longer, the next one is due. In a *burst* looks are due every `BURST_EVERY_S`.

    Args:
        interval_ms: milliseconds from the start of one look to the next; None or 0 if the caller decides when to look.
        wall: returns seconds since 1970 UTC; tests give their own.
        monotonic: returns seconds of a clock that only runs forward; tests give their own.
    """

    def __init__(
        self,
        interval_ms: int | None,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval_s = (interval_ms or 0) / 1000
        self._wall, self._monotonic = wall, monotonic
        self._looked_at: float | None = None
        self._multiple = 0.0
        self._burst_at: float | None = None

    def left_s(self) -> float:
        """How many seconds are left until the next look is due; 0 if it is."""
        if self._looked_at is None or not self._interval_s:
            return 0.0
        now, (multiple, past) = self._monotonic(), divmod(self._wall(), self._interval_s)
        since = now - self._looked_at
        left = max(0.0, self._interval_s - max(since, past)) if multiple == self._multiple else 0.0
        if self._burst_at is not None and now - self._burst_at < BURST_S:
            return max(0.0, min(left, BURST_EVERY_S - since))
        return left

    def hurry(self) -> bool:
        """Begin a burst, because something is new that will soon be followed by more.

        Returns:
            Whether it has begun: not if the last one began less than `BURST_AGAIN_S` ago.
        """
        now = self._monotonic()
        if self._burst_at is not None and now - self._burst_at < BURST_AGAIN_S:
            return False
        self._burst_at = now
        return True

    def wait(self, is_new: Callable[[float], bool]) -> bool:
        """Wait until the next look is due, for `LONGEST_S` at most. What is new begins a burst.

        Args:
            is_new: waits for the given number of seconds at most. It returns whether there is anything new, which ends
                the wait.

        Returns:
            Whether to look now.
        """
        until = self._monotonic() + LONGEST_S
        while (left := self.left_s()) > 0:
            if (most := min(left, until - self._monotonic())) <= 0:
                return False
            if is_new(most):
                self.hurry()
                break
        self._looked_at = self._monotonic()
        self._multiple = self._wall() // self._interval_s if self._interval_s else 0.0
        return True
