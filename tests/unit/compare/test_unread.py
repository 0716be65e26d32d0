"""Offsets that no replica was read to show in time: what compaction took there meanwhile, nobody knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare import unread
from parallax.compare.state import PartitionState
from parallax.compare.suspect import UnreadRange
from parallax.model import Outcome, ReadEvent, RowKind, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    Comparison,
    Row,
    both,
    commit,
    everywhere,
    filler,
    record,
    shown,
    tick,
)

FIRST, GAP = UnknownReason.BEFORE_FIRST_READING, UnknownReason.RETENTION_GAP
HOUR = 3_600_000


def progress(at: int, end: int, retention: int | None = HOUR, **more: Any) -> list[Row]:
    """Progress of all replicas of a topic with a ``delete.retention.ms``."""
    rows = tick(at, everywhere(end), **more)
    return rows if retention is None else [{**row, "retention_ms": retention} for row in rows]


def read(at: int, end: int, brokers: tuple[int, ...] = (1, 2, 3)) -> list[Row]:
    return [row for b in brokers for row in both(b, [], end, at)]


def ranges(comparison: Comparison, view: int = RC) -> list[tuple[int, int, UnknownReason]]:
    assert comparison.last is not None
    return [(r.start, r.end, r.reason) for r in comparison.last.coverage.unread if r.view == view]


def unknown(comparison: Comparison, reason: UnknownReason) -> tuple[int, int]:
    assert comparison.last is not None
    return comparison.last.coverage.unknown_for(reason)


@pytest.fixture
def watched() -> Comparison:
    """All replicas of an empty topic have been read at time 0."""
    comparison = Comparison()
    comparison.feed(progress(0, 0), read(0, 0))
    return comparison


class TestGaps:
    def test_what_is_passed_more_than_the_retention_after_the_last_reading_is_unknown(
        self, watched: Comparison
    ) -> None:
        watched.feed(progress(2 * HOUR, 10), read(2 * HOUR, 10))
        assert ranges(watched) == ranges(watched, RU) == [(0, 10, GAP)]
        assert unknown(watched, GAP) == (10, 10)
        assert watched.last is not None
        assert watched.last.coverage.unread[0] == UnreadRange(RU, 0, 10, GAP, 2 * HOUR)

    @pytest.mark.parametrize("at", [HOUR // 2, HOUR])
    def test_what_is_passed_within_the_retention_is_known(self, watched: Comparison, at: int) -> None:
        watched.feed(progress(at, 10), read(at, 10))
        watched.feed(progress(2 * at, 20), read(2 * at, 20))
        assert ranges(watched) == ranges(watched, RU) == []
        assert unknown(watched, GAP) == (0, 0)

    def test_it_is_unknown_up_to_where_the_log_went_when_the_readings_began_again(self, watched: Comparison) -> None:
        watched.feed(progress(2 * HOUR, 10), read(2 * HOUR + 5, 14))
        assert ranges(watched) == [(0, 10, GAP)]
        watched.feed(progress(2 * HOUR + 9, 30), read(2 * HOUR + 9, 30))
        assert ranges(watched) == [(0, 10, GAP)]

    def test_a_backlog_that_is_read_in_pieces_is_unknown_piece_by_piece(self, watched: Comparison) -> None:
        watched.feed(progress(2 * HOUR, 10), read(2 * HOUR + 5, 4))
        watched.feed(progress(2 * HOUR + 6, 12), read(2 * HOUR + 8, 12))
        assert ranges(watched) == [(0, 4, GAP), (4, 10, GAP)]

    def test_a_replica_that_was_away_is_known_where_another_was_read_in_time(self, watched: Comparison) -> None:
        for at in (HOUR // 2, HOUR, 3 * HOUR // 2):
            watched.feed(progress(at, at // HOUR * 10 + 5, down=(3,)), read(at, at // HOUR * 10 + 5, (1, 2)))
        watched.feed(progress(2 * HOUR, 15), read(2 * HOUR, 15, (3,)))
        assert ranges(watched) == []

    @pytest.mark.parametrize("witness", BROKERS)
    def test_whichever_replica_was_read_in_time_shows_it_for_all(self, watched: Comparison, witness: int) -> None:
        for at in (HOUR // 2, HOUR, 3 * HOUR // 2):
            watched.feed(progress(at, at // HOUR * 10 + 5), read(at, at // HOUR * 10 + 5, (witness,)))
        watched.feed(progress(2 * HOUR, 15), read(2 * HOUR, 15))
        assert ranges(watched) == ranges(watched, RU) == []

    def test_a_reading_without_a_last_stable_offset_takes_no_earlier_report_back(self, watched: Comparison) -> None:
        at = HOUR // 2
        watched.feed([{**row, "last_stable_offset": 10 if row["broker"] == 3 else 0} for row in progress(at, 10)])
        watched.feed(shown(RU, 3, [], 0, at, high_watermark=10, last_stable_offset=-1))
        watched.feed([{**row, "last_stable_offset": 0} for row in progress(at + 9, 10) if row["broker"] == 1])
        watched.feed(read(at + HOUR, 10))
        assert ranges(watched) == [(0, 10, GAP)]

    def test_a_reader_that_is_behind_by_more_than_the_retention_shows_nothing_in_time(
        self, watched: Comparison
    ) -> None:
        for step in range(1, 8):
            watched.feed(progress(step * HOUR // 2, 10 * step), read(step * HOUR // 2, 1 + step))
        assert unknown(watched, GAP)[RC] > 0

    def test_a_reader_that_is_behind_by_less_than_half_the_retention_misses_nothing(self, watched: Comparison) -> None:
        for step in range(1, 40):
            watched.feed(progress(step * HOUR // 10, 10 * step), read(step * HOUR // 10, max(0, 10 * (step - 4))))
        assert ranges(watched) == ranges(watched, RU) == []

    def test_a_replica_that_comes_back_with_what_the_others_have_left_is_no_witness(self, watched: Comparison) -> None:
        """Only the leader can tell when a record was written; a copy of its cleaned log is as late as any reading."""
        watched.feed(progress(2 * HOUR, 0, down=(1, 3)), read(2 * HOUR, 0, (2,)))
        watched.feed(progress(2 * HOUR + 5, 10, down=(1, 3)), read(2 * HOUR + 5, 10, (2,)))
        watched.feed(progress(2 * HOUR + 9, 10), read(2 * HOUR + 9, 10))
        assert ranges(watched) == [(0, 10, GAP)]

    @pytest.mark.parametrize("ahead", [30, 50])
    def test_a_bound_of_a_clock_that_was_ahead_says_nothing(self, ahead: int) -> None:
        comparison = Comparison()
        comparison.feed(progress(ahead * HOUR, 0, 24 * HOUR), read(0, 0))
        comparison.feed(read(40 * HOUR, 10))
        assert ranges(comparison) == ranges(comparison, RU) == ([(0, 10, GAP)] if ahead == 50 else [])

    @pytest.mark.parametrize("ahead", [0, 10, 20, 30, 50, 100])
    def test_how_far_it_was_ahead_is_known_by_when_the_settings_were_asked_for(self, ahead: int) -> None:
        def of(at: int, end: int) -> list[Row]:
            asked = {"compacted": 1, "policy_at": at * HOUR}
            return [row | asked for row in progress((at + ahead) * HOUR, end, 24 * HOUR)]

        comparison = Comparison()
        comparison.feed(of(0, 0), read(0, 0))
        for at in (12, 24, 36):
            comparison.feed(of(at, at), read(at * HOUR, at))
        assert ranges(comparison) == ranges(comparison, RU) == [], "it is no gap, as long as it is read"
        comparison.feed(of(76, 50), read(76 * HOUR, 50))
        assert ranges(comparison) == ranges(comparison, RU) == [(36, 50, GAP)]

    def test_a_reading_that_is_recorded_after_a_later_tick_is_in_time(self, watched: Comparison) -> None:
        watched.feed(progress(HOUR // 2, 10))
        watched.feed(read(HOUR // 2 - 500_000, 10))
        assert ranges(watched) == ranges(watched, RU) == []

    def test_a_long_transaction_makes_nothing_unknown(self, watched: Comparison) -> None:
        """The cleaner touches nothing above a last stable offset."""
        for step in range(1, 9):
            at = step * HOUR // 4
            rows = [{**row, "last_stable_offset": 3} for row in progress(at, 10 * step)]
            positions = [
                r for b in (1, 2, 3) for view, end in ((RU, 10 * step), (RC, 3))
                for r in shown(view, b, [], end, at, high_watermark=10 * step, last_stable_offset=3)
            ]  # fmt: skip
            watched.feed(rows, positions)
        watched.feed(progress(2 * HOUR + 9, 90), read(2 * HOUR + 9, 90))
        assert ranges(watched) == ranges(watched, RU) == []

    def test_without_the_right_to_ask_the_retention_is_a_day(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 0, None), read(0, 0))
        comparison.feed(progress(23 * HOUR, 10, None), read(23 * HOUR, 10))
        assert ranges(comparison) == []
        comparison.feed(progress(48 * HOUR, 20, None), read(48 * HOUR, 20))
        assert ranges(comparison) == [(10, 20, GAP)]

    @pytest.mark.parametrize(("late", "expected"), [(0, []), (1, [(0, 10, GAP)])])
    def test_a_day_is_kafkas_default_to_the_millisecond(
        self, late: int, expected: list[tuple[int, int, UnknownReason]]
    ) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 0, None), read(0, 0))
        at = 24 * HOUR + late
        comparison.feed(progress(at, 10, None), read(at, 10))
        assert ranges(comparison) == expected

    def test_a_retention_of_zero_is_one(self, watched: Comparison) -> None:
        watched.feed(progress(1, 5, 0), read(1, 5))
        assert ranges(watched) == [(0, 5, GAP)]

    def test_of_several_retentions_in_one_step_the_last_one_counts_from_then_on(self, watched: Comparison) -> None:
        watched.feed(progress(2, 0, 5 * HOUR), progress(1, 0, HOUR), read(2, 0))
        watched.feed(progress(4 * HOUR, 10, None), read(4 * HOUR, 10))
        assert ranges(watched) == []

    def test_a_last_stable_offset_of_0_is_one_and_bounds_what_read_committed_may_show(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 0), read(0, 0))
        for at in range(HOUR // 4, 2 * HOUR + 1, HOUR // 4):
            rows = [{**row, "last_stable_offset": 0} for row in progress(at, 10)]
            positions = [
                shown(view, b, [], end, at, high_watermark=10, last_stable_offset=0)
                for b in (1, 2, 3) for view, end in ((RU, 10), (RC, 0))
            ]  # fmt: skip
            comparison.feed(rows, *positions)
        comparison.feed(progress(2 * HOUR + 9, 10), read(2 * HOUR + 9, 10))
        assert ranges(comparison) == []

    def test_what_an_unreachable_replica_is_said_to_hold_bounds_nothing(self, watched: Comparison) -> None:
        silent = [{**row, "reachable": row["broker"] != 3} for row in progress(HOUR // 2, 0)]
        watched.feed(silent, read(HOUR // 2, 0, (1, 2)))
        written = [{**row, "reachable": row["broker"] != 3} for row in progress(2 * HOUR, 10)]
        watched.feed(written, read(2 * HOUR, 10))
        assert ranges(watched) == [(0, 10, GAP)]

    @pytest.mark.parametrize(("late", "expected"), [(0, []), (1, [(0, 10, GAP)])])
    @pytest.mark.parametrize("by_reader", [False, True])
    def test_a_last_stable_offset_is_believed_for_a_quarter_of_the_retention(
        self, watched: Comparison, late: int, expected: list[tuple[int, int, UnknownReason]], by_reader: bool
    ) -> None:
        """What lay open at the last reports of all was committed since; no cleaner has touched it by then."""
        reported = HOUR // 2
        last = [{**row, "last_stable_offset": 0} for row in progress(reported, 10) if row["broker"] != 1]
        if by_reader:
            last = [*last[:-1], *shown(RU, 3, [], 0, reported, high_watermark=10, last_stable_offset=0)]
        watched.feed(last)
        asked = reported + HOUR // 4 + late
        watched.feed([{**row, "last_stable_offset": 0} for row in progress(asked, 10) if row["broker"] == 1])
        watched.feed(read(reported + HOUR, 10))
        assert ranges(watched) == expected

    def test_where_the_last_stable_offset_of_one_is_not_known_the_high_watermark_bounds_both(
        self, watched: Comparison
    ) -> None:
        at = HOUR // 2
        unsaid = [{**row, "last_stable_offset": -1 if row["broker"] == 3 else 0} for row in progress(at, 10)]
        watched.feed(unsaid)
        watched.feed(read(HOUR + 1, 10))
        assert ranges(watched) == [(0, 10, GAP)]

    @pytest.mark.parametrize(("late", "end"), [(0, 10), (1, 20)])
    def test_what_the_leader_said_counts_until_it_is_older_than_the_retention(
        self, watched: Comparison, late: int, end: int
    ) -> None:
        watched.feed(progress(HOUR // 2, 10))
        at = HOUR // 2 + HOUR + late
        watched.feed(progress(at, 20), read(at, 20))
        assert ranges(watched, RU) == [(0, end, GAP)]

    def test_of_two_retentions_the_shorter_one_counts(self, watched: Comparison) -> None:
        watched.feed(progress(2 * HOUR, 10, 24 * HOUR), read(2 * HOUR, 10))
        assert ranges(watched) == [(0, 10, GAP)]
        watched.feed(progress(20 * HOUR, 20, 24 * HOUR), read(20 * HOUR, 20))
        assert ranges(watched) == [(0, 10, GAP)]

    def test_what_was_never_compacted_is_not_cleaned_before_it_is_read(self) -> None:
        comparison = Comparison(before=never_compacted())
        comparison.feed(progress(0, 0), read(0, 0))
        comparison.feed(progress(2 * HOUR, 10), read(2 * HOUR, 10))
        assert {reason for *_, reason in ranges(comparison)} == {UnknownReason.LOST_UNREAD}, "positions alone were read"

    def test_batches_cut_in_another_way_say_the_same(self) -> None:
        parts = [progress(0, 0), read(0, 0), progress(2 * HOUR, 10), read(2 * HOUR + 1, 10), progress(2 * HOUR + 2, 12)]
        parts += [read(2 * HOUR + 3, 12)]
        whole, cut = Comparison(), Comparison()
        whole.feed(*parts)
        for part in parts:
            cut.feed(part)
        assert ranges(whole) == ranges(cut) == [(0, 10, GAP)]


class TestFirstReading:
    def test_what_a_replica_held_before_it_was_first_read_is_unknown(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 7), read(5, 7))
        assert ranges(comparison) == ranges(comparison, RU) == [(0, 7, FIRST)]
        comparison.feed(progress(10, 9), read(15, 9))
        assert unknown(comparison, FIRST) == (7, 7)

    def test_a_backlog_is_unknown_up_to_where_the_log_went_when_it_was_first_read(self) -> None:
        comparison = Comparison()
        first = [
            r
            for b in (1, 2, 3)
            for v in (RU, RC)
            for r in shown(v, b, [], 3, 5, high_watermark=9, last_stable_offset=8)
        ]
        comparison.feed(progress(0, 9), first)
        comparison.feed(read(3 * HOUR, 9), progress(3 * HOUR, 9))
        assert ranges(comparison, RU) == [(0, 9, FIRST)]
        assert ranges(comparison, RC) == [(0, 8, FIRST), (8, 9, FIRST)]

    def test_what_is_read_before_its_write_time_is_known_is_no_gap_of_a_retention_of_a_day(self) -> None:
        """A topic that is seconds old: one replica is read twice before the first report on all."""
        comparison = Comparison()
        comparison.feed(progress(1000, 5, 24 * HOUR, down=BROKERS), read(1001, 5, (1,)))
        comparison.feed(read(1500, 12, (1,)))
        comparison.feed(progress(2000, 17, 24 * HOUR), read(2001, 17))
        assert unknown(comparison, GAP) == (0, 0)
        assert unknown(comparison, FIRST) == (17, 17)
        comparison.feed(progress(3000, 20, 24 * HOUR), read(3001, 20))
        assert unknown(comparison, FIRST) == (17, 17)
        comparison.feed(progress(60 * HOUR, 30, 24 * HOUR), read(60 * HOUR, 30))
        assert unknown(comparison, GAP) == (10, 10), "a real one is named"

    def test_everything_is_unknown_while_a_replica_has_never_been_read(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 0), read(0, 0, (1, 2)))
        comparison.feed(progress(5, 6, down=(3,)), read(5, 6, (1, 2)))
        assert unknown(comparison, FIRST) == (6, 6)
        assert unknown(comparison, UnknownReason.NOT_READ_YET) == (0, 0)

    def test_one_that_is_read_long_after_the_others_is_unknown_in_all_that_it_held(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 0), read(0, 0, (1, 2)))
        for step in range(1, 6):
            at = step * HOUR // 2
            comparison.feed(progress(at, 2 * step, down=(3,)), read(at, 2 * step, (1, 2)))
        comparison.feed(progress(5 * HOUR // 2 + 9, 10), read(5 * HOUR // 2 + 10, 10, (3,)))
        (found,) = ranges(comparison)
        assert found[0] == 0
        assert found[1] >= 8
        assert found[2] is FIRST

    def test_a_topic_that_is_followed_from_its_beginning_leaves_nothing_unknown(self, watched: Comparison) -> None:
        watched.feed(progress(5, 4), read(5, 4))
        assert ranges(watched) == ranges(watched, RU) == []

    def test_readers_that_begin_at_the_log_end_are_not_asked_about_what_lies_below(self) -> None:
        comparison = Comparison(from_log_start=False)
        comparison.feed(progress(0, 7), read(5, 7))
        assert ranges(comparison) == []

    def test_readers_that_begin_at_the_log_end_are_asked_from_where_they_themselves_began(self) -> None:
        comparison = Comparison(from_log_start=False)
        late = [row for view in (RU, RC) for row in shown(view, 3, [filler(6)], 9, 3 * HOUR)]
        comparison.feed(progress(0, 2), read(0, 2, (1, 2)))
        for step in (1, 2, 3, 4, 5):
            comparison.feed(progress(step * HOUR // 2, 2 + step), read(step * HOUR // 2, 2 + step, (1, 2)))
        others = both(1, [filler(3)], 9, 3 * HOUR)
        comparison.feed(progress(3 * HOUR, 9), others, read(3 * HOUR, 9, (2,)), late)
        assert ranges(comparison) == ranges(comparison, RU) == [(6, 9, FIRST)]

    @pytest.mark.parametrize(("stable", "reason"), [(0, GAP), (-1, FIRST)])
    def test_where_nothing_is_committed_yet_read_committed_is_followed_from_its_beginning(
        self, stable: int, reason: UnknownReason
    ) -> None:
        """There is nothing to read, so no reading says so; unless it is not known where the last stable offset is."""
        comparison = Comparison()
        open_from_0 = [{**row, "last_stable_offset": 0, "leader": 3} for row in progress(0, 5)]
        first = [shown(RU, b, [], 5, 5, high_watermark=5, last_stable_offset=stable) for b in BROKERS]
        comparison.feed(open_from_0, *first)
        comparison.feed(progress(2 * HOUR, 9), read(2 * HOUR + 5, 9))
        assert ranges(comparison) == [(0, 9, reason)]
        assert ranges(comparison, RU) == [(0, 5, FIRST), (5, 9, GAP)]
        assert unknown(comparison, GAP) == (4, 9 if reason is GAP else 0), "each view by its own ranges"

    def test_a_backlog_that_was_written_in_time_and_is_read_late_is_unknown(self) -> None:
        """That its first reading was in time says nothing of what that reading did not come to."""
        comparison = Comparison()
        comparison.feed(progress(0, 5))
        first = [shown(v, b, [], 3, 5, high_watermark=9, last_stable_offset=9) for b in BROKERS for v in (RU, RC)]
        comparison.feed(progress(HOUR // 2, 9), *first)
        comparison.feed(progress(3 * HOUR, 9), read(3 * HOUR, 9))
        assert ranges(comparison) == ranges(comparison, RU) == [(0, 5, FIRST), (5, 9, GAP)]

    def test_what_retention_has_deleted_is_not_counted(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 7), read(5, 7))
        comparison.feed([{**row, "log_start_offset": 4} for row in progress(10, 7)])
        assert ranges(comparison) == [(4, 7, FIRST)]

    def test_a_replica_that_comes_back_to_the_set_is_read_for_the_first_time_again(self, watched: Comparison) -> None:
        watched.feed(progress(5, 4), read(5, 4))
        watched.feed([{**row, "replicas": (1, 2)} for row in progress(10, 4)])
        watched.feed(progress(2 * HOUR, 4), read(2 * HOUR, 4))
        assert ranges(watched) == [(0, 4, FIRST)]

    @pytest.mark.parametrize("written", [0, 10])
    @pytest.mark.parametrize("earliest", [False, True])
    def test_nothing_is_known_of_the_log_that_a_replica_comes_back_with_below_where_it_is_read_on(
        self, written: int, *, earliest: bool
    ) -> None:
        """Readers that begin at the log end are asked from where the first of them began, and no further down."""
        comparison, first = Comparison(from_log_start=earliest), 0 if earliest else 100
        comparison.feed(progress(0, first), read(1, first))
        comparison.feed(progress(10, 200), read(11, 200))
        comparison.feed(progress(20, 200))
        assert ranges(comparison) == ranges(comparison, RU) == []
        comparison.feed([{**row, "replicas": (1, 2)} for row in progress(30, 200)])
        comparison.feed(progress(40, 200 + written), read(41, 200 + written))
        comparison.feed(progress(50, 200 + written))
        assert unknown(comparison, FIRST) == (200 + written - first,) * 2


def added(at: int, broker: int) -> list[Row]:
    """The rows by which the readers of a replica begin, which say nothing of its log."""
    unsaid = {"high_watermark": -1, "last_stable_offset": -1, "log_start_offset": -1}
    event = ReadEvent.PARTITION_ADDED
    return [row for view in (RU, RC) for row in shown(view, broker, [], 0, at, event=event, **unsaid)]


def showing(at: int, span: tuple[int, int], end: int, brokers: tuple[int, ...] = BROKERS, **more: Any) -> list[Row]:
    """Readers of both levels that are shown every offset of a range, of logs that go to ``end``."""
    rows = [filler(n) for n in range(*span) if n not in more.get("cleaned", ())]
    ends = {"high_watermark": end, "last_stable_offset": more.get("stable", end)}
    return [r for b in brokers for v in (RU, RC) for r in shown(v, b, rows, span[1], at, **ends)]


@pytest.mark.parametrize("begins", [True, False], ids=["with the row that begins a reader", "without it"])
class TestAHealthyFirstStart:
    """A topic of minutes that no cleaner has come to, with a retention of a day."""

    T = 1_000_000
    DAY = 24 * HOUR

    def begun(self, begins: bool) -> list[Row]:
        return [row for b in BROKERS for row in added(self.T, b)] if begins else []

    def test_nothing_is_unknown_where_every_offset_is_shown(self, begins: bool) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), progress(self.T, 30, self.DAY), showing(self.T + 300, (0, 40), 40))
        comparison.feed(progress(self.T + 5000, 50, self.DAY), showing(self.T + 5300, (40, 60), 60))
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_nor_where_the_readings_are_recorded_before_the_first_progress(self, begins: bool) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), showing(self.T + 300, (0, 40), 40))
        comparison.feed(showing(self.T + 3000, (40, 45), 45), progress(self.T + 5000, 48, self.DAY))
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_nor_where_the_log_is_read_in_pieces(self, begins: bool) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), progress(self.T, 30, self.DAY), showing(self.T + 300, (0, 10), 40))
        assert ranges(comparison) == []
        for n in (1, 2, 3):
            comparison.feed(showing(self.T + 300 + n, (10 * n, 10 * n + 10), 40))
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_nor_where_the_readers_have_an_end_marker_for_an_offset(self, begins: bool) -> None:
        comparison = Comparison()
        rows = [record(0, "K", "V", pid=7, outcome=Outcome.COMMITTED), commit(1, 7), filler(2)]
        whole = [r for b in BROKERS for v in (RU, RC) for r in shown(v, b, rows, 3, self.T + 300)]
        comparison.feed(self.begun(begins), progress(self.T, 3, self.DAY), whole)
        assert ranges(comparison) == ranges(comparison, RU) == []

    @pytest.mark.parametrize("hole", [0, 5, 29])
    def test_what_lies_below_is_unknown_as_soon_as_one_offset_is_not_shown(self, hole: int, begins: bool) -> None:
        comparison = Comparison()
        lacking = showing(self.T + 300, (0, 40), 40, (2,), cleaned=(hole,))
        whole = showing(self.T + 300, (0, 40), 40, (1, 3))
        comparison.feed(self.begun(begins), progress(self.T, 30, self.DAY), lacking, whole)
        assert ranges(comparison) == ranges(comparison, RU) == [(0, 30, FIRST)]

    def test_it_is_unknown_too_where_it_was_shown_whole_by_earlier_pieces(self, begins: bool) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), progress(self.T, 30, self.DAY), showing(self.T + 300, (0, 10), 40))
        comparison.feed(showing(self.T + 400, (10, 40), 40, cleaned=(25,)))
        assert ranges(comparison) == ranges(comparison, RU) == [(0, 30, FIRST)]

    def test_a_hole_above_what_was_written_before_is_none(self, begins: bool) -> None:
        """What was written since the first look cannot have been cleaned away within the retention."""
        comparison = Comparison()
        comparison.feed(
            self.begun(begins), progress(self.T, 30, self.DAY), showing(self.T + 300, (0, 40), 40, cleaned=(30, 35))
        )
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_what_is_written_after_all_were_read_is_in_time_before_progress_is_recorded(self, begins: bool) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), read(self.T + 300, 1563))
        comparison.feed(progress(self.T + 5000, 1578, self.DAY), read(self.T + 3000, 1585))
        assert ranges(comparison) == ranges(comparison, RU) == [(0, 1563, FIRST)]

    def test_a_replica_that_is_first_read_long_after_the_others_is_known_if_it_is_shown_whole(
        self, begins: bool
    ) -> None:
        comparison = Comparison()
        comparison.feed(self.begun(begins), progress(self.T, 30, down=(3,)), showing(self.T, (0, 30), 30, (1, 2)))
        for n in range(1, 5):
            at = self.T + n * HOUR // 2
            comparison.feed(progress(at, 30 + n, down=(3,)), showing(at, (29 + n, 30 + n), 30 + n, (1, 2)))
        comparison.feed(progress(at, 34), showing(at, (0, 34), 34, (3,)))
        assert ranges(comparison) == ranges(comparison, RU) == []


class TestATopicYoungerThanTheJob:
    """Its readers begin before its first row of progress, and not all of them in one step."""

    T = 1_000_000
    DAY = 24 * HOUR

    def begun(self, **more: Any) -> Comparison:
        """One replica is read from its beginning on, then the second one, while records are written."""
        comparison = Comparison()
        comparison.feed(*(added(self.T, b) for b in BROKERS), showing(self.T + 300, (0, 10), 10, (1,)))
        second = showing(self.T + 600, (0, 20), 20, (2,))
        comparison.feed(showing(self.T + 600, (10, 20), 20, (1,), **more), second)
        return comparison

    @pytest.mark.parametrize("compacted", [0, 1], ids=["delete", "compact"])
    def test_nothing_is_unknown_though_progress_and_a_replica_come_later(self, compacted: int) -> None:
        comparison = self.begun()
        comparison.feed(showing(self.T + 900, (20, 30), 30, (1, 2)), showing(self.T + 900, (0, 30), 30, (3,)))
        policy = {"compacted": compacted, "deletes": 1 - compacted, "policy_at": self.T + 2000}
        said = [row | policy for row in progress(self.T + 2000, 40, self.DAY)]
        comparison.feed(said, showing(self.T + 2300, (30, 50), 50))
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_nor_where_a_broker_is_away_when_it_is_created(self) -> None:
        comparison = self.begun()
        away = progress(self.T + 2000, 40, self.DAY, down=(3,))
        comparison.feed(away, showing(self.T + 2300, (20, 50), 50, (1, 2)))
        back = showing(self.T + 9300, (0, 60), 60, (3,))
        comparison.feed(progress(self.T + 9000, 60, self.DAY), showing(self.T + 9300, (50, 60), 60, (1, 2)), back)
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_nor_where_nothing_is_committed_at_first(self) -> None:
        comparison = Comparison()
        first = [shown(RU, b, [filler(0)], 1, self.T, last_stable_offset=0) for b in (1, 2)]
        comparison.feed(*first)
        comparison.feed(showing(self.T + 300, (0, 9), 9, (1, 2)))
        comparison.feed(progress(self.T + 900, 9, self.DAY), showing(self.T + 900, (0, 9), 9, (3,)))
        assert ranges(comparison) == ranges(comparison, RU) == []

    def test_what_is_cleaned_before_anything_dates_it_is_unknown(self) -> None:
        comparison = self.begun(cleaned=(15,))
        comparison.feed(progress(self.T + 2000, 40, self.DAY), showing(self.T + 2300, (20, 50), 50))
        assert unknown(comparison, FIRST)[RU] >= 20

    def test_what_is_read_late_after_progress_has_dated_it_is_a_gap_though_it_is_shown_whole(self) -> None:
        comparison = self.begun()
        comparison.feed(progress(self.T + 700, 20), showing(self.T + 800, (0, 20), 20, (3,)))
        late = self.T + 2 * HOUR
        comparison.feed(progress(late, 30), showing(late, (20, 30), 30))
        assert ranges(comparison) == ranges(comparison, RU) == [(20, 30, GAP)]


class TestShownWhole:
    def test_what_is_followed_and_read_too_late_is_a_gap_though_every_offset_is_shown(
        self, watched: Comparison
    ) -> None:
        watched.feed(progress(2 * HOUR, 10), showing(2 * HOUR, (0, 10), 10))
        assert ranges(watched) == ranges(watched, RU) == [(0, 10, GAP)]

    @pytest.mark.parametrize("hole", [0, 9])
    def test_and_is_a_gap_where_one_is_not(self, watched: Comparison, hole: int) -> None:
        watched.feed(progress(2 * HOUR, 10), showing(2 * HOUR, (0, 10), 10, cleaned=(hole,)))
        assert ranges(watched) == ranges(watched, RU) == [(0, 10, GAP)]

    def test_an_emptied_end_marker_shows_nothing(self, watched: Comparison) -> None:
        rows = [filler(0), {"kind": RowKind.EMPTIED, "offset": 1, "producer_id": 7}, filler(2)]
        watched.feed(progress(2 * HOUR, 3), *(shown(RC, b, rows, 3, 2 * HOUR) for b in BROKERS))
        assert ranges(watched) == [(0, 3, GAP)]


class TestRanges:
    def test_those_that_overlap_become_one_and_neighbours_stay_apart(self) -> None:
        state = PartitionState()
        for start, end, since in ((5, 9, 3), (0, 5, 1)):
            unread.add(state, RC, start, end, GAP, since)
        assert len(state.unread) == 2
        unread.add(state, RC, 3, 7, GAP, 2)
        unread.add(state, RC, 9, 12, GAP, 9)
        unread.add(state, RC, 4, 4, GAP, 9)
        unread.add(state, RU, 0, 5, GAP, 9)
        unread.add(state, RC, 0, 5, FIRST, 8)
        rows = [(int(r["view"]), int(r["start"]), int(r["end"]), int(r["since"])) for r in state.unread]
        assert sorted(rows) == [(RU, 0, 5, 9), (RC, 0, 5, 8), (RC, 0, 9, 3), (RC, 9, 12, 9)]

    def test_there_are_never_more_than_so_many(self, watched: Comparison) -> None:
        for step in range(1, unread.MAX_RANGES + 20):
            watched.feed(progress(2 * step * HOUR, 10 * step), read(2 * step * HOUR, 10 * step))
        found = ranges(watched)
        assert len(found) == unread.MAX_RANGES
        assert (found[0][0], found[-1][1]) == (0, 10 * (unread.MAX_RANGES + 19))
        sizes = np.diff([start for start, _, _ in found])
        assert sizes[0] == 10 * 20, "the oldest neighbours become one"
        assert set(sizes[1:]) == {10}

    def test_those_of_unlike_reasons_never_become_one(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 7), read(5, 7))
        for step in range(1, unread.MAX_RANGES + 1):
            comparison.feed(progress(2 * step * HOUR, 10 * step), read(2 * step * HOUR, 10 * step))
        found = ranges(comparison)
        assert found[:2] == [(0, 7, FIRST), (7, 20, GAP)]
        assert len(found) == unread.MAX_RANGES

    def test_where_two_become_one_it_is_as_recent_as_the_later_of_them(self, watched: Comparison) -> None:
        for step in range(1, unread.MAX_RANGES + 2):
            watched.feed(progress(2 * step * HOUR, 10 * step), read(2 * step * HOUR, 10 * step))
        assert watched.last is not None
        first = watched.last.coverage.unread[0]
        assert (first.start, first.end, first.since) == (0, 20, 4 * HOUR)

    def test_an_offset_counts_for_one_reason_only(self) -> None:
        comparison = Comparison()
        comparison.feed(progress(0, 7), read(5, 7, (1, 2)))
        comparison.feed(progress(2 * HOUR, 9), read(2 * HOUR, 9, (1, 2)))
        comparison.feed(read(2 * HOUR + 5, 9, (3,)))
        assert unknown(comparison, FIRST)[RC] + unknown(comparison, GAP)[RC] == 9


def test_what_a_first_reading_has_not_come_to_is_read_by_nobody_once_its_replica_has_left() -> None:
    """1 is read in part; while nobody reads, 20 to 59 are cleaned everywhere, and 1 is taken off the partition."""
    comparison, late = Comparison(), 3 * HOUR
    comparison.feed(progress(0, 100), showing(5, (0, 10), 100, (1,)), showing(5, (0, 5), 5, (2, 3)))

    def of_two(at: int) -> list[dict[str, object]]:
        return [{**row, "replicas": (2, 3)} for row in progress(at, 100) if row["broker"] != 1]

    comparison.feed(of_two(late), showing(late + 5, (5, 100), 100, (2, 3), cleaned=tuple(range(20, 60))))
    comparison.feed(of_two(late + 10))
    assert unknown(comparison, GAP)[RU] + unknown(comparison, FIRST)[RU] >= 40
