"""How replicas ended transactions: what counts as a statement, and what proves who is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallax.evidence.atoms import End, Ended, Place, Reading
from parallax.judge.outcomes import Outcomes
from parallax.judge.verdicts import About
from tests.unit.evidence.scene import PRODUCER, RETENTION, Scene, abort, commit, record, written
from tests.unit.judge.ended import AS_ABORTED, HELD, MISSED, ROOMY, accused, said


def test_who_shows_a_record_otherwise_than_its_end_marker_is_wrong() -> None:
    scene = Scene(9).shows(1, *HELD).shows(2, *HELD, **AS_ABORTED).shows(3, *HELD)
    assert said(scene) == {accused(2)}
    assert {v.right for v in scene.judged.verdicts if v.about is About.OUTCOME} == {frozenset({1, 3})}


def test_only_who_shows_the_end_marker_itself_is_right() -> None:
    scene = Scene(9).shows(1, *HELD).shows(2, *HELD, **AS_ABORTED).shows(3, written(4))
    assert {v.right for v in scene.judged.verdicts if v.about is About.OUTCOME} == {frozenset({1})}


def test_who_shows_another_record_of_the_transaction_otherwise_is_not_right_about_this_one() -> None:
    """Replica 3 holds record and marker, and shows the first record of the transaction as committed."""
    both = [written(2, key="K"), written(3, key="L"), abort(4)]
    scene = Scene(9).read(1, *both).shows(1, *both, outcomes={2: End.ABORT, 3: End.COMMIT})
    scene.shows(2, *both, outcomes={2: End.ABORT, 3: End.ABORT})
    scene.shows(3, *both, outcomes={2: End.COMMIT, 3: End.ABORT})
    right = {v.offset: v.right for v in scene.judged.verdicts if v.about is About.OUTCOME and v.accused == 1}
    assert right == {3: frozenset({2})}


def test_with_room_before_the_end_marker_nobody_is_accused() -> None:
    scene = Scene(9).shows(1, *ROOMY).shows(2, written(4), **AS_ABORTED).shows(3, *ROOMY)
    assert said(scene) == {(None, frozenset({1, 2, 3}), False)}


def test_who_contradicts_its_own_end_marker_is_wrong_however_the_transaction_ended() -> None:
    scene = Scene(9).shows(1, *ROOMY).shows(2, *ROOMY, **AS_ABORTED).shows(3, *ROOMY)
    assert (accused(2)) in said(scene)
    assert (None, frozenset({1, 3}), False) not in said(scene)


def test_all_that_show_a_record_wrongly_are_wrong_everywhere() -> None:
    scene = Scene(9).read(1, *HELD)
    for broker in (1, 2, 3):
        scene.shows(broker, *HELD, **AS_ABORTED)
    assert {v.everywhere for v in scene.judged.verdicts if v.about is About.OUTCOME} == {True}


def test_what_a_replica_showed_and_holds_no_more_is_past() -> None:
    scene = Scene(9).read(1, *HELD).shows(1).shows(2).shows(3)
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(scene) == {accused(2, past=True)}


def test_what_a_log_showed_that_is_replaced_since_says_nothing() -> None:
    scene = Scene(9).read(1, *HELD).shows(1).shows(2, epochs=((1, 0),)).shows(3)
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(scene) == set()


def test_an_outcome_stands_while_its_end_marker_does_though_the_log_was_cut_behind() -> None:
    here = ((0, 0), (1, 7))
    scene = Scene(9).read(1, *HELD)
    scene.ledger.fact(commit(5), 2, 0)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=here)
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(scene) == {accused(2, past=True)}


def test_an_outcome_by_an_end_marker_that_was_cut_says_nothing() -> None:
    here = ((0, 0), (1, 5))
    scene = Scene(9).read(1, written(4))
    scene.ledger.fact(abort(6), 2, 0)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), commit(5, epoch=1), epochs=here, open={} if broker != 2 else {PRODUCER: 4})
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert accused(2) not in said(scene)
    assert accused(2, past=True) not in said(scene)


def test_a_list_of_aborted_transactions_states_an_outcome_without_the_record() -> None:
    listed = {"listed": frozenset({(PRODUCER, 4)})}
    other = record(8, key="L")
    scene = Scene(9).shows(1, *HELD, other).shows(2, other, **listed).shows(3, *HELD, other)
    assert said(scene) == {accused(2)}
    other = Scene(9).shows(1, *HELD).shows(2, listed=frozenset({(8, 4)})).shows(3, *HELD)
    assert said(other) == set(), "of another producer"


def test_a_list_says_nothing_of_a_record_that_was_empty_when_the_replica_got_it() -> None:
    listed = {"listed": frozenset({(PRODUCER, 4)}), "epochs": ((0, 0), (1, 4))}
    held = [written(4, epoch=1), commit(5, epoch=1)]
    scene = (
        Scene(9).shows(1, *held, epochs=listed["epochs"]).shows(2, **listed).shows(3, *held, epochs=listed["epochs"])
    )
    assert said(scene) == set(), "2 shows a batch at 4 without a record"
    scene.ledger.fact(held[0], 2, 0)
    assert said(scene) == {accused(2)}, "it was read to hold the record"


def test_a_replica_read_past_a_marker_that_it_never_got_ended_the_record_by_the_next() -> None:
    scene = Scene(9).read(1, *MISSED, abort(8)).read(2, written(4), abort(8)).shows(1).shows(2).shows(3)
    assert said(scene) == {accused(2, past=True)}


def test_who_was_read_too_late_may_have_cleaned_the_end_marker() -> None:
    scene = Scene(9).read(1, *MISSED, abort(8)).shows(1).shows(2).shows(3)
    scene.ledger.fact(written(4), 2, 0)
    scene.ledger.fact(abort(8), 2, 0)
    assert said(scene) == set()
    undecided = [one for one in scene.judged.undecided if one.about is About.OUTCOME]
    assert {(one.broker, one.offset) for one in undecided} == {(2, 4)}


def test_who_held_a_transaction_open_beyond_its_end_marker_never_got_it() -> None:
    scene = Scene(9).read(1, *MISSED, abort(8)).shows(1).shows(2).shows(3)
    scene.ledger.fact(abort(8), 2, 0)
    scene.ledger.held_open[2][PRODUCER, 4] = Place(7, 0)
    assert said(scene) == {accused(2, past=True)}
    scene.ledger.held_open[2][PRODUCER, 4] = Place(6, 0)
    assert said(scene) == set(), "it was to get it"


def test_it_may_have_ended_the_record_by_a_marker_between_that_it_has_cleaned() -> None:
    scene = Scene(9).read(1, written(2), commit(3), commit(6), abort(8)).shows(1).shows(2).shows(3)
    scene.ledger.fact(abort(8), 2, 0)
    scene.ledger.held_open[2][PRODUCER, 2] = Place(5, 0)
    assert said(scene) == set()
    undecided = [one for one in scene.judged.undecided if one.about is About.OUTCOME]
    assert [(one.broker, one.offset) for one in undecided] == [(2, 2)]


def test_beyond_its_last_stable_offset_a_replica_ends_a_record_by_its_next_marker() -> None:
    scene = Scene(9).read(1, record(3), *MISSED, abort(8))
    scene.shows(1, *MISSED, abort(8)).shows(2, written(4), abort(8), open={9: 2}).shows(3, *MISSED, abort(8))
    assert accused(2, past=True) in said(scene)
    held = Scene(9).read(1, record(3), *MISSED, abort(8))
    held.shows(1, *MISSED, abort(8)).shows(2, written(4), open={PRODUCER: 4}).shows(3, *MISSED, abort(8))
    assert said(held) == set(), "what it holds open it has not ended"


def test_a_transaction_of_which_only_an_aborted_list_is_left_accuses_once() -> None:
    """Of several keys: the readers were given them and their COMMIT, with no room for a lower end marker."""
    facts = [written(2, key="K"), written(3, key="L"), written(4, key="M"), commit(5)]
    scene = Scene(9).read(1, *facts)
    newer = [record(6, key="K"), record(7, key="L"), record(8, key="M")]
    scene.read(1, *newer, start=6)
    scene.shows(1, *newer).shows(2, *newer, listed=frozenset({(PRODUCER, 2)})).shows(3, *newer)
    assert [(v.about, v.accused) for v in scene.judged.verdicts] == [(About.OUTCOME, 2)]


def test_what_is_below_a_log_start_is_not_judged() -> None:
    scene = Scene(9, deletes=True).shows(1, *HELD).shows(2, *HELD, **AS_ABORTED).shows(3, log_start=6)
    assert said(scene) == set()


def test_an_end_that_is_not_known_makes_nobody_right() -> None:
    scene = Scene(9).shows(1, *ROOMY).shows(2, written(4), **AS_ABORTED).shows(3, *ROOMY)
    outcomes = Outcomes(scene.case)
    assert outcomes.shows_its_end(scene.case.transactions.of[4], 4) == frozenset()


def test_who_was_given_an_end_marker_that_only_another_partition_has_shown_nobody_knows() -> None:
    """Of version 2: how the record at 4 ended is known; the COMMIT at 9 ended another one, and 5 to 8 nobody read."""
    facts = [written(1, key="L", of=5), commit(2, of=6), written(4, of=6), written(8, of=7), commit(9, of=8)]
    scene = Scene(12)
    for broker in (1, 2, 3):
        for fact in facts:
            scene.ledger.fact(fact, broker, 0)
        scene.shows(broker)
    scene.ledger.elsewhere[PRODUCER, 7] = End.ABORT
    assert scene.case.transactions.of[4].end is End.ABORT
    assert {one.broker for one in scene.judged.undecided if (one.about, one.offset) == (About.OUTCOME, 4)} == {1, 2, 3}


def test_a_frozen_replica_ends_a_record_by_the_next_transactions_end_marker() -> None:
    """Of version 2: the record at 4 was committed, as another partition shows; the ABORT at 9 ended another one."""
    facts = [record(0), written(1, key="L", of=5), commit(2, of=6), written(4, of=6), written(8, of=7), abort(9, of=8)]
    scene = Scene(12).shows(1).shows(2, *facts, open={99: 0}, last_stable=0).shows(3)
    scene.ledger.elsewhere[PRODUCER, 7] = End.COMMIT
    assert accused(2) in said(scene) or accused(2, past=True) in said(scene)
    scene.ledger.elsewhere[PRODUCER, 7] = End.ABORT
    assert not said(scene)


def test_of_several_listed_transactions_those_of_known_records_state_an_outcome() -> None:
    listed = {"listed": frozenset({(PRODUCER, 4), (8, 4), (9, 1), (PRODUCER, 8), (8, 2), (9, 6)})}
    other = record(8, key="L")
    scene = Scene(9).shows(1, *HELD, other).shows(2, other, **listed).shows(3, *HELD, other)
    assert said(scene) == {accused(2)}


def test_an_outcome_stands_where_the_log_was_cut_directly_behind_its_end_marker() -> None:
    here = ((0, 0), (1, 6))
    scene = Scene(9).read(1, *HELD)
    scene.ledger.fact(commit(5), 2, 0)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=here)
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(scene) == {accused(2, past=True)}


def test_a_difference_from_what_a_replica_showed_once_is_past() -> None:
    scene = Scene(9).shows(1, *ROOMY).shows(2).shows(3)
    scene.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(scene) == {(None, frozenset({1, 2}), True)}


def test_what_a_replica_that_missed_a_marker_was_not_read_for_is_missing() -> None:
    scene = Scene(9).read(1, *MISSED, abort(8)).shows(1).shows(2).shows(3)
    scene.ledger.fact(written(4), 2, 0)
    assert [one.missing for one in scene.judged.undecided if one.about is About.OUTCOME] == [((4, 7),)]


def test_transactions_that_ended_unknown_to_all_are_said_each_by_itself() -> None:
    """Nobody knows an end marker: two records of one producer, with room between them."""
    held = [written(2, key="K"), written(5, key="L")]
    scene = Scene(9).shows(1, *held).shows(2, *held, outcomes={2: End.ABORT, 5: End.ABORT}).shows(3, *held)
    assert {v.offset for v in scene.judged.verdicts if v.about is About.OUTCOME} == {2, 5}


def test_a_record_at_a_log_start_is_judged() -> None:
    scene = Scene(9, deletes=True).shows(1, *HELD).shows(2, *HELD, **AS_ABORTED).shows(3, log_start=4)
    assert said(scene) == {accused(2)}


@pytest.mark.parametrize(
    ("start", "end", "at", "is_missed"),
    [
        (6, 7, RETENTION, True),
        (6, 7, RETENTION + 1, False),
        (7, 9, RETENTION, False),
        (4, 6, RETENTION, False),
    ],
    ids=["in time", "too late", "behind the marker", "up to the marker"],
)
def test_a_marker_is_missed_that_lies_in_what_was_read_in_time_after_the_record(
    start: int, end: int, at: int, is_missed: bool
) -> None:
    scene = Scene(9).read(1, *MISSED, abort(8))
    scene.ledger.fact(written(4), 2, 0)
    scene.ledger.fact(abort(8), 2, at)
    scene.ledger.read(2, Reading(start, end, at, 0))
    assert said(scene.shows(1).shows(2).shows(3)) == ({accused(2, past=True)} if is_missed else set())


def test_an_outcome_of_another_log_or_beyond_the_last_stable_offset_says_nothing() -> None:
    scene = Scene(9).read(1, *HELD).shows(1).shows(2).shows(3)
    scene.ledger.ended(2, Place(4, 1), Ended(End.ABORT, 9, 0))
    assert said(scene) == set()
    beyond = Scene(9).read(1, *HELD).shows(1).shows(2, last_stable=4).shows(3)
    beyond.ledger.ended(2, Place(4, 0), Ended(End.ABORT, 9, 0))
    assert said(beyond) == set()


def test_what_a_part_shows_is_held() -> None:
    part = {"asked": frozenset({4, 5}), **AS_ABORTED}
    scene = Scene(9).shows(1, *HELD).shows(2, *HELD, **part).shows(3, *HELD)
    assert said(scene) == {accused(2)}


def test_what_lies_between_a_record_and_its_own_end_marker_is_no_end_marker_of_it() -> None:
    held = [written(4), record(5, key="L"), replace(abort(6), producer=8), commit(8)]
    scene = Scene(10).shows(1, *held).shows(2, *held, **AS_ABORTED).shows(3, *held)
    assert accused(2) in said(scene)
