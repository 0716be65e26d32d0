"""Invariant I1 (content): a record that two replicas both hold at one offset is the same record."""

from __future__ import annotations

import numpy as np

from parallax.compare.observations import RECORD, Array, ViewRows
from parallax.compare.rules.arrays import bits, group_starts, has_bit, joined, table
from parallax.compare.state import CONTENT

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_PLACE = np.uint64(60)
_BARE = np.uint64((1 << 60) - 1)


def fingerprints(rows: ViewRows) -> Array:
    """For each row, a 64-bit number that is equal on replicas with the same record.

    For a record it is made of producer id and epoch, key, value and headers, and timestamp. For an end marker it is
    made of producer and type. The leader epoch is left out: it belongs to the batch, and a follower may know an older
    one.

    The highest four bits are the version of the content's hash. Records whose hashes have different versions never
    count as different. Key and content are keyed 128-bit and 64-bit hashes already, so mixing them needs no
    cryptographic strength.
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
    mixed ^= mixed >> _SHIFT
    ends = rows.kind != RECORD
    if ends.any():
        mixed[ends] = (rows.producer_id[ends].astype(np.uint64) ^ rows.kind[ends].astype(np.uint64) << 62) * _MULTIPLIER
        mixed[ends] ^= mixed[ends] >> _SHIFT
    return ((mixed & _BARE) | (rows.content_version.astype(np.uint64) << _PLACE)).astype(np.int64)


def take_in(content: Array, offsets: Array, prints: Array, slots: Array) -> Array:
    """Add the records that replicas showed to the state's table of records that not every replica has passed.

    Args:
        content: the table so far, `CONTENT` rows in offset order.
        offsets: the offset of each record.
        prints: the fingerprint of each record (`fingerprints`).
        slots: the replica that showed each record, as a slot (row of ``state.brokers``).

    Returns:
        The new table, in offset order. It has one row for each offset, or one for each distinct record where replicas
        differ.
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


def is_shown(table: Array, offsets: Array, slots: Array) -> Array:
    """For each offset, whether a given replica has shown a record or an end marker there.

    Args:
        table: records that not every replica has passed (`CONTENT` rows), in offset order.
        offsets: the offsets to look up.
        slots: for each offset, the replica, as a slot (row of ``state.brokers``).
    """
    first, end = (np.searchsorted(table["offset"], offsets, side) for side in ("left", "right"))
    mask = np.zeros(len(offsets), np.bool_)
    # There is one row an offset, but where replicas differ.
    for further in range(int((end - first).max(initial=0))):
        known = np.flatnonzero(first + further < end)
        mask[known] |= has_bit(table["shown"][first[known] + further], slots[known])
    return mask


def contradictions(content: Array) -> Array:
    """For each row, whether replicas show different records at its offset; only hashes of one version are compared.

    Args:
        content: records that not every replica has passed (`CONTENT` rows), in offset order.
    """
    offset = content["offset"]
    differs = np.zeros(len(content), np.bool_)
    twice = offset[1:] == offset[:-1]
    if not twice.any():
        return differs
    several = np.zeros(len(content), np.bool_)
    several[1:] |= twice
    several[:-1] |= twice
    at = np.flatnonzero(several)
    version = _versions(content[at])
    order = np.lexsort((version, offset[at]))
    at, version = at[order], version[order]
    again = (offset[at][1:] == offset[at][:-1]) & (version[1:] == version[:-1])
    differs[at[1:][again]] = True
    differs[at[:-1][again]] = True
    return differs


def _versions(content: Array) -> Array:
    return content["fingerprint"].astype(np.uint64) >> _PLACE


def incomparable(content: Array) -> Array:
    """The offsets where nobody can tell whether records differ, ascending: their hashes are of two versions.

    The hashes differ there. That may be because the records do, or only because the versions do.

    Args:
        content: records that not every replica has passed (`CONTENT` rows), in offset order.
    """
    offset, bare = content["offset"], content["fingerprint"].astype(np.uint64) & _BARE
    unlike = (offset[1:] == offset[:-1]) & (bare[1:] != bare[:-1]) & (_versions(content)[1:] != _versions(content)[:-1])
    return np.unique(offset[1:][unlike])


def differences(rows: Array) -> list[tuple[int, list[int]]]:
    """For each offset where replicas show different records, which replicas show which record.

    Args:
        rows: the `CONTENT` rows that `contradictions` selects, in offset order.

    Returns:
        For each offset, in order: the offset, and one bit mask of replicas for each distinct record.
    """
    starts = [int(s) for s in group_starts(rows["offset"])]
    ends = [*starts, len(rows)][1:]
    return [
        (int(rows["offset"][start]), [int(m) for m in rows["shown"][start:end] if m])
        for start, end in zip(starts, ends, strict=True)
    ]
