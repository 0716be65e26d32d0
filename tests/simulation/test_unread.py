"""Histories of which the monitor saw too little: what it did not see is unknown, never taken for consistent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from parallax.model import UnknownReason
from tests.simulation.audits import settled
from tests.simulation.history import BROKERS, RETENTION, Op, profile
from tests.simulation.kinds import generate
from tests.simulation.ops import FILLER, PLAIN, ROUND, STANDARD, SYNC, TOMBSTONE
from tests.simulation.unread import FIRST, GAP, HISTORIES, behead, with_a_head_lost
from tests.simulation.world import GRACE, SEEING, World


@pytest.mark.parametrize("name", HISTORIES)
def test_what_came_and_went_unseen_is_unknown(name: str) -> None:
    reason, ops = HISTORIES[name]
    world = World(STANDARD)
    for op in ops:
        world.apply(op)
    for broker in world.cluster.replicas:
        world.apply(("start", broker, 0, 0))
    world.apply(SYNC)
    world.apply(ROUND)
    world.apply(("tick", 1, 0, 0))
    world.apply(ROUND)
    unknown = world.monitor.coverage.unknown_for(reason)
    assert min(unknown) > 0, world.monitor.coverage
    assert all(up_to > 0 for up_to in world.monitor.coverage.compared_up_to)


@pytest.mark.parametrize("name", HISTORIES)
def test_what_was_watched_from_the_beginning_and_in_time_is_not(name: str) -> None:
    _, ops = HISTORIES[name]
    world = World(STANDARD)
    world.apply(ROUND)
    for op in ops:
        for part in [("tick", RETENTION // 3, 0, 0)] * 3 if op[:2] == ("tick", RETENTION + 1) else [op]:
            world.apply(part)
            world.apply(ROUND)
    for broker in world.cluster.replicas:
        world.apply(("start", broker, 0, 0))
    world.apply(SYNC)
    world.apply(ROUND)
    coverage = world.monitor.coverage
    assert (coverage.unknown_for(FIRST), coverage.unknown_for(GAP)) == ((0, 0), (0, 0))


@pytest.mark.parametrize("transactions", [False, True])
def test_a_first_reading_of_logs_that_no_cleaner_has_come_to_leaves_nothing_unknown(*, transactions: bool) -> None:
    world = World(STANDARD)
    plain: list[Op] = [("write", PLAIN, key % 3, TOMBSTONE if key == 4 else key) for key in range(7)]
    ended: list[Op] = [("write", 1, 2, 57), ("end", 1, 1, 0), ("write", 1, 2, 58), ("end", 1, 0, 0)]
    for op in [*plain, *(ended if transactions else []), SYNC, ROUND, ("tick", 1, 0, 0), ROUND]:
        world.apply(op)
    coverage = world.monitor.coverage
    assert (coverage.unknown_for(FIRST), coverage.unknown_for(GAP)) == ((0, 0), (0, 0))
    assert all(up_to >= 7 for up_to in coverage.compared_up_to)


@pytest.mark.parametrize("healthy", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_monitor_that_comes_in_the_middle_of_a_history_is_right_or_does_not_know(seed: int, *, healthy: bool) -> None:
    p = replace(profile(seed, healthy), late=False)
    ops = generate(p)
    come_at = random.Random(seed).randrange(len(ops) // 4, 3 * len(ops) // 4)
    world = World(p)
    world.monitor = world._monitor(eventful=True)
    world.run([op for n, op in enumerate(ops) if n >= come_at or op[0] not in SEEING])


def test_a_record_that_never_got_its_end_marker_is_unknown_until_an_audit_finds_it_gone() -> None:
    """Replica 3 shows it, with the emptied end marker behind it: while it does so, no audit can tell how it ended."""
    world = World(STANDARD)
    ends: list[Op] = [("start", broker, 0, 0) for broker in BROKERS]
    for op in [*HISTORIES["a transaction that was ended wrongly before the first reading"][1], *ends, SYNC, ROUND]:
        world.apply(op)
    assert world.monitor.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 2)
    for op in [("tick", 1, 0, 0), ("audit", 0, 0, 0), ROUND]:
        world.apply(op)
    assert world.monitor.audited is None
    for op in [("tick", 200, 0, 0), ("write", PLAIN, FILLER, 1), SYNC, ("clean", 3, 0, 0), ROUND, ("audit", 0, 0, 0)]:
        world.apply(op)
    left = settled(world.monitor.coverage, world.monitor.audited)
    assert {reason for reason, views in left.unknown.items() if any(views)} == set(), left


@pytest.mark.parametrize("watched", [[ROUND], []], ids=["watched", "cold"])
def test_the_head_of_a_log_lost_is_confirmed_and_unknown(watched: list[Op]) -> None:
    world = with_a_head_lost(*watched)
    assert [(f.kind, f.broker) for f in world.monitor.confirmed] == [("log_head_missing", 2)]
    assert world.monitor.coverage.unknown_for(UnknownReason.LOG_START_DIFFERS) == (2, 2)
    assert min(world.monitor.coverage.compared_up_to) >= 4


def test_when_all_have_taken_it_over_from_their_leader_it_stays_unknown() -> None:
    world = with_a_head_lost(ROUND)
    for broker in (1, 3):
        behead(world, broker, 2)
    for op in [("tick", GRACE, 0, 0), ROUND] * 2:
        world.do(op)
    assert world.monitor.coverage.unknown_for(UnknownReason.LOG_START_DIFFERS) == (2, 2)
