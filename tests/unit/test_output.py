"""What a command shows while it waits: on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from parallax.audit.progress import Shown
from parallax.demo import Board, _display
from parallax.output import console, print_table, waiting
from parallax.source.pace import Metered
from tests.patience import PATIENCE_S

ESCAPE = "\x1b["
HIDDEN = "\x1b[?25l"
"""Hides the cursor: something moves."""


class Terminal:
    """A terminal of which the test holds the other end.

    Attributes:
        stream: what a program writes to.
    """

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self._found = b""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # nobody writes any more
            while True:
                self._found += os.read(self._master, 4096)

    def seen(self) -> str:
        """What was written until it was closed."""
        self.stream.close()
        self._reader.join(PATIENCE_S)
        os.close(self._master)
        return self._found.decode()


class Pipe:
    """A pipe of which the test holds the other end."""

    def __init__(self) -> None:
        self._end, into = os.pipe()
        self.stream: TextIO = os.fdopen(into, "w", encoding="utf-8")

    def seen(self) -> str:
        self.stream.close()
        with os.fdopen(self._end) as end:
            return end.read()


def test_an_audit_in_a_pipe_says_every_ten_seconds_that_it_still_runs() -> None:
    now, to = [0.0], io.StringIO()
    with Shown(console(to), clock=lambda: now[0]) as shown:
        shown.tick()
        shown.stage("comparing what was recorded")
        for _ in range(5):
            now[0] += 5
            shown.tick()
        now[0] += 5
        shown.reading(Metered(1024, 1, 1), Metered(offsets=9, ranges=6))
        now[0] += 5
        shown.tick()
    assert to.getvalue().splitlines() == [
        "comparing what was recorded",
        "comparing what was recorded: 10 s so far",
        "comparing what was recorded: 20 s so far",
        "comparing what was recorded: 1 of 6 logs, 1.0 KiB, 35 s so far",
    ]


def wait(to: TextIO) -> None:
    with waiting("looking", to):
        pass


def audit(to: TextIO) -> None:
    with Shown(console(to)) as shown:
        shown.stage("reading the replicas")
        shown.reading(Metered(1024, 5, 2), Metered(offsets=9, ranges=6))


def demo(to: TextIO) -> None:
    board = Board("Parallax demo")
    with _display(console(to), board):
        board.say("a broker is stopped")


@pytest.fixture(autouse=True)
def whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("show", [wait, audit, demo])
def test_on_a_terminal_it_moves(show: Callable[[TextIO], None]) -> None:
    terminal = Terminal()
    show(terminal.stream)
    assert HIDDEN in terminal.seen()


@pytest.mark.parametrize(
    ("show", "lines"), [(wait, []), (audit, ["reading the replicas"]), (demo, ["a broker is stopped"])]
)
def test_in_a_pipe_there_are_lines_at_the_most(show: Callable[[TextIO], None], lines: list[str]) -> None:
    pipe = Pipe()
    show(pipe.stream)
    seen = pipe.seen()
    assert ESCAPE not in seen
    assert [line.split(" s  ")[-1] for line in seen.splitlines()] == lines


def test_a_line_of_the_log_is_above_the_live_view_and_whole() -> None:
    terminal = Terminal()
    board = Board("Parallax demo")
    with _display(console(terminal.stream, width=100), board):
        for number in range(5):
            board.say(f"step {number}")
            structlog.get_logger().info(f"event {number} of the log")
            time.sleep(0.05)
    written = re.split(r"\r|\n|\x1b\[2K", terminal.seen())  # each begins at the left, on a line that was cleared
    for number in range(5):
        (line,) = [line for line in written if f"event {number} of the log" in line]
        assert not any(border in line for border in "│╭╰"), "it stands in the panel"


CHECK = [sys.executable, "-m", "parallax.cli", "check", "--format", "json", "-c"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of a cluster that does not answer."""
    file = tmp_path / "parallax.yaml"
    cluster = "{bootstrap.servers: '127.0.0.1:1'}"
    file.write_text(f"kafka: {cluster}\ntopics: {{include: [a]}}\nstorage: {{path: {tmp_path / 'data'}}}\n")
    return file


def test_what_moves_is_on_standard_error_and_not_in_what_a_program_reads(config: Path) -> None:
    for errors, moves in ((Terminal(), True), (Pipe(), False)):
        command = [*CHECK, str(config)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors.stream, check=False)
        assert ended.returncode == 1
        assert ended.stdout.startswith(b"[")
        assert ESCAPE.encode() not in ended.stdout
        seen = errors.seen()
        assert (HIDDEN in seen) is moves
        if not moves:
            assert seen == ""


def test_a_check_says_on_a_terminal_what_it_asks(config: Path) -> None:
    errors = Terminal()
    command = [*CHECK, str(config)]
    subprocess.run(command, stdout=subprocess.PIPE, stderr=errors.stream, check=False)
    seen = errors.seen()
    assert (
        seen.index("loading Parallax") < seen.index("looking for Java") < seen.index("asking the cluster for its top")
    )


def test_a_report_comes_when_nothing_moves_any_more() -> None:
    terminal = Terminal()
    with waiting("looking", terminal.stream):
        time.sleep(0.2)
    terminal.stream.write("the report\n")
    before, _, after = terminal.seen().partition("the report")
    assert before.endswith(("\x1b[?25h", "\x1b[2K", "\r")), before[-30:]
    assert ESCAPE not in after


class TestATable:
    """Words are whole: a row that does not fit becomes a block of lines."""

    HEADINGS = ("partition", "result", "offset")
    ROWS = (("shop.customers-0", "consistent", "12"), ("shop.orders-10", "unknown", ""))

    def shown(self, width: int | None) -> list[str]:
        from rich.console import Console

        to = io.StringIO()
        shown = console(to) if width is None else Console(file=to, force_terminal=True, width=width, color_system=None)
        print_table(shown, self.HEADINGS, self.ROWS, numbers=("offset",))
        return re.sub(r"\x1b\[[0-9;]*m", "", to.getvalue()).splitlines()

    @pytest.mark.parametrize("width", [None, 80, 36])
    def test_that_fits_has_a_line_for_each_row(self, width: int | None) -> None:
        assert self.shown(width) == [
            "partition         result      offset",
            "shop.customers-0  consistent      12",
            "shop.orders-10    unknown",
        ]

    def test_that_is_too_wide_has_a_line_for_each_cell(self) -> None:
        assert self.shown(35) == [
            "shop.customers-0",
            "  result: consistent",
            "  offset: 12",
            "shop.orders-10",
            "  result: unknown",
        ]
