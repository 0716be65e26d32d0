"""What an operator does to a cluster, while a broker that is asked goes away."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError as RefusedError
from confluent_kafka import KafkaException
from kafka.errors import ClusterAuthorizationFailedError, KafkaConnectionError, KafkaError

from parallax.lab import admin, asking, cluster
from parallax.lab.errors import LabError


class Controller:
    """Refuses what it is asked, so many times, then does it."""

    def __init__(self, *errors: type[KafkaError]) -> None:
        self._errors = list(errors)

    def elect_leaders(self, *_arguments: Any, **_more: Any) -> Any:
        if self._errors:
            raise self._errors.pop(0)("111 ECONNREFUSED")
        return SimpleNamespace(replica_election_results=[])


class OneLeader:
    """A cluster whose partitions are led by broker 2."""

    @staticmethod
    def named_leader(_topic: str, _partition: int) -> int:
        return 2


def elect(controller: Controller, patch: pytest.MonkeyPatch) -> int:
    @contextmanager
    def connected(_cluster: Any, what: str) -> Iterator[Controller]:
        try:
            yield controller
        except KafkaError as error:
            raise LabError(what) from error

    patch.setattr(admin, "_kafka_python", connected)
    return admin.elect_leaders(OneLeader(), "t", unclean=True)  # type: ignore[arg-type]


def test_an_election_is_asked_for_again_while_the_broker_that_was_asked_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert elect(Controller(KafkaConnectionError, KafkaConnectionError), monkeypatch) == 2


def test_an_election_that_is_forbidden_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="election of a leader"):
        elect(Controller(ClusterAuthorizationFailedError), monkeypatch)


def test_records_are_deleted_though_librdkafka_had_seen_no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_ON_THE_MOVE_S", 0.0)

    class Cached:
        """A cluster whose client has seen no leader, and says so until it is made to ask again."""

        def __init__(self) -> None:
            self.leader = False
            self.admin = self

        def partition(self, _topic: str, _partition: int) -> None:
            self.leader = True

        def delete_records(self, places: list[Any], **_more: Any) -> dict[Any, Future[Any]]:
            answer: Future[Any] = Future()
            if self.leader:
                answer.set_result(SimpleNamespace(low_watermark=places[0].offset))
            else:
                answer.set_exception(KafkaException(RefusedError(RefusedError._NOENT)))
            return {places[0]: answer}

    assert admin.delete_records(Cached(), "t", before=9) == 9  # type: ignore[arg-type]


def test_a_leader_is_named_once_each_broker_that_can_be_reached_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broker(number: int, **state: bool) -> Any:
        return SimpleNamespace(address=f"b{number}", **{"running": True, "paused": False, **state})

    def state(leader: int) -> cluster.PartitionState:
        return cluster.PartitionState(leader, frozenset({1, 2}), frozenset({1, 2}))

    made = cluster.Cluster(brokers=0, folder=tmp_path)
    made.brokers = {1: broker(1), 2: broker(2), 3: broker(3, running=False), 4: broker(4, paused=True)}
    for said, expected in (
        ({"b1": state(2), "b2": state(2)}, 2),
        ({"b1": state(1), "b2": state(2)}, None),
        ({"b1": None, "b2": state(2)}, None),
        ({"b1": state(-1), "b2": state(-1)}, None),
        ({"b1": cluster._NOT_THERE, "b2": state(2)}, 2),
        ({"b1": cluster._NOT_THERE, "b2": cluster._NOT_THERE}, None),
    ):
        monkeypatch.setattr(cluster, "_said_by", lambda address, *_, said=said: said[address])
        assert made.named_leader("t") == expected, said
