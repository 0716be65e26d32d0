"""Appends to the tables, by delta-rs: files that tasks have written, or a few rows, each batch of a query once.

The query and its batch are in the same atomic commit as the rows, as the protocol's own ``txn`` action
(https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction

from parallax.views import fencing
from parallax.views.parquet import BROKER
from parallax.views.recording import Recorded
from parallax.views.tables import RECORDED_ON, rust_uri


class Appender:
    """Appends to one table, for one query; keeps the table's state between two commits.

    Args:
        storage: ``storage.path``.
        name: of the table.
    """

    def __init__(self, storage: str, name: str) -> None:
        self.uri = rust_uri(storage, name)
        """Where the table is, in delta-rs's spelling."""
        self._table: DeltaTable | None = None

    def last_batch(self, query_id: str) -> int:
        """The last micro-batch that a query has committed; -1 if none.

        Raises:
            deltalake.exceptions.DeltaError: the table cannot be read.
        """
        known = self._newest().transaction_version(query_id)
        return -1 if known is None else known

    def append_files(self, files: Sequence[Recorded], query_id: str, batch_id: int) -> None:
        """Make files that lie in the table's folder part of the table, in one commit.

        Raises:
            FencedError: another job has taken the storage over.
            deltalake.exceptions.DeltaError: the commit failed.
        """
        now_ms = time.time_ns() // 1_000_000
        added: list[Any] = [
            AddAction(
                file.path,
                file.size,
                {BROKER: str(file.broker), RECORDED_ON: file.recorded_on},
                now_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in files
        ]

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            table.create_write_transaction(
                added, "append", table.schema(), [BROKER, RECORDED_ON], commit_properties=properties
            )

        self._commit(write, query_id, batch_id)

    def append_rows(self, rows: pa.Table, query_id: str, batch_id: int) -> None:
        """Append rows, in one commit.

        Raises:
            FencedError: another job has taken the storage over.
            deltalake.exceptions.DeltaError: the commit failed.
        """

        def write(table: DeltaTable, properties: CommitProperties) -> None:
            write_deltalake(table, rows, mode="append", commit_properties=properties)

        self._commit(write, query_id, batch_id)

    def _commit(self, write: Callable[[DeltaTable, CommitProperties], None], query_id: str, batch_id: int) -> None:
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


__all__ = ["Appender"]
