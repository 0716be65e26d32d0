"""The name of the user who runs a command, and the form of texts that users write."""

from __future__ import annotations

import getpass

_ENDS = (".", "!", "?", "…", "。")


def user() -> str:
    """The name of the user who runs the command.

    It is ``unknown`` if the user id has no name, as in a container.
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def ended(text: str) -> str:
    """A user's text as a sentence: a full stop is added unless it ends with a punctuation mark."""
    return text if text.endswith(_ENDS) else f"{text}."
