"""The table ``repair_events``: a repair appends an event to it before each change to the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from parallax.columns import Column, Table
from parallax.repair.record import Event, EventKind, Record
from parallax.views.event_log import EventLog

REPAIR_EVENTS = "repair_events"
TABLE = Table(
    REPAIR_EVENTS,
    "One row for each event of a repair, written before anything is changed. Append-only.",
    (
        Column("sequence", pa.int64(), "Number of the event, from 1."),
        Column("at_ms", pa.int64(), "When, in milliseconds since 1970 UTC."),
        Column("kind", pa.string(), ", ".join(EventKind) + "."),
        Column("repair_id", pa.string(), "Id of the repair, 32 hexadecimal digits."),
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("owner", pa.string(), "Process that wrote the event."),
        Column("step", pa.int32(), "Number of the step in the plan. 0: the event is about no single step."),
        Column(
            "document",
            pa.string(),
            "JSON: the plan (begun), what the replicas showed (kept), or how the step is done (intended).",
        ),
        Column("reason", pa.string(), "Why, in a sentence."),
    ),
)


class RepairTable(EventLog[Event]):
    """Reads and appends events of repairs, in the Delta table ``repair_events``; for one thread only.

    Args:
        storage: ``storage.path``.
        create: whether to make the table if there is none.

    Raises:
        EventLogError: the path cannot be read or written, or there is no table and ``create`` is not set.
    """

    name = REPAIR_EVENTS
    app_id = "parallax-repair"
    schema = TABLE.schema
    absent = "nothing was ever repaired from here"

    def row(self, event: Event) -> dict[str, Any]:
        """Make a row of the table from an event of a repair."""
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
        """Make an event of a repair from a row of the table."""
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
    """Read the state of all repairs from the table; empty if this storage has no such table.

    Raises:
        EventLogError: the table cannot be read.
    """
    record = Record()
    if (table := RepairTable.opened(storage)) is not None:
        record.take_in(table.news())
    return record


__all__ = ["REPAIR_EVENTS", "RepairTable", "read_record"]
