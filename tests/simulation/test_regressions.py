"""Histories that once failed, shrunken: each holds a mistake that was made in the product."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.history import BROKERS, Op, profile
from tests.simulation.world import World

PLAIN, FILLER, TOMBSTONE = -1, 90, -1
STANDARD = replace(profile(0, healthy=False), late=False, cap=None, brokers=BROKERS)
ROUND: Op = ("round", 0, 0, 0)
SYNC: Op = ("sync", 0, 0, 0)


def turn(broker: int, ms: int) -> list[Op]:
    return [("tick", ms, 0, 0), ("write", PLAIN, FILLER, 1), SYNC, ("clean", broker, 0, 0)]


FAULTY = {
    "a wrong outcome is told although a long transaction pins every last stable offset": [
        ("write", 2, 1, 39),
        SYNC,
        ("stop", 3, 0, 0),
        ("end", 2, 0, 0),
        SYNC,
        ROUND,
        ("tick", 5000, 0, 0),
        *turn(2, 0),
        *turn(2, 150),
        ("tick", 2001, 0, 0),
        ("lead", 2, 0, 0),
        ("write", 0, 3, 31),
        ("write", 2, 2, 39),
        ("clean", 2, 0, 0),
        ("end", 2, 1, 0),
    ],
    "a value that two of three have deleted is not missing on one of them": [
        ("write", PLAIN, 1, 66),
        SYNC,
        ("read", 1, 1, 3),
        ("stop", 2, 0, 0),
        ("write", PLAIN, 1, TOMBSTONE),
        *turn(3, 2001),
        ("clean", 1, 0, 0),
        *turn(1, 2001),
        ("clean", 3, 0, 0),
    ],
    "a transaction whose marker was cleaned before it was read does not hide the next one": [
        ("write", 1, 1, 14),
        SYNC,
        ROUND,
        ("end", 1, 1, 0),
        ("write", PLAIN, 1, 5),
        *turn(3, 200),
        *turn(3, 2001),
        *turn(3, 2001),
        ("write", 1, 0, TOMBSTONE),
        SYNC,
        ("stop", 3, 0, 0),
        ("write", PLAIN, 0, 42),
        ("tick", 2001, 0, 0),
        ("end", 1, 1, 0),
        SYNC,
        ("clean", 1, 0, 0),
        *turn(1, 2001),
        *turn(1, 2001),
        *turn(1, 2001),
    ],
    "a fault of the second replica of two is no missing record on the first": [
        ("write", PLAIN, 1, 74),
        ("write", 3, 1, 74),
        SYNC,
        ("stop", 1, 0, 0),
        ("end", 3, 0, 0),
        *turn(2, 2001),
        *turn(2, 200),
        *turn(2, 2001),
        ("write", 3, 2, 74),
        ("end", 3, 1, 0),
    ],
}

HEALTHY = {
    "a replica that started anew above a transaction has not closed it": [
        ("write", 1, 0, 41),
        SYNC,
        ("stop", 1, 0, 0),
        ("write", PLAIN, 0, TOMBSTONE),
        ("write", PLAIN, 0, 54),
        ("write", PLAIN, FILLER, 73),
        SYNC,
        ("trim", 2, 0, 0),
    ],
}


@pytest.mark.parametrize("name", FAULTY)
def test_faulty(name: str) -> None:
    brokers = BROKERS[:2] if "replica of two" in name else BROKERS
    World(replace(STANDARD, brokers=brokers)).run(FAULTY[name])


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name: str) -> None:
    World(replace(STANDARD, healthy=True)).run(HEALTHY[name])
