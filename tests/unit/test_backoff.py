from __future__ import annotations

from random import Random

from parallax.backoff import backoff


class Most(Random):
    def random(self) -> float:
        return 1.0


class Least(Random):
    def random(self) -> float:
        return 0.0


def test_each_wait_is_twice_the_last_up_to_the_longest() -> None:
    assert [backoff(n, 1.5, 10, Least()) for n in (1, 2, 3, 4, 5)] == [1.5, 3, 6, 10, 10]
    assert backoff(10**6, 1, 10, Least()) == 10


def test_jitter_takes_up_to_a_quarter_away_and_adds_nothing() -> None:
    assert backoff(3, 1, 10, Most()) == 3
    draw = Random(1)
    waits = [backoff(9, 1, 10, draw) for _ in range(1000)]
    assert 7.5 <= min(waits) < 7.6
    assert 9.9 < max(waits) <= 10
