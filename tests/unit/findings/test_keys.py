"""Looking for keys in chunks of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from parallax.findings import keys
from parallax.findings.keys import KeyScan, markers_at, records_at
from parallax.model import Outcome, RowKind

KEY = (-1, 5)
SAME_LOW = (9, 5)


@dataclass
class Columns:
    kind: Any
    offset: Any
    key_hash_hi: Any
    key_hash_lo: Any
    key_size: Any
    value_size: Any
    producer_id: Any
    producer_epoch: Any
    leader_epoch: Any
    timestamp: Any
    content_hash: Any
    keys: Any

    def __len__(self) -> int:
        return len(self.offset)


@dataclass
class Chunk:
    columns: Columns
    outcome: Any


def chunk(*rows: tuple[int, tuple[int, int], Outcome, int], kind: RowKind = RowKind.RECORD) -> Chunk:
    """Rows of (offset, key, outcome, value size)."""
    n = len(rows)
    same = np.full(n, 7, np.int64)
    columns = Columns(
        kind=np.full(n, int(kind), np.int8),
        offset=np.array([r[0] for r in rows], np.int64),
        key_hash_hi=np.array([r[1][0] for r in rows], np.int64),
        key_hash_lo=np.array([r[1][1] for r in rows], np.int64),
        key_size=np.full(n, 3, np.int32),
        value_size=np.array([r[3] for r in rows], np.int32),
        producer_id=same,
        producer_epoch=same.astype(np.int16),
        leader_epoch=same.astype(np.int32),
        timestamp=same,
        content_hash=-same,
        keys=pa.array([b"key"] * n),
    )
    return Chunk(columns, np.array([int(r[2]) for r in rows], np.int8))


def test_the_newest_record_that_is_not_aborted_is_visible() -> None:
    scan = KeyScan([KEY])
    scan.add(chunk((1, KEY, Outcome.NONE, 4), (3, KEY, Outcome.COMMITTED, 5), (5, KEY, Outcome.ABORTED, 6)))
    assert (scan.visible[KEY].offset, scan.visible[KEY].value_size, scan.newest[KEY]) == (3, 5, 5)
    assert scan.visible[KEY].key_hash == "ffffffffffffffff0000000000000005"
    assert scan.key_bytes[KEY] == b"key"
    assert scan.offsets == {KEY: [1, 3, 5]}


def test_a_tombstone_is_visible() -> None:
    scan = KeyScan([KEY])
    scan.add(chunk((1, KEY, Outcome.NONE, 4), (3, KEY, Outcome.NONE, -1)))
    assert (scan.visible[KEY].offset, scan.visible[KEY].value_size) == (3, -1)


def test_a_key_is_known_by_both_halves_of_its_hash() -> None:
    scan = KeyScan([KEY])
    scan.add(chunk((1, SAME_LOW, Outcome.NONE, 4)))
    assert (scan.visible, scan.newest, scan.offsets) == ({}, {}, {})


def test_of_a_key_with_very_many_records_the_newest_are_kept_and_it_is_said_from_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "_KEPT", 3)
    scan = KeyScan([KEY])
    for offset in range(10):
        scan.add(chunk((offset, KEY, Outcome.NONE, 4)))
    kept = scan.offsets[KEY]
    assert kept[-3:] == [7, 8, 9]
    assert kept == list(range(scan.floors[KEY], 10))


def test_records_and_markers_are_picked_by_offset() -> None:
    rows = chunk((1, KEY, Outcome.NONE, 4), (3, KEY, Outcome.ABORTED, 5))
    assert [(r.offset, r.outcome) for r, _, _ in records_at(rows, {3, 8})] == [(3, "aborted")]
    assert markers_at(rows, {1, 3}) == []
    markers = chunk((4, (0, 0), Outcome.NONE, -1), kind=RowKind.ABORT)
    assert [(m.offset, m.producer_id, m.type) for m in markers_at(markers, {4})] == [(4, 7, "abort")]
    assert records_at(markers, {4}) == []
