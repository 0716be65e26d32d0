"""What stands for the hashes of keys and values: unlike numbers for unlike content, and back."""

from __future__ import annotations


def key_halves(key: int) -> tuple[int, int]:
    """The two halves of a key's hash; never both 0, which means a null key."""
    return key + 1, key * 7_919 + 3


def key_of_halves(hi: int, lo: int) -> int | None:
    """The key of a hash; None where it is the hash of none."""
    key = hi - 1
    return key if key_halves(key) == (hi, lo) else None


def content_hash(value: int | None) -> int:
    """The hash over value and headers."""
    return 17 if value is None else value * 1_000_003 + 29


def value_size(value: int | None) -> int:
    """-1 for a tombstone."""
    return -1 if value is None else 8
