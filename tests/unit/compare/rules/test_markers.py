"""I2 on arrays: transactions as each replica shows them, and the end markers that one of them missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import ABORT, COMMIT, Array
from parallax.compare.rules import markers
from parallax.compare.rules.arrays import table
from parallax.compare.rules.markers import DATA, UNREAD
from parallax.compare.state import INTERVAL, MARKER, NEVER, PENDING

NONE = np.zeros(0, INTERVAL)
Row = tuple[int, int, int, int]
"""Offset, producer, type, slot."""


def take_in(*rows: Row, intervals: Array = NONE) -> Array:
    offsets, producers, types, slots = (np.array(c) for c in zip(*rows, strict=True))
    return markers.take_in_intervals(intervals, offsets, producers, types, slots)


def spans(intervals: Array) -> list[tuple[int, int, int, int, int]]:
    """Slot, producer, start, end and type of the end; -1 for an end that is still to come."""
    rows = [
        (int(i["slot"]), int(i["producer_id"]), int(i["start"]), int(i["end"]), int(i["end_type"])) for i in intervals
    ]
    return sorted((slot, pid, start, -1 if end == NEVER else end, kind) for slot, pid, start, end, kind in rows)


def interval(**fields: Any) -> Array:
    row = {
        "slot": 1,
        "producer_id": 9,
        "start": 2,
        "end": NEVER,
        "missed": NEVER,
        "over_by": NEVER,
        "next_start": NEVER,
    }
    return table(INTERVAL, 1, **(row | fields))


def shown(*rows: tuple[int, int, int], producer: int = 9, epoch: int = 3) -> Array:
    """Markers of (offset, type, mask of who showed them)."""
    made = np.zeros(0, MARKER)
    for offset, kind, mask in rows:
        slots = np.array([slot for slot in range(4) if mask >> slot & 1])
        same = np.full(len(slots), 1)
        made = markers.take_in_markers(made, same * offset, same * producer, same * kind, slots, same * epoch)
    return made


class TestMarkers:
    def test_one_row_for_each_marker_with_who_showed_it(self) -> None:
        made = shown((7, COMMIT, 0b001), (4, ABORT, 0b110), (7, COMMIT, 0b010))
        assert [tuple(m) for m in made.tolist()] == [(4, 9, ABORT, 0b110, 3), (7, 9, COMMIT, 0b011, 3)]
        empty = np.empty(0, int)
        assert markers.take_in_markers(made, empty, empty, empty, empty, empty) is made

    def test_it_is_of_the_newest_leader_epoch_in_which_it_was_shown(self) -> None:
        one = np.array([1])
        made = markers.take_in_markers(shown((7, COMMIT, 0b001)), one * 7, one * 9, one * COMMIT, one, one * 5)
        made = markers.take_in_markers(made, one * 7, one * 9, one * COMMIT, one * 2, one * 4)
        assert [tuple(m) for m in made.tolist()] == [(7, 9, COMMIT, 0b111, 5)]


class TestIntervals:
    def test_from_the_first_data_to_the_next_marker_of_the_producer(self) -> None:
        made = take_in((2, 9, DATA, 1), (3, 9, DATA, 1), (5, 9, COMMIT, 1), (6, 9, DATA, 1), (8, 9, ABORT, 1))
        assert spans(made) == [(1, 9, 2, 5, COMMIT), (1, 9, 6, 8, ABORT)]

    def test_replicas_and_producers_are_distinguished(self) -> None:
        made = take_in((2, 9, DATA, 1), (3, 8, DATA, 1), (4, 8, ABORT, 1), (4, 9, COMMIT, 0), (5, 9, DATA, 0))
        assert spans(made) == [(0, 9, 5, -1, 0), (1, 8, 3, 4, ABORT), (1, 9, 2, -1, 0)]

    def test_a_marker_without_data_before_it_ends_nothing(self) -> None:
        assert spans(take_in((2, 9, COMMIT, 1))) == []
        assert spans(take_in((2, 9, COMMIT, 1), (3, 9, COMMIT, 1), (4, 9, DATA, 1))) == [(1, 9, 4, -1, 0)]

    def test_an_open_one_goes_on_with_what_is_shown_next(self) -> None:
        made = take_in((2, 9, DATA, 1), (2, 9, DATA, 0))
        made = take_in((4, 9, DATA, 1), intervals=made)
        assert spans(made) == [(0, 9, 2, -1, 0), (1, 9, 2, -1, 0)]
        made = take_in((6, 9, ABORT, 1), (7, 9, DATA, 1), intervals=made)
        assert spans(made) == [(0, 9, 2, -1, 0), (1, 9, 2, 6, ABORT), (1, 9, 7, -1, 0)]

    def test_what_is_known_of_an_open_one_stays_known(self) -> None:
        known = {"missed": 3, "missed_type": ABORT, "missed_shown": 5, "told": 1, "over_by": 44, "next_start": 33}
        made = take_in((6, 9, COMMIT, 1), (7, 9, DATA, 1), intervals=interval(**known))
        first, second = made[np.argsort(made["start"])]
        assert {name: int(first[name]) for name in known} == known
        fresh = {"missed": NEVER, "missed_type": 0, "missed_shown": 0, "told": 0, "over_by": NEVER, "next_start": NEVER}
        assert {name: int(second[name]) for name in fresh} == fresh

    def test_ended_ones_are_left_alone(self) -> None:
        before = interval(end=4, end_type=ABORT, told=2)
        made = take_in((6, 9, DATA, 1), intervals=before)
        assert made[0] == before[0]
        empty = np.empty(0, int)
        assert markers.take_in_intervals(before, empty, empty, empty, empty) is before


class TestReportedToBeOver:
    """The replica does not list the transaction any more: nothing from there on continues it."""

    def test_a_marker_from_there_on_ends_another_transaction(self) -> None:
        carried = interval(over_by=7, missed=3, missed_type=COMMIT)
        made = take_in((8, 9, DATA, 1), (10, 9, ABORT, 1), intervals=carried)
        assert spans(made) == [(1, 9, 2, 7, UNREAD), (1, 9, 8, 10, ABORT)]
        assert made["missed"].tolist() == [3, NEVER]
        assert spans(take_in((10, 9, ABORT, 1), intervals=carried)) == [(1, 9, 2, 7, UNREAD)]

    def test_its_own_end_may_still_be_read_before_that(self) -> None:
        carried = interval(over_by=7)
        assert spans(take_in((6, 9, ABORT, 1), intervals=carried)) == [(1, 9, 2, 6, ABORT)]
        made = take_in((6, 9, ABORT, 1), (8, 9, DATA, 1), intervals=carried)
        assert spans(made) == [(1, 9, 2, 6, ABORT), (1, 9, 8, -1, UNREAD)]

    def test_it_stays_open_until_its_replica_has_been_read_to_there(self) -> None:
        carried = interval(over_by=7)
        assert spans(take_in((6, 8, DATA, 1), (9, 9, DATA, 2), intervals=carried)) == [
            (1, 8, 6, -1, UNREAD),
            (1, 9, 2, -1, UNREAD),
            (2, 9, 9, -1, UNREAD),
        ]

    def test_the_transaction_that_followed_begins_where_the_replica_said(self) -> None:
        made = take_in((10, 9, ABORT, 1), intervals=interval(over_by=7, next_start=7))
        assert spans(made) == [(1, 9, 2, 7, UNREAD), (1, 9, 7, 10, ABORT)]
        made = take_in((7, 9, DATA, 1), intervals=interval(over_by=7, next_start=7, told=1))
        assert spans(made) == [(1, 9, 2, 7, UNREAD), (1, 9, 7, -1, UNREAD)]
        assert made["told"].tolist() == [1, 0]


class TestOwnEnds:
    """End markers that a replica showed as read_committed, and that its read_uncommitted rows do not have."""

    def test_those_of_each_replica_below_the_last_of_its_rows_in_either_view(self) -> None:
        known = shown((1, COMMIT, 0b10), (4, ABORT, 0b01), (6, COMMIT, 0b11), (9, ABORT, 0b10))
        slots, offsets = np.array([0, 0, 0, 1, 1]), np.array([2, 5, 6, 1, 9])
        ends, of, passed = markers.own_ends(known, slots, offsets)
        found = zip(of.tolist(), ends["offset"].tolist(), ends["type"].tolist(), strict=True)
        assert list(found) == [(0, 4, ABORT), (1, 1, COMMIT), (1, 6, COMMIT)]
        assert passed.tolist() == [0, 1, 1, 0, 2]

    def test_where_nothing_was_shown_there_are_none(self) -> None:
        nothing = np.zeros(0, np.int64)
        ends, of, passed = markers.own_ends(shown((1, COMMIT, 0b1)), nothing, nothing)
        assert (len(ends), len(of), len(passed)) == (0, 0, 0)

    def ended(self, intervals: Array, known: Array, *at: int) -> list[tuple[int, int, int]]:
        positions = np.full(32, -1)
        positions[: len(at)] = at
        before = intervals.copy()
        made = markers.end_at_own(intervals, known, positions)
        assert (intervals == before).all()
        return [(int(i["end"]), int(i["end_type"]), int(i["missed"])) for i in made]

    def test_one_that_comes_to_be_known_later_ends_the_transaction_in_its_place(self) -> None:
        known = shown((5, ABORT, 0b10), (7, COMMIT, 0b10))
        assert self.ended(interval(end=9, end_type=COMMIT, missed=6), known, 0, 9) == [(5, ABORT, NEVER)]
        assert self.ended(interval(missed=5), known, 0, 9) == [(5, ABORT, NEVER)]
        assert self.ended(interval(missed=4), known, 0, 9) == [(5, ABORT, 4)]
        made = markers.end_at_own(interval(over_by=8, next_start=8), known, np.array([0, 9]))
        assert (made["over_by"].tolist(), made["next_start"].tolist()) == ([NEVER], [NEVER])

    def test_its_own_end_and_what_is_not_its_own_end_nothing(self) -> None:
        untouched = [(9, COMMIT, 6)]
        missed = interval(end=9, end_type=COMMIT, missed=6)
        for known, position in (
            (shown((9, COMMIT, 0b10)), 10),
            (shown((12, ABORT, 0b10)), 13),
            (shown((5, ABORT, 0b01)), 10),
            (shown((5, ABORT, 0b10), producer=8), 10),
            (shown((2, ABORT, 0b10)), 10),
            (shown((5, ABORT, 0b10)), 5),
            (np.zeros(0, MARKER), 10),
        ):
            assert self.ended(missed, known, 0, position) == untouched

    def test_each_replica_and_transaction_has_its_own(self) -> None:
        several = np.concatenate([interval(end=9), interval(start=10, end=15), interval(slot=0, end=9)])
        known = shown((5, ABORT, 0b10), (6, ABORT, 0b01), (12, COMMIT, 0b11))
        assert self.ended(several, known, 20, 20) == [
            (5, ABORT, NEVER),
            (12, COMMIT, NEVER),
            (6, ABORT, NEVER),
        ]


class TestMissed:
    def missed(self, intervals: Array, known: Array, *at: int, members: int = 0b111) -> list[tuple[int, int, int]]:
        positions = np.full(32, -1)
        positions[: len(at)] = at
        found = markers.find_missed(intervals, known, positions, members)
        return [(int(i["missed"]), int(i["missed_type"]), int(i["missed_shown"])) for i in found]

    NOT = (NEVER, 0, 0)

    def test_a_marker_inside_that_was_passed_without_being_shown(self) -> None:
        assert self.missed(interval(), shown((5, ABORT, 0b101)), 9, 6, 9) == [(5, ABORT, 0b101)]
        assert self.missed(interval(end=6), shown((5, ABORT, 0b101)), 9, 9, 9) == [(5, ABORT, 0b101)]

    def test_none_before_it_is_passed_or_where_it_was_shown(self) -> None:
        assert self.missed(interval(), shown((5, ABORT, 0b101)), 9, 5, 9) == [self.NOT]
        assert self.missed(interval(), shown((5, ABORT, 0b111)), 9, 6, 9) == [self.NOT]
        assert self.missed(interval(), shown((5, ABORT, 0b101)), 9, 6, 9, members=0b101) == [self.NOT]

    def test_none_outside_the_interval_or_of_another_producer(self) -> None:
        assert self.missed(interval(), shown((1, ABORT, 0b101)), 9, 9, 9) == [self.NOT]
        assert self.missed(interval(end=5), shown((5, ABORT, 0b101)), 9, 9, 9) == [self.NOT]
        assert self.missed(interval(end=5), shown((6, ABORT, 0b101)), 9, 9, 9) == [self.NOT]
        assert self.missed(interval(), shown((5, ABORT, 0b101), producer=8), 9, 9, 9) == [self.NOT]

    def test_the_lowest_is_the_true_end(self) -> None:
        both = shown((5, ABORT, 0b001), (4, COMMIT, 0b100), (7, ABORT, 0b100))
        assert self.missed(interval(), both, 9, 9, 9) == [(4, COMMIT, 0b100)]
        assert self.missed(interval(missed=3, missed_type=ABORT, missed_shown=4), both, 9, 9, 9) == [(3, ABORT, 4)]
        assert self.missed(interval(missed=5, missed_type=ABORT, missed_shown=1), both, 9, 9, 9) == [(4, COMMIT, 4)]

    def test_who_shows_it_later_is_noted_as_well(self) -> None:
        known = interval(missed=5, missed_type=ABORT, missed_shown=1)
        assert self.missed(known, shown((5, ABORT, 0b101)), 9, 9, 9) == [(5, ABORT, 0b101)]

    def test_each_marker_belongs_to_the_last_transaction_that_begins_before_it(self) -> None:
        two = np.concatenate([interval(end=6), interval(start=8, end=12), interval(producer_id=8, start=7)])
        found = self.missed(two, shown((5, ABORT, 1), (7, ABORT, 1), (9, COMMIT, 1)), 20, 20, 20)
        assert found == [(5, ABORT, 1), (9, COMMIT, 1), self.NOT]

    def test_a_marker_where_the_transaction_begins_is_of_another_log(self) -> None:
        start = int(interval()["start"][0])
        assert self.missed(interval(), shown((start, ABORT, 1)), 9, 9, 9) == [self.NOT]
        before = np.concatenate([interval(start=start - 2), interval()])
        assert self.missed(before, shown((start, ABORT, 1)), 9, 9, 9) == [(start, ABORT, 1), self.NOT]

    def test_two_replicas_may_miss_the_same_marker(self) -> None:
        two = np.concatenate([interval(), interval(slot=2)])
        assert self.missed(two, shown((5, ABORT, 1)), 9, 9, 9) == [(5, ABORT, 1)] * 2

    def test_the_input_is_left_alone(self) -> None:
        before = interval()
        self.missed(before, shown((5, ABORT, 1)), 9, 9, 9)
        assert before["missed"][0] == NEVER


class TestLaterOnes:
    """A replica missed the marker at 5, and the one at 20 ended its transaction from 2 on."""

    ended = interval(missed=5, missed_type=ABORT, end=20, end_type=ABORT, told=3)

    def later(self, *more: Array, offset: int = 9, **fields: Any) -> list[tuple[int, int, int]]:
        row = {"offset": offset, "producer_id": 9, "aborted": 0b10}
        pending = table(PENDING, 1, **(row | fields))
        made = markers.later_ones(np.concatenate([self.ended, *more]), pending)
        return [(int(i["start"]), int(i["end"]), int(i["told"])) for i in made if i["missed"] == NEVER]

    def test_what_lies_behind_the_missed_marker_is_a_transaction_of_its_own(self) -> None:
        assert self.later() == [(9, 20, 0)]
        assert self.later(aborted=0, visible=0b10) == [(9, 20, 0)]
        assert self.later(offset=6) == [(6, 20, 0)]

    def test_nothing_else_is(self) -> None:
        for other in ({"offset": 5}, {"offset": 20}, {"producer_id": 8}, {"aborted": 0b1}):
            assert self.later(**other) == []
        assert self.later(interval(start=7, end=20)) == [], "it is there already"
        assert len(markers.later_ones(interval(missed=5), table(PENDING, 1, offset=9, producer_id=9, aborted=2))) == 0
        assert len(markers.later_ones(self.ended, table(PENDING, 0))) == 0


def test_a_row_lies_within_a_transaction_whose_end_is_known_up_to_that_end() -> None:
    known = np.concatenate([interval(end=5), interval(start=7), interval(slot=0, start=20, end=30)])
    slots, producers = np.array([1, 1, 1, 1, 1, 0, 1]), np.array([9, 9, 9, 9, 8, 9, 9])
    offsets = np.array([1, 2, 4, 5, 3, 3, 8])
    assert markers.within_ended(known, slots, producers, offsets).tolist() == [False, True, True, *[False] * 4]
    assert markers.within_ended(known[:0], slots, producers, offsets).any() is np.False_
    assert markers.within_ended(known, slots[:0], producers[:0], offsets[:0]).tolist() == []


class TestReconcile:
    def reconcile(
        self, intervals: Array, *listed: tuple[int, int], ends: tuple[int, int] = (10, 20), stable: int = 10
    ) -> Array:
        producers, starts = (np.array([pair[i] for pair in listed], np.int64) for i in (0, 1))
        return markers.reconcile(intervals, 1, producers, starts, ends, stable)

    def state(self, intervals: Array) -> tuple[int, int, int]:
        row = intervals[0]
        return tuple(-1 if row[n] == NEVER else int(row[n]) for n in ("start", "over_by", "next_start"))  # type: ignore[return-value]

    def test_one_that_is_not_listed_is_over_below_the_log_end(self) -> None:
        assert self.state(self.reconcile(interval())) == (2, 20, -1)
        assert self.state(self.reconcile(interval(), (8, 2))) == (2, 20, -1)

    def test_only_if_it_was_in_the_log_at_the_tick_before_and_is_now(self) -> None:
        assert self.state(self.reconcile(interval(), ends=(2, 20))) == (2, -1, -1)
        assert self.state(self.reconcile(interval(), ends=(3, 20))) == (2, 20, -1)
        assert self.state(self.reconcile(interval(), ends=(20, 2))) == (2, -1, -1)
        assert self.state(self.reconcile(interval(), ends=(20, 3))) == (2, 3, -1)

    def test_an_end_marker_proves_only_below_the_last_stable_offset_for_it_may_be_truncated(self) -> None:
        assert self.state(self.reconcile(interval(), stable=2)) == (2, -1, -1)
        assert self.state(self.reconcile(interval(), stable=3)) == (2, 20, -1)
        assert self.state(self.reconcile(interval(), (9, 7), stable=2)) == (2, -1, -1)
        assert self.state(self.reconcile(interval(), (9, 7), stable=3)) == (2, 7, 7)

    def test_the_first_tick_that_says_so_counts(self) -> None:
        assert self.state(self.reconcile(interval(over_by=12))) == (2, 12, -1)

    def test_one_that_is_listed_from_later_on_was_followed(self) -> None:
        assert self.state(self.reconcile(interval(), (9, 7))) == (2, 7, 7)

    def test_one_that_is_listed_is_open_whatever_an_earlier_tick_said(self) -> None:
        assert self.state(self.reconcile(interval(), (9, 2))) == (2, -1, -1)
        assert self.state(self.reconcile(interval(over_by=12, next_start=11), (9, 2))) == (2, -1, -1)

    def test_the_listed_start_is_that_of_the_batch(self) -> None:
        assert self.state(self.reconcile(interval(), (9, 1))) == (1, -1, -1)

    def test_a_start_that_was_reported_or_lies_in_an_earlier_transaction_stays(self) -> None:
        assert self.state(self.reconcile(interval(told=1), (9, 1))) == (2, -1, -1)
        earlier = np.concatenate([interval(), interval(start=0, end=2)])
        assert self.state(self.reconcile(earlier, (9, 1))) == (2, -1, -1)
        ended_before = np.concatenate([interval(), interval(start=0, end=1)])
        assert self.state(self.reconcile(ended_before, (9, 1))) == (1, -1, -1)
        of_another = np.concatenate([interval(), interval(start=0, end=2, producer_id=8)])
        assert self.state(self.reconcile(of_another, (9, 1))) == (1, -1, -1)
        elsewhere = np.concatenate([interval(), interval(start=0, end=2, slot=0)])
        assert self.state(self.reconcile(elsewhere, (9, 1))) == (1, -1, -1)

    @pytest.mark.parametrize("other", [interval(slot=0), interval(end=5)])
    def test_other_replicas_and_ended_transactions_are_left_alone(self, other: Array) -> None:
        assert self.reconcile(other) is other


class TestCloseEnded:
    def close(self, intervals: Array, position: int) -> list[tuple[int, int, int, int, int]]:
        positions = np.full(32, -1)
        positions[1] = position
        return spans(markers.close_ended(intervals, positions))

    def test_one_that_is_over_is_closed_when_the_reader_has_passed_the_place(self) -> None:
        over = interval(over_by=20)
        assert self.close(over, 19) == spans(over)
        assert self.close(over, 20) == [(1, 9, 2, 20, UNREAD)]
        assert self.close(interval(), 99) == spans(interval())

    def test_one_that_has_ended_stays(self) -> None:
        ended = interval(end=9, end_type=COMMIT, over_by=20)
        assert self.close(ended, 30) == spans(ended)

    def test_the_transaction_that_followed_takes_its_place_with_nothing_known(self) -> None:
        followed = interval(over_by=7, next_start=7, missed=5, missed_type=ABORT, missed_shown=1, told=3)
        positions = np.full(32, 30)
        *closed, made = markers.close_ended(np.concatenate([followed, interval(over_by=9)]), positions)
        values = [int(made[n]) for n in ("start", "missed", "missed_shown", "told", "over_by", "next_start", "end")]
        assert values == [7, NEVER, 0, 0, NEVER, NEVER, NEVER]
        assert [(int(i["start"]), int(i["end"]), int(i["missed"])) for i in closed] == [(2, 7, 5), (2, 9, NEVER)]

    def test_a_marker_at_or_behind_the_place_where_it_is_over_was_not_missed_by_it(self) -> None:
        positions = np.full(32, 30)
        for missed, stays in ((6, True), (7, False), (8, False)):
            (closed,) = markers.close_ended(interval(over_by=7, missed=missed, missed_type=ABORT), positions)
            assert int(closed["missed"]) == (missed if stays else NEVER)
            assert markers.passed_open(np.array([closed])).tolist() == [stays]

    def test_what_it_missed_before_it_ended_is_still_found(self) -> None:
        positions = np.full(32, 30)
        closed = markers.close_ended(interval(over_by=9), positions)
        found = markers.find_missed(closed, shown((5, COMMIT, 1)), positions, 3)
        assert found["missed"].tolist() == [5]
        assert markers.passed_open(found).tolist() == [True]
        assert markers.passed_open(interval(missed=5)).tolist() == [False]


class TestRecordsThatOnlyOneReaderWasGiven:
    ENDS = shown((3, ABORT, 1 << 2), (6, COMMIT, 1 << 1), (9, ABORT, 1 << 1))

    def add(self, *offsets: int, intervals: Array = NONE) -> list[tuple[int, int, int, int, int]]:
        of = np.array(offsets)
        return spans(markers.add_ended(intervals, self.ENDS, of, np.full(len(of), 9), np.full(len(of), 1)))

    def test_are_of_the_transactions_that_their_own_replica_ended(self) -> None:
        assert self.add(5, 2, 7) == [(1, 9, 2, 6, COMMIT), (1, 9, 7, 9, ABORT)]

    def test_are_of_none_where_their_replica_shows_no_end_marker_behind_them(self) -> None:
        assert self.add(9, 11) == []

    def test_are_of_the_one_that_is_known_already(self) -> None:
        for known in (interval(start=1, end=6, end_type=COMMIT), interval(start=4), interval(start=3, end=4)):
            assert self.add(2, intervals=known) == spans(known)
