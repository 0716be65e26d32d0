"""I1 on arrays: one fingerprint for all that must agree, and the sides where it differs."""

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


KNOWN = 2_113_354_394_870_953_276


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


def test_records_that_differ_lie_in_the_same_order_whichever_replica_showed_them_first() -> None:
    made = take_in((3, 60, 0), (4, 61, 0), (4, 60, 1))
    assert [tuple(row) for row in made.tolist()] == [(3, 60, 1), (4, 60, 0b10), (4, 61, 0b01)]


def test_the_same_record_at_two_offsets_is_two() -> None:
    assert [tuple(row) for row in take_in((4, 60, 0), (5, 60, 0)).tolist()] == [(4, 60, 1), (5, 60, 1)]


def test_the_sides_at_an_offset_are_reported_whichever_is_larger() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 60, 2), (6, 80, 0), (6, 81, 1), (6, 81, 2), (8, 9, 0))
    rows = made[content.contradictions(made)]
    assert content.differences(rows) == [(4, [0b101, 0b010]), (6, [0b001, 0b110])]


def test_three_records_at_one_offset_are_three_sides() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 62, 2))
    assert content.differences(made) == [(4, [0b001, 0b010, 0b100])]


def test_a_side_whose_log_was_given_up_is_none() -> None:
    made = take_in((4, 60, 0), (4, 61, 1))
    made["shown"][0] = 0
    assert content.differences(made) == [(4, [0b010])]


def test_an_end_marker_is_compared_by_its_producer_and_its_type_alone() -> None:
    end = {"kind": 1, "key_hash_hi": 0, "key_hash_lo": 0, "content_hash": 0, "key_size": -1, "value_size": -1}
    assert fingerprint(**end) == fingerprint(**end, timestamp=7, producer_epoch=8)
    assert len({fingerprint(**end), fingerprint(**end | {"kind": 2}), fingerprint(**end, producer_id=8)}) == 3
    assert fingerprint(**end) != fingerprint(**end | {"kind": 0})


def test_a_record_that_is_shown_before_and_after_another_at_its_offset_is_one() -> None:
    made = take_in((4, 60, 0), (4, 61, 1), (4, 60, 2))
    assert [tuple(row) for row in made.tolist()] == [(4, 60, 0b101), (4, 61, 0b010)]


def test_whether_a_replica_was_read_to_show_something_at_an_offset() -> None:
    table = take_in((4, 70, 0), (4, 71, 1), (6, 70, 1))
    asked = [(4, 0), (4, 1), (4, 2), (5, 1), (6, 1), (6, 0), (7, 1)]
    offsets, slots = (np.array(column) for column in zip(*asked, strict=True))
    assert content.is_shown(table, offsets, slots).tolist() == [True, True, False, False, True, False, False]


def test_nothing_shown_changes_nothing() -> None:
    made = take_in((4, 60, 0))
    assert content.take_in(made, *(np.empty(0, int),) * 3) is made


class TestVersionsOfTheContentsHash:
    """Hashes of unlike versions say nothing about each other."""

    def rows(self, *shown: tuple[int, int, int, int]) -> Array:
        """(offset, version, content hash, slot)"""
        table = np.zeros(0, content.CONTENT)
        for offset, version, hashed, slot in shown:
            prints = content.fingerprints(
                ViewRows.from_rows([ROW | {"content_hash": hashed, "content_version": version}])
            )
            table = content.take_in(table, np.array([offset]), prints, np.array([slot]))
        return table

    def test_unlike_versions_are_no_contradiction(self) -> None:
        table = self.rows((4, 1, 100, 0), (4, 2, 200, 1))
        assert len(table) == 2
        assert not content.contradictions(table).any()

    def test_like_versions_are_compared_whatever_a_third_replica_shows_in_another(self) -> None:
        table = self.rows((4, 1, 100, 0), (4, 2, 200, 1), (4, 2, 300, 2), (5, 2, 1, 0), (6, 1, 1, 1))
        assert content.contradictions(table).sum() == 2
        assert content.differences(table[content.contradictions(table)]) in ([(4, [2, 4])], [(4, [4, 2])])

    def test_what_cannot_be_compared_is_named_by_offset(self) -> None:
        table = self.rows((4, 1, 100, 0), (4, 2, 200, 1), (5, 1, 7, 0), (5, 2, 7, 1), (6, 2, 1, 0), (6, 2, 2, 1))
        assert content.incomparable(table).tolist() == [4], (
            "at 5 both say the same of a record, at 6 they are of one version"
        )
