"""Finds in the recorded progress when each broker was away, i.e. answered nothing, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from parallax.model import ReadEvent
from parallax.source.repeats import LONGEST_US
from parallax.views.tables import PROGRESS, rust_uri

_APART = timedelta(microseconds=LONGEST_US, minutes=2)
"""If two rows of progress are further apart than this, nothing is known of the time between them."""

# A broker is away in a second in which it gave nobody an answer. Kept are the seconds in which that changes.
_QUERY = f"""WITH seconds AS (
        SELECT broker, date_trunc('second', observed_at) AS at,
            bool_or(problem = '{ReadEvent.UNREACHABLE}') AND NOT bool_or(reachable) AS away
        FROM progress GROUP BY 1, 2
    ),
    beside AS (
        SELECT broker, at, coalesce(away, false) AS away, lag(at) OVER own AS before,
            lag(coalesce(away, false)) OVER own AS was, max(at) OVER (PARTITION BY broker) AS newest
        FROM seconds WINDOW own AS (PARTITION BY broker ORDER BY at)
    )
    SELECT broker, at, away, before, newest FROM beside
    WHERE was IS NULL OR away <> was OR at - before > INTERVAL '{int(_APART.total_seconds())} seconds'
    ORDER BY 1, 2"""  # noqa: S608 - our own words


@dataclass(frozen=True, slots=True)
class Outage:
    """A time during which a broker was away.

    Attributes:
        took: how long the broker did not answer, as far as recorded.
        is_over: whether it has answered since.
    """

    took: timedelta
    is_over: bool


class Turn(NamedTuple):
    """A moment at which the recorded progress first shows a broker away, or first shows it back.

    Attributes:
        at: the moment.
        is_away: whether the broker is away from then on; otherwise it is back.
        before: when the broker was last asked before ``at``; None if it never was.
    """

    at: datetime
    is_away: bool
    before: datetime | None = None


def longest_outages(storage: str) -> dict[int, Outage]:
    """The longest outage of each broker that was ever away, by broker id, to the second.

    It is empty if nothing is recorded.

    Args:
        storage: ``storage.path``.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table of progress cannot be read.
    """
    from deltalake import DeltaTable, QueryBuilder

    if not DeltaTable.is_deltatable(rust_uri(storage, PROGRESS)):
        return {}
    table = DeltaTable(rust_uri(storage, PROGRESS))
    rows = pa.table(QueryBuilder().register("progress", table).execute(_QUERY)).to_pylist()
    found: dict[int, Outage] = {}
    for broker, own in groupby(rows, key=lambda row: int(row["broker"])):
        turns = list(own)
        each = outages([Turn(row["at"], row["away"], row["before"]) for row in turns], turns[-1]["newest"])
        if longest := max(each, key=lambda one: one.took, default=None):
            found[broker] = longest
    return found


def outages(turns: Sequence[Turn], newest: datetime) -> Iterator[Outage]:
    """Yield the times during which one broker was away.

    Args:
        turns: the moments at which the broker went away or came back, in the order of time. The first moment of the
            record, and the first one after each gap in it, are among them even if nothing has changed.
        newest: when the broker was last asked.
    """
    for turn, after in zip(turns, [*turns[1:], None], strict=True):
        if not turn.is_away:
            continue
        if after is None:
            yield Outage(newest - turn.at, is_over=False)
        elif after.before is not None and after.at - after.before > _APART:
            yield Outage(after.before - turn.at, is_over=not after.is_away)
        else:
            yield Outage(after.at - turn.at, is_over=True)


__all__ = ["Outage", "Turn", "longest_outages", "outages"]
