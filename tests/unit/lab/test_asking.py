"""How often the lab asks brokers that are on the move, and what it makes of their answers."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from parallax.lab import asking
from parallax.lab.asking import answers
from parallax.lab.errors import LabError


class Brokers:
    """They answer each request as given: an int is the code of an error."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.left = list(requests)

    def __call__(self) -> dict[str, Future[Any]]:
        made = {}
        for name, answer in self.left.pop(0).items():
            made[name] = Future[Any]()
            if isinstance(answer, int):
                made[name].set_exception(KafkaException(KafkaError(answer, "so they say")))
            else:
                made[name].set_result(answer)
        return made


def test_what_the_brokers_give_comes_in_their_order() -> None:
    assert answers(Brokers({"t": "a", "u": "b"}), "asking") == ["a", "b"]


@pytest.mark.parametrize("code", sorted(asking._PASSING))
def test_brokers_on_the_move_are_asked_again(code: int) -> None:
    assert answers(Brokers({"t": code}, {"t": code}, {"t": "a"}), "asking") == ["a"]


def test_a_refusal_is_reported_with_what_was_asked_for() -> None:
    with pytest.raises(LabError, match=r"creating t failed \(so they say\)"):
        answers(Brokers({"t": KafkaError.TOPIC_ALREADY_EXISTS}), "creating t")


def test_done_before_counts_only_of_a_request_that_is_repeated() -> None:
    again = [KafkaError.TOPIC_ALREADY_EXISTS]
    moving, there = KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS
    assert answers(Brokers({"t": moving, "u": None}, {"t": None, "u": there}), "it", done_before=again) == [None, None]
    with pytest.raises(LabError, match="so they say"):
        answers(Brokers({"t": there, "u": None}), "it", done_before=again)
    with pytest.raises(LabError, match="so they say"):
        answers(Brokers({"t": moving}, {"t": there}), "it")


def test_brokers_that_stay_on_the_move_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_ON_THE_MOVE_S", 0.3)
    brokers = Brokers(*[{"t": KafkaError._NOENT}] * 9)
    with pytest.raises(LabError, match=r"asking failed \(so they say\)"):
        answers(brokers, "asking")
    assert len(brokers.left) < 8, "it was asked more than once"
