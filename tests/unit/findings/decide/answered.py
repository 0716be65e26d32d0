"""What is decided about a claim, in short."""

from __future__ import annotations

from typing import Any

from parallax.findings.answers import ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Decision, decide
from parallax.model import FindingKind
from tests.builders.answers import answers


def verdict(decision: Decision) -> tuple[ClaimState, FindingKind]:
    return decision.verdict, decision.kind


def outcome_of(c: Claim, *replicas: ReplicaAnswer, **fields: Any) -> ClaimState:
    return decide(c, answers(*replicas), **fields).verdict
