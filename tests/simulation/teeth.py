"""The histories by which a rule that is broken on purpose is to be noticed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.histories import SHRUNKEN
from tests.simulation.history import Op, Profile
from tests.simulation.kinds import generate, profile

MOST = 300
"""So many seeds are tried."""
UNLIKE = (100770094, 1900002149)
"""Seeds of histories that only the outcomes of records tell from healthy ones."""


def histories() -> Iterator[tuple[Profile, list[Op]]]:
    """Those that once failed, then those of the first seeds."""
    for history in SHRUNKEN.values():
        yield history.profile, history.parsed()
    for seed in (*UNLIKE, *range(MOST)):
        p = profile(seed, healthy=False)
        yield p, generate(p)
