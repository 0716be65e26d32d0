"""Decides whether a replica contradicts an end marker in its own log.

Its index of aborted transactions is wrong then. Example: broker 2 shows record 7 as committed, and holds the ABORT of
its transaction at offset 9.
"""

from __future__ import annotations

from dataclasses import replace

from parallax.evidence.log import Belongs
from parallax.findings.answers import COMMITTED, RecordShown, ReplicaAnswer, holds_tombstone
from parallax.findings.claim import Claim, is_direct_end
from parallax.findings.decide.case import (
    ClaimCase,
    ClaimState,
    Decision,
    Resolution,
    names,
)
from parallax.findings.decide.endings import by_outcome, ended_by, live_outcome, live_outcomes, other_outcome
from parallax.findings.decide.key_values import behind, gone_everywhere, latest_differs
from parallax.findings.decide.lineage import end_shown, has_cut_the_end, rests_on
from parallax.kinds import WRONG_OUTCOMES
from parallax.model import FindingKind
from parallax.sides import Shows, Side, Sides


def contradiction(case: ClaimCase) -> Decision:
    """Return the decision on a claim that a replica shows an outcome that the end marker in its own log contradicts.

    The claim is confirmed if the replica shows the record as aborted, and the producer's next marker is a COMMIT. The
    same goes for a committed record and an ABORT. No cleaner removes an end marker before the last record of its
    transaction. So while the record is there, the next marker is the one that ended its transaction. The replica's
    index of aborted transactions is wrong.

    The claim is not confirmed once the record is gone: its transaction's marker may have been cleaned with it. If only
    the marker is gone, a finding stays confirmed as long as the replica shows the same outcome as before. A new suspect
    is not confirmed then.
    """
    claim, accused = case.claim, case.accused
    own = live_outcome(claim, accused) if claim.first_offset in accused.committed else None
    if accused.last_stable_offset <= claim.first_offset or accused.high_watermark <= claim.marker_offset:
        return case.pending(f"broker {accused.broker} does not show what lies up to offset {claim.marker_offset} yet")
    if own is None:
        gone, lacking = f"broker {accused.broker} does not hold offset {claim.offset} any more", _lacking(case)
        if lacking is not None and not _was_written_over(case):
            return lacking
        return case.not_held(gone, claim.offset)
    if (marker := end_shown(claim, accused)) is not None:
        if ended_by(marker.type) == own:
            healed = f"broker {accused.broker} shows offset {claim.offset} as its end marker says"
            return _lacking(case) or case.dismissed(healed)
        return case.confirmed(
            f"broker {accused.broker} shows offset {claim.offset} as {own}, and behind it the {marker.type} marker "
            f"of offset {marker.offset}",
            sides=by_outcome(live_outcomes(case)),
        )
    if claim.confirmed_at_ms and own == claim.recorded.outcomes.get(accused.broker):
        # Its cleaner uses the same index: it removes an ABORT that the index lacks, and leaves the records.
        return case.confirmed(
            f"broker {accused.broker} shows offset {claim.offset} as {own} still, though its end marker is cleaned",
            sides=by_outcome(live_outcomes(case)),
        )
    return case.not_held(f"broker {accused.broker} does not show the end marker any more", claim.marker_offset)


def contradicted_before(case: ClaimCase) -> Decision:
    """Return the decision on a claim that a replica contradicted an end marker, if that marker was truncated since.

    In the current log the record may have ended otherwise. So nothing that the accused shows or lacks accuses it. If
    the replicas show different outcomes, or different values of the key, it is a difference without direction.
    """
    claim, accused = case.claim, case.accused
    mark = claim.marker_offset
    if accused.log_start_offset > claim.first_offset:
        return case.not_held(
            f"broker {accused.broker} does not hold offset {claim.first_offset} any more", claim.first_offset
        )
    reason = f"the end marker at offset {mark}, which broker {accused.broker} contradicted, is not in the current log"
    if accused.last_stable_offset <= claim.first_offset:
        if rests_on(case) is Belongs.NO or accused.log_end_offset <= claim.first_offset:
            # A value that it lacks shows once it gives its consumers any.
            return case.dismissed(f"{reason}; in that nothing is decided there yet", Resolution.UNPROVEN)
        return case.pending(
            f"broker {accused.broker} has not decided offset {claim.first_offset} in its log of now yet"
        )
    shown = live_outcomes(case)
    if len(set(shown.values())) > 1:
        if old := [a for a in case.others if end_shown(claim, a) is not None]:
            return case.pending(f"{reason}; {names(old)} may have to truncate it yet")
        return _without_direction(case, by_outcome(shown), reason)
    # A replica that shows a value lacks none that the cleaner may have removed, whatever an absent one shows.
    lacking = _lacking(case) if accused.live is None else None
    if lacking is not None and lacking.verdict is ClaimState.CONFIRMED:
        return _without_direction(case, lacking.sides, f"{reason}; {lacking.reason}")
    return lacking or case.dismissed(reason, Resolution.UNPROVEN)


def _without_direction(case: ClaimCase, sides: Sides, reason: str) -> Decision:
    return replace(case.differs(sides, reason, FindingKind.VISIBILITY_MISMATCH), proof_truncated=True)


def needs_the_keys(claim: Claim, accused: ReplicaAnswer) -> bool:
    """Whether a probe must also read the key of a finding's record, to decide whether the finding is over.

    It must in two cases:

    - A replica had contradicted its end marker, and does not now: the record is gone, it is shown as the marker says,
      or the marker was truncated.
    - The accused shows the right outcome again. Another replica may be a copy of its wrong log in which the record is
      cleaned, or other records of the transaction may still be shown wrongly.

    The cleaner uses the index of aborted transactions. While the index was wrong, the cleaner may have removed older
    values in favor of an aborted record, or it may have removed committed records. Repairing the index does not bring
    them back.
    """
    if claim.confirmed_at_ms == 0 or accused.error is not None:
        return False
    shown = accused.committed.get(claim.first_offset)
    if claim.kind in WRONG_OUTCOMES:
        return not claim.ended and shown is not None and shown.outcome == other_outcome(WRONG_OUTCOMES[claim.kind])
    if claim.kind is not FindingKind.OUTCOME_CONTRADICTS_MARKER:
        return False
    marker = end_shown(claim, accused)
    if marker is None:
        return shown is None or has_cut_the_end(claim, accused)
    return shown is None or ended_by(marker.type) == shown.outcome


def contradicts_its_end(claim: Claim, decision: Decision, accused: ReplicaAnswer) -> bool:
    """Whether the accused is proven to contradict an end marker that its log still holds.

    Args:
        claim: the claim, which names the end marker.
        decision: the decision on the claim, which says what the accused shows.
        accused: the accused's answer.
    """
    marker = end_shown(claim, accused)
    return marker is not None and accused.broker in decision.sides.get(
        Side(Shows(other_outcome(ended_by(marker.type)))), ()
    )


def _lacking(case: ClaimCase) -> Decision | None:
    """Judge whether the cleaner may have taken a value from the accused because of the wrong index.

    Another replica still shows that value. In an aborted transaction it is a value from before, in a committed one it
    is the transaction's own. What was written behind the end marker is newer than all of that.
    """
    claim, accused = case.claim, case.accused
    if not case.live_only or claim.freed or claim.ended or claim.key is None:
        return None
    if accused.log_start_offset > claim.first_offset:
        return None
    if (unread := [a for a in (accused, *case.others) if a.key_error is not None]) != []:
        return case.pending(f"what {names(unread)} shows of the key is not known: {unread[0].key_error}")
    if accused.key is not None and accused.live is None:
        differing = latest_differs(case, of_others=lambda value: _may_be_taken(claim, value), up_to=claim.marker_offset)
        if differing is not None:
            confirmed = case.confirmed(differing.reason, sides=differing.sides)
            return replace(confirmed, lacks=differing.lacked_by(accused.broker))
        if (waits := behind(case)) is not None:
            return waits
        if (lost := gone_everywhere(case, f"broker {accused.broker} shows no value of the key")) is not None:
            return lost
    if case.absent:
        return case.pending(f"the values of the key were not compared with {names(case.absent)}")
    return None


def _was_written_over(case: ClaimCase) -> bool:
    """Whether something newer has taken the record from the accused, so that it may lack an older value rightly.

    By an index that lacks an ABORT, the cleaner takes older values in favor of the record, and leaves the record. So if
    the record is gone as well, and it was a value, there was a newer record of the key. That may have been a tombstone
    that nobody read: then the accused is right, and the others lack the deletion. While a replica does not say what it
    shows of the key, nobody can say whether a difference is left.
    """
    claim = case.claim
    if case.absent or any(a.key is None or not a.key.complete for a in (case.accused, *case.others)):
        return False
    was_deletion = claim.recorded.was_deletion or holds_tombstone(claim.first_offset, case.others)
    is_index_wrong = live_outcome(claim, case.accused) is None
    return claim.recorded.outcomes.get(claim.broker) == COMMITTED and is_index_wrong and not was_deletion


def _may_be_taken(claim: Claim, value: RecordShown) -> bool:
    """Whether the accused's cleaner may have taken a value that another shows, by the outcome that its index had.

    A cleaner takes a value for the sake of a later record of its key. Each record of the transaction has its own claim.
    """
    own, marker = claim.recorded.outcomes.get(claim.broker), claim.recorded.markers.get(claim.broker)
    if own is None and marker is not None:
        own = other_outcome(ended_by(marker))
    is_its_own = (
        value.offset >= claim.begins_at and value.producer_id == claim.producer_id and value.outcome == COMMITTED
    )
    if own == COMMITTED:
        return not is_its_own and value.offset < claim.first_offset
    return own is not None and is_its_own


def has_cleaned_its_end(case: ClaimCase) -> bool:
    """Whether the accused still shows a record against its end marker, although that marker was cleaned.

    The cleaner uses the index of aborted transactions. If the index is wrong, the cleaner may remove the marker and
    leave the record. The marker still counts if it lay directly behind the record.
    """
    claim, accused = case.claim, case.accused
    was_read = accused.broker in claim.recorded.markers and accused.broker in claim.recorded.outcomes
    is_held = claim.first_offset in accused.committed and end_shown(claim, accused) is None
    return was_read and is_held and is_direct_end(claim.first_offset, claim.marker_offset)
