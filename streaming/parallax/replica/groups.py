"""Requests and answers about consumer groups: which groups a broker coordinates, and which offsets they committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest

from parallax.model import TopicPartition
from parallax.replica import versions
from parallax.replica.errors import ReplicaError, from_code
from parallax.replica.requests import Request

REFUSED = 30
"""``GROUP_AUTHORIZATION_FAILED``; checked before a group is looked up (``KafkaApis.handleOffsetFetchRequest``)."""
GROUP_RIGHT = "DESCRIBE on consumer groups"


def list_groups() -> Request:
    """Make the request for the consumer groups that a broker coordinates; `groups_of` reads the answer.

    If the user lacks DESCRIBE on the cluster, the broker lists only groups on which the user has DESCRIBE.
    """
    return Request(ListGroupsRequest(states_filter=[], types_filter=[]), versions.LIST_GROUPS)


def groups_of(broker: int, response: Any) -> list[str]:
    """The ids of the consumer groups that a broker coordinates, sorted, by its response to `list_groups`.

    Args:
        broker: id of the broker, for the error.
        response: the response.

    Raises:
        ReplicaError: the broker refused.
    """
    if response.error_code:
        raise from_code(response.error_code, broker=broker)
    return sorted(group.group_id for group in response.groups)


def fetch_committed(groups: Sequence[str], place: TopicPartition) -> Request:
    """Make the request for the offsets that groups have committed in a partition; send it to their coordinator."""
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = kind.OffsetFetchRequestTopics
    asked = [
        kind(
            group_id=group,
            member_id=None,
            member_epoch=-1,
            topics=[topic(name=place.topic, partition_indexes=[place.partition])],
        )
        for group in groups
    ]
    return Request(OffsetFetchRequest(groups=asked, require_stable=False), versions.OFFSET_FETCH)


def committed_of(broker: int, place: TopicPartition, response: Any) -> dict[str, int | ReplicaError]:
    """The offset that each consumer group has committed in a partition, from the response to `fetch_committed`.

    Args:
        broker: id of the broker that answered, for errors.
        place: the partition.
        response: the response.

    Returns:
        By the group's id, the offset, or the error if the broker refused. Groups that have committed nothing in the
            partition are left out.
    """
    found: dict[str, int | ReplicaError] = {}
    for group in response.groups:
        if group.error_code:
            found[group.group_id] = from_code(group.error_code, broker=broker)
            continue
        for topic in group.topics:
            for part in topic.partitions:
                if TopicPartition(topic.name, part.partition_index) != place:
                    continue
                if part.error_code:
                    found[group.group_id] = from_code(part.error_code, broker=broker, topic=topic.name)
                elif part.committed_offset >= 0:
                    found[group.group_id] = part.committed_offset
    return found


def may_describe_of(response: Any) -> bool:
    """Whether the user has permission to describe the consumer groups of a response to `fetch_committed`.

    The groups need not exist, because a broker checks the permission before it looks for a group.

    Args:
        response: the response.
    """
    return all(group.error_code != REFUSED for group in response.groups)


__all__ = ["GROUP_RIGHT", "committed_of", "fetch_committed", "groups_of", "list_groups", "may_describe_of"]
