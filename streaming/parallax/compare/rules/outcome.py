"""I2: whatever outcome a replica has once shown for a record, every replica that shows one shows the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parallax.compare.observations import COMMIT, UNKNOWN, Array
from parallax.compare.rules.arrays import bit_counts, bits, group_starts, has_bit, joined, slots_of, table
from parallax.compare.rules.markers import UNREAD, passed_open
from parallax.compare.state import DISPUTED, NEVER, NOWHERE, NULL_KEY, PENDING, TOLD, TOMBSTONE


def shown_records(
    offsets: Array,
    producers: Array,
    keys: tuple[Array, Array],
    null_key: Array,
    tombstone: Array,
    aborted: Array,
    slots: Array,
) -> Array:
    """Make `PENDING` rows of what replicas showed in read_committed, one a row and replica."""
    mask = bits(slots)
    flags = np.where(null_key, NULL_KEY, 0) | np.where(tombstone, TOMBSTONE, 0)
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
    )


def take_in(pending: Array, shown: Array) -> Array:
    """Merge what was shown into the table; `PENDING` in offset order, one row an offset.

    Where replicas show unlike outcomes of one record, `DISPUTED` is set. Where they show two records at one offset,
    neither's outcome says anything of the other's: that is a difference of content (I1), not told of here.
    """
    if not len(shown):
        return pending
    # What lies below all that is new stays as it is: while a replica is away, that is nearly everything.
    settled = int(np.searchsorted(pending["offset"], shown["offset"].min()))
    return joined(pending[:settled], _merged(pending[settled:], shown))


def _merged(pending: Array, shown: Array) -> Array:
    both = joined(pending, shown)
    offset = both["offset"]
    order = np.argsort(offset, kind="stable")
    starts = group_starts(offset[order])
    merged = both[order[starts]]
    if len(merged) < len(both):
        merged["visible"] = np.bitwise_or.reduceat(both["visible"][order], starts)
        merged["aborted"] = np.bitwise_or.reduceat(both["aborted"][order], starts)
        disputed = (merged["visible"] != 0) & (merged["aborted"] != 0)
        merged["flags"][disputed] |= DISPUTED
        if disputed.any():
            merged["flags"][disputed & _differ(both[order], starts)] |= TOLD
    return merged


def _differ(rows: Array, starts: Array) -> Array:
    """Mask of the groups of rows that are not all of one record."""
    unlike = np.zeros(len(starts), np.bool_)
    for name in ("producer_id", "key_hash_hi", "key_hash_lo"):
        unlike |= np.minimum.reduceat(rows[name], starts) != np.maximum.reduceat(rows[name], starts)
    return unlike


def open_disputes(pending: Array) -> Array:
    """Mask of the rows whose outcome replicas differ about and nobody was told of."""
    return (pending["flags"] & (DISPUTED | TOLD)) == DISPUTED


@dataclass(frozen=True, slots=True)
class Verdict:
    """Records of one producer whose outcome on one replica is unlike that on others.

    Attributes:
        slot: the replica that is named.
        rows: indices into ``pending``.
        proven: the replica is wrong; else nothing says which outcome is right.
        shown_aborted: the replica shows them as aborted (else as committed).
        markers: for each row the end marker that the replica lacks; -1 where it is not known.
    """

    slot: int
    rows: Array
    proven: bool
    shown_aborted: bool
    markers: Array


def judge_disputes(
    pending: Array, rows: Array, markers: Array, intervals: Array, unmarked: Array | tuple[int, int] = NOWHERE
) -> list[Verdict]:
    """Say who is wrong where outcomes differ and no interval tells, so far as end markers prove it.

    The first end marker that a replica shows after a record is the one that ended its transaction there, if it is of
    the type of the outcome; if it is not, a lower one did, which is gone. Of two replicas with unlike outcomes the one
    whose transaction ended higher is wrong; one that passed a marker with the transaction open ended it above that one,
    though its own end was cleaned before it was read. Where that does not tell, the replicas that are fewer are named,
    in a tie those that hide the record: neither numbers nor the order of reading prove anything.

    Args:
        pending: `PENDING`.
        rows: indices of disputed rows, all of one producer.
        markers: `MARKER`, in offset order.
        intervals: `INTERVAL`.
        unmarked: the range in which markers were shown that are not among these: the first known end of a transaction
            beyond its start is an upper bound of the true one, and no more.
    """
    offsets, shows, hides = pending["offset"][rows], pending["visible"][rows], pending["aborted"][rows]
    concerned = slots_of(int(np.bitwise_or.reduce(shows | hides)))
    producer = pending["producer_id"][rows[0]]
    mine = markers[markers["producer_id"] == producer]
    ends = {slot: _first_end(mine, slot, offsets, has_bit(hides, slot)) for slot in concerned}
    verdicts = []
    proven = np.zeros(len(rows), np.bool_)
    for slot in concerned:
        own, own_fits = ends[slot]
        lower = np.full(len(rows), NEVER)
        marker = np.full(len(rows), NEVER)
        for other in concerned:
            unlike = (has_bit(shows, slot) & has_bit(hides, other)) | (has_bit(hides, slot) & has_bit(shows, other))
            end, fits = ends[other]
            below = np.where(fits, end, end - 1)
            lower = np.where(unlike & (end != NEVER), np.minimum(lower, below), lower)
            exact = fits & ~_may_lack_end(unmarked, offsets, end)
            marker = np.where(unlike & exact, np.minimum(marker, end), marker)
        past = _open_past(intervals, slot, offsets, producer)
        # One that showed an end up to there had not passed it open: what looks like one transaction were several.
        ended_above = own_fits & ~_may_lack_end(unmarked, offsets, own)
        passed_above = (past < own) & ~_may_lack_end(unmarked, offsets, past)
        wrong = (ended_above & (lower < own)) | (passed_above & (lower <= past))
        proven |= wrong
        for aborted in (False, True):
            at = np.flatnonzero(wrong & (has_bit(hides, slot) == aborted))
            if len(at):
                lacked = np.where(marker[at] == NEVER, UNKNOWN, marker[at])
                verdicts.append(Verdict(slot, rows[at], True, aborted, lacked))
    return verdicts + _undirected(pending, rows[~proven])


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


def _undirected(pending: Array, rows: Array) -> list[Verdict]:
    if not len(rows):
        return []
    shows, hides = pending["visible"][rows], pending["aborted"][rows]
    fewer_show = bit_counts(shows) < bit_counts(hides)
    named = np.where(fewer_show, shows, hides)
    verdicts = []
    for slot in slots_of(int(np.bitwise_or.reduce(named))):
        for aborted in (False, True):
            mine = rows[has_bit(named, slot) & (fewer_show != aborted)]
            if len(mine):
                verdicts.append(Verdict(slot, mine, False, aborted, np.full(len(mine), UNKNOWN)))
    return verdicts


def turned(intervals: Array) -> Array:
    """Mask of the intervals that another type of marker ended than the one that was missed."""
    return (
        (intervals["missed"] != NEVER)
        & (intervals["end"] != NEVER)
        & (intervals["end_type"] != UNREAD)
        & (intervals["end_type"] != intervals["missed_type"])
    )


def wrongly_shown(pending: Array, interval: Array) -> Array:
    """The `PENDING` rows that the interval's replica shows with the outcome that the wrong marker gave them."""
    showed = pending["visible"] if interval["end_type"] == COMMIT else pending["aborted"]
    own = has_bit(showed, interval["slot"])
    return pending[own & covered(pending["offset"], pending["producer_id"], interval)]


def explained(pending: Array, intervals: Array) -> Array:
    """Mask of the `PENDING` rows of which all that show one of the outcomes have it for a marker that they missed.

    An interval explains what its own replica shows, and no other: two may have missed the same marker, and one of them
    be read much later.

    Args:
        pending: `PENDING`.
        intervals: `INTERVAL`, of transactions that missed a marker.
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
    """Mask of the records that lie in the part of a transaction which its replica ended wrongly."""
    inside: Array = (
        (producers == interval["producer_id"]) & (offsets >= interval["start"]) & (offsets < interval["missed"])
    )
    return inside
