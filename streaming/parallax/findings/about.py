"""Which record a finding is about: the one that its alert, its page and its commands name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.model import UNKNOWN, FindingKind

KEPT = "record_offset"
"""Name of a part of an event's evidence, once the difference is gone: the offset that the event before was about."""


def record_offset(kind: FindingKind, broker: int, places: Sequence[int], evidence: Mapping[str, Any]) -> int:
    """Return the offset of the record that a finding is about: a value that still shows, else the finding's own.

    For a deletion that a replica lacks, it is the value that the replica shows; the finding's own offset is where the
    key was deleted. A finding that is over stays about the same record.

    Args:
        kind: of the finding.
        broker: the accused.
        places: offsets of its record, its transaction and its end marker; -1 where it has none.
        evidence: of its last event.
    """
    kept = evidence.get(KEPT)
    if isinstance(kept, int):
        return kept
    shown = _value_shown(kind, broker, evidence)
    return next((place for place in places if place != UNKNOWN), 0) if shown is None else shown


def _value_shown(kind: FindingKind, broker: int, evidence: Mapping[str, Any]) -> int | None:
    """Return the value's offset where the finding is about a tombstone, which the cleaner may have removed everywhere.

    It is the accused's value; where nobody is accused, the newest one that a replica showed.
    """
    if kind is not FindingKind.DELETED_RECORD_RESURRECTED:
        return None
    answers = evidence.get("replicas", {})
    accused = answers.get(str(broker))
    shown = [(one.get("key") or {}).get("visible") for one in ([accused] if accused else answers.values())]
    return max((one["offset"] for one in shown if one and one["value_size"] >= 0), default=None)


__all__ = ["KEPT", "record_offset"]
