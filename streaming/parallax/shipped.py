"""What Parallax comes with: a configuration, alert rules, dashboards and documents, written out for a user."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parallax.errors import SetupError

CONFIG = "parallax.yaml"
PLACES: Mapping[str, str] = {
    "conf/parallax.yaml": CONFIG,
    "deploy/prometheus/*.yaml": "prometheus",
    "deploy/alertmanager/*": "alertmanager",
    "dashboards/*.json": "grafana",
    "docs/*.md": "docs",
}
"""By where files are in the wheel and in the repository: which file, or which folder, they become."""
EVERY_TOPIC = "[^_].*"
"""All topics but Kafka's own."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a new configuration says; all else is commented out and shows its default.

    Attributes:
        servers: ``bootstrap.servers``.
        topics: names; all topics but Kafka's own where there are none.
        storage: ``storage.path``.
    """

    servers: str
    topics: Sequence[str]
    storage: str


def root() -> Path:
    """The folder that holds them: in the package that a wheel has installed, else the top of the checkout.

    Raises:
        SetupError: they are in neither.
    """
    package = Path(__file__).parent
    for folder in (package / "share", package.parents[1]):
        if (folder / "conf" / CONFIG).is_file():
            return folder
    raise SetupError("the files that Parallax comes with are not there; install it from its wheel, or from a checkout")


def write_out(folder: Path, choices: Choices) -> list[Path]:
    """Write them into a folder, all or none.

    Args:
        folder: is made where it is not there.
        choices: what the configuration says.

    Returns:
        What was written, the configuration first.

    Raises:
        SetupError: a file is there already, or the folder cannot be written.
    """
    texts = {folder / name: text for name, text in _files(choices).items()}
    if there := [path for path in texts if os.path.lexists(path)]:
        raise SetupError(f"{there[0]} is there already, and nothing was written; name another folder")
    begun: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                begun.append(path)
                file.write(text)
    except OSError as error:
        for path in begun:
            path.unlink(missing_ok=True)
        raise SetupError(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
    return list(texts)


def _files(choices: Choices) -> dict[str, str]:
    source, found = root(), {}
    for pattern, to in PLACES.items():
        for file in sorted(source.glob(pattern)):
            is_config = to == CONFIG
            name = to if is_config else f"{to}/{file.name}"
            found[name] = configuration(choices) if is_config else file.read_text(encoding="utf-8")
    return found


def configuration(choices: Choices) -> str:
    """The reference configuration, YAML, with choices in the place of its examples.

    Raises:
        SetupError: it is not there.
    """
    text = (root() / "conf" / CONFIG).read_text(encoding="utf-8")
    text = _with(text, r"  bootstrap\.servers: ", choices.servers)
    text = _with(text, r"  path: ", choices.storage)
    if choices.topics:
        return _with(text, r"  include: ", list(choices.topics))
    text = re.sub(r"(?m)^  include: ", "  # include: ", text)
    return _with(text, r"  # pattern: ", EVERY_TOPIC)


def _with(text: str, name: str, value: object) -> str:
    """Give the first setting of a name a value, and keep what is said about it behind it."""
    wanted = re.compile(rf"(?m)^({name})(\"[^\"]*\"|\[[^\]]*\]|[^\s#]+)(\s*#.*)?$")
    found = wanted.search(text)
    if found is None:
        raise SetupError(
            f"the reference configuration has no setting{name.replace(chr(92), '')}; install Parallax again"
        )
    written = f"{found[1].replace('# ', '')}{json.dumps(value, ensure_ascii=False)}{found[3] or ''}"
    return f"{text[: found.start()]}{written}{text[found.end() :]}"


__all__ = ["CONFIG", "EVERY_TOPIC", "Choices", "configuration", "root", "write_out"]
