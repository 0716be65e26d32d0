"""Array operations that the rules share, against the plain way to say the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.compare.rules.arrays import (
    bit_counts,
    bits,
    group_starts,
    have_key_among,
    joined,
    latest_of_keys,
    passed_without,
    slots_of,
    table,
)
from parallax.compare.state import MARKER


def test_masks_have_one_bit_for_each_of_32_slots() -> None:
    slots = np.arange(32)
    assert bits(slots).tolist() == [2**slot for slot in range(32)]
    assert slots_of(2**32 - 1) == list(range(32))
    assert slots_of(0b1010) == [1, 3]
    assert slots_of(0) == []
    assert bit_counts(np.array([0, 1, 0b1011, 2**32 - 1], np.uint32)).tolist() == [0, 1, 3, 32]
    assert bit_counts(np.array([1], np.uint32)).dtype == np.int64


def test_a_table_has_the_columns_given_and_zeros_elsewhere() -> None:
    made = table(MARKER, 2, offset=[4, 5], shown=3)
    assert made["offset"].tolist() == [4, 5]
    assert made["shown"].tolist() == [3, 3]
    assert made["producer_id"].tolist() == [0, 0]


def test_tables_are_joined_in_order_into_one_of_their_own() -> None:
    first, none, second = (table(MARKER, len(o), offset=o, type=7) for o in ([3, 1], [], [2]))
    made = joined(first, none, second)
    assert made.dtype == MARKER
    assert made["offset"].tolist() == [3, 1, 2]
    assert made["type"].tolist() == [7, 7, 7]
    made["offset"] = 0
    assert first["offset"].tolist() == [3, 1]
    assert len(joined(none)) == 0


def test_groups_start_where_the_key_changes() -> None:
    assert group_starts(np.array([7, 7, 8, 9, 9, 9])).tolist() == [0, 2, 3]
    assert group_starts(np.array([7])).tolist() == [0]
    assert group_starts(np.array([], np.int64)).tolist() == []


def test_a_replica_lacks_what_lies_below_its_position_and_it_did_not_show() -> None:
    positions = np.full(32, -1)
    positions[:4] = (5, 6, 9, 9)
    lacking = passed_without(positions, 0b0111, np.array([4, 5, 6, 8, 9]), np.array([0b001, 0, 0b100, 0b010, 0]))
    assert lacking.tolist() == [0b110, 0b110, 0, 0b100, 0]


Keys = list[tuple[int, int]]
KEYS = st.lists(st.tuples(st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]), st.integers(-3, 3)), max_size=30)
LATER = st.lists(
    st.tuples(st.sampled_from([-(2**63), -1, 0, 1, 5]), st.integers(-3, 3), st.integers(0, 99)), max_size=30
)


@given(KEYS, LATER, LATER)
@settings(max_examples=60, deadline=None)
def test_the_latest_offset_of_a_key_is_the_highest_among_all_others(keys: Keys, first: list, second: list) -> None:
    def columns(rows: list) -> tuple:
        made = np.array(rows, np.int64).reshape(-1, 3)
        return made[:, 0], made[:, 1], made[:, 2]

    hi, lo = np.array(keys, np.int64).reshape(-1, 2).T
    found = latest_of_keys(hi, lo, [columns(first), columns(second)])
    wanted = [max((o for h, low, o in [*first, *second] if (h, low) == key), default=-1) for key in keys]
    assert found.tolist() == wanted


@given(KEYS, KEYS)
@settings(max_examples=60, deadline=None)
def test_a_key_is_among_others_where_both_its_halves_are(keys: Keys, others: Keys) -> None:
    columns = [np.array(rows, np.int64).reshape(-1, 2).T for rows in (keys, others)]
    assert have_key_among(*columns[0], *columns[1]).tolist() == [key in others for key in keys]


def test_many_keys_are_distinguished() -> None:
    hi = np.arange(1000) % 10
    lo = np.arange(1000) // 10
    found = latest_of_keys(hi, lo, [(hi, lo, np.arange(1000)), (hi[:500], lo[:500], np.arange(500))])
    assert found.tolist() == list(range(1000))
