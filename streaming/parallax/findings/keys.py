"""Picks records and end markers out of chunks of a log: by offset, or records by key."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from parallax.findings.answers import ABORTED, MarkerShown, RecordShown
from parallax.model import Outcome, RowKind, hash_text

Key = tuple[int, int]
"""The two signed halves of a key's hash: high, low."""

_KEPT = 4096
"""How many offsets of one key a scan keeps."""


def records_at(chunk: Any, offsets: Collection[int]) -> list[tuple[RecordShown, Key, bytes | None]]:
    """Return the records at some offsets of a chunk of a log: (record, hash of its key, its key as bytes).

    They are in the chunk's order; an offset without a record is left out. The bytes are None where keys are not read.
    Use it for a few offsets only: it makes one object for each record.
    """
    wanted = np.isin(chunk.columns.offset, np.fromiter(offsets, np.int64, len(offsets)))
    rows = np.flatnonzero(wanted & (chunk.columns.kind == RowKind.RECORD))
    return [_shown(chunk, row) for row in rows.tolist()]


def markers_at(chunk: Any, offsets: Collection[int]) -> list[MarkerShown]:
    """Return the end markers at some offsets of a chunk of a log, in the chunk's order."""
    columns = chunk.columns
    wanted = np.isin(columns.offset, np.fromiter(offsets, np.int64, len(offsets)))
    ends = (columns.kind == RowKind.COMMIT) | (columns.kind == RowKind.ABORT)
    return [
        MarkerShown(
            offset=int(columns.offset[row]),
            producer_id=int(columns.producer_id[row]),
            type="commit" if columns.kind[row] == RowKind.COMMIT else "abort",
            leader_epoch=int(columns.leader_epoch[row]),
        )
        for row in np.flatnonzero(wanted & ends).tolist()
    ]


def _shown(chunk: Any, row: int) -> tuple[RecordShown, Key, bytes | None]:
    columns = chunk.columns
    key = int(columns.key_hash_hi[row]), int(columns.key_hash_lo[row])
    return record_shown(chunk, row), key, None if columns.keys is None else columns.keys[row].as_py()


def record_shown(chunk: Any, row: int) -> RecordShown:
    """Return the record in one row of a chunk of a log."""
    columns = chunk.columns
    key_size = int(columns.key_size[row])
    return RecordShown(
        offset=int(columns.offset[row]),
        outcome=Outcome(int(chunk.outcome[row])).name.lower(),
        timestamp=int(columns.timestamp[row]),
        producer_id=int(columns.producer_id[row]),
        producer_epoch=int(columns.producer_epoch[row]),
        leader_epoch=int(columns.leader_epoch[row]),
        key_hash="" if key_size < 0 else hash_text(int(columns.key_hash_hi[row]), int(columns.key_hash_lo[row])),
        content_hash=hash_text(int(columns.content_hash[row])),
        key_size=key_size,
        value_size=int(columns.value_size[row]),
    )


class KeyScan:
    """Collects the records of some keys from a log. The caller hands in the log as chunks, in offset order.

    Attributes:
        visible: by key, its newest record that is not aborted.
        newest: by key, the offset of its newest record, aborted or not.
        offsets: by key, the offsets of its newest records, in the order of the log.
        floors: by key whose older offsets were dropped because there were too many: the lowest offset that was kept.
        key_bytes: by hash of the key, the key itself, where keys are read at all.

    Args:
        keys: the keys to look for, each as the two halves of its hash.
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = set(keys)
        self._lows = np.array(sorted({low for _, low in self._keys}), np.int64)
        self.visible: dict[Key, RecordShown] = {}
        self.newest: dict[Key, int] = {}
        self.offsets: dict[Key, list[int]] = {}
        self.floors: dict[Key, int] = {}
        self.key_bytes: dict[Key, bytes] = {}

    def add(self, chunk: Any) -> None:
        """Collect the records of the wanted keys from the next chunk of the log."""
        columns = chunk.columns
        hits = np.isin(columns.key_hash_lo, self._lows) & (columns.kind == RowKind.RECORD)
        for row in np.flatnonzero(hits).tolist():
            shown, key, key_bytes = _shown(chunk, row)
            if key in self._keys:
                self._take(shown, key, key_bytes)

    def _take(self, shown: RecordShown, key: Key, key_bytes: bytes | None) -> None:
        if key_bytes is not None:
            self.key_bytes[key] = key_bytes
        self.newest[key] = max(shown.offset, self.newest.get(key, -1))
        offsets = self.offsets.setdefault(key, [])
        offsets.append(shown.offset)
        if len(offsets) > 2 * _KEPT:
            del offsets[:-_KEPT]
            self.floors[key] = offsets[0]
        known = self.visible.get(key)
        if shown.outcome != ABORTED and (known is None or known.offset < shown.offset):
            self.visible[key] = shown
