"""Rows in which all replicas agree go from the views, and whoever reads the view is told that they are not kept."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from parallax import moments
from parallax.config import StorageSettings
from parallax.model import IsolationLevel, Outcome, ReadEvent, RowKind, TopicPartition
from parallax.views import order, settled, unkept
from parallax.views.blocks import blocks_of
from parallax.views.commits import TableLog
from parallax.views.compaction import by_date, compact
from parallax.views.maintenance import Maintenance, drop_older
from parallax.views.positions import positions_since
from parallax.views.settled import BLOCK, Settled
from parallax.views.shared import rows_of
from parallax.views.sharing import Saved, share
from parallax.views.tables import VIEWS, create_tables
from parallax.views.unkept import drop_agreed
from tests.builders.micro_batches import BROKERS, PLACE, read

OTHER = TopicPartition("u", 3)
EVER = date(9999, 1, 1)
BIG = 1 << 40
OPEN_TO_ALL = {PLACE: Settled(frozenset(BROKERS), BIG), OTHER: Settled(frozenset(BROKERS), BIG)}


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(moments, "today", lambda: "2026-01-01")
    create_tables(str(tmp_path))
    return str(tmp_path)


def dropped(storage: str, known: Mapping[TopicPartition, Settled] = OPEN_TO_ALL, before: date = EVER) -> int:
    of = [drop_agreed(storage, name, lambda _: True, lambda: known, before, {}) for name in VIEWS]
    return sum(one.rows for one in of if one is not None)


def left(storage: str, view: str = VIEWS[0], broker: int = 1) -> list[tuple[int, str]]:
    """What lies in a view of one replica, in order: its offset, and what it is."""
    log, found = TableLog(storage, view), []
    for one in log.standing()[1]:
        for file in one.files:
            if file.broker == broker:
                table = pq.read_table(f"{storage}/{view}/{file.path}", partitioning=None).slice(
                    file.first or 0, file.rows
                )
                found += [
                    (each["offset"], each["position"]["event"] if each["position"] else str(RowKind(each["kind"]).name))
                    for each in table.to_pylist()
                ]
    return found


def records(storage: str, view: str = VIEWS[0], broker: int = 1) -> list[int]:
    return [offset for offset, what in left(storage, view, broker) if what == "RECORD"]


def test_rows_of_whole_blocks_go_of_all_replicas_and_sums_and_positions_stay(storage: str) -> None:
    for start in range(0, 3 * BLOCK, BLOCK // 2):
        read(storage, start, start + BLOCK // 2 + (100 if start == 5 * BLOCK // 2 else 0))
    for name in VIEWS:
        compact(storage, name)
    sums = {name: footers(storage, name) for name in VIEWS}
    before = {level: positions_since(storage, level, -1)[0] for level in IsolationLevel}
    assert dropped(storage) == 6 * (3 * BLOCK - 1)
    for name in VIEWS:
        assert records(storage, name) == list(range(3 * BLOCK, 3 * BLOCK + 100))
    stands = [(n * BLOCK // 2, "not_kept") for n in range(1, 6)]
    rest = [(n, "RECORD") for n in range(3 * BLOCK, 3 * BLOCK + 100)]
    assert left(storage) == [*stands, (3 * BLOCK, "not_kept"), *rest, (3 * BLOCK + 100, "ok")]
    assert {name: footers(storage, name) for name in VIEWS} == sums
    after = {level: positions_since(storage, level, -1)[0] for level in IsolationLevel}
    assert after == before
    assert dropped(storage) == 0, "a second time nothing is left to go"
    assert compact(storage, VIEWS[0]) == 0


def footers(storage: str, view: str) -> Any:
    """What the rows of each replica add up to by their blocks, and between which offsets they were read."""
    found: dict[int, Any] = {}
    for path in sorted(DeltaTable(f"{storage}/{view}").file_uris()):
        its = blocks_of(pq.read_metadata(path.removeprefix("file://")).metadata).joined()
        broker = int(path.partition("broker=")[2].partition("/")[0])
        found.setdefault(broker, []).append((its.ranges.tolist(), its.digests.parts.tolist()))
    return {broker: sorted(of) for broker, of in found.items()}


def test_a_block_in_which_one_replica_differs_stays_whole_on_every_replica(storage: str) -> None:
    def change(broker: int, level: IsolationLevel, one: dict[str, Any]) -> dict[str, Any] | None:
        is_it = broker == 3 and level is IsolationLevel.READ_COMMITTED and one["offset"] == BLOCK + 7
        return {**one, "content_hash": 1} if is_it else one

    read(storage, 0, 3 * BLOCK, change)
    assert dropped(storage) > 0
    for name, broker in itertools.product(VIEWS, BROKERS):
        assert records(storage, name, broker) == list(range(BLOCK, 2 * BLOCK))
    assert [one for one in left(storage) if one[1] != "RECORD"] == [
        (BLOCK, "not_kept"),
        (2 * BLOCK, "ok"),
        (3 * BLOCK, "not_kept"),
    ]


@pytest.mark.parametrize(
    "known",
    [
        {},
        {PLACE: Settled(frozenset(), BIG)},
        {PLACE: Settled(frozenset({1, 2, 3, 4}), BIG)},
        {PLACE: Settled(frozenset(BROKERS), BLOCK - 1)},
        {PLACE: Settled(frozenset(BROKERS), -1)},
        {PLACE: Settled(frozenset(BROKERS), BIG, ((BLOCK - 1, BLOCK),))},
        {OTHER: Settled(frozenset(BROKERS), BIG)},
    ],
)
def test_rows_stay_where_something_is_open_or_an_assigned_replica_was_not_read(
    storage: str, known: dict[TopicPartition, Settled]
) -> None:
    read(storage, 0, BLOCK)
    assert dropped(storage, known) == 0
    assert dropped(storage) > 0


class Upkeep:
    """The upkeep of one process, which asks what is open each time that it looks at a view."""

    def __init__(self, storage: str, *known: Mapping[TopicPartition, Settled]) -> None:
        self.storage, self.known = storage, list(known)
        asked: dict[str, Any] = {"path": storage, "retention_hours": 1e6, "settled_hours": 24, "record": "blocks"}
        self._upkeep = Maintenance(StorageSettings(**asked), compared=self._next)

    def _next(self) -> Mapping[TopicPartition, Settled]:
        return self.known.pop(0) if len(self.known) > 1 else self.known[0]

    def run(self, on: date) -> tuple[bool, bool]:
        """Whether rows have gone by then, and whether any lie only once."""
        self._upkeep.run_once(on)
        files = [file.path for name in VIEWS for its in by_date(self.storage, name).values() for file in its]
        return ("not_kept" in {what for _, what in left(self.storage)}, any(map(order.is_shared, files)))


def kept_as_all_are_equal(storage: str) -> None:
    read(storage, 0, BLOCK + 50)
    read(storage, 0, BLOCK + 50, place=OTHER)


IN_PART = {OTHER: OPEN_TO_ALL[OTHER]}
OF_SUSPECTS = {PLACE: Settled(frozenset(BROKERS), 5), OTHER: OPEN_TO_ALL[OTHER]}
OF_UNREAD = {PLACE: Settled(frozenset(BROKERS), BIG, ((7, 9),)), OTHER: OPEN_TO_ALL[OTHER]}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("open_", [{}, IN_PART, OF_SUSPECTS, OF_UNREAD])
def test_a_date_is_looked_at_again_and_not_shared_while_something_is_open(
    storage: str, open_: dict[TopicPartition, Settled], restarts: bool
) -> None:
    kept_as_all_are_equal(storage)
    upkeep = Upkeep(storage, open_)
    for day in (3, 3, 4):
        assert not upkeep.run(date(2026, 1, day))[1]
        assert records(storage)[: BLOCK + 50] == list(range(BLOCK + 50)), "of the partition in which it is open"
    upkeep = Upkeep(storage) if restarts else upkeep
    upkeep.known = [OPEN_TO_ALL]
    assert upkeep.run(date(2026, 1, 4)) == (True, True)
    assert not set(records(storage)) & set(range(BLOCK))


def test_a_date_waits_for_what_is_open_for_three_days_at_most(storage: str) -> None:
    kept_as_all_are_equal(storage)
    upkeep = Upkeep(storage, {})
    assert [upkeep.run(date(2026, 1, day))[1] for day in (2, 3, 5, 6)] == [False, False, False, True]
    upkeep.known = [OPEN_TO_ALL]
    assert upkeep.run(date(2026, 1, 6)) == (False, True)


def test_no_view_is_shared_on_a_date_for_which_the_other_waits(storage: str) -> None:
    kept_as_all_are_equal(storage)
    upkeep = Upkeep(storage, {}, OPEN_TO_ALL)
    assert upkeep.run(date(2026, 1, 3)) == (False, False), "it is over as the second view is looked at"
    assert upkeep.run(date(2026, 1, 3)) == (True, True)


def test_a_date_that_retention_has_dropped_lets_later_ones_be_shared(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(storage, 0, BLOCK + 50, place=OTHER)
    upkeep = Upkeep(storage, {})
    assert not upkeep.run(date(2026, 1, 3))[1]
    monkeypatch.setattr(moments, "today", lambda: "2026-01-02")
    read(storage, 0, BLOCK + 50)
    for name in VIEWS:
        drop_older(storage, name, date(2026, 1, 2))
    upkeep.known = [OPEN_TO_ALL]
    assert upkeep.run(date(2026, 1, 4)) == (True, True)


def test_rows_stay_that_a_replica_has_shown_only_in_part_though_it_is_assigned_no_more(storage: str) -> None:
    read(storage, 0, 2 * BLOCK)
    read(storage, BLOCK, BLOCK + 5, brokers=(4,))
    assert dropped(storage) > 0
    assert records(storage) == list(range(BLOCK, 2 * BLOCK))


def test_rows_stay_that_one_replica_has_not_read_or_read_twice(storage: str) -> None:
    read(storage, 0, BLOCK, brokers=(1, 2))
    assert dropped(storage) == 0
    read(storage, 0, BLOCK, brokers=(3,))
    read(storage, BLOCK // 2, BLOCK, brokers=(2,))
    assert dropped(storage) == 0


@pytest.mark.parametrize("again", [0, BLOCK // 2])
def test_rows_stay_that_all_replicas_were_read_twice_of_as_after_a_truncation(storage: str, again: int) -> None:
    read(storage, 0, BLOCK)
    read(storage, again, BLOCK)
    assert dropped(storage) == 0


@pytest.mark.parametrize("event", [ReadEvent.UNREACHABLE, ReadEvent.LOG_TRUNCATED, ReadEvent.BATCH_SKIPPED])
def test_rows_stay_of_a_reading_that_did_not_go_through(storage: str, event: ReadEvent) -> None:
    read(storage, 0, BLOCK, brokers=(1, 2))
    read(storage, 0, BLOCK, brokers=(3,), event=event)
    assert dropped(storage) == 0


def test_rows_stay_of_dates_that_are_not_over_for_long_enough(storage: str) -> None:
    read(storage, 0, BLOCK)
    assert dropped(storage, before=date(2026, 1, 1)) == 0
    assert dropped(storage, before=date(2026, 1, 2)) > 0


def test_rows_stay_that_are_judged_by_themselves(storage: str) -> None:
    read(storage, 0, BLOCK, lambda _, __, one: {**one, "kind": int(RowKind.LISTED)} if one["offset"] == 9 else one)
    assert dropped(storage) == 0


@pytest.mark.parametrize("marker", [19, BLOCK + 9])
def test_blocks_stay_of_a_record_against_its_own_end_marker_wherever_that_lies(storage: str, marker: int) -> None:
    def change(_: int, level: IsolationLevel, one: dict[str, Any]) -> dict[str, Any]:
        its = {**one, "producer_id": 5, "producer_epoch": 0}
        if one["offset"] == marker:
            return {**its, "kind": int(RowKind.ABORT), "outcome": int(Outcome.ABORTED)}
        outcome = Outcome.COMMITTED if level is IsolationLevel.READ_COMMITTED else Outcome.UNDECIDED
        return {**its, "outcome": int(outcome)} if one["offset"] == 9 else one

    read(storage, 0, 3 * BLOCK, change)
    assert dropped(storage) > 0
    assert {n // BLOCK for n in records(storage)} == set(range(marker // BLOCK + 1))


def test_a_level_that_shows_nothing_agrees_as_long_as_all_replicas_were_read_there(storage: str) -> None:
    read(storage, 0, BLOCK, lambda _, level, one: one if level is IsolationLevel.READ_UNCOMMITTED else None)
    assert dropped(storage) > 0


def transactional(broker: int, level: IsolationLevel, one: dict[str, Any]) -> dict[str, Any]:
    """A transaction from the end of the first block to the beginning of the third; broker 2 differs in the second."""
    if one["offset"] == 2 * BLOCK + 3:
        return {**one, "producer_id": 5, "producer_epoch": 0, "kind": int(RowKind.COMMIT), "outcome": 1}
    if one["offset"] in (BLOCK - 2, BLOCK + 9):
        outcome = Outcome.COMMITTED if level is IsolationLevel.READ_COMMITTED else Outcome.UNDECIDED
        differs = {"content_hash": 1} if broker == 2 and one["offset"] == BLOCK + 9 else {}
        return {**one, "producer_id": 5, "producer_epoch": 0, "outcome": int(outcome), **differs}
    return one


def test_all_rows_of_the_transactions_of_a_difference_stay_with_their_blocks(storage: str) -> None:
    for start in range(0, 5 * BLOCK, BLOCK):
        read(storage, start, start + BLOCK, transactional)
    assert dropped(storage) > 0
    assert {n // BLOCK for n in records(storage)} == {0, 1, 2}


def test_transactions_alone_keep_no_block(storage: str) -> None:
    for start in range(0, 5 * BLOCK, BLOCK):
        read(storage, start, start + BLOCK, lambda _, level, one: transactional(1, level, one))
    assert dropped(storage) > 0
    assert records(storage) == []


def test_records_that_are_aborted_stay_so_that_a_replica_can_be_asked_for_them_again(storage: str) -> None:
    def change(_: int, level: IsolationLevel, one: dict[str, Any]) -> dict[str, Any]:
        if one["offset"] not in (5, 6, 7):
            return one
        its = {**one, "producer_id": 5, "producer_epoch": 0}
        if one["offset"] == 7:
            return {**its, "kind": int(RowKind.ABORT), "outcome": 2}
        return {**its, "outcome": int(Outcome.ABORTED if level is IsolationLevel.READ_COMMITTED else Outcome.UNDECIDED)}

    read(storage, 0, BLOCK, change)
    assert dropped(storage) > 0
    assert left(storage, "read_committed") == [(5, "RECORD"), (6, "RECORD"), (BLOCK, "not_kept")]
    assert left(storage, "read_uncommitted") == [(BLOCK, "not_kept")]


def test_only_chosen_topics_are_looked_at(storage: str) -> None:
    read(storage, 0, BLOCK)
    read(storage, 0, BLOCK, place=OTHER)
    for name in VIEWS:
        drop_agreed(storage, name, lambda topic: topic == "u", lambda: OPEN_TO_ALL, EVER, {})
    table = DeltaTable(f"{storage}/{VIEWS[0]}").to_pyarrow_table(filters=pc.field("kind") == 0)
    assert set(table["topic"].to_pylist()) == {"t"}


def test_a_kill_before_a_commit_changes_nothing_and_the_next_upkeep_goes_on(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(storage, 0, BLOCK)
    before = {name: left(storage, name) for name in VIEWS}

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for name in VIEWS:
        with monkeypatch.context() as patch:
            patch.setattr(unkept, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                dropped(storage)
        assert left(storage, name) == before[name]
        drop_agreed(storage, name, lambda _: True, lambda: OPEN_TO_ALL, EVER, {})
        assert left(storage, name) == [(BLOCK, "not_kept")]


def test_upkeep_drops_what_agrees_before_it_shares_what_is_left(storage: str) -> None:
    read(storage, 0, BLOCK + 50, lambda b, _, one: {**one, "content_hash": b} if one["offset"] == BLOCK + 1 else one)
    asked: dict[str, Any] = {"path": storage, "retention_hours": 1e6, "settled_hours": 24}
    saved: list[tuple[str, Saved]] = []

    def upkeep(record: str, known: Mapping[TopicPartition, Settled] | None) -> None:
        settings = StorageSettings(**asked, record=record)
        Maintenance(settings, on_shared=lambda *of: saved.append(of), compared=lambda: known).run_once(date(2026, 1, 4))

    upkeep("rows", OPEN_TO_ALL)
    upkeep("blocks", None)
    assert saved == [], "nothing is shared either before it is known what may go"
    upkeep("blocks", OPEN_TO_ALL)
    rows = {name: [one.rows for of, one in saved if of == name] for name in VIEWS}
    assert rows["read_uncommitted"] == [3 * BLOCK - 3, 2 * 49]
    assert rows["read_committed"] == [3 * BLOCK - 3, 2 * 49 + 49 + 2 + 1]
    upkeep("rows", OPEN_TO_ALL)
    assert len(saved) == 4, "back to rows: what is gone stays gone, and nothing more goes"


def test_rows_stay_if_some_of_the_date_are_in_no_sum_or_of_one_level_there_is_none(storage: str) -> None:
    read(storage, 0, BLOCK)
    read(storage, 0, BLOCK, brokers=(4,))
    sums = unkept._sums(storage, {name: by_date(storage, name)["2026-01-01"] for name in VIEWS})
    assert settled.agreed_spans(sums, OPEN_TO_ALL)[PLACE].tolist() == [[0, BLOCK]]
    for broker in (3, 4):
        unknown = dict.fromkeys([(name, broker) for name in VIEWS], settled.Blocks.none())
        assert settled.agreed_spans(sums | unknown, OPEN_TO_ALL) == {}
    for name in VIEWS:
        of_one = {reader: its for reader, its in sums.items() if reader[0] == name}
        assert settled.agreed_spans(of_one, OPEN_TO_ALL) == {}


def test_rows_stay_that_the_other_view_borrows(storage: str) -> None:
    read(storage, 0, BLOCK)
    assert share(storage, "read_committed", lambda _: True, EVER, set()).rows == 3 * BLOCK
    assert dropped(storage) == 0
    table = DeltaTable(f"{storage}/read_committed")
    found = list(rows_of(f"{storage}/read_committed", table, ["offset"], pc.field("kind") == 0, ["kind"]))
    assert sum(map(len, found)) == 3 * BLOCK


def test_a_position_that_upkeep_carries_over_into_a_date_keeps_no_row_of_it(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moments, "today", lambda: "2025-12-01")
    read(storage, 0, 9, place=OTHER)
    monkeypatch.setattr(moments, "today", lambda: "2026-01-01")
    read(storage, 0, BLOCK)
    for name in VIEWS:
        assert drop_older(storage, name, date(2026, 1, 1))
        compact(storage, name)
    before = {level: positions_since(storage, level, -1)[0] for level in IsolationLevel}
    assert {reader.topic for its in before.values() for reader in its} == {"t", "u"}
    assert dropped(storage) == 6 * BLOCK
    assert {level: positions_since(storage, level, -1)[0].keys() for level in IsolationLevel} == {
        level: its.keys() for level, its in before.items()
    }


def test_a_row_that_only_elections_and_cleaning_change_is_the_same(storage: str) -> None:
    read(storage, 0, BLOCK, lambda b, _, one: {**one, "leader_epoch": b} if one["offset"] < 9 else one)
    assert dropped(storage) > 0
    assert records(storage) == []


def test_no_number_of_a_row_or_commit_is_lost_where_a_file_of_many_commits_changes(storage: str) -> None:
    for n in range(8):
        read(storage, n * 1000, n * 1000 + 1000)
        read(storage, n * 10, n * 10 + 10, place=OTHER)
    for name in VIEWS:
        compact(storage, name)
    times = [one.at_ms for one in TableLog(storage, VIEWS[0]).standing()[1]]
    dropped(storage)
    assert [one.at_ms for one in TableLog(storage, VIEWS[0]).standing()[1]] == times
    assert np.diff(times).min() >= 0
    assert [n for n, what in left(storage) if what == "RECORD" and n >= 80] == list(range(BLOCK, 8000))
