"""The repair command, and the settings that it is run by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from parallax.cli import app
from parallax.repair import command, undoing
from tests.builders.settings import document

T = TypeVar("T")


def standing_in(made: T, monkeypatch: pytest.MonkeyPatch) -> T:
    """Let the command look at a made cluster, and change it, in place of one that it connects to.

    What nobody has answered comes within a fifth of a second there, or never.
    """

    @contextmanager
    def lookout(*_: Any) -> Iterator[tuple[T, T]]:
        yield made, made

    monkeypatch.setattr(command, "_lookout", lookout)
    monkeypatch.setattr(undoing, "TAKES_MS", 200)
    return made


def invoked(*words: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)], input=answer)


def config(folder: Path, mode: str = "on") -> Path:
    path = folder / "parallax.yaml"
    path.write_text(json.dumps(document(folder / "data", repair={"mode": mode})))
    return path
