"""The value of a key: each thing that makes a replica wrong, right or unknown, with its counter-example."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.evidence.atoms import End, Place, Reading
from parallax.judge.verdicts import About
from tests.unit.evidence.scene import PRODUCER, Scene, abort, commit, record, written

VALUE, OLDER, DELETED = record(4), record(1), record(7, None)


def accused(*brokers: int) -> set[tuple[str, int | None, frozenset[int]]]:
    return {("key", broker, frozenset()) for broker in brokers}


def differ(*brokers: int) -> set[tuple[str, int | None, frozenset[int]]]:
    return {("key", None, frozenset(brokers))}


def test_replicas_that_show_the_newest_record_are_right() -> None:
    scene = Scene(9).read(1, VALUE).shows(1, VALUE).shows(2, VALUE).shows(3, VALUE)
    assert scene.said == set()
    assert scene.judged.right == {"K": {1, 2, 3}}


def test_a_value_is_back_that_a_tombstone_deleted_which_was_read() -> None:
    scene = Scene(9).read(1, VALUE, DELETED).shows(1).shows(2, VALUE).shows(3)
    assert scene.said == accused(2)
    (verdict,) = scene.judged.verdicts
    assert verdict.right == {1, 3}
    assert verdict.proof.count == 1
    assert verdict.proof.atoms == (Place(4, 0), Place(7, 0))


def test_nobody_is_accused_of_a_value_where_nobody_read_in_time_what_may_have_deleted_it() -> None:
    scene = Scene(9).shows(1).shows(2, VALUE).shows(3)
    assert scene.said == differ(1, 2, 3)
    (verdict,) = scene.judged.verdicts
    assert verdict.right == frozenset()
    assert verdict.proof.missing


def test_who_lacks_a_value_is_wrong_where_nothing_can_have_deleted_it_unseen() -> None:
    scene = Scene(9).read(2, VALUE).shows(1).shows(2, VALUE).shows(3, VALUE)
    assert scene.said == accused(1)
    (verdict,) = scene.judged.verdicts
    assert verdict.right == {2, 3}


def test_a_value_that_all_have_lost_is_wrong_everywhere() -> None:
    scene = Scene(9).read(2, VALUE).shows(1).shows(2).shows(3)
    assert scene.said == accused(1, 2, 3)
    assert all(verdict.everywhere for verdict in scene.judged.verdicts)


def test_a_value_that_all_lack_and_that_may_have_been_deleted_since_is_unknown() -> None:
    scene = Scene(9).shows(1).shows(2).shows(3)
    scene.ledger.fact(VALUE, 2, 0)
    assert scene.said == set()
    assert scene.judged.right == {"K": frozenset()}
    assert {one.broker for one in scene.judged.undecided} == {1, 2, 3}


def test_a_committed_deletion_that_all_have_lost_the_marker_of_is_spread() -> None:
    scene = Scene(9).read(1, VALUE, written(6, None), commit(7)).shows(1, VALUE).shows(2, VALUE).shows(3, VALUE)
    assert scene.said == accused(1, 2, 3)
    assert all(verdict.everywhere for verdict in scene.judged.verdicts)


def test_a_value_that_an_aborted_deletion_took_everywhere_is_spread() -> None:
    scene = Scene(9).read(1, VALUE, written(6, None), abort(7)).shows(1).shows(2).shows(3)
    assert scene.said == accused(1, 2, 3)
    assert all(verdict.everywhere for verdict in scene.judged.verdicts)


def test_who_shows_a_deletion_as_committed_that_may_have_been_rolled_back_is_not_called_right() -> None:
    scene = Scene(11)
    for broker in (1, 2, 3):
        is_open = record(9, key="open", producer=8)
        scene.shows(broker, written(6, None), commit(8), is_open, record(10), open={8: 9})
    assert scene.said == set()
    assert scene.judged.right["K"] == frozenset()


def test_an_older_value_is_wrong_where_a_newer_one_was_read() -> None:
    scene = Scene(9).read(1, OLDER, VALUE).shows(1, VALUE).shows(2, OLDER).shows(3, VALUE)
    assert scene.said == accused(2)


def test_those_that_are_left_may_all_be_wrong() -> None:
    scene = Scene(9, replicas=frozenset({2, 3}), in_sync=frozenset({2, 3}), leader=2)
    scene.read(1, VALUE, DELETED).shows(2, VALUE).shows(3, VALUE)
    assert scene.said == accused(2, 3)
    assert all(verdict.everywhere for verdict in scene.judged.verdicts)


def test_a_replica_that_is_behind_is_not_wrong_in_what_is_written_again_further_up() -> None:
    later = record(8, "new")
    scene = Scene(9).read(1, VALUE, later).shows(1, later).shows(2, high_watermark=6).shows(3, later)
    assert scene.said == set()
    assert scene.judged.right["K"] == {1, 3}, "and not right: it has not come so far"


def test_a_record_of_a_log_that_was_cut_is_wrong_whoever_shows_it() -> None:
    cut, here = ((0, 0),), ((0, 0), (1, 4))
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, epochs=here).shows(2, VALUE, epochs=cut).shows(3, epochs=here)
    assert ("key", 2, frozenset()) in scene.said


def test_a_tombstone_of_a_log_that_was_cut_accuses_nobody() -> None:
    here = ((0, 0), (1, 6))
    scene = Scene(9).read(1, VALUE, DELETED)
    for broker in (1, 2, 3):
        scene.shows(broker, VALUE, epochs=here)
    assert scene.said == set()


def test_a_tombstone_that_perhaps_stands_accuses_nobody() -> None:
    scene = Scene(9, leader=1).read(3, VALUE, DELETED).shows(2, VALUE).shows(3)
    assert scene.said == differ(2, 3), "the leader did not answer"


OPEN_ENDS = {
    "room before the end marker": ([VALUE, written(5, None), commit(8)], differ(1, 2, 3)),
    "no room before it": ([VALUE, written(7, None), commit(8)], accused(2)),
}


@pytest.mark.parametrize("name", OPEN_ENDS)
def test_a_deletion_counts_as_its_transaction_ended(name: str) -> None:
    facts, said = OPEN_ENDS[name]
    scene = Scene(9).shows(1).shows(2, VALUE).shows(3)
    for fact in facts:
        scene.ledger.fact(fact, 1, 0)
    assert {(about, who, sides) for about, who, sides in scene.said if about == "key"} == said


def test_a_record_that_a_replica_shows_by_another_outcome_is_no_difference_of_its_own() -> None:
    """There is room for an end marker between: nobody knows who is wrong, and it is said once, of the outcome."""
    held = [written(4), commit(8)]
    scene = Scene(9).shows(1, *held).shows(2, *held, outcomes={4: End.ABORT}).shows(3, *held)
    scene.ledger.read(3, Reading(8, 9, 0, 0))
    assert {about for about, _, _ in scene.said} == {"outcome"}


def test_read_uncommitted_consumers_may_be_given_what_was_aborted_or_not() -> None:
    scene = Scene(9).read(1, OLDER, written(4), abort(5))
    aborted = {"outcomes": {4: End.ABORT}}
    scene.shows(1, OLDER, written(4), abort(5), **aborted).shows(2, OLDER).shows(3, OLDER, abort(5))
    assert scene.said == set()


def test_what_is_open_on_all_is_shown_to_read_uncommitted_consumers_alone() -> None:
    held = [OLDER, written(8)]
    scene = Scene(9).read(1, *held)
    for broker in (1, 2, 3):
        scene.shows(broker, *held, open={PRODUCER: 8})
    assert scene.said == set()


def test_a_deletion_that_nobody_shows_may_have_been_a_value() -> None:
    scene = Scene(9).shows(1).shows(2).shows(3)
    scene.ledger.fact(VALUE, 2, 0)
    scene.ledger.fact(record(5, None), 2, 0)
    assert scene.said == set()
    assert scene.judged.right == {"K": frozenset()}, "a value at 6 may be lost on all"
    assert scene.read(1, start=6).judged.right == {"K": {1, 2, 3}}


def test_below_a_log_start_nobody_is_wrong_or_right() -> None:
    scene = Scene(9, deletes=True).read(1, VALUE)
    scene.shows(1, log_start=5).shows(2, VALUE).shows(3, log_start=5)
    assert scene.said == set()
    assert scene.judged.right == {"K": frozenset()}
    assert {one.broker for one in scene.judged.undecided} == {1, 2, 3}


def test_a_head_that_is_lost_is_said_of_the_log_and_not_of_each_key() -> None:
    scene = Scene(9).read(1, VALUE).shows(1, VALUE).shows(2, log_start=6).shows(3, VALUE)
    assert scene.said == {("head", 2, frozenset())}
    assert scene.judged.right == {"K": {1, 3}}


def test_two_places_that_perhaps_stand_at_one_offset_are_no_world_together() -> None:
    scene = Scene(9, leader=1).shows(2, VALUE).shows(3, record(4, "w", epoch=1))
    assert ("record", None, frozenset({2, 3})) in scene.said


def test_with_too_many_worlds_a_key_is_unknown() -> None:
    facts = [written(offset) for offset in range(0, 40, 2)]
    scene = Scene(60).shows(1, *facts).shows(2).shows(3)
    assert scene.judged.too_many == ("K",)
    assert {one.missing for one in scene.judged.undecided if one.about is About.KEY} == {((0, 60),)}
    assert {(one.about, one.broker) for one in scene.judged.undecided if one.about is About.KEY} == {
        (About.KEY, broker) for broker in (1, 2, 3)
    }
    assert scene.judged.right == {}


def test_below_a_log_start_of_one_nobody_is_right_about_a_key_that_is_gone() -> None:
    scene = Scene(9, deletes=True).read(1, record(0))
    for broker in (1, 2, 3):
        scene.shows(broker, log_start=1)
    assert scene.judged.right == {"K": frozenset()}


def missing(scene: Scene, broker: int) -> set[tuple[int, int]]:
    return {span for one in scene.judged.undecided if (one.broker, one.key) == (broker, "K") for span in one.missing}


def test_what_lies_below_a_log_start_is_missing_of_who_is_not_judged_by_it() -> None:
    scene = Scene(9, deletes=True).read(1, VALUE)
    scene.shows(1, log_start=5).shows(2, VALUE).shows(3, log_start=5)
    assert missing(scene, 2) == {(0, 5)}
    head = Scene(9).read(1, VALUE).shows(1, VALUE).shows(2, log_start=6).shows(3, VALUE)
    assert missing(head, 2) == {(0, 6)}


def test_a_record_that_perhaps_stands_is_missing_of_a_key() -> None:
    scene = Scene(9, leader=1).read(2, VALUE, DELETED).shows(2, VALUE).shows(3)
    (verdict,) = scene.judged.verdicts
    assert {(4, 5), (7, 8)} <= set(verdict.proof.missing)


def test_what_a_replica_that_is_behind_has_not_shown_is_missing_of_it() -> None:
    later = record(8, "new")
    scene = Scene(9).read(1, VALUE, later).shows(1, later).shows(2, high_watermark=6).shows(3, later)
    assert missing(scene, 2) == {(6, 9)}


@pytest.mark.parametrize("free", range(9))
def test_a_single_offset_where_a_deletion_may_have_been_is_enough_to_accuse_nobody(free: int) -> None:
    """A value at 3, which 2 and 3 show; all offsets but one were read in time."""
    value = record(3)
    scene = Scene(9).read(2, value, end=free).read(2, start=free + 1)
    scene.shows(1).shows(2, value).shows(3, value)
    assert scene.said == (differ(1, 2, 3) if free > 3 else accused(1))
    assert {span for verdict in scene.judged.verdicts for span in verdict.proof.missing} == (
        {(4, 9)} if free > 3 else set()
    )


def test_who_is_behind_may_lack_what_was_deleted_further_up_and_shows_nobody() -> None:
    scene = Scene(9).read(3, VALUE, end=7).shows(1, VALUE).shows(2, high_watermark=6).shows(3, VALUE)
    assert scene.said == differ(1, 2, 3)
    assert scene.read(3, start=7).said == accused(2)


def test_a_record_at_a_log_start_is_judged() -> None:
    scene = Scene(9, deletes=True).read(1, VALUE).shows(1, VALUE, log_start=4).shows(2).shows(3, VALUE)
    assert scene.said == accused(2)
    perhaps = Scene(9, deletes=True, leader=1).read(2, DELETED).shows(2, VALUE, log_start=4).shows(3)
    assert perhaps.said == differ(2, 3)


def test_who_shows_a_committed_record_as_committed_is_right_whatever_nobody_read_below() -> None:
    held = [written(4), commit(5)]
    scene = Scene(6).shows(1, *held).shows(2, *held).shows(3, *held)
    assert scene.judged.right == {"K": {1, 2, 3}}


def test_a_record_at_the_offset_where_a_head_was_lost_is_judged() -> None:
    for offset, wrong in ((4, {2}), (3, set())):
        scene = Scene(9).read(1, record(offset)).shows(1, record(offset)).shows(2, log_start=4).shows(3, record(offset))
        assert {v.accused for v in scene.judged.verdicts if v.about is About.KEY} == wrong


def test_replicas_that_differ_only_to_read_uncommitted_consumers_differ() -> None:
    """An open transaction of another key holds all last stable offsets at 2."""
    other = record(2, key="L", producer=8)
    held: dict[str, Any] = {"open": {8: 2}}
    scene = Scene(9).shows(1, other, **held).shows(2, other, VALUE, **held).shows(3, other, **held)
    assert differ(1, 2, 3) <= scene.said


def test_a_deletion_directly_behind_what_a_replica_has_come_to_is_not_for_it() -> None:
    scene = Scene(9).read(2, VALUE, end=6).read(2, start=7)
    scene.shows(1).shows(2, VALUE, high_watermark=6).shows(3)
    assert scene.judged.worlds == (2, 2)


def test_a_deletion_behind_an_aborted_value_leaves_read_uncommitted_consumers_nothing() -> None:
    held = [written(4), abort(5)]
    scene = Scene(9).read(1, *held, record(6, None))
    for broker in (1, 2, 3):
        scene.shows(broker, *held, outcomes={4: End.ABORT})
    assert scene.judged.right == {"K": {1, 2, 3}}


def test_where_an_open_transaction_holds_cleaners_back_replicas_are_right_about_all_below() -> None:
    other = record(4, key="L", producer=8)
    scene = Scene(9).read(1, OLDER, other)
    for broker in (1, 2, 3):
        scene.shows(broker, OLDER, other, open={8: 4})
    assert scene.case.cleaned_to == 4
    assert scene.judged.right["K"] == {1, 2, 3}


def test_a_deletion_in_a_transaction_that_perhaps_stands_accuses_nobody() -> None:
    scene = Scene(9, leader=1).read(3, VALUE, written(7, None)).shows(2, VALUE).shows(3)
    assert {(about, who, sides) for about, who, sides in scene.said if about == "key"} == differ(2, 3)
    (verdict,) = [v for v in scene.judged.verdicts if v.about is About.KEY]
    assert verdict.proof.count == 2 * 3 * 2**3, (
        "the value and the deletion: each may be of another log, the latter may be aborted, 3 gaps"
    )


def test_what_lies_below_a_record_that_all_show_as_committed_makes_no_worlds_at_that_level() -> None:
    """How the record at 4 ended is open, and a deletion may lie behind it; below it one may lie as well."""
    held = [OLDER, written(4), commit(7)]
    scene = Scene(9).shows(1, *held).shows(2, *held).shows(3, *held)
    assert scene.judged.worlds == (2 * 2, 2 * 2 * 2)


def test_the_end_marker_behind_which_another_may_have_been_is_an_atom_of_the_proof() -> None:
    scene = Scene(9).shows(1).shows(2, VALUE).shows(3)
    for fact in (VALUE, written(5, None), commit(8)):
        scene.ledger.fact(fact, 1, 0)
    (verdict,) = [v for v in scene.judged.verdicts if v.about is About.KEY]
    assert verdict.proof.atoms == (Place(4, 0), Place(5, 0), Place(8, 0))
    endless = Scene(9).shows(1).shows(2, VALUE).shows(3)
    for fact in (VALUE, written(5, None)):
        endless.ledger.fact(fact, 1, 0)
    (verdict,) = [v for v in endless.judged.verdicts if v.about is About.KEY]
    assert verdict.proof.atoms == (Place(4, 0), Place(5, 0))


def test_a_deletion_up_to_where_cleaners_may_have_come_excuses_all_that_have_not_come_so_far() -> None:
    """All last stable offsets are 5, as a transaction is open that may have ended; nobody read from 5 on."""
    scene = Scene(9).read(3, VALUE, end=5).shows(1, open={9: 5}).shows(2, VALUE, open={9: 5}).shows(3, open={9: 5})
    assert scene.said == differ(1, 2, 3)
    assert scene.judged.worlds == (2, 2)


def test_a_record_of_a_transaction_that_was_cut_is_wrong_whoever_shows_it() -> None:
    cut, here = ((0, 0),), ((0, 0), (1, 4))
    scene = Scene(9, in_sync=frozenset({1, 3})).shows(1, epochs=here).shows(3, epochs=here)
    assert ("key", 2, frozenset()) in scene.shows(2, written(4), commit(5), epochs=cut).said


def test_an_open_record_that_all_have_lost_is_missed_by_read_uncommitted_consumers() -> None:
    scene = Scene(9).read(1, OLDER, written(8))
    for broker in (1, 2, 3):
        scene.shows(broker, OLDER, open={PRODUCER: 8})
    assert scene.said == accused(1, 2, 3)


def test_a_deletion_may_lie_at_the_first_offset_of_the_log() -> None:
    """The value at 1 may have been rolled back; broker 1 lacks it, and lies above 0 with nothing."""
    held = [written(1), commit(3)]
    scene = Scene(4).read(2, *held, start=1, end=2).read(2, start=3)
    scene.shows(1, held[1]).shows(2, *held).shows(3, *held)
    (verdict,) = [v for v in scene.judged.verdicts if v.about is About.KEY]
    assert (0, 1) in verdict.proof.missing
    assert scene.judged.worlds == (8, 8)
    assert scene.read(2, start=0, end=1).judged.worlds == (4, 4)
