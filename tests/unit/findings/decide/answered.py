"""Claims and answers for the tests of the decision."""

from __future__ import annotations

from typing import Any

from parallax.findings.answers import (
    Answers,
    KeyShown,
    OpenTransaction,
    RecordShown,
    ReplicaAnswer,
)
from parallax.findings.claim import Claim
from parallax.findings.decide import Decision, Verdict, decide
from parallax.model import FindingKind, Rule
from tests.unit.findings.replies import replica

PID = 4000
OPEN = (OpenTransaction(producer_id=PID, start_offset=10),)


def claim(kind: FindingKind, **fields: Any) -> Claim:
    defaults: dict[str, Any] = {
        "suspect_id": "s",
        "rule": Rule.OUTCOME,
        "topic": "orders",
        "partition": 0,
        "broker": 2,
        "offset": 10,
        "producer_id": PID,
        "transaction_start_offset": 10,
        "marker_offset": 20,
    }
    return Claim(kind=kind, **(defaults | fields))


def silent(broker: int) -> ReplicaAnswer:
    return ReplicaAnswer(broker, error=f"broker {broker}: no answer within 3000 ms")


def answers(*replicas: ReplicaAnswer, **fields: Any) -> Answers:
    return Answers({r.broker: r for r in replicas}, **({"leader": 1} | fields))


def record(offset: int = 10, outcome: str = "none", **fields: Any) -> RecordShown:
    return RecordShown(offset, outcome, **({"value_size": 5, "producer_id": PID} | fields))


def holding(broker: int, outcome: str, **fields: Any) -> ReplicaAnswer:
    return replica(broker, committed={10: record(outcome=outcome)}, asked=frozenset({10}), **fields)


def shows(broker: int, visible: RecordShown | None, *, complete: bool = True, **fields: Any) -> ReplicaAnswer:
    newest = -1 if visible is None else visible.offset
    return replica(broker, key=KeyShown(visible, complete, newest), **fields)


def verdict(decision: Decision) -> tuple[Verdict, FindingKind]:
    return decision.verdict, decision.kind


def outcome_of(c: Claim, *replicas: ReplicaAnswer, **fields: Any) -> Verdict:
    return decide(c, answers(*replicas), **fields).verdict
