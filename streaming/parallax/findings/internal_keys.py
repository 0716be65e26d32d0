"""Says in words what a record's key means in one of Kafka's own topics, e.g. ``__consumer_offsets``.

Parallax reads keys as bytes only if ``read.payload`` allows it.
"""

from __future__ import annotations

import struct

from parallax.output import bytes_as_text

OFFSETS_TOPIC = "__consumer_offsets"
_OFFSET_VERSIONS, _GROUP_VERSION = (0, 1), 2
"""OffsetCommitKey, GroupMetadataKey (group-coordinator's message schemas)."""


def key_in_words(topic: str, key: bytes | None) -> str | None:
    """Return what a key of ``__consumer_offsets`` means, e.g. "the metadata of consumer group billing".

    None for other topics, for keys of an unknown form, and where the key was not read.

    Args:
        topic: the topic's name.
        key: the record's key; None where it was not read.
    """
    if topic != OFFSETS_TOPIC or key is None:
        return None
    try:
        (version,) = struct.unpack_from(">h", key)
        group, at = _text(key, 2)
        if version == _GROUP_VERSION:
            return f"the metadata of consumer group {group}"
        if version not in _OFFSET_VERSIONS:
            return None
        consumed, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
    except (struct.error, UnicodeDecodeError):
        return None
    return f"the offset of consumer group {group} for {consumed}-{partition}"


def key_as_text(key: bytes | None) -> str | None:
    """Return a key as text: decoded where it is UTF-8, else in hexadecimal.

    None where the key was not read.
    """
    return None if key is None else bytes_as_text(key)


def _text(key: bytes, at: int) -> tuple[str, int]:
    """Return a string that follows its length of two bytes, and where it ends."""
    (size,) = struct.unpack_from(">h", key, at)
    (raw,) = struct.unpack_from(f">{size}s", key, at + 2)
    return raw.decode(), at + 2 + size
