"""How long brokers were away, by what is recorded: the recorded progress says who answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa

from parallax.model import ReadEvent
from parallax.source.repeats import LONGEST_US
from parallax.views.tables import PROGRESS, rust_uri

_STEP = timedelta(minutes=1)
_APART = timedelta(microseconds=LONGEST_US) + 2 * _STEP
"""What lies further apart is not known to be one outage: nothing was recorded in between."""


def longest_outages(storage: str) -> dict[int, timedelta]:
    """The longest outage of each broker that was ever away, to the minute; nothing where nothing is recorded.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    from deltalake import DeltaTable, QueryBuilder

    if not DeltaTable.is_deltatable(rust_uri(storage, PROGRESS)):
        return {}
    query = f"""SELECT broker, date_trunc('minute', observed_at) AS minute, bool_or(reachable) AS answered,
        bool_or(problem = '{ReadEvent.UNREACHABLE}') AS away FROM progress GROUP BY 1, 2 ORDER BY 1, 2"""  # noqa: S608 - our own words
    table = DeltaTable(rust_uri(storage, PROGRESS))
    rows = pa.table(QueryBuilder().register("progress", table).execute(query)).to_pylist()
    by_broker = groupby(rows, key=lambda row: int(row["broker"]))
    found = {broker: longest(_minutes_away(of)) for broker, of in by_broker}
    return {broker: outage for broker, outage in found.items() if outage}


def _minutes_away(rows: Iterable[Mapping[str, Any]]) -> list[datetime | None]:
    """The minutes in which a broker never answered; None for one in which it did."""
    return [row["minute"] if row["away"] and not row["answered"] else None for row in rows]


def longest(minutes: Sequence[datetime | None]) -> timedelta:
    """The longest of the stretches of minutes that follow one another; None parts two of them."""
    found, first, last = timedelta(), None, None
    for minute in minutes:
        if minute is None:
            first = None
            continue
        if first is None or last is None or minute - last > _APART:
            first = minute
        last = minute
        found = max(found, minute - first + _STEP)
    return found


__all__ = ["longest", "longest_outages"]
