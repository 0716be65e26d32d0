"""Each command that a document names exists as written, and is run by a test, or is listed as one that none runs."""

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
SHELL = ("sh", "bash", "shell", "console")
NOT_RUN_HERE = re.compile(r"<!-- not run: \S[^>]* -->\s*")
_WHEEL, _CLI, _RUN, _COPY = (
    "e2e/test_wheel.py::test_by_the_readme_alone_an_alert_comes_at_a_webhook_and_is_explained",
    "unit/test_cli.py::test_a_lab_is_lines_or_a_document",
    "e2e/test_repair_run.py::test_a_repair_that_is_killed_at_its_marker_is_resumed_and_every_replica_is_right",
    "e2e/test_repair_copy.py::test_",
)
_UNDO = (
    "e2e/test_repair_run.py::test_without_its_right_a_repair_stops_names_it_and_keeps_others_out_until_it_is_given_up"
)
_GUARD = "e2e/test_guard.py::test_a_person_holds_and_lets_go_of_a_topic_without_a_job"
_HUNG = "a_hanging_transaction_is_told_from_one_that_goes_on_and_ends_by_the_printed_command"
RUN_BY = {
    "parallax init": _WHEEL,
    "parallax check": "e2e/test_wheel.py::test_from_the_wheel_alone_init_writes_what_check_accepts",
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
    "parallax pause": "unit/commands/test_switches.py::test_what_was_paused_is_resumed",
    "parallax resume": "unit/commands/test_switches.py::test_what_was_paused_is_resumed",
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
    "parallax storage bind": "e2e/test_faults_brokers.py::test_a_command_moves_a_storage_that_no_job_uses",
    "parallax lab up": _WHEEL,
    "parallax lab down": _WHEEL,
    "parallax lab scenario": _WHEEL,
    "parallax lab status": _CLI,
    "parallax lab stop": _CLI,
    "parallax lab restart": _CLI,
    "parallax lab config": "unit/test_cli.py::"
    "test_the_settings_for_a_lab_are_those_of_a_job_that_watches_all_of_its_topics",
    "parallax demo": "e2e/test_versions.py::test_the_demo_finds_all_five_and_nothing_else",
    "parallax fetch-jars": "unit/test_cli.py::test_what_was_fetched_is_a_document_where_one_is_asked_for",
    "python3 -m pip wheel": "e2e/test_wheel.py::test_from_the_wheel_alone_init_writes_what_check_accepts",
    "pip install": "e2e/test_wheel.py::test_from_the_wheel_alone_init_writes_what_check_accepts",
    "kafka-acls.sh": "e2e/test_replica_security.py::"
    "test_the_commands_of_the_document_grant_all_that_is_needed_and_no_more",
    "kafka-reassign-partitions.sh": "e2e/test_repair.py::"
    "test_a_right_replica_leads_the_accused_is_copied_anew_and_the_order_is_restored",
    "kafka-transactions.sh": f"e2e/test_hanging_transactions.py::test_{_HUNG}",
}
"""By how a command begins, the test function that runs it."""
NOT_RUN = ("amtool silence", "helm upgrade", "helm uninstall", "kubectl", "python3 -m venv", "systemctl")
"""How commands begin that no test runs: docs/contribute/proven.md lists them, with the reason."""
PLUMBING = ("for ", "do", "done", "cd ", "export ", "BROKER=")
_IN_PART = ("MissingParameter", "NoArgsIsHelpError")
"""What the parser says of a command that is named without all of its words."""
_PLACEHOLDER = re.compile(r"(?<![\w/.-])[A-Z]+(?![\w/.-])")
_PROGRAM = r"(?:[\w./-]*/)?(?:parallax|make|helm|kubectl|systemctl|amtool|promtool|pip|buildah|kafka-[a-z-]+\.sh)"
_COMMAND = re.compile(rf"{_PROGRAM} \S|kafka-[a-z-]+\.sh$")
_PARALLAX = re.compile(r"(?:^|.* )(?:\S*/)?parallax (?=[a-z])")


class Command(NamedTuple):
    """A command line of a file, without comment; with the mark above its block, where it has one."""

    place: str
    line: str
    mark: str
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
        for one in re.sub(r"(^|\s+)# .*", "", line).split(" && "):
            if one.strip():
                yield " ".join(one.split())


def commands(name: str, text: str) -> Iterator[Command]:
    """The commands of a page: those in fences, and those in inline code."""
    mark = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        place = f"{name}:{(token.map or [0])[0] + 1}"
        if token.type == "html_block":
            mark = token.content if NOT_RUN_HERE.fullmatch(token.content) else ""
            continue
        if token.type == "fence" and token.info in SHELL:
            yield from (Command(place, line, mark, True) for line in _split(token.content))
        for part in token.children or ():
            line = " ".join(part.content.split())
            if part.type == "code_inline" and _COMMAND.match(line):
                yield Command(place, line, "", False)
        mark = ""


def noted(name: str, text: str) -> Iterator[Command]:
    """The commands of a file that is no page: lines that begin with a program, and what is between backticks."""
    text = re.sub(r"\{\{-?.*?-?\}\}", "X", text)
    for number, line in enumerate(text.splitlines(), 1):
        said = re.sub(r"^\s*#?\s*", "", line)
        for one in (said, *re.findall(r"`([^`]+)`", line)):
            if _COMMAND.match(one):
                yield from (Command(f"{name}:{number}", part, "", False) for part in _split(one))


ALL = [
    one
    for found, files in ((commands, pages()), (noted, notes()))
    for file in files
    for one in found(file.relative_to(ROOT).as_posix(), file.read_text())
    if not file.is_relative_to(ROOT / "docs" / "reference")
]


@cache
def makefile() -> tuple[set[str], set[str]]:
    """The targets of the Makefile, and the variables that a person may set."""
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"(?m)^([a-z-]+):", text)), set(re.findall(r"(?m)^([A-Z_]+) \?=", text))


def known(line: str) -> str | None:
    """What a command is known by: how it begins, in RUN_BY or NOT_RUN; all of it where it is make's, or a group."""
    line = re.sub(r"^(?:\S*/)?(parallax|pip) ", r"\1 ", line)
    program, *words = line.split()
    if program == "make":
        targets, variables = makefile()
        given = {word.partition("=")[0] for word in words if "=" in word}
        return line if {word for word in words if "=" not in word} <= targets and given <= variables else None
    _, command, rest = _led_to(words)
    if program == "parallax" and getattr(command, "commands", None) and not rest:
        return line
    begun = (one for one in (*RUN_BY, *NOT_RUN) if line == one or line.startswith(f"{one} "))
    return max(begun, key=len, default=None)


def _led_to(words: list[str]) -> tuple[str, Any, list[str]]:
    """The command of Parallax that words lead to: its name, itself, and the words behind it."""
    command: Any = typer.main.get_command(app)
    path = "parallax"
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


def test_there_are_commands_in_the_documents() -> None:
    assert sum(one.is_whole for one in ALL) > 40
    assert sum(not one.is_whole for one in ALL) > 100
    assert {one.place.split("/")[0] for one in ALL} >= {"docs", "deploy"}


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_in_a_page_is_run_by_a_test_or_says_why_not(one: Command) -> None:
    if one.mark or one.line.startswith(PLUMBING):
        return
    assert known(one.line), (
        f"{one.place}: {one.line}: name the test that runs it in RUN_BY; or write <!-- not run: why --> above the "
        "block, or its beginning into NOT_RUN and docs/contribute/proven.md"
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_of_parallax_in_a_page_has_the_options_that_it_is_given(one: Command) -> None:
    program = one.line.split()[0].rsplit("/", 1)[-1]
    if program == "parallax" or (program in ("kubectl", "runuser") and " -- " in one.line):
        line = one.line if program == "parallax" else one.line.partition(" -- ")[2]
        taken(_PARALLAX.sub("parallax ", line), is_whole=one.is_whole)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_writes_commands_in_fences_that_say_so(page: Path) -> None:
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    shell = re.compile(r"^(?:\S*/)?(?:parallax|make|kafka-[a-z-]+\.sh|kubectl|helm|pip|python3?) ", re.MULTILINE)
    blocks = [one for one in tokens if one.type == "code_block" or (one.type == "fence" and not one.info)]
    assert [one.content for one in blocks if shell.search(one.content)] == [], "write ```sh"


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


def words_of(test: str) -> set[str]:
    """The words in the strings of a test function and of all in its module, or imported, that it uses or asks for."""
    file, _, function = test.partition("::")
    defined = _defined(ROOT / "tests" / file)
    assert function in defined, f"{test} is no test"
    found, seen, pending = set[str](), set[str](), [function]
    while pending:
        if (name := pending.pop()) in seen:
            continue
        seen.add(name)
        for node in (one for top in defined.get(name, ()) for one in ast.walk(top)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(node.value.split())
            pending += [str(getattr(node, kind)) for kind in ("id", "attr", "arg") if hasattr(node, kind)]
    return found


@pytest.mark.parametrize(("command", "test"), RUN_BY.items())
def test_the_test_that_is_named_runs_the_command(command: str, test: str) -> None:
    words = re.sub(r"^(?:python3 -m |parallax )", "", command).split()
    assert set(words) - words_of(test) == set(), f"{test} does not write these words"


@pytest.mark.parametrize("begun", NOT_RUN)
def test_what_no_test_runs_is_listed_with_its_reason(begun: str) -> None:
    _, _, section = (ROOT / "docs/contribute/proven.md").read_text().partition("## Commands that no test runs\n")
    assert f"`{begun}`" in section
    assert any(one.line.startswith(begun) for one in ALL), "nothing names it any more"


def test_a_block_is_told_apart_by_its_mark_and_an_unknown_command_by_its_table() -> None:
    text = "<!-- not run: it deletes -->\n```sh\nrm -rf /kafka\n```\n\n```sh\nparallax \\\n  check  # fine\n```\n"
    marked, bare = commands("a.md", text)
    assert (marked.line, bool(marked.mark), known(marked.line)) == ("rm -rf /kafka", True, None)
    assert (bare.line, bare.mark, known(bare.line)) == ("parallax check", "", "parallax check")
    assert known("make demo ARGS=--stay") == "make demo ARGS=--stay"
    assert (known("make nothing"), known("make demo ARG=1"), known("helm rollback p")) == (None, None, None)
    with pytest.raises(Exception, match="No such option"):
        taken("parallax check --everything")


def test_commands_in_inline_code_and_in_comments_are_read_as_well() -> None:
    (one,) = commands("a.md", "Run `parallax guard\nrelease --al` now, see `make`.\n")
    assert (one.line, one.is_whole) == ("parallax guard release --al", False)
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
