"""I2: whatever outcome a replica has once shown for a record, every replica that shows one shows the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parallax.compare.observations import COMMIT, Array
from parallax.compare.rules.arrays import bits, group_starts, table
from parallax.compare.state import DISPUTED, FIRST_ABORTED, NEVER, NULL_KEY, PENDING, TOLD, TOMBSTONE


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
    flags = np.where(null_key, NULL_KEY, 0) | np.where(tombstone, TOMBSTONE, 0) | np.where(aborted, FIRST_ABORTED, 0)
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

    The outcome that was shown first stays remembered (`FIRST_ABORTED`); where replicas differ, `DISPUTED` is set.
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
    """Records of one producer whose outcome on one replica is wrong by what was shown.

    Attributes:
        slot: the accused.
        rows: indices into ``pending``.
        shown_aborted: the accused shows them as aborted (else as committed).
    """

    slot: int
    rows: Array
    shown_aborted: bool


def judge_by_first(pending: Array, rows: Array) -> list[Verdict]:
    """Accuse those who show another outcome than was shown first.

    For disputes that no missed marker explains. A replica comes to a wrong outcome only by a later marker,
    so the earlier outcome is the true one.

    Args:
        pending: `PENDING`.
        rows: indices of disputed rows, all of one producer.
    """
    verdicts = []
    first_aborted = (pending["flags"][rows] & FIRST_ABORTED) != 0
    wrong = np.where(first_aborted, pending["visible"][rows], pending["aborted"][rows])
    for slot in range(32):
        for was_aborted in (False, True):
            mine = rows[((wrong >> np.uint32(slot)) & 1 == 1) & (first_aborted == was_aborted)]
            if len(mine):
                verdicts.append(Verdict(slot, mine, shown_aborted=not was_aborted))
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
