from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from parallax.model import TopicPartition
from parallax.repair.placing import layout_of
from parallax.replica.errors import ReplicaError, Unauthorized, UnknownTopic
from parallax.replica.types import LogDir
from tests.unit.repair.looks import PLACE

TOPIC = {"min.insync.replicas": "2", "delete.retention.ms": "1000"}
NOTHING: dict[str, str] = {}
THROTTLED = {"follower.replication.throttled.replicas": "0:3"}


class Client:
    """Three brokers, of which 3 is away; 1 has two log directories."""

    topic: dict[str, str] | ReplicaError = TOPIC
    broker: dict[str, str] | ReplicaError = NOTHING
    topics: tuple[str, ...] = ()

    def reassignments(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {PLACE: (1, 2)}

    def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
        return {topics[0]: self.topic}

    def brokers(self) -> dict[int, tuple[str, int]]:
        return dict.fromkeys((1, 2, 3), ("h", 1))

    def log_dirs(self, broker: int, partitions: Sequence[TopicPartition]) -> list[LogDir]:
        if broker == 3:
            raise ReplicaError("away")
        more = [LogDir("/b", 100, 7, {})] if broker == 1 else []
        return [LogDir("/a", 100, 50, {PLACE: 30} if broker == 1 else {}), *more]

    def broker_configs(self, broker: int, names: Sequence[str]) -> dict[str, str] | ReplicaError:
        return self.broker

    def metadata(self, topics: Sequence[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(error=None if name in self.topics else UnknownTopic("-")) for name in topics}


def asked(**fields: Any) -> Any:
    return layout_of(type("Asked", (Client,), fields)(), PLACE)  # type: ignore[arg-type]


def test_a_broker_says_the_room_of_its_fullest_directory_and_whether_it_holds_the_partition() -> None:
    found = asked()
    assert (found.free, found.sizes, found.moving) == ({1: 7, 2: 50}, {1: 30}, {PLACE: (1, 2)})
    assert (found.min_isr, found.retention_ms, found.throttle, found.automation) == (2, 1000, 0, "")


@pytest.mark.parametrize(
    ("broker", "rate"),
    [({}, 0), ({"leader.replication.throttled.rate": "9", "follower.replication.throttled.rate": f"{2**63 - 1}"}, 9)],
)
def test_a_throttle_counts_where_the_topic_is_held_back(broker: dict[str, str], rate: int) -> None:
    assert asked(broker=broker).throttle == 0
    assert asked(topic=TOPIC | THROTTLED, broker=broker).throttle == rate


def test_cruise_control_is_known_by_its_topics_or_by_its_reporter() -> None:
    assert asked(topics=("__CruiseControlMetrics",)).automation == "there is the topic __CruiseControlMetrics"
    reporters = {"metric.reporters": "com.linkedin.kafka.cruisecontrol.metricsreporter.CruiseControlMetricsReporter"}
    assert asked(broker=reporters).automation == "broker 1 has its metrics reporter"
    assert asked(broker=Unauthorized("no")).automation == "", "what may not be asked shows nothing"


def test_what_cannot_be_asked_is_said() -> None:
    refused = Unauthorized("DESCRIBE_CONFIGS is needed")
    assert "DESCRIBE_CONFIGS is needed" in asked(topic=refused).error
    assert "DESCRIBE_CONFIGS is needed" in asked(topic=TOPIC | THROTTLED, broker=refused).error
