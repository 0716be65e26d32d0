"""A comparison does not read the rows on which all replicas agree by their recorded sums, and says the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from parallax.compare import passes, recorded, spared, sums, withheld
from parallax.compare.blocks import Alike, Recorded, alike
from parallax.compare.footers import Sparing
from parallax.compare.observations import POSITION, Observations, ViewRows, topic_id_code
from parallax.compare.spared import without_rows
from parallax.compare.state import CONTENT, FOLLOWED, WHOLE_SO_FAR, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.tables import create_suspects
from parallax.compare.withheld import Views, is_withholding
from parallax.compare.withholding import WithholdingLimits
from parallax.model import IsolationLevel, Outcome, ReadEvent
from parallax.replica.digests import BLOCK, Digests
from parallax.views import parquet
from parallax.views.blocks import RANGE, Blocks
from parallax.views.compaction import compact
from parallax.views.tables import create_tables, table_path
from tests.unit.compare.agreeing import BothWays, digested, followed
from tests.unit.compare.feeding import READERS, WHOLE, Comparison, record_as_the_job_does
from tests.unit.compare.history import BROKERS, RC, RU, SETTINGS, Row, abort, commit, everywhere, record, shown, tick
from tests.unit.compare.states import state

Ends = Mapping[tuple[int, int], int]
Change = Callable[..., Row]
"""Of view, broker and ``row``: what the replica shows instead."""


def log_of(end: int, *, transactional: bool) -> list[Row]:
    """Records of some keys; or transactions of four records and an end marker, each fifth of them aborted."""
    if not transactional:
        return [record(n, f"K{n % 7}", "V") for n in range(end)]
    made: list[Row] = []
    for n in range(end):
        pid, is_aborted = n // 5, n // 5 % 5 == 0
        if n % 5 < 4:
            made.append(record(n, f"K{n % 7}", "V", pid=pid, outcome=2 if is_aborted else 1))
        else:
            made.append({**(abort if is_aborted else commit)(n, pid), "outcome": 2 if is_aborted else 1})
    return made


class Told:
    """A history in the tables, and a comparison that follows it; it counts the rows of the views that it reads."""

    def __init__(self, storage: Path, monkeypatch: pytest.MonkeyPatch, log_end: int = 0) -> None:
        create_tables(str(storage))
        create_suspects(str(storage))
        self.storage, self.read, self.batch, self.log_end = storage, 0, 0, log_end
        self.members: tuple[int, ...] = BROKERS
        self.stood: dict[tuple[int, int], int] = dict.fromkeys(READERS, 0)
        self.comparison = Comparison(storage)
        of_view = recorded.view_observations

        def counted(batch: Any) -> Any:
            found = of_view(batch)
            self.read += int((found.tables[0].kind != POSITION).sum())
            return found

        monkeypatch.setattr(recorded, "view_observations", counted)
        if not log_end:
            self.go_on([], self.stood)

    def go_on(self, log: list[Row], ends: Ends, change: Change = lambda *_, row: row, *, compare: bool = True) -> None:
        """Read on to some ends, commit what each reader was shown, and compare what was committed since last time."""
        log_end = max(self.log_end, *ends.values())
        rows = [{**row, "replicas": self.members} for row in tick(self.batch + 1, everywhere(log_end))]
        for view, broker in READERS:
            start, end = self.stood[view, broker], ends[view, broker]
            mine = [change(view, broker, row=row) for row in log if start <= row["offset"] < end]
            marks = dict.fromkeys(("high_watermark", "last_stable_offset"), max(end, self.log_end))
            rows += shown(view, broker, mine, end, self.batch, **marks)
        rows = [row if "observed_at" in row else {**WHOLE, **row} for row in rows]
        record_as_the_job_does(self.storage, self.batch, *rows, starts=self.stood)
        self.stood, self.batch = dict(ends), self.batch + 1
        if compare:
            self.comparison.step()

    @property
    def said(self) -> list[Any]:
        """Of each micro-batch the suspects and the coverage, without what depends on the clock of the test."""
        return [
            (
                [replace(one, raised_at=0) for one in suspects],
                [replace(c, state_bytes=0, compared_at=0) for c in coverages],
            )
            for suspects, coverages in self.comparison.told
        ]


def both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, history: Callable[[Told], None], log_end: int = 0
) -> tuple[Told, Told]:
    """A history that is compared with rows spared, and by all of its rows; both say the same after each micro-batch."""
    told = []
    for name in ("sums", "rows"):
        with monkeypatch.context() as patched:
            if name == "rows":
                patched.setattr(passes, "sparing", lambda *_: Sparing({}, {}, 0))
            told.append(Told(tmp_path / name, patched, log_end))
            history(told[-1])
    by_sums, by_rows = told
    assert by_sums.said == by_rows.said
    return by_sums, by_rows


@pytest.mark.parametrize("transactional", [False, True])
def test_rows_on_which_all_agree_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    monkeypatch.setattr(parquet, "APART_ROWS", 100)
    log = log_of(4000, transactional=transactional)

    def history(told: Told) -> None:
        told.go_on(log, dict.fromkeys(READERS, 1003))
        told.go_on(log, dict.fromkeys(READERS, 2000), compare=False)
        told.go_on(log, dict.fromkeys(READERS, 4000))

    by_sums, by_rows = both_ways(tmp_path, monkeypatch, history)
    assert by_rows.comparison.compared_up_to == {"t": (4000, 4000)}
    assert (by_sums.read, by_rows.read) == (0, 6 * 4000)


@pytest.mark.parametrize("transactional", [False, True])
def test_rows_on_which_all_agree_are_not_read_after_a_broker_has_left_the_replica_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    monkeypatch.setattr(parquet, "APART_ROWS", 100)
    log, read = log_of(4000, transactional=transactional), []

    def history(told: Told) -> None:
        told.members = (*BROKERS, 9)
        told.go_on(log, dict.fromkeys(READERS, 500))
        told.members = BROKERS
        for end in (1000, 2000, 4000):
            told.go_on(log, dict.fromkeys(READERS, end))
            read.append(told.read)

    _, by_rows = both_ways(tmp_path, monkeypatch, history)
    assert by_rows.comparison.compared_up_to == {"t": (4000, 4000)}
    assert read[:3] == [read[0]] * 3, "once it has left, no row is read"


@pytest.mark.parametrize(("cleaned", "share"), [(False, 0), (True, 3)])
def test_the_rows_of_a_backlog_are_read_only_if_its_log_was_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleaned: bool, share: int
) -> None:
    monkeypatch.setattr(parquet, "APART_ROWS", 100)
    log = [row for row in log_of(6000, transactional=False) if not cleaned or row["offset"] % 5]

    def history(told: Told) -> None:
        for end in (2000, 4000, 6000):
            told.go_on(log, dict.fromkeys(READERS, end))

    by_sums, by_rows = both_ways(tmp_path, monkeypatch, history, log_end=6000)
    assert by_rows.comparison.compared_up_to == {"t": (6000, 6000)}
    assert by_rows.read == 6 * len(log)
    assert by_sums.read == (0 if not cleaned else by_rows.read // share)


@pytest.mark.parametrize("transactional", [False, True])
def test_readers_that_end_apart_are_compared_by_blocks_and_the_rest_by_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    log, used = log_of(5 << 12, transactional=transactional), []
    without = spared._without_rows
    monkeypatch.setattr(spared, "_without_rows", lambda *given: used.append(without(*given)) or used[-1])

    def history(told: Told) -> None:
        for at in (1.1, 3.3, 5):
            told.go_on(log, {reader: int(at * (1 << 12)) - 50 * n * (at < 5) for n, reader in enumerate(READERS)})

    by_sums, _ = both_ways(tmp_path, monkeypatch, history)
    assert by_sums.comparison.compared_up_to == {"t": (5 << 12, 5 << 12)}
    # A transaction that goes on where a block ends is followed by rows.
    assert [one is not None for one in used] == ([False, False, True] if transactional else [True] * 3)


def test_what_one_replica_shows_otherwise_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "APART_ROWS", 100)
    log = log_of(3000, transactional=False)

    def history(told: Told) -> None:
        told.go_on(log, dict.fromkeys(READERS, 1000))
        told.go_on(log, dict.fromkeys(READERS, 2000), other_at(1500))
        told.go_on(log, dict.fromkeys(READERS, 3000))

    by_sums, _ = both_ways(tmp_path, monkeypatch, history)
    assert by_sums.comparison.suspects() == [("content_mismatch", -1)]
    assert 6 * 1000 <= by_sums.read < 6 * 3000


def test_the_footer_of_a_file_is_read_once_where_nothing_agrees_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, log, opened = Told(tmp_path, monkeypatch), log_of(2000, transactional=False), []
    of_file = pq.ParquetFile

    def counted(*given: Any, metadata: Any = None, **options: Any) -> Any:
        opened.append(metadata is None)
        return of_file(*given, metadata=metadata, **options)

    def change(view: int, broker: int, row: Row) -> Row:
        return {**row, "content_hash": broker}

    told.go_on(log, dict.fromkeys(READERS, 2000), change, compare=False)
    monkeypatch.setattr(pq, "ParquetFile", counted)
    monkeypatch.setattr(pq.core, "ParquetFile", counted)
    told.comparison.step()
    assert told.read == 6 * 2000
    progress = 1
    assert opened.count(True) == len(READERS) + progress


def test_a_new_comparison_reads_all_rows_if_the_first_files_of_its_readers_have_no_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(4000, transactional=False)

    def history(told: Told) -> None:
        with pytest.MonkeyPatch.context() as earlier:
            earlier.setattr(Blocks, "told", lambda _: {})
            told.go_on(log, dict.fromkeys(READERS, 1000), other_at(500), compare=False)
        told.go_on(log, dict.fromkeys(READERS, 4000))

    by_sums, _ = both_ways(tmp_path, monkeypatch, history, log_end=4000)
    assert by_sums.comparison.suspects() == [("content_mismatch", -1)]


def test_a_new_comparison_reads_all_rows_if_the_first_files_of_its_readers_were_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(4000, transactional=False)

    def history(told: Told) -> None:
        for end in (500, 1000):
            told.go_on(log, dict.fromkeys(READERS, end), other_at(300), compare=False)
        views = [isolation.option for isolation in IsolationLevel]
        assert [compact(str(told.storage), view) for view in views] == [6, 6]
        told.go_on(log, dict.fromkeys(READERS, 4000), compare=False)
        for view in views:
            table = DeltaTable(table_path(str(told.storage), view))
            table.create_checkpoint()
            (Path(table_path(str(told.storage), view)) / "_delta_log" / f"{0:020d}.json").unlink()
        told.comparison = Comparison(told.storage)
        told.comparison.step()

    by_sums, _ = both_ways(tmp_path, monkeypatch, history, log_end=4000)
    assert by_sums.comparison.suspects() == [("content_mismatch", -1)]


def other_at(offset: int) -> Change:
    def change(view: int, broker: int, row: Row) -> Row:
        return {**row, "content_hash": 4711} if broker == 2 and row["offset"] == offset else row

    return change


def test_a_transaction_that_goes_on_is_carried_over_what_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [record(n, f"K{n}", "V") for n in range(2000)]
    log[900] = record(900, "T", "V", pid=9, outcome=1)
    log[1900] = {**commit(1900, 9), "outcome": 1}

    def change(view: int, broker: int, row: Row) -> Row:
        return {**abort(1900, 9), "outcome": 2} if broker == 3 and row["offset"] == 1900 else row

    def history(told: Told) -> None:
        told.go_on(log, dict.fromkeys(READERS, 800))
        told.go_on(log, dict.fromkeys(READERS, 1800))
        assert told.read in (0, 6 * 1800)
        told.go_on(log, dict.fromkeys(READERS, 2000), change)

    by_sums, _ = both_ways(tmp_path, monkeypatch, history)
    assert by_sums.comparison.suspects(), "another end marker is a suspect"


def test_sums_that_are_not_looked_at_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "same", lambda _, cuts: cuts > 0)
    log = log_of(2000, transactional=False)
    told = Told(tmp_path, monkeypatch)
    told.go_on(log, dict.fromkeys(READERS, 1000), other_at(500))
    assert told.comparison.suspects() == []


def test_a_micro_batch_that_is_run_again_comes_to_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, log = Told(tmp_path, monkeypatch), log_of(2000, transactional=True)
    told.go_on(log, dict.fromkeys(READERS, 2000), compare=False)
    comparison = told.comparison
    end = comparison.reader().latestOffset(comparison.offset, None)  # type: ignore[arg-type]
    monkeypatch.setattr(time, "time_ns", lambda: 10**15)
    first, again = (comparison.tasks(end) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("told_of", ["parallax.blocks", None])
def test_a_footer_that_is_garbled_or_missing_costs_reading_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told_of: str | None
) -> None:
    log = log_of(2000, transactional=False)
    told = Told(tmp_path, monkeypatch)
    monkeypatch.setattr(Blocks, "told", lambda _: {} if told_of is None else {told_of: "bm90IHBhY2tlZA=="})
    told.go_on(log, dict.fromkeys(READERS, 2000), other_at(500))
    assert told.comparison.suspects() == [("content_mismatch", -1)]
    assert told.read == 6 * 2000


class Apart(BothWays):
    """A partition of which each micro-batch is compared by all rows, and without those that are alike."""

    def compare(self, read: dict[tuple[int, int], list[Row]], told: list[Row]) -> None:
        rows = [*told, *(row for its in read.values() for row in its)]
        seen = Observations.of("t", 0, rows)
        found = alike(
            {
                (broker, view): Recorded(
                    np.array([(0, self.stood[view, broker], its[-1]["offset"], 0, 0, True)], RANGE), [""], digested(its)
                )
                for (view, broker), its in read.items()
            },
        )
        one = step(self.by_rows, seen, SETTINGS, 0)
        other = self.without(seen, found)
        assert [s.as_row() for s in other.suspects] == [s.as_row() for s in one.suspects]
        assert replace(other.coverage, state_bytes=0) == replace(one.coverage, state_bytes=0)
        self.by_rows, self.by_blocks = one.state, other.state
        self.suspects += one.suspects
        self.counts["rows"] += len(seen.rows)

    def without(self, seen: Observations, found: Alike | None) -> StepResult:
        given = seen.rows
        if found is not None:
            is_alike = (given.offset >= found.start) & (given.offset < found.end)
            given = given.take((given.kind == POSITION) | ~is_alike)
        self.counts["alike"] += found is not None
        views = Views(0, lambda *_: ViewRows.none())
        limits = WithholdingLimits(worth=1 << 62)
        if found is not None:
            few = replace(seen, rows=given)
            made = without_rows(self.by_blocks, few, found, SETTINGS, 0, views, limits=limits)
            if made is not None:
                self.counts["spared"] += len(seen.rows) - len(given)
                return made
        return withheld.compare(self.by_blocks, seen, SETTINGS, 0, views, limits=limits)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 4000), marks=pytest.mark.release)])
def test_a_partition_is_judged_without_rows_that_are_alike_as_it_is_by_all(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts += followed(seed, seed % 3, 0.3 * (seed % 4 == 0), Apart).counts
    assert counts["spared"] > counts["rows"] / 10, counts


def test_a_transaction_whose_end_marker_one_level_alone_was_shown_has_ended() -> None:
    log = [record(n, f"K{n}", "V") for n in range(32)]
    for first, end, is_commit in ((5, 10, True), (25, 27, False)):
        outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        log[first] = record(first, "p", "v", pid=9, outcome=outcome)
        log[end] = {**(commit if is_commit else abort)(end, 9), "outcome": outcome}
    made = Apart()
    for at in (0, 8, 16, 24, 32):
        lacks = {10: RU, 27: RC}  # by offset, the level that was given no marker, since a cleaner had been there
        read = {
            (view, broker): shown(
                view,
                broker,
                [
                    row
                    for row in log[start:at]
                    if lacks.get(row["offset"]) != view and (broker, row["offset"]) != (2, 27)
                ],
                at,
                made.at,
            )
            for (view, broker), start in made.stood.items()
        }
        told = tick(made.at - 1, everywhere(at))
        made.compare(read, [{k: v for k, v in row.items() if k != "open_transactions"} for row in told])
        made.stood, made.at = dict.fromkeys(made.stood, at), made.at + 100
    assert made.counts["spared"] > 6 * 8
    assert made.suspects, "broker 2 lacks the marker at 27"


def test_sums_that_are_taken_for_equal_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "same", lambda _, cuts: cuts > 0)
    with pytest.raises(AssertionError):
        all(followed(seed, 2, 0.0, Apart) for seed in range(40))


def recorded_by(start: int, end: int, topic_id: str = "a") -> Recorded:
    return Recorded(np.array([(0, start, end, 0, 0, True)], RANGE), [topic_id], Digests.none())


def test_only_both_views_of_every_broker_in_one_topic_are_alike() -> None:
    readers = {(broker, view): recorded_by(0, 10) for view, broker in READERS}
    found = alike(readers)
    assert found is not None
    assert (found.start, found.end) == (0, 10)
    assert alike({**readers, (1, RU): recorded_by(0, 10, "b")}) is None
    del readers[3, RC]
    assert alike(readers) is None


def test_readers_that_begin_apart_are_compared_from_the_last_start_if_no_row_is_below_it() -> None:
    readers = {(broker, view): recorded_by(broker, 3 * BLOCK - broker) for view, broker in READERS}
    found = alike(readers)
    assert found is not None
    assert (found.start, found.end) == (3, 3 * BLOCK - 3)


NONE_AGAIN = Views(7, lambda *_: ViewRows.none())


class TestWithoutRows:
    """Whether a micro-batch can be compared without the rows of offsets 16 to 32, in which all sums are equal."""

    def known(self, position: int = 16, shown_to: int = 16, begun: int = FOLLOWED) -> PartitionState:
        made = state(*BROKERS, position=position, shown=shown_to, begun=begun, topic_id=topic_id_code("a"))
        made.brokers["mismatch_last"] = -1
        made.partition["topic_id"] = topic_id_code("a")
        return made

    def alike(self, start: int = 16, end: int = 32, topic: str = "a", brokers: tuple[int, ...] = BROKERS) -> Alike:
        rows = [record(offset, f"K{offset}", "V") for offset in range(start, end)]
        span = np.array([(0, start, end, 0, 0, True)], RANGE)
        readers = {
            (broker, int(view)): Recorded(span, [topic], digested(rows)) for broker in brokers for view in (RU, RC)
        }
        found = alike(readers)
        assert found is not None
        return found

    def seen(self, *rows: Row, end: int = 32, **more: Any) -> Observations:
        """Rows that every reader was shown, none of them of the offsets that are alike."""
        its = [row for view in (RU, RC) for b in BROKERS for row in shown(view, b, rows, end, 100, **more)]
        return Observations.of("t", 0, [*its, *tick(99, everywhere(end))])

    def made(
        self, known: PartitionState, found: Alike | None = None, seen: Observations | None = None, **more: Any
    ) -> StepResult | None:
        return without_rows(known, seen or self.seen(), found or self.alike(), SETTINGS, 0, NONE_AGAIN, **more)

    def test_it_can_where_readers_go_on_from_where_the_state_has_them(self) -> None:
        made = self.made(self.known())
        assert made is not None
        assert made.coverage.compared_up_to == (32, 32)
        assert made.state.brokers["shown"].tolist() == [[32, 32]] * 3

    def test_it_can_where_some_rows_were_read_before(self) -> None:
        known = self.known(position=24, shown_to=24)
        made = self.made(known)
        assert made is not None
        assert made.coverage.compared_up_to == (32, 32)

    def test_it_can_not_where_readers_leave_a_gap(self) -> None:
        known = self.known()
        known.brokers["position"][1, RC] = 15
        assert self.made(known) is None

    def test_it_can_not_of_other_brokers_or_of_another_topic(self) -> None:
        assert self.made(self.known(), self.alike(brokers=(1, 2))) is None
        assert self.made(self.known(), self.alike(topic="b")) is None

    def test_it_can_not_while_rows_are_withheld(self) -> None:
        known = self.known()
        known.partition["withheld"] = 10
        assert self.made(known) is None

    def test_it_can_not_where_a_reader_reports_an_event(self) -> None:
        assert self.made(self.known(), seen=self.seen(event=ReadEvent.LOG_TRUNCATED)) is None

    def test_it_can_not_where_rows_below_wait_for_another_replica(self) -> None:
        known = self.known()
        known.content = np.array([(12, 5, 1)], CONTENT)
        assert self.made(known) is None

    def test_rows_below_are_compared_first(self) -> None:
        rows = [record(offset, f"K{offset}", "V") for offset in range(10, 16)]
        found = replace(self.alike(10, 32), start=16, rows=6 * 16)
        made = self.made(self.known(10, 10), found, self.seen(*rows))
        assert made is not None
        assert made.coverage.compared_up_to == (32, 32)
        rows[3] = {**rows[3], "content_hash": 4711}
        one = [r for view in (RU, RC) for r in shown(view, 1, rows, 32, 100)]
        others = self.seen(*[record(offset, f"K{offset}", "V") for offset in range(10, 16)])
        unlike = Observations.of("t", 0, one)
        is_of_one = others.rows.broker == 1
        mixed = replace(others, rows=ViewRows.concat([unlike.rows, others.rows.take(~is_of_one)]))
        assert self.made(self.known(10, 10), found, mixed) is None, "what differs is judged by all rows"

    def test_rows_below_are_needed_if_what_was_held_at_the_beginning_is_not_followed(self) -> None:
        rows = [record(offset, f"K{offset}", "V") for offset in range(10, 16)]
        found = replace(self.alike(10, 32), start=16, rows=6 * 16)
        assert self.made(self.known(10, 10, begun=WHOLE_SO_FAR), found, self.seen(*rows)) is None
        assert self.made(self.known(begun=WHOLE_SO_FAR)) is not None

    @pytest.mark.parametrize("opened", [True, False])
    def test_it_can_not_if_a_transaction_that_goes_on_ends_behind_them(self, opened: bool) -> None:
        its = [
            record(n, "k", "V", pid=9 if opened and n == 20 else -1, outcome=1 if opened and n == 20 else 0)
            for n in range(16, 32)
        ]
        undecided = [{**row, "outcome": 3 if row["outcome"] else 0} for row in its]
        span = np.array([(0, 16, 32, 0, 0, True)], RANGE)
        readers = {
            (broker, int(view)): Recorded(span, ["a"], digested(its if view == RC else undecided))
            for broker in BROKERS
            for view in (RU, RC)
        }
        found = alike(readers)
        for end in (commit(34, 9), abort(34, 9)):
            assert (self.made(self.known(), found, self.seen(end, end=40)) is None) is opened
        assert self.made(self.known(), found, self.seen(commit(34, 8), end=40)) is not None

    def test_of_a_new_partition_it_can_if_all_readers_begin_there_and_each_offset_was_shown(self) -> None:
        first = self.seen(event=ReadEvent.PARTITION_ADDED, topic_id=topic_id_code("a"), log_start_offset=16)
        made = self.made(PartitionState(), seen=first)
        assert made is not None
        assert made.coverage.compared_up_to == (32, 32)
        assert self.made(PartitionState(), seen=first, from_log_start=False) is None
        assert self.made(PartitionState(), replace(self.alike(), start=24), first) is None
        assert self.made(PartitionState(), replace(self.alike(), rows=5), first) is None
        assert self.made(PartitionState(), self.alike(brokers=(1, 2)), first) is None
        truncated = self.seen(event=ReadEvent.LOG_TRUNCATED, topic_id=topic_id_code("a"))
        assert self.made(PartitionState(), seen=truncated) is None

    @pytest.mark.parametrize("below", [[], [record(9, "K", "V")]], ids=["no row of it is left", "a row of it is left"])
    def test_of_a_new_partition_it_can_not_if_a_reader_began_below(self, below: list[Row]) -> None:
        first = self.seen(event=ReadEvent.PARTITION_ADDED, topic_id=topic_id_code("a"), log_start_offset=0)
        began = shown(RU, 2, below, 10, 50, event=ReadEvent.PARTITION_ADDED, topic_id=topic_id_code("a"))
        rows = ViewRows.concat([Observations.of("t", 0, began).rows, first.rows])
        assert self.made(PartitionState(), seen=first) is not None
        assert self.made(PartitionState(), seen=replace(first, rows=rows)) is None

    def test_rows_behind_them_are_withheld_if_they_wait_for_a_replica_that_has_stopped(self) -> None:
        rows = [record(offset, f"K{offset}", "V") for offset in range(32, 60)]
        seen = self.seen(*rows, end=60)
        is_stopped = (seen.rows.broker == 2) & (seen.rows.offset >= 32)
        seen = replace(seen, rows=seen.rows.take(~is_stopped))
        known = self.known(32, 16)
        at_two = [row for view in (RU, RC) for row in shown(view, 2, [], 32, 100)]
        stopped = replace(seen, rows=ViewRows.concat([seen.rows, Observations.of("t", 0, at_two).rows]))
        made = self.made(known, seen=stopped, limits=WithholdingLimits(worth=100))
        assert made is not None
        assert is_withholding(made.state)
        told = [int(made.state.partition[name][0]) for name in ("withheld", "withheld_since", "withheld_until")]
        assert told == [60, 7, 7]
        made = self.made(known, seen=stopped)
        assert made is not None
        assert not is_withholding(made.state), "half a megabyte has to wait"
