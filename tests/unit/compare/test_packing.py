"""Rows of the tables, packed for the shuffle and unpacked again."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from parallax.compare.observations import EVENT_CODE, Observations, topic_id_code
from parallax.compare.packing import PROGRESS_COLUMNS, VIEW_COLUMNS, pack, pack_progress, pack_views, unpack
from parallax.compare.results import from_json, to_json
from parallax.model import ReadEvent
from tests.unit.compare.history import Comparison, both, everywhere, record, tick


def same(left: Observations, right: Observations) -> bool:
    return all(
        np.array_equal(getattr(getattr(left, part), f.name), getattr(getattr(right, part), f.name))
        for part in ("rows", "progress", "open_transactions", "replica_sets")
        for f in fields(getattr(left, part))
    )


def test_observations_survive_packing() -> None:
    rows = [*both(1, [record(0, "K", "V"), record(1, None, None)], 2), *tick(5, everywhere(2), open={1: [(9, 0)]})]
    observed = Observations.of("t", 3, rows)
    assert same(unpack("t", 3, pack(observed)), observed)


def test_bytes_that_were_not_packed_are_refused() -> None:
    with pytest.raises(ValueError, match="packed observations"):
        unpack("t", 0, pack(Observations("t", 0)) + b"x")


def view_batch() -> pa.RecordBatch:
    rows = []
    for topic, partition in (("a", 0), ("b", 1), ("a", 0), ("a", 1)):
        row = dict.fromkeys(VIEW_COLUMNS, 0) | {"topic": topic, "partition": partition, "offset": len(rows)}
        rows.append(row | {"high_watermark": None, "last_stable_offset": None, "log_start_offset": None})
        rows[-1] |= {"event": None, "topic_id": None}
    rows[-1] |= {"kind": 3, "high_watermark": 7, "event": "log_truncated", "topic_id": "abc"}
    text = ("topic", "event", "topic_id")
    schema = pa.schema([(name, pa.string() if name in text else pa.int64()) for name in VIEW_COLUMNS])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def test_views_are_packed_by_partition_in_their_order() -> None:
    (batch,) = pack_views([view_batch()])
    packed = {
        (r["topic"], r["partition"]): unpack(r["topic"], r["partition"], r["packed"]).rows for r in batch.to_pylist()
    }
    assert {key: rows.offset.tolist() for key, rows in packed.items()} == {
        ("a", 0): [0, 2],
        ("b", 1): [1],
        ("a", 1): [3],
    }
    told = packed["a", 1]
    assert told.high_watermark.tolist() == [7]
    assert told.event.tolist() == [EVENT_CODE[ReadEvent.LOG_TRUNCATED]]
    assert told.topic_id.tolist() == [topic_id_code("abc")]
    assert packed["a", 0].high_watermark.tolist() == [-1, -1]
    assert packed["a", 0].topic_id.tolist() == [0, 0]


def test_progress_tells_no_open_transaction_from_an_unknown_list() -> None:
    row = dict.fromkeys(PROGRESS_COLUMNS, 1) | {"topic": "t", "partition": 0, "reachable": True, "replicas": [1, 2]}
    policies = {1: "compact,delete", 2: "delete", 3: None}
    listed = [{"producer_id": 9, "start_offset": 4}]
    rows = [
        row | {"broker": b, "open_transactions": o, "cleanup_policy": policies[b]}
        for b, o in ((1, listed), (2, []), (3, None))
    ]
    transactions = pa.list_(pa.struct([("producer_id", pa.int64()), ("start_offset", pa.int64())]))
    schema = pa.schema(
        [
            (
                name,
                {
                    "topic": pa.string(),
                    "reachable": pa.bool_(),
                    "replicas": pa.list_(pa.int32()),
                    "cleanup_policy": pa.string(),
                }.get(name, pa.int64()),
            )
            for name in PROGRESS_COLUMNS
            if name != "open_transactions"
        ]
    ).append(pa.field("open_transactions", transactions))
    (batch,) = pack_progress([pa.RecordBatch.from_pylist(rows, schema=schema)])
    observed = unpack("t", 0, batch.to_pylist()[0]["packed"])
    assert observed.progress.described.tolist() == [True, True, False]
    assert observed.progress.compacted.tolist() == [1, 0, -1]
    assert observed.open_transactions.producer_id.tolist() == [9]
    assert observed.open_transactions.broker.tolist() == [1]
    assert sorted(set(observed.replica_sets.broker.tolist())) == [1, 2]


def test_suspects_and_coverage_survive_their_text() -> None:
    comparison = Comparison()
    wrong = {**record(0, "K", "V"), "content_hash": 5}
    good = record(0, "K", "V")
    comparison.feed(tick(0, everywhere(1)), both(1, [good], 1), both(2, [wrong], 1), both(3, [good], 1))
    assert comparison.last is not None
    result = comparison.last
    assert len(result.suspects) == 1
    assert from_json(to_json(result.suspects, result.coverage)) == (result.suspects, result.coverage)
