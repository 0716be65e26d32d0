"""Invariant I2 for transactions: all replicas that had a transaction open show the same end marker for it.

A replica's read_uncommitted rows show its transactions as *intervals* (`INTERVAL` rows). An interval goes from the
first record of a producer's transaction to the producer's next end marker on that replica. Example: on broker 2,
producer 9 writes at offset 0 and its next marker is a COMMIT at 6. Broker 1 shows an ABORT of producer 9 at 1, inside
this interval. If broker 2 was read past offset 1, it missed that marker. Its transaction was ended by the next marker
instead, or by none.
"""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import Array
from parallax.compare.rules.arrays import bits, has_bit, joined, passed_without, slots_of, table
from parallax.compare.state import INTERVAL, MARKER, MAX_BROKERS, NEVER
from parallax.model import UNKNOWN

DATA = 0
"""The type of a transactional record. An end marker has its own type instead (1 commit, 2 abort: `RowKind`)."""

UNREAD = 0
"""The type of an end marker that was not read, although its transaction has ended."""

_OVER = 255
"""The type of an end that only the replica's own list of open transactions shows."""


def take_in_markers(
    markers: Array, offsets: Array, producers: Array, types: Array, slots: Array, epochs: Array
) -> Array:
    """Add the end markers that replicas showed to the state's table of markers; returns the new table, in offset order.

    There is one row for each offset. Where replicas show different markers at one offset (a difference of content, I1),
    there is one row for each distinct marker.

    Args:
        markers: known end markers, `MARKER` rows.
        offsets: the offset of each end marker that was shown.
        producers: the producer id of each marker.
        types: the type of each marker: COMMIT or ABORT (`RowKind`).
        slots: the replica that showed each marker, as a slot (row of ``state.brokers``).
        epochs: the leader epoch of each marker.
    """
    if not len(offsets):
        return markers
    shown = table(
        MARKER,
        len(offsets),
        offset=offsets,
        producer_id=producers,
        type=types,
        shown=bits(slots),
        leader_epoch=epochs,
    )
    both = joined(markers, shown)
    both = both[np.lexsort((both["type"], both["producer_id"], both["offset"]))]
    new = np.ones(len(both), np.bool_)
    new[1:] = False
    for name in ("offset", "producer_id", "type"):
        new[1:] |= both[name][1:] != both[name][:-1]
    starts = np.flatnonzero(new)
    merged = both[starts]
    merged["shown"] = np.bitwise_or.reduceat(both["shown"], starts)
    merged["leader_epoch"] = np.maximum.reduceat(both["leader_epoch"], starts)
    return merged


def disputed_offsets(markers: Array) -> Array:
    """For each end marker, whether another replica shows a different marker, or a record, at its offset.

    Then one of the logs was replaced, and nothing proves which. So no marker there proves how a transaction ended on
    other replicas: it was not missed.

    Args:
        markers: `MARKER` rows, in offset order.
    """
    disputed = np.zeros(len(markers), np.bool_)
    twice = markers["offset"][1:] == markers["offset"][:-1]
    disputed[1:] |= twice
    disputed[:-1] |= twice
    return disputed


def take_in_intervals(intervals: Array, offsets: Array, producers: Array, types: Array, slots: Array) -> Array:
    """Extend the transactions (intervals) of replicas by transactional rows that these replicas have newly shown.

    Args:
        intervals: the transactions so far, `INTERVAL` rows.
        offsets: the offset of each new row, a transactional record or an end marker.
        producers: the producer id of each row.
        types: for each row `DATA` if it is a record, or the marker's type.
        slots: the replica that showed each row, as a slot (row of ``state.brokers``).

    Returns:
        The new `INTERVAL` rows: some open transactions have ended, and new ones are added.
    """
    if not len(offsets):
        return intervals
    is_open = intervals["end"] == NEVER
    carried = intervals[is_open]
    # What its replica reported to be over goes on no further than that; what followed begins there.
    reached = np.full(MAX_BROKERS, UNKNOWN)
    np.maximum.at(reached, slots, offsets)
    over = carried[carried["over_by"] <= reached[carried["slot"]]]
    following = over[over["next_start"] != NEVER]
    known = np.concatenate([over, following])
    slot = np.concatenate([carried["slot"], known["slot"], slots.astype(np.uint8)])
    producer = np.concatenate([carried["producer_id"], known["producer_id"], producers])
    offset = np.concatenate([carried["start"], over["over_by"], following["next_start"], offsets])
    kind = np.full(len(offset), DATA, np.uint8)
    kind[len(carried) : len(carried) + len(over)] = _OVER
    kind[len(carried) + len(known) :] = types
    origin = np.full(len(offset), UNKNOWN)
    origin[: len(carried)] = np.arange(len(carried))
    # A stable sort: at one offset what was over comes before what followed, and both before the rows.
    order = np.lexsort((offset, producer, slot))
    slot, producer, offset, kind, origin = slot[order], producer[order], offset[order], kind[order], origin[order]

    same = (slot[1:] == slot[:-1]) & (producer[1:] == producer[:-1])
    continues = np.concatenate([[False], same & (kind[:-1] == DATA)])
    begins = np.flatnonzero((kind == DATA) & ~continues)
    ends = np.flatnonzero(kind != DATA)
    at = np.searchsorted(ends, begins)
    has_end = at < len(ends)
    end = ends[np.minimum(at, len(ends) - 1)] if len(ends) else np.zeros(len(begins), np.intp)
    if len(ends):
        has_end &= (slot[end] == slot[begins]) & (producer[end] == producer[begins])
    made = table(
        INTERVAL,
        len(begins),
        slot=slot[begins],
        producer_id=producer[begins],
        start=offset[begins],
        end=np.where(has_end, offset[end], NEVER),
        end_type=np.where(has_end & (kind[end] != _OVER), kind[end], UNREAD),
        missed=NEVER,
        over_by=NEVER,
        next_start=NEVER,
    )
    came = origin[begins]
    old = came != UNKNOWN
    for name in ("missed", "missed_type", "missed_shown", "missed_epoch", "told", "over_by", "next_start"):
        made[name][old] = carried[name][came[old]]
    made["missed"][made["missed"] >= made["end"]] = NEVER
    return joined(intervals[~is_open], made)


def add_ended(intervals: Array, markers: Array, offsets: Array, producers: Array, slots: Array) -> Array:
    """Add transactions of records that lie in no known interval, if the replica has shown an end marker behind them.

    Such a transaction goes from the first of its given records to the producer's next marker on that replica.

    Args:
        intervals: the transactions so far, `INTERVAL` rows.
        markers: known end markers, `MARKER` rows.
        offsets: the offset of each transactional record.
        producers: the producer id of each record.
        slots: the replica that showed each record, as a slot (row of ``state.brokers``).

    Returns:
        All of ``intervals``, and behind them the transactions that were added.
    """
    made = [intervals]
    for slot, producer in sorted(set(zip(slots.tolist(), producers.tolist(), strict=True))):
        own = markers[has_bit(markers["shown"], slot) & (markers["producer_id"] == producer)]
        mine = intervals[(intervals["slot"] == slot) & (intervals["producer_id"] == producer)]
        shown = np.sort(offsets[(slots == slot) & (producers == producer)])
        ended_by = np.searchsorted(own["offset"], shown, side="right")
        for at in np.unique(ended_by[ended_by < len(own)]).tolist():
            start, end = int(shown[np.searchsorted(ended_by, at)]), int(own["offset"][at])
            if not ((mine["start"] < end) & (start < mine["end"])).any():
                made.append(_ended(slot, producer, (start, end), int(own["type"][at])))
    return joined(*made)


def _ended(slot: int, producer: int, span: tuple[int, int], end_type: int) -> Array:
    return table(
        INTERVAL,
        1,
        slot=slot,
        producer_id=producer,
        start=span[0],
        end=span[1],
        end_type=end_type,
        missed=NEVER,
        over_by=NEVER,
        next_start=NEVER,
    )


def within_ended(intervals: Array, slots: Array, producers: Array, offsets: Array) -> Array:
    """For each record, whether it lies in a transaction whose end marker its replica has shown already.

    A record can be read after the marker because the readers of the two views are not equally far.

    Args:
        intervals: transactions, `INTERVAL` rows.
        slots: the replica that shows each record, as a slot (row of ``state.brokers``).
        producers: the producer id of each record.
        offsets: the offset of each record.
    """
    return within(intervals[intervals["end"] != NEVER], slots, producers, offsets)


def within(intervals: Array, slots: Array, producers: Array, offsets: Array) -> Array:
    """For each record, whether it lies in a known transaction of the replica that shows it.

    Args:
        intervals: transactions, `INTERVAL` rows.
        slots: the replica that shows each record, as a slot (row of ``state.brokers``).
        producers: the producer id of each record.
        offsets: the offset of each record.
    """
    slot = np.concatenate([intervals["slot"], slots])
    producer = np.concatenate([intervals["producer_id"], producers])
    offset = np.concatenate([intervals["start"], offsets])
    of_rows = np.arange(len(slot)) >= len(intervals)
    order = np.lexsort((of_rows, offset, producer, slot))
    last = np.maximum.accumulate(np.where(of_rows[order], UNKNOWN, np.arange(len(order))))
    before = order[np.maximum(last, 0)]
    known = of_rows[order] & (last != UNKNOWN) & (slot[before] == slot[order]) & (producer[before] == producer[order])
    rows, its = order[known] - len(intervals), before[known]
    inside = np.zeros(len(offsets), np.bool_)
    inside[rows] = offsets[rows] < intervals["end"][its]
    return inside


def own_ends(markers: Array, slots: Array, offsets: Array) -> tuple[Array, Array, Array]:
    """For some rows that replicas showed, the end markers that the same replica showed below them.

    A marker counts in whichever view the replica showed it. The cleaner may remove a marker that read_committed showed
    before the reader of read_uncommitted comes to it. That marker has ended the transaction all the same.

    Args:
        markers: known end markers, `MARKER` rows.
        slots: for each of the rows, the replica that showed it, as a slot (row of ``state.brokers``); ascending.
        offsets: the offset of each of the rows; ascending for each slot.

    Returns:
        A tuple of three arrays. The first has the end markers below the last row of each replica, as `MARKER` rows, one
        replica after the other. The second has the slot of each marker's replica. The third has, for each of the given
        rows, how many markers of its replica lie below it.
    """
    passed = np.zeros(len(slots), np.intp)
    found, of = [markers[:0]], [slots[:0]]
    first = 0
    for slot, count in zip(*np.unique(slots, return_counts=True), strict=True):
        rows = slice(first, first + int(count))
        first = rows.stop
        own = markers[has_bit(markers["shown"], slot)]
        passed[rows] = np.searchsorted(own["offset"], offsets[rows])
        own = own[: passed[rows.stop - 1]]
        found.append(own)
        of.append(np.full(len(own), slot, slots.dtype))
    return joined(*found), np.concatenate(of), passed


def end_at_own(intervals: Array, markers: Array, positions: Array) -> Array:
    """End each transaction at the lowest end marker of its producer that its own replica has shown inside it.

    What lies behind that marker is no longer in the interval, because nobody knows where the next transaction began
    there.

    Args:
        intervals: transactions, `INTERVAL` rows.
        markers: known end markers, `MARKER` rows.
        positions: a replica's next offset in read_uncommitted, by slot (row of ``state.brokers``).

    Returns:
        The same `INTERVAL` rows in the same order, some of them with a lower end.
    """
    made = intervals
    for slot in np.unique(intervals["slot"]) if len(markers) else ():
        own = markers[has_bit(markers["shown"], slot) & (markers["offset"] < positions[slot])]
        after, before = (np.searchsorted(own["offset"], intervals[name]) for name in ("start", "end"))
        # A marker of any producer; there is seldom one.
        mine = np.flatnonzero((intervals["slot"] == slot) & (after < before))
        if not len(mine):
            continue
        hit, ended = _lowest_inside(intervals, mine, own)
        if len(hit):
            made = made.copy() if made is intervals else made
            made["end"][hit], made["end_type"][hit] = ended["offset"], ended["type"]
            made["over_by"][hit] = made["next_start"][hit] = NEVER
            made["missed"][hit[made["missed"][hit] >= ended["offset"]]] = NEVER
    return made


def find_missed(intervals: Array, markers: Array, positions: Array, members: int) -> Array:
    """Find for each transaction the lowest end marker within it that its replica passed without showing it.

    The lowest is the true end, because a marker can be lost but never invented.

    Args:
        intervals: transactions, `INTERVAL` rows.
        markers: known end markers, `MARKER` rows.
        positions: a replica's next offset in read_uncommitted, by slot (row of ``state.brokers``).
        members: bit mask of the replica set.

    Returns:
        The `INTERVAL` rows, with the missed marker of each in the columns ``missed`` and ``missed_...``.
    """
    if not len(intervals) or not len(markers):
        return intervals
    lacking = passed_without(positions, members, markers["offset"], markers["shown"])
    if not lacking.any():
        return intervals
    found = intervals.copy()
    for slot in slots_of(int(np.bitwise_or.reduce(lacking))):
        mine = np.flatnonzero(found["slot"] == slot)
        _note_missed(found, mine, markers[has_bit(lacking, slot)])
    return found


def later_ones(intervals: Array, shown: Array) -> Array:
    """The transactions that a replica did not separate from an earlier one of the same producer.

    The replica missed the end marker of the earlier transaction, and its next marker ended both. The later transaction
    begins at the producer's first record that the replica shows behind the missed marker.

    Args:
        intervals: transactions, `INTERVAL` rows.
        shown: records, `PENDING` rows in offset order; they say where a later transaction begins.

    Returns:
        A new `INTERVAL` row for each such later transaction that has none yet. Its ``missed`` is `NEVER`.
    """
    ended = intervals[(intervals["missed"] != NEVER) & (intervals["end"] != NEVER) & (intervals["end_type"] != UNREAD)]
    begins = np.searchsorted(shown["offset"], ended["missed"], side="right")
    ends = np.searchsorted(shown["offset"], ended["end"])
    made = []
    for i in np.flatnonzero(begins < ends):
        one, behind = ended[i], shown[begins[i] : ends[i]]
        is_own = has_bit(behind["visible"] | behind["aborted"], one["slot"])
        behind = behind[is_own & (behind["producer_id"] == one["producer_id"])]
        if len(behind) and not _has_one_inside(intervals, one):
            later = np.array([one])
            later["start"], later["missed"], later["told"] = behind["offset"][0], NEVER, 0
            made.append(later)
    return joined(intervals[:0], *made)


def _has_one_inside(intervals: Array, one: Array) -> bool:
    """Whether another interval of the same producer on the same replica begins within one."""
    mine = (intervals["slot"] == one["slot"]) & (intervals["producer_id"] == one["producer_id"])
    return bool((mine & (intervals["start"] > one["start"]) & (intervals["start"] < one["end"])).any())


def _note_missed(intervals: Array, mine: Array, unshown: Array) -> None:
    hit, missed = _lowest_inside(intervals, mine, unshown)
    lowest = missed["offset"] <= intervals["missed"][hit]
    hit, missed = hit[lowest], missed[lowest]
    intervals["missed"][hit] = missed["offset"]
    intervals["missed_type"][hit] = missed["type"]
    intervals["missed_shown"][hit] = missed["shown"]
    intervals["missed_epoch"][hit] = missed["leader_epoch"]


def _lowest_inside(intervals: Array, mine: Array, markers: Array) -> tuple[Array, Array]:
    """Join markers with the intervals of one replica: each marker belongs to the last one that starts before it.

    One at the very offset at which an interval starts is of another log, and ended nothing of that transaction.

    Returns:
        Indices of the intervals that have one inside, and the rows of the lowest of each.
    """
    markers = markers[np.isin(markers["producer_id"], intervals["producer_id"][mine])]
    producer = np.concatenate([intervals["producer_id"][mine], markers["producer_id"]])
    offset = np.concatenate([intervals["start"][mine], markers["offset"]])
    interval = np.concatenate([mine, np.full(len(markers), UNKNOWN)])
    marker = np.concatenate([np.full(len(mine), UNKNOWN), np.arange(len(markers))])
    order = np.lexsort((interval != UNKNOWN, offset, producer))
    producer, interval, marker = producer[order], interval[order], marker[order]
    last = np.maximum.accumulate(np.where(interval != UNKNOWN, np.arange(len(order)), UNKNOWN))
    rows = np.flatnonzero((marker != UNKNOWN) & (last != UNKNOWN))
    rows = rows[producer[last[rows]] == producer[rows]]
    hit, found = interval[last[rows]], markers[marker[rows]]
    inside = found["offset"] < intervals["end"][hit]
    # Rows are in offset order within a producer, so the first of each interval is the lowest.
    hit, first = np.unique(hit[inside], return_index=True)
    return hit, found[inside][first]


def reconcile(
    intervals: Array, slot: int, producers: Array, starts: Array, log_ends: tuple[int, int], stable: int
) -> Array:
    """Find transactions that a replica's rows leave open, but that its own list of open transactions does not contain.

    Such a transaction has ended unseen: the cleaner removed its data and its end marker before the reader got to the
    marker. Either the replica does not list it, or it lists a later transaction of the producer.

    The result says in ``over_by`` below which offset the transaction has ended, and in ``next_start`` where the later
    transaction begins. `close_ended` ends it once the reader has passed ``over_by``, because the reader may still come
    to the marker until then.

    A transaction that begins at or above the last stable offset is left open. The cleaner removes nothing there, so its
    marker can still be read. The marker may also be truncated before it is replicated: then the transaction is open
    again.

    Args:
        intervals: transactions, `INTERVAL` rows.
        slot: the replica, as a row of ``state.brokers``.
        producers: producer ids of the transactions that the replica listed.
        starts: the first offset of each listed transaction, which is the first of a batch. The transaction's first
            record that is left may lie above it.
        log_ends: the replica's log end offset, at the tick before and now. A transaction that is not listed is over
            only if it begins below both. Above, the log may have been truncated and written again in between.
        stable: the replica's last stable offset, asked before the list.

    Returns:
        The new `INTERVAL` rows. If the replica lists an open transaction as beginning at a lower offset than its
        interval, the interval now begins at that offset. It keeps its beginning if the transaction was reported
        already, or if an earlier transaction of the producer ended above that offset.
    """
    mine = np.flatnonzero((intervals["slot"] == slot) & (intervals["end"] == NEVER))
    if not len(mine):
        return intervals
    listed = dict(zip(producers.tolist(), starts.tolist(), strict=True))
    ended = intervals[(intervals["slot"] == slot) & (intervals["end"] != NEVER)]
    made = intervals.copy()
    for i in mine:
        producer, start = int(made["producer_id"][i]), int(made["start"][i])
        now = listed.get(producer)
        if now is None:
            if start < min(*log_ends, stable) and made["over_by"][i] == NEVER:
                made["over_by"][i] = log_ends[1]
        elif now > start:
            if start < stable:
                made["over_by"][i], made["next_start"][i] = now, now
        else:
            made["over_by"][i] = made["next_start"][i] = NEVER
            stale = (ended["producer_id"] == producer) & (ended["end"] > now)
            if now < start and not made["told"][i] and not stale.any():
                made["start"][i] = now
    return made


def close_ended(intervals: Array, positions: Array) -> Array:
    """End each transaction that `reconcile` has found to be over, once its replica was read up to its ``over_by``.

    The transaction ends at ``over_by``, without a marker. If the replica lists a later transaction of the producer, the
    later one is added as open. A marker that the replica had passed with the transaction open still counts as missed.

    Args:
        intervals: transactions, `INTERVAL` rows.
        positions: a replica's next offset in read_uncommitted, by slot (row of ``state.brokers``).

    Returns:
        The new `INTERVAL` rows.
    """
    over = (intervals["end"] == NEVER) & (intervals["over_by"] <= positions[intervals["slot"]])
    if not over.any():
        return intervals
    closed = intervals[over]
    following = closed[closed["next_start"] != NEVER]
    closed["end"], closed["end_type"] = closed["over_by"], UNREAD
    # A marker from there on is one of the transaction that followed.
    closed["missed"][closed["missed"] >= closed["end"]] = NEVER
    following["start"] = following["next_start"]
    for name, fresh in (("missed", NEVER), ("over_by", NEVER), ("next_start", NEVER), ("missed_shown", 0), ("told", 0)):
        following[name] = fresh
    return joined(intervals[~over], closed, following)


def passed_open(intervals: Array) -> Array:
    """For each transaction, whether its replica missed an end marker and no end marker of its own was read.

    Only the replica's list of open transactions shows that such a transaction is over.

    Args:
        intervals: transactions, `INTERVAL` rows.
    """
    return (intervals["end"] != NEVER) & (intervals["end_type"] == UNREAD) & (intervals["missed"] != NEVER)
