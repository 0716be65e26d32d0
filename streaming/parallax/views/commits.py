"""Reads from a table's transaction log which files each commit has added.

It understands as much of Delta's log format (https://github.com/delta-io/delta/blob/master/PROTOCOL.md) as these tables
use: no deletion vectors, no column mapping. A commit is one JSON file. So looking for new commits costs a file or two
each time, and needs neither Spark nor the state of the whole table.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from parallax.views import order
from parallax.views.filesystem import filesystem
from parallax.views.parquet import BROKER
from parallax.views.tables import rust_uri

_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\b.*\.parquet")

_WHOLE = re.compile(r"\d{20}\.checkpoint\.parquet")
_OF_VERSION = re.compile(r"\d{20}\.")

_HINT_S = 300.0
"""For how many seconds the file that names the last checkpoint is believed. The log's folder is not read meanwhile."""

_AT_A_TIME = 16
"""How many footers are read at the same time."""

_ROW_BYTES = 32
"""How many bytes a row counts as, if the log does not say how many a file has."""


class LogGoneError(RuntimeError):
    """The table's log no longer has a commit that its reader has not read yet."""


class OtherTableError(RuntimeError):
    """The table is not the one that was read so far: its commits are others.

    Somebody has put it back from a copy, or made another one of the same name.
    """

    def __init__(self, uri: str, version: int) -> None:
        super().__init__(
            f"{uri}: version {version} is not the commit that was taken in: the table was put back or replaced"
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table, or those of its rows that one commit has added.

    Attributes:
        path: path of the file below the table's folder.
        rows: how many rows these are.
        broker: id of the broker whose rows they are; None in a table without that partition column.
        first: number of the first of these rows in the file, from 0; None if they are all rows of the file.
    """

    path: str
    rows: int
    broker: int | None
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The files that one commit added to a table.

    Attributes:
        version: version of the table that the commit made.
        at_ms: the commit's time in the order across tables, milliseconds since 1970 UTC (`parallax.views.order`).
        files: the files with new rows; empty if the commit only dropped or rewrote rows.
        mark: id of the commit, to notice that a table was replaced by another with a commit of the same version. Empty
            where it is not known.
    """

    version: int
    at_ms: int
    files: tuple[DataFile, ...]
    mark: str = ""


class _Standing(Sequence[Appended]):
    """The files of a table, or the parts that they were joined from, in order.

    Args:
        version: of the table.
        files: of which it is made.
        parts: of each, as `parallax.views.order.parts_of` has them.
    """

    def __init__(self, version: int, files: Sequence[DataFile], parts: Sequence[Any]) -> None:
        self._version, self._files = version, files
        counts = [len(of) for of in parts]
        self._is_whole = [count == 1 for count in counts]
        places = np.concatenate([np.empty((0, 2), np.int64), *parts])
        ends = [np.cumsum(of[:, 1]) for of in parts]
        firsts = np.concatenate([np.empty(0, np.int64), *ends]) - places[:, 1]
        which = np.repeat(np.arange(len(files), dtype=np.int32), counts)
        # Sorting keeps the order of those of one place, which is that of the files.
        inside = np.argsort(places[:, 0], kind="stable")
        self._at_ms, self._rows = places[inside, 0], places[inside, 1]
        self._first, self._which = firsts[inside], which[inside]

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, number: Any) -> Any:
        which = int(self._which[number])
        first = None if self._is_whole[which] else int(self._first[number])
        file = replace(self._files[which], first=first, rows=int(self._rows[number]))
        return Appended(self._version, int(self._at_ms[number]), (file,))


class Followed(NamedTuple):
    """How far the comparison has read a table; upkeep removes nothing that the comparison still has to read.

    Attributes:
        version: version of the table up to which the comparison has read.
        is_standing: whether it still has to read files that the table had at that version, e.g. at its first start.
            Otherwise it has read everything up to that version.
    """

    version: int
    is_standing: bool = False


class TableLog:
    """The transaction log of one table, which says which files each commit has added.

    Args:
        storage: ``storage.path``.
        name: name of the table.
    """

    def __init__(self, storage: str, name: str) -> None:
        self._uri = rust_uri(storage, name)
        self.files = filesystem(self._uri)
        self._trusted_until_s = 0.0

    def is_whole(self) -> bool:
        """Whether the transaction log still has the table's first commit.

        If not, a reader that is new must begin with the files that the table holds, and not with the log.
        """
        return self._text(_entry(0)) is not None

    def written_at(self, version: int) -> float | None:
        """When the log entry of a version was written, in seconds since 1970 UTC; None if there is no entry.

        The time is that of the storage's clock.
        """
        (info,) = self.files.get_file_info([_entry(version)])
        return None if info.mtime is None else info.mtime.timestamp()

    def shorten(self, version: int, older_than_s: float) -> int:
        """Delete log entries that are not needed to read a version of the table or a later one.

        These are the entries before the last checkpoint from which that version can be read.

        Args:
            version: the version that has to stay readable.
            older_than_s: entries written after this time stay as well; seconds since 1970 UTC.

        Returns:
            How many files were deleted.

        Raises:
            OSError: a file cannot be deleted.
        """
        found = {info.base_name: info for info in self.files.get_file_info(fs.FileSelector("_delta_log"))}
        wholes = (int(name[:20]) for name in found if _WHOLE.fullmatch(name))
        base = max((number for number in wholes if number <= version), default=0)
        gone = sorted(
            name
            for name, info in found.items()
            if _OF_VERSION.match(name)
            and int(name[:20]) < base
            and info.mtime
            and info.mtime.timestamp() < older_than_s
        )
        for name in gone:
            self.files.delete_file(f"_delta_log/{name}")
        return len(gone)

    def appended(self, version: int) -> Appended | None:
        """The files that the commit of a version added; None if there is no such commit yet.

        Raises:
            LogGoneError: there was such a commit, and it was removed from the log.
        """
        text = self._text(_entry(version))
        if text is None:
            if not self._is_cleaned(version):
                return None
            # It may have been made, and a checkpoint of it, since it was asked for: what is so young is never cleaned.
            text = self._text(_entry(version))
        if text is None:
            raise LogGoneError(f"{self._uri}: version {version} has been cleaned from the transaction log")
        return _appended(version, text)

    def mark_of(self, version: int) -> str:
        """The id of the commit that made a version (`Appended.mark`); empty if the log no longer has it.

        Raises:
            OtherTableError: the table never had this version, so it is another table.
        """
        text = self._text(_entry(version))
        if text is None and not self._is_cleaned(version):
            raise OtherTableError(self._uri, version)
        return "" if text is None else _mark(text)

    def standing(self, version: int | None = None) -> tuple[int, Sequence[Appended]]:
        """The files that a table consists of at a version, in the order of their commits.

        Each element holds one file, with the time of its commit. Compaction writes the rows of several commits into one
        file. That file appears once for each of these commits, at the position of the commit.

        Args:
            version: the version, if the log still goes back as far; None for the newest.

        Returns:
            A tuple: the version, and the files. The list takes some 30 bytes of memory for each element.

        Raises:
            deltalake.exceptions.DeltaError: the log does not go back as far, or the table cannot be read.
            OSError: the footer of a file cannot be read.
            ValueError: a footer is garbled.
        """
        from deltalake import DeltaTable

        table = DeltaTable(self._uri, version=version)
        return table.version(), self._standing(table.version(), order.files_of(table).to_pylist())

    def recorded(self, since_ms: int, until_ms: int) -> list[Appended]:
        """The files that now hold the rows of the commits after ``since_ms`` and up to ``until_ms``.

        A file into which compaction has written the rows of several of these commits appears once for each of them.

        Args:
            since_ms: a commit time of `parallax.views.order`.
            until_ms: a later one.

        Raises:
            deltalake.exceptions.DeltaError: the table cannot be read.
            OSError: the footer of a file cannot be read.
            ValueError: a footer is garbled.
        """
        from deltalake import DeltaTable

        table = DeltaTable(self._uri)
        files = order.files_of(table)
        files = files.filter(pc.field(order.AT_MS) > since_ms)
        found = self._standing(table.version(), files.to_pylist())
        return [one for one in found if since_ms < one.at_ms <= until_ms]

    def _standing(self, version: int, rows: Sequence[Mapping[str, Any]]) -> _Standing:
        files = [_standing(row) for row in rows]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            parts = list(pool.map(self._parts, files, [row[order.AT_MS] for row in rows]))
        return _Standing(version, files, parts)

    def _parts(self, file: DataFile, at_ms: int) -> Any:
        """The commits whose rows a file holds, in the form of `parallax.views.order.parts_of`."""
        if not file.path.rpartition("/")[2].startswith(order.JOINED):
            return order.parts_of(None, at_ms, file.rows)
        with self.files.open_input_file(file.path) as source:
            return order.parts_of(pq.read_metadata(source).metadata, at_ms, file.rows)

    def _is_cleaned(self, version: int) -> bool:
        """Whether a log entry that is missing was there once, and was deleted: then a checkpoint covers it.

        The list of checkpoints is long if a job commits all the time. So the file that names the last one is read
        first. It is only a hint (PROTOCOL.md, Last Checkpoint File), and may be gone, garbled or stale.
        """
        hinted, now_s = self._hinted(), time.monotonic()
        if hinted is not None and hinted < version and now_s < self._trusted_until_s:
            return False
        self._trusted_until_s = now_s + _HINT_S
        names = [info.base_name for info in self.files.get_file_info(fs.FileSelector("_delta_log"))]
        return max((int(name.split(".")[0]) for name in names if _CHECKPOINT.fullmatch(name)), default=-1) >= version

    def _hinted(self) -> int | None:
        try:
            text = self._text("_delta_log/_last_checkpoint")
            return None if text is None else int(json.loads(text)["version"])
        except (ValueError, TypeError, LookupError):
            return None

    def _text(self, path: str) -> str | None:
        try:
            with self.files.open_input_stream(path) as stream:
                return stream.read().decode()
        except FileNotFoundError:
            return None


def _entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _mark(text: str) -> str:
    """The id of a commit, from its log entry: no two entries are equal, since each names new files or its time."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _appended(version: int, text: str) -> Appended:
    actions: Iterable[Mapping[str, Any]] = map(json.loads, text.splitlines())
    at_ms, dropped = 0, False
    files: list[DataFile] = []
    for action in actions:
        if "remove" in action:
            dropped |= action["remove"]["dataChange"]
        elif "add" in action and action["add"]["dataChange"]:
            at_ms = max(at_ms, int(action["add"]["modificationTime"]))
            files.append(_file(action["add"]))
    return Appended(version, at_ms, () if dropped else tuple(files), _mark(text))


def _standing(row: Mapping[str, Any]) -> DataFile:
    rows = row["num_records"]
    rows = row["size_bytes"] // _ROW_BYTES if rows is None else rows
    return DataFile(unquote(row[order.PATH]), rows, row.get(f"partition.{BROKER}"))


def _file(add: Mapping[str, Any]) -> DataFile:
    stats = json.loads(add.get("stats") or "{}")
    broker = add["partitionValues"].get(BROKER)
    rows = stats.get("numRecords", add["size"] // _ROW_BYTES)
    return DataFile(unquote(add["path"]), int(rows), None if broker is None else int(broker))


__all__ = ["Appended", "DataFile", "Followed", "LogGoneError", "OtherTableError", "TableLog"]
