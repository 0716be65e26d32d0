"""How generated YAML is written."""

from __future__ import annotations

from typing import Any

import yaml


def written(head: str, document: dict[str, Any]) -> str:
    """A document as YAML, behind a comment."""
    return head + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
