"""Writes the report of ``parallax report``: findings with their evidence, as one HTML file for a ticket."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError

from parallax.alerting.page.lanes_over_time import Drawn, drawn_over_time, lanes_over_time
from parallax.alerting.page.render import finding_values, report
from parallax.alerting.page.timeline import recorded
from parallax.config import AlertingSettings
from parallax.findings.finding import Finding, asked_at, current
from parallax.findings.in_brief import freezes
from parallax.findings.naming import named
from parallax.findings.report import ASKED_ON, NO_FACTS, OnRecord
from parallax.findings.table import read_events
from parallax.output import FileKind, output
from parallax.shell import ANYWHERE, Shell

REPORT = FileKind("a report of parallax report", r"<!doctype html>\s")
_AROUND = timedelta(minutes=30)
_AT_MOST = timedelta(days=1)
"""How long a time is drawn at most."""


def write_report(
    storage: str,
    wanted: Sequence[str],
    file: Path,
    on_record: OnRecord = lambda _: NO_FACTS,
    alerting: AlertingSettings | None = None,
    shell: Shell = ANYWHERE,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Write a report of some findings to a file, and return how many it has.

    An existing file is replaced as a whole, or not at all.

    Args:
        storage: ``storage.path`` of the job.
        wanted: ids of findings, or the beginnings of ids; if empty, all findings that are not over.
        file: the file to write.
        on_record: returns what tables other than the findings table say about a finding.
        alerting: the settings with the cluster's name and the address of the runbook; None for the defaults.
        shell: how printed commands name the cluster and the job.
        clock: returns the present; a test gives its own.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
        FindingNotNamedError: an id is unknown, or several findings begin with it.
        SetupError: the file cannot be written, or it exists and is not an earlier report.
    """
    told, now = alerting or AlertingSettings(), clock()
    with output(file, REPORT) as to:
        events = read_events(storage)
        standing = current(events)
        chosen = [named(standing, one) for one in wanted] or [f for f in standing.values() if f.stands]
        chosen.sort(key=lambda f: (not f.is_open, not f.exposed, f.first_suspected_at))
        reported = [
            finding_values(finding, events, standing.values(), told.runbook_url, on_record(finding), shell, ASKED_ON)
            | {"over_time": _over_time(storage, finding, now)}
            for finding in chosen
        ]
        to.write(report(reported, told.cluster))
    return len(reported)


def _over_time(storage: str, finding: Finding, now: datetime) -> Drawn | None:
    """Where the offsets stood from before it was suspected until it was over, or until now; None if that is cleared.

    Of what lasted longer than a day, the first day is drawn.
    """
    since = finding.first_suspected_at - _AROUND
    until = min(now, since + _AT_MOST, now if finding.stands else asked_at(finding) + _AROUND)
    try:
        tracks = recorded(storage, finding.place, since, until)
        return drawn_over_time(lanes_over_time(tracks, frozen=freezes([finding])))
    except (DeltaError, OSError, pa.ArrowException):
        return None
