"""A scan that goes round a log for keys that come and go."""

from __future__ import annotations

import json

import pytest

from parallax.findings.lap import Lap
from parallax.findings.pointing import Known

A, B = (0, 1), (0, 2)


def test_a_key_that_was_there_from_the_beginning_is_known_at_the_end() -> None:
    lap = Lap(10, 100, 10)
    lap.want([A], lap.start, 100)
    assert lap.took(60, {A: [20]}, {}, 3) == {}
    assert lap.share(A) == pytest.approx(50 / 90)
    assert lap.took(100, {A: [70]}, {}, 3) == {A: Known(10, 100, (70, 20))}
    assert not lap.keys
    assert lap.share(A) == 1.0


def test_a_key_that_comes_later_is_looked_for_until_the_scan_is_there_again() -> None:
    lap = Lap(0, 100, 0)
    lap.want([A], lap.start, 100)
    lap.took(40, {}, {}, 1)
    lap.want([B], lap.start, 100)
    assert lap.took(100, {B: [90]}, {}, 1) == {A: Known(0, 100, ())}
    assert (lap.position, lap.next_end) == (0, 40)
    assert lap.share(B) == pytest.approx(0.6)
    assert lap.took(30, {B: [5]}, {}, 1) == {}
    assert lap.took(40, {}, {}, 1) == {B: Known(0, 100, (90, 5))}


def test_a_range_that_grows_is_not_known_of_keys_that_had_been_round_before() -> None:
    lap = Lap(0, 100, 0)
    lap.want([A], lap.start, 100)
    lap.took(50, {}, {}, 1)
    lap.want([B], lap.start, 100)
    lap.took(100, {}, {}, 1)
    lap.want([A], lap.start, 200)
    assert lap.took(60, {}, {}, 1) == {B: Known(0, 100, ())}
    assert lap.took(200, {}, {}, 1) == {A: Known(0, 200, ())}


def test_what_was_left_out_of_a_key_with_very_many_records_is_not_known() -> None:
    lap = Lap(0, 100, 0)
    lap.want([A], lap.start, 100)
    assert lap.took(100, {A: [70, 80]}, {A: 70}, 1) == {A: Known(70, 100, (80, 70))}


def test_a_log_start_that_has_moved_is_where_the_scan_begins_again() -> None:
    lap = Lap(0, 100, 0)
    lap.want([A], 0, 100)
    lap.took(100, {}, {}, 1)
    lap.want([B], 30, 100)
    assert (lap.start, lap.position) == (30, 30)
    assert lap.took(100, {}, {}, 1) == {B: Known(30, 100, ())}


def test_a_scan_that_was_written_goes_on_where_it_was() -> None:
    lap = Lap(0, 100, 0, "id", 5)
    lap.want([A], lap.start, 100)
    lap.took(40, {A: [7]}, {}, 2)
    lap.want([B], lap.start, 100)
    lap.took(100, {}, {}, 2)
    again = Lap.parse(json.loads(json.dumps(lap.as_json())))
    assert again == lap
    assert again.found == {A: Known(0, 100, (7,))}
    assert again.took(40, {B: [3]}, {}, 2) == {B: Known(0, 100, (3,))}


@pytest.mark.parametrize("document", [{}, {"version": 99}, None, [], {"version": 1, "range": [1]}])
def test_what_is_no_scan_of_this_version_is_an_error(document: object) -> None:
    with pytest.raises(ValueError, match=r"version|not a scan"):
        Lap.parse(document)
