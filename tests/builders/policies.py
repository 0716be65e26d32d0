"""A comparison that knows a topic's cleanup policy before it has seen anything."""

from __future__ import annotations

from parallax.compare.state import NEVER, PartitionState


def never_compacted() -> PartitionState:
    """The state of a partition before anything is read, if its log was never compacted."""
    made = PartitionState()
    made.partition["strict_from"], made.partition["policy_at"] = 0, NEVER
    return made
