"""Decides whether a replica has lost the head of its log.

The log then begins above another replica's, although no policy deletes records.
"""

from __future__ import annotations

from dataclasses import replace

from parallax.findings.decide.case import ClaimCase, Decision, Resolution, names


def head_missing(case: ClaimCase) -> Decision:
    """Return the decision on a claim that the accused's log begins above that of another replica.

    An empty log of another replica does not count. The comparison raised the claim because the logs differed while the
    topic's policy did not delete. If the policy deletes records by now, or is unknown, nothing is confirmed, and
    nothing counts as lost on all replicas: retention and DeleteRecords move the log start of each replica at another
    time.
    """
    return replace(_head_missing(case), lost_below=case.claim.offset)


def _head_missing(case: ClaimCase) -> Decision:
    start = case.accused.log_start_offset
    lower = [a for a in case.others if a.log_start_offset < start and not a.is_empty]
    if start < case.claim.offset and not lower:
        if case.accused.is_empty:
            return case.pending(f"the log of broker {case.accused.broker} is empty: it is yet to be copied")
        return case.dismissed(f"the log of broker {case.accused.broker} begins at offset {start} again")
    if (explained := _may_be_explained(case)) is not None:
        return explained
    if lower:
        least = min(a.log_start_offset for a in lower)
        return case.confirmed(
            f"the log of broker {case.accused.broker} begins at offset {start}, that of {names(lower)} "
            f"as low as {least}, and the topic is only compacted"
        )
    return case.unproven(f"no replica's log begins below offset {start} any more", Resolution.SPREAD)


def _may_be_explained(case: ClaimCase) -> Decision | None:
    """Judge logs that may begin where they do because of a cleanup policy; None where no policy explains it."""
    policy, offset = case.answers.cleanup_policy, case.claim.offset
    if policy is None:
        return case.pending("the topic's cleanup policy is not known, which may explain where logs begin")
    least = min(a.log_start_offset for a in (case.accused, *case.others))
    if "delete" in policy:
        if case.live_only and least > offset:
            reason = f"the topic's cleanup policy deletes records now, and every log begins at offset {least} or above"
            return case.unproven(reason, Resolution.DELETED)
        return case.pending("the topic's cleanup policy deletes records now, which may explain where logs begin")
    if case.claim.ended and case.accused.log_start_offset > offset:
        # It had been repaired. A policy that was set for a while, or another loss, has moved the start since. The
        # comparison has to say which: it is no proof of this finding.
        return case.pending(f"the log of broker {case.accused.broker} begins above what it had lost and got back")
    return None
