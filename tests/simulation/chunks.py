"""Seeds in chunks, by the names that tests have of them."""

from __future__ import annotations

CHUNK = 100


def name(first: int) -> str:
    return f"seeds-{first}-to-{first + CHUNK - 1}"
