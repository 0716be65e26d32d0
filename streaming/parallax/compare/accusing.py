"""Helpers that all rules use to write an accusation: broker ids, the sides of a difference, and evidence.

An accusation is what becomes a suspect. Its evidence is a dict that goes into the suspect's ``observations``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.observations import ABORT, COMMIT, READ_COMMITTED, Array
from parallax.compare.rules.arrays import joined, slots_of
from parallax.compare.state import PartitionState
from parallax.model import UNKNOWN, UnknownReason, hash_text
from parallax.sides import Side, Sides, as_document, in_order

RAISED_MISSING, RAISED_TURNED, SHOWN_WRONG = 1, 2, 4
"""Bits of ``told`` in `INTERVAL`: what was raised about a transaction, and that its replica showed it wrongly."""
OUTCOME_NAME = {COMMIT: "committed", ABORT: "aborted"}
MARKER_NAME = {COMMIT: "commit", ABORT: "abort"}
EXAMPLES = 8
"""The most offsets that one accusation names."""
MAX_KEYS = 16
"""The most keys that one accusation names in addition to its own."""


def broker_of(state: PartitionState, slot: int) -> int:
    """The id of the broker that has a given *slot*.

    The slot is the broker's index in ``state.brokers``. In bit masks of replicas, bit number ``slot`` means this
    broker.
    """
    return int(state.brokers["broker"][slot])


def named(state: PartitionState, mask: int, value: str) -> dict[str, str]:
    """A dict from broker id (as text) to the same value, for all brokers in a bit mask, e.g. ``{"1": "aborted"}``.

    Args:
        state: the partition's state, which knows the broker ids.
        mask: the brokers; bit number n is the broker in row n of ``state.brokers``.
        value: the value for each of them.
    """
    return {str(broker_of(state, slot)): value for slot in slots_of(mask)}


def without_direction(sides: Sides, pivot: Side | None = None) -> dict[str, Any]:
    """The evidence of a difference without direction: what each side shows, and which replica a probe asks last.

    Args:
        sides: by what the side shows, the ids of its brokers; a side without brokers is left out.
        pivot: the side from which a probe asks a replica last; None for the first side.

    Returns:
        ``{"sides": ..., "pivot": ...}``: the broker ids of each side (`parallax.sides.as_document`), and the lowest
        broker id of the side ``pivot``. If that side has no brokers, it is the lowest broker id of the first side.
    """
    shown = in_order(sides)
    asked_last = shown[pivot] if pivot in shown else next(iter(shown.values()))
    return {"sides": as_document(shown), "pivot": min(asked_last)}


def brokers_of(state: PartitionState, mask: int) -> list[int]:
    """The ids of the brokers whose bits are set in a mask, ascending."""
    return sorted(broker_of(state, slot) for slot in slots_of(mask))


def floor_of(state: PartitionState, view: int) -> int:
    """The offset below which rows of a view are judged already, or can never be judged.

    Args:
        state: the partition's state.
        view: `READ_UNCOMMITTED` or `READ_COMMITTED`.
    """
    return int(state.partition["floor"][0, view])


def outcomes_shown(state: PartitionState, rows: Array) -> dict[str, Any]:
    """Evidence that replicas show unlike outcomes of the same records.

    Args:
        state: the partition's state, which knows the broker ids.
        rows: the records (`PENDING` rows), at least one.

    Returns:
        ``outcomes``: by broker id (as text), the outcome that its replica shows of the first record. ``count``: how
        many records there are. ``offsets``: the first `EXAMPLES` of their offsets.
    """
    first = rows[0]
    return {
        "outcomes": {
            **named(state, int(first["visible"]), "committed"),
            **named(state, int(first["aborted"]), "aborted"),
        },
        "count": len(rows),
        "offsets": [int(o) for o in rows["offset"][:EXAMPLES]],
    }


def other_keys(rows: Array) -> dict[str, Any]:
    """Evidence that tells an operator which other keys a transaction wrote; empty if it wrote no other key.

    Args:
        rows: the transaction's records, at least one. The first record's key is left out, because the accusation names
            it already.

    Returns:
        ``{"keys": [...]}`` with at most `MAX_KEYS` keys, each as text (`parallax.findings.claim.Claim.key_text`).
    """
    found = dict.fromkeys(zip(rows["key_hash_hi"].tolist(), rows["key_hash_lo"].tolist(), strict=True))
    _, *others = found
    texts = [hash_text(*key) for key in others if any(key)][:MAX_KEYS]
    return {"keys": texts} if texts else {}


def epoch_of(state: PartitionState, offset: int, producer: int) -> int:
    """The leader epoch in which a producer's end marker was written; -1 if the state does not hold the marker any more.

    Args:
        state: the partition's state.
        offset: the marker's offset.
        producer: the producer's id.
    """
    here = state.markers[(state.markers["offset"] == offset) & (state.markers["producer_id"] == producer)]
    return int(here["leader_epoch"].max(initial=UNKNOWN))


def end_unproven(state: PartitionState, start: int, marker: int) -> dict[str, Any]:
    """Evidence that a marker other than ``marker`` may have ended the transaction: ``{"end_unproven": True}``.

    It is empty if ``marker`` surely ended the transaction. A probe may still prove that ``marker`` did, by reading the
    offsets next to it.

    Args:
        state: the partition's state.
        start: first offset of the transaction.
        marker: offset of the end marker that is taken for its end.
    """
    return {"end_unproven": True} if unread.may_lack_end(state, start, marker) else {}


def shown_committed(state: PartitionState) -> Array:
    """What read_committed readers showed and no verdict has settled (`PENDING` rows), in offset order.

    These are pending rows, and absences that wait.
    """
    if not len(state.candidates):
        return state.pending
    waiting = np.empty(len(state.candidates), state.pending.dtype)
    for name in state.pending.dtype.names or ():
        waiting[name] = state.candidates[name]
    shown = joined(waiting, state.pending)
    return shown[np.argsort(shown["offset"], kind="stable")]


def leave_no_room(state: PartitionState, rows: Array, start: int, marker: int) -> bool:
    """Whether records of a producer lie at every offset from a transaction's start up to an end marker.

    Then no other end marker can have been there. All records count that were shown by a replica which showed one of the
    given ones, whatever the accused still held when it was read.

    Args:
        state: the partition's state.
        rows: some of the transaction's records (`PENDING` rows), at least one.
        start: first offset of the transaction.
        marker: offset of the end marker.
    """
    if _fill(rows["offset"], start, marker):
        return True  # Most transactions end directly behind their records: the state is not searched for each.
    shown = shown_committed(state)
    by = np.bitwise_or.reduce(rows["visible"] | rows["aborted"])
    within = (shown["producer_id"] == rows[0]["producer_id"]) & ((shown["visible"] | shown["aborted"]) & by != 0)
    return _fill(shown["offset"][within], start, marker)


def _fill(offsets: Array, start: int, marker: int) -> bool:
    return len(np.unique(offsets[(offsets >= start) & (offsets < marker)])) == marker - start


def outcome_unproven(state: PartitionState, rows: Array, start: int, marker: int) -> dict[str, Any]:
    """Evidence for an accusation about outcomes: ``{"end_unproven": True}`` if the transaction's end is not proven.

    The end is not proven if a marker other than ``marker`` may have ended the transaction. Then the state also counts
    the outcomes of ``rows`` as unknown, until an audit has compared them. If the end is proven, the result is empty,
    and the state stays as it is. Accusations about a missing marker use `end_unproven`, which never changes the state.

    Args:
        state: the partition's state; may be changed.
        rows: the transaction's records (`PENDING` rows) in offset order; at least one.
        start: first offset of the transaction, as the accusation names it.
        marker: offset of the end marker that is taken for its end.
    """
    offsets = rows["offset"]
    found = end_unproven(state, int(offsets[0]), marker)
    if found and leave_no_room(state, rows, start, marker):
        return {}
    if found:
        unread.add_offsets(state, READ_COMMITTED, offsets, UnknownReason.SKIPPED, replicas.read_at(state))
    return found


def outcome_unseen(state: PartitionState, start: int, marker: int) -> dict[str, Any]:
    """Evidence that a marker other than ``marker`` may have ended the transaction: always ``{"end_unproven": True}``.

    It is for a transaction of which the accused showed no record. Nobody knows at which offsets the records lie. So the
    state also counts every offset from ``start`` up to ``marker`` as unknown in read_committed.

    Args:
        state: the partition's state; it is changed.
        start: first offset of the transaction.
        marker: offset of the end marker that is taken for its end.
    """
    unread.add(state, READ_COMMITTED, start, marker, UnknownReason.SKIPPED, replicas.read_at(state))
    return {"end_unproven": True}
