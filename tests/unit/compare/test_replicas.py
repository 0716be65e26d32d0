"""Who the replicas are and how far each was read: slots, positions, breaks, and what they leave unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare import replicas
from parallax.compare.breaks import apply_breaks
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, UNKNOWN, Observations
from parallax.compare.rules.arrays import table
from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    DISPUTED,
    INTERVAL,
    MARKER,
    MAX_BROKERS,
    NEVER,
    PENDING,
    UNENDED,
    PartitionState,
    new_broker,
)
from parallax.model import ReadEvent
from tests.unit.compare.history import RC, RU, Row, record, shown, tick

VIEWS = (RU, RC)


def observed(*batches: list[Row]) -> Observations:
    return Observations.of("t", 0, [row for batch in batches for row in batch])


def state(*brokers: int, member: bool = True, **fields: Any) -> PartitionState:
    made = PartitionState()
    made.brokers = np.concatenate([new_broker(b) for b in brokers])
    made.brokers["member"] = member
    made.partition["members_known"] = member
    for name, value in fields.items():
        made.brokers[name] = value
    return made


def brokers(made: PartitionState) -> list[int]:
    return made.brokers["broker"].tolist()


class TestSlots:
    def test_every_broker_that_is_named_anywhere_gets_one(self) -> None:
        made = PartitionState()
        replicas.register(made, observed(shown(RU, 7, [], 0)))
        replicas.register(made, observed([{"broker": 5, "observed_at": 1, "reachable": False, "replicas": (5, 9)}]))
        assert brokers(made) == [7, 5, 9]
        assert replicas.slots(made, np.array([9, 7, 8, 5])).tolist() == [2, 0, -1, 1]
        assert replicas.slots(PartitionState(), np.array([1, 2])).tolist() == [-1, -1]

    def test_a_broker_beyond_the_masks_takes_the_slot_of_one_that_has_left(self) -> None:
        made = state(*range(MAX_BROKERS))
        replicas.register(made, observed(shown(RU, 99, [], 0)))
        assert 99 not in brokers(made)
        made.brokers["member"][[4, 6]] = False
        made.content = table(CONTENT, 1, offset=3, shown=0b1110000)
        made.pending = table(PENDING, 1, offset=3, visible=0b010000, aborted=0b110000)
        made.markers = table(MARKER, 1, offset=3, shown=0b010001)
        made.intervals = table(INTERVAL, 2, slot=[4, 5])
        replicas.register(made, observed(shown(RU, 99, [], 0)))
        assert (brokers(made)[4], brokers(made)[6]) == (99, 6)
        assert made.content["shown"].tolist() == [0b1100000]
        assert (made.pending["visible"].tolist(), made.pending["aborted"].tolist()) == ([0], [0b100000])
        assert made.markers["shown"].tolist() == [0b000001]
        assert made.intervals["slot"].tolist() == [5]
        assert made.brokers["position"][4].tolist() == [UNKNOWN, UNKNOWN]

    def test_unknown_brokers_get_none(self) -> None:
        made = PartitionState()
        replicas.register(made, observed(shown(RU, -1, [], 0), shown(RU, 0, [], 0)))
        assert brokers(made) == [0]


class TestMembers:
    def test_the_newest_set_counts(self) -> None:
        made = PartitionState()
        row = {"broker": 1, "reachable": True}
        replicas.register(made, observed([{**row, "observed_at": 5, "replicas": (1, 2)}]))
        assert replicas.members(made) == 0b11
        replicas.register(made, observed([{**row, "observed_at": 4, "replicas": (1, 3)}]))
        assert replicas.members(made) == 0b11
        replicas.register(made, observed([{**row, "observed_at": 6, "replicas": (1, 3)}]))
        assert [brokers(made)[i] for i in np.flatnonzero(made.brokers["member"])] == [1, 3]

    def test_until_one_is_reported_there_is_none(self) -> None:
        made = state(1, 2, member=False)
        made.brokers["member"] = True
        assert replicas.members(made) == 0
        assert replicas.common_position(made, RU) == UNKNOWN


class TestChangesOfTheReplicaSet:
    def assign(self, made: PartitionState, *assigned: int, at: int = 9) -> None:
        replicas.register(made, observed([{"broker": 1, "observed_at": at, "reachable": True, "replicas": assigned}]))

    def test_what_a_replica_showed_counts_no_longer_once_it_has_left(self) -> None:
        made = state(1, 2, 3, stalled_since=5, stalled_reference=6, mismatch_last=8)
        made.content = table(CONTENT, 1, shown=0b111)
        made.pending = table(PENDING, 1, visible=0b110, aborted=0b011)
        made.candidates = table(CANDIDATE, 1, visible=0b010, aborted=0b111)
        made.markers = table(MARKER, 1, shown=0b110)
        made.intervals = table(INTERVAL, 3, slot=[0, 1, 2])
        self.assign(made, 1, 3)
        assert made.brokers["member"].tolist() == [True, False, True]
        assert made.content["shown"].tolist() == [0b101]
        assert (made.pending["visible"].tolist(), made.pending["aborted"].tolist()) == ([0b100], [0b001])
        assert (made.candidates["visible"].tolist(), made.candidates["aborted"].tolist()) == ([0], [0b101])
        assert made.markers["shown"].tolist() == [0b100]
        assert made.intervals["slot"].tolist() == [0, 2]
        for name, value in (
            ("stalled_since", 5),
            ("stalled_reference", 6),
            ("mismatch_last", 8),
        ):
            assert made.brokers[name].tolist() == [value, UNKNOWN, value]

    def joined(self, *position: int, floor: tuple[int, int] = (10, 8), log_start: int = 0) -> PartitionState:
        """Broker 2 comes back to the set; it had been read so far before."""
        made = state(1, 2, log_start_offset=log_start)
        made.brokers["member"][1] = False
        made.brokers["position"] = [[20, 20], position]
        made.partition["floor"][0] = floor
        made.candidates = table(CANDIDATE, 3, offset=[1, 2, 3])
        self.assign(made, 1, 2)
        assert len(made.candidates) == 0
        return made

    def unread(self, made: PartitionState) -> list[tuple[int, int, int, int]]:
        return [(int(r["view"]), int(r["start"]), int(r["end"]), int(r["since"])) for r in made.unread]

    def test_what_was_judged_without_it_and_what_waits_is_unknown_of_one_that_joins(self) -> None:
        made = self.joined(4, 3)
        assert made.partition["skipped"][0].tolist() == [0, 3]
        assert self.unread(made) == [(RU, 4, 10, 9), (RC, 3, 8, 9)]
        assert made.partition["floor"][0].tolist() == [10, 8]
        assert self.unread(self.joined(0, 0)) == [(RU, 0, 10, 9), (RC, 0, 8, 9)]

    def test_what_it_will_not_be_read_over_again_is_unknown_too(self) -> None:
        made = self.joined(14, 9)
        assert made.partition["skipped"][0].tolist() == [4, 1 + 3]
        assert made.partition["floor"][0].tolist() == [14, 9]

    def test_what_retention_has_deleted_is_not_counted(self) -> None:
        assert self.unread(self.joined(4, 3, log_start=7)) == [(RU, 7, 10, 9), (RC, 7, 8, 9)]

    def test_one_that_was_never_read_leaves_only_what_waits_unknown(self) -> None:
        made = self.joined(-1, -1)
        assert made.partition["skipped"][0].tolist() == [0, 3]
        assert made.partition["floor"][0].tolist() == [10, 8]

    def test_the_first_set_joins_nobody(self) -> None:
        made = state(1, 2, member=False)
        made.brokers["position"] = 5
        made.candidates = table(CANDIDATE, 1, offset=3)
        self.assign(made, 1, 2)
        assert (len(made.candidates), made.partition["skipped"][0].tolist()) == (1, [0, 0])


class TestPositions:
    def positions(self) -> PartitionState:
        made = state(1, 2, 3)
        made.brokers["position"] = [[5, 4], [7, 2], [9, 8]]
        return made

    def test_common_is_the_lowest_and_furthest_the_highest(self) -> None:
        made = self.positions()
        assert [replicas.common_position(made, v) for v in VIEWS] == [5, 2]
        assert [replicas.furthest_position(made, v) for v in VIEWS] == [9, 8]
        assert replicas.furthest_position(PartitionState(), RU) == UNKNOWN
        padded = replicas.positions(made, RC)
        assert (len(padded), padded[:4].tolist()) == (MAX_BROKERS, [4, 2, 8, UNKNOWN])

    def test_one_that_is_no_member_does_not_hold_the_common_position_back(self) -> None:
        made = self.positions()
        made.brokers["member"][1] = False
        assert [replicas.common_position(made, v) for v in VIEWS] == [5, 4]

    def test_asked_leaves_out_the_unreachable_and_those_that_were_never_read(self) -> None:
        made = self.positions()
        assert [replicas.asked_position(made, v) for v in VIEWS] == [5, 2]
        made.brokers["reachable"][0] = False
        assert [replicas.asked_position(made, v) for v in VIEWS] == [7, 2]
        made.brokers["position"][1] = (-1, 0)
        assert [replicas.asked_position(made, v) for v in VIEWS] == [-1, 0]
        made.brokers["position"][1] = (-1, -1)
        assert [replicas.asked_position(made, v) for v in VIEWS] == [9, 8]
        made.brokers["member"][2] = False
        assert [replicas.asked_position(made, v) for v in VIEWS] == [UNKNOWN, UNKNOWN]
        made.partition["members_known"] = False
        assert [replicas.asked_position(made, v) for v in VIEWS] == [9, 8]

    def take_in(self, made: PartitionState, *batches: list[Row]) -> None:
        rows = observed(*batches).rows
        replicas.take_in_positions(made, rows, replicas.slots(made, rows.broker))

    def test_a_position_is_what_position_rows_say_and_never_goes_back(self) -> None:
        made = state(1, 2)
        self.take_in(made, shown(RC, 2, [record(3, "K", "V")], 6, 50))
        assert made.brokers["position"].tolist() == [[-1, -1], [-1, 6]]
        assert made.brokers["shown"].tolist() == [[-1, -1], [-1, 6]]
        self.take_in(made, shown(RC, 2, [], 4, 60))
        assert made.brokers["position"][1].tolist() == [-1, 6]
        assert made.brokers["shown"][1].tolist() == [-1, 6]

    def test_a_row_is_shown_before_its_position_row_has_come(self) -> None:
        made = state(1)
        self.take_in(made, shown(RU, 1, [record(3, "K", "V")], 6)[:1])
        assert made.brokers["position"][0].tolist() == [-1, -1]
        assert made.brokers["shown"][0].tolist() == [4, -1]

    def test_the_latest_read_tells_the_watermarks(self) -> None:
        made = state(1)
        offsets = {"high_watermark": 9, "last_stable_offset": 8, "log_start_offset": 2}
        self.take_in(made, shown(RC, 1, [], 6, 50, **offsets))
        older = {"high_watermark": 5, "last_stable_offset": 4, "log_start_offset": 3}
        self.take_in(made, shown(RC, 1, [], 6, 50, **older))
        row = made.brokers[0]
        assert (row["high_watermark"], row["stable_told"], row["log_start_offset"], row["reported_at"]) == (9, 8, 3, 50)
        self.take_in(made, shown(RU, 1, [], 6, 51, high_watermark=12, last_stable_offset=-1))
        assert (row["high_watermark"], row["reported_at"]) == (9, 50)
        self.take_in(made, shown(RU, 1, [], 6, 51, high_watermark=12, last_stable_offset=0, log_start_offset=0))
        row = made.brokers[0]
        assert (row["high_watermark"], row["stable_told"], row["log_start_offset"], row["reported_at"]) == (
            12,
            0,
            3,
            51,
        )

    def test_of_several_reads_in_one_batch_the_latest_tells(self) -> None:
        made = state(1, 2)
        offsets = [{"high_watermark": hw, "last_stable_offset": hw - 1} for hw in (7, 9, 8)]
        reads = [shown(RU, 1, [], 6, at, **t) for at, t in zip((50, 70, 60), offsets, strict=True)]
        self.take_in(made, *reads, shown(RU, 2, [], 6, 40, high_watermark=3, last_stable_offset=2))
        assert made.brokers["high_watermark"].tolist() == [9, 3]
        assert made.brokers["stable_told"].tolist() == [8, 2]
        assert made.brokers["reported_at"].tolist() == [70, 40]

    def test_when_the_last_read_committed_position_was_read_is_known(self) -> None:
        made = state(1)
        self.take_in(made, shown(RU, 1, [], 6, 80))
        assert made.partition["passed_at"][0] == UNKNOWN
        self.take_in(made, shown(RC, 1, [record(3, "K", "V", timestamp=500)], 6, 50))
        assert made.partition["passed_at"][0] == 50
        self.take_in(made, shown(RC, 1, [], 6, 40))
        assert made.partition["passed_at"][0] == 50

    def test_the_largest_log_start_of_the_members_is_where_judging_begins(self) -> None:
        made = state(1, 2, 3, log_start_offset=[4, 9, 6])
        assert replicas.retained_from(made) == 9
        made.brokers["member"][1] = False
        assert replicas.retained_from(made) == 6
        assert replicas.retained_from(PartitionState()) == UNKNOWN


class TestBreaks:
    def apply(self, made: PartitionState, *batches: list[Row]) -> tuple[list[int], list[Any]]:
        rows, accusations = apply_breaks(made, observed(*batches).rows)
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
        assert made.partition["skipped"][0].tolist() == [7, 6], "what waited below the cut is given up as well"
        assert sorted(made.intervals["start"].tolist()) == [1, 5]

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
        assert offsets == []
        assert accusation.observations == {"shown_to": {"1": 14}, "epochs": {"1": 3}, "topics": {"1": 0}}
        assert made.brokers["position"].tolist() == [[8, 8], [10, 8]]
        assert made.brokers["shown"].tolist() == [[8, 8], [10, 8]]
        assert made.partition["floor"][0].tolist() == [14, 8]
        assert made.partition["skipped"][0].tolist() == [14, 8]

    def test_in_read_committed_nothing_is_compared_any_more_up_to_where_the_log_that_was_truncated_had_been_read(
        self,
    ) -> None:
        for offset, floor, skipped in ((6, 8, 8), (8, 0, 0), (9, 0, 0)):
            made = self.read()
            self.apply(made, shown(RU, 1, [], offset, event=ReadEvent.LOG_TRUNCATED))
            assert made.brokers["position"].tolist() == [[offset, 8], [10, 8]]
            assert (made.partition["floor"][0, RC], made.partition["skipped"][0, RC]) == (floor, skipped)

    def test_what_a_batch_shows_after_a_truncation_is_none_of_what_was_lost(self) -> None:
        made = self.read()
        cut = shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED, leader_epoch=3)
        (accusation,) = self.apply(made, cut, shown(RU, 1, [record(19, "K", "V")], 20))[1]
        assert accusation.observations["shown_to"] == {"1": 10}
        assert made.partition["floor"][0].tolist() == [20, 8]

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
    def test_an_outcome_by_an_end_marker_that_was_truncated_is_none_of_the_log_that_took_its_place(
        self, view: int
    ) -> None:
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
        assert made.partition["skipped"][0].tolist() == [0, 8]

    def test_a_batch_that_no_replica_can_be_read_at_is_counted_as_unknown(self) -> None:
        made = self.read()
        before = int(made.brokers["position"][0, RU])
        self.apply(made, shown(RU, 1, [], before + 5, event=ReadEvent.BATCH_SKIPPED))
        assert made.partition["skipped"][0].tolist() == [5, 0]
        assert made.partition["floor"][0].tolist() == [before + 5, 0]

    def test_of_a_replica_that_was_never_read_nothing_is_skipped(self) -> None:
        made = state(1, 2)
        self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert made.partition["skipped"][0].tolist() == [0, 0]
        assert made.partition["floor"][0].tolist() == [13, 0]

    @pytest.mark.parametrize(("floor", "skipped"), [(9, 3), (11, 2), (13, 0), (15, 0)])
    def test_only_what_had_no_verdict_yet_is_skipped_by_a_jump(self, floor: int, skipped: int) -> None:
        made = self.read()
        made.partition["floor"][0, RU] = floor
        self.apply(made, shown(RU, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert made.partition["skipped"][0].tolist() == [skipped, 0]
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
        assert made.partition["skipped"][0].tolist() == [0, 0]

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
        assert made.partition["skipped"][0].tolist() == [3, 0]
        assert made.partition["floor"][0].tolist() == [13, 0]
        assert sorted(made.intervals["start"].tolist()) == [1, 5, 5]

    def test_a_jump_to_where_the_reader_is_skips_nothing(self) -> None:
        for offset in (9, 10):
            made = self.read()
            self.apply(made, shown(RU, 1, [], offset, event=ReadEvent.LOG_START_ADVANCED))
            assert made.partition["skipped"][0].tolist() == [0, 0]
            assert made.partition["floor"][0].tolist() == [0, 0]

    def test_a_jump_in_read_committed_keeps_the_intervals(self) -> None:
        made = self.read()
        self.apply(made, shown(RC, 1, [], 13, event=ReadEvent.LOG_START_ADVANCED))
        assert len(made.intervals) == 4
        assert made.partition["skipped"][0].tolist() == [0, 5]

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
        assert made.told.tolist() == [0, 1, 2]
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

    def test_rows_of_a_reader_that_goes_over_to_the_new_topic_are_left_out_up_to_where_it_was_reported(self) -> None:
        made = self.re_created()
        rows = [
            *shown(RU, 2, [record(9, "K", "V")], 10, 25, topic_id=77),
            *shown(RU, 2, [record(0, "K", "V"), record(1, "L", "V")], 2, 30, topic_id=88),
        ]
        assert self.apply(made, rows)[0] == []
        assert made.brokers["position"][1].tolist() == [2, -1]
        assert made.brokers["shown"][1].tolist() == [2, -1]
        assert made.partition["floor"][0].tolist() == [2, 0]
        assert self.apply(made, shown(RU, 2, [record(2, "K", "V")], 3, 31, topic_id=88))[0] == [2, 3]

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


class TestReadersThatBeginAtTheEnd:
    def test_nothing_is_compared_below_where_the_last_of_them_began(self) -> None:
        made = state(1, 2)
        rows = observed(shown(RU, 1, [record(5, "K", "V")], 7), shown(RU, 2, [], 6), shown(RC, 1, [], 4)).rows
        replicas.begin_readers(made, rows)
        assert made.partition["floor"][0].tolist() == [6, 4]
        made.brokers["shown"] = [[7, 4], [6, -1]]
        replicas.begin_readers(made, observed(shown(RU, 1, [], 20), shown(RC, 2, [], 9)).rows)
        assert made.partition["floor"][0].tolist() == [6, 9]


def test_the_views_are_named_as_the_columns_are() -> None:
    assert (READ_UNCOMMITTED, READ_COMMITTED) == (int(RU), int(RC)) == (0, 1)
