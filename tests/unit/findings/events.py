"""A finding's event as the table holds it."""

from __future__ import annotations

from datetime import UTC, datetime

from parallax.model import FindingKind, Rule
from tests.samples import finding

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
