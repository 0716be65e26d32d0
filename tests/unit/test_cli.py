"""The command line: an option that stands before the name of a command is honoured or refused, never ignored."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from parallax.cli import app
from parallax.config import load
from parallax.errors import SetupError
from parallax.findings.table import FindingsTable
from parallax.lab import commands
from parallax.lab.commands import BrokerStatus, LabStatus
from parallax.lab.errors import LabError
from parallax.lab.named import SUMMARIES
from parallax.lab.scenarios import SCENARIOS, ExpectedFinding, ScenarioResult
from parallax.lab.watched import recorded_by
from parallax.model import FindingKind, FindingStatus
from parallax.views.binding import bind, bound_to
from tests.builders.coverage import progress
from tests.builders.findings import EVENT
from tests.pages import Job

sys.path.append(str(Path(__file__).parent / "findings"))

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


@pytest.mark.parametrize(
    "at", ["2026-01-02", "2026-01-02T03:04:14Z", "2026-01-02 03:04:14Z", "2026-01-02 03:04:14 UTC"]
)
def test_a_list_begins_at_any_time_as_parallax_prints_it(storage: str, at: str) -> None:
    ended = findings(storage, "list", "--since", at)
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_what_is_no_time_is_one_line_that_shows_one(storage: str) -> None:
    ended = findings(storage, "list", "--since", "yesterday")
    assert ended.exit_code == 2
    assert "'yesterday' is no time; write it as 2026-01-02" in ended.stderr


@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("{parallax} findings show aaaa --data {storage} > /dev/full", "No space left on device"),
        ("{parallax} findings list --format json --data {storage} > /dev/full", "No space left on device"),
        ("{parallax} --version > /dev/full", "No space left on device"),
        ("{parallax} findings list --data {storage} >&-", "standard output is closed"),
        ("mkdir {storage}/gone; cd {storage}/gone; rmdir {storage}/gone; {parallax} init", "the working folder"),
        (
            "mkdir {storage}/gone; cd {storage}/gone; rmdir {storage}/gone; {parallax} report -o x.html",
            "working folder",
        ),
    ],
)
def test_what_cannot_print_or_has_no_folder_ends_with_one_line(storage: str, shell: str, said: str) -> None:
    parallax = f"{shlex.quote(sys.executable)} -m parallax"
    line = shell.format(parallax=parallax, storage=shlex.quote(storage))
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    (error,) = ended.stderr.splitlines()
    assert said in error


def test_a_reader_of_the_output_that_is_gone_is_no_error(storage: str) -> None:
    line = f"{shlex.quote(sys.executable)} -m parallax findings show aaaa --data {shlex.quote(storage)} | true"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.stderr == ""


def test_the_format_behind_the_command_counts_where_both_are_given(storage: str) -> None:
    ended = findings(storage, "--format", "json", "list", "--format", "text")
    assert ended.exit_code == 0
    assert "content_mismatch" in ended.stdout
    assert not ended.stdout.startswith("[")


def test_an_explanation_names_the_runbook_where_the_settings_have_it(storage: str, tmp_path: Path) -> None:
    config = tmp_path / "its.yaml"
    config.write_text(
        "kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [orders]}\n"
        f"storage: {{path: {storage}}}\nalerting: {{runbook_url: 'https://wiki.example/parallax'}}\n"
    )
    ended = CliRunner().invoke(app, ["findings", "explain", "aaaa", "-c", str(config), "--format", "json"])
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["runbook"].startswith("https://wiki.example/parallax#")


@pytest.mark.parametrize("command", [[], ["list"], ["show", "aaaa"], ["explain", "aaaa"]])
def test_where_no_job_runs_people_are_told_and_a_document_stays_one(storage: str, command: list[str]) -> None:
    Job(Path(storage)).record([progress(observed_at=EVENT.decided_at, recorded_on=EVENT.decided_at.date())])
    last = findings(storage, *command).stdout.splitlines()[-1]
    assert last.startswith(f"No job runs on {storage}, so nobody watches")
    assert json.loads(findings(storage, "--format", "json", *command).stdout)


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
    assert [one["status"] for one in json.loads(ended.stdout)] == ["acknowledged"]


def test_a_report_says_what_it_has_written_as_text_or_as_a_document(storage: str, tmp_path: Path) -> None:
    file = str(tmp_path / "report.html")
    asked = ["report", "--data", storage, "-o", file]
    assert CliRunner().invoke(app, asked).stdout == f"{file}: 1 finding\n"
    ended = CliRunner().invoke(app, [*asked, "--format", "json"])
    assert json.loads(ended.stdout) == {"file": file, "findings": 1}


@pytest.mark.parametrize("command", ["up", "status", "stop", "restart"])
def test_a_lab_is_lines_or_a_document(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    status = LabStatus("default", "4.2.1", "h:1", Path("/lab"), (BrokerStatus(1, "h:1", 7, "running"),))
    monkeypatch.setattr(f"parallax.lab.commands.{command}", lambda *_, **__: status)
    words = ["lab", command, *(["1"] if command == "stop" else [])]
    assert "broker 1  h:1  running (pid 7)" in CliRunner().invoke(app, words).stdout
    (broker,) = json.loads(CliRunner().invoke(app, [*words, "--format", "json"]).stdout)["brokers"]
    assert broker == {"id": 1, "address": "h:1", "pid": 7, "condition": "running"}


@pytest.mark.parametrize("command", ["stop", "restart"])
def test_who_stops_or_restarts_a_broker_of_a_lab_reads_of_that_one_alone(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    brokers = tuple(BrokerStatus(n, f"h:{n}", 7, "running") for n in (1, 2, 3))
    status = LabStatus("default", "4.2.1", "h:1", Path("/lab"), brokers)
    monkeypatch.setattr(f"parallax.lab.commands.{command}", lambda *_, **__: status)
    said = CliRunner().invoke(app, ["lab", command, "2"])
    assert (said.stdout, said.stderr) == ("  broker 2  h:2  running (pid 7)\n", "")


def test_who_has_started_a_lab_reads_how_a_job_watches_it_and_where_kafkas_tools_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status = LabStatus("mine", "4.2.1", "h:1,h:2", Path("/my lab"), ())
    monkeypatch.setattr("parallax.lab.commands.status", lambda **_: status)
    said = CliRunner().invoke(app, ["lab", "status"]).stderr
    commands = [shlex.split(line, comments=True) for line in said.splitlines() if line.startswith("  ")]
    (exported,) = (words for words in commands if words[0] == "export")
    assert exported[1] == "PATH=$PATH:/my lab/bin"
    (begun,) = (words[1:] for words in commands if words[1] == "init")
    assert CliRunner().invoke(app, [word.replace("DIR", str(tmp_path)) for word in begun]).exit_code == 0
    assert load(tmp_path / "parallax.yaml").kafka["bootstrap.servers"] == "h:1,h:2"
    assert ["parallax", "lab", "config", "--name", "mine", ">", "lab.yaml"] in commands
    assert ["parallax", "lab", "scenario", "frozen", "--name", "mine", "--watched-by", "lab.yaml"] in commands


def test_a_lab_that_was_stopped_is_a_line_or_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    status = LabStatus("mine", "4.2.1", "h:1", Path("/lab"), (BrokerStatus(1, "h:1", 7, "running"),))
    monkeypatch.setattr("parallax.lab.commands.down", lambda **_: status)
    assert CliRunner().invoke(app, ["lab", "down"]).stdout == "lab mine is down\n"
    document = json.loads(CliRunner().invoke(app, ["lab", "down", "--format", "json"]).stdout)
    assert document == {
        "name": "mine",
        "stopped": [{"id": 1, "address": "h:1", "pid": 7, "condition": "running"}],
    }


def test_the_help_says_of_each_scenario_what_it_does() -> None:
    lines = CliRunner().invoke(app, ["lab", "scenario", "--help"]).output.splitlines()
    assert set(SCENARIOS) == set(SUMMARIES)
    for name, summary in SUMMARIES.items():
        assert any(line.split() == [name, *summary.split()] for line in lines), name


def test_a_scenario_is_lines_or_a_document_and_its_progress_is_in_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ExpectedFinding(FindingKind.READ_COMMITTED_FROZEN, "t", 0, 2, 5, "k", 1.5)
    result = ScenarioResult("frozen", ("t",), (expected,), {"whole": 9.0})

    def play(*_: object, say: Callable[[str], None], **__: object) -> ScenarioResult:
        say("a broker is stopped")
        return result

    monkeypatch.setattr("parallax.lab.commands.scenario", play)
    ended = CliRunner().invoke(app, ["lab", "scenario", "frozen"])
    assert ended.stdout.startswith("frozen: is on the brokers after 9 s\n")
    ended = CliRunner().invoke(app, ["lab", "scenario", "frozen", "--format", "json"])
    document = json.loads(ended.stdout)
    assert (document["name"], document["topics"], document["seconds"]) == ("frozen", ["t"], {"whole": 9.0})
    (one,) = document["expected"]
    assert (one["kind"], one["broker"], one["offset"]) == ("read_committed_frozen", 2, 5)
    assert ended.stderr == "a broker is stopped\n"


@pytest.mark.parametrize("archive", [Path("/cache/classes.jsa"), None])
def test_what_was_fetched_is_a_document_where_one_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, archive: Path | None
) -> None:
    monkeypatch.setattr("parallax.java.find_java", lambda: None)
    monkeypatch.setattr("parallax.jars.delta_jars", lambda **_: Path("/cache/delta"))
    monkeypatch.setattr("parallax.jars.s3_jars", lambda **_: Path("/cache/s3a"))
    monkeypatch.setattr("parallax.jars.kafka_jars", lambda version, **_: Path(f"/cache/kafka-{version}"))
    monkeypatch.setattr("parallax.rehearsal.make_archive", lambda _: archive)
    assert CliRunner().invoke(app, ["fetch-jars"]).stdout == ""
    ended = CliRunner().invoke(app, ["fetch-jars", "--kafka-version", "4.1.0", "--format", "json"])
    assert json.loads(ended.stdout) == {
        "delta": "/cache/delta",
        "s3": "/cache/s3a",
        "kafka": "/cache/kafka-4.1.0",
        "kafka_version": "4.1.0",
        "archive": None if archive is None else str(archive),
    }


@pytest.mark.parametrize(
    ("words", "fails", "error"),
    [
        (["demo"], "parallax.demo.run_demo", LabError("it failed")),
        (["fetch-jars"], "parallax.java.find_java", SetupError("it failed")),
        (["lab", "up"], "parallax.lab.commands.up", LabError("it failed")),
        (["lab", "down"], "parallax.lab.commands.down", LabError("it failed")),
        (["lab", "status"], "parallax.lab.commands.status", LabError("it failed")),
        (["lab", "scenario", "x"], "parallax.lab.commands.scenario", LabError("it failed")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_of_the_lab_is_a_line_or_a_document(
    monkeypatch: pytest.MonkeyPatch, words: list[str], fails: str, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(fails, fail)
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", "parallax: it failed\n")
    ended = CliRunner().invoke(app, [*words, "--format", "json"])
    assert (ended.exit_code, ended.stdout, json.loads(ended.stderr)) == (2, "", {"error": "it failed"})


def _leaves(group: TyperGroup, *before: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _leaves(command, *before, name)
        else:
            yield (*before, name)


def test_every_command_that_ends_by_itself_has_both_formats() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    names = list(_leaves(group))
    assert len(names) > 10
    without = []
    for name in names:
        command: Any = group
        for word in name:
            command = command.commands[word]
        if not any("--format" in option.opts for option in command.params):
            without.append(name)
    assert without == [("run",)], "the job's log has a format of its own"


ENDING = """
import atexit, builtins, sys, threading
from parallax import cli

class Kept:
    def __del__(self):
        print("torn down")

builtins.kept = Kept()
atexit.register(print, "at exit")
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread's end"))).start()
sys.argv = ["parallax", *sys.argv[1:]]
cli.main()
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["no-such-command"], 2)])
def test_a_command_ends_threads_and_runs_what_is_registered_but_takes_no_interpreter_down(
    arguments: list[str], code: int
) -> None:
    """Else threads of Arrow that let go of Python's objects meanwhile abort the process."""
    ended = subprocess.run([sys.executable, "-c", ENDING, *arguments], capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert ended.stdout.splitlines()[-2:] == ["a thread's end", "at exit"]


def test_a_storage_is_moved_to_another_cluster_and_both_are_said(tmp_path: Path) -> None:
    asked = ["storage", "bind", "--data", str(tmp_path), "--format", "json", "--cluster"]
    FindingsTable(str(tmp_path))
    for cluster, before in (("one", None), ("two", "one")):
        ended = CliRunner().invoke(app, [*asked, cluster])
        assert ended.exit_code == 0, ended.output
        assert json.loads(ended.stdout) == {"storage": str(tmp_path), "cluster_id": cluster, "before": before}


def test_a_binding_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "cluster.json").write_text("{")
    ended = CliRunner().invoke(app, ["storage", "bind", "--data", str(tmp_path), "--cluster", "one"])
    assert (ended.exit_code, ended.output) == (0, f"{tmp_path} belongs to cluster one\n")


@pytest.mark.parametrize("cluster", ["a b", "<b>", "a" * 250, "", "a\nb", "ä"])
def test_what_is_no_clusters_id_is_one_line(tmp_path: Path, cluster: str) -> None:
    bind(str(tmp_path), "one")
    ended = CliRunner().invoke(app, ["storage", "bind", "--data", str(tmp_path), "--cluster", cluster])
    assert ended.exit_code == 2
    (line,) = ended.stderr.splitlines()
    assert "--cluster: a cluster's id" in line
    assert bound_to(str(tmp_path)) == "one"


def test_the_status_of_a_guard_that_is_off_is_a_line(tmp_path: Path) -> None:
    config = tmp_path / "parallax.yaml"
    head = "kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [orders]}\n"
    config.write_text(f"{head}storage: {{path: {tmp_path}/data}}\n")
    bind(f"{tmp_path}/data", "one")
    ended = CliRunner().invoke(app, ["guard", "status", "-c", str(config)])
    said = f"nothing is held, by what is on record in {tmp_path}/data; the guard is off (guard.mode: off)\n"
    assert (ended.exit_code, ended.stdout) == (0, said)
    document = CliRunner().invoke(app, ["guard", "status", "-c", str(config), "--format", "json"])
    assert json.loads(document.stdout) == {"holds": [], "refused": []}


def test_who_removes_it_may_release_all_where_no_guard_ever_acted(tmp_path: Path) -> None:
    config = tmp_path / "parallax.yaml"
    head = "kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [orders]}\n"
    config.write_text(f"{head}storage: {{path: {tmp_path}/data}}\n")
    bind(f"{tmp_path}/data", "one")
    ended = CliRunner().invoke(app, ["guard", "release", "--all", "-c", str(config)])
    said = f"nothing is held: no guard has ever held anything in {tmp_path}/data\n"
    assert (ended.exit_code, ended.stdout) == (0, said)
    document = CliRunner().invoke(app, ["guard", "release", "--all", "-c", str(config), "--format", "json"])
    assert json.loads(document.stdout) == []


def test_the_first_screen_of_the_help_shows_whole_commands_that_there_are() -> None:
    screen = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout.splitlines()[:24]
    shown = [found[1].split() for line in screen if (found := re.match(r" parallax (\S.*?)  +\S", line))]
    assert [words[0] for words in shown] == ["demo", "init", "check", "run", "findings", "findings"]
    for words in shown:
        command: Any = get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert not isinstance(command, TyperGroup) or command.invoke_without_command
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options


def test_the_help_of_an_option_with_many_choices_breaks_none_of_them() -> None:
    said = CliRunner().invoke(app, ["findings", "list", "--help"], env={"COLUMNS": "80"}).stdout
    assert "<KIND>" in said or "KIND" in said
    assert not any(
        line.strip(" │").startswith(("_", "|")) or line.rstrip(" │").endswith("_") for line in said.splitlines()
    )


def test_no_help_cuts_a_name_at_80_columns() -> None:
    def all_of(command: Any, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            yield from all_of(inner, [*words, name])

    cut = {}
    for words in all_of(get_command(app), []):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).stdout
        assert "Usage" in shown
        cut |= {" ".join(words): line for line in shown.splitlines() if "\N{HORIZONTAL ELLIPSIS}" in line}
    assert cut == {}


def test_a_picture_that_cannot_be_written_is_said_before_the_demo_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(
        "parallax.demo.run_demo", lambda *given, **_: begun.append(given) or given[3].write("<svg/>") * 0
    )
    ended = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "nope" / "x.svg")])
    assert (ended.exit_code, begun) == (2, [])
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"parallax: --picture: {tmp_path}/nope/x.svg: ")
    assert CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "x.svg")]).exit_code == 0
    assert (tmp_path / "x.svg").read_text() == "<svg/>"


@pytest.mark.parametrize("name", ["", "."])
def test_no_name_of_a_settings_file_is_said_so(name: str) -> None:
    ended = CliRunner().invoke(app, ["check", "-c", name])
    said = "parallax: -c: an empty name, or this folder; give the file with the settings\n"
    assert (ended.exit_code, ended.stderr) == (2, said)


def test_an_unknown_kind_is_told_which_there_are(storage: str) -> None:
    ended = findings(storage, "list", "--kind", "none")
    assert ended.exit_code == 2
    assert "read_committed_frozen" in ended.stderr


def test_the_settings_for_a_lab_are_those_of_a_job_that_watches_all_of_its_topics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status = LabStatus("mine", "4.2.1", "h:1,h:2", Path("/lab"), ())
    monkeypatch.setattr("parallax.lab.commands.status", lambda **_: status)
    printed = CliRunner().invoke(app, ["lab", "config", "--name", "mine"]).stdout
    (tmp_path / "lab.yaml").write_text(printed)
    settings = load(tmp_path / "lab.yaml")
    assert settings.kafka["bootstrap.servers"] == "h:1,h:2"
    assert settings.topics.pattern == "[^_].*"


def test_a_scenario_waits_for_the_job_that_it_is_watched_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {}
    result = ScenarioResult("frozen", (), (), {"whole": 1.0})
    monkeypatch.setattr("parallax.lab.commands.scenario", lambda *_, **more: given.update(more) or result)
    config = tmp_path / "lab.yaml"
    head = "kafka: {bootstrap.servers: 'h:1'}\ntopics: {include: [a]}\n"
    config.write_text(f"{head}storage: {{path: {tmp_path}/no}}\n")
    asked = ["lab", "scenario", "frozen"]
    assert CliRunner().invoke(app, [*asked, "--watched-by", str(config)]).exit_code == 0
    assert given["await_observed"] is not None
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert given["await_observed"] is None
    with pytest.raises(LabError, match=r"in vain .* start it with `parallax run`"):
        recorded_by(str(tmp_path), patience_s=0)("a", 5, 2)


def test_a_lab_that_goes_takes_the_tables_of_its_job_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status = LabStatus("mine", "4.2.1", "h:1", Path("/lab"), ())
    monkeypatch.setattr("parallax.lab.commands.status", lambda **_: status)
    monkeypatch.setattr("parallax.lab.commands._status", lambda *_: status)
    monkeypatch.setattr("parallax.lab.commands._load", lambda *_: SimpleNamespace(stop=lambda: None))
    data = Path(yaml.safe_load(commands.settings(name="mine", directory=tmp_path))["storage"]["path"])
    (data / "findings").mkdir(parents=True)
    commands.down(name="mine", directory=tmp_path)
    assert not data.exists()
