"""Findings made by hand about replicas that show a deleted value, where nobody has to find them."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from parallax.findings.finding import Finding
from parallax.model import FindingKind, FindingStatus, Rule, Severity

_AT = datetime(2026, 1, 3, tzinfo=UTC)


def accused(
    topic: str, broker: int, leader: int, assigned: Sequence[int], also: Collection[int] = (), offset: int = 0
) -> Finding:
    """A finding that a replica, and some more, show a deleted value; all others were read whole and show none."""
    wrong = {broker, *also}
    evidence = {
        "leader": leader,
        "assigned": list(assigned),
        "sides": {
            "no value": sorted(set(assigned) - wrong),
            f"value at offset {offset}": sorted(wrong),
        },
        "replicas": {str(one): {} for one in sorted(assigned)},
    }
    return Finding(
        finding_id="a" * 32,
        sequence=1,
        status=FindingStatus.CONFIRMED,
        kind=FindingKind.DELETED_RECORD_RESURRECTED,
        rule=Rule.LATEST_VALUE,
        severity=Severity.CRITICAL,
        topic=topic,
        partition=0,
        broker=broker,
        offset=offset,
        producer_id=-1,
        transaction_start_offset=-1,
        marker_offset=-1,
        key_hash_hi=0,
        key_hash_lo=1,
        key=None,
        summary="It is back.",
        evidence=json.dumps(evidence),
        suspect_id="s",
        first_suspected_at=_AT,
        decided_at=_AT,
        exposed=leader == broker,
    )


__all__ = ["accused"]
