"""How the offsets of each replica of a partition moved over time, from the table of recorded progress."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from parallax.model import TopicPartition
from parallax.views.looked import within
from parallax.views.tables import PROGRESS, rust_uri

_OFFSETS = ("log_start_offset", "last_stable_offset", "high_watermark")
_ENDS = ("last_stable_offset", "high_watermark")
_BUCKETS = 120
_ALL = 2 * _BUCKETS
"""Up to so many reports of a replica are all kept."""
_HISTORY = timedelta(hours=1)
_LATE = timedelta(minutes=1)
"""How long after it was observed a report may be recorded."""
_LOOKED_AT = 16
"""For how many partitions the rows that were read are kept."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one replica answered about its log at one time (``at``). All offsets are None if it did not answer."""

    at: datetime
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None

    @property
    def answers(self) -> bool:
        """Whether the replica answered at that time."""
        return self.high_watermark is not None


Tracks = Mapping[int, Sequence[Report]]
"""By broker, what its replica reported, in the order of time."""


def recorded(storage: str, place: TopicPartition, since: datetime, until: datetime | None = None) -> Tracks:
    """By broker, what its replica of a partition answered between two times, in the order of time.

    Of many answers only some are kept. They are spread over the time, and taken at the same moments for all replicas.

    Args:
        storage: ``storage.path``.
        place: the partition.
        since: the earlier time.
        until: the later time; the present by default.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    end = until or datetime.now(UTC)
    return _tracks(_rows(storage, place, since, end), since, end)


class Recent:
    """What the replicas of partitions answered in the last hour, for pages that are loaded often.

    It remembers what it has read of a partition, and reads only newer rows the next time.

    Args:
        storage: ``storage.path``.
        clock: returns the present; a test gives its own.
    """

    def __init__(self, storage: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[TopicPartition, tuple[datetime, pa.Table]] = OrderedDict()

    def of(self, place: TopicPartition) -> Tracks:
        """By broker, what its replica of a partition answered in the last hour, in the order of time.

        Raises:
            deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
        """
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

    query = f"""SELECT broker, observed_at, reachable, {", ".join(_OFFSETS)} FROM progress
        WHERE {within(place, since, until)} ORDER BY observed_at"""  # noqa: S608 - names of columns, numbers, and a text in quotes
    table = DeltaTable(rust_uri(storage, PROGRESS))
    return pa.table(QueryBuilder().register("progress", table).execute(query))


def _tracks(rows: pa.Table, since: datetime, until: datetime) -> Tracks:
    """What each replica reported. If there are many reports, those of the same moments, for all replicas.

    The moments are spread evenly, with one on each side of every turn from an answer to none, or back, and one from
    which on an offset stands. If a report of only one replica were kept, the others would seem to lag behind it. A
    silence, or an offset that stands, would seem to begin with the next report that is kept.
    """
    tracks: dict[int, list[Report]] = {}
    for row in rows.to_pylist():
        offsets = (row[name] if row["reachable"] else None for name in _OFFSETS)
        tracks.setdefault(row["broker"], []).append(Report(row["observed_at"], *offsets))
    tracks = dict(sorted(tracks.items()))
    if max(map(len, tracks.values()), default=0) <= _ALL:
        return tracks
    turns = [both for own in tracks.values() for both in pairwise(own) if both[0].answers != both[1].answers]
    turns = turns[:: 1 + len(turns) // _BUCKETS]
    step = (until - since) / _BUCKETS
    moments = {since + step * n for n in range(_BUCKETS + 1)} | {one.at for both in turns for one in both}
    moments |= {_stands_since(own, name) for own in tracks.values() for name in _ENDS}
    return {broker: _in_force(own, moments) for broker, own in tracks.items()}


def _stands_since(own: Sequence[Report], name: str) -> datetime:
    """When an offset was first reported that no later answer differs from."""
    answers = [one for one in own if one.answers] or own
    last = getattr(answers[-1], name)
    moved = next((n for n in range(len(answers) - 1, -1, -1) if getattr(answers[n], name) != last), -1)
    return answers[moved + 1].at


def _in_force(own: Sequence[Report], moments: Iterable[datetime]) -> list[Report]:
    """The first of some reports, the last, and those in force at some moments, in the order of time."""
    kept = {0, len(own) - 1} | {bisect_right(own, moment, key=lambda one: one.at) - 1 for moment in moments}
    return [own[at] for at in sorted(kept) if at >= 0]
