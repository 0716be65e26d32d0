"""Asks which replicas may be elected leader if no replica is in sync: eligible leader replicas (ELR, KIP-966)."""

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
    """Make the request for the partitions of topics with their eligible leader replicas.

    A response may end before the last partition. Then ask again with ``after``.

    Args:
        topics: names of the topics.
        after: where the last response ended (`ended_at`); None for the first request.
    """
    kind = DescribeTopicPartitionsRequest
    cursor = None
    if after is not None:
        cursor = kind.Cursor(topic_name=after.topic_name, partition_index=after.partition_index)
    named = [kind.TopicRequest(name=name) for name in sorted(topics)]
    request = kind(topics=named, response_partition_limit=_TOGETHER, cursor=cursor)
    return Request(request, versions.DESCRIBE_TOPIC_PARTITIONS)


def eligible_of(response: Any) -> dict[TopicPartition, tuple[int, ...]]:
    """The ids of the eligible leader replicas in a response to `describe`, by partition.

    Partitions without any are left out.

    Args:
        response: the response.
    """
    return {
        TopicPartition(topic.name, part.partition_index): tuple(part.eligible_leader_replicas)
        for topic in response.topics
        for part in topic.partitions
        if part.eligible_leader_replicas
    }


def ended_at(response: Any) -> Any:
    """Where a response to `describe` ended, for the next request's ``after``; None if it has all partitions.

    Args:
        response: the response.
    """
    return response.next_cursor


__all__ = ["describe", "eligible_of", "ended_at"]
