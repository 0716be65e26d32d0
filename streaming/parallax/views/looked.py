"""Asks the table of progress, by SQL, what the replicas of one partition reported in some period."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from parallax.model import TopicPartition
from parallax.views.sql import literal, of_partition
from parallax.views.tables import PROGRESS, RECORDED_ON, rust_uri


def within(place: TopicPartition, since: datetime, until: datetime) -> str:
    """The SQL condition that selects the progress rows of one partition in a period.

    With it, a query does not open files of other dates.

    Args:
        place: the partition.
        since: the first moment of the period, UTC.
        until: the last moment of the period, UTC.
    """
    return f"""{RECORDED_ON} BETWEEN DATE '{since.date()}' AND DATE '{(until + timedelta(days=1)).date()}'
        AND {of_partition(place)} AND observed_at BETWEEN {literal(since)} AND {literal(until)}"""


def asker(storage: str) -> Any:
    """An engine for SQL queries of the table of progress, there named ``progress``; None if there is no such table.

    Args:
        storage: ``storage.path``.

    Returns:
        An object whose ``execute(query)`` gives Arrow batches.

    Raises:
        deltalake.exceptions.DeltaError, OSError: the table cannot be read.
    """
    from deltalake import DeltaTable, QueryBuilder

    uri = rust_uri(storage, PROGRESS)
    if not DeltaTable.is_deltatable(uri):
        return None
    return QueryBuilder().register("progress", DeltaTable(uri))


def last_said(storage: str, place: TopicPartition, at: datetime) -> list[dict[str, Any]]:
    """The last report of each replica of a partition in the 24 hours up to a given time.

    Args:
        storage: ``storage.path``.
        place: the partition.
        at: the time, UTC.

    Returns:
        In no order, one row for each replica that reported: ``broker`` (its id), ``at`` (when it reported),
            ``log_start_offset``, ``last_stable_offset`` and ``high_watermark``. Empty if there is no table.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    asked = asker(storage)
    if asked is None:
        return []
    condition = f"{within(place, at - timedelta(days=1), at)} AND reachable"
    query = f"""SELECT broker, observed_at AS at, log_start_offset, last_stable_offset, high_watermark
        FROM (SELECT *, row_number() OVER (PARTITION BY broker ORDER BY observed_at DESC) AS place
        FROM progress WHERE {condition}) WHERE place = 1"""  # noqa: S608 - our own words
    rows: list[dict[str, Any]] = pa.table(asked.execute(query)).to_pylist()
    return rows


__all__ = ["asker", "last_said", "within"]
