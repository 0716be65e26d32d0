from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from parallax.model import Outcome, ReadEvent, RowKind
from parallax.source import schema
from parallax.source.columns import ROWS, Position, Readers, empty_batch, position_batch, record_batches
from parallax.source.offsets import Reader

READER = Reader(1, 2, "orders-é", 7)
READERS = Readers([READER, Reader(1, 2, "payments", 3)])


def chunk(n: int, *, keys: bool = False) -> SimpleNamespace:
    wide, narrow = np.arange(n, dtype=np.int64), np.arange(n, dtype=np.int32)
    columns = SimpleNamespace(
        kind=np.zeros(n, np.int8),
        offset=wide,
        timestamp=wide,
        leader_epoch=narrow,
        producer_id=wide,
        producer_epoch=np.full(n, 3, np.int16),
        key_hash_hi=wide,
        key_hash_lo=wide,
        content_hash=-wide,
        key_size=narrow,
        value_size=narrow,
        keys=pa.array([b"k%d" % i if i % 2 else None for i in range(n)], pa.binary()) if keys else None,
        values=None,
        headers=None,
    )
    return SimpleNamespace(columns=columns, outcome=np.full(n, Outcome.COMMITTED, np.int8), of=None, marks=[(0, None)])


def test_rows_of_several_partitions_are_named_each_by_its_own() -> None:
    both = chunk(ROWS + 4)
    both.of = np.repeat(np.array([1, 0], np.int64), [ROWS + 1, 3])
    table = pa.Table.from_batches(record_batches(both, READERS, with_isolation=False))
    places = list(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))
    assert places == [("payments", 3)] * (ROWS + 1) + [("orders-é", 7)] * 3


def test_rows_come_in_batches_of_bounded_size_and_keep_their_order() -> None:
    batches = list(record_batches(chunk(2 * ROWS + 5), READERS, with_isolation=False))
    assert [b.num_rows for b in batches] == [ROWS, ROWS, 5]
    table = pa.Table.from_batches(batches)
    assert table["offset"].to_pylist() == list(range(2 * ROWS + 5))
    assert set(table["topic"].to_pylist()) == {"orders-é"}
    assert set(table["partition"].to_pylist()) == {7}
    assert table["payload"].null_count == table["position"].null_count == table.num_rows


def test_batches_have_exactly_the_schema_that_spark_compares() -> None:
    for with_isolation, wanted in ((False, schema.VIEW), (True, schema.VIEW_WITH_ISOLATION)):
        (batch,) = record_batches(chunk(3), READERS, with_isolation=with_isolation)
        assert batch.schema == wanted
        batch.validate(full=True)
        assert empty_batch(with_isolation=with_isolation).schema == wanted
        assert position_batch([position()], with_isolation=with_isolation).schema == wanted


def test_milliseconds_become_microseconds() -> None:
    (batch,) = record_batches(chunk(3), READERS, with_isolation=False)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [0, 1000, 2000]


def test_keys_that_were_asked_for_lie_in_the_payload() -> None:
    batches = list(record_batches(chunk(ROWS + 2, keys=True), READERS, with_isolation=False))
    assert batches[0]["payload"][:2].to_pylist() == [
        {"key": None, "value": None, "headers": None},
        {"key": b"k1", "value": None, "headers": None},
    ]
    assert batches[1]["payload"][1].as_py()["key"] == b"k%d" % (ROWS + 1)


def position() -> Position:
    return Position(READER, 42, 1_700_000_000_000, ReadEvent.UNREACHABLE, "gone", "A", 50, 45, 0)


def test_a_position_row_holds_what_the_replica_said() -> None:
    (row,) = position_batch([position()], with_isolation=True).to_pylist()
    assert row["kind"] == RowKind.POSITION
    assert row["offset"] == 42
    assert row["isolation"] == 1
    assert row["position"] == {
        "high_watermark": 50,
        "last_stable_offset": 45,
        "log_start_offset": 0,
        "event": "unreachable",
        "detail": "gone",
        "topic_id": "A",
    }
