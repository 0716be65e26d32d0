"""Ranges that agree by their sums: a step that is given these says what a step that is given their rows says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare import agreed as taking_in
from parallax.compare.state import UNENDED
from tests.unit.compare.agreeing import (
    followed,
)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 2), odd=st.sampled_from((0.0, 0.0, 0.3)))
def test_what_has_agreed_stands_for_its_rows(seed: int, faults: int, odd: float) -> None:
    followed(seed, faults, odd)


def test_rows_of_replicas_that_agree_are_not_looked_at() -> None:
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts += followed(seed, 0, 0.0).counts
    assert counts["spared"] > counts["rows"] / 10, counts


def test_a_transaction_that_goes_on_over_a_cut_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end marker behind the cut contradicts what all have shown of it before the cut."""
    found = [followed(seed, 0, 0.5) for seed in range(12)]
    assert any(str(s.kind) == "outcome_contradicts_marker" for one in found for s in one.suspects)
    assert sum(one.counts["spared"] for one in found) > 0
    monkeypatch.setattr(taking_in, "_unended", lambda *_: np.empty(0, UNENDED))
    with pytest.raises(AssertionError):
        many(range(200))


def many(seeds: range) -> None:
    for seed in seeds:
        followed(seed, 0, 0.5)
