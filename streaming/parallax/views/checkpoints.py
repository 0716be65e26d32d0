"""Finds broken checkpoints of Spark's queries, and moves them away, so that the next start builds new ones.

A checkpoint holds nothing that the tables do not also say. A recording query takes its positions from them. The
comparison reads them again, as far back as retention has kept them. So it is better to lose a checkpoint than to have a
query that does not run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from parallax.stores import is_remote, rust_path
from parallax.views.fencing import epoch_of
from parallax.views.generations import Generations
from parallax.views.objects import Objects
from parallax.views.tables import checkpoint_path

_KEPT = 3
"""How many broken checkpoints of a query are kept, so that people can find out what happened."""
_MISREAD_AFTER = 3
"""A checkpoint is broken after this many failures in a row, if the last error names its checksum."""
_LARGEST_CHUNK = 1 << 24
"""How many bytes one of Hadoop's checksums may cover, at most. Hadoop uses 512; more means a garbled file."""
_ROOM = 1 << 20
"""How many bytes must be free on the disk before a checkpoint counts as the cause of failures."""


class Checkpoint:
    """The checkpoint of one query; it is checked before each start of the query.

    Args:
        storage: ``storage.path``.
        query: the query's name.
        hopeless_after: after how many failures in a row, without a micro-batch in between, the checkpoint counts as
            broken, whatever the errors say. Errors about a broken state take too many forms to know them all. The
            checkpoint does not count as broken while the storage cannot be written. None: it is broken only if its
            files are damaged, or errors name their checksums.
        check: says of the checkpoint's folder, in words, what else is wrong with it; None if nothing is.
        objects: the object store, if the storage is on one; tests give their own.
    """

    def __init__(
        self,
        storage: str,
        query: str,
        *,
        hopeless_after: int | None = None,
        check: Callable[[Path], str | None] = lambda _: None,
        objects: Objects | None = None,
    ) -> None:
        self._place: _Folder | _Stored
        if is_remote(storage):
            self._place = _Stored(storage, query, objects or Objects(storage))
        else:
            self._place = _Folder(checkpoint_path(storage, query))
        self._hopeless_after = hopeless_after
        self._misread = re.compile(rf"Checksum error: \S*/checkpoints/{re.escape(query)}/")
        self._check = check
        self._tried = False

    def location(self) -> str:
        """The folder or URI of the checkpoint, in the form for Spark's ``checkpointLocation``.

        On an object store it changes when a checkpoint is set aside, because no folder can be renamed there.

        Raises:
            FencedError: another job has taken the storage over.
            OSError: the object store cannot be reached.
        """
        return self._place.location()

    def mend(self, failures: int, error: str | None = None) -> str | None:
        """Set the checkpoint aside if it cannot be used, so that the next start builds a new one.

        Call it only while the query does not run.

        Args:
            failures: how many starts in a row have failed before any micro-batch was done.
            error: text of the last of these failures; None if there was none.

        Returns:
            What was wrong and where the old checkpoint is now, in one line; None if it was left as it is.

        Raises:
            FencedError: another job has taken the storage over.
            OSError: the checkpoint cannot be set aside.
        """
        with self._place.folder() as path:
            if path is None:
                return None
            problem = damage(path) or self._check(path)
        problem = problem or self._hopeless(failures, error or "")
        return None if problem is None else self._place.set_aside(problem)

    def _hopeless(self, failures: int, error: str) -> str | None:
        after = _MISREAD_AFTER if self._misread.search(error) else self._hopeless_after
        if after is None or failures < after:
            self._tried = False
            return None
        if self._tried or not self._place.can_be_written():
            return None  # that was not the cause, or the disk is
        self._tried = True
        return f"the query failed {failures} times in a row"


class _Folder:
    """A checkpoint on a local disk."""

    def __init__(self, path: str) -> None:
        self._given, self._path = path, Path(rust_path(path))

    def location(self) -> str:
        return self._given

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path | None]:
        yield self._path if self._path.exists() else None

    def can_be_written(self) -> bool:
        return _has_room(self._path)

    def set_aside(self, problem: str) -> str:
        path = self._path
        numbers = {int(p.suffix[8:]): p for p in path.parent.glob(f"{path.name}.broken-*") if p.suffix[8:].isdigit()}
        number = max(numbers, default=0) + 1
        aside = path.with_name(f"{path.name}.broken-{number}")
        path.rename(aside)
        for old in sorted(numbers)[: -_KEPT + 1]:
            shutil.rmtree(numbers[old], ignore_errors=True)
        return f"{path}: {problem}; kept as {aside.name}, rebuilt from the tables"


class _Stored:
    """A checkpoint on an object store; its logs are looked at in a folder of this machine."""

    def __init__(self, storage: str, query: str, objects: Objects) -> None:
        self._storage, self._query, self._objects = storage, query, objects
        self._known: tuple[int, Generations] | None = None

    def location(self) -> str:
        return self._generations().location()

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path | None]:
        with tempfile.TemporaryDirectory(prefix="parallax-") as name:
            self._generations().fetch(Path(name))
            yield Path(name)

    def can_be_written(self) -> bool:
        probe = f"checkpoints/.room-{uuid4()}"
        try:
            self._objects.put(probe, b"")
            self._objects.delete([probe])
        except OSError:
            return False
        return True

    def set_aside(self, problem: str) -> str:
        before, now = self._generations().set_aside(problem)
        return f"{before}: {problem}; kept, and rebuilt from the tables as {now.rpartition('/')[2]}"

    def _generations(self) -> Generations:
        # The epoch is held from the start of the job on, which is after the queries were defined.
        epoch = epoch_of(self._storage)
        if self._known is None or self._known[0] != epoch:
            self._known = epoch, Generations(self._objects, self._storage, self._query, epoch, _KEPT)
        return self._known[1]


def damage(path: Path) -> str | None:
    """What is wrong with the log files of a checkpoint, in one line; None if Spark can read them.

    Spark fails on the first file that it cannot parse (``HDFSMetadataLog``, ``OffsetSeqLog``, ``CommitLog``). It also
    fails on the first file that does not match its checksum (``ChecksumFileSystem``). On an object store there are no
    checksums.

    Args:
        path: folder of the checkpoint.
    """
    try:
        offsets = _log(path / "offsets", _offsets)
        commits = _log(path / "commits", _commit)
        if offsets or commits:
            json.loads(_text(path / "metadata"))["id"]
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
            version, *lines = _text(entries[number]).splitlines()
            if not (version[:1] == "v" and version[1:].isdigit()):
                raise ValueError("its first line is not a version")
            check(lines)
        except (ValueError, IndexError) as error:
            raise ValueError(f"{folder.name}/{number}: {error}") from error
    return list(entries)


def _text(file: Path) -> str:
    """The content of a file, if it matches its checksums; a file without checksums is believed, as Hadoop does.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file, or its checksums, are not what was written.
    """
    data = file.read_bytes()
    try:
        sums = file.with_name(f".{file.name}.crc").read_bytes()
    except FileNotFoundError:
        return data.decode()
    # "crc", a zero byte, how many bytes a checksum covers, and the checksums (``ChecksumFileSystem``).
    size = int.from_bytes(sums[4:8], "big")
    if sums[:4] != b"crc\0" or not 0 < size <= _LARGEST_CHUNK:
        raise ValueError(f"the file of its checksums, .{file.name}.crc, is garbled")
    found = b"".join(zlib.crc32(data[at : at + size]).to_bytes(4, "big") for at in range(0, len(data), size))
    if sums[8:] != found:
        raise ValueError(f"its checksum is not that of .{file.name}.crc")
    return data.decode()


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
    """Whether files can be written next to the checkpoint."""
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
