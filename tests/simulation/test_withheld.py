"""A job that withholds rows says what one says that is given all at once, and holds what every job has to hold."""

from __future__ import annotations

from collections import Counter

import pytest

from parallax.compare import withheld
from tests.simulation.both import Differs, both_ways, judged
from tests.simulation.withheld import Withheld

SEEDS = [*range(1000, 1010), 19178, 31863, 32749, 32863, 71227, 3_292_000_010, 3_410_200_215]
"""The last ones once were judged in another way."""

MANY = [range(first, first + 1000) for first in range(15_000, 20_000, 1000)]
"""Each seed is a healthy history and a faulty one."""


def held(counts: Counter[str]) -> None:
    """So much was withheld that the comparison of the two ways says something."""
    assert counts["ran micro-batches: with rows withheld"] > counts["ran micro-batches: that began to withhold"] > 0
    assert counts["ran rows: read once more"] > 0


def test_histories_are_judged_with_rows_withheld_as_they_are_with_all_at_once() -> None:
    held(judged(Withheld, SEEDS))


@pytest.mark.release
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", MANY, ids=lambda seeds: f"from {seeds.start}")
def test_ten_thousand_histories_are_judged_with_rows_withheld_as_with_all_at_once(seeds: range) -> None:
    counts = judged(Withheld, seeds, properties=False)
    held(counts)
    assert counts["histories: in which a property did not hold"] < len(seeds) / 20


def test_rows_that_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(withheld._Run, "_read", lambda self, *_: self._nothing().rows)
    with pytest.raises(Differs):
        all(both_ways(Withheld, seed, healthy=False) for seed in range(1000, 1060))
