"""The table ``guard_events``: the guard records each step there before it changes a topic's settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from parallax.columns import Column, Table
from parallax.guard.holds import Absentee, Change, Event, EventKind
from parallax.views.event_log import EventLog

GUARD_EVENTS = "guard_events"
TABLE = Table(
    GUARD_EVENTS,
    "One row for each event of the guard, written before it changes anything. Append-only.",
    (
        Column("sequence", pa.int64(), "Number of the event, from 1."),
        Column("at_ms", pa.int64(), "When, in milliseconds since 1970 UTC."),
        Column(
            "kind",
            pa.string(),
            "intended, set, held, releasing, released, overruled, abandoned, refused, advised, in_sync, "
            "asked_hold or asked_release.",
        ),
        Column("hold_id", pa.string(), "Id of the hold."),
        Column("topic", pa.string(), "Topic."),
        Column("topic_id", pa.string(), "Kafka's id of the topic."),
        Column("level", pa.int32(), "1: tombstones and end markers are kept longer. 2: cleaning is paused too."),
        Column(
            "changes",
            pa.string(),
            "JSON: for each setting its name, the topic's own value before, and the guard's value.",
        ),
        Column(
            "absent", pa.string(), "JSON: the absent replicas that the hold is for, each as partition and broker id."
        ),
        Column("reason", pa.string(), "Why, in a few words."),
        Column("shown", pa.string(), "JSON: ids of the brokers that show the settings (held)."),
    ),
)
SCHEMA = TABLE.schema


class GuardTable(EventLog[Event]):
    """Reads and appends the guard's events, in the Delta table ``guard_events``; for one thread only.

    Args:
        storage: ``storage.path``.
        create: whether to make the table if there is none.

    Raises:
        EventLogError: the path cannot be read or written, or there is no table and ``create`` is not set.
    """

    name = GUARD_EVENTS
    app_id = "parallax-guard"
    schema = SCHEMA
    absent = "no guard has ever held anything here"

    @property
    def mark(self) -> int:
        """A number that is part of the retentions and lags that the guard sets, so that the guard recognises them.

        It is odd, below a million, and the same for all processes that use the table.
        """
        drawn = hashlib.sha256(self.table_id.encode()).digest()
        return int.from_bytes(drawn[:8]) % 500_000 * 2 + 1

    def row(self, event: Event) -> dict[str, Any]:
        """Make a row of the table from an event of a hold."""
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

    def event(self, row: Mapping[str, Any]) -> Event:
        """Make an event of a hold from a row of the table."""
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


__all__ = ["GUARD_EVENTS", "GuardTable"]
