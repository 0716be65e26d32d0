"""Where the offsets of each replica of a partition stood over time, from the recorded progress."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from parallax.model import TopicPartition
from parallax.views.tables import PROGRESS, RECORDED_ON, rust_uri

_OFFSETS = ("log_start_offset", "last_stable_offset", "high_watermark")
_BUCKETS = 120
_EPOCH = datetime.fromtimestamp(0, UTC)
_HISTORY = timedelta(hours=1)
_LATE = timedelta(minutes=1)
"""How long after it was observed something may be recorded."""
_LOOKED_AT = 16
"""Partitions of which what was read is kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one replica said of its log at one time; the offsets are None where it did not answer."""

    at: datetime
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None

    @property
    def answers(self) -> bool:
        """Whether it said anything."""
        return self.high_watermark is not None


Tracks = Mapping[int, Sequence[Report]]
"""By broker, what it reported, in the order of time."""


def recorded(storage: str, place: TopicPartition, since: datetime, until: datetime | None = None) -> Tracks:
    """What the replicas of a partition reported between two times, the present by default, thinned out evenly.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    end = until or datetime.now(UTC)
    return _tracks(_rows(storage, place, since, end), since, end)


class Recent:
    """The same of the last hour, for pages that are loaded again and again: only what is new is read then.

    Args:
        storage: ``storage.path``.
        clock: the present, for tests.
    """

    def __init__(self, storage: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[TopicPartition, tuple[datetime, pa.Table]] = OrderedDict()

    def of(self, place: TopicPartition) -> Tracks:
        """What the replicas of a partition reported; raises what `recorded` raises."""
        now = self._clock()
        since = now - _HISTORY
        with self._lock:
            begin, kept = self._kept.get(place, (since, None))
        new = _rows(self._storage, place, max(begin, since), now)
        if kept is not None:
            at = pc.field("observed_at")
            old = kept.filter((at >= since) & (at < max(begin, since)))
            new = pa.concat_tables([old, new])
        with self._lock:
            self._kept[place] = (now - _LATE, new)
            self._kept.move_to_end(place)
            if len(self._kept) > _LOOKED_AT:
                self._kept.popitem(last=False)
        return _tracks(new, since, now)


def _rows(storage: str, place: TopicPartition, since: datetime, until: datetime) -> pa.Table:
    """What was recorded, in the order of time; files of other times are not opened."""
    from deltalake import DeltaTable, QueryBuilder

    topic = place.topic.replace("'", "''")
    query = f"""SELECT broker, observed_at, reachable, {", ".join(_OFFSETS)} FROM progress
        WHERE {RECORDED_ON} >= DATE '{since.date()}' AND topic = '{topic}' AND "partition" = {int(place.partition)}
        AND observed_at BETWEEN {_literal(since)} AND {_literal(until)} ORDER BY observed_at"""  # noqa: S608 - names of columns, numbers, and a text in quotes
    table = DeltaTable(rust_uri(storage, PROGRESS))
    return pa.table(QueryBuilder().register("progress", table).execute(query))


def _literal(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _tracks(rows: pa.Table, since: datetime, until: datetime) -> Tracks:
    """Of each replica the first and the last report of each stretch of time, of those with an answer and without."""
    step = (until - since) / _BUCKETS
    kept: dict[int, dict[tuple[int, bool, bool], Report]] = {}
    for row in rows.to_pylist():
        report = Report(row["observed_at"], *(row[name] if row["reachable"] else None for name in _OFFSETS))
        own, stretch = kept.setdefault(row["broker"], {}), int((report.at - since) / step)
        is_first = (stretch, report.answers, True) not in own
        own[stretch, report.answers, is_first] = report
    return {broker: sorted(of.values(), key=lambda one: one.at) for broker, of in sorted(kept.items())}
