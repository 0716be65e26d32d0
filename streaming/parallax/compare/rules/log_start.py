"""The head of a log: where a topic is only compacted, no log may begin above that of another replica.

Compaction never moves a log start, DeleteRecords is refused for such a topic, and a follower takes the log start of its
leader over (``UnifiedLog.maybeIncrementLogStartOffset``). So a log that begins above another one for longer than a
follower needs to fetch has lost records that no policy deleted.
"""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import UNKNOWN, Array
from parallax.compare.suspect import Accusation
from parallax.model import FindingKind, Rule


def observe(brokers: Array, deleted_to: int, grace_ms: int) -> list[Accusation]:
    """Accuse each replica whose log has begun above another's for longer than the grace period.

    Only replicas that could be reached at the last tick are looked at: what another said before is out of date.

    Args:
        brokers: `BROKER`, after the progress was taken in; written to.
        deleted_to: a log may begin here, since the cleanup policy once deleted records; -1 where it did not.
        grace_ms: how long a log start may trail that of the leader.
    """
    asked = brokers["member"] & brokers["reachable"] & (brokers["log_start_offset"] >= 0)
    lowest = int(brokers["log_start_offset"][asked].min(initial=np.iinfo(np.int64).max))
    above = asked & (brokers["log_start_offset"] > max(lowest, deleted_to))
    brokers["head_since"][~above] = UNKNOWN
    fresh = above & (brokers["head_since"] == UNKNOWN)
    brokers["head_since"][fresh] = brokers["observed_at"][fresh]
    ripe = above & (brokers["observed_at"] - brokers["head_since"] >= grace_ms) & ~fresh
    told = {str(b["broker"]): int(b["log_start_offset"]) for b in brokers[asked]}
    return [
        Accusation(
            Rule.LATEST_VALUE,
            FindingKind.LOG_HEAD_MISSING,
            int(b["broker"]),
            offset=int(b["log_start_offset"]),
            observations={"log_starts": told},
        )
        for b in brokers[ripe]
    ]


__all__ = ["observe"]
