"""Histories of which the monitor saw too little."""

from __future__ import annotations

from parallax.model import UnknownReason
from tests.simulation.history import RETENTION, Op
from tests.simulation.ops import FILLER, PLAIN, ROUND, STANDARD, SYNC, TOMBSTONE
from tests.simulation.world import GRACE, World

FIRST, GAP = UnknownReason.BEFORE_FIRST_READING, UnknownReason.RETENTION_GAP


def cleaned(*brokers: int) -> list[Op]:
    """The tombstones and markers that were written are cleaned on these brokers."""
    passes: list[Op] = []
    for ms in (200, 200, RETENTION + 1):
        passes += [("tick", ms, 0, 0), ("write", PLAIN, FILLER, 1), SYNC, *(("clean", b, 0, 0) for b in brokers)]
    return passes


LOST_TOMBSTONE: list[Op] = [("stop", 2, 0, 0), ("write", PLAIN, 0, TOMBSTONE), SYNC, *cleaned(1, 3)]
TURNED: list[Op] = [("stop", 3, 0, 0), ("end", 1, 0, 0), SYNC, *cleaned(1, 2), ("write", 1, 2, 95), ("end", 1, 1, 0)]
HISTORIES: dict[str, tuple[UnknownReason, list[Op]]] = {
    "a tombstone that came and went while nobody read": (
        GAP,
        [ROUND, ("write", 0, 0, 57), ("end", 0, 1, 0), SYNC, ROUND, *LOST_TOMBSTONE],
    ),
    "a tombstone that came and went before the first reading": (
        FIRST,
        [("write", PLAIN, 0, 57), SYNC, *LOST_TOMBSTONE],
    ),
    "a transaction that was ended wrongly before the first reading": (
        FIRST,
        [("write", 1, 2, TOMBSTONE), SYNC, *TURNED],
    ),
}


def behead(world: World, broker: int, start: int) -> None:
    """The first segments of a log are gone from the disk of a broker that is down."""
    replica = world.cluster.replicas[broker]
    replica.batches = [batch for batch in replica.batches if batch.base >= start]
    replica.log_start = start


def with_a_head_lost(*ops: Op) -> World:
    world = World(STANDARD)
    writes: list[Op] = [("write", PLAIN, key, key) for key in range(4)]
    for op in [*writes, SYNC, *ops, ("stop", 2, 0, 0)]:
        world.do(op)
    behead(world, 2, 2)
    for op in [("start", 2, 0, 0), SYNC, *([("tick", GRACE, 0, 0), ROUND] * 4)]:
        world.do(op)
    return world
