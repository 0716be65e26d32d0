"""What breaks the order of offsets: truncated logs, jumps of the log start, topics that are re-created or deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare import replicas
from parallax.compare.breaks import apply_breaks, of_the_topic
from parallax.compare.rules.arrays import table
from parallax.compare.state import (
    CONTENT,
    DISPUTED,
    INTERVAL,
    MARKER,
    NEVER,
    PENDING,
    UNENDED,
    UNREAD_REASONS,
    PartitionState,
)
from parallax.compare.step import step
from parallax.config import CompareSettings
from parallax.model import GAPS, ReadEvent, UnknownReason
from tests.unit.compare.history import RC, RU, Row, record, shown, tick
from tests.unit.compare.states import VIEWS, left_behind, observed, state

SKIPPED = UNREAD_REASONS.index(UnknownReason.SKIPPED)


class TestBreaks:
    def apply(self, made: PartitionState, *batches: list[Row]) -> tuple[list[int], list[Any]]:
        rows, accusations = apply_breaks(made, of_the_topic(made, observed(*batches)).rows)
        return rows.offset.tolist(), accusations

    def read(self) -> PartitionState:
        made = state(1, 2)
        made.brokers["position"] = made.brokers["shown"] = [[10, 8], [10, 8]]
        made.intervals = table(INTERVAL, 4, slot=[0, 0, 0, 1], start=[1, 5, 6, 5], end=[4, 7, NEVER, NEVER])
        return made

    def test_a_log_that_was_truncated_lost_what_it_had_shown(self) -> None:
        made = self.read()
        made.partition["floor"][0] = (3, 2)
        cut = shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED)
        offsets, accusations = self.apply(made, cut, shown(RU, 2, [], 12))
        assert offsets == [12]
        assert [(str(a.kind), a.broker, a.offset) for a in accusations] == [("log_truncated", 1, 6)]
        assert made.brokers["position"].tolist() == [[6, 8], [10, 8]]
        assert made.brokers["shown"].tolist() == [[6, 8], [10, 8]]
        assert made.partition["floor"][0].tolist() == [10, 8]
        assert left_behind(made) == [7, 6], "what waited below the cut is given up as well"
        assert sorted(made.intervals["start"].tolist()) == [1, 5]

    def test_of_rows_that_are_not_kept_all_that_lies_below_is_unknown(self) -> None:
        for event, start in ((ReadEvent.BATCH_SKIPPED, 10), (ReadEvent.NOT_KEPT, 3)):
            made = self.read()
            made.partition["floor"][0] = (3, 2)
            self.apply(made, shown(RU, 1, [], 14, 70, event=event))
            assert made.unread.tolist() == [(RU, SKIPPED, start, 14, 70)]
            assert made.partition["floor"][0].tolist() == [14, 2]

    @pytest.mark.parametrize("event", sorted(GAPS))
    def test_of_a_reader_whose_first_row_says_that_rows_are_missing_all_below_is_unknown(
        self, event: ReadEvent
    ) -> None:
        made = state(1, 2)
        made.partition["floor"][0] = (3, 2)
        self.apply(made, shown(RU, 1, [], 14, 70, event=event))
        assert made.unread.tolist() == [(RU, SKIPPED, 3, 14, 70)]
        assert made.partition["floor"][0].tolist() == [14, 2]

    @pytest.mark.parametrize("event", [ReadEvent.BATCH_SKIPPED, ReadEvent.LOG_START_ADVANCED, ReadEvent.NOT_KEPT])
    def test_an_end_marker_may_lie_in_what_a_reader_passed_over_and_others_are_not_concerned(
        self, event: ReadEvent
    ) -> None:
        made = self.read()
        made.unended = table(UNENDED, 5, slot=[0, 0, 0, 1, 1], offset=[3, 11, 12, 3, 12])
        self.apply(made, shown(RC, 1, [], 12, event=event))
        assert made.unended[["slot", "offset"]].tolist() == [(0, 12), (1, 3), (1, 12)]

    def test_what_lies_below_where_a_log_was_truncated_is_unknown_until_an_audit(self) -> None:
        made = self.read()
        made.brokers["log_start_offset"] = 2
        self.apply(made, shown(RU, 1, [], 6, 70, event=ReadEvent.LOG_TRUNCATED))
        left = [(RU, SKIPPED, 0, 10, 70), (RC, SKIPPED, 0, 8, 70)]
        assert made.unread.tolist() == [(RU, 0, 2, 6, 70), (RC, 0, 2, 6, 70), *left]

    def test_a_truncation_that_read_committed_reports_counts_ahead_of_the_other_view(self) -> None:
        for position, starts in ((6, [1, 5]), (7, [1, 5, 5, 6])):
            made = self.read()
            made.brokers["shown"][0] = (position, 8)
            self.apply(made, shown(RC, 1, [], 6, event=ReadEvent.LOG_TRUNCATED))
            assert sorted(made.intervals["start"].tolist()) == starts

    def test_where_only_compaction_moves_nothing_a_lost_head_hides_nothing_of_the_others(self) -> None:
        made = self.read()
        made.brokers = np.concatenate([made.brokers, state(3).brokers])
        made.brokers["member"], made.brokers["log_start_offset"] = True, 2
        made.partition["deletes"] = 0
        self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert left_behind(made) == [3, 0]
        assert made.partition["floor"][0].tolist() == [2, 0]
        self.apply(made, shown(RU, 2, [], 15, event=ReadEvent.LOG_START_ADVANCED))
        assert made.partition["floor"][0].tolist() == [13, 0]

    def test_the_end_markers_of_a_log_that_was_truncated_count_no_longer_for_it(self) -> None:
        made = self.read()
        made.markers = table(MARKER, 3, offset=[5, 6, 7], shown=[0b11, 0b10, 0b11])
        self.apply(made, shown(RU, 2, [], 6, event=ReadEvent.LOG_TRUNCATED))
        assert made.markers[["offset", "shown"]].tolist() == [(5, 0b11), (7, 0b01)]

    def test_one_that_lost_nothing_that_was_shown_is_no_suspect(self) -> None:
        for view, offset in ((RU, 10), (RC, 3)):
            made = self.read()
            assert self.apply(made, shown(view, 1, [], offset, event=ReadEvent.LOG_TRUNCATED))[1] == []

    def test_what_was_shown_in_the_batch_of_a_truncation_is_lost_as_well(self) -> None:
        made = self.read()
        read = shown(RU, 1, [record(13, "K", "V")], 14)
        cut = shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED, leader_epoch=3)
        offsets, (accusation,) = self.apply(made, read, cut, shown(RU, 1, [record(7, "K", "V")], 8))
        assert offsets == [7, 8], "what comes behind it is of the log that took its place"
        assert accusation.observations == {"shown_to": {"1": 14}, "epochs": {"1": 3}}
        assert made.brokers["position"].tolist() == [[6, 8], [10, 8]]
        assert made.brokers["shown"].tolist() == [[6, 8], [10, 8]]
        assert made.partition["floor"][0].tolist() == [14, 8]
        assert left_behind(made) == [14, 8]

    def test_read_committed_compares_nothing_up_to_where_a_truncated_log_had_been_read(
        self,
    ) -> None:
        for offset, floor, skipped in ((6, 8, 8), (8, 0, 0), (9, 0, 0)):
            made = self.read()
            self.apply(made, shown(RU, 1, [], offset, event=ReadEvent.LOG_TRUNCATED))
            assert made.brokers["position"].tolist() == [[offset, 8], [10, 8]]
            assert (made.partition["floor"][0, RC], left_behind(made)[RC]) == (floor, skipped)

    def test_what_a_batch_shows_after_a_truncation_is_none_of_what_was_lost(self) -> None:
        made = self.read()
        cut = shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED, leader_epoch=3)
        (accusation,) = self.apply(made, cut, shown(RU, 1, [record(19, "K", "V")], 20))[1]
        assert accusation.observations["shown_to"] == {"1": 10}
        assert made.partition["floor"][0].tolist() == [10, 8]

    @pytest.mark.parametrize(("offset", "starts"), [(4, [5]), (5, [1, 5]), (8, [1, 5, 5])])
    def test_a_transaction_whose_marker_was_truncated_is_forgotten(self, offset: int, starts: list[int]) -> None:
        made = self.read()
        self.apply(made, shown(RU, 1, [], offset, event=ReadEvent.LOG_TRUNCATED))
        assert sorted(made.intervals["start"].tolist()) == starts

    def test_an_end_marker_that_was_truncated_is_none_of_the_log_that_took_its_place(self) -> None:
        made = self.read()
        made.markers = table(MARKER, 3, offset=[4, 6, 7], shown=[0b11, 0b11, 0b01])
        self.apply(made, shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED))
        assert list(zip(made.markers["offset"], made.markers["shown"], strict=True)) == [(4, 0b11), (6, 0b10)]

    @pytest.mark.parametrize("view", VIEWS)
    def test_what_a_log_showed_before_it_was_truncated_is_held_against_no_later_marker(self, view: int) -> None:
        made = self.read()
        made.unended = table(UNENDED, 2, slot=[0, 1], offset=[2, 2])
        self.apply(made, shown(view, 1, [], 6, event=ReadEvent.LOG_TRUNCATED))
        assert made.unended["slot"].tolist() == [1]

    @pytest.mark.parametrize("view", VIEWS)
    def test_an_outcome_by_a_truncated_end_marker_is_not_of_the_log_that_took_its_place(self, view: int) -> None:
        made = self.read()
        made.markers = table(MARKER, 2, offset=[3, 7], producer_id=[9, 9], shown=[0b11, 0b11])
        made.pending = table(
            PENDING,
            5,
            offset=[2, 4, 4, 4, 5],
            producer_id=[9, 9, 8, -1, 9],
            visible=[0b11, 0b10, 0b01, 0b11, 0b01],
            aborted=[0, 0b01, 0b10, 0, 0],
            flags=[0, DISPUTED, DISPUTED, 0, 0],
        )
        self.apply(made, shown(view, 1, [], 6, event=ReadEvent.LOG_TRUNCATED))
        rows = made.pending[["offset", "producer_id", "visible", "aborted", "flags"]].tolist()
        assert rows == [(2, 9, 0b11, 0, 0), (4, 9, 0b10, 0, DISPUTED), (4, 8, 0, 0b10, DISPUTED), (4, -1, 0b11, 0, 0)]

    def test_in_read_committed_a_truncation_takes_no_transaction_away(self) -> None:
        made = self.read()
        self.apply(made, shown(RC, 1, [], 3, event=ReadEvent.LOG_TRUNCATED))
        assert len(made.intervals) == 4
        assert made.brokers["position"].tolist() == [[10, 3], [10, 8]]
        assert made.partition["floor"][0].tolist() == [0, 8]
        assert left_behind(made) == [0, 8]

    def test_a_batch_that_no_replica_can_be_read_at_is_counted_as_unknown(self) -> None:
        made = self.read()
        before = int(made.brokers["position"][0, RU])
        self.apply(made, shown(RU, 1, [], before + 5, event=ReadEvent.BATCH_SKIPPED))
        assert left_behind(made) == [5, 0]
        assert made.partition["floor"][0].tolist() == [before + 5, 0]

    def test_of_a_replica_that_was_never_read_nothing_is_skipped(self) -> None:
        made = state(1, 2)
        self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert left_behind(made) == [0, 0]
        assert made.partition["floor"][0].tolist() == [13, 0]

    def test_what_was_read_of_it_in_the_same_batch_says_from_where_on_offsets_are_skipped(self) -> None:
        made = state(1, 2)
        rows = shown(RU, 1, [], 8), shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED), shown(RU, 1, [], 20)
        self.apply(made, shown(RC, 1, [], 2), shown(RU, 2, [], 3), *rows)
        assert left_behind(made) == [5, 0]

    @pytest.mark.parametrize(("floor", "skipped"), [(9, 3), (11, 2), (13, 0), (15, 0)])
    def test_only_what_had_no_verdict_yet_is_skipped_by_a_jump(self, floor: int, skipped: int) -> None:
        made = self.read()
        made.partition["floor"][0, RU] = floor
        self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert left_behind(made) == [skipped, 0]
        assert made.partition["floor"][0].tolist() == [max(13, floor), 0]

    def test_a_transaction_that_begins_where_the_log_begins_now_is_kept(self) -> None:
        made = state(1, position=0, shown=0)
        made.intervals = table(INTERVAL, 3, start=[5, 6, 2], end=[NEVER, NEVER, 3])
        self.apply(made, shown(RU, 1, [], 6, event=ReadEvent.LOG_START_ADVANCED))
        assert sorted(made.intervals["start"].tolist()) == [2, 6]

    def test_a_replica_that_is_added_is_unknown_up_to_what_was_judged_without_it(self) -> None:
        made = state(1, 2)
        made.partition["floor"][0] = (10, 8)
        added = {"event": ReadEvent.PARTITION_ADDED}
        self.apply(made, shown(RU, 2, [], 3, 5, **added), shown(RC, 2, [], 9, 5, **added))
        assert [tuple(row) for row in made.unread.tolist()] == [(RU, 0, 3, 10, 5)]
        assert made.partition["floor"][0].tolist() == [10, 9]
        made.brokers["position"] = 0
        self.apply(made, shown(RU, 2, [], 2, 6, **added))
        assert [tuple(row) for row in made.unread.tolist()] == [(RU, 0, 3, 10, 5)]
        assert left_behind(made) == [0, 0]

    def test_a_broker_that_has_no_slot_breaks_nothing(self) -> None:
        made = self.read()
        offsets, accusations = self.apply(made, shown(RU, 7, [], 6, event=ReadEvent.LOG_TRUNCATED))
        assert (offsets, accusations) == ([6], [])
        assert made.brokers["position"].tolist() == [[10, 8], [10, 8]]

    def test_a_break_that_does_not_count_hides_none_after_it(self) -> None:
        made = self.read()
        of_no_slot = shown(RU, 7, [], 6, event=ReadEvent.LOG_TRUNCATED)
        self.apply(made, of_no_slot, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert made.partition["floor"][0].tolist() == [13, 0]

    def test_a_jump_of_the_log_start_leaves_the_range_unknown(self) -> None:
        made = self.read()
        offsets, accusations = self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert (offsets, accusations) == ([13], [])
        assert left_behind(made) == [3, 0]
        assert made.partition["floor"][0].tolist() == [13, 0]
        assert sorted(made.intervals["start"].tolist()) == [1, 5, 5]

    def test_a_jump_to_where_the_reader_is_skips_nothing(self) -> None:
        for offset in (9, 10):
            made = self.read()
            self.apply(made, shown(RU, 1, [], offset, event=ReadEvent.LOG_START_ADVANCED))
            assert left_behind(made) == [0, 0]
            assert made.partition["floor"][0].tolist() == [0, 0]

    def test_a_jump_in_read_committed_keeps_the_intervals(self) -> None:
        made = self.read()
        self.apply(made, shown(RC, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert len(made.intervals) == 4
        assert left_behind(made) == [0, 5]

    def test_a_topic_that_was_deleted_leaves_nothing_but_the_replica_set(self) -> None:
        made = self.read()
        made.content = table(CONTENT, 1, offset=9)
        rest = shown(RU, 2, [record(10, "K", "V")], 11)
        offsets, _ = self.apply(made, shown(RU, 1, [], 10, event=ReadEvent.TOPIC_DELETED), rest)
        assert offsets == []
        assert (len(made.content), len(made.intervals)) == (0, 0)
        assert made.brokers["position"].tolist() == [[-1, -1], [-1, -1]]
        assert made.brokers["member"].tolist() == [True, True]

    def test_rows_of_the_topic_before_it_was_re_created_are_left_out(self) -> None:
        made = PartitionState()
        replicas.register(made, observed(tick(1, {1: 0, 2: 0, 3: 0})))
        for broker in (1, 2):
            assert self.apply(made, shown(RU, broker, [], 9, 5, topic_id=77))[0] == [9]
        again = shown(RU, 1, [], 0, 20, topic_id=88, event=ReadEvent.TOPIC_RECREATED)
        late = shown(RU, 2, [record(9, "K", "V")], 10, 15, topic_id=77)
        offsets, _ = self.apply(made, again, late)
        assert made.partition["topic_id"][0] == 88
        assert 9 not in offsets
        assert 10 not in offsets
        offsets, _ = self.apply(made, shown(RU, 2, [], 0, 30, topic_id=88, event=ReadEvent.TOPIC_RECREATED))
        offsets, _ = self.apply(made, shown(RU, 2, [record(0, "K", "V")], 1, 31, topic_id=88))
        assert offsets == [0, 1]

    def test_the_first_topic_id_that_is_reported_is_no_other_topic(self) -> None:
        made = self.read()
        made.content = table(CONTENT, 1, offset=9)
        assert self.apply(made, shown(RU, 1, [], 10, 5, topic_id=77))[0] == [10]
        assert made.partition["topic_id"].tolist() == [77]
        assert made.content["offset"].tolist() == [9]

    def test_a_position_without_a_topic_id_is_of_no_other_topic(self) -> None:
        made = self.read()
        made.content = table(CONTENT, 1, offset=9)
        self.apply(made, shown(RU, 1, [], 10, 5, topic_id=77))
        assert self.apply(made, shown(RU, 1, [], 10, 6, event=ReadEvent.UNREACHABLE))[0] == [10]
        assert made.partition["topic_id"].tolist() == [77]
        assert made.content["offset"].tolist() == [9]

    def re_created(self) -> PartitionState:
        """All readers had read topic 77 up to 9; broker 1 is the first to read 88."""
        made = state(1, 2, 3)
        for view in VIEWS:
            for broker in (1, 2, 3):
                self.apply(made, shown(view, broker, [], 9, 5, topic_id=77))
        made.told = np.arange(3, dtype="<u8")
        made.brokers["position"] = made.brokers["shown"] = made.brokers["stable_told"] = 9
        made.brokers["stalled_since"] = made.brokers["stalled_reference"] = made.brokers["log_start_offset"] = 4
        made.partition["members_at"] = 6
        made.partition["floor"] = 9
        made.content = table(CONTENT, 1, offset=9)
        self.apply(made, shown(RU, 1, [], 0, 20, topic_id=88, event=ReadEvent.TOPIC_RECREATED))
        return made

    def test_of_a_topic_that_was_re_created_only_the_replica_set_and_what_was_reported_remain(self) -> None:
        made = self.re_created()
        assert made.partition["topic_id"].tolist() == [88]
        assert made.partition["members_at"].tolist() == [6]
        assert made.partition["members_known"].tolist() == [True]
        assert made.partition["floor"].tolist() == [[0, 0]]
        assert len(made.content) == 0
        assert made.told.tolist() == []
        assert made.brokers["position"].tolist() == [[0, -1], [-1, -1], [-1, -1]]
        assert made.brokers["shown"].tolist() == [[0, -1], [-1, -1], [-1, -1]]
        for name in ("stable_told", "stalled_since", "stalled_reference", "log_start_offset"):
            assert made.brokers[name].tolist() == [-1, -1, -1], name

    def test_rows_of_a_reader_that_has_not_reported_the_new_topic_are_left_out(self) -> None:
        made = self.re_created()
        offsets, _ = self.apply(
            made,
            shown(RU, 1, [record(0, "K", "V")], 1, 30, topic_id=88),
            shown(RU, 2, [record(9, "K", "V")], 10, 29, topic_id=77),
            shown(RC, 3, [record(8, "K", "V")], 9, 28)[:1],
        )
        assert offsets == [0, 1]

    def test_rows_of_a_reader_that_goes_over_to_a_new_topic_are_left_out_up_to_the_report(self) -> None:
        made = self.re_created()
        rows = [
            *shown(RU, 2, [record(9, "K", "V")], 10, 25, topic_id=77),
            *shown(RU, 2, [record(0, "K", "V"), record(1, "L", "V")], 2, 30, topic_id=88),
        ]
        assert self.apply(made, rows)[0] == []
        assert made.brokers["position"][1].tolist() == [2, -1]
        assert made.brokers["shown"][1].tolist() == [2, -1]
        assert made.partition["floor"][0].tolist() == [2, 0]
        (span,) = made.unread
        assert (span["view"], span["start"], span["end"], span["since"]) == (RU, 0, 2, 30)
        assert UNREAD_REASONS[span["reason"]] is UnknownReason.BEFORE_FIRST_READING
        assert self.apply(made, shown(RU, 2, [record(2, "K", "V")], 3, 31, topic_id=88))[0] == [2, 3]

    def test_rows_that_are_left_out_are_not_compared_and_coverage_says_so_at_once(self) -> None:
        settings = CompareSettings()
        kept = state(1, 2)
        for view in VIEWS:
            before = [shown(view, broker, [record(0, "K", "V")], 9, 5, topic_id=77) for broker in (1, 2)]
            kept = step(kept, observed(*before), settings, 5).state
        again = [
            [
                *shown(view, broker, [], 9, 25, topic_id=77),
                *shown(view, broker, [record(0, "K", f"of {broker}")], 1, 30, topic_id=88),
            ]
            for view in VIEWS
            for broker in (1, 2)
        ]
        made = step(kept, observed(*again), settings, 30)
        assert made.coverage.compared_up_to == (1, 1)
        assert made.coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (1, 1)

    def test_a_reader_that_is_new_is_of_the_topic_that_it_tells(self) -> None:
        made = state(1, 2)
        self.apply(made, shown(RU, 1, [], 9, 5, topic_id=77))
        assert self.apply(made, shown(RU, 2, [record(3, "K", "V")], 4, 6, topic_id=77))[0] == [3, 4]
        assert self.apply(made, shown(RC, 2, [record(3, "K", "V")], 4, 6), shown(RU, 1, [], 9, 7, topic_id=77))[0] == [
            3,
            4,
            9,
        ]

    def test_rows_without_news_pass_as_they_are(self) -> None:
        made = self.read()
        rows = observed(shown(RU, 1, [record(10, "K", "V")], 11)).rows
        assert apply_breaks(made, rows) == (rows, [])
