"""The judge behind the product's probes accuses nobody who is right, and mostly says what the product says."""

from __future__ import annotations

from collections import Counter

import pytest

from parallax.findings.second_opinion import Agreement
from tests.simulation import kinds
from tests.simulation.beside import opinion
from tests.simulation.shadow import Shadow, ShadowOfAnswers
from tests.simulation.world import Violation

SAMPLES = {
    "the first generator": 640_000,
    "scripts": kinds.FIRST + 640_000,
    "an election after a loss": kinds.ELECTING + 640_000,
    "mixed": kinds.MIXED + 640_000,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kind", [Shadow, ShadowOfAnswers])
def test_what_the_judge_says_of_a_probe_is_true(name: str, kind: type[Shadow]) -> None:
    counts, first = Counter[str](), SAMPLES[name]
    for seed in range(first, first + 6):
        try:
            counts += opinion(seed, False, kind=kind).counts
        except Violation as violation:
            pytest.fail(str(violation), pytrace=False)
    asked = {what: n for what, n in counts.items() if what.startswith("beside ") and what.count(":") == 1}
    asked = {what: n for what, n in asked.items() if "truncation" not in what}  # Of which the judge says nothing.
    known = [n for what, n in asked.items() if what.endswith((Agreement.SAME, Agreement.JUDGE))]
    assert sum(known) > sum(asked.values()) / 4
