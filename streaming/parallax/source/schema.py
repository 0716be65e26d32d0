"""The columns of the views and of progress: Spark DDL, and the Arrow types that Spark's Python sources must yield.

Spark compares the schema of the first record batch of a task with its own, type by type; the two forms below
are held together by a test. No Spark is imported here, so that readers of the tables may use the names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

VIEW_DDL = (
    "topic string, partition int, broker int, kind tinyint, offset bigint, timestamp timestamp, leader_epoch int, "
    "producer_id bigint, producer_epoch int, outcome tinyint, key_hash_hi bigint, key_hash_lo bigint, "
    "content_hash bigint, key_size int, value_size int, "
    "payload struct<key: binary, value: binary, headers: binary>, "
    "position struct<high_watermark: bigint, last_stable_offset: bigint, log_start_offset: bigint, "
    "event: string, detail: string, topic_id: string>, content_version tinyint"
)
"""One row of a view: a record, an end marker or a position of one replica (docs/design.md)."""

ISOLATION_DDL = ", isolation tinyint"
"""Last column of the source alone, where ``isolation.level`` is ``both``: which view the row belongs to."""

PROGRESS_DDL = (
    "topic string, partition int, broker int, observed_at timestamp, reachable boolean, error string, "
    "high_watermark bigint, last_stable_offset bigint, log_start_offset bigint, log_end_offset bigint, "
    "leader int, leader_epoch int, isr array<int>, replicas array<int>, topic_id string, "
    "open_transactions array<struct<producer_id: bigint, producer_epoch: int, start_offset: bigint, "
    "last_timestamp: bigint, coordinator_epoch: int>>, cleanup_policy string, policy_at timestamp, "
    "delete_retention_ms bigint, problem string, missing_right string"
)
"""What one replica said of its log at one tick, without reading records."""

TIMESTAMP: Any = pa.timestamp("us", tz="UTC")
"""Spark's timestamp in Arrow: microseconds since the epoch, in UTC."""

PAYLOAD: Any = pa.struct([("key", pa.binary()), ("value", pa.binary()), ("headers", pa.binary())])

POSITION: Any = pa.struct(
    [
        ("high_watermark", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("event", pa.string()),
        ("detail", pa.string()),
        ("topic_id", pa.string()),
    ]
)

VIEW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("kind", pa.int8()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("outcome", pa.int8()),
        ("key_hash_hi", pa.int64()),
        ("key_hash_lo", pa.int64()),
        ("content_hash", pa.int64()),
        ("key_size", pa.int32()),
        ("value_size", pa.int32()),
        ("payload", PAYLOAD),
        ("position", POSITION),
        ("content_version", pa.int8()),
    ]
)

ADDED: tuple[str, ...] = ("content_version",)
"""Columns of the views that tables of earlier versions lack; what they recorded has null there."""

VIEW_WITH_ISOLATION = VIEW.append(pa.field("isolation", pa.int8()))

OPEN_TRANSACTION: Any = pa.struct(
    [
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("last_timestamp", pa.int64()),
        ("coordinator_epoch", pa.int32()),
    ]
)


def _nullable_list(item: Any) -> Any:
    # Spark names the item of an array "element"; Arrow compares that name as well.
    return pa.list_(pa.field("element", item))


PROGRESS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("observed_at", TIMESTAMP),
        ("reachable", pa.bool_()),
        ("error", pa.string()),
        ("high_watermark", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", _nullable_list(pa.int32())),
        ("replicas", _nullable_list(pa.int32())),
        ("topic_id", pa.string()),
        ("open_transactions", _nullable_list(OPEN_TRANSACTION)),
        ("cleanup_policy", pa.string()),
        ("policy_at", TIMESTAMP),
        ("delete_retention_ms", pa.int64()),
        ("problem", pa.string()),
        ("missing_right", pa.string()),
    ]
)
