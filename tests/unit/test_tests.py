"""The tests read well: what they share is beside them and made in one place, and their names are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MODULES = sorted(TESTS.rglob("*.py"))


def imported(code: str) -> Iterator[str]:
    """The modules that a module may import, by their dotted names."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_of_tests(code: str) -> list[str]:
    """What of the imported is a module of tests."""
    modules = {path.stem for path in MODULES if path.stem.startswith("test_")}
    return [name for name in imported(code) if name.rpartition(".")[2] in modules]


def test_no_module_imports_a_module_of_tests() -> None:
    found = {path.relative_to(TESTS).as_posix(): modules_of_tests(path.read_text()) for path in MODULES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code", ["import test_tests", "from test_tests import TESTS", "from tests.unit import test_tests"]
)
def test_each_way_to_import_a_module_of_tests_is_noticed(code: str) -> None:
    assert modules_of_tests(code)


BUILT = {"Absence", "Coverage", "Finding"}
"""Classes with so many fields that a test which gives all of them hides what matters to it: see ``tests/builders``."""


def built_by_hand(code: str) -> set[str]:
    """Which of these a module makes itself."""
    tree = ast.parse(code)
    product = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("parallax.")]
    known = {alias.name for node in product for alias in node.names} & BUILT
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return known & called


def test_what_has_many_fields_is_made_by_the_builders_alone() -> None:
    modules = [path for path in MODULES if path.relative_to(TESTS).parts[0] in ("unit", "e2e")]
    found = {path.relative_to(TESTS).as_posix(): built_by_hand(path.read_text()) for path in modules}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_is_made_by_hand_is_noticed() -> None:
    assert built_by_hand("from parallax.findings.finding import Finding\nONE = Finding(1)") == {"Finding"}
    assert built_by_hand("from parallax.findings.finding import Finding\nONE: Finding") == set()


LONGEST = 89
"""Characters of a test's name: with what pytest writes around it, it fits a line."""


def test_names_are_short_enough_to_be_read_at_a_glance() -> None:
    functions = (node for path in MODULES for node in ast.walk(ast.parse(path.read_text())))
    names = {node.name for node in functions if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    assert sorted(name for name in names if len(name) > LONGEST) == []
