"""I1: a record that two replicas both hold at one offset is the same record."""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import Array, ViewRows
from parallax.compare.rules.arrays import bits, group_starts, joined, table
from parallax.compare.state import CONTENT

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def fingerprints(rows: ViewRows) -> Array:
    """One 64-bit number for all that must agree: producer id and epoch, key, value and headers, timestamp.

    The key and the content are keyed 128-bit and 64-bit hashes already; mixing them needs no cryptographic strength.
    The leader epoch is left out: it belongs to the batch, and a follower may know an older one.
    """
    mixed = rows.content_hash.astype(np.uint64)
    for column in (rows.key_hash_hi, rows.key_hash_lo, rows.timestamp, rows.producer_id):
        mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
        mixed ^= column.astype(np.uint64)
    sizes = (rows.key_size.astype(np.int64) << 32) ^ (rows.value_size.astype(np.int64) & 0xFFFF_FFFF)
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    mixed ^= sizes.astype(np.uint64)
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    mixed ^= rows.producer_epoch.astype(np.int64).astype(np.uint64)
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
    return (mixed ^ (mixed >> _SHIFT)).astype(np.int64)


def take_in(content: Array, offsets: Array, prints: Array, slots: Array) -> Array:
    """Add what replicas showed to the table of what is unmatched.

    Args:
        content: `CONTENT`, in offset order.
        offsets: of the records shown.
        prints: their fingerprints.
        slots: who showed them.

    Returns:
        `CONTENT` in offset order: one row for each offset, or one for each distinct record where replicas differ.
    """
    if not len(offsets):
        return content
    shown = table(CONTENT, len(offsets), offset=offsets, fingerprint=prints, shown=bits(slots))
    # What lies below all that is new stays as it is: while a replica is away, that is nearly everything.
    settled = int(np.searchsorted(content["offset"], offsets.min()))
    return joined(content[:settled], _merged(content[settled:], shown))


def _merged(content: Array, shown: Array) -> Array:
    both = joined(content, shown)
    offset, fingerprint = both["offset"], both["fingerprint"]
    order = np.argsort(offset, kind="stable")
    offset, fingerprint = offset[order], fingerprint[order]
    same_offset = offset[1:] == offset[:-1]
    if np.any(same_offset & (fingerprint[1:] != fingerprint[:-1])):
        order = np.lexsort((both["fingerprint"], both["offset"]))
        offset, fingerprint = both["offset"][order], both["fingerprint"][order]
    new = np.concatenate([[True], (offset[1:] != offset[:-1]) | (fingerprint[1:] != fingerprint[:-1])])
    starts = np.flatnonzero(new)
    return table(
        CONTENT,
        len(starts),
        offset=offset[starts],
        fingerprint=fingerprint[starts],
        shown=np.bitwise_or.reduceat(both["shown"][order], starts),
    )


def contradictions(content: Array) -> Array:
    """Mask of the rows at whose offset replicas show different records."""
    offset = content["offset"]
    differs = np.zeros(len(content), np.bool_)
    twice = offset[1:] == offset[:-1]
    differs[1:] |= twice
    differs[:-1] |= twice
    return differs


def odd_ones(rows: Array) -> list[tuple[int, int]]:
    """Who differs, at each offset with contradicting records.

    The replicas that show the record which most show are taken as right, in a tie those with the lowest slot among
    them; neither proves who is wrong, and the evidence says so by showing all.

    Args:
        rows: `CONTENT` rows of `contradictions`, in offset order.

    Returns:
        (offset, mask of the replicas that differ), in offset order.
    """
    found = []
    starts = [int(s) for s in group_starts(rows["offset"])]
    for start, end in zip(starts, [*starts, len(rows)][1:], strict=True):
        masks = [int(m) for m in rows["shown"][start:end]]
        right = max(masks, key=lambda mask: (mask.bit_count(), -(mask & -mask)))
        odd = 0
        for mask in masks:
            odd |= mask & ~right
        if odd:
            found.append((int(rows["offset"][start]), odd))
    return found
