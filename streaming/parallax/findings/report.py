"""What ``parallax findings`` prints: the findings table for people or for programs, without starting Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parallax.findings.finding import Finding, current, evidence_of
from parallax.findings.incident import examples, tally_of
from parallax.findings.internal_keys import key_as_text
from parallax.findings.table import read_events
from parallax.kinds import KINDS
from parallax.model import NOBODY, Severity

_COLUMNS = ("", "id", "kind", "partition", "broker", "offset", "key", "since")
_ID_CHARACTERS = 8
"""Characters of an id in the table: enough for `parallax findings acknowledge`, as a rule."""


def listed(storage: str, *, everything: bool = False) -> list[Finding]:
    """The findings that stand, acknowledged ones last; with ``everything``, resolved ones and dismissed suspects too.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
    """
    found = [f for f in current(read_events(storage)).values() if everything or f.stands]
    return sorted(found, key=lambda f: not f.is_open)


def as_document(finding: Finding) -> dict[str, Any]:
    """One finding as JSON has it: times in ISO 8601 UTC, the key as text, the evidence as a document, what to do."""
    document: dict[str, Any] = {}
    for name, value in asdict(finding).items():
        document[name] = value.isoformat() if isinstance(value, datetime) else value
    document["key"] = key_text(finding)
    document["evidence"] = evidence_of(finding)
    document["runbook"] = _runbook(finding)
    return document


def key_text(finding: Finding) -> str | None:
    """The key for people: as text where it is UTF-8, else hexadecimal; None where only its hash is known."""
    return key_as_text(finding.key)


def _offset_text(finding: Finding) -> str:
    if finding.is_incident and (tally := tally_of(finding)).count:
        return f"{tally.lowest}-{tally.highest}"
    return str(finding.offset if finding.offset >= 0 else finding.transaction_start_offset)


def _runbook(finding: Finding) -> str:
    return f"docs/runbook.md#{KINDS[finding.kind].runbook}"


def _examples(finding: Finding) -> str:
    """Some of the keys that an incident counts: by their offsets, with the key where it was read."""
    return ", ".join(str(offset) if key is None else f"{offset} ({key})" for offset, key in examples(finding))


def _broker_text(finding: Finding) -> str:
    if finding.broker == NOBODY:
        return "no direction"
    return f"{finding.broker}{' leads' if finding.exposed else ''}"


def findings_table(findings: Sequence[Finding]) -> Table:
    """The numbered findings for the terminal; what each says in words goes below it (`print_findings`)."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, overflow="fold", justify="right" if column in ("", "offset", "broker") else "left")
    for number, finding in enumerate(findings, 1):
        style = "bold red" if finding.severity is Severity.CRITICAL and finding.is_open else ""
        status = "" if finding.is_open else f" ({finding.status})"
        table.add_row(
            str(number),
            finding.finding_id[:_ID_CHARACTERS],
            Text(f"{finding.kind}{status}", style=style),
            f"{finding.topic}-{finding.partition}",
            _broker_text(finding),
            _offset_text(finding),
            f"{tally_of(finding).count:,} keys" if finding.is_incident else key_text(finding) or "",
            finding.first_suspected_at.strftime("%Y-%m-%d %H:%M:%SZ"),
        )
    return table


def print_findings(storage: str, output: str = "text", *, everything: bool = False, to: TextIO | None = None) -> None:
    """Print the findings of a job's storage path.

    Args:
        storage: ``storage.path`` of the job.
        output: ``text`` (a table) or ``json`` (a list of documents with their evidence).
        everything: resolved findings and dismissed suspects too.
        to: standard output by default.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
    """
    stream = to or sys.stdout
    findings = listed(storage, everything=everything)
    if output == "json":
        json.dump([as_document(f) for f in findings], stream, indent=2)
        stream.write("\n")
        return
    if not findings:
        stream.write("No findings.\n" if everything else "No open findings.\n")
        return
    console = Console(file=stream)
    console.print(findings_table(findings))
    for number, finding in enumerate(findings, 1):
        said = f"{number}. {finding.summary}"
        if finding.is_incident and (examples := _examples(finding)):
            said = f"{said} For example at offsets {examples}."
        if finding.stands:
            said = f"{said} What to do: {_runbook(finding)}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
