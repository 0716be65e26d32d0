"""Decides which rows of a tick are recorded: of a run of equal ticks, only the first and the last are.

A *tick* is a look at all replicas, with a row for each. The comparison learns two things from it: what has changed, and
that nothing had changed until then. While nothing changes, the comparison can wait for the second. When something does,
the last tick before the change is recorded as well, so that nothing is lost.

While a replica is away or a transaction is open, a verdict may depend on how long that lasts. Its first ticks are all
recorded; later ones become rarer, the longer it lasts.

A partition from which the comparison awaits a report (`Coverage.awaits_report`) is recorded with every tick. The newest
row of a replica never becomes older than `LONGEST_US`, or than a fourth of ``delete.retention.ms``. So a reader of the
tables sees that the job still asks, and the comparison can use it (docs/contribute/theory.md).

Pure: no clock, no broker; a partition costs a few operations on arrays.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from parallax.model import UNKNOWN, TopicPartition
from parallax.replica.places import Array
from parallax.source.ticks import NOT_ASKED, Layout, Row, Tick

LONGEST_US = 300_000_000
"""How old the newest row of a replica may become while nothing happens, in microseconds."""

RETENTIONS = 4
"""How many rows of a replica are recorded within ``delete.retention.ms``, at least; the comparison needs that."""

PATIENCE = 2
"""While replicas are out of step and nothing changes, rows are recorded in growing intervals.

Each is the time from the last change to the last recorded row, divided by this number.
"""

CHUNK = 1_000
"""How many partitions are recorded in one tick because their rows are old. If there are more, they take turns."""


class _Told:
    """What was recorded last of each partition, as columns in the order of a layout.

    Attributes:
        layout: the partitions and replicas.
        at: int64[n], when it was recorded; microseconds since 1970 UTC, -1 where nothing counts as recorded.
        since: int64[n], since when replicas answer so, or do not; microseconds since 1970 UTC.
        offsets: see `Tick`.
        listed: see `Tick`.
        silence: see `Tick`.
        is_held: bool[n], whether the last tick only repeated it, and was not recorded.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        blank = Tick.blank(layout, lambda _: [])
        self.at = np.full(len(layout.places), UNKNOWN, np.int64)
        self.since = np.full(len(layout.places), UNKNOWN, np.int64)
        self.offsets, self.listed, self.silence = blank.offsets, blank.listed, blank.silence
        self.is_held = np.zeros(len(layout.places), np.bool_)

    def beside(self, layout: Layout) -> _Told:
        """The same in the order of another layout: what differs there counts as never recorded."""
        moved, at = _Told(layout), layout.same(self.layout)
        new = np.flatnonzero(at != UNKNOWN)
        old, width = at[new], min(layout.width, self.layout.width)  # a slot beyond either is no replica of these
        for name in ("at", "since", "is_held"):
            getattr(moved, name)[new] = getattr(self, name)[old]
        moved.offsets[:, new, :width] = self.offsets[:, old, :width]
        moved.listed[new, :width], moved.silence[new, :width] = self.listed[old, :width], self.silence[old, :width]
        return moved


class Repeats:
    """Chooses the rows of each tick that are recorded, and leaves out rows that only repeat the tick before.

    There is one for each query. It records all of its first tick.
    """

    def __init__(self) -> None:
        self._told: _Told | None = None
        self._last: Tick | None = None
        self._turn_at = UNKNOWN

    def without(self, tick: Tick, awaited: Collection[TopicPartition] = ()) -> list[Row]:
        """Take in the next tick, and return the rows to record now: the tick without rows that repeat the last one.

        Args:
            tick: the whole tick, with all partitions.
            awaited: partitions of which the comparison waits for a report: their rows are recorded even if they repeat
                the tick before.

        Returns:
            Rows of this tick. For a partition that has changed, also its rows of the tick before if they were left out
                then. Sorted by partition, the earlier rows first.
        """
        last, before, told = self._last, self._told, self._told
        if told is None:
            told = _Told(tick.layout)
        elif told.layout is not tick.layout:
            told = told.beside(tick.layout)
        stands = _stands(told, tick)
        repeats = stands & _is_listed_so(told, tick)
        repeats[[i for place in awaited if (i := tick.layout.places.located.get(place)) is not None]] = False
        told.since[~stands] = tick.at()[~stands]
        worth = ~repeats
        worth[self._due(told, tick, repeats)] = True
        held: list[Row] = []
        if last is not None and before is not None:
            held = last.rows_of(_held(before, tick, repeats))
        _take_in(told, tick, worth)
        self._told, self._last = told, tick
        return sorted([*held, *tick.rows_of(np.flatnonzero(worth).tolist())], key=_place)

    def _due(self, told: _Told, tick: Tick, repeats: Array) -> Array:
        """The partitions that are recorded because their newest row is old, although nothing has changed."""
        now = tick.at()
        longest = np.full(len(now), LONGEST_US, np.int64)
        is_known = tick.layout.retention_us != UNKNOWN
        longest[is_known] = np.minimum(longest[is_known], tick.layout.retention_us[is_known] // RETENTIONS)
        wait = np.where(tick.in_step(), longest, np.minimum(longest, (told.at - told.since) // PATIENCE))
        age = now - told.at
        due, soon = repeats & (age >= wait), repeats & (age >= wait / 2)
        if len(now) <= CHUNK:
            # What is due soon is recorded with what is due: one commit instead of many.
            return np.flatnonzero(soon if due.any() else due)
        at, turns = int(now.max(initial=0)), -(-len(now) // CHUNK)
        if not soon.any() or at - self._turn_at < int(longest.min()) / 2 / turns:
            return np.flatnonzero(due)
        self._turn_at = at
        oldest = np.flatnonzero(soon)
        oldest = oldest[np.argsort(told.at[oldest], kind="stable")[:CHUNK]]
        return np.union1d(np.flatnonzero(due), oldest)


def _place(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _stands(told: _Told, tick: Tick) -> Array:
    """bool[n]: whether all replicas of a partition answer as it was recorded last, or fail as it was recorded last."""
    same = (told.offsets == tick.offsets).all(axis=(0, 2)) & (told.silence == tick.silence).all(axis=1)
    alike: Array = same & (told.at != UNKNOWN)
    return alike


def _is_listed_so(told: _Told, tick: Tick) -> Array:
    """bool[n]: whether replicas list open transactions as was recorded; one that was not asked counts as unchanged."""
    listed = (tick.listed == NOT_ASKED) | (tick.listed == told.listed) | ~tick.layout.is_slot
    alike: Array = listed.all(axis=1)
    return alike


def _held(before: _Told, tick: Tick, repeats: Array) -> list[int]:
    """Indexes, in the tick before, of partitions whose rows were left out then and that have changed now."""
    if before.layout is tick.layout:
        found: list[int] = np.flatnonzero(before.is_held & ~repeats).tolist()
        return found
    at = before.layout.places.among(tick.layout.places)  # of a partition that is gone nothing follows
    followed = before.is_held & (at != UNKNOWN)
    followed[followed] = ~repeats[at[followed]]
    places: list[int] = np.flatnonzero(followed).tolist()
    return places


def _take_in(told: _Told, tick: Tick, worth: Array) -> None:
    """Remember which rows of a tick are recorded."""
    # A replica that was not asked this time has said it before: while its offsets do not move, that is what counts.
    is_told = (tick.listed == NOT_ASKED) & (told.offsets == tick.offsets).all(axis=0)
    told.listed[worth] = np.where(is_told, told.listed, tick.listed)[worth]
    told.is_held = ~worth
    told.at[worth], told.silence[worth] = tick.at()[worth], tick.silence[worth]
    told.offsets[:, worth] = tick.offsets[:, worth]


__all__ = ["CHUNK", "LONGEST_US", "PATIENCE", "RETENTIONS", "Repeats"]
