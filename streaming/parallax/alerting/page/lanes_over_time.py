"""Draws how far consumers could read each replica over time, in one *lane* for each isolation level.

A lane is a strip of the drawing, e.g. of ``broker 3, read_committed``. It shows the replica's log, how much of it
consumers may read, and how far it was compared. All lanes of a partition have the same scale. Each also has the line of
the furthest replica. So the line of a frozen replica runs level, and the gap to the furthest replica grows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise

from markupsafe import Markup

from parallax.alerting.page.compared import Steps
from parallax.alerting.page.legend import BOX, LEVEL, legend
from parallax.alerting.page.timeline import Report, Tracks
from parallax.findings.in_brief import Freeze, standing_freeze
from parallax.model import IsolationLevel

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 900, 76, 6, 6
_LEAST = 100
"""A lane is at least this many offsets high. So a gap of one or two is not drawn large."""
_SAID_S = 60
"""An offset that has not moved for this many seconds counts as stuck."""
_EVERY = timedelta(minutes=5)
LEGEND = legend(
    "over",
    {
        "mark": (LEVEL, "how far consumers may read"),
        "held": (BOX, "what consumers may read"),
        "log": (BOX, "below the high watermark, not stable yet: a transaction is open"),
        "done": (LEVEL, "compared with the other replicas up to here"),
        "furthest": (LEVEL, "how far the furthest replica is"),
        "lag": (BOX, "behind the furthest replica"),
        "lag alarm": (BOX, "behind it, and frozen then: it did not move, and others had gone on"),
        "gap": (BOX, "the broker did not answer"),
    },
)
"""What is drawn in a lane, and what it means."""

Value = tuple[datetime, int | None]
"""A time, and the offset of a line from then on; None if the replica did not answer."""


@dataclass(frozen=True, slots=True)
class Lane:
    """How far consumers could read one replica at one isolation level, over time.

    Attributes:
        broker: id of the replica's broker.
        isolation: how the consumers read.
        reports: what the replica reported, in the order of time.
        end: over time, the offset up to which consumers may read: the high watermark or the last stable offset.
        furthest: over time, that offset on the replica where it is highest.
        compared: over time, the offset up to which all replicas had been compared.
        said: in a few words, where ``end`` is now, how far behind, and whether it moves.
        is_stuck: whether a finding says that the replica is frozen, or ``end`` has not moved for a minute and is behind
            ``furthest``.
        stuck: the periods in which the replica was stuck, from when until when. None means until the lane's end.
    """

    broker: int
    isolation: IsolationLevel
    reports: Sequence[Report]
    end: Sequence[Value]
    furthest: Sequence[Value]
    compared: Sequence[Value]
    said: str
    is_stuck: bool
    stuck: Sequence[tuple[datetime, datetime | None]] = ()

    @property
    def name(self) -> str:
        """The lane's name, such as ``broker 3, read_committed``."""
        return f"broker {self.broker}, {self.isolation.name.lower()}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The lanes of a partition, drawn.

    Attributes:
        lanes: each lane with its SVG image, which contains its text for readers who do not see it.
        begin: the time at the left border of all images.
        end: the time at their right border.
        low: the lowest offset of the scale.
        high: the highest offset of the scale.
        times: the rows of the table that says the same in numbers: one time each.
        values: for each row, the text of each lane.
    """

    lanes: Sequence[tuple[Lane, Markup]]
    begin: datetime
    end: datetime
    low: int
    high: int
    times: Sequence[datetime]
    values: Sequence[Sequence[str]]


def lanes_over_time(
    tracks: Tracks, compared: Steps = (), frozen: Mapping[int, Sequence[Freeze]] | None = None
) -> list[Lane]:
    """The lanes of a partition, two for each replica that has reported offsets.

    Args:
        tracks: by broker, what its replica reported over time.
        compared: over time, how far the partition was compared.
        frozen: by broker, the periods in which findings say that its replica gave read_committed consumers nothing new
            (`parallax.findings.in_brief.freezes`).
    """
    known = {IsolationLevel.READ_COMMITTED: frozen or {}}
    ends = {level: {b: _end_of(own, level) for b, own in tracks.items()} for level in IsolationLevel}
    furthest = {level: _furthest(list(own.values())) for level, own in ends.items()}
    upto: dict[IsolationLevel, list[Value]] = {level: [(at, steps[level]) for at, steps in compared] for level in ends}
    last = max((own[-1].at for own in tracks.values() if own), default=None)
    made = []
    for broker, own in tracks.items():
        for level in IsolationLevel:
            end = ends[level][broker]
            if last is not None and any(value is not None for _, value in end):
                freezes = known.get(level, {}).get(broker, ())
                now = standing_freeze(freezes)
                said, is_stuck = _stands(end, furthest[level], last, now)
                over = [one for one in freezes if one.until is not None and one.until > own[0].at]
                stuck = [(_stood_since(end, one.since), one.until) for one in ([now] if now else []) + over]
                if is_stuck and now is None:
                    stuck.append((_stood_since(end, last), None))
                said = ", ".join((said, *(one.in_words for one in over)))
                made.append(Lane(broker, level, own, end, furthest[level], upto[level], said, is_stuck, stuck))
    return made


def drawn_over_time(lanes: Sequence[Lane]) -> Drawn | None:
    """Draw lanes: an image for each, and one table of the same values. None if there are no lanes."""
    if not lanes:
        return None
    begin = min(lane.reports[0].at for lane in lanes)
    end = max(at for lane in lanes for at in (lane.reports[-1].at, *(at for at, _ in lane.compared[-1:])))
    low, high = _scale(lanes)
    on = _Axes(begin, max((end - begin).total_seconds(), 1.0), low, max(high - low, _LEAST))
    step = max(_EVERY, (end - begin) / 12)
    times = [begin + step * i for i in range(int((end - begin) / step))] + [end]
    values = [[_value(lane, at) for lane in lanes] for at in times]
    return Drawn(
        [(lane, _drawn(lane, on, end)) for lane in lanes], begin, end, low, max(high, low + _LEAST), times, values
    )


def _end_of(own: Sequence[Report], level: IsolationLevel) -> list[Value]:
    is_committed = level is IsolationLevel.READ_COMMITTED
    return [(one.at, one.last_stable_offset if is_committed else one.high_watermark) for one in own]


def at_time(values: Sequence[Value], at: datetime) -> int | None:
    """The offset that a lane's line had at a time: the last value at or before it.

    None if there is none, or if the replica did not answer then.

    Args:
        values: the values of the line, in the order of time.
        at: the time.
    """
    found = bisect_right(values, at, key=lambda value: value[0])
    return values[found - 1][1] if found else None


def _furthest(every: Sequence[Sequence[Value]]) -> list[Value]:
    times = sorted({at for own in every for at, _ in own})
    found = [(at, [o for own in every if (o := at_time(own, at)) is not None]) for at in times]
    return [(at, max(offsets, default=None)) for at, offsets in found]


def _stands(own: Sequence[Value], furthest: Sequence[Value], last: datetime, frozen: Freeze | None) -> tuple[str, bool]:
    at, offset = own[-1]
    known = () if frozen is None else (frozen.in_words,)
    if offset is None:
        since = next(a for a, later in _tail(own) if later is None)
        return ", ".join((f"does not answer since {since:%H:%M:%S}", *known)), frozen is not None
    behind = max(0, (furthest[-1][1] or 0) - offset)
    said = [f"{offset:,}", *([f"{behind:,} behind the furthest replica"] if behind else []), *known]
    if (last - at).total_seconds() >= _SAID_S:
        return ", ".join((*said, f"says nothing since {at:%H:%M:%S}")), frozen is not None
    answered = [one for one in own if one[1] is not None]
    since = _tail(answered)[0][0]
    if frozen is not None or (last - since).total_seconds() < _SAID_S:
        return ", ".join(said), frozen is not None
    longer = " or longer" if since == answered[0][0] else ""
    return ", ".join((*said, f"has not moved since {since:%H:%M:%S}{longer}")), behind > 0


def _stood_since(own: Sequence[Value], at: datetime) -> datetime:
    """Since when an offset had stood at a time as it did then."""
    answered = [one for one in own if one[1] is not None and one[0] <= at]
    return _tail(answered)[0][0] if answered else own[0][0]


def _tail(own: Sequence[Value]) -> Sequence[Value]:
    """The values at the end that are as the last is."""
    first = len(own)
    while first and own[first - 1][1] == own[-1][1]:
        first -= 1
    return own[first:]


def _scale(lanes: Sequence[Lane]) -> tuple[int, int]:
    """The offsets that are drawn: those in which anything happened, and some below; all of a log that is short."""
    marks = [o for lane in lanes for _, o in (*lane.end, *lane.compared) if o is not None]
    marks += [one.high_watermark for lane in lanes for one in lane.reports if one.high_watermark is not None]
    starts = [one.log_start_offset for lane in lanes for one in lane.reports if one.log_start_offset is not None]
    low, high = min(marks), max(marks)
    span = max(high - low, _LEAST)
    start = min(starts, default=0)
    return (start if start >= low - span else low - span // 4), high


@dataclass(frozen=True, slots=True)
class _Axes:
    begin: datetime
    seconds: float
    low: int
    span: int

    def x(self, at: datetime) -> float:
        return min(max((at - self.begin).total_seconds() / self.seconds, 0.0), 1.0) * _WIDTH

    def y(self, offset: int) -> float:
        share = min(max((offset - self.low) / self.span, 0.0), 1.0)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _drawn(lane: Lane, on: _Axes, end: datetime) -> Markup:
    starts = [(one.at, one.log_start_offset) for one in lane.reports]
    marks = [(one.at, one.high_watermark) for one in lane.reports]
    parts = [_area("log", starts, marks, on, end), _area("held", starts, lane.end, on, end)]
    bounds = [at for since, until in lane.stuck for at in (since, until or end)]

    def was_stuck(at: datetime) -> bool:
        return any(since <= at < (until or end) for since, until in lane.stuck)

    parts.append(_area("lag", lane.end, lane.furthest, on, end, bounds, lambda at: not was_stuck(at)))
    parts.append(_area("lag alarm", lane.end, lane.furthest, on, end, bounds, was_stuck))
    parts += [_line("furthest", lane.furthest, on, end), _line("done", lane.compared, on, end)]
    parts += [_line("mark", lane.end, on, end), _silence(lane, on, end)]
    box = (
        f'<svg class="timeline over" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label='
    )
    return Markup(f'{box}"{escape(text_of(lane))}">{"".join(parts)}</svg>')  # noqa: S704 - numbers and escaped text


def text_of(lane: Lane) -> str:
    """What a lane's image shows, as a sentence for readers who do not see it."""
    name = "last stable offset" if lane.isolation is IsolationLevel.READ_COMMITTED else "high watermark"
    first = next(o for _, o in lane.end if o is not None)
    upto = next((o for _, o in reversed(lane.compared) if o is not None), None)
    compared = "nothing compared" if upto is None else f"compared up to {upto:,}"
    silent = sum(value is None for _, value in lane.end)
    away = ", with times at which it did not answer" if silent and lane.end[-1][1] is not None else ""
    return f"{lane.name} over time: {name} from {first:,} to {lane.said}{away}; {compared}."


def _stretches(values: Sequence[Value], end: datetime) -> list[tuple[datetime, datetime, int]]:
    """From when until when it had which value: an offset counts until the next report."""
    bounds = [*values, (end, None)]
    return [(at, max(at, until), offset) for (at, offset), (until, _) in pairwise(bounds) if offset is not None]


def _line(name: str, values: Sequence[Value], on: _Axes, end: datetime) -> str:
    made, drawn_to = "", None
    for at, until, offset in _stretches(values, end):
        made += f"{'L' if at == drawn_to else 'M'}{on.x(at):.1f} {on.y(offset):.1f}H{on.x(until):.1f}"
        drawn_to = until
    return f'<path class="{name}" d="{made}"/>' if made else ""


def _area(
    name: str,
    below: Sequence[Value],
    above: Sequence[Value],
    on: _Axes,
    end: datetime,
    bounds: Iterable[datetime] = (),
    is_drawn: Callable[[datetime], bool] = lambda _: True,
) -> str:
    """What lies between two offsets, as far as both are known: one outline for each stretch of time.

    Args:
        name: class of the drawn area.
        below: over time, the lower offset.
        above: over time, the upper offset.
        on: the axes.
        end: where the drawing ends.
        bounds: times at which it may begin or end to be drawn.
        is_drawn: whether it is drawn from one of the times on.
    """
    runs: list[list[tuple[float, float, float, float]]] = [[]]
    times = {at for at, _ in (*below, *above)} | {at for at in bounds if at < end}
    for at, until in pairwise([*sorted(times), end]):
        low, high = at_time(below, at), at_time(above, at)
        if low is not None and high is not None and high > low and until > at and is_drawn(at):
            runs[-1].append((on.x(at), on.x(until), on.y(low), on.y(high)))
        elif runs[-1]:
            runs.append([])
    made = "".join(_outline(run) for run in runs if run)
    return f'<path class="{name}" d="{made}"/>' if made else ""


def _outline(run: Sequence[tuple[float, float, float, float]]) -> str:
    there = "".join(f"V{high:.1f}H{until:.1f}" for _, until, _, high in run)
    back = "".join(f"V{low:.1f}H{at:.1f}" for at, _, low, _ in reversed(run))
    return f"M{run[0][0]:.1f} {run[0][2]:.1f}{there}{back}z"


def _silence(lane: Lane, on: _Axes, end: datetime) -> str:
    gaps: list[tuple[datetime, datetime]] = []
    for (at, offset), (until, _) in pairwise([*lane.end, (end, None)]):
        if offset is None:
            gaps = [*gaps[:-1], (gaps[-1][0], until)] if gaps and gaps[-1][1] == at else [*gaps, (at, until)]
    widths = [(on.x(at), max(on.x(until) - on.x(at), 1.0)) for at, until in gaps]
    return "".join(f'<rect class="gap" x="{x:.1f}" y="0" width="{w:.1f}" height="{_HEIGHT}"/>' for x, w in widths)


def _value(lane: Lane, at: datetime) -> str:
    value, upto = at_time(lane.end, at), at_time(lane.compared, at)
    silent = "no answer" if lane.end[0][0] <= at else "not asked yet"
    said = silent if value is None else f"{value:,}"
    return said if upto is None else f"{said} (compared {upto:,})"
