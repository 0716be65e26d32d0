"""A *look*: what a broker answered about one replica at one moment, made from a row of ``replica_progress``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from parallax.model import TopicPartition
from parallax.moments import milliseconds

UNLED = -1
"""The leader's id, and the leader epoch, of a partition that has no leader."""


class Look(NamedTuple):
    """What a broker answered about one replica at one moment, and the metadata of that moment.

    Attributes:
        broker: id of the broker that has the replica.
        at_ms: when the answer came, milliseconds since 1970 UTC.
        high_watermark: the replica's own high watermark; None if it did not answer.
        log_end_offset: the replica's log end offset; None if it did not answer.
        leader: id of the partition's leader; -1 (`UNLED`) if it has none.
        leader_epoch: the epoch in which it leads; -1 (`UNLED`) if it is not known.
        isr: ids of the brokers in sync.
        replicas: ids of the brokers that hold the partition, the preferred leader first.
        topic_id: Kafka's id of the topic; empty if it is not known.
        policy: the topic's ``cleanup.policy``; None if it is not known.
        policy_at_ms: when the topic's settings were asked for, milliseconds since 1970 UTC; None if they are not known.
        retention_ms: the topic's ``delete.retention.ms``; None if it is not known.
    """

    place: TopicPartition
    broker: int
    at_ms: int
    high_watermark: int | None
    log_end_offset: int | None
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    topic_id: str
    policy: str | None
    policy_at_ms: int | None
    retention_ms: int | None

    @classmethod
    def of_row(cls, row: Mapping[str, Any], not_after_ms: int) -> Look:
        """Make a look from a row of ``replica_progress``. A time after the row's arrival counts as its arrival.

        Args:
            row: a row of ``replica_progress``.
            not_after_ms: when the row arrived, milliseconds since 1970 UTC.
        """
        has_answered = bool(row["reachable"])
        policy_at = row.get("policy_at")
        return cls(
            TopicPartition(str(row["topic"]), int(row["partition"])),
            int(row["broker"]),
            min(_milliseconds(row["observed_at"]), not_after_ms),
            row["high_watermark"] if has_answered else None,
            row["log_end_offset"] if has_answered else None,
            UNLED if row.get("leader") is None else int(row["leader"]),
            UNLED if row.get("leader_epoch") is None else int(row["leader_epoch"]),
            tuple(row.get("isr") or ()),
            tuple(row.get("replicas") or ()),
            row.get("topic_id") or "",
            row.get("cleanup_policy"),
            None if policy_at is None else min(_milliseconds(policy_at), not_after_ms),
            row.get("delete_retention_ms"),
        )


class Ended(NamedTuple):
    """One observation that the log of a partition's leader ended at an offset or below.

    Attributes:
        topic_id: Kafka's id of the topic.
        at_ms: when it was seen, milliseconds since 1970 UTC.
        log_end_offset: the offset.
    """

    place: TopicPartition
    topic_id: str
    at_ms: int
    log_end_offset: int


def _milliseconds(at: Any) -> int:
    """A time of a row: a datetime, or microseconds since 1970 UTC."""
    return milliseconds(at) if isinstance(at, datetime) else int(at) // 1000


__all__ = ["UNLED", "Ended", "Look"]
