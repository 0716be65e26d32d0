"""A process beside the job acknowledges findings: what it says is recorded once, and the job takes it in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from parallax.findings.acknowledge import AcknowledgeError, acknowledge
from parallax.findings.finding import Finding, current
from parallax.findings.naming import FindingNotNamedError
from parallax.findings.table import AppendedMeanwhile, FindingsTable, FindingsTableError, read_events
from parallax.model import FindingStatus
from tests.builders.findings import EVENT

ONE, TWO = replace(EVENT, finding_id="a" * 31 + "1"), replace(EVENT, finding_id="a" * 31 + "2")
OTHER = replace(EVENT, finding_id="b" * 32)

_KEEPS_ACKNOWLEDGING = """
import sys
from parallax.findings.acknowledge import acknowledge
for wanted in sys.argv[2:]:
    acknowledge(sys.argv[1], wanted, "known", by="somebody")
    print(wanted, flush=True)
"""
"""Another process: acknowledges one finding after the other and says so when it is done."""


@pytest.fixture
def storage(tmp_path: Path) -> str:
    FindingsTable(str(tmp_path)).append([ONE, TWO, OTHER])
    return str(tmp_path)


def parallax(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "parallax.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"})


def acknowledging(storage: Path, findings: list[str]) -> subprocess.Popen[str]:
    """A process that acknowledges the findings, one by one."""
    return subprocess.Popen(
        [sys.executable, "-c", _KEEPS_ACKNOWLEDGING, str(storage), *findings], stdout=subprocess.PIPE, text=True
    )


def many(count: int) -> list[Finding]:
    return [replace(EVENT, finding_id=f"{i:032x}", suspect_id=f"suspect-{i}") for i in range(count)]


def test_an_acknowledgement_is_an_event_with_its_reason_and_who_said_so(storage: str) -> None:
    event = acknowledge(storage, OTHER.finding_id, "the topic goes\n away tomorrow", by="ann")
    assert read_events(storage)[-1] == event
    assert (event.sequence, event.status) == (4, FindingStatus.ACKNOWLEDGED)
    assert (event.kind, event.broker, event.suspect_id) == (OTHER.kind, OTHER.broker, OTHER.suspect_id)
    said = json.loads(event.evidence)["acknowledgement"]
    assert (said["reason"], said["by"]) == ("the topic goes away tomorrow", "ann")
    assert event.summary.endswith("Acknowledged by ann: the topic goes away tomorrow.")
    assert event.stands
    assert not event.is_open


def test_a_reason_sends_nothing_to_a_terminal_but_text(storage: str) -> None:
    event = acknowledge(storage, OTHER.finding_id, "it is \x1b[31mred", by="ann")
    assert event.summary.endswith("it is \\x1b[31mred.")


def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so(storage: str) -> None:
    assert acknowledge(storage, "BBBB", "known").finding_id == OTHER.finding_id
    assert acknowledge(storage, TWO.finding_id, "known").finding_id == TWO.finding_id


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("cccc", "the id of no finding"), ("bbb", "at least its first 4"), ("aaaa", "several ids"), ("", "no finding")],
)
def test_an_id_that_names_no_single_finding_is_refused(storage: str, wanted: str, says: str) -> None:
    with pytest.raises(FindingNotNamedError, match=says) as error:
        acknowledge(storage, wanted, "known")
    assert "\n" not in str(error.value)
    assert len(read_events(storage)) == 3


def test_several_are_acknowledged_together_or_none_of_them(storage: str) -> None:
    refused = parallax("findings", "acknowledge", "bbbb", "cccc", "--reason", "known", "--data", storage)
    assert (refused.returncode, "'cccc' is the id of no finding" in refused.stderr) == (2, True)
    assert not any(event.status is FindingStatus.ACKNOWLEDGED for event in read_events(storage))
    names = ["bbbb", TWO.finding_id, OTHER.finding_id]
    done = parallax("findings", "acknowledge", *names, "--reason", "known", "--data", storage)
    assert [line.split()[1] for line in done.stdout.splitlines()] == [OTHER.finding_id, TWO.finding_id]
    known = [e.finding_id for e in read_events(storage) if e.status is FindingStatus.ACKNOWLEDGED]
    assert known == [OTHER.finding_id, TWO.finding_id], "each once"


def test_the_help_says_what_becomes_of_the_alert() -> None:
    said = " ".join(parallax("findings", "acknowledge", "--help").stdout.split())
    assert "its alert is suppressed until it is over or worse" in said
    assert "alert ends" not in said


def test_what_does_not_stand_or_is_acknowledged_is_refused(storage: str) -> None:
    dismissed = replace(EVENT, finding_id="d" * 32, status=FindingStatus.DISMISSED)
    table = FindingsTable(storage)
    table.load()
    table.append([replace(ONE, status=FindingStatus.RESOLVED), dismissed])
    with pytest.raises(AcknowledgeError, match="is resolved already"):
        acknowledge(storage, ONE.finding_id, "known")
    with pytest.raises(FindingNotNamedError, match="is no finding: the suspect was dismissed"):
        acknowledge(storage, dismissed.finding_id, "known")
    acknowledge(storage, TWO.finding_id, "known")
    with pytest.raises(AcknowledgeError, match="is acknowledged already"):
        acknowledge(storage, TWO.finding_id, "known")


@pytest.mark.parametrize("reason", ["", " \n", "x" * 501])
def test_a_reason_is_asked_for(storage: str, reason: str) -> None:
    with pytest.raises(AcknowledgeError, match="--reason"):
        acknowledge(storage, OTHER.finding_id, reason)


def test_a_path_without_findings_is_refused_and_no_table_is_made(tmp_path: Path) -> None:
    with pytest.raises(FindingsTableError, match="no findings table there"):
        acknowledge(str(tmp_path), "abcd", "known")
    assert list(tmp_path.iterdir()) == []


def test_what_was_appended_meanwhile_is_read_before_it_is_decided_again(storage: str) -> None:
    table = FindingsTable(storage)
    table.load()
    acknowledge(storage, OTHER.finding_id, "known")
    with pytest.raises(AppendedMeanwhile):
        table.append([replace(OTHER, status=FindingStatus.RESOLVED)])
    assert [e.status for e in table.news()] == [FindingStatus.ACKNOWLEDGED]
    assert table.news() == []
    (resolved,) = table.append([replace(OTHER, status=FindingStatus.RESOLVED)])
    assert [e.sequence for e in read_events(storage)] == [1, 2, 3, 4, 5]
    assert resolved.sequence == 5


def test_files_that_were_put_together_hide_no_event_of_another_process(storage: str) -> None:
    mine = FindingsTable(storage)
    mine.load()
    acknowledge(storage, OTHER.finding_id, "known")
    mine._table.update_incremental()
    mine._table.optimize.compact()
    with pytest.raises(AppendedMeanwhile):
        mine.append([ONE])
    assert [e.status for e in mine.news()] == [FindingStatus.ACKNOWLEDGED]


def test_two_processes_that_append_at_once_lose_nothing_and_share_no_number(tmp_path: Path) -> None:
    findings = many(8)
    table = FindingsTable(str(tmp_path))
    table.append(findings)
    mine = refused = 0
    with acknowledging(tmp_path, [f.finding_id for f in findings]) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while not refused or (process.poll() is None and mine < 60):
            try:
                table.append([replace(EVENT, finding_id="mine")])
                mine += 1
            except AppendedMeanwhile:
                refused += 1
                table.news()
        said = process.stdout.read().split()
    assert (process.returncode, len(said)) == (0, 7)
    events = read_events(str(tmp_path))
    assert [e.sequence for e in events] == list(range(1, 8 + 8 + mine + 1))
    assert Counter(e.finding_id for e in events if e.status is FindingStatus.ACKNOWLEDGED) == Counter(
        f.finding_id for f in findings
    )


def test_a_process_killed_while_it_acknowledges_leaves_each_event_whole_or_none(tmp_path: Path) -> None:
    findings = many(30)
    FindingsTable(str(tmp_path)).append(findings)
    left = [f.finding_id for f in findings]
    for said_before_the_kill in (1, 4):
        with acknowledging(tmp_path, left) as process:
            assert process.stdout is not None
            said = [line.strip() for line in islice(process.stdout, said_before_the_kill)]
            os.kill(process.pid, signal.SIGKILL)
            said += process.stdout.read().split()
        done = [e.finding_id for e in read_events(str(tmp_path)) if e.status is FindingStatus.ACKNOWLEDGED]
        assert set(said) <= set(done)
        assert len(done) == len(set(done))
        left = [i for i in left if i not in done]
    table = FindingsTable(str(tmp_path))
    before = table.load()
    assert [e.sequence for e in before] == list(range(1, len(before) + 1))
    assert table.append([EVENT])[0].sequence == len(before) + 1


def test_the_command_acknowledges_and_lists_what_is_acknowledged(storage: str) -> None:
    done = parallax("findings", "acknowledge", "bbbb", "--reason", "known", "--data", storage)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"acknowledged: {OTHER.finding_id}")
    assert current(read_events(storage))[OTHER.finding_id].status is FindingStatus.ACKNOWLEDGED
    listed = parallax("findings", "--data", storage)
    assert "content_mismatch acknowledged" in " ".join(listed.stdout.split())
    assert ": known" in listed.stdout


def test_the_command_says_in_one_line_what_was_wrong(storage: str) -> None:
    unknown = parallax("findings", "--data", storage, "acknowledge", "cccc", "--reason", "known")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert unknown.stderr.startswith("parallax: 'cccc' is the id of no finding")
    assert unknown.stderr.count("\n") == 1
    nowhere = parallax("findings", "acknowledge", "cccc", "--reason", "known")
    assert (nowhere.returncode, nowhere.stderr) == (2, "parallax: give either -c/--config or --data\n")
