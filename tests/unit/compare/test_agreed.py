"""Ranges that agree by their sums: a step that is given these says what a step that is given their rows says."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare import agreed as taking_in
from parallax.compare.agreed import fits, goes_on
from parallax.compare.blocks import Recorded, agreed
from parallax.compare.observations import POSITION, READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Observations
from parallax.compare.state import UNENDED, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.sums import Grain
from parallax.model import UNKNOWN, Outcome, RowKind
from parallax.replica.digests import COLUMNS, Digester, Digests
from parallax.views.blocks import RANGE
from tests.unit.compare.history import BROKERS, SETTINGS, Row, abort, commit, everywhere, record, shown, tick

BITS = 3
LENGTH = 60
DIGESTER = Digester(bytes(16), block_bits=BITS)


def log_of(draw: random.Random, odd: float) -> list[Row]:
    """A log, as read_committed shows it; so many of its transactions end otherwise than they are shown."""
    made: list[Row] = []
    going: dict[int, Outcome] = {}
    for offset in range(LENGTH):
        pid = draw.randrange(9, 12)
        if pid in going and draw.random() < 0.5:
            is_commit = (going.pop(pid) is Outcome.COMMITTED) != (draw.random() < odd)
            end = (commit if is_commit else abort)(offset, pid)
            made.append({**end, "outcome": Outcome.COMMITTED if is_commit else Outcome.ABORTED})
        elif draw.random() < 0.4:
            made.append(record(offset, f"k{draw.randrange(4)}", draw.choice(("v", None))))
        else:
            outcome = going.setdefault(pid, draw.choice((Outcome.COMMITTED, Outcome.ABORTED)))
            made.append(record(offset, f"k{draw.randrange(4)}", "t", pid=pid, outcome=outcome))
    return made


def damaged(log: list[Row], draw: random.Random) -> list[Row]:
    at = draw.randrange(len(log))
    if draw.random() < 0.5:
        return [*log[:at], *log[at + 1 :]]
    return [*log[:at], {**log[at], "content_hash": 4711, "producer_epoch": 5}, *log[at + 1 :]]


def stable(log: list[Row], end: int) -> int:
    """The last stable offset of a log that ends there."""
    going: dict[int, int] = {}
    for row in log:
        if row["offset"] >= end:
            break
        if row["kind"] in (RowKind.COMMIT, RowKind.ABORT):
            going.pop(row["producer_id"], None)
        elif row["outcome"] != Outcome.NONE:
            going.setdefault(row["producer_id"], row["offset"])
    return min([end, *going.values()])


def digested(rows: list[Row]) -> Digests:
    of = [{**dict.fromkeys(COLUMNS, 0), **row} for row in rows if row["kind"] != RowKind.POSITION]
    columns = {name: np.array([row[name] for row in of], dtype) for name, dtype in COLUMNS.items()}
    return DIGESTER.add_up(np.array([0, len(of)]), np.zeros(1, np.int32), columns)


class BothWays:
    """A partition that is followed by rows, and by blocks."""

    def __init__(self) -> None:
        self.by_rows, self.by_blocks = PartitionState(), PartitionState()
        self.stood = {(view, broker): 0 for view in VIEWS for broker in BROKERS}
        self.at = 1000
        self.counts: Counter[str] = Counter()
        self.suspects: list[Any] = []

    def feed(self, logs: dict[int, list[Row]], ends: dict[tuple[int, int], int], told: list[Row]) -> None:
        """One micro-batch: each reader reads on to its end, if that lies behind where it stands."""
        rows: list[Row] = []
        read: dict[tuple[int, int], Recorded] = {}
        for reader, end in ends.items():
            (view, broker), start = reader, self.stood[reader]
            if end <= start:
                continue
            mine = [row for row in logs[broker] if start <= row["offset"] < end]
            hw, lso = told_of(told, broker)
            its = shown(view, broker, mine, end, self.at, high_watermark=hw, last_stable_offset=lso)
            read[broker, view] = Recorded(np.array([(0, start, end, 0, 0, True)], RANGE), ["id"], digested(its))
            self.stood[reader] = end
            rows += its
        seen = Observations.of("t", 0, [*told, *rows])
        one, other = step(self.by_rows, seen, SETTINGS, 0), self._by_blocks(seen, read)
        assert [s.as_row() for s in other.suspects] == [s.as_row() for s in one.suspects]
        assert replace(other.coverage, state_bytes=0) == replace(one.coverage, state_bytes=0)
        self.by_rows, self.by_blocks = one.state, other.state
        self.suspects += one.suspects

    def _by_blocks(self, seen: Observations, read: dict[tuple[int, int], Recorded]) -> StepResult:
        """With what all have read of one range taken in at once, if all stood where it begins."""
        self.counts["rows"] += len(seen.rows)
        opens = goes_on(self.by_blocks)
        whole = len(read) == len(self.stood) and opens is not None
        found = agreed(read, dict.fromkeys(VIEWS, opens or {}), Grain(block=BITS)) if whole else None
        stands = {int(at) for at in self.by_blocks.brokers["position"].ravel()}
        if found is None or stands not in ({found.start}, {UNKNOWN}) or not fits(self.by_blocks, found):
            return step(self.by_blocks, seen, SETTINGS, 0)
        rows = seen.rows
        left = replace(seen, rows=rows.take((rows.kind == POSITION) | (rows.offset >= found.end)))
        if np.isin(left.rows.producer_id[left.rows.kind != RowKind.RECORD], list(found.opens[READ_COMMITTED])).any():
            # Their first records would be remembered until all have shown these ends: the stream reads none with them.
            return step(self.by_blocks, seen, SETTINGS, 0)
        self.counts["spared"] += len(rows) - len(left.rows)
        return step(self.by_blocks, left, SETTINGS, 0, agreed=found)


def told_of(told: list[Row], broker: int) -> tuple[int, int]:
    row = next(row for row in told if row["broker"] == broker)
    return row["high_watermark"], row["last_stable_offset"]


def followed(seed: int, faults: int, odd: float) -> BothWays:
    """A partition whose replicas are read every now and then, most of them up to where they end."""
    draw = random.Random(seed)
    whole = log_of(draw, odd)
    logs = dict.fromkeys(BROKERS, whole)
    for _ in range(faults):
        broker = draw.choice(BROKERS)
        logs[broker] = damaged(logs[broker], draw)
    one, end = BothWays(), 0
    one.feed(logs, {}, tick(500, everywhere(0)))
    for _ in range(12):
        end = min(LENGTH, end + draw.choice((0, 1, 5, 11, 20)))
        one.at += 100
        told = tick(one.at - 1, {b: stable(logs[b], end) for b in BROKERS}, everywhere(end))
        ends: dict[tuple[int, int], int] = {}
        for broker in BROKERS:
            late = draw.choice((0, 0, 0, 3))
            ends[READ_UNCOMMITTED, broker] = end - late
            ends[READ_COMMITTED, broker] = min(end - late, stable(logs[broker], end))
        one.feed(logs, ends, told)
    for at in (50_000, 60_000):
        one.feed(logs, {}, tick(at, {b: stable(logs[b], end) for b in BROKERS}, everywhere(end)))
    return one


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.integers(0, 2), odd=st.sampled_from((0.0, 0.0, 0.3)))
def test_what_has_agreed_stands_for_its_rows(seed: int, faults: int, odd: float) -> None:
    followed(seed, faults, odd)


def test_rows_of_replicas_that_agree_are_not_looked_at() -> None:
    """Blocks are as short here as transactions, one of which is open nearly always: that spares little."""
    counts: Counter[str] = Counter()
    for seed in range(8):
        counts += followed(seed, 0, 0.0).counts
    assert counts["spared"] > counts["rows"] / 100, counts


def test_a_transaction_that_goes_on_over_a_cut_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end marker behind the cut contradicts what all have shown of it before the cut."""
    found = [followed(seed, 0, 0.5) for seed in range(12)]
    assert any(str(s.kind) == "outcome_contradicts_marker" for one in found for s in one.suspects)
    assert sum(one.counts["spared"] for one in found) > 0
    monkeypatch.setattr(taking_in, "_unended", lambda *_: np.empty(0, UNENDED))
    with pytest.raises(AssertionError):
        many(range(200))


def many(seeds: range) -> None:
    for seed in seeds:
        followed(seed, 0, 0.5)
