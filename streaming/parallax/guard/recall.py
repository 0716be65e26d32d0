"""Restores the guard's clock at the start of the job, from the recorded progress of replicas.

It needs the newest look at each replica, and for absent replicas the looks that give their bounds. A few queries of the
table ``replica_progress`` return only some rows of each absent replica. So a start is fast however long an absence has
lasted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from parallax.guard.clock import Clock
from parallax.guard.looks import Ended, Look
from parallax.model import TopicPartition
from parallax.moments import milliseconds
from parallax.source.repeats import LONGEST_US
from parallax.views.tables import PROGRESS, RECORDED_ON, rust_uri

_PLACE = ("topic", "partition", "broker")
OF_A_LOOK = (
    *_PLACE,
    "observed_at",
    "reachable",
    "high_watermark",
    "log_end_offset",
    "leader",
    "leader_epoch",
    "isr",
    "replicas",
    "topic_id",
    "cleanup_policy",
    "policy_at",
    "delete_retention_ms",
)


def recall(storage: str, clock: Clock, now_ms: int) -> frozenset[TopicPartition]:
    """Restore a clock from the recorded progress of replicas; does nothing if no progress is recorded.

    Returns:
        The partitions of which a replica answered until the recording stopped.

    Args:
        storage: ``storage.path``.
        clock: a clock that has observed nothing yet.
        now_ms: the present, milliseconds since 1970 UTC; a recorded time that is later counts as the present.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    from deltalake import DeltaTable

    uri = rust_uri(storage, PROGRESS)
    if not DeltaTable.is_deltatable(uri):
        return frozenset()
    table = DeltaTable(uri)
    newest = _newest(table)
    if not newest:
        return frozenset()
    absent = [row for row in newest if row["broker"] not in (row["isr"] or ())]
    rows = _last_answers(table, absent) if absent else []
    looks = [Look.of_row(row, now_ms) for row in (*newest, *rows)]
    ends = _ends(table, rows, clock.metadata_ms, now_ms) if rows else []
    clock.recall(_retentions(table, {row["topic"] for row in newest}), ends, looks)
    # The newest row of a replica that is asked never becomes older than that.
    since_ms = max(look.at_ms for look in looks) - LONGEST_US // 1000
    return frozenset(look.place for look in looks if look.high_watermark is not None and look.at_ms >= since_ms)


def _ask(table: Any, query: str) -> list[dict[str, Any]]:
    from deltalake import QueryBuilder

    answer = QueryBuilder().register("progress", table).execute(query)
    rows: list[dict[str, Any]] = pa.table(answer).to_pylist()
    return rows


def _newest(table: Any) -> list[dict[str, Any]]:
    """The newest row of each replica, of the last two dates on which anything was recorded."""
    dates = sorted({str(part[RECORDED_ON]) for part in table.partitions() if part.get(RECORDED_ON)})[-2:]
    if not dates:
        return []
    since = f"{RECORDED_ON} >= '{dates[0]}'"
    query = f"SELECT topic, partition, broker, max(observed_at) AS at FROM progress WHERE {since}"  # noqa: S608 - a date
    return _rows_at(table, query)


def _last_answers(table: Any, absent: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each absent replica in which it answered."""
    values = ", ".join(f"({_quoted(row['topic'])}, {int(row['partition'])}, {int(row['broker'])})" for row in absent)
    query = f"""SELECT q.topic AS topic, q.partition AS partition, q.broker AS broker, max(q.observed_at) AS at
        FROM progress q JOIN (VALUES {values}) AS a(topic, partition, broker)
        ON q.topic = a.topic AND q.partition = a.partition AND q.broker = a.broker WHERE q.reachable"""  # noqa: S608 - numbers and quoted names
    return _rows_at(table, query)


def _rows_at(table: Any, newest: str) -> list[dict[str, Any]]:
    """The rows of the replicas and times that a question gives; what it ends with is added here."""
    columns = ", ".join(f"p.{name} AS {name}" for name in OF_A_LOOK)
    query = f"""SELECT {columns} FROM progress p JOIN ({newest} GROUP BY 1, 2, 3) n
        ON p.topic = n.topic AND p.partition = n.partition AND p.broker = n.broker AND p.observed_at = n.at"""  # noqa: S608 - our own words
    return _ask(table, query)


def _quoted(text: str | None) -> str:
    return "'" + (text or "").replace("'", "''") + "'"


def _ends(table: Any, answers: Sequence[Mapping[str, Any]], metadata_ms: int, now_ms: int) -> list[Ended]:
    """When the leader's log was last seen to end at or below what an absent replica has, in one reading.

    Of the last while of each leader epoch nothing counts: the broker may have been deposed.
    """
    told = [row for row in answers if row["high_watermark"] is not None]
    if not told:
        return []
    values = ", ".join(
        f"({_quoted(row['topic'])}, {int(row['partition'])}, {int(row['high_watermark'])}, {_quoted(row['topic_id'])})"
        for row in told
    )
    query = f"""SELECT p.topic AS topic, p.partition AS partition, a.upto AS upto, a.topic_id AS topic_id,
        p.leader_epoch AS epoch, p.leader AS leader, max(p.observed_at) AS at
        FROM progress p
        JOIN (SELECT DISTINCT * FROM (VALUES {values}) AS v(topic, partition, upto, topic_id)) a
        ON p.topic = a.topic AND p.partition = a.partition
        JOIN (SELECT topic, partition, leader_epoch, max(observed_at) AS last FROM progress GROUP BY 1, 2, 3) e
        ON p.topic = e.topic AND p.partition = e.partition AND p.leader_epoch = e.leader_epoch
        WHERE p.reachable AND p.broker = p.leader AND p.log_end_offset <= a.upto
        AND p.observed_at <= e.last - INTERVAL '{int(metadata_ms)} milliseconds'
        AND coalesce(p.topic_id, '') = a.topic_id GROUP BY 1, 2, 3, 4, 5, 6"""  # noqa: S608 - numbers and quoted names
    # A log that ended below an offset ended at it at most.
    return [
        Ended(
            TopicPartition(row["topic"], row["partition"]),
            row["topic_id"],
            min(milliseconds(row["at"]), now_ms),
            row["upto"],
        )
        for row in _ask(table, query)
    ]


def _retentions(table: Any, topics: set[str]) -> list[tuple[str, int, int]]:
    """Each retention of each topic, when it was first seen in force and when last."""
    query = """SELECT topic, delete_retention_ms AS retention, min(policy_at) AS first, max(policy_at) AS last
        FROM progress WHERE delete_retention_ms IS NOT NULL AND policy_at IS NOT NULL GROUP BY 1, 2"""
    return [
        (row["topic"], milliseconds(at), row["retention"])
        for row in _ask(table, query)
        if row["topic"] in topics
        for at in (row["first"], row["last"])
    ]


__all__ = ["OF_A_LOOK", "recall"]
