"""Which replicas are behind, and which partitions wait for verdicts that should come by themselves and do not. Pure."""

from __future__ import annotations

from parallax.alerting.refusals import NOBODY as WHOLE_TOPIC
from parallax.alerting.state import Replica, Snapshot
from parallax.compare.suspect import Coverage
from parallax.model import FindingKind, TopicPartition
from parallax.source.feedback import ALL

BEHIND = 10_000
"""Offsets that a replica may be behind the furthest one on a busy partition before it is said."""
LAGGING_S = 300.0
"""For how long a replica may have shown what is unread, or an offset have no verdict that should come by itself, before
that is said; what ParallaxViewLagging and ParallaxCoverageUnknown go by."""


def behind(coverage: Coverage) -> dict[int, int]:
    """By broker, how many offsets its replica has been read less far than another, in the view where it is more."""
    furthest = [0, 0]
    for b in coverage.brokers:
        furthest = [max(furthest[0], b.read_uncommitted), max(furthest[1], b.read_committed)]
    return {b.broker: max(furthest[0] - b.read_uncommitted, furthest[1] - b.read_committed) for b in coverage.brokers}


def overdue(snapshot: Snapshot) -> dict[TopicPartition, float]:
    """By partition, how many seconds it has waited at the same offset for verdicts that should come by themselves.

    A replica that cannot be read or stands still, and a transaction that hangs, are reasons of their own, and have
    alerts of their own: their partitions are left out.
    """
    if ALL in snapshot.paused:
        return {}
    known = {one.one.place for one in snapshot.hanging}
    standing = snapshot.findings.standing
    known |= {finding.place for finding in standing if finding.kind is FindingKind.READ_COMMITTED_FROZEN}
    known |= {TopicPartition(*replica[:2]) for replica in snapshot.replicas if not is_read(snapshot, replica)}
    found: dict[TopicPartition, float] = {}
    for (place, _), seconds in snapshot.waiting_s.items():
        if place not in known:
            found[place] = max(found.get(place, 0.0), seconds)
    return found


def is_read(snapshot: Snapshot, replica: Replica) -> bool:
    """Whether nothing keeps a replica from being read: it answers, may be read, and is wanted read."""
    topic, _, broker = replica
    held_up = replica in snapshot.refused or (topic, *WHOLE_TOPIC) in snapshot.refused or broker in snapshot.paused
    return snapshot.reachable.get(broker, True) and not held_up


__all__ = ["BEHIND", "LAGGING_S", "behind", "is_read", "overdue"]
