"""The records of given keys on one replica: by reading its log, and by what was recorded where the log is long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parallax.findings.answers import ABORTED, KeyShown, MarkerShown, RecordShown
from parallax.model import Outcome, RowKind

Key = tuple[int, int]
"""The two signed halves of a key's hash: high, low."""

_RECORD_OVERHEAD_BYTES = 12


class ScanTooLong(Exception):  # noqa: N818 - it says what happened; it is caught where it is expected
    """A range holds more bytes than one probe may read (findings.max_scan_bytes)."""


@dataclass(frozen=True, slots=True)
class KeyHistory:
    """What the views recorded of keys on the replicas of one partition.

    Attributes:
        offsets: of the records that read_committed showed, by (broker, key), newest first.
    """

    offsets: Mapping[tuple[int, Key], Sequence[int]] = field(default_factory=dict)


HistoryLookup = Callable[[str, int, Sequence[int], Sequence[Key]], KeyHistory]
"""(topic, partition, brokers, keys) -> what was recorded; implemented by parallax.findings.history."""


def records_at(chunk: Any, offsets: Collection[int]) -> list[tuple[RecordShown, Key, bytes | None]]:
    """The records of a chunk at some of its offsets, each with its key (an object per record: for a few only)."""
    wanted = np.isin(chunk.columns.offset, np.fromiter(offsets, np.int64, len(offsets)))
    rows = np.flatnonzero(wanted & (chunk.columns.kind == RowKind.RECORD))
    return [_shown(chunk, row) for row in rows.tolist()]


def markers_at(chunk: Any, offsets: Collection[int]) -> list[MarkerShown]:
    """The end markers of a chunk at some of its offsets."""
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
    key_size = int(columns.key_size[row])
    shown = RecordShown(
        offset=int(columns.offset[row]),
        outcome=Outcome(int(chunk.outcome[row])).name.lower(),
        timestamp=int(columns.timestamp[row]),
        producer_id=int(columns.producer_id[row]),
        producer_epoch=int(columns.producer_epoch[row]),
        leader_epoch=int(columns.leader_epoch[row]),
        key_hash="" if key_size < 0 else f"{_unsigned(key[0]):016x}{_unsigned(key[1]):016x}",
        content_hash=f"{_unsigned(int(columns.content_hash[row])):016x}",
        key_size=key_size,
        value_size=int(columns.value_size[row]),
    )
    return shown, key, None if columns.keys is None else columns.keys[row].as_py()


def _unsigned(half: int) -> int:
    return half & 0xFFFF_FFFF_FFFF_FFFF


class KeyScan:
    """Collects the newest visible record of each of a set of keys while chunks of a log go by in offset order.

    Args:
        keys: the keys to look for.
        max_bytes: how much may go by before `ScanTooLong` is raised.
    """

    def __init__(self, keys: Iterable[Key], max_bytes: int) -> None:
        self._keys = set(keys)
        self._lows = np.array(sorted({low for _, low in self._keys}), np.int64)
        self._left = max_bytes
        self.visible: dict[Key, RecordShown] = {}
        self.newest: dict[Key, int] = {}
        self.key_bytes: dict[Key, bytes] = {}

    def add(self, chunk: Any) -> None:
        """Take in one chunk.

        Raises:
            ScanTooLong: more than ``max_bytes`` have gone by.
        """
        columns = chunk.columns
        sizes = np.maximum(columns.key_size, 0).sum() + np.maximum(columns.value_size, 0).sum(dtype=np.int64)
        self._left -= int(sizes) + _RECORD_OVERHEAD_BYTES * len(columns)
        if self._left < 0:
            raise ScanTooLong
        hits = np.isin(columns.key_hash_lo, self._lows) & (columns.kind == RowKind.RECORD)
        for row in np.flatnonzero(hits).tolist():
            shown, key, key_bytes = _shown(chunk, row)
            if key in self._keys:
                self.take(shown, key, key_bytes)

    def take(self, shown: RecordShown, key: Key, key_bytes: bytes | None) -> None:
        """Take in one record of one of the keys."""
        if key_bytes is not None:
            self.key_bytes[key] = key_bytes
        self.newest[key] = max(shown.offset, self.newest.get(key, -1))
        known = self.visible.get(key)
        if shown.outcome != ABORTED and (known is None or known.offset < shown.offset):
            self.visible[key] = shown

    def result(self, *, complete: bool, complete_from: int) -> dict[Key, KeyShown]:
        """What was seen of each key."""
        return {
            key: KeyShown(self.visible.get(key), complete, self.newest.get(key, -1), complete_from)
            for key in self._keys
        }
