"""What is kept of a log that is replaced, and what goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.evidence.atoms import NEVER, End, Ended, Place, Reading, Stable
from parallax.evidence.ledger import Ledger, Timely
from tests.unit.evidence.scene import Scene, commit, record, written


def test_two_contents_at_one_place_are_unlike() -> None:
    ledger = Ledger(1_000)
    ledger.fact(record(4, "a"), 1, 0)
    ledger.fact(record(4, "a"), 2, 0)
    assert ledger.unlike == set()
    ledger.fact(record(4, "b"), 3, 0)
    assert ledger.unlike == {Place(4, 0)}


def test_a_telling_without_the_producers_epoch_is_of_the_same_fact_unless_it_says_otherwise() -> None:
    full = replace(commit(7), producer_epoch=6)
    for tellings in ((full, commit(7)), (commit(7), full)):
        ledger = Ledger(1_000)
        for broker, told in enumerate(tellings):
            ledger.fact(told, broker, 0)
        assert (ledger.facts[Place(7, 0)], ledger.unlike) == (full, set())
        assert ledger.holders[Place(7, 0)] == {0, 1}
    for other in (replace(commit(7), end=End.ABORT), replace(commit(7), producer=8), replace(full, producer_epoch=5)):
        ledger = Ledger(1_000)
        for told in (full, other):
            ledger.fact(told, 1, 0)
        assert (ledger.facts[Place(7, 0)], ledger.unlike) == (full, {Place(7, 0)})


def test_two_contents_in_two_epochs_are_two_places() -> None:
    ledger = Ledger(1_000)
    ledger.fact(record(4, "a"), 1, 0)
    ledger.fact(record(4, "b", epoch=1), 2, 0)
    assert ledger.unlike == set()
    assert ledger.at[4] == {0, 1}


OUTCOMES = {
    "its end lies below the cut": (Ended(End.COMMIT, 9, 0), 6, NEVER, Ended(End.COMMIT, 6, 0)),
    "it was read up to the cut": (Ended(End.COMMIT, 7, 0), 7, NEVER, Ended(End.COMMIT, 7, 0)),
    "it was read in the newest epoch of the old log": (Ended(End.COMMIT, 9, 1), 2, 1, None),
    "its end lies at the cut": (Ended(End.COMMIT, 9, 0), 5, NEVER, None),
    "it was read below the cut": (Ended(End.COMMIT, 6, 0), 8, NEVER, Ended(End.COMMIT, 6, 0)),
    "the record lies behind the cut": (Ended(End.COMMIT, 9, 0), 2, NEVER, None),
    "it was read in the log that is there": (Ended(End.COMMIT, 9, 2), 2, 1, Ended(End.COMMIT, 9, 2)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_an_outcome_outlives_a_cut_where_what_ended_it_does(name: str) -> None:
    shown, start, epoch, left = OUTCOMES[name]
    ledger = Ledger(1_000)
    for fact in (written(4), commit(5)):
        ledger.fact(fact, 1, 0)
    ledger.ended(1, Place(4, 0), shown)
    ledger.replaced(1, start, epoch)
    assert ledger.outcomes[1].get(Place(4, 0)) == left


def test_of_a_new_copy_nothing_was_read() -> None:
    ledger = Scene(9).read(1, written(4), commit(5)).read(2, written(4)).ledger
    ledger.held_open[1][7, 4] = Place(9, 0)
    ledger.replaced(1)
    assert (ledger.own[1], ledger.begun[1], ledger.held_open[1]) == ([], {}, {})
    assert ledger.holders[Place(4, 0)] == {2}
    assert Place(5, 0) in ledger.facts, "what was shown stays: lineage says what it is worth"
    assert Reading(0, 9, 0, 0) in ledger.readings


def test_a_cut_leaves_what_lies_below() -> None:
    ledger = Scene(9).read(1, written(4), written(6)).ledger
    ledger.held_open[1] = {(7, 4): Place(5, 0), (7, 6): Place(9, 0)}
    ledger.replaced(1, 5)
    assert set(ledger.begun[1]) == {Place(4, 0)}
    assert set(ledger.held_open[1]) == {(7, 4)}
    assert ledger.own[1]


def test_the_leaders_high_watermark_never_steps_back() -> None:
    ledger = Ledger(1_000)
    for at, high_watermark in [(1, 5), (2, 3), (3, 8), (4, 6)]:
        ledger.led(at, high_watermark)
    assert ledger.written == [(1, 5), (2, 5), (3, 8), (4, 8)]


def test_an_empty_log_has_no_head() -> None:
    ledger = Ledger(1_000)
    ledger.started(1, 0, 0)
    assert ledger.head is None
    ledger.started(2, 40, 50)
    ledger.started(3, 20, 50)
    assert ledger.head == 20


def test_a_last_stable_offset_of_no_known_log_says_nothing() -> None:
    ledger = Ledger(1_000)
    ledger.is_stable(Stable(0, 4, 5, -1))
    ledger.is_stable(Stable(0, 0, 0, 0))
    assert ledger.stable == set()


def test_a_look_says_all_that_readers_say() -> None:
    ledger = Scene(9).shows(1, written(4), commit(5), open={8: 7}).ledger
    assert ledger.holders == {Place(4, 0): {1}, Place(5, 0): {1}}
    assert ledger.outcomes[1] == {Place(4, 0): Ended(End.COMMIT, 7, 0)}
    assert ledger.held_open[1] == {(8, 7): Place(9, 0)}
    assert ledger.own[1] == ledger.readings == [Reading(0, 9, 100_000, 0)]
    assert ledger.written == [(0, 0), (100_000, 9)]
    assert ledger.stable == {Stable(0, 7, 9, 0)}
    assert (ledger.head, ledger.log_starts) == (0, {1: 0})


def test_readings_are_taken_in_once_and_say_the_same_as_one_by_one() -> None:
    """A reader that reads on and on leaves one span; what the leader has not gone beyond yet is weighed again."""
    ledger = Ledger(1_000)
    ledger.led(0, 0)
    for at in range(100):
        ledger.read(2, Reading(at, at + 1, 10 * at, 0))
        ledger.led(10 * at, at + 1)
        assert sorted(ledger.timely_of(2)) == sorted(Timely(n, n + 1, 0) for n in range(at + 1))
        assert {offset for start, end, _ in ledger.timely() for offset in range(start, end)} == {*range(at + 1)}
    assert ledger.timely() == [Timely(0, 99, 0), Timely(99, 100, 0)]
    assert len(ledger.readings) == 1


def test_a_reading_waits_for_what_the_leader_tells_of_its_time() -> None:
    ledger = Ledger(1_000)
    ledger.read(2, Reading(0, 9, 5_000, 0))
    assert ledger.timely() == []
    ledger.led(5_000, 4)
    assert ledger.timely() == [Timely(4, 9, 0)]
    ledger.led(5_001, 9)
    assert ledger.timely() == [Timely(4, 9, 0)]
    assert ledger.readings == []


def test_what_a_look_shows_is_of_the_epoch_of_the_last_batch_that_consumers_were_given() -> None:
    epochs = ((0, 0), (1, 6))
    for first, decided_in in ((6, 0), (7, 1)):
        ledger = Scene(9).shows(1, written(4), commit(5), epochs=epochs, open={8: first}).ledger
        assert ledger.outcomes[1] == {Place(4, 0): Ended(End.COMMIT, first, decided_in)}
    for top, epoch in ((6, 0), (7, 1)):
        ledger = Scene(top).shows(1, record(4), epochs=epochs).ledger
        assert (ledger.own[1], ledger.stable) == ([Reading(0, top, 100_000, epoch)], {Stable(0, top, top, epoch)})


def test_a_reading_beyond_the_last_batch_is_of_its_epoch() -> None:
    look = replace(Scene(9).shows(1).looks[1], tops=(Place(2, 0), Place(4, 1)))
    ledger = Ledger(1_000)
    ledger.look(look, leads=False)
    assert ledger.own[1] == [Reading(0, 9, 100_000, 1)]
    ledger.look(replace(look, broker=2, tops=()), leads=False)
    assert ledger.own[2] == [Reading(0, 9, 100_000, -1)]


def test_where_epochs_end_in_a_leaders_log_is_kept_with_the_last_place_of_it() -> None:
    scene = Scene(9).shows(1, record(7, epoch=1), epochs=((0, 0), (1, 6))).shows(2, epochs=((0, 0), (1, 5)))
    assert scene.ledger.epoch_ends == {0: {(6, Place(8, 1))}}


def test_spans_that_were_read_in_time_are_joined_where_they_touch() -> None:
    ledger = Ledger(1_000)
    ledger.led(0, 0)
    for start, end in [(4, 8), (0, 1), (1, 2), (5, 6), (7, 9), (11, 12)]:
        ledger.read(2, Reading(start, end, 0, 0))
    ledger.led(1, 12)
    assert ledger.timely() == [Timely(0, 2, 0), Timely(4, 9, 0), Timely(11, 12, 0)]


def test_a_part_holds_what_its_writers_have_open_and_what_ended_them_elsewhere() -> None:
    ledger = Scene(9).read(1, written(4)).ledger
    ledger.held_open[1] = {(7, 4): Place(9, 0), (8, 7): Place(9, 0)}
    ledger.elsewhere = {(7, 3): End.COMMIT, (8, 7): End.ABORT}
    part = ledger.part({"K"}, set(), set())
    assert (part.held_open[1], part.elsewhere) == ({(7, 4): Place(9, 0)}, {(7, 3): End.COMMIT})
    assert (part.at, part.holders) == ({4: {0}}, {Place(4, 0): {1}})
    ledger.unlike = {Place(4, 0), Place(5, 0)}
    assert (ledger.part({"K"}, set(), set()).unlike, ledger.part(set(), set(), set()).unlike) == (
        {Place(4, 0)},
        {Place(4, 0)},
    ), "the lowest and the highest fact are always kept"
    assert Scene(9).read(1, written(4)).ledger.part({"K"}, set(), set()).unlike == set()


def test_a_log_of_one_offset_reports_a_last_stable_offset() -> None:
    ledger = Ledger(1_000)
    ledger.is_stable(Stable(0, 1, 1, 0))
    assert ledger.stable == {Stable(0, 1, 1, 0)}


def test_a_cut_takes_what_was_seen_in_the_epochs_that_were_read_of_the_old_log() -> None:
    for epoch, left in ((1, {6}), (2, set())):
        ledger = Scene(9).read(1, written(5), written(6, epoch=2)).ledger
        ledger.held_open[1] = {(7, 5): Place(6, 0), (7, 6): Place(9, 2)}
        ledger.replaced(1, 5, epoch)
        assert {place.offset for place in ledger.begun[1]} == left
        assert {first for _, first in ledger.held_open[1]} == left


def test_a_reading_of_what_may_all_be_cleaned_is_not_in_time() -> None:
    ledger = Ledger(1_000)
    ledger.led(0, 9)
    ledger.read(2, Reading(0, 9, 0, 0))
    assert ledger.timely() == ledger.timely_of(2) == []


def test_a_high_watermark_that_was_reported_only_after_a_time_says_nothing_of_it() -> None:
    ledger = Ledger(1_000)
    ledger.led(2_000, 5)
    assert [ledger.cleaned_to(at) for at in (1_999, 2_000, 3_000, 3_001)] == [None, 5, 5, None]


def test_a_reading_of_no_offset_is_ignored() -> None:
    ledger = Ledger(1_000)
    ledger.read(1, Reading(4, 4, 0, 0))
    ledger.read(1, Reading(4, 3, 0, 0))
    assert (ledger.readings, ledger.own) == ([], {})


def test_the_end_markers_behind_an_offset_are_the_producers_that_the_broker_has_shown() -> None:
    scene = Scene(9).read(1, written(4), commit(4, epoch=1), record(5), commit(6), replace(commit(7), producer=8))
    scene.read(1, written(8)).read(2, commit(8, epoch=1))
    assert scene.ledger.ends_behind(1, 7, 4) == [Place(6, 0)]
    assert scene.ledger.ends_behind(1, 7, 3) == [Place(4, 1), Place(6, 0)]
    assert scene.ledger.ends_behind(1, 8, 4) == [Place(7, 0)]
    assert scene.ledger.ends_behind(2, 7, 4) == [Place(8, 1)]


def test_of_several_end_markers_below_a_cut_the_lowest_says_how_far_the_outcome_stands() -> None:
    ledger = Scene(9).read(1, written(2), commit(6, epoch=1), commit(4), commit(8, epoch=1)).ledger
    ledger.ended(1, Place(2, 0), Ended(End.COMMIT, 9, 1))
    ledger.replaced(1, 7)
    assert ledger.outcomes[1] == {Place(2, 0): Ended(End.COMMIT, 5, 0)}


def test_a_part_keeps_the_records_of_its_keys_and_all_of_those_who_wrote_them_in_transactions() -> None:
    ledger = Ledger(1_000)
    facts = [record(0), record(1, key="L"), written(2), written(3, key="L"), commit(4), record(5, key="L", producer=8)]
    for fact in (*facts, replace(commit(6), producer=8), record(7, key="M"), record(8)):
        ledger.fact(fact, 1, 0)
    for keys, producers, offsets, kept in (
        ({"K"}, set(), set(), [0, 2, 3, 4, 8]),
        ({"M"}, set(), set(), [0, 7, 8]),
        (set(), {8, -1}, set(), [0, 5, 6, 8]),
        (set(), set(), {1, 6}, [0, 1, 6, 8]),
        ({None}, set(), set(), [0, 8]),
    ):
        part = ledger.part(keys, producers, offsets)
        assert sorted(place.offset for place in part.facts) == kept
        assert sorted(part.at) == kept


def test_a_look_is_of_the_epochs_of_its_last_batches() -> None:
    epochs = ((0, 0), (1, 3), (2, 8))
    scene = Scene(9).shows(1, written(2), record(6, epoch=1), record(7, epoch=1), epochs=epochs)
    assert scene.ledger.own[1] == [Reading(0, 9, 100_000, 2)]
    assert scene.ledger.stable == {Stable(0, 9, 9, 2)}
    assert scene.ledger.outcomes[1] == {Place(2, 0): Ended(End.COMMIT, 9, 2)}
    assert scene.ledger.epoch_ends == {0: {(3, Place(8, 2))}, 1: {(8, Place(8, 2))}}
    look = scene.looks[1]
    behind = Ledger(1_000)
    behind.look(replace(look, tops=look.tops[:-1]), leads=False)
    assert (behind.own[1], behind.stable) == ([Reading(0, 9, 100_000, 1)], set())


def test_a_part_of_everything_is_a_copy() -> None:
    epochs = ((0, 0), (1, 6))
    scene = (
        Scene(9).read(1, record(0), written(4), commit(5)).shows(1, record(0), written(4), epochs=epochs, open={7: 4})
    )
    ledger = scene.shows(2, written(4, "other"), record(8, epoch=1), epochs=epochs).ledger
    ledger.elsewhere[7, 3] = End.COMMIT
    ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    ledger.led(200_000, 9)
    ledger.timely()
    ledger.read(1, Reading(0, 9, 300_000, 1))
    part = ledger.part({"K"}, {7}, set())
    assert part == ledger
    part.fact(record(7), 3, 0)
    part.started(3, 1, 9)
    part.led(300_000, 9)
    part.replaced(1)
    part.timely()
    assert ledger.part({"K"}, {7}, set()) == ledger
    assert 3 not in ledger.log_starts
    assert part != ledger
