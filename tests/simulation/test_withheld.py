"""A job that withholds rows says what one says that is given all at once, and holds what every job has to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from parallax.compare import withheld
from tests.simulation.both import Differs, both_ways
from tests.simulation.withheld import Withheld

SEEDS = [*range(1000, 1010), 31863, 32749, 32863]
"""The last ones once were judged in another way."""


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(1010, 2000), marks=pytest.mark.release)], ids=len)
def test_histories_are_judged_with_rows_withheld_as_they_are_with_all_at_once(seeds: Sequence[int]) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        for healthy in (True, False):
            counts += both_ways(Withheld, seed, healthy).tally()
    assert counts["ran micro-batches: with rows withheld"] > counts["ran micro-batches: that began to withhold"] > 0
    assert counts["ran rows: read once more"] > 0


def test_rows_that_are_lost_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(withheld._Run, "_read", lambda self, *_: self._nothing().rows)
    with pytest.raises(Differs):
        all(both_ways(Withheld, seed, healthy=False) for seed in range(1000, 1060))
