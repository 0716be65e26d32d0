"""What the tables say has been read: the truth from which a job goes on, whatever became of its checkpoints."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views.tables import table_path

RESETS = (ReadEvent.LOG_TRUNCATED, ReadEvent.TOPIC_RECREATED)
"""Events after which a position is lower than before, and right."""


def recorded_positions(storage: str, isolation: IsolationLevel) -> dict[Reader, Recorded]:
    """Rebuild the position of each reader of a view from its table.

    Only files that hold position rows are read, and of these only the columns needed.

    Args:
        storage: ``storage.path``.
        isolation: which view.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    table = open_table(storage, isolation.option)
    dataset = table.to_pyarrow_dataset()
    position = pc.field("position")
    columns = {
        "topic": pc.field("topic"),
        "partition": pc.field("partition"),
        "broker": pc.field("broker"),
        "offset": pc.field("offset"),
        "timestamp": pc.field("timestamp"),
        "event": pc.struct_field(position, "event"),
        "topic_id": pc.struct_field(position, "topic_id"),
    }
    rows = dataset.to_table(columns=columns, filter=pc.field("kind") == int(RowKind.POSITION))
    return latest(rows, isolation)


def latest(rows: pa.Table, isolation: IsolationLevel) -> dict[Reader, Recorded]:
    """Take each reader's position out of position rows in any order.

    It is the highest since the last reset; by time only across resets, so that a clock that was set back does no harm.

    Args:
        rows: columns topic, partition, broker, offset, timestamp, event, topic_id.
        isolation: whose rows they are.
    """
    found: dict[Reader, Recorded] = {}
    names = ("topic", "partition", "broker", "offset", "timestamp", "event", "topic_id")
    columns = [rows.sort_by("timestamp")[name].to_pylist() for name in names]
    for topic, partition, broker, offset, _, event, topic_id in zip(*columns, strict=True):
        reader = Reader(int(isolation), broker, topic, partition)
        known = found.get(reader)
        if known is None or event in RESETS or offset >= known.position:
            found[reader] = Recorded(offset, topic_id or "", ReadEvent(event))
    return found


def last_version(storage: str, name: str, app_id: str) -> int:
    """The last batch that an application has committed to a table (``txnVersion`` of ``txnAppId``); -1 if none."""
    version = open_table(storage, name).transaction_version(app_id)
    return -1 if version is None else int(version)


def open_table(storage: str, name: str) -> Any:
    """Open a table with delta-rs, which needs no Spark and reads the log in milliseconds."""
    from deltalake import DeltaTable

    path = table_path(storage, name)
    return DeltaTable(re.sub(r"^s3[an]://", "s3://", path).removeprefix("file:"))
