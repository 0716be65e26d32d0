"""What a step takes in of a micro-batch, and what it says of how far it came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, Observations
from parallax.compare.state import DEFERRED, MAX_RAISED, NEVER, NOWHERE, PartitionState
from parallax.compare.step import StepResult, step
from parallax.compare.suspect import BrokerCoverage, DeferredRange
from parallax.config import CompareSettings
from parallax.model import Outcome, RowKind, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.history import (
    RC,
    RU,
    SETTINGS,
    Comparison,
    Row,
    abort,
    both,
    commit,
    everywhere,
    filler,
    record,
    shown,
    tick,
)

COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED


def run(state: PartitionState, *batches: list[Row], now_ms: int = 0, **options: Any) -> StepResult:
    observed = Observations.of("t", 0, [row for batch in batches for row in batch])
    return step(state, observed, options.pop("settings", SETTINGS), now_ms, **options)


def last(comparison: Comparison) -> StepResult:
    assert comparison.last is not None
    return comparison.last


class TestCoverage:
    def test_it_reports_of_each_replica_what_it_said_last(self) -> None:
        row = {"broker": 5, "observed_at": 9, "reachable": True, "replicas": (5, 6), "open_transactions": ()}
        offsets = {"high_watermark": 40, "last_stable_offset": 30, "log_start_offset": 3, "log_end_offset": 50}
        away = {"broker": 6, "observed_at": 9, "reachable": False}
        result = run(PartitionState(), shown(RU, 5, [], 20), shown(RC, 5, [], 10), [row | offsets, away], now_ms=77)
        unknown = dict.fromkeys(("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset"), -1)
        assert result.coverage.brokers == (
            BrokerCoverage(
                broker=5, reachable=True, read_uncommitted=20, read_committed=10, frozen_for_s=0.0, **offsets
            ),
            BrokerCoverage(
                broker=6, reachable=False, read_uncommitted=-1, read_committed=-1, frozen_for_s=0.0, **unknown
            ),
        )
        assert (result.coverage.topic, result.coverage.partition, result.coverage.compared_at) == ("t", 0, 77)
        assert result.coverage.compared_up_to == (-1, -1)

    def test_a_replica_that_has_left_the_set_is_not_reported(self) -> None:
        first = run(PartitionState(), both(1, [], 4), both(9, [], 4))
        assert [b.broker for b in first.coverage.brokers] == [1, 9]
        second = run(first.state, tick(1, everywhere(4)))
        assert [b.broker for b in second.coverage.brokers] == [1, 2, 3]

    def test_how_long_a_replica_has_been_frozen_is_reported_in_seconds(self, comparison: Comparison) -> None:
        for at in (1000, 2000, 3500):
            comparison.feed(tick(at, {1: 9, 2: 3, 3: 9}, everywhere(9), open={2: [(9, 3)]}))
        seconds = {b.broker: b.frozen_for_s for b in last(comparison).coverage.brokers}
        # Broker 1's progress of the first tick was taken in before that of broker 2, so the clock runs since then.
        assert seconds == {1: 0.0, 2: 2.5, 3: 0.0}

    def test_what_is_unknown_begins_at_the_largest_log_start(self, comparison: Comparison) -> None:
        rows = tick(0, everywhere(30))
        comparison.feed(rows, both(1, [], 20), both(3, [], 25))
        assert last(comparison).coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (25, 25)
        comparison.feed([{**r, "log_start_offset": 8} if r["broker"] == 3 else r for r in tick(1, everywhere(30))])
        assert last(comparison).coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (17, 17)
        comparison.feed(both(2, [], 22, 2))
        assert last(comparison).coverage.unknown_for(UnknownReason.NOT_READ_YET) == (5, 5)
        assert last(comparison).coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (12, 12)

    def test_deferred_ranges_are_reported_without_an_end_while_they_grow(self) -> None:
        comparison = Comparison(CompareSettings(state_cap_bytes=1 << 16))
        rows = [filler(i) for i in range(2000)]
        comparison.feed(tick(0, everywhere(2000)), both(1, rows, 2000), both(3, rows, 2000))
        deferred = {d.view: d for d in last(comparison).coverage.deferred}
        assert set(deferred) == {READ_UNCOMMITTED, READ_COMMITTED}
        for view, d in deferred.items():
            assert d == DeferredRange(view, d.start, -1)
            assert 0 < d.start < 2000
        start = max(d.start for d in deferred.values())
        comparison.feed(both(2, rows[: start + 1], start + 1))
        assert {d.end for d in last(comparison).coverage.deferred} == {2000}


class TestSuspects:
    def test_a_suspect_tells_how_far_each_replica_of_the_set_had_been_read(self) -> None:
        good, wrong = record(0, "K", "V"), record(0, "K", "W")
        offsets = {"high_watermark": 9, "last_stable_offset": 8}
        rows = [
            shown(RU, 1, [good], 3, **offsets),
            shown(RC, 1, [good], 2, **offsets),
            shown(RU, 2, [wrong], 5, **offsets),
        ]
        state = run(PartitionState(), tick(0, everywhere(1)), both(9, [], 1)).state
        (suspect,) = run(state, *rows, tick(1, everywhere(6), everywhere(7), down=(3,)), now_ms=77).suspects
        names = ("read_uncommitted", "read_committed", "high_watermark", "last_stable_offset", "log_start_offset")
        assert suspect.positions == {
            "1": dict(zip(names, (3, 2, 7, 6, 0), strict=True)),
            "2": dict(zip(names, (5, -1, 7, 6, 0), strict=True)),
            "3": dict(zip(names, (-1, -1, 1, 1, 0), strict=True)),
        }
        assert (suspect.topic, suspect.partition, suspect.raised_at) == ("t", 0, 77)

    def test_what_was_raised_is_not_raised_again_as_long_as_it_is_remembered(self) -> None:
        def differ(state: PartitionState) -> StepResult:
            rows = [both(1, [record(0, "K", "V")], 1), both(2, [record(0, "K", "W")], 1)]
            return run(state, tick(0, everywhere(1), down=(3,)), *rows)

        (suspect,) = differ(PartitionState()).suspects
        name = int(suspect.suspect_id[:16], 16)
        others = np.arange(MAX_RAISED - 1, dtype="<u8")
        remembered = differ(PartitionState(told=np.append(np.uint64(name), others)))
        assert remembered.suspects == []
        assert len(remembered.state.told) == MAX_RAISED
        forgotten = differ(PartitionState(told=np.append(others, np.uint64(MAX_RAISED))))
        assert len(forgotten.suspects) == 1
        assert forgotten.state.told.tolist() == [*others[1:].tolist(), MAX_RAISED, name]


class TestPolicy:
    def seen(self, at: int, compacted: int, end: int, policy_at: int | None = None) -> list[Row]:
        at_policy = at if policy_at is None else policy_at
        return [{**r, "compacted": compacted, "policy_at": at_policy} for r in tick(at, everywhere(end))]

    def strict(self, result: StepResult) -> tuple[int, int]:
        row = result.state.partition[0]
        return int(row["strict_from"]), int(row["policy_at"])

    def test_every_record_is_compared_from_the_log_end_on_at_which_the_policy_was_first_seen(self) -> None:
        first = run(PartitionState(), tick(0, everywhere(90)))
        assert self.strict(first) == (NEVER, -1)
        rows = self.seen(5, 0, 40)
        rows[1]["log_end_offset"] = 44
        second = run(first.state, rows)
        assert self.strict(second) == (90, 5), "the highest end that any was ever seen with"
        assert self.strict(run(PartitionState(), rows)) == (44, 5)
        assert self.strict(run(second.state, self.seen(6, 0, 95))) == (90, 6), "it stays where it was"

    @pytest.mark.parametrize("down", [(1, 2, 3), (1,)], ids=["nobody", "all but the leader"])
    def test_a_look_to_which_the_leader_does_not_answer_tells_no_log_end(self, down: tuple[int, ...]) -> None:
        """Where nobody did, every record was compared from the log's first on: what was compacted before as well."""

        def seen(at: int, end: int, down: tuple[int, ...] = ()) -> list[Row]:
            rows = tick(at, everywhere(end), down=down)
            return [{**row, "leader": 1, "compacted": 0, "policy_at": at} for row in rows]

        first = run(PartitionState(), seen(5, 30, down))
        assert self.strict(first) == (NEVER, 5)
        assert self.strict(run(first.state, seen(10, 45))) == (45, 10)

    def test_a_policy_seen_earlier_or_not_at_all_changes_nothing(self) -> None:
        first = run(PartitionState(), self.seen(5, 0, 40))
        assert self.strict(run(first.state, self.seen(6, 1, 50, policy_at=4))) == (40, 5)
        assert self.strict(run(first.state, self.seen(6, 1, 50, policy_at=5))) == (40, 5)
        assert self.strict(run(first.state, self.seen(7, -1, 50))) == (40, 5)

    def test_once_it_compacts_only_the_latest_of_a_key_is_compared_and_what_waited_is_unknown(self) -> None:
        state = run(PartitionState(), self.seen(0, 0, 2)).state
        rows = [record(i, f"k{i}", "V") for i in range(5)]
        state = run(state, both(1, rows, 5, 20), both(2, [], 5, 20), both(3, rows, 5, 20)).state
        assert len(state.candidates) == 5
        result = run(state, self.seen(9, 1, 5))
        assert self.strict(result) == (NEVER, 9)
        assert result.state.candidates["offset"].tolist() == [0, 1]
        assert result.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 3)

    def test_compacting_between_two_looks_begins_again(self) -> None:
        first = run(PartitionState(), self.seen(5, 0, 40))
        both_ways = self.seen(6, 1, 60) + self.seen(7, 0, 70)
        assert self.strict(run(first.state, both_ways)) == (70, 7)

    def test_what_is_known_before_stays(self) -> None:
        assert self.strict(run(never_compacted(), self.seen(5, 1, 40))) == (0, NEVER)


class TestTakingIn:
    def test_rows_of_one_replica_count_in_offset_order_however_they_come(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V", pid=9, outcome=COMMITTED), commit(1, 9), filler(2)]
        for b in (1, 2, 3):
            comparison.feed(list(reversed(shown(RU, b, rows, 3))), list(reversed(shown(RC, b, [rows[0], rows[2]], 3))))
        comparison.feed(tick(0, everywhere(3)))
        assert comparison.suspects == []
        assert last(comparison).coverage.compared_up_to == (3, 3)

    def test_a_row_below_what_was_shown_is_none(self) -> None:
        state = run(PartitionState(), tick(0, everywhere(5)), both(1, [filler(3)], 5)).state
        again = run(state, both(1, [filler(2), filler(4), filler(5)], 6)).state
        assert again.content["offset"].tolist() == [3, 5]
        assert again.pending["offset"].tolist() == [3, 5]

    def test_a_transaction_begins_at_its_first_data_and_ends_at_its_marker(self) -> None:
        data = [record(i, "K", "V", pid=9, outcome=COMMITTED) for i in range(8)]
        other = record(3, "L", "W", pid=8, outcome=ABORTED)
        rows = [data[1], data[2], other, commit(4, 9), filler(5), data[6], data[7]]
        made = run(PartitionState(), shown(RU, 1, rows, 8), shown(RU, 2, rows[1:], 8)).state.intervals
        assert sorted(zip(*(made[n].tolist() for n in ("slot", "producer_id", "start", "end")), strict=True)) == [
            (0, 8, 3, NEVER),
            (0, 9, 1, 4),
            (0, 9, 6, NEVER),
            (1, 8, 3, NEVER),
            (1, 9, 2, 4),
            (1, 9, 6, NEVER),
        ]

    @pytest.mark.parametrize("at_once", [True, False])
    def test_a_marker_that_only_a_read_committed_consumer_got_ends_the_transaction_too(self, at_once: bool) -> None:
        # The cleaner had taken the marker at 2 before the other reader came to it.
        data = [record(i, "K", "V", pid=9, outcome=COMMITTED) for i in range(6)]
        before, after = shown(RU, 1, [data[1]], 2), shown(RU, 1, [data[4], commit(5, 9)], 6)
        seen = shown(RC, 1, [data[1], commit(2, 9)], 3)
        if at_once:
            made = run(PartitionState(), before, after, seen).state.intervals
        else:
            made = run(run(run(PartitionState(), before).state, seen).state, after).state.intervals
        assert list(zip(made["start"].tolist(), made["end"].tolist(), strict=True)) == [(1, 2), (4, 5)]

    def test_such_a_marker_ends_the_transaction_though_it_comes_last(self) -> None:
        data = [record(i, "K", "V", pid=9, outcome=COMMITTED) for i in range(6)]
        first = run(PartitionState(), shown(RU, 1, [data[1], data[4], commit(5, 9)], 6)).state
        assert first.intervals["end"].tolist() == [5]
        then = run(first, shown(RC, 1, [data[1], commit(2, 9)], 3)).state
        assert then.intervals["end"].tolist() == [2]

    def test_records_outside_transactions_begin_none(self) -> None:
        rows = [record(0, "K", "V"), record(1, "K", "V", pid=0), record(2, "K", "V", pid=0, outcome=COMMITTED)]
        made = run(PartitionState(), shown(RU, 1, rows, 3)).state.intervals
        assert made["start"].tolist() == [2]

    def test_markers_of_either_view_are_kept_once_and_by_who_showed_them(self) -> None:
        batches = [shown(RU, 1, [abort(4, 9)], 5), shown(RC, 1, [abort(4, 9)], 5), shown(RC, 2, [commit(6, 8)], 7)]
        made = run(PartitionState(), *batches).state.markers
        assert [tuple(row) for row in made.tolist()] == [
            (4, 9, RowKind.ABORT, 0b01, -1),
            (6, 8, RowKind.COMMIT, 0b10, -1),
        ]

    def test_where_the_cap_keeps_markers_out_is_remembered(self) -> None:
        def unmarked(*views: int) -> list[int]:
            deferring = PartitionState(deferred=np.array([(view, 3, NEVER) for view in views], DEFERRED))
            made = run(deferring, shown(RU, 1, [abort(2, 9), commit(4, 9), commit(6, 9)], 7)).state
            return [int(offset) for offset in made.partition["unmarked"][0]]

        assert unmarked(RU, RC) == [4, 7]
        assert unmarked(RU) == list(NOWHERE)

    def test_of_the_markers_that_the_cap_keeps_out_those_from_the_floor_on_matter(self) -> None:
        deferring = PartitionState(deferred=np.array([(view, 0, NEVER) for view in (RU, RC)], DEFERRED))
        deferring.partition["floor"] = 4
        made = run(deferring, shown(RU, 1, [abort(2, 9), commit(4, 9), commit(6, 9)], 7)).state
        assert made.partition["unmarked"][0].tolist() == [4, 7]

    def test_only_where_every_record_is_compared_are_those_without_a_key_kept(self) -> None:
        rows = [record(0, None, "V"), record(1, None, "V", pid=9, outcome=COMMITTED), record(2, "", "V")]
        made = run(PartitionState(), shown(RC, 1, rows, 3)).state.pending
        assert made["offset"].tolist() == [1, 2]
        strict = run(never_compacted(), shown(RC, 1, rows, 3)).state.pending
        assert strict["offset"].tolist() == [0, 1, 2]

    def test_what_a_record_says_is_kept_until_all_have_shown_it(self) -> None:
        rows = [
            record(0, "K", None),
            record(1, "K", "V", pid=9, outcome=ABORTED),
            record(2, "K", ""),
            record(3, None, None, pid=9, outcome=COMMITTED),
        ]
        made = run(PartitionState(), both(5, [], 0), shown(RC, 6, rows, 4)).state.pending
        columns = ("offset", "producer_id", "key_hash_lo", "visible", "aborted", "flags")
        assert list(zip(*(made[n].tolist() for n in columns), strict=True)) == [
            (0, -1, 7, 0b10, 0, 1),
            (1, 9, 7, 0, 0b10, 0),
            (2, -1, 7, 0b10, 0, 0),
            (3, 9, 0, 0b10, 0, 3),
        ]


class TestWhatTheCapKeepsOut:
    def test_a_record_whose_key_was_written_again_there_is_not_judged(self) -> None:
        """While broker 2 was away the key was deleted, and all was cleaned before it came back."""
        comparison = Comparison(CompareSettings(state_cap_bytes=1 << 16))
        rows = [record(0, "K", "V"), *(filler(i) for i in range(1, 2000))]
        comparison.feed(tick(0, everywhere(2000)), both(1, rows, 2000), both(3, rows, 2000))
        assert last(comparison).coverage.deferred
        assert 0 in last(comparison).state.pending["offset"]
        comparison.feed(*(both(b, [record(2000, "K", None)], 2001) for b in (1, 3)))
        assert 0 not in last(comparison).state.pending["offset"]
        comparison.feed(both(2, rows[1:], 2001))
        for at in (10, 20):
            comparison.feed(tick(at, everywhere(2001)))
        assert comparison.suspects == []

    def test_only_plain_records_that_are_compared_by_key_are_let_go(self) -> None:
        comparison = Comparison(CompareSettings(state_cap_bytes=1 << 16))
        known = [
            record(0, "K", "V"),
            record(1, "K", "V", pid=9, outcome=COMMITTED),
            commit(2, 9),
            *(filler(i) for i in range(3, 2000)),
        ]
        comparison.feed(tick(0, everywhere(2000)), both(1, known, 2000), both(3, known, 2000))
        comparison.feed(*(both(b, [record(2000, "K", None)], 2001) for b in (1, 3)))
        pending = last(comparison).state.pending
        assert pending["offset"][pending["offset"] < 3].tolist() == [1]

    def test_where_every_record_is_compared_one_that_was_written_again_is_kept(self) -> None:
        settings = CompareSettings(state_cap_bytes=1 << 16)
        rows = [record(0, "K", "V"), record(1, "K", "W"), *(filler(i) for i in range(2, 2000))]
        state = PartitionState()
        state.partition["strict_from"] = 1
        state = run(state, tick(0, everywhere(2000)), *(both(b, rows, 2000) for b in (1, 3)), settings=settings).state
        again = [both(b, [record(2000, "K", None)], 2001) for b in (1, 3)]
        pending = run(state, *again, settings=settings).state.pending
        assert pending["offset"][pending["offset"] < 2].tolist() == [1]


class TestTransactionsOfEitherView:
    ROWS = [record(2, "K", "V", pid=9, outcome=COMMITTED), commit(6, 9), record(7, "L", "V", pid=9, outcome=COMMITTED)]  # noqa: RUF012
    LATER = [{**ROWS[2], "offset": 8}, abort(9, 9)]  # noqa: RUF012

    def spans(self, *parts: list[Row]) -> list[tuple[int, int]]:
        state = PartitionState()
        for part in parts:
            state = run(state, tick(0, everywhere(2), everywhere(20)), part).state
        return [(int(i["start"]), -1 if i["end"] == NEVER else int(i["end"])) for i in state.intervals]

    def test_what_read_committed_showed_first_counts_though_it_was_cleaned_before_the_other_came(self) -> None:
        ended = [(2, 6), (7, 9)]
        assert self.spans(shown(RC, 1, self.ROWS, 8), shown(RU, 1, self.LATER, 10)) == ended
        assert self.spans([*shown(RU, 1, self.LATER, 10), *shown(RC, 1, self.ROWS, 8)]) == ended, "in one micro-batch"
        assert self.spans(shown(RC, 1, self.ROWS, 8), shown(RU, 1, [*self.ROWS, *self.LATER], 10)) == ended

    def test_what_read_uncommitted_has_passed_is_not_begun_again(self) -> None:
        assert self.spans(shown(RU, 1, [*self.ROWS, *self.LATER], 10), shown(RC, 1, self.ROWS, 8)) == [(2, 6), (7, 9)]

    def test_what_was_cleaned_before_read_uncommitted_is_taken_in_if_its_own_end_is_known(self) -> None:
        assert self.spans(shown(RU, 1, [], 10), shown(RC, 1, self.ROWS, 8)) == [(2, 6)]
        assert self.spans(shown(RU, 1, [], 10), shown(RC, 1, self.ROWS[:1], 6)) == []


class TestOpenTransactions:
    OPEN = record(2, "K", "V", pid=9, outcome=COMMITTED)

    def begin(self) -> PartitionState:
        """Broker 1 shows a transaction that is open from 2 on, in a log that ends at 5."""
        return run(PartitionState(), tick(0, everywhere(2), everywhere(5)), shown(RU, 1, [self.OPEN], 5)).state

    def over_by(self, state: PartitionState, *ticks: list[Row]) -> list[int]:
        return run(state, *ticks).state.intervals["over_by"].tolist()

    def test_one_that_its_replica_no_longer_lists_is_over_by_its_log_end(self) -> None:
        assert self.over_by(self.begin(), tick(1, everywhere(9))) == [9]
        assert self.over_by(self.begin(), tick(1, everywhere(2), everywhere(9), open={1: [(9, 2)]})) == [NEVER]
        assert self.over_by(self.begin(), tick(1, everywhere(3), everywhere(9), open={1: [(8, 3)], 2: [(9, 2)]})) == [9]

    def test_a_tick_without_a_list_or_from_before_tells_nothing(self) -> None:
        unlisted = [{n: v for n, v in row.items() if n != "open_transactions"} for row in tick(1, everywhere(9))]
        assert self.over_by(self.begin(), unlisted) == [NEVER]
        assert self.over_by(self.begin(), tick(1, everywhere(9), down=(1,))) == [NEVER]
        assert self.over_by(self.begin(), tick(0, everywhere(9))) == [NEVER]

    def test_ticks_count_in_the_order_in_which_they_were_made(self) -> None:
        listed, gone = tick(1, everywhere(2), everywhere(8), open={1: [(9, 2)]}), tick(2, everywhere(9))
        assert self.over_by(self.begin(), gone, listed) == [9]
        listed, gone = tick(2, everywhere(2), everywhere(8), open={1: [(9, 2)]}), tick(1, everywhere(9))
        assert self.over_by(self.begin(), listed, gone) == [NEVER]


class TestFrozen:
    @pytest.mark.parametrize("is_compacted", [True, False])
    def test_where_nothing_was_compacted_it_says_so(self, is_compacted: bool) -> None:
        comparison = Comparison(before=PartitionState() if is_compacted else never_compacted())
        for at in (1000, 2000, 4000):
            comparison.feed(tick(at, {1: 9, 2: 0, 3: 8}, everywhere(9), open={2: [(9, 0)]}))
        (suspect,) = comparison.suspects
        assert suspect.accusation.observations.get("uncompacted", False) is not is_compacted

    @pytest.mark.parametrize(("until", "frozen"), [(3999, False), (4000, True)])
    def test_after_the_grace_period_it_is_reported_with_what_holds_it(
        self, comparison: Comparison, until: int, frozen: bool
    ) -> None:
        for at in (1000, 2000, until):
            comparison.feed(tick(at, {1: 9, 2: 3, 3: 8}, everywhere(9), open={2: [(7, 5), (9, 3)]}))
        assert comparison.kinds == ([("read_committed_frozen", 2)] if frozen else [])
        if frozen:
            (suspect,) = comparison.suspects
            assert suspect.cause == "txn:9:3"
            assert suspect.accusation.observations == {
                "markers": {},
                "leader_epoch": -1,
                "last_stable_offsets": {"1": 9, "2": 3, "3": 8},
                "stands_at": 3,
                "others_at": 9,
                "seconds": 3.0,
            }
