"""Removes files in a table's folder that are not part of the table, once no process can still read or commit them.

delta-rs itself would first read the table and then list its folder. In between, a job may be frozen for hours and lose
its storage. It would then delete what its successor has committed, and no store refuses a deletion. So here the list is
made first and the table is read afterwards. A file that was old when it was listed, and is not in a table that was read
later, is in no later table either. That holds whatever time passes between the two.

There is one exception: a file that is old and still to be committed, because its micro-batch was held up for hours, or
a clock was set. So a job that commits files protects them meanwhile (`held`) and checks that they exist. A protected
file is not removed, and a file that is being removed cannot be protected. So a table never names a file that does not
exist.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from parallax.errors import one_line
from parallax.views.filesystem import filesystem

_lock = threading.Lock()
_held: dict[str, list[frozenset[str]]] = {}
_going: dict[str, frozenset[str]] = {}
_runs: dict[str, int] = {}


class GoneError(RuntimeError):
    """Files that were to be committed have been removed; the text is one line."""

    def __init__(self, uri: str, paths: Iterable[str]) -> None:
        gone = sorted(paths)
        super().__init__(
            one_line(
                f"{uri}: files of this micro-batch were removed before its commit ({len(gone)}, such as {gone[0]})"
            )
        )


@contextmanager
def held(uri: str, paths: Iterable[str]) -> Iterator[None]:
    """A context in which this process does not remove some files of a table, because it is committing them.

    Args:
        uri: URI of the table.
        paths: paths of the files below the table's folder.

    Raises:
        GoneError: some of the files are being removed already.
    """
    mine = frozenset(paths)
    with _lock:
        if lost := mine & _going.get(uri, frozenset()):
            raise GoneError(uri, lost)
        _held.setdefault(uri, []).append(mine)
    try:
        yield
    finally:
        with _lock:
            _held[uri].remove(mine)


def removals(uri: str) -> int:
    """How many times this process has run `remove_unused` on a table and found files to remove.

    Args:
        uri: URI of the table.
    """
    with _lock:
        return _runs.get(uri, 0)


def remove_unused(uri: str, hours: int, *, full: bool = False, versions: Sequence[int] = ()) -> int:
    """Remove files from a table's folder that have not been part of the table for some hours.

    Args:
        uri: URI of the table.
        hours: how many hours a file stays after it was replaced or, if no commit ever had it, written.
        full: whether to look at all files in the folder; otherwise only at those that the table's log names.
        versions: versions of the table whose files stay, however long ago they were replaced.

    Returns:
        How many files were removed.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
        OSError: a file cannot be deleted.
    """
    kept: Any = {"keep_versions": list(versions)} if versions else {}
    old = DeltaTable(uri).vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full, **kept)
    if not old:
        return 0
    with _going_from(uri, map(unquote, old)) as going:
        now: Any = pa.table(DeltaTable(uri).get_add_actions(flatten=True))["path"].to_pylist()
        gone = going - {unquote(path) for path in now}
        files = filesystem(uri)
        for path in sorted(gone):
            try:
                files.delete_file(path)
            except FileNotFoundError:
                continue
    return len(gone)


@contextmanager
def _going_from(uri: str, old: Iterable[str]) -> Iterator[frozenset[str]]:
    """A context that announces the files to be removed: the old ones that nobody holds."""
    with _lock:
        going = frozenset(old).difference(*_held.get(uri, ()))
        _going[uri] = _going.get(uri, frozenset()) | going
    try:
        yield going
    finally:
        with _lock:
            _going[uri] -= going
            _runs[uri] = _runs.get(uri, 0) + 1


__all__ = ["GoneError", "held", "removals", "remove_unused"]
