"""What is wrong is known, or unknown in its very place: the property has teeth."""

from __future__ import annotations

import pytest

from tests.simulation import events
from tests.simulation.properties import KNOWN, Ended, Unknown
from tests.simulation.test_unread import HISTORIES, LOST_TOMBSTONE, PLAIN, ROUND, STANDARD, SYNC
from tests.simulation.world import World

NOTHING = Ended((), (), ())


def with_a_value_that_is_back() -> World:
    """Broker 2 shows the value at offset 0, which was deleted at offset 1 while it was away; nobody was watching."""
    world = World(STANDARD)
    for op in [("write", PLAIN, 0, 57), SYNC, *LOST_TOMBSTONE, ("start", 2, 0, 0), SYNC]:
        world.apply(op)
    return world


UNKNOWN = {
    "the offset that it shows": (Unknown(((0, 1),), 0, ()), []),
    "the offset that deleted it": (Unknown(((1, 2),), 0, ()), []),
    "other offsets": (Unknown(((2, 9),), 0, ()), [KNOWN]),
    "skipped offsets around it": (Unknown((), 1, ()), []),
    "nothing": (Unknown((), 0, ()), [KNOWN]),
    "an audit that has not ended": (Unknown((), 0, ((2, 9),)), []),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_only_what_is_unknown_of_a_place_excuses_it(name: str) -> None:
    world = with_a_value_that_is_back()
    unknown, expected = UNKNOWN[name]
    world.judge.end(NOTHING, unknown, world.monitor.shown)
    assert [broken.name for broken in world.judge.broken] == expected


def test_after_an_audit_what_differs_still_is_to_be_known() -> None:
    world = with_a_value_that_is_back()
    world.judge.audited(NOTHING, Unknown((), 0, ()), world.monitor.shown)
    assert [broken.name for broken in world.judge.broken] == [KNOWN]


@pytest.mark.parametrize("name", [name for name in HISTORIES if "tombstone" in name])
def test_an_audit_with_a_verdict_settles_what_waited_for_it(name: str) -> None:
    world = World(STANDARD)
    ends = [("start", broker, 0, 0) for broker in world.cluster.replicas]
    for op in [*HISTORIES[name][1], *ends, SYNC, ROUND, ("tick", 1, 0, 0), ROUND]:
        world.apply(op)
    assert events.unknown(world.monitor).until_audited
    world.apply(("tick", 1, 0, 0))
    world.apply(("audit", 0, 0, 0))
    assert world.monitor.audited is not None
    assert events.unknown(world.monitor).until_audited == ()
