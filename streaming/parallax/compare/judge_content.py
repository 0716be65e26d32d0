"""Invariant I1 (content): raises an accusation if replicas hold different records at one offset.

Consecutive offsets at which the same replicas differ give one accusation.
"""

from __future__ import annotations

import numpy as np

from parallax.compare import replicas
from parallax.compare.accusing import MARKER_NAME, brokers_of, without_direction
from parallax.compare.observations import READ_UNCOMMITTED, RECORD, Array
from parallax.compare.rules import content
from parallax.compare.rules.arrays import bit_counts, has_bit, slots_of
from parallax.compare.rules.markers import take_in_markers
from parallax.compare.state import HAS_AGREED, NEVER, PartitionState
from parallax.compare.suspect import Accusation
from parallax.model import NOBODY, UNKNOWN, FindingKind, Rule
from parallax.sides import Shows, Side


def judge_content(state: PartitionState) -> list[Accusation]:
    """Accusations for offsets at which replicas hold different records; none of them names an accused replica.

    A run of offsets at which the same replicas differ gives one accusation, at its first offset.
    """
    differs = content.contradictions(state.content)
    if differs.any():
        _dispute_markers(state, state.content[differs])
    ripe = differs & (state.content["offset"] < replicas.asked_position(state, READ_UNCOMMITTED))
    tracked = state.brokers["mismatch_last"] != UNKNOWN
    if not ripe.any() and not tracked.any():
        return []
    agreed = state.content[~differs & (bit_counts(state.content["shown"]) > 1)]
    accusations = []
    rows = state.content[ripe]
    if len(rows):
        replicas.note_replaced(state, int(rows["offset"].max()), replicas.read_at(state))
    for offset, sides in content.differences(rows):
        if len(sides) < 2:
            continue  # The log of one of them was given up since.
        if not _continues_run(state, sides, offset, agreed):
            accusations.append(_unlike_records(state, offset, rows[rows["offset"] == offset]))
    state.content = _without(state, ripe)
    _end_runs(state, agreed)
    return accusations


def _without(state: PartitionState, ripe: Array) -> Array:
    """The content without the rows of some offsets; where nothing is compacted, one of each stays (`holes`)."""
    rows = state.content.copy()
    rows["shown"][ripe] = 0
    is_first = np.append(True, rows["offset"][1:] != rows["offset"][:-1])
    return rows[~ripe | (is_first & (rows["offset"] >= state.partition["strict_from"][0]))]


def _dispute_markers(state: PartitionState, unlike: Array) -> None:
    """Note in the table of end markers that a replica shows a record where another one shows an end marker.

    Args:
        state: the partition's state; its markers are changed.
        unlike: `CONTENT` rows of offsets at which replicas differ.
    """
    for row in unlike[np.isin(unlike["offset"], state.markers["offset"])]:
        here = state.markers[state.markers["offset"] == row["offset"]]
        slots = slots_of(int(row["shown"] & ~np.bitwise_or.reduce(here["shown"])))
        offsets, nobody = np.full(len(slots), row["offset"]), np.full(len(slots), UNKNOWN)
        kinds = np.full(len(slots), RECORD)
        state.markers = take_in_markers(state.markers, offsets, nobody, kinds, np.array(slots, np.int64), nobody)


def _unlike_records(state: PartitionState, offset: int, rows: Array) -> Accusation:
    sides: dict[Side, list[int]] = {}
    records: dict[str, str] = {}
    for row in rows[rows["shown"] != 0]:
        brokers = brokers_of(state, int(row["shown"]))
        fingerprint = f"{row['fingerprint'].astype(np.uint64):016x}"
        held = _marker_at(state, offset, int(row["shown"])) or f"record {fingerprint}"
        sides[Side(Shows.CONTENT, content=held)] = brokers
        records |= dict.fromkeys(map(str, brokers), fingerprint)
    return Accusation(
        Rule.CONTENT,
        FindingKind.CONTENT_MISMATCH,
        NOBODY,
        offset,
        observations={"records": dict(sorted(records.items())), **without_direction(sides)},
    )


def _marker_at(state: PartitionState, offset: int, shown: int) -> str:
    """The end marker that these replicas show at an offset, in words; empty where it is a record."""
    here = (state.markers["offset"] == offset) & (state.markers["type"] != RECORD)
    for marker in state.markers[here & (state.markers["shown"] & np.uint32(shown) != 0)]:
        return f"{MARKER_NAME[int(marker['type'])]} of producer {marker['producer_id']}"
    return ""


def _continues_run(state: PartitionState, sides: list[int], offset: int, agreed: Array) -> bool:
    """Whether differing records belong to the run of differing records before them: one accusation for the run.

    They do if each two replicas that differ did so before, and one of the two has not agreed with any since.
    """
    last = state.brokers["mismatch_last"].copy()
    before = state.brokers["mismatch_side"].copy()
    going_on = {
        slot: not before[slot] & HAS_AGREED and not _agreed_since(agreed, slot, last[slot], offset)
        for side in sides
        for slot in slots_of(side)
    }
    continues = True
    for side in sides:
        for slot in slots_of(side):
            for other in slots_of(sum(sides) & ~side):
                differed = last[slot] != UNKNOWN and last[other] != UNKNOWN and not int(before[slot]) >> other & 1
                continues &= differed and (going_on[slot] or going_on[other])
            state.brokers["mismatch_last"][slot], state.brokers["mismatch_side"][slot] = offset, side
    return continues


def _agreed_since(agreed: Array, slot: int, last: int, offset: int) -> bool:
    mine = agreed["offset"][has_bit(agreed["shown"], slot)]
    return bool(((mine > last) & (mine < offset)).any())


def _end_runs(state: PartitionState, agreed: Array) -> None:
    """Note which replicas show a record as others do; the runs end once all replicas that differed have done so."""
    brokers = state.brokers
    tracked = np.flatnonzero(brokers["mismatch_last"] != UNKNOWN)
    for slot in tracked.tolist():
        if _agreed_since(agreed, slot, int(brokers["mismatch_last"][slot]), NEVER):
            brokers["mismatch_side"][slot] |= HAS_AGREED
    if (brokers["mismatch_side"][tracked] & HAS_AGREED != 0).all():
        brokers["mismatch_last"] = UNKNOWN
