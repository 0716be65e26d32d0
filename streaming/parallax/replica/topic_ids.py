"""Converts topic ids (KIP-516) between 16 bytes, as on the wire, and text.

As text they are URL-safe base64 without padding, as Kafka's tools print them.
"""

from __future__ import annotations

import base64
import uuid
from functools import lru_cache

SIZE = 16
"""Bytes of a topic id."""


def text(raw: bytes) -> str:
    """A topic id as text; empty for the id that is all zeros, because that means that the broker gave none.

    Brokers below Kafka 2.8 have no topic ids. An answer that reports an error for a topic may lack one as well.

    Args:
        raw: the 16 bytes of the id.
    """
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else ""


@lru_cache(maxsize=65_536)
def of(text: str) -> uuid.UUID:
    """Read a topic id from its text (`text`).

    Raises:
        ValueError: the text is no topic id.
    """
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


__all__ = ["SIZE", "of", "text"]
