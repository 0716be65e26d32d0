"""Which brokers are back."""

from __future__ import annotations

from parallax.audit.returned import PAUSE_S, SETTLE_S, Returned
from parallax.compare.suspect import BrokerCoverage, Coverage
from parallax.model import TopicPartition

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def coverage(place: TopicPartition, *, away: tuple[int, ...] = ()) -> Coverage:
    brokers = tuple(BrokerCoverage(b, b not in away, 9, 9, 9, 9, 0, 9, 0.0) for b in (1, 2))
    return Coverage(*place, (9, 9), {}, (), 0, 0, brokers, 0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def seen_once(clock: Clock) -> Returned:
    """All brokers answer, and were asked."""
    returned = Returned(clock)
    returned.observe([coverage(ONE), coverage(TWO)])
    clock.now += SETTLE_S
    assert returned.due() == {1: [ONE, TWO], 2: [ONE, TWO]}
    return returned


def test_a_job_that_starts_asks_all_that_answer_once_they_had_time_to_settle() -> None:
    clock = Clock()
    returned = Returned(clock)
    returned.observe([coverage(ONE, away=(2,))])
    assert returned.next_at() == 100.0 + SETTLE_S
    assert returned.due() == {}
    clock.now += SETTLE_S
    assert returned.due() == {1: [ONE]}
    assert returned.due() == {}
    assert returned.next_at() is None


def test_a_broker_that_answers_again_is_asked_and_one_that_went_on_is_not() -> None:
    clock = Clock()
    returned = seen_once(clock)
    returned.observe([coverage(ONE, away=(2,)), coverage(TWO)])
    returned.observe([coverage(TWO)])
    assert returned.next_at() is None
    returned.observe([coverage(ONE)])
    clock.now += PAUSE_S
    assert returned.due() == {2: [ONE]}


def test_one_that_comes_and_goes_is_left_alone_for_a_while() -> None:
    clock = Clock()
    returned = seen_once(clock)
    asked, began = 0, clock.now
    for _ in range(60):
        returned.observe([coverage(ONE, away=(2,))])
        returned.observe([coverage(ONE)])
        clock.now += SETTLE_S
        asked += bool(returned.due())
    assert 1 < asked <= (clock.now - began) / PAUSE_S


def test_one_that_is_away_again_before_it_is_asked_waits_for_its_next_return() -> None:
    clock = Clock()
    returned = seen_once(clock)
    for away in ((2,), (), (2,)):
        returned.observe([coverage(ONE, away=away)])
    clock.now += PAUSE_S
    assert returned.next_at() is None
    assert returned.due() == {}
    returned.observe([coverage(ONE)])
    clock.now += SETTLE_S
    assert returned.due() == {2: [ONE]}


def test_what_failed_is_asked_again_after_a_pause() -> None:
    clock = Clock()
    returned = seen_once(clock)
    returned.again({2: [TWO]})
    clock.now += PAUSE_S - 1
    assert returned.due() == {}
    clock.now += 1
    assert returned.due() == {2: [TWO]}
