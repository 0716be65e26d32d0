"""Settings of a job of a cluster that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.config import Settings, validate


def document(path: Path | str = "unused", **sections: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as in a file: topic ``orders``, tables in a folder, and the given sections."""
    kafka, topics = {"bootstrap.servers": "127.0.0.1:1"}, {"include": ["orders"]}
    return {"kafka": kafka, "topics": topics, "storage": {"path": str(path)}, **sections}


def settings_of(path: Path | str = "unused", **sections: Mapping[str, Any]) -> Settings:
    """The same, checked."""
    return validate(document(path, **sections))
