"""The plan and the result of an audit of one partition."""

from __future__ import annotations

from datetime import UTC, datetime

from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.audit.result import Compared
from parallax.findings.finding import Finding
from parallax.model import FindingKind
from tests.builders.claims import key_suspect
from tests.builders.findings import finding

PLAN = PartitionPlan("orders", 0, "id", TopicTraits(), (1, 2, 3), (10, 10))
WHOLE = Compared(compared_up_to=(10, 10))
SUSPECT = key_suspect(FindingKind.RECORD_MISSING, offset=7, key_hash_lo=1)


def found(topic: str = "orders") -> Finding:
    return finding(
        "f",
        kind=FindingKind.RECORD_MISSING,
        topic=topic,
        offset=7,
        key_hash_hi=0,
        key_hash_lo=1,
        summary="Broker 2 lacks it.",
        suspect_id=SUSPECT.suspect_id,
        first_suspected_at=datetime.now(UTC),
        decided_at=datetime.now(UTC),
    )
