"""Removes files that a table does not hold any more, or never did, once nobody can be reading or committing them.

delta-rs reads the table first and lists its folder afterwards. A job that is frozen in between for some hours, and has
lost its storage meanwhile, would delete what its successor has committed: no put refuses a deletion. So here the list
is made first and the table is read afterwards, whatever time passes between the two: a file that was old when it was
listed, and is not in a table that was read later, is in no later one either.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from parallax.views.commits import filesystem


def remove_unused(uri: str, hours: int, *, full: bool = False) -> int:
    """Remove files that have not been part of a table for some hours; returns how many.

    Args:
        uri: of the table.
        hours: how long a file stays after it was replaced or, if it never was in a commit, written.
        full: look at all files of the folder; without it only at what the table's log names.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
        OSError: a file cannot be deleted.
    """
    old = DeltaTable(uri).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full)
    if not old:
        return 0
    now: Any = pa.table(DeltaTable(uri).get_add_actions(flatten=True))["path"].to_pylist()
    needed = {unquote(path) for path in now}
    gone = [path for path in map(unquote, old) if path not in needed]
    files = filesystem(uri)
    for path in gone:
        try:
            files.delete_file(path)
        except FileNotFoundError:
            continue
    return len(gone)


__all__ = ["remove_unused"]
