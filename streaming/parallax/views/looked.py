"""Asks the table of progress about one partition between two times, by SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from parallax.model import TopicPartition
from parallax.views.tables import PROGRESS, RECORDED_ON, rust_uri

_EPOCH = datetime.fromtimestamp(0, UTC)


def within(place: TopicPartition, since: datetime, until: datetime) -> str:
    """The condition that rows of progress are of a partition, and of a time; files of other times are not opened.

    Args:
        place: the partition.
        since: the first moment, UTC.
        until: the last one.
    """
    topic = place.topic.replace("'", "''")
    return f"""{RECORDED_ON} BETWEEN DATE '{since.date()}' AND DATE '{(until + timedelta(days=1)).date()}'
        AND topic = '{topic}' AND "partition" = {int(place.partition)}
        AND observed_at BETWEEN {_literal(since)} AND {_literal(until)}"""


def _literal(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def asker(storage: str) -> Any:
    """What executes SQL about the table ``progress``; None if there is none.

    Returns:
        An object of which ``execute(query)`` gives Arrow batches.

    Raises:
        deltalake.exceptions.DeltaError, OSError: the table cannot be read.
    """
    from deltalake import DeltaTable, QueryBuilder

    uri = rust_uri(storage, PROGRESS)
    if not DeltaTable.is_deltatable(uri):
        return None
    return QueryBuilder().register("progress", DeltaTable(uri))


__all__ = ["asker", "within"]
