"""Record batches by their headers."""

from __future__ import annotations

import struct


def batch(base: int, last: int, size: int, records: int = 1) -> bytes:
    """A record batch's header (KIP-98) and as many bytes as it says."""
    head = struct.pack(">qiibIhiqqqhii", base, size - 12, 0, 2, 0, 0, last - base, 0, 0, -1, -1, -1, records)
    return head.ljust(size, b"\0")
