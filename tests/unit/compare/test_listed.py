"""The list of aborted transactions as a witness: what a replica has made of records that it holds no more (I2).

And end markers that the cleaner has emptied: where a record lies before one, its replica never got the marker.
"""

from __future__ import annotations

import pytest

from parallax.audit.packing import pack, unpack
from parallax.compare.observations import Observations
from parallax.model import FindingKind, Outcome, RowKind, Rule, UnknownReason
from tests.unit.compare.listing import END, emptied, read

from .history import RC, Comparison, Row, abort, commit, everywhere, filler, record, settle, shown, tick

COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED


def listed(offset: int, pid: int) -> Row:
    """An aborted transaction that a replica lists from an offset on at which it holds nothing."""
    return {"kind": RowKind.LISTED, "offset": offset, "producer_id": pid, "outcome": ABORTED, "key_size": -1}


PUT = record(1, "k", "v", pid=7, outcome=COMMITTED)
RIGHT = [PUT, commit(2, 7), filler(4), abort(8, 7)]
WRONG = [listed(1, 7), filler(4), abort(8, 7)]


@pytest.fixture
def comparison() -> Comparison:
    made = Comparison()
    made.feed(tick(0, everywhere(END)))
    return made


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1)])
def test_an_entry_that_reaches_over_the_commit_of_its_record_accuses_its_replica(
    comparison: Comparison, order: tuple[int, ...]
) -> None:
    log = {1: RIGHT, 2: [filler(4), abort(8, 7)], 3: WRONG}
    for broker in order:
        comparison.feed(read(broker, *log[broker]))
    settle(comparison, END)
    assert comparison.kinds == [(FindingKind.COMMITTED_RECORD_ABORTED, 3)]
    claim = comparison.suspects[0].accusation
    assert (claim.offset, claim.producer_id, claim.marker_offset) == (1, 7, 2)
    assert claim.key_hash_hi == PUT["key_hash_hi"]
    assert claim.observations["outcomes"] == {"1": "committed", "3": "aborted"}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([filler(4), abort(8, 7)], id="nothing is left of it"),
        pytest.param([listed(6, 7), filler(4), abort(8, 7)], id="a copy of a cleaned log knows it from later on"),
        pytest.param([commit(2, 7), filler(4), abort(8, 7)], id="an end marker alone: an earlier one may be cleaned"),
        pytest.param([record(1, "k", "v", pid=7, outcome=ABORTED), filler(4), abort(8, 7)], id="aborted there as well"),
        pytest.param([record(1, "k", "v"), filler(4)], id="a record of another log"),
    ],
)
def test_an_entry_that_nothing_contradicts_accuses_nobody(comparison: Comparison, other: list[Row]) -> None:
    rows = sorted(other, key=lambda row: row["offset"])
    for broker in (1, 2):
        comparison.feed(read(broker, *rows))
    comparison.feed(read(3, *WRONG))
    settle(comparison, END)
    assert comparison.suspects == []


SEVERAL = [record(o, f"k{o}", "v", pid=7, outcome=COMMITTED) for o in (1, 2, 3)]


def accused_of(comparison: Comparison, records: list[Row], entry: Row) -> list[tuple[FindingKind, int, int, bool]]:
    """Kind, broker, offset, and whether the end is unproven, where 1 and 2 showed a COMMIT at 4 and 3 has an entry."""
    for broker in (1, 2):
        comparison.feed(read(broker, *records, commit(4, 7), filler(6), abort(8, 7)))
    comparison.feed(read(3, entry, filler(6), abort(8, 7)))
    settle(comparison, END)
    told = [suspect.accusation for suspect in comparison.suspects if suspect.accusation.rule == Rule.OUTCOME]
    return [(one.kind, one.broker, one.offset, "end_unproven" in one.observations) for one in told]


def test_records_of_others_at_every_offset_up_to_the_end_marker_leave_a_lower_one_no_room(
    comparison: Comparison,
) -> None:
    assert accused_of(comparison, SEVERAL, listed(1, 7)) == [(FindingKind.COMMITTED_RECORD_ABORTED, 3, 1, False)]


def test_a_lower_one_had_room_where_nobody_showed_a_record(comparison: Comparison) -> None:
    gap = [SEVERAL[0], SEVERAL[2]]
    assert accused_of(comparison, gap, listed(1, 7)) == [(FindingKind.COMMITTED_RECORD_ABORTED, 3, 1, True)]


def test_an_entry_ends_no_transaction_and_is_no_record(comparison: Comparison) -> None:
    """The row is none of a marker, and no content to compare."""
    for broker in (1, 2, 3):
        comparison.feed(read(broker, *WRONG))
    settle(comparison, END)
    assert comparison.suspects == []
    assert comparison.last is not None
    assert comparison.last.state.is_settled
    assert comparison.last.coverage.compared_up_to == (END, END)


def test_an_entry_goes_through_the_shuffle() -> None:
    rows = Observations.of("t", 0, read(3, *WRONG))
    again = unpack("t", 0, pack(rows))
    assert again.rows.kind.tolist() == rows.rows.kind.tolist()


def unknown(comparison: Comparison) -> int:
    assert comparison.last is not None
    return comparison.last.coverage.unknown_for(UnknownReason.SKIPPED)[1]


HIDDEN = record(1, "k", "v", pid=7, outcome=ABORTED)


@pytest.mark.parametrize("cut", [False, True], ids=["in one batch", "in two"])
def test_a_record_before_an_emptied_end_marker_never_got_it_so_that_its_end_is_unknown(
    comparison: Comparison, cut: bool
) -> None:
    left = [emptied(2, 7), filler(4), abort(8, 7)]
    comparison.feed(read(1, *left), read(2, *left))
    if cut:
        comparison.feed(shown(RC, 3, [HIDDEN], 2))
    comparison.feed(read(3, HIDDEN, *left))
    settle(comparison, END)
    assert (comparison.kinds, unknown(comparison)) == ([], 2)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([emptied(2, 7), filler(4), abort(8, 7)], id="nothing before it"),
        pytest.param([HIDDEN, abort(2, 7), emptied(3, 7), filler(4), abort(8, 7)], id="ended before it"),
        pytest.param([record(1, "k", "v"), emptied(2, 7), filler(4), abort(8, 7)], id="of no transaction"),
        pytest.param([emptied(1, 9), HIDDEN, filler(4), abort(8, 7)], id="another producer's"),
        pytest.param([filler(1), emptied(2, 7), {**HIDDEN, "offset": 3}, filler(4), abort(8, 7)], id="behind it"),
    ],
)
def test_an_emptied_end_marker_tells_nothing_of_any_other_record(comparison: Comparison, log: list[Row]) -> None:
    for broker in (1, 2, 3):
        comparison.feed(read(broker, *log))
    settle(comparison, END)
    assert (comparison.kinds, unknown(comparison)) == ([], 0)


def test_where_another_replica_showed_the_marker_its_type_is_known(comparison: Comparison) -> None:
    comparison.feed(read(1, PUT, commit(2, 7), filler(4), abort(8, 7)))
    comparison.feed(read(3, HIDDEN, emptied(2, 7), filler(4), abort(8, 7)))
    comparison.feed(read(2, emptied(2, 7), filler(4), abort(8, 7)))
    settle(comparison, END)
    assert (comparison.kinds, unknown(comparison)) == ([(FindingKind.COMMITTED_RECORD_ABORTED, 3)], 0)
