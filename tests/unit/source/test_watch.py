from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from parallax.lab.waiting import until
from parallax.replica.errors import Unreachable
from parallax.source.watch import Brokers
from tests.patience import PATIENCE_S


class Asked:
    """Stands beside real brokers to hang and fail on command; real ones are in the end-to-end tests."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.hang: dict[int, threading.Event] = {}
        self.fail: set[int] = set()

    def __call__(self, broker: int, question: str) -> str:
        self.calls.append(broker)
        if broker in self.hang:
            self.hang[broker].wait(PATIENCE_S)
        if broker in self.fail:
            raise Unreachable("refused", broker=broker)
        return f"{broker} {question}"


@pytest.fixture
def asked() -> Iterator[Asked]:
    fake = Asked()
    yield fake
    for event in fake.hang.values():
        event.set()


def test_all_brokers_answer_side_by_side(asked: Asked) -> None:
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    assert brokers.ask({1: "a", 2: "b"}, patience_s=PATIENCE_S) == {1: "1 a", 2: "2 b"}
    brokers.close()


def test_a_hanging_broker_is_waited_for_once(asked: Asked) -> None:
    asked.hang[2] = threading.Event()
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    assert brokers.ask({1: "a", 2: "a"}, patience_s=2.0) == {1: "1 a"}
    for _ in range(5):
        assert brokers.ask({1: "b", 2: "b"}, patience_s=2 * PATIENCE_S) == {1: "1 b"}, "else its answer had come"
    assert asked.calls.count(2) == 1
    brokers.close()


def test_a_late_answer_comes_with_the_next_question(asked: Asked) -> None:
    asked.hang[2] = threading.Event()
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    assert brokers.ask({2: "early"}, patience_s=0.05) == {}
    asked.hang.pop(2).set()
    until(lambda: not brokers._watches[2]._asking, "the answer")
    asked.hang[2] = threading.Event()
    assert brokers.ask({2: "late"}, patience_s=0.05) == {2: "2 early"}
    brokers.close()


def test_a_broker_that_failed_is_left_alone_for_a_pause(asked: Asked) -> None:
    asked.fail.add(2)
    brokers: Brokers[str, str] = Brokers(asked, 1000.0, 1000.0)
    assert brokers.ask({2: "a"}, patience_s=PATIENCE_S) == {}
    assert "refused" in str(brokers.failures()[2].error)
    for _ in range(3):
        assert brokers.ask({2: "b"}, patience_s=PATIENCE_S) == {}
    assert asked.calls == [2]
    brokers.close()


def test_a_broker_that_is_back_is_asked_again_and_its_circuit_closes(asked: Asked) -> None:
    asked.fail.add(2)
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    brokers.ask({2: "a"}, patience_s=PATIENCE_S)
    asked.fail.clear()
    until(lambda: brokers.ask({2: "b"}, patience_s=PATIENCE_S), "an answer")
    assert brokers.failures() == {}
    brokers.close()


def test_who_waits_for_a_broker_is_woken_when_it_is_back_and_gets_a_new_answer(asked: Asked) -> None:
    asked.fail.add(2)
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    brokers.ask({2: "a"}, patience_s=PATIENCE_S)
    assert not brokers.is_back(0.05)
    asked.fail.clear()
    assert brokers.is_back(PATIENCE_S)
    assert brokers.ask({2: "b"}, patience_s=PATIENCE_S) == {2: "2 b"}
    assert not brokers.is_back(0.01)
    brokers.close()


def test_a_broker_that_nobody_asks_for_any_more_is_not_retried(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallax.source.watch._WANTED_S", 0.0)
    asked.fail.add(2)
    brokers: Brokers[str, str] = Brokers(asked, 0.01, 0.01)
    brokers.ask({2: "a"}, patience_s=PATIENCE_S)
    assert not brokers.is_back(0.1)
    assert asked.calls == [2]
    brokers.close()


def test_an_answer_that_breaks_the_asker_counts_as_a_failure() -> None:
    def ask(broker: int, question: str) -> str:
        raise ZeroDivisionError(question)

    brokers: Brokers[str, str] = Brokers(ask, 1000.0, 1000.0)
    assert brokers.ask({1: "a"}, patience_s=PATIENCE_S) == {}
    assert "ZeroDivisionError" in str(brokers.failures()[1].error)
    brokers.close()
