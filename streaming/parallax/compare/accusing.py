"""What all rules need to make an accusation.

It covers broker ids, sides, what an end marker proves, and what is judged already.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.observations import ABORT, COMMIT, READ_COMMITTED, Array
from parallax.compare.rules.arrays import slots_of
from parallax.compare.state import PartitionState
from parallax.model import UNKNOWN, UnknownReason, hash_text
from parallax.sides import Side, Sides, as_document, in_order

RAISED_MISSING, RAISED_TURNED, SHOWN_WRONG = 1, 2, 4
"""Bits of ``told`` in `INTERVAL`: what was raised about a transaction, and that its replica showed a wrong outcome."""
OUTCOME_NAME = {COMMIT: "committed", ABORT: "aborted"}
MARKER_NAME = {COMMIT: "commit", ABORT: "abort"}
EXAMPLES = 8
"""Offsets that an accusation names at most."""
MAX_KEYS = 16
"""Keys besides its own that an accusation names at most."""


def broker_of(state: PartitionState, slot: int) -> int:
    """The id of a broker, by its *slot*.

    The slot is the index of the broker's row in ``state.brokers``, and the number of its bit in masks.
    """
    return int(state.brokers["broker"][slot])


def named(state: PartitionState, mask: int, value: str) -> dict[str, str]:
    """Evidence that gives the same value to each broker that a bit mask names.

    Args:
        state: for the brokers' ids.
        mask: the brokers; the bit with the number of a broker's row in ``state.brokers`` is set for each.
        value: for every broker.

    Returns:
        The value by broker id, which is text.
    """
    return {str(broker_of(state, slot)): value for slot in slots_of(mask)}


def without_direction(sides: Sides, pivot: Side | None = None) -> dict[str, Any]:
    """The evidence of a difference without direction: what each side shows, and which replica a probe asks last.

    Args:
        sides: broker ids by what they show; a side without brokers is left out.
        pivot: the side that has the replica to ask last; None for the first side.
    """
    shown = in_order(sides)
    asked_last = shown[pivot] if pivot in shown else next(iter(shown.values()))
    return {"sides": as_document(shown), "pivot": min(asked_last)}


def brokers_of(state: PartitionState, mask: int) -> list[int]:
    """The ids of the brokers whose bits are set in a mask, ascending."""
    return sorted(broker_of(state, slot) for slot in slots_of(mask))


def floor_of(state: PartitionState, view: int) -> int:
    """The floor of a view: rows at lower offsets are judged already, or can never be judged."""
    return int(state.partition["floor"][0, view])


def outcomes_shown(state: PartitionState, rows: Array) -> dict[str, Any]:
    """Evidence that replicas show unlike outcomes of some rows.

    It says which replica shows which outcome of the first row, how many rows there are, and some of their offsets.
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
    """Evidence about a transaction: the keys of its rows, without the first row's key.

    It shows an operator which other keys are affected by the same transaction.

    Args:
        rows: at least one; keys as records that are shown have them (`parallax.findings.claim.Claim.key_text`).
    """
    found = dict.fromkeys(zip(rows["key_hash_hi"].tolist(), rows["key_hash_lo"].tolist(), strict=True))
    _, *others = found
    texts = [hash_text(*key) for key in others if any(key)][:MAX_KEYS]
    return {"keys": texts} if texts else {}


def epoch_of(state: PartitionState, offset: int, producer: int) -> int:
    """The leader epoch in which a producer's end marker was shown; -1 if it is not known any more.

    Args:
        state: read for its end markers.
        offset: of the marker.
        producer: the producer's id.
    """
    here = state.markers[(state.markers["offset"] == offset) & (state.markers["producer_id"] == producer)]
    return int(here["leader_epoch"].max(initial=UNKNOWN))


def end_unproven(state: PartitionState, start: int, marker: int) -> dict[str, Any]:
    """Evidence that the end marker at ``marker`` may not be the one that ended the transaction; empty if it surely is.

    A probe may still prove the end, by what lies next to the marker.
    """
    return {"end_unproven": True} if unread.may_lack_end(state, start, marker) else {}


def leave_no_room(offsets: Array, start: int, marker: int) -> bool:
    """Whether records lie at every offset between a transaction's first one and an end marker.

    Then no other marker was ever there.

    Args:
        offsets: of records that were read, in any order.
        start: where the transaction begins.
        marker: offset of the end marker.
    """
    return len(np.unique(offsets[(offsets >= start) & (offsets < marker)])) == marker - start


def outcome_unproven(state: PartitionState, offsets: Array, start: int, marker: int) -> dict[str, Any]:
    """Evidence, for an accusation about outcomes, that the end marker need not have ended the transaction.

    It is empty if the marker surely has (`end_unproven`). Otherwise the state also notes that the outcomes of all these
    records are unknown, until an audit has proven the end.

    Args:
        state: written to.
        offsets: of the records, in order; at least one.
        start: where the transaction begins by what the accusation says.
        marker: offset of the end marker.
    """
    found = {} if leave_no_room(offsets, start, marker) else end_unproven(state, int(offsets[0]), marker)
    if found:
        unread.add_offsets(state, READ_COMMITTED, offsets, UnknownReason.SKIPPED, replicas.read_at(state))
    return found


def outcome_unseen(state: PartitionState, start: int, marker: int) -> dict[str, Any]:
    """Evidence that an end marker need not have ended a transaction of which no record was read from the accused.

    Nobody knows where the transaction's records lie. So the state also notes every offset from ``start`` to ``marker``
    as unknown in read_committed.

    Args:
        state: written to.
        start: first offset of the transaction.
        marker: offset of its end marker.
    """
    unread.add(state, READ_COMMITTED, start, marker, UnknownReason.SKIPPED, replicas.read_at(state))
    return {"end_unproven": True}
