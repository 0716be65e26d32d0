"""The hashes of keys and contents, as the product takes them of the bytes on the wire; and back to the model's key."""

from __future__ import annotations

from functools import lru_cache

from parallax.replica.decode import ContentHasher
from tests.simulation.batches import content_bytes, key_bytes, value_bytes

HASH_KEY = bytes(range(16))
HASHER = ContentHasher(HASH_KEY)
KEYS = 128
"""Keys are smaller than this."""


@lru_cache(maxsize=KEYS)
def key_halves(key: int | None) -> tuple[int, int]:
    """The two halves of a key's hash; both 0 where it is null."""
    return HASHER.key_hash(key_bytes(key))


@lru_cache(maxsize=1)
def _keys() -> dict[tuple[int, int], int]:
    return {key_halves(key): key for key in range(KEYS)}


def key_of_halves(hi: int, lo: int) -> int | None:
    """The key of a hash; None where it is the hash of none."""
    return _keys().get((hi, lo))


@lru_cache(maxsize=4096)
def content_hash(value: int | None) -> int:
    """The hash over value and headers."""
    return HASHER.content_hash(content_bytes(value))


def key_size(key: int | None) -> int:
    """-1 for a null key."""
    data = key_bytes(key)
    return -1 if data is None else len(data)


def value_size(value: int | None) -> int:
    """-1 for a tombstone."""
    data = value_bytes(value)
    return -1 if data is None else len(data)
