"""How commands print: tables, JSON, error lines, report files, and a line while the command waits."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from parallax.errors import SetupError, is_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def usable_streams() -> None:
    """See whether a command can print. A stream that is closed becomes one that discards all.

    Raises:
        SetupError: standard output is closed, as by ``>&-``.
    """
    if sys.stderr is None:
        sys.stderr = _discarding()
    if sys.stdout is None:
        sys.stdout = _discarding()
        raise SetupError("standard output is closed; give it a file that can be written, such as /dev/null")


def _discarding() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open as long as the process


def usable_folder() -> None:
    """See whether the working folder is there, because all relative paths are below it.

    Raises:
        SetupError: it was deleted, or cannot be entered.
    """
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as error:
        raise SetupError(f"the working folder: {error.strerror}; change to a folder that is there") from error


@contextmanager
def written() -> Iterator[None]:
    """In a ``with`` block, a command prints to standard output; at the end, all of it is written.

    Raises:
        SetupError: standard output cannot be written, e.g. because its disk is full.
        SystemExit: the reader of standard output is gone; that is no error to report.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:
        try:  # whether it was this stream: a write that failed leaves no trace on it
            sys.stdout.write("\n")
            sys.stdout.flush()
        except OSError:
            said = f"standard output cannot be written: {error.strerror}; give it a file that can be written"
            raise SetupError(said) from error
        raise


def error_line(text: str, output: str) -> str:
    """An error message as the line that a command prints: plain for people, or a JSON object.

    Args:
        text: the message, one line.
        output: ``text`` or ``json``.
    """
    return json.dumps({"error": text}) if output == "json" else f"parallax: {text}"


def bytes_as_text(raw: bytes) -> str:
    """The bytes ``raw`` for people: as text if they are UTF-8, else hexadecimal, as in ``0xff00``."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"0x{raw.hex()}"


def printable(text: str) -> str:
    """A text in which characters that cannot be printed, such as a line break, are replaced by escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_json(document: object) -> str:
    """A document as JSON text, as commands print it for programs.

    Args:
        document: values that JSON can hold; paths become text.
    """
    return json.dumps(document, indent=2, default=str)


def console(to: TextIO, **more: Any) -> Console:
    """A rich Console that uses colours and moving parts only on a terminal, whatever FORCE_COLOR says.

    Args:
        to: the stream.
        more: arguments of rich's Console.
    """
    from rich.console import Console  # not for commands that print one line

    return Console(file=to, force_terminal=to.isatty(), **more)


def print_table(
    shown: Console, headings: Sequence[str], rows: Sequence[Sequence[str | Text]], *, numbers: Collection[str] = ()
) -> None:
    """Print rows as a table on a console, without breaking words.

    If the table is wider than the terminal, each row becomes a block of lines instead, with a line for each cell. A
    file or a pipe always gets a table.

    Args:
        shown: the console to print to.
        headings: headings of the columns.
        rows: a cell for each column; empty cells are left out of blocks.
        numbers: headings of the columns that are aligned to the right.
    """
    from rich.text import Text

    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(Text(h).cell_len, *(row[n].cell_len for row in cells), 0) for n, h in enumerate(headings)]
    if not shown.is_terminal or sum(widths) + 2 * (len(widths) - 1) <= shown.width:
        lines = [[Text(heading, style="bold") for heading in headings], *cells]
        for line in lines:
            padded = [_padded(cell, w, h in numbers) for cell, w, h in zip(line, widths, headings, strict=True)]
            text = Text("  ").join(padded)
            text.rstrip()
            shown.print(text, soft_wrap=True)
        return
    for row in cells:
        first, *more = row
        shown.print(first, soft_wrap=True)
        for heading, cell in zip(headings[1:], more, strict=True):
            if cell.plain:
                shown.print(Text.assemble(f"  {heading}: ", cell), soft_wrap=True)


def _padded(cell: Text, width: int, is_number: bool) -> Text:
    padded, missing = cell.copy(), width - cell.cell_len
    if is_number:
        padded.pad_left(missing)
    else:
        padded.pad_right(missing)
    return padded


def paragraph(shown: Console, text: str, style: str = "") -> None:
    """Print a text on a console, wrapped between words. A word that is wider than the terminal stays whole.

    Args:
        shown: the console to print to.
        text: the text, without markup.
        style: its style, as rich names it.
    """
    from rich.text import Text

    shown.print(Text(text, style=style), overflow="ignore", crop=False)


@contextmanager
def waiting(text: str, on: TextIO | None = None) -> Iterator[Callable[[str], None]]:
    """While a ``with`` block runs, a line on the terminal says what is waited for; it is removed at the end.

    Args:
        text: what is waited for.
        on: the stream to write to; standard error by default.

    Yields:
        What to call with another text when something else is waited for.
    """
    shown = console(on or sys.stderr)
    with shown.status(text) if shown.is_terminal else nullcontext() as status:
        yield status.update if status is not None else lambda _: None


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that commands write, e.g. reports, so that no command overwrites a file of another kind.

    Attributes:
        what: the kind's name in error texts, such as ``a report``.
        begins: regular expression that matches the beginning of every file of this kind, and of no other kind.
    """

    what: str
    begins: str


_BEGINNING = 4096
"""How many bytes of a file show of which kind it is."""


@contextmanager
def output(file: Path | None, kind: FileKind, option: str = "--output") -> Iterator[TextIO]:
    """In a ``with`` block, the stream to write a report to: standard output, or a file that is replaced at the end.

    The new file is made next to the old one before the block runs, and replaces it after the block. So an error about
    an unwritable folder comes first, and an old report stays until the new one is complete. A file of another kind is
    never replaced.

    Args:
        file: the file; None for standard output.
        kind: what is written.
        option: the command-line option that names the file, for error texts.

    Raises:
        SetupError: the file cannot be written, or it is there and is of another kind.
    """
    if file is None:
        yield sys.stdout
        return
    if not is_text(str(file)):
        raise SetupError(f"{option}: holds what is no UTF-8 text; give the name of a file")
    target = Path(os.path.realpath(file))  # a link goes on pointing there
    with _refused(file, option):
        is_plain = target.is_file() or not target.exists()
        if target.is_file() and not _is_of(kind, target):
            raise SetupError(f"{option}: {file} is there and is not {kind.what}, so it stays; give another name")
    beside = target.with_name(f".{_short(target.name)}.{os.getpid()}") if is_plain else target
    report = io.StringIO()
    try:
        with _refused(file, option):
            _try(target, beside)
        yield report
        if report.tell():
            with _refused(file, option):
                beside.write_text(report.getvalue(), encoding="utf-8")
                if target.is_file():
                    shutil.copymode(target, beside)
                if is_plain:
                    beside.replace(target)
    finally:
        if is_plain:
            with suppress(OSError):
                beside.unlink()


def _is_of(kind: FileKind, file: Path) -> bool:
    """Whether a file is empty, or was written as what is to replace it."""
    with file.open("rb") as there:
        begun = there.read(_BEGINNING).decode("utf-8", "replace")
    return not begun or re.match(kind.begins, begun) is not None


def _short(name: str) -> str:
    """So much of a name that a file system has room for something before and behind it."""
    return os.fsencode(name)[:200].decode("utf-8", "ignore")


def _try(target: Path, beside: Path) -> None:
    """See whether the report can be written, before it is made."""
    with suppress(FileNotFoundError):
        target.lstat()  # a name that is too long fails here
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if beside != target:
        beside.touch()


@contextmanager
def _refused(file: Path, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        line = f"{option}: {file}: {error.strerror}; give a file that can be written, in a folder that can be"
        raise SetupError(line) from error
