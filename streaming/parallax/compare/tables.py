"""The Delta table ``suspects``: append only, written by the comparison's micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from parallax.compare.suspect import Suspect
from parallax.views import fencing
from parallax.views.tables import rust_uri

SUSPECTS = "suspects"

_FIELDS: list[Any] = [
    pa.field("suspect_id", pa.string()),
    pa.field("rule", pa.string()),
    pa.field("kind", pa.string()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("broker", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("producer_id", pa.int64()),
    pa.field("transaction_start_offset", pa.int64()),
    pa.field("marker_offset", pa.int64()),
    pa.field("key_hash_hi", pa.int64()),
    pa.field("key_hash_lo", pa.int64()),
    pa.field("positions", pa.string()),
    pa.field("observations", pa.string()),
    pa.field("raised_at", pa.timestamp("us", tz="UTC")),
    pa.field("batch_id", pa.int64()),
]
_SCHEMA = pa.schema(_FIELDS)
"""Columns of the table, in order (docs/design.md, Suspects)."""


def create_suspects(storage: str) -> None:
    """Create the table where it is not there yet."""
    DeltaTable.create(rust_uri(storage, SUSPECTS), schema=_SCHEMA, mode="ignore")


def append_suspects(storage: str, suspects: Sequence[Suspect], query_id: str, batch_id: int) -> None:
    """Append the suspects of one micro-batch, once: a batch that the table's log knows is left alone.

    Written by delta-rs: a few rows on the way to a page at night should not wait for a Spark job.
    """

    def is_there(table: DeltaTable) -> bool:
        known = table.transaction_version(query_id)
        return known is not None and batch_id <= known

    def write(table: DeltaTable, properties: CommitProperties) -> None:
        write_deltalake(table, fresh, mode="append", commit_properties=properties)

    rows = []
    for suspect in suspects:
        row = suspect.as_row()
        row["raised_at"] = datetime.fromtimestamp(row["raised_at"] / 1000, UTC)
        rows.append({**row, "batch_id": batch_id})
    fresh = pa.Table.from_pylist(rows, schema=_SCHEMA)
    uri = rust_uri(storage, SUSPECTS)
    fencing.commit(lambda: DeltaTable(uri), write, marks=[Transaction(query_id, batch_id)], is_done=is_there)
