"""What one mutant is put to, in a process forked for it: nothing has to be imported or compiled again."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import pytest

from tests.mutation.mutants import Mutant
from tests.simulation.history import generate, profile
from tests.simulation.world import World

UNIT = Path("tests/unit")
USERS = {"compare": ("compare", "audit"), "findings": ("findings",)}
"""By package, the folders of unit tests that hold it: audits compare as the stream does, and say what they settled."""
HELD_BY = {"accusing": "test_judge", "case": "test_values", "judging": "test_lifecycle"}
"""By module: the tests that come first where none are named after it."""
SLOW = ("test_order.py", "test_outage.py", "test_manager.py", "test_incidents.py")
"""Run after the others: most mutants are noticed before it comes to these."""
APART = ("test_acknowledge.py", "test_table.py")
"""Not run: they hold the table and its writers, and ask other processes, which know of no mutant."""
LONG = "are_one_finding_with_the_right_count_and_bounded_everything"
"""Not run: the bounds of memory with 100,000 suspects take longer than all the others together."""

IGNORED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
FIRST, ALL = 15, 200
"""Seeds run before the unit tests, and in all: each as a faulty history, every third as a healthy one as well."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The end of one trial.

    Attributes:
        result: ``survived``, or who noticed.
        cpu_s: seconds of CPU that it took.
    """

    result: str
    cpu_s: float


def trial(package: str, mutant: Mutant | None, root: Path, limit_s: int | None = None) -> Tried:
    """Run everything that holds a package, against a mutant or against the program as it is.

    Args:
        package: the package that the trial is for, such as ``compare``.
        mutant: the change; None for the program as it is.
        root: the folder that holds the package ``parallax``.
        limit_s: seconds of CPU after which a mutant counts as one that does not come to an end; None for no limit.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="mutant-") as kernels:
        result = _forked(partial(_in_child, package, mutant, root, kernels, limit_s))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Tried(result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _forked(work: Callable[[], str]) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with open(write, "w") as answer:  # noqa: PTH123 - a descriptor
            answer.write(work())
            answer.flush()
        os._exit(0)
    os.close(write)
    with open(read) as answer:  # noqa: PTH123 - a descriptor
        said = answer.read()
    _, status = os.waitpid(child, 0)
    return said or f"killed: ended by {signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else status}"


def _in_child(package: str, mutant: Mutant | None, root: Path, kernels: str, limit_s: int | None) -> str:
    if limit_s is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if mutant is not None:
                apply(mutant, root, kernels)
            own = _own(Path(mutant.path).stem) if mutant else ""
            unit = partial(_unit, package, own)
            for stage, run in (("simulation", _first), ("unit tests", unit), ("simulation", _rest)):
                noticed = run()
                if noticed:
                    return f"killed: {stage}: {noticed}"
        except BaseException as error:  # noqa: BLE001 - whatever a mutant does is what it does
            return f"killed: {type(error).__name__}: {str(error)[:100]}"
    return "survived"


def _own(module: str) -> str:
    return HELD_BY.get(module, f"test_{module}")


def _first() -> str:
    return _histories(range(FIRST))


def _rest() -> str:
    return _histories(range(FIRST, ALL))


def _histories(seeds: range) -> str:
    for seed in seeds:
        for healthy in (False, True) if seed % 3 == 0 else (False,):
            world = World(profile(seed, healthy))
            try:
                world.run(generate(world.profile))
            except Exception as error:  # noqa: BLE001 - any failure is a notice
                return f"seed {seed}: {type(error).__name__}: {str(error)[:80]}"
    return ""


def _unit(package: str, own: str) -> str:
    """The unit tests of a package, the module's own first, in a run apart: they notice most, and are soon collected."""
    folders = [UNIT / name for name in USERS[package]]
    files = sorted(
        (path for folder in folders for path in folder.rglob("test_*.py") if path.name not in APART),
        key=lambda path: (path.name in SLOW or path.parts[2] != package, path),
    )
    mine = [path for path in files if path.parts[2] == package and (path.stem.startswith(own) or path.stem in own)]
    return (_passes(mine) if mine else "") or _passes([path for path in files if path not in mine])


def _passes(files: list[Path]) -> str:
    """Run files of unit tests: empty if they pass, else who noticed."""
    noticed = _FirstFailure()
    options = ["-x", "-q", "-p", "no:randomly", "--hypothesis-seed=0", "-k", f"not {LONG}", *IGNORED, *map(str, files)]
    code = pytest.main(options, plugins=[noticed])
    return noticed.name or (f"exit code {code}" if code else "")


class _FirstFailure:
    """A plugin that remembers the test that failed."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.rsplit("/", 1)[-1]


def apply(mutant: Mutant, root: Path, kernels: str) -> None:
    """Put the mutated module in the place of the module, wherever parts of it are known by now.

    Its compiled kernels go to the folder ``kernels``, apart from those of the program as it is.
    """
    module = sys.modules[mutant.module]
    before = dict(vars(module))
    numba.config.CACHE_DIR = kernels
    exec(compile(mutant.source(root), str(root / mutant.path), "exec"), vars(module))
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


def _holders(changed: ModuleType) -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith(("parallax", "tests")) and module is not changed:
            yield module
