"""Runs the rules over a partition's state, returns their accusations, and drops from the state what is settled."""

from __future__ import annotations

from parallax.compare import holes, replicas, unread
from parallax.compare.accusing import RAISED_TURNED, floor_of
from parallax.compare.judge_content import judge_content
from parallax.compare.judge_disputes import judge_disputes
from parallax.compare.judge_markers import judge_ends_ahead, judge_markers
from parallax.compare.judge_values import judge_latest
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, Array
from parallax.compare.rules import content, markers, outcome
from parallax.compare.state import NEVER, TOMBSTONE, PartitionState, kept
from parallax.compare.suspect import Accusation
from parallax.model import UnknownReason


def judge(state: PartitionState, left_out: Array, leader: int | None = None) -> list[Accusation]:
    """Run the rules on content, outcome and latest value over a state, and return their accusations.

    Call it once the micro-batch's rows and positions have been taken into the state.

    Args:
        state: the partition's state; rows that need no verdict any more are removed from it.
        left_out: records (`PENDING` rows) that were shown, and that the cap kept out of the state.
        leader: broker id of the leader; -1 if there is none. None if the micro-batch has no progress row.
    """
    holes.note(state, replicas.common_position(state, READ_UNCOMMITTED))
    if state.is_settled:
        _raise_floors(state)
        return []
    accusations = judge_content(state)
    accusations += judge_markers(state)
    accusations += judge_ends_ahead(state)
    accusations += judge_disputes(state)
    accusations += judge_latest(state, left_out, leader)
    _let_go(state)
    return accusations


def _raise_floors(state: PartitionState) -> None:
    retained = replicas.retained_from(state)
    for view in (READ_UNCOMMITTED, READ_COMMITTED):
        common = replicas.common_position(state, view)
        state.partition["floor"][0, view] = max(floor_of(state, view), common, retained)


def _let_go(state: PartitionState) -> None:
    """Drop what every replica has passed, or what retention has deleted somewhere."""
    _raise_floors(state)
    retained = replicas.retained_from(state)
    floor = floor_of(state, READ_UNCOMMITTED)
    unjudged = content.contradictions(state.content) & (state.content["offset"] >= retained)
    stays = (state.content["offset"] >= floor) | unjudged | replicas.undecided(state)
    unlike = content.incomparable(state.content[~stays])
    unread.add_offsets(state, READ_UNCOMMITTED, unlike, UnknownReason.SKIPPED, replicas.read_at(state))
    state.content = kept(state.content, stays)
    disputed = outcome.open_disputes(state.pending)
    state.pending = kept(state.pending, (state.pending["offset"] >= floor_of(state, READ_COMMITTED)) | disputed)
    # The marker directly behind a tombstone says whether it was surely committed.
    deleting = state.candidates["offset"][(state.candidates["flags"] & TOMBSTONE != 0)]
    oldest = int(deleting.min(initial=floor_of(state, READ_COMMITTED)))
    # And what a reader has yet to show, below the floor too, is compared with those behind it.
    needed = min(floor, oldest, int(state.pending["offset"].min(initial=NEVER)), replicas.lowest_position(state))
    state.markers = kept(state.markers, state.markers["offset"] >= needed)
    state.candidates = kept(state.candidates, state.candidates["offset"] >= retained)
    _let_go_intervals(state, floor)


def _let_go_intervals(state: PartitionState, floor: int) -> None:
    """An ended transaction is settled once no marker below its end can come; a wrongly ended one, once it was reported.

    A transaction that missed a marker and whose end was not read is settled once no outcome before that marker can come
    into dispute.
    """
    if not len(state.intervals):
        return
    intervals = state.intervals
    turned = outcome.turned(intervals)
    oldest = min(
        int(state.candidates["offset"].min(initial=NEVER)),
        int(state.pending["offset"][outcome.open_disputes(state.pending)].min(initial=NEVER)),
    )
    raised = (intervals["told"] & RAISED_TURNED) != 0
    unsettled = oldest < intervals["missed"]
    awaited = (turned & (~raised | unsettled)) | (markers.passed_open(intervals) & unsettled)
    # What lies behind the missed marker shows only as the readers in read_committed come to it.
    ended = (intervals["missed"] != NEVER) & (intervals["end"] != NEVER)
    awaited |= ended & (intervals["end"] >= floor_of(state, READ_COMMITTED))
    state.intervals = intervals[(intervals["end"] >= floor) | awaited]
