"""The Delta table ``suspects``: append only, written by the comparison's micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from parallax.compare.suspect import Suspect
from parallax.views.tables import table_path

SUSPECTS = "suspects"

SUSPECTS_DDL = (
    "suspect_id string, rule string, kind string, topic string, partition int, broker int, offset bigint, "
    "producer_id bigint, transaction_start_offset bigint, marker_offset bigint, key_hash_hi bigint, "
    "key_hash_lo bigint, positions string, observations string, raised_at timestamp, batch_id bigint"
)


def create_suspects(spark: Any, storage: str) -> None:
    """Create the table where it is not there yet."""
    from delta.tables import DeltaTable
    from pyspark.sql.types import StructType

    path = table_path(storage, SUSPECTS)
    if not DeltaTable.isDeltaTable(spark, path):
        DeltaTable.createIfNotExists(spark).location(path).addColumns(StructType.fromDDL(SUSPECTS_DDL)).execute()


def append_suspects(spark: Any, storage: str, suspects: Sequence[Suspect], app_id: str, batch_id: int) -> None:
    """Append the suspects of one micro-batch, once: Delta drops a batch that it has seen (``txnAppId``)."""
    rows = []
    for suspect in suspects:
        row = suspect.as_row()
        row["raised_at"] = datetime.fromtimestamp(row["raised_at"] / 1000, UTC)
        rows.append((*row.values(), batch_id))
    (
        spark.createDataFrame(rows, SUSPECTS_DDL)
        .coalesce(1)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", str(batch_id))
        .save(table_path(storage, SUSPECTS))
    )
