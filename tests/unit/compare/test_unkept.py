"""A comparison of tables that keep only sums of what agreed says the same as one that saw all rows, or unknown."""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from parallax.alerting.settled import settled as nothing_open
from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.compare import STATE, Comparer, parse
from parallax.audit.inputs import from_tables
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.audit.untold import reasons as untold
from parallax.compare.batches import OF_POSITION, VIEW_COLUMNS
from parallax.compare.feed import QUERY
from parallax.compare.suspect import Coverage
from parallax.compare.tables import SUSPECTS, create_suspects
from parallax.config import CompareSettings
from parallax.model import FindingKind, IsolationLevel, Outcome, ReadEvent, RowKind, TopicPartition
from parallax.replica import digests
from parallax.replica.digests import Digester
from parallax.views import blocks, settled
from parallax.views.commits import TableLog
from parallax.views.compaction import compact
from parallax.views.shared import rows_of
from parallax.views.sharing import share
from parallax.views.tables import VIEWS, create_tables
from parallax.views.unkept import drop_agreed
from tests.unit.audit.chunked import chunks
from tests.unit.compare.feeding import WHOLE, Comparison, record_as_the_job_does
from tests.unit.compare.history import BROKERS, RC, RU, Row, abort, commit, everywhere, record, shown, tick

BITS = 4
PLACE = TopicPartition("t", 0)
NEXT = date(2026, 1, 2)
WRONG = ("none", "value", "gone", "outcome", "marker")
FIRST = (0, 0, 23, 32)
"""Where readers begin; 23 lies within a block."""
FAILURES = (0.0, 0.02, 0.0)
SEEDS = [*range(10), *(pytest.param(seed, marks=pytest.mark.release) for seed in range(10, 60))]
"""Each combination of these comes once before a release."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "_BITS", BITS)
    monkeypatch.setattr(settled, "BLOCK", 1 << BITS)
    monkeypatch.setattr(digests, "JOINED_BITS", BITS)
    monkeypatch.setattr(blocks, "_digester", lambda key: Digester(key, block_bits=2, joined_bits=BITS))


def of_seed(seed: int) -> tuple[str, int, float]:
    """What `life` takes: how a replica differs, where readers begin, and how often a broker fails within a range."""
    return WRONG[seed % len(WRONG)], FIRST[seed % len(FIRST)], FAILURES[seed % len(FAILURES)]


def log_of(draw: random.Random, size: int) -> list[Row]:
    """A log: plain records, and transactions of two producers that end in either way."""
    made: list[Row] = []
    open_: dict[int, list[int]] = {}
    for offset in range(size):
        pid = draw.choice((-1, -1, 7, 8))
        if pid >= 0 and pid in open_ and draw.random() < 0.4:
            outcome = draw.choice((Outcome.COMMITTED, Outcome.ABORTED))
            for n in open_.pop(pid):
                made[n]["outcome"] = outcome
            end = commit if outcome is Outcome.COMMITTED else abort
            made.append({**end(offset, pid), "outcome": outcome})
            continue
        if pid >= 0:
            open_.setdefault(pid, []).append(offset)
        made.append(
            record(offset, f"K{offset % 9}", f"V{offset}", pid=pid, outcome=Outcome.UNDECIDED if pid >= 0 else 0)
        )
    for n in (n for its in open_.values() for n in its):
        made[n]["outcome"] = Outcome.UNDECIDED
    return [{**WHOLE, **row} for row in made]


def stable(log: list[Row], end: int) -> int:
    """The last stable offset of a log that ends there."""
    open_: dict[int, int] = {}
    for row in log[:end]:
        if row["producer_id"] >= 0:
            if row["kind"]:
                open_.pop(row["producer_id"], None)
            else:
                open_.setdefault(row["producer_id"], row["offset"])
    return min(open_.values(), default=end)


def wrong(log: list[Row], at: int, how: str) -> list[Row]:
    """The log as a replica has it that differs in one row, at or behind an offset."""
    of = [row for row in log[at:] if bool(row["kind"]) == (how == "marker")]
    of = [row for row in of if how != "outcome" or row["outcome"] in (Outcome.COMMITTED, Outcome.ABORTED)]
    if not of or how == "none":
        return log
    (it, *_), made = of, list(log)
    n = log.index(it)
    if how == "value":
        made[n] = {**it, "content_hash": 1}
    elif how == "outcome":
        other = Outcome.ABORTED if it["outcome"] == Outcome.COMMITTED else Outcome.COMMITTED
        made[n] = {**it, "outcome": other}
    else:
        del made[n]
    return made


def life(storage: Path, draw: random.Random, how: str, first: int, failures: float) -> tuple[int, int]:
    """Record micro-batches as they come; a replica is late at times, and one may differ in one row.

    Args:
        storage: ``storage.path``.
        draw: the source of chance.
        how: one of `WRONG`.
        first: the offset at which the readers begin; the log begins there too, or below.
        failures: the chance that a broker fails within a range of a reader.
    """
    create_tables(str(storage))
    size = draw.randint(100, 220)
    log = log_of(draw, size)
    logs = {broker: wrong(log, draw.randrange(size), how) if broker == 2 else log for broker in BROKERS}
    at = {(view, broker): first for view in (RU, RC) for broker in BROKERS}
    end, marks = first, {"leader_epoch": 0, "log_start_offset": draw.choice((0, first))}
    is_told = draw.random() < 0.5
    for n in range(draw.randint(8, 14)):
        end = min(size, end + draw.choice((3, 17, 40)))
        fails = {reader for reader in at if draw.random() < failures}
        brokers = {b for b in BROKERS if n == 0 or draw.random() < 0.8}
        batch(storage, n, logs, at, end, brokers, fails, begins=is_told and n == 0, **marks)
    for n in (50, 51, 52):
        batch(storage, n, logs, at, size, set(BROKERS), **marks)
    return size, at[RC, 1]


def batch(
    storage: Path,
    n: int,
    logs: dict[int, list[Row]],
    at: dict[tuple[int, int], int],
    end: int,
    brokers: set[int],
    fails: Collection[tuple[int, int]] = (),
    *,
    begins: bool = False,
    **marks: int,
) -> None:
    """One micro-batch; a reader that fails comes half as far, and one that begins says where."""
    lso = stable(logs[1], end)
    rows, starts = [], {}
    for broker in sorted(brokers):
        for view, to in ((RU, end), (RC, max(lso, at[RC, broker]))):
            start, event = at[view, broker], ReadEvent.OK
            if (view, broker) in fails and to > start:
                to, event = (start + to) // 2, ReadEvent.UNREACHABLE
            if begins:
                rows += shown(view, broker, [], start, 1000 * n, event=ReadEvent.PARTITION_ADDED)
            of = [row for row in logs[broker] if start <= row["offset"] < to]
            told = {"high_watermark": end, "last_stable_offset": lso, "event": event, **marks}
            rows += shown(view, broker, of, to, 1000 * n, **told)
            starts[view, broker], at[view, broker] = start, to
    told = tick(1000 * n, everywhere(lso), everywhere(end))
    record_as_the_job_does(storage, n, *told, *rows, starts=starts)


def compared(storage: Path, *, latest: bool) -> tuple[set[tuple[Any, ...]], Coverage]:
    """What a comparison that begins with the files of the tables raises, and what it says at last."""
    for name in (f"checkpoints/{QUERY}", SUSPECTS):
        shutil.rmtree(storage / name, ignore_errors=True)
    create_suspects(str(storage))
    comparison = Comparison(storage, from_log_start=not latest, max_rows_per_trigger=100_000)
    while comparison.reader().latestOffset(comparison.offset, None) != comparison.offset:  # type: ignore[arg-type]
        comparison.step()
    raised = {(s.kind, s.broker, s.accusation.offset) for found, _ in comparison.told for s in found}
    return raised, [one for _, found in comparison.told for one in found][-1]


def known(coverage: Coverage, view: int) -> set[int]:
    """The offsets that a coverage calls compared."""
    unread = [span for span in coverage.unread if span.view == view]
    return {n for n in range(coverage.compared_up_to[view]) if not any(s.start <= n < s.end for s in unread)}


def audited(storage: Path, ends: tuple[int, int]) -> tuple[set[tuple[Any, ...]], list[str]]:
    """What an audit of the tables raises, and why it does not know all."""
    traits, starts, marks = TopicTraits(compacted=True), dict.fromkeys(BROKERS, 0), dict.fromkeys(BROKERS, ends)
    plan = PartitionPlan(*PLACE, "a", traits, BROKERS, ends, starts, marks)
    agreed = agreeing(recorded_blocks(str(storage)), [plan])
    now = tick(99_000, everywhere(ends[RC]), everywhere(ends[RU]))
    told = [{**one, "topic": "t", "partition": 0, "observed_at": one["observed_at"] * 1000} for one in now]
    given = from_tables([plan], told, 2, agreed)
    comparer = Comparer(given, CompareSettings(), 2, last=True, from_log_start=False)
    first = agreed[PLACE].end if agreed else 0
    rows = [row for name in VIEWS for row in all_rows(storage, name)]
    rows = [row for row in rows if row["kind"] == RowKind.POSITION or row["offset"] >= first]
    for row in rows:
        # As `parallax.audit.frames` has it.
        row["event"] = "ok" if row["event"] == "not_kept" and row["offset"] <= first else row["event"]
    rows.sort(key=lambda row: (row["offset"], -row["kind"]))
    packs = [
        {"topic": "t", "partition": 0, "at": at, "packed": blob} for at, blob in [(STATE, b""), *chunks([rows], 60)]
    ]
    (batch,) = comparer.compare([pa.RecordBatch.from_pylist(packs)])
    compared, suspects, _ = parse(batch.column("result")[0].as_py())
    found = {(s.kind, s.broker, s.accusation.offset) for s in suspects}
    return found, [*compared.reasons(), *untold(compared.unread, ())]


def all_rows(storage: Path, name: str) -> list[Row]:
    """All rows of a view, with those that files lend to each other, as an audit has them."""
    uri = str(storage / name)
    columns = [*(n for n in VIEW_COLUMNS if n not in (*OF_POSITION, "view")), "position"]
    found = pa.Table.from_batches(rows_of(uri, DeltaTable(uri), columns, pc.field("offset") >= 0)).to_pylist()
    view = int(IsolationLevel[name.upper()])
    made = []
    for row in found:
        told = {n: v for n, v in (row.pop("position") or {}).items() if n in OF_POSITION and n != "topic_id"}
        ms = int(row["timestamp"].timestamp() * 1000)
        told |= {"view": view, "timestamp": ms, "event": told.get("event", "ok")}
        made.append({name: value for name, value in {**row, **told}.items() if value is not None})
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_an_audit_of_what_is_left_says_the_same_or_that_it_does_not_know(tmp_path: Path, seed: int) -> None:
    draw, storage = random.Random(seed), tmp_path / "tables"
    ends = life(storage, draw, *of_seed(seed))
    before, why = audited(storage, ends)
    of = {PLACE: settled.Settled(frozenset(BROKERS), draw.randrange(ends[RC]))}
    chosen = [VIEWS, VIEWS[:1], VIEWS[1:]][seed % 3]
    for name in chosen:
        drop_agreed(str(storage), name, lambda _: True, lambda: of, NEXT, {})
    after, left = audited(storage, ends)
    assert after <= before
    assert left or (after, left) == (before, why), "it knows all or says why not"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_raises_nothing_else_and_nothing_that_is_gone_is_called_compared(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else it begins with the first commit, whose files lie there as they were.
    monkeypatch.setattr(TableLog, "is_whole", lambda _: False)
    draw, storage = random.Random(seed), tmp_path / "tables"
    life(storage, draw, *of_seed(seed))
    latest = draw.random() < 0.4
    for name in VIEWS:
        if draw.random() < 0.7:
            compact(str(storage), name)
    before, told = compared(storage, latest=latest)
    # A finding is over some day, and what differs is kept still.
    of = nothing_open([told], ())
    counts = [DeltaTable(str(storage / name)).to_pyarrow_dataset().count_rows() for name in VIEWS]
    chosen = [VIEWS, VIEWS[:1], VIEWS[1:]][seed % 3]
    gone = [drop_agreed(str(storage), name, lambda _: True, lambda: of, NEXT, {}) for name in chosen]
    if draw.random() < 0.5:
        for name in VIEWS:
            share(str(storage), name, lambda _: True, NEXT, set())
    after, left = compared(storage, latest=latest)
    assert after <= before
    if of_seed(seed) == ("none", 0, 0.0):
        assert sum(one.rows for one in gone if one) > sum(counts) / 8 * len(chosen), "most of what agrees goes"
    for view in (RU, RC):
        rows = DeltaTable(str(storage / IsolationLevel(view).option)).to_pyarrow_table().to_pylist()
        spans = [row["offset"] for row in rows if row["kind"] == 3 and row["position"]["event"] == "not_kept"]
        assert not known(left, view) & set(range(max(spans, default=0)))
        assert len(chosen) < len(VIEWS) or known(left, view) <= known(told, view)
    for kind, _, offset in before - after:
        assert offset not in known(left, RU if kind is FindingKind.CONTENT_MISMATCH else RC)
    assert left.place == told.place
