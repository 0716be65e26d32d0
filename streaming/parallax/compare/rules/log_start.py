"""The head of a log: if a topic is only compacted, no log may begin above that of another replica.

Compaction never moves a log start, and Kafka refuses DeleteRecords for such a topic. A follower takes over the log
start of its leader (``UnifiedLog.maybeIncrementLogStartOffset``). So if a log begins above another one for longer than
a follower needs to fetch, it has lost records that no policy deleted.

An empty log proves nothing, wherever it begins. The log of a new replica begins at 0 until the leader has reported
where its own log begins.
"""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import Array
from parallax.compare.suspect import Accusation
from parallax.model import UNKNOWN, FindingKind, Rule


def holds_any(brokers: Array) -> Array:
    """For each replica, whether its log is known to hold records.

    Args:
        brokers: the state's rows about its replicas (`BROKER`).
    """
    starts = brokers["log_start_offset"]
    known: Array = (starts != UNKNOWN) & (starts < np.maximum(brokers["log_end_offset"], brokers["high_watermark"]))
    return known


def observe(brokers: Array, deleted_to: int, head: int, grace_ms: int) -> list[Accusation]:
    """Accuse each replica whose log has begun above another log for longer than the grace period.

    All logs may have lost their head: they begin at the same offset, above the offset where a log once began. That
    happens if the leader's log loses its head, and the followers take over its log start. Then one replica is accused
    for all: the replica whose log was first seen to begin so high. Only replicas that answered at the last tick count,
    because older answers are out of date.

    Args:
        brokers: `BROKER` rows, with the micro-batch's progress in them; they are changed.
        deleted_to: up to this offset the cleanup policy may have deleted records, so a log may begin there; -1 if it
            never deleted.
        head: the lowest start of a log with records, seen while the policy deleted nothing; -1 if none was seen.
        grace_ms: for how many milliseconds a log start may differ from that of the leader.
    """
    starts = brokers["log_start_offset"]
    asked = brokers["member"] & brokers["reachable"] & (starts != UNKNOWN)
    held = asked & holds_any(brokers)
    lowest = int(starts[held if held.any() else asked].min(initial=np.iinfo(np.int64).max))
    everyone = head != UNKNOWN and bool((asked == brokers["member"]).all())
    above = asked & (starts > max(min(lowest, head) if everyone else lowest, deleted_to))
    brokers["head_since"][~above] = UNKNOWN
    fresh = above & (brokers["head_since"] == UNKNOWN)
    brokers["head_since"][fresh] = brokers["observed_at"][fresh]
    ripe = above & (brokers["observed_at"] - brokers["head_since"] >= grace_ms) & ~fresh
    alike = np.flatnonzero(ripe & (starts == lowest))
    ripe[alike] = False
    if len(alike):
        ripe[alike[np.lexsort((brokers["broker"][alike], brokers["head_since"][alike]))[0]]] = True
    starts_of = {str(b["broker"]): int(b["log_start_offset"]) for b in brokers[asked]}
    return [
        Accusation(
            Rule.LATEST_VALUE,
            FindingKind.LOG_HEAD_MISSING,
            int(b["broker"]),
            offset=int(b["log_start_offset"]),
            observations={"log_starts": starts_of},
        )
        for b in brokers[ripe]
    ]


__all__ = ["holds_any", "observe"]
