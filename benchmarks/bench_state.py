"""What an outage costs the comparison: state, memory and seconds for each micro-batch, however long it lasts.

The real step with the default cap, its state through bytes after every micro-batch, is fed what the readers would show.
Time is scaled: 288 micro-batches stand for a day, one for five minutes of it. What matters is what comes after the cap.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import psutil

from benchmarks.bench_compare import BROKERS, observations
from parallax.compare.observations import Observations, OpenTransactions, ProgressRows, ViewRows
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.config import CompareSettings

SETTINGS = CompareSettings()
AWAY = 2
"""The replica that is away, or frozen."""

FIRST = 100
"""Records that every replica has shown before the outage."""

REPORTS = 6


def whole(start: int, count: int, *, keys: int | None = None) -> Observations:
    """What three replicas show of ``count`` records; with ``keys``, so many keys are written again and again."""
    made = observations(start, count, keep=dict.fromkeys(BROKERS, 1.0), transactional=False)
    if keys is None:
        return made
    rows = made.rows
    at = rows.offset % keys
    columns = {name: getattr(rows, name) for name in ViewRows.dtypes()}
    columns |= {"key_hash_hi": at * 7919, "key_hash_lo": at * 104729}
    return replaced(made, ViewRows.of(columns))


def replaced(made: Observations, rows: ViewRows) -> Observations:
    """The same with other rows."""
    return Observations("t", 0, rows, made.progress, made.open_transactions, made.replica_sets)


def away(made: Observations) -> Observations:
    """A broker that does not answer: no rows, and progress that says so."""
    progress = made.progress
    gone = progress.broker == AWAY
    columns = {name: np.where(gone, -1, getattr(progress, name)) for name in ProgressRows.dtypes()}
    columns |= {"broker": progress.broker, "observed_at": progress.observed_at, "reachable": ~gone, "described": ~gone}
    columns["leader"] = progress.leader
    rows = made.rows.take(made.rows.broker != AWAY)
    return Observations("t", 0, rows, ProgressRows.of(columns), OpenTransactions(), made.replica_sets)


def frozen(made: Observations) -> Observations:
    """A replica whose last stable offset stands at the start: it is read on in read_uncommitted only."""
    rows = made.rows.take((made.rows.broker != AWAY) | (made.rows.view == 0))
    mine = made.progress.broker == AWAY
    columns = {name: getattr(made.progress, name) for name in ProgressRows.dtypes()}
    columns["last_stable_offset"] = np.where(mine, FIRST, made.progress.last_stable_offset)
    return Observations(
        "t",
        0,
        rows,
        ProgressRows.of(columns),
        OpenTransactions.of(
            {
                "broker": [AWAY],
                "observed_at": made.progress.observed_at[mine],
                "producer_id": [7],
                "start_offset": [FIRST],
            }
        ),
        made.replica_sets,
    )


def outage(
    name: str, batches: int, count: int, show: Callable[[Observations], Observations], *, keys: int | None = None
) -> bytes:
    """Feed an outage, print how it goes, and give the state at its end."""
    print(f"\n{name}: {batches:,} micro-batches of {count:,} records")
    print(f"{'rows fed':>14} {'state MB':>9} {'deferred':>9} {'step s':>8} {'longest':>8} {'bytes s':>8} {'RSS MB':>7}")
    state = step(PartitionState(), whole(0, FIRST, keys=keys), SETTINGS, 0).state.to_bytes()
    process, fed, steps, packing = psutil.Process(), 0, [0.0], [0.0]
    for i in range(batches):
        shown = show(whole(FIRST + i * count, count, keys=keys))
        started = time.perf_counter()
        result = step(PartitionState.from_bytes(state), shown, SETTINGS, 0)
        stepped = time.perf_counter()
        state = result.state.to_bytes()
        packing.append(time.perf_counter() - stepped)
        steps.append(stepped - started)
        fed += len(shown.rows)
        if (i + 1) % (batches // REPORTS) == 0:
            recent, size = steps[-(batches // REPORTS) :], len(state) / 2**20
            packed, used = np.median(packing[-len(recent) :]), process.memory_info().rss / 2**20
            print(
                f"{fed:14,} {size:9.1f} {len(result.coverage.deferred):9} {np.median(recent):8.3f} {max(recent):8.3f} "
                f"{packed:8.3f} {used:7.0f}",
                flush=True,
            )
    return state


def comes_back(state: bytes, batches: int, count: int) -> None:
    """The replica is read from where it was, in the same micro-batches, until the comparison has caught up."""
    longest, steps, end = 0.0, 0, FIRST + batches * count
    coverage = None
    for start in range(FIRST, end, 20 * count):
        made = whole(start, min(20 * count, end - start))
        rows = made.rows.take(made.rows.broker == AWAY)
        started = time.perf_counter()
        result = step(PartitionState.from_bytes(state), replaced(made, rows), SETTINGS, 0)
        state = result.state.to_bytes()
        longest = max(longest, time.perf_counter() - started)
        steps += 1
        coverage = result.coverage
    after = step(PartitionState.from_bytes(state), whole(end, count), SETTINGS, 0)
    if coverage is None or after.coverage.compared_up_to != (end + count, end + count):
        raise SystemExit(f"the comparison did not go on behind the outage: {after.coverage}")
    print(
        f"the replica is back: {steps} micro-batches, the longest {longest:.2f} s; state then "
        f"{after.coverage.state_bytes / 2**20:.2f} MB, left unknown {dict(after.coverage.unknown)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    options = parser.parse_args()
    batches, count = (24, 2_000) if options.quick else (288, 10_000)
    state = outage("broker 2 away, every record of a new key", batches, count, away)
    comes_back(state, batches, count)
    outage("broker 2 away, 100,000 keys written again and again", batches, count, away, keys=100_000)
    outage("read_committed frozen on broker 2", batches, count, frozen)


if __name__ == "__main__":
    main()
