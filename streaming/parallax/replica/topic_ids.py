"""Topic ids (KIP-516) in their two forms: bytes and text.

On the wire they are 16 bytes. In texts they are URL-safe base64 without padding, as Kafka prints them.
"""

from __future__ import annotations

import base64
import uuid
from functools import lru_cache

SIZE = 16
"""Bytes of a topic id."""


def text(raw: bytes) -> str:
    """A topic id as text; empty for the zero id, which means that the broker gave none.

    Brokers below 2.8 have no topic ids. An answer that reports an error of a topic may have none either.
    """
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else ""


@lru_cache(maxsize=65_536)
def of(text: str) -> uuid.UUID:
    """The topic id that a text denotes.

    Raises:
        ValueError: the text is no topic id.
    """
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


__all__ = ["SIZE", "of", "text"]
