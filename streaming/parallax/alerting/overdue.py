"""Which replicas are behind others, and which partitions wait too long for verdicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from parallax.alerting.blind import held_up
from parallax.alerting.snapshot import Snapshot
from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition

BEHIND = 10_000
"""How many offsets a replica may be behind the furthest one before that is reported."""
LAGGING_S = 300.0
"""For how many seconds a delay is not reported, since most end by themselves.

A delay means that offsets are unread, or have no verdict. The alerts ParallaxViewLagging and ParallaxVerdictOverdue
wait longer.
"""


def behind(coverage: Coverage) -> dict[int, int]:
    """By broker, how many offsets its replica's readers are behind those of the replica that was read furthest.

    It is the larger number of the two isolation levels.
    """
    furthest = [0, 0]
    for b in coverage.brokers:
        furthest = [max(furthest[0], b.read_uncommitted), max(furthest[1], b.read_committed)]
    return {b.broker: max(furthest[0] - b.read_uncommitted, furthest[1] - b.read_committed) for b in coverage.brokers}


def overdue(snapshot: Snapshot) -> Mapping[TopicPartition, float]:
    """By partition, for how many seconds it has waited for a verdict on the same offset.

    It is the longer wait of the two isolation levels. Partitions whose comparison cannot go on, e.g. because a broker
    does not answer (`parallax.alerting.blind`), are left out. Other alerts report these.
    """
    return snapshot.once(_overdue)


def _overdue(snapshot: Snapshot) -> Mapping[TopicPartition, float]:
    held = held_up(snapshot)
    found: dict[TopicPartition, float] = {}
    for (place, _), seconds in snapshot.waiting_s.items():
        if place not in held:
            found[place] = max(found.get(place, 0.0), seconds)
    return found


__all__ = ["BEHIND", "LAGGING_S", "behind", "overdue"]
