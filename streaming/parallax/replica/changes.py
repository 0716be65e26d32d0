"""All requests with which Parallax ever changes anything on a cluster; other modules only read.

They change settings of topics, write end markers, reassign partitions, and elect preferred leaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from parallax.model import MissingRight, TopicPartition
from parallax.replica import versions
from parallax.replica.errors import Unauthorized, from_code
from parallax.replica.requests import Request, left_out

_TOPIC = 2
"""DescribeConfigs' resource type (``ConfigResource.Type``)."""
_SET, _DELETE = 0, 1
_CLUSTER_REFUSED = 31
_PREFERRED = 0
"""``ElectionType``: the replica that comes first in the assignment."""
_NOT_YET = frozenset({80, 83})
"""``PREFERRED_LEADER_NOT_AVAILABLE`` and ``ELIGIBLE_LEADERS_NOT_AVAILABLE``: it is not in sync yet."""
_NOT_NEEDED = 84
"""``ELECTION_NOT_NEEDED``: it leads already."""
_NOT_UNDER_WAY = 85
"""``NO_REASSIGNMENT_IN_PROGRESS``: what was to be cancelled is complete."""
_ALTER, _CLUSTER_ACTION, _DESCRIBE_CONFIGS = 7, 9, 10
"""Their codes in ``org.apache.kafka.common.acl.AclOperation``."""
_ALTER_MARKS_SINCE = (3, 8)
"""The first version of Kafka in which ALTER is enough to write an end marker (KIP-1037)."""
MARKER_RIGHTS = "CLUSTER_ACTION on the cluster (or ALTER, from Kafka 3.8 on)"
"""The permission that writing an end marker needs (``KafkaApis.handleWriteTxnMarkersRequest``)."""

MOVE_RIGHTS = "ALTER on the cluster"
"""The permission that reassignments and elections need (``ControllerApis.handleAlterPartitionReassignments``). It
implies DESCRIBE, which is enough to list reassignments."""
RATE_RIGHT = "DESCRIBE_CONFIGS on the cluster"
"""What is needed to ask how far brokers throttle copies."""


class EndMarker(NamedTuple):
    """An end marker for the leader of a partition to write: COMMIT or ABORT for a producer's open transaction.

    Attributes:
        place: the partition.
        producer_id: the producer whose transaction it ends.
        producer_epoch: the producer's epoch; the leader refuses one lower than the one that it remembers.
        coordinator_epoch: the coordinator's epoch; the leader refuses one lower than the one that it remembers. Write
            -1 if the leader remembers none.
        is_commit: whether it is a COMMIT; otherwise it is an ABORT.
    """

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


def alter_configs(topic: str, settings: Mapping[str, str | None]) -> Request:
    """Make the request that changes settings of a topic (IncrementalAlterConfigs, KIP-339).

    Args:
        topic: the topic's name.
        settings: the new value of each setting, by the setting's name; None removes the topic's own value.
    """
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in settings.items()
    ]
    resources = [resource(resource_type=_TOPIC, resource_name=topic, configs=configs)]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    return Request(request, versions.INCREMENTAL_ALTER_CONFIGS)


def check_altered(topic: str, response: Any) -> None:
    """Check the response to `alter_configs`.

    Args:
        topic: the topic's name, for the error.
        response: the response.

    Raises:
        ReplicaError: the broker refused the change.
    """
    for answer in response.responses:
        if answer.error_code:
            detail = answer.error_message or ""
            raise from_code(answer.error_code, topic=topic, detail=detail, needs=MissingRight.ALTER_CONFIGS)


def write_end_marker(marker: EndMarker) -> Request:
    """Make the request that writes an end marker (WriteTxnMarkers). Only the partition's leader accepts it."""
    kind = WriteTxnMarkersRequest.WritableTxnMarker
    topic = kind.WritableTxnMarkerTopic(name=marker.place.topic, partition_indexes=[marker.place.partition])
    written = kind(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        topics=[topic],
    )
    return Request(WriteTxnMarkersRequest(markers=[written]), versions.WRITE_TXN_MARKERS)


def check_written(broker: int, marker: EndMarker, response: Any) -> None:
    """Check the response to `write_end_marker`.

    Args:
        broker: id of the leader that answered, for the error.
        marker: the marker that the leader was asked to write.
        response: the response.

    Raises:
        ReplicaError: the leader refused to write the marker.
    """
    codes = [
        partition.error_code
        for answer in response.markers
        for topic in answer.topics
        for partition in topic.partitions
        if (topic.name, partition.partition_index) == marker.place
    ]
    if not codes:
        raise left_out(broker, *marker.place)
    code = next(filter(None, codes), 0)
    if code == _CLUSTER_REFUSED:
        problem = f"not authorized: {MARKER_RIGHTS} is needed; grant it with kafka-acls.sh, or use other credentials"
        raise Unauthorized(problem, missing=MissingRight.CLUSTER, broker=broker)
    if code:
        raise from_code(code, broker=broker, topic=marker.place.topic, partition=marker.place.partition)


def reassign(place: TopicPartition, replicas: Sequence[int] | None) -> Request:
    """Make the request that reassigns a partition to exactly the given brokers, or cancels that (KIP-455).

    If another reassignment of the partition is under way, this one replaces it.

    Args:
        place: the partition.
        replicas: ids of the brokers, the preferred leader first; None to cancel what is under way.
    """
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = topic.ReassignablePartition(partition_index=place.partition, replicas=replicas and list(replicas))
    wanted = topic(name=place.topic, partitions=[part])
    return Request(AlterPartitionReassignmentsRequest(topics=[wanted]), versions.ALTER_PARTITION_REASSIGNMENTS)


def check_reassigned(place: TopicPartition, response: Any) -> None:
    """Check the response to `reassign`.

    Raises:
        ReplicaError: the reassignment, or its cancellation, was refused.
    """
    parts = [part for topic in response.responses for part in topic.partitions]
    for answer in (response, *parts):
        _check_moved(0 if answer.error_code == _NOT_UNDER_WAY else answer.error_code, answer.error_message, place)


def elect(place: TopicPartition) -> Request:
    """Make the request that elects a partition's preferred leader (KIP-460)."""
    kind = ElectLeadersRequest.TopicPartitions
    wanted = [kind(topic=place.topic, partitions=[place.partition])]
    return Request(ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=wanted), versions.ELECT_LEADERS)


def check_elected(place: TopicPartition, response: Any) -> bool:
    """Whether the preferred leader leads now, by the response to `elect`; False if it is not in sync yet.

    Args:
        place: the partition.
        response: the response.

    Raises:
        ReplicaError: the election was refused.
    """
    parts = [part for topic in response.replica_election_results for part in topic.partition_result]
    if any(part.error_code in _NOT_YET for part in parts):
        return False
    _check_moved(response.error_code, "", place)
    for part in parts:
        _check_moved(0 if part.error_code == _NOT_NEEDED else part.error_code, part.error_message, place)
    return True


def _check_moved(code: int, detail: str | None, place: TopicPartition) -> None:
    if code == _CLUSTER_REFUSED:
        problem = f"not authorized: {MOVE_RIGHTS} is needed; grant it with kafka-acls.sh, or use other credentials"
        raise Unauthorized(problem, missing=MissingRight.CLUSTER)
    if code:
        raise from_code(code, topic=place.topic, partition=place.partition, detail=detail or "")


def cluster_operations() -> Request:
    """Make the request for what the user may do on the cluster (KIP-700); `may_repair_of` reads the answer."""
    message = DescribeClusterRequest(include_cluster_authorized_operations=True)
    return Request(message, versions.DESCRIBE_CLUSTER)


class MayRepair(NamedTuple):
    """Which steps of a repair the user has permission to make on this cluster.

    Attributes:
        mark: whether the user may write end markers.
        move: whether the user may reassign partitions, and elect leaders.
        rates: whether the user may ask how far brokers throttle copies, which a copy needs where a throttle is set.
    """

    mark: bool
    move: bool
    rates: bool = False


def may_repair_of(response: Any, oldest: tuple[int, ...]) -> MayRepair | None:
    """The user's permissions on the cluster that a repair needs, from the response to `cluster_operations`.

    Args:
        response: the response.
        oldest: the lowest Kafka version among the brokers, e.g. (3, 7); from 3.8 on, ALTER is enough to write end
            markers.

    Returns:
        The permissions; None if the user lacks DESCRIBE on the cluster, because brokers then do not say.
    """
    granted = response.authorized_operations
    if response.error_code or not granted:
        return None
    mark = _CLUSTER_ACTION in granted or (_ALTER in granted and oldest >= _ALTER_MARKS_SINCE)
    return MayRepair(mark, _ALTER in granted, _DESCRIBE_CONFIGS in granted)


__all__ = [
    "MARKER_RIGHTS",
    "MOVE_RIGHTS",
    "RATE_RIGHT",
    "EndMarker",
    "MayRepair",
    "alter_configs",
    "check_altered",
    "check_elected",
    "check_reassigned",
    "check_written",
    "cluster_operations",
    "elect",
    "may_repair_of",
    "reassign",
    "write_end_marker",
]
