"""Who runs a command, and what people write, for what is put on record."""

from __future__ import annotations

import getpass

_ENDS = (".", "!", "?", "…", "。")


def user() -> str:
    """The name of the user; ``unknown`` where this user id has none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def ended(text: str) -> str:
    """What somebody wrote, as the end of a sentence: other sentences may follow it."""
    return text if text.endswith(_ENDS) else f"{text}."
