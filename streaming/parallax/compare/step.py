"""Compares one micro-batch of a partition: its state and the new rows in; new state, suspects and coverage out.

A pure function: no clock, no Spark, no IO. docs/contribute/theory.md says why its verdicts are right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from parallax.compare import breaks, cap, replicas, unread
from parallax.compare.agreed import take_in as take_in_agreed
from parallax.compare.blocks import Agreed
from parallax.compare.coverage import coverage
from parallax.compare.judge import judge
from parallax.compare.judge_markers import accuse_contradicted
from parallax.compare.observations import (
    ABORT,
    ABORTED,
    COMMIT,
    EMPTIED,
    LISTED,
    NOT_TRANSACTIONAL,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORD,
    VIEWS,
    Array,
    Observations,
    ProgressRows,
    ViewRows,
)
from parallax.compare.rules import content, latest, log_start, markers, outcome, progress
from parallax.compare.rules.arrays import have_key_among, joined, table
from parallax.compare.state import CONTENT, MAX_RAISED, NEVER, NULL_KEY, PENDING, UNENDED, PartitionState, empty
from parallax.compare.suspect import (
    Accusation,
    Coverage,
    Suspect,
    suspect_id,
)
from parallax.config import CompareSettings
from parallax.model import UNKNOWN, UnknownReason


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of comparing one partition in one micro-batch: the new state, suspects and coverage.

    Attributes:
        state: the partition's state, for the next step.
        suspects: the suspects that were not raised before.
        coverage: how far the partition has been compared.
        unlike: offsets that all read_uncommitted readers have now passed, and where some replicas showed a record and
            others none. Only offsets that were written while the topic may have been compacted count. Empty while the
            topic is compacted.
    """

    state: PartitionState
    suspects: list[Suspect]
    coverage: Coverage
    unlike: Array = field(default_factory=lambda: empty(CONTENT)["offset"])


def step(
    state: PartitionState,
    observations: Observations,
    settings: CompareSettings,
    now_ms: int,
    *,
    agreed: Agreed | None = None,
    from_log_start: bool = True,
) -> StepResult:
    """Compare what a micro-batch showed of one topic partition with what its state holds.

    The same input gives the same result. Rows that were compared before change nothing. Which causes are found does not
    depend on how rows are cut into micro-batches, nor on the order in which rows of different brokers and views arrive.
    Only the time at which a suspect is raised does (docs/contribute/theory.md, "Order and clocks").

    Args:
        state: the state after the step before; not changed.
        observations: rows of the views, and progress rows.
        settings: for the grace period and the cap of the state.
        now_ms: milliseconds since 1970 UTC; it dates suspects and coverage, and no verdict depends on it.
        agreed: a range of offsets whose sums are equal on all replicas; the observations lack its rows. None if there
            is no such range.
        from_log_start: whether readers begin at the log start (``startingOffsets=earliest``); otherwise they begin at
            the log end.

    Returns:
        The new state, the suspects that were not raised before, and the coverage after all observations.
    """
    suspects: list[Suspect] = []
    unlike: list[Array] = []
    for part in replicas.by_replica_set(state, observations):
        result = _step(state, part, settings, now_ms, agreed, from_log_start=from_log_start)
        state, agreed = result.state, None
        suspects += result.suspects
        unlike.append(result.unlike)
    return replace(result, suspects=suspects, unlike=np.concatenate(unlike))


def _step(
    state: PartitionState,
    observations: Observations,
    settings: CompareSettings,
    now_ms: int,
    agreed: Agreed | None,
    *,
    from_log_start: bool,
) -> StepResult:
    """`step`, of rows within which no replica left the set and came back."""
    work = state.copy()
    replicas.register(work, observations)
    observations = breaks.of_the_topic(work, observations)
    was_known = bool(work.partition["deletes"][0] != UNKNOWN)
    _take_in_policy(work, observations.progress)
    rows, accusations = breaks.apply_breaks(work, observations.rows)
    if not from_log_start:
        replicas.begin_readers(work, rows)
    if agreed is not None:
        take_in_agreed(work, agreed)
    row_slots = replicas.slots(work, rows.broker)
    fresh = _fresh(work, rows, row_slots)
    for view in VIEWS:
        _take_in_markers(work, *fresh[view])
    _take_in_uncommitted(work, *fresh[READ_UNCOMMITTED])
    _take_in_transactions(work, fresh)
    left_out = _take_in_committed(work, *fresh[READ_COMMITTED])
    accusations += _follow_ends(work, *fresh[READ_COMMITTED], now_ms)
    full = (agreed.start, agreed.end) if agreed is not None and agreed.is_full else (0, 0)
    unread.take_in(work, rows, row_slots, observations.progress, full, from_log_start=from_log_start)
    replicas.take_in_positions(work, rows, row_slots)
    cap.close_ranges(work)
    _reconcile(work, observations)
    frozen = _follow_progress(work, observations, settings.grace_ms)
    accusations += _follow_log_starts(work, observations, settings.grace_ms, was_known=was_known)
    content_before = work.content
    accusations += judge(work, left_out, _leader(observations.progress))
    unlike = _unlike(work, content_before)
    ended = _ended(work)
    named = (progress.accuse(one, work.brokers, work.intervals, settings.grace_ms, ended) for one in frozen)
    accusations += [one for one in named if one is not None]
    cap.enforce(work, settings.state_cap_bytes)
    suspects = _new_suspects(work, observations, _with_topic(work, _with_policy(work, accusations)), now_ms)
    return StepResult(work, suspects, coverage(work, observations, now_ms, settings.grace_ms), unlike)


def _unlike(state: PartitionState, before: Array) -> Array:
    """The offsets that were let go of, that some replicas hold and others do not; where nothing compacts now.

    A log that was never compacted holds every record: one of two such replicas has been compacted, or has lost it.

    Args:
        state: after what is settled was let go of.
        before: `CONTENT`, before that.
    """
    strict_from = int(state.partition["strict_from"][0])
    if strict_from == NEVER or before is state.content:
        return empty(CONTENT)["offset"]
    doubted = before[(before["offset"] < strict_from) & (before["offset"] >= replicas.retained_from(state))]
    gone = doubted[~np.isin(doubted["offset"], state.content["offset"])]
    offsets, row = np.unique(gone["offset"], return_inverse=True)
    shown = np.zeros(len(offsets), np.uint32)
    np.bitwise_or.at(shown, row, gone["shown"])
    return offsets[replicas.holding(state, offsets) & ~shown != 0]


def _take_in_policy(state: PartitionState, rows: ProgressRows) -> None:
    """From where on nothing was ever compacted: from the log end at which the policy was first seen not to compact.

    What lies below may have been compacted before, on some replicas and not on others. The leader has to have said by
    then where its log ends: where it does not answer nobody knows what had been written.
    """
    partition = state.partition
    _take_in_deletes(state, rows)
    known = np.flatnonzero((rows.compacted != UNKNOWN) & (rows.policy_at > partition["policy_at"][0]))
    if not len(known):
        return
    newest = known[np.argmax(rows.policy_at[known])]
    partition["policy_at"] = rows.policy_at[newest]
    if rows.compacted[known].any():
        # What explains the absences among these has been let go: nobody knows.
        waiting = state.candidates["offset"] >= partition["strict_from"][0]
        left, at = state.candidates["offset"][waiting], int(rows.observed_at[known].max())
        unread.add_offsets(state, READ_COMMITTED, left, UnknownReason.SKIPPED, at)
        state.candidates = state.candidates[~waiting]
        partition["strict_from"] = NEVER
    leads = (rows.broker[known] == rows.leader[known]) & (rows.log_end_offset[known] != UNKNOWN)
    is_told = (leads & (rows.policy_at[known] == rows.policy_at[newest])).any()
    if not rows.compacted[newest] and partition["strict_from"][0] == NEVER and is_told:
        ends = np.concatenate([rows.log_end_offset, state.brokers["log_end_offset"]])
        partition["strict_from"] = int(ends.max(initial=0))


def _take_in_deletes(state: PartitionState, rows: ProgressRows) -> None:
    known = np.flatnonzero(rows.deletes != UNKNOWN)
    if not len(known):
        return
    deleted = state.partition["deletes"][0] > 0 or rows.deletes[known].max() > 0
    state.partition["deletes"] = rows.deletes[known[np.argmax(rows.observed_at[known])]]
    if deleted and state.partition["deletes"][0] == 0:
        # Retention may have run once more since a tick last saw the policy delete.
        starts = [*replicas.log_starts(state), int(rows.log_start_offset.max(initial=UNKNOWN))]
        state.partition["deleted_to"] = max(int(state.partition["deleted_to"][0]), *starts)


def _fresh(state: PartitionState, rows: ViewRows, row_slots: Array) -> dict[int, tuple[ViewRows, Array]]:
    """The rows of each view that no step has taken in before, by replica and in offset order, with their slots."""
    if not len(rows):
        return dict.fromkeys(VIEWS, (rows, row_slots))
    shown = state.brokers["shown"]
    usable = (rows.kind != POSITION) & (row_slots != UNKNOWN)
    made = {}
    for view in VIEWS:
        mine = np.flatnonzero(usable & (rows.view == view))
        mine = mine[rows.offset[mine] >= shown[row_slots[mine], view]]
        offset, slot = rows.offset[mine], row_slots[mine]
        ordered = (slot[1:] > slot[:-1]) | ((slot[1:] == slot[:-1]) & (offset[1:] >= offset[:-1]))
        if not ordered.all():
            mine = mine[np.lexsort((offset, slot))]
        made[view] = rows.take(mine), row_slots[mine]
    return made


def _take_in_uncommitted(state: PartitionState, rows: ViewRows, slots: Array) -> None:
    if not len(rows):
        return
    kept = cap.stored(state, READ_UNCOMMITTED, rows.offset)
    held = np.flatnonzero(kept)
    state.content = content.take_in(
        state.content, rows.offset[held], content.fingerprints(rows.take(held)), slots[held]
    )


def _take_in_transactions(state: PartitionState, fresh: dict[int, tuple[ViewRows, Array]]) -> None:
    """Continue the intervals with the rows of whichever view came first: what it showed may be gone for the other."""
    rows, slots = fresh[READ_UNCOMMITTED]
    committed, its_slots = fresh[READ_COMMITTED]
    shown = state.brokers["shown"]
    told = (committed.kind != LISTED) & (committed.kind != EMPTIED)
    is_ahead = committed.offset >= shown[its_slots, READ_UNCOMMITTED]
    ahead = np.flatnonzero(told & is_ahead)
    _take_in_cleaned(state, committed, its_slots, ~is_ahead)
    if len(ahead):
        rows, slots = ViewRows.concat([rows, committed.take(ahead)]), np.concatenate([slots, its_slots[ahead]])
        order = np.lexsort((rows.offset, slots))
        rows, slots = rows.take(order), slots[order]
    if not len(rows):
        return
    is_record = rows.kind == RECORD
    data = is_record & (rows.outcome != NOT_TRANSACTIONAL) & (rows.producer_id != UNKNOWN)
    if (shown[:, READ_COMMITTED] > shown[:, READ_UNCOMMITTED]).any():
        data &= ~markers.within_ended(state.intervals, slots, rows.producer_id, rows.offset)
    # Only the first data row of a run matters to an interval; rows are ordered by replica and offset here.
    follows = np.zeros(len(rows), np.bool_)
    follows[1:] = data[:-1] & (slots[1:] == slots[:-1]) & (rows.producer_id[1:] == rows.producer_id[:-1])
    ends, end_slots, passed = markers.own_ends(state.markers, slots, rows.offset)
    follows[1:] &= passed[1:] == passed[:-1]
    turns = np.flatnonzero((data & ~follows) | ~is_record)
    types = np.where(is_record[turns], markers.DATA, rows.kind[turns])
    state.intervals = markers.take_in_intervals(
        state.intervals,
        np.concatenate([rows.offset[turns], ends["offset"]]),
        np.concatenate([rows.producer_id[turns], ends["producer_id"]]),
        np.concatenate([types, ends["type"]]),
        np.concatenate([slots[turns], end_slots]),
    )


def _take_in_cleaned(state: PartitionState, rows: ViewRows, slots: Array, passed: Array) -> None:
    """Add the transactions of records that only read_committed readers were given: the cleaner took them in between.

    The other reader's rows came first, though it read later. Only transactions whose own end marker is known.

    Args:
        state: written to.
        rows: new ones of the read_committed view.
        slots: of the rows.
        passed: mask of the rows that the read_uncommitted reader has passed.
    """
    data = passed & (rows.kind == RECORD) & (rows.outcome != NOT_TRANSACTIONAL) & (rows.producer_id != UNKNOWN)
    at = np.flatnonzero(data)
    at = at[cap.stored(state, READ_UNCOMMITTED, rows.offset[at])]
    at = at[~content.is_shown(state.content, rows.offset[at], slots[at])]
    if not len(at):
        return
    offset, producer, slot = rows.offset[at], rows.producer_id[at], slots[at]
    state.intervals = markers.add_ended(state.intervals, state.markers, offset, producer, slot)


def _take_in_markers(state: PartitionState, rows: ViewRows, slots: Array) -> None:
    """End markers of either view: what a replica shows to one reader it holds, whichever of the two comes first."""
    if not len(rows):
        return
    is_end = (rows.kind == COMMIT) | (rows.kind == ABORT)
    # Below the floor too: a record that its reader shows takes the next one that is kept for its end.
    wanted = rows.offset < int(state.partition["floor"][0].min())
    wanted |= cap.stored(state, READ_UNCOMMITTED, rows.offset) | cap.stored(state, READ_COMMITTED, rows.offset)
    cap.lose_markers(state, rows.offset[is_end & ~wanted])
    ends = np.flatnonzero(is_end & wanted)
    state.markers = markers.take_in_markers(
        state.markers, rows.offset[ends], rows.producer_id[ends], rows.kind[ends], slots[ends], rows.leader_epoch[ends]
    )


def _take_in_committed(state: PartitionState, rows: ViewRows, slots: Array) -> Array:
    """Returns the records that were shown and not stored; they still explain absences."""
    if not len(rows):
        return empty(PENDING)
    strict_from = int(state.partition["strict_from"][0])
    transactional = rows.outcome != NOT_TRANSACTIONAL
    null_key = rows.key_size < 0
    wanted = (rows.kind == RECORD) & (transactional | ~null_key | (rows.offset >= strict_from))
    # The record that began a transaction, had it not been cleaned, would be aborted: that is an outcome as well.
    listed = rows.kind == LISTED
    wanted |= listed
    at = np.flatnonzero(wanted)
    if not len(at):
        return empty(PENDING)
    shown = outcome.shown_records(
        rows.offset[at],
        np.where(transactional[at], rows.producer_id[at], UNKNOWN),
        (rows.key_hash_hi[at], rows.key_hash_lo[at]),
        null_key[at],
        rows.value_size[at] < 0,
        rows.outcome[at] == ABORTED,
        slots[at],
        rows.leader_epoch[at],
        listed[at],
    )
    kept = cap.stored(state, READ_COMMITTED, rows.offset[at])
    state.pending = outcome.take_in(state.pending, shown if kept.all() else shown[kept])
    left_out = shown[~kept]
    if len(left_out) and cap.is_deferring(state, READ_COMMITTED):
        state.pending = _without_superseded_by(state.pending, left_out, strict_from)
    return left_out


def _follow_ends(state: PartitionState, rows: ViewRows, slots: Array, now_ms: int) -> list[Accusation]:
    """Compare what a replica shows of its transactions with the end markers that it shows behind them itself."""
    if not len(rows):
        return []
    is_data = (rows.kind == RECORD) & (rows.outcome != NOT_TRANSACTIONAL) & (rows.producer_id != UNKNOWN)
    is_end = (rows.kind == COMMIT) | (rows.kind == ABORT)
    is_emptied = rows.kind == EMPTIED
    if not (is_data | is_end | is_emptied).any():
        return []
    shown, ends, emptied = (_as_unended(rows, slots, np.flatnonzero(mask)) for mask in (is_data, is_end, is_emptied))
    for end, record in zip(emptied, outcome.never_ended(state.unended, shown, ends, emptied), strict=True):
        read = (state.markers["offset"] == end["offset"]) & (state.markers["producer_id"] == end["producer_id"])
        if record >= 0 and not read.any():
            # It ended there by the truth, and not in this log: nobody can tell how.
            unread.add(state, READ_COMMITTED, record, int(end["offset"]) + 1, UnknownReason.SKIPPED, now_ms)
    state.unended, against, at = outcome.follow_ends(state.unended, shown, ends)
    return accuse_contradicted(state, against, at)


def _as_unended(rows: ViewRows, slots: Array, at: Array) -> Array:
    return table(
        UNENDED,
        len(at),
        slot=slots[at],
        producer_id=rows.producer_id[at],
        offset=rows.offset[at],
        key_hash_hi=rows.key_hash_hi[at],
        key_hash_lo=rows.key_hash_lo[at],
        aborted=(rows.outcome[at] == ABORTED) | (rows.kind[at] == ABORT),
    )


def _without_superseded_by(pending: Array, shown: Array, strict_from: int) -> Array:
    """Drop plain records whose key has a later record among those that the cap keeps out: their key is not judged."""
    plain = (pending["producer_id"] == UNKNOWN) & (pending["flags"] & NULL_KEY == 0) & (pending["offset"] < strict_from)
    again = have_key_among(pending["key_hash_hi"], pending["key_hash_lo"], shown["key_hash_hi"], shown["key_hash_lo"])
    concerned = plain & again
    if not concerned.any():
        return pending
    rows = pending[concerned]
    both = joined(pending[~concerned], latest.unexplained(rows, [rows, latest.superseding(shown)]))
    return both[np.argsort(both["offset"], kind="stable")]


def _follow_progress(state: PartitionState, observations: Observations, grace_ms: int) -> list[progress.Frozen]:
    rows = observations.progress
    if not len(rows):
        return []
    slots = replicas.slots(state, rows.broker)
    known = np.flatnonzero(slots != UNKNOWN)
    listed = observations.open_transactions
    return progress.observe(state.brokers, rows.take(known), listed, slots[known], grace_ms, _ended(state))


def _ended(state: PartitionState) -> progress.EndedTo:
    return progress.EndedTo.of(state.partition)


def _leader(rows: ProgressRows) -> int | None:
    """The broker that leads, as reported last; None where no replica has reported it."""
    answered = np.flatnonzero(rows.reachable)
    return int(rows.leader[answered[np.argmax(rows.observed_at[answered])]]) if len(answered) else None


def _follow_log_starts(
    state: PartitionState, observations: Observations, grace_ms: int, *, was_known: bool
) -> list[Accusation]:
    replicas.follow_heads(state, observations.rows, observations.progress, was_known=was_known)
    if not len(observations.progress) or not replicas.only_compacts(state):
        return []
    deleted_to, head = (int(state.partition[name][0]) for name in ("deleted_to", "head"))
    return log_start.observe(state.brokers, deleted_to, head, grace_ms)


def _reconcile(state: PartitionState, observations: Observations) -> None:
    """Correct the open transactions by what the replicas list, tick by tick."""
    if not len(state.intervals):
        return
    rows, listed = observations.progress, observations.open_transactions
    slots = replicas.slots(state, rows.broker)
    log_end = state.brokers["log_end_offset"].copy()
    for i in np.argsort(rows.observed_at, kind="stable"):
        slot = int(slots[i])
        if slot == UNKNOWN or not rows.reachable[i] or rows.observed_at[i] <= state.brokers["observed_at"][slot]:
            continue
        if rows.described[i]:
            mine = (listed.broker == rows.broker[i]) & (listed.observed_at == rows.observed_at[i])
            mine &= listed.start_offset != UNKNOWN
            ends = int(log_end[slot]), int(rows.log_end_offset[i])
            stable = int(rows.last_stable_offset[i])
            state.intervals = markers.reconcile(
                state.intervals, slot, listed.producer_id[mine], listed.start_offset[mine], ends, stable
            )
        log_end[slot] = rows.log_end_offset[i]


def _with_policy(state: PartitionState, accusations: list[Accusation]) -> list[Accusation]:
    """Say of transactions that no cleaner has ever touched: who lacks a record of one has lost it, or never got it."""
    strict_from = int(state.partition["strict_from"][0])
    return [
        replace(a, observations={**a.observations, "uncompacted": True})
        if a.transaction_start_offset >= strict_from
        else a
        for a in accusations
    ]


def _with_topic(state: PartitionState, accusations: list[Accusation]) -> list[Accusation]:
    """Say by its id which topic it was, if that is known: another one may come to be under the same name."""
    if (topic_id := int(state.partition["topic_id"][0])) == 0:
        return accusations
    return [replace(a, observations={**a.observations, "topic_id": str(topic_id)}) for a in accusations]


def _new_suspects(
    state: PartitionState, observations: Observations, accusations: list[Accusation], now_ms: int
) -> list[Suspect]:
    """Name the accusations and leave out those that were raised before."""
    if not accusations:
        return []
    topic, partition = observations.topic, observations.partition
    positions = {
        str(b["broker"]): {
            "read_uncommitted": int(b["position"][READ_UNCOMMITTED]),
            "read_committed": int(b["position"][READ_COMMITTED]),
            "high_watermark": int(b["high_watermark"]),
            "last_stable_offset": int(b["stable_told"]),
            "log_start_offset": int(b["log_start_offset"]),
        }
        for b in state.brokers[state.brokers["member"]]
    }
    raised = {int(t) for t in state.told}
    suspects, new = [], []
    for accusation in accusations:
        name = int(suspect_id(topic, partition, accusation)[:16], 16)
        if name not in raised:
            raised.add(name)
            new.append(name)
            suspects.append(Suspect(topic, partition, accusation, positions, now_ms))
    state.told = np.concatenate([state.told, np.array(new, state.told.dtype)])[-MAX_RAISED:]
    return suspects
