"""The settings' part of the Helm chart's schema, from the settings themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parallax.config import Settings

FILE = Path("deploy/helm/parallax/values.schema.json")
_LEFT_OUT = ("title", "description", "default", "format", "writeOnly")
_YAMLS_WORDS = {"on": True, "off": False}
"""YAML 1.1, which Helm reads, takes bare words of settings for these."""


def with_settings(text: str) -> str:
    """The chart's schema, in which ``config`` takes what the settings take: names, types, bounds and choices.

    What only the program can tell is left to it. What is required may also come from the environment.

    Args:
        text: the schema, with any ``config``.
    """
    schema = json.loads(text)
    settings = Settings.model_json_schema()
    config = _plain(settings, settings["$defs"])
    for name, section in config["properties"].items():
        config["properties"][name] = _or_null(section)  # "read:" with all below it commented out
    option = {"type": ["string", "boolean", "integer"]}
    servers = {"type": ["string", "array"], "items": {"type": "string"}}
    config["properties"]["kafka"] = {
        "type": "object",
        "properties": {"bootstrap.servers": servers},
        "additionalProperties": option,
    }
    schema["properties"]["config"] = config | {"required": ["kafka", "topics"]}
    return json.dumps(schema, indent=2) + "\n"


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"type": [part["type"], "null"]}


def _plain(part: Any, named: dict[str, Any]) -> Any:
    """A part of a schema without references and texts."""
    if isinstance(part, list):
        return [_plain(one, named) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _plain(named[part["$ref"].rpartition("/")[2]], named)
    if {"type": "null"} in part.get("anyOf", ()):
        (taken,) = (one for one in part["anyOf"] if one != {"type": "null"})
        return _or_null(_plain(taken, named))
    made = {}
    for key, value in part.items():
        if key == "properties":
            made[key] = {name: _plain(one, named) for name, one in value.items()}
        elif key not in (*_LEFT_OUT, "$defs"):
            made[key] = _plain(value, named)
    if words := [one for one in made.get("enum", ()) if one in _YAMLS_WORDS]:
        made["enum"] += [_YAMLS_WORDS[one] for one in words]
        made.pop("type", None)
    return made
