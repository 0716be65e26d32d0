"""Draws up to which offset each replica of a partition goes now.

Each replica has one *lane* for each isolation level: a strip of the drawing. It shows the replica's log, how much of it
consumers may read, and up to where it was read and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from markupsafe import Markup

from parallax.alerting.page.glance import CALM, Partition, Replica
from parallax.alerting.page.legend import BOX, legend
from parallax.findings.in_brief import Freeze
from parallax.model import IsolationLevel

_WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _BAR = 900, 150, 180, 22, 26, 12
_AHEAD = 0.25
"""If the logs are much longer than what differs, this share of the width shows the lower offsets."""

_LEAST = 100
"""The wider part of the scale has at least this many offsets. So a gap of one or two is not drawn large."""
LEGEND = legend(
    "lanes",
    {
        "mark": ('path d="M12 0v14"', "end of what consumers may read; its offset is at the right"),
        "held": (BOX, "what consumers may read"),
        "log": (BOX, "below the high watermark, not stable yet: a transaction is open"),
        "done": ('rect x="1" y="7" width="22" height="5"', "compared with the other replicas"),
        "read": ('path d="M8 4h8l-4 6z"', "read by Parallax up to here"),
        "lag": (BOX, "behind the furthest replica, as replication always is"),
        "lag alarm": (BOX, "behind it, and somebody has to look: the table has its state"),
        "focus": ('path d="M12 0v14"', "from here on the scale is wider"),
    },
)
"""What is drawn in a lane, and what it means."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The offsets of one replica at one isolation level that a lane shows.

    Attributes:
        broker: id of the replica's broker.
        isolation: how the consumers read.
        start: the replica's log start offset.
        end: the offset up to which these consumers may read: the high watermark or the last stable offset.
        high_watermark: the replica's high watermark.
        read: the next offset that Parallax reads; None if it is not known.
        compared: the offset below which all replicas have been compared; None if nothing has been.
        behind: by how many offsets ``end`` is below the highest ``end`` of all replicas.
        is_calm: whether nobody has to act, by the replica's state. A few offsets behind are normal, for example.
        unseen: why the job does not know the replica's present offsets, so that these are old; empty if they are new.
        frozen: since when, by an open finding, these consumers are given nothing new; None if no finding says so.
    """

    broker: int
    isolation: IsolationLevel
    start: int
    end: int
    high_watermark: int
    read: int | None
    compared: int | None
    behind: int
    is_calm: bool
    unseen: str = ""
    frozen: datetime | None = None

    @property
    def text(self) -> str:
        """What the lane shows, as a sentence for readers who do not see the drawing."""
        name = "last stable offset" if self.isolation is IsolationLevel.READ_COMMITTED else "high watermark"
        said = [f"log start offset {self.start:,}", f"{name} {self.end:,}"]
        if self.behind:
            said[-1] += f", {self.behind:,} behind the furthest replica"
        if self.frozen is not None:
            said.append(Freeze(self.frozen).in_words)
        said.append("not read yet" if self.read is None else f"read up to {self.read:,}")
        said.append("nothing compared" if self.compared is None else f"compared up to {self.compared:,}")
        unseen = f"not seen, {self.unseen}; last known: " if self.unseen else ""
        return f"Broker {self.broker} as {self.isolation.name.lower()}: {unseen}{', '.join(said)}."


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps offsets to horizontal positions on a drawing: 0 is its left border, 1 its right.

    Offsets from ``focus`` to ``end`` are spread evenly over most of the width. Those from ``start`` to ``focus`` are
    squeezed into the small part at the left.
    """

    start: int
    focus: int
    end: int

    def at(self, offset: int) -> float:
        """The horizontal position of ``offset``, between 0 and 1.

        An offset below or above the scale is at its border.
        """
        low = _AHEAD if self.focus > self.start else 0.0
        if offset < self.focus:
            return low * max(0, offset - self.start) / (self.focus - self.start) if low else 0.0
        return low + (1 - low) * min(1.0, (offset - self.focus) / max(1, self.end - self.focus))


def lanes(partition: Partition) -> list[Lane]:
    """The lanes of a partition, two for each replica whose offsets are known, by broker."""
    made = []
    for level in IsolationLevel:
        ends = {b: _end(replica, level) for b, replica in partition.replicas.items()}
        furthest = max((end for end in ends.values() if end is not None), default=0)
        compared = partition.compared_up_to[level] if partition.compared_up_to else None
        for broker, replica in partition.replicas.items():
            start, end, mark = replica.log_start_offset, ends[broker], replica.high_watermark
            if start is not None and end is not None and mark is not None:
                is_committed = level is IsolationLevel.READ_COMMITTED
                read = replica.read_committed if is_committed else replica.read_uncommitted
                frozen = replica.frozen if is_committed else None
                calm, unseen = replica.state in CALM, replica.unseen
                made.append(Lane(broker, level, start, end, mark, read, compared, furthest - end, calm, unseen, frozen))
    return sorted(made, key=lambda lane: (lane.broker, lane.isolation))


def scale(shown: Sequence[Lane]) -> Scale:
    """A scale for some lanes that is wide where they differ.

    So a gap of a few offsets can be seen, even at the end of a log of millions.
    """
    start, end = min(lane.start for lane in shown), max(lane.high_watermark for lane in shown)
    marks = [mark for lane in shown for mark in (lane.end, lane.read, lane.compared) if mark is not None]
    low = min(marks)
    span = max(end - low, _LEAST)
    focus = end - span - span // 4
    is_far = low < end and focus - start > end - focus
    return Scale(start, focus if is_far else start, end)


def drawn_lanes(partition: Partition) -> Markup:
    """The lanes of a partition as one SVG image, which contains their text. Empty if no offsets are known."""
    shown = lanes(partition)
    if not shown:
        return Markup("")
    on = scale(shown)
    height = _TOP + _LANE * len(shown) + 16
    said = escape("Offsets of each replica. " + " ".join(lane.text for lane in shown))
    parts = [_lane(lane, on, _TOP + _LANE * i) for i, lane in enumerate(shown)]
    parts += [_text(_LEFT, 12, f"{on.start:,}", "start"), _text(_WIDTH - _RIGHT, 12, f"{on.end:,}", "end")]
    if on.focus > on.start:
        x = _x(on, on.focus)
        parts.append(f'<path class="focus" d="M{x:.1f} 16V{height - 16}"/>')
        parts.append(_text(x, 12, f"{on.focus:,}", "middle"))
    box = f'<svg class="timeline lanes" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{said}">'
    return Markup(box + "".join(parts) + "</svg>")  # noqa: S704 - numbers and escaped text


def _end(replica: Replica, level: IsolationLevel) -> int | None:
    return replica.last_stable_offset if level is IsolationLevel.READ_COMMITTED else replica.high_watermark


def _lane(lane: Lane, on: Scale, y: int) -> str:
    furthest = lane.end + lane.behind
    parts = [
        _text(_LEFT - 8, y + _BAR - 1, f"{lane.broker} {lane.isolation.name.lower()}", "end"),
        _bar("log", on, lane.start, lane.high_watermark, y, _BAR),
        _bar("held", on, lane.start, lane.end, y, _BAR),
        _bar("lag" if lane.is_calm else "lag alarm", on, lane.end, furthest, y, _BAR) if lane.behind else "",
        _bar("done", on, lane.start, min(lane.compared or 0, lane.end), y + _BAR // 2, _BAR // 2),
        f'<path class="mark" d="M{_x(on, lane.end):.1f} {y - 3}v{_BAR + 6}"/>',
    ]
    if lane.read is not None:
        x = _x(on, lane.read)
        parts.append(f'<path class="read" d="M{x - 4:.1f} {y - 5}h8l-4 6z"/>')
    behind = f", {lane.behind:,} behind" if lane.behind else ""
    frozen = ", frozen" if lane.frozen is not None else ""
    unseen = " when last seen" if lane.unseen else ""
    parts.append(_text(_WIDTH - _RIGHT + 8, y + _BAR - 1, f"{lane.end:,}{behind}{frozen}{unseen}", "start"))
    return "".join(parts)


def _bar(name: str, on: Scale, start: int, end: int, y: int, height: int) -> str:
    x, width = _x(on, start), _x(on, end) - _x(on, start)
    return f'<rect class="{name}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"/>' if width > 0 else ""


def _x(on: Scale, offset: int) -> float:
    return _LEFT + on.at(offset) * (_WIDTH - _LEFT - _RIGHT)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'
