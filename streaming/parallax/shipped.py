"""Writes Parallax's own files into a user's folder: configuration, alert rules, dashboards and documents."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath

from parallax.errors import SetupError

CONFIG = "parallax.yaml"
HASH_KEY = "hash_key"
"""Name of the written file with the hash key, if no job can keep it in the storage."""
PLACES: Mapping[str, str] = {
    "conf/*.yaml": ".",
    "deploy/prometheus/*.y*ml": "prometheus",
    "deploy/alertmanager/*": "alertmanager",
    "dashboards/*.json": "grafana",
    "docs/*.md": "docs",
    "docs/contribute/glossary.md": "docs/contribute",
    "docs/contribute/theory.md": "docs/contribute",
    "docs/operate/*.md": "docs/operate",
    "docs/reference/*.md": "docs/reference",
    "docs/pictures/*": "docs/pictures",
}
"""By pattern of Parallax's own files, in the wheel and the repository: the folder that they are written to.

Documents for contributors alone are left out: their commands need a checkout. Links lead to them on the web.
"""
REPOSITORY = "https://github.com/kafka-parallax/kafka-parallax/blob/main"
"""Address of the repository on the web. Documents name files that are not written out, such as tests."""
_NAMED = re.compile(
    r"(?<![\w./-])(`?)((?:benchmarks|conf|dashboards|deploy|scripts|streaming|tests)(?:/[\w.-]*\w)+)(/?)((?:::\w+)?)(`?)"
)
"""A file or folder of the repository in a text, with its test if one is named. It may be a code span."""
_BLOCK = re.compile(r"(?ms)(^```.*?^```$)")
"""A block of commands or of output in Markdown."""
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
"""A Markdown link to a file, up to its anchor."""
_PICTURES = (".png", ".svg")
EVERY_TOPIC = "[^_].*"
"""The pattern of all topics but Kafka's own."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The settings that the written configuration sets; all other settings are in it as comments, with their defaults.

    Attributes:
        servers: ``bootstrap.servers``.
        topics: names of topics; empty for all topics but Kafka's own.
        storage: ``storage.path``.
        hash_key_file: ``read.hash_key_file``; None if the job makes a hash key itself, or gets it in another way.
    """

    servers: str
    topics: Sequence[str]
    storage: str
    hash_key_file: str | None = None


def root() -> Path:
    """The folder that holds Parallax's own files: in the package if it was installed, else the top of the checkout.

    Raises:
        SetupError: the files are in neither of the two.
    """
    package = Path(__file__).parent
    for folder in (package / "share", package.parents[1]):
        if (folder / "conf" / CONFIG).is_file():
            return folder
    raise SetupError("the files that Parallax comes with are not there; install it from its wheel, or from a checkout")


def write_out(folder: Path, choices: Choices) -> list[Path]:
    """Write Parallax's own files into a folder, all of them or none.

    Args:
        folder: the folder; it is made if it does not exist.
        choices: the settings that the configuration sets.

    Returns:
        The paths of the written files, the configuration first.

    Raises:
        SetupError: one of the files exists already, or the folder cannot be written.
    """
    contents = {folder / name: content for name, content in _files(choices).items()}
    if there := [path for path in contents if os.path.lexists(path)]:
        raise SetupError(f"{there[0]} is there already, and nothing was written; name another folder")
    begun: list[Path] = []
    made: list[Path] = []
    try:
        for path, content in contents.items():
            for parent in reversed([one for one in path.parents if not one.exists()]):
                made.append(parent)
                parent.mkdir()
            _write_new(path, content, begun)
    except BaseException as error:  # whoever presses Ctrl+C wants nothing of it either
        for path in begun:
            path.unlink(missing_ok=True)
        for parent in reversed(made):
            with contextlib.suppress(OSError):  # somebody has put something into it meanwhile
                parent.rmdir()
        if isinstance(error, OSError):
            raise SetupError(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
        raise
    return list(contents)


def _write_new(path: Path, content: bytes, begun: list[Path]) -> None:
    """Write a new file; ``begun`` gets its path before the file exists. Only its owner may read a hash key."""
    begun.append(path)
    try:
        path.touch(0o600 if path.name == HASH_KEY else 0o666, exist_ok=False)
    except OSError:
        begun.remove(path)  # it is somebody else's, or there is none
        raise
    path.write_bytes(content)


def _files(choices: Choices) -> dict[str, bytes]:
    source = root()
    places = {
        file.relative_to(source).as_posix(): normpath(f"{to}/{file.name}")
        for pattern, to in PLACES.items()
        for file in sorted(source.glob(pattern))
    }
    found = {}
    for at, name in places.items():
        if name.endswith(_PICTURES):
            found[name] = (source / at).read_bytes()
            continue
        text = configuration(choices) if name == CONFIG else (source / at).read_text(encoding="utf-8")
        found[name] = (as_installed(text, at, places.keys()) if name.endswith(".md") else text).encode()
    if choices.hash_key_file is not None:
        found[HASH_KEY] = f"{secrets.token_hex(16)}\n".encode()
    return found


def linked(text: str, place: str, there: Collection[str] | None = None) -> str:
    """The Markdown of a document in which links to files that are not there lead to the repository on the web.

    Args:
        text: the document's Markdown.
        place: the document's path in the repository, such as ``docs/operate/page.md``.
        there: the paths in the repository of the files that are there; None for all below ``docs/``.
    """

    def absolute(found: re.Match[str]) -> str:
        target = normpath(f"{PurePosixPath(place).parent}/{found[1]}")
        is_there = target.startswith("docs/") if there is None else target in there
        return found[0] if is_there else f"]({REPOSITORY}/{target}"

    return _LINK.sub(absolute, text)


def as_installed(text: str, place: str, there: Collection[str]) -> str:
    """The Markdown of a document for readers without a checkout: each file that it names is a link to the web.

    Blocks of commands stay as they are.

    Args:
        text: Markdown that names files by their path in the repository, such as ``tests/unit/test_docs.py``.
        place: the document's path in the repository, such as ``docs/operate/page.md``.
        there: the paths in the repository of the files that the reader has.
    """
    parts = _BLOCK.split(linked(text, place, there))
    parts[::2] = [_NAMED.sub(_on_the_web, part) for part in parts[::2]]
    return "".join(parts)


def _on_the_web(found: re.Match[str]) -> str:
    before, path, _, _, behind = found.groups()
    return f"[{found[0]}]({REPOSITORY}/{path})" if before == behind else found[0]


def configuration(choices: Choices) -> str:
    """The YAML of a new configuration: the reference configuration, with ``choices`` in place of its examples.

    Raises:
        SetupError: the reference configuration is missing.
    """
    text = (root() / "conf" / CONFIG).read_text(encoding="utf-8")
    text = _with(text, r"  bootstrap\.servers: ", choices.servers)
    text = _with(text, r"  path: ", choices.storage)
    if choices.hash_key_file is not None:
        text = _with(text, r"  # hash_key_file: ", choices.hash_key_file)
    if choices.topics:
        return _with(text, r"  include: ", list(choices.topics))
    text = re.sub(r"(?m)^  include: ", "  # include: ", text)
    return _with(text, r"  # pattern: ", EVERY_TOPIC)


def _with(text: str, name: str, value: object) -> str:
    """Give the first setting of a name a value, and keep the comment behind it."""
    wanted = re.compile(rf"(?m)^({name})(\"[^\"]*\"|\[[^\]]*\]|[^\s#]+)(\s*#.*)?$")
    found = wanted.search(text)
    if found is None:
        raise SetupError(
            f"the reference configuration has no setting{name.replace(chr(92), '')}; install Parallax again"
        )
    written = f"{found[1].replace('# ', '')}{json.dumps(value, ensure_ascii=False)}{found[3] or ''}"
    return f"{text[: found.start()]}{written}{text[found.end() :]}"


__all__ = ["CONFIG", "EVERY_TOPIC", "HASH_KEY", "Choices", "configuration", "linked", "root", "write_out"]
