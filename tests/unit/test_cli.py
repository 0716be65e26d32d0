"""The command line: an option that stands before the name of a command is honoured or refused, never ignored."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from parallax.cli import app
from parallax.findings.table import FindingsTable
from parallax.lab.commands import BrokerStatus, LabStatus
from parallax.model import FindingStatus

sys.path.append(str(Path(__file__).parent / "findings"))
from test_findings_table import EVENT

STANDS = replace(EVENT, finding_id="a" * 32)
OVER = replace(EVENT, finding_id="b" * 32, status=FindingStatus.RESOLVED)


@pytest.fixture
def storage(tmp_path: Path) -> str:
    FindingsTable(str(tmp_path)).append([STANDS, OVER])
    return str(tmp_path)


def findings(storage: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["findings", "--data", storage, *arguments])


@pytest.mark.parametrize("command", [["list"], ["show", "aaaa"], ["explain", "aaaa"]])
@pytest.mark.parametrize("is_before", [True, False])
def test_the_format_may_stand_before_or_behind_the_command(storage: str, command: list[str], is_before: bool) -> None:
    option = ["--format", "json"]
    ended = findings(storage, *(option + command if is_before else command + option))
    assert ended.exit_code == 0
    assert json.loads(ended.stdout)


def test_the_format_behind_the_command_counts_where_both_are_given(storage: str) -> None:
    ended = findings(storage, "--format", "json", "list", "--format", "text")
    assert ended.exit_code == 0
    assert "content_mismatch" in ended.stdout
    assert not ended.stdout.startswith("[")


@pytest.mark.parametrize("arguments", [["--all", "list"], ["list", "--all"], ["--all"]])
def test_all_may_stand_before_or_behind_list(storage: str, arguments: list[str]) -> None:
    ended = findings(storage, "--format", "json", *arguments)
    assert {one["finding_id"] for one in json.loads(ended.stdout)} == {STANDS.finding_id, OVER.finding_id}


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--all", "show", "aaaa"], "--all"),
        (["--all", "explain", "aaaa"], "--all"),
        (["--all", "acknowledge", "aaaa", "--reason", "x"], "--all"),
    ],
)
def test_an_option_that_a_command_does_not_have_is_refused(storage: str, arguments: list[str], option: str) -> None:
    ended = findings(storage, *arguments)
    assert ended.exit_code == 2
    assert ended.stderr.startswith(f"parallax: {option}: findings ")
    assert ended.stderr.count("\n") == 1


def test_a_reason_that_is_no_text_is_refused(storage: str) -> None:
    ended = findings(storage, "acknowledge", "aaaa", "--reason", "\udcff")
    assert ended.exit_code == 2
    assert ended.stderr.startswith("parallax: --reason: ")


def test_an_acknowledgement_is_a_line(storage: str) -> None:
    ended = findings(storage, "acknowledge", "aaaa", "--reason", "known")
    assert ended.stdout.startswith(f"acknowledged: {STANDS.finding_id} ")


@pytest.mark.parametrize("is_before", [True, False])
def test_or_a_document(storage: str, is_before: bool) -> None:
    words, option = ["acknowledge", "aaaa", "--reason", "known"], ["--format", "json"]
    ended = findings(storage, *(option + words if is_before else words + option))
    assert json.loads(ended.stdout)["status"] == "acknowledged"


def test_a_report_says_what_it_has_written_as_text_or_as_a_document(storage: str, tmp_path: Path) -> None:
    file = str(tmp_path / "report.html")
    asked = ["report", "--data", storage, "-o", file]
    assert CliRunner().invoke(app, asked).stdout == f"{file}: 1 finding\n"
    ended = CliRunner().invoke(app, [*asked, "--format", "json"])
    assert json.loads(ended.stdout) == {"file": file, "findings": 1}


@pytest.mark.parametrize("command", ["up", "status"])
def test_a_lab_is_lines_or_a_document(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    status = LabStatus("default", "4.2.1", "h:1", Path("/lab"), (BrokerStatus(1, "h:1", 7, "running"),))
    monkeypatch.setattr(f"parallax.lab.commands.{command}", lambda *_, **__: status)
    assert "broker 1  h:1  running (pid 7)" in CliRunner().invoke(app, ["lab", command]).stdout
    (broker,) = json.loads(CliRunner().invoke(app, ["lab", command, "--format", "json"]).stdout)["brokers"]
    assert broker == {"id": 1, "address": "h:1", "pid": 7, "condition": "running"}
