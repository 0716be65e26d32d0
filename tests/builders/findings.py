"""Findings as the table holds them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from parallax.findings.finding import Finding
from parallax.model import FindingKind, FindingStatus, Rule, Severity

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When it was suspected, and confirmed."""


def finding(name: str = "f", **more: Any) -> Finding:
    """A resurrected record on broker 2 that never led, but for the fields that are given."""
    whole = Finding(
        finding_id=name,
        sequence=1,
        status=FindingStatus.CONFIRMED,
        kind=FindingKind.DELETED_RECORD_RESURRECTED,
        rule=Rule.LATEST_VALUE,
        severity=Severity.CRITICAL,
        topic="orders",
        partition=0,
        broker=2,
        offset=17,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_hi=1,
        key_hash_lo=2,
        key=None,
        summary="Broker 2 shows a <deleted> record & more.",
        evidence='{"was_readable":false}',
        suspect_id=f"of-{name}",
        first_suspected_at=AT,
        decided_at=AT,
        exposed=False,
    )
    return replace(whole, **more)


def evidence(
    sides: Mapping[str, Collection[int]],
    replicas: Collection[int] | Mapping[int, Mapping[str, Any]] = (1, 2, 3),
    leader: int = 1,
    **more: Any,
) -> str:
    """The evidence of a finding.

    Args:
        sides: who shows what.
        replicas: who was asked; a mapping says what each answered.
        leader: node id.
        more: its other parts.
    """
    answered = replicas if isinstance(replicas, Mapping) else {broker: {} for broker in replicas}
    shown = {what: list(brokers) for what, brokers in sides.items()}
    return json.dumps({"leader": leader, "sides": shown, "replicas": {str(b): a for b, a in answered.items()}, **more})


EVENT = finding(
    "a",
    sequence=0,
    kind=FindingKind.CONTENT_MISMATCH,
    rule=Rule.CONTENT,
    offset=10,
    key_hash_lo=-1,
    key=b"k",
    summary="s",
    suspect_id="suspect-a",
    first_suspected_at=datetime(2026, 1, 2, tzinfo=UTC),
    decided_at=datetime(2026, 1, 3, tzinfo=UTC),
)
"""A finding that is to be written yet: two records at one offset."""
