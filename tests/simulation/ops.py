"""Operations of a history, in their short form and by name."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.simulation.history import BROKERS, Op, profile
from tests.simulation.monitor import RECHECK_S
from tests.simulation.world import World

PLAIN, FILLER, TOMBSTONE = -1, 90, -1
STANDARD = replace(profile(0, healthy=False), late=False, cap=None, brokers=BROKERS)
ROUND: Op = ("round", 0, 0, 0)
SYNC: Op = ("sync", 0, 0, 0)


def turn(broker: int, ms: int) -> list[Op]:
    return [("tick", ms, 0, 0), ("write", PLAIN, FILLER, 1), SYNC, ("clean", broker, 0, 0)]


_REPEATED = re.compile(r"(\d+)x\(([^()]*)\)")


def parse(text: str) -> list[Op]:
    """Operations of a text: ``NAME A B C; ...``, zeros at the end left out; ``3x(...)`` are three times the same."""
    made: list[Op] = []
    for part in _REPEATED.sub(lambda found: "; ".join([found[2]] * int(found[1])), text).split(";"):
        name, *numbers = part.split()
        a, b, c = [*map(int, numbers), 0, 0, 0][:3]
        made.append((name, a, b, c))
    return made


def looked_at_again(world: World, times: int) -> None:
    for _ in range(times):
        world.monitor.clock += RECHECK_S
        for op in (("tick", 100, 0, 0), ROUND):
            world.apply(op)


OF_FOUR = replace(STANDARD, brokers=(1, 2, 3, 4))
