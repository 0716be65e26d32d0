"""The Delta table ``late_replicas``: replicas that copied something after their bound.

A replica stays in the table until an audit has compared it. The clock's memory ends with its process, so the table
tells the next process which replicas are late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import structlog
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from parallax.columns import Column, Table
from parallax.errors import one_line
from parallax.guard.absences import Absence, Late, Presence, Unclear
from parallax.model import TopicPartition
from parallax.views.tables import LATE_REPLICAS as LATE
from parallax.views.tables import REPLACED, rust_uri, tidy

log = structlog.get_logger(__name__)

TABLE = Table(
    LATE,
    "One row for each replica that copied something too late: it may lack tombstones or end markers. The row goes "
    "when an audit has compared the replica. Each commit replaces all rows.",
    (
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column("broker", pa.int32(), "Id of the replica's broker."),
        Column("at_ms", pa.int64(), "When it was last seen to have copied too late, in milliseconds since 1970 UTC."),
        Column(
            "presence",
            pa.string(),
            "How it was absent. away: no answer. behind: its log ended too low, or it was not in sync. "
            "copying: the replica was being added.",
        ),
        Column("lacks_from", pa.int64(), "Offset below which it had everything. Null: not known."),
        Column(
            "since_ms",
            pa.int64(),
            "Last time at which it lacked nothing, or else the first at which it was absent, in milliseconds "
            "since 1970 UTC.",
        ),
        Column(
            "retention_ms", pa.int64(), "Smallest delete.retention.ms of the topic during the absence. Null: not known."
        ),
        Column(
            "bound_ms",
            pa.int64(),
            "When the first tombstone or end marker that it lacked could be gone, in milliseconds since 1970 "
            "UTC. Null: not known.",
        ),
        Column(
            "unclear",
            pa.string(),
            f"Why bound_ms is not known or says nothing: {', '.join(Unclear)}.",
        ),
    ),
)
_SCHEMA = TABLE.schema
_FAILURES = (DeltaError, OSError, pa.ArrowException)


def load(storage: str) -> list[Late] | None:
    """Return the recorded late replicas; None if the table cannot be read, which is logged.

    Empty if there is no such table. ``storage`` is ``storage.path``.
    """
    uri = rust_uri(storage, LATE)
    try:
        if not DeltaTable.is_deltatable(uri):
            return []
        rows = DeltaTable(uri).to_pyarrow_table().cast(_SCHEMA).to_pylist()
        return [_late(row) for row in rows]
    except (*_FAILURES, ValueError) as error:
        hint = "move that table away once the brokers were audited"
        log.warning("who copied something too late cannot be read", table=uri, error=one_line(error), what=hint)
        return None


def save(storage: str, late: Iterable[Late]) -> None:
    """Replace the table's rows by the given late replicas.

    A failure is logged. The job's clock still knows the late replicas until the process ends.

    Args:
        storage: ``storage.path``.
        late: all late replicas.
    """
    uri = rust_uri(storage, LATE)
    rows = [_row(one) for one in late]
    try:
        write_deltalake(uri, pa.Table.from_pylist(rows, schema=_SCHEMA), mode="overwrite", configuration=REPLACED)
        tidy(uri)
    except _FAILURES as error:
        what = "if the job ends before it is, those replicas count as right; audit them: parallax audit"
        log.warning("which replicas copied something too late is not on record", error=one_line(error), what=what)


def _row(late: Late) -> dict[str, Any]:
    was = asdict(late.absence)
    del was["place"], was["broker"]
    place = {"topic": late.place.topic, "partition": late.place.partition, "broker": late.broker}
    return place | {"at_ms": late.at_ms} | was


def _late(row: dict[str, Any]) -> Late:
    place = TopicPartition(row["topic"], row["partition"])
    unclear = None if row["unclear"] is None else Unclear(row["unclear"])
    absence = Absence(
        place,
        row["broker"],
        Presence(row["presence"]),
        row["lacks_from"],
        row["since_ms"],
        row["retention_ms"],
        row["bound_ms"],
        unclear,
    )
    return Late(place, row["broker"], row["at_ms"], absence)


__all__ = ["LATE", "load", "save"]
