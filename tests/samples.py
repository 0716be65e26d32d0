"""A finding as the table holds it, for tests that change what they are about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from parallax.findings.finding import Finding
from parallax.model import FindingKind, FindingStatus, Rule, Severity


def finding(name: str, **more: Any) -> Finding:
    """A resurrected record on broker 2 that does not lead, but for the fields that are given."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
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
        evidence="{}",
        suspect_id=f"of-{name}",
        first_suspected_at=at,
        decided_at=at,
        exposed=False,
    )
    return replace(whole, **more)
