"""A log of changes to a cluster, as an append-only Delta table: the guard's holds, and repairs.

Each change is recorded before it is made. delta-rs writes the log. Each commit succeeds only if the last event is still
the one that the writer has read. So several processes may write, and none acts on a log that it has not read to the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from parallax.errors import one_line
from parallax.views.tables import rust_uri

_FAILURES = (DeltaError, OSError, pa.ArrowException)


class Numbered(Protocol):
    """An event of an `EventLog`: a dataclass with a number.

    The first recorded event has the number 1. An event that is not recorded yet has 0.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def sequence(self) -> int:
        """The event's number in the log, from 1; 0 if it is not recorded yet."""


E = TypeVar("E", bound=Numbered)


class EventLogError(Exception):
    """The log's table could not be read or written; one line with its path and what to do."""


class WrittenMeanwhile(EventLogError):  # noqa: N818 - it says what happened; it is caught where it is expected
    """Another process has appended events that this one has not read, so nothing was written."""


class EventLog(Generic[E]):
    """The log of events of one kind below ``storage.path``; for one thread only.

    A subclass defines the table's name, how an event becomes a row, and the message if there is no table.

    Args:
        storage: ``storage.path``.
        create: whether to make the table if there is none.

    Raises:
        EventLogError: the path cannot be read or written, or there is no table and ``create`` is not set.
    """

    name: ClassVar[str]
    """Name of the table's folder."""
    app_id: ClassVar[str]
    """Id of the ``txn`` action by which the table's log keeps the number of the last event."""
    schema: ClassVar[pa.Schema]
    """The table's columns; one of them is ``sequence``."""
    absent: ClassVar[str]
    """The message if there is no table."""

    def __init__(self, storage: str, *, create: bool = True) -> None:
        self.storage = storage
        """``storage.path``, below which the log is."""
        self._uri = rust_uri(storage, self.name)
        self._table: DeltaTable = self._tried(self._made if create else lambda: DeltaTable(self._uri))
        self._sequence = 0

    def row(self, event: E) -> dict[str, Any]:
        """The row of the log's table for an event, as column name to value; each subclass defines it."""
        raise NotImplementedError

    def event(self, row: Mapping[str, Any]) -> E:
        """The event that a row of the log's table holds; each subclass defines it.

        Raises:
            ValueError, TypeError, KeyError: the row is damaged, or was written by a newer version.
        """
        raise NotImplementedError

    @classmethod
    def is_there(cls, storage: str) -> bool:
        """Whether a storage has the log's table, because a process has opened the log to write to it.

        Args:
            storage: ``storage.path``.

        Raises:
            EventLogError: the path cannot be read.
        """
        try:
            return DeltaTable.is_deltatable(rust_uri(storage, cls.name))
        except _FAILURES as error:
            raise EventLogError(f"storage.path: {storage}: cannot be read ({one_line(error)})") from error

    @classmethod
    def opened(cls, storage: str) -> Self | None:
        """Open the log that a storage has; None if it has none.

        Args:
            storage: ``storage.path``.

        Raises:
            EventLogError: the path cannot be read.
        """
        return cls(storage, create=False) if cls.is_there(storage) else None

    def _made(self) -> DeltaTable:
        configuration: Mapping[str, str | None] = {"delta.appendOnly": "true"}
        return DeltaTable.create(self._uri, schema=self.schema, mode="ignore", configuration=configuration)

    @property
    def table_id(self) -> str:
        """The id that Delta gave the table. All processes see the same id.

        A table that is made again has another.
        """
        return str(self._table.metadata().id)

    def news(self) -> list[E]:
        """The events that this object has neither returned nor written yet, oldest first.

        Raises:
            EventLogError: the table cannot be read, or holds an event of a newer version.
        """
        self._tried(self._table.update_incremental)
        if self._last() == self._sequence:
            return []
        newer = pc.field("sequence") > self._sequence
        rows: list[dict[str, Any]] = self._tried(lambda: self._whole(newer))
        try:
            events = sorted((self.event(row) for row in rows), key=lambda event: event.sequence)
        except (ValueError, TypeError, KeyError) as error:
            problem = f"an event is damaged or of a newer version of Parallax ({one_line(error)}); use that one"
            raise EventLogError(f"storage.path: {self._uri}: {problem}") from error
        self._sequence = max((event.sequence for event in events), default=self._sequence)
        return events

    def append(self, event: E) -> E:
        """Append an event to the log; returns the event with its number.

        If the process is killed meanwhile, the event is recorded whole or not at all.

        Raises:
            WrittenMeanwhile: another process has appended events since `news` was called; read these and decide again.
            EventLogError: nothing was written.
        """
        if self._last() != self._sequence:
            raise WrittenMeanwhile(f"storage.path: {self._uri}: another process has appended events meanwhile")
        numbered = replace(event, sequence=self._sequence + 1)
        rows = pa.Table.from_pylist([self.row(numbered)], schema=self.schema)
        commit = CommitProperties(app_transactions=[Transaction(self.app_id, numbered.sequence)])
        # An earlier version made the table with fewer columns; the first event of this one brings the others.
        merged: dict[str, Any] = {"mode": "append", "schema_mode": "merge", "commit_properties": commit}
        self._tried(lambda: write_deltalake(self._table, rows, **merged))
        self._sequence = numbered.sequence
        return numbered

    def _whole(self, wanted: pc.Expression) -> list[dict[str, Any]]:
        """The wanted rows with all columns; null for columns that the table did not have when they were written."""
        rows = self._table.to_pyarrow_dataset().to_table(filter=wanted)
        for name in self.schema.names:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(len(rows), self.schema.field(name).type))
        found: list[dict[str, Any]] = rows.select(self.schema.names).cast(self.schema).to_pylist()
        return found

    def _last(self) -> int:
        return self._tried(lambda: self._table.transaction_version(self.app_id)) or 0

    def _tried(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except CommitFailedError as error:
            raise WrittenMeanwhile(f"storage.path: {self._uri}: {one_line(error)}") from error
        except TableNotFoundError as error:
            raise EventLogError(f"storage.path: {self._uri}: {self.absent}") from error
        except _FAILURES as error:
            problem = f"{one_line(error)}; check the path and its permissions"
            raise EventLogError(f"storage.path: {self._uri}: {problem}") from error


__all__ = ["EventLog", "EventLogError", "Numbered", "WrittenMeanwhile"]
