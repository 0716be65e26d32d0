"""An audit by blocks says what it says by rows of what was recorded; where sums are not looked at, it does not."""

from __future__ import annotations

import pytest

from parallax.compare import sums
from tests.simulation.blocks import Blocks
from tests.simulation.both import Differs, judged

SEEDS = range(1000, 1010)


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(1010, 2000), marks=pytest.mark.release)])
def test_what_was_recorded_is_audited_by_blocks_as_it_is_by_rows(seeds: range) -> None:
    counts = judged(Blocks, seeds)
    assert counts["ran rows by blocks: that nobody looked at"] > counts["ran rows by blocks: all"] / 10


def test_sums_that_are_not_looked_at_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "same", lambda _, cuts: cuts > 0)
    with pytest.raises(Differs, match="blocks: other"):
        judged(Blocks, SEEDS)
