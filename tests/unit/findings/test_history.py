from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from parallax.findings.history import RecordedHistory
from parallax.model import Outcome, RowKind

KEY, SAME_LOW = (-1, 5), (9, 5)


def record(offset: int, broker: int = 2, key: tuple[int, int] = KEY, **fields: object) -> dict[str, object]:
    base: dict[str, object] = {
        "topic": "orders",
        "partition": 0,
        "broker": broker,
        "kind": int(RowKind.RECORD),
        "offset": offset,
        "outcome": int(Outcome.NONE),
        "key_hash_hi": key[0],
        "key_hash_lo": key[1],
    }
    return base | fields


def test_recorded_offsets_come_newest_first_by_replica_and_key(tmp_path: Path) -> None:
    rows = [
        record(1),
        record(8),
        record(8),  # recorded twice
        record(4, broker=3),
        record(5, key=SAME_LOW),
        record(9, outcome=int(Outcome.ABORTED)),
        record(10, kind=int(RowKind.COMMIT)),
        record(11, topic="other"),
        record(12, partition=1),
        record(13, broker=1),
    ]
    write_deltalake(str(tmp_path / "read_committed"), pa.Table.from_pylist(rows), partition_by=["broker"])
    found = RecordedHistory(str(tmp_path))("orders", 0, [2, 3], [KEY])
    assert found.offsets == {(2, KEY): [8, 1], (3, KEY): [4]}


def test_a_table_that_is_not_there_is_no_history(tmp_path: Path) -> None:
    assert RecordedHistory(str(tmp_path))("orders", 0, [2], [KEY]).offsets == {}
