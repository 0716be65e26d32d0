"""The table ``guard_events``: an append-only Delta log of what the guard did, before it did it.

As the findings table is written: by delta-rs, each commit a compare-and-swap by the number of its last event, so that
the job and the command line may both write, and neither acts on what it has not read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from parallax.errors import one_line
from parallax.guard.holds import Absentee, Change, Event, EventKind
from parallax.views.tables import rust_uri

GUARD_EVENTS = "guard_events"
_APP_ID = "parallax-guard"
_FIELDS: list[Any] = [
    ("sequence", pa.int64()),
    ("at_ms", pa.int64()),
    ("kind", pa.string()),
    ("hold_id", pa.string()),
    ("topic", pa.string()),
    ("topic_id", pa.string()),
    ("level", pa.int32()),
    ("changes", pa.string()),
    ("absent", pa.string()),
    ("reason", pa.string()),
    ("shown", pa.string()),
]
SCHEMA = pa.schema(_FIELDS)
_FAILURES = (DeltaError, OSError, pa.ArrowException)


class GuardTableError(Exception):
    """The table could not be read or written; one line with the place and what to do."""


class WrittenMeanwhile(GuardTableError):  # noqa: N818 - it says what happened; it is caught where it is expected
    """Another process has appended events that this one has not read: nothing was written."""


class GuardTable:
    """The events below ``storage.path``. Not thread-safe: one thread owns it.

    Args:
        storage: ``storage.path``.
        create: make the table where it is not there.

    Raises:
        GuardTableError: the path cannot be read or written, or there is no table and none is to be made.
    """

    def __init__(self, storage: str, *, create: bool = True) -> None:
        self._uri = rust_uri(storage, GUARD_EVENTS)
        self._table: DeltaTable = self._tried(self._made if create else lambda: DeltaTable(self._uri))
        self._sequence = 0

    @staticmethod
    def is_there(storage: str) -> bool:
        """Whether any guard has ever put anything on record here.

        Raises:
            GuardTableError: the path cannot be read.
        """
        try:
            return DeltaTable.is_deltatable(rust_uri(storage, GUARD_EVENTS))
        except _FAILURES as error:
            raise GuardTableError(f"storage.path: {storage}: cannot be read ({one_line(error)})") from error

    def _made(self) -> DeltaTable:
        configuration: Mapping[str, str | None] = {"delta.appendOnly": "true"}
        return DeltaTable.create(self._uri, schema=SCHEMA, mode="ignore", configuration=configuration)

    @property
    def mark(self) -> int:
        """What the guard of this table marks its values with: odd, below a million, the same for all its processes."""
        drawn = hashlib.sha256(str(self._table.metadata().id).encode()).digest()
        return int.from_bytes(drawn[:8]) % 500_000 * 2 + 1

    def news(self) -> list[Event]:
        """The events that this object has not given or written yet, oldest first.

        Raises:
            GuardTableError: the table cannot be read, or holds an event of a newer version.
        """
        self._tried(self._table.update_incremental)
        if self._last() == self._sequence:
            return []
        newer = pc.field("sequence") > self._sequence
        rows: list[dict[str, Any]] = self._tried(lambda: _whole(self._table, newer))
        try:
            events = sorted((_event(row) for row in rows), key=lambda event: event.sequence)
        except (ValueError, TypeError, KeyError) as error:
            problem = f"an event is damaged or of a newer version of Parallax ({one_line(error)}); use that one"
            raise GuardTableError(f"storage.path: {self._uri}: {problem}") from error
        self._sequence = max((event.sequence for event in events), default=self._sequence)
        return events

    def append(self, event: Event) -> Event:
        """Append an event; returns it with its number. After a kill it is there or not, as a whole.

        Raises:
            WrittenMeanwhile: another process has appended since; read its events and decide again.
            GuardTableError: nothing was written.
        """
        if self._last() != self._sequence:
            raise WrittenMeanwhile(f"storage.path: {self._uri}: another process has appended events meanwhile")
        numbered = replace(event, sequence=self._sequence + 1)
        rows = pa.Table.from_pylist([_row(numbered)], schema=SCHEMA)
        commit = CommitProperties(app_transactions=[Transaction(_APP_ID, numbered.sequence)])
        # An earlier version made the table with fewer columns; the first event of this one brings the others.
        merged: dict[str, Any] = {"mode": "append", "schema_mode": "merge", "commit_properties": commit}
        self._tried(lambda: write_deltalake(self._table, rows, **merged))
        self._sequence = numbered.sequence
        return numbered

    def _last(self) -> int:
        return self._tried(lambda: self._table.transaction_version(_APP_ID)) or 0

    def _tried(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except CommitFailedError as error:
            raise WrittenMeanwhile(f"storage.path: {self._uri}: {one_line(error)}") from error
        except TableNotFoundError as error:
            raise GuardTableError(f"storage.path: {self._uri}: no guard has ever held anything here") from error
        except _FAILURES as error:
            problem = f"{one_line(error)}; check the path and its permissions"
            raise GuardTableError(f"storage.path: {self._uri}: {problem}") from error


def _whole(table: DeltaTable, wanted: pc.Expression) -> list[dict[str, Any]]:
    """Rows with all columns; null where an earlier version made the table without one."""
    rows = table.to_pyarrow_dataset().to_table(filter=wanted)
    for name in SCHEMA.names:
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.nulls(len(rows), SCHEMA.field(name).type))
    found: list[dict[str, Any]] = rows.select(SCHEMA.names).cast(SCHEMA).to_pylist()
    return found


def _row(event: Event) -> dict[str, Any]:
    return {
        "sequence": event.sequence,
        "at_ms": event.at_ms,
        "kind": str(event.kind),
        "hold_id": event.hold_id,
        "topic": event.topic,
        "topic_id": event.topic_id,
        "level": event.level,
        "changes": json.dumps([[c.name, c.before, c.ours] for c in event.changes]),
        "absent": json.dumps([list(one) for one in event.absent]),
        "reason": event.reason,
        "shown": json.dumps(list(event.shown)),
    }


def _event(row: Mapping[str, Any]) -> Event:
    return Event(
        EventKind(row["kind"]),
        row["hold_id"],
        row["topic"],
        row["topic_id"],
        row["at_ms"],
        row["level"],
        tuple(Change(*change) for change in json.loads(row["changes"])),
        tuple(Absentee(*one) for one in json.loads(row["absent"])),
        row["reason"],
        row["sequence"],
        tuple(json.loads(row["shown"] or "[]")),
    )


__all__ = ["GUARD_EVENTS", "GuardTable", "GuardTableError", "WrittenMeanwhile"]
