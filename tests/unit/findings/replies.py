"""What replicas answer that are asked about a suspect."""

from __future__ import annotations

from typing import Any

from parallax.findings.answers import Answers, OpenTransaction, RecordShown, ReplicaAnswer
from parallax.findings.claim import Claim

OPEN = (OpenTransaction(producer_id=7, start_offset=10),)
HELD_BY_ANOTHER: dict[str, Any] = {"open_transactions": (OpenTransaction(5, 3), *OPEN), "last_stable_offset": 3}
"""A replica that misses an end marker, and whose last stable offset stands below that, at a long transaction."""


def replica(broker: int, end: int = 100, **fields: Any) -> ReplicaAnswer:
    """One that holds all offsets up to an end, and no transaction open."""
    base = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": 0, "log_end_offset": end}
    return ReplicaAnswer(broker, **(base | {"open_transactions": ()} | fields))


def missing(_: Claim, leader: int = 1) -> Answers:
    accused = replica(2, **HELD_BY_ANOTHER)
    return Answers({1: replica(1), 2: accused, 3: replica(3)}, leader=leader)


def agree(_: Claim) -> Answers:
    return Answers({b: replica(b) for b in (1, 2, 3)}, leader=1)


def wrong(_: Claim) -> Answers:
    def holds(broker: int, outcome: str) -> ReplicaAnswer:
        return replica(broker, committed={10: RecordShown(10, outcome)}, asked=frozenset({10}))

    return Answers({1: holds(1, "aborted"), 2: holds(2, "committed"), 3: holds(3, "aborted")}, leader=1)
