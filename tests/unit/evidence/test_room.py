"""Where something may have come and gone unseen, and where not."""

from __future__ import annotations

import pytest

from parallax.evidence.ledger import Timely
from parallax.evidence.room import in_time, without
from tests.unit.evidence.scene import LATE, RETENTION, Scene, record


def test_there_is_no_room_where_a_fact_stands() -> None:
    scene = Scene(5).shows(1, record(1), record(3))
    assert scene.room.gaps == [(0, 1), (2, 3), (4, 5)]


def test_there_is_room_where_two_contents_were_shown() -> None:
    scene = Scene(3).shows(1, record(1, "a"), record(2)).shows(2, record(1, "b"), record(2))
    assert (1, 2) in [span for span in scene.room.gaps for span in [(max(span[0], 1), min(span[1], 2))]]


@pytest.mark.parametrize(("at", "gaps"), [(RETENTION, []), (RETENTION + 1, [(0, 9)])], ids=["in time", "too late"])
def test_a_reading_is_in_time_before_what_was_written_can_be_cleaned(at: int, gaps: list[tuple[int, int]]) -> None:
    scene = Scene(9).shows(1)
    scene.ledger.written[:] = [(0, 0), (at - 1, 9)]
    scene.ledger.readings.clear()
    scene.read(2, at=at)
    assert scene.room.gaps == gaps


def test_a_reading_is_in_time_of_what_the_leaders_high_watermark_had_not_passed() -> None:
    scene = Scene(9).shows(1)
    scene.ledger.written[:] = [(0, 4), (10, 9)]
    scene.ledger.readings.clear()
    scene.read(2, at=RETENTION)
    assert scene.room.gaps == [(0, 4)], "what lay below 4 may be older than anybody knows"


def test_a_reading_says_nothing_before_the_leader_was_asked() -> None:
    scene = Scene(9).shows(1, at=LATE)
    scene.ledger.readings.clear()
    scene.ledger.written.clear()
    scene.ledger.read(2, scene.ledger.own[1][0])
    assert scene.room.gaps == [(0, 9)]


def test_a_reading_of_a_log_that_was_cut_is_in_time_below_the_cut_alone() -> None:
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=((0, 0), (1, 6)))
    scene.ledger.readings.clear()
    scene.ledger.written[:] = [(0, 0)]
    scene.read(2, epoch=0)
    assert scene.room.gaps == [(6, 9)]


def test_a_reading_in_no_epoch_counts_while_nothing_is_known_to_be_cut() -> None:
    scene = Scene(9).shows(1).shows(2).shows(3)
    scene.ledger.readings.clear()
    scene.ledger.written[:] = [(0, 0)]
    scene.read(2, epoch=-1)
    assert scene.room.gaps == []
    scene.ledger.fact(record(20, epoch=0), 2, 0)
    assert scene.room.gaps == [], "what lies beyond all logs may be written since"


def test_where_nothing_may_go_readings_say_nothing() -> None:
    scene = Scene(5, compacted=False).read(1, at=0).shows(1, record(1))
    assert scene.room.gaps == [(0, 1), (2, 5)]


@pytest.mark.parametrize(
    ("low", "high", "spans"),
    [(0, 1, []), (-1, 2, [(0, 1)]), (1, 4, [(2, 3)]), (3, 9, [(4, 5), (5, 9)]), (6, 8, [(7, 8)])],
    ids=["neighbours", "below a fact", "between facts", "beyond the end", "all beyond the end"],
)
def test_both_ends_are_left_out_and_beyond_what_was_read_there_is_room(
    low: int, high: int, spans: list[tuple[int, int]]
) -> None:
    room = Scene(5).shows(1, record(1), record(3)).room
    assert room.spans(low, high) == spans
    assert room.between(low, high) is bool(spans)


def test_of_a_reading_in_no_epoch_nothing_counts_where_something_was_cut() -> None:
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=((0, 0), (1, 6)))
    scene.ledger.readings.clear()
    scene.ledger.written[:] = [(0, 0)]
    scene.read(2, record(7), epoch=-1)
    assert scene.room.gaps == [(0, 9)]


@pytest.mark.parametrize(
    ("spans", "left"),
    [
        ([], [(0, 9)]),
        ([(0, 9)], []),
        ([(0, 1), (8, 9)], [(1, 8)]),
        ([(5, 6), (1, 4), (2, 3)], [(0, 1), (4, 5), (6, 9)]),
        ([(7, 12), (14, 15)], [(0, 7)]),
        ([(10, 12)], [(0, 9)]),
    ],
)
def test_what_no_span_covers_is_left(spans: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    assert without(9, spans) == left


def test_a_range_that_was_read_of_what_was_cut_alone_is_none_of_the_current_log() -> None:
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=((0, 0), (1, 6)))
    assert in_time(scene.lineage, [Timely(6, 9, 0), Timely(7, 9, 0), Timely(5, 9, 0)]) == [(5, 6)]
