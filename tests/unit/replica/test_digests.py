"""Digests of blocks: parts add up whatever the cuts, and what differs in one row differs in the sum."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.replica.digests import (
    BLOCK,
    COLUMNS,
    JOINED_BITS,
    KINDS,
    MOVE_OFFSETS,
    Digester,
    Digests,
    Open,
    carried,
    contradicting,
)

KEY = bytes(range(16))
NONE, COMMITTED, ABORTED, UNDECIDED = range(4)
RECORD, COMMIT, ABORT, LISTED, EMPTIED = 0, 1, 2, 4, 5
Row = dict[str, int]


def record(offset: int, **more: int) -> Row:
    row = {"kind": RECORD, "offset": offset, "timestamp": 1_000_000 + offset, "leader_epoch": 3, "producer_id": -1}
    row |= {"producer_epoch": -1, "outcome": NONE, "key_hash_hi": offset * 31, "key_hash_lo": -offset, "key_size": 8}
    return {**row, "content_hash": offset * 77, "value_size": 100, **more}


def data(offset: int, producer: int, outcome: int = COMMITTED, **more: int) -> Row:
    return record(offset, producer_id=producer, producer_epoch=0, outcome=outcome, **more)


def end(offset: int, producer: int, kind: int = COMMIT) -> Row:
    row = record(offset, kind=kind, producer_id=producer, producer_epoch=0, outcome=kind)
    return row | {"key_hash_hi": 0, "key_hash_lo": 0, "content_hash": 0, "key_size": -1, "value_size": -1}


def added_up(rows: list[Row], digester: Digester | None = None) -> Digests:
    columns = {name: np.array([row[name] for row in rows], dtype) for name, dtype in COLUMNS.items()}
    return (digester or Digester(KEY)).add_up(np.array([0, len(rows)]), np.zeros(1, np.int32), columns)


def sums(digests: Digests) -> dict[int, tuple[int, ...]]:
    """By 4,096 offsets, which no part goes beyond: rows of each kind, and both halves of the sum."""
    found: dict[int, list[int]] = defaultdict(lambda: [0] * (len(KINDS) + 2))
    for part in digests.parts:
        mine = found[int(part["block_end"] - 1) >> JOINED_BITS]
        for n, name in enumerate((*KINDS, "low", "high")):
            mine[n] = (mine[n] + int(part[name])) % 2**64
    return {at: tuple(mine) for at, mine in found.items()}


def life(seed: int, count: int) -> list[Row]:
    """Rows as a replica shows them: plain records, transactions of some producers, what lists tell, gaps."""
    draw = random.Random(seed)
    rows: list[Row] = []
    going: dict[int, int] = {}
    offset = draw.randrange(3 * BLOCK)
    for _ in range(count):
        offset += draw.choice((1, 1, 1, 2, draw.choice((7, BLOCK))))
        producer = draw.randrange(5)
        what = draw.random()
        if what < 0.4:
            rows.append(record(offset, key_size=draw.choice((-1, 8)), value_size=draw.choice((-1, 0, 5))))
        elif what < 0.8:
            outcome = going.setdefault(producer, draw.choice((COMMITTED, ABORTED)))
            rows.append(data(offset, producer, outcome))
        elif what < 0.95:
            rows.append(end(offset, producer, going.pop(producer, draw.choice((COMMIT, ABORT)))))
        else:
            rows.append(end(offset, producer, draw.choice((LISTED, EMPTIED))) | {"leader_epoch": -1, "outcome": 2})
    return rows


lives = st.builds(life, st.integers(0, 2**32), st.integers(1, 120))


@given(rows=lives, cuts=st.lists(st.integers(0, 120), max_size=6), order=st.randoms(use_true_random=False))
def test_parts_add_up_to_the_same_whatever_the_cuts_and_their_order(
    rows: list[Row], cuts: list[int], order: random.Random
) -> None:
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [added_up(rows[low:high]) for low, high in pairwise(edges)]
    order.shuffle(parts)
    assert sums(Digests.concat(parts)) == sums(added_up(rows))


CHANGES = [name for name in COLUMNS if name != "leader_epoch"]


@given(rows=lives, at=st.integers(0, 119), column=st.sampled_from(CHANGES), by=st.integers(1, 100))
def test_what_differs_in_one_row_differs_in_the_sum_of_its_block(
    rows: list[Row], at: int, column: str, by: int
) -> None:
    row = rows[at % len(rows)]
    is_compared = row["kind"] == RECORD or column in ("offset", "kind", "producer_id", "outcome")
    other = row | {column: (row[column] + by) if column not in ("kind", "outcome") else (row[column] + 1) % 3}
    changed = [other if one is row else one for one in rows]
    assert (sums(added_up(changed)) != sums(added_up(rows))) == is_compared


@given(rows=lives, one=st.integers(0, 119), two=st.integers(0, 119))
def test_two_rows_that_change_places_or_swap_what_they_hold_do_not_cancel(rows: list[Row], one: int, two: int) -> None:
    first, second = rows[one % len(rows)], rows[two % len(rows)]
    if {first["kind"], second["kind"]} != {RECORD} or first["offset"] >> JOINED_BITS != second["offset"] >> JOINED_BITS:
        return
    if first["content_hash"] == second["content_hash"]:
        return
    swapped = {id(first): first | {"content_hash": second["content_hash"]}}
    swapped[id(second)] = second | {"content_hash": first["content_hash"]}
    assert sums(added_up([swapped.get(id(row), row) for row in rows])) != sums(added_up(rows))


@given(rows=lives, at=st.integers(0, 119))
def test_a_row_more_is_counted_and_differs(rows: list[Row], at: int) -> None:
    fewer = [row for n, row in enumerate(rows) if n != at % len(rows)]
    assert sums(added_up(rows)) != (sums(added_up(fewer)) if fewer else {})


def test_the_leader_epoch_is_told_and_is_not_in_the_sum() -> None:
    rows = [record(1, leader_epoch=5), record(2, leader_epoch=7), end(3, 1, LISTED) | {"leader_epoch": -1}]
    (part,) = added_up(rows).parts
    assert (part["first_epoch"], part["last_epoch"]) == (5, 7)
    assert sums(added_up([row | {"leader_epoch": 9} for row in rows])) == sums(added_up(rows))


def test_what_an_end_marker_holds_but_for_offset_producer_and_type_is_not_in_the_sum() -> None:
    other = {"timestamp": 5, "producer_epoch": 4, "key_hash_hi": 1, "content_hash": 2, "value_size": 6}
    assert sums(added_up([end(3, 1) | other])) == sums(added_up([end(3, 1)]))


def test_another_key_makes_other_sums() -> None:
    rows = [record(1), end(2, 1)]
    assert sums(added_up(rows, Digester(bytes(16)))) != sums(added_up(rows))
    with pytest.raises(ValueError, match="16 bytes"):
        Digester(b"short")


@given(rows=lives, cuts=st.lists(st.integers(0, 120), max_size=3))
def test_joined_parts_have_the_same_sums_and_leave_the_same_transactions_open(rows: list[Row], cuts: list[int]) -> None:
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    made = Digests.concat([added_up(rows[low:high]) for low, high in pairwise(edges)])
    joined = made.joined()
    assert sums(joined) == sums(made)
    assert len(joined.parts) == len(sums(made))
    assert carried({}, joined.moves) == carried({}, made.moves)
    epochs = [part["first_epoch"] for part in made.parts if part["first_epoch"] >= 0]
    assert min((n for n in joined.parts["first_epoch"] if n >= 0), default=-1) == min(epochs, default=-1)
    assert joined.parts["last_epoch"].max() == made.parts["last_epoch"].max()


@settings(max_examples=200)
@given(rows=lives, cuts=st.lists(st.integers(0, 120), max_size=8), other=st.integers(0, 120))
def test_moves_contradict_each_other_where_following_them_counts_it(
    rows: list[Row], cuts: list[int], other: int
) -> None:
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    told = [row | {"outcome": COMMITTED} if n == other and row["outcome"] else row for n, row in enumerate(rows)]
    moves = Digests.concat([added_up(told[low:high]) for low, high in pairwise(edges)]).moves
    by_producer = moves[np.lexsort((moves["part"], moves["producer_id"]))]
    assert contradicting(by_producer).any() == (carried({}, moves)[1] > 0)


def test_parts_are_not_larger_than_the_table_of_their_producers() -> None:
    with pytest.raises(ValueError, match="too long"):
        Digester(KEY, joined_bits=JOINED_BITS + 1)


def test_a_fingerprint_of_8_bits_takes_some_blocks_that_differ_for_equal() -> None:
    """What a collision does: a miss in that block. One of 256, where 128 bits make it one of 10^38."""
    digester = Digester(KEY, bits=8)
    before = sums(added_up([record(n) for n in range(64)], digester))
    taken_for_equal = sum(
        sums(added_up([record(n, content_hash=n * 77 + (n == 5) * (seed + 1)) for n in range(64)], digester)) == before
        for seed in range(2000)
    )
    assert 1 <= taken_for_equal <= 30  # 8 of 2,000 are to be expected
    whole = sums(added_up([record(n) for n in range(64)]))
    assert all(
        sums(added_up([record(n, content_hash=n * 77 + (n == 5) * (seed + 1)) for n in range(64)])) != whole
        for seed in range(2000)
    )


def test_rows_of_several_places_are_told_apart() -> None:
    rows = [record(1), record(2), record(1), record(9)]
    columns = {name: np.array([row[name] for row in rows], dtype) for name, dtype in COLUMNS.items()}
    made = Digester(KEY).add_up(np.array([0, 2, 3, 4]), np.array([4, 2, 7], np.int32), columns)
    assert made.parts["range"].tolist() == [4, 2, 7]
    assert made.parts["records"].tolist() == [2, 1, 1]
    assert made.parts["low"][0] == added_up(rows[:2]).parts["low"][0]


def followed(rows: list[Row], cuts: list[int]) -> tuple[dict[int, Open], int]:
    """What goes on at the end, and how much is shown otherwise than what belongs to it."""
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    going: dict[int, Open] = {}
    against = 0
    for low, high in pairwise(edges):
        made = added_up(rows[low:high])
        for n, part in enumerate(made.parts):
            going, more = carried(going, made.moves[made.moves["part"] == n])
            against += more + int(part["contradicted"])
    return going, against


@settings(max_examples=200)
@given(rows=lives, cuts=st.lists(st.integers(0, 120), max_size=8))
def test_transactions_are_followed_over_any_cuts(rows: list[Row], cuts: list[int]) -> None:
    going: dict[int, Open] = {}
    for row in rows:
        producer = row["producer_id"]
        if row["kind"] in (COMMIT, ABORT):
            going.pop(producer, None)
        elif row["kind"] == RECORD and row["outcome"] != NONE and producer not in going:
            going[producer] = Open(row["offset"], row["outcome"], row["key_hash_hi"], row["key_hash_lo"])
    assert followed(rows, cuts) == (going, 0)


def in_order(digests: Digests) -> tuple[list[Any], list[Any]]:
    """Parts and moves; the moves of a part come in any order."""
    return digests.parts.tolist(), sorted(digests.moves.tolist())


@settings(max_examples=300)
@given(rows=lives, cuts=st.lists(st.integers(0, 120), max_size=12), wrong=st.integers(0, 239))
def test_parts_of_one_block_that_are_joined_are_as_if_they_had_been_added_up_together(
    rows: list[Row], cuts: list[int], wrong: int
) -> None:
    if wrong < len(rows) and rows[wrong]["outcome"] != NONE:
        rows[wrong] |= {"outcome": COMMITTED + ABORTED - rows[wrong]["outcome"]}
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    several = [added_up(rows[low:high]) for low, high in pairwise(edges)]
    for n, one in enumerate(several):
        one.parts["range"] = n
    made = Digests.concat(several).joined(np.zeros(len(several), np.int32))
    want = added_up(rows, Digester(KEY, block_bits=JOINED_BITS))
    for one in (made, want):
        one.parts["contradicted"] = one.parts["contradicted"] > 0
        one.parts["block_end"] = one.parts["block_end"] - 1 >> JOINED_BITS
    assert in_order(made) == in_order(want)


def test_ranges_of_several_readings_stay_apart_where_they_are_not_joined() -> None:
    several = [added_up([record(n), data(n + 1, 4)]) for n in (10, 20, 30)]
    for n, one in enumerate(several):
        one.parts["range"] = 2 - n
    made = Digests.concat(several).joined(np.array([0, 1, 1], np.int32))
    assert made.parts[["range", "records"]].tolist() == [(0, 2), (1, 4)]
    assert made.moves[["part", "start"]].tolist() == [(0, 31), (1, 11)]
    assert len(Digests.none().joined(np.zeros(0, np.int32)).parts) == 0


@given(cut=st.integers(0, 5), second=st.sampled_from((RECORD, ABORT)))
def test_a_transaction_that_is_shown_otherwise_than_it_ends_is_noticed_over_any_cut(cut: int, second: int) -> None:
    other = data(12, 4, ABORTED) if second == RECORD else end(12, 4, ABORT)
    rows = [data(10, 4), data(11, 4), other, data(13, 5), end(14, 5)]
    assert followed(rows, [cut])[1] == 1


def test_a_reader_of_read_uncommitted_contradicts_no_end_marker() -> None:
    rows = [data(10, 4, UNDECIDED), end(11, 4, ABORT), data(12, 4, UNDECIDED), end(13, 4)]
    for cut in range(4):
        assert followed(rows, [cut]) == ({}, 0)


def test_a_part_may_have_as_many_producers_as_offsets() -> None:
    most = 1 << JOINED_BITS
    made = added_up([data(n, n * 2**32, COMMITTED) for n in range(most)])
    assert made.parts["block_end"].tolist() == [most]
    assert sorted(int(one) for one in made.moves["start"]) == list(range(most))


def test_a_part_has_one_block_if_few_have_transactions_there_and_several_if_many_have() -> None:
    for producers, size in ((0, BLOCK), (BLOCK // MOVE_OFFSETS, BLOCK), (8, 1024), (9, 2048), (99, 4096)):
        rows = [data(n, n % producers) if producers else record(n) for n in range(8192)]
        assert added_up(rows).parts["block_end"].tolist() == list(range(size, 8192 + size, size))


@given(rows=lives, at=st.integers(0, 119))
def test_a_reader_that_begins_later_ends_parts_wherever_one_does_that_began_before(rows: list[Row], at: int) -> None:
    later = rows[at % len(rows) :]
    ends = [set(added_up(its).parts["block_end"].tolist()) for its in (rows, later)]
    assert {end for end in ends[0] if end > later[0]["offset"]} <= ends[1]


def test_no_rows_are_no_parts() -> None:
    columns: Any = {name: np.empty(0, dtype) for name, dtype in COLUMNS.items()}
    made = Digester(KEY).add_up(np.zeros(1, np.int64), np.empty(0, np.int32), columns)
    assert len(made.parts) == len(made.moves) == 0
