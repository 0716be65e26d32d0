"""The Delta table ``suspects``, to which the comparison's micro-batches append; rows are never changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from parallax.columns import Column, Table
from parallax.compare.suspect import Suspect
from parallax.views import fencing
from parallax.views.tables import rust_uri

SUSPECTS = "suspects"

ABOUT = (
    Column("offset", pa.int64(), "Offset of the record, or first offset of the transaction."),
    Column("producer_id", pa.int64(), "Id of the transaction's producer. -1: none."),
    Column("transaction_start_offset", pa.int64(), "First offset of the transaction. -1: none."),
    Column("marker_offset", pa.int64(), "Offset of its end marker. -1: not known."),
    Column("key_hash_hi", pa.int64(), "Upper half of the keyed 128-bit hash of the key. 0 with key_hash_lo 0: no key."),
    Column("key_hash_lo", pa.int64(), "Lower half."),
)
"""The columns that say which record, or which transaction, a suspect or a finding is about."""

TABLE = Table(
    SUSPECTS,
    "One row for each difference that no rule explains, for probes to confirm. Append-only.",
    (
        Column("suspect_id", pa.string(), "Hash of what makes it the same suspect tomorrow, 32 hexadecimal digits."),
        Column("rule", pa.string(), "Invariant that it breaks: I1 to I4."),
        Column("kind", pa.string(), "Kind of finding that it would be."),
        Column("topic", pa.string(), "Topic."),
        Column("partition", pa.int32(), "Number of the partition."),
        Column(
            "broker",
            pa.int32(),
            "Id of the accused broker; -1 where the rule cannot tell which one is wrong.",
        ),
        *ABOUT,
        Column("positions", pa.string(), "JSON: how far each broker was read."),
        Column("observations", pa.string(), "JSON: what each broker was recorded to show."),
        Column("raised_at", pa.timestamp("us", tz="UTC"), "When the comparison raised it."),
        Column("batch_id", pa.int64(), "Micro-batch of the comparison."),
    ),
)
_SCHEMA = TABLE.schema


def create_suspects(storage: str) -> None:
    """Create the table of suspects if it does not exist.

    Args:
        storage: folder or URI of the tables (``storage.path``).
    """
    DeltaTable.create(rust_uri(storage, SUSPECTS), schema=_SCHEMA, mode="ignore")


def append_suspects(storage: str, suspects: Sequence[Suspect], query_id: str, batch_id: int) -> None:
    """Append the suspects of one micro-batch to their table, unless they are in it already.

    delta-rs writes them and not Spark. A few rows that may lead to an alarm should not wait for a Spark job.

    Args:
        storage: folder or URI of the tables (``storage.path``).
        suspects: the suspects.
        query_id: Spark's id of the comparison's query.
        batch_id: the micro-batch's number within that query. The suspects of this and of all lower numbers count as
            appended once the table has a commit of it.
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
