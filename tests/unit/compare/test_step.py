"""The divergences that compaction causes, as the readers record them, and what of a healthy cluster looks like one."""

from __future__ import annotations

import pytest

from parallax.compare.state import PartitionState
from parallax.config import CompareSettings
from parallax.model import NOBODY, Outcome, ReadEvent, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.history import (
    RC,
    RU,
    Comparison,
    Row,
    abort,
    both,
    commit,
    everywhere,
    filler,
    record,
    settle,
    shown,
    tick,
)

COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED


def policy(rows: list[Row], cleanup_policy: str, at: int) -> list[Row]:
    """Progress rows that tell the cleanup policy as it was at a time."""
    return [{**row, "compacted": int("compact" in cleanup_policy), "policy_at": at} for row in rows]


def members(rows: list[Row], brokers: tuple[int, ...]) -> list[Row]:
    """Progress rows of a replica set."""
    return [{**row, "replicas": brokers} for row in rows if row["broker"] in brokers]


class TestTombstone:
    def away(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(1)), *(both(b, [record(0, "K", "V")], 1) for b in (1, 2, 3)))
        later = [record(1, "K", None), filler(2)]
        comparison.feed(both(1, later, 3, 100), both(3, later, 3, 100), tick(200, {1: 3, 3: 3}, down=(2,)))

    def test_a_lost_tombstone_is_a_resurrected_record(self, comparison: Comparison) -> None:
        self.away(comparison)
        assert comparison.suspects == []
        comparison.feed(both(2, [filler(2)], 3, 300), tick(400, everywhere(3)))
        settle(comparison, 3)
        assert comparison.kinds == [("deleted_record_resurrected", 2)]
        assert comparison.suspects[0].as_row()["offset"] == 1

    def test_a_tombstone_that_comes_late_is_none(self, comparison: Comparison) -> None:
        self.away(comparison)
        comparison.feed(both(2, [record(1, "K", None), filler(2)], 3, 300), tick(400, everywhere(3)))
        settle(comparison, 3)
        assert comparison.suspects == []

    def test_a_newer_record_of_the_key_explains_its_absence(self, comparison: Comparison) -> None:
        self.away(comparison)
        comparison.feed(both(2, [filler(2)], 3, 300), tick(400, everywhere(4)))
        comparison.feed(*(both(b, [record(3, "K", "new")], 4, 500) for b in (1, 2, 3)), tick(600, everywhere(4)))
        settle(comparison, 4)
        assert comparison.suspects == []

    def test_nothing_is_judged_while_the_replica_is_away(self, comparison: Comparison) -> None:
        self.away(comparison)
        comparison.feed(tick(50_000, {1: 3, 3: 3}, down=(2,)))
        assert comparison.suspects == []
        assert comparison.last is not None
        assert comparison.last.coverage.compared_up_to == (1, 1)
        assert comparison.last.coverage.unknown_for(UnknownReason.NOT_READ_YET) == (2, 2)


class TestAbortedToCommitted:
    """TX1 aborted while broker 2 was away, and cleaned with its marker; TX2 committed."""

    POISON = record(0, "poison", "v", pid=9, outcome=ABORTED)
    GOOD = record(5, "good", "v", pid=9, outcome=COMMITTED)

    def run(self, comparison: Comparison, *, seen_in_time: bool = True) -> None:
        comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [self.POISON], 1) for b in (1, 2, 3)))
        if seen_in_time:
            for b in (1, 3):
                comparison.feed(shown(RU, b, [abort(1, 9)], 2, 100), shown(RC, b, [self.POISON], 2, 100))
        rest = [filler(4), self.GOOD, commit(6, 9)]
        for b in (1, 3):
            comparison.feed(both(b, rest, 7, 200))
        comparison.feed(shown(RU, 2, rest, 7, 300), tick(400, everywhere(7)))
        on_2 = [{**self.POISON, "outcome": COMMITTED}, filler(4), self.GOOD]
        comparison.feed(shown(RC, 2, on_2, 7, 500), tick(600, everywhere(7)))
        settle(comparison, 7)

    def test_it_is_one_finding_on_the_replica_that_was_away(self, comparison: Comparison) -> None:
        self.run(comparison)
        assert comparison.findings == {(2, "txn:9:0")}
        assert comparison.kinds[-1] == ("aborted_record_committed", 2)
        row = comparison.suspects[-1].as_row()
        assert (row["transaction_start_offset"], row["marker_offset"], row["offset"]) == (0, 1, 0)
        evidence = comparison.suspects[-1].accusation.observations
        assert evidence["outcomes"] == {"1": "aborted", "3": "aborted", "2": "committed"}
        assert evidence["markers"] == {"1": "abort", "3": "abort", "2": "commit"}

    def test_without_any_record_of_the_abort_only_a_difference_remains(self, comparison: Comparison) -> None:
        self.run(comparison, seen_in_time=False)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]


class TestCommittedToAborted:
    def run(self, comparison: Comparison, value: str | None, overwritten: bool) -> None:
        old, tx1 = record(0, "K", "V0"), record(1, "K", value, pid=9, outcome=COMMITTED)
        comparison.feed(
            tick(0, everywhere(1), everywhere(2)),
            *(shown(RU, b, [old, tx1], 2) + shown(RC, b, [old], 1) for b in (1, 2, 3)),
        )
        rest = [record(3, "K", "V2")] if overwritten else [filler(3)]
        for b in (1, 3):
            comparison.feed(shown(RU, b, [commit(2, 9), *rest], 4, 100), shown(RC, b, [tx1, *rest], 4, 100))
        tx2 = [record(5, "bad", "garbage", pid=9, outcome=ABORTED), abort(6, 9)]
        for b in (1, 3):
            comparison.feed(shown(RU, b, tx2, 7, 200), shown(RC, b, tx2[:1], 7, 200))
        comparison.feed(shown(RU, 2, [*rest, *tx2], 7, 300))
        on_2 = [{**tx1, "outcome": ABORTED}, *rest, tx2[0]]
        comparison.feed(shown(RC, 2, on_2, 7, 400), tick(500, everywhere(7)))
        settle(comparison, 7)

    @pytest.mark.parametrize(("value", "overwritten"), [(None, False), ("V1", True)], ids=["tombstone", "put-only"])
    def test_it_is_one_finding(self, comparison: Comparison, value: str | None, overwritten: bool) -> None:
        self.run(comparison, value, overwritten)
        assert comparison.findings == {(2, "txn:9:1")}
        assert comparison.kinds == [("marker_missing", 2), ("committed_record_aborted", 2)] or comparison.kinds == [
            ("committed_record_aborted", 2)
        ]


class TestAnEndThatWasCleanedUnread:
    """COMMIT 1 was lost on 2, where ABORT 5 ended the transaction; data and ABORT were cleaned before RU came to it."""

    TX1 = record(0, "K", "V", pid=9, outcome=COMMITTED)
    REST = (record(2, "K", "V2"), filler(6))

    def run(self, comparison: Comparison, outcome: Outcome) -> None:
        comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [self.TX1], 1) for b in (1, 2, 3)))
        for b in (1, 3):
            comparison.feed(
                shown(RU, b, [commit(1, 9), *self.REST], 7, 100), shown(RC, b, [self.TX1, *self.REST], 7, 100)
            )
        comparison.feed(
            shown(RU, 2, self.REST[:1], 3, 200), tick(300, everywhere(0), everywhere(3), open={2: [(9, 0)]})
        )
        comparison.feed(shown(RC, 2, [{**self.TX1, "outcome": outcome}, *self.REST], 7, 400))
        # What it shows directly below the marker is accused before anybody has read where it ended.
        assert comparison.kinds == [("marker_missing", 2), ("committed_record_aborted", 2)][: 1 + (outcome == ABORTED)]
        comparison.feed(shown(RU, 2, self.REST[1:], 7, 500), tick(600, everywhere(7)))
        settle(comparison, 7)

    def test_the_missing_marker_becomes_the_wrong_outcome_that_was_shown(self, comparison: Comparison) -> None:
        self.run(comparison, ABORTED)
        assert comparison.kinds == [("marker_missing", 2), ("committed_record_aborted", 2)]
        assert comparison.findings == {(2, "txn:9:0")}
        row = comparison.suspects[-1].as_row()
        assert (row["transaction_start_offset"], row["marker_offset"], row["offset"]) == (0, 1, 0)
        evidence = comparison.suspects[-1].accusation.observations
        assert evidence["outcomes"] == {"1": "committed", "3": "committed", "2": "aborted"}

    def test_it_is_healed_where_the_outcome_is_right(self, comparison: Comparison) -> None:
        self.run(comparison, COMMITTED)
        assert comparison.kinds == [("marker_missing", 2)]

    def test_nothing_of_it_stays_in_the_state(self, comparison: Comparison) -> None:
        self.run(comparison, ABORTED)
        comparison.feed(*(both(b, [filler(7)], 8, 600) for b in (1, 2, 3)))
        state = PartitionState.from_bytes(comparison.state)
        assert (len(state.intervals), len(state.pending), len(state.markers)) == (0, 0, 0)


class TestBelowTheFloor:
    """1 is truncated: the floor is where it had been read. 2 leads with another log, and is read there only now."""

    TX = record(1, "K", None, pid=9, outcome=COMMITTED)
    ENDS = (commit(7, 9), record(9, "K", "V", pid=9, outcome=ABORTED), abort(10, 9))

    @pytest.mark.parametrize("parts", [1, 2], ids=["in one batch", "the marker in an earlier one"])
    def test_a_record_waits_for_its_own_end_marker_below_it(self, comparison: Comparison, parts: int) -> None:
        comparison.feed(tick(0, everywhere(0), everywhere(8)))
        comparison.feed(*(shown(view, 1, [], 8) for view in (RU, RC)))
        cut = [shown(view, 1, [], 0, 100, event=ReadEvent.LOG_TRUNCATED) for view in (RU, RC)]
        committed = shown(RC, 2, [self.TX], 3, 100)
        if parts == 1:
            comparison.feed(committed)
            comparison.feed(*cut, shown(RU, 2, [self.TX, *self.ENDS], 11, 100))
        else:
            comparison.feed(*cut, shown(RU, 2, [self.TX, self.ENDS[0]], 8, 100))
            comparison.feed(committed)
            comparison.feed(shown(RU, 2, self.ENDS[1:], 11, 200))
        assert "outcome_contradicts_marker" not in [kind for kind, _ in comparison.kinds]


class TestFrozen:
    TX1 = record(0, "K", "V", pid=9, outcome=COMMITTED)

    def run(self, comparison: Comparison, until: int) -> None:
        comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [self.TX1], 1) for b in (1, 2, 3)))
        rest = [commit(1, 9), record(2, "K", "V2")]
        for b in (1, 3):
            comparison.feed(shown(RU, b, rest, 3, 100), shown(RC, b, [self.TX1, rest[1]], 3, 100))
        comparison.feed(shown(RU, 2, rest[1:], 3, 1000))
        for at in range(1000, until, 1000):
            comparison.feed(tick(at, {1: 3, 2: 0, 3: 3}, everywhere(3), open={2: [(9, 0)]}))

    def test_the_missed_marker_is_seen_at_once_and_the_stall_after_the_grace_period(
        self, comparison: Comparison
    ) -> None:
        self.run(comparison, until=7000)
        assert comparison.kinds == [("marker_missing", 2), ("read_committed_frozen", 2)]
        assert comparison.findings == {(2, "txn:9:0")}

    def test_within_the_grace_period_it_is_not_frozen(self, comparison: Comparison) -> None:
        self.run(comparison, until=3000)
        assert comparison.kinds == [("marker_missing", 2)]

    def test_a_transaction_open_everywhere_is_a_long_transaction(self, comparison: Comparison) -> None:
        for b in (1, 2, 3):
            comparison.feed(shown(RU, b, [self.TX1, filler(1)], 2))
        for at in range(0, 60_000, 1000):
            comparison.feed(tick(at, everywhere(0), everywhere(2), open={b: [(9, 0)] for b in (1, 2, 3)}))
        assert comparison.suspects == []

    def test_a_last_stable_offset_that_moves_is_not_frozen(self, comparison: Comparison) -> None:
        for i, at in enumerate(range(0, 60_000, 1000)):
            comparison.feed(tick(at, {1: 9 + i, 2: i, 3: 9 + i}, {1: 99, 2: 99, 3: 99}))
        assert comparison.suspects == []


class TestHealthy:
    def test_compaction_on_one_replica_only_is_no_suspect(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(4)))
        rows = [record(0, "K", "V0"), record(1, "L", "W"), record(2, "K", "V1"), record(3, None, "no key")]
        comparison.feed(both(1, rows, 4), both(2, rows[1:3], 4), both(3, rows, 4))
        settle(comparison, 4)
        assert comparison.suspects == []
        assert comparison.last is not None
        assert comparison.last.coverage.compared_up_to == (4, 4)
        unknown = {reason: count for reason, count in comparison.last.coverage.unknown.items() if any(count)}
        assert unknown == {UnknownReason.BEFORE_FIRST_READING: (4, 4)}

    def test_matched_records_leave_the_state(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(500)))
        rows = [filler(i) for i in range(500)]
        comparison.feed(both(1, rows, 500), both(2, rows, 500))
        assert comparison.last is not None
        assert comparison.last.coverage.state_bytes > 20_000
        comparison.feed(both(3, rows, 500))
        assert comparison.last.coverage.state_bytes < 1_000

    def test_rows_that_come_again_change_nothing(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V", pid=9, outcome=COMMITTED), commit(1, 9), record(2, "K", "V2")]
        batch = [*tick(0, everywhere(3)), *both(1, rows, 3), *both(2, rows, 3)]
        comparison.feed(batch)
        before = comparison.state
        comparison.feed(batch)
        assert comparison.state == before


class TestContent:
    def test_another_record_at_the_same_offset_is_a_difference_without_direction(self, comparison: Comparison) -> None:
        good = [record(0, "K", "V"), record(1, "L", "W")]
        comparison.feed(tick(0, everywhere(2)), both(1, good, 2), both(3, good, 2))
        comparison.feed(both(2, [{**good[0], "content_hash": 5}, good[1]], 2))
        assert [k for k in comparison.kinds if k[0] == "content_mismatch"] == [("content_mismatch", NOBODY)]
        assert set(comparison.suspects[0].accusation.observations["records"]) == {"1", "2", "3"}

    def test_a_run_of_differing_records_is_one_suspect(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(6)]
        comparison.feed(tick(0, everywhere(6)), both(1, rows, 6), both(3, rows, 6))
        wrong = [{**r, "content_hash": 5} for r in rows]
        comparison.feed(both(2, [*rows[:1], *wrong[1:4], *rows[4:5], *wrong[5:]], 6))
        assert [s.as_row()["offset"] for s in comparison.suspects] == [1, 5]


class TestMissing:
    def test_a_value_that_one_replica_lacks(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        comparison.feed(tick(0, everywhere(2)), both(1, rows, 2), both(2, rows[1:], 2), both(3, rows, 2))
        assert comparison.suspects == []
        settle(comparison, 2)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]

    def test_a_value_that_one_replica_alone_shows(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        comparison.feed(tick(0, everywhere(2)), both(1, rows[1:], 2), both(2, rows, 2), both(3, rows[1:], 2))
        settle(comparison, 2)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]

    def test_it_waits_until_a_later_record_of_the_key_could_have_been_read(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        comparison.feed(tick(0, everywhere(9)), both(1, rows, 2, 10), both(2, rows[1:], 2, 10), both(3, rows, 2, 10))
        comparison.feed(tick(20, everywhere(9)))
        comparison.feed(tick(30, everywhere(9)))
        assert comparison.suspects == []
        comparison.feed(*(both(b, [record(8, "K", "V2")], 9, 40) for b in (1, 2, 3)))
        settle(comparison, 9)
        assert comparison.suspects == []

    def test_without_compaction_every_absence_counts(self) -> None:
        comparison = Comparison(before=never_compacted())
        rows = [record(0, "K", "V"), record(1, "K", "V2")]
        comparison.feed(tick(0, everywhere(2)), both(1, rows, 2), both(2, rows[1:], 2), both(3, rows, 2))
        settle(comparison, 2)
        assert comparison.kinds == [("record_missing", 2)]

    def test_the_policy_that_progress_tells_decides_from_where_every_record_is_compared(self) -> None:
        comparison = Comparison()
        comparison.feed(policy(tick(0, everywhere(2)), "delete", 0))
        rows = [record(0, "K", "old"), record(1, "K", "V"), record(2, "K", "V2"), record(3, "K", "V3")]
        comparison.feed(both(1, rows, 4), both(2, [rows[3]], 4), both(3, rows, 4))
        comparison.feed(policy(tick(20, everywhere(4)), "delete", 0))
        comparison.feed(policy(tick(30, everywhere(4)), "delete", 30))
        assert [(s.kind, s.broker, s.accusation.offset) for s in comparison.suspects] == [("record_missing", 2, 2)]

    def test_what_may_have_been_compacted_after_a_change_of_policy_is_no_loss(self) -> None:
        comparison = Comparison()
        comparison.feed(policy(tick(0, everywhere(0)), "delete", 0))
        rows = [record(0, "K", "V"), record(1, "K", "V2")]
        comparison.feed(both(1, rows, 2, 10), both(2, rows[1:], 2, 10), both(3, rows, 2, 10))
        comparison.feed(policy(tick(20, everywhere(2)), "delete", 5))
        assert comparison.suspects == []
        comparison.feed(policy(tick(30, everywhere(2)), "compact,delete", 25))
        settle(comparison, 2)
        assert comparison.suspects == []

    def test_records_without_a_key_are_compared_where_nothing_is_compacted(self) -> None:
        comparison = Comparison()
        comparison.feed(policy(tick(0, everywhere(0)), "delete", 0))
        rows = [record(0, None, "V"), record(1, None, "W")]
        comparison.feed(both(1, rows, 2), both(2, rows[:1], 2), both(3, rows, 2))
        comparison.feed(policy(tick(20, everywhere(2)), "delete", 20))
        comparison.feed(policy(tick(30, everywhere(2)), "delete", 30))
        assert [(s.kind, s.broker, s.accusation.offset) for s in comparison.suspects] == [("record_missing", 2, 1)]


class TestIncarnations:
    def test_what_a_replica_showed_before_it_left_no_longer_counts(self, comparison: Comparison) -> None:
        good = record(0, "K", "V")
        wrong = {**good, "content_hash": 5}
        comparison.feed(tick(0, everywhere(1)), both(2, [wrong], 1))
        comparison.feed(members(tick(10, everywhere(1)), (1, 3)))
        comparison.feed(members(tick(20, everywhere(1)), (1, 2, 3)))
        comparison.feed(both(1, [good], 1, 30), both(3, [good], 1, 30), shown(RU, 2, [good], 1, 30))
        settle(comparison, 1)
        assert comparison.suspects == []

    def test_a_replica_that_joins_late_is_unknown_up_to_what_was_compared_without_it(self) -> None:
        comparison = Comparison()
        rows = [record(i, f"k{i}", "V") for i in range(5)]
        comparison.feed(members(tick(0, everywhere(5)), (1, 3)), both(1, rows, 5), both(3, rows, 5))
        comparison.feed(members(tick(10, everywhere(5)), (1, 2, 3)))
        added = {"event": ReadEvent.PARTITION_ADDED}
        comparison.feed(shown(RU, 2, [], 0, 20, **added), shown(RC, 2, [], 0, 20, **added))
        comparison.feed(both(2, rows, 5, 30))
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (5, 5)
        more = [record(5, "k5", "V")]
        comparison.feed(both(1, more, 6, 40), both(3, more, 6, 40), both(2, [filler(5)], 6, 40))
        assert comparison.kinds == [("content_mismatch", NOBODY)]

    def test_a_log_that_was_truncated_tells_in_which_epoch_it_had_been_read(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(4)]
        comparison.feed(tick(0, everywhere(4)), *(both(b, rows, 4) for b in (1, 2, 3)))
        comparison.feed(shown(RU, 2, [], 1, event=ReadEvent.LOG_TRUNCATED, leader_epoch=6))
        (suspect,) = comparison.suspects
        assert suspect.accusation.observations == {
            "shown_to": {"2": 4},
            "epochs": {"2": 6},
        }


class TestLimits:
    def test_nothing_below_the_largest_log_start_is_judged(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        comparison.feed(tick(0, everywhere(2)), both(1, rows, 2), both(3, rows, 2))
        comparison.feed(shown(RU, 2, rows[1:], 2, log_start_offset=1), shown(RC, 2, rows[1:], 2, log_start_offset=1))
        settle(comparison, 2)
        assert comparison.suspects == []

    def test_a_range_that_was_skipped_is_unknown(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        comparison.feed(tick(0, everywhere(2)), both(1, rows, 2), both(3, rows, 2))
        comparison.feed(shown(RC, 2, [], 0))
        comparison.feed(shown(RC, 2, [], 1, event=ReadEvent.LOG_START_ADVANCED))
        comparison.feed(shown(RC, 2, rows[1:], 2), shown(RU, 2, rows, 2))
        settle(comparison, 2)
        assert comparison.suspects == []
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 1)

    def test_a_log_that_lost_what_it_had_shown_is_a_suspect(self, comparison: Comparison) -> None:
        rows = [filler(0), filler(1)]
        comparison.feed(tick(0, everywhere(2)), *(both(b, rows, 2) for b in (1, 2, 3)))
        comparison.feed(shown(RU, 2, [], 1, event=ReadEvent.LOG_TRUNCATED))
        assert comparison.kinds == [("log_truncated", 2)]

    def test_a_topic_that_was_re_created_starts_again(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V"), filler(1)]
        for b in (1, 2, 3):
            comparison.feed(shown(RU, b, rows, 2, 10, topic_id=77), shown(RC, b, rows[b % 2 :], 2, 10, topic_id=77))
        for view in (RU, RC):
            for b in (1, 2, 3):
                again = {"topic_id": 88, "event": ReadEvent.TOPIC_RECREATED}
                comparison.feed(shown(view, b, [], 0, 20, **again))
        new = [record(0, "K", "other"), filler(1)]
        for b in (1, 2, 3):
            comparison.feed(shown(RU, b, new, 2, 30, topic_id=88), shown(RC, b, new, 2, 30, topic_id=88))
        comparison.feed(tick(40, everywhere(2)))
        settle(comparison, 2)
        assert comparison.suspects == []

    def test_what_the_cap_keeps_out_is_deferred_and_counted(self) -> None:
        comparison = Comparison(CompareSettings(state_cap_bytes=1 << 16))
        rows = [filler(i) for i in range(5000)]
        comparison.feed(tick(0, everywhere(5000)), both(1, rows, 5000), both(3, rows, 5000))
        assert comparison.last is not None
        coverage = comparison.last.coverage
        assert coverage.state_bytes < 1 << 16
        assert {d.view for d in coverage.deferred} == {0, 1}
        assert all(d.end == -1 for d in coverage.deferred)
        comparison.feed(both(2, rows, 5000))
        comparison.feed(*(both(b, [filler(5000)], 5001) for b in (1, 2, 3)), tick(10, everywhere(5001)))
        settle(comparison, 5001)
        coverage = comparison.last.coverage
        assert coverage.deferred == ()
        assert coverage.compared_up_to == (5001, 5001)
        assert all(unknown > 3000 for unknown in coverage.unknown_for(UnknownReason.DEFERRED))
        assert comparison.suspects == []


class TestClocks:
    def test_brokers_whose_clocks_are_hours_apart_are_compared_all_the_same(self, comparison: Comparison) -> None:
        """With LogAppendTime each leader stamps by its own clock; followers copy the stamp."""
        hour = 3_600_000
        stamps = [5 * hour, -hour, 3 * hour, 0]
        rows = [{**record(i, f"k{i % 2}", "V"), "timestamp": at} for i, at in enumerate(stamps)]
        comparison.feed(tick(0, everywhere(4)), *(both(b, rows, 4) for b in (1, 2, 3)))
        settle(comparison, 4)
        assert comparison.suspects == []
        tombstone = {**record(4, "k0", None), "timestamp": -9 * hour}
        later = [tombstone, {**filler(5), "timestamp": 9 * hour}]
        comparison.feed(both(1, later, 6, 60_000), both(3, later, 6, 60_000), both(2, later[1:], 6, 60_000))
        comparison.feed(tick(61_000, everywhere(6)))
        comparison.feed(tick(62_000, everywhere(6)))
        assert comparison.kinds == [("deleted_record_resurrected", 2)]


class TestTruncation:
    def test_a_log_that_was_truncated_and_read_on_in_one_batch_is_compared_again(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(4)]
        comparison.feed(tick(0, everywhere(4)), *(both(b, rows, 4) for b in (1, 2, 3)))
        cut = {"event": ReadEvent.LOG_TRUNCATED, "leader_epoch": 6}
        new = [record(i, f"n{i}", "x") for i in range(1, 7)]
        for view in (RU, RC):
            comparison.feed(shown(view, 2, [], 1, 10, **cut), shown(view, 2, new, 7, 11))
            for broker in (1, 3):
                comparison.feed(shown(view, broker, new[3:], 7, 12))
        comparison.feed(tick(20, everywhere(7)))
        assert comparison.last is not None
        assert comparison.last.coverage.compared_up_to == (7, 7)
        comparison.feed(*(both(b, [record(7, "K", "V")], 8, 30) for b in (1, 3)), both(2, [filler(7)], 8, 30))
        assert comparison.kinds == [("log_truncated", 2), ("content_mismatch", NOBODY)]


class TestRunsOfMismatches:
    def test_a_step_without_a_new_difference_follows_one_with(self, comparison: Comparison) -> None:
        rows = [record(i, f"k{i}", "V") for i in range(4)]
        wrong = {**rows[0], "content_hash": 5}
        comparison.feed(tick(0, everywhere(1)), both(1, rows[:1], 1), both(2, [wrong], 1), both(3, rows[:1], 1))
        assert comparison.kinds == [("content_mismatch", NOBODY)]
        comparison.feed(tick(10, everywhere(1)))
        comparison.feed(*(both(b, rows[1:], 4, 20) for b in (1, 2, 3)))
        comparison.feed(tick(30, everywhere(4)))
        assert comparison.last is not None
        assert comparison.last.coverage.compared_up_to == (4, 4)
        assert len(comparison.suspects) == 1
