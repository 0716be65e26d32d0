from __future__ import annotations

import threading

import pytest

from parallax.rounds import Rounds
from tests.patience import PATIENCE_S


class Counted(Rounds):
    """Counts its looks, the first of which fails."""

    def __init__(self, every_s: float, *, is_prompt: bool) -> None:
        super().__init__("counted", every_s, is_prompt=is_prompt)
        self.looks, self.failures = 0, list[Exception]()
        self.has_looked, self.has_looked_again = threading.Event(), threading.Event()

    def look(self) -> None:
        self.looks += 1
        self.has_looked.set()
        if self.looks == 1:
            raise ValueError("the first")
        self.has_looked_again.set()

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_look_that_fails_is_reported_and_is_not_the_last(is_prompt: bool) -> None:
    rounds = Counted(0.01, is_prompt=is_prompt)
    rounds.start()
    assert rounds.has_looked_again.wait(PATIENCE_S)
    rounds.stop()
    assert [str(one) for one in rounds.failures] == ["the first"]


def test_only_a_prompt_one_looks_before_its_interval_is_over_and_both_stop_within_it() -> None:
    prompt, other = Counted(3_600, is_prompt=True), Counted(3_600, is_prompt=False)
    prompt.start()
    other.start()
    assert prompt.has_looked.wait(PATIENCE_S)
    prompt.stop()
    other.stop()
    assert (prompt.looks, other.looks) == (1, 0)
    assert not prompt._thread.is_alive()
    assert not other._thread.is_alive()


def test_one_that_was_never_started_can_be_stopped() -> None:
    Counted(1, is_prompt=True).stop()
