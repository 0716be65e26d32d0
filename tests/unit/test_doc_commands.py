"""Each command that a document names exists as written, and is run by a test, or is listed as one that none runs.

What is a command, in the documents:

- in a block of ``sh``, each line, but for assignments and the shell's own words;
- in inline code, several words of which the first could be the name of a program, or of a command of Parallax;
- in inline code, one word that ends in ``.sh`` or lies in a ``bin/``; and one of small letters that nothing in
  Parallax's code is called (not in ``docs/reference``, which is made of the code).

Every command of Parallax and every target of the Makefile is one as well: ``--help`` and ``make help`` name it.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from markdown_it import MarkdownIt

from parallax.cli import app

ROOT = Path(__file__).parents[2]
CI = ".ci/run"
SHELL = ("sh", "bash", "shell", "console")
_WHEEL, _LAB, _MAKE, _RUN, _COPY = (
    "e2e/test_wheel.py::test_by_the_readme_alone_an_alert_comes_at_a_webhook_and_is_explained",
    "e2e/test_lab.py::test_a_lab_outlives_the_process_that_started_it_until_it_is_taken_down",
    "unit/scripts/test_make.py::test_",
    "e2e/test_repair_run.py::test_a_repair_that_is_killed_at_its_marker_is_resumed_and_every_replica_is_right",
    "e2e/test_repair_copy.py::test_",
)
_UNDO = (
    "e2e/test_repair_run.py::test_without_its_right_a_repair_stops_names_it_and_keeps_others_out_until_it_is_given_up"
)
_FROM_WHEEL = "e2e/test_wheel.py::test_from_the_wheel_alone_init_writes_what_check_accepts"
_SWITCHES = "unit/commands/test_switches.py::test_without_a_cluster_at_hand_a_storage_is_paused_and_resumed"
_GUARD = "e2e/test_guard.py::test_a_person_holds_and_lets_go_of_a_topic_without_a_job"
_HUNG = "a_hanging_transaction_is_told_from_one_that_goes_on_and_ends_by_the_printed_command"
RUN_BY = {
    "parallax init": _WHEEL,
    "parallax check": _FROM_WHEEL,
    "parallax run": _WHEEL,
    "parallax findings": _WHEEL,
    "parallax findings list": "unit/test_cli.py::test_all_may_stand_before_or_behind_list",
    "parallax findings explain": _WHEEL,
    "parallax findings show": "unit/test_cli.py::test_the_format_may_stand_before_or_behind_the_command",
    "parallax findings acknowledge": "unit/findings/test_acknowledge.py::"
    "test_the_command_acknowledges_and_lists_what_is_acknowledged",
    "parallax findings readers": f"{_COPY}which_groups_are_past_what_is_wrong_is_asked_of_their_coordinators",
    "parallax show-record": "e2e/test_findings.py::test_show_record_shows_what_a_follower_alone_still_has",
    "parallax report": "unit/test_cli.py::test_a_report_says_what_it_has_written_as_text_or_as_a_document",
    "parallax audit": "e2e/test_audit.py::test_without_history_it_proves_what_the_replicas_still_show",
    "parallax pause": _SWITCHES,
    "parallax resume": _SWITCHES,
    "parallax guard status": "unit/guard/test_table.py::test_a_command_that_reads_it_last_exits_with_its_own_code",
    "parallax guard hold": _GUARD,
    "parallax guard release": _GUARD,
    "parallax lead": f"{_COPY}leadership_is_moved_from_a_wrong_replica_and_no_election_brings_it_back",
    "parallax roll": f"{_COPY}a_broker_whose_restart_would_make_a_wrong_replica_the_leader_is_not_to_be_restarted",
    "parallax seen": "e2e/test_repair_run.py::test_what_consumers_of_each_replica_had_seen_is_on_record",
    "parallax repair plan": _RUN,
    "parallax repair run": _RUN,
    "parallax repair status": _RUN,
    "parallax repair resume": _RUN,
    "parallax repair undo": _UNDO,
    "parallax repair close": "unit/repair/test_run.py::test_close_ends_a_repair_on_record_and_asks_no_broker",
    "parallax storage bind": "e2e/test_faults_brokers.py::test_a_command_moves_a_storage_that_no_job_uses",
    "parallax lab up": _WHEEL,
    "parallax lab down": _WHEEL,
    "parallax lab scenario": _WHEEL,
    "parallax lab status": _LAB,
    "parallax lab stop": _LAB,
    "parallax lab restart": _LAB,
    "parallax lab config": _LAB,
    "parallax demo": "e2e/test_versions.py::test_the_demo_finds_all_five_and_nothing_else",
    "parallax fetch-jars": "e2e/test_lab.py::test_jars_that_are_there_are_named_and_hold_kafka_and_delta",
    "make packages": CI,
    "make setup": CI,
    "make test": CI,
    "make lint": CI,
    "make demo": "e2e/test_versions.py::test_the_demo_finds_all_five_and_nothing_else",
    "make bench": "unit/test_benchmarks.py::test_a_benchmark_without_brokers_runs_to_its_end",
    "make help": f"{_MAKE}help_lists_every_target",
    "make unit": f"{_MAKE}unit_runs_the_unit_tests_alone_and_test_all_every_test",
    "make test-all": f"{_MAKE}unit_runs_the_unit_tests_alone_and_test_all_every_test",
    "make reference": f"{_MAKE}what_is_generated_is_written_again",
    "make dashboards": f"{_MAKE}what_is_generated_is_written_again",
    "make site": f"{_MAKE}the_site_has_a_page_of_each_document",
    "make format": f"{_MAKE}code_is_formatted_and_what_can_be_mended_is",
    "make clean": f"{_MAKE}clean_removes_what_was_made_and_nothing_else",
    "make simulate": f"{_MAKE}as_many_histories_as_are_asked_for_are_simulated",
    "python3 -m pip wheel": _FROM_WHEEL,
    "python3 -m venv": _FROM_WHEEL,
    "python3 -m pytest": CI,
    "python3 -c": "unit/test_deploy.py::test_the_line_of_the_page_compiles_the_loops_that_workers_run",
    "pip install": _WHEEL,
    "build.sh": "e2e/test_image.py::test_by_the_readme_and_the_rendered_files_a_divergence_is_found_and_all_is_removed",
    "spark-submit": "e2e/test_cluster_mode.py::"
    "test_spark_submit_ships_an_archive_and_ends_with_the_job_as_the_job_with_it",
    "submit.sh": "unit/test_deploy.py::test_a_signal_to_submit_ends_the_job_in_order_and_leaves_nothing",
    "rolling-restart.sh": "unit/test_deploy.py::"
    "test_a_rolling_restart_of_strimzi_waits_before_each_broker_and_until_it_is_back",
    "systemd-analyze verify": "unit/test_deploy.py::test_systemd_has_nothing_to_say_against_the_unit",
    "promtool check rules": "unit/alerting/test_alert_rules.py::test_promtool_accepts_the_rules",
    "amtool check-config": "unit/alerting/test_alert_rules.py::test_amtool_accepts_the_routes_and_routes_by_severity",
    "kafka-acls.sh": "e2e/test_replica_security.py::"
    "test_the_commands_of_the_document_grant_all_that_is_needed_and_no_more",
    "kafka-reassign-partitions.sh": "e2e/test_repair.py::"
    "test_a_right_replica_leads_the_accused_is_copied_anew_and_the_order_is_restored",
    "kafka-topics.sh": _LAB,
    "kafka-transactions.sh": f"e2e/test_hanging_transactions.py::test_{_HUNG}",
}
"""By how a command begins, the test function that runs it, or the script of the CI."""
_ROW = re.compile(r"^\| (?P<commands>`.+`) \| (?P<why>\S.*) \|$", re.MULTILINE)
NOT_RUN = {
    begun: row["why"]
    for row in _ROW.finditer((ROOT / "docs/contribute/proven.md").read_text().partition("\n## Commands that no")[2])
    for begun in re.findall(r"`([^`]+)`", row["commands"])
}
"""By how a command begins that no test runs, the reason that docs/contribute/proven.md has."""
_SHELLS_OWN = re.compile(r"(?:for|do|done|cd|export)\b|[A-Z_]+=")
_IN_PART = ("MissingParameter", "NoArgsIsHelpError")
"""What the parser says of a command that is named without all of its words."""
_PLACEHOLDER = re.compile(r"(?<![\w/.-])[A-Z]+(?![\w/.-])")
_PROGRAM = re.compile(r"(?!-)[\w./~-]*\w")
_SMALL = re.compile(r"[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*")
_PARALLAX = re.compile(r"(?:^|.* )(?:\S*/)?parallax (?=[a-z])")


class Command(NamedTuple):
    """A command line of a file, without comment; or the beginning of one."""

    place: str
    line: str
    is_whole: bool


def pages() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md")), *(ROOT / "deploy").rglob("README*")]


def notes() -> list[Path]:
    """The files below deploy/ that say in comments, or to people, what to run."""
    deploy = ROOT / "deploy"
    return [deploy / "systemd" / "parallax.service", deploy / "spark" / "sparkapplication.yaml"] + [
        deploy / "helm" / "parallax" / name for name in ("values.yaml", "templates/NOTES.txt")
    ]


def _split(text: str) -> Iterator[str]:
    """The commands of a shell's lines, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        for one in re.split(r" && | \| |; ", re.sub(r"(^|\s+)# .*", "", line)):
            if one.strip() and not _SHELLS_OWN.match(one.strip()):
                yield " ".join(one.split())


def programs() -> set[str]:
    """The programs that some command is known to begin with."""
    return {begun.split()[0] for begun in (*RUN_BY, *NOT_RUN)}


@cache
def names() -> set[str]:
    """What Parallax's code calls anything: names, strings, modules, and fields of what is generated."""
    found = set[str]()
    for file in (*(ROOT / "streaming" / "parallax").rglob("*.py"), *(ROOT / "dashboards").glob("*.py")):
        found |= {file.stem, file.parent.name}
        for node in ast.walk(ast.parse(file.read_text())):
            found |= {str(getattr(node, kind, "")) for kind in ("id", "attr", "arg", "name", "value")}
    return found


def written(code: str) -> str | None:
    """The command that inline code is, or None if it is none: see the head of this module."""
    first, *others = code.split() or [""]
    if not _PROGRAM.fullmatch(first):
        return None
    if others:
        return f"parallax {code}" if _led_to([first])[0] != "parallax" else code
    is_program = first.endswith(".sh") or "bin/" in first or first in programs()
    return code if is_program or (_SMALL.fullmatch(first) and first not in names()) else None


def commands(name: str, text: str) -> Iterator[Command]:
    """The commands of a page: those in blocks, and those in inline code."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        place = f"{name}:{(token.map or [0])[0] + 1}"
        if token.type == "fence" and token.info in SHELL:
            yield from (Command(place, line, True) for line in _split(token.content))
        for part in token.children or ():
            code = " ".join(part.content.split()) if part.type == "code_inline" else ""
            if (" " in code or not name.startswith("docs/reference/")) and (line := written(code)):
                yield Command(place, line, False)


def noted(name: str, text: str) -> Iterator[Command]:
    """The commands of a file that is no page: lines that begin with a known program, and what is between backticks."""
    text = re.sub(r"\{\{-?.*?-?\}\}", "X", text)
    for number, line in enumerate(text.splitlines(), 1):
        said = re.sub(r"^\s*#?\s*", "", line)
        for one in (said, *re.findall(r"`([^`]+)`", line)):
            if " " in one and _PROGRAM.fullmatch(one.split()[0]) and _program(one) in programs():
                yield from (Command(f"{name}:{number}", part, False) for part in _split(one))


def listed() -> Iterator[Command]:
    """What programs of the project name themselves: all commands of Parallax, all targets of the Makefile."""
    pending = ["parallax"]
    while pending:
        path, command, _ = _led_to(pending.pop().split()[1:])
        inner = getattr(command, "commands", {})
        pending += [f"{path} {name}" for name in inner]
        yield from [] if inner else [Command("--help", path, False)]
    yield from (Command("Makefile", f"make {target}", False) for target in makefile()[0])


@cache
def makefile() -> tuple[dict[str, str], set[str]]:
    """The targets of the Makefile, each with its line and recipe, and the variables that a person may set."""
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"(?m)^([a-z-]+):(.*(?:\n\t.*)*)", text)
    return dict(targets), set(re.findall(r"(?m)^([A-Z_]+) \?=", text))


def _program(line: str) -> str:
    """The program of a command, without its folder; Python under one name."""
    name = (line.split() or [""])[0].rsplit("/", 1)[-1]
    return "python3" if name == "python" else name


@cache
def known(line: str) -> str | None:
    """What a command is known by: how it begins, in RUN_BY or NOT_RUN; or itself, if one of those begins with it."""
    line = " ".join([_program(line), *line.split()[1:]])
    program, *words = line.split()
    path, _, more = _led_to(words) if program == "parallax" else (line, None, [])
    if program == "parallax" and path in RUN_BY and not (more and path == program):
        return path
    begun = [one for one in (*RUN_BY, *NOT_RUN) if f"{line} ".startswith(f"{one} ")]
    if any(one.startswith(f"{line} ") for one in (*RUN_BY, *NOT_RUN)):
        return line
    return None if program == "parallax" else max(begun, key=len, default=None)


@cache
def _parallax() -> Any:
    return typer.main.get_command(app)


def _led_to(words: list[str]) -> tuple[str, Any, list[str]]:
    """The command of Parallax that words lead to: its name, itself, and the words behind it."""
    path, command = "parallax", _parallax()
    while words and words[0] in getattr(command, "commands", {}):
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    return path, command, words


def taken(line: str, *, is_whole: bool = True) -> None:
    """Have the command line take a command of Parallax, without running it.

    Raises:
        ValueError: there is no such command.
        Exception: the parser's own: no such option or choice; of a whole command, also that something is missing.
    """
    _, *words = shlex.split(re.sub(r" > \S+$", "", line))
    path, command, words = _led_to(words)
    if getattr(command, "commands", None) and words and not words[0].startswith("-"):
        raise ValueError(f"No such command: {path} {words[0]}")
    try:
        command.make_context(path, [_PLACEHOLDER.sub("1", word) for word in words])
    except Exception as error:
        if is_whole or type(error).__name__ not in _IN_PART:
            raise


ALL = [
    *(
        one
        for found, files in ((commands, pages()), (noted, notes()))
        for file in files
        for one in found(file.relative_to(ROOT).as_posix(), file.read_text())
    ),
    *listed(),
]


def test_there_are_commands_in_the_documents() -> None:
    assert sum(one.is_whole for one in ALL) > 40
    assert sum(not one.is_whole for one in ALL) > 100
    assert {one.place.split("/")[0] for one in ALL} >= {"docs", "deploy", "--help", "Makefile"}


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_is_run_by_a_test_or_listed_with_the_reason_why_none_runs_it(one: Command) -> None:
    assert known(one.line), (
        f"{one.place}: {one.line}: name the test that runs it in RUN_BY, or give docs/contribute/proven.md a row"
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_of_parallax_in_a_page_has_the_options_that_it_is_given(one: Command) -> None:
    program = _program(one.line)
    if program == "parallax" or (program in ("kubectl", "runuser") and " -- " in one.line):
        line = one.line if program == "parallax" else one.line.partition(" -- ")[2]
        taken(_PARALLAX.sub("parallax ", line), is_whole=one.is_whole)


@pytest.mark.parametrize("one", [one for one in ALL if _program(one.line) == "make"], ids=lambda one: one.line)
def test_make_knows_the_target_and_the_variables_that_it_is_given(one: Command) -> None:
    assert unknown_to_make(one.line) == set()


def unknown_to_make(line: str) -> set[str]:
    """The words of a command of make that are neither targets nor variables of the Makefile."""
    targets, variables = makefile()
    given = {word.partition("=")[0] for word in line.split()[1:]}
    return given - variables - targets.keys()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_writes_commands_in_blocks_that_say_so(page: Path) -> None:
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    blocks = [one for one in tokens if one.type in ("code_block", "fence") and one.info not in SHELL]
    lines = [line for one in blocks for line in one.content.splitlines() if " " in line.strip()]
    assert [line for line in lines if _program(line) in programs()] == [], "write ```sh"


@cache
def _defined(file: Path) -> dict[str, list[ast.AST]]:
    """What a module of tests, and the modules of tests that it imports from, define: by name."""
    tree, found = ast.parse(file.read_text()), dict[str, list[ast.AST]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            other = ROOT / f"{(node.module or '').replace('.', '/')}.py"
            for name, nodes in (_defined(other) if other.exists() else {}).items():
                found.setdefault(name, []).extend(nodes)
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(node)
    return found


def used_by(test: str) -> Iterator[ast.AST]:
    """The nodes of a test function, and of all in its module, or imported, that it uses or asks for."""
    file, _, function = test.partition("::")
    defined = _defined(ROOT / "tests" / file)
    assert function in defined, f"{test} is no test"
    seen, pending = set[str](), [function]
    while pending:
        if (name := pending.pop()) in seen:
            continue
        seen.add(name)
        for node in (one for top in defined.get(name, ()) for one in ast.walk(top)):
            yield node
            pending += [str(getattr(node, kind)) for kind in ("id", "attr", "arg") if hasattr(node, kind)]


def words_of(test: str) -> set[str]:
    """The words in the strings that a test uses, or of the CI's script; with those of the Makefile's targets."""
    if test == CI:
        found = set((ROOT / CI).read_text().split())
    else:
        strings = (node.value for node in used_by(test) if isinstance(node, ast.Constant))
        found = {word for text in strings if isinstance(text, str) for word in text.split()}
    pending = [target for target in makefile()[0] if {"make", target} <= found]
    while pending:
        words = set(makefile()[0][pending.pop()].split())
        pending += words & makefile()[0].keys() - found
        found |= words
    return found


@pytest.mark.parametrize(("command", "test"), RUN_BY.items())
def test_the_test_that_is_named_runs_the_command(command: str, test: str) -> None:
    words = re.sub(r"^(?:python3 -m |parallax )", "", command).replace("python3", "").split()
    assert set(words) - words_of(test) == set(), f"{test} does not write these words"


@pytest.mark.parametrize("test", sorted({*RUN_BY.values()} - {CI}))
def test_the_test_that_is_named_replaces_nothing(test: str) -> None:
    """What it runs is then what people run."""
    replaced = [node.lineno for node in used_by(test) if isinstance(node, ast.Attribute) and node.attr in _REPLACES]
    assert replaced == []


_REPLACES = ("setattr", "setitem", "patch")
"""How a test puts something in place of what the program has."""


@pytest.mark.parametrize("begun", [*RUN_BY, *NOT_RUN])
def test_what_is_listed_is_named_by_a_document_and_is_listed_once(begun: str) -> None:
    assert (begun in RUN_BY) + (begun in NOT_RUN) == 1
    assert any(known(one.line) == begun or begun.startswith(f"{one.line} ") for one in ALL), "nothing names it any more"


def test_a_command_is_told_from_other_code_and_is_known_by_how_it_begins() -> None:
    text = "```sh\nrm -rf /kafka\nA=1\nfor A in b; do\n  parallax \\\n    check && kcat -L  # fine\ndone\n```\n"
    assert [one.line for one in commands("a.md", text)] == ["rm -rf /kafka", "parallax check", "kcat -L"]
    named = ["kcat -L", "lab up", "kcat", "a/kcat.sh", "/opt/bin/kcat", "python -m parallax", "kubectl", "~/x/y.py -z"]
    assert [written(code) for code in named] == ["kcat -L", "parallax lab up", *named[2:]]
    others = [
        "compact",
        "spark.master: local[4]",
        "--all",
        "K=V",
        "docs/runbook.md",
        "guard.mode",
        "orders-0",
        "A b: c",
    ]
    assert [written(code) for code in others[:-1]] == [None] * 7
    assert known("parallax check -c a.yaml") == "parallax check"
    assert known("/opt/parallax/bin/pip install x") == "pip install"
    assert known("parallax guard") == "parallax guard"
    assert [known(one) for one in ("rm -rf /kafka", "kcat", "helm rollback p", "make nothing", "python -m it")] == [
        None
    ] * 5
    assert unknown_to_make("make demo ARGS=--stay") == set()
    assert unknown_to_make("make nothing ARG=1") == {"nothing", "ARG"}
    with pytest.raises(Exception, match="No such option"):
        taken("parallax check --everything")


def test_commands_in_inline_code_and_in_comments_are_read_as_well() -> None:
    one, group = commands("a.md", "Run `parallax guard\nrelease --al` now, see `make`.\n")
    assert (one.line, one.is_whole, group.line) == ("parallax guard release --al", False, "make")
    with pytest.raises(Exception, match="No such option"):
        taken(one.line, is_whole=False)
    with pytest.raises(ValueError, match="No such command"):
        taken("parallax guard relase", is_whole=False)
    taken("parallax show-record", is_whole=False)
    text = "# Remove:\n#   kubectl exec p -- parallax guard release --all\n# first `systemctl stop x`\n"
    assert [one.line for one in noted("a", text)] == [
        "kubectl exec p -- parallax guard release --all",
        "systemctl stop x",
    ]
