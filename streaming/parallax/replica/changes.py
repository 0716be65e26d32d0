"""The only requests that change anything on a cluster: settings of topics, and end markers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeClusterRequest, IncrementalAlterConfigsRequest
from kafka.protocol.producer.transaction import WriteTxnMarkersRequest

from parallax.model import MissingRight, TopicPartition
from parallax.replica import versions
from parallax.replica.errors import Unauthorized, from_code
from parallax.replica.requests import Request, left_out

_TOPIC = 2
"""DescribeConfigs' resource type (``ConfigResource.Type``)."""
_SET, _DELETE = 0, 1
_CLUSTER_REFUSED = 31
_ALTER, _CLUSTER_ACTION = 7, 9
"""Their codes in ``org.apache.kafka.common.acl.AclOperation``."""
MARKER_RIGHTS = "ALTER (or CLUSTER_ACTION) on the cluster"
"""The right that an end marker needs (``KafkaApis.handleWriteTxnMarkersRequest``)."""


class EndMarker(NamedTuple):
    """An end marker that is to be written.

    Attributes:
        place: the partition.
        producer_id: the producer whose transaction it ends.
        producer_epoch: the leader refuses an epoch lower than the one that it remembers for the producer.
        coordinator_epoch: the leader refuses a lower one here as well; -1 where the leader remembers none.
        is_commit: whether it is a COMMIT; otherwise it is an ABORT.
    """

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


def alter_configs(topic: str, settings: Mapping[str, str | None]) -> Request:
    """Change settings of a topic (KIP-339); None removes the topic's own value."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        resource.AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
        for name, value in settings.items()
    ]
    resources = [resource(resource_type=_TOPIC, resource_name=topic, configs=configs)]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    return Request(request, versions.INCREMENTAL_ALTER_CONFIGS)


def check_altered(topic: str, response: Any) -> None:
    """Check the response to a change of settings.

    Raises:
        ReplicaError: the change was refused.
    """
    for answer in response.responses:
        if answer.error_code:
            detail = answer.error_message or ""
            raise from_code(answer.error_code, topic=topic, detail=detail, needs=MissingRight.ALTER_CONFIGS)


def write_end_marker(marker: EndMarker) -> Request:
    """Write an end marker (WriteTxnMarkers, as a transaction coordinator sends it); only the leader accepts it."""
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
    """Check the response to an end marker.

    Raises:
        ReplicaError: it was refused.
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


def cluster_operations() -> Request:
    """Ask what may be done with the cluster (KIP-700); `may_write_end_markers_of` reads the answer."""
    message = DescribeClusterRequest(include_cluster_authorized_operations=True)
    return Request(message, versions.DESCRIBE_CLUSTER)


def may_write_end_markers_of(response: Any) -> bool | None:
    """Whether ALTER or CLUSTER_ACTION on the cluster is granted.

    None where DESCRIBE on the cluster is missing, so that nobody says.
    """
    if response.error_code or not response.authorized_operations:
        return None
    return not {_ALTER, _CLUSTER_ACTION}.isdisjoint(response.authorized_operations)


__all__ = [
    "MARKER_RIGHTS",
    "EndMarker",
    "alter_configs",
    "check_altered",
    "check_written",
    "cluster_operations",
    "may_write_end_markers_of",
    "write_end_marker",
]
