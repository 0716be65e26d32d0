"""Decides whether a replica that no longer shows what was wrong was repaired, or has only lost the trace.

Compaction may remove the wrongly shown record from a replica that nobody repaired. A repair (a reassignment away and
back, or a wiped disk) replaces the whole log by a copy of a right one. Two observations prove a repair:

- The replica shows the end marker that it lacked. Markers are never invented, so another log brought it.
- The accused's readers have reported that the log fell back, or that the broker held no replica for a time.

If the record is gone, and the key has no newer record, nothing is proven. Between two probes a tombstone of the key may
have been written, and cleaned together with the record.
"""

from __future__ import annotations

from parallax.findings.decide.case import ClaimCase
from parallax.findings.decide.key_values import latest_differs
from parallax.findings.decide.lineage import end_shown
from parallax.model import UNKNOWN


def repaired(case: ClaimCase) -> str | None:
    """Return why a finding about a transaction has healed, as a clause for people; None if that is not proven.

    Call it for an accused that no longer holds the record. Compare the values of the key first (`latest_differs`).
    """
    claim, accused = case.claim, case.accused
    if not case.live_only or case.absent or not case.others:
        return None
    if end_shown(claim, accused) is not None:
        return f"broker {accused.broker} shows the end marker at offset {claim.marker_offset} that it lacked"
    if claim.key is None or any(a.key is None or not a.key.complete for a in (accused, *case.others)):
        return None
    if case.answers.recreated and latest_differs(case) is None:
        but = "" if claim.deleted_at == UNKNOWN else f", but for values that were deleted at offset {claim.deleted_at}"
        what = f"for the key of offset {claim.first_offset} what the others show{but}"
        return f"the log of broker {accused.broker} was replaced, and shows {what}"
    return None
