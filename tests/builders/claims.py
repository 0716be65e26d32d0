"""What is claimed of broker 2 of partition orders-0."""

from __future__ import annotations

from typing import Any

from parallax.compare.suspect import Accusation, Suspect
from parallax.findings.claim import Claim, RecordedByViews
from parallax.model import UNKNOWN, FindingKind, Rule
from tests.builders.answers import PRODUCER

KEY = 7
"""The low half of the hash of the key that claims are about; the high one is 0."""
_NO_TRANSACTION = dict.fromkeys(("producer_id", "transaction_start_offset", "marker_offset"), UNKNOWN)
_RAISED_MS = 1_700_000_000_000


def claim(kind: FindingKind, name: str = "s", **fields: Any) -> Claim:
    """About the producer's transaction from offset 10 to the end marker at 20."""
    base: dict[str, Any] = {"rule": Rule.OUTCOME, "topic": "orders", "partition": 0, "broker": 2, "offset": 10}
    base |= {"producer_id": PRODUCER, "transaction_start_offset": 10, "marker_offset": 20}
    return Claim(name, kind=kind, **(base | fields))


def unmarked(name: str = "s", **fields: Any) -> Claim:
    """That it lacks the end marker, an ABORT, which broker 1 was recorded to show."""
    return claim(FindingKind.MARKER_MISSING, name, **({"recorded": RecordedByViews(markers={1: "abort"})} | fields))


def of_key(kind: FindingKind, name: str = "s", **fields: Any) -> Claim:
    """About the key's value, which the record of no transaction at offset 10 says."""
    base: dict[str, Any] = {"rule": Rule.LATEST_VALUE, "key_hash_lo": KEY} | _NO_TRANSACTION
    return claim(kind, name, **(base | fields))


def of_offset(kind: FindingKind = FindingKind.CONTENT_MISMATCH, name: str = "s", **fields: Any) -> Claim:
    """About the record of no transaction at offset 10."""
    return claim(kind, name, **({"rule": Rule.CONTENT} | _NO_TRANSACTION | fields))


def suspect(kind: FindingKind, *, topic: str = "orders", raised_at: int = _RAISED_MS, **fields: Any) -> Suspect:
    """As the comparison raises it, about the same transaction."""
    base: dict[str, Any] = {"rule": Rule.OUTCOME, "broker": 2, "offset": 10}
    base |= {"producer_id": PRODUCER, "transaction_start_offset": 10, "marker_offset": 20}
    return Suspect(topic, 0, Accusation(kind=kind, **(base | fields)), {}, raised_at)


def key_suspect(kind: FindingKind = FindingKind.DELETED_RECORD_RESURRECTED, **fields: Any) -> Suspect:
    """As the comparison raises it, about the same value of the key."""
    return suspect(kind, **({"rule": Rule.LATEST_VALUE, "key_hash_lo": KEY} | _NO_TRANSACTION | fields))
