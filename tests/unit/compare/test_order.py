"""How rows are cut into micro-batches, and in which order readers come, does not change what is found."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parallax.model import Outcome
from tests.unit.compare.history import RC, RU, Comparison, abort, commit, everywhere, record, shown, tick

Reads = list[list[dict[str, Any]]]


def one_row_reads(view: int, broker: int, rows: list[dict[str, Any]], end: int) -> Reads:
    """Reads of one record each, in order; the last one ends where the log does.

    All that is read is replicated and decided: whatever part of it a read gives back, the replica's high watermark and
    last stable offset are at the end, as a replica that shows an outcome is past the end marker.
    """
    marks = {"high_watermark": end, "last_stable_offset": end}
    reads = [shown(view, broker, [row], row["offset"] + 1, row["offset"], **marks) for row in rows[:-1]]
    return [*reads, shown(view, broker, rows[-1:], end, end)]


def aborted_to_committed() -> tuple[list[Reads], set[tuple[int, str]]]:
    poison, good = record(0, "poison", "v", pid=9), record(5, "good", "v", pid=9, outcome=Outcome.COMMITTED)
    fill = record(4, "f", "x")
    streams = []
    for broker, outcome in ((1, Outcome.ABORTED), (2, Outcome.COMMITTED), (3, Outcome.ABORTED)):
        first = {**poison, "outcome": outcome}
        end = [abort(1, 9)] if broker != 2 else []
        streams.append(one_row_reads(RU, broker, [first, *end, fill, good, commit(6, 9)], 7))
        streams.append(one_row_reads(RC, broker, [first, fill, good], 7))
    return streams, {(2, "txn:9:0")}


def committed_to_aborted() -> tuple[list[Reads], set[tuple[int, str]]]:
    old, tombstone, fill = record(0, "K", "V0"), record(1, "K", None, pid=9), record(3, "f", "x")
    bad = record(5, "bad", "garbage", pid=9, outcome=Outcome.ABORTED)
    streams = []
    for broker, outcome in ((1, Outcome.COMMITTED), (2, Outcome.ABORTED), (3, Outcome.COMMITTED)):
        first = {**tombstone, "outcome": outcome}
        end = [commit(2, 9)] if broker != 2 else []
        streams.append(one_row_reads(RU, broker, [old, first, *end, fill, bad, abort(6, 9)], 7))
        streams.append(one_row_reads(RC, broker, [old, first, fill, bad], 7))
    return streams, {(2, "txn:9:1")}


def lost_tombstone() -> tuple[list[Reads], set[tuple[int, str]]]:
    value, tombstone, fill = record(0, "K", "V"), record(1, "K", None), record(2, "f", "x")
    streams = []
    for broker in (1, 2, 3):
        rows = [value, fill] if broker == 2 else [value, tombstone, fill]
        streams += [one_row_reads(view, broker, rows, 7) for view in (RU, RC)]
    key = f"key:{tombstone['key_hash_hi']:016x}{7:016x}:1"
    return streams, {(2, key)}


def healthy() -> tuple[list[Reads], set[tuple[int, str]]]:
    rows = [record(0, "K", "V"), record(1, "L", "W", pid=9, outcome=Outcome.COMMITTED), commit(2, 9)]
    rows += [record(3, "K", "V2"), record(4, "L", None), record(5, "f", "x")]
    streams = []
    for broker, gone in ((1, ()), (2, (0,)), (3, (0, 1, 2))):
        mine = [r for r in rows if r["offset"] not in gone]
        streams.append(one_row_reads(RU, broker, mine, 7))
        streams.append(one_row_reads(RC, broker, [r for r in mine if r["kind"] == 0], 7))
    return streams, set()


@pytest.mark.parametrize("history", [aborted_to_committed, committed_to_aborted, lost_tombstone, healthy])
@given(seed=st.integers(0, 2**32 - 1))
@example(seed=744)
@settings(max_examples=25, deadline=None)
def test_any_interleaving_and_any_cut_finds_the_same(history: Any, seed: int) -> None:
    random = Random(seed)
    streams, expected = history()
    comparison = Comparison()
    comparison.feed(tick(0, everywhere(7)))
    waiting = [list(stream) for stream in streams]
    while any(waiting):
        batch: list[dict[str, Any]] = []
        going = [s for s in waiting if s]
        for stream in random.sample(going, len(going)):
            take = random.randint(0, len(stream))
            for read in stream[:take]:
                batch += read
            del stream[:take]
        comparison.feed(batch)
    comparison.feed(tick(50_000, everywhere(7)))
    comparison.feed(tick(51_000, everywhere(7)))
    assert comparison.findings == expected
    assert comparison.last is not None
    assert comparison.last.coverage.compared_up_to == (7, 7)
