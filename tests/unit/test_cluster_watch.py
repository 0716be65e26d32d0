from __future__ import annotations

from typing import cast

import pytest
from structlog.testing import capture_logs

from parallax.cluster_watch import ClusterWatch, Mismatches
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import OtherCluster, ReplicaError, Unreachable

Answers = dict[tuple[str, int], str | ReplicaError]
OWN: Answers = {("a", 1): "own", ("b", 2): Unreachable("b:2 Connection refused")}
OTHER: Answers = {("a", 1): "own", ("b", 2): OtherCluster("b:2 belongs to cluster of-b", cluster_id="of-b")}


class Client:
    cluster_id = "own"

    def __init__(self) -> None:
        self.answers: Answers | None = OWN

    def clusters(self) -> Answers:
        if self.answers is None:
            raise RuntimeError("out of threads")
        return self.answers


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def looks() -> list[Mismatches]:
    return []


@pytest.fixture
def watch(client: Client, looks: list[Mismatches]) -> ClusterWatch:
    return ClusterWatch(cast("ReplicaClient", client), looks.append)


def test_an_address_that_goes_to_another_cluster_and_back_is_logged_once_each(
    watch: ClusterWatch, client: Client, looks: list[Mismatches]
) -> None:
    with capture_logs() as logged:
        for answers in (OWN, OTHER, OTHER, OWN):
            client.answers = answers
            watch.look()
    assert looks == [{}, {"b:2": "of-b"}, {"b:2": "of-b"}, {}]
    began, ended = logged
    assert (began["log_level"], began["address"], began["its_cluster"], began["cluster"]) == (
        "error",
        "b:2",
        "of-b",
        "own",
    )
    assert "correct kafka.bootstrap.servers" in began["what"]
    assert (ended["log_level"], ended["address"]) == ("warning", "b:2")


def test_one_look_that_fails_is_not_the_last(watch: ClusterWatch, client: Client, looks: list[Mismatches]) -> None:
    watch.every_s = 0.01
    client.answers = None
    watch.start()
    client.answers = OTHER
    until(lambda: looks, "a look that succeeds")
    watch.stop()
    assert looks[0] == {"b:2": "of-b"}
