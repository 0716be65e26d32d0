"""What three replicas answer about a transaction, of which broker 2 is suspected."""

from __future__ import annotations

from typing import Any

from parallax.findings.answers import Answers, OpenTransaction, ReplicaAnswer
from parallax.findings.claim import Claim
from tests.builders.answers import OPEN, answers, record, replica

HELD_BY_ANOTHER: dict[str, Any] = {"open_transactions": (OpenTransaction(5, 3), *OPEN), "last_stable_offset": 3}
"""A replica that misses an end marker, and whose last stable offset stands below that, at a long transaction."""


def missing(_: Claim, leader: int = 1) -> Answers:
    return answers(replica(1), replica(2, **HELD_BY_ANOTHER), replica(3), leader=leader)


def agree(_: Claim) -> Answers:
    return answers(*(replica(b) for b in (1, 2, 3)))


def wrong(c: Claim) -> Answers:
    def holds(broker: int, outcome: str) -> ReplicaAnswer:
        held = record(outcome=outcome, producer_id=c.producer_id)
        return replica(broker, committed={10: held}, asked=frozenset({10}))

    return answers(holds(1, "aborted"), holds(2, "committed"), holds(3, "aborted"))
