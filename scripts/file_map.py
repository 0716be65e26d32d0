"""Write the map of the files into docs/design.md, from the first line of each module's docstring: ``make map``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESIGN = ROOT / "docs" / "design.md"
PACKAGE = ROOT / "streaming" / "parallax"
BEGIN, END = "<!-- map: begin -->", "<!-- map: end -->"
PACKAGES = (
    "replica",
    "source",
    "views",
    "compare",
    "evidence",
    "judge",
    "findings",
    "audit",
    "guard",
    "repair",
    "alerting",
    "lab",
)
ORDER = (*PACKAGES, "")


def first_line(module: Path) -> str:
    """The first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].rstrip(".") if text else ""


def file_map() -> str:
    """A table for each package, in the order of the data's way."""
    parts = []
    for name in ORDER:
        folder = PACKAGE / name
        modules = sorted(folder.rglob("*.py") if name else folder.glob("*.py"))
        rows = [f"| `{m.relative_to(PACKAGE)}` | {first_line(m)} |" for m in modules if m.name != "__init__.py"]
        parts.append("\n".join([f"| {name + '/' if name else 'the top'} | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def renewed(document: str) -> str:
    """The document with its map renewed."""
    before, rest = document.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{file_map()}\n{END}{after}"


def main() -> int:
    """Write the map, or with ``--check`` say whether it is as it should be."""
    document = DESIGN.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        return int(renewed(document) != document)
    DESIGN.write_text(renewed(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
