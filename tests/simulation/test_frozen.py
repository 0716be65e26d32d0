"""An end marker that is missing on every replica: known only by what one of them had been read to hold before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.model import FindingKind, FindingStatus
from tests.simulation.history import Op
from tests.simulation.ops import OF_FOUR, PLAIN, ROUND, STANDARD, SYNC, parse
from tests.simulation.readers import RC
from tests.simulation.unread import cleaned
from tests.simulation.world import World

PROFILE = replace(STANDARD, wipes=True, reassigns=True, unclean=True)
ABORT = 0
STAND: list[Op] = [ROUND, ("tick", 150, 0, 0)] * 4
OPEN: list[Op] = [("write", 1, 0, 57), SYNC, ROUND, ("stop", 2, 0, 0)]
"""Broker 2 goes away while a transaction is open at offset 0."""
READ: list[Op] = [("end", 1, ABORT, 0), ("write", PLAIN, 0, 58), SYNC, ROUND]
"""The others get its end marker, and are read past it."""
LEADS: list[Op] = [("start", 2, 0, 0), SYNC, ("lead", 2, 0, 0), SYNC]
WIPED: list[Op] = [
    op
    for broker in (1, 3)
    for op in (("wipe", broker, 1, 0), *(("read", view, broker, 1_000) for view in (0, 1)), SYNC)
]
"""Their readers notice that the logs were given up, before anybody has read of broker 2 that it lacks the marker."""
REASSIGNED: list[Op] = [
    *(("unassign", broker, 0, 0) for broker in (1, 3)),
    ROUND,
    *(("assign", broker, 0, 0) for broker in (1, 3)),
    SYNC,
]


def standing(*ops: Op) -> list[tuple[str, str]]:
    """Status and kind of the findings that stand after these operations on a cluster whose replicas are all level."""
    world = World(PROFILE)
    for op in ops:
        world.apply(op)
    assert all(replica.up for replica in world.cluster.replicas.values())
    last = {event.finding_id: event for event in world.monitor.events}
    found = [(str(event.status), str(event.kind)) for event in last.values() if event.stands]
    world.settle()
    return found


SPREAD = [(str(FindingStatus.SPREAD), str(FindingKind.READ_COMMITTED_FROZEN))]


@pytest.mark.parametrize("copied", [WIPED, REASSIGNED], ids=["an empty disk", "reassigned"])
def test_a_freeze_that_all_copied_before_it_lasted_long_is_reported_once(
    copied: list[Op],
) -> None:
    """Broker 2 leads without the end marker, and the others are copied from it."""
    assert standing(*OPEN, *READ, *cleaned(1, 3), *LEADS, *copied, *STAND) == SPREAD


def test_a_transaction_that_is_open_on_all_and_that_nobody_saw_end_is_merely_long() -> None:
    """As before, but for the end marker: it was never written."""
    writes: list[Op] = [("write", PLAIN, 0, 58), SYNC, ROUND]
    assert standing(*OPEN, *writes, *cleaned(1, 3), *LEADS, *WIPED, *STAND) == []


def test_an_audit_vouches_for_nothing_from_the_last_stable_offset_on_if_nobody_read_an_end() -> None:
    """As when it is found, but nobody has read any of it before the logs were copied: all see one that is open."""
    unread = [op for op in (*OPEN, *READ) if op != ROUND]
    world = World(PROFILE)
    for op in (*unread, *cleaned(1, 3), *LEADS, *WIPED):
        world.apply(op)
    world.settle()
    assert world.monitor.events == []
    stands = {replica.lso for replica in world.cluster.replicas.values()}
    assert stands == {0}
    assert world.monitor.audited is not None
    assert world.monitor.audited.compared_up_to[RC] == 0
    assert world.monitor.coverage.compared_up_to[RC] == 0


def test_an_end_marker_that_an_unclean_election_has_lost_is_missing_on_none() -> None:
    """Broker 2 never had the end marker, and leads on from before it: what was read of it is no part of its log."""
    grown: list[Op] = [("write", PLAIN, 1, 60 + n) for n in range(4)]
    back: list[Op] = [("start", 1, 0, 0), ("start", 3, 0, 0), SYNC]
    found = standing(*OPEN, *READ, ("usurp", 2, 0, 0), *grown, *back, *STAND)
    assert "read_committed_frozen" not in {kind for _, kind in found}


WAITS = (
    "write -1 0 -1; tick 2001; write 2 1 34377; end 2; sync; stop 2; unindex 2 9; start 2; sync; clean 2; tick 2001; "
    "write -1 90 16; sync; clean 2; round; tick 2001; write -1 90 19; sync; clean 2; unassign 1; assign 1; wipe 3 1; "
    "wipe 4 1; sync; kill; round 522; round; unassign 2"
)
"""All come to hold two transactions of a producer open as one, by copies that lack the end marker between the two.

It was read before that the replicas show the first one's record otherwise.
"""


@pytest.mark.parametrize("end", [ABORT, 1 - ABORT], ids=["aborted", "committed"])
def test_what_replicas_showed_otherwise_waits_for_the_end_of_a_transaction_that_goes_on(end: int) -> None:
    world = World(replace(OF_FOUR, hosts=(1, 2, 3, 4), alone=0))
    world.run(parse(WAITS))
    assert [claim.kind for claim in world.monitor.pending] == [FindingKind.VISIBILITY_MISMATCH]
    assert {replica.lso for replica in world.cluster.replicas.values()} == {world.monitor.pending[0].offset}
    for op in [("end", 2, end, 0), SYNC, *STAND]:
        world.apply(op)
    assert world.monitor.pending == []
