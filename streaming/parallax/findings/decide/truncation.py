"""Decides whether a replica's log was truncated below an offset that the replica had shown to consumers."""

from __future__ import annotations

from dataclasses import replace

from parallax.evidence.atoms import Place
from parallax.findings.answers import ReplicaAnswer
from parallax.findings.claim import Claim
from parallax.findings.decide.case import ClaimCase, Decision, broker_list


def truncated(case: ClaimCase) -> Decision:
    """Return the decision on a claim that the accused's log was truncated below an offset that it had shown.

    Leader epochs prove it. They only grow along a log, and neither cleaning nor copying changes them. Example: a
    replica was read to offset 20 in epoch 3. If epoch 5 begins at offset 12 in its log now, the log has lost what was
    read from 12 on. A log that is only being copied again comes to show the same epochs as before.
    """
    return replace(_truncated(case), lost=Place(case.claim.lost_to - 1, case.claim.lost_epoch))


def _truncated(case: ClaimCase) -> Decision:
    claim, accused = case.claim, case.accused
    if accused.log_start_offset >= claim.lost_to:
        return case.dismissed(f"offset {claim.lost_to - 1} is below the log start of broker {accused.broker}")
    end = _epoch_end(claim, accused)
    epochs = (
        f"broker {accused.broker} had shown records of leader epoch {claim.lost_epoch} below offset {claim.lost_to}; "
        f"that epoch ends at offset {end} of its log now"
    )
    # The last epoch's end is that of the log, and may grow (LeaderEpochFileCache.endOffsetFor); it was asked for later.
    if end < min(claim.lost_to, accused.log_end_offset):
        return case.confirmed(epochs)
    if accused.log_end_offset >= claim.lost_to:
        return case.dismissed(f"the log of broker {accused.broker} reaches up to offset {claim.lost_to} again")
    if case.answers.isr and accused.broker not in case.answers.isr:
        return case.pending(f"broker {accused.broker} is not in sync: it may be copying its log again")
    beyond = [a.broker for a in case.others if a.high_watermark >= claim.lost_to]
    if beyond:
        return case.confirmed(
            f"the log of broker {accused.broker} ends at {accused.log_end_offset}, "
            f"{broker_list(beyond)} reach up to offset {claim.lost_to}"
        )
    if end <= claim.offset:
        return case.confirmed(epochs)
    return case.pending(f"no replica reaches up to offset {claim.lost_to}: nothing was written there since")


def _epoch_end(claim: Claim, accused: ReplicaAnswer) -> int:
    """Return where the epoch that was read ends in the current log, or else how far it was read."""
    end = accused.epoch_ends.get(claim.lost_epoch)
    return claim.lost_to if end is None else end
