"""What one mutant is put to, in a process forked for it: nothing has to be imported or compiled again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

import numba
import pytest

from tests.mutation.mutants import Mutant, module_of
from tests.mutation.reach import Reach, Watch
from tests.simulation.history import generate, profile
from tests.simulation.world import World

TESTS = Path("tests")
APART = ("test_acknowledge.py", "test_table.py")
"""Not run: they hold the table and its writers, and ask other processes, which know of no mutant."""
LONG = (
    "are_one_finding_with_the_right_count_and_bounded_everything",
    "what_is_remembered_of_a_moment_is_what_the_oracle_says_of_it",
    "where_only_those_that_are_wrong_are_left_they_are_said_to_be_wrong",
    "beside_the_product_both_are_held",
    "a_judge_that_is_broken_is_noticed",
)
"""Not run, by a part of the name: they take longer than many others together, or hold the simulator itself."""

OPTIONS = ("-x", "-q", "--assert=plain", "-p", "no:randomly", "-k", " and ".join(f"not {name}" for name in LONG))
"""Of pytest."""
FIRST, ALL = 15, 200
"""Seeds run before the unit tests, and in all: each as a faulty history, every third as a healthy one as well."""
HISTORIES = {
    f"seed {seed}{' healthy' * healthy}": (seed, healthy)
    for seed in range(ALL)
    for healthy in ((False, True) if seed % 3 == 0 else (False,))
}
"""By name, the histories of the simulator, in the order in which they run."""


class Held(NamedTuple):
    """Packages, and the tests to which their mutants are put.

    Attributes:
        packages: of ``parallax``.
        unit: folders and files of unit tests, below ``tests/unit``.
        simulation: modules below ``tests/simulation`` that play histories of their own, without their ``test_``.
        histories: names of those of `HISTORIES` that are played.
    """

    packages: tuple[str, ...]
    unit: tuple[str, ...]
    simulation: tuple[str, ...] = ()
    histories: tuple[str, ...] = tuple(HISTORIES)


HELD = {
    # Audits compare as the stream does. Some histories are compared in two ways: by rows, and by what rows add up to.
    "compare": Held(("compare",), ("compare", "audit"), ("spared", "withheld", "blocks")),
    "findings": Held(("findings",), ("findings",)),
    # The second opinion, and what asks it or decides by the same evidence. The product's histories do not ask it.
    "judge": Held(
        ("evidence", "judge"),
        ("evidence", "judge", "findings/decide", "findings/test_looks.py", "findings/test_second_opinion.py"),
        ("second",),
        histories=(),
    ),
}
"""By a name."""
TOO_LONG = signal.SIGXCPU.name
"""The end of a mutant that takes more CPU than it may."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The end of one trial.

    Attributes:
        result: ``survived``, or who noticed.
        cpu_s: seconds of CPU that it took.
    """

    result: str
    cpu_s: float

    @property
    def failed(self) -> str:
        """The name of the unit test that noticed; empty if it was none."""
        stage = "killed: unit tests: "
        named = self.result.removeprefix(stage)
        return named if "::" in named and named != self.result else ""

    @property
    def is_too_long(self) -> bool:
        """Whether it was ended because it took more CPU than it may."""
        return self.result.endswith(TOO_LONG)


def trial(mutant: Mutant | None, root: Path, tests: Sequence[str], limit_s: int | None = None) -> Tried:
    """Run tests against a mutant, or against the program as it is.

    Args:
        mutant: the change; None for the program as it is.
        root: the folder that holds the package ``parallax``.
        tests: names of the tests that are run, in their order.
        limit_s: seconds of CPU after which a mutant counts as one that does not come to an end; None for no limit.
    """
    return _forked(partial(_in_child, mutant, root, tests, limit_s))


def files_of(held: Held) -> list[str]:
    """The files with the tests to which mutants are put, but for `HISTORIES`.

    Args:
        held: says which.
    """
    named = [TESTS / "unit" / name for name in held.unit]
    unit = [file for path in named for file in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
    played = [TESTS / "simulation" / f"test_{name}.py" for name in held.simulation]
    return [str(path) for path in (*unit, *played) if path.name not in APART]


def collect(files: Sequence[str]) -> None:
    """Collect tests, and run none: what pytest imports for it, no trial has to.

    Args:
        files: with the tests.
    """
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main([*OPTIONS, "--collect-only", *files])
    if code:
        raise ValueError(f"pytest does not collect {files}: {code}")


def reach(histories: Sequence[str], files: Sequence[str], paths: Collection[str]) -> Reach | str:
    """Run tests against the program as it is: for what they cost, and for the lines that they run.

    Noting the lines makes tests take up to half as much again.

    Args:
        histories: names of histories of the simulator.
        files: with unit tests, all of which are run.
        paths: of the modules whose lines are noted, below ``streaming``; they are imported.

    Returns:
        What was noted; a test that fails, if there is one.
    """
    traced = {str(sys.modules[module_of(path)].__file__): path for path in paths}
    run = _forked(partial(_watched, histories, files, traced))
    if not run.result.startswith("{"):
        return run.result
    noted = json.loads(run.result)
    return Reach(noted["cpu_s"], run.cpu_s - sum(noted["cpu_s"].values()), noted["lines"])


def _watched(histories: Sequence[str], files: Sequence[str], traced: Mapping[str, str], _kernels: str) -> str:
    watch = Watch(traced)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        failed = _histories(histories, watch) or _unit(files, None, watch)
    return failed or json.dumps({"cpu_s": watch.cpu_s, "lines": watch.lines}, default=sorted)


def _forked(work: Callable[[str], str]) -> Tried:
    """What some work in a child process says; it is given a folder for compiled kernels."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="mutant-") as kernels:
        result = _said_by_child(partial(work, kernels))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Tried(result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _said_by_child(work: Callable[[], str]) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with open(write, "w") as answer:  # noqa: PTH123 - a descriptor
            try:
                said = work()
            except BaseException as error:  # noqa: BLE001 - whatever a mutant does is what it does
                said = f"killed: {type(error).__name__}: {str(error)[:100]}"
            answer.write(said)
            answer.flush()
        os._exit(0)
    os.close(write)
    with open(read) as answer:  # noqa: PTH123 - a descriptor
        said = answer.read()
    _, status = os.waitpid(child, 0)
    return said or f"killed: ended by {signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status}"


def _in_child(mutant: Mutant | None, root: Path, tests: Sequence[str], limit_s: int | None, kernels: str) -> str:
    if limit_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if mutant is not None:
            apply(mutant, root, kernels)
        failed = _failed(tests)
    return f"killed: {failed}" if failed else "survived"


def _failed(tests: Sequence[str]) -> str:
    """Run tests until one fails, and return which: some histories, the unit tests, the other histories.

    Args:
        tests: names of the tests, in their order.
    """
    histories = [name for name in HISTORIES if name in tests]
    unit = [name for name in tests if name not in HISTORIES]
    files = list(dict.fromkeys(name.split("::")[0] for name in unit))
    for stage, run in (
        ("simulation", partial(_histories, histories[:FIRST], Watch())),
        ("unit tests", partial(_unit, files, unit, Watch())),
        ("simulation", partial(_histories, histories[FIRST:], Watch())),
    ):
        failed = run()
        if failed:
            return f"{stage}: {failed}"
    return ""


def _histories(names: Sequence[str], watch: Watch) -> str:
    for name in names:
        try:
            with watch.of(name):
                world = World(profile(*HISTORIES[name]))
                world.run(generate(world.profile))
        except Exception as error:  # noqa: BLE001 - any failure is a notice
            return f"{name}: {type(error).__name__}: {str(error)[:80]}"
    return ""


def _unit(files: Sequence[str], names: Sequence[str] | None, watch: Watch) -> str:
    """Run those unit tests of some files that are named, or all: empty if they pass, else who noticed."""
    if not files:
        return ""
    running = _Running(names, watch)
    code = pytest.main([*OPTIONS, *files], plugins=[running])
    return running.failed or (f"exit code {code}" if code else "")


class _Running:
    """A plugin that runs some tests of those that are collected, in a given order, and remembers the one that failed.

    Args:
        names: of the tests; None for all that are collected.
        watch: notes what each test does.
    """

    def __init__(self, names: Sequence[str] | None, watch: Watch) -> None:
        self._order = None if names is None else {name: at for at, name in enumerate(names)}
        self._watch = watch
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = self._order
        if order is not None:
            items[:] = sorted((one for one in items if one.nodeid in order), key=lambda one: order[one.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        with self._watch.of(item.nodeid):
            return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def apply(mutant: Mutant, root: Path, kernels: str) -> None:
    """Put the mutated module in the place of the module, wherever parts of it are known by now.

    Its compiled kernels go to the folder ``kernels``, apart from those of the program as it is.
    """
    module = sys.modules[mutant.module]
    before = dict(vars(module))
    numba.config.CACHE_DIR = kernels
    exec(compile(mutant.source(root), str(root / mutant.path), "exec"), vars(module))
    for name, value in before.items():
        new = vars(module)[name]
        if isinstance(value, type) and value is not new and not _is_changed(value, new):
            _renew(value, new)
            setattr(module, name, value)
    after = {name: value for name, value in vars(module).items() if before.get(name) is not value}
    for holder in _holders(module):
        for name, value in list(vars(holder).items()):
            if name in after and value is before[name]:
                setattr(holder, name, after[name])
            elif isinstance(value, FunctionType | type) and before.get(value.__name__) is value:
                setattr(holder, name, after.get(value.__name__, value))
            elif isinstance(value, dict):
                _in_table(value, before, after)


def _in_table(table: dict[Any, Any], before: dict[str, Any], after: dict[str, Any]) -> None:
    """Replace functions that a table of another module holds: the judge of each family of findings, for one."""
    for key, value in list(table.items()):
        if isinstance(value, FunctionType) and before.get(value.__name__) is value:
            table[key] = after.get(value.__name__, value)


def _is_changed(old: type, new: type) -> bool:
    """Whether an enum has other members than before: those that tables and tests hold are then no members any more."""
    if not (issubclass(old, Enum) and issubclass(new, Enum)):
        return False
    return [(one.name, one.value) for one in old] != [(one.name, one.value) for one in new]


def _renew(old: type, new: type) -> None:
    """Let a class and the objects that it has already act as the changed one: tests hold some as constants."""
    for name, value in vars(new).items():
        is_method = isinstance(value, FunctionType | property | classmethod | staticmethod)
        is_default = (
            not name.startswith("_") and not isinstance(value, MemberDescriptorType) and not issubclass(old, Enum)
        )
        if is_method or is_default or name == "__dataclass_fields__":
            setattr(old, name, value)


def _holders(changed: ModuleType) -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith(("parallax", "tests")) and module is not changed:
            yield module
