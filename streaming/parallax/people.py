"""Who runs a command, for what is put on record."""

from __future__ import annotations

import getpass


def user() -> str:
    """The name of the user; ``unknown`` where this user id has none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
