from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
)

from parallax.model import MissingRight, TopicPartition
from parallax.replica.changes import (
    EndMarker,
    MayRepair,
    check_elected,
    check_reassigned,
    check_written,
    elect,
    may_repair_of,
    reassign,
    write_end_marker,
)
from parallax.replica.errors import NotHosted, ReplicaError, Unauthorized, from_code

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
    with pytest.raises(Unauthorized, match=r"CLUSTER_ACTION on the cluster \(or ALTER, from Kafka 3\.8 on\) is needed"):
        check_written(1, MARKER, answer(31))
    with pytest.raises(ReplicaError, match=r"error 47 \(InvalidProducerEpoch"):
        check_written(1, MARKER, answer(47))
    with pytest.raises(NotHosted, match="leaves it out"):
        check_written(1, MARKER, answer(0, partition=4))


@pytest.mark.parametrize(
    ("operations", "oldest", "may"),
    [
        ({7}, (4, 2), MayRepair(mark=True, move=True)),
        ({7}, (3, 8), MayRepair(mark=True, move=True)),
        ({7}, (3, 7), MayRepair(mark=False, move=True)),
        ({7, 9}, (3, 7), MayRepair(mark=True, move=True)),
        ({7, 8, 10}, (4, 2), MayRepair(mark=True, move=True, rates=True)),
        ({9, 8}, (3, 7), MayRepair(mark=True, move=False)),
        ({8}, (4, 2), MayRepair(mark=False, move=False)),
        (set(), (4, 2), None),
        (None, (4, 2), None),
    ],
    ids=[
        "ALTER",
        "ALTER, 3.8",
        "ALTER, 3.7",
        "both, 3.7",
        "DESCRIBE_CONFIGS too",
        "CLUSTER_ACTION",
        "DESCRIBE",
        "none said",
        "not asked",
    ],
)
def test_the_right_is_known_where_the_broker_says_what_may_be_done(
    operations: set[int] | None, oldest: tuple[int, ...], may: MayRepair | None
) -> None:
    said = DescribeClusterResponse(version=0, authorized_operations=operations)
    said = DescribeClusterResponse.decode(said.encode(), version=0)
    assert may_repair_of(said, oldest) == may


@pytest.mark.parametrize(
    ("needs", "named"),
    [(MissingRight.READ, "DESCRIBE"), (MissingRight.DESCRIBE_CONFIGS, "DESCRIBE_CONFIGS")],
)
def test_what_is_refused_on_the_cluster_names_the_right_that_the_request_needs(needs: MissingRight, named: str) -> None:
    found = from_code(31, broker=1, needs=needs)
    assert isinstance(found, Unauthorized)
    assert (found.missing, found.problem.split(";")[0]) == (
        MissingRight.CLUSTER,
        f"not authorized: {named} on the cluster is needed",
    )


def test_a_partition_is_assigned_in_the_order_that_is_asked_for() -> None:
    (wanted,) = reassign(MARKER.place, [3, 1]).message.topics
    (part,) = wanted.partitions
    assert (wanted.name, part.partition_index, list(part.replicas)) == ("orders", 3, [3, 1])
    (cancelled,) = reassign(MARKER.place, None).message.topics
    assert cancelled.partitions[0].replicas is None, "what is complete stays so"


def moved(code: int, whole: int = 0) -> SimpleNamespace:
    part = SimpleNamespace(partition_index=3, error_code=code, error_message=None)
    topics = [SimpleNamespace(name="orders", partitions=[part], partition_result=[part])]
    return SimpleNamespace(error_code=whole, error_message=None, responses=topics, replica_election_results=topics)


def test_what_became_of_a_reassignment_is_told_from_a_refusal() -> None:
    check_reassigned(MARKER.place, moved(0))
    check_reassigned(MARKER.place, moved(85))
    for refused in (moved(31), moved(0, whole=31)):
        with pytest.raises(Unauthorized, match="ALTER on the cluster is needed"):
            check_reassigned(MARKER.place, refused)
    with pytest.raises(ReplicaError, match=r"error 39 \(InvalidReplicationAssignment"):
        check_reassigned(MARKER.place, moved(39))


@pytest.mark.parametrize(("code", "is_elected"), [(0, True), (84, True), (80, False), (83, False)])
def test_who_leads_already_is_elected_and_who_is_not_in_sync_is_not_yet(code: int, is_elected: bool) -> None:
    assert elect(MARKER.place).message.election_type == 0
    assert check_elected(MARKER.place, moved(code)) is is_elected
    with pytest.raises(Unauthorized, match="ALTER on the cluster is needed"):
        check_elected(MARKER.place, moved(0, whole=31))
