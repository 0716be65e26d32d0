"""Which replicas are eligible to lead once nobody is in sync (KIP-966). It only asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from parallax.model import TopicPartition
from parallax.replica import versions
from parallax.replica.requests import Request

_TOGETHER = 2_000
"""Partitions in one answer; brokers give no more by default (``max.request.partition.size.limit``)."""


def describe(topics: Sequence[str], after: Any = None) -> Request:
    """Ask for the partitions of topics with their eligible leader replicas.

    Args:
        topics: names, in the order of their names, in which brokers answer.
        after: where an earlier answer ended (`ended_at`).
    """
    kind = DescribeTopicPartitionsRequest
    cursor = None
    if after is not None:
        cursor = kind.Cursor(topic_name=after.topic_name, partition_index=after.partition_index)
    named = [kind.TopicRequest(name=name) for name in sorted(topics)]
    request = kind(topics=named, response_partition_limit=_TOGETHER, cursor=cursor)
    return Request(request, versions.DESCRIBE_TOPIC_PARTITIONS)


def eligible_of(response: Any) -> dict[TopicPartition, tuple[int, ...]]:
    """By partition that has any, the eligible leader replicas."""
    return {
        TopicPartition(topic.name, part.partition_index): tuple(part.eligible_leader_replicas)
        for topic in response.topics
        for part in topic.partitions
        if part.eligible_leader_replicas
    }


def ended_at(response: Any) -> Any:
    """Where an answer ended, if there is more; else None."""
    return response.next_cursor


__all__ = ["describe", "eligible_of", "ended_at"]
