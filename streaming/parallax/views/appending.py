"""Appends rows to a Delta table: files that Spark tasks have written, or a few rows of this process.

The query's id and the micro-batch's number are in the same atomic commit as the rows, as the protocol's own ``txn``
action (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers). So no rows are appended
twice. If a micro-batch runs again, the table says that it has its rows already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction
from pyarrow import fs

from parallax.stores import is_remote
from parallax.views import fencing, order
from parallax.views.filesystem import filesystem
from parallax.views.parquet import BROKER, TableFile
from parallax.views.recording import Recorded
from parallax.views.tables import RECORDED_ON, rust_uri, shape_of
from parallax.views.unused import GoneError, held, removals

_OLD_S = 1800.0
"""Before a commit on an object store, the files of a micro-batch that began so many seconds ago are looked for.

Upkeep removes no file that is younger than two hours by the store's clock.
"""


class Began(NamedTuple):
    """When the reading of a micro-batch began, by several clocks; `may_be_gone` compares two such moments.

    Attributes:
        wall_s: by the system's clock, seconds since 1970 UTC; a person may set that clock.
        ran_s: by the monotonic clock, in seconds; that clock may stop while the machine sleeps.
        removals: how often this process had removed files of the table (`parallax.views.unused.removals`).
    """

    wall_s: float
    ran_s: float
    removals: int

    @classmethod
    def now(cls, uri: str) -> Began:
        """The present moment by both clocks, and how often this process has removed files of a table so far.

        Args:
            uri: URI of that table.
        """
        return cls(time.time(), time.monotonic(), removals(uri))


def may_be_gone(began: Began | None, now: Began) -> bool:
    """Whether upkeep may have removed files of a micro-batch since it began; False if that is ruled out.

    Args:
        began: when the micro-batch began; None if it is not known, and then the result is True.
        now: the present moment.
    """
    if began is None or now.removals != began.removals:
        return True
    return max(abs(now.wall_s - began.wall_s), now.ran_s - began.ran_s) > _OLD_S


Write = Callable[[DeltaTable, CommitProperties], None]
"""A function that commits to a table; the commit has to have these properties."""


class Appender:
    """Appends the rows of one query to one table; it keeps the table's state from one commit to the next.

    Args:
        storage: ``storage.path``.
        name: name of the table.
    """

    def __init__(self, storage: str, name: str) -> None:
        self._storage, self._name = storage, name
        self.reached_ms = -1
        """The time of its last commit in the order of commits (`parallax.views.order`); -1 if there is none."""
        self.uri = rust_uri(storage, name)
        """URI of the table, as delta-rs spells it."""
        self._table: DeltaTable | None = None
        self._files: fs.FileSystem | None = None
        self._began: Began | None = None

    def begin(self) -> None:
        """Note the time before a micro-batch is read, so that its commit knows whether its files may be gone already.

        Its files are written after this moment. If upkeep may have removed files since (`may_be_gone`), the commit
        first looks whether each file still exists. On an object store that is a request for each file, so it is not
        done otherwise.
        """
        self._began = Began.now(self.uri)

    def last_batch(self, query_id: str) -> int:
        """The number of the last micro-batch of a query that the table holds; -1 if it holds none.

        Args:
            query_id: id of Spark's query.

        Raises:
            deltalake.exceptions.DeltaError: the table cannot be read.
        """
        known = self._newest().transaction_version(query_id)
        return -1 if known is None else known

    def append_files(self, files: Sequence[Recorded], query_id: str, batch_id: int) -> None:
        """Make files that already are in the table's folder part of the table, in one commit.

        Args:
            files: the files that Spark tasks have written.
            query_id: id of Spark's query.
            batch_id: number of the micro-batch.

        Raises:
            GoneError: some of the files no longer exist; nothing was committed.
            FencedError: another job has taken the storage over.
            deltalake.exceptions.DeltaError: the commit failed.
        """
        at_ms = order.next_ms(self._storage)
        added = [
            AddAction(
                file.path,
                file.size,
                {BROKER: str(file.broker), RECORDED_ON: file.recorded_on},
                at_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in files
        ]
        self._commit(added, [BROKER, RECORDED_ON], query_id, batch_id)
        self.reached_ms = at_ms

    def append_rows(self, rows: pa.Table, recorded_on: str, query_id: str, batch_id: int) -> None:
        """Write rows of one date into a new file, and make it part of the table, in one commit.

        Args:
            rows: the rows, with the columns of the table's files. The table must be partitioned by the date alone.
            recorded_on: the date, ``YYYY-MM-DD``.
            query_id: id of Spark's query.
            batch_id: number of the micro-batch.

        Raises:
            GoneError: the new file no longer exists; nothing was committed.
            FencedError: another job has taken the storage over.
            OSError: the file cannot be written.
            deltalake.exceptions.DeltaError: the commit failed.
        """
        self.begin()
        at_ms, values = order.next_ms(self._storage), {RECORDED_ON: recorded_on}
        added = [written(self._storage, self._name, rows, values, at_ms)] if rows.num_rows else []
        self._commit(added, list(values), query_id, batch_id)
        self.reached_ms = at_ms

    def _commit(self, added: Sequence[AddAction], partition_by: list[str], query_id: str, batch_id: int) -> None:
        paths = [action.path for action in added]
        with held(self.uri, paths):
            self._look_for(paths)
            self._commit_held(add(added, partition_by), query_id, batch_id)

    def _look_for(self, paths: Sequence[str]) -> None:
        """Refuse to commit files that do not exist, because the table could not be read afterwards.

        On a disk that costs nothing. On an object store it is a request for each file, and is done only if files may be
        gone.
        """
        if not is_remote(self.uri) or may_be_gone(self._began, Began.now(self.uri)):
            if self._files is None:
                self._files = filesystem(self.uri)
            gone = lacking(self._files, paths)
            if gone:
                raise GoneError(self.uri, gone)

    def _commit_held(self, write: Write, query_id: str, batch_id: int) -> None:
        def newest() -> DeltaTable:
            table = self._newest()
            self._table = None  # A commit that fails leaves a state that is not to be trusted.
            return table

        def is_there(table: DeltaTable) -> bool:
            known = table.transaction_version(query_id)
            return known is not None and batch_id <= known

        self._table = fencing.commit(newest, write, marks=[Transaction(query_id, batch_id)], is_done=is_there)

    def _newest(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(self.uri)
        else:
            self._table.update_incremental()
        return self._table


def lacking(files: fs.FileSystem, paths: Iterable[str]) -> list[str]:
    """Those of the given paths at which the table's folder has no file, in their order.

    Args:
        files: the file system of the table's folder.
        paths: paths below that folder.

    Raises:
        OSError: the folder cannot be read.
    """
    found = files.get_file_info(list(paths))
    return [info.path for info in found if info.type == fs.FileType.NotFound]


def add(actions: Sequence[Any], partition_by: list[str]) -> Write:
    """Return a function that makes files in the table's folder part of the table, for `parallax.views.fencing.commit`.

    Args:
        actions: one ``AddAction`` of ``deltalake.transaction`` for each file.
        partition_by: names of the table's partition columns.
    """

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        table.create_write_transaction(
            list(actions), "append", table.schema(), partition_by, commit_properties=properties
        )

    return write


def written(
    storage: str,
    name: str,
    rows: pa.Table,
    values: Mapping[str, str],
    at_ms: int,
    footer: Mapping[str, str] | None = None,
) -> AddAction:
    """Write rows into a new file of a table; committing the returned action makes it part of the table.

    Args:
        storage: ``storage.path``.
        name: name of the table.
        rows: at least one, with at least the columns of the table's files.
        values: the value of each partition column, by the column's name.
        at_ms: the time of the commit that will add the file, from `parallax.views.order.next_ms`. The returned action
            holds it, because these times give the order of all commits.
        footer: keys and values for the footer of the file; None for none.

    Raises:
        OSError: the file cannot be written.
    """
    files = filesystem(rust_uri(storage, name))
    folder = "/".join(f"{column}={value}" for column, value in values.items())
    files.create_dir(folder, recursive=True)
    file = TableFile(files, f"{folder}/part-{uuid4()}.parquet", shape_of(name))
    for batch in rows.to_batches():
        file.take(batch)
    size = file.close(footer)
    return AddAction(file.path, size, dict(values), at_ms, data_change=True, stats=file.statistics)


__all__ = ["Appender", "Began", "add", "lacking", "may_be_gone", "written"]
