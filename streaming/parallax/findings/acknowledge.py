"""``parallax findings acknowledge``: record that a person knows of findings and wants no more alarms.

It appends one event for each finding to the findings table, in one commit, even while a job runs
(`parallax.findings.table` explains how two processes share it). The job's manager reads the events within seconds. The
finding stays acknowledged until it is over or gets worse (`parallax.findings.acknowledgement`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from parallax.errors import is_text
from parallax.findings.acknowledgement import Acknowledgement, with_acknowledgement
from parallax.findings.finding import Finding, current
from parallax.findings.naming import named
from parallax.findings.table import AppendedMeanwhile, FindingsTable
from parallax.model import FindingStatus
from parallax.output import printable
from parallax.people import user

_ATTEMPTS = 100
_PAUSE_S = 0.05
_REASON_CHARACTERS = 500


class AcknowledgeError(Exception):
    """A finding cannot be acknowledged; the error's text is one line that says why and what to do."""


def acknowledge(
    storage: str, wanted: str, reason: str, *, by: str | None = None, sleep: Callable[[float], None] = time.sleep
) -> Finding:
    """Acknowledge one finding in the findings table, and return the appended event.

    Args:
        storage: ``storage.path`` of the job.
        wanted: the finding's id, or the beginning of its id if that is unique.
        reason: why no more alarms are wanted, in 1 to 500 characters.
        by: who acknowledges it; the user of this process by default.
        sleep: waits the given number of seconds before a new attempt; replaced in tests.

    Raises:
        AcknowledgeError: the reason is empty or too long, or the finding is resolved or acknowledged already.
        FindingNotNamedError: an unknown or ambiguous id.
        FindingsTableError: there is no findings table at that path, it cannot be read or written, or it holds an event
            of a newer version.
    """
    (event,) = acknowledge_all(storage, [wanted], reason, by=by, sleep=sleep)
    return event


def acknowledge_all(
    storage: str,
    wanted: Sequence[str],
    reason: str,
    *,
    by: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """Acknowledge several findings in the findings table: all of them or none.

    Args:
        storage: ``storage.path`` of the job.
        wanted: the id of each finding, or the beginning of its id if that is unique.
        reason: why no more alarms are wanted, in 1 to 500 characters; kept in the event's summary and evidence.
        by: who acknowledges them; the user of this process by default.
        sleep: waits the given number of seconds before a new attempt, if another process appended meanwhile; replaced
            in tests.

    Returns:
        The appended events, one for each finding, in the order of ``wanted``.

    Raises:
        AcknowledgeError: the reason is empty or too long, or a finding is resolved or acknowledged already.
        FindingNotNamedError: an unknown or ambiguous id.
        FindingsTableError: there is no findings table at that path, it cannot be read or written, or it holds an event
            of a newer version.
    """
    said = printable(" ".join(reason.split()))
    if not said or len(said) > _REASON_CHARACTERS or not is_text(reason):
        raise AcknowledgeError(f"--reason: say in 1 to {_REASON_CHARACTERS} characters why no more alarm is wanted")
    table = FindingsTable(storage, create=False, strict=True)
    events = table.load()
    for _ in range(_ATTEMPTS):
        standing, at = current(events), datetime.now(UTC)
        found = {finding.finding_id: finding for finding in (_found(standing, one) for one in wanted)}
        try:
            appended = table.append([acknowledged(one, said, by or user(), at) for one in found.values()])
        except AppendedMeanwhile:
            sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - spreads attempts, guards nothing
            events += table.news()
        else:
            return appended
    raise AcknowledgeError("other processes append to the findings table all the time; try again")


def acknowledged(finding: Finding, reason: str, by: str, at: datetime) -> Finding:
    """Make the event that acknowledges a finding; the caller appends it to the findings table.

    Args:
        finding: the finding's last event.
        reason: why it is acknowledged; kept in the event's summary and evidence.
        by: who acknowledges it.
        at: when.
    """
    return replace(with_acknowledgement(finding, Acknowledgement(by, reason, at)), decided_at=at)


def _found(standing: Mapping[str, Finding], wanted: str) -> Finding:
    """Return the finding that an id, or the beginning of one, names, if it can be acknowledged."""
    finding = named(standing, wanted)
    if finding.status is FindingStatus.RESOLVED:
        raise AcknowledgeError(f"finding {finding.finding_id} is resolved already: {finding.summary}")
    if finding.status is FindingStatus.ACKNOWLEDGED:
        raise AcknowledgeError(f"finding {finding.finding_id} is acknowledged already: {finding.summary}")
    return finding
