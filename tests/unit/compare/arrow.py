"""Arrow batches of views and of progress, as Spark gives them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from parallax.compare.batches import PROGRESS_COLUMNS, VIEW_COLUMNS


def view_batch() -> pa.RecordBatch:
    rows = []
    for topic, partition in (("a", 0), ("b", 1), ("a", 0), ("a", 1)):
        row = dict.fromkeys(VIEW_COLUMNS, 0) | {"topic": topic, "partition": partition, "offset": len(rows)}
        rows.append(row | {"high_watermark": None, "last_stable_offset": None, "log_start_offset": None})
        rows[-1] |= {"event": None, "topic_id": None}
    rows[-1] |= {"kind": 3, "high_watermark": 7, "event": "log_truncated", "topic_id": "abc"}
    return as_views(rows)


def as_views(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    text = ("topic", "event", "topic_id")
    schema = pa.schema([(name, pa.string() if name in text else pa.int64()) for name in VIEW_COLUMNS])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def progress_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
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
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def progress_row(topic: str, partition: int, broker: int, **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(PROGRESS_COLUMNS, 1) | {"reachable": True, "replicas": [1, 2], "open_transactions": None}
    return row | {"cleanup_policy": None, "topic": topic, "partition": partition, "broker": broker} | more
