"""Who is accused, and above all who is not: majorities, leadership and the order of reading prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from parallax.compare import cap
from parallax.compare.state import UNREAD_REASONS, PartitionState
from parallax.findings.claim import claim_from_row, explains
from parallax.model import NOBODY, Outcome, UnknownReason
from parallax.sides import parsed
from tests.unit.compare.history import (
    BROKERS,
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


def sides(comparison: Comparison) -> list[dict[str, list[int]]]:
    return [s.accusation.observations["sides"] for s in comparison.suspects]


class TestTwoOfThreeDivergedAlike:
    def test_who_cleaned_a_tombstone_that_two_missed_is_not_accused_in_a_cold_start(
        self, comparison: Comparison
    ) -> None:
        rows = [record(0, "K", "V"), filler(4)]
        comparison.feed(tick(0, everywhere(5)), both(1, rows[1:], 5), both(2, rows, 5), both(3, rows, 5))
        settle(comparison, 5)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]
        assert sides(comparison) == [{"no value at offset 0": [1], "value at offset 0": [2, 3]}]

    def test_who_cleaned_an_aborted_record_that_two_committed_is_not_accused_in_a_cold_start(
        self, comparison: Comparison
    ) -> None:
        poison = record(0, "K", "V", pid=9, outcome=COMMITTED)
        later = [record(5, "L", "W", pid=9, outcome=COMMITTED), commit(6, 9)]
        comparison.feed(tick(0, everywhere(7)), both(1, later, 7), *(both(b, [poison, *later], 7) for b in (2, 3)))
        settle(comparison, 7)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]

    def test_live_the_two_that_missed_the_abort_are_accused_and_nobody_else(self, comparison: Comparison) -> None:
        poison = record(0, "K", "V", pid=9, outcome=COMMITTED)
        comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [poison], 1) for b in BROKERS))
        comparison.feed(shown(RU, 1, [abort(1, 9)], 2), shown(RC, 1, [{**poison, "outcome": ABORTED}], 2))
        later = [record(5, "L", "W", pid=9, outcome=COMMITTED), commit(6, 9)]
        comparison.feed(both(1, later, 7, 20))
        for b in (2, 3):
            comparison.feed(shown(RU, b, later, 7, 30), shown(RC, b, [poison, later[0]], 7, 30))
        settle(comparison, 7)
        assert set(comparison.kinds) == {("aborted_record_committed", 2), ("aborted_record_committed", 3)}

    def test_a_value_that_was_reported_first_is_explained_by_the_outcome_that_comes_later(
        self, comparison: Comparison
    ) -> None:
        rows = [record(0, "K", "V", pid=9, outcome=COMMITTED), commit(6, 9)]
        comparison.feed(tick(0, everywhere(7)), both(1, [commit(6, 9)], 7), *(both(b, rows, 7) for b in (2, 3)))
        settle(comparison, 7)
        (value,) = (claim_from_row(s.as_row()) for s in comparison.suspects)
        row = {"suspect_id": "x", "rule": "I2", "kind": "aborted_record_committed", "topic": "t", "partition": 0}
        row |= {"producer_id": 9, "offset": 0, "transaction_start_offset": 0, "marker_offset": 1}
        for broker in (2, 3):
            assert explains(claim_from_row(row | {"broker": broker}), value)
        assert not explains(claim_from_row(row | {"broker": 2, "producer_id": 8}), value)


class TestOneCauseOneFinding:
    def test_a_cold_start_over_an_aborted_tombstone_raises_one_suspect_and_none_of_the_leader(
        self, comparison: Comparison
    ) -> None:
        value, tombstone = record(0, "K", "V"), record(1, "K", None, pid=7, outcome=COMMITTED)
        end = [filler(5), commit(6, 7)]
        comparison.feed(tick(0, everywhere(7)), both(2, [value, tombstone, *end], 7))
        comparison.feed(*(both(b, [value, *end], 7) for b in (1, 3)))
        settle(comparison, 7)
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]
        assert sides(comparison) == [{"no tombstone at offset 1": [1, 3], "tombstone at offset 1": [2]}]
        assert comparison.suspects[0].accusation.observations["pivot"] == 1

    def test_a_tombstone_whose_commit_lies_directly_behind_it_accuses_each_that_lacks_it(
        self, comparison: Comparison
    ) -> None:
        rows = [record(0, "K", "V"), record(1, "K", None, pid=7, outcome=COMMITTED), commit(2, 7), filler(3)]
        comparison.feed(tick(0, everywhere(4)), both(1, rows, 4))
        comparison.feed(*(both(b, [rows[0], rows[3]], 4) for b in (2, 3)))
        settle(comparison, 4)
        assert comparison.kinds == [("deleted_record_resurrected", 2), ("deleted_record_resurrected", 3)]
        assert {s.accusation.marker_offset for s in comparison.suspects} == {2}


class TestALostIndexOfAbortedTransactions:
    """All hold ABORT 1; whose index has lost it shows the record as committed."""

    def run(self, comparison: Comparison, *lost: int, split: bool = False) -> None:
        row = record(0, "K", "V", pid=9)
        comparison.feed(tick(0, everywhere(4)), *(shown(RU, b, [row, abort(1, 9), filler(3)], 4) for b in BROKERS))
        for b in BROKERS:
            rows = [{**row, "outcome": COMMITTED if b in lost else ABORTED}, abort(1, 9), filler(3)]
            if split:
                comparison.feed(shown(RC, b, rows[:1], 1, 10))
                rows = rows[1:]
            comparison.feed(shown(RC, b, rows, 4, 20))
        settle(comparison, 4)

    @pytest.mark.parametrize("split", [False, True])
    @pytest.mark.parametrize("lost", [(2,), (1, 2), (1, 2, 3)])
    def test_each_that_contradicts_its_own_marker_is_accused_and_no_other(
        self, comparison: Comparison, lost: tuple[int, ...], split: bool
    ) -> None:
        self.run(comparison, *lost, split=split)
        accused = [s for s in comparison.suspects if s.broker != NOBODY]
        assert {(str(s.kind), s.broker) for s in accused} == {("outcome_contradicts_marker", b) for b in lost}
        assert {(s.accusation.offset, s.accusation.marker_offset) for s in accused} == {(0, 1)}

    @pytest.mark.parametrize(("outcome", "end", "text"), [(COMMITTED, abort, "abort"), (ABORTED, commit, "commit")])
    def test_what_it_shows_is_reported_of_the_record_and_of_the_marker(
        self, comparison: Comparison, outcome: Outcome, end: Callable[[int, int], Row], text: str
    ) -> None:
        rows = [record(0, "K", "V", pid=9, outcome=outcome), {**end(1, 9), "leader_epoch": 4}]
        comparison.feed(tick(0, everywhere(4)), *(shown(view, 2, rows, 4) for view in (RU, RC)))
        (suspect,) = comparison.suspects
        assert (str(suspect.kind), suspect.broker) == ("outcome_contradicts_marker", 2)
        shows = {"outcomes": {"2": outcome.name.lower()}, "markers": {"2": text}, "leader_epoch": 4}
        assert suspect.accusation.observations == shows

    @pytest.mark.parametrize("apart", [False, True])
    def test_a_marker_that_read_committed_cannot_come_to_yet_is_taken_from_the_other_view(
        self, comparison: Comparison, apart: bool
    ) -> None:
        # A transaction that stays open at 1 holds every reader of read_committed there.
        row, marks = record(0, "K", "V", pid=9, outcome=COMMITTED), {"high_watermark": 3, "last_stable_offset": 1}
        rows = [row, record(1, "L", "W", pid=8, outcome=COMMITTED), abort(2, 9)]
        ahead = [shown(RU, b, rows, 3, **marks) for b in BROKERS]
        behind = [shown(RC, b, [{**row, "outcome": COMMITTED if b == 2 else ABORTED}], 1, **marks) for b in BROKERS]
        comparison.feed(tick(0, everywhere(1), everywhere(3)))
        if apart:
            comparison.feed(*ahead)
            comparison.feed(*behind)
        else:
            comparison.feed(*ahead, *behind)
        comparison.feed(tick(50_000, everywhere(1), everywhere(3)))
        (suspect,) = [s for s in comparison.suspects if s.broker != NOBODY]
        assert (str(suspect.kind), suspect.broker) == ("outcome_contradicts_marker", 2)
        assert (suspect.accusation.offset, suspect.accusation.marker_offset) == (0, 2)

    def test_the_difference_between_the_outcomes_is_part_of_it(self, comparison: Comparison) -> None:
        self.run(comparison, 2)
        claims = [claim_from_row(s.as_row()) for s in comparison.suspects]
        (index,) = (c for c in claims if c.broker == 2)
        (difference,) = (c for c in claims if c.broker == NOBODY)
        assert difference.recorded.sides == parsed({"aborted": (1,), "committed": (2,)})  # 3 was read later
        assert explains(index, difference)

    def test_healthy_transactions_contradict_nothing(self, comparison: Comparison) -> None:
        self.run(comparison)
        assert comparison.suspects == []

    def test_one_by_a_marker_that_replaced_another_is_no_side_and_the_record_is_unknown(
        self, comparison: Comparison
    ) -> None:
        end = abort(5, 9) | {"leader_epoch": 2}
        rows = {b: record(3, "K", "V", pid=9, outcome=COMMITTED if b == 2 else ABORTED) for b in BROKERS}
        comparison.feed(tick(0, everywhere(6)))
        comparison.feed(*(both(b, [row | {"leader_epoch": 1}, end], 6, 10) for b, row in rows.items()))
        assert comparison.suspects == []
        assert comparison.last is not None
        (left,) = (span for span in comparison.last.coverage.unread if span.reason is UnknownReason.SKIPPED)
        assert (left.view, left.start, left.end, left.since) == (RC, 3, 4, 10)


class TestUnlikeRecords:
    def test_a_tie_that_a_third_joins_later_accuses_nobody(self, comparison: Comparison) -> None:
        left, right = record(0, "K", "V"), record(0, "K", "W")
        comparison.feed(tick(0, everywhere(1), down=(3,)), both(1, [left], 1), both(2, [right], 1), both(3, [], 0))
        comparison.feed(tick(10, everywhere(1)), both(3, [right], 1, 10))
        settle(comparison, 1)
        assert comparison.kinds == [("content_mismatch", NOBODY)]

    @pytest.mark.parametrize("order", list(permutations(BROKERS)))
    def test_unlike_markers_at_one_offset_are_one_difference_in_whichever_order_they_are_read(
        self, comparison: Comparison, order: tuple[int, ...]
    ) -> None:
        row = record(0, "K", "V", pid=9, outcome=ABORTED)
        ends = {1: abort(1, 9), 2: commit(1, 9), 3: commit(1, 8)}
        comparison.feed(tick(0, everywhere(3)), *(shown(RU, b, [row], 1) for b in BROKERS))
        for b in order:
            comparison.feed(shown(RU, b, [ends[b], filler(2)], 3))
        unlike = [s for s in comparison.suspects if s.kind == "content_mismatch"]
        assert [(s.broker, s.accusation.offset) for s in unlike] == [(NOBODY, 1)]
        assert sides(comparison)[0] == {
            "abort of producer 9": [1],
            "commit of producer 8": [3],
            "commit of producer 9": [2],
        }
        assert {s.broker for s in comparison.suspects} == {NOBODY}

    @pytest.mark.parametrize("order", list(permutations(BROKERS)))
    def test_a_record_at_the_place_of_an_end_marker_gives_unlike_outcomes_no_direction(
        self, comparison: Comparison, order: tuple[int, ...]
    ) -> None:
        row = record(0, "K", "V", pid=9, outcome=COMMITTED)
        held = {b: [row, commit(1, 9), filler(2), filler(3)] for b in BROKERS}
        held[2] = [{**row, "outcome": ABORTED}, record(1, "L", "W"), abort(2, 9), filler(3)]
        comparison.feed(tick(0, everywhere(4)))
        for b in order:
            comparison.feed(both(b, held[b], 4))
        settle(comparison, 4)
        assert {s.broker for s in comparison.suspects} == {NOBODY}
        assert {s.kind for s in comparison.suspects} >= {"content_mismatch", "visibility_mismatch"}


def two_transactions(outcome: Outcome) -> list[Row]:
    return [record(0, "K", "V", pid=9, outcome=outcome), record(2, "L", "W", pid=9, outcome=outcome)]


@pytest.mark.parametrize("shows", [COMMITTED, ABORTED])
def test_each_record_directly_before_a_missed_end_marker_is_judged_though_no_end_was_read(
    comparison: Comparison, shows: Outcome
) -> None:
    first, second = two_transactions(ABORTED)
    ended = [first, abort(1, 9), second, abort(3, 9), filler(4)]
    comparison.feed(tick(0, everywhere(5)), *(shown(view, b, ended, 5) for view in (RU, RC) for b in (1, 2)))
    comparison.feed(both(3, [*two_transactions(shows), filler(4)], 5, 20))
    settle(comparison, 5)
    wrong = [(s.accusation.kind, s.accusation.broker, s.accusation.offset) for s in comparison.suspects]
    expected = [("aborted_record_committed", 3, 0), ("aborted_record_committed", 3, 2)]
    assert [one for one in wrong if one[0] == "aborted_record_committed"] == (expected if shows == COMMITTED else [])


@pytest.mark.parametrize("end", ["not read", "read later", "read with it"])
def test_a_transaction_whose_end_is_proven_is_suspected_with_all_of_its_records(
    comparison: Comparison, end: str
) -> None:
    rows = {shows: [record(i, key, "V", pid=9, outcome=shows) for i, key in enumerate("KL")] for shows in _OUTCOMES}
    ended = [*rows[ABORTED], abort(2, 9), filler(3)]
    comparison.feed(tick(0, everywhere(8)), *(shown(view, b, ended, 4) for view in (RU, RC) for b in (1, 2)))
    mine, rest = [*rows[COMMITTED], filler(3)], [record(5, "M", "W", pid=9, outcome=COMMITTED), commit(6, 9), filler(7)]
    if end == "read with it":
        comparison.feed(both(3, [*mine, *rest], 8, 20), *(both(b, rest, 8) for b in (1, 2)))
    else:
        comparison.feed(both(3, mine, 4, 20))
    if end == "read later":
        comparison.feed(*(both(b, rest, 8) for b in BROKERS))
    settle(comparison, 8)
    (one,) = [s.accusation for s in comparison.suspects if s.broker == 3]
    assert (one.kind, one.offset, one.transaction_start_offset) == ("aborted_record_committed", 0, 0)
    assert (one.observations["offsets"], len(one.observations["keys"])) == ([0, 1], 1)


_OUTCOMES = (COMMITTED, ABORTED)


def test_who_shows_another_record_there_does_not_show_a_tombstone_that_an_election_cut() -> None:
    comparison = Comparison()
    first, filled = record(0, "K", "V", leader_epoch=1), record(2, "z", "y", leader_epoch=3)
    deleted, other = record(1, "K", None, leader_epoch=2), record(1, "other", "x", leader_epoch=3)
    comparison.feed(tick(1, everywhere(1)), *[both(b, [first], 1, 2) for b in BROKERS])
    comparison.feed(shown(RC, 3, [deleted], 2, 3))
    comparison.feed(shown(RC, 1, [other], 2, 4))
    for broker in (2, 1, 3):
        comparison.feed(shown(RC, broker, [filled], 3, 5))
    for broker in BROKERS:
        comparison.feed(shown(RU, broker, [filled], 3, 7))
    for at in (50_000, 60_000, 70_000):
        comparison.feed(tick(at, everywhere(3)))
    assert [s.kind for s in comparison.suspects if s.broker != NOBODY] == []


class TestADeletionThatOneHasAborted:
    """1 deleted the key, with the COMMIT directly behind; 2 missed that and aborted the deletion; 3 lacks all of it."""

    deletion = (record(1, "K", None, pid=9, outcome=COMMITTED), commit(2, 9), filler(8))
    turned = (record(1, "K", None, pid=9, outcome=ABORTED), abort(5, 9), filler(8))
    RESURRECTED = ("deleted_record_resurrected", 3)

    def compared(self, comparison: Comparison, drop: bool, last: int) -> None:
        """As 1 and 2 were read whole, and 3 up to an offset; the end markers are then left out, or not."""
        comparison.feed(tick(0, everywhere(0), everywhere(9)), both(1, self.deletion, 9), both(2, self.turned, 9))
        comparison.feed(both(3, [], last))
        if drop:
            state = PartitionState.from_bytes(comparison.state).copy()
            cap.lose_markers(state, state.markers["offset"])
            state.markers = state.markers[:0]
            comparison.state = state.to_bytes()
        comparison.feed(both(3, [filler(8)], 9))
        settle(comparison, 9)

    @pytest.mark.parametrize("last", [1, 8], ids=["not passed yet", "passed"])
    def test_is_unknown_where_its_commit_may_have_been_left_out(self, comparison: Comparison, last: int) -> None:
        self.compared(comparison, drop=True, last=last)
        assert self.RESURRECTED not in comparison.kinds
        left = PartitionState.from_bytes(comparison.state).unread
        deferred = left[left["reason"] == UNREAD_REASONS.index(UnknownReason.DEFERRED)]
        assert [(int(r["view"]), int(r["start"]), int(r["end"])) for r in deferred] == [(RC, 1, 2)]

    @pytest.mark.parametrize("last", [1, 8], ids=["not passed yet", "passed"])
    def test_is_held_against_who_lacks_it_where_its_commit_is_known(self, comparison: Comparison, last: int) -> None:
        self.compared(comparison, drop=False, last=last)
        assert self.RESURRECTED in comparison.kinds
