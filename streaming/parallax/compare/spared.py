"""Compares a micro-batch of one partition without reading the rows of offsets where all replicas' sums are equal.

The sums were recorded with the rows (`parallax.views.blocks`), so they are known before any row is read. Rows below and
behind these offsets are compared one by one. In two cases all rows are needed after all: the state does not allow to
pass the offsets by their sums (`parallax.compare.agreed.fits`), or a reader reported a break, such as a truncation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parallax.compare.agreed import fits, goes_on, is_new
from parallax.compare.blocks import Agreed, Alike, Opens
from parallax.compare.breaks import of_the_topic
from parallax.compare.observations import (
    ABORT,
    COMMIT,
    EVENT_CODE,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Observations,
    ViewRows,
    topic_id_code,
)
from parallax.compare.replicas import register
from parallax.compare.state import FOLLOWED, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.withheld import Views, is_withholding
from parallax.compare.withholding import WithholdingLimits, begun, is_broken
from parallax.config import CompareSettings
from parallax.model import Outcome, ReadEvent

_OK, _ADDED = EVENT_CODE[ReadEvent.OK], EVENT_CODE[ReadEvent.PARTITION_ADDED]


def without_rows(
    state: PartitionState,
    seen: Observations,
    alike: Alike,
    settings: CompareSettings,
    now_ms: int,
    views: Views,
    *,
    limits: WithholdingLimits | None = None,
    **options: Any,
) -> StepResult | None:
    """Compare a micro-batch of one partition, of which some rows were left unread because their sums are equal.

    No row is read here. The result is None if these rows are needed after all.

    Args:
        state: the state after the micro-batch before; it is not changed.
        seen: what this micro-batch showed, without the rows that were not read.
        alike: the range of offsets in which all readers' sums are equal.
        settings: for the grace period and the cap of the state.
        now_ms: milliseconds since 1970 UTC.
        views: says how far the views had been written when the micro-batch was planned; no row is read.
        limits: how many rows must wait before any are withheld; None for the defaults.
        options: further arguments of `parallax.compare.step.step`.
    """
    made = _without_rows(state, seen, alike, settings, now_ms, options)
    return made and replace(made, state=begun(made.state, settings, views.until, limits or WithholdingLimits()))


def _without_rows(
    state: PartitionState,
    seen: Observations,
    alike: Alike,
    settings: CompareSettings,
    now_ms: int,
    options: Mapping[str, Any],
) -> StepResult | None:
    """The step without the rows that were spared; None if it needs them."""
    if is_new(state):
        begun = _begun(state, seen, alike, options)
        agreed = None if begun is None else _agreed(begun, seen, alike)
        return None if agreed is None else step(state, seen, settings, now_ms, agreed=agreed, **options)
    if is_withholding(state) or not _is_usual(state, seen) or not _goes_on_at(state, alike):
        return None
    brokers = state.brokers[state.brokers["member"]]
    if (brokers["position"] < alike.start).any() and (brokers["begun"] != FOLLOWED).any():
        # Whether such a reader has shown every offset since it began is found out from all of its rows together.
        return None
    if (brokers["shown"] < alike.start).any():
        # What comes before has to be judged first, as if it had been read alone.
        is_below = (seen.rows.kind != POSITION) & (seen.rows.offset < alike.start)
        below = Observations(seen.topic, seen.partition, seen.rows.take(is_below))
        made = step(_raised(state, "position", alike.start), below, settings, now_ms, **options)
        if made.suspects or len(made.unlike):
            return None
        state = _raised(_raised(made.state, "position", alike.start), "shown", alike.start)
        seen = replace(seen, rows=seen.rows.take(~is_below))
    agreed = _agreed(state, seen, alike)
    return None if agreed is None else step(state, seen, settings, now_ms, agreed=agreed, **options)


def _begun(
    state: PartitionState, seen: Observations, alike: Alike, options: Mapping[str, Any]
) -> PartitionState | None:
    """The state of a partition that is new, with its replicas and its topic; None if its first rows are needed."""
    begun = state.copy()
    register(begun, seen)
    # Files without sums may come first. A reader that began below tells so: by rows, or how far it had come by then.
    is_first = not (seen.rows.offset < alike.start).any()
    # Where readers begin at the log end, their first rows say where that was.
    if (
        not options.get("from_log_start", True)
        or not (alike.is_from_one_start and is_first)
        or len(of_the_topic(begun, seen).rows) < len(seen.rows)
    ):
        return None
    return begun if _is_usual(begun, seen) and _is_of_readers(begun, alike) else None


def _agreed(state: PartitionState, seen: Observations, alike: Alike) -> Agreed | None:
    """What readers have agreed on, if a state may be brought past it and nothing behind it needs its rows."""
    opens = goes_on(state)
    agreed = None if opens is None else alike.agreed({READ_COMMITTED: opens, READ_UNCOMMITTED: _undecided(opens)})
    return None if agreed is None or not fits(state, agreed) or _ends_any(seen.rows, agreed) else agreed


def _ends_any(rows: ViewRows, agreed: Agreed) -> bool:
    """Whether rows behind the offsets that agreed end a transaction that goes on over their end.

    Then its records may have to be remembered (`parallax.compare.remembered`).
    """
    is_end = (rows.kind == COMMIT) | (rows.kind == ABORT)
    return bool(np.isin(rows.producer_id[is_end], list(agreed.opens[READ_COMMITTED])).any())


def _undecided(opens: Opens) -> Opens:
    """Transactions as read_uncommitted shows them."""
    return {producer: replace(one, outcome=int(Outcome.UNDECIDED)) for producer, one in opens.items()}


def _is_usual(state: PartitionState, seen: Observations) -> bool:
    """Whether readers report how far they have come and nothing else, and no broker is new."""
    events, brokers = seen.rows.event[seen.rows.kind == POSITION], state.brokers["broker"]
    usual = (_OK, _ADDED) if is_new(state) else (_OK,)
    is_known = np.isin(seen.rows.broker, brokers).all()
    is_known &= np.isin(seen.replica_sets.broker, brokers[state.brokers["member"]]).all()
    return bool(np.isin(events, usual).all() and is_known) and not is_broken(state, seen)


def _goes_on_at(state: PartitionState, alike: Alike) -> bool:
    """Whether the readers of the topic are those of the state, and go on where it left them."""
    if not _is_of_readers(state, alike):
        return False
    positions = state.brokers["position"]
    at = {broker: slot for slot, broker in enumerate(state.brokers["broker"].tolist())}
    return all(one.ranges["start"][0] <= positions[at[broker], view] for (broker, view), one in alike.readers.items())


def _is_of_readers(state: PartitionState, alike: Alike) -> bool:
    """Whether the readers, and their topic, are those of the state."""
    ids = {topic_id_code(one.topic_ids[0]) for one in alike.readers.values()}
    members = set(state.brokers["broker"][state.brokers["member"]].tolist())
    return members == alike.brokers and ids == {int(state.partition["topic_id"][0])}


def _raised(state: PartitionState, name: str, offset: int) -> PartitionState:
    """The state with the readers of the replica set at least at an offset."""
    made = state.copy()
    member = made.brokers["member"]
    made.brokers[name][member] = np.maximum(made.brokers[name][member], offset)
    return made


__all__ = ["without_rows"]
