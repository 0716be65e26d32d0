"""Who runs a command, and what people write, as it is recorded."""

from __future__ import annotations

import getpass

_ENDS = (".", "!", "?", "…", "。")


def user() -> str:
    """The name of the user who runs the command.

    It is ``unknown`` where the user id has no name, as in a container.
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def ended(text: str) -> str:
    """What somebody wrote, as a sentence: with a full stop, unless it ends as one already."""
    return text if text.endswith(_ENDS) else f"{text}."
