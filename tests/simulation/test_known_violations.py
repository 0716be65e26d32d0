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
    "a lost head that all have taken over": (
        100000180,
        ("read 0 1 3; write -1 1 21; tick 150; write 0 1 31919; sync; round; stop 2; behead 2; start 2; sync; stop 1"),
    ),
    "a value that was cleaned in a log that was cut off": (
        71010059,
        (
            "read 1 3 1; write -1 90 27; sync; stop 1; write -1 90 52; tick 200; write -1 90 33; sync; clean 3; "
            "round; usurp 1"
        ),
    ),
    "a log that was cut off before an audit": (
        72000667,
        ("write 1 1 49; sync; stop 2; end 1 1; write -1 1 16; sync; tick 200; write -1 90 33; clean 1; usurp 2"),
    ),
    "a replica copied anew before it was accused": (
        71012043,
        (
            "write 3 1 -1; sync; stop 2; end 3 1; sync; tick 2001; round; write -1 90 92; clean 1; tick 2001; "
            "write -1 90 47; sync; clean 1; tick 200; write -1 90 92; clean 1; tick 2001; write -1 90 89; sync;"
            " clean 1; write 3 1 23; end 3; start 2; sync; read 1 2 1000; wipe 2 1"
        ),
    ),
    "superseded by a record that is wrong itself": (
        430000610,
        (
            "write -1 0 1747; sync; stop 3; write -1 0 -1; sync; tick 200; write -1 90 85; clean 1; tick 2001; "
            "write -1 90 67; sync; clean 1; start 3; sync; round; tick 200; round 453; end; end 1 1; end 2 1; "
            "write -1 0 2644; write 3 0 -1; sync; stop 1; stop 3; end 3; tick 2001; write -1 90 68; sync; clean"
            " 2; tick 2001; write -1 90 55; clean 2; tick 2001; write -1 90 26; sync; clean 2; write 3 1 1290; "
            "end 3 1"
        ),
    ),
    "a lost index whose record is cleaned while it is probed": (
        440000198,
        ("write -1 2 89643; write 3 2 36261; end 3; sync; stop 2; unindex 2 8; start 2; sync; round 936"),
    ),
    "a lost head where a policy deletes": (
        300001190,
        "write -1 2 71570; tick 150; write -1 90 1; sync; stop 1; behead 1",
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
