"""What is no divergence: a "Not one" of docs/contribute/theory.md each, by the name that it has there."""

from __future__ import annotations

import re
from pathlib import Path

from parallax.model import FindingKind, Outcome, RowKind
from tests.unit.compare.history import (
    BROKERS,
    RC,
    RU,
    Comparison,
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
THEORY = Path(__file__).parents[3] / "docs" / "contribute" / "theory.md"


def test_every_counter_example_is_named_in_the_theory() -> None:
    named = set(re.findall(r"`(test_\w+)`", THEORY.read_text()))
    here = {name for name in globals() if name.startswith("test_")}
    assert here - named == {"test_every_counter_example_is_named_in_the_theory"}


# I1


def test_nothing_at_an_offset_is_no_other_content(comparison: Comparison) -> None:
    rows = [record(7, "K", "V"), record(8, "K", "W")]
    comparison.feed(tick(0, everywhere(9)), both(1, rows, 9), both(2, rows[1:], 9), both(3, rows, 9))
    settle(comparison, 9)
    assert comparison.suspects == []


def test_another_leader_epoch_is_the_same_record(comparison: Comparison) -> None:
    rows = [record(7, "K", "V")]
    later = [{**rows[0], "leader_epoch": 4}]
    comparison.feed(tick(0, everywhere(8)), both(1, rows, 8), both(2, later, 8), both(3, rows, 8))
    settle(comparison, 8)
    assert comparison.suspects == []


# I2


def test_a_lost_marker_that_the_same_type_follows_is_healed(comparison: Comparison) -> None:
    poison = record(0, "poison", "v", pid=9, outcome=ABORTED)
    later = record(5, "good", "v", pid=9, outcome=ABORTED)
    comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [poison], 1) for b in BROKERS))
    for b in (1, 3):
        comparison.feed(shown(RU, b, [abort(1, 9), later, abort(6, 9)], 7), shown(RC, b, [poison, later], 7))
    comparison.feed(shown(RU, 2, [later, abort(6, 9)], 7), shown(RC, 2, [poison, later], 7))
    settle(comparison, 7)
    assert comparison.suspects == []


def test_an_end_marker_within_an_entry_proves_no_wrong_outcome(comparison: Comparison) -> None:
    entry = {"kind": RowKind.LISTED, "offset": 1, "producer_id": 7, "outcome": ABORTED, "key_size": -1}
    rows = [filler(4), abort(8, 7)]
    for b in BROKERS:
        held = [*([commit(2, 7)] if b == 2 else []), *rows]
        comparison.feed(shown(RU, b, held, 9), shown(RC, b, [entry, *held] if b == 3 else held, 9))
    settle(comparison, 9)
    assert comparison.suspects == []


def test_a_marker_cleaned_with_its_data_was_not_missed(comparison: Comparison) -> None:
    rows = [record(0, "K", "V", pid=9, outcome=COMMITTED), commit(1, 9), record(2, "K", "V2")]
    comparison.feed(tick(0, everywhere(3)), both(1, rows, 3), both(2, rows[2:], 3), both(3, rows[1:], 3))
    settle(comparison, 3)
    assert comparison.suspects == []


def test_a_transaction_open_everywhere_missed_no_marker(comparison: Comparison) -> None:
    rows = [record(0, "K", "V", pid=9), filler(1)]
    opened = {b: [(9, 0)] for b in BROKERS}
    for b in BROKERS:
        comparison.feed(shown(RU, b, rows, 2), shown(RC, b, [], 0))
    for at in (1_000, 60_000, 61_000):
        comparison.feed(tick(at, everywhere(0), everywhere(2), open=opened))
    assert comparison.suspects == []


def test_a_marker_at_whose_offset_another_log_holds_a_record_was_not_missed(comparison: Comparison) -> None:
    poison, other = record(0, "poison", "v", pid=9, outcome=Outcome.UNDECIDED), record(1, "other", "v")
    comparison.feed(tick(0, everywhere(2)), shown(RU, 1, [poison, abort(1, 9)], 2), shown(RU, 2, [poison, other], 2))
    # Later as well, while broker 3 is still to pass the marker.
    comparison.feed(tick(1, everywhere(3)), *(shown(RU, b, [filler(2)], 3) for b in (1, 2)))
    assert {claim.kind for claim in comparison.suspects} <= {FindingKind.CONTENT_MISMATCH}
    comparison.feed(shown(RU, 3, [poison, abort(1, 9), filler(2)], 3))
    assert [claim.kind for claim in comparison.suspects] == [FindingKind.CONTENT_MISMATCH]


def test_unlike_outcomes_without_a_marker_accuse_nobody(comparison: Comparison) -> None:
    row = record(2, "K", "V", pid=9)
    batches = [tick(0, everywhere(6))]
    for b, outcome in ((1, ABORTED), (2, COMMITTED), (3, ABORTED)):
        batches += [shown(RC, b, [{**row, "outcome": outcome}, filler(5)], 6), shown(RU, b, [filler(5)], 6)]
    comparison.feed(*batches)
    settle(comparison, 6)
    assert [(s.kind, s.accusation.rule) for s in comparison.suspects] == [("visibility_mismatch", "I2")]
    assert comparison.suspects[0].accusation.observations["outcomes"] == {
        "1": "aborted",
        "2": "committed",
        "3": "aborted",
    }


def test_two_records_at_one_offset_have_no_unlike_outcomes(comparison: Comparison) -> None:
    lost, written = record(2, "K", "V"), record(2, "K", "W", pid=9, outcome=ABORTED)
    comparison.feed(tick(0, everywhere(6)), both(1, [lost, filler(5)], 6), both(3, [lost, filler(5)], 6))
    comparison.feed(both(2, [written, abort(3, 9), filler(5)], 6))
    settle(comparison, 6)
    assert [(s.kind, s.accusation.rule, s.accusation.broker) for s in comparison.suspects] == [
        ("content_mismatch", "I1", -1)
    ]


def test_an_end_that_was_cleaned_unread_gives_no_direction_without_a_second_outcome(comparison: Comparison) -> None:
    # On 2 two transactions came and went before their ends were read, and look like one that passed COMMIT 3.
    first = record(0, "K", "V", pid=9, outcome=ABORTED)
    comparison.feed(tick(0, everywhere(0), everywhere(1)), *(shown(RU, b, [first], 1) for b in BROKERS))
    comparison.feed(shown(RC, 2, [first], 1), tick(1_000, everywhere(5)))
    for b in BROKERS:
        rest = [filler(4)] if b == 2 else [commit(3, 9), filler(4)]
        comparison.feed(shown(RU, b, rest, 5), shown(RC, b, rest[-1:], 5))
    settle(comparison, 5)
    assert comparison.suspects == []


# I3


def test_a_newer_value_explains_a_lost_tombstone(comparison: Comparison) -> None:
    rows = [record(0, "K", "V"), record(1, "K", None), record(9, "K", "W")]
    comparison.feed(tick(0, everywhere(10)), both(1, rows, 10), both(3, rows, 10), both(2, [rows[0], rows[2]], 10))
    settle(comparison, 10)
    assert comparison.suspects == []


def test_a_record_that_one_hides_as_aborted_is_not_missing(comparison: Comparison) -> None:
    row = record(0, "K", "V", pid=9)
    ends = {1: commit(1, 9), 2: abort(4, 9), 3: commit(1, 9)}
    comparison.feed(tick(0, everywhere(6)))
    for b, end in ends.items():
        outcome = ABORTED if b == 2 else COMMITTED
        comparison.feed(
            shown(RU, b, [row, end, filler(5)], 6), shown(RC, b, [{**row, "outcome": outcome}, filler(5)], 6)
        )
    settle(comparison, 6)
    assert comparison.findings == {(2, "txn:9:0")}
    assert {s.accusation.rule for s in comparison.suspects} == {"I2"}


def test_a_record_without_a_key_has_no_latest_value(comparison: Comparison) -> None:
    rows = [record(0, None, "V"), filler(1)]
    comparison.feed(tick(0, everywhere(2)), both(1, rows, 2), both(2, rows[1:], 2), both(3, rows, 2))
    settle(comparison, 2)
    assert comparison.suspects == []


def test_an_absence_is_not_judged_below_its_horizon(comparison: Comparison) -> None:
    rows = [record(0, "K", "V"), filler(1)]
    comparison.feed(tick(0, everywhere(9)), both(1, rows, 2, 10), both(2, rows[1:], 2, 10), both(3, rows, 2, 10))
    settle(comparison, 9)
    assert comparison.suspects == []


# I4


def test_a_long_transaction_freezes_nobody(comparison: Comparison) -> None:
    for at in range(0, 60_000, 1000):
        comparison.feed(tick(at, everywhere(4), everywhere(9), open={b: [(9, 4)] for b in BROKERS}))
    assert comparison.suspects == []


def test_a_follower_that_trails_by_a_fetch_round_is_not_frozen(comparison: Comparison) -> None:
    for i, at in enumerate(range(0, 60_000, 1000)):
        comparison.feed(tick(at, {1: 9 + i, 2: 8 + i, 3: 9 + i}, {1: 99, 2: 99, 3: 99}, open={2: [(9, 8 + i)]}))
    assert comparison.suspects == []


def test_a_replica_that_does_not_replicate_is_not_frozen(comparison: Comparison) -> None:
    for at in range(0, 60_000, 1000):
        comparison.feed(tick(at, {1: 9, 2: 3, 3: 9}, {1: 9, 2: 8, 3: 9}, open={2: [(9, 3)]}))
    assert comparison.suspects == []


def test_a_transaction_from_below_a_log_start_freezes_nobody(comparison: Comparison) -> None:
    for at in range(0, 60_000, 1000):
        rows = tick(at, {1: 9, 2: 3, 3: 9}, everywhere(9), open={2: [(9, 3)]})
        rows[0]["log_start_offset"] = rows[2]["log_start_offset"] = 4
        comparison.feed(rows)
    assert comparison.suspects == []
