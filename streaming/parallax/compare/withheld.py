"""Withholds rows while a replica is absent: they stay in the views, and the state keeps only their sums.

While one replica is away or far behind, rows of the others would pile up in the state. So once they are many, rows from
some offset on are *withheld*: the step does not get them, as if they had not been read yet. The state keeps sums of
each reader's rows, by strides of offsets (`parallax.compare.sums`). Withheld rows are compared later, oldest first, in
these cases:

- The replicas that are there show different rows. So a divergence among them is found while another one is away.
- All replicas have passed the rows. If the sums of all are equal, no row is read (`parallax.compare.agreed`). Otherwise
  the rows are read from the views and compared as if they had been read now.
- A difference below them waits for an explanation that may lie among them, and its readers have passed all of that.
- Something is reported that they have to be compared before, such as a truncation of a log that they are of, or that a
  replica is back in the replica set (`is_broken`).
- A replica that is new comes to them. It has to be seen to show all that it held when the reading began (`begun_to`).

Rows that are read from the views must add up to the sums in the state. If they do not, retention has dropped some of
them. Then the comparison of the partition begins again (`parallax.compare.anew`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parallax.compare import going, sums, unread
from parallax.compare.agreed import fits, goes_on
from parallax.compare.blocks import Agreed
from parallax.compare.observations import (
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Array,
    Observations,
    ViewRows,
)
from parallax.compare.replicas import read_at, read_to, slots
from parallax.compare.state import CONTENT, INTERVAL, MARKER, NEVER, PENDING, SUM, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.suspect import Suspect
from parallax.compare.withholding import (
    WithholdingLimits,
    awaited,
    begun,
    begun_to,
    is_broken,
    last_of_readers,
    room,
    waiting,
    worth,
)
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, UnknownReason
from parallax.replica.digests import Digests


class RowsGoneError(LookupError):
    """Withheld rows that have to be compared now are no longer in the views."""


Places = tuple[int, int]
"""Two times of commits (`parallax.views.order`): what was recorded after the first and up to the second."""

Rows = Callable[[Places, int, int], ViewRows]
"""Reads the partition's records and end markers that were recorded within `Places`, in a range of offsets.

Its further arguments are the first offset and one past the last. Each reader's rows are in the order of their offsets.
"""


@dataclass(frozen=True, slots=True)
class Views:
    """Reads one partition's rows from the views, as they are at the end of a micro-batch.

    Attributes:
        until: the time of the last commit in the micro-batch (`parallax.views.order`).
        rows: reads the partition's rows in a range of offsets.
        key: the 16 secret bytes with which the views' keys and contents are hashed; withheld rows are added up by it.
    """

    until: int
    rows: Rows
    key: bytes = bytes(16)


def compare(
    state: PartitionState,
    seen: Observations,
    settings: CompareSettings,
    now_ms: int,
    views: Views,
    *,
    limits: WithholdingLimits | None = None,
    **options: Any,
) -> StepResult:
    """Compare a micro-batch of one partition, and withhold its rows while a replica is absent.

    Rows may be withheld before the call, and after it. If withheld rows are needed now, they are read and compared.

    Args:
        state: the state after the micro-batch before; not changed.
        seen: what this micro-batch showed.
        settings: for the grace period and the cap of the state.
        now_ms: milliseconds since 1970 UTC.
        views: reads withheld rows again, when they are needed.
        limits: how many rows must wait before any are withheld; None for the defaults.
        options: further arguments of `parallax.compare.step.step`.

    Returns:
        The new state, the suspects, and the coverage.

    Raises:
        RowsGoneError: rows that were withheld and are needed are no longer in the views.
        OSError: the views cannot be read.
    """
    limits = limits or WithholdingLimits()
    if not is_withholding(state):
        result = step(state, seen, settings, now_ms, **options)
        return replace(result, state=begun(result.state, settings, views.until, limits))
    run = _Run(state, seen, settings, now_ms, views, limits, options)
    reached = NEVER if is_broken(state, seen) else begun_to(state, seen)
    if reached > state.partition["withheld"][0]:
        run.take_up(reached)
    run.step(run.with_what_differs(run.withhold(seen)) if is_withholding(run.state) else seen)
    run.follow()
    run.settle()
    if run.result is None:
        raise AssertionError("a micro-batch has no step")
    return replace(run.result, state=run.state, suspects=run.suspects, unlike=np.concatenate(run.unlike))


def is_withholding(state: PartitionState) -> bool:
    """Whether rows of the partition are withheld now.

    They are then left in the views from some offset on, until they are needed.
    """
    return int(state.partition["withheld"][0]) != NEVER


@dataclass
class _Run:
    """A micro-batch of a partition from which rows are withheld: one step or several."""

    state: PartitionState
    seen: Observations
    settings: CompareSettings
    now_ms: int
    views: Views
    limits: WithholdingLimits
    options: Mapping[str, Any]
    result: StepResult | None = None
    suspects: list[Suspect] = field(default_factory=list)
    unlike: list[Array] = field(default_factory=list)
    moved: dict[int, tuple[Digests, int, bool]] = field(default_factory=dict)
    """By slot, for readers of read_committed: the sums, how far each has come, and whether it is the first."""
    reached: Array | None = None
    """By slot and view, how far each reader had come by the micro-batch before."""

    def step(self, seen: Observations, agreed: Agreed | None = None) -> None:
        self.result = step(self.state, seen, self.settings, self.now_ms, agreed=agreed, **self.options)
        self.state = self.result.state
        self.suspects += self.result.suspects
        self.unlike.append(self.result.unlike)

    @property
    def _key(self) -> bytes:
        return self.views.key if self.state.partition["keyed"][0] else sums.KEY_BEFORE

    # -- adding up ---------------------------------------------------------------------------------------------------

    def withhold(self, seen: Observations) -> Observations:
        """Add up the rows that are withheld of what was seen; returns the rest, all position rows among it."""
        self.state, self.reached = self.state.copy(), read_to(self.state)
        self.state.partition["withheld_until"] = self.views.until
        rows, start = seen.rows, int(self.state.partition["withheld"][0])
        of = slots(self.state, rows.broker)
        is_beyond = (rows.offset >= start) & self.state.brokers["member"][of]
        marks, grain = sums.marks_of(self.state), self.limits.grain
        for slot in np.unique(of[is_beyond]).tolist():
            for view in VIEWS:
                mine = np.flatnonzero(is_beyond & (of == slot) & (rows.view == view))
                if len(mine):
                    self._add(marks, (slot, view), rows.take(mine), start)
        most = min(self.limits.marks, self.settings.state_cap_bytes // 8 // SUM.itemsize)
        sums.store(self.state, sums.thinned(marks, grain, most), grain)
        return replace(seen, rows=rows.take((rows.kind == POSITION) | (rows.offset < start)))

    def _add(self, marks: dict[sums.Reader, Array], reader: sums.Reader, rows: ViewRows, start: int) -> None:
        known = marks.get(reader, self.state.recent_sums[:0])
        is_row = rows.kind != POSITION
        shown = rows.take(is_row & (rows.offset >= (int(known["end"][-1]) if len(known) else start)))
        shown = shown.take(np.argsort(shown.offset, kind="stable"))
        reached = int((rows.offset + is_row).max())
        if reached > start:
            digests = sums.digested(shown, self.limits.grain, self._key)
            marks[reader] = sums.added(known, reader, shown, digests, reached)
            if reader[1] == READ_COMMITTED:
                self.moved[reader[0]] = digests, reached, not len(known)

    def follow(self) -> None:
        """Follow the transactions over the rows that were withheld, once what comes before them has been taken in."""
        lowest = int(read_to(self.state)[self.state.brokers["member"], READ_COMMITTED].min())
        for slot, (digests, reached, is_first) in self.moved.items() if is_withholding(self.state) else ():
            table = self.state.going
            before = going.of_state(self.state, slot) if is_first else going.last(table, slot)
            if before is not None:
                is_ahead = reached > lowest
                self.state.going = going.followed(
                    table, slot, before, digests, reached, self.limits.grain, is_ahead=is_ahead
                )

    def with_what_differs(self, seen: Observations) -> Observations:
        """With all rows that were withheld, if readers did not show the same, or what is judged by itself.

        Nothing is withheld then any more. Where there is no room for the rows, it is found once all are back.
        """
        marks, start = sums.marks_of(self.state), int(self.state.partition["withheld"][0])
        is_odd = sums.counted(marks, "odd", np.array([NEVER]))[0] > 0
        if not is_odd and not sums.differ(marks, start):
            return seen
        self.state.partition["differed"] = True
        if waiting(self.state) + self._size(marks) > worth(self.state, self.settings, self.limits):
            return seen
        furthest = max(int(its["end"][-1]) for its in marks.values())
        found = self._read(marks, start, furthest)
        # How far readers come now they report in the same step, and what they have met on the way.
        self._go_to(marks, furthest, self.reached)
        self.state.partition["withheld"] = NEVER
        # Behind what its reader has reported, such as that its log was truncated, and before how far it has come.
        is_last = np.isin(np.arange(len(seen.rows)), last_of_readers(seen.rows))
        parts = [seen.rows.take(~is_last), found, seen.rows.take(is_last)]
        return replace(seen, rows=ViewRows.concat(parts))

    def _size(self, marks: Mapping[sums.Reader, Array], end: int = NEVER) -> int:
        """How many bytes of the state withheld rows below an offset would take, if replicas show nearly the same."""
        last = {reader: sums.at(its, np.array([end]))[0] for reader, its in marks.items()}
        most = {
            view: max((int(row["rows"]) for (_, of), row in last.items() if of == view), default=0) for view in VIEWS
        }
        # A transaction has at least a record and an end marker, which is kept once; each replica has an interval of it.
        ended = max(int(row["transactional"]) for row in last.values()) // 2
        ends = ended * (MARKER.itemsize + len({slot for slot, _ in last}) * INTERVAL.itemsize)
        return most[READ_UNCOMMITTED] * CONTENT.itemsize + most[READ_COMMITTED] * PENDING.itemsize + ends

    # -- taking up again ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take up what can be judged by now."""
        self._settle_awaited()
        strides = 1
        while is_withholding(self.state):
            start = int(self.state.partition["withheld"][0])
            marks, reached = sums.marks_of(self.state), read_to(self.state)[self.state.brokers["member"]]
            passed = int(reached.min(initial=NEVER))
            if passed > start and self._agree(marks, start):
                strides = 1
            elif not self._is_late(marks):
                self.take_up(NEVER)
            elif passed > start:
                cut = self._next(marks, start, strides, passed)
                self.take_up(cut if cut > start else passed)
                strides *= 2
            else:
                return

    def _settle_awaited(self) -> None:
        """Take up the rows that may explain what waits below them; if there is no room, that is left to an audit."""
        while is_withholding(self.state) and (found := awaited(self.state))[1] != UNKNOWN:
            at, marks = found[0], sums.marks_of(self.state)
            end = self._up(marks, found[1])
            if waiting(self.state) + self._size(marks, end) <= room(self.settings):
                self.take_up(end)
                continue
            # Rows that are written meanwhile might explain them later. What is judged early is pending as well.
            self.state = state = self.state.copy()
            unread.add_offsets(
                state, READ_COMMITTED, state.candidates["offset"][at], UnknownReason.DEFERRED, read_at(state)
            )
            state.candidates = np.delete(state.candidates, at)
            return

    def _is_late(self, marks: Mapping[sums.Reader, Array]) -> bool:
        """Whether rows were withheld of either view that a replica is far from, or is not yet nearly through with."""
        reached, member = read_to(self.state), self.state.brokers["member"]
        start, left = int(self.state.partition["withheld"][0]), 0
        for view in VIEWS:
            mine = {reader: its for reader, its in marks.items() if reader[1] == view}
            passed = int(reached[member, view].min(initial=NEVER))
            below, whole = sums.counted(mine, "rows", np.array([passed, NEVER]))
            if passed < start and whole:
                return True
            left += whole - below
        return bool(left > self.limits.few)

    def _next(self, marks: Mapping[sums.Reader, Array], start: int, strides: int, reached: int) -> int:
        """Where the rows end that are taken up next: some strides on, not many rows, not beyond what all have passed.

        It is ``start`` if no end of a stride is known in between.
        """
        grain = self.limits.grain
        last = grain.down(min(start + (strides << grain.stride), reached))
        cuts = sums.stride_ends(marks, grain, grain.up(start + 1), last)
        cuts = cuts[(cuts > start) & (cuts <= reached)]
        if not len(cuts):
            return start
        is_few = (cuts <= last) & (sums.counted(marks, "rows", cuts) <= self.limits.at_a_time)
        return int(cuts[max(0, int(np.count_nonzero(is_few)) - 1)])

    def _up(self, marks: Mapping[sums.Reader, Array], offset: int) -> int:
        """The lowest end of a stride from an offset on, at which all sums are known; `NEVER` if there is none."""
        grain = self.limits.grain
        if offset == NEVER:
            return NEVER
        first = grain.up(offset)
        cuts = sums.stride_ends(marks, grain, first)
        return int(cuts[cuts >= first].min(initial=NEVER))

    def _agree(self, marks: Mapping[sums.Reader, Array], start: int) -> bool:
        """Take up what all have shown alike, without a row of it; returns whether there was any."""
        brokers = self.state.brokers
        if set(marks) != {(int(slot), view) for slot in np.flatnonzero(brokers["member"]) for view in VIEWS}:
            return False
        if (before := goes_on(self.state)) is None:
            return False
        cuts = sums.agreeing(marks, start)
        is_plain = sums.counted(marks, "transactional", cuts) == 0
        is_known = is_plain | (sums.is_one_shape(marks, cuts) & np.isin(cuts, self.state.going["end"]))
        if not is_known.any():
            return False
        end = int(cuts[is_known][-1])
        opens = before if is_plain[is_known][-1] else going.at(self.state.going, end) or {}
        ids = frozenset(brokers["broker"][brokers["member"]].tolist())
        count = int(sums.counted(marks, "rows", np.array([end]))[0])
        is_full = count == (end - start) * len(marks)
        agreed = Agreed(start, end, ids, dict.fromkeys(VIEWS, opens), is_full=is_full)
        if not fits(self.state, agreed):
            return False
        self._go_to(marks, end)
        self.step(self._nothing(), agreed)
        return True

    def take_up(self, offset: int) -> None:
        """Give the step the rows below an offset, and on to an end of a stride; if none are left, withhold no more."""
        marks = sums.marks_of(self.state)
        end = self._up(marks, offset)
        furthest = max((int(its["end"][-1]) for its in marks.values()), default=0)
        start, last = int(self.state.partition["withheld"][0]), min(end, furthest)
        while start < last:
            cut = min(last, self._next(marks, start, NEVER >> self.limits.grain.stride + 1, last))
            cut = last if cut <= start else cut
            rows = self._read(marks, start, cut)
            self._go_to(marks, cut)
            self.step(replace(self._nothing(), rows=rows))
            stands = np.minimum(read_to(self.state), cut)
            self.state.brokers["shown"] = np.maximum(self.state.brokers["shown"], stands)
            start, marks = cut, sums.marks_of(self.state)
        if end > furthest:
            self.state = self.state.copy()
            self.state.partition["withheld"] = NEVER

    def _go_to(self, marks: Mapping[sums.Reader, Array], cut: int, reached: Array | None = None) -> None:
        """Let readers stand where they have come to, up to a cut; by default where their rows that are withheld end."""
        self.state = state = self.state.copy()
        stands = np.minimum(read_to(state) if reached is None else reached, cut)
        state.brokers["position"] = np.maximum(state.brokers["position"], stands)
        state.partition["withheld"] = cut
        left = sums.behind(marks, cut)
        sums.store(state, left, self.limits.grain)
        state.going = going.behind(state.going, cut, {slot for slot, _ in left})
        if not left:
            state.partition["withheld_since"] = state.partition["withheld_until"]

    def _read(self, marks: Mapping[sums.Reader, Array], start: int, end: int) -> ViewRows:
        """The rows of a range, from the views.

        Raises:
            RowsGoneError: they are not what was withheld.
        """
        since, until = (int(self.state.partition[name][0]) for name in ("withheld_since", "withheld_until"))
        rows = self.views.rows((since, until), start, end)
        of = slots(self.state, rows.broker)
        is_known = of >= 0
        found, cuts = [rows.take(slice(0, 0))], np.array([end])
        for (slot, view), its in marks.items():
            mine = rows.take(is_known & (of == slot) & (rows.view == view))
            want, got = sums.at(its, cuts), sums.totals(mine, self._key)
            if any(want[name][0] != got[name][0] for name in ("rows", "low", "high")):
                broker = int(self.state.brokers["broker"][slot])
                raise RowsGoneError(
                    f"offsets {start} to {end - 1} of broker {broker} are not in the views as they were compared: "
                    f"{got['rows'][0]} rows where {want['rows'][0]} were withheld"
                )
            found.append(mine)
        return ViewRows.concat(found)

    def _nothing(self) -> Observations:
        return Observations(self.seen.topic, self.seen.partition)


__all__ = ["RowsGoneError", "Views", "WithholdingLimits", "compare", "is_withholding"]
