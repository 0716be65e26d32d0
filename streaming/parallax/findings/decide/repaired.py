"""Whether a replica that no longer holds what it showed wrongly was repaired, or only lost the trace of it.

Compaction takes a record from a replica that was never put right. A repair (the replica is reassigned away and back, or
its disk is wiped) replaces the whole log by a copy of a right one. The two differ by what is seen:

- the replica shows the end marker that it lacked: markers are never invented, so another log brought it;
- its readers saw meanwhile that its log fell back, or that it held no replica: position rows of the views.

That a record is gone which it showed, and no newer one of its key is there, proves nothing: a tombstone may have come,
and been cleaned with it, between two looks.
"""

from __future__ import annotations

from parallax.findings.decide.case import Case
from parallax.findings.decide.key_values import latest_differs
from parallax.findings.decide.lineage import end_shown
from parallax.model import UNKNOWN


def repaired(case: Case) -> str | None:
    """Why a finding about a transaction has healed, though the accused holds its record no more; None where it may not.

    To be asked only where the replicas show no difference for the key any more that the transaction has made.
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
