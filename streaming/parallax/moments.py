"""Times that others have set, as text: Kafka's settings and records may name any 64 bits of milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime

FOREVER_MS = 100 * 365 * 86_400_000
"""A hundred years: what is kept for longer is kept for as long as anybody asks."""


def time_text(ms: float) -> str:
    """A time in UTC, to the second; beyond the calendar that goes from the year 1 to 9999 it is said to be so.

    Args:
        ms: milliseconds since 1970 UTC.
    """
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{'after the year 9999' if ms > 0 else 'before the year 1'} ({ms} ms)"
