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
    "a transaction that all hold open again": (
        10000429,
        (
            "write -1 0 49; write 2 0 -1; sync; stop 2; end 2 1; tick 5000; pair -1 0 47; tick 2001; "
            "write -1 90 88; sync; clean 1; usurp 2; start 1; write -1 90 84; sync; unassign 2"
        ),
    ),
    "a marker that all have lost": (
        10000429,
        (
            "write -1 0 49; write 2 0 -1; sync; stop 2; end 2 1; tick 5000; pair -1 0 47; tick 2001; "
            "write -1 90 88; sync; clean 1; usurp 2; start 1; write -1 90 84; sync; unassign 2"
        ),
    ),
    "a lost index whose record is cleaned away": (
        100000286,
        (
            "write 3 0 55182; end 3; write 3 0 36292; end 3; sync; stop 1; unindex 1 4; start 1; sync; stop "
            "2; round; tick 2001; write -1 90 37; clean 1; tick 2001; write -1 90 2; sync; clean 1"
        ),
    ),
    "a lost head that all have taken over": (
        100000180,
        ("read 0 1 3; write -1 1 21; tick 150; write 0 1 31919; sync; round; stop 2; behead 2; start 2; sync; stop 1"),
    ),
    "a lost head where a policy deletes": (
        300001190,
        "write -1 2 71570; tick 150; write -1 90 1; sync; stop 1; behead 1",
    ),
    "healed by a marker that turned it": (
        100000428,
        (
            "write 1 0 -1; sync; stop 2; end 1 1; write -1 0 54980; tick 2001; write -1 90 49; sync; clean 3; "
            "clean 1; tick 2001; write -1 90 91; sync; clean 1; clean 3; tick 2001; write -1 90 86; sync; "
            "clean 1; clean 3; start 2; sync; round; tick 2001; round; write 1 2 54709; end 1"
        ),
    ),
    "unlike markers are told twice": (
        100000373,
        (
            "write 1 0 61426; sync; stop 1; end 1 1; sync; round; usurp 1; end 1; round; tick 2001; write -1 "
            "90 56; clean 1; tick 2001; write -1 90 7; clean 1; tick 2001; write -1 90 86; clean 1"
        ),
    ),
    "a finding that ends before its key is right": (
        5579,
        (
            "write -1 0 35; write 3 0 -1; sync; round; stop 3; end 3 1; sync; read 1 2 1; tick 200; write -1 "
            "90 36; clean 1; tick 2001; write -1 90 43; sync; clean 1; tick 2001; write -1 90 37; sync; clean "
            "1; tick 2001; write -1 90 4; clean 1; write 3 2 35; end 3; start 3; tick 200; write -1 90 47; "
            "sync; clean 3; round; tick 200; write -1 90 69; sync; clean 3"
        ),
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
