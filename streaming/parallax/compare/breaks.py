"""Handles breaks in what a reader shows: a truncated log, a deleted or re-created topic, skipped offsets.

Rows from before a break are not compared with rows from after it. Offsets whose rows may belong to either side become
unknown.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parallax.compare import holes, remembered, unread
from parallax.compare.observations import (
    EVENT_CODE,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    VIEWS,
    Array,
    Observations,
    ProgressRows,
    ViewRows,
)
from parallax.compare.replicas import (
    give_up,
    left_behind,
    note_replaced,
    only_compacts,
    raise_floor,
    retained_from,
    skip,
    slots,
)
from parallax.compare.rules.arrays import has_bit, joined
from parallax.compare.state import NEVER, PartitionState, new_broker
from parallax.compare.suspect import Accusation
from parallax.model import UNKNOWN, FindingKind, ReadEvent, Rule, UnknownReason

_TRUNCATED = EVENT_CODE[ReadEvent.LOG_TRUNCATED]
_LOG_START = EVENT_CODE[ReadEvent.LOG_START_ADVANCED]
_SKIPPED = EVENT_CODE[ReadEvent.BATCH_SKIPPED]
_NOT_KEPT = EVENT_CODE[ReadEvent.NOT_KEPT]
_JUMPS = (_LOG_START, _SKIPPED, _NOT_KEPT)
_DELETED = EVENT_CODE[ReadEvent.TOPIC_DELETED]
_ADDED = EVENT_CODE[ReadEvent.PARTITION_ADDED]


def of_the_topic(state: PartitionState, observations: Observations) -> Observations:
    """Leave out the observations of a deleted topic of the same name; if the topic was re-created, empty the state.

    A row that reports a reader's position names the topic id. Rows that may belong to either topic are left out, and
    their offsets become unknown. A progress row names no topic id. So it counts only once the replica's readers have
    come to the new topic.

    Args:
        state: the partition's state; it is changed.
        observations: what the micro-batch showed of the partition.

    Returns:
        The observations of the topic that now has the name.
    """
    rows = observations.rows
    at = np.flatnonzero((rows.kind == POSITION) & ((rows.event != 0) | (rows.topic_id != 0)))
    keep = _apply_topic_ids(state, rows, at)
    for i in at[(rows.event[at] == _DELETED) & keep[at]]:
        if slots(state, rows.broker[i : i + 1])[0] != UNKNOWN:
            _start_again(state, int(state.partition["topic_id"][0]), int(rows.timestamp[i]))
            keep[:] = False
    if not keep.all():
        observations = replace(observations, rows=rows.take(keep))
    is_told = _is_of_the_topic(state, observations.progress)
    if not is_told.all():
        observations = replace(observations, progress=observations.progress.take(is_told))
    return observations


def _is_of_the_topic(state: PartitionState, progress: ProgressRows) -> Array:
    """Which rows of progress are of the topic as it is now, and not of one that had its name before."""
    told = state.brokers["topic_id"]
    elsewhere = (told != 0).any(axis=1) & (told != state.partition["topic_id"][0]).all(axis=1)
    since = state.brokers["topic_at"]
    if not elsewhere.any() and (since == UNKNOWN).all():
        return np.ones(len(progress), np.bool_)
    at = slots(state, progress.broker)
    # Who does not answer says nothing of a log.
    mask: Array = (at == UNKNOWN) | ((progress.observed_at > since[at]) & ~(elsewhere[at] & progress.reachable))
    return mask


def apply_breaks(state: PartitionState, rows: ViewRows) -> tuple[ViewRows, list[Accusation]]:
    """Update the state where a log was truncated or its start has jumped, or rows are missing from the views.

    Rows are missing if a batch was skipped, or if the views no longer keep them.

    Rows from before and after such a break are not compared with each other. Rows that may be from before or from after
    it are left out, and their offsets become unknown. If a reader begins late, in a partition that was added to its
    topic, the offsets that were judged without it become unknown as well.

    Args:
        state: the partition's state; it is changed.
        rows: what the micro-batch's readers showed, without rows of an earlier topic of that name.

    Returns:
        The rows that can still be compared, and the accusations: one of ``log_truncated`` for each replica whose log
        was truncated below an offset that the replica had shown.
    """
    at = np.flatnonzero((rows.kind == POSITION) & np.isin(rows.event, (_TRUNCATED, _ADDED, *_JUMPS)))
    if not len(at):
        return rows, []
    keep = np.ones(len(rows), np.bool_)
    accusations = []
    for i in at:
        view, slot = int(rows.view[i]), int(slots(state, rows.broker[i : i + 1])[0])
        if slot == UNKNOWN or not keep[i]:
            continue
        mine = (rows.view == view) & (rows.broker == rows.broker[i])
        at_ms = int(rows.timestamp[i])
        if rows.event[i] == _TRUNCATED:
            # What the batch shows before that row is of the log that was lost, what it shows after it of the new one.
            mine[i + 1 :] = False
            keep &= ~mine
            lost = max(int(state.brokers["shown"][slot, view]), int(rows.offset[mine].max()))
            note_replaced(state, int(rows.offset[i]), at_ms)
            if _truncate(state, view, slot, (int(rows.offset[i]), lost), at_ms):
                accusations.append(_truncated(rows, int(i), lost))
        elif rows.event[i] == _ADDED:
            if state.brokers["position"][slot, view] == UNKNOWN:
                left_behind(state, view, int(rows.offset[i]), at_ms)
                if not only_compacts(state):
                    raise_floor(state, view, int(rows.offset[i]))
        else:
            # Where it stood before: as an earlier row of this very batch says, or as a batch before this one did.
            stood = rows.offset[:i][mine[:i] & (rows.kind[:i] == POSITION)].max(initial=UNKNOWN)
            span = max(int(state.brokers["position"][slot, view]), int(stood)), int(rows.offset[i])
            if rows.event[i] == _NOT_KEPT:
                # What is left below says nothing without what is not: which end marker came next is not known.
                keep &= ~mine | (rows.kind == POSITION) | (rows.offset >= span[1])
            _jump(state, view, slot, span, at_ms, int(rows.event[i]))
    return (rows if keep.all() else rows.take(keep)), accusations


def _apply_topic_ids(state: PartitionState, rows: ViewRows, at: Array) -> Array:
    """Start again when the topic id changes; returns the mask of the rows that belong to the topic as it is now."""
    keep = np.ones(len(rows), np.bool_)
    named = at[rows.topic_id[at] != 0]
    if not len(named):
        return keep
    newest = int(rows.topic_id[named[np.argmax(rows.timestamp[named])]])
    current = int(state.partition["topic_id"][0])
    if current == 0:
        state.partition["topic_id"] = current = newest
    elif newest != current:
        _start_again(state, newest, int(rows.timestamp[named[rows.topic_id[named] == newest]].min()))
        current = newest
    for view in VIEWS:
        for slot in range(len(state.brokers)):
            mine = (rows.view == view) & (rows.broker == state.brokers["broker"][slot])
            if mine.any():
                keep &= ~mine | _admit(state, view, slot, rows, named[mine[named]], current)
    return keep


def _admit(state: PartitionState, view: int, slot: int, rows: ViewRows, named: Array, current: int) -> bool:
    """Whether one reader's rows of this batch belong to the topic as it is now; follows the reader's topic id.

    Where they are left out, what the reader has passed of that topic is unknown until an audit.
    """
    before = int(state.brokers["topic_id"][slot, view])
    if not len(named):
        return before in (0, current)
    last = named[np.argmax(rows.timestamp[named])]
    come = rows.timestamp[named[rows.topic_id[named] == current]]
    told = state.brokers["topic_id"][slot]
    if len(come) and (told != 0).any() and not (told == current).any():
        state.brokers["topic_at"][slot] = come.min()
    state.brokers["topic_id"][slot, view] = rows.topic_id[last]
    mixed = bool((rows.topic_id[named] != current).any())
    if before in (0, current) and not mixed:
        return True
    if rows.topic_id[last] == current:
        offset, at = int(rows.offset[last]), int(rows.timestamp[last])
        state.brokers["position"][slot, view] = state.brokers["shown"][slot, view] = offset
        # Among the rows that are left out are those that the replica shows of the topic as it is now.
        start = max(0, int(rows.log_start_offset[last]))
        unread.add(state, view, start, offset, UnknownReason.BEFORE_FIRST_READING, at)
        raise_floor(state, view, offset)
    return False


def _start_again(state: PartitionState, topic_id: int, at: int) -> None:
    """Forget everything except who the replicas are, for the offsets start again.

    What was said until then counts no more. What is kept says nothing of a log. Of the partition, that is the replica
    set. Of a replica it is its slot, whether it is in that set and answers, and which topic its readers reported last.
    By that the readers are seen to go over to the new topic. A replica's offsets, and the policy of a topic that is
    gone, say nothing of another topic.
    """
    fresh = PartitionState()
    fresh.partition["topic_id"] = topic_id
    for name in ("members_at", "members_known"):
        fresh.partition[name] = state.partition[name]
    fresh.brokers = np.concatenate([fresh.brokers, *(new_broker(int(b)) for b in state.brokers["broker"])])
    for name in ("member", "reachable", "topic_id"):
        fresh.brokers[name] = state.brokers[name]
    fresh.brokers["topic_at"] = at
    if topic_id != 0 and topic_id == state.partition["topic_id"][0]:
        fresh.told = state.told  # What comes late of a topic that was deleted is nothing new.
    for name in PartitionState.__dataclass_fields__:
        setattr(state, name, getattr(fresh, name))


def _truncate(state: PartitionState, view: int, slot: int, lost: tuple[int, int], at: int) -> bool:
    """Take a replica back to an offset; what it or others show up to where it had been is unknown.

    Returns:
        Whether rows that it had shown are lost.
    """
    offset, end = lost
    give_up(state, view, offset, end, at)
    holes.forget(state, offset)
    state.brokers["position"][slot, view] = offset
    state.brokers["shown"][slot, view] = offset
    # What its transactions ended at now may lie where the other view has been read, in the log that was truncated.
    state.unended = state.unended[state.unended["slot"] != slot]
    _forget_outcomes(state, slot, offset)
    if view == READ_UNCOMMITTED:
        # It is the same log; but a reader in read_committed sees no more of it before the last stable offset passes it.
        give_up(state, READ_COMMITTED, offset, int(state.brokers["shown"][slot, READ_COMMITTED]), at)
    if view == READ_UNCOMMITTED or state.brokers["shown"][slot, READ_UNCOMMITTED] <= offset:
        state.intervals = state.intervals[(state.intervals["slot"] != slot) | (state.intervals["end"] < offset)]
        _forget_markers(state, slot, offset)
    return view == READ_UNCOMMITTED and offset < end


def _forget_outcomes(state: PartitionState, slot: int, offset: int) -> None:
    """An outcome by an end marker that was truncated says nothing of the log that took its place.

    What was in dispute for it still is: the record may be gone from the log that has given it another outcome by now.
    """
    state.pending = _without_outcomes(state, state.pending, slot, offset)
    mine = remembered.is_judged(state.candidates)
    if mine.any():
        left = _without_outcomes(state, state.candidates[mine], slot, offset)
        state.candidates = joined(state.candidates[~mine], left)


def _without_outcomes(state: PartitionState, rows: Array, slot: int, offset: int) -> Array:
    if not len(rows):
        return rows
    own = state.markers[has_bit(state.markers["shown"], slot) & (state.markers["offset"] < offset)]
    last = np.full(len(rows), UNKNOWN)
    for producer in np.unique(own["producer_id"]).tolist():
        last[rows["producer_id"] == producer] = own["offset"][own["producer_id"] == producer].max()
    gone = (rows["producer_id"] != UNKNOWN) & (rows["offset"] > last)
    made = rows.copy()
    for name in ("visible", "aborted"):
        made[name][gone] &= np.uint32(0xFFFF_FFFF ^ (1 << slot))
    return made[(made["visible"] | made["aborted"]) != 0]


def _forget_markers(state: PartitionState, slot: int, offset: int) -> None:
    """An end marker of the truncated log ends nothing of the log that took its place."""
    made = state.markers.copy()
    made["shown"][made["offset"] >= offset] &= np.uint32(0xFFFF_FFFF ^ (1 << slot))
    state.markers = made[made["shown"] != 0]


def _jump(state: PartitionState, view: int, slot: int, span: tuple[int, int], at: int, event: int) -> None:
    """Move a replica over a range that it never showed; the others are still compared where two of their logs reach.

    Of a range that is not kept all others lack rows as well, so rows below it may never come to be judged.
    """
    before, offset = span
    if offset <= before:
        return
    if event == _LOG_START:
        state.brokers["log_start_offset"][slot] = max(int(state.brokers["log_start_offset"][slot]), offset)
        if before != UNKNOWN:
            # It is gone from this log, so that no audit can read it.
            floor = int(state.partition["floor"][0, view])
            state.partition["skipped"][0, view] += max(0, offset - max(before, floor))
        raise_floor(state, view, min(offset, retained_from(state)))
    else:
        # Of a reader whose earlier positions are gone, rows may be missing from anywhere on.
        (give_up if event == _NOT_KEPT else skip)(state, view, before, offset, at)
    state.unended = state.unended[(state.unended["slot"] != slot) | (state.unended["offset"] >= offset)]
    if view == READ_UNCOMMITTED:
        mine = (state.intervals["slot"] == slot) & (state.intervals["end"] == NEVER)
        state.intervals = state.intervals[~mine | (state.intervals["start"] >= offset)]


def _truncated(rows: ViewRows, i: int, shown: int) -> Accusation:
    """A log that lost what it had shown up to ``shown``; position row ``i`` says in which leader epoch that was."""
    broker = int(rows.broker[i])
    observations = {
        "shown_to": {str(broker): shown},
        "epochs": {str(broker): int(rows.leader_epoch[i])},
    }
    return Accusation(Rule.CONTENT, FindingKind.LOG_TRUNCATED, broker, int(rows.offset[i]), observations=observations)
