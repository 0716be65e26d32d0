"""Reads Kafka's indexes of aborted transactions from a broker's disk; shares nothing with Parallax.

The format is that of Kafka's AbortedTxn: entries of 34 bytes, the numbers in network order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_ENTRY = struct.Struct(">hqqqq")


class Entry(NamedTuple):
    """An aborted transaction: its producer id, its first offset, its end marker, and where the first open one began."""

    producer_id: int
    first: int
    last: int
    stable: int


def entries(folder: Path) -> list[Entry]:
    """The entries of all indexes in a partition's folder, in the order of the offsets.

    A segment that is being replaced, or was deleted meanwhile, is left out.
    """
    found: list[Entry] = []
    for file in sorted(folder.glob("*.txnindex")):
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            continue
        whole = len(data) - len(data) % _ENTRY.size
        found += [Entry(*one[1:]) for one in _ENTRY.iter_unpack(data[:whole])]
    return found


def hidden(found: Sequence[Entry]) -> list[Entry]:
    """The transactions that a search may miss, because it may end at an entry before: one that names a later offset.

    TransactionIndex.collectAbortedTxns ends at the first entry whose last stable offset is not below the end of what is
    asked for. Kafka means this offset to be below all transactions that are in the log and not in the index yet.
    """
    return [one for at, one in enumerate(found) if any(before.stable > one.first for before in found[:at])]
