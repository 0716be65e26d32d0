from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from parallax.config import Settings
from parallax.model import MissingRight
from parallax.preflight import check_cluster
from parallax.replica.client import PartitionMetadata, TopicMetadata, Watermarks
from parallax.replica.errors import NotHosted, ReplicaError, Unauthorized, UnknownTopic
from tests.builders.settings import settings_of

PLACE = PartitionMetadata(1, 0, (1, 2), (1, 2))


def refusal(topic: str, right: MissingRight) -> Unauthorized:
    return Unauthorized(f"not authorized: {right.name} on the topic is needed", missing=right, topic=topic)


class Client:
    """A cluster of two brokers that grants rights by topic; a real one is in tests/e2e/test_replica_security.py."""

    def __init__(self, **missing: MissingRight) -> None:
        self.missing = missing

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("one", 9092), 2: ("two", 9092)}

    def metadata(self, topics: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        known = {name: TopicMetadata(name, "A", {0: PLACE}) for name in ("orders", "customers")}
        for name, right in self.missing.items():
            known[name] = TopicMetadata(name, "", {}, refusal(name, right))
            if right is MissingRight.READ:
                known[name] = TopicMetadata(name, "A", {0: PLACE})
        if topics is None:
            return {name: topic for name, topic in known.items() if topic.error is None}
        return {n: known.get(n, TopicMetadata(n, "", {}, UnknownTopic("no such topic"))) for n in topics}

    def watermarks(self, broker: int, partitions: Sequence[tuple[str, int]]) -> Mapping[Any, Any]:
        def answer(topic: str) -> Watermarks | ReplicaError:
            right = self.missing.get(topic)
            return Watermarks(1, 1, 0, 1) if right is None else refusal(topic, right)

        return {place: answer(place[0]) for place in partitions}


def settings(**topics: Any) -> Settings:
    return settings_of(topics=topics or {"include": ["orders", "customers"]})


def check(client: Client, **topics: Any) -> Mapping[str, Unauthorized]:
    return check_cluster(client, settings(**topics))  # type: ignore[arg-type]


@pytest.mark.parametrize("right", [MissingRight.READ, MissingRight.DESCRIBE])
def test_one_topic_that_may_not_be_read_is_reported_and_the_others_are_watched(right: MissingRight) -> None:
    found = check(Client(customers=right))
    assert {topic: error.missing for topic, error in found.items()} == {"customers": right}


def test_where_no_topic_may_be_read_the_job_does_not_start() -> None:
    with pytest.raises(Unauthorized, match="READ on the topic is needed"):
        check(Client(orders=MissingRight.READ, customers=MissingRight.READ))


def test_where_everything_is_granted_nothing_is_reported() -> None:
    assert check(Client()) == {}


def test_a_topic_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownTopic, match=r"topics\.include: topic 'order' is not on the cluster"):
        check(Client(), include=["order"])


def test_a_pattern_that_matches_no_topic_is_said_at_once() -> None:
    with capture_logs() as logs:
        assert check(Client(), pattern="ledger.*") == {}
    (said,) = logs
    assert (said["log_level"], said["pattern"]) == ("warning", "ledger.*")
    assert said["event"] == "topics.pattern: no topic that may be seen matches"
    with capture_logs() as logs:
        check(Client(), pattern="orders")
    assert logs == []


def test_a_broker_that_is_not_there_is_named() -> None:
    with pytest.raises(NotHosted, match=r"topics\.brokers: the cluster has no broker 9"):
        check(Client(), include=["orders"], brokers=[9])
