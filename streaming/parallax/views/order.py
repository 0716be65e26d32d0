"""The order in which files were committed to the tables of a storage path, which no clock decides.

A table's log numbers its commits, and a log that has been shortened has forgotten the numbers: it keeps a file's time
(``modificationTime``) alone. So that time is made to tell the order. It is the clock's as long as the clock moves on,
and one more than the last that was given otherwise; as Delta does it for the times of its own commits
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#in-commit-timestamps). All tables of a storage path share
one row of times, so that they are told apart across tables as well. One job at a time commits to them
(`parallax.views.lease`), and begins behind what the one before has given.

Whoever needs the order, a start, a comparison that is rebuilt, compaction and retention, takes it from `files_of`.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from parallax.stores import rust_path
from parallax.views.tables import PROGRESS, VIEWS, rust_uri

AT_MS, PATH = "at_ms", "path"

_given: dict[str, int] = {}
_lock = threading.Lock()


def next_ms(storage: str) -> int:
    """The time of files that are about to be committed: later than that of any file of any table before.

    Raises:
        deltalake.exceptions.DeltaError: a table cannot be read.
    """
    root = rust_path(storage).rstrip("/")
    with _lock:
        if root not in _given:
            _given[root] = max((_latest(rust_uri(storage, name)) for name in (*VIEWS, PROGRESS)), default=0)
        _given[root] = max(time.time_ns() // 1_000_000, _given[root] + 1)
        return _given[root]


def forget(storage: str) -> None:
    """Have the next call of `next_ms` look at the tables again, as a new process does."""
    with _lock:
        _given.pop(rust_path(storage).rstrip("/"), None)


def files_of(table: Any) -> pa.Table:
    """The files of a table in the order in which they were committed.

    Those of one commit come in the order of their names. What an earlier version committed has the time of the clock.

    Args:
        table: ``deltalake.DeltaTable``.

    Returns:
        Of each file ``path``, below the table's folder and URL-encoded; ``at_ms``, see `next_ms`; and what else
        delta-rs tells: ``size_bytes``, ``num_records``, ``partition.*``.
    """
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    made = pc.cast(pc.cast(actions["modification_time"], pa.timestamp("ms")), pa.int64())
    rows = actions.drop_columns(["modification_time"]).append_column(AT_MS, made)
    return rows.sort_by([(AT_MS, "ascending"), (PATH, "ascending")])


def last_of(files: pa.Table) -> int:
    """The place of the last of some files, as `files_of` has them; -1 of none."""
    return int(files[AT_MS][-1].as_py() or 0) if files.num_rows else -1


def _latest(uri: str) -> int:
    if not DeltaTable.is_deltatable(uri):
        return 0
    return max(0, last_of(files_of(DeltaTable(uri))))


__all__ = ["AT_MS", "PATH", "files_of", "forget", "last_of", "next_ms"]
