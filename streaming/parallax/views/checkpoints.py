"""Checkpoints that cannot be used any more: found, set aside, and rebuilt from the tables by the next start.

The tables are the truth: a recording query takes its positions from them, and the comparison follows them again from
their first commit (or from what retention left). So a checkpoint is never worth a query that does not run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from parallax.views.tables import checkpoint_path

_KEPT = 3
"""How many broken checkpoints of a query are kept, so that people can find out what happened."""
_ROOM = 1 << 20
"""Bytes that must fit on the disk before a checkpoint is held to be the cause of failures."""


class Checkpoint:
    """The checkpoint of one query, looked at before each start of it.

    Args:
        storage: ``storage.path``; of a URI nothing is looked at.
        query: the query's name.
        hopeless_after: so many failures in a row without a micro-batch, on a disk that can be written, are laid to the
            checkpoint: what is said of a broken state has many forms. None where the logs, which are checked
            here, are all that the checkpoint holds.
        check: says in words what else is wrong with the folder; None where nothing is.
    """

    def __init__(
        self,
        storage: str,
        query: str,
        *,
        hopeless_after: int | None = None,
        check: Callable[[Path], str | None] = lambda _: None,
    ) -> None:
        self._path = None if "://" in storage else Path(checkpoint_path(storage.removeprefix("file:"), query))
        self._hopeless_after = hopeless_after
        self._check = check
        self._tried = False

    def mend(self, failures: int) -> str | None:
        """Set the checkpoint aside where it cannot be used; to be called while the query does not run.

        Args:
            failures: starts in a row that came to no micro-batch.

        Returns:
            What was wrong and where it is now, in one line; None where nothing was done.

        Raises:
            OSError: it cannot be renamed.
        """
        if self._path is None or not self._path.exists():
            return None
        problem = damage(self._path) or self._check(self._path) or self._hopeless(failures)
        if problem is None:
            return None
        aside = self._set_aside(self._path)
        return f"{self._path}: {problem}; kept as {aside.name}, rebuilt from the tables"

    def _hopeless(self, failures: int) -> str | None:
        if self._hopeless_after is None or failures < self._hopeless_after:
            self._tried = False
            return None
        if self._tried or self._path is None or not _has_room(self._path):
            return None  # that was not the cause, or the disk is
        self._tried = True
        return f"the query failed {failures} times in a row"

    @staticmethod
    def _set_aside(path: Path) -> Path:
        numbers = {int(p.suffix[8:]): p for p in path.parent.glob(f"{path.name}.broken-*") if p.suffix[8:].isdigit()}
        number = max(numbers, default=0) + 1
        aside = path.with_name(f"{path.name}.broken-{number}")
        path.rename(aside)
        for old in sorted(numbers)[: -_KEPT + 1]:
            shutil.rmtree(numbers[old], ignore_errors=True)
        return aside


def damage(path: Path) -> str | None:
    """Say what is wrong with the logs of a checkpoint; None where Spark will be able to read them.

    Spark fails on the first file that it cannot parse, each time with the words of the parser that met it
    (``HDFSMetadataLog``, ``OffsetSeqLog``, ``CommitLog``).
    """
    try:
        offsets = _log(path / "offsets", _offsets)
        commits = _log(path / "commits", _commit)
        if offsets or commits:
            json.loads((path / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        return f"cannot be read ({' '.join(str(error).split())[:200]})"
    last_offset, last_commit = max(offsets, default=-1), max(commits, default=-1)
    if not last_commit <= last_offset <= last_commit + 1:
        return f"its logs do not fit together (offsets end with {last_offset}, commits with {last_commit})"
    return None


def _log(folder: Path, check: Callable[[list[str]], None]) -> list[int]:
    """Numbers of a log's entries, after each has been checked."""
    if not folder.is_dir():
        return []
    entries = {int(entry.name): entry for entry in folder.iterdir() if entry.name.isdigit()}
    for number in sorted(entries):
        try:
            version, *lines = entries[number].read_text(encoding="utf-8").splitlines()
            if not (version[:1] == "v" and version[1:].isdigit()):
                raise ValueError("its first line is not a version")
            check(lines)
        except (ValueError, IndexError) as error:
            raise ValueError(f"{folder.name}/{number}: {error}") from error
    return list(entries)


def _offsets(lines: list[str]) -> None:
    _parse(lines, at_least=2)


def _commit(lines: list[str]) -> None:
    _parse(lines, at_least=1)


def _parse(lines: list[str], at_least: int) -> None:
    if len(lines) < at_least:
        raise ValueError("it is truncated")
    for line in lines:
        if line != "-":  # a source without an offset
            json.loads(line)


def _has_room(path: Path) -> bool:
    """Whether files can be written beside the checkpoint."""
    probe = path.parent / f".room-{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return True


__all__ = ["Checkpoint", "damage"]
