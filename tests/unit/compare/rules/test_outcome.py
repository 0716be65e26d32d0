"""I2 on arrays: what replicas showed of a record's outcome, and what end markers prove of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import ABORT, COMMIT, Array
from parallax.compare.rules import outcome
from parallax.compare.rules.arrays import table
from parallax.compare.rules.markers import UNREAD
from parallax.compare.state import (
    DISPUTED,
    INTERVAL,
    MARKER,
    NEVER,
    NOWHERE,
    NULL_KEY,
    PENDING,
    REPORTED,
    TOMBSTONE,
    UNENDED,
)
from parallax.model import NOBODY, UNKNOWN

NO_INTERVALS = np.zeros(0, INTERVAL)


def pending(*rows: tuple[int, int, int], producer: int = 9) -> Array:
    """Rows of (offset, mask of who shows it, mask of who hides it)."""
    offsets, shows, hides = zip(*rows, strict=True)
    return table(PENDING, len(rows), offset=offsets, producer_id=producer, visible=shows, aborted=hides, flags=DISPUTED)


def ends(*rows: tuple[int, int, int], producer: int = 9) -> Array:
    """Markers of (offset, type, mask of who showed it)."""
    offsets, types, shown = zip(*rows, strict=True)
    return table(MARKER, len(rows), offset=offsets, producer_id=producer, type=types, shown=shown)


def verdicts(
    rows: Array, markers: Array, intervals: Array = NO_INTERVALS, unmarked: tuple[int, int] = NOWHERE
) -> list[tuple[int, list[int], bool, bool, int]]:
    """With one marker for all rows of a verdict; for several see the test that has them."""
    judged = outcome.judge_disputes(rows, np.arange(len(rows)), markers, intervals, unmarked)
    assert all(len(set(v.markers.tolist())) == 1 and len(v.markers) == len(v.rows) for v in judged)
    return [(v.slot, v.rows.tolist(), v.proven, v.shown_aborted, int(v.markers[0])) for v in judged]


A, B, C = 1, 2, 4
ALL = A | B | C
NO_MARKERS = np.zeros(0, MARKER)


class TestProvenByMarkers:
    def test_of_two_ends_the_higher_is_wrong_whichever_type_it_has(self) -> None:
        committed_late = pending((2, B, A | C))
        assert verdicts(committed_late, ends((3, ABORT, A), (5, COMMIT, A | B | C))) == [(1, [0], True, False, 3)]
        aborted_late = pending((2, A | C, B))
        assert verdicts(aborted_late, ends((3, COMMIT, A), (5, ABORT, A | B | C))) == [(1, [0], True, True, 3)]

    def test_two_of_three_may_be_wrong(self) -> None:
        rows = pending((2, B | C, A))
        found = verdicts(rows, ends((3, ABORT, A), (5, COMMIT, A | B | C)))
        assert found == [(1, [0], True, False, 3), (2, [0], True, False, 3)]

    def test_a_replica_whose_own_end_contradicts_its_outcome_proves_nothing_of_another(self) -> None:
        # All hold ABORT 3, and the index of the second has lost it: the two others are right.
        assert verdicts(pending((2, B, A | C)), ends((3, ABORT, ALL))) == [(NOBODY, [0], False, False, UNKNOWN)]
        assert verdicts(pending((2, B, A)), ends((5, COMMIT, A | B))) == [(NOBODY, [0], False, False, UNKNOWN)]

    @pytest.mark.parametrize(("epoch", "shown_by"), [(0, A), (1, A), (1, A | C)])
    def test_an_outcome_whose_end_may_have_been_truncated_is_no_side(self, epoch: int, shown_by: int) -> None:
        # What the first shows behind the record contradicts it: the marker that it had was cleaned, or is of a log that
        # was truncated, where the one that it shows was written by another leader.
        markers = ends((5, COMMIT, A | B | C))
        markers["leader_epoch"] = epoch
        found = verdicts(pending((2, B, shown_by)), markers)
        assert found == ([(NOBODY, [0], False, False, UNKNOWN)] if epoch == 0 else [])

    def test_an_end_just_below_is_lower(self) -> None:
        assert verdicts(pending((2, B, A)), ends((4, ABORT, A), (5, COMMIT, B))) == [(1, [0], True, False, 4)]

    def test_a_marker_at_or_below_the_record_ends_an_earlier_transaction(self) -> None:
        found = verdicts(pending((2, B, A)), ends((1, ABORT, A | B), (2, ABORT, A), (5, COMMIT, B)))
        assert [proven for _, _, proven, _, _ in found] == [False]

    def test_a_marker_of_another_producer_ends_nothing(self) -> None:
        markers = np.concatenate([ends((3, ABORT, A), producer=8), ends((5, COMMIT, B))])
        assert [proven for _, _, proven, _, _ in verdicts(pending((2, B, A)), markers)] == [False]

    def test_each_record_is_judged_by_the_markers_after_it(self) -> None:
        rows = pending((2, B, A), (6, A, B))
        found = verdicts(rows, ends((3, ABORT, A), (5, COMMIT, B), (7, COMMIT, A), (9, ABORT, B)))
        assert found == [(1, [0], True, False, 3), (1, [1], True, True, 7)]

    def test_each_record_has_the_marker_of_its_own_transaction(self) -> None:
        rows = pending((2, B, A), (3, B, A), (6, B, A))
        markers = ends((4, ABORT, A), (5, COMMIT, B), (7, ABORT, A), (9, COMMIT, B))
        (verdict,) = outcome.judge_disputes(rows, np.arange(3), markers, NO_INTERVALS)
        assert (verdict.slot, verdict.rows.tolist(), verdict.markers.tolist()) == (1, [0, 1, 2], [4, 4, 7])

    @pytest.mark.parametrize("unmarked", [(3, 4), (4, 5), (0, 9)])
    def test_no_end_is_known_beyond_which_markers_were_left_out(self, unmarked: tuple[int, int]) -> None:
        # The second's own marker may be one of those; that the first ended at 3 or below stands.
        rows, markers = pending((2, B, A | C)), ends((3, ABORT, A), (5, COMMIT, B))
        found = verdicts(rows, markers, unmarked=unmarked)
        assert found == [(NOBODY, [0], False, False, UNKNOWN)]

    @pytest.mark.parametrize("unmarked", [(0, 2), (5, 6), (6, 9), NOWHERE])
    def test_markers_left_out_below_the_record_or_above_its_ends_change_nothing(
        self, unmarked: tuple[int, int]
    ) -> None:
        rows, markers = pending((2, B, A | C)), ends((3, ABORT, A), (5, COMMIT, B))
        assert verdicts(rows, markers, unmarked=unmarked) == [(1, [0], True, False, 3)]

    def test_the_lowest_of_several_true_ends_is_reported(self) -> None:
        rows = pending((2, B, A | C))
        found = verdicts(rows, ends((3, ABORT, A), (4, ABORT, C), (5, COMMIT, B)))
        assert found == [(1, [0], True, False, 3)]


class TestProvenByPassingOpen:
    """The end of the transaction on the second replica was cleaned, with its data, before it was read."""

    def passed(self, missed: int = 3, **fields: Any) -> Array:
        row = {"slot": 1, "producer_id": 9, "start": 2, "end": 8, "end_type": UNREAD, "missed": missed}
        return table(INTERVAL, 1, **(row | fields))

    def test_one_that_passed_the_end_of_another_with_the_transaction_open_is_wrong(self) -> None:
        markers = ends((3, COMMIT, A))
        assert verdicts(pending((2, A, B)), markers, self.passed()) == [(1, [0], True, True, 3)]
        assert verdicts(pending((2, A, B)), markers) == [(NOBODY, [0], False, False, UNKNOWN)]

    def test_one_whose_own_end_may_have_been_left_out_may_not_have_passed_it_open(self) -> None:
        rows, markers = pending((2, A, B)), ends((3, COMMIT, A))
        for unmarked in ((2, 3), (0, 9)):
            assert verdicts(rows, markers, self.passed(), unmarked) == [(NOBODY, [0], False, False, UNKNOWN)]
        for unmarked in ((3, 9), (0, 2)):
            assert verdicts(rows, markers, self.passed(), unmarked) == [(1, [0], True, True, 3)]

    def test_the_end_of_one_that_contradicts_itself_is_no_bound(self) -> None:
        # The first shows the record as committed and an abort at 4 after it: its own index may be what is wrong.
        found = verdicts(pending((2, A, B)), ends((4, ABORT, A)), self.passed())
        assert [proven for _, _, proven, _, _ in found] == [False]

    @pytest.mark.parametrize(
        "other",
        [
            {"slot": 2},
            {"producer_id": 8},
            {"start": 3, "missed": 4},  # a later transaction
            {"end": NEVER},  # open as far as it was read: what ends it may be read yet
            {"end_type": ABORT},
            {"missed": NEVER},
        ],
    )
    def test_what_another_transaction_missed_or_none_proves_nothing(self, other: dict[str, int]) -> None:
        found = verdicts(pending((2, A, B)), ends((3, COMMIT, A)), self.passed(**other))
        assert [proven for _, _, proven, _, _ in found] == [False]

    def test_an_end_that_it_showed_below_the_missed_marker_was_its_end(self) -> None:
        # Read in the other view: it ended at 3 there, and what it missed at 5 ended a transaction that followed.
        markers = ends((3, ABORT, B), (5, COMMIT, A))
        assert verdicts(pending((2, A, B)), markers, self.passed(missed=5)) == [(0, [0], True, False, 3)]
        # The same where the end that it showed says of the record only that its own lies lower still.
        found = verdicts(pending((2, A, B)), ends((4, COMMIT, B), (5, COMMIT, A)), self.passed(missed=5))
        assert (1, True) not in [(slot, proven) for slot, _, proven, _, _ in found]


class TestNotProven:
    @pytest.mark.parametrize(
        "markers",
        [
            NO_MARKERS,
            ends((3, ABORT, A)),  # the end on the one that shows it as committed is not known
            ends((5, COMMIT, B)),  # the end on the one that hides it is not known
        ],
    )
    def test_without_both_ends_nobody_is_wrong(self, markers: Array) -> None:
        for rows in (pending((2, B, A | C)), pending((2, A | C, B)), pending((2, B, A))):
            assert verdicts(rows, markers[:0]) == [(NOBODY, [0], False, False, UNKNOWN)]
        assert verdicts(pending((2, B, A | C)), markers) == [(NOBODY, [0], False, False, UNKNOWN)]

    def test_the_wrong_type_at_the_end_tells_nothing_of_its_own_replica(self) -> None:
        # Both ends are gone: the markers shown bound them from above, and neither lies below a known end.
        found = verdicts(pending((2, B, A)), ends((3, COMMIT, A), (5, ABORT, B)))
        assert [proven for _, _, proven, _, _ in found] == [False]

    def test_an_end_directly_behind_the_record_proves_it_against_another_end_further_up(self) -> None:
        # B shows the record as committed, and an ABORT behind it: the COMMIT between is cleaned.
        rows, direct = pending((2, B, A)), (3, ABORT, A)
        assert verdicts(rows, ends(direct, (7, ABORT, B))) == [(1, [0], True, False, 3)]
        of_another_epoch = ends(direct, (7, ABORT, B))
        of_another_epoch["leader_epoch"][0] = 5
        without_direction = [(NOBODY, [0], False, False, UNKNOWN)]
        assert verdicts(rows, of_another_epoch) == without_direction
        for markers in (ends((4, ABORT, A), (7, ABORT, B)), ends((3, ABORT, A | B)), ends(direct)):
            assert verdicts(rows, markers) == without_direction
        assert verdicts(rows, ends(direct, (7, ABORT, B)), unmarked=(5, 6)) == without_direction

    def test_proven_and_unproven_rows_are_distinguished(self) -> None:
        found = verdicts(pending((2, B, A), (8, B, A)), ends((3, ABORT, A), (5, COMMIT, B)))
        assert found == [(1, [0], True, False, 3), (NOBODY, [1], False, False, UNKNOWN)]


class TestTakeIn:
    def shown(self, offset: int, slot: int, aborted: bool, **more: Any) -> Array:
        one = [np.array([v]) for v in (more.get("null_key", False), more.get("tombstone", False), aborted, slot)]
        return outcome.shown_records(
            np.array([offset]),
            np.array([9]),
            (np.array([1]), np.array([2])),
            *one,
            np.array([more.get("epoch", 0)]),
            np.array([more.get("nameless", False)]),
        )

    @pytest.mark.parametrize("listed_first", [True, False])
    def test_a_listed_transaction_is_an_outcome_of_the_record_that_others_show(self, listed_first: bool) -> None:
        record = self.shown(4, 0, False)
        listed = self.shown(4, 1, True, nameless=True)
        listed["key_hash_hi"] = listed["key_hash_lo"] = 0
        rows = outcome.take_in(listed, record) if listed_first else outcome.take_in(record, listed)
        assert outcome.open_disputes(rows).tolist() == [True]
        found = rows[0]
        assert (int(found["visible"]), int(found["aborted"])) == (A, B)
        assert (int(found["key_hash_hi"]), int(found["key_hash_lo"])) == (1, 2)

    def test_a_listed_transaction_of_another_producer_is_of_another_log(self) -> None:
        listed = self.shown(4, 1, True, nameless=True)
        listed["producer_id"] = 8
        assert not outcome.open_disputes(outcome.take_in(self.shown(4, 0, False), listed)).any()

    def test_a_record_is_of_the_newest_leader_epoch_in_which_it_was_shown(self) -> None:
        rows = outcome.take_in(self.shown(4, 0, False, epoch=3), self.shown(4, 2, False, epoch=2))
        assert rows["leader_epoch"].tolist() == [3]

    def test_a_record_is_one_row_with_who_showed_it_how(self) -> None:
        rows = outcome.take_in(self.shown(4, 0, False), self.shown(4, 2, False))
        assert (len(rows), int(rows["visible"][0]), int(rows["aborted"][0]), int(rows["flags"][0])) == (1, A | C, 0, 0)
        assert not outcome.open_disputes(rows).any()

    def test_unlike_outcomes_are_an_open_dispute_until_it_is_reported(self) -> None:
        rows = outcome.take_in(self.shown(4, 0, False), self.shown(4, 1, True))
        assert (int(rows["visible"][0]), int(rows["aborted"][0])) == (A, B)
        assert outcome.open_disputes(rows).tolist() == [True]
        rows["flags"] |= REPORTED
        assert outcome.open_disputes(rows).tolist() == [False]
        again = outcome.take_in(rows, self.shown(4, 1, True))
        assert outcome.open_disputes(again).tolist() == [False]

    @pytest.mark.parametrize("aborted", [True, False])
    def test_a_reported_dispute_is_open_again_when_one_more_replica_shows_the_record(self, aborted: bool) -> None:
        rows = outcome.take_in(self.shown(4, 0, False), self.shown(4, 1, True))
        rows["flags"] |= REPORTED
        assert outcome.open_disputes(outcome.take_in(rows, self.shown(4, 2, aborted))).tolist() == [True]

    def test_records_that_are_not_the_same_are_no_dispute_whoever_shows_one_of_them_later(self) -> None:
        other = self.shown(4, 1, True)
        other["key_hash_hi"] = 7
        rows = outcome.take_in(self.shown(4, 0, False), other)
        assert outcome.open_disputes(outcome.take_in(rows, self.shown(4, 2, True))).tolist() == [False]

    def test_rows_stay_in_offset_order_and_keep_what_they_are(self) -> None:
        rows = outcome.take_in(self.shown(4, 0, True), self.shown(2, 0, False, null_key=True))
        rows = outcome.take_in(rows, self.shown(3, 0, False, tombstone=True))
        assert rows["offset"].tolist() == [2, 3, 4]
        assert rows["flags"].tolist() == [NULL_KEY, TOMBSTONE, 0]
        assert rows["aborted"].tolist() == [0, 0, A]


class TestIntervals:
    def interval(self, **fields: Any) -> Array:
        row = {"slot": 1, "producer_id": 9, "start": 2, "end": 8, "end_type": COMMIT, "missed": 5, "missed_type": ABORT}
        return table(INTERVAL, 1, **(row | fields))

    def test_turned_is_ended_by_another_type_than_was_missed(self) -> None:
        assert outcome.turned(self.interval()).tolist() == [True]
        assert outcome.turned(self.interval(missed_type=COMMIT)).tolist() == [False]
        assert outcome.turned(self.interval(end=NEVER)).tolist() == [False]
        assert outcome.turned(self.interval(missed=NEVER)).tolist() == [False]
        assert outcome.turned(self.interval(end_type=UNREAD)).tolist() == [False]

    def test_it_covers_the_records_from_its_start_to_the_missed_marker(self) -> None:
        offsets, producers = np.array([1, 2, 4, 5, 2]), np.array([9, 9, 9, 9, 8])
        covered = outcome.covered(offsets, producers, self.interval()[0])
        assert covered.tolist() == [False, True, True, False, False]

    def test_it_explains_only_what_its_replica_shows_otherwise_than_the_missed_marker_made_it(self) -> None:
        rows = pending((2, B, A), (3, A, B), (4, A, C), (5, B, A))
        for more in ({}, {"end": NEVER, "end_type": UNREAD}):
            assert outcome.explained(rows, self.interval(**more)).tolist() == [True, False, False, False]
            lost_commit = self.interval(**({"end_type": ABORT} | more), missed_type=COMMIT)
            assert outcome.explained(rows, lost_commit).tolist() == [False, True, False, False]

    def test_a_difference_is_explained_once_all_that_are_wrong_in_it_are(self) -> None:
        rows = pending((2, B | C, A), (3, B, A | C))
        one, both = self.interval(), np.concatenate([self.interval(), self.interval(slot=2)])
        assert outcome.explained(rows, one).tolist() == [False, True]
        assert outcome.explained(rows, both).tolist() == [True, True]
        assert outcome.explained(rows, one[:0]).tolist() == [False, False]

    def test_wrongly_shown_is_what_its_replica_shows_as_the_wrong_marker_made_it(self) -> None:
        rows = pending((2, B, A), (3, A, B), (4, A | B, 0))
        assert outcome.wrongly_shown(rows, self.interval()[0])["offset"].tolist() == [2, 4]
        turned = self.interval(end_type=ABORT, missed_type=COMMIT)[0]
        assert outcome.wrongly_shown(rows, turned)["offset"].tolist() == [3]

    def test_shown_against_is_what_its_replica_shows_otherwise_than_the_marker_that_ended_it(self) -> None:
        rows = table(UNENDED, 5, slot=[1, 1, 0, 1, 1], producer_id=[9, 9, 9, 8, 9], offset=[2, 4, 4, 4, 5])
        rows["aborted"] = [False, True, True, True, True]
        assert outcome.shown_against(rows, self.interval()[0])["offset"].tolist() == [4]
        aborted = self.interval(end_type=ABORT, missed_type=COMMIT)[0]
        assert outcome.shown_against(rows, aborted)["offset"].tolist() == [2]


class TestFollowEnds:
    """Rows of (slot, offset, aborted), end markers of (slot, offset, is an abort); all of producer 9."""

    def rows(self, *shown: tuple[int, int, bool], producer: int = 9) -> Array:
        slots, offsets, aborted = zip(*shown, strict=True) if shown else ((), (), ())
        return table(UNENDED, len(shown), slot=slots, producer_id=producer, offset=offsets, aborted=aborted)

    def follow(self, shown: Array, ends: Array, before: Array | None = None) -> tuple[list[Any], list[Any]]:
        waiting, against, at = outcome.follow_ends(self.rows() if before is None else before, shown, ends)
        accused = [(int(r["slot"]), int(r["offset"]), int(end)) for r, end in zip(against, at, strict=True)]
        return accused, [(int(r["slot"]), int(r["offset"]), bool(r["aborted"])) for r in waiting]

    def test_a_record_shown_otherwise_than_the_next_marker_says_contradicts_it(self) -> None:
        for aborted in (False, True):
            assert self.follow(self.rows((0, 2, aborted)), self.rows((0, 5, not aborted))) == ([(0, 2, 5)], [])
            assert self.follow(self.rows((0, 2, aborted)), self.rows((0, 5, aborted))) == ([], [])

    def test_it_is_reported_once_for_a_transaction_by_its_first_such_record(self) -> None:
        shown = self.rows((0, 2, True), (0, 3, False), (0, 4, False))
        assert self.follow(shown, self.rows((0, 5, True))) == ([(0, 3, 5)], [])

    def test_each_transaction_has_its_own_end(self) -> None:
        shown = self.rows((0, 2, False), (0, 4, False), (0, 6, False))
        ends = self.rows((0, 3, False), (0, 5, True), (0, 7, False))
        assert self.follow(shown, ends) == ([(0, 4, 5)], [])

    def test_the_marker_of_another_replica_or_producer_ends_nothing(self) -> None:
        assert self.follow(self.rows((0, 2, False)), self.rows((1, 5, True))) == ([], [(0, 2, False)])
        assert self.follow(self.rows((0, 2, False)), self.rows((0, 5, True), producer=8)) == ([], [(0, 2, False)])

    def test_what_has_no_end_yet_waits_for_it_one_row_for_each_way_in_which_it_was_shown(self) -> None:
        accused, _ = self.follow(self.rows(), self.rows((0, 9, True)), before=self.rows((0, 2, False)))
        assert accused == [(0, 2, 9)]
        shown = self.rows((0, 2, False), (0, 3, False), (0, 4, True), (0, 5, False))
        assert self.follow(shown, self.rows()) == ([], [(0, 2, False), (0, 4, True)])

    def test_nothing_shown_keeps_what_waits(self) -> None:
        assert self.follow(self.rows(), self.rows(), before=self.rows((0, 2, False))) == ([], [(0, 2, False)])
        assert self.follow(self.rows(), self.rows()) == ([], [])
