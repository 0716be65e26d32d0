"""Waits until a condition is true that can be observed, instead of for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from parallax.lab.errors import LabError

T = TypeVar("T")

PATIENCE_S = 300.0
"""Seconds to wait for what comes within seconds, unless it never comes. A machine may be very busy."""
_SELDOM_S = 0.5
_SLOW_S = 2.0


def until(condition: Callable[[], T | None], what: str, *, timeout: float = PATIENCE_S, interval: float = 0.05) -> T:
    """Call a condition again and again until it returns a true value; returns that value.

    Args:
        condition: the condition; a false value or None means not yet.
        what: what is waited for, as words that fit behind "waited for" in an error.
        timeout: seconds before giving up.
        interval: seconds between the first two calls; later it grows to half a second. After a call that took longer,
            as long as that took: who waits must leave what is waited for the time to come about.

    Raises:
        LabError: the time is up.
    """
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        waited = asked - began
        value = condition()
        if value:
            return value
        if waited >= timeout:
            raise LabError(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(max(interval, min(_SELDOM_S, waited / 20), min(_SLOW_S, time.monotonic() - asked)))
