from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.protocol.admin import DescribeClusterResponse

from parallax.model import TopicPartition
from parallax.replica.changes import (
    EndMarker,
    check_written,
    may_write_end_markers_of,
    write_end_marker,
)
from parallax.replica.errors import NotHosted, ReplicaError, Unauthorized

MARKER = EndMarker(TopicPartition("orders", 3), 7, 2, -1, is_commit=True)


def answer(code: int, partition: int = 3) -> SimpleNamespace:
    part = SimpleNamespace(partition_index=partition, error_code=code)
    topic = SimpleNamespace(name="orders", partitions=[part])
    return SimpleNamespace(markers=[SimpleNamespace(producer_id=7, topics=[topic])])


def test_an_end_marker_is_asked_for_as_a_coordinator_does() -> None:
    request = write_end_marker(MARKER)
    (sent,) = request.message.markers
    assert (sent.producer_id, sent.producer_epoch, sent.coordinator_epoch, sent.transaction_result) == (7, 2, -1, True)
    (topic,) = sent.topics
    assert (topic.name, list(topic.partition_indexes)) == ("orders", [3])
    assert request.versions.highest == 1, "version 2 has another rule for epochs"


def test_what_became_of_it_is_told_from_a_refusal() -> None:
    check_written(1, MARKER, answer(0))
    with pytest.raises(Unauthorized, match=r"CLUSTER_ACTION\) on the cluster is needed"):
        check_written(1, MARKER, answer(31))
    with pytest.raises(ReplicaError, match=r"error 47 \(InvalidProducerEpoch"):
        check_written(1, MARKER, answer(47))
    with pytest.raises(NotHosted, match="leaves it out"):
        check_written(1, MARKER, answer(0, partition=4))


@pytest.mark.parametrize(
    ("operations", "may"),
    [({7}, True), ({9, 8}, True), ({8}, False), (set(), None), (None, None)],
    ids=["ALTER", "CLUSTER_ACTION", "DESCRIBE alone", "nothing is said", "not asked"],
)
def test_the_right_is_known_where_the_broker_says_what_may_be_done(
    operations: set[int] | None, may: bool | None
) -> None:
    said = DescribeClusterResponse(version=0, authorized_operations=operations)
    said = DescribeClusterResponse.decode(said.encode(), version=0)
    assert may_write_end_markers_of(said) is may
