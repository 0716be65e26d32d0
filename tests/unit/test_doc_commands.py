"""Each command in the documents is run by a test, or says why none runs it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from markdown_it import MarkdownIt

from parallax.cli import app

ROOT = Path(__file__).parents[2]
SHELL = ("sh", "bash", "shell", "console")
NOT_RUN = re.compile(r"<!-- not run: \S[^>]* -->\s*")
RUN_BY = {
    "parallax init": "tests/e2e/test_wheel.py",
    "parallax check": "tests/e2e/test_wheel.py",
    "parallax run": "tests/e2e/test_wheel.py",
    "parallax findings": "tests/e2e/test_wheel.py",
    "parallax findings list": "tests/unit/test_cli.py",
    "parallax findings explain": "tests/e2e/test_wheel.py",
    "parallax findings show": "tests/unit/test_cli.py",
    "parallax findings acknowledge": "tests/unit/findings/test_acknowledge.py",
    "parallax show-record": "tests/e2e/test_findings.py",
    "parallax report": "tests/unit/test_cli.py",
    "parallax audit": "tests/e2e/test_audit.py",
    "parallax pause": "tests/unit/commands/test_switches.py",
    "parallax resume": "tests/unit/test_config.py",
    "parallax guard status": "tests/unit/guard/test_table.py",
    "parallax guard hold": "tests/e2e/test_guard.py",
    "parallax guard release": "tests/e2e/test_guard.py",
    "parallax findings readers": "tests/e2e/test_repair_copy.py",
    "parallax lead": "tests/e2e/test_repair_copy.py",
    "parallax seen": "tests/e2e/test_repair_run.py",
    "parallax repair plan": "tests/e2e/test_repair_run.py",
    "parallax repair run": "tests/e2e/test_repair_run.py",
    "parallax repair status": "tests/e2e/test_repair_run.py",
    "parallax repair resume": "tests/e2e/test_repair_run.py",
    "parallax repair undo": "tests/e2e/test_repair_run.py",
    "parallax storage bind": "tests/e2e/test_faults_brokers.py",
    "parallax lab up": "tests/e2e/test_wheel.py",
    "parallax lab down": "tests/e2e/test_wheel.py",
    "parallax lab scenario": "tests/e2e/test_wheel.py",
    "parallax lab status": "tests/unit/test_cli.py",
    "parallax lab config": "tests/unit/test_cli.py",
    "parallax demo": "tests/unit/test_demo.py",
    "python3 -m pip wheel": "tests/e2e/test_wheel.py",
    "python3 -m venv": "tests/e2e/test_wheel.py",
    "kafka-acls.sh": "tests/e2e/test_replica_security.py",
    "kafka-reassign-partitions.sh": "tests/e2e/test_repair.py",
    "kafka-transactions.sh": "tests/e2e/test_hanging_transactions.py",
}
"""By how a command begins, the tests that run it; what ``make`` runs is in the Makefile."""
PLUMBING = ("for ", "do", "done", "cd ", "export ", "BROKER=")
_PLACEHOLDER = re.compile(r"(?<![\w/.-])[A-Z]+(?![\w/.-])")


class Command(NamedTuple):
    """A command line of a page, without comment; with the mark above its block, where it has one."""

    place: str
    line: str
    mark: str


def pages() -> list[Path]:
    return [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]


def commands(name: str, text: str) -> Iterator[Command]:
    mark = ""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "html_block":
            mark = token.content if NOT_RUN.fullmatch(token.content) else ""
            continue
        if token.type == "fence" and token.info in SHELL:
            for line in token.content.replace("\\\n", " ").splitlines():
                for one in re.sub(r"(^|\s+)# .*", "", line).split(" && "):
                    if one.strip():
                        yield Command(f"{name}:{(token.map or [0])[0] + 1}", " ".join(one.split()), mark)
        mark = ""


ALL = [one for page in pages() for one in commands(page.relative_to(ROOT).as_posix(), page.read_text())]


def known(line: str) -> str | None:
    """What a command is known by: the longest beginning that the table has, or its target where it is make's."""
    line = re.sub(r"^(?:\S*/)?(parallax|pip) ", r"\1 ", line)
    if found := re.match(r"make ([a-z-]+)(?:$| [A-Z]+=)", line):
        return found[0] if f"\n{found[1]}:" in (ROOT / "Makefile").read_text() else None
    return max((one for one in RUN_BY if line == one or line.startswith(f"{one} ")), key=len, default=None)


def taken(line: str) -> None:
    """Have the command line take a command of Parallax, without running it.

    Raises:
        click.UsageError: there is no such command, option or choice.
    """
    _, *words = shlex.split(re.sub(r" > \S+$", "", line))
    command: Any = typer.main.get_command(app)
    path = "parallax"
    while words and words[0] in getattr(command, "commands", {}):
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    command.make_context(path, [_PLACEHOLDER.sub("1", word) for word in words])


def test_there_are_commands_in_the_documents() -> None:
    assert len(ALL) > 10


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_in_a_page_is_run_by_a_test_or_says_why_not(one: Command) -> None:
    if one.mark or one.line.startswith(PLUMBING):
        return
    assert known(one.line) or one.line.startswith("/opt/parallax/bin/pip "), (
        f"{one.place}: {one.line}: name the test that runs it in RUN_BY, or write <!-- not run: why --> above the block"
    )


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.place} {one.line[:40]}")
def test_a_command_of_parallax_in_a_page_has_the_options_that_it_is_given(one: Command) -> None:
    if re.match(r"(?:\S*/)?parallax ", one.line):
        taken(one.line)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_writes_commands_in_fences_that_say_so(page: Path) -> None:
    tokens = MarkdownIt("commonmark").parse(page.read_text())
    shell = re.compile(r"^(?:\S*/)?(?:parallax|make|kafka-[a-z-]+\.sh|kubectl|helm|pip|python3?) ", re.MULTILINE)
    blocks = [one for one in tokens if one.type == "code_block" or (one.type == "fence" and not one.info)]
    assert [one.content for one in blocks if shell.search(one.content)] == [], "write ```sh"


@pytest.mark.parametrize(("command", "test"), RUN_BY.items())
def test_the_test_that_is_named_runs_the_command(command: str, test: str) -> None:
    text = (ROOT / test).read_text()
    words = command.replace("python3 -m pip ", "").replace("python3 -m ", "").removeprefix("parallax ").split()
    assert [word for word in words if not re.search(rf"\b{re.escape(word)}\b|run_as_written", text)] == []


def test_a_block_is_told_apart_by_its_mark_and_an_unknown_command_by_its_table() -> None:
    text = "<!-- not run: it deletes -->\n```sh\nrm -rf /kafka\n```\n\n```sh\nparallax \\\n  check  # fine\n```\n"
    marked, bare = commands("a.md", text)
    assert (marked.line, bool(marked.mark), known(marked.line)) == ("rm -rf /kafka", True, None)
    assert (bare.line, bare.mark, known(bare.line)) == ("parallax check", "", "parallax check")
    assert known("make demo") == "make demo"
    assert known("make nothing") is None
    with pytest.raises(Exception, match="No such option"):
        taken("parallax check --everything")
