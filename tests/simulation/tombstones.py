"""Replica sets in which a tombstone is lost."""

from __future__ import annotations

from tests.simulation.cluster import Cluster
from tests.simulation.records import Limits

FOREVER = 10**9
VERSION2 = 1


def cluster(brokers: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    return Cluster(Limits(delete_retention=1_000, producer_expiration=FOREVER), brokers)


def turn(c: Cluster, ms: int = 200) -> None:
    c.tick(ms)
    c.write([(99, c.now)])
    c.sync()
    for broker in c.replicas:
        c.clean(broker)


def miss_tombstone(c: Cluster, key: int, *brokers: int) -> None:
    """A tombstone comes and goes while brokers are away; those that went last are back first."""
    for broker in brokers:
        c.stop(broker)
    c.write([(key, None)])
    for _ in range(3):
        turn(c, 1_001)
    for broker in reversed(brokers):
        c.start(broker)
    c.sync()


def lose_tombstone(c: Cluster) -> None:
    """The tombstone of key 7 comes and goes while broker 3 is away."""
    c.write([(7, 1)])
    c.sync()
    miss_tombstone(c, 7, 3)
