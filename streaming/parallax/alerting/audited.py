"""What the last audit of each partition found, and whether the findings of that audit are resolved by now. Pure.

The audit's report never changes. The outcome here does: it goes from diverged to over once the findings of that audit
are resolved. The metric, the dashboard and the page show this outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from parallax.alerting.snapshot import Snapshot
from parallax.audit.result import PartitionResult, Result
from parallax.counts import agreed, counted
from parallax.findings.finding import Finding
from parallax.model import TopicPartition
from parallax.moments import time_text


class Outcome(StrEnum):
    """The result of a partition's last audit, updated by what has become of its findings."""

    CONSISTENT = "consistent"
    DIVERGED = "diverged"
    """Something that it found is not over, or may not be."""
    OVER = "over"
    """It found that replicas differ, and all of that is over since."""
    UNKNOWN = "unknown"


CALM = frozenset({Outcome.CONSISTENT, Outcome.OVER})
"""The outcomes that nobody has to look after."""


@dataclass(frozen=True, slots=True)
class LastAudit:
    """The last audit of one partition.

    Attributes:
        outcome: the result, brought up to date: diverged becomes over once the findings of the audit are resolved.
        ended_at: when the audit ended, seconds since 1970 UTC.
        in_words: one phrase for people: the result at the audit's end, when that was, and whether its findings are
            resolved by now.
    """

    outcome: Outcome
    ended_at: float
    in_words: str


def last_audits(snapshot: Snapshot) -> Mapping[TopicPartition, LastAudit]:
    """By partition, its last audit; partitions without an audit since the job started are left out."""
    return snapshot.once(_last_audits)


def _last_audits(snapshot: Snapshot) -> Mapping[TopicPartition, LastAudit]:
    standing: dict[TopicPartition, list[Finding]] = {}
    for finding in snapshot.findings.standing:
        standing.setdefault(finding.place, []).append(finding)
    return {
        place: _last_audit(snapshot, audit, ended_at, standing.get(place, ()))
        for place, (audit, ended_at) in sorted(snapshot.audits.results.items())
    }


def _last_audit(
    snapshot: Snapshot, audit: PartitionResult, ended_at: float, standing: list[Finding] | tuple[()]
) -> LastAudit:
    said = f"{audit.result}, ended at {time_text(ended_at * 1000)}"
    if audit.result is not Result.DIVERGED or not snapshot.findings_loaded:
        return LastAudit(Outcome(audit.result), ended_at, said)
    found = {finding.finding_id for finding in audit.findings}
    if left := sum(one.finding_id in found for one in standing):
        said += f"; of what it found {counted(left, 'finding')} {agreed(left, 'is', 'are')} still open"
        return LastAudit(Outcome.DIVERGED, ended_at, said)
    if standing or snapshot.findings.pending.get(audit.place):
        said += "; what it found is over, or part of a finding that is open or being checked"
        return LastAudit(Outcome.DIVERGED, ended_at, said)
    # What it could not tell besides is as unknown as it was.
    outcome = Outcome.UNKNOWN if audit.reasons else Outcome.OVER
    return LastAudit(outcome, ended_at, f"{said}; what it found is over since")


__all__ = ["CALM", "LastAudit", "Outcome", "last_audits"]
