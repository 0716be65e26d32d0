"""Invariant I3 (latest value): replicas show the same latest committed value of each key; a tombstone counts as none.

It holds up to a last stable offset that all replicas have reached. Replicas compact on their own, so a record that only
some of them hold is normal. The rule looks for absences that nothing explains. An absence is a record that some
replicas showed and others passed without showing it, kept as a `CANDIDATE` row. The row stays until a later record of
the key is seen, or until the replicas that lack the record were read up to where a later record could lie.
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
    """The records that every replica of the replica set has passed and not all have shown, as `CANDIDATE` rows.

    A record that some replica shows as aborted is left out: the replicas that lack it may have cleaned it as aborted.
    There is one exception: a tombstone that was surely committed is not left out. No replica may show the value that
    it deletes, even if another replica wrongly shows the tombstone as aborted.

    Args:
        released: `PENDING` rows that every replica has passed.
        members: bit mask of the replica set, or one mask for each row.
        markers: known end markers, `MARKER` rows.
        strict_from: from this offset on the topic is not compacted. Below it, records without a key are left out,
            because they have no latest value.
        passed_at: when the last of the replicas passed the records, milliseconds since 1970 UTC.
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
    """For each row, whether some replica has shown its record as aborted, rightly or not.

    Args:
        rows: `PENDING` or `CANDIDATE` rows.
    """
    mask: Array = (rows["aborted"] != 0) | (rows["flags"] & DISPUTED != 0)
    return mask


def doubted_deletions(rows: Array, members: int | Array) -> Array:
    """For each row, whether it is a tombstone that some replicas lack and some have shown as aborted.

    A replica that lacks such a tombstone may still show the deleted record, and nothing proves that this is wrong.

    Args:
        rows: `PENDING` or `CANDIDATE` rows.
        members: bit mask of the replica set, or one mask for each row.
    """
    # Of unlike records at one offset the row does not say whose is what.
    is_one = (rows["flags"] & TOMBSTONE != 0) & (rows["flags"] & UNLIKE == 0)
    held = (rows["visible"] & np.uint32(members) != 0) & (lacking(rows, members) != 0)
    mask: Array = is_one & held & is_doubted(rows)
    return mask


def early_absences(pending: Array, members: int, markers: Array, *, strict_from: int) -> Array:
    """For each row, whether it is a tombstone that can be judged before the absent replicas have passed it.

    It can if it is surely committed, and one of ``members`` lacks it. If that replica still shows an older value of the
    key, it is wrong, whatever the absent replicas hold. All other absences wait for the absent replicas. So do
    tombstones whose outcome is disputed, and those without a key. What is judged early already is left out.

    Args:
        pending: `PENDING` rows that all of ``members`` have passed.
        members: bit mask of the replicas that are still being read.
        markers: known end markers, `MARKER` rows.
        strict_from: the offset from which on the topic is not compacted. From there on no row is judged early, because
            every record is compared there, and not only the latest of its key.
    """
    lacks = (pending["visible"] != 0) & (lacking(pending, members) != 0) & (pending["aborted"] == 0)
    flags = pending["flags"]
    lacks &= (flags & TOMBSTONE != 0) & (flags & (NULL_KEY | DISPUTED | EARLY) == 0) & (pending["offset"] < strict_from)
    at = np.flatnonzero(lacks)
    lacks[at] = surely_committed(pending[at], markers)
    return lacks


def as_candidates(rows: Array, passed_at: int) -> Array:
    """Turn records that replicas have passed (`PENDING` rows) into absences to be judged (`CANDIDATE` rows).

    They have no horizon yet (`set_horizons`).

    Args:
        rows: `PENDING` rows.
        passed_at: when the last replica passed them, milliseconds since 1970 UTC.
    """
    made = np.zeros(len(rows), CANDIDATE)
    for name in rows.dtype.names or ():
        made[name] = rows[name]
    made["passed_at"] = passed_at
    made["horizon"] = UNKNOWN
    return made


def superseding(rows: Array) -> Array:
    """Those of ``rows`` whose record supersedes older records of its key.

    It has a key, some replica shows it as committed, and none as aborted.

    Args:
        rows: `PENDING` or `CANDIDATE` rows.
    """
    return rows[(rows["visible"] != 0) & (rows["aborted"] == 0) & (rows["flags"] & NULL_KEY == 0)]


def unexplained(candidates: Array, shown: Sequence[Array]) -> Array:
    """Those of ``candidates`` that no later record explains: no replica has shown a later committed record of the key.

    Args:
        candidates: absences, `CANDIDATE` rows.
        shown: tables with the records that supersede older ones of their key (`superseding`). The absent records
            themselves may be among them.
    """
    if not len(candidates):
        return candidates
    others = [(rows["key_hash_hi"], rows["key_hash_lo"], rows["offset"]) for rows in shown]
    latest = latest_of_keys(candidates["key_hash_hi"], candidates["key_hash_lo"], others)
    has_key = (candidates["flags"] & NULL_KEY) == 0
    return candidates[~(has_key & (latest > candidates["offset"]))]


def set_horizons(candidates: Array, brokers: Array) -> Array:
    """Set the *horizon* of the absences that have none yet: the offset up to which an explanation may lie.

    An absence is judged once the replicas that lack the record were read up to its horizon. A replica may have copied a
    log in which the record was superseded already. The superseding record may be anywhere below the last stable offset
    of the replica that it copied from. So the horizon is the highest last stable offset that any replica reported after
    the record was passed. It is set once all replicas that answer have reported again.

    Args:
        candidates: absences, `CANDIDATE` rows.
        brokers: the state's rows about its replicas (`BROKER`).

    Returns:
        All of ``candidates``, in the same order; some now have a horizon.
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
        candidates: `CANDIDATE` or `PENDING` rows.
        members: bit mask of the replica set, or one mask for each row.
    """
    return np.uint32(members) & ~candidates["visible"] & ~candidates["aborted"]


def ripe(candidates: Array, positions: Array, members: int | Array) -> Array:
    """For each absence, whether it can be judged: all replicas that lack the record were read up to its horizon.

    Args:
        candidates: absences, `CANDIDATE` rows.
        positions: next offset to read of each replica, by slot (row of ``state.brokers``).
        members: bit mask of the replica set, or one mask for each row.
    """
    done = candidates["horizon"] != UNKNOWN
    absent = lacking(candidates, members)
    for slot in slots_of(int(np.bitwise_or.reduce(absent))):
        lacks = has_bit(absent, slot)
        done &= ~lacks | (positions[slot] >= candidates["horizon"])
    return done


@dataclass(frozen=True, slots=True)
class AbsenceRuling:
    """The result of `judge` for one absence and one accused replica.

    Attributes:
        row: index of the absence among the candidates.
        slot: the accused replica, as a row of ``state.brokers``; `NOBODY` if nothing proves which side is wrong.
        kind: the kind of the accusation.
    """

    row: int
    slot: int
    kind: FindingKind


def surely_committed(candidates: Array, markers: Array) -> Array:
    """For each record, whether it was committed, whatever end markers any replica has lost.

    That is true of every record without a transaction. A record of a transaction was surely committed if some replica
    shows it with a COMMIT of its producer directly behind it. The true end is the lowest marker behind the record, and
    no lower one fits between.

    Args:
        candidates: `CANDIDATE` or `PENDING` rows.
        markers: `MARKER` rows; two at one offset are a difference of content and prove nothing.
    """
    sure = candidates["producer_id"] == UNKNOWN
    ends = markers[~disputed_offsets(markers)]
    at = np.searchsorted(ends["offset"], candidates["offset"] + 1)
    end = ends[np.minimum(at, len(ends) - 1)] if len(ends) else np.zeros(len(candidates), ends.dtype)
    behind = (end["offset"] == candidates["offset"] + 1) & (end["producer_id"] == candidates["producer_id"])
    mask: Array = sure | (behind & (end["type"] == COMMIT) & (end["shown"] & candidates["visible"] != 0))
    return mask


def judge(candidates: Array, members: int | Array, *, strict_from: int, sure: Array) -> list[AbsenceRuling]:
    """Say which replica is accused of each absence that nothing explains.

    - A tombstone that was surely committed: each replica that lacks it is accused, because it may still show the
      deleted record. If all replicas have shown the older value, the state no longer has it; the probe looks for it.
    - Any record from ``strict_from`` on, where nothing is compacted: each replica that lacks it is accused of
      `RECORD_MISSING`.
    - Any other absence is a `VISIBILITY_MISMATCH` that accuses nobody. Replicas that lack a value may have lost it, or
      the others may have lost its tombstone. Or the replicas that show a tombstone should have aborted it. How many
      replicas show a record proves nothing.

    Args:
        candidates: absences, `CANDIDATE` rows.
        members: bit mask of the replica set, for all rows or one for each.
        strict_from: the offset from which on nothing is compacted.
        sure: for each row, whether it is `surely_committed`.

    Returns:
        In the order of the absences, one verdict for each accused replica; one that accuses nobody has `NOBODY`.
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
            verdicts.append(AbsenceRuling(row, NOBODY, FindingKind.VISIBILITY_MISMATCH))
            continue
        verdicts += [AbsenceRuling(row, slot, kind) for slot in slots_of(int(absent[row]))]
    return verdicts
