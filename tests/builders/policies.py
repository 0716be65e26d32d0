"""A comparison that knows a topic's cleanup policy before it has seen anything."""

from __future__ import annotations

from parallax.compare.state import NEVER, PartitionState


def never_compacted() -> PartitionState:
    """The state of a partition of which nothing was read yet, whose log was never compacted and never will be."""
    made = PartitionState()
    made.partition["strict_from"], made.partition["policy_at"] = 0, NEVER
    return made
