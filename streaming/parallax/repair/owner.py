"""Names the process that runs a repair (its *owner*), so that others can see whether it still runs."""

from __future__ import annotations

import getpass
import os
import socket

import psutil

SILENT_MS = 60_000
"""A repair's owner on another machine counts as gone if it has put nothing on record for this long; milliseconds.

No step takes as long without an event on record.
"""


def myself() -> str:
    """The name of this process as an owner: user, machine, process number, and when the process was started.

    The start time distinguishes it from a later process with the same number.
    """
    return f"{_user()}@{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_at_work(owner: str, last_ms: int, now_ms: int) -> bool:
    """Whether the owner of a repair may still run, so that no other process may take the repair over.

    A process on this machine is looked up. One on another machine counts as running until it has recorded nothing for
    some time (`SILENT_MS`).

    Args:
        owner: the owner, as `myself` returned it in that process.
        last_ms: when it last recorded an event, milliseconds since 1970 UTC.
        now_ms: now, milliseconds since 1970 UTC.
    """
    try:
        who, number, began = owner.rsplit(":", 2)
        host = who.rpartition("@")[2]
        if host == socket.gethostname():
            return abs(psutil.Process(int(number)).create_time() - float(began)) < 1
    except psutil.NoSuchProcess:
        return False
    except (ValueError, psutil.Error):
        pass
    return now_ms - last_ms < SILENT_MS


def in_words(owner: str) -> str:
    """The owner of a repair for people: ``ann@host (process 4711)``."""
    who, _, rest = owner.rpartition(":")[0].rpartition(":")
    return f"{who} (process {rest})" if who else owner


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())


__all__ = ["SILENT_MS", "in_words", "is_at_work", "myself"]
