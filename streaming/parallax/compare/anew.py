"""Makes a new state for a partition whose comparison raised an error, so that others go on. Pure.

Of the old state it keeps how far each replica was read, the topic's policy, and where its logs began. All offsets below
are unknown until an audit has compared them. If even the old state cannot be read, no row is compared until every
replica has reported its position again.
"""

from __future__ import annotations

from dataclasses import replace
from traceback import extract_tb

import numpy as np

from parallax.compare import replicas, unread
from parallax.compare.coverage import coverage
from parallax.compare.observations import POSITION, VIEWS, Array, Observations
from parallax.compare.segments import BrokenFileError
from parallax.compare.state import DEFERRED, NEVER, PartitionState, VersionError, new_broker
from parallax.compare.step import StepResult
from parallax.errors import one_line
from parallax.model import UNKNOWN, UnknownReason

NOT_OF_ONE_PARTITION = (OSError, MemoryError, ImportError, BrokenFileError, VersionError)
"""Errors that no single partition causes: the micro-batch fails because of them, and is run again."""

_KEPT = ("retention_ms", "deletes", "head", "deleted_to")
"""Columns of `PARTITION` that stay: the topic's policy, and where its logs began. No audit could find these out."""

_SHOWN_TO = ("high_watermark", "last_stable_offset")
"""By view, the column of progress that says up to which offset a replica shows its log."""

_LONGEST = 300


def begin_anew(
    known: PartitionState | None, observations: Observations, now_ms: int, grace_ms: int, error: Exception
) -> StepResult:
    """The new state and coverage of a partition whose comparison raised an error.

    No suspect is raised. Suspects that were raised before remain, and are not raised again.

    Args:
        known: the partition's state before the error; None if it cannot be read.
        observations: what the micro-batch showed of the partition; none of it counts as compared.
        now_ms: milliseconds since 1970 UTC.
        grace_ms: see `parallax.compare.coverage.coverage`.
        error: what the failed comparison raised; the coverage quotes it.
    """
    state = PartitionState()
    topic_id = _topic_id(observations)
    if known is not None:
        before = int(known.partition["topic_id"][0])
        if topic_id not in (0, before) and before:
            known = None  # re-created: its offsets are those of another log
        else:
            topic_id, state.told = topic_id or before, known.told
    state.partition["topic_id"] = topic_id
    if known is not None:
        for name in _KEPT:
            state.partition[name] = known.partition[name]
        # What was shown before and comes again is still nothing new.
        state.brokers = np.concatenate([state.brokers, *_met(known, observations)])
    since = _read_at(observations, now_ms)
    for view in VIEWS:
        end = _goes_to(known, observations, view)
        state.partition["floor"][0, view] = end
        unread.add(state, view, 0, end, UnknownReason.SKIPPED, since)
    # It is also unknown which end markers were shown: a transaction may not have ended by the next one.
    lost_to = NEVER if known is None else int(state.partition["floor"].max())
    state.partition["unmarked"], state.partition["hidden_to"] = (0, lost_to), lost_to
    if known is None:
        # Readers go on where they are, maybe further up: what one shows before all others are met again proves nothing.
        state.deferred = np.array([(view, 0, NEVER) for view in VIEWS], DEFERRED)
    told = replace(coverage(state, observations, now_ms, grace_ms), error=line_of(error))
    return StepResult(state, [], told)


def _goes_to(known: PartitionState | None, seen: Observations, view: int) -> int:
    """One past the last offset that anything says of a partition; 1 where nothing is said, for nobody knows."""
    rows, mine = seen.rows, seen.rows.view == view
    ends = [rows.offset[mine] + (rows.kind[mine] != POSITION), getattr(seen.progress, _SHOWN_TO[view])]
    if known is not None:
        ends += [known.brokers["shown"][:, view], replicas.read_to(known)[:, view]]
    end = int(np.concatenate(ends).max(initial=UNKNOWN))
    return 1 if end == UNKNOWN else end


def _met(known: PartitionState, seen: Observations) -> list[Array]:
    """The rows of replicas of which nothing counts but how far each has shown its log, by view."""
    rows = [new_broker(int(broker)) for broker in known.brokers["broker"]]
    shown = np.maximum(known.brokers["shown"], replicas.read_to(known))
    for row, its in zip(rows, shown, strict=True):
        for view in VIEWS:
            mine = (seen.rows.view == view) & (seen.rows.broker == row["broker"][0])
            ends = seen.rows.offset[mine] + (seen.rows.kind[mine] != POSITION)
            row["shown"][0, view] = max(int(its[view]), int(ends.max(initial=UNKNOWN)))
    return rows


def _topic_id(seen: Observations) -> int:
    """The one that was named last; 0 where none was."""
    rows = seen.rows
    named = np.flatnonzero((rows.kind == POSITION) & (rows.topic_id != 0))
    return int(rows.topic_id[named[np.argmax(rows.timestamp[named])]]) if len(named) else 0


def _read_at(seen: Observations, now_ms: int) -> int:
    """When it was read, in milliseconds: the same when the micro-batch is run again."""
    rows = seen.rows
    times = np.concatenate([rows.timestamp[rows.kind == POSITION], seen.progress.observed_at])
    return int(times.max()) if len(times) else now_ms


def line_of(error: Exception) -> str:
    """An error as one line of text: its type, its message, and where it was raised."""
    frames = extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {one_line(error)[:_LONGEST]}{where}"


__all__ = ["NOT_OF_ONE_PARTITION", "begin_anew", "line_of"]
