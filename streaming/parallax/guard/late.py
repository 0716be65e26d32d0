"""Which replicas copied something too late, until an audit has compared them: the small Delta table ``late_replicas``.

A clock forgets it with the process; what was copied too late stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import structlog
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from parallax.errors import one_line
from parallax.guard.clock import Absence, Late, Presence, Unclear
from parallax.model import TopicPartition
from parallax.views.tables import LATE_REPLICAS as LATE
from parallax.views.tables import REPLACED, rust_uri, tidy

log = structlog.get_logger(__name__)

_FIELDS: list[Any] = [
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("broker", pa.int32()),
    ("at_ms", pa.int64()),
    ("presence", pa.string()),
    ("lacks_from", pa.int64()),
    ("since_ms", pa.int64()),
    ("retention_ms", pa.int64()),
    ("bound_ms", pa.int64()),
    ("unclear", pa.string()),
]
_SCHEMA = pa.schema(_FIELDS)
_FAILURES = (DeltaError, OSError, pa.ArrowException)


def load(storage: str) -> list[Late] | None:
    """What is on record; None, with a line in the log, where it cannot be read."""
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
    """Put on record what stands now; a failure is logged, and does not count where the process lives on."""
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
