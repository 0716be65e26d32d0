"""Copies in histories by chance: no run of a plan deletes a right copy, and what is over is right."""

from __future__ import annotations

from collections import Counter

from tests.unit.repair.histories import History


def test_no_history_loses_a_right_copy_and_each_that_is_over_is_right() -> None:
    ended: Counter[str] = Counter()
    for seed in range(400):
        history = History(seed).play()
        assert history.cluster.errors == [], f"seed {seed}"
        ended[history.ended] += 1
    assert ended["over"] > 100, ended
    assert ended["closed"] > 50, ended
