"""Writes what ``parallax audit`` prints: a table for people, or one JSON document for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.text import Text

from parallax.audit.ledger import SETTLED_BY
from parallax.audit.result import AuditReport, PartitionResult, Result
from parallax.counts import counted
from parallax.findings.finding import Finding
from parallax.findings.report import as_document, short_id
from parallax.model import IsolationLevel
from parallax.moments import utc_text
from parallax.output import console, print_table
from parallax.shell import ANYWHERE, Shell

_STYLES: Mapping[Result, str] = {Result.DIVERGED: "bold red", Result.UNKNOWN: "yellow", Result.CONSISTENT: "green"}


def document(report: AuditReport) -> dict[str, Any]:
    """An audit's report as a dict that can be written as JSON.

    Times are in ISO 8601 UTC, offsets are listed by isolation level (None if unknown), and each finding has its
    evidence.
    """
    return {
        "result": str(report.result),
        "source": report.source,
        "started_at": _time(report.started_at),
        "ended_at": _time(report.ended_at),
        "read_bytes": {str(broker): size for broker, size in sorted(report.read_bytes.items())},
        "partitions": [_partition(partition) for partition in report.partitions],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _partition(one: PartitionResult) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "result": str(one.result),
        "reasons": list(one.reasons),
        "replicas": list(one.replicas),
        "compared_from": _known(one.compared_from),
        "compared_up_to": {i.option: _known(one.compared_up_to[i]) for i in IsolationLevel},
        "findings": [
            as_document(finding) | {"on_record": finding.finding_id in one.on_record} for finding in one.findings
        ],
        "ended": [as_document(finding) for finding in one.ended],
    }


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def write(report: AuditReport, output: str, to: TextIO, shell: Shell = ANYWHERE) -> None:
    """Write an audit's report to a stream.

    Args:
        report: the report of an audit.
        output: ``text`` or ``json``.
        to: where to write.
        shell: how printed commands name the job.
    """
    if output == "json":
        json.dump(document(report), to, indent=2)
        to.write("\n")
        return
    shown = console(to)
    offsets = ("compared from", "up to", "up to (committed)")
    headings = ("partition", "result", "replicas", *offsets, "findings")
    print_table(shown, headings, [_row(one) for one in report.partitions], numbers=(*offsets, "findings"))
    shown.print()
    for one in report.partitions:
        for text in _said(one, shell):
            shown.print(f"{one.topic}-{one.partition}: {text}", markup=False, highlight=False, soft_wrap=True)
    for text in (_summary(report), _SETTLES):
        shown.print(text, markup=False, highlight=False, soft_wrap=True)


_SETTLES = (
    "This audit changes nothing on record. The running job reports and ends findings by its own probes; what is "
    f"unknown to it ends with {SETTLED_BY}."
)


def _said(one: PartitionResult, shell: Shell) -> Iterator[str]:
    """What is said of a partition, a line each."""
    for finding in one.findings:
        yield f"finding {short_id(finding)} ({_standing(finding, one)}): {finding.summary}"
        if finding.finding_id in one.on_record:
            yield f"finding {short_id(finding)}: {shell.parallax('findings', 'explain', short_id(finding))}"
    for finding in one.ended:
        yield f"finding {short_id(finding)} (on record; over by what the replicas answer now): {finding.summary}"
    for reason in one.reasons:
        yield f"unknown{'' if one.result is Result.UNKNOWN else ' as well'}: {reason}"


def _standing(finding: Finding, one: PartitionResult) -> str:
    """Whether a finding is on record, and whether its replicas show it now, in a few words."""
    known = one.on_record.get(finding.finding_id)
    if known is None:
        return "new: not on record"
    if not known.stands:
        return f"on record as {known.status} since {utc_text(known.decided_at)}; it is back"
    asked = f"on record as {known.status}; asked again:"
    if (why := one.not_seen.get(finding.finding_id)) is None:
        return f"{asked} it is still true"
    return f"{asked} {why or 'its replicas have not answered in time'}"


def _row(one: PartitionResult) -> list[str | Text]:
    return [
        f"{one.topic}-{one.partition}",
        Text(str(one.result), style=_STYLES[one.result]),
        " ".join(map(str, one.replicas)),
        *("-" if offset < 0 else str(offset) for offset in (one.compared_from, *one.compared_up_to)),
        str(len(one.findings) or ""),
    ]


def _summary(report: AuditReport) -> str:
    counts = {result: sum(p.result is result for p in report.partitions) for result in Result}
    in_part = sum(p.result is Result.DIVERGED and bool(p.reasons) for p in report.partitions)
    also = {Result.DIVERGED: f" (something is unknown of {in_part} of them)"} if in_part else {}
    results = ", ".join(f"{count} {result}{also.get(result, '')}" for result, count in counts.items())
    read = sum(report.read_bytes.values())
    seconds = report.ended_at - report.started_at
    where = f"{size_text(read)} read from the brokers" if report.source == "brokers" else "read from the tables"
    return f"{counted(len(report.partitions), 'partition')}: {results}; {where} in {seconds:.0f} s."


def size_text(size: float) -> str:
    """A size in bytes for people, with a unit: ``1.5 MiB`` for ``size`` 1572864."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


__all__ = ["document", "size_text", "write"]
