"""The time now, and times as text for people. A time may be any 64-bit number, as in a record's timestamp."""

from __future__ import annotations

import time
from datetime import UTC, datetime

FOREVER_MS = 100 * 365 * 86_400_000
"""A hundred years, in milliseconds: a longer retention counts as this one."""


def now_ms() -> int:
    """The time now, milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def today() -> str:
    """The current UTC date as text (ISO 8601)."""
    return datetime.now(UTC).date().isoformat()


def from_milliseconds(value: float) -> datetime:
    """Return ``value``, milliseconds since 1970 UTC, as a datetime in UTC."""
    return datetime.fromtimestamp(value / 1000, UTC)


def moment(text: str) -> datetime:
    """The time that a text names, in UTC, which it is in if the text names no zone.

    A text has a date, or a date and a time, as in ISO 8601 or as Parallax prints them: ``2026-01-02``,
    ``2026-01-02T12:03:05Z``, ``2026-01-02 12:03:05 UTC``.

    Raises:
        ValueError: the text names no time.
    """
    found = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def milliseconds(at: datetime) -> int:
    """Return a time as milliseconds since 1970 UTC. What is finer is dropped.

    Args:
        at: the time; without a zone it is one of this machine's zone.
    """
    return int(at.timestamp() * 1000)


def span_text(seconds: float) -> str:
    """A length of time as text: ``90 s``, ``2.5 h``, ``7 days``.

    The unit is the largest one of which the time has at least two: 119 s are ``119 s``, and 120 s are ``2 min``.

    Args:
        seconds: how long.
    """
    if 0 < seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    units = (("days", 86400), ("h", 3600), ("min", 60))
    unit, length = next(((name, size) for name, size in units if seconds >= 2 * size), ("s", 1))
    value = seconds / length
    return f"{value:,.0f} {unit}" if value >= 10 or value == round(value) else f"{value:.1f} {unit}"


def roughly(seconds: float) -> str:
    """A length of time in whole seconds as text, with the unit of `span_text`; at least ``1 s``."""
    return span_text(max(1, round(seconds)))


def utc_text(at: datetime) -> str:
    """A UTC time as text, to the second: ``2026-01-02 12:03:05Z``."""
    return f"{at:%Y-%m-%d %H:%M:%SZ}"


def time_text(ms: float) -> str:
    """A time as text, to the second: ``2026-01-02 12:03:05 UTC``; outside of the years 1 to 9999 it says so.

    Args:
        ms: milliseconds since 1970 UTC.
    """
    try:
        return f"{from_milliseconds(ms):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{'after the year 9999' if ms > 0 else 'before the year 1'} ({ms} ms)"
