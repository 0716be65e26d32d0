from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from parallax.guard.gone import GoneThread, gone
from parallax.guard.outages import outage_in_words
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError, Unauthorized, UnknownTopic, Unreachable
from parallax.replica.types import PartitionMetadata, TopicMetadata
from tests.unit.guard.looking import HOUR, PLACE, START, tick
from tests.unit.guard.recording import ALL, REST
from tests.unit.guard.watching import MINUTE, Watching

DELETED = TopicPartition("shortlived", 0)
UNKNOWN = UnknownTopic("no such topic", topic="shortlived")


def topic(name: str, topic_id: str = "a", error: ReplicaError | None = None, partitions: int = 1) -> TopicMetadata:
    known = {number: PartitionMetadata(1, 0, ALL, REST) for number in range(partitions)}
    return TopicMetadata(name, topic_id, {} if error else known, error)


class Cluster:
    """Answers for its topics; None: no broker answers."""

    def __init__(self, **topics: TopicMetadata) -> None:
        self.topics: Mapping[str, TopicMetadata] | None = topics

    def metadata(self, names: list[str]) -> dict[str, TopicMetadata]:
        if self.topics is None:
            raise Unreachable("no broker answers")
        return {name: self.topics[name] for name in names if name in self.topics}

    def look(self, watching: Watching) -> None:
        """The job asks once which topics are gone."""
        keeper = watching.keeper
        GoneThread(cast("ReplicaClient", self), keeper.in_question, keeper.are_gone, 1).look()


def away(tmp_path: Path) -> Watching:
    """Broker 2 has been away for two minutes, with a replica of two topics."""
    watching = Watching(tmp_path)
    watching.see(0, *(tick(0, dict.fromkeys(ALL, 10), ALL, place=place) for place in (PLACE, DELETED)))
    for at in range(2_000, 2 * MINUTE, 30_000):
        watching.see(at, *(tick(at, {1: 12, 2: None, 3: 12}, REST, place=place) for place in (PLACE, DELETED)))
    return watching


def texts(watching: Watching) -> str:
    """All that an alert, the page or a webhook says of an outage that lasts."""
    (outage,) = watching.said.outages
    said = watching.said
    return f"{watching.headline} {outage_in_words(outage, said.absent, said.late, (START + watching.at) / 1000)}"


@pytest.mark.parametrize(
    "now", [topic("shortlived", error=UNKNOWN), topic("shortlived", "another")], ids=["deleted", "created again"]
)
def test_a_topic_that_the_cluster_no_longer_has_is_named_in_no_text_of_an_outage(
    tmp_path: Path, now: TopicMetadata
) -> None:
    watching = away(tmp_path)
    assert "shortlived" in texts(watching)
    Cluster(orders=topic("orders"), shortlived=now).look(watching)
    assert "shortlived" not in texts(watching)
    assert "(orders)" in texts(watching)
    assert [one.place for one in watching.said.absent] == [PLACE]


@pytest.mark.parametrize("error", [Unauthorized("DESCRIBE"), None], ids=["refused", "left out"])
def test_a_topic_that_is_merely_not_answered_stays_named(tmp_path: Path, error: ReplicaError | None) -> None:
    watching = away(tmp_path)
    known = {} if error is None else {"shortlived": topic("shortlived", error=error)}
    cluster = Cluster(orders=topic("orders"), **known)
    cluster.look(watching)
    assert "shortlived" in texts(watching)
    cluster.topics = None
    cluster.look(watching)
    assert "shortlived" in texts(watching)


def test_a_topic_that_a_broker_did_not_know_yet_is_named_again_with_the_bound_that_it_had(tmp_path: Path) -> None:
    watching = away(tmp_path)
    before = {one.place: one.bound_ms for one in watching.said.absent}
    Cluster(orders=topic("orders"), shortlived=topic("shortlived", error=UNKNOWN)).look(watching)
    Cluster(orders=topic("orders"), shortlived=topic("shortlived")).look(watching)
    assert {one.place: one.bound_ms for one in watching.said.absent} == before
    assert "shortlived" in texts(watching)


def test_an_outage_of_none_but_deleted_topics_is_over(tmp_path: Path) -> None:
    watching = Watching(tmp_path)
    watching.away(DELETED)
    Cluster(shortlived=topic("shortlived", error=UNKNOWN)).look(watching)
    assert watching.outcome.startswith("Broker 2 holds none of its replicas any more that were absent (shortlived)")


def test_a_late_replica_of_a_deleted_topic_is_named_no_more_and_waits_for_no_audit(tmp_path: Path) -> None:
    watching = away(tmp_path)
    at = 2 * HOUR
    watching.see(at, *(tick(at, dict.fromkeys(ALL, 12), ALL, place=place) for place in (PLACE, DELETED)))
    assert "2 replicas of it (orders, shortlived) copied something late" in texts(watching)
    Cluster(orders=topic("orders"), shortlived=topic("shortlived", error=UNKNOWN)).look(watching)
    assert "shortlived" not in texts(watching)
    assert [one.place for one in watching.said.late] == [PLACE]


def test_a_partition_that_its_topic_no_longer_has_is_gone_and_nobody_is_asked_about_none() -> None:
    place = TopicPartition("orders", 1)
    client: Any = Cluster(orders=topic("orders"))
    assert gone(client, {place: "a", PLACE: "a"}) == {place: "a"}
    client.topics = None
    assert gone(client, {}) == {}
