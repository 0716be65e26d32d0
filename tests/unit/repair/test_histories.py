"""Copies in histories by chance: no run of a plan deletes a right copy, and what is over is right."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.repair.histories import History

MANY = pytest.param(500_000, 60_000, marks=[pytest.mark.release, pytest.mark.timeout(1800)])


@pytest.mark.parametrize(("first", "count"), [(0, 400), MANY])
def test_no_history_loses_a_right_copy_and_each_that_is_over_is_right(first: int, count: int) -> None:
    ended: Counter[str] = Counter()
    for seed in range(first, first + count):
        history = History(seed).play()
        assert history.cluster.errors == [], f"seed {seed}"
        ended[history.ended] += 1
    assert ended["over"] > count // 4, ended
    assert ended["closed"] > count // 8, ended
