"""Where the offsets of each replica of a partition stood over time: from the recorded progress to lines."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from parallax.model import TopicPartition
from parallax.views.tables import PROGRESS, RECORDED_ON, rust_uri

SHOWN = {"high_watermark": "High watermark", "last_stable_offset": "Last stable offset"}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900, 180, 80, 22
_BUCKETS = 240
_EPOCH = datetime.fromtimestamp(0, UTC)
_HISTORY = timedelta(hours=1)
_LATE = timedelta(minutes=1)
"""How long after it was observed something may be recorded."""
_LOOKED_AT = 16
"""Partitions of which what was read is kept."""
_SAID_S = 60
"""An offset that has stood for so long is said to stand."""
_STYLES = 6
"""Kinds of lines that can be told apart; page.css has as many."""

Points = Mapping[int, Sequence[tuple[datetime, int]]]
"""By broker, what it reported, in the order of time."""


@dataclass(frozen=True, slots=True)
class Line:
    """The lines of one kind of offset.

    Attributes:
        legend: broker, style, and where it stood last.
    """

    name: str
    svg: Markup
    legend: tuple[tuple[int, int, str], ...]


def recorded(storage: str, place: TopicPartition, since: datetime, until: datetime | None = None) -> dict[str, Points]:
    """What the replicas of a partition reported between two times, the present by default, thinned out evenly.

    Raises:
        deltalake.exceptions.DeltaError, OSError, pyarrow.ArrowException: the table cannot be read.
    """
    end = until or datetime.now(UTC)
    return _by_kind(_rows(storage, place, since, end), since, end)


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

    def of(self, place: TopicPartition) -> dict[str, Points]:
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
        return _by_kind(new, since, now)


def _rows(storage: str, place: TopicPartition, since: datetime, until: datetime) -> pa.Table:
    """What was recorded, in the order of time; files of other times are not opened."""
    from deltalake import DeltaTable, QueryBuilder

    topic = place.topic.replace("'", "''")
    query = f"""SELECT broker, observed_at, {", ".join(SHOWN)} FROM progress
        WHERE {RECORDED_ON} >= DATE '{since.date()}' AND topic = '{topic}' AND "partition" = {int(place.partition)}
        AND reachable AND observed_at BETWEEN {_literal(since)} AND {_literal(until)} ORDER BY observed_at"""  # noqa: S608 - names of columns, numbers, and a text in quotes
    table = DeltaTable(rust_uri(storage, PROGRESS))
    return pa.table(QueryBuilder().register("progress", table).execute(query))


def _literal(at: datetime) -> str:
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _by_kind(rows: pa.Table, since: datetime, until: datetime) -> dict[str, Points]:
    listed = rows.to_pylist()
    return {name: _thinned(listed, name, since, (until - since) / _BUCKETS) for name in SHOWN}


def _thinned(rows: Sequence[Mapping[str, Any]], name: str, since: datetime, step: timedelta) -> Points:
    """The last of each stretch of time."""
    kept: dict[int, dict[int, tuple[datetime, int]]] = {}
    for row in rows:
        if row[name] is not None:
            stretch = int((row["observed_at"] - since) / step)
            kept.setdefault(row["broker"], {})[stretch] = (row["observed_at"], row[name])
    return {broker: list(of.values()) for broker, of in sorted(kept.items())}


def drawn(shown: Mapping[str, Points]) -> list[Line]:
    """The lines of all kinds of offsets of which anything was recorded."""
    return [_line(SHOWN[name], points) for name, points in shown.items() if points]


def _line(name: str, points: Points) -> Line:
    every = [point for own in points.values() for point in own]
    begin, end = min(at for at, _ in every), max(at for at, _ in every)
    low, high = min(offset for _, offset in every), max(offset for _, offset in every)
    seconds, span = max((end - begin).total_seconds(), 1.0), max(high - low, 1)

    def x(at: datetime) -> float:
        return _LEFT + (at - begin).total_seconds() / seconds * (_WIDTH - _LEFT - 10)

    def y(offset: int) -> float:
        return (_HEIGHT - _BOTTOM) - (offset - low) / span * (_HEIGHT - _BOTTOM - 14)

    legend = tuple((b, i % _STYLES, _stands(own, end)) for i, (b, own) in enumerate(points.items()))
    said = escape(f"{name} over time. " + "; ".join(f"broker {b}: {text}" for b, _, text in legend))
    lines = [
        f'<polyline class="line-{style}" points="{_steps([(x(at), y(o)) for at, o in points[broker]])}"/>'
        for broker, style, _ in legend
    ]
    texts = [
        _text(_LEFT - 6, y(high) + 4, f"{high:,}", "end"),
        _text(_LEFT - 6, y(low), f"{low:,}", "end") if high > low else "",
        _text(_LEFT, _HEIGHT - 5, f"{begin:%H:%M:%S}", "start"),
        _text(_WIDTH - 10, _HEIGHT - 5, f"{end:%H:%M:%S} UTC", "end"),
    ]
    box = f'<svg class="timeline" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{said}">'
    return Line(name, Markup(box + "".join(lines + texts) + "</svg>"), legend)  # noqa: S704 - numbers and escaped text


def _steps(at: Sequence[tuple[float, float]]) -> str:
    """An offset stands until the next one was reported."""
    made = [at[0]]
    for (_, before), (x, y) in pairwise(at):
        made += [(x, before), (x, y)] if y != before else []
    if made[-1] != at[-1]:
        made.append(at[-1])
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in made)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'


def _stands(own: Sequence[tuple[datetime, int]], end: datetime) -> str:
    at, offset = own[-1]
    since = next((a for a, o in own if o == offset), at)
    stood = "" if (end - since).total_seconds() < _SAID_S else f", has stood there since {since:%H:%M:%S}"
    silent = "" if (end - at).total_seconds() < _SAID_S else f", says nothing since {at:%H:%M:%S}"
    return f"{offset:,}{silent or stood}"
