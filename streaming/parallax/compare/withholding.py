"""Decides when rows of a partition are withheld while a replica is absent, and what ends it immediately. Pure.

`parallax.compare.withheld` does the withholding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parallax.compare import sums
from parallax.compare.agreed import is_new
from parallax.compare.early import is_early
from parallax.compare.observations import (
    EVENT_CODE,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Observations,
    ReplicaSets,
    ViewRows,
)
from parallax.compare.replicas import common_position, members, slots
from parallax.compare.state import FOLLOWED, PartitionState
from parallax.config import CompareSettings
from parallax.model import ReadEvent

_OK, _ADDED = EVENT_CODE[ReadEvent.OK], EVENT_CODE[ReadEvent.PARTITION_ADDED]


@dataclass(frozen=True, slots=True)
class Limits:
    """When rows are withheld, and how many of them are compared at a time afterwards.

    Rows are withheld while many of them wait for an absent replica.

    Attributes:
        worth: rows are withheld once this many bytes of a state wait for a replica that does not move.
        few: all withheld rows are compared in one step once every replica has passed the first of them, and at most
            this many lie above the offset that every replica has passed.
        at_a_time: about how many rows are read from the views for one step.
        grain: at which offsets the sums of rows are kept.
    """

    worth: int = 1 << 19
    few: int = 20_000
    at_a_time: int = 500_000
    grain: sums.Grain = field(default_factory=sums.Grain)


def begun(
    before: PartitionState, after: PartitionState, settings: CompareSettings, until: int, limits: Limits
) -> PartitionState:
    """Decide after a step whether to withhold rows from now on.

    Rows are withheld if enough of the state waits for a replica that does not move. They are withheld from the first
    offset on that no replica has shown.

    Args:
        before: the state before the step.
        after: the state after it.
        settings: for the cap of the state.
        until: the time of the last commit in the micro-batch (`parallax.views.order`).
        limits: how many bytes must wait.

    Returns:
        A copy of ``after`` that says from which offset on rows are withheld; ``after`` itself if none are.
    """
    brokers = after.brokers
    if not members(after) or len(after.deferred) or not (brokers["begun"][brokers["member"]] == FOLLOWED).all():
        return after
    size = waiting(after)
    if size <= limits.worth:
        after.partition["differed"] = False
        return after
    if not _stands(before, after) or size <= worth(after, settings, limits):
        return after
    made = after.copy()
    made.partition["withheld"] = max(int(brokers["shown"].max()), int(brokers["position"].max()))
    made.partition["withheld_since"] = made.partition["withheld_until"] = until
    return made


def worth(state: PartitionState, settings: CompareSettings, limits: Limits) -> int:
    """How many bytes of a state must wait before rows are withheld.

    The result is ``limits.worth``. If the replicas that are there differ among themselves, it is at least half of the
    state's cap. Later rows may show which of them is wrong, so rows are compared one by one as long as there is room.

    Args:
        state: the partition's state.
        settings: for the cap of the state.
        limits: for ``worth``.
    """
    is_judged = bool(state.partition["differed"][0]) or len(state.disputes) > 0 or is_early(state.candidates).any()
    return max(limits.worth, settings.state_cap_bytes // 2) if is_judged else limits.worth


def _stands(before: PartitionState, after: PartitionState) -> bool:
    """Whether a reader that others of its view wait for has not moved by a step."""
    known = len(before.brokers)
    for view in VIEWS:
        position, common = after.brokers["position"][:, view], common_position(after, view)
        last = after.brokers["member"] & (position == common)
        stood = position[:known] == before.brokers["position"][:, view]
        if (last[:known] & stood).any() and position.max() > common:
            return True
    return False


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

    Each of these ends it:

    - A replica joins the replica set, or rows are of a broker that the state does not know.
    - A reader reports an event, such as a truncated log, or names another topic id. Of a new partition, a reader that
      begins is no such event.
    - The last row of a reader does not say how far it was read.

    Args:
        state: the partition's state before the micro-batch.
        seen: what the micro-batch showed of the partition.
    """
    if not _are_vouched_for(seen.rows):
        return True
    at = seen.rows.kind == POSITION
    named = seen.rows.topic_id[at]
    is_other = (named != 0) & (named != state.partition["topic_id"][0])
    usual = (_OK, _ADDED) if is_new(state) else (_OK,)
    if not np.isin(seen.rows.event[at], usual).all() or is_other.any() or (slots(state, seen.rows.broker) < 0).any():
        return True
    return not _is_shrinking(state, seen.replica_sets)


def _are_vouched_for(rows: ViewRows) -> bool:
    """Whether each reader has said behind its rows how far it has come."""
    readers = rows.broker.astype(np.int64) * len(VIEWS) + rows.view
    last = len(rows) - 1 - np.unique(readers[::-1], return_index=True)[1]
    return bool((rows.kind[last] == POSITION).all())


def _is_shrinking(state: PartitionState, sets: ReplicaSets) -> bool:
    """Whether the replica set stays as it is, or loses some for good."""
    told: dict[int, set[int]] = {}
    for at, broker in zip(sets.observed_at.tolist(), sets.broker.tolist(), strict=True):
        told.setdefault(at, set()).add(broker)
    left = set(state.brokers["broker"][state.brokers["member"]].tolist())
    for at in sorted(told):
        if not told[at] <= left:
            return False
        left = told[at]
    return bool(left)


__all__ = ["Limits", "begun", "is_broken", "waiting", "worth"]
