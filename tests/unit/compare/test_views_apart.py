"""What a replica shows in read_committed may be compared before what it shows in read_uncommitted, and in parts."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.compare.remembered import waiting
from parallax.compare.state import PartitionState
from parallax.model import Outcome, ReadEvent, RowKind
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
    record,
    shown,
    tick,
)

DAY_MS = 86_400_000
ORDERS = ("together", "read_uncommitted first", "read_committed first")


def as_ended(rows: list[Row], outcome: Outcome) -> list[Row]:
    return [{**row, "outcome": outcome} for row in rows]


def feed(comparison: Comparison, order: str, uncommitted: list[Row], committed: list[Row], at: int, end: int) -> None:
    """Read replica 2 up to the end in both views, in one micro-batch or in two; then nothing more comes."""
    parts = [shown(RU, 2, uncommitted, end, at), shown(RC, 2, committed, end, at)]
    if order == "together":
        parts = [parts[0] + parts[1]]
    for part in reversed(parts) if order == "read_committed first" else parts:
        comparison.feed(part)
    for i in range(3):
        comparison.feed(tick(at + 1000 * (i + 1), everywhere(end)))


def lost_while_away(order: str, right: int, wrong: int) -> Comparison:
    """Replica 2 missed an end marker at 4; records 0 to 2 are cleaned on the others, and their keys written again."""
    end = abort if right == RowKind.ABORT else commit
    wrongly = Outcome.COMMITTED if wrong == RowKind.COMMIT else Outcome.ABORTED
    c = Comparison()
    c.feed(tick(0, everywhere(0)), *(both(b, [], 0, 1) for b in BROKERS))
    first = [record(i, f"K{i}", "V", pid=9, outcome=wrongly) for i in range(3)]
    opened = {b: [(9, 0)] for b in BROKERS}
    uncommitted = (shown(RU, b, first, 3, 1001) for b in BROKERS)
    c.feed(tick(1000, everywhere(0), everywhere(3), open=opened), *uncommitted)
    last = {"kind": wrong, "offset": 9, "producer_id": 9, "timestamp": 1009}
    rest = [*(record(5 + i, f"K{i}", "W") for i in range(3)), record(8, "L", "x", pid=9, outcome=wrongly), last]
    c.feed(tick(2000, {1: 10, 3: 10}, down=(2,)))
    for b in (1, 3):
        rows = [end(4, 9), *rest]
        c.feed(shown(RU, b, rows, 10, 2001), shown(RC, b, rows, 10, 2001))
    c.feed(tick(DAY_MS, everywhere(10)))
    feed(c, order, rest, [*first, *rest], DAY_MS + 1, 10)
    return c


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        (RowKind.ABORT, RowKind.COMMIT, "aborted_record_committed"),
        (RowKind.COMMIT, RowKind.ABORT, "committed_record_aborted"),
    ],
    ids=["committed", "aborted"],
)
def test_a_wrong_outcome_is_known_in_whichever_order_the_views_come(
    order: str, right: int, wrong: int, kind: str
) -> None:
    c = lost_while_away(order, right, wrong)
    assert c.kinds == [(kind, 2)]
    observations = c.suspects[0].accusation.observations
    assert observations["offsets"] == [0, 1, 2]
    assert "end_unproven" not in observations
    assert c.last is not None
    assert not c.last.coverage.unread
    assert c.last.coverage.compared_up_to == (10, 10)


def test_what_is_remembered_is_unjudged_and_let_go_of_once_the_other_view_has_passed() -> None:
    c = Comparison()
    c.feed(tick(0, everywhere(0)), *(both(b, [], 0, 1) for b in BROKERS))
    first, again = record(0, "K", "V", pid=9, outcome=Outcome.COMMITTED), record(2, "K", "W")
    c.feed(*(both(b, [commit(1, 9), again], 3, 1001) for b in (1, 3)))
    c.feed(shown(RC, 2, [first, commit(1, 9), again], 3, 1002), tick(2000, everywhere(3)))
    state = PartitionState.from_bytes(c.state)
    assert (len(state.candidates), waiting(state.candidates)) == (1, 0)
    assert c.last is not None
    assert (c.last.coverage.candidates, max(c.last.coverage.unknown["unjudged"])) == (0, 1)
    c.feed(shown(RU, 2, [first, commit(1, 9), again], 3, 2001))
    c.feed(tick(3000, everywhere(3)))
    assert len(PartitionState.from_bytes(c.state).candidates) == 0
    assert max(c.last.coverage.unknown["unjudged"]) == 0
    assert not c.suspects


def test_where_no_record_of_the_accused_was_shown_all_that_it_may_have_written_is_unknown() -> None:
    c = Comparison()
    c.feed(tick(0, everywhere(0)), *(both(b, [], 0, 1) for b in BROKERS))
    first = [record(i, f"K{i}", "V", pid=9, outcome=Outcome.ABORTED) for i in range(3)]
    opened = {b: [(9, 0)] for b in BROKERS}
    uncommitted = (shown(RU, b, first, 3, 1001) for b in BROKERS)
    c.feed(tick(1000, everywhere(0), everywhere(3), open=opened), *uncommitted)
    rest = [*(record(5 + i, f"K{i}", "W") for i in range(3)), commit(8, 9)]
    for b in (1, 3):
        c.feed(shown(RU, b, [abort(4, 9), *rest], 9, 2001), shown(RC, b, [abort(4, 9), *rest], 9, 2001))
    c.feed(tick(3000, everywhere(9)))
    feed(c, "together", rest, rest, 3001, 9)
    assert c.kinds == [("aborted_record_committed", 2)]
    assert c.last is not None
    assert [(span.start, span.end) for span in c.last.coverage.unread] == [(0, 4)]


@pytest.mark.parametrize("order", ORDERS)
def test_a_transaction_behind_a_missed_marker_is_found_in_whichever_order_the_views_come(order: str) -> None:
    """Replica 2 missed COMMIT 1, by the type of which it ended all, and ABORT 5 behind it, of records 3 and 4."""
    c = Comparison()
    c.feed(tick(0, everywhere(0)), *(both(b, [], 0, 1) for b in BROKERS))
    first = record(0, "K", "V", pid=9, outcome=Outcome.COMMITTED)
    second = [record(o, k, "1", pid=9, outcome=Outcome.ABORTED) for o, k in ((3, "B"), (4, "D"))]
    opened: dict[int, Any] = {b: [(9, 0)] for b in BROKERS}
    c.feed(tick(1000, everywhere(0), everywhere(1), open=opened), *(shown(RU, b, [first], 1, 1001) for b in BROKERS))
    again = record(2, "K", "W")
    c.feed(tick(2000, {1: 3, 3: 3}, down=(2,)))
    for b in (1, 3):
        c.feed(shown(RU, b, [commit(1, 9), again], 3, 2001), shown(RC, b, [first, commit(1, 9), again], 3, 2001))
    opened = {1: [(9, 3)], 3: [(9, 3)], 2: [(9, 0)]}
    c.feed(tick(DAY_MS, {1: 3, 3: 3, 2: 0}, everywhere(5), open=opened))
    c.feed(*(shown(RU, b, second, 5, DAY_MS + 1, last_stable_offset=3) for b in (1, 3)))
    c.feed(shown(RU, 2, [again, *second], 5, DAY_MS + 1, last_stable_offset=0))
    rest = [record(6, "B", "x"), record(7, "D", "x"), record(8, "L", "x", pid=9, outcome=Outcome.COMMITTED)]
    rest.append(commit(9, 9))
    at = DAY_MS + 3_600_000
    c.feed(tick(at, {1: 10, 3: 10}, down=(2,)))
    for b in (1, 3):
        c.feed(shown(RU, b, [abort(5, 9), *rest], 10, at + 1), shown(RC, b, [abort(5, 9), *rest], 10, at + 1))
    at += DAY_MS
    c.feed(tick(at, everywhere(10)))
    feed(c, order, rest, [first, again, *as_ended(second, Outcome.COMMITTED), *rest], at + 1, 10)
    assert c.kinds == [("marker_missing", 2), ("aborted_record_committed", 2)]
    assert c.findings == {(2, "txn:9:0"), (2, "txn:9:3")}


@pytest.mark.parametrize("cut", [0, 7, 11], ids=["whole", "behind the second", "behind the third"])
def test_transactions_in_a_row_are_one_suspect_each_wherever_chunks_are_cut(cut: int) -> None:
    """Replica 2 missed ABORT 1, 5 and 9; a COMMIT at 12 ends all of it there."""
    c = Comparison()
    c.feed(tick(0, everywhere(0)), *(both(b, [], 0, 1) for b in BROKERS))
    mine = [record(o, f"k{o}", "1", pid=9, outcome=Outcome.ABORTED) for o in (0, 3, 4, 7, 8)]
    rest = [record(11, "d", "1", pid=9, outcome=Outcome.COMMITTED), commit(12, 9)]
    opened = {b: [(9, 0)] for b in BROKERS}
    c.feed(tick(1000, everywhere(0), everywhere(1), open=opened))
    c.feed(*(shown(RU, b, mine[:1], 1, 1001) for b in BROKERS))
    rows = [mine[0], abort(1, 9), *mine[1:3], abort(5, 9), *mine[3:], abort(9, 9), *rest]
    for b in (1, 3):
        c.feed(tick(2000, {1: 13, 3: 13}, down=(2,)), shown(RU, b, rows[1:], 13, 2001), shown(RC, b, rows, 13, 2001))
    c.feed(tick(3000, everywhere(13)))
    turned = as_ended(mine, Outcome.COMMITTED)
    if cut:
        uncommitted = [r for r in mine[1:] if r["offset"] < cut]
        committed = [r for r in turned if r["offset"] < cut]
        marks = {"high_watermark": 13, "last_stable_offset": 13}
        c.feed(shown(RU, 2, uncommitted, cut, 3001, **marks), shown(RC, 2, committed, cut, 3001, **marks))
        c.feed(tick(4000, everywhere(13)))
    uncommitted = [r for r in mine[1:] if r["offset"] >= cut]
    committed = [r for r in turned if r["offset"] >= cut]
    feed(c, "together", [*uncommitted, *rest], [*committed, *rest], 4001, 13)
    assert [s.cause for s in c.suspects] == ["txn:9:0", "txn:9:3", "txn:9:7"]
    assert {str(s.kind) for s in c.suspects} == {"aborted_record_committed"}


@pytest.mark.parametrize("diverged_before", [True, False])
def test_what_was_raised_of_a_topic_that_is_gone_is_raised_of_the_one_that_took_its_place(
    diverged_before: bool,
) -> None:
    c = Comparison()

    def fill(topic_id: int, at: int, unlike: bool) -> None:
        event = ReadEvent.TOPIC_RECREATED if at else ReadEvent.OK

        def named(rows: list[Row], event: ReadEvent) -> list[Row]:
            more = {"topic_id": topic_id, "event": event}
            return [{**row, **(more if row["kind"] == RowKind.POSITION else {})} for row in rows]

        c.feed(tick(at, everywhere(0)), *(named(both(b, [], 0, at + 1), event) for b in BROKERS))
        rows = [record(0, "K", "V"), record(1, "L", "1")]
        other = [{**rows[0], "content_hash": 5}, rows[1]]
        mine = {b: other if b == 2 and unlike else rows for b in BROKERS}
        c.feed(tick(at + 10, everywhere(2)), *(named(both(b, mine[b], 2, at + 11), ReadEvent.OK) for b in BROKERS))
        c.feed(tick(at + 20, everywhere(2)))

    fill(77, 0, diverged_before)
    before = len(c.suspects)
    assert before == int(diverged_before)
    fill(88, 100_000, True)
    assert [(str(s.kind), s.accusation.offset) for s in c.suspects[before:]] == [("content_mismatch", 0)]
