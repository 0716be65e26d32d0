"""Histories are judged without the rows on which replicas agree by their sums as they are judged by all rows."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.both import both_ways
from tests.simulation.spared import Apart

SEEDS = range(1000, 1080)
"""So many that the share of micro-batches below does not hang on a few histories."""


def judged(seeds: range, kills: int = 0) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        for healthy in (True, False):
            counts += both_ways(Apart, seed, healthy, kills=kills).tally()
    return counts


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(1080, 2000), marks=pytest.mark.release)])
def test_each_micro_batch_is_judged_without_these_rows_as_it_is_by_all(seeds: range) -> None:
    counts = judged(seeds)
    assert (
        counts["ran micro-batches: without rows of these"]
        > counts["ran micro-batches: with offsets that are alike"] / 5
    )
    assert counts["ran rows: that were spared"] > 0
