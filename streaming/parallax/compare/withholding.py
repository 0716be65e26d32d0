"""Decides when rows of a partition are withheld while a replica is absent, and what ends it immediately. Pure.

`parallax.compare.withheld` does the withholding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parallax.compare import early, sums
from parallax.compare.observations import (
    EVENT_CODE,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Array,
    Observations,
    ReplicaSets,
    ViewRows,
)
from parallax.compare.replicas import asked_position, common_position, members, positions, read_to, slots
from parallax.compare.rules import latest
from parallax.compare.state import FOLLOWED, NEVER, PartitionState
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, ReadEvent

_TRUNCATED, _DELETED = EVENT_CODE[ReadEvent.LOG_TRUNCATED], EVENT_CODE[ReadEvent.TOPIC_DELETED]
_JUMPS = ReadEvent.LOG_START_ADVANCED, ReadEvent.BATCH_SKIPPED, ReadEvent.NOT_KEPT
_BREAKS = [_TRUNCATED, *(EVENT_CODE[event] for event in _JUMPS)]


@dataclass(frozen=True, slots=True)
class WithholdingLimits:
    """When rows are withheld, and how many of them are compared at a time afterwards.

    Rows are withheld while many of them wait for an absent replica.

    Attributes:
        worth: rows are withheld once this many bytes of a state wait for a replica that is behind.
        few: all withheld rows are compared in one step once every replica has passed the first of them, and at most
            this many lie above the offset that every replica has passed.
        at_a_time: about how many rows are read from the views for one step.
        grain: at which offsets the sums of rows are kept.
        marks: at how many offsets, of all readers together, unless this is more than an eighth of the state's cap.
    """

    worth: int = 1 << 19
    few: int = 20_000
    at_a_time: int = 500_000
    grain: sums.Grain = field(default_factory=sums.Grain)
    marks: int = 1 << 16


def begun(state: PartitionState, settings: CompareSettings, until: int, limits: WithholdingLimits) -> PartitionState:
    """Decide after a step whether to withhold rows from now on.

    Rows are withheld if enough of the state waits for a replica that is behind, or if rows are deferred now. They are
    withheld from the first offset on that no replica has shown.

    Args:
        state: the state after the step.
        settings: for the cap of the state.
        until: the time of the last commit in the micro-batch (`parallax.views.order`).
        limits: how many bytes must wait.

    Returns:
        A copy of ``state`` that says from which offset on rows are withheld; ``state`` itself if none are.
    """
    brokers = state.brokers
    # One that was never read is as one that is behind: it is compared as far as it comes (`begun_to`).
    is_begun = (brokers["begun"] != FOLLOWED) & (brokers["position"] != UNKNOWN)
    if not members(state) or is_begun[brokers["member"]].any():
        return state
    size, is_growing = waiting(state), state.deferred["end"] == NEVER
    if not is_growing.any() and size <= _least(settings, limits):
        state.partition["differed"] = False
        return state
    position = brokers["position"]
    is_behind = any(position[:, view].max() > common_position(state, view) for view in VIEWS)
    if not is_behind or (not is_growing.any() and size <= worth(state, settings, limits)):
        return state
    made = state.copy()
    made.partition["withheld"] = max(int(brokers["shown"].max()), int(position.max()))
    # No row from there on has been left out yet, and none is any more.
    made.deferred = state.deferred.copy()
    made.deferred["end"][is_growing] = made.partition["withheld"]
    made.partition["withheld_since"] = made.partition["withheld_until"] = until
    made.partition["keyed"] = True
    return made


def _least(settings: CompareSettings, limits: WithholdingLimits) -> int:
    """How many bytes of a state must wait at least before rows are withheld."""
    return min(limits.worth, settings.state_cap_bytes // 8)


def worth(state: PartitionState, settings: CompareSettings, limits: WithholdingLimits) -> int:
    """How many bytes of a state must wait before rows are withheld.

    The result is ``limits.worth``, or an eighth of the state's cap if that is less. If the replicas that are there
    differ among themselves, it is half of the cap. Later rows may show which of them is wrong, so rows are compared one
    by one as long as there is room.

    Args:
        state: the partition's state.
        settings: for the cap of the state.
        limits: for ``worth``.
    """
    is_judged = (
        bool(state.partition["differed"][0]) or len(state.disputes) > 0 or early.is_early(state.candidates).any()
    )
    return room(settings) if is_judged else _least(settings, limits)


def room(settings: CompareSettings) -> int:
    """How many bytes of a state may wait while its replicas are known to differ, or may differ."""
    return settings.state_cap_bytes // 2


def awaited(state: PartitionState) -> tuple[Array, int]:
    """The absences that wait only because rows are withheld, and up to where rows are needed for what waits so.

    An absence, or an unlike outcome, is judged once replicas were read up to its horizon. They were, but the horizon
    lies above the offset from which on rows are withheld.

    Returns:
        The indices of these absences in ``state.candidates``, and the highest horizon; -1 if nothing waits so.
    """
    rows, start, whole = state.candidates, state.partition["withheld"][0], state.copy()
    whole.brokers["position"] = read_to(state)
    is_ripe = latest.ripe(rows, positions(whole, READ_COMMITTED), early.concerned(whole, rows))
    at = np.flatnonzero(is_ripe & (rows["horizon"] > start))
    ends = state.disputes["horizon"]
    ends = ends[(ends > start) & (ends <= asked_position(whole, READ_UNCOMMITTED))]
    return at, int(np.concatenate([rows["horizon"][at], ends]).max(initial=UNKNOWN))


def waiting(state: PartitionState) -> int:
    """How many bytes of the state wait to be judged because some replica was not read that far.

    If they are many, further rows are left in the tables until they are needed (`worth`).
    """
    common = {view: common_position(state, view) for view in VIEWS}
    lowest = min(common.values())
    tables = ((state.content, common[READ_UNCOMMITTED]), (state.pending, common[READ_COMMITTED]))
    size = sum(np.count_nonzero(table["offset"] >= since) * table.itemsize for table, since in tables)
    size += np.count_nonzero(state.markers["offset"] >= lowest) * state.markers.itemsize
    return int(size + np.count_nonzero(state.intervals["end"] >= lowest) * state.intervals.itemsize)


def is_broken(state: PartitionState, seen: Observations) -> bool:
    """Whether a micro-batch shows something because of which withholding has to end now.

    Each of these ends it, because the withheld rows have to be compared before it:

    - A log was truncated, its start moved, or rows of it are missing, and rows of that very reader are withheld.
    - The topic was deleted, or a reader names another topic id.
    - A replica that was read before joins the replica set.
    - The last row of a reader does not say how far it was read.

    Args:
        state: the partition's state before the micro-batch.
        seen: what the micro-batch showed of the partition.
    """
    if not (seen.rows.kind[last_of_readers(seen.rows)] == POSITION).all():
        return True
    rows, of, at = seen.rows, slots(state, seen.rows.broker), seen.rows.kind == POSITION
    is_other = (rows.topic_id != 0) & (rows.topic_id != state.partition["topic_id"][0])
    if (at & (is_other | (rows.event == _DELETED))).any():
        return True
    is_beyond = rows.offset + ~at > state.partition["withheld"][0]
    withheld = sums.readers_of(state)
    for i in np.flatnonzero(at & np.isin(rows.event, _BREAKS)).tolist():
        # What replaces the end of a log concerns both levels.
        views = VIEWS if rows.event[i] == _TRUNCATED else rows.view[i : i + 1].tolist()
        is_before = (of[:i] == of[i]) & (rows.view[:i] == rows.view[i])
        if (is_beyond[:i] & is_before).any() or {(int(of[i]), view) for view in views} & withheld:
            return True
    return _comes_back(state, seen.replica_sets)


def begun_to(state: PartitionState, seen: Observations) -> int:
    """How far readers have come that have not read yet all that their replicas held when the reading began.

    Which of these offsets were not shown is found out from their rows (`parallax.compare.unread`). So these rows cannot
    be withheld. Replicas that have left the replica set do not count: if one that was read joins it again, withholding
    ends (`is_broken`). One that was never read is as one that is new.

    Args:
        state: the partition's state before the micro-batch.
        seen: what the micro-batch showed of the partition.
    """
    is_followed = np.append(state.brokers["begun"] == FOLLOWED, [[False] * len(VIEWS)], axis=0)
    is_followed[:-1] |= (~state.brokers["member"] & _was_read(state))[:, np.newaxis]
    rows = seen.rows
    is_begun = ~is_followed[slots(state, rows.broker), rows.view]
    return int((rows.offset + (rows.kind != POSITION))[is_begun].max(initial=0))


def last_of_readers(rows: ViewRows) -> Array:
    """The indices of the last row of each reader. It says how far the reader has come, if it is of kind `POSITION`."""
    readers = rows.broker.astype(np.int64) * len(VIEWS) + rows.view
    last: Array = len(rows) - 1 - np.unique(readers[::-1], return_index=True)[1]
    return last


def _was_read(state: PartitionState) -> Array:
    """For each broker, whether its replica was read in either view."""
    mask: Array = (state.brokers["position"] != UNKNOWN).any(axis=1)
    return mask


def _comes_back(state: PartitionState, sets: ReplicaSets) -> bool:
    """Whether a replica joins that was read before: its log is another one by now."""
    told: dict[int, set[int]] = {}
    for at, broker in zip(sets.observed_at.tolist(), sets.broker.tolist(), strict=True):
        told.setdefault(at, set()).add(broker)
    brokers = state.brokers
    members = set(brokers["broker"][brokers["member"]].tolist())
    read = members | set(brokers["broker"][_was_read(state)].tolist())
    for at in sorted(told):
        if (told[at] - members) & read:
            return True
        members, read = told[at], read | told[at]
    return False


__all__ = [
    "WithholdingLimits",
    "awaited",
    "begun",
    "begun_to",
    "is_broken",
    "last_of_readers",
    "room",
    "waiting",
    "worth",
]
