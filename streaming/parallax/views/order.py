"""The order of all commits to the tables of one storage: a time for each, which no wrong clock can mix up.

A table's log numbers its commits. A log that has been shortened has lost the numbers, and keeps only a file's time
(``modificationTime``). So that time is made to give the order. It is the clock's time as long as the clock moves on.
Otherwise it is one more than the last time that was given, as Delta does it for its own commits
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#in-commit-timestamps). All tables of a storage path share one
series of times, so no two commits have the same. Only one job at a time commits to them (`parallax.views.lease`). Its
times begin after those of the job before.

A file that compaction has joined has the time of the last commit in it. Its footer says which of its rows are from
which commit (`parts_of`). So progress and rows of all replicas are read from the beginning as they were recorded,
however large the files have become.

All code that needs the order gets it from `files_of`: a start, a rebuilt comparison, compaction and retention.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from parallax.moments import now_ms
from parallax.stores import rust_path
from parallax.views.tables import PROGRESS, VIEWS, rust_uri

AT_MS, PATH = "at_ms", "path"

JOINED = "joined-"
"""How the names of files begin that compaction has joined. Their footers say which rows are from which commit."""

SHARED = f"{JOINED}shared-"
"""How the names of files begin whose rows lie in files of other replicas as well (`parallax.views.shared`)."""

_COMMITS = "parallax.commits"

_given: dict[str, int] = {}
_lock = threading.Lock()


def next_ms(storage: str) -> int:
    """The time for the next commit to any table of a storage, in ms since 1970 UTC, later than all before.

    Args:
        storage: ``storage.path``.

    Raises:
        deltalake.exceptions.DeltaError: a table cannot be read.
    """
    root = rust_path(storage).rstrip("/")
    with _lock:
        if root not in _given:
            _given[root] = max((_latest(rust_uri(storage, name)) for name in (*VIEWS, PROGRESS)), default=0)
        _given[root] = max(now_ms(), _given[root] + 1)
        return _given[root]


def forget(storage: str) -> None:
    """Make the next call of `next_ms` look at the tables again, as a new process does.

    Args:
        storage: ``storage.path``.
    """
    with _lock:
        _given.pop(rust_path(storage).rstrip("/"), None)


def files_of(table: Any) -> pa.Table:
    """The files of a table in the order in which they were committed.

    Files of one commit are in the order of their names. Files that an earlier version committed are in the order of the
    clock.

    Args:
        table: a ``deltalake.DeltaTable``.

    Returns:
        One row for each file: its ``path``, below the table's folder and URL-encoded; its commit time ``at_ms``
        (`next_ms`); and the other columns of delta-rs: ``size_bytes``, ``num_records``, ``partition.*``.
    """
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    made = pc.cast(pc.cast(actions["modification_time"], pa.timestamp("ms")), pa.int64())
    rows = actions.drop_columns(["modification_time"]).append_column(AT_MS, made)
    return rows.sort_by([(AT_MS, "ascending"), (PATH, "ascending")])


def last_of(files: pa.Table) -> int:
    """The commit time of the last file; -1 if there is no file.

    Args:
        files: in the form of `files_of`.
    """
    return int(files[AT_MS][-1].as_py() or 0) if files.num_rows else -1


def is_shared(path: str) -> bool:
    """Whether some rows of a file lie in files of other replicas (`parallax.views.shared`), by its path.

    Such a file must be read together with those files, which must not be removed.
    """
    return path.rpartition("/")[2].startswith(SHARED)


def told(parts: Iterable[tuple[int, int]]) -> dict[str, str]:
    """A key and its value for the footer of a file that compaction makes: which rows are from which commit.

    `parts_of` reads them from the footer.

    Args:
        parts: commit time and number of rows of each commit, in the order of the rows.
    """
    numbers = np.array(list(parts), np.int64).reshape(-1, 2)
    numbers[1:, 0] = np.diff(numbers[:, 0])  # small numbers, which are packed well
    return {_COMMITS: base64.b64encode(zlib.compress(numbers.T.astype("<i8").tobytes())).decode()}


def parts_of(footer: Mapping[bytes, bytes] | None, at_ms: int, rows: int) -> Any:
    """The commits whose rows a file holds: several if compaction has joined it, otherwise its own.

    Args:
        footer: key-value metadata of the file; None for none.
        at_ms: the commit time of the file, as `files_of` gives it.
        rows: how many rows the file has.

    Returns:
        Integers of the shape (commits, 2): commit time and number of rows, in the order of the rows.

    Raises:
        ValueError: the footer is garbled.
    """
    packed = (footer or {}).get(_COMMITS.encode())
    if packed is None:
        return np.array([(at_ms, rows)], np.int64)
    try:
        numbers = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<i8").reshape(2, -1).T.copy()
    except zlib.error as error:
        raise ValueError(f"a footer is garbled ({error})") from error
    numbers[:, 0] = np.cumsum(numbers[:, 0])
    return numbers


def _latest(uri: str) -> int:
    if not DeltaTable.is_deltatable(uri):
        return 0
    return max(0, last_of(files_of(DeltaTable(uri))))


__all__ = [
    "AT_MS",
    "JOINED",
    "PATH",
    "SHARED",
    "files_of",
    "forget",
    "is_shared",
    "last_of",
    "next_ms",
    "parts_of",
    "told",
]
