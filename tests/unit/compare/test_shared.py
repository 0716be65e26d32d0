"""Rows that are stored once are compared as rows of every replica: whenever upkeep shares them, nothing is missing."""

from __future__ import annotations

import random
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from parallax.compare.feed import QUERY
from parallax.compare.tables import SUSPECTS, create_suspects
from parallax.views.compaction import compact
from parallax.views.sharing import share
from parallax.views.tables import VIEWS, create_tables
from tests.unit.compare.feeding import READERS, WHOLE, Comparison, record_as_the_job_does
from tests.unit.compare.history import BROKERS, Row, both, everywhere, record, tick

BEFORE = date(2026, 1, 2)


def life(storage: Path, draw: random.Random, *, differs: bool) -> int:
    """Record micro-batches as they come: a replica is late at times, and one shows another value in the end."""
    create_tables(str(storage))
    at, end = dict.fromkeys(BROKERS, 0), 0
    wrong = draw.randrange(60) if differs else -1
    for n in range(draw.randint(6, 14)):
        end += draw.choice((1, 30, 60)) if n else 60
        rows: list[Row] = []
        starts = {}
        for broker in BROKERS:
            start, stop = at[broker], at[broker] if draw.random() < 0.2 else end
            starts |= {reader: start for reader in READERS if reader[1] == broker}
            rows += read(broker, start, stop, wrong, n)
            at[broker] = stop
        record_as_the_job_does(
            storage, n, *tick(n, everywhere(end)), *rows, starts=starts if draw.random() < 0.5 else None
        )
    rest = [row for broker in BROKERS for row in read(broker, at[broker], end, wrong, 99)]
    record_as_the_job_does(storage, 99, *tick(99, everywhere(end)), *rest)
    return end


def read(broker: int, start: int, end: int, wrong: int, at: int) -> list[Row]:
    """What the readers of a replica record of a range."""
    made = [
        {**WHOLE, **record(m, f"K{m % 9}", "other" if m == wrong and broker == 2 else f"V{m}")}
        for m in range(start, end)
    ]
    return [{"leader_epoch": 0, **row} for row in both(broker, made, end, at)]


def run(storage: Path, draw: random.Random, *, shares: bool) -> tuple[list[Any], list[Any]]:
    """What a comparison of the tables raises, and up to where each of its micro-batches has come."""
    for name in (f"checkpoints/{QUERY}", SUSPECTS):
        shutil.rmtree(storage / name, ignore_errors=True)
    create_suspects(str(storage))
    comparison = Comparison(storage, max_rows_per_trigger=draw.choice((40, 400, 100_000)))
    while comparison.reader().latestOffset(comparison.offset, None) != comparison.offset:  # type: ignore[arg-type]
        if shares and draw.random() < 0.4:
            shared(storage)
        comparison.step()
    raised = [(s.kind, s.broker, s.accusation) for found, _ in comparison.told for s in found]
    return sorted(raised, key=str), [(c.compared_up_to, c.unknown) for _, found in comparison.told for c in found][-1:]


def shared(storage: Path) -> int:
    return sum(share(str(storage), name, lambda _: True, BEFORE, set()).rows for name in VIEWS)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("joined", [False, True])
def test_a_comparison_finds_the_same_whenever_rows_are_shared(tmp_path: Path, seed: int, joined: bool) -> None:
    plain, other = tmp_path / "plain", tmp_path / "shared"
    end = life(plain, random.Random(seed), differs=seed % 3 > 0)
    if joined:
        for name in VIEWS:
            compact(str(plain), name)
    shutil.copytree(plain, other)
    before = run(plain, random.Random(seed), shares=False)
    # Shared while it runs; and before it begins again, from tables that have no row twice.
    assert run(other, random.Random(seed), shares=True) == before
    shared(other)
    counts = [DeltaTable(str(storage / VIEWS[0])).to_pyarrow_dataset().count_rows() for storage in (plain, other)]
    assert counts[0] - counts[1] >= 2 * end - 2
    assert run(other, random.Random(seed), shares=False) == before
    assert bool(before[0]) == (seed % 3 > 0)
    assert before[1][0][0] == (end, end)
