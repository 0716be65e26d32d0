"""A clock that the test moves."""

from __future__ import annotations


class Clock:
    """Seconds; waiting takes none of the test's.

    Attributes:
        slept: how long it was waited for, each time.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait: the clock is so much later."""
        self.slept.append(seconds)
        self.now += seconds
