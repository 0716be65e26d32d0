"""The columns of the views and of the table of progress, as Spark DDL and as Arrow types.

Spark's Python sources must yield these Arrow types: Spark compares the first record batch of a Spark task with its own
schema, type by type. A test checks that the two forms agree. No Spark is imported here, so code that only reads the
tables may use the names.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from parallax.columns import Column, Table

VIEW_DDL = (
    "topic string, partition int, broker int, kind tinyint, offset bigint, timestamp timestamp, leader_epoch int, "
    "producer_id bigint, producer_epoch int, outcome tinyint, key_hash_hi bigint, key_hash_lo bigint, "
    "content_hash bigint, key_size int, value_size int, "
    "payload struct<key: binary, value: binary, headers: binary>, "
    "position struct<high_watermark: bigint, last_stable_offset: bigint, log_start_offset: bigint, "
    "event: string, detail: string, topic_id: string>, content_version tinyint"
)
"""One row of a view: a record, an end marker or a position of one replica."""

ISOLATION_DDL = ", isolation tinyint"
"""Last column of the source, if ``isolation.level`` is ``both``: which view a row belongs to. No table has it."""

PROGRESS_DDL = (
    "topic string, partition int, broker int, observed_at timestamp, reachable boolean, error string, "
    "high_watermark bigint, last_stable_offset bigint, log_start_offset bigint, log_end_offset bigint, "
    "leader int, leader_epoch int, isr array<int>, replicas array<int>, topic_id string, "
    "open_transactions array<struct<producer_id: bigint, producer_epoch: int, start_offset: bigint, "
    "last_timestamp: bigint, coordinator_epoch: int>>, cleanup_policy string, policy_at timestamp, "
    "delete_retention_ms bigint, problem string, missing_right string"
)
"""One row of progress: what one replica reported of its log at one tick."""

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

VIEWS = Table(
    "read_uncommitted, read_committed",
    "What each replica showed to consumers of one isolation level. One row for each record or end marker, and one "
    "position row for each range that was read. Append-only; rows older than storage.retention_hours go. "
    "With storage.record: differing, a row that was shown alike lies only once, in read_uncommitted if it was shown "
    "there, under the lowest broker id. With storage.record: blocks, rows that all replicas showed alike go as well. "
    "Then the next position row has the event not_kept: no row below it does not mean that there was none. "
    "Partitioned by recorded_on, the UTC date of the recording.",
    (
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("broker", pa.int32(), "Id of the broker that was read."),
        Column(
            "kind",
            pa.int8(),
            "0: record. 1: commit marker. 2: abort marker. 3: position of the reader. 4: an aborted "
            "transaction that the replica lists and holds no record of. 5: an end marker whose batch the "
            "cleaner emptied.",
        ),
        Column("offset", pa.int64(), "Offset of the record or marker. In a position row, the next offset to read."),
        Column("timestamp", TIMESTAMP, "The record's timestamp. In a position row, when it was read."),
        Column(
            "leader_epoch",
            pa.int32(),
            "Leader epoch of the batch. In a position row, of the last batch below it. -1: not known.",
        ),
        Column("producer_id", pa.int64(), "Id of the producer. -1: none."),
        Column("producer_epoch", pa.int32(), "Epoch of the producer. -1: none."),
        Column(
            "outcome",
            pa.int8(),
            "0: not transactional. 1: committed. 2: aborted. 3: undecided, as read_uncommitted reads all transactions.",
        ),
        Column(
            "key_hash_hi",
            pa.int64(),
            "Upper half of the keyed 128-bit hash of the key. Both halves are 0 for a null key.",
        ),
        Column("key_hash_lo", pa.int64(), "Lower half."),
        Column("content_hash", pa.int64(), "Keyed 64-bit hash of value and headers."),
        Column("key_size", pa.int32(), "Size of the key in bytes. -1: null."),
        Column("value_size", pa.int32(), "Size of the value in bytes. -1: null, a tombstone."),
        Column("payload", PAYLOAD, "Key, value and headers, as read.payload allows. Null with hash."),
        Column(
            "position",
            POSITION,
            "Of position rows only: the log's offsets, the event that the reader reports (ok, unreachable, "
            "log_truncated, ...), and the topic id.",
        ),
        Column(
            "content_version",
            pa.int8(),
            "How content_hash was made. Hashes of different versions are never compared. Null: 1.",
        ),
    ),
)
"""The tables of both isolation levels."""
VIEW = VIEWS.schema

ADDED: tuple[str, ...] = ("content_version",)
"""Columns of the views that tables of earlier versions lack; rows of these versions have null there."""

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


TICKS = Table(
    "replica_progress",
    "What each replica said of its log at one moment. Of a run of equal answers only the first and the last are "
    "recorded. Append-only; rows older than storage.retention_hours go. "
    "Partitioned by recorded_on, the UTC date of the recording.",
    (
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("broker", pa.int32(), "Id of the broker that was asked."),
        Column("observed_at", TIMESTAMP, "When it answered."),
        Column("reachable", pa.bool_(), "Whether it answered for this replica. If not, the offsets are null."),
        Column("error", pa.string(), "What went wrong, in words."),
        Column("high_watermark", pa.int64(), "High watermark of the replica."),
        Column("last_stable_offset", pa.int64(), "Last stable offset of the replica."),
        Column("log_start_offset", pa.int64(), "Log start offset."),
        Column("log_end_offset", pa.int64(), "Log end offset."),
        Column("leader", pa.int32(), "Id of the leader's broker."),
        Column("leader_epoch", pa.int32(), "Leader epoch."),
        Column("isr", _nullable_list(pa.int32()), "Ids of the in-sync replicas' brokers."),
        Column("replicas", _nullable_list(pa.int32()), "Ids of all replicas' brokers."),
        Column("topic_id", pa.string(), "Kafka's id of the topic."),
        Column(
            "open_transactions",
            _nullable_list(OPEN_TRANSACTION),
            "Transactions that the replica holds open, each with producer_id, producer_epoch, start_offset, "
            "last_timestamp and coordinator_epoch. Null: not asked.",
        ),
        Column(
            "cleanup_policy",
            pa.string(),
            "The topic's cleanup.policy. Null: not known, DESCRIBE_CONFIGS may be missing.",
        ),
        Column("policy_at", TIMESTAMP, "When the topic's settings were read."),
        Column("delete_retention_ms", pa.int64(), "The topic's delete.retention.ms. Null: not known."),
        Column(
            "problem",
            pa.string(),
            "Why the replica did not answer: unreachable is about the broker, any other event about this replica.",
        ),
        Column("missing_right", pa.string(), "Right that the broker says Parallax lacks, such as read or describe."),
    ),
)
"""The table of progress."""
PROGRESS = TICKS.schema
