"""What counts as a statement of a replica about how a transaction ended: boundaries, and several at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from parallax.evidence.atoms import End, Ended, Place, Reading
from parallax.judge.verdicts import About
from tests.unit.evidence.scene import PRODUCER, Scene, abort, commit, record, written
from tests.unit.judge.ended import AS_ABORTED, HELD, MISSED, ROOMY, accused, said

Epochs = tuple[tuple[int, int], ...]


@pytest.mark.parametrize("listed", [(8, 4), (PRODUCER, 3), (PRODUCER, 5)])
def test_a_list_that_names_no_record_of_its_producer_says_nothing(listed: tuple[int, int]) -> None:
    facts = [replace(record(3, key="L", producer=PRODUCER), transactional=False), *HELD]
    other = record(8, key="L")
    scene = Scene(9).shows(1, *facts, other).shows(2, other, listed=frozenset({listed})).shows(3, *facts, other)
    assert said(scene) == set()


def missed_by_2(*, between: bool = True, epochs: Epochs = ((0, 0),), **more: Any) -> Scene:
    """Broker 2 held the record at 4, was read past the COMMIT at 6 and showed none, and shows another marker at 8."""
    here = (*MISSED, abort(8, epoch=max(epoch for epoch, _ in epochs)))
    scene = Scene(9)
    for fact in here:
        scene.ledger.fact(fact, 1, 0)
    scene.read(1, end=7)
    scene.ledger.fact(written(4), 2, 0)
    scene.ledger.fact(abort(8), 2, 0)
    scene.ledger.read(2, Reading(6, 7, 0, 0))
    if between:
        scene.read(1, start=7)
    for broker in (1, 2, 3):
        scene.shows(broker, *(here if broker == 1 else ()), epochs=epochs, **(more if broker == 2 else {}))
    return scene


def unknown_of_2(scene: Scene) -> bool:
    return (2, 4) in {(one.broker, one.offset) for one in scene.judged.undecided if one.about is About.OUTCOME}


def test_who_missed_an_end_marker_ended_the_record_by_the_next_that_it_showed() -> None:
    scene = missed_by_2()
    assert said(scene) == {accused(2, past=True)}
    assert not unknown_of_2(scene)


@pytest.mark.parametrize(
    "more",
    [
        {"open": {PRODUCER: 7}},
        {"open": None},
        {"between": False},
        {"epochs": ((0, 0), (1, 7))},
    ],
    ids=["it holds a transaction open", "nobody asked", "it may have cleaned one between", "that marker was cut"],
)
def test_how_who_missed_an_end_marker_ended_the_record_is_unknown_where(more: dict[str, Any]) -> None:
    scene = missed_by_2(**more)
    assert said(scene) == set()
    assert unknown_of_2(scene)


def test_one_that_began_at_the_next_end_marker_leaves_what_was_before_ended() -> None:
    assert said(missed_by_2(open={PRODUCER: 8})) == {accused(2, past=True)}


def test_an_end_marker_at_the_last_stable_offset_or_beyond_has_not_ended_it_for_consumers() -> None:
    """Who shows the marker is right, and who contradicts its own marker is wrong, if consumers are given the marker."""
    for stable, right in ((5, {1}), (6, {1, 3})):
        scene = Scene(9).shows(1, *HELD).shows(2, *HELD, **AS_ABORTED).shows(3, *HELD, last_stable=stable)
        assert {v.right for v in scene.judged.verdicts if v.about is About.OUTCOME} == {frozenset(right)}
    for stable, is_wrong in ((7, False), (8, True)):
        scene = Scene(9).shows(1, *ROOMY).shows(2, *ROOMY, **AS_ABORTED, last_stable=stable).shows(3, *ROOMY)
        assert (accused(2) in said(scene)) is is_wrong


def test_of_records_of_a_transaction_those_between_first_and_end_say_who_is_right() -> None:
    """The COMMIT at 5 ends the record at 4; 3 shows a record as aborted."""
    for aborted, right in ((4, {1}), (2, {1, 3}), (6, {1, 3})):
        facts = [written(2, key="L"), commit(3), *HELD, written(6, key="M"), abort(7)]
        outcomes = {6: End.ABORT, 2: End.COMMIT, 4: End.COMMIT}
        scene = Scene(9).shows(1, *facts, outcomes=outcomes).shows(2, *facts, outcomes={**outcomes, 4: End.ABORT})
        scene.shows(3, *facts, outcomes={**outcomes, aborted: End.ABORT})
        assert {v.right for v in scene.judged.verdicts if (v.about, v.accused, v.offset) == (About.OUTCOME, 2, 4)} == {
            frozenset(right)
        }


def test_of_several_transactions_that_were_held_open_those_of_known_records_count() -> None:
    other = replace(commit(5), producer=8)
    scene = Scene(9).read(1, record(1, key="L"), other, *MISSED, abort(8)).shows(1).shows(2).shows(3)
    scene.ledger.fact(abort(8), 2, 0)
    useless = {(8, 0): Place(7, 0), (8, 1): Place(7, 0), (8, 4): Place(7, 0), (PRODUCER, 8): Place(9, 0)}
    scene.ledger.held_open[2] = {**useless, (PRODUCER, 4): Place(7, 0), (9, 3): Place(7, 0)}
    assert said(scene) == {accused(2, past=True)}
    assert not [one for one in scene.judged.undecided if one.about is About.OUTCOME]


def test_a_transaction_that_may_still_be_open_or_was_in_another_log_has_no_known_end() -> None:
    for is_open in ({PRODUCER: 4}, None):
        held = Scene(9).read(1, *MISSED, abort(8)).shows(1).shows(2, open=is_open).shows(3)
        held.ledger.fact(abort(8), 2, 0)
        held.ledger.held_open[2][PRODUCER, 4] = Place(7, 0)
        assert said(held) == set()
        assert not unknown_of_2(held)
    other = Scene(9).read(1, *MISSED, abort(8)).shows(1).shows(2).shows(3)
    other.ledger.fact(abort(8), 2, 0)
    other.ledger.held_open[2][PRODUCER, 4] = Place(7, 3)
    assert said(other) == set()
    assert not unknown_of_2(other)


def test_a_record_below_a_log_start_hides_no_other_one() -> None:
    facts = [written(1, key="L"), commit(2), *HELD]
    scene = Scene(9, deletes=True).shows(1, *facts).shows(2, *facts, **AS_ABORTED).shows(3, log_start=3)
    assert said(scene) == {accused(2)}


def test_of_several_outcomes_that_a_replica_showed_those_that_count_are_looked_at() -> None:
    """Of 0 nothing is known, 4 was shown in another epoch too, 2 was not asked for, 3 was read of another log."""
    facts = [written(2, key="L"), written(3, key="M"), *HELD]
    scene = Scene(9).read(1, *facts).shows(1).shows(2, asked=frozenset({3, 4, 5})).shows(3)
    for place, ended in (
        (Place(0, 0), Ended(End.ABORT, 9, 0)),
        (Place(4, 1), Ended(End.ABORT, 9, 0)),
        (Place(2, 0), Ended(End.ABORT, 9, 0)),
        (Place(3, 0), Ended(End.ABORT, 9, 5)),
        (Place(4, 0), Ended(End.ABORT, 9, 0)),
        (Place(8, 0), Ended(End.ABORT, 9, 0)),
    ):
        scene.ledger.ended(2, place, ended)
    assert {v.offset for v in scene.judged.verdicts if v.about is About.OUTCOME} == {4}


def test_of_several_records_that_a_replica_held_those_whose_end_marker_it_missed_are_unknown() -> None:
    facts = [written(1, key="L"), commit(2), record(3, key="M", producer=8), *MISSED, written(8, key="N")]
    scene = Scene(9).read(1, *facts).shows(1, written(8, key="N")).shows(2, written(8, key="N")).shows(3)
    for fact in (facts[0], facts[1], facts[2], facts[5], written(4)):
        scene.ledger.fact(fact, 2, 0)
    undecided = [one for one in scene.judged.undecided if one.about is About.OUTCOME]
    assert {(one.broker, one.offset) for one in undecided} == {(2, 4)}
    scene.ledger.fact(written(4, key="other", epoch=1), 2, 0)
    undecided = [one for one in scene.judged.undecided if one.about is About.OUTCOME]
    assert {(one.broker, one.offset) for one in undecided} == {(2, 4)}


def test_who_has_not_come_to_an_end_marker_has_not_missed_it() -> None:
    for top, is_unknown in ((6, False), (7, True)):
        scene = Scene(9).read(1, *MISSED).shows(1).shows(2, high_watermark=top).shows(3)
        scene.ledger.fact(written(4), 2, 0)
        assert unknown_of_2(scene) is is_unknown


def test_a_record_at_the_last_stable_offset_that_has_ended_was_ended_by_the_next_marker() -> None:
    ended = (*MISSED, abort(8))
    for stable, past in ((4, True), (5, False)):
        scene = Scene(9).read(1, *ended).shows(1, *ended).shows(2, written(4), abort(8), last_stable=stable)
        assert said(scene.shows(3, *ended)) == ({accused(2, past=True)} if past else set())


def test_a_part_does_not_say_which_end_marker_is_the_next() -> None:
    ended = (*MISSED, abort(8))
    part = {"asked": frozenset({4, 8}), "last_stable": 4}
    scene = Scene(9).read(1, *ended).shows(1, *ended).shows(2, written(4), abort(8), **part).shows(3, *ended)
    assert said(scene) == set()


def test_a_record_of_another_log_or_of_no_transaction_was_ended_by_no_marker() -> None:
    """Broker 2 shows nothing above 3 as ended; its record at 4 is another one than that of the current log."""
    ended = (*MISSED, abort(8))
    plain = replace(record(3, key="L", producer=PRODUCER), transactional=False)
    scene = Scene(9).read(1, plain, *ended).shows(1, plain, *ended)
    scene.shows(2, plain, written(4, "other"), abort(8), last_stable=3).shows(3, plain, *ended)
    assert said(scene) == set()


def test_an_outcome_whose_end_marker_was_cut_counts_only_while_the_record_is_held() -> None:
    here = ((0, 0), (1, 5))
    ended = (written(4), commit(5, epoch=1))
    for held, wrong in (((), set()), ((written(4),), {accused(2)})):
        scene = Scene(9)
        scene.ledger.fact(written(4), 2, 0)
        scene.ledger.fact(abort(6), 2, 0)
        scene.shows(1, *ended, epochs=here).shows(2, *held, epochs=here, **AS_ABORTED).shows(3, *ended, epochs=here)
        scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 1))
        assert said(scene) == wrong


def test_what_a_part_shows_counts_below_the_last_stable_offset_of_the_current_log() -> None:
    part = {"asked": frozenset({4, 5}), **AS_ABORTED}
    for stable, wrong in ((4, set()), (5, {accused(2)})):
        scene = Scene(9).shows(1, *HELD).shows(2, *HELD, **part).shows(3, *HELD)
        scene.looks[2] = replace(scene.looks[2], last_stable=stable)
        assert said(scene) == wrong
    here, held = ((0, 0), (1, 4)), (written(4, epoch=1), commit(5, epoch=1))
    cut = Scene(9, in_sync=frozenset({1, 3})).shows(1, *held, epochs=here).shows(2, *HELD, **part)
    assert said(cut.shows(3, *held, epochs=here)) == set()


def test_a_list_says_nothing_of_a_record_that_a_part_does_not_show_or_whose_batch_is_empty() -> None:
    listed, other = {"listed": frozenset({(PRODUCER, 4)})}, record(8, key="L")
    for part, wrong in (
        ({}, {accused(2)}),
        ({"asked": frozenset({4, 8})}, set()),
        ({"epochs": ((0, 0), (0, 4))}, set()),
    ):
        scene = Scene(9).shows(1, *HELD, other).shows(2, other, **listed, **part).shows(3, *HELD, other)
        assert said(scene) == wrong


def test_an_outcome_says_nothing_where_the_replicas_own_log_was_cut_at_its_end_marker() -> None:
    here = ((0, 0), (1, 6))
    for begins, wrong in ((5, set()), (6, {accused(2, past=True)})):
        scene = Scene(9, in_sync=frozenset({1, 3})).read(1, *HELD)
        scene.ledger.fact(commit(5), 2, 0)
        scene.shows(1, epochs=here).shows(2, epochs=((0, 0), (1, begins))).shows(3, epochs=here)
        scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
        assert said(scene) == wrong


def test_of_several_missed_end_markers_each_is_looked_at_by_itself() -> None:
    """Of producer 8, broker 2 has shown no end marker: how it ended the record at 1 is unknown."""
    first = record(1, key="L", producer=8)
    scene = Scene(9).read(1, first, replace(commit(2), producer=8), *MISSED, abort(8))
    for fact in (first, written(4), abort(8)):
        scene.ledger.fact(fact, 2, 0)
    scene.ledger.read(2, Reading(2, 7, 0, 0))
    scene.shows(1).shows(2).shows(3)
    assert said(scene) == {accused(2, past=True)}
    undecided = [one for one in scene.judged.undecided if one.about is About.OUTCOME]
    assert {(one.broker, one.offset) for one in undecided} == {(2, 1)}


def test_beyond_the_last_stable_offset_an_ended_record_of_the_current_log_was_ended() -> None:
    here, held = ((0, 0), (1, 4)), (written(4, epoch=1), commit(6, epoch=1), abort(8, epoch=1))
    cut = Scene(9, in_sync=frozenset({1, 3})).shows(1, *held, epochs=here).shows(3, *held, epochs=here)
    assert said(cut.shows(2, written(4), abort(8), last_stable=4)) == set()
    ended, is_open = (*MISSED, abort(8)), record(3, key="L", producer=9)
    scene = Scene(9).read(1, is_open, *ended).shows(1, *ended).shows(3, *ended)
    assert said(scene.shows(2, is_open, written(4), abort(8), open={9: 3})) == {accused(2, past=True)}


def test_below_the_last_stable_offset_a_replica_says_itself_how_a_record_ended() -> None:
    """Nobody says whether what broker 2 showed was of this log: then it says nothing."""
    ended = (*MISSED, abort(8))
    scene = Scene(9).read(1, *ended).shows(1, *ended).shows(2, written(4), abort(8)).shows(3, *ended)
    scene.looks[2] = replace(scene.looks[2], ends={})
    assert said(scene) == set()


def test_a_record_that_may_have_been_ended_by_its_own_marker_was_ended_by_no_other() -> None:
    """Broker 3 shows the record as aborted; what broker 2 shows beyond its last stable offset says nothing."""
    for facts in ((written(4),), ROOMY):
        scene = Scene(9).shows(1, commit(7)).shows(2, *facts, last_stable=4).shows(3, written(4), **AS_ABORTED)
        assert said(scene) == set()
    here, stands = ((0, 0), (1, 7)), (written(4), record(7, key="L", epoch=1))
    cut = Scene(9, in_sync=frozenset({1, 3})).shows(1, *stands, epochs=here).shows(3, *stands, epochs=here)
    assert said(cut.shows(2, written(4), abort(8), last_stable=4)) == set()


def test_an_end_marker_of_the_transactions_own_name_is_of_no_other_transaction() -> None:
    """Of version 2: another partition shows that the record at 4 was committed; what broker 2 shows was cut."""
    here, stands = ((0, 0), (1, 7)), (written(1, key="L", of=5), commit(2, of=6), written(4, of=6))
    for of, wrong in ((7, set()), (8, {accused(2, past=True)})):
        scene = Scene(12, in_sync=frozenset({1, 3}))
        for broker in (1, 3):
            scene.shows(broker, *stands, record(7, key="L", epoch=1), epochs=here)
        scene.shows(2, *stands, abort(9, of=of), last_stable=4)
        scene.ledger.elsewhere[PRODUCER, 7] = End.COMMIT
        assert said(scene) == wrong


def test_a_record_that_a_replica_holds_still_is_not_missed() -> None:
    scene = Scene(9).read(1, *MISSED).shows(1).shows(2, written(4), last_stable=4).shows(3)
    assert not unknown_of_2(scene)
    other = Scene(9).read(1, *MISSED).shows(1).shows(2).shows(3)
    other.ledger.fact(written(8, epoch=4), 2, 0)
    other.ledger.fact(written(4), 2, 0)
    assert unknown_of_2(other)


def test_after_a_record_whose_end_only_another_partition_shows_the_next_is_looked_at() -> None:
    """Broker 2 has shown neither what ended the record at 4 nor the COMMIT at 9 behind the record at 8."""
    facts = [written(1, key="L", of=5), commit(2, of=6), written(4, of=6), written(8, of=7)]
    scene = Scene(12).read(1, *facts, commit(9, of=8)).shows(1).shows(2).shows(3)
    for fact in facts:
        scene.ledger.fact(fact, 2, 0)
    scene.ledger.elsewhere[PRODUCER, 7] = End.ABORT
    scene.ledger.readings.clear()
    undecided = {(one.broker, one.offset) for one in scene.judged.undecided if one.about is About.OUTCOME}
    assert undecided >= {(2, 4), (2, 8)}
