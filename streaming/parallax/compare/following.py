"""Finds which commits and files of the tables the comparison has read already, and which it reads next.

It reads the tables' transaction logs, and knows neither Spark nor rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from parallax.views.commits import Appended, DataFile, Followed, OtherTableError
from parallax.views.tables import VIEWS

SHARE = 200_000
"""How many rows are worth a Spark task of their own: a Spark task costs about 10 ms."""


@dataclass(frozen=True, slots=True)
class TablePoint:
    """A point in one table's history: the commits and files up to it have been read by the comparison.

    Attributes:
        version: all commits up to this version have been read; -1 for none.
        files: None if the table is followed commit by commit from its first one on. Otherwise how many of the files
            that the table had at ``version`` have been read, oldest first. Upkeep may have joined several small files
            into a large one; a joined file counts as the several files that went into it.
        mark: id of the commit of that version (`parallax.views.commits.Appended`); empty if it is not known.
    """

    version: int
    files: int | None = None
    mark: str = ""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Make the point in a table's history from what `to_json` returned.

        Args:
            document: the JSON object, as a mapping.
        """
        return cls(document["version"], document.get("files"), document.get("mark", ""))

    @property
    def followed(self) -> Followed:
        """This point as the tables' upkeep needs it: upkeep keeps all files that were appended after it."""
        return Followed(self.version, is_standing=self.files is not None)

    @property
    def is_beginning(self) -> bool:
        """Whether nothing of the table has been read yet, so that no state is stored for it."""
        return self.files == 0 or (self.files is None and self.version < 0)

    def to_json(self) -> dict[str, Any]:
        """This point as a JSON object, such as ``{"version": 7, "mark": "f30c52b9a1d64e87"}``."""
        place = {"version": self.version, "files": self.files, "mark": self.mark or None}
        return {name: value for name, value in place.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Part:
    """The files that one commit added to a table; a micro-batch reads all of them or none.

    Attributes:
        table: name of the table.
        place: the point in the table's history right after these files.
        at_ms: when they were appended, milliseconds since 1970 UTC.
        files: the data files themselves.
    """

    table: str
    place: TablePoint
    at_ms: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows in all of these files."""
        return sum(file.rows for file in self.files)


class TableHistory(Protocol):
    """What the comparison asks of a Delta table's transaction log; `parallax.views.commits.TableLog` answers."""

    def is_whole(self) -> bool:
        """Whether the transaction log still holds the table's first commit.

        If not, a comparison that has read nothing begins with the files that the table holds.
        """

    def appended(self, version: int) -> Appended | None:
        """The files that the commit ``version`` added; None if there is no such commit yet."""

    def standing(self, version: int | None = None) -> tuple[int, Sequence[Appended]]:
        """A version of the table, and the files that the table consists of at that version.

        Args:
            version: the version; None for the newest one.
        """

    def mark_of(self, version: int) -> str:
        """The id of the commit ``version`` (`parallax.views.commits.Appended`).

        It differs if the table was replaced by another one.
        """


class Follower:
    """Finds which files were appended to one table; one per table.

    It keeps the commits that it has read in memory until `forget` is called.

    Args:
        table: name of the table.
        log: the table's transaction log.
    """

    def __init__(self, table: str, log: TableHistory) -> None:
        self._table, self._log = table, log
        self._commits: dict[int, Appended] = {}
        self._stood: tuple[int, Sequence[Appended]] | None = None
        self._checked: tuple[int, str] | None = None

    def beginning(self) -> TablePoint:
        """The point before the table's first commit, where a comparison that has read nothing begins.

        If old commits were removed from the log, it is the point before the oldest file that the table still holds.
        """
        if self._log.is_whole():
            return TablePoint(-1)
        self._stood = self._log.standing()
        return TablePoint(self._stood[0], 0, self._log.mark_of(self._stood[0]))

    def forget(self, place: TablePoint) -> None:
        """Free the memory of the commits up to the point ``place``; do not ask for them again."""
        if place.version in self._commits:
            self._checked = place.version, self._commits[place.version].mark
        self._commits = {version: commit for version, commit in self._commits.items() if version > place.version}
        if place.files is None:
            self._stood = None

    def appended(self, place: TablePoint) -> Iterator[Part]:
        """Yield the files that were appended after the point ``place``: one `Part` for each commit, in order.

        The log is read only as far as the caller iterates.

        Raises:
            LogGoneError: the commits that follow ``place`` were removed from the table's log.
            OtherTableError: ``place`` belongs to another table.
            deltalake.exceptions.DeltaError: the table's version at ``place`` can no longer be read.
        """
        self._check(place)
        if place.files is not None:
            yield from self._standing(place, place.files)
        version = place.version + 1
        while (commit := self._commit(version)) is not None:
            yield Part(self._table, TablePoint(version, mark=commit.mark), commit.at_ms, commit.files)
            version += 1

    def between(self, start: TablePoint, end: TablePoint) -> Iterator[Part]:
        """Yield the files that were appended to the table after the point ``start``, up to the point ``end``.

        There is one `Part` for each commit, in order; none if ``start`` is ``end``.

        Raises:
            LookupError: the table's log ends before ``end``.
            LogGoneError: the commits that follow ``start`` were removed from the table's log.
            OtherTableError: ``start`` belongs to another table.
            deltalake.exceptions.DeltaError: the table's version at ``start`` can no longer be read.
        """
        if start == end:
            return
        for part in self.appended(start):
            yield part
            if part.place == end:
                return
        raise LookupError(f"{self._table}: the log ends before version {end.version}, which was planned for")

    def _check(self, place: TablePoint) -> None:
        """Look once whether the table still has the commit at which it was left."""
        if place.version < 0:
            return
        if self._checked is None or self._checked[0] != place.version:
            self._checked = place.version, self._log.mark_of(place.version)
        if place.mark and self._checked[1] not in ("", place.mark):
            raise OtherTableError(self._table, place.version)

    def _standing(self, place: TablePoint, taken: int) -> Iterator[Part]:
        version = place.version
        if self._stood is None or self._stood[0] != version:
            self._stood = self._log.standing(version)
        files = self._stood[1]
        for number in range(taken, len(files)):
            file = files[number]
            left = number + 1 if number + 1 < len(files) else None
            yield Part(self._table, TablePoint(version, left, place.mark), file.at_ms, file.files)

    def _commit(self, version: int) -> Appended | None:
        known = self._commits.get(version)
        if known is None:
            known = self._log.appended(version)
            if known is not None:
                self._commits[version] = known
        return known


def admit(tables: Iterable[Iterator[Part]], max_rows: int) -> dict[str, TablePoint]:
    """Choose which appended files of all tables the next micro-batch reads, oldest first.

    If not all files fit, the choice may end earlier than ``max_rows`` demands: at the last point where it holds equally
    many commits of both views. Replicas are compared by their sums only as far as both views go
    (`parallax.compare.blocks`). It does not end earlier if that would leave out more than half of the rows.

    Args:
        tables: for each table, the files that were appended to it, in order.
        max_rows: the most rows that the chosen files may hold together. The first `Part` with rows is always chosen,
            however large it is.

    Returns:
        By table name, the point right after the files that were chosen; a table of which no file was chosen is left
        out. Empty if there are no rows to read.
    """
    taken: dict[str, TablePoint] = {}
    rows = even_rows = 0
    even: dict[str, TablePoint] = {}
    commits = dict.fromkeys(VIEWS, 0)
    for part in heapq.merge(*tables, key=lambda part: part.at_ms):
        if rows and rows + part.rows > max_rows:
            return even if 2 * even_rows >= rows else taken
        taken[part.table] = part.place
        rows += part.rows
        if part.table in commits and part.rows:
            commits[part.table] += 1
        if len(set(commits.values())) == 1:
            even, even_rows = dict(taken), rows
    return taken if rows else {}


def runs(files: Iterable[DataFile]) -> list[DataFile]:
    """Join neighbouring row ranges of one data file, so that they are read in one go.

    Args:
        files: whole files, or row ranges of files that upkeep has joined; in the order of their commits.

    Returns:
        The same rows as fewer `DataFile`; those of each broker keep their order.
    """
    found: list[DataFile] = []
    last: dict[int | None, int] = {}
    for file in files:
        number = last.get(file.broker)
        before = None if number is None else found[number]
        if number is not None and before is not None and _goes_on(before, file):
            found[number] = replace(before, rows=before.rows + file.rows)
        else:
            last[file.broker] = len(found)
            found.append(file)
    return found


def _goes_on(before: DataFile, file: DataFile) -> bool:
    return before.path == file.path and before.first is not None and before.first + before.rows == file.first


def tasks_for(rows: int, parallelism: int) -> int:
    """How many Spark tasks to split a micro-batch into, at least one.

    Args:
        rows: how many rows the micro-batch has; may be 0.
        parallelism: the most Spark tasks that are allowed.
    """
    return max(1, min(parallelism, rows // SHARE))


__all__ = ["Follower", "Part", "TableHistory", "TablePoint", "admit", "runs", "tasks_for"]
