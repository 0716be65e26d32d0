"""Which brokers are back."""

from __future__ import annotations

from parallax.audit.returned import PAUSE_S, SETTLE_S, TRIES, Returned
from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition
from tests.builders.clock import Clock
from tests.builders.coverage import broker, coverage

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def answered(place: TopicPartition, *, away: tuple[int, ...] = ()) -> Coverage:
    return coverage(*place, brokers=[broker(b, reachable=b not in away) for b in (1, 2)])


def seen_once(clock: Clock) -> Returned:
    """All brokers answer, and were asked."""
    returned = Returned(clock)
    returned.observe([answered(ONE), answered(TWO)])
    clock.now += SETTLE_S
    assert returned.due() == {1: [ONE, TWO], 2: [ONE, TWO]}
    returned.asked([1, 2], {})
    return returned


def test_a_job_that_starts_asks_all_that_answer_once_they_had_time_to_settle() -> None:
    clock = Clock(100.0)
    returned = Returned(clock)
    returned.observe([answered(ONE, away=(2,))])
    assert returned.next_at() == 100.0 + SETTLE_S
    assert returned.due() == {}
    clock.now += SETTLE_S
    assert returned.due() == {1: [ONE]}
    assert returned.due() == {}
    assert returned.next_at() is None


def test_a_broker_that_answers_again_is_asked_and_one_that_went_on_is_not() -> None:
    clock = Clock(100.0)
    returned = seen_once(clock)
    returned.observe([answered(ONE, away=(2,)), answered(TWO)])
    returned.observe([answered(TWO)])
    assert returned.next_at() is None
    returned.observe([answered(ONE)])
    clock.now += PAUSE_S
    assert returned.due() == {2: [ONE]}


def test_one_that_comes_and_goes_is_left_alone_for_a_while() -> None:
    clock = Clock(100.0)
    returned = seen_once(clock)
    asked, began = 0, clock.now
    for _ in range(60):
        returned.observe([answered(ONE, away=(2,))])
        returned.observe([answered(ONE)])
        clock.now += SETTLE_S
        if back := returned.due():
            asked += 1
            returned.asked(back, {})
    assert 1 < asked <= (clock.now - began) / PAUSE_S


def test_one_that_is_away_again_before_it_is_asked_waits_for_its_next_return() -> None:
    clock = Clock(100.0)
    returned = seen_once(clock)
    for away in ((2,), (), (2,)):
        returned.observe([answered(ONE, away=away)])
    clock.now += PAUSE_S
    assert returned.next_at() is None
    assert returned.due() == {}
    returned.observe([answered(ONE)])
    clock.now += SETTLE_S
    assert returned.due() == {2: [ONE]}


def test_a_broker_waits_until_the_last_of_its_partitions_has_settled() -> None:
    clock = Clock(100.0)
    returned = Returned(clock)
    returned.observe([answered(ONE, away=(1,))])
    clock.now += SETTLE_S - 1
    returned.observe([answered(TWO, away=(1,))])
    clock.now += SETTLE_S - 1
    assert returned.due() == {}
    clock.now += 1
    assert returned.due() == {2: [ONE, TWO]}


def test_what_was_not_answered_is_asked_for_again_ever_more_rarely_and_not_for_ever() -> None:
    clock = Clock(100.0)
    returned = seen_once(clock)
    returned.asked([1, 2], {2: [TWO]})
    pauses, last = [], clock.now
    for _ in range(3 * TRIES):
        clock.now = returned.next_at() or clock.now
        if returned.due() == {2: [TWO]}:
            pauses.append(clock.now - last)
            last = clock.now
            returned.asked([2], {2: [TWO]})
    assert pauses == [PAUSE_S * 2**n for n in range(TRIES)]
    returned.observe([answered(TWO, away=(2,))])
    returned.observe([answered(TWO)])
    clock.now += PAUSE_S
    assert returned.due() == {2: [TWO]}
    returned.asked([2], {2: [TWO]})
    assert returned.next_at() == clock.now + PAUSE_S, "who is back anew begins anew"
