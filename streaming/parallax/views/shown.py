"""Reads from a view what replicas showed of a key, or at an offset.

It also reads the rows of kind POSITION, which say how far each replica was read, and when.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parallax.model import IsolationLevel, RowKind
from parallax.views.positions import open_table
from parallax.views.shared import table_of
from parallax.views.tables import RECORDED_ON, rust_uri

COLUMNS = (
    "partition",
    "broker",
    "kind",
    "offset",
    "timestamp",
    "leader_epoch",
    "outcome",
    "content_hash",
    "key_size",
    "value_size",
    "position",
)
"""The columns of the rows that are read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a view: what did replicas show of a key, or at an offset?

    Attributes:
        topic: name of the topic.
        partition: number of the partition; None for all.
        key: the keyed hash of a key (hi, lo); None for an offset.
        offset: an offset; None for a key.
        isolation: the isolation level of the view.
        at: a moment, UTC: rows that were recorded on later dates are not read.
    """

    topic: str
    partition: int | None
    key: tuple[int, int] | None
    offset: int | None
    isolation: IsolationLevel
    at: datetime


def shown(storage: str, asked: Asked, brokers: Collection[int] = ()) -> Any:
    """The rows of a key or an offset in a view, and all rows of the topic that say how far a replica was read.

    Args:
        storage: ``storage.path``.
        asked: the key or offset, and where to look for it.
        brokers: ids of the brokers; all by default.

    Returns:
        A ``pyarrow.Table`` with `COLUMNS`. Its rows are in the order in which they were recorded. So a row of kind
            POSITION comes after the rows that were read up to its offset.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    table = open_table(storage, asked.isolation.option)
    found: Any = pc.field("topic") == asked.topic
    # A range that was read around midnight may be recorded on the day after.
    found &= pc.field(RECORDED_ON) <= pa.scalar((asked.at + timedelta(days=1)).date(), pa.date32())
    if asked.partition is not None:
        found &= pc.field("partition") == asked.partition
    if brokers:
        found &= pc.field("broker").isin(sorted(brokers))
    if asked.key is not None:
        high, low = asked.key
        mine = (pc.field("key_hash_lo") == low) & (pc.field("key_hash_hi") == high)
        mine &= pc.field("kind") == int(RowKind.RECORD)
    else:
        mine = (pc.field("offset") == asked.offset) & (pc.field("kind") != int(RowKind.POSITION))
    found &= (pc.field("kind") == int(RowKind.POSITION)) | mine
    reads = ("topic", RECORDED_ON, "key_hash_hi", "key_hash_lo")
    return table_of(rust_uri(storage, asked.isolation.option), table, COLUMNS, found, reads)


__all__ = ["COLUMNS", "Asked", "shown"]
