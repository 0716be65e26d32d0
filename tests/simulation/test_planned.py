"""A judge that is asked about suspects alone finds what whole looks find, and would miss it if it let go too early."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation import kinds, planned
from tests.simulation.beside import opinion
from tests.simulation.planned import Planned
from tests.simulation.world import Violation

SAMPLES = {
    "the first generator": 620_000,
    "scripts": kinds.FIRST + 620_000,
    "an election after a loss": kinds.ELECTING + 620_000,
    "deletions in transactions": kinds.DELETED + 620_500,
}
LISTED_ALONE = 2000620546
"""A transaction that one replica knows by its list of aborted ones alone."""


@pytest.mark.parametrize("name", SAMPLES)
def test_looks_at_what_is_suspected_find_what_whole_looks_find(name: str) -> None:
    counts, first = Counter[str](), SAMPLES[name]
    for seed in range(first, first + 12):
        try:
            counts += opinion(seed, False, kind=Planned).counts
        except Violation as violation:
            pytest.fail(str(violation), pytrace=False)
    asked = {what: n for what, n in counts.items() if what.startswith("beside")}
    found = sum(n for what, n in asked.items() if "asked accused" in what or "asked a difference" in what)
    assert found > sum(asked.values()) / 3


def test_a_suspect_is_watched_until_all_replicas_are_right_in_every_world(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opinion(LISTED_ALONE, False, kind=Planned).counts["beside outcome: whole accused, asked accused"] == 1
    monkeypatch.setattr(planned.Planned, "_settle", lambda self, watched, *_: self.over.update(_all(watched)))
    with pytest.raises(Violation, match="missed, asked, outcome"):
        opinion(LISTED_ALONE, False, kind=Planned)


def _all(watched: dict[str, planned.Claim]) -> dict[str, int]:
    return {name: claim.raised_at_ms for name, claim in watched.items()}
