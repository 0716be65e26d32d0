"""The table ``repair_events``: an append-only Delta log of what repairs did, before they did it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from parallax.repair.record import Event, EventKind, Record
from parallax.views.event_log import EventLog

REPAIR_EVENTS = "repair_events"
_FIELDS: list[Any] = [
    ("sequence", pa.int64()),
    ("at_ms", pa.int64()),
    ("kind", pa.string()),
    ("repair_id", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("owner", pa.string()),
    ("step", pa.int32()),
    ("document", pa.string()),
    ("reason", pa.string()),
]


class RepairTable(EventLog[Event]):
    """The events of repairs below ``storage.path``; arguments and errors as of `EventLog`."""

    name = REPAIR_EVENTS
    app_id = "parallax-repair"
    schema = pa.schema(_FIELDS)
    absent = "nothing was ever repaired from here"

    def row(self, event: Event) -> dict[str, Any]:
        """An event as a row of the table."""
        return {
            "sequence": event.sequence,
            "at_ms": event.at_ms,
            "kind": str(event.kind),
            "repair_id": event.repair_id,
            "topic": event.topic,
            "partition": event.partition,
            "owner": event.owner,
            "step": event.step,
            "document": json.dumps(event.document),
            "reason": event.reason,
        }

    def event(self, row: Mapping[str, Any]) -> Event:
        """An event by its row."""
        return Event(
            EventKind(row["kind"]),
            row["repair_id"],
            row["topic"],
            row["partition"],
            row["at_ms"],
            row["owner"],
            row["step"],
            json.loads(row["document"]),
            row["reason"],
            row["sequence"],
        )


def read_record(storage: str) -> Record:
    """What is on record; nothing where nothing was ever repaired from this storage.

    Raises:
        EventLogError: the table cannot be read.
    """
    record = Record()
    if RepairTable.is_there(storage):
        record.take_in(RepairTable(storage, create=False).news())
    return record


__all__ = ["REPAIR_EVENTS", "RepairTable", "read_record"]
