"""Who the replicas are and how far each was read: slots, positions, breaks, and what they leave unknown."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare import replicas
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, UNKNOWN, Observations
from parallax.compare.rules.arrays import table
from parallax.compare.state import CONTENT, INTERVAL, MARKER, MAX_BROKERS, NEVER, PENDING, PartitionState, new_broker
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
        made.brokers["member"][4] = False
        made.content = table(CONTENT, 1, offset=3, shown=0b110000)
        made.pending = table(PENDING, 1, offset=3, visible=0b010000, aborted=0b110000)
        made.markers = table(MARKER, 1, offset=3, shown=0b010001)
        made.intervals = table(INTERVAL, 2, slot=[4, 5])
        replicas.register(made, observed(shown(RU, 99, [], 0)))
        assert brokers(made)[4] == 99
        assert made.content["shown"].tolist() == [0b100000]
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

    def test_until_one_is_told_there_is_none(self) -> None:
        made = state(1, 2, member=False)
        made.brokers["member"] = True
        assert replicas.members(made) == 0
        assert replicas.common_position(made, RU) == UNKNOWN


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
        told = {"high_watermark": 9, "last_stable_offset": 8, "log_start_offset": 2}
        self.take_in(made, shown(RC, 1, [], 6, 50, **told))
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
        rows, accusations = replicas.apply_breaks(made, observed(*batches).rows)
        return rows.offset.tolist(), accusations

    def read(self) -> PartitionState:
        made = state(1, 2)
        made.brokers["position"] = made.brokers["shown"] = [[10, 8], [10, 8]]
        made.intervals = table(INTERVAL, 4, slot=[0, 0, 0, 1], start=[1, 5, 6, 5], end=[4, 7, NEVER, NEVER])
        return made

    def test_a_log_that_was_cut_off_lost_what_it_had_shown(self) -> None:
        made = self.read()
        made.partition["floor"][0] = (3, 2)
        cut = shown(RU, 1, [], 6, event=ReadEvent.LOG_TRUNCATED)
        offsets, accusations = self.apply(made, cut, shown(RU, 2, [], 12))
        assert offsets == [12]
        assert [(str(a.kind), a.broker, a.offset) for a in accusations] == [("log_truncated", 1, 6)]
        assert made.brokers["position"].tolist() == [[6, 8], [10, 8]]
        assert made.brokers["shown"].tolist() == [[6, 8], [10, 8]]
        assert made.partition["floor"][0].tolist() == [10, 2]
        assert made.partition["skipped"][0].tolist() == [4, 0]
        assert sorted(made.intervals["start"].tolist()) == [1, 5]

    def test_one_that_lost_nothing_that_was_shown_is_no_suspect(self) -> None:
        for view, offset in ((RU, 10), (RC, 3)):
            made = self.read()
            assert self.apply(made, shown(view, 1, [], offset, event=ReadEvent.LOG_TRUNCATED))[1] == []

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

    def test_rows_of_the_topic_before_it_was_made_anew_are_left_out(self) -> None:
        made = PartitionState()
        replicas.register(made, observed(tick(1, {1: 0, 2: 0, 3: 0})))
        for broker in (1, 2):
            assert self.apply(made, shown(RU, broker, [], 9, 5, topic_id=77))[0] == [9]
        anew = shown(RU, 1, [], 0, 20, topic_id=88, event=ReadEvent.TOPIC_RECREATED)
        late = shown(RU, 2, [record(9, "K", "V")], 10, 15, topic_id=77)
        offsets, _ = self.apply(made, anew, late)
        assert made.partition["topic_id"][0] == 88
        assert 9 not in offsets
        assert 10 not in offsets
        offsets, _ = self.apply(made, shown(RU, 2, [], 0, 30, topic_id=88, event=ReadEvent.TOPIC_RECREATED))
        offsets, _ = self.apply(made, shown(RU, 2, [record(0, "K", "V")], 1, 31, topic_id=88))
        assert offsets == [0, 1]

    def test_rows_without_news_pass_as_they_are(self) -> None:
        made = self.read()
        rows = observed(shown(RU, 1, [record(10, "K", "V")], 11)).rows
        assert replicas.apply_breaks(made, rows) == (rows, [])


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
