"""Finds offsets that were read so late that a cleaner may have removed something there unseen.

It also keeps all ranges of offsets in the state that are unknown until an audit compares them.

The cleaner keeps a tombstone and an end marker for at least ``delete.retention.ms``. It touches nothing at or above a
replica's last stable offset. So a reader that passes an offset within that time after it was written is shown what was
written there, or what explains its absence. A *bound* (time, offset) says that at that time no replica showed this
offset or a later one. So everything from this offset on was written after that time.

The first reading of a replica may come late. It still leaves nothing unknown if the replica shows every offset, because
then no cleaner was there. See docs/contribute/theory.md, "What is unknown".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import itemgetter

import numpy as np

from parallax.compare.observations import (
    ABORT,
    COMMIT,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORD,
    VIEWS,
    Array,
    ProgressRows,
    ViewRows,
)
from parallax.compare.state import (
    FOLLOWED,
    NEVER,
    NOT_BEGUN,
    UNREAD,
    UNREAD_REASONS,
    WHOLE_SO_FAR,
    PartitionState,
)
from parallax.model import UNKNOWN, UnknownReason

DEFAULT_RETENTION_MS = 86_400_000
"""Kafka's default of ``delete.retention.ms``, for topics whose settings cannot be read."""

MAX_RANGES = 64
"""How many ranges of a view are kept apart; if there are more, the oldest neighbours are joined."""

LATELY = 4
"""A last stable offset counts as the present one if it was reported within ``delete.retention.ms`` divided by this."""

APART_MS = 600_000
"""A bound may be dated at most so many milliseconds later than a reading that was taken in after it.

It may be later at all because a table gets its rows only once all of a micro-batch was read. A bound that is dated
later than this is ignored: its clock was ahead. If ``delete.retention.ms`` / `LATELY` is longer, that counts instead.
"""


Span = tuple[int, int]
"""A first offset, and one past the last."""


@dataclass(slots=True)
class _Said:
    """The last report of a replica on itself: when, how far consumers of each level get, and whether it answered."""

    at: int
    high: int
    stable: int
    reachable: bool


@dataclass(slots=True)
class _Clock:
    """How far a view has been read, and the bounds: one that has been read to, and the next one (see `PARTITION`)."""

    read_to: int
    bound_at: int
    bound: int
    next_bound_at: int
    next_bound: int

    def promote(self) -> None:
        """A bound that has been read to holds for all that is read from now on."""
        if self.next_bound_at != UNKNOWN and self.read_to >= self.next_bound:
            self.bound_at, self.bound = self.next_bound_at, self.next_bound
            self.next_bound_at = UNKNOWN

    def in_time_from(self, at: int, retention: int) -> int:
        """The offset from which on what is read now was written within the retention; `NEVER` where none is known.

        How old a bound is that is of a clock that was ahead nobody knows.
        """
        usable = (offset for since, offset in self._bounds() if _says_when(since, at, retention))
        return min(usable, default=NEVER)

    def has_outlived_one(self, at: int, retention: int) -> bool:
        """Whether a bound is known that is older than that, or of a clock that was ahead."""
        return any(not _says_when(since, at, retention) for since, _ in self._bounds())

    @property
    def has_bound(self) -> bool:
        """Whether any bound is known, however old it is."""
        return bool(self._bounds())

    def is_bound_below(self, offset: int) -> bool:
        """Whether a bound is known, and an offset is not below it."""
        return any(bound <= offset for _, bound in self._bounds())

    def _bounds(self) -> list[tuple[int, int]]:
        bounds = ((self.bound_at, self.bound), (self.next_bound_at, self.next_bound))
        return [one for one in bounds if one[0] != UNKNOWN]


def _says_when(since: int, at: int, retention: int) -> bool:
    """Whether what is read at a time may be dated by a bound: it is neither too old nor of a clock that was ahead."""
    return -max(retention // LATELY, APART_MS) <= at - since <= retention


_HELD = (RECORD, COMMIT, ABORT)
"""Kinds of rows that show what a replica holds at an offset."""

_CLOCK = tuple(field.name for field in fields(_Clock))


@dataclass(frozen=True, slots=True)
class _Position:
    """A position row, as plain numbers: there are a few in a step, which numpy would make slow."""

    row: int
    view: int
    slot: int
    offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class _Tick:
    """A row of progress, in the same way; ``policy_at`` is of the clock that dates what is read."""

    slot: int
    policy_at: int
    answered: bool
    leads: bool
    high_watermark: int
    last_stable_offset: int


def take_in(
    state: PartitionState,
    rows: ViewRows,
    row_slots: Array,
    progress: ProgressRows,
    full: Span = (0, 0),
    *,
    from_log_start: bool,
) -> None:
    """Mark offsets as unknown if they were read too late: the cleaner may have removed something there by then.

    For each replica, it compares when offsets were written and when they were read. Call it before
    `parallax.compare.replicas.take_in_positions`.

    Args:
        state: the partition's state; its unknown ranges are changed.
        rows: rows of the views.
        row_slots: for each row, the slot of its replica (the index of its broker in ``state.brokers``); -1 for none.
        progress: progress rows.
        full: a range of offsets whose rows are not in ``rows``, although every reader was shown a record or an end
            marker at each of them: its first offset, and one past its last. By default empty.
        from_log_start: whether readers begin at the log start. If not, offsets below where they begin do not become
            unknown.
    """
    events: list[tuple[int, _Tick | _Position]] = [*_ticks(state, progress), *_positions(rows, row_slots)]
    if not events:
        return
    follower = _Follower(state, rows, _retention(state, progress), full, from_log_start=from_log_start)
    # Sorting keeps the order of those at one time: progress comes first.
    for at, event in sorted(events, key=itemgetter(0)):
        if isinstance(event, _Tick):
            follower.tick(at, event)
        else:
            follower.position(at, event)
        follower.follow_dated()
    follower.store()


def may_lack_end(state: PartitionState, start: int, end: int) -> bool:
    """Whether an end marker between ``start`` and ``end`` may have been cleaned before anybody read it.

    Then a transaction with a record at ``start`` may have ended anywhere up to the marker at ``end``.

    Args:
        state: the partition's state.
        start: offset of a record of the transaction; a marker may lie from the next offset on.
        end: offset of a known end marker of the same producer; the marker in question lies below it.
    """
    # Where nothing was ever compacted, every end marker is there still.
    cleaned_to = min(int(state.partition[name][0]) for name in ("hidden_to", "strict_from"))
    return start + 1 < min(end, cleaned_to)


def _ticks(state: PartitionState, progress: ProgressRows) -> Iterator[tuple[int, _Tick]]:
    of_slot = {broker: slot for slot, broker in enumerate(state.brokers["broker"].tolist())}
    names = ("observed_at", "policy_at", "broker", "reachable", "leader", "high_watermark", "last_stable_offset")
    columns = (getattr(progress, name).tolist() for name in names)
    for at, policy_at, broker, reachable, leader, high_watermark, stable in zip(*columns, strict=True):
        if broker in of_slot:
            answered = reachable and stable != UNKNOWN
            yield at, _Tick(of_slot[broker], policy_at, answered, broker == leader, high_watermark, stable)


def _positions(rows: ViewRows, row_slots: Array) -> Iterator[tuple[int, _Position]]:
    at = np.flatnonzero((rows.kind == POSITION) & (row_slots != UNKNOWN))
    names = ("timestamp", "view", "offset", "high_watermark", "last_stable_offset", "log_start_offset")
    times, views, *numbers = (getattr(rows, name)[at].tolist() for name in names)
    slots = row_slots[at].tolist()
    for time, *fields_ in zip(times, at.tolist(), views, slots, *numbers, strict=True):
        yield time, _Position(*fields_)


def _retention(state: PartitionState, progress: ProgressRows) -> int:
    """The shorter of what was reported before and what is reported now: what was cleaned was cleaned by either."""
    before = int(state.partition["retention_ms"][0])
    said = progress.retention_ms != UNKNOWN
    reported = progress.retention_ms[said]
    known = [int(n) for n in (*reported, before) if n != UNKNOWN]
    if len(reported):
        state.partition["retention_ms"] = reported[np.argmax(progress.observed_at[said])]
    return min(known, default=DEFAULT_RETENTION_MS)


class _Follower:
    """One step's way through what was reported, in plain numbers; `store` puts them back into the state."""

    def __init__(
        self, state: PartitionState, rows: ViewRows, retention: int, full: Span, *, from_log_start: bool
    ) -> None:
        self._state = state
        self._rows = rows
        self._full = full
        self._retention = retention
        self._from_log_start = from_log_start
        brokers = state.brokers
        known = (brokers[name].tolist() for name in ("reported_at", "high_watermark", "stable_told", "reachable"))
        self._said = [_Said(*last) for last in zip(*known, strict=True)]
        self._members = np.flatnonzero(brokers["member"]).tolist()
        self._begun = brokers["begun"].tolist()
        self._positions = brokers["position"].tolist()
        by_view = zip(*(state.partition[name][0].tolist() for name in _CLOCK), strict=True)
        self._clocks = [_Clock(*numbers) for numbers in by_view]
        self._strict_from = int(state.partition["strict_from"][0])
        self._hidden_to = int(state.partition["hidden_to"][0])

    def store(self) -> None:
        state = self._state
        for name in _CLOCK:
            state.partition[name] = [getattr(clock, name) for clock in self._clocks]
        state.brokers["begun"] = self._begun
        state.partition["hidden_to"] = self._hidden_to
        if len(state.unread) > MAX_RANGES:
            state.unread = _bounded(state.unread)

    def tick(self, at: int, tick: _Tick) -> None:
        said = self._said[tick.slot]
        said.reachable = tick.answered
        if tick.answered:
            said.at, said.high, said.stable = at, tick.high_watermark, tick.last_stable_offset
            if tick.leads:
                self._bound(at, tick)

    def follow_dated(self) -> None:
        """A replica that was shown whole up to a bound is followed from then on: later bounds date what it shows."""
        for begun, positions in zip(self._begun, self._positions, strict=True):
            for view in VIEWS:
                if begun[view] == WHOLE_SO_FAR and self._clocks[view].is_bound_below(positions[view]):
                    begun[view] = FOLLOWED

    def _bound(self, at: int, tick: _Tick) -> None:
        """Take in what the leader says: nobody shows anything from its high watermark on.

        Of read_committed, nor from the highest last stable offset on, where all have reported theirs lately.
        """
        lately = self._retention // LATELY
        # Ticks are dated by a clock that may have been ahead when it was started (`SteadyClock`); the settings, which
        # were asked for before, by the one that dates what is read.
        now = tick.policy_at if tick.policy_at != UNKNOWN and at - tick.policy_at > max(lately, APART_MS) else at
        bounds = {READ_UNCOMMITTED: (now, tick.high_watermark), READ_COMMITTED: (now, tick.high_watermark)}
        if self._all_reported(at):
            bounds[READ_COMMITTED] = self._ends(now)[READ_COMMITTED]
        for view, (since, end) in bounds.items():
            clock = self._clocks[view]
            if clock.next_bound_at == UNKNOWN or now - clock.next_bound_at > self._retention:
                clock.next_bound_at, clock.next_bound = since, end
            clock.promote()

    def _all_reported(self, at: int) -> bool:
        """Whether all replicas answer, and have said lately how far they go."""
        lately = at - self._retention // LATELY
        members = [self._said[slot] for slot in self._members]
        return bool(members) and all(m.reachable and m.at != UNKNOWN and m.at >= lately for m in members)

    def _ends(self, now: int) -> dict[int, tuple[int, int]]:
        """By view, how far the replicas went by their last reports, and since when at least none went further."""
        members = [self._said[slot] for slot in self._members]
        since = min(now, *(m.at for m in members))
        return {
            READ_UNCOMMITTED: (since, max(m.high for m in members)),
            READ_COMMITTED: (since, max(m.stable for m in members)),
        }

    def _bound_by_readings(self, at: int) -> None:
        """Before a tick has ever said how far a view goes: what its replicas' own readings have said together."""
        views = [v for v in VIEWS if self._clocks[v].bound_at == self._clocks[v].next_bound_at == UNKNOWN]
        if views and self._all_reported(at):
            ends = self._ends(at)
            for view in views:
                self._clocks[view].next_bound_at, self._clocks[view].next_bound = ends[view]
                self._clocks[view].promote()

    def position(self, at: int, position: _Position) -> None:
        self._bound_by_readings(at)
        if position.last_stable_offset != UNKNOWN:
            self._said[position.slot] = _Said(at, position.high_watermark, position.last_stable_offset, True)
        is_followed = self._begun[position.slot][position.view] == FOLLOWED
        self._begin(at, position)
        self._pass(at, position, is_followed=is_followed)
        # A reader that begins again on another log is not where the one before was.
        self._positions[position.slot][position.view] = position.offset

    def _begin(self, at: int, position: _Position) -> None:
        """What a replica held before it was first read nobody has followed; it is known if it is shown whole.

        A log that was never cleaned is, from its start on; it may take several steps to come to the end of it. Before
        any bound says what was there, this is all that a replica is known by: that of a topic whose first progress, or
        whose first reading of another replica, comes later.
        """
        begun, view, stable = self._begun[position.slot], position.view, position.last_stable_offset
        shown = position.high_watermark if view == READ_UNCOMMITTED else stable
        if begun[view] != FOLLOWED and shown != UNKNOWN:
            end = min(shown, self._clocks[view].in_time_from(at, self._retention))
            start = self._start(position)
            left = self._positions[position.slot][view]
            came_to = start if begun[view] == NOT_BEGUN or left == UNKNOWN else left
            reached = min(position.offset, end)
            is_whole = self._shows_all(position.row, came_to, reached)
            # Where readers begin at the log end, no later step knows where that was.
            if not is_whole or (reached < end and not self._from_log_start):
                add(self._state, view, start, end, UnknownReason.BEFORE_FIRST_READING, at)
                if all(of_replica[view] != FOLLOWED for of_replica in self._begun):
                    self._hide(view, end)
                begun[view], known_to = FOLLOWED, end
            else:
                begun[view], known_to = self._whole(view) if reached == end else WHOLE_SO_FAR, reached
            self._is_read_to(view, known_to)
        if not begun[READ_COMMITTED] and 0 <= stable <= position.log_start_offset:
            # Nothing is committed yet, so that there is nothing to read: it is followed from its beginning.
            begun[READ_COMMITTED] = self._whole(READ_COMMITTED)
            self._is_read_to(READ_COMMITTED, stable)

    def _whole(self, view: int) -> int:
        """How far a replica has been read that is shown whole up to its end, or up to a bound."""
        return FOLLOWED if self._clocks[view].has_bound else WHOLE_SO_FAR

    def _start(self, position: _Position) -> int:
        if self._from_log_start:
            return position.log_start_offset
        mine = (self._rows.view == position.view) & (self._rows.broker == self._rows.broker[position.row])
        # One that comes back with another log is read on where the one before was left, though nothing be left there.
        left = self._positions[position.slot][position.view]
        return int(self._rows.offset[mine].min(initial=NEVER if left == UNKNOWN else left))

    def _is_read_to(self, view: int, offset: int) -> None:
        """Where the first of a view's readings begins to be followed; what lies below is said by `_begin`."""
        clock = self._clocks[view]
        if clock.read_to == UNKNOWN:
            clock.read_to = offset
            clock.promote()

    def _pass(self, at: int, position: _Position, *, is_followed: bool) -> None:
        """Where a reader has come further than any before: was it in time, or, at a first reading, is it shown whole?

        Before any replica has been read, nothing has been passed: a row that says nothing of its log begins nothing.
        """
        clock, offset = self._clocks[position.view], position.offset
        if clock.read_to == UNKNOWN:
            return
        late = min(offset, clock.in_time_from(at, self._retention), self._strict_from)
        if late > clock.read_to and (is_followed or not self._shows_all(position.row, clock.read_to, late)):
            # Before any bound has grown old, nobody can have read for longer than the retention.
            is_gap = is_followed and clock.has_outlived_one(at, self._retention)
            reason = UnknownReason.RETENTION_GAP if is_gap else UnknownReason.BEFORE_FIRST_READING
            add(self._state, position.view, clock.read_to, late, reason, at)
            self._hide(position.view, late)
        clock.read_to = max(clock.read_to, offset)
        clock.promote()

    def _hide(self, view: int, late: int) -> None:
        """What lies below was passed too late by all, its end markers too."""
        if view == READ_UNCOMMITTED:
            self._hidden_to = max(self._hidden_to, late)

    def _shows_all(self, at: int, start: int, end: int) -> bool:
        """Whether the reader of a position row was given something at each offset of a range, in this step.

        A batch that the cleaner has emptied shows nothing of what it held.
        """
        rows, (first, last) = self._rows, self._full
        needed = end - start - max(0, min(end, last) - max(start, first))
        if end <= start or not needed:
            return True
        mine = (rows.view == rows.view[at]) & (rows.broker == rows.broker[at]) & np.isin(rows.kind, _HELD)
        mine &= (rows.offset >= start) & (rows.offset < end) & ((rows.offset < first) | (rows.offset >= last))
        offsets = rows.offset[mine]
        return len(offsets) >= needed and len(np.unique(offsets)) == needed


def add(state: PartitionState, view: int, start: int, end: int, reason: UnknownReason, since: int) -> None:
    """Make a range of offsets unknown for a reason.

    The state keeps the range, and the coverage reports it. Ranges of the same reason that overlap become one.

    Args:
        state: the partition's state; it is changed.
        view: an `IsolationLevel`.
        start: first offset of the range.
        end: one past the last offset of the range.
        reason: why there is no verdict.
        since: when the range was read, milliseconds since 1970 UTC.
    """
    if start >= end:
        return
    table, code = state.unread, UNREAD_REASONS.index(reason)
    same = (table["view"] == view) & (table["reason"] == code) & (table["start"] < end) & (start < table["end"])
    joined = table[same]
    row = (
        view,
        code,
        int(joined["start"].min(initial=start)),
        int(joined["end"].max(initial=end)),
        int(joined["since"].max(initial=since)),
    )
    state.unread = np.concatenate([table[~same], np.array([row], UNREAD)])


def add_offsets(state: PartitionState, view: int, offsets: Array, reason: UnknownReason, since: int) -> None:
    """Make all offsets unknown from the lowest to the highest of the given ones, also those between that are not given.

    Args:
        state: the partition's state; it is changed.
        view: an `IsolationLevel`.
        offsets: the offsets, in any order; nothing changes if there are none.
        reason: why there is no verdict.
        since: when these offsets were read, milliseconds since 1970 UTC.
    """
    if len(offsets):
        add(state, view, int(offsets.min()), int(offsets.max()) + 1, reason, since)


def _bounded(table: Array) -> Array:
    """At most `MAX_RANGES` of each view, in order; neighbours become one where there are more, the oldest first."""
    parts = []
    for view in VIEWS:
        mine = table[table["view"] == view]
        mine = mine[np.lexsort((mine["start"], mine["reason"]))]
        while len(mine) > MAX_RANGES:
            # There are more rows than reasons, so that some neighbours are of one.
            first = int(np.flatnonzero(mine["reason"][1:] == mine["reason"][:-1])[0])
            mine["end"][first] = max(mine["end"][first], mine["end"][first + 1])
            mine["since"][first] = max(mine["since"][first], mine["since"][first + 1])
            mine = np.delete(mine, first + 1)
        parts.append(mine)
    return np.concatenate(parts)


__all__ = ["APART_MS", "DEFAULT_RETENTION_MS", "MAX_RANGES", "add", "add_offsets", "may_lack_end", "take_in"]
