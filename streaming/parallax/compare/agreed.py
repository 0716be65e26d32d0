"""Brings a state past a range of offsets in which all replicas' sums are equal, without reading its rows.

The result is the same as if the rows had been compared. In two cases this is not possible. Rows below the range still
wait to be judged. Or the state and the sums name different transactions as open. Then the rows are read.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import going, holes, replicas
from parallax.compare.blocks import Agreed, Opens
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Array
from parallax.compare.rules import markers
from parallax.compare.rules.arrays import joined, table
from parallax.compare.state import FOLLOWED, NEVER, NULL_KEY, TOMBSTONE, UNENDED, PartitionState, kept
from parallax.model import UNKNOWN, Outcome

_REPORTED = ["over_by", "next_start"]
"""Columns of `INTERVAL` with what a replica itself says of a transaction that its rows leave open."""


def goes_on(state: PartitionState) -> Opens | None:
    """The transactions that are open behind the last rows that a state has taken in, by producer id.

    None if these are not the same on all replicas and at both isolation levels.
    """
    slots = np.flatnonzero(state.brokers["member"]).tolist()
    opens = [going.of_state(state, slot) for slot in slots]
    starts = [going.starts_of_state(state, slot) for slot in slots]
    if any(its != opens[0] for its in opens):
        return None
    shown = {producer: one.start for producer, one in opens[0].items()} if opens else {}
    return opens[0] if opens and all(its == shown for its in starts) else None


def fits(state: PartitionState, agreed: Agreed) -> bool:
    """Whether a state may be brought past a range whose sums are equal on all replicas, without its rows (`take_in`).

    It may not while rows below the range wait to be judged. It may not if the range is not of the whole replica set,
    or if replicas lack offsets in it that nothing may have removed: only rows show which (`parallax.compare.holes`).
    The caller has found already that no reader reported a break, such as a truncation, from the range's start on.

    Args:
        state: the partition's state before the range.
        agreed: the range. It begins with the transactions open that the state has open; the caller has checked that by
            `goes_on`.
    """
    is_clear = agreed.is_full or agreed.end <= state.partition["strict_from"][0]
    return (
        bool(is_clear) and _is_of_all(state, agreed) and _is_clean(state, agreed) and not _is_remembered(state, agreed)
    )


def is_new(state: PartitionState) -> bool:
    """Whether no reader of the partition was shown anything yet, as before its first micro-batch."""
    return bool((state.brokers["shown"] == UNKNOWN).all())


def _is_of_all(state: PartitionState, agreed: Agreed) -> bool:
    """Whether the range is of the whole replica set, and of its readers' topic."""
    brokers = state.brokers[state.brokers["member"]]
    if not state.partition["members_known"][0]:
        return False
    is_of_topic = (brokers["topic_id"] == state.partition["topic_id"][0]) | (brokers["topic_id"] == 0)
    return bool(set(brokers["broker"].tolist()) == agreed.brokers and is_of_topic.all())


def _is_clean(state: PartitionState, agreed: Agreed) -> bool:
    """Whether nothing waits below where the range begins, all was followed up to there, and it ends beyond the rest."""
    brokers, partition, open_ = state.brokers[state.brokers["member"]], state.partition, state.intervals
    waits = any((getattr(state, name)["offset"] < agreed.start).any() for name in ("content", "pending", "markers"))
    waits |= any(len(getattr(state, name)) for name in ("candidates", "disputes", "deferred"))
    # What was held where a reader begins is known if all of it is shown (`parallax.compare.unread`).
    is_followed = agreed.is_full or (brokers["begun"] == FOLLOWED).all()
    is_followed &= is_new(state) or (brokers["shown"] >= agreed.start).all()
    # The sums of one view do not say what the other showed first.
    is_followed &= (brokers["shown"][:, READ_COMMITTED] <= brokers["shown"][:, READ_UNCOMMITTED]).all()
    is_like = (brokers["mismatch_last"] == UNKNOWN).all() and (state.pending["flags"] & _MARKED == 0).all()
    is_reported = (open_["over_by"] != NEVER) | (open_["next_start"] != NEVER)
    waits |= (open_["told"] != 0).any() or (open_["missed"] != NEVER).any()
    waits |= (is_reported & (open_["end"] != NEVER)).any()
    return bool(not waits and is_followed and is_like and (partition["floor"][0] <= agreed.end).all())


_MARKED = ~np.uint8(TOMBSTONE | NULL_KEY)
"""Bits of ``flags`` with what was found out about a record, beyond what it contains."""


def _is_remembered(state: PartitionState, agreed: Agreed) -> bool:
    """Whether records in the range are to be remembered: one that goes on at its end has an end that not all show yet.

    See `parallax.compare.remembered`.
    """
    shown = state.brokers["position"][state.brokers["member"], READ_UNCOMMITTED].min(initial=NEVER)
    ends = state.markers["producer_id"][state.markers["offset"] >= shown]
    return bool(np.isin(ends, list(agreed.opens[READ_COMMITTED])).any())


def take_in(state: PartitionState, agreed: Agreed) -> None:
    """Change a state as if the rows of a range had been read and compared.

    The sums of these rows are equal on all replicas. Call it only if `fits` is true.

    Args:
        state: the partition's state; it is changed.
        agreed: the range.
    """
    holes.note(state, agreed.start)
    replicas.raise_floor(state, READ_UNCOMMITTED, agreed.end)
    end, shown, member = agreed.end, state.brokers["shown"], state.brokers["member"]
    behind = {view: np.flatnonzero(member & (shown[:, view] < end)) for view in VIEWS}
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
    shown[member] = np.maximum(shown[member], end)


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


__all__ = ["fits", "goes_on", "is_new", "take_in"]
