from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTopicPartitionsResponse

from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.eligible import describe, eligible_of, ended_at
from parallax.replica.errors import BrokerTooOld


def answer(topic: str, *eligible: list[int] | None, more: bool = False) -> Any:
    of, kind = DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
    part = kind.DescribeTopicPartitionsResponsePartition
    parts = [part(partition_index=n, eligible_leader_replicas=some) for n, some in enumerate(eligible)]
    cursor = of.Cursor(topic_name=topic, partition_index=len(parts)) if more else None
    return of(topics=[kind(name=topic, partitions=parts)], next_cursor=cursor)


def test_partitions_that_have_eligible_replicas_are_named() -> None:
    assert eligible_of(answer("orders", [], None, [3, 2])) == {TopicPartition("orders", 2): (3, 2)}
    assert ended_at(answer("orders", [1])) is None


def test_it_is_asked_for_topics_in_order_and_from_where_an_answer_ended() -> None:
    request = describe(["b", "a"], ended_at(answer("a", [1], more=True))).message
    assert [topic.name for topic in request.topics] == ["a", "b"]
    assert (request.cursor.topic_name, request.cursor.partition_index) == ("a", 1)


def test_all_answers_count_and_older_brokers_have_no_such_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ReplicaClient({"bootstrap.servers": "127.0.0.1:1"})
    answers = [answer("a", [1], more=True), answer("b", [2])]
    monkeypatch.setattr(client, "_connections", SimpleNamespace(ask_any=lambda *_: answers.pop(0)))
    assert client.eligible_leaders(["a", "b"]) == {TopicPartition("a", 0): (1,), TopicPartition("b", 0): (2,)}
    assert client.eligible_leaders([]) == {}

    def refuse(*_: Any) -> Any:
        raise BrokerTooOld("it does not speak it")

    monkeypatch.setattr(client, "_connections", SimpleNamespace(ask_any=refuse))
    assert client.eligible_leaders(["a"]) == {}
