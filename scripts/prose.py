"""Measure the documents and the public docstrings, and report what breaks the bounds of prose.toml.

It is part of ``make lint``.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from markdown_it import MarkdownIt

TOP = Path(__file__).resolve().parent.parent
RULES = tomllib.loads((TOP / "scripts" / "prose.toml").read_text(encoding="utf-8"))
PAGES: list[str] = RULES["pages"]["linted"]
FOLDERS: list[str] = RULES["pages"]["docstrings"]
GENERATED: str = RULES["pages"]["generated"]
PARAMETERS: list[str] = RULES["parameters"]["folders"]
PLAIN = frozenset(RULES["parameters"]["plain"])
AROUND = frozenset(RULES["parameters"]["around"])
WIDTH: int = RULES["bounds"]["width"]
MEDIAN_WORDS: int = RULES["bounds"]["median_sentence_words"]
MOST_WORDS: int = RULES["bounds"]["longest_sentence_words"]
MOST_LINES: int = RULES["bounds"]["paragraph_lines"]
MOST_PARAGRAPH = MOST_LINES * WIDTH
BUDGETS: dict[str, int] = RULES["lines"]
FORBIDDEN = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): better for words, better in RULES["forbidden"].items()}
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[A-Z0-9`\"'(])|(?<=:)\s*\n")
_CODE = re.compile(r"`[^`]*`")
_WORD = re.compile(r"\S*\w\S*")
_ADMONITION = re.compile(r"(?m)^(?:!!!|\?\?\?\+?) .*\n(?:(?: {4}.*)?\n)+")
_PARSER = MarkdownIt("commonmark").enable("table")


class Passage(NamedTuple):
    """A paragraph, a list item's text, a heading, an HTML block or a table cell.

    Attributes:
        line: its first line, from 1.
        text: its text, in which a code span is one word.
        lines: how many lines it has.
        is_counted: whether its sentences are part of the page's median: those of cells and headings are not.
    """

    line: int
    text: str
    lines: int
    is_counted: bool


def passages(text: str) -> Iterator[Passage]:
    """The prose of a Markdown text: no code, and no comments."""
    tokens = _PARSER.parse(_ADMONITION.sub(_as_quote, text))
    line = 1
    for before, token in pairwise([*tokens[:1], *tokens]):
        line, lines = (token.map[0] + 1, token.map[1] - token.map[0]) if token.map else (line, 1)
        if token.type == "html_block":
            said = re.sub(r"<!--.*?-->|<[^>]*>", " ", token.content, flags=re.DOTALL).strip()
            if said:
                yield Passage(line, said, lines, True)
        if token.type != "inline":
            continue
        parts = (
            re.sub(r"\s+", "_", f"`{part.content}`") if part.type == "code_inline" else part.content or " "
            for part in token.children or ()
            if part.type in ("text", "code_inline", "softbreak", "hardbreak", "image")
        )
        is_counted = before.type not in ("td_open", "th_open", "heading_open")
        yield Passage(line, "".join(parts).strip(), lines, is_counted)


def _as_quote(found: re.Match[str]) -> str:
    """An admonition with its text as a quote, so that the text is read as prose and no line moves."""
    return re.sub(r"(?m)^ {4}", "> ", found[0])


def sentences(text: str) -> list[int]:
    """How many words each sentence of a passage has."""
    return [count for one in _SENTENCE_END.split(text) if one and (count := len(_WORD.findall(one)))]


def faults(page: str, text: str) -> list[str]:
    """What breaks the bounds in a page, as ``path:line: what``."""
    found, counts = [], []
    for line, said, lines, is_counted in passages(text):
        words = sentences(said)
        counts += words if is_counted else []
        found += [f"{page}:{line}: a sentence of {n} words (at most {MOST_WORDS})" for n in words if n > MOST_WORDS]
        if len(said) > MOST_PARAGRAPH:
            found.append(f"{page}:{line}: a paragraph of {len(said)} characters (at most {MOST_PARAGRAPH})")
        if lines > MOST_LINES:
            found.append(f"{page}:{line}: a paragraph of {lines} lines (at most {MOST_LINES})")
        for wrong, better in FORBIDDEN.items():
            found += [f'{page}:{line}: "{one}"; write: {better}' for one in wrong.findall(_CODE.sub("`", said))]
    if counts and median(counts) > MEDIAN_WORDS:
        found.append(f"{page}: the median sentence has {median(counts):g} words (at most {MEDIAN_WORDS})")
    return found


def too_long(page: str, text: str) -> list[str]:
    """The lines of a page that are too long; tables, links, code and generated pages may be."""
    if page.startswith(GENERATED):
        return []
    tokens = _PARSER.parse(text)
    free = {n for t in tokens if t.map and t.type in ("table_open", "fence", "code_block") for n in range(*t.map)}
    lines = enumerate(text.splitlines())
    return [
        f"{page}:{number + 1}: a line of {len(line)} characters (at most {WIDTH})"
        for number, line in lines
        if len(line) > WIDTH and number not in free and " " in line[WIDTH // 2 : WIDTH]
    ]


def over_budget(texts: Mapping[str, str]) -> list[str]:
    """Which pages have more lines together than they may, by path and text."""
    sizes = {page: sum(1 + max(len(one) - 1, 0) // WIDTH for one in text.splitlines()) for page, text in texts.items()}
    sizes = {page: n for page, n in sizes.items() if not page.startswith(GENERATED)}
    counted = {pages: sum(n for page, n in sizes.items() if page.startswith(tuple(pages.split()))) for pages in BUDGETS}
    return [
        f"{pages}: {counted[pages]} lines (at most {most})" for pages, most in BUDGETS.items() if counted[pages] > most
    ]


def documents(top: Path = TOP) -> dict[str, str]:
    """The pages by path."""
    files = sorted(file for pattern in PAGES for file in top.glob(pattern))
    return {file.relative_to(top).as_posix(): file.read_text(encoding="utf-8") for file in files}


def docstrings(top: Path = TOP) -> Iterator[tuple[str, str]]:
    """The docstrings in the folders of ``prose.toml``, by ``path:line``, as Markdown.

    They are those of all that is public, and those under constants and attributes, whatever their names.
    """
    for file, node in _public(top, FOLDERS):
        if said := ast.get_docstring(node):
            yield f"{file}:{getattr(node, 'lineno', 1)}", _as_markdown(said)
        for before, below in pairwise(_nested(node)):
            match before, below:
                case (ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str() as said))):
                    yield f"{file}:{below.lineno}", _as_markdown(inspect.cleandoc(said))


def unnamed(top: Path = TOP) -> Iterator[str]:
    """The parameters of public functions that the docstring does not name, although their type alone says little.

    These are those whose type has no class of its own, such as ``int`` or ``tuple[str, int]``. A docstring names a
    parameter also in the plural, or with spaces between its words.
    """
    for file, node in _public(top, PARAMETERS):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (said := ast.get_docstring(node)):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = [one.arg for one in given if _is_plain(one.annotation) and not _names(said, one.arg)]
            if names:
                yield f"{file}:{node.lineno}: does not say what {', '.join(names)} is"


def _public(top: Path, folders: Sequence[str]) -> Iterator[tuple[Path, _Documented]]:
    """The modules in some folders, and the classes and functions in them that are public, each with its file."""
    for file in sorted(file for folder in folders for file in (top / folder).rglob("*.py")):
        pending: list[_Documented] = [ast.parse(file.read_text(encoding="utf-8"))]
        while pending:
            node = pending.pop()
            yield file.relative_to(top), node
            inside = (one for one in _nested(node) if isinstance(one, _Documented))
            pending += [one for one in inside if not one.name.startswith("_")]


def _nested(node: _Documented) -> list[ast.stmt]:
    return node.body if isinstance(node, ast.Module | ast.ClassDef) else []


def _is_plain(annotation: ast.expr | None) -> bool:
    words = set(re.findall(r"\w+", ast.unparse(annotation))) if annotation is not None else set()
    return bool(words & PLAIN) and words <= PLAIN | AROUND


def _names(docstring: str, parameter: str) -> bool:
    singular = parameter.rstrip("s_").replace("_", " ")
    return re.search(rf"\b{parameter}\b", docstring) is not None or singular.lower() in docstring.lower()


def _as_markdown(docstring: str) -> str:
    """A docstring with each argument, attribute and error as a list item, and what is returned as a paragraph."""
    items = re.sub(r"^\w+:\n", "\n", docstring, flags=re.MULTILINE)
    items = re.sub(r"^ {4}(?=[\w.`*]+: )", "- ", items, flags=re.MULTILINE)
    items = re.sub(r"^ {4}(?! )", "", items, flags=re.MULTILINE)
    return re.sub(r"^ {5,}", "  ", items, flags=re.MULTILINE).replace("``", "`")


def main() -> int:
    """Report what breaks the bounds; 1 where something does."""
    texts, said = documents(), dict(docstrings())
    found = [line for page, text in texts.items() for line in (*faults(page, text), *too_long(page, text))]
    found += over_budget(texts)
    found += [line for place, text in said.items() for line in faults(place, text)]
    found += unnamed()
    print("\n".join(found) or f"{len(texts)} pages and {len(said)} docstrings within the bounds")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
