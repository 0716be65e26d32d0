"""Names the one record that a finding is about.

Its alert, its page and its commands all show the offset of `parallax.findings.finding.shown_offset`. That is this
record's, unless no replica holds it any more. A finding that is over keeps the offset that it had shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parallax.kinds import TOMBSTONE_KINDS
from parallax.model import UNKNOWN, FindingKind

KEPT = "record_offset"
"""Key in an event's evidence. It holds the offset of the record that the finding was about before it was over."""
SHOWN = "shown_offset"
"""Key in an event's evidence. It holds the offset that the texts of the finding named before it was over."""
VARIANT = "variant"
"""Key in an event's evidence: a `parallax.kinds.Variant`; absent if the finding is what its kind says in general."""

SAID = "said"
"""Key in an event's evidence. It holds the sentences on repairs and leaders that the text on an end has."""
OLDER_OVER = "older_over"
"""Key in an event's evidence. Whether a finding ended because the accused shows an older value no longer."""
SEEN_SAID = "seen_said"
"""Key in an event's evidence. Whether the text on an end says what consumers could see."""
HAD_SPREAD = "had_spread"
"""Key in an event's evidence. Whether every replica had shown it by the last check of a finding that is over."""
WAS_READABLE = "was_readable"
"""Key in an event's evidence. Whether a wrong replica led; absent where that is not known."""


def record_offset(kind: FindingKind, broker: int, places: Sequence[int], evidence: Mapping[str, Any]) -> int:
    """Return the offset of the record that a finding is about.

    That is the first known offset of ``places`` (0 if none is known), with two exceptions:

    - A replica missed a deletion. Then the finding's own offset is that of the tombstone, and its record is the old
      value that the replica still shows.
    - The finding is over or unsettled. Then it keeps the record that it named before.

    Args:
        kind: the finding's kind.
        broker: id of the accused broker; `NOBODY` if none is accused.
        places: the finding's own offsets, in this order: its record, the start of its transaction, its end marker. Each
            is -1 where there is none.
        evidence: the evidence of the finding's last event.
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
    if kind not in TOMBSTONE_KINDS:
        return None
    answers = evidence.get("replicas", {})
    accused = answers.get(str(broker))
    shown = [(one.get("key") or {}).get("visible") for one in ([accused] if accused else answers.values())]
    return max((one["offset"] for one in shown if one and one["value_size"] >= 0), default=None)


__all__ = ["HAD_SPREAD", "KEPT", "OLDER_OVER", "SAID", "SEEN_SAID", "SHOWN", "VARIANT", "WAS_READABLE", "record_offset"]
