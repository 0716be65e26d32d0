"""Removes files that belong to no table, once nobody can still read or commit them.

delta-rs reads the table first and lists its folder afterwards. In between, a job may be frozen for hours and lose its
storage. It would then delete what its successor has committed, and no put refuses a deletion. So here the list is made
first and the table is read afterwards. A file that was old when it was listed, and is not in a table that was read
later, is in no later table either. That holds whatever time passes between the two.

There is one exception: a file that is old and still to be committed. Its micro-batch stood still for hours, or a clock
has stepped. So a job that commits files holds them meanwhile (`held`) and checks that they exist. What is held is not
removed, and what is being removed cannot be held. So a table never names a file that is not on the disk.
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
    """Files that were to be committed have been removed; one line."""

    def __init__(self, uri: str, paths: Iterable[str]) -> None:
        gone = sorted(paths)
        super().__init__(
            one_line(
                f"{uri}: files of this micro-batch were removed before its commit ({len(gone)}, such as {gone[0]})"
            )
        )


@contextmanager
def held(uri: str, paths: Iterable[str]) -> Iterator[None]:
    """Keep this process from removing files of a table while they are committed.

    Args:
        uri: of the table.
        paths: below its folder.

    Raises:
        GoneError: some are being removed.
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
    """How often this process has removed files of a table."""
    with _lock:
        return _runs.get(uri, 0)


def remove_unused(uri: str, hours: int, *, full: bool = False, versions: Sequence[int] = ()) -> int:
    """Remove files that have not been part of a table for some hours; returns how many.

    Args:
        uri: of the table.
        hours: how long a file stays after it was replaced or, if it never was in a commit, written.
        full: look at all files of the folder; without it only at those that the table's log names.
        versions: of the table; their files stay however long ago they were replaced.

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
    """Announce what is going to be removed: of these files, those that nobody holds."""
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
