"""I1 on arrays: one fingerprint for all that must agree, and who differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parallax.compare.observations import Array, ViewRows
from parallax.compare.rules import content

ROW = {
    "offset": 4,
    "timestamp": 1000,
    "producer_id": 9,
    "producer_epoch": 1,
    "key_hash_hi": 11,
    "key_hash_lo": 12,
    "content_hash": 13,
    "key_size": 3,
    "value_size": 5,
}


def fingerprint(**fields: Any) -> int:
    return int(content.fingerprints(ViewRows.from_rows([ROW | fields]))[0])


@pytest.mark.parametrize("name", [n for n in ROW if n != "offset"])
def test_whatever_must_agree_changes_the_fingerprint(name: str) -> None:
    assert fingerprint(**{name: ROW[name] + 1}) != fingerprint()
    assert fingerprint(**{name: -1}) != fingerprint()


def test_neither_the_place_nor_who_shows_it_how_changes_it() -> None:
    assert fingerprint(offset=7, broker=3, outcome=2, view=1, leader_epoch=5) == fingerprint()


def test_sizes_are_not_taken_for_one_another() -> None:
    assert fingerprint(key_size=3, value_size=5) != fingerprint(key_size=5, value_size=3)
    assert fingerprint(key_size=0, value_size=-1) != fingerprint(key_size=-1, value_size=0)
    assert fingerprint(key_size=-1, value_size=-1) != fingerprint(key_size=0, value_size=0)


def test_fingerprints_are_those_that_other_versions_wrote() -> None:
    # They lie in states and in the evidence of findings: another mixture is another version of the state.
    assert fingerprint() == KNOWN


KNOWN = 7_877_961_917_905_188_156


def take_in(*rows: tuple[int, int, int], table: Array | None = None) -> Array:
    offsets, prints, slots = (np.array(column) for column in zip(*rows, strict=True))
    before = content.take_in(np.zeros(0, content.CONTENT), *(np.empty(0, int),) * 3) if table is None else table
    return content.take_in(before, offsets, prints, slots)


def test_one_row_for_each_record_with_who_showed_it() -> None:
    made = take_in((5, 70, 0), (4, 60, 1))
    made = take_in((4, 60, 2), (5, 70, 1), table=made)
    assert [tuple(row) for row in made.tolist()] == [(4, 60, 0b110), (5, 70, 0b011)]
    assert not content.contradictions(made).any()


def test_records_that_differ_at_one_offset_are_rows_of_their_own() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (5, 70, 0), (4, 60, 2), (6, 80, 0), (6, 81, 1))
    assert [tuple(row) for row in made.tolist()] == [(4, 60, 0b101), (4, 61, 0b010), (5, 70, 1), (6, 80, 1), (6, 81, 2)]
    assert content.contradictions(made).tolist() == [True, True, False, True, True]
    assert content.contradictions(made[:1]).tolist() == [False]
    assert content.contradictions(made[:2]).tolist() == [True, True]


def test_records_that_differ_lie_in_the_same_order_whoever_showed_them_first() -> None:
    made = take_in((3, 60, 0), (4, 61, 0), (4, 60, 1))
    assert [tuple(row) for row in made.tolist()] == [(3, 60, 1), (4, 60, 0b10), (4, 61, 0b01)]


def test_the_same_record_at_two_offsets_is_two() -> None:
    assert [tuple(row) for row in take_in((4, 60, 0), (5, 60, 0)).tolist()] == [(4, 60, 1), (5, 60, 1)]


def test_the_odd_ones_are_those_that_do_not_show_what_most_show() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 60, 2), (6, 80, 0), (6, 81, 1), (6, 81, 2), (8, 9, 0))
    assert content.odd_ones(made[content.contradictions(made)]) == [(4, 0b010), (6, 0b001)]


def test_in_a_tie_the_lowest_slot_is_taken_as_right() -> None:
    made = take_in((4, 99, 0), (4, 61, 1), (5, 3, 2), (5, 5, 0), (5, 5, 1), (5, 3, 3))
    assert content.odd_ones(made) == [(4, 0b010), (5, 0b1100)]


def test_three_records_at_one_offset_leave_two_odd() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 62, 2))
    assert content.odd_ones(made) == [(4, 0b110)]


def test_a_record_that_is_shown_before_and_after_another_at_its_offset_is_one() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 60, 2))
    assert [tuple(row) for row in made.tolist()] == [(4, 60, 0b101), (4, 61, 0b010)]


def test_nothing_shown_changes_nothing() -> None:
    made = take_in((4, 60, 0))
    assert content.take_in(made, *(np.empty(0, int),) * 3) is made
