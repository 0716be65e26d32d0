"""The head of a log: where a topic is only compacted, no log may begin above that of another replica.

Compaction never moves a log start, DeleteRecords is refused for such a topic, and a follower takes the log start of its
leader over (``UnifiedLog.maybeIncrementLogStartOffset``). So a log that begins above another one for longer than a
follower needs to fetch has lost records that no policy deleted.

A log that holds nothing holds no head either, wherever it begins: that of a replica that is new begins at 0 until the
leader has told where its own does.
"""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import Array
from parallax.compare.suspect import Accusation
from parallax.model import UNKNOWN, FindingKind, Rule


def holds_any(brokers: Array) -> Array:
    """Mask of the replicas (`BROKER`) whose logs are known to hold anything, so that they tell where a head is."""
    starts = brokers["log_start_offset"]
    known: Array = (starts != UNKNOWN) & (starts < np.maximum(brokers["log_end_offset"], brokers["high_watermark"]))
    return known


def observe(brokers: Array, deleted_to: int, head: int, grace_ms: int) -> list[Accusation]:
    """Accuse each replica whose log has begun above another's, which holds anything, for longer than the grace period.

    Where all begin above where one of them once did, the leader has lost its head, and the others have followed: one of
    them stands for all, the one that was seen so first. Only replicas that could be reached at the last tick are looked
    at: what another said before is out of date.

    Args:
        brokers: `BROKER`, after the progress was taken in; written to.
        deleted_to: a log may begin here, since the cleanup policy once deleted records; -1 where it did not.
        head: the lowest start of a log that held anything that was seen while the policy did not delete; -1 where none
            was.
        grace_ms: how long a log start may trail that of the leader.
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
