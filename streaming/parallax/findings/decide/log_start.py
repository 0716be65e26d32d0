"""A log that begins above that of another replica, where no policy deletes records."""

from __future__ import annotations

from parallax.findings.decide.case import Case, Decision, Resolution, names


def head_missing(case: Case) -> Decision:
    """Compare where the logs begin: the accused against those that begin below it.

    That the topic is only compacted is part of the claim: the comparison has seen it for as long as the logs differed.
    """
    start = case.accused.log_start_offset
    lower = [a for a in case.others if a.log_start_offset < start]
    if start < case.claim.offset and not lower:
        return case.dismissed(f"the log of broker {case.accused.broker} begins at offset {start} again")
    if lower:
        least = min(a.log_start_offset for a in lower)
        return case.confirmed(
            f"the log of broker {case.accused.broker} begins at offset {start}, that of {names(lower)} "
            f"as low as {least}, and the topic is only compacted"
        )
    return case.unproven(f"no replica's log begins below offset {start} any more", Resolution.SPREAD)
