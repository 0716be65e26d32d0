"""A class name means one thing in all that finds, proves and says divergences."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import parallax

PACKAGE = Path(parallax.__file__).parent
VERDICTS = ("compare", "evidence", "judge", "findings", "kinds.py", "model.py", "sides.py")


def modules() -> Iterator[Path]:
    for name in VERDICTS:
        path = PACKAGE / name
        yield from [path] if path.suffix else path.rglob("*.py")


def test_no_class_name_means_two_things() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
