"""Which tests run which lines, and what each costs: recorded once, of the program without a mutant.

A test that never runs a changed statement cannot notice the change. So a trial leaves it out.
"""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.mutation.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Reach:
    """What the tests of a package run of some modules.

    Attributes:
        cpu_s: by name of a test, seconds of CPU that it takes.
        start_s: seconds of CPU before, between and after the tests.
        lines: by name of a test and path of a module below ``streaming``, the lines that the test runs.
    """

    cpu_s: Mapping[str, float]
    start_s: float
    lines: Mapping[str, Mapping[str, Collection[int]]]

    def tests_of(self, mutant: Mutant, root: Path) -> list[str]:
        """The tests that may notice a mutant, the quickest first.

        These are the tests that run the statement of the mutant. Of a statement outside of functions, which runs when
        the module is imported, these are all tests: first those that run any line of the module.

        Args:
            mutant: the change.
            root: the folder that holds the package ``parallax``.
        """
        statement = own_lines((root / mutant.path).read_text(), mutant.line)
        of_module = {name: paths[mutant.path] for name, paths in self.lines.items() if mutant.path in paths}
        named = {name for name, ran in of_module.items() if statement is None or not statement.isdisjoint(ran)}
        first, others = (sorted(some, key=self.cpu_s.__getitem__) for some in (named, self.cpu_s.keys() - named))
        return [*first, *(others if statement is None else [])]

    def only(self, names: Collection[str]) -> Reach:
        """What some tests run.

        Args:
            names: of tests, and of files, all of whose tests are meant.
        """
        kept = [test for test in self.cpu_s if test.split("::")[0] in names]
        return Reach({t: self.cpu_s[t] for t in kept}, self.start_s, {t: self.lines[t] for t in kept})

    def with_more(self, other: Reach) -> Reach:
        """What these tests and others run.

        Args:
            other: what the others run.
        """
        start_s = max(self.start_s, other.start_s)
        return Reach({**self.cpu_s, **other.cpu_s}, start_s, {**self.lines, **other.lines})

    def cost_of(self, tests: Collection[str]) -> float:
        """Seconds of CPU that a run of some tests takes."""
        return self.start_s + sum(self.cpu_s[name] for name in tests)


def own_lines(text: str, line: int) -> frozenset[int] | None:
    """The lines of the statement that a line is of, without the statements within it.

    None if the statement is outside of functions: it runs when the module is imported.

    Args:
        text: of the module.
        line: from 1.
    """
    inner: ast.stmt | None = None
    is_in_function, nodes = False, list[ast.stmt](ast.parse(text).body)
    while nodes:
        found = next((one for one in nodes if _first(one) <= line <= (one.end_lineno or 0)), None)
        if found is None:
            break
        is_in_function |= isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
        inner, nodes = found, _within(found)
    if inner is None or not is_in_function:
        return None
    span = set(range(_first(inner), (inner.end_lineno or 0) + 1))
    return frozenset(span.difference(*(range(_first(one), (one.end_lineno or 0) + 1) for one in _within(inner))))


def _first(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _within(statement: ast.stmt) -> list[ast.stmt]:
    """The statements in the blocks of a statement."""
    blocks: list[Any] = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [one.body for name in ("handlers", "cases") for one in getattr(statement, name, [])]
    return [one for block in blocks for one in block]


@dataclass
class Watch:
    """Notes what each test costs and, if it traces, which lines of some files it runs.

    Attributes:
        files: by name of a file, as code objects have it, its path below ``streaming``; empty to trace nothing.
        cpu_s: by name of a test, seconds of CPU.
        lines: by name of a test and path, the lines that it has run.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    cpu_s: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, set[int]]] = field(default_factory=dict)
    _ran: dict[str, set[int]] = field(default_factory=dict)

    @contextmanager
    def of(self, test: str) -> Iterator[None]:
        """While a test runs.

        Args:
            test: its name.
        """
        self._ran = self.lines.setdefault(test, {})
        if self.files:
            threading.settrace(self._trace)
            sys.settrace(self._trace)
        began = time.process_time()
        try:
            yield
        finally:
            self.cpu_s[test] = time.process_time() - began
            if self.files:
                sys.settrace(None)
                threading.settrace(None)  # type: ignore[arg-type]

    def _trace(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        path = self.files.get(frame.f_code.co_filename)
        if path is None:
            return None
        ran = self._ran.setdefault(path, set())

        def local(frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "line":
                ran.add(frame.f_lineno)
            return local

        return local


__all__ = ["Reach", "Watch", "own_lines"]
