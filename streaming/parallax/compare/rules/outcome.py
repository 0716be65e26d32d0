"""I2: whatever outcome a replica has once shown for a record, every replica that shows one shows the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parallax.compare.observations import COMMIT, Array
from parallax.compare.rules.arrays import bit_counts, bits, group_starts, slots_of, table
from parallax.compare.state import DISPUTED, NEVER, NULL_KEY, PENDING, TOLD, TOMBSTONE


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

    Where replicas show unlike outcomes, `DISPUTED` is set.
    """
    if not len(shown):
        return pending
    both = np.concatenate([pending, shown])
    offset = both["offset"]
    order = np.argsort(offset, kind="stable")
    starts = group_starts(offset[order])
    merged = both[order[starts]]
    if len(merged) < len(both):
        merged["visible"] = np.bitwise_or.reduceat(both["visible"][order], starts)
        merged["aborted"] = np.bitwise_or.reduceat(both["aborted"][order], starts)
        merged["flags"][(merged["visible"] != 0) & (merged["aborted"] != 0)] |= DISPUTED
    return merged


def open_disputes(pending: Array) -> Array:
    """Mask of the rows whose outcome replicas differ about and nobody was told of."""
    return (pending["flags"] & (DISPUTED | TOLD)) == DISPUTED


@dataclass(frozen=True, slots=True)
class Verdict:
    """Records of one producer whose outcome on one replica is unlike that on others; nothing says which is right.

    Attributes:
        slot: the replica that is named.
        rows: indices into ``pending``.
    """

    slot: int
    rows: Array


def judge_undirected(pending: Array, rows: Array) -> list[Verdict]:
    """Name the replicas that are fewer where outcomes differ, in a tie those that hide the record.

    For disputes that no missed marker explains. Neither the number of replicas nor the order in which they were read
    proves anything: a replica that is right may be read after one that is wrong. So no verdict here says who is wrong.

    Args:
        pending: `PENDING`.
        rows: indices of disputed rows, all of one producer.
    """
    shows, hides = pending["visible"][rows], pending["aborted"][rows]
    named = np.where(bit_counts(shows) < bit_counts(hides), shows, hides)
    verdicts = []
    for slot in slots_of(int(np.bitwise_or.reduce(named))):
        verdicts.append(Verdict(slot, rows[(named >> np.uint32(slot)) & 1 == 1]))
    return verdicts


def turned(intervals: Array) -> Array:
    """Mask of the intervals that another type of marker ended than the one that was missed."""
    return (
        (intervals["missed"] != NEVER)
        & (intervals["end"] != NEVER)
        & (intervals["end_type"] != intervals["missed_type"])
    )


def wrongly_shown(pending: Array, interval: Array) -> Array:
    """The `PENDING` rows that the interval's replica shows with the outcome that the wrong marker gave them."""
    showed = pending["visible"] if interval["end_type"] == COMMIT else pending["aborted"]
    own = (showed >> np.uint32(interval["slot"])) & 1 == 1
    return pending[own & covered(pending["offset"], pending["producer_id"], interval)]


def covered(offsets: Array, producers: Array, interval: Array) -> Array:
    """Mask of the records that lie in the part of a transaction which its replica ended wrongly."""
    inside: Array = (
        (producers == interval["producer_id"]) & (offsets >= interval["start"]) & (offsets < interval["missed"])
    )
    return inside
