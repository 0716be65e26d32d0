"""Takes a range of offsets whose sums agree into a state, with the same result as taking in its rows one by one.

The rows themselves are taken in instead in two cases. Rows below the range still wait to be judged. Or the state and
the sums disagree about which transactions are open.
"""

from __future__ import annotations

import numpy as np

from parallax.compare.blocks import Agreed, Opens
from parallax.compare.observations import (
    ABORT,
    COMMIT,
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
from parallax.compare.rules import markers
from parallax.compare.rules.arrays import joined, table
from parallax.compare.state import FOLLOWED, NEVER, NULL_KEY, TOMBSTONE, UNENDED, PartitionState, kept
from parallax.model import UNKNOWN, Outcome, ReadEvent

_OK = EVENT_CODE[ReadEvent.OK]
_REPORTED = ["over_by", "next_start"]
"""Columns of `INTERVAL` with what a replica itself has said of a transaction that is open by its rows."""


def fits(state: PartitionState, agreed: Agreed, seen: Observations) -> bool:
    """Whether a range whose sums agree may be taken into the state as a whole; if not, compare its rows one by one.

    Args:
        state: before the step.
        agreed: the range.
        seen: what a micro-batch showed, with all position rows.
    """
    at = (seen.rows.kind == POSITION) & (seen.rows.event != _OK)
    return bool(
        not at.any()
        and _is_of_all(state, agreed, seen.replica_sets)
        and _is_clean(state, agreed)
        and not _is_remembered(state, agreed, seen.rows)
        and all(_is_as_told(state, agreed, slot) for slot in range(len(state.brokers)))
    )


def _is_of_all(state: PartitionState, agreed: Agreed, sets: ReplicaSets) -> bool:
    """Whether the range is of the whole replica set, which stays what it was, and of its readers' topic."""
    brokers = state.brokers
    if not state.partition["members_known"][0] or not brokers["member"].all():
        return False
    if set(brokers["broker"].tolist()) != agreed.brokers:
        return False
    told: dict[int, set[int]] = {}
    for when, broker in zip(sets.observed_at.tolist(), sets.broker.tolist(), strict=True):
        told.setdefault(when, set()).add(broker)
    is_of_topic = (brokers["topic_id"] == state.partition["topic_id"][0]) | (brokers["topic_id"] == 0)
    return bool(all(each == agreed.brokers for each in told.values()) and is_of_topic.all())


def _is_clean(state: PartitionState, agreed: Agreed) -> bool:
    """Whether nothing waits below where the range begins, all was followed up to there, and it ends beyond the rest."""
    brokers, partition = state.brokers, state.partition
    waits = any((getattr(state, name)["offset"] < agreed.start).any() for name in ("content", "pending", "markers"))
    waits |= any(len(getattr(state, name)) for name in ("candidates", "disputes", "deferred"))
    is_followed = (brokers["begun"] == FOLLOWED).all() and (brokers["shown"] >= agreed.start).all()
    is_like = (brokers["mismatch_last"] == UNKNOWN).all() and (state.pending["flags"] & _MARKED == 0).all()
    return bool(not waits and is_followed and is_like and (partition["floor"][0] <= agreed.end).all())


def _is_remembered(state: PartitionState, agreed: Agreed, rows: ViewRows) -> bool:
    """Whether records in the range are to be remembered: one that goes on at its end has an end that not all show yet.

    See `parallax.compare.remembered`.
    """
    going = list(agreed.opens[READ_COMMITTED])
    if not going:
        return False
    ends = (rows.kind == COMMIT) | (rows.kind == ABORT)
    shown = [int(at) for at in state.brokers["position"][:, READ_UNCOMMITTED]]
    of_view = (rows.kind == POSITION) & (rows.view == READ_UNCOMMITTED)
    for n, broker in enumerate(state.brokers["broker"].tolist()):
        shown[n] = max(shown[n], int(rows.offset[of_view & (rows.broker == broker)].max(initial=UNKNOWN)))
    known = rows.producer_id[ends & (rows.offset >= min(shown))]
    before = state.markers["producer_id"][state.markers["offset"] >= min(shown)]
    return bool(np.isin(known, going).any() or np.isin(before, going).any())


_MARKED = ~np.uint8(TOMBSTONE | NULL_KEY)
"""Bits of ``flags`` with what was found out about a record, beyond what it contains."""


def _is_as_told(state: PartitionState, agreed: Agreed, slot: int) -> bool:
    """Whether the state holds of a replica's transactions what the sums tell of where its rows were taken in to."""
    broker, shown = int(state.brokers["broker"][slot]), state.brokers["shown"][slot]
    if shown[READ_COMMITTED] > shown[READ_UNCOMMITTED]:
        return False  # The sums of one view do not say what the other showed first.
    mine = state.intervals[state.intervals["slot"] == slot]
    is_reported = (mine["over_by"] != NEVER) | (mine["next_start"] != NEVER)
    if mine["told"].any() or (mine["missed"] != NEVER).any() or (is_reported & (mine["end"] != NEVER)).any():
        return False
    if shown[READ_UNCOMMITTED] < agreed.end:
        opens = agreed.before.get((READ_UNCOMMITTED, broker))
        found = {int(row["producer_id"]): int(row["start"]) for row in mine if row["end"] == NEVER}
        if opens is None or found != {producer: one.start for producer, one in opens.items()}:
            return False
    if shown[READ_COMMITTED] < agreed.end:
        opens = agreed.before.get((READ_COMMITTED, broker))
        its = state.unended[state.unended["slot"] == slot]
        shown_as = sorted((int(r["producer_id"]), int(r["offset"]), bool(r["aborted"])) for r in its)
        if opens is None or shown_as != sorted((p, o.start, o.outcome == Outcome.ABORTED) for p, o in opens.items()):
            return False
    return True


def without_rows(rows: ViewRows, agreed: Agreed) -> ViewRows:
    """The rows that are still compared one by one: those outside the range, and all position rows."""
    return rows.take((rows.kind == POSITION) | (rows.offset < agreed.start) | (rows.offset >= agreed.end))


def take_in(state: PartitionState, agreed: Agreed) -> None:
    """Note in the state that all replicas have shown the same rows in a range; call it only if the range `fits`.

    Args:
        state: written to.
        agreed: the range.
    """
    end, shown = agreed.end, state.brokers["shown"]
    behind = {view: np.flatnonzero(shown[:, view] < end) for view in VIEWS}
    state.content = kept(state.content, state.content["offset"] >= end)
    state.pending = kept(state.pending, state.pending["offset"] >= end)
    state.markers = kept(state.markers, state.markers["offset"] >= end)
    before = state.intervals
    state.intervals = kept(state.intervals, ~np.isin(state.intervals["slot"], behind[READ_UNCOMMITTED]))
    opens, slots = agreed.opens[READ_UNCOMMITTED], behind[READ_UNCOMMITTED]
    state.intervals = markers.take_in_intervals(
        state.intervals,
        _each([one.start for one in opens.values()], slots),
        _each(list(opens), slots),
        np.full(len(opens) * len(slots), markers.DATA),
        np.repeat(slots, len(opens)),
    )
    state.intervals = _with_reports(state.intervals, before)
    state.unended = kept(state.unended, ~np.isin(state.unended["slot"], behind[READ_COMMITTED]))
    state.unended = joined(state.unended, _unended(agreed.opens[READ_COMMITTED], behind[READ_COMMITTED]))
    shown[:] = np.maximum(shown, end)


def _with_reports(intervals: Array, before: Array) -> Array:
    """With what replicas have said of transactions that go on still."""
    told = before[(before["over_by"] != NEVER) | (before["next_start"] != NEVER)]
    if not len(told):
        return intervals
    made = intervals.copy()
    for one in told:
        same = np.logical_and.reduce([made[name] == one[name] for name in ("slot", "producer_id", "start")])
        for name in _REPORTED:
            made[name][same] = one[name]
    return made


def _unended(opens: Opens, slots: Array) -> Array:
    ones = list(opens.values())
    return table(
        UNENDED,
        len(opens) * len(slots),
        slot=np.repeat(slots, len(opens)),
        producer_id=_each(list(opens), slots),
        offset=_each([one.start for one in ones], slots),
        key_hash_hi=_each([one.key_hash_hi for one in ones], slots),
        key_hash_lo=_each([one.key_hash_lo for one in ones], slots),
        aborted=_each([one.outcome == Outcome.ABORTED for one in ones], slots),
    )


def _each(values: list[int] | list[bool], slots: Array) -> Array:
    """The same values for each slot."""
    return np.tile(np.array(values, np.int64), len(slots))


__all__ = ["fits", "take_in", "without_rows"]
