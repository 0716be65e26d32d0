"""Who the replicas are and how far each was read: slots, positions, breaks, and what they leave unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare import replicas
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED
from parallax.compare.rules.arrays import table
from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    ENDED,
    INTERVAL,
    MARKER,
    MAX_BROKERS,
    PENDING,
    UNREAD_REASONS,
    PartitionState,
)
from parallax.model import UNKNOWN, Outcome, ReadEvent, UnknownReason
from tests.unit.compare.history import RC, RU, Comparison, Row, both, everywhere, filler, record, shown, tick
from tests.unit.compare.states import VIEWS, left_behind, observed, state


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
        first = made.unread[made.unread["reason"] == UNREAD_REASONS.index(UnknownReason.BEFORE_FIRST_READING)]
        return [(int(r["view"]), int(r["start"]), int(r["end"]), int(r["since"])) for r in first]

    def test_what_was_judged_without_it_and_what_waits_is_unknown_of_one_that_joins(self) -> None:
        made = self.joined(4, 3)
        assert left_behind(made) == [0, 3]
        assert self.unread(made) == [(RU, 4, 10, 9), (RU, 0, 4, 9), (RC, 3, 8, 9), (RC, 0, 3, 9)]
        assert made.partition["floor"][0].tolist() == [10, 8]
        assert self.unread(self.joined(0, 0)) == [(RU, 0, 10, 9), (RC, 0, 8, 9)]

    def test_what_it_will_not_be_read_over_again_is_unknown_too(self) -> None:
        made = self.joined(14, 9)
        assert left_behind(made) == [4, 1 + 3]
        assert made.partition["floor"][0].tolist() == [14, 9]

    def test_what_retention_has_deleted_is_not_counted(self) -> None:
        assert self.unread(self.joined(4, 3, log_start=7)) == [(RU, 7, 10, 9), (RC, 7, 8, 9)]

    def test_one_that_was_never_read_leaves_only_what_waits_unknown(self) -> None:
        made = self.joined(-1, -1)
        assert left_behind(made) == [0, 3]
        assert made.partition["floor"][0].tolist() == [10, 8]

    def test_the_first_set_joins_nobody(self) -> None:
        made = state(1, 2, member=False)
        made.brokers["position"] = 5
        made.candidates = table(CANDIDATE, 1, offset=3)
        self.assign(made, 1, 2)
        assert (len(made.candidates), left_behind(made)) == (1, [0, 0])


def of_the_set(at: int, end: int, replicas: tuple[int, ...]) -> list[Row]:
    return [{**row, "replicas": replicas} for row in tick(at, everywhere(end)) if row["broker"] in replicas]


class TestReplicasThatComeBackWithinABatch:
    """Broker 3 is taken off the partition and given back, with a copy, while the comparison is behind."""

    BEGIN = (of_the_set(500, 0, (1, 2, 3)), *(both(b, [], 0, 501) for b in (1, 2, 3)))
    OLD = (of_the_set(1_000, 10, (1, 2, 3)), *(both(b, [filler(n) for n in range(10)], 10, 1_001) for b in (1, 2, 3)))
    AWAY = (of_the_set(5_000, 10, (1, 2)),)
    BACK = (of_the_set(9_000, 12, (1, 2, 3)), *(both(b, [filler(10), filler(11)], 12, 9_001) for b in (1, 2, 3)))

    @pytest.mark.parametrize("of_one", [1, 2, 3])
    def test_they_are_seen_to_have_another_log_however_the_rows_were_cut(self, of_one: int) -> None:
        live, behind = Comparison(), Comparison()
        for comparison in (live, behind):
            comparison.feed(*self.BEGIN)
        batches = [self.OLD, self.AWAY, self.BACK]
        for batch in batches:
            live.feed(*batch)
        for batch in batches[: 3 - of_one]:
            behind.feed(*batch)
        behind.feed(*(rows for batch in batches[3 - of_one :] for rows in batch))
        assert live.last is not None
        assert behind.last is not None
        assert live.last.coverage.unknown_for(UnknownReason.BEFORE_FIRST_READING) == (12, 12)
        assert behind.last.coverage.unknown == live.last.coverage.unknown
        assert behind.last.coverage.compared_up_to == live.last.coverage.compared_up_to
        assert behind.suspects == live.suspects == []

    def test_what_their_first_log_showed_is_held_against_no_other(self) -> None:
        comparison = Comparison()
        comparison.feed(*self.BEGIN)
        opened = [record(10, "k", "v", pid=7, outcome=Outcome.UNDECIDED)]
        showed = (shown(RU, b, opened, 11, 1_500, last_stable_offset=10) for b in (1, 2, 3))
        comparison.feed(*self.OLD, *showed, *self.AWAY, *self.BACK)
        assert comparison.last is not None
        assert 2 not in comparison.last.state.intervals["slot"]

    def test_a_set_that_changes_for_good_cuts_nothing(self) -> None:
        made = state(1, 2, 3)
        seen = observed(of_the_set(9, 0, (1, 2)), of_the_set(10, 0, (1, 2)), of_the_set(11, 0, (1, 2, 4)))
        assert list(replicas.by_replica_set(made, seen)) == [seen]


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

    def ended(self, *reads: list[Row]) -> list[tuple[int, ...]]:
        """What is known after each of these reads, in this order and in the other one, of transactions that ended."""
        found = []
        for order in (reads, reads[::-1]):
            made = state(1, 2)
            for read in order:
                self.take_in(made, read)
            found.append(tuple(int(made.partition[name][0]) for name in ENDED))
        together = state(1, 2)
        self.take_in(together, *reads)
        return [*found, tuple(int(together.partition[name][0]) for name in ENDED)]

    def test_the_furthest_reading_at_the_high_watermark_says_where_all_transactions_ended(
        self,
    ) -> None:
        level: dict[str, Any] = {"leader_epoch": 4, "log_start_offset": 2}
        far = shown(RU, 2, [], 9, last_stable_offset=7, **level)
        assert set(self.ended(shown(RU, 1, [], 9, last_stable_offset=6, **level), far)) == {(7, 9, 2, 4, 2)}
        assert set(self.ended(shown(RU, 1, [], 12, last_stable_offset=7, **level), far)) == {(7, 9, 2, 4, 2)}
        newer = shown(RU, 1, [], 12, last_stable_offset=7, leader_epoch=5)
        assert set(self.ended(newer, far)) == {(7, 12, 0, 5, 1)}

    @pytest.mark.parametrize(
        "more",
        [
            {"high_watermark": 10},
            {"leader_epoch": -1},
            {"last_stable_offset": -1},
            {"event": ReadEvent.LOG_TRUNCATED},
            {"event": ReadEvent.PARTITION_ADDED},
        ],
        ids=str,
    )
    def test_no_other_reading_says_that_transactions_had_ended(self, more: dict[str, Any]) -> None:
        read = shown(RU, 1, [], 9, **({"leader_epoch": 4, "last_stable_offset": 7} | more))
        assert set(self.ended(read, shown(RC, 1, [], 9, leader_epoch=4))) == {(-1,) * 5}

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


class TestReadersThatBeginAtTheEnd:
    def test_nothing_is_compared_below_where_the_last_of_them_began(self) -> None:
        made = state(1, 2)
        rows = observed(shown(RU, 1, [record(5, "K", "V")], 7), shown(RU, 2, [], 6), shown(RC, 1, [], 4)).rows
        replicas.begin_readers(made, rows)
        assert made.partition["floor"][0].tolist() == [6, 4]
        assert made.partition["begun_from"][0].tolist() == [5, 4]
        made.brokers["shown"] = [[7, 4], [6, -1]]
        replicas.begin_readers(made, observed(shown(RU, 1, [], 20), shown(RC, 2, [], 9)).rows)
        assert made.partition["floor"][0].tolist() == [6, 9]


def test_the_views_are_named_as_the_columns_are() -> None:
    assert (READ_UNCOMMITTED, READ_COMMITTED) == (int(RU), int(RC)) == (0, 1)


NOTHING = observed([])


class TestLogStarts:
    def begun_at(self, *starts: int, deletes: int = 0, deleted_to: int = -1) -> PartitionState:
        made = state(*range(len(starts)), log_start_offset=list(starts), high_watermark=20)
        made.partition["deletes"], made.partition["deleted_to"] = deletes, deleted_to
        return made

    def test_the_highest_while_the_policy_deletes_and_the_lowest_while_it_does_not_are_remembered(self) -> None:
        for starts in ((10, 3), (3, 10, 5)):
            made = self.begun_at(*starts, deletes=1)
            replicas.follow_heads(made, NOTHING.rows, NOTHING.progress, was_known=True)
            assert (made.partition["deleted_to"][0], made.partition["head"][0]) == (10, UNKNOWN)
            made.partition["deletes"] = 0
            replicas.follow_heads(made, NOTHING.rows, NOTHING.progress, was_known=True)
            assert (made.partition["deleted_to"][0], made.partition["head"][0]) == (10, 3)
            made.brokers["log_start_offset"] = 7
            replicas.follow_heads(made, NOTHING.rows, NOTHING.progress, was_known=True)
            assert made.partition["head"][0] == 3

    def test_what_a_log_lost_before_its_policy_was_known_is_counted_whoever_saw_it_begin_lower(self) -> None:
        read_from_2 = shown(RU, 1, [], 3, high_watermark=3, log_start_offset=2)
        said_0, empty_at_0 = tick(0, everywhere(3)), tick(0, everywhere(0))
        for told, skipped in ((said_0, 2), (empty_at_0, 0), ([], 0)):
            seen = observed(read_from_2, told)
            made = self.begun_at(2, 2)
            replicas.follow_heads(made, seen.rows, seen.progress, was_known=False)
            assert made.partition["skipped"][0].tolist() == [skipped, skipped]

    def test_where_logs_begin_is_not_known_of_one_that_has_not_said(self) -> None:
        assert replicas.log_starts(self.begun_at(4, -1, 0)) == [0, 4]
        assert replicas.retained_from(self.begun_at(-1, -1)) == UNKNOWN

    def test_two_of_a_topic_that_is_only_compacted_are_compared_as_far_down_as_both_go(self) -> None:
        assert replicas.retained_from(self.begun_at(10, 3, 5)) == 5
        assert replicas.retained_from(self.begun_at(10, 3, -1)) == 3, "one may begin there that has not said"
        assert replicas.retained_from(self.begun_at(10, 3, 5, deleted_to=8)) == 8
        assert replicas.retained_from(self.begun_at(10, 3, 5, deleted_to=12)) == 10
        assert replicas.retained_from(self.begun_at(10, 3, 5, deletes=1)) == 10
        assert replicas.retained_from(self.begun_at(10, 3)) == 10
        assert replicas.retained_from(self.begun_at(10)) == 10

    def test_offset_0_is_a_last_stable_offset_that_is_known(self) -> None:
        made = state(1, 2, stable_told=[0, -1])
        made.brokers["position"] = 9
        made.content = table(CONTENT, 2, offset=[0, 4], shown=[0b01, 0b11])
        assert replicas.undecided(made).tolist() == [True, False]
        made.brokers["stable_told"] = -1
        assert replicas.undecided(made).tolist() == [False, False]


def test_no_range_at_all_leaves_nothing_without_verdict_and_passes_nothing() -> None:
    made = state(1)
    made.partition["floor"] = [[5, 5]]
    replicas.skip(made, READ_COMMITTED, 9, 9, 1000)
    assert made.partition["floor"].tolist() == [[5, 5]]
    assert len(made.unread) == 0
