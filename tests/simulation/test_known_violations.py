"""Histories in which the product breaks a property today, one for each entry of known.py, the shortest that were found.

There is none. Each has to fail still: one that does not any more was mended, and is to be taken away here and there.
"""

from __future__ import annotations

from tests.simulation import known
from tests.simulation.kinds import profile
from tests.simulation.test_regressions import parse
from tests.simulation.world import World

# By the name of the entry: the seed whose replicas and micro-batches it has, and its operations.
SHOWN: dict[str, tuple[int, str]] = {}


def test_each_entry_is_broken_still() -> None:
    for entry in known.VIOLATIONS:
        seed, text = SHOWN[entry.shown_by]
        world = World(profile(seed, healthy=False))
        world.run(parse(text))
        tolerated = [known.entry_of(world.profile, broken) for broken in world.tolerated]
        assert entry in tolerated, f"{entry.shown_by}: mended, so take it away"


def test_each_entry_has_a_history_and_each_history_an_entry() -> None:
    assert [entry.shown_by for entry in known.VIOLATIONS] == list(SHOWN)
