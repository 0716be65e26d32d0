"""Invariant I3 (latest value): replicas show the same latest committed value of each key.

It holds up to a last stable offset that all have reached. A tombstone equals no record at all. Replicas compact on
their own, so the rule looks for absences that nothing explains. A record that some replicas showed and others passed
without showing it is a *candidate*, a row of `CANDIDATE`. It stays one until a later record of its key is seen, or
until the replicas that lack it were read up to where such a record could lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parallax.compare.observations import COMMIT, Array
from parallax.compare.rules.arrays import has_bit, latest_of_keys, slots_of
from parallax.compare.rules.markers import disputed_offsets
from parallax.compare.state import CANDIDATE, DISPUTED, EARLY, NULL_KEY, TOMBSTONE, UNLIKE
from parallax.model import NOBODY, UNKNOWN, FindingKind


def absences(released: Array, members: int | Array, markers: Array, *, strict_from: int, passed_at: int) -> Array:
    """The records that every replica of the set has passed and that not all have shown, as `CANDIDATE` rows.

    A record that some replica shows as aborted is left out: the replicas that lack it may have cleaned it as aborted.
    There is one exception: a tombstone that was surely committed stays. No replica may show what it deletes, even if
    another replica shows the tombstone as aborted.

    Args:
        released: `PENDING` rows that every replica has passed.
        members: bit mask of the replica set, or one mask for each row.
        markers: known end markers, rows of `MARKER`.
        strict_from: below this offset, records without a key are left out, for they have no latest value.
        passed_at: when the last of the replicas passed them, milliseconds since 1970 UTC.

    Returns:
        Rows of `CANDIDATE`, whose absence is to be explained or judged.
    """
    holders = released["visible"] & np.uint32(members)
    absent = (holders != 0) & (lacking(released, members) != 0) & ~is_doubted(released)
    at = np.flatnonzero(doubted_deletions(released, members) & (released["offset"] < strict_from))
    absent[at] = surely_committed(released[at], markers)
    absent &= ((released["flags"] & NULL_KEY) == 0) | (released["offset"] >= strict_from)
    made = as_candidates(released[absent], passed_at)
    made["flags"] &= ~np.uint8(EARLY)
    return made


def is_doubted(rows: Array) -> Array:
    """Mask of the records that some replica has shown as aborted, rightly or not.

    Args:
        rows: of `PENDING` or `CANDIDATE`.
    """
    mask: Array = (rows["aborted"] != 0) | (rows["flags"] & DISPUTED != 0)
    return mask


def doubted_deletions(rows: Array, members: int | Array) -> Array:
    """Mask of the tombstones that some replicas lack and some have shown as aborted.

    A replica that lacks such a tombstone may still show the deleted record, and nothing proves that this is wrong.

    Args:
        rows: of `PENDING` or `CANDIDATE`.
        members: bit mask of the replica set, or one mask for each row.
    """
    # Of unlike records at one offset the row does not say whose is what.
    is_one = (rows["flags"] & TOMBSTONE != 0) & (rows["flags"] & UNLIKE == 0)
    held = (rows["visible"] & np.uint32(members) != 0) & (lacking(rows, members) != 0)
    mask: Array = is_one & held & is_doubted(rows)
    return mask


def early_absences(pending: Array, members: int, markers: Array, *, strict_from: int) -> Array:
    """Mask of the tombstones to judge before absent replicas have passed them.

    Each of these tombstones is lacked by some replica that is still read.

    Only tombstones that were surely committed count. A replica that still shows an older value is wrong, whatever the
    absent replicas may show. All other absences wait for the absent replicas.

    Args:
        pending: `PENDING` rows that all of ``members`` have passed.
        members: bit mask of the replicas that are still being read.
        markers: known end markers, rows of `MARKER`.
        strict_from: see `absences`.
    """
    lacks = (pending["visible"] != 0) & (lacking(pending, members) != 0) & (pending["aborted"] == 0)
    flags = pending["flags"]
    lacks &= (flags & TOMBSTONE != 0) & (flags & (NULL_KEY | DISPUTED | EARLY) == 0) & (pending["offset"] < strict_from)
    at = np.flatnonzero(lacks)
    lacks[at] = surely_committed(pending[at], markers)
    return lacks


def as_candidates(rows: Array, passed_at: int) -> Array:
    """Turn records that replicas have passed (`PENDING` rows) into absences to be judged (`CANDIDATE` rows).

    Args:
        rows: of `PENDING`.
        passed_at: when the last replica passed them, milliseconds since 1970 UTC.
    """
    made = np.zeros(len(rows), CANDIDATE)
    for name in rows.dtype.names or ():
        made[name] = rows[name]
    made["passed_at"] = passed_at
    made["horizon"] = UNKNOWN
    return made


def superseding(rows: Array) -> Array:
    """Those of the given records that make older records of their key irrelevant.

    They have a key, some replica shows them as committed, and none as aborted.

    Args:
        rows: of `PENDING` or `CANDIDATE`.
    """
    return rows[(rows["visible"] != 0) & (rows["aborted"] == 0) & (rows["flags"] & NULL_KEY == 0)]


def unexplained(candidates: Array, shown: Sequence[Array]) -> Array:
    """The absences that no later record explains: no replica has shown a later committed record of their key.

    Args:
        candidates: absences to be judged, rows of `CANDIDATE`.
        shown: tables with the records that supersede older ones of their key; the absent records themselves are among
            them.
    """
    if not len(candidates):
        return candidates
    others = [(rows["key_hash_hi"], rows["key_hash_lo"], rows["offset"]) for rows in shown]
    latest = latest_of_keys(candidates["key_hash_hi"], candidates["key_hash_lo"], others)
    has_key = (candidates["flags"] & NULL_KEY) == 0
    return candidates[~(has_key & (latest > candidates["offset"]))]


def set_horizons(candidates: Array, brokers: Array) -> Array:
    """Set the *horizon* of each absence that has none yet. It waits until all replicas that answer report once more.

    The absence is judged once the replicas that lack the record were read up to its horizon.

    A replica may have copied a log in which the record was superseded already. The superseding record may be anywhere
    below the last stable offset of the replica it copied from. So the horizon is the highest last stable offset of all,
    as reported after the record was passed.

    Args:
        candidates: absences to be judged, rows of `CANDIDATE`.
        brokers: rows of `BROKER`.
    """
    waiting = candidates["horizon"] == UNKNOWN
    asked = brokers["member"] & brokers["reachable"]
    if not waiting.any() or not asked.any():
        return candidates
    reported_since = int(brokers["reported_at"][asked].min())
    ready = waiting & (candidates["passed_at"] < reported_since)
    if ready.any():
        candidates = candidates.copy()
        candidates["horizon"][ready] = int(brokers["stable_told"][brokers["member"]].max())
    return candidates


def lacking(candidates: Array, members: int | Array) -> Array:
    """For each row, a bit mask of the replicas that have not shown its record.

    Args:
        candidates: rows of `CANDIDATE` or `PENDING`.
        members: bit mask of the replica set, or one mask for each row.
    """
    return np.uint32(members) & ~candidates["visible"] & ~candidates["aborted"]


def ripe(candidates: Array, positions: Array, members: int | Array) -> Array:
    """Mask of the absences to judge now: all replicas that lack the record were read past its horizon.

    Args:
        candidates: absences to be judged, rows of `CANDIDATE`.
        positions: by slot (row in the state's table of brokers), the next offset to read of a replica.
        members: bit mask of the replica set, or one mask for each row.
    """
    done = candidates["horizon"] != UNKNOWN
    absent = lacking(candidates, members)
    for slot in slots_of(int(np.bitwise_or.reduce(absent))):
        lacks = has_bit(absent, slot)
        done &= ~lacks | (positions[slot] >= candidates["horizon"])
    return done


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which replica is accused of one absence, a record that not all replicas have shown.

    Attributes:
        row: index of the absence among the candidates.
        slot: the accused replica, by its slot (row in the state's table of brokers); `NOBODY` if nothing proves which
            side is wrong.
    """

    row: int
    slot: int
    kind: FindingKind


def surely_committed(candidates: Array, markers: Array) -> Array:
    """Mask of the records that were committed, whatever end markers any replica has lost.

    That holds for every plain record. A transactional record was surely committed if some replica shows it, and
    directly behind it a COMMIT of its producer. The true end is the lowest marker behind the record, and there is no
    room for a lower one.

    Args:
        candidates: rows of `CANDIDATE` or `PENDING`.
        markers: rows of `MARKER`; two at one offset are a difference of content and prove nothing.
    """
    sure = candidates["producer_id"] == UNKNOWN
    ends = markers[~disputed_offsets(markers)]
    at = np.searchsorted(ends["offset"], candidates["offset"] + 1)
    end = ends[np.minimum(at, len(ends) - 1)] if len(ends) else np.zeros(len(candidates), ends.dtype)
    behind = (end["offset"] == candidates["offset"] + 1) & (end["producer_id"] == candidates["producer_id"])
    mask: Array = sure | (behind & (end["type"] == COMMIT) & (end["shown"] & candidates["visible"] != 0))
    return mask


def judge(candidates: Array, members: int | Array, *, strict_from: int, sure: Array) -> list[Verdict]:
    """Say which replica is accused of each absence that nothing explains.

    - A tombstone that was surely committed: each replica that lacks it is accused, for it may still show the deleted
      record. The older value is not in the state if all replicas have shown it; the probe looks for it.
    - From ``strict_from`` on, where nothing is compacted, any record that some lack: each replica that lacks it is
      accused of `RECORD_MISSING`.
    - Anything else is a `VISIBILITY_MISMATCH` that accuses nobody. Replicas that lack a value may have lost it, or the
      others may have lost its tombstone. Or the replicas that show a tombstone should have aborted it. How many
      replicas show a record proves nothing.

    Args:
        candidates: absences to be judged, rows of `CANDIDATE`.
        members: bit mask of the replica set, for all rows or one for each.
        strict_from: the offset from which on nothing is compacted.
        sure: mask of the rows that are `surely_committed`.
    """
    absent = lacking(candidates, members)
    tombstone = (candidates["flags"] & TOMBSTONE) != 0
    strict = candidates["offset"] >= strict_from
    verdicts = []
    for row in range(len(candidates)):
        if strict[row]:
            kind = FindingKind.RECORD_MISSING
        elif tombstone[row] and sure[row]:
            kind = FindingKind.DELETED_RECORD_RESURRECTED
        else:
            verdicts.append(Verdict(row, NOBODY, FindingKind.VISIBILITY_MISMATCH))
            continue
        verdicts += [Verdict(row, slot, kind) for slot in slots_of(int(absent[row]))]
    return verdicts
