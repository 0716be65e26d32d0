from __future__ import annotations

import pytest
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchResponse

from parallax.model import TopicPartition
from parallax.replica.errors import ReplicaError, Unauthorized
from parallax.replica.groups import committed_of, fetch_committed, groups_of, list_groups, may_describe_of

PLACE = TopicPartition("orders", 0)
GROUP = OffsetFetchResponse.OffsetFetchResponseGroup
TOPIC = GROUP.OffsetFetchResponseTopics
PART = TOPIC.OffsetFetchResponsePartitions


def answered(name: str, code: int = 0, **offsets: tuple[int, int]) -> object:
    """A group's answer: by topic, its committed offset of partition 0 and an error code."""
    topics = [
        TOPIC(name=topic, partitions=[PART(partition_index=0, committed_offset=at, error_code=error)])
        for topic, (at, error) in offsets.items()
    ]
    return GROUP(group_id=name, topics=topics, error_code=code)


def test_what_a_group_has_committed_of_the_partition_is_given_and_of_no_other() -> None:
    response = OffsetFetchResponse(
        groups=[
            answered("a", orders=(42, 0), payments=(7, 0)),
            answered("never", orders=(-1, 0)),
            answered("elsewhere", payments=(7, 0)),
            answered("refused", 30),
            answered("topic-refused", orders=(-1, 29)),
        ]
    )
    found = committed_of(1, PLACE, response)
    assert found["a"] == 42
    assert found.keys() == {"a", "refused", "topic-refused"}
    assert isinstance(found["refused"], Unauthorized)
    assert isinstance(found["topic-refused"], Unauthorized)


@pytest.mark.parametrize(("code", "may"), [(30, False), (0, True), (16, True), (69, True)])
def test_a_group_that_nobody_has_says_whether_groups_may_be_described(code: int, may: bool) -> None:
    assert may_describe_of(OffsetFetchResponse(groups=[answered("x", code)])) is may


def test_a_coordinator_that_refuses_to_list_its_groups_raises() -> None:
    kind = ListGroupsResponse.ListedGroup
    found = ListGroupsResponse(error_code=0, groups=[kind(group_id="b"), kind(group_id="a")])
    assert groups_of(1, found) == ["a", "b"]
    with pytest.raises(ReplicaError):
        groups_of(1, ListGroupsResponse(error_code=15, groups=[]))


def test_many_groups_are_asked_together() -> None:
    request = fetch_committed(["a", "b"], PLACE)
    assert [group.group_id for group in request.message.groups] == ["a", "b"]
    assert not request.message.require_stable, "an open transaction holds up no answer"
    assert list_groups().message.states_filter == []
