"""Histories are judged without the rows on which replicas agree by their sums as they are judged by all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from parallax.compare.blocks import Alike
from tests.simulation.both import Differs, judged
from tests.simulation.spared import Apart

SEEDS = [*range(1000, 1080), 12304]
"""So many that the share of micro-batches below does not hang on a few histories."""


MANY = [range(first, first + 1000) for first in range(10_000, 15_000, 1000)]
"""Each seed is a healthy history and a faulty one."""


def held(counts: Counter[str]) -> None:
    """So much was spared that the comparison of the two ways says something."""
    with_alike = counts["ran micro-batches: with offsets that are alike"]
    assert counts["ran micro-batches: without rows of these"] > with_alike / 5
    assert counts["ran rows: that were spared"] > 0


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(1080, 2000), marks=pytest.mark.release)])
def test_each_micro_batch_is_judged_without_these_rows_as_it_is_by_all(seeds: Iterable[int]) -> None:
    held(judged(Apart, seeds))


def test_logs_that_are_taken_for_never_cleaned_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Alike, "is_full", True)
    with pytest.raises(Differs, match="spared: other"):
        judged(Apart, SEEDS)


@pytest.mark.release
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seeds", MANY, ids=lambda seeds: f"from {seeds.start}")
def test_ten_thousand_histories_are_judged_without_these_rows_as_by_all(seeds: range) -> None:
    counts = judged(Apart, seeds, properties=False)
    held(counts)
    assert counts["histories: in which a property did not hold"] < len(seeds) / 20
