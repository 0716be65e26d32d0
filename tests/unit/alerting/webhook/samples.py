"""Findings for the tests of messages."""

from __future__ import annotations

from datetime import UTC, datetime

from parallax.findings.finding import Finding
from parallax.model import FindingKind, FindingStatus, Rule, Severity


def finding(name: str, *, topic: str = "orders", partition: int = 0) -> Finding:
    """A resurrected record on broker 2 that does not lead."""
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Finding(
        finding_id=name,
        sequence=1,
        status=FindingStatus.CONFIRMED,
        kind=FindingKind.DELETED_RECORD_RESURRECTED,
        rule=Rule.LATEST_VALUE,
        severity=Severity.CRITICAL,
        topic=topic,
        partition=partition,
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
