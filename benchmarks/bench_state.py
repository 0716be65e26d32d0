"""What an outage of a broker costs the comparison: state, memory and seconds of each micro-batch.

The real step gets rows as the readers would show them, with the default cap of its state. The state becomes bytes after
each micro-batch, as in the job. Time is scaled: 288 micro-batches are a day, one for each five minutes of it. What
matters is what comes once the cap is reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import psutil

from benchmarks.bench_compare import BROKERS, observations
from parallax.compare.observations import (
    POSITION,
    READ_COMMITTED,
    VIEWS,
    Observations,
    OpenTransactions,
    ProgressRows,
    ViewRows,
)
from parallax.compare.state import PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.suspect import Coverage
from parallax.compare.withheld import Places, Views, compare
from parallax.config import CompareSettings
from parallax.model import Outcome, RowKind, Rule

SETTINGS = CompareSettings()
AWAY = 2
"""The replica that is away, or frozen."""

FIRST = 100
"""Records that every replica has shown before the outage."""

REPORTS = 6


def whole(start: int, count: int, *, keys: int | None = None) -> Observations:
    """The rows in which three replicas that agree show ``count`` records.

    Args:
        start: the first offset.
        count: how many records.
        keys: how many keys are written again and again; None for a new key for each record.
    """
    made = observations(start, count, keep=dict.fromkeys(BROKERS, 1.0), transactional=False)
    if keys is None:
        return made
    rows = made.rows
    at = rows.offset % keys
    columns = {name: getattr(rows, name) for name in ViewRows.dtypes()}
    columns |= {"key_hash_hi": at * 7919, "key_hash_lo": at * 104729}
    return replaced(made, ViewRows.of(columns))


def in_transactions(made: Observations) -> Observations:
    """The same rows in transactions of nine records and an end marker, of seven producers in turn."""
    rows = made.rows
    is_row = rows.kind != POSITION
    is_end = is_row & (rows.offset % 10 == 9)
    columns = {name: getattr(rows, name).copy() for name in ViewRows.dtypes()}
    columns["producer_id"][is_row] = rows.offset[is_row] // 10 % 7
    columns["producer_epoch"][is_row] = 0
    columns["outcome"][is_row] = np.where(rows.view[is_row] == READ_COMMITTED, Outcome.COMMITTED, Outcome.UNDECIDED)
    columns["outcome"][is_end], columns["kind"][is_end] = Outcome.COMMITTED, RowKind.COMMIT
    for name, nothing in (("key_hash_hi", 0), ("key_hash_lo", 0), ("content_hash", 0), ("key_size", -1)):
        columns[name][is_end] = nothing
    columns["value_size"][is_end] = -1
    return replaced(made, ViewRows.of(columns))


def replaced(made: Observations, rows: ViewRows) -> Observations:
    """The same micro-batch with other rows."""
    return Observations("t", 0, rows, made.progress, made.open_transactions, made.replica_sets)


def away(made: Observations) -> Observations:
    """The same micro-batch while broker 2 does not answer: it shows no rows, and its progress says why."""
    progress = made.progress
    gone = progress.broker == AWAY
    columns = {name: np.where(gone, -1, getattr(progress, name)) for name in ProgressRows.dtypes()}
    columns |= {"broker": progress.broker, "observed_at": progress.observed_at, "reachable": ~gone, "described": ~gone}
    columns["leader"] = progress.leader
    rows = made.rows.take(made.rows.broker != AWAY)
    return Observations("t", 0, rows, ProgressRows.of(columns), OpenTransactions(), made.replica_sets)


def frozen(made: Observations) -> Observations:
    """The same micro-batch while the last stable offset of broker 2 does not move.

    So broker 2 is read on in read_uncommitted only.
    """
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


Records = Callable[[int, int], Observations]
"""What all replicas show of so many records from an offset on."""


def again(records: Records, gone: Callable[[ViewRows], np.ndarray]) -> Callable[[Places, int, int], ViewRows]:
    """A function that reads recorded rows of a range from the views again, as withheld rows are.

    Args:
        records: makes what all replicas show.
        gone: marks the rows that are not recorded, as bool[n].
    """

    def rows(_: Places, start: int, end: int) -> ViewRows:
        found = records(start, end - start).rows
        return found.take((found.kind != POSITION) & (found.offset >= start) & (found.offset < end) & ~gone(found))

    return rows


@dataclass
class Way:
    """One way to compare, with its state and its times.

    Attributes:
        name: its name in the output.
        compare: compares one micro-batch, from the state, the rows and the micro-batch's number.
        state: the state after the last micro-batch, as bytes.
        coverage: how far the comparison has come; None before the first micro-batch.
        seconds: how long each micro-batch took.
    """

    name: str
    compare: Callable[[PartitionState, Observations, int], StepResult]
    state: bytes = b""
    coverage: Coverage | None = None
    seconds: list[float] = field(default_factory=list)

    def take(self, seen: Observations, number: int) -> None:
        """Compare one micro-batch, from the state's bytes to its bytes."""
        started = time.perf_counter()
        result = self.compare(PartitionState.from_bytes(self.state), seen, number)
        self.state, self.coverage = result.state.to_bytes(), result.coverage
        self.seconds.append(time.perf_counter() - started)
        if any(suspect.accusation.rule is not Rule.PROGRESS for suspect in result.suspects):
            raise SystemExit(f"the benchmark's rows agree, and yet something was suspected: {result.suspects}")


def ways(rows: Callable[[Places, int, int], ViewRows]) -> list[Way]:
    """Two ways to compare: with all rows in the state up to its cap, and with rows withheld.

    Args:
        rows: reads recorded rows of a range again.
    """
    return [
        Way("all in the state", lambda state, seen, _: step(state, seen, SETTINGS, 0)),
        Way("withheld", lambda state, seen, n: compare(state, seen, SETTINGS, 0, Views(n, rows))),
    ]


def outage(
    name: str, batches: int, count: int, show: Callable[[Observations], Observations], records: Records = whole
) -> None:
    """Compare an outage both ways, and the time after it; print what each micro-batch costs.

    Args:
        name: the name of the outage.
        batches: how many micro-batches it lasts.
        count: how many records a micro-batch has.
        show: from what all replicas show, what they show during the outage.
        records: makes what all replicas show.
    """
    print(f"\n{name}: {batches:,} micro-batches of {count:,} records")
    print(f"{'':>16} {'rows fed':>11} {'state MB':>9} {'deferred':>9} {'step s':>8} {'longest':>8} {'RSS MB':>7}")
    back = [0]
    made = records(FIRST, 10)
    missing = {(b, v) for b in BROKERS for v in VIEWS} - {
        (int(b), int(v)) for b, v in zip(show(made).rows.broker, show(made).rows.view, strict=True)
    }

    def gone(rows: ViewRows) -> np.ndarray:
        mask = np.zeros(len(rows), np.bool_)
        for broker, view in missing:
            mask |= (rows.broker == broker) & (rows.view == view) & (rows.offset >= back[0])
        return mask

    process, end = psutil.Process(), FIRST + batches * count
    for way in ways(again(records, gone)):
        back[0] = 0
        way.take(records(0, FIRST), 0)
        way.seconds, fed = [], 0
        for i in range(batches):
            shown = show(records(FIRST + i * count, count))
            way.take(shown, i + 1)
            fed += len(shown.rows)
            if (i + 1) % (batches // REPORTS) == 0:
                recent, size = way.seconds[-(batches // REPORTS) :], len(way.state) / 2**20
                deferred = len(way.coverage.deferred) if way.coverage else 0
                used = process.memory_info().rss / 2**20
                print(
                    f"{way.name:>16} {fed:11,} {size:9.2f} {deferred:9} {np.median(recent):8.3f} {max(recent):8.3f} "
                    f"{used:7.0f}",
                    flush=True,
                )
        comes_back(way, missing, end, count, records, back)


def comes_back(
    way: Way, missing: set[tuple[int, int]], end: int, count: int, records: Records, back: list[int]
) -> None:
    """Read the replica on from where it stopped, until the comparison has caught up; print what that costs.

    Args:
        way: the way to compare.
        missing: broker and view of the rows that were not read during the outage.
        end: the offset at which the outage ends.
        count: how many records a micro-batch had.
        records: makes what all replicas show.
        back: one element, the offset below which the replica has been read; set here.
    """
    way.seconds = []
    for start in range(FIRST, end, 20 * count):
        back[0] = min(start + 20 * count, end)
        made = records(start, back[0] - start)
        mine = sum((made.rows.broker == broker) & (made.rows.view == view) for broker, view in missing) > 0
        way.take(replaced(made, made.rows.take(mine)), 10**6 + start)
    spent, steps = way.seconds, len(way.seconds)
    back[0] = end + count
    way.take(records(end, count), 10**9)
    if way.coverage is None or way.coverage.compared_up_to != (end + count, end + count):
        raise SystemExit(f"the comparison did not go on behind the outage: {way.coverage}")
    unknown = {str(reason): n for reason, n in way.coverage.unknown.items() if any(n)}
    print(
        f"{way.name:>16} the replica is back: {steps} micro-batches, {sum(spent):.1f} s, longest {max(spent):.2f} s; "
        f"state then {len(way.state) / 2**20:.2f} MB, left unknown {unknown or 'nothing'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    options = parser.parse_args()
    batches, count = (24, 2_000) if options.quick else (288, 10_000)
    outage("broker 2 away, every record of a new key", batches, count, away)
    outage("the same, all in transactions of 10", batches, count, away, lambda *of: in_transactions(whole(*of)))
    again_and_again = partial(whole, keys=100_000)
    outage("broker 2 away, 100,000 keys written again and again", batches, count, away, again_and_again)
    outage("read_committed frozen on broker 2", batches, count, frozen)


if __name__ == "__main__":
    main()
