"""What an accusation tells, when it is made, and what is let go once it was."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest

from parallax.compare.judge import _let_go_intervals
from parallax.compare.judge_values import MAX_KEY_VERDICTS
from parallax.compare.observations import ABORT, COMMIT, READ_UNCOMMITTED, Observations
from parallax.compare.rules.arrays import table
from parallax.compare.rules.content import fingerprints
from parallax.compare.state import DISPUTE, INTERVAL, NEVER, PartitionState
from parallax.compare.step import step
from parallax.model import NOBODY, Outcome, UnknownReason
from tests.builders.policies import never_compacted
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    SETTINGS,
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


def raised(comparison: Comparison) -> list[dict[str, Any]]:
    """The suspects' columns that say where, and their evidence."""
    names = ("rule", "kind", "broker", "offset", "producer_id", "transaction_start_offset", "marker_offset")
    keys = ("key_hash_hi", "key_hash_lo")
    return [
        {n: s.as_row()[n] for n in (*names, *keys)} | {"seen": s.accusation.observations} for s in comparison.suspects
    ]


NO_TRANSACTION = {"producer_id": -1, "transaction_start_offset": -1, "marker_offset": -1}
NO_KEY = {"key_hash_hi": 0, "key_hash_lo": 0}


class TestContent:
    def test_the_records_that_differ_are_reported_of_every_replica(self, comparison: Comparison) -> None:
        good, wrong = record(0, "K", "V"), record(0, "K", "W")
        comparison.feed(tick(0, everywhere(1)), both(1, [good], 1), both(2, [wrong], 1), both(3, [good], 1))
        (suspect,) = raised(comparison)
        seen = suspect.pop("seen")
        records = seen["records"]
        assert (
            suspect
            == {"rule": "I1", "kind": "content_mismatch", "broker": NOBODY, "offset": 0} | NO_TRANSACTION | NO_KEY
        )
        assert set(records) == {"1", "2", "3"}
        assert records["1"] == records["3"] != records["2"]
        assert {len(r) for r in records.values()} == {16}
        assert seen["sides"] == {f"record {records['1']}": [1, 3], f"record {records['2']}": [2]}
        assert seen["pivot"] in (1, 2)

    def test_the_records_are_named_by_their_fingerprints_as_64_bits_without_a_sign(
        self, comparison: Comparison
    ) -> None:
        count = 8
        good = [record(i, "K", "V") for i in range(count)]
        wrong = [record(i, "K", f"W{i}") for i in range(count)]
        comparison.feed(tick(0, everywhere(count)))
        for i in range(count):
            on = {1: good[i], 2: wrong[i] if i % 2 == 0 else good[i], 3: good[i]}
            comparison.feed(*(both(b, [on[b]], i + 1) for b in on))
        lowest = set()
        for suspect in comparison.suspects:
            offset, records = suspect.accusation.offset, suspect.accusation.observations["records"]
            for broker, row in (("1", good[offset]), ("2", wrong[offset])):
                one = fingerprints(Observations.of("t", 0, shown(RU, 1, [row], 9)).rows)[0]
                assert np.uint64(int(records[broker], 16)).astype(np.int64) == one
                lowest.add(int(one & 1))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 2, 4, 6]
        assert lowest == {0, 1}

    def test_where_all_differ_each_record_is_reported_as_another(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(1)), *(both(b, [record(0, "K", f"V{b}")], 1) for b in (1, 2, 3)))
        assert comparison.kinds == [("content_mismatch", NOBODY)]
        records = comparison.suspects[0].accusation.observations["records"]
        assert len({int(r, 16) for r in records.values() if 0 <= int(r, 16) < 1 << 64}) == 3

    def test_it_waits_for_those_that_can_be_reached_to_have_an_opinion(self, comparison: Comparison) -> None:
        good, wrong = record(0, "K", "V"), record(0, "K", "W")
        comparison.feed(tick(0, everywhere(1)), both(1, [good], 1), both(2, [wrong], 1), both(3, [], 0))
        assert comparison.suspects == []
        comparison.feed(both(3, [wrong], 1, 10))
        assert comparison.kinds == [("content_mismatch", NOBODY)]

    def test_one_that_comes_later_is_compared_with_those_that_agreed_before(self, comparison: Comparison) -> None:
        good, wrong = record(0, "K", "V"), record(0, "K", "W")
        comparison.feed(tick(0, everywhere(1)), both(1, [good], 1), both(2, [good], 1), both(3, [], 0))
        comparison.feed(both(3, [wrong], 1, 10))
        assert comparison.kinds == [("content_mismatch", NOBODY)]

    def test_one_that_is_away_is_not_waited_for(self, comparison: Comparison) -> None:
        good, wrong = record(0, "K", "V"), record(0, "K", "W")
        comparison.feed(tick(0, everywhere(1), down=(3,)), both(1, [good], 1), both(2, [wrong], 1), both(3, [], 0))
        assert comparison.kinds == [("content_mismatch", NOBODY)]

    @pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
    def test_a_run_goes_on_over_micro_batches_until_a_record_agrees(self, comparison: Comparison, cut: int) -> None:
        rows = [filler(i) for i in range(6)]
        mine = [{**r, "content_hash": 5} if i in (0, 1, 3, 4) else r for i, r in enumerate(rows)]
        comparison.feed(tick(0, everywhere(6)))
        for part in (slice(0, cut), slice(cut, 6)):
            end = min(6, part.stop)
            comparison.feed(both(1, rows[part], end), both(2, mine[part], end), both(3, rows[part], end))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 3]

    def test_a_record_that_agrees_ends_a_run_in_a_micro_batch_of_its_own(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(3)]
        mine = [{**rows[0], "content_hash": 5}, rows[1], {**rows[2], "content_hash": 5}]
        comparison.feed(tick(0, everywhere(3)))
        for i in range(3):
            comparison.feed(*(both(b, [mine[i] if b == 2 else rows[i]], i + 1) for b in (1, 2, 3)))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 2]

    def test_a_record_that_agrees_ends_a_run_where_every_replica_is_in_one(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(5)]
        odd = {0: 1, 1: 2, 2: 3, 4: 2}
        comparison.feed(tick(0, everywhere(5)))
        for i, row in enumerate(rows):
            on = {b: {**row, "content_hash": 5} if odd.get(i) == b else row for b in (1, 2, 3)}
            comparison.feed(*(both(b, [on[b]], i + 1) for b in on))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 1, 2, 4]

    def test_a_run_of_one_replica_hides_no_other_that_begins_to_differ(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(2)]
        on = {1: rows, 2: [{**r, "content_hash": 5} for r in rows], 3: [rows[0], {**rows[1], "content_hash": 6}]}
        comparison.feed(tick(0, everywhere(2)), *(both(b, on[b], 2) for b in (1, 2, 3)))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 1]

    def test_a_record_that_nobody_else_holds_ends_no_run(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(3)]
        mine = [{**rows[0], "content_hash": 5}, rows[1], {**rows[2], "content_hash": 5}]
        others = [rows[0], rows[2]]
        comparison.feed(tick(0, everywhere(3)), both(1, others, 3), both(2, mine, 3), both(3, others, 3))
        assert [s.accusation.offset for s in comparison.suspects] == [0]

    def test_nor_do_records_that_each_of_the_two_holds_alone(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(4)]
        one, two = (
            [{**rows[i], "content_hash": text} if i in (0, 3) else rows[i] for i in held]
            for held, text in (((0, 2, 3), 5), ((0, 1, 3), 6))
        )
        comparison.feed(tick(0, everywhere(4)), both(1, one, 4), both(2, two, 4), both(3, [], 4))
        assert [s.accusation.offset for s in comparison.suspects if s.kind == "content_mismatch"] == [0]

    def test_a_record_that_those_hold_alike_from_whom_another_differs_ends_no_run_of_that_one(
        self, comparison: Comparison
    ) -> None:
        rows = [filler(i) for i in range(3)]
        wrong = [{**rows[i], "content_hash": 5} for i in (0, 2)]
        comparison.feed(tick(0, everywhere(3)), both(1, rows, 3), both(2, wrong, 3), both(3, rows, 3))
        assert [s.accusation.offset for s in comparison.suspects if s.kind == "content_mismatch"] == [0]

    def test_nor_does_it_as_long_as_the_other_was_not_read_there(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(3)]
        wrong = [{**r, "content_hash": 5} for r in rows]
        comparison.feed(tick(0, everywhere(3)), both(1, rows, 3), both(2, wrong[:1], 1), both(3, rows, 3))
        for i in (1, 2):
            comparison.feed(both(2, wrong[i : i + 1], i + 1))
        assert [s.accusation.offset for s in comparison.suspects] == [0]

    def test_a_record_that_one_other_holds_ends_a_run(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(3)]
        mine = [{**rows[0], "content_hash": 5}, rows[1], {**rows[2], "content_hash": 5}]
        comparison.feed(tick(0, everywhere(3)), both(1, rows, 3), both(2, mine, 3), both(3, [rows[0], rows[2]], 3))
        assert [s.accusation.offset for s in comparison.suspects] == [0, 2]

    def test_the_runs_of_two_replicas_are_two(self, comparison: Comparison) -> None:
        rows = [filler(i) for i in range(3)]
        on = {b: [{**r, "content_hash": 5} if i == b else r for i, r in enumerate(rows)] for b in (1, 2)}
        comparison.feed(tick(0, everywhere(3)), both(1, on[1], 3), both(2, on[2], 3), both(3, rows, 3))
        assert [s.accusation.offset for s in comparison.suspects] == [1, 2]


class TestMarkers:
    def test_a_missed_marker_is_reported_with_the_transaction_that_it_should_have_ended(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [filler(1), row], 3) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, [abort(4, 9) | {"leader_epoch": 5}], 6) for b in (1, 3)), shown(RU, 2, [], 6))
        transaction = {"producer_id": 9, "transaction_start_offset": 2, "marker_offset": 4}
        assert raised(comparison) == [
            {
                "rule": "I2",
                "kind": "marker_missing",
                "broker": 2,
                "offset": 2,
                "seen": {"markers": dict.fromkeys("13", "abort"), "leader_epoch": 5},
            }
            | transaction
            | NO_KEY
        ]

    def test_a_missed_marker_is_reported_once_however_long_the_transaction_stays_open(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, [abort(4, 9)], 6) for b in (1, 3)), shown(RU, 2, [], 6))
        for end in (7, 8):
            comparison.feed(*(shown(RU, b, [], end) for b in (1, 2, 3)))
        assert comparison.kinds == [("marker_missing", 2)]

    def test_nor_is_it_reported_again_after_so_many_others_that_its_id_is_forgotten(
        self, comparison: Comparison
    ) -> None:
        def forget_ids() -> None:
            state = PartitionState.from_bytes(comparison.state)
            state.told = state.told[:0]
            comparison.state = state.to_bytes()

        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in BROKERS))
        comparison.feed(*(shown(RU, b, [abort(4, 9)], 6) for b in (1, 3)), shown(RU, 2, [], 6))
        forget_ids()
        comparison.feed(*(shown(RU, b, [], 7) for b in BROKERS))
        assert comparison.kinds == [("marker_missing", 2)]
        comparison.feed(*(shown(RU, b, [commit(8, 9)], 9) for b in BROKERS))
        on = {b: [{**row, "outcome": COMMITTED if b == 2 else ABORTED}] for b in BROKERS}
        for b in (2, 1, 3):
            comparison.feed(shown(RC, b, on[b], 9))
            forget_ids()
        assert comparison.kinds == [("marker_missing", 2), ("aborted_record_committed", 2)]

    def turned(
        self, comparison: Comparison, rows: list[Row], read: tuple[int, ...] = (1, 2, 3), *, late: bool = False
    ) -> dict[str, Any]:
        """A transaction from 2 that ABORT 20 ended, and on broker 2 COMMIT 30; read as it was written, unless late."""
        if not late:
            comparison.feed(tick(0, everywhere(2)))
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in (1, 2, 3)))
        for b in (1, 3):
            comparison.feed(
                shown(RU, b, [abort(20, 9), record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)], 31)
            )
        comparison.feed(shown(RU, 2, [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)], 31))
        comparison.feed(
            *(shown(RC, b, [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows], 31) for b in read)
        )
        if 2 not in read:
            comparison.feed(shown(RC, 2, [], 31))
        settle(comparison, 31)
        (suspect,) = raised(comparison)
        assert (suspect["rule"], suspect["kind"], suspect["broker"]) == ("I2", "aborted_record_committed", 2)
        assert [suspect[n] for n in ("producer_id", "transaction_start_offset", "marker_offset")] == [9, 2, 20]
        return suspect

    def test_a_wrong_outcome_is_reported_with_the_records_that_show_it(self, comparison: Comparison) -> None:
        rows = [record(2 + i, f"k{i}", "V", pid=9, outcome=ABORTED, key_hash_lo=7 + i) for i in range(10)]
        suspect = self.turned(comparison, rows)
        assert (suspect["offset"], suspect["key_hash_hi"], suspect["key_hash_lo"]) == (2, crc32(b"k0"), 7)
        assert suspect["seen"] == {
            "markers": {"1": "abort", "3": "abort", "2": "commit"},
            "leader_epoch": -1,
            "closed_by_marker_offset": 30,
            "outcomes": {"1": "aborted", "3": "aborted", "2": "committed"},
            "count": 10,
            "offsets": [2, 3, 4, 5, 6, 7, 8, 9],
            "keys": [f"{crc32(f'k{i}'.encode()):016x}{7 + i:016x}" for i in range(1, 10)],
        }

    def test_a_wrong_outcome_that_no_record_shows_has_no_key_and_is_unknown_until_an_audit(
        self, comparison: Comparison
    ) -> None:
        suspect = self.turned(comparison, [record(2, "K", "V", pid=9, outcome=ABORTED)], read=(1, 3))
        assert (suspect["offset"], suspect["key_hash_hi"], suspect["key_hash_lo"]) == (2, 0, 0)
        assert set(suspect["seen"]) == {"markers", "leader_epoch", "closed_by_marker_offset", "end_unproven"}
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 18)

    def test_an_outcome_that_was_read_late_is_said_to_be_unproven_and_is_unknown_until_an_audit(
        self, comparison: Comparison
    ) -> None:
        suspect = self.turned(comparison, [record(2, "K", "V", pid=9, outcome=ABORTED)], late=True)
        assert suspect["seen"]["end_unproven"] is True
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.SKIPPED) == (0, 1)

    def test_the_record_before_a_missed_marker_is_suspect_too_if_the_end_of_the_first_is_unproven(
        self, comparison: Comparison
    ) -> None:
        rows = [record(o, "K", "V", pid=9, outcome=ABORTED) for o in (2, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in BROKERS))
        for b in (1, 3):
            comparison.feed(shown(RU, b, [abort(20, 9), *later], 31))
        comparison.feed(shown(RU, 2, later, 31))
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows] for b in BROKERS}
        comparison.feed(*(shown(RC, b, on[b], 31) for b in BROKERS))
        settle(comparison, 31)
        first, direct = raised(comparison)
        assert [(s["kind"], s["broker"], s["marker_offset"]) for s in (first, direct)] == [
            ("aborted_record_committed", 2, 20)
        ] * 2
        assert [(s["offset"], s["transaction_start_offset"]) for s in (first, direct)] == [(2, 2), (19, 19)]
        assert ["end_unproven" in s["seen"] for s in (first, direct)] == [True, False]

    def test_so_they_are_if_what_ended_the_transaction_there_is_read_later(self, comparison: Comparison) -> None:
        rows = [record(o, "K", "V", pid=9, outcome=ABORTED) for o in (2, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows] for b in BROKERS}
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in BROKERS))
        ended = [shown(RU, b, [] if b == 2 else [abort(20, 9)], 21) for b in BROKERS]
        comparison.feed(*ended, *(shown(RC, b, on[b], 21) for b in BROKERS))
        comparison.feed(*(shown(view, b, later, 31) for b in BROKERS for view in (RU, RC)))
        settle(comparison, 31)
        assert [s.accusation.transaction_start_offset for s in comparison.suspects] == [19, 2]
        assert comparison.suspects[-1].accusation.observations["offsets"] == [2, 19]

    def test_records_that_lie_at_every_offset_up_to_the_missed_marker_are_of_its_transaction(
        self, comparison: Comparison
    ) -> None:
        rows = [record(o, "K", "V", pid=9, outcome=ABORTED) for o in (18, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(18), everywhere(20)), *(shown(RU, b, rows, 20) for b in BROKERS))
        for b in (1, 3):
            comparison.feed(shown(RU, b, [abort(20, 9), *later], 31))
        comparison.feed(shown(RU, 2, later, 31))
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows] for b in BROKERS}
        comparison.feed(*(shown(RC, b, on[b], 31) for b in BROKERS))
        settle(comparison, 31)
        (one,) = raised(comparison)
        assert (one["kind"], one["broker"], one["offset"], one["marker_offset"]) == (
            *("aborted_record_committed", 2),
            *(18, 20),
        )
        assert "end_unproven" not in one["seen"]

    def test_so_they_are_where_no_reading_saw_the_transaction_open(self, comparison: Comparison) -> None:
        rows = [record(o, "K", "V", pid=9, outcome=ABORTED) for o in (18, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows] for b in BROKERS}
        comparison.feed(tick(0, everywhere(31)), shown(RU, 2, later, 31))
        comparison.feed(*(shown(RU, b, [*rows, abort(20, 9), *later], 31) for b in (1, 3)))
        comparison.feed(*(shown(RC, b, on[b], 31) for b in BROKERS))
        settle(comparison, 31)
        (one,) = raised(comparison)
        assert (one["broker"], one["offset"], one["marker_offset"]) == (2, 18, 20)
        assert "end_unproven" not in one["seen"]

    def test_records_up_to_the_marker_prove_no_end_of_one_that_lies_lower(self, comparison: Comparison) -> None:
        rows = [record(o, f"K{o}", "V", pid=9, outcome=ABORTED) for o in (2, 18, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in BROKERS))
        for b in (1, 3):
            comparison.feed(shown(RU, b, [abort(20, 9), *later], 31))
        comparison.feed(shown(RU, 2, later, 31))
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows[1:]] for b in BROKERS}
        comparison.feed(*(shown(RC, b, on[b], 31) for b in BROKERS))
        settle(comparison, 31)
        claims = [(s["offset"], s["transaction_start_offset"], "end_unproven" in s["seen"]) for s in raised(comparison)]
        assert claims == [(18, 2, True), (19, 19, False)]

    def test_the_lowest_record_counts_whatever_waits_for_an_explanation(self, comparison: Comparison) -> None:
        rows = [record(o, f"K{o}", "V", pid=9, outcome=ABORTED) for o in (2, 18)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in BROKERS))
        for b in BROKERS:
            mine = [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows if b == 2 or r["offset"] == 2]
            comparison.feed(shown(RC, b, mine, 31))
        for b in (1, 3):
            comparison.feed(shown(RU, b, [abort(20, 9), *later], 31))
        comparison.feed(shown(RU, 2, later, 31))
        settle(comparison, 31)
        (one,) = raised(comparison)
        assert (one["offset"], one["transaction_start_offset"], one["marker_offset"]) == (2, 2, 20)
        assert "end_unproven" in one["seen"]

    def test_the_last_record_is_suspected_too_where_no_reading_saw_the_transaction_open(
        self, comparison: Comparison
    ) -> None:
        rows = [record(o, "K", "V", pid=9, outcome=ABORTED) for o in (2, 19)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        on = {b: [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows] for b in BROKERS}
        comparison.feed(tick(0, everywhere(31)), shown(RU, 2, later, 31))
        comparison.feed(*(shown(RU, b, [*rows, abort(20, 9), *later], 31) for b in (1, 3)))
        comparison.feed(*(shown(RC, b, on[b], 31) for b in BROKERS))
        settle(comparison, 31)
        first, direct = raised(comparison)
        assert [(s["kind"], s["broker"], s["offset"], s["marker_offset"]) for s in (first, direct)] == [
            ("aborted_record_committed", 2, 2, 20),
            ("aborted_record_committed", 2, 19, 20),
        ]
        assert ["end_unproven" in s["seen"] for s in (first, direct)] == [True, False]

    def test_a_record_that_is_not_shown_as_the_wrong_marker_made_it_contradicts_that_marker(
        self, comparison: Comparison
    ) -> None:
        # A transaction that is open holds the readers of read_committed below the ABORT: they do not come to it.
        row = record(2, "K", "V", pid=9, outcome=COMMITTED)
        later = [record(29, "L", "W", pid=9, outcome=ABORTED), abort(30, 9) | {"leader_epoch": 5}]
        comparison.feed(tick(0, everywhere(25), everywhere(31)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        comparison.feed(
            *(shown(RU, b, later if b == 2 else [commit(20, 9), *later], 31) for b in (1, 2, 3)),
            *(shown(RC, b, [row] if b == 2 else [row, commit(20, 9)], 25) for b in (1, 2, 3)),
        )
        (suspect,) = raised(comparison)
        assert (suspect["kind"], suspect["broker"]) == ("outcome_contradicts_marker", 2)
        assert [suspect[n] for n in ("offset", "transaction_start_offset", "marker_offset")] == [2, 2, 30]
        assert suspect["seen"] == {"outcomes": {"2": "committed"}, "markers": {"2": "abort"}, "leader_epoch": 5}
        comparison.feed(shown(RC, 2, later, 31))
        assert len(comparison.suspects) == 1, "it is the same when its reader comes to the marker"

    def test_what_no_record_shows_waits_until_the_marker_has_been_passed_as_read_committed(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        comparison.feed(
            *(shown(RU, b, later if b == 2 else [abort(20, 9), *later], 31) for b in (1, 2, 3)),
            *(shown(RC, b, [] if b == 2 else [row], 20) for b in (1, 2, 3)),
        )
        assert comparison.suspects == []
        comparison.feed(*(shown(RC, b, [], 21) for b in (1, 2, 3)))
        assert comparison.kinds == [("aborted_record_committed", 2)]

    def test_a_transaction_that_waits_holds_up_no_other(self, comparison: Comparison) -> None:
        first, second = (record(2 + i, "K", "V", pid=8 + i, outcome=ABORTED) for i in range(2))
        later = [record(28 + i, "L", "W", pid=8 + i, outcome=COMMITTED) for i in range(2)]
        later += [commit(30, 8), commit(31, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(10)), *(shown(RU, b, [first, second], 10) for b in (1, 2, 3)))
        comparison.feed(
            *(shown(RU, b, later if b == 2 else [abort(10, 9), abort(20, 8), *later], 32) for b in (1, 2, 3)),
            *(shown(RC, b, [], 15) for b in (1, 2, 3)),
        )
        assert [(s.kind, s.accusation.producer_id) for s in comparison.suspects] == [("aborted_record_committed", 9)]

    def test_a_record_that_the_others_were_read_to_lack_shows_a_wrong_outcome_too(self, comparison: Comparison) -> None:
        row = record(2, "K", "V", pid=9, outcome=COMMITTED)
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        comparison.feed(*(shown(RC, b, [row] if b == 2 else [], 20, 40) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, later if b == 2 else [abort(20, 9), *later], 31) for b in (1, 2, 3)))
        (suspect,) = raised(comparison)
        assert (suspect["kind"], suspect["broker"], suspect["offset"]) == ("aborted_record_committed", 2, 2)
        assert (suspect["key_hash_hi"], suspect["key_hash_lo"]) == (crc32(b"K"), 7)

    def test_of_the_records_that_show_a_wrong_outcome_one_that_others_show_otherwise_is_reported(
        self, comparison: Comparison
    ) -> None:
        rows = [record(2 + i, f"k{i}", "V", pid=9, outcome=ABORTED) for i in range(2)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, rows, 20) for b in (1, 2, 3)))
        on = {1: rows[1:], 2: [{**r, "outcome": COMMITTED} for r in rows], 3: rows[1:]}
        comparison.feed(*(shown(RU, b, later if b == 2 else [abort(20, 9), *later], 31) for b in (1, 2, 3)))
        comparison.feed(*(shown(RC, b, on[b], 31, 40) for b in (1, 2, 3)))
        suspect = next(t for t in raised(comparison) if t["rule"] == "I2")
        assert (suspect["offset"], suspect["key_hash_hi"]) == (3, crc32(b"k1"))
        assert suspect["seen"]["outcomes"] == {"1": "aborted", "2": "committed", "3": "aborted"}

    def test_a_missed_marker_is_reported_again_as_what_became_of_the_transaction(self, comparison: Comparison) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, [abort(4, 9)], 6) for b in (1, 3)), shown(RU, 2, [], 6))
        comparison.feed(*(shown(RU, b, [commit(8, 9)], 9) for b in (1, 2, 3)))
        comparison.feed(
            *(shown(RC, b, [{**row, "outcome": COMMITTED if b == 2 else ABORTED}], 9) for b in (1, 2, 3)),
            tick(10, everywhere(9)),
        )
        settle(comparison, 9)
        assert comparison.kinds == [("marker_missing", 2), ("aborted_record_committed", 2)]
        assert comparison.findings == {(2, "txn:9:2")}

    def test_that_its_marker_was_reported_to_be_missing_does_not_say_that_it_was_shown_wrongly(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=COMMITTED)
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, [commit(20, 9)] if b != 2 else [], 21) for b in (1, 2, 3)))
        later = [record(29, "L", "W", pid=9, outcome=ABORTED), abort(30, 9)]
        comparison.feed(*(shown(RU, b, later, 31) for b in (1, 2, 3)))
        comparison.feed(*(shown(RC, b, [] if b == 2 else [row], 31, 40) for b in (1, 2, 3)))
        settle(comparison, 31)
        assert comparison.kinds == [
            ("marker_missing", 2),
            ("committed_record_aborted", 2),
            ("visibility_mismatch", NOBODY),
        ]

    def test_what_a_wrongly_ended_transaction_alone_shows_is_part_of_it(self, comparison: Comparison) -> None:
        row = record(2, "K", "V", pid=9, outcome=COMMITTED)
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, later if b == 2 else [abort(20, 9), *later], 31) for b in (1, 2, 3)))
        comparison.feed(*(shown(RC, b, [row, later[0]] if b == 2 else [later[0]], 31, 40) for b in (1, 2, 3)))
        settle(comparison, 31)
        assert comparison.kinds == [("aborted_record_committed", 2)]
        assert "keys" not in raised(comparison)[0]["seen"]

    def test_the_other_keys_of_a_wrongly_ended_transaction_are_named_but_not_all_of_many(
        self, comparison: Comparison
    ) -> None:
        mine = [record(i, f"k{i % 18}", "V", pid=9, outcome=COMMITTED) for i in range(2, 22)]
        plain = [{**mine[0], "offset": 22, "key_hash_hi": 0, "key_hash_lo": 0}]
        end = [abort(23, 9)]
        later = [record(29, "L", "W", pid=9, outcome=COMMITTED), commit(30, 9)]
        rows = mine + plain
        comparison.feed(tick(0, everywhere(2), everywhere(23)), *(shown(RU, b, rows, 23) for b in (1, 2, 3)))
        comparison.feed(*(shown(RU, b, later if b == 2 else [*end, *later], 31) for b in (1, 2, 3)))
        comparison.feed(*(shown(RC, b, [*rows, later[0]] if b == 2 else [later[0]], 31, 40) for b in (1, 2, 3)))
        (found,) = raised(comparison)
        assert found["key_hash_hi"] == crc32(b"k2")
        assert found["seen"]["keys"] == [f"{crc32(f'k{i % 18}'.encode()):016x}{7:016x}" for i in range(3, 19)]

    def test_an_absence_is_no_part_of_a_transaction_that_its_replica_was_not_read_to_show_wrongly(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=COMMITTED)
        comparison.feed(tick(0, everywhere(2), everywhere(20)), *(shown(RU, b, [row], 20) for b in (1, 2, 3)))
        later = [record(29, "L", "W", pid=9, outcome=ABORTED), abort(30, 9)]
        comparison.feed(*(shown(RU, b, [commit(20, 9), *later], 31) for b in (1, 3)), shown(RU, 2, later, 31))
        comparison.feed(*(shown(RC, b, [] if b == 2 else [row], 31, 40) for b in (1, 2, 3)))
        settle(comparison, 31)
        assert comparison.kinds == [("committed_record_aborted", 2), ("visibility_mismatch", NOBODY)]


class TestDisputes:
    def unlike(self, rows: list[Row]) -> list[list[Row]]:
        """Broker 2 shows as committed what the others show as aborted."""
        return [shown(RC, b, [{**r, "outcome": COMMITTED if b == 2 else ABORTED} for r in rows], 9) for b in (1, 2, 3)]

    def test_a_difference_without_direction_names_a_place_and_all_outcomes(self, comparison: Comparison) -> None:
        rows = [record(3, "K", "V", pid=9), record(4, "L", "W", pid=9, key_hash_lo=8)]
        comparison.feed(tick(0, everywhere(9)), *self.unlike(rows), *(shown(RU, b, [], 9) for b in (1, 2, 3)))
        assert raised(comparison) == [
            {"rule": "I2", "kind": "visibility_mismatch", "broker": NOBODY, "offset": 3, "producer_id": 9}
            | {"transaction_start_offset": 3, "marker_offset": -1, "key_hash_hi": crc32(b"K"), "key_hash_lo": 7}
            | {
                "seen": {
                    "outcomes": {"1": "aborted", "2": "committed", "3": "aborted"},
                    "count": 2,
                    "offsets": [3, 4],
                    "sides": {"aborted": [1, 3], "committed": [2]},
                    "pivot": 1,
                }
            }
        ]

    @pytest.mark.parametrize(("mine", "others"), [(ABORTED, COMMITTED), (COMMITTED, ABORTED)])
    def test_the_outcomes_reported_are_those_of_the_first_record(
        self, comparison: Comparison, mine: Outcome, others: Outcome
    ) -> None:
        rows = [record(3, "K", "V", pid=9), record(4, "L", "W", pid=9)]
        on = {
            b: [{**r, "outcome": mine if b == 2 else others} for r in (rows[:1] if b == 3 else rows)] for b in BROKERS
        }
        comparison.feed(tick(0, everywhere(9)), *(shown(RC, b, on[b], 9) + shown(RU, b, [], 9) for b in BROKERS))
        (suspect,) = raised(comparison)
        assert (suspect["kind"], suspect["broker"]) == ("visibility_mismatch", NOBODY)
        of_2, of_others = mine.name.lower(), others.name.lower()
        assert suspect["seen"] == {
            "outcomes": {"1": of_others, "2": of_2, "3": of_others},
            "count": 2,
            "offsets": [3, 4],
            "sides": {of_2: [2], of_others: [1, 3]},
            "pivot": suspect["seen"]["pivot"],
        }

    def test_it_waits_for_the_markers_of_one_that_showed_it_and_is_away(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(9)), *self.unlike([record(3, "K", "V", pid=9)]))
        comparison.feed(tick(10, everywhere(9), down=(2,)), *(shown(RU, b, [], 9) for b in (1, 3)))
        assert comparison.suspects == []
        comparison.feed(shown(RU, 2, [], 9))
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]

    def test_it_does_not_wait_for_one_that_is_away_and_did_not_show_it(self, comparison: Comparison) -> None:
        first, second, _ = self.unlike([record(3, "K", "V", pid=9)])
        comparison.feed(tick(0, everywhere(9), down=(3,)), first, second, *(shown(RU, b, [], 9) for b in (1, 2)))
        assert [kind for kind, _ in comparison.kinds] == ["visibility_mismatch"]

    def test_what_a_missed_marker_explains_is_reported_as_that_alone(self, comparison: Comparison) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in (1, 2, 3)))
        comparison.feed(
            tick(10, everywhere(9)),
            *self.unlike([row]),
            *(shown(RU, b, [] if b == 2 else [abort(4, 9)], 9) for b in (1, 2, 3)),
        )
        assert comparison.kinds == [("aborted_record_committed", 2)]

    def test_while_the_end_that_followed_a_missed_marker_is_unread_what_it_gave_is_part_of_it(
        self, comparison: Comparison
    ) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in BROKERS))
        comparison.feed(*(shown(RU, b, [] if b == 2 else [abort(4, 9)], 9) for b in BROKERS))
        comparison.feed(*self.unlike([row]))
        assert comparison.kinds == [("marker_missing", 2)]
        comparison.feed(tick(20, everywhere(12)), *(shown(RU, b, [commit(10, 9)], 12) for b in BROKERS))
        assert comparison.kinds == [("marker_missing", 2), ("aborted_record_committed", 2)]

    def test_what_a_wrongly_ended_transaction_explains_waits_for_nothing_more(self, comparison: Comparison) -> None:
        row = record(2, "K", "V", pid=9, outcome=ABORTED)
        comparison.feed(tick(0, everywhere(2), everywhere(3)), *(shown(RU, b, [row], 3) for b in (1, 2, 3)))
        comparison.feed(
            tick(10, everywhere(9), everywhere(50)),
            *self.unlike([row]),
            *(shown(RU, b, [commit(6, 9)] if b == 2 else [abort(4, 9), commit(6, 9)], 9) for b in (1, 2, 3)),
        )
        assert comparison.kinds == [("aborted_record_committed", 2)]
        assert comparison.last is not None
        assert len(comparison.last.state.disputes) == 0

    def held_by_1(self, comparison: Comparison, rows: list[Row], on_1: list[Row]) -> list[dict[str, Any]]:
        """What is raised where unlike end markers on 1 and 3 prove nothing, beside that difference itself."""
        ends = [row["offset"] for row in on_1 if row["kind"] == ABORT]
        on = {1: on_1, 2: [], 3: [commit(offset, 8) for offset in ends]}
        comparison.feed(tick(0, everywhere(12)), *self.unlike(rows), *(shown(RU, b, on[b], 12) for b in on))
        return [t for t in raised(comparison) if t["kind"] == "visibility_mismatch"]

    def test_the_records_of_several_transactions_are_reported_by_transaction(self, comparison: Comparison) -> None:
        """As far as the rows of the replica that is asked last tell them apart, in either view."""
        rows = [record(i, f"k{i}", "V", pid=9) for i in (2, 3, 4, 7, 10)]
        held = [{**r, "outcome": ABORTED} for r in rows]
        found = self.held_by_1(comparison, rows, [held[1], held[2], abort(5, 9), held[3], abort(9, 9)])
        assert {t["broker"] for t in found} == {NOBODY}
        assert [
            (t["offset"], t["transaction_start_offset"], t["seen"]["offsets"], t["key_hash_hi"]) for t in found
        ] == [(2, 2, [2, 3, 4], crc32(b"k2")), (7, 7, [7], crc32(b"k7")), (10, 10, [10], crc32(b"k10"))]

    def test_the_ends_reported_are_the_first_behind_the_first_record(self, comparison: Comparison) -> None:
        rows = [record(i, f"k{i}", "V", pid=9) for i in (3, 6)]
        on = {1: [commit(4, 8), commit(8, 8)], 2: [], 3: [abort(4, 9), abort(8, 9) | {"leader_epoch": 5}]}
        comparison.feed(tick(0, everywhere(12)), *self.unlike(rows), *(shown(RU, b, on[b], 12) for b in on))
        (found,) = (t for t in raised(comparison) if t["kind"] == "visibility_mismatch")
        assert (found["seen"]["offsets"], found["seen"]["ends"]) == ([3, 6], {"3": "4:-1"})

    def test_where_the_markers_alone_prove_it_the_one_that_is_lacked_is_reported_with_its_epoch(
        self, comparison: Comparison
    ) -> None:
        """Nothing is known of the transaction on the accused but its records and the markers behind them."""
        comparison.feed(tick(0, everywhere(12)), *self.unlike([record(3, "K", "V", pid=9)]))
        state = PartitionState.from_bytes(comparison.state)
        state.intervals = state.intervals[:0]
        comparison.state = state.to_bytes()
        later = commit(8, 9) | {"leader_epoch": 6}
        on = {b: [later] if b == 2 else [abort(5, 9) | {"leader_epoch": 4}, later] for b in BROKERS}
        comparison.feed(*(shown(RU, b, on[b], 12) for b in BROKERS))
        (suspect,) = raised(comparison)
        assert (suspect["kind"], suspect["broker"], suspect["marker_offset"]) == ("aborted_record_committed", 2, 5)
        assert suspect["seen"]["leader_epoch"] == 4
        assert suspect["seen"]["outcomes"] == {"1": "aborted", "2": "committed", "3": "aborted"}

    def test_a_transaction_is_reported_from_its_first_record_on_whichever_of_them_differs(
        self, comparison: Comparison
    ) -> None:
        rows = [record(3, "K", "V", pid=9)]
        on_1 = [record(1, "J", "V", pid=9, outcome=ABORTED), {**rows[0], "outcome": ABORTED}, abort(5, 9)]
        found = self.held_by_1(comparison, rows, on_1)
        assert [(t["broker"], t["offset"], t["transaction_start_offset"]) for t in found] == [(NOBODY, 3, 1)]

    def test_transactions_of_others_do_not_part_the_records_of_one(self, comparison: Comparison) -> None:
        """Neither another producer's on the named replica nor the same producer's as another replica was read."""
        rows = [record(i, f"k{i}", "V", pid=9) for i in (3, 6)]
        first, last = ({**r, "outcome": ABORTED} for r in rows)
        on = {2: [last], 1: [first, record(4, "x", "V", pid=8), last], 3: []}
        comparison.feed(tick(0, everywhere(12)), *self.unlike(rows), *(shown(RU, b, on[b], 12, 12) for b in (1, 2, 3)))
        assert [(t["broker"], t["transaction_start_offset"], t["seen"]["offsets"]) for t in raised(comparison)] == [
            (NOBODY, 3, [3, 6])
        ]

    def test_it_is_reported_once(self, comparison: Comparison) -> None:
        rows = [record(3, "K", "V", pid=9)]
        comparison.feed(tick(0, everywhere(9)), *(shown(RU, b, [], 9) for b in (1, 2, 3)))
        comparison.feed(*self.unlike(rows))
        settle(comparison, 9)
        assert len(comparison.suspects) == 1
        assert comparison.last is not None
        assert comparison.last.state.is_settled

    def test_it_waits_until_markers_up_to_the_high_watermark_have_been_read(self, comparison: Comparison) -> None:
        rows = [record(3, "K", "V", pid=9)]
        comparison.feed(tick(0, everywhere(9), everywhere(12)), *self.unlike(rows))
        for end in (9, 11):
            comparison.feed(*(shown(RU, b, [], end) for b in (1, 2, 3)))
            assert comparison.suspects == []
        comparison.feed(*(shown(RU, b, [], 12) for b in (1, 2, 3)))
        assert comparison.kinds == [("visibility_mismatch", NOBODY)]

    def test_the_disputes_of_one_producer_do_not_wait_for_those_of_another(self, comparison: Comparison) -> None:
        first, second = record(3, "K", "V", pid=9), record(20, "L", "W", pid=8)
        comparison.feed(tick(0, everywhere(9)), *self.unlike([first]))
        later = [shown(RC, b, [{**second, "outcome": COMMITTED if b == 2 else ABORTED}], 25, 5) for b in (1, 2, 3)]
        comparison.feed(*later, *(shown(RU, b, [], 10) for b in (1, 2, 3)))
        assert [s.accusation.producer_id for s in comparison.suspects] == [9]
        comparison.feed(*(shown(RU, b, [], 25) for b in (1, 2, 3)))
        assert [s.accusation.producer_id for s in comparison.suspects] == [9, 8]

    def test_once_none_is_left_no_producer_is_waited_for(self) -> None:
        state = PartitionState(disputes=np.array([(8, 50), (9, 60)], DISPUTE))
        after = step(state, Observations.of("t", 0, tick(0, everywhere(4))), SETTINGS, 0).state
        assert len(after.disputes) == 0

    def test_transactions_that_end_markers_alone_separate_are_suspected_each_by_itself(
        self, comparison: Comparison
    ) -> None:
        rows = [record(i, f"k{i}", "V", pid=9, outcome=ABORTED) for i in (3, 4, 7)]
        comparison.feed(tick(0, everywhere(12)), *self.unlike(rows))
        state = PartitionState.from_bytes(comparison.state)
        state.intervals = state.intervals[:0]
        comparison.state = state.to_bytes()
        later = commit(11, 9)
        on = {b: [later] if b == 2 else [abort(5, 9), abort(8, 9), later] for b in BROKERS}
        comparison.feed(*(shown(RU, b, on[b], 12) for b in BROKERS))
        found = [(s["offset"], s["marker_offset"], s["seen"]["offsets"]) for s in raised(comparison)]
        assert found == [(3, 5, [3, 4]), (7, 8, [7])]


class TestLatest:
    def lacking(self, comparison: Comparison, rows: list[Row], end: int) -> None:
        """Broker 2 shows none of the rows."""
        comparison.feed(tick(0, everywhere(end)), *(both(b, [] if b == 2 else rows, end, 10) for b in (1, 2, 3)))

    def test_an_absence_is_reported_with_who_shows_the_record_and_how_far_the_others_were_read(
        self, comparison: Comparison
    ) -> None:
        self.lacking(comparison, [record(3, "K", "V") | {"leader_epoch": 6}], 5)
        settle(comparison, 5)
        key = {"key_hash_hi": crc32(b"K"), "key_hash_lo": 7}
        seen = {"record_shown_by": [1, 3], "record_read_ms": 10, "not_shown_by": [2], "read_to": 5, "leader_epoch": 6}
        seen |= {"sides": {"no value at offset 3": [2], "value at offset 3": [1, 3]}, "pivot": 1}
        expected = {"rule": "I3", "kind": "visibility_mismatch", "broker": NOBODY, "offset": 3, "seen": seen}
        assert raised(comparison) == [expected | NO_TRANSACTION | key]

    def test_where_every_record_is_compared_the_offset_says_which_it_is(self) -> None:
        comparison = Comparison(before=never_compacted())
        self.lacking(comparison, [record(3, "K", "V")], 5)
        settle(comparison, 5)
        assert [s.cause for s in comparison.suspects] == ["offset:3"]
        assert {n: raised(comparison)[0][n] for n in NO_KEY} == NO_KEY

    def test_that_begins_with_the_first_record_after_the_policy_was_seen(self) -> None:
        comparison = Comparison(before=never_compacted())
        comparison.feed(tick(0, everywhere(0)))
        self.lacking(comparison, [record(0, "K", "V")], 5)
        settle(comparison, 5)
        assert comparison.last is not None
        assert comparison.last.state.partition["strict_from"].tolist() == [0]
        assert [s.cause for s in comparison.suspects] == ["offset:0"]
        assert {n: raised(comparison)[0][n] for n in NO_KEY} == NO_KEY

    def test_a_flood_of_absences_is_reported_in_parts_the_oldest_first(self, comparison: Comparison) -> None:
        count = MAX_KEY_VERDICTS + 44
        self.lacking(comparison, [record(i, f"k{i}", "V") for i in range(count)], count)
        raised = [comparison.feed(tick(50_000 + at, everywhere(count))) for at in range(4)]
        offsets = [[s.accusation.offset for s in part] for part in raised if part]
        assert offsets == [list(range(MAX_KEY_VERDICTS)), list(range(MAX_KEY_VERDICTS, count))]

    def test_an_absence_that_retention_overtakes_is_not_reported(self, comparison: Comparison) -> None:
        self.lacking(comparison, [record(3, "K", "V"), record(4, "L", "W")], 5)
        assert comparison.last is not None
        assert comparison.last.coverage.candidates == 2
        rows = tick(40, everywhere(5))
        rows[0]["log_start_offset"] = 4
        comparison.feed(rows)
        settle(comparison, 5)
        assert [s.accusation.offset for s in comparison.suspects] == [4]
        assert comparison.last.coverage.candidates == 0


class TestUndecided:
    """Broker 2 does not show what 1 and 3 show at 5, and the last stable offset of all is 4."""

    def unknown(self, comparison: Comparison, stable: int, *shown_by: int) -> int:
        held = record(5, "K", "V", pid=9, outcome=COMMITTED)
        comparison.feed(tick(0, everywhere(4), everywhere(9)))
        comparison.feed(*(shown(RU, b, [held] if b in shown_by else [], 9) for b in (1, 2, 3)))
        comparison.feed(tick(10, everywhere(stable), everywhere(9)))
        assert comparison.last is not None
        assert comparison.suspects == []
        return comparison.last.coverage.unknown_for(UnknownReason.UNDECIDED)[READ_UNCOMMITTED]

    @pytest.mark.parametrize(("stable", "expected"), [(4, 1), (5, 1), (6, 0)])
    def test_what_no_cleaner_can_have_taken_is_unknown_while_it_is_undecided(
        self, comparison: Comparison, stable: int, expected: int
    ) -> None:
        assert self.unknown(comparison, stable, 1, 3) == expected

    def test_what_all_hold_or_nobody_is_not(self, comparison: Comparison) -> None:
        assert self.unknown(comparison, 4, 1, 2, 3) == 0

    def test_nor_is_what_a_replica_has_not_been_read_to(self, comparison: Comparison) -> None:
        held = record(5, "K", "V", pid=9, outcome=COMMITTED)
        comparison.feed(tick(0, everywhere(4), everywhere(9)), *(shown(RU, b, [held], 9) for b in (1, 3)))
        comparison.feed(shown(RU, 2, [], 5))
        assert comparison.last is not None
        assert comparison.last.coverage.unknown_for(UnknownReason.UNDECIDED) == (0, 0)


class TestLettingGo:
    @pytest.mark.parametrize(("value", "kept"), [(None, [4]), ("V", [])])
    def test_for_a_record_that_some_lack_they_are_kept_if_it_deletes(
        self, comparison: Comparison, value: str | None, kept: list[int]
    ) -> None:
        rows = [record(3, "K", value, pid=9, outcome=COMMITTED), commit(4, 9)]
        comparison.feed(tick(0, everywhere(5)), *(both(b, rows[1:] if b == 2 else rows, 5, 10) for b in BROKERS))
        assert comparison.last is not None
        assert len(comparison.last.state.candidates) == 1
        assert comparison.last.state.markers["offset"].tolist() == kept

    def test_markers_are_kept_while_a_disputed_record_may_need_them(self, comparison: Comparison) -> None:
        rows = [record(3, "K", "V", pid=9)]
        comparison.feed(tick(0, everywhere(9), everywhere(12)))
        for b in (1, 2, 3):
            outcome, end = (COMMITTED, commit(7, 9)) if b == 2 else (ABORTED, abort(5, 9))
            # Cleaned before one reader came to it, and read by the other before that came to the end marker.
            comparison.feed(shown(RU, b, [], 4))
            comparison.feed(shown(RC, b, [{**r, "outcome": outcome} for r in rows], 4))
            comparison.feed(shown(RU, b, [end], 9), shown(RC, b, [], 9))
        assert comparison.last is not None
        assert comparison.last.state.markers["offset"].tolist() == [5, 7]
        comparison.feed(*(shown(RU, b, [], 12) for b in (1, 2, 3)))
        assert comparison.kinds == [("aborted_record_committed", 2)]
        comparison.feed(*(both(b, [filler(12)], 13) for b in (1, 2, 3)))
        assert len(comparison.last.state.markers) == 0

    @pytest.mark.parametrize(
        ("was_raised", "floor", "kept"), [(False, 0, True), (True, 0, True), (False, 20, True), (True, 20, False)]
    )
    def test_a_wrongly_ended_transaction_is_kept_until_reported_and_all_outcomes_are_read(
        self, was_raised: bool, floor: int, kept: bool
    ) -> None:
        ended = {"slot": 1, "start": 2, "end": 9, "end_type": COMMIT, "missed": 7, "missed_type": ABORT}
        state = PartitionState(intervals=table(INTERVAL, 1, over_by=NEVER, told=2 * was_raised, **ended))
        state.partition["floor"] = [[20, floor]]
        _let_go_intervals(state, 20)
        assert len(state.intervals) == kept

    @pytest.mark.parametrize(("floor", "kept"), [(9, True), (10, False)])
    def test_a_transaction_that_missed_a_marker_and_ended_rightly_is_kept_until_it_is_read(
        self, floor: int, kept: bool
    ) -> None:
        ended = {"slot": 1, "start": 2, "end": 9, "end_type": ABORT, "missed": 7, "missed_type": ABORT}
        state = PartitionState(intervals=table(INTERVAL, 1, over_by=NEVER, **ended))
        state.partition["floor"] = [[20, floor]]
        _let_go_intervals(state, 20)
        assert len(state.intervals) == kept

    def test_a_marker_that_not_all_have_come_to_stays(self, comparison: Comparison) -> None:
        comparison.feed(tick(0, everywhere(6)), both(1, [commit(5, 7)], 6), *(both(b, [], 5) for b in (2, 3)))
        assert comparison.last is not None
        assert comparison.last.state.markers["offset"].tolist() == [5]
        comparison.feed(*(both(b, [commit(5, 7)], 6) for b in (2, 3)))
        assert len(comparison.last.state.markers) == 0

    def test_what_all_have_passed_without_a_difference_is_gone(self, comparison: Comparison) -> None:
        rows = [record(0, "K", "V", pid=9, outcome=COMMITTED), commit(1, 9), filler(2)]
        comparison.feed(tick(0, everywhere(3)))
        for b in (1, 2, 3):
            comparison.feed(shown(RU, b, rows, 3), shown(RC, b, [rows[0], rows[2]], 3))
        assert comparison.last is not None
        assert comparison.last.state.is_settled
        assert np.array_equal(comparison.last.state.partition["floor"][0], [3, 3])
