"""A replica that shows a record otherwise than its own end marker says: its index of aborted transactions is wrong."""

from __future__ import annotations

from parallax.findings.claim import is_direct_end
from parallax.findings.decide.case import Case, Decision, end_shown
from parallax.findings.decide.endings import by_outcome, ended_by, live_outcome, live_outcomes


def contradiction(case: Case) -> Decision:
    """Judge a claim that a replica shows a record otherwise than its own first end marker behind the record.

    A marker stays for as long as a record of its transaction does. So where the record is held still, no other end
    marker of the producer lay between the two, and the replica's index of aborted transactions is what is wrong. Where
    it is held no more, the marker that ended it may have been cleaned with it before it was read.
    """
    claim, accused = case.claim, case.accused
    own = live_outcome(claim, accused) if claim.first_offset in accused.committed else None
    if accused.last_stable_offset <= claim.first_offset or accused.high_watermark <= claim.marker_offset:
        return case.pending(f"broker {accused.broker} does not show what lies up to offset {claim.marker_offset} yet")
    if own is None:
        return case.not_held(f"broker {accused.broker} does not hold offset {claim.offset} any more", claim.offset)
    if (marker := end_shown(claim, accused)) is not None:
        if ended_by(marker.type) == own:
            return case.dismissed(f"broker {accused.broker} shows offset {claim.offset} as its end marker says")
        return case.confirmed(
            f"broker {accused.broker} shows offset {claim.offset} as {own}, and behind it the {marker.type} marker "
            f"of offset {marker.offset}",
            sides=by_outcome(live_outcomes(case)),
        )
    if claim.confirmed_at_ms and own == claim.recorded.outcomes.get(accused.broker):
        # Its cleaner goes by the same index: it takes an ABORT of which that knows nothing, and leaves the records.
        return case.confirmed(
            f"broker {accused.broker} shows offset {claim.offset} as {own} still, though its end marker is cleaned",
            sides=by_outcome(live_outcomes(case)),
        )
    return case.not_held(f"broker {accused.broker} does not show the end marker any more", claim.marker_offset)


def has_cleaned_its_end(case: Case) -> bool:
    """Whether a replica that contradicted its end marker shows the record so still, and has cleaned the marker.

    The cleaner goes by the index of aborted transactions: where that is wrong it may take the marker and leave the
    record. If that marker lay directly behind the record, that was ended so all the same.
    """
    claim, accused = case.claim, case.accused
    was_read = accused.broker in claim.recorded.markers and accused.broker in claim.recorded.outcomes
    is_held = claim.first_offset in accused.committed and end_shown(claim, accused) is None
    return was_read and is_held and is_direct_end(claim.first_offset, claim.marker_offset)
