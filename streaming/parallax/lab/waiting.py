"""Wait on what can be observed, never for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from parallax.lab.errors import LabError

T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str, *, timeout: float = 30.0, interval: float = 0.05) -> T:
    """Ask again and again until the condition gives a true value, and give that value.

    Args:
        condition: is asked every ``interval`` seconds; false or None means not yet.
        what: what is waited for, as words that fit behind "waited for".
        timeout: seconds before giving up.
        interval: seconds between two askings.

    Raises:
        LabError: the time is up.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise LabError(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(interval)
