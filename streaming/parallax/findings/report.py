"""What ``parallax findings`` prints: the findings table for people or for programs, without starting Spark."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from parallax.findings.about import SAID
from parallax.findings.explain import Explanation, explain, runbook_of
from parallax.findings.exposure import NOTHING_KNOWN, Led
from parallax.findings.finding import Finding, asked_at, current, evidence_of
from parallax.findings.in_brief import seen
from parallax.findings.incident import examples, group_of, tally_of
from parallax.findings.internal_keys import key_as_text
from parallax.findings.naming import named
from parallax.findings.repair import show_record
from parallax.findings.side_by_side import answers_of
from parallax.findings.steps import Step
from parallax.findings.summary import asked_in_words, counted_in_words
from parallax.findings.table import read_events
from parallax.model import NOBODY, FindingKind, FindingStatus, Severity
from parallax.moments import from_milliseconds, utc_text
from parallax.output import console, paragraph, print_table
from parallax.runbook import RUNBOOK
from parallax.shell import ANYWHERE, Shell


@dataclass(frozen=True, slots=True)
class Facts:
    """Sentences about a finding that come from elsewhere than the findings table.

    Attributes:
        absences: what is on record about absences of the partition's replicas.
        repairs: what repairs did about the finding.
        led: when a wrong replica led, and what consumers could read there.
        readers: which consumer groups have read past the finding's offsets; empty where nobody asked.
        seen: what consumers of each replica had seen of the finding's record; empty where nobody looked.
    """

    absences: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    led: Led = NOTHING_KNOWN
    readers: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


NO_FACTS = Facts()
OnRecord = Callable[[Finding], Facts]
"""Takes a finding's last event, and returns what is on record about the finding outside the findings table."""
_ID_CHARACTERS = 8
"""Characters of an id in a list: usually enough for `parallax findings acknowledge`."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which findings a user asks for. An empty field excludes nothing.

    Attributes:
        everything: whether findings that are over are wanted too. A dismissed suspect never was a finding.
        topics: names of the wanted topics.
        kinds: the wanted kinds.
        statuses: the wanted statuses; if given, they decide instead of ``everything``; dismissed is one of them.
        since: only findings that were first suspected at this time or later.
    """

    everything: bool = False
    topics: tuple[str, ...] = ()
    kinds: tuple[FindingKind, ...] = ()
    statuses: tuple[FindingStatus, ...] = ()
    since: datetime | None = None

    def holds(self, finding: Finding) -> bool:
        """Whether a finding is one of those that the user asks for."""
        is_of_status = finding.stands or (self.everything and finding.status is not FindingStatus.DISMISSED)
        if self.statuses:
            is_of_status = finding.status in self.statuses
        return (
            is_of_status
            and (not self.topics or finding.topic in self.topics)
            and (not self.kinds or finding.kind in self.kinds)
            and (self.since is None or finding.first_suspected_at >= self.since)
        )


ALL_OPEN = Wanted()
"""The findings that are not over."""


def listed(storage: str, wanted: Wanted = ALL_OPEN) -> list[Finding]:
    """Return the last events of the findings that a user asks for, open ones first.

    Args:
        storage: ``storage.path`` of the settings.
        wanted: which findings the user asks for.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
    """
    found = [f for f in current(read_events(storage)).values() if wanted.holds(f)]
    return sorted(found, key=lambda f: not f.is_open)


def as_document(finding: Finding) -> dict[str, Any]:
    """Return one finding as a JSON-able document: its fields, its evidence, and the address of its runbook section.

    Times are in ISO 8601 UTC, and the key is text.
    """
    document: dict[str, Any] = {}
    for name, value in asdict(finding).items():
        document[name] = value.isoformat() if isinstance(value, datetime) else value
    document["key"] = key_text(finding)
    document["evidence"] = evidence_of(finding)
    document["runbook"] = runbook_of(finding)
    return document


def key_text(finding: Finding) -> str | None:
    """Return a finding's key as text: decoded if it is UTF-8, else in hexadecimal.

    None if only the key's hash is known.
    """
    return key_as_text(finding.key)


def _examples(finding: Finding) -> str:
    """Return some of what an incident counts: offsets, with the key where it was read."""
    return ", ".join(str(offset) if key is None else f"{offset} ({key})" for offset, key in examples(finding))


def _broker_text(finding: Finding) -> str:
    if finding.broker == NOBODY:
        return "no direction"
    leads = finding.exposed and evidence_of(finding).get("leader") == finding.broker
    return f"broker {finding.broker}{', which led when asked' if leads else ''}"


def print_findings(
    storage: str,
    output: str = "text",
    wanted: Wanted = ALL_OPEN,
    *,
    to: TextIO | None = None,
    shell: Shell = ANYWHERE,
) -> None:
    """Print the findings of a job that a user asks for.

    Args:
        storage: ``storage.path`` of the job.
        output: ``text`` (a paragraph for each) or ``json`` (a list of documents with their evidence).
        wanted: which findings to print.
        to: where to print; standard output by default.
        shell: how printed commands name the job.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
    """
    stream = to or sys.stdout
    findings = listed(storage, wanted)
    if output == "json":
        _print_json([as_document(f) for f in findings], stream)
        return
    if not findings:
        stream.write(f"{'No open findings' if wanted == ALL_OPEN else 'No such findings'} in {storage}.\n")
        return
    shown = console(stream, highlight=False)
    for finding in findings:
        shown.print(_headline(finding), soft_wrap=True)
        shown.print(Text(_indented(_in_words(finding), shown.width)), soft_wrap=True)
        if finding.stands:
            shown.print(
                Text(f"    What to do: {shell.parallax('findings', 'explain', short_id(finding))}"), soft_wrap=True
            )
        shown.print()
    if any(finding.stands for finding in findings):
        paragraph(shown, ASKED_ON)


def _print_json(document: object, stream: TextIO) -> None:
    json.dump(document, stream, indent=2)
    stream.write("\n")


def _indented(text: str, width: int) -> str:
    """Return a paragraph, indented by four; words and names stay whole, however long they are."""
    return textwrap.fill(
        text, width, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def short_id(finding: Finding) -> str:
    """Return the first 8 characters of a finding's id, as lists and commands show it."""
    return finding.finding_id[:_ID_CHARACTERS]


def _headline(finding: Finding) -> Text:
    """Return which finding it is, in one line; a terminal wraps it between words."""
    style = "bold red" if finding.severity is Severity.CRITICAL and finding.is_open else "bold"
    place = f"{finding.topic}-{finding.partition}"
    return Text.assemble(
        f"{short_id(finding)}  ", (str(finding.kind), style), f"  {finding.status}  {place}  {_broker_text(finding)}"
    )


def _in_words(finding: Finding) -> str:
    said = [finding.summary]
    asked = asked_in_words(asked_at(finding))
    said.append(f"First suspected {utc_text(finding.first_suspected_at)}, {asked}.")
    if finding.is_incident:
        said.append(f"It counts {counted_in_words(group_of(finding), tally_of(finding).count)}.")
        if some := _examples(finding):
            said.append(f"For example at offsets {some}.")
    elif (key := key_text(finding)) is not None:
        said.append(f"The key is {key}.")
    return " ".join(said)


def print_explanation(
    storage: str,
    wanted: str,
    output: str = "text",
    *,
    to: TextIO | None = None,
    on_record: OnRecord = lambda _: NO_FACTS,
    shell: Shell = ANYWHERE,
    runbook: str = RUNBOOK,
) -> None:
    """Print in plain words what one finding means and what to do (`parallax.findings.explain`).

    Args:
        storage: ``storage.path`` of the job.
        wanted: the finding's id, or the beginning of it.
        output: ``text`` or ``json``.
        to: where to print; standard output by default.
        on_record: returns what is on record about a finding outside the findings table.
        shell: how printed commands name the cluster and the job.
        runbook: address or path of the runbook.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
        FindingNotNamedError: an unknown or ambiguous id.
    """
    stream = to or sys.stdout
    known = current(read_events(storage))
    finding = named(known, wanted)
    explained = replace(explain(finding, known.values(), shell), runbook=runbook_of(finding, runbook))
    if finding.stands:
        explained = replace(explained, asked=f"{explained.asked} {ASKED_ON}")
    if output == "json":
        facts = on_record(finding)
        beside = {"on_record": list(facts.absences), "repairs": list(facts.repairs), "led": list(facts.led.sentences)}
        _print_json({"finding_id": finding.finding_id, **asdict(explained), **beside}, stream)
        return
    shown = console(stream, highlight=False)
    for heading, text in sections(finding, explained, on_record(finding)):
        paragraph(shown, heading, "bold")
        if heading == TO_DO:
            _print_steps(explained.steps, shown)
        else:
            _print_section(heading, text, shown)
        shown.print()
    if not shell.is_known:
        paragraph(shown, "HOST:9092 and CONFIG stand for the cluster and the settings file: -c CONFIG fills them in.")


def _print_section(heading: str, text: str, shown: Console) -> None:
    """Print a section; lines of a section that names commands are not wrapped, because they are pasted as they are."""
    if heading in (LOOK, MAY_LEAD, LED):
        shown.print(Text(text), soft_wrap=True)
    else:
        paragraph(shown, text)


def _print_steps(steps: Sequence[Step], shown: Console) -> None:
    """Print steps; lines to run are neither indented nor wrapped, because they are pasted as they are."""
    for number, step in enumerate(steps, 1):
        paragraph(shown, f"{number}. {step.text}")
        if step.run:
            shown.print(Text(f"\n{step.run}\n"), soft_wrap=True)


ON_RECORD = "On record about absences, which prove nothing about who is right"
REPAIRS = "On record about repairs"
LED = "On record about who may have read it"


ASKED_ON = "A running job goes on asking, and records only what changes; its page says when it asked last."
"""Said where only the findings table was read, which does not know when the replicas were asked last."""
OVER = "It is over. Each line says what the replicas showed when they were asked for it."
"""It comes above the events of a finding that is over. All but the last were written before it ended."""
MAY_LEAD = "Who may lead"
LOOK = "See the record on each broker"
TO_DO = "What to do"


def _seen(explained: Explanation, on_record: Facts) -> Sequence[str]:
    """What consumers had seen, or by which command that is shown: to read the views takes too long for a page."""
    if on_record.seen or not on_record.led.sentences:
        return on_record.seen
    return [f"What they had seen there: {explained.seen}"]


def sections(finding: Finding, explained: Explanation, on_record: Facts = NO_FACTS) -> list[tuple[str, str]]:
    """Return the parts of a finding's explanation that are not empty, as (heading, text)."""
    steps = "\n".join(f"{number}. {step.text}\n{step.run}" for number, step in enumerate(explained.steps, 1))
    sections = [
        ("What happened", f"{explained.happened} {explained.asked}"),
        ("What proves it", explained.proof),
        (REPAIRS, "\n".join(on_record.repairs)),
        ("What consumers see now", explained.now),
        ("After an election", explained.after),
        ("Who is right", explained.right),
        (MAY_LEAD, explained.may_lead),
        (LOOK, explained.look),
        (TO_DO, steps),
        (LED, "\n".join([*on_record.led.unsaid(finding), *_seen(explained, on_record), *on_record.readers])),
        (ON_RECORD, "\n".join(on_record.absences)),
        ("More", explained.runbook),
    ]
    return [(heading, text) for heading, text in sections if text]


def print_finding(
    storage: str,
    wanted: str,
    output: str = "text",
    *,
    to: TextIO | None = None,
    shell: Shell = ANYWHERE,
    repairs: Callable[[Finding], Sequence[str]] = lambda _: (),
) -> None:
    """Print all events of one finding, and a table of what each broker answered last.

    Args:
        storage: ``storage.path`` of the job.
        wanted: the finding's id, or the beginning of it.
        output: ``text`` or ``json``.
        to: where to print; standard output by default.
        shell: how the printed command names the job.
        repairs: returns what is on record of a finding's repairs, in sentences.

    Raises:
        FindingsTableError: there is no findings table at that path, or it cannot be read.
        FindingNotNamedError: an unknown or ambiguous id.
    """
    stream = to or sys.stdout
    events = read_events(storage)
    finding = named(current(events), wanted)
    mine = [event for event in events if event.finding_id == finding.finding_id]
    if output == "json":
        _print_json([as_document(event) for event in mine], stream)
        return
    shown = console(stream, highlight=False)
    paragraph(shown, f"{finding.finding_id}: {finding.kind} in {finding.topic}-{finding.partition}", "bold")
    if not finding.stands:
        paragraph(shown, OVER)
    for before, event in zip([None, *mine], mine, strict=False):
        said = f"{_status_in_words(event, before)} ({asked_in_words(asked_at(event))})"
        paragraph(shown, f"{utc_text(event.decided_at)} {said}: {event.summary}")
    for one in repairs(finding):
        if one not in evidence_of(finding).get(SAID, ()):  # the text on its end says which repairs ended it
            paragraph(shown, one)
    shown.print()
    answered, of = evidence_of(finding), ""
    if finding.is_incident:
        answered = next(iter(answered.get("proofs", ())), {})
        of = f" about the key of offset {answered['offset']}, one of many" if answered else ""
    if answered or not finding.is_incident:
        at = from_milliseconds(answered["asked_at_ms"]) if answered.get("asked_at_ms") else asked_at(finding)
        paragraph(shown, f"What each broker answered{of}, {asked_in_words(at)}:")
        answers = answers_of(answered)
        print_table(shown, ("", *answers.brokers), [(row, *cells) for row, cells in answers.rows])
        shown.print()
    if finding.stands:
        paragraph(shown, ASKED_ON)
    shown.print(Text(f"{LOOK}:\n{show_record(finding, shell)}"), soft_wrap=True)


def _status_in_words(event: Finding, before: Finding | None) -> str:
    """Return the status of an event, with what else has changed since the event before."""
    said = str(event.status)
    if before is not None and event.kind is not before.kind:
        said += f" as {event.kind}"
    return f"{said}, and {how}" if event.is_open and (how := seen(event)) else said
