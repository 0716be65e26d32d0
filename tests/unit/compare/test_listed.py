"""The list of aborted transactions as a witness: what a replica has made of records that it holds no more (I2)."""

from __future__ import annotations

import pytest

from parallax.compare.observations import Observations
from parallax.compare.packing import pack, unpack
from parallax.model import FindingKind, Outcome, RowKind

from .history import RC, RU, Comparison, Row, abort, commit, everywhere, filler, record, settle, shown, tick

COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED
END = 9


def listed(offset: int, pid: int) -> Row:
    """An aborted transaction that a replica lists from an offset on at which it holds nothing."""
    return {"kind": RowKind.LISTED, "offset": offset, "producer_id": pid, "outcome": ABORTED, "key_size": -1}


def read(broker: int, *rows: Row) -> list[Row]:
    """One replica read to its end in both views; only read_committed sees the list."""
    uncommitted = [row for row in rows if row["kind"] != RowKind.LISTED]
    return shown(RU, broker, uncommitted, END) + shown(RC, broker, rows, END)


PUT = record(1, "k", "v", pid=7, outcome=COMMITTED)
RIGHT = [PUT, commit(2, 7), filler(4), abort(8, 7)]
WRONG = [listed(1, 7), filler(4), abort(8, 7)]


@pytest.fixture
def comparison() -> Comparison:
    made = Comparison(compacted=True)
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
