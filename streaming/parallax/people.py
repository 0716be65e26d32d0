"""Who runs a command, and how a text that a user typed is put into sentences."""

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
    """A user's text as a sentence, such as the reason of an acknowledgement.

    A full stop is added unless the text ends with a punctuation mark.
    """
    return text if text.endswith(_ENDS) else f"{text}."
