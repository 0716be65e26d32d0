"""A partition whose replicas are read every now and then, and that is compared in two ways."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from parallax.compare.agreed import fits, goes_on
from parallax.compare.blocks import Agreed, Recorded, agreed
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, VIEWS, Observations
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.model import Outcome, RowKind
from parallax.replica.digests import COLUMNS, Digester, Digests
from parallax.views.blocks import RANGE
from tests.unit.compare.history import BROKERS, SETTINGS, Row, abort, commit, everywhere, record, shown, tick

BITS = 3
PAUSE = 16
LENGTH = 64
DIGESTER = Digester(bytes(16), block_bits=BITS - 1, joined_bits=BITS)


def log_of(draw: random.Random, odd: float) -> list[Row]:
    """A log, as read_committed shows it; so many of its transactions end otherwise than they are shown.

    Before each multiple of `PAUSE` all that are open end.
    """
    made: list[Row] = []
    going: dict[int, Outcome] = {}
    for offset in range(LENGTH):
        pauses = offset % PAUSE >= PAUSE - 3
        pid = next(iter(going), 9) if pauses else draw.randrange(9, 12)
        if pid in going and (pauses or draw.random() < 0.5):
            is_commit = (going.pop(pid) is Outcome.COMMITTED) != (draw.random() < odd)
            end = (commit if is_commit else abort)(offset, pid)
            made.append({**end, "outcome": Outcome.COMMITTED if is_commit else Outcome.ABORTED})
        elif pauses or draw.random() < 0.4:
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
        read: dict[tuple[int, int], list[Row]] = {}
        for reader, end in ends.items():
            (view, broker), start = reader, self.stood[reader]
            if end < start:
                continue
            mine = [row for row in logs[broker] if start <= row["offset"] < end]
            hw, lso = told_of(told, broker)
            read[reader] = shown(view, broker, mine, end, self.at, high_watermark=hw, last_stable_offset=lso)
        self.compare(read, told)
        self.stood |= {reader: its[-1]["offset"] for reader, its in read.items()}

    def compare(self, read: dict[tuple[int, int], list[Row]], told: list[Row]) -> None:
        """Compare what was read and told both ways: without what has agreed, and by all rows."""
        found = self._agreed(read)
        if found is not None:
            # First what has agreed, then the rest: so the stream gives it to the step.
            below = {reader: [row for row in its if row["offset"] < found.end] for reader, its in read.items()}
            stand = [{**its[-1], "offset": found.end} for its in read.values()]
            self._hold(stand, [row for its in below.values() for row in its], found)
            read = {reader: its[len(below[reader]) :] for reader, its in read.items()}
        self._hold([*told, *(row for its in read.values() for row in its)])

    def _agreed(self, read: dict[tuple[int, int], list[Row]]) -> Agreed | None:
        """What all have shown alike of what they have read, if it may replace its rows."""
        places, opens = set(self.stood.values()), goes_on(self.by_blocks)
        if len(places) > 1 or len(read) < len(self.stood) or opens is None:
            return None
        (start,) = places
        added_up = {
            (broker, view): Recorded(
                np.array([(0, start, its[-1]["offset"], 0, 0, True)], RANGE), ["id"], digested(its)
            )
            for (view, broker), its in read.items()
        }
        found = agreed(added_up, dict.fromkeys(VIEWS, opens))
        return found if found is not None and fits(self.by_blocks, found) else None

    def _hold(self, seen: list[Row], spared: Sequence[Row] = (), found: Agreed | None = None) -> None:
        """Give the step what was seen, and either rows, or what stands for them."""
        one = step(self.by_rows, Observations.of("t", 0, [*spared, *seen]), SETTINGS, 0)
        other = step(self.by_blocks, Observations.of("t", 0, seen), SETTINGS, 0, agreed=found)
        assert [s.as_row() for s in other.suspects] == [s.as_row() for s in one.suspects]
        assert replace(other.coverage, state_bytes=0) == replace(one.coverage, state_bytes=0)
        self.by_rows, self.by_blocks = one.state, other.state
        self.suspects += one.suspects
        self.counts["rows"] += len(spared) + len(seen)
        self.counts["spared"] += len(spared)


def told_of(told: list[Row], broker: int) -> tuple[int, int]:
    row = next(row for row in told if row["broker"] == broker)
    return row["high_watermark"], row["last_stable_offset"]


def followed(seed: int, faults: int, odd: float, kind: type[BothWays] = BothWays) -> BothWays:
    """A partition whose replicas are read every now and then, most of them up to where they end."""
    draw = random.Random(seed)
    whole = log_of(draw, odd)
    logs = dict.fromkeys(BROKERS, whole)
    for _ in range(faults):
        broker = draw.choice(BROKERS)
        logs[broker] = damaged(logs[broker], draw)
    one, end = kind(), 0
    one.feed(logs, dict.fromkeys(one.stood, 0), tick(500, everywhere(0)))
    for _ in range(12):
        end = min(LENGTH, end + draw.choice((0, 1, 5, 11, 20)))
        end = -(-end // PAUSE) * PAUSE if draw.random() < 0.5 else end
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
