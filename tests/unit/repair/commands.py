"""The repair command, and the settings that it is run by."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from parallax.cli import app


def invoked(*words: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["repair", *map(str, words)], input=answer)


def config(folder: Path, mode: str = "on") -> Path:
    path = folder / "parallax.yaml"
    made = {
        "kafka": {"bootstrap.servers": "nowhere:1"},
        "topics": {"include": ["orders"]},
        "storage": {"path": str(folder / "data")},
        "repair": {"mode": mode},
    }
    path.write_text(json.dumps(made))
    return path
