"""Computes how far a partition has been compared, and why the other offsets are unknown, from its state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from parallax.compare import remembered, replicas, sums
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Array, Observations
from parallax.compare.rules import outcome
from parallax.compare.state import NEVER, UNREAD_REASONS, PartitionState
from parallax.compare.suspect import BrokerCoverage, Coverage, DeferredRange, UnreadRange
from parallax.model import PASSING, UNKNOWN, UnknownReason

_SPAN = ["view", "start", "end", "reason", "since"]


def coverage(state: PartitionState, observations: Observations, now_ms: int, grace_ms: int) -> Coverage:
    """How far a partition has been compared, and how many of its offsets are unknown for which reason.

    Args:
        state: the partition's state after a step.
        observations: what that step has taken in; only its topic and partition number are used.
        now_ms: milliseconds since 1970 UTC.
        grace_ms: for how long a log may begin above another before its replica is accused. Until that time has passed,
            `Coverage.awaits_report` is true.
    """
    common, reached = [_compared(state, view) for view in VIEWS], replicas.read_to(state)
    retained, floor = replicas.retained_from(state), state.partition["floor"][0].tolist()
    begun = [max(common[view], floor[view], retained) for view in VIEWS]
    unjudged = {READ_UNCOMMITTED: np.empty(0, np.int64), READ_COMMITTED: _unjudged(state, begun[READ_COMMITTED])}
    unread = tuple(span for view in VIEWS for span in _unread(state, view, begun[view], unjudged[view]))
    undecided = state.content["offset"][replicas.undecided(state)]
    open_ = [(begun[view], int(reached[:, view].max(initial=UNKNOWN))) for view in VIEWS]
    by_view = [_unknown(state, view, open_[view], unread, len(unjudged[view]), undecided) for view in VIEWS]
    waits = [_waits_from(state, view, common[view], by_view[view], unjudged[view], undecided) for view in VIEWS]
    return Coverage(
        topic=observations.topic,
        partition=observations.partition,
        compared_up_to=(common[READ_UNCOMMITTED], common[READ_COMMITTED]),
        unknown={r: (by_view[READ_UNCOMMITTED][r], by_view[READ_COMMITTED][r]) for r in UnknownReason},
        deferred=tuple(
            DeferredRange(int(d["view"]), int(d["start"]), UNKNOWN if d["end"] == NEVER else int(d["end"]))
            for d in state.deferred
        ),
        candidates=remembered.waiting(state.candidates),
        state_bytes=state.nbytes,
        brokers=tuple(
            _broker(broker, its)
            for broker, its in zip(state.brokers, reached.tolist(), strict=True)
            if broker["member"] or not state.partition["members_known"][0]
        ),
        compared_at=now_ms,
        unread=unread,
        awaits_report=_awaits_report(state, grace_ms),
        waits_from=(waits[READ_UNCOMMITTED], waits[READ_COMMITTED]),
        withheld_from=UNKNOWN if (start := int(state.partition["withheld"][0])) == NEVER else start,
    )


def _awaits_report(state: PartitionState, grace_ms: int) -> bool:
    """An absence is judged by what was reported after it was passed, an open transaction by what is listed later.

    And a log that has lost its head by how long that is so, though all logs may begin there by now. What waits for a
    replica that is away, or for records to be read, awaits no report: what these bring is recorded anyway.
    """
    begun = state.brokers["head_since"]
    if (state.brokers["member"] & (begun != UNKNOWN) & (state.brokers["observed_at"] - begun < grace_ms)).any():
        return True
    members = state.brokers["member"]
    answers = members & state.brokers["reachable"]
    # While its last stable offset has not passed a transaction, a replica takes nothing away of it (`reconcile`).
    of = state.intervals["slot"]
    is_passed = answers[of] & (state.intervals["start"] < state.brokers["stable_told"][of])
    is_open = is_passed & (state.intervals["end"] == NEVER) & (state.intervals["over_by"] == NEVER)
    if is_open.any() or (answers.any() and _await_report(state).any()):
        return True
    return bool(answers.sum() == members.sum() and outcome.open_disputes(state.pending).any())


def _await_report(state: PartitionState) -> Array:
    """Mask of the candidates that no report has come for yet: for their horizon, or the policy (`judge_values`)."""
    candidates, partition = state.candidates[~remembered.is_judged(state.candidates)], state.partition
    is_strict = candidates["offset"] >= partition["strict_from"][0]
    is_unsettled = is_strict & (candidates["passed_at"] >= partition["policy_at"][0])
    awaited: Array = (candidates["horizon"] == UNKNOWN) | is_unsettled
    return awaited


def _compared(state: PartitionState, view: int) -> int:
    """Up to where every replica was read and compared, also by the sums of its withheld rows."""
    common = replicas.common_position(state, view)
    return max(common, sums.agreed_to(state, view)) if len(state.recent_sums) or len(state.sums) else common


def _unjudged(state: PartitionState, begun: int) -> Array:
    """The offsets that every reader in read_committed has passed and that have no verdict yet, in order.

    Absences that wait for what may explain them, and outcomes that wait for the end markers that decide them.

    Args:
        state: after a step.
        begun: up to where there are verdicts, or can be none any more.
    """
    pending = state.pending
    absent = state.candidates["offset"][state.candidates["offset"] < begun]
    if not len(pending) or pending["offset"][0] >= begun:
        return np.unique(absent) if len(absent) else absent
    passed = pending[: np.searchsorted(pending["offset"], begun)]
    return np.unique(np.concatenate([absent, passed["offset"][outcome.open_disputes(passed)]]))


def _unknown(
    state: PartitionState,
    view: int,
    open_: tuple[int, int],
    unread: tuple[UnreadRange, ...],
    unjudged: int,
    undecided: Array,
) -> dict[UnknownReason, int]:
    counts = dict.fromkeys(UnknownReason, 0)
    begun, furthest = open_
    deferred = state.deferred[state.deferred["view"] == view]
    ends = np.minimum(deferred["end"], furthest)
    counts[UnknownReason.DEFERRED] = int(np.maximum(ends - np.maximum(deferred["start"], begun), 0).sum())
    counts[_why_open(state, view)] += max(0, furthest - begun) - counts[UnknownReason.DEFERRED]
    counts[UnknownReason.UNJUDGED] = unjudged
    counts[UnknownReason.LOG_START_DIFFERS] = _missing_heads(state)
    counts[UnknownReason.RETENTION_DIFFERS] = _unlike_starts(state)
    if view == READ_UNCOMMITTED:
        counts[UnknownReason.UNDECIDED] = len(np.unique(undecided))
    counts[replicas.why_gone(state)] += int(state.partition["skipped"][0, view])
    for span in unread:
        if span.view == view:
            counts[span.reason] += span.count
    return counts


def _waits_from(
    state: PartitionState, view: int, common: int, counts: dict[UnknownReason, int], unjudged: Array, undecided: Array
) -> int:
    """Where a view waits for verdicts that come by themselves as soon as more has been read; -1 where it does not."""
    waiting = [unjudged, undecided] if view == READ_UNCOMMITTED else [unjudged]
    lowest = [int(offsets.min()) for offsets in waiting if len(offsets)]
    why = _why_open(state, view)
    if why in PASSING and counts[why]:
        # A replica that is still copying the log moves this, though what is beyond stays without a verdict.
        lowest.append(max(0, common))
    return min(lowest, default=UNKNOWN)


def _missing_heads(state: PartitionState) -> int:
    """Offsets that a log does not hold any more, or never did, and that no cleanup policy is known to have deleted."""
    starts = replicas.log_starts(state)
    if not starts or state.partition["deletes"][0] > 0 or state.partition["strict_from"][0] != NEVER:
        return 0
    head, held = int(state.partition["head"][0]), replicas.held_from(state)
    lowest = starts[0] if held == NEVER else held
    # While the policy is not known it may be retention that moves all log starts together.
    followed = head != UNKNOWN and state.partition["deletes"][0] == 0
    since = max(min(head, lowest) if followed else lowest, int(state.partition["deleted_to"][0]))
    return max(0, starts[-1] - since)


def _unlike_starts(state: PartitionState) -> int:
    """Offsets of a topic that is compacted and deletes as well, which some logs hold and another begins above.

    Retention deletes at its own time on each replica; so nothing distinguishes it from the loss of a log's first
    segments.
    """
    starts = replicas.log_starts(state)
    is_both = state.partition["deletes"][0] > 0 and state.partition["strict_from"][0] == NEVER
    return starts[-1] - starts[0] if starts and is_both else 0


def _why_open(state: PartitionState, view: int) -> UnknownReason:
    """Why what lies beyond the common position has no verdict."""
    if not replicas.members(state):
        return UnknownReason.REPLICA_SET_UNKNOWN
    followed = state.brokers["begun"][state.brokers["member"], view]
    return UnknownReason.NOT_READ_YET if followed.all() else UnknownReason.BEFORE_FIRST_READING


def _unread(state: PartitionState, view: int, begun: int, unjudged: Array) -> list[UnreadRange]:
    """The ranges of a view, cut so that none overlap, and to what has been compared and is still retained.

    Where several overlap, the last of `UNREAD_REASONS` counts, and an audit has to have begun after all of them.
    """
    # A few numbers: lists are several times as fast as numpy here.
    rows = [row for mine, *row in state.unread[_SPAN].tolist() if mine == view]
    if not rows:
        return []
    lowest = max(replicas.log_starts(state), default=UNKNOWN)
    edges = sorted({min(max(edge, lowest), begun) for start, stop, *_ in rows for edge in (start, stop)})
    spans: list[UnreadRange] = []
    for low, high in pairwise(edges):
        over = [(reason, since) for start, stop, reason, since in rows if start <= low and high <= stop]
        if not over:
            continue
        reason, since = UNREAD_REASONS[max(code for code, _ in over)], max(at for _, at in over)
        goes_on = bool(spans) and (spans[-1].end, spans[-1].reason, spans[-1].since) == (low, reason, since)
        start = spans.pop().start if goes_on else low
        within = int(np.diff(np.searchsorted(unjudged, (start, high)))[0]) if len(unjudged) else 0
        spans.append(UnreadRange(view, start, high, reason, since, within))
    return spans


def _broker(broker: Array, reached: Sequence[int]) -> BrokerCoverage:
    since, seen = int(broker["stalled_since"]), int(broker["observed_at"])
    return BrokerCoverage(
        broker=int(broker["broker"]),
        reachable=bool(broker["reachable"]),
        read_uncommitted=reached[READ_UNCOMMITTED],
        read_committed=reached[READ_COMMITTED],
        high_watermark=int(broker["high_watermark"]),
        last_stable_offset=int(broker["stable_told"]),
        log_start_offset=int(broker["log_start_offset"]),
        log_end_offset=int(broker["log_end_offset"]),
        frozen_for_s=(seen - since) / 1000.0 if since != UNKNOWN else 0.0,
    )


__all__ = ["coverage"]
