"""A replica that is away, or frozen, for however long: the state stays under its cap, what was left out is reported."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from parallax.compare.observations import (
    COMMIT,
    POSITION,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORD,
    VIEWS,
    Observations,
    ProgressRows,
    ReplicaSets,
    ViewRows,
)
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.config import CompareSettings
from parallax.model import UnknownReason

BROKERS = (1, 2, 3)
CAP = 1 << 18
SETTINGS = CompareSettings(state_cap_bytes=CAP)
RECORDS, BATCHES = 400, 120
KEYS = {"new keys": 10**9, "keys written again and again": 1_000}
OUTAGES = {"away": {(2, READ_UNCOMMITTED), (2, READ_COMMITTED)}, "frozen": {(2, READ_COMMITTED)}}


def shown(start: int, readers: set[tuple[int, int]], keys: int, *, transactional: bool) -> Observations:
    """What some readers show of ``RECORDS`` offsets; with transactions, each tenth record is the marker of one."""
    offset = np.arange(start, start + RECORDS)
    end = start + RECORDS
    parts = []
    for broker, view in sorted(readers):
        marker = transactional & (offset % 10 == 9)
        here = ~marker if view == READ_COMMITTED else np.ones(RECORDS, bool)
        n = int(here.sum())
        columns = {
            "kind": np.where(marker[here], COMMIT, RECORD),
            "offset": offset[here],
            "timestamp": offset[here],
            "producer_id": offset[here] // 10 % 7 if transactional else np.full(n, -1),
            "outcome": np.full(n, (1 if view == READ_COMMITTED else 3) if transactional else 0),
            "key_hash_hi": offset[here] % keys,
            "key_size": np.full(n, 8),
            "value_size": np.full(n, 9),
        }
        position = {"kind": POSITION, "offset": end, "timestamp": end, "high_watermark": end, "last_stable_offset": end}
        closed = {name: np.append(values, position.pop(name, -1)) for name, values in columns.items()}
        last = {name: np.append(np.full(n, -1), value) for name, value in position.items()}
        parts.append(ViewRows.of({"broker": np.full(n + 1, broker), "view": np.full(n + 1, view), **closed, **last}))
    at = np.full(len(BROKERS), end)
    numbers = dict.fromkeys(("high_watermark", "last_stable_offset", "log_end_offset"), at)
    progress = {"broker": np.array(BROKERS), "observed_at": at, "reachable": at > 0, "log_start_offset": at * 0}
    return Observations(
        "t",
        0,
        ViewRows.concat(parts),
        ProgressRows.of(progress | numbers),
        replica_sets=ReplicaSets.of({"observed_at": at, "broker": np.array(BROKERS)}),
    )


def everyone() -> set[tuple[int, int]]:
    return {(broker, view) for broker in BROKERS for view in VIEWS}


def steps(
    batches: range, readers: set[tuple[int, int]], state: bytes, keys: int, *, transactional: bool
) -> Iterator[StepResult]:
    for number in batches:
        observed = shown(number * RECORDS, readers, keys, transactional=transactional)
        result = step(PartitionState.from_bytes(state), observed, SETTINGS, 0)
        state = result.state.to_bytes()
        yield result


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("outage", OUTAGES)
def test_the_state_stays_under_its_cap_and_the_comparison_goes_on_behind_the_outage(
    outage: str, keys: str, transactional: bool
) -> None:
    missing, number_of_keys = OUTAGES[outage], KEYS[keys]
    readers = everyone() - missing
    (before,) = steps(range(1), everyone(), b"", number_of_keys, transactional=transactional)
    state, sizes = before.state, []
    last, unchanged = state, False
    during = steps(range(1, BATCHES), readers, before.state.to_bytes(), number_of_keys, transactional=transactional)
    for result in during:
        state = result.state
        small = sum(t.nbytes for t in (state.partition, state.brokers, state.told, state.deferred))
        sizes.append(state.nbytes - small)
        unchanged = state.has_unmatched_of(last)
        last = state
    assert max(sizes) <= CAP
    assert max(sizes[: BATCHES // 2]) == pytest.approx(max(sizes), rel=0.05), "it has stopped growing"
    if keys == "new keys" and not transactional:
        assert unchanged, "at the cap, what is unmatched need not be written again"
    left_out = {r.view for r in result.coverage.deferred}
    assert all(r.start > 0 and r.end == -1 for r in result.coverage.deferred)
    waiting = [result.coverage.unknown_for(r) for r in (UnknownReason.NOT_READ_YET, UnknownReason.DEFERRED)]
    assert sum(n[READ_COMMITTED] for n in waiting) == (BATCHES - 1) * RECORDS

    back = list(steps(range(1, BATCHES), missing, state.to_bytes(), number_of_keys, transactional=transactional))
    (after,) = steps(
        range(BATCHES, BATCHES + 1), everyone(), back[-1].state.to_bytes(), number_of_keys, transactional=transactional
    )
    end = (BATCHES + 1) * RECORDS
    assert after.coverage.compared_up_to == (end, end)
    assert not after.coverage.deferred
    assert after.state.is_settled
    left = after.coverage.unknown_for(UnknownReason.DEFERRED)
    assert all((left[view] > 0) == (view in left_out) for view in VIEWS)
    assert not [s for r in (before, *back, after) for s in r.suspects], "nothing differs"
