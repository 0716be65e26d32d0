"""Invariant I2 (outcome): all replicas that show an outcome (committed or aborted) of a record show the same one.

An outcome that a replica has shown once still counts after the record is cleaned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parallax.compare.observations import ABORT, COMMIT, Array
from parallax.compare.rules.arrays import bits, group_starts, has_bit, joined, slots_of, table
from parallax.compare.rules.markers import UNREAD, disputed_offsets, passed_open
from parallax.compare.state import (
    DISPUTED,
    NAMELESS,
    NEVER,
    NOWHERE,
    NULL_KEY,
    PENDING,
    REPORTED,
    TOMBSTONE,
    UNLIKE,
    kept,
)
from parallax.model import NOBODY, UNKNOWN


def shown_records(
    offsets: Array,
    producers: Array,
    keys: tuple[Array, Array],
    null_key: Array,
    tombstone: Array,
    aborted: Array,
    slots: Array,
    epochs: Array,
    nameless: Array,
) -> Array:
    """The records that replicas showed in read_committed, as `PENDING` rows: one for each record and replica.

    `PENDING` is the state's table of records that wait to be compared. Aborted records are among them: a read_committed
    Fetch returns these as well, with a list of aborted transactions that lets consumers skip them.

    Args:
        offsets: the offset of each record.
        producers: its producer id; -1 if it is of no transaction.
        keys: the high and the low halves of the key hashes.
        null_key: whether the record has no key.
        tombstone: whether the record has no value.
        aborted: whether the replica shows it as aborted.
        slots: the replica that showed it, as a slot (row of ``state.brokers``).
        epochs: its leader epoch.
        nameless: whether the replica showed no record there. Its list of aborted transactions covers the offset, so a
            record at that offset is aborted; its key is not known.
    """
    mask = bits(slots)
    flags = np.where(null_key, NULL_KEY, 0) | np.where(tombstone, TOMBSTONE, 0)
    flags = np.where(nameless, NAMELESS, flags)
    return table(
        PENDING,
        len(offsets),
        offset=offsets,
        producer_id=producers,
        key_hash_hi=keys[0],
        key_hash_lo=keys[1],
        visible=np.where(aborted, np.uint32(0), mask),
        aborted=np.where(aborted, mask, np.uint32(0)),
        flags=flags,
        leader_epoch=epochs,
    )


def take_in(pending: Array, shown: Array) -> Array:
    """Add the records that replicas showed to the `PENDING` table; returns the new table, one row per offset.

    The flag `DISPUTED` of a row is set if replicas show unlike outcomes of its record. A dispute that was reported is
    open again if another replica shows an outcome of the record, because that replica has not been judged. Two
    different records at one offset are not compared here: that is a difference of content (I1).

    Args:
        pending: the table, `PENDING` rows in offset order.
        shown: what replicas showed (`shown_records`), in offset order.
    """
    if not len(shown):
        return pending
    # What lies below all that is new stays as it is: while a replica is away, that is nearly everything.
    settled = int(np.searchsorted(pending["offset"], shown["offset"].min()))
    return joined(pending[:settled], _merged(pending[settled:], shown))


def _merged(pending: Array, shown: Array) -> Array:
    rows = joined(pending, shown)
    # A row that is of a record comes before one that is not: it says which record that is.
    rows = rows[np.lexsort((rows["flags"] & NAMELESS, rows["offset"]))]
    starts = group_starts(rows["offset"])
    if len(starts) == len(rows):
        return rows
    if (cut := _of_cut_logs(rows, starts)).any():
        rows = rows[~cut]
        starts = group_starts(rows["offset"])
    merged = rows[starts]
    merged["visible"] = np.bitwise_or.reduceat(rows["visible"], starts)
    merged["aborted"] = np.bitwise_or.reduceat(rows["aborted"], starts)
    merged["leader_epoch"] = np.maximum.reduceat(rows["leader_epoch"], starts)
    was_shown = rows["visible"][starts] | rows["aborted"][starts]
    is_judged = (merged["visible"] | merged["aborted"]) & ~was_shown == 0
    merged["flags"][~is_judged & (merged["flags"] & UNLIKE == 0)] &= ~np.uint8(REPORTED)
    disputed = (merged["visible"] != 0) & (merged["aborted"] != 0)
    merged["flags"][disputed] |= DISPUTED
    if disputed.any():
        merged["flags"][disputed & _differ(rows, starts)] |= REPORTED | UNLIKE
    return merged


def _of_cut_logs(rows: Array, starts: Array) -> Array:
    """Mask of the rows at whose offset another record of a later leader epoch was shown.

    An election has cut the log in which the earlier one lay: what was shown of it is neither shown nor missed by who
    shows the other. One record in batches of two leader epochs is one.
    """
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    epochs, named = rows["leader_epoch"], rows["flags"] & NAMELESS == 0
    newest = np.maximum.reduceat(epochs, starts)[group]
    is_older = (epochs != UNKNOWN) & (epochs < newest) & named
    if not is_older.any():
        return is_older
    at = np.flatnonzero(epochs == newest)
    at = at[group_starts(group[at])][group]
    is_another = (rows["flags"] ^ rows["flags"][at]) & (TOMBSTONE | NULL_KEY) != 0
    for name in ("key_hash_hi", "key_hash_lo"):
        is_another |= rows[name] != rows[name][at]
    return is_older & is_another & named[at]


def _differ(rows: Array, starts: Array) -> Array:
    """Mask of the groups of rows that are not all of one record."""
    unlike = np.zeros(len(starts), np.bool_)
    sizes = np.diff(starts, append=len(rows))
    nameless = rows["flags"] & NAMELESS != 0
    for name in ("producer_id", "key_hash_hi", "key_hash_lo"):
        column = rows[name]
        if name != "producer_id":
            column = np.where(nameless, np.repeat(column[starts], sizes), column)
        unlike |= np.minimum.reduceat(column, starts) != np.maximum.reduceat(column, starts)
    return unlike


def open_disputes(pending: Array) -> Array:
    """For each `PENDING` row, whether replicas show unlike outcomes of its record that were not reported yet.

    Such a row has to be judged, once the end markers behind it have been read.
    """
    return (pending["flags"] & (DISPUTED | REPORTED)) == DISPUTED


@dataclass(frozen=True, slots=True)
class OutcomeRuling:
    """The result of `judge_disputes` for some records of one producer: which replica shows them with a wrong outcome.

    Attributes:
        slot: the replica that is wrong, as a row of ``state.brokers``; `NOBODY` if nothing proves which outcome is
            right.
        rows: the records, as indices into ``pending``.
        shown_aborted: whether the wrong replica shows them as aborted; otherwise it shows them as committed.
        markers: for each record the offset of the end marker that the wrong replica lacks: the lowest one that ended
            the transaction on a replica with the other outcome. -1 if it is not known.
    """

    slot: int
    rows: Array
    shown_aborted: bool
    markers: Array

    @property
    def proven(self) -> bool:
        """Whether end markers prove which replica is wrong; if not, the difference accuses nobody."""
        return self.slot != NOBODY


def judge_disputes(
    pending: Array, rows: Array, markers: Array, intervals: Array, unmarked: Array | tuple[int, int] = NOWHERE
) -> list[OutcomeRuling]:
    """Say which replica is wrong about each record with unlike outcomes, as far as end markers prove it.

    Where did a record's transaction end on a replica? At the first end marker of the producer that this replica shows
    behind the record, if the marker's type fits the outcome that the replica shows. If it does not fit, the replica
    contradicts itself (`follow_ends`), and the marker does not say where the transaction ended. A marker does not say
    it either if another replica shows something else at its offset (`disputed_offsets`).

    Let A and B be two replicas that show unlike outcomes of a record. A is wrong if any of these is true:

    - The transaction ended on A at a higher offset than on B.
    - A passed an end marker with the transaction still open, and on B the transaction ended there or below. So it ended
      on A above that marker, even if nobody read by which marker.
    - On B the transaction ended directly behind the record, at a marker of the record's leader epoch, and A's first end
      marker lies further up. The type of A's marker proves nothing: it may be the end of a later transaction, and the
      right marker may have been cleaned.

    If nothing proves which replica is wrong, a verdict with `NOBODY` names the record: neither the number of replicas
    nor the order of reading proves anything. Such a verdict needs a difference between replicas that do not contradict
    themselves by a marker of another leader epoch than the record's. The outcome of those that do may be of a marker
    that was truncated before anybody read it. A record that differs only because of them is in no verdict.

    Args:
        pending: `PENDING` rows.
        rows: the disputed records, as indices into ``pending``, all of one producer. No missed marker explains them
            (`explained`).
        markers: `MARKER` rows, in offset order.
        intervals: transactions, `INTERVAL` rows.
        unmarked: a range of offsets, as its first offset and one past its last, that is empty by default. The state may
            have left out end markers that replicas showed there. So if a transaction reaches into the range, its first
            known end marker is only an upper bound of the true end.

    Returns:
        One verdict for each wrong replica and each outcome that it shows wrongly, and at most one with `NOBODY`. Two
        replicas may be wrong about the same record.
    """
    offsets, shows, hides = pending["offset"][rows], pending["visible"][rows], pending["aborted"][rows]
    concerned = slots_of(int(np.bitwise_or.reduce(shows | hides)))
    producer = pending["producer_id"][rows[0]]
    mine, unlike_at = markers[markers["producer_id"] == producer], markers["offset"][disputed_offsets(markers)]
    ends = {slot: _first_end(mine, slot, offsets, has_bit(hides, slot)) for slot in concerned}
    ends = {slot: (end, fits & ~np.isin(end, unlike_at)) for slot, (end, fits) in ends.items()}
    ended_directly = _has_marker_behind(mine, offsets, pending["leader_epoch"][rows])
    verdicts = []
    proven = np.zeros(len(rows), np.bool_)
    for slot in concerned:
        own, own_fits = ends[slot]
        lower = np.full(len(rows), NEVER)
        marker = np.full(len(rows), NEVER)
        direct = np.zeros(len(rows), np.bool_)
        for other in concerned:
            unlike = (has_bit(shows, slot) & has_bit(hides, other)) | (has_bit(hides, slot) & has_bit(shows, other))
            end, fits = ends[other]
            lower = np.where(unlike & fits, np.minimum(lower, end), lower)
            exact = fits & ~_may_lack_end(unmarked, offsets, end)
            marker = np.where(unlike & exact, np.minimum(marker, end), marker)
            direct |= unlike & fits & (end == offsets + 1) & ended_directly
        past = _open_past(intervals, slot, offsets, producer)
        # A replica that showed an end up to there had not passed it open: what looks like one transaction were several.
        own_exact = ~_may_lack_end(unmarked, offsets, own)
        ended_above = own_fits & own_exact
        passed_above = (past < own) & ~_may_lack_end(unmarked, offsets, past)
        ended_further_up = own_exact & (own != NEVER) & (own > offsets + 1)
        wrong = (ended_above & (lower < own)) | (passed_above & (lower <= past)) | (direct & ended_further_up)
        proven |= wrong
        for aborted in (False, True):
            at = np.flatnonzero(wrong & (has_bit(hides, slot) == aborted))
            if len(at):
                lacked = np.where(marker[at] == NEVER, UNKNOWN, marker[at])
                verdicts.append(OutcomeRuling(slot, rows[at], aborted, lacked))
    rest = _without_direction(pending, rows[~proven], mine)
    if len(rest):
        verdicts.append(OutcomeRuling(NOBODY, rest, False, np.full(len(rest), UNKNOWN)))
    return verdicts


def _without_direction(pending: Array, rows: Array, markers: Array) -> Array:
    """Return those of the rows that differ without the outcomes whose end marker may have been truncated."""
    shows, hides = pending["visible"][rows], pending["aborted"][rows]
    for slot in slots_of(int(np.bitwise_or.reduce(shows | hides))):
        doubtful = _may_be_truncated(markers, slot, pending[rows])
        shows, hides = (np.where(doubtful, mask & ~np.uint32(1 << slot), mask) for mask in (shows, hides))
    return rows[(shows != 0) & (hides != 0)]


def _first_end(markers: Array, slot: int, offsets: Array, aborted: Array) -> tuple[Array, Array]:
    """The first marker that a replica shows after each offset (or `NEVER`), and whether its type fits the outcome."""
    own = markers[has_bit(markers["shown"], slot)]
    at = np.searchsorted(own["offset"], offsets, side="right")
    known = at < len(own)
    end = np.full(len(offsets), NEVER)
    end[known] = own["offset"][at[known]]
    fits = np.zeros(len(offsets), np.bool_)
    fits[known] = (own["type"][at[known]] != COMMIT) == aborted[known]
    return end, fits


def _has_marker_behind(markers: Array, offsets: Array, epochs: Array) -> Array:
    """Mask of the records directly behind which an end marker of their leader epoch lies."""
    at = np.searchsorted(markers["offset"], offsets + 1)
    known = at < len(markers)
    at = np.where(known, at, 0)
    if not len(markers):
        return known
    mask: Array = known & (markers["offset"][at] == offsets + 1) & (markers["leader_epoch"][at] == epochs)
    return mask


def _may_be_truncated(markers: Array, slot: int, rows: Array) -> Array:
    """Mask of the records that a replica shows otherwise than its first marker behind them, of another leader epoch."""
    offsets, aborted = rows["offset"], has_bit(rows["aborted"], slot)
    own = markers[has_bit(markers["shown"], slot)]
    end, fits = _first_end(own, slot, offsets, aborted)
    known = end != NEVER
    epoch = rows["leader_epoch"].copy()
    epoch[known] = own["leader_epoch"][np.searchsorted(own["offset"], end[known])]
    mask: Array = known & ~fits & (epoch != rows["leader_epoch"])
    return mask


def _may_lack_end(unmarked: Array | tuple[int, int], offsets: Array, ends: Array) -> Array:
    """Mask of the records after which, below the given offset, a marker may have been shown that is not known."""
    first, end = unmarked
    mask: Array = (first < ends) & (offsets < end)
    return mask


def _open_past(intervals: Array, slot: int, offsets: Array, producer: int) -> Array:
    """The marker that a replica passed with the transaction around each offset open, its end unread; -1 where none."""
    past = np.full(len(offsets), UNKNOWN)
    producers = np.full(len(offsets), producer)
    for interval in intervals[passed_open(intervals) & (intervals["slot"] == slot)]:
        past = np.where(covered(offsets, producers, interval), interval["missed"], past)
    return past


def follow_ends(unended: Array, shown: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Compare each transaction's outcome in read_committed with the end marker that the same replica shows behind it.

    The marker that ended a transaction stays in the log as long as its records. So the first marker of the producer
    that a replica shows behind a record should agree with the outcome that the replica gives the record. E.g. behind a
    record shown as aborted comes an ABORT. If a COMMIT comes, the replica contradicts itself: its index of aborted
    transactions is wrong. That proof needs no other replica.

    Args:
        unended: transactions without an end from earlier steps, `UNENDED` rows.
        shown: new transactional records as `UNENDED` rows, in offset order for each slot.
        ends: new end markers as `UNENDED` rows; ``aborted`` where it is an ABORT.

    Returns:
        `UNENDED` rows of the transactions whose end marker is still to be read. A transaction has a row for each
            outcome with which its records are shown: the first such record.
        `UNENDED` rows of the transactions whose end marker contradicts the outcome of a record: the first such record.
        For each row of the second array, the offset of that end marker.
    """
    same = (shown["slot"][1:] == shown["slot"][:-1]) & (shown["producer_id"][1:] == shown["producer_id"][:-1])
    same &= shown["aborted"][1:] == shown["aborted"][:-1]
    if len(ends):
        # A run of like records is one row, unless an end marker lies within.
        before = np.searchsorted(np.sort(ends["offset"]), shown["offset"])
        same &= before[1:] == before[:-1]
    first = np.ones(len(shown), np.bool_)
    first[1:] = ~same
    rows = joined(unended, shown[first], ends)
    is_end = np.zeros(len(rows), np.bool_)
    is_end[len(rows) - len(ends) :] = True
    order = np.lexsort((rows["offset"], rows["producer_id"], rows["slot"]))
    rows, is_end = rows[order], is_end[order]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = is_end[:-1] | (rows["slot"][1:] != rows["slot"][:-1])
    begins[1:] |= rows["producer_id"][1:] != rows["producer_id"][:-1]
    which = np.cumsum(begins) - 1
    end_of = np.full(int(which[-1]) + 1 if len(rows) else 0, UNKNOWN)
    end_of[which[is_end]] = np.flatnonzero(is_end)
    end = end_of[which]
    against = np.flatnonzero(~is_end & (end != UNKNOWN) & (rows["aborted"] != rows["aborted"][end]))
    against = against[np.unique(which[against], return_index=True)[1]]
    waiting = np.flatnonzero(end == UNKNOWN)
    waiting = waiting[np.unique(which[waiting] * 2 + rows["aborted"][waiting], return_index=True)[1]]
    return rows[waiting], rows[against], rows["offset"][end[against]]


def ended_ahead(unended: Array, markers: Array, intervals: Array) -> tuple[Array, Array, Array]:
    """Compare records with their replica's own end marker, if only its read_uncommitted reader has got to the marker.

    While an earlier transaction stays open, the read_committed reader never gets to these markers.

    Args:
        unended: transactions whose end read_committed has not shown, `UNENDED` rows.
        markers: `MARKER` rows, in offset order; all that were shown behind the first of ``unended``.
        intervals: `INTERVAL` rows, only transactions whose replica missed their end marker. A record in such a
            transaction is not compared, because the next marker that its replica shows did not end it.

    Returns:
        The rows of ``unended`` whose end marker is still to be read.
        The rows of ``unended`` whose outcome contradicts the first end marker that the same replica shows behind them.
        For each row of the second array, the offset of that marker.
    """
    first = np.full(len(unended), UNKNOWN)
    for slot in np.unique(unended["slot"]) if len(markers) else ():
        mine = np.flatnonzero(unended["slot"] == slot)
        own = np.flatnonzero(has_bit(markers["shown"], slot))
        producers = np.concatenate([markers["producer_id"][own], unended["producer_id"][mine]])
        order = np.lexsort((np.concatenate([markers["offset"][own], unended["offset"][mine]]), producers))
        behind = np.append(np.flatnonzero(order < len(own)), len(order))
        waits = np.flatnonzero(order >= len(own))
        follows = order[np.minimum(behind[np.searchsorted(behind, waits)], len(order) - 1)]
        found = (follows < len(own)) & (producers[follows] == producers[order[waits]])
        first[mine[order[waits[found]] - len(own)]] = own[follows[found]]
    ended = first != UNKNOWN
    for interval in intervals:
        ended &= ~_within(unended, interval)
    rows, ends = unended[ended], markers[first[ended]]
    against = (ends["type"] == ABORT) != rows["aborted"]
    return kept(unended, ~ended), rows[against], ends["offset"][against]


def never_ended(unended: Array, shown: Array, ends: Array, emptied: Array) -> list[int]:
    """For each emptied end marker, the last record of its producer before it on the same replica; -1 if there is none.

    There is none either if another marker of the producer lies between. The cleaner empties an end marker only once no
    record of its transaction is left. So a replica that still shows a record has copied an empty batch instead of the
    marker.

    All rows may be of several replicas; their column ``slot`` says of which.

    Args:
        unended: transactions without an end from earlier steps, `UNENDED` rows.
        shown: new transactional records, as `UNENDED` rows.
        ends: new end markers, as `UNENDED` rows.
        emptied: new end markers that are emptied, as `UNENDED` rows.

    Returns:
        For each row of ``emptied``, in order, the offset of that record.
    """

    def last(rows: Array, end: Array) -> int:
        mine = (rows["slot"] == end["slot"]) & (rows["producer_id"] == end["producer_id"])
        return int(rows["offset"][mine & (rows["offset"] < end["offset"])].max(initial=-1))

    records = [max(last(unended, end), last(shown, end)) for end in emptied]
    return [record if record > last(ends, end) else -1 for record, end in zip(records, emptied, strict=True)]


def turned(intervals: Array) -> Array:
    """For each transaction, whether its replica missed the end marker, and ended it by one of the opposite type.

    E.g. the replica missed the ABORT that ended the transaction elsewhere. So it held the transaction open until the
    producer's next marker. That was a COMMIT, and made aborted records committed on this replica.

    Args:
        intervals: transactions, `INTERVAL` rows.
    """
    return (
        (intervals["missed"] != NEVER)
        & (intervals["end"] != NEVER)
        & (intervals["end_type"] != UNREAD)
        & (intervals["end_type"] != intervals["missed_type"])
    )


def wrongly_shown(pending: Array, interval: Array) -> Array:
    """The records that a replica shows with a wrong outcome, because it missed the end marker of their transaction.

    Args:
        pending: `PENDING` rows.
        interval: the `INTERVAL` row of the transaction whose marker the replica missed. Its ``missed`` is that marker's
            offset, and its ``end_type`` the type of the next one, by which the replica ended the transaction.

    Returns:
        Those rows of ``pending``: below the missed marker, and shown with the outcome of the next one.
    """
    showed = pending["visible"] if interval["end_type"] == COMMIT else pending["aborted"]
    own = has_bit(showed, interval["slot"])
    return pending[own & covered(pending["offset"], pending["producer_id"], interval)]


def shown_against(unended: Array, interval: Array) -> Array:
    """The records whose outcome on a replica contradicts the end marker that ended their transaction there.

    E.g. the replica shows them as aborted although that marker is a COMMIT.

    Args:
        unended: first records of transactions whose end was not shown in read_committed yet (`UNENDED` rows).
        interval: the transaction on that replica, an `INTERVAL` row.

    Returns:
        Rows of ``unended``.
    """
    return unended[_within(unended, interval) & (unended["aborted"] == (interval["end_type"] == COMMIT))]


def _within(unended: Array, interval: Array) -> Array:
    mask: Array = (unended["slot"] == interval["slot"]) & covered(unended["offset"], unended["producer_id"], interval)
    return mask


def explained(pending: Array, intervals: Array) -> Array:
    """For each record that replicas show with different outcomes, whether missed end markers explain that.

    Some replicas show the record as visible, the others as aborted. It is explained if all replicas of one of these
    sides are known to have missed the transaction's own marker, which says what the other side shows. To know it of one
    replica is not enough: several may have missed that marker, and one of them may be read much later.

    Args:
        pending: `PENDING` rows, one for each record.
        intervals: `INTERVAL` rows, only transactions that missed a marker.

    Returns:
        Booleans, one for each row of ``pending``.
    """
    wrong = np.zeros(len(pending), np.uint32)
    for interval in intervals:
        showed = pending["aborted"] if interval["missed_type"] == COMMIT else pending["visible"]
        inside = covered(pending["offset"], pending["producer_id"], interval)
        wrong |= np.where(inside, showed & bits(interval["slot"]), np.uint32(0))
    rest_shows, rest_hides = pending["visible"] & ~wrong, pending["aborted"] & ~wrong
    mask: Array = (wrong != 0) & ((rest_shows == 0) | (rest_hides == 0))
    return mask


def covered(offsets: Array, producers: Array, interval: Array) -> Array:
    """For each record, whether it belongs to a transaction whose end marker a replica has missed.

    It does if it is of the transaction's producer, at or above the transaction's first offset, and below the marker.

    Args:
        offsets: the offset of each record.
        producers: the producer id of each record.
        interval: the transaction as that replica shows it, an `INTERVAL` row; its ``missed`` is the marker's offset.
    """
    inside: Array = (
        (producers == interval["producer_id"]) & (offsets >= interval["start"]) & (offsets < interval["missed"])
    )
    return inside
