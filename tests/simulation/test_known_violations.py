"""Histories in which the product breaks a property today, one for each entry of known.py, the shortest that were found.

Each is expected to fail. One that does not any more was mended: take it away here, and its entry there.
"""

from __future__ import annotations

import pytest

from tests.simulation import known
from tests.simulation.kinds import profile
from tests.simulation.test_regressions import parse
from tests.simulation.world import World

# By the name of the entry: the seed whose replicas and micro-batches it has, and its operations.
SHOWN: dict[str, tuple[int, str]] = {
    "a value that was cleaned in a truncated log": (
        71010059,
        (
            "read 1 3 1; write -1 90 27; sync; stop 1; write -1 90 52; tick 200; write -1 90 33; sync; clean 3; "
            "round; usurp 1"
        ),
    ),
    "a log that was truncated before an audit": (
        72000667,
        ("write 1 1 49; sync; stop 2; end 1 1; write -1 1 16; sync; tick 200; write -1 90 33; clean 1; usurp 2"),
    ),
}


class StillBroken(Exception):  # noqa: N818 - it says that a property does not hold, not that a test went wrong
    """The property does not hold."""


@pytest.mark.parametrize("entry", known.VIOLATIONS, ids=lambda entry: entry.shown_by)
@pytest.mark.xfail(raises=StillBroken, strict=True, reason="not mended yet")
def test_the_property_holds(entry: known.Known) -> None:
    seed, text = SHOWN[entry.shown_by]
    world = World(profile(seed, healthy=False))
    world.run(parse(text))
    if any(known.entry_of(world.profile, broken) is entry for broken in world.tolerated):
        raise StillBroken(entry.shown_by)


def test_each_entry_has_a_history_and_each_history_an_entry() -> None:
    assert [entry.shown_by for entry in known.VIOLATIONS] == list(SHOWN)
