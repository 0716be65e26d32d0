"""How far a partition has been compared, and what of it has no verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.coverage import coverage
from parallax.compare.observations import READ_COMMITTED, READ_UNCOMMITTED, Observations
from parallax.compare.rules.arrays import table
from parallax.compare.state import (
    CANDIDATE,
    CONTENT,
    DEFERRED,
    DISPUTED,
    INTERVAL,
    NEVER,
    PENDING,
    REPORTED,
    UNREAD,
    UNREAD_REASONS,
    PartitionState,
)
from parallax.compare.suspect import Coverage, UnreadRange
from parallax.model import UnknownReason
from tests.unit.compare.states import state

GAP = UNREAD_REASONS.index(UnknownReason.RETENTION_GAP)
FIRST = UNREAD_REASONS.index(UnknownReason.BEFORE_FIRST_READING)


def read_to(*positions: int, **fields: Any) -> PartitionState:
    """Replicas of which each was read to a position, in both views."""
    made = state(*range(1, len(positions) + 1), begun=True, **fields)
    made.brokers["position"] = np.array(positions)[:, None]
    return made


def of(made: PartitionState) -> Coverage:
    return coverage(made, Observations("t", 0), 5, 300)


def unknown(made: PartitionState, reason: UnknownReason) -> tuple[int, int]:
    return of(made).unknown_for(reason)


def test_from_where_on_rows_may_be_read_again_is_said() -> None:
    made = read_to(10, 10)
    assert of(made).withheld_from == -1
    made.partition["withheld"] = 6
    assert of(made).withheld_from == 6


class TestWhatIsOpen:
    def test_lies_between_the_slowest_replica_and_the_furthest(self) -> None:
        assert unknown(read_to(3, 10), UnknownReason.NOT_READ_YET) == (7, 7)
        assert unknown(read_to(10, 10), UnknownReason.NOT_READ_YET) == (0, 0)

    def test_begins_at_the_floor_or_where_the_last_log_begins_if_these_lie_higher(self) -> None:
        made = read_to(3, 10)
        made.partition["floor"] = [[4, 5]]
        assert unknown(made, UnknownReason.NOT_READ_YET) == (6, 5)
        made.brokers["log_start_offset"] = [0, 8]
        assert unknown(made, UnknownReason.NOT_READ_YET) == (2, 2)
        made.partition["floor"] = [[20, 20]]
        assert unknown(made, UnknownReason.NOT_READ_YET) == (0, 0)

    def test_waits_for_a_first_reading_or_for_the_replica_set(self) -> None:
        made = read_to(3, 10)
        made.brokers["begun"][0, READ_COMMITTED] = False
        assert unknown(made, UnknownReason.BEFORE_FIRST_READING) == (0, 7)
        assert unknown(made, UnknownReason.NOT_READ_YET) == (7, 0)
        made.partition["members_known"] = False
        assert unknown(made, UnknownReason.REPLICA_SET_UNKNOWN) == (10, 10)

    def test_is_deferred_as_far_as_the_cap_left_it_out(self) -> None:
        made = read_to(3, 10)
        rows = [(READ_UNCOMMITTED, 5, 8), (READ_COMMITTED, 1, 5), (READ_COMMITTED, 9, NEVER), (READ_UNCOMMITTED, 0, 2)]
        made.deferred = np.array(rows, DEFERRED)
        assert unknown(made, UnknownReason.DEFERRED) == (3, 3)
        assert unknown(made, UnknownReason.NOT_READ_YET) == (4, 4)
        assert [(d.view, d.start, d.end) for d in of(made).deferred][2] == (READ_COMMITTED, 9, -1)


class TestWhatIsUnjudged:
    def waiting(self, *offsets: int, disputed: tuple[int, ...] = (), **fields: Any) -> PartitionState:
        made = read_to(15, 20, **fields)
        made.candidates = table(CANDIDATE, len(offsets), offset=list(offsets))
        flags = [DISPUTED] * len(disputed)
        made.pending = table(PENDING, len(disputed), offset=list(disputed), flags=flags)
        return made

    def test_counts_as_that_below_where_every_replica_was_read_to(self) -> None:
        made = self.waiting(3, 14, 15, 19)
        assert unknown(made, UnknownReason.UNJUDGED) == (0, 2)
        assert unknown(made, UnknownReason.NOT_READ_YET) == (5, 5)

    def test_may_be_an_outcome_that_waits_for_its_end_markers(self) -> None:
        assert unknown(self.waiting(3, disputed=(3, 5, 16)), UnknownReason.UNJUDGED) == (0, 2)
        made = self.waiting(disputed=(3, 5))
        made.pending["flags"] = [DISPUTED | REPORTED, 0]
        assert unknown(made, UnknownReason.UNJUDGED) == (0, 0)

    def test_is_not_over_by_an_audit_and_counts_for_no_other_reason(self) -> None:
        made = self.waiting(3, 9)
        made.unread = np.array([(READ_COMMITTED, GAP, 2, 8, 7), (READ_UNCOMMITTED, GAP, 0, 4, 7)], UNREAD)
        assert unknown(made, UnknownReason.UNJUDGED) == (0, 2)
        assert unknown(made, UnknownReason.RETENTION_GAP) == (4, 5)
        left = of(made).settled(lambda span: True)
        assert left.unknown_for(UnknownReason.UNJUDGED) == (0, 2)
        assert left.unknown_for(UnknownReason.RETENTION_GAP) == (0, 0)


class TestWhereVerdictsWait:
    def test_is_up_to_where_all_were_read_where_the_rest_has_only_to_be_read(self) -> None:
        made = read_to(3, 10)
        made.partition["floor"] = [[4, 5]]
        assert of(made).waits_from == (3, 3), "a replica that copies the log gets on, though the floor stays"
        assert of(read_to(10, 10)).waits_from == (-1, -1)
        assert of(read_to(-1, 10)).waits_from == (0, 0)

    def test_is_the_lowest_offset_that_is_not_judged(self) -> None:
        made = read_to(15, 20)
        made.candidates = table(CANDIDATE, 2, offset=[9, 12])
        assert of(made).waits_from == (15, 9)

    def test_is_the_lowest_record_that_no_last_stable_offset_has_passed_and_not_all_hold(self) -> None:
        made = read_to(20, 20)
        made.brokers["stable_told"] = 5
        made.content = table(CONTENT, 2, offset=[7, 8], shown=[1, 1])
        assert unknown(made, UnknownReason.UNDECIDED) == (2, 0)
        assert of(made).waits_from == (7, -1)

    def test_is_nowhere_where_an_audit_is_needed(self) -> None:
        made = read_to(3, 10)
        made.brokers["begun"][0] = False
        assert of(made).waits_from == (-1, -1)


class TestLogsThatBeginApart:
    def begun_at(self, *starts: int, **partition: int) -> PartitionState:
        made = read_to(*([20] * len(starts)), log_start_offset=list(starts))
        for name, value in partition.items():
            made.partition[name] = value
        return made

    @pytest.mark.parametrize(
        ("partition", "missing"),
        [
            ({}, 7),
            ({"head": 1}, 7),
            ({"head": 1, "deletes": 0}, 9),
            ({"head": 5, "deletes": 0}, 7),
            ({"deleted_to": 6}, 4),
            ({"deleted_to": 12}, 0),
            ({"deletes": 1}, 0),
            ({"strict_from": 4}, 0),
        ],
    )
    def test_miss_what_no_policy_deleted_since_the_lowest_that_was_seen(
        self, partition: dict[str, int], missing: int
    ) -> None:
        made = self.begun_at(10, 3, **partition)
        assert unknown(made, UnknownReason.LOG_START_DIFFERS) == (missing, missing)

    @pytest.mark.parametrize(
        ("partition", "unlike"),
        [({}, 0), ({"deletes": 0}, 0), ({"deletes": 1}, 7), ({"deletes": 1, "strict_from": 4}, 0)],
    )
    def test_are_unlike_where_the_topic_is_compacted_and_deletes_as_well(
        self, partition: dict[str, int], unlike: int
    ) -> None:
        made = self.begun_at(10, 3, **partition)
        assert unknown(made, UnknownReason.RETENTION_DIFFERS) == (unlike, unlike)

    def test_are_not_known_to_where_nobody_has_said(self) -> None:
        made = self.begun_at(-1, -1, deletes=1)
        assert (
            unknown(made, UnknownReason.RETENTION_DIFFERS) == unknown(made, UnknownReason.LOG_START_DIFFERS) == (0, 0)
        )


class TestWhatAnAuditIsNeededFor:
    def ranges(self, made: PartitionState, *rows: tuple[int, int, int, int, int]) -> tuple[UnreadRange, ...]:
        made.unread = np.array([*rows], UNREAD)
        return of(made).unread

    def test_is_cut_to_what_is_still_there_and_has_been_compared(self) -> None:
        made = read_to(15, 20, log_start_offset=2)
        assert self.ranges(made, (READ_COMMITTED, GAP, 0, 30, 7)) == (
            UnreadRange(READ_COMMITTED, 2, 15, UnknownReason.RETENTION_GAP, 7),
        )
        assert unknown(made, UnknownReason.RETENTION_GAP) == (0, 13)
        assert self.ranges(read_to(15, 20), (READ_COMMITTED, GAP, 0, 30, 7))[0].start == 0
        assert self.ranges(made, (READ_COMMITTED, GAP, 0, 2, 7), (READ_UNCOMMITTED, GAP, 15, 20, 7)) == ()

    def test_counts_no_offset_of_a_view_twice(self) -> None:
        made = read_to(20, 20)
        got = self.ranges(
            made,
            (READ_COMMITTED, FIRST, 6, 12, 1),
            (READ_COMMITTED, GAP, 0, 8, 2),
            (READ_COMMITTED, GAP, 9, 11, 3),
            (READ_UNCOMMITTED, GAP, 0, 8, 4),
        )
        assert [(r.view, r.start, r.end, r.since) for r in got] == [
            (READ_UNCOMMITTED, 0, 8, 4),
            (READ_COMMITTED, 0, 8, 2),
            (READ_COMMITTED, 8, 9, 1),
            (READ_COMMITTED, 9, 11, 3),
            (READ_COMMITTED, 11, 12, 1),
        ]
        assert unknown(made, UnknownReason.RETENTION_GAP) == (8, 10)
        assert unknown(made, UnknownReason.BEFORE_FIRST_READING) == (0, 2)

    def test_an_audit_has_to_have_begun_after_all_of_it(self) -> None:
        (got,) = self.ranges(read_to(20, 20), (READ_COMMITTED, GAP, 2, 8, 2), (READ_COMMITTED, FIRST, 0, 9, 6))[1:2]
        assert (got.start, got.end, got.reason, got.since) == (2, 8, UnknownReason.RETENTION_GAP, 6)


class TestAReplica:
    def test_is_frozen_since_it_was_first_seen_so(self) -> None:
        made = read_to(3, 4, stalled_since=[-1, 2_000], observed_at=[9_500, 9_500])
        assert [b.frozen_for_s for b in of(made).brokers] == [0.0, 7.5]

    def test_that_has_left_the_set_is_not_told_of(self) -> None:
        made = read_to(3, 4)
        made.brokers["member"] = [True, False]
        assert [b.broker for b in of(made).brokers] == [1]
        made.partition["members_known"] = False
        assert [b.broker for b in of(made).brokers] == [1, 2]


class TestAwaitsReport:
    def answering(self, *, away: bool = False) -> PartitionState:
        made = read_to(10, 10, reachable=True, stable_told=8)
        made.brokers["reachable"][1] = not away
        return made

    @pytest.mark.parametrize("away", [True, False])
    def test_an_absence_until_it_has_its_horizon_whoever_is_away(self, away: bool) -> None:
        made = self.answering(away=away)
        made.candidates = table(CANDIDATE, 1, offset=[3], horizon=-1)
        assert of(made).awaits_report
        made.candidates["horizon"] = 8
        assert not of(made).awaits_report, "all else comes with what is read"

    def test_an_absence_of_what_is_not_compacted_until_the_policy_was_seen_again(self) -> None:
        made = self.answering()
        made.candidates = table(CANDIDATE, 1, offset=[3], horizon=8, passed_at=50)
        made.partition["strict_from"], made.partition["policy_at"] = 0, 50
        assert of(made).awaits_report
        made.partition["policy_at"] = 51
        assert not of(made).awaits_report

    @pytest.mark.parametrize(("start", "awaits"), [(7, True), (8, False), (9, False)])
    def test_an_open_transaction_once_the_last_stable_offset_has_passed_it(self, start: int, awaits: bool) -> None:
        made = self.answering()
        made.intervals = table(INTERVAL, 1, slot=1, start=start, end=NEVER, missed=NEVER, over_by=NEVER)
        assert of(made).awaits_report is awaits
        made.brokers["reachable"][1] = False
        assert not of(made).awaits_report, "who is away lists nothing"

    def test_a_dispute_while_all_answer(self) -> None:
        for away in (True, False):
            made = self.answering(away=away)
            made.pending = table(PENDING, 1, offset=[3], flags=DISPUTED)
            assert of(made).awaits_report is not away

    def test_nothing_while_nobody_answers(self) -> None:
        made = read_to(10, 10, reachable=False)
        made.candidates = table(CANDIDATE, 1, offset=[3], horizon=-1)
        assert not of(made).awaits_report
