"""Keeps which transactions are open at the end of each stride while rows are withheld. Pure.

When all replicas have shown the same rows, the rows are not taken into the state. The state must still know which
transactions are open behind them (`parallax.compare.agreed`). Sums do not say that, but the digests' ``moves`` do
(`parallax.replica.digests`). Equal rows leave the same transactions open. So it is enough to follow one reader of
read_committed whose rows all others have shown too. A reader that is far ahead of another one is not followed
any more. Of the one that is behind, what is open at its last offsets is kept, however far it comes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parallax.compare.blocks import Opens
from parallax.compare.observations import Array
from parallax.compare.state import GOING, NEVER, PartitionState
from parallax.compare.sums import Grain, ends_stride
from parallax.model import UNKNOWN, Outcome
from parallax.replica.digests import Digests, Open, carried

MOST = 64
"""At how many offsets the open transactions of one reader are kept."""


def of_state(state: PartitionState, slot: int) -> dict[int, Open]:
    """The transactions that are open on the replica in ``slot`` in read_committed, by producer id.

    They are those without an end among the rows that the state has taken in.
    """
    return _opens(state.unended[state.unended["slot"] == slot])


def starts_of_state(state: PartitionState, slot: int) -> dict[int, int]:
    """By producer id, the first offset of each transaction that is open on a replica in read_uncommitted.

    Args:
        state: the partition's state.
        slot: the replica, as a row of ``state.brokers``.
    """
    mine = state.intervals[(state.intervals["slot"] == slot) & (state.intervals["end"] == NEVER)]
    return {int(row["producer_id"]): int(row["start"]) for row in mine}


def at(table: Array, end: int) -> Opens | None:
    """The transactions that are open at an offset, by producer id; None if they are known of no reader.

    Args:
        table: `GOING` rows: which transactions are open on which replica at which offset.
        end: the offset.
    """
    here = table[table["end"] == end]
    if not len(here):
        return None
    return _opens(here[here["slot"] == here["slot"][0]])


def last(table: Array, slot: int) -> Opens | None:
    """The transactions that are open where a read_committed reader's withheld rows end, by producer id.

    None if the transactions of this reader are not kept. Rows are withheld if they were read, and are not compared yet.

    Args:
        table: `GOING` rows: which transactions are open on which replica at which offset.
        slot: the reader's replica, as a row of ``state.brokers``.
    """
    mine = table[table["slot"] == slot]
    return _opens(mine[mine["end"] == mine["end"].max()]) if len(mine) else None


def followed(
    table: Array, slot: int, before: Opens, digests: Digests, reached: int, grain: Grain, *, is_ahead: bool
) -> Array:
    """Add to a table which transactions are open behind a reader's new rows: at the end of each stride, and behind all.

    Args:
        table: `GOING` rows of all readers: which transactions are open on which replica at which offset.
        slot: the reader's replica, as a row of ``state.brokers``.
        before: the transactions that are open where the new rows begin.
        digests: the sums of the new rows, with the moves of their transactions.
        reached: the offset below which the reader was shown everything.
        grain: the size of strides.
        is_ahead: whether another reader has not come as far.

    Returns:
        The new table, with the last `MOST` offsets of this replica. It has no row of this replica if one of its
        transactions is shown with both outcomes, or if there are more offsets and the reader is ahead.
    """
    others, mine = table[table["slot"] != slot], table[table["slot"] == slot]
    made, opens = [mine[ends_stride(mine["end"], grain.stride) & (mine["end"] < reached)], mine[:0]], dict(before)
    strides = (digests.parts["block_end"] - 1) >> grain.stride
    begins = np.searchsorted(digests.moves["part"], np.arange(len(strides) + 1)).tolist()
    for n, stride in enumerate(strides.tolist()):
        opens, against = carried(opens, digests.moves[begins[n] : begins[n + 1]])
        if against:
            return others
        end = (stride + 1) << grain.stride
        if end < reached and (n + 1 == len(strides) or strides[n + 1] != stride):
            made.append(_rows(slot, end, opens))
    mine = np.concatenate([*made, _rows(slot, reached, opens)])
    ends = np.unique(mine["end"])
    if len(ends) > MOST and is_ahead:
        return others
    return np.concatenate([others, mine[mine["end"] >= ends[-MOST:][0]]])


def behind(table: Array, cut: int, slots: set[int]) -> Array:
    """The `GOING` rows of some replicas at or above an offset: which transactions are open there.

    Args:
        table: `GOING` rows: which transactions are open on which replica at which offset.
        cut: the offset.
        slots: the replicas, as rows of ``state.brokers``.
    """
    return table[(table["end"] >= cut) & np.isin(table["slot"], sorted(slots))]


def _opens(rows: Array) -> dict[int, Open]:
    found = {}
    for row in rows[rows["producer_id"] != UNKNOWN]:
        outcome = Outcome.ABORTED if row["aborted"] else Outcome.COMMITTED
        found[int(row["producer_id"])] = Open(
            int(row["offset"]), int(outcome), int(row["key_hash_hi"]), int(row["key_hash_lo"])
        )
    return found


def _rows(slot: int, end: int, opens: Mapping[int, Open]) -> Array:
    made = np.zeros(len(opens) + 1, GOING)
    made["slot"], made["end"], made["producer_id"] = slot, end, UNKNOWN
    for row, (producer, one) in zip(made[1:], opens.items(), strict=True):
        row["producer_id"], row["offset"] = producer, one.start
        row["key_hash_hi"], row["key_hash_lo"] = one.key_hash_hi, one.key_hash_lo
        row["aborted"] = one.outcome == Outcome.ABORTED
    return made


__all__ = ["at", "behind", "followed", "last", "of_state", "starts_of_state"]
