"""A transaction that a replica holds open is wrong where it has ended at a place that the replica has passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parallax.evidence.atoms import Place, Stable
from tests.unit.evidence.scene import PRODUCER, Scene, commit, record, written

OPEN = {"open": {PRODUCER: 4}}
HELD = [written(4), commit(7)]


def frozen(scene: Scene) -> dict[int | None, frozenset[int]]:
    return {v.accused: v.right for v in scene.judged.verdicts if v.about == "freeze"}


def test_an_end_marker_that_the_replica_has_passed_has_ended_it() -> None:
    scene = Scene(9).read(1, *HELD).shows(1, *HELD).shows(2, written(4), **OPEN).shows(3)
    assert frozen(scene) == {2: {1}}


def test_one_that_it_has_not_come_to_is_to_be_copied_yet() -> None:
    scene = Scene(9).read(1, *HELD).shows(1, *HELD).shows(2, written(4), high_watermark=6, **OPEN).shows(3)
    assert frozen(scene) == {}


def test_beyond_the_high_watermark_a_log_may_be_another_ones_rest() -> None:
    scene = Scene(9).read(1, *HELD).shows(1, *HELD)
    scene.shows(2, written(4), high_watermark=6, log_end=9, **OPEN).shows(3)
    assert frozen(scene) == {}


def test_an_end_marker_of_a_log_that_was_cut_has_ended_nothing() -> None:
    here = ((0, 0), (1, 6))
    scene = Scene(9).read(1, *HELD)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), epochs=here, **OPEN)
    assert frozen(scene) == {}


def test_all_that_hold_it_open_are_wrong_everywhere() -> None:
    scene = Scene(9).read(1, *HELD)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), **OPEN)
    assert {v.everywhere for v in scene.judged.verdicts} == {True}
    assert frozen(scene) == {1: frozenset(), 2: frozenset(), 3: frozenset()}


def test_what_began_below_a_last_stable_offset_had_ended_below_the_high_watermark() -> None:
    scene = Scene(9).shows(1, written(4), **OPEN).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.add(Stable(0, 5, 8, 0))
    assert set(frozen(scene)) == {1, 2, 3}
    scene.ledger.stable = {Stable(0, 4, 8, 0)}
    assert frozen(scene) == {}, "it began at that"
    scene.ledger.stable = {Stable(5, 8, 8, 0)}
    assert frozen(scene) == {}, "it began below the log start, where an LSO does not look"


def test_where_something_was_cut_a_last_stable_offset_says_nothing() -> None:
    here = ((0, 0), (1, 8))
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), epochs=here, **OPEN)
    scene.ledger.stable.add(Stable(0, 5, 5, 0))
    assert set(frozen(scene)) == {1, 2, 3}
    scene.ledger.fact(record(8), 2, 0)
    assert frozen(scene) == {}


def test_another_in_sync_that_does_not_hold_it_open_has_seen_it_end() -> None:
    scene = Scene(9).shows(1, high_watermark=8).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.clear()
    assert set(frozen(scene)) == {2, 3}


def test_its_end_marker_may_be_among_what_is_not_replicated() -> None:
    scene = Scene(9).shows(1, high_watermark=8, log_end=9).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.clear()
    assert frozen(scene) == {}


def test_what_may_have_ended_unseen_is_undecided() -> None:
    scene = Scene(9, leader=2, in_sync=frozenset({2})).shows(1).shows(2, written(4), **OPEN).shows(3)
    scene.ledger.stable.clear()
    assert frozen(scene) == {}
    undecided = [one for one in scene.judged.undecided if one.about == "freeze"]
    assert [(one.broker, one.offset, one.missing) for one in undecided] == [(2, 4, ((5, 9),))]
    assert [one.about for one in scene.read(3).judged.undecided if one.about == "freeze"] == []


def test_one_that_is_not_in_sync_is_no_witness() -> None:
    scene = (
        Scene(9, leader=2, in_sync=frozenset({2, 3})).shows(1).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    )
    scene.ledger.stable.clear()
    assert frozen(scene) == {}


def test_the_leaders_log_is_the_one_that_stands_whatever_was_asked_of_it() -> None:
    part: dict[str, Any] = {"asked": frozenset({4}), "epochs": ((0, 0),)}
    scene = Scene(9).shows(1, **part).shows(2, written(4), **OPEN, **part).shows(3, written(4), **OPEN, **part)
    scene.ledger.stable.clear()
    unasked = {broker: replace(look, ends={}, tops=(Place(4, 0),)) for broker, look in scene.looks.items()}
    scene.looks.update(unasked)
    assert set(frozen(scene)) == {2, 3}
    scene.leader = 2
    assert frozen(scene) == {}, "1 may hold the rest of another log"
    scene.leader, scene.in_sync = 1, frozenset({1, 3})
    assert set(frozen(scene)) == {3}


def test_an_accused_that_has_not_come_to_all_that_another_has_is_not_wrong() -> None:
    scene = Scene(9).shows(1, high_watermark=8)
    scene.shows(2, written(4), high_watermark=8, **OPEN).shows(3, written(4), high_watermark=7, **OPEN)
    scene.ledger.stable.clear()
    assert set(frozen(scene)) == {2}


def test_a_last_stable_offset_proves_by_the_last_offset_below_its_high_watermark() -> None:
    here = ((0, 0), (1, 8))
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), record(6), epochs=here, **OPEN)
    scene.ledger.stable = {Stable(0, 5, 7, 0)}
    assert {v.proof.atoms for v in scene.judged.verdicts if v.about == "freeze"} == {(Place(6, 0),)}
    scene.ledger.stable = {Stable(0, 5, 8, 0)}
    assert frozen(scene) == {}, "what lay at 7 may have been another log's"


def test_what_nobody_read_of_a_transaction_that_is_held_open_is_missing() -> None:
    scene = Scene(9, leader=2, in_sync=frozenset({2})).read(3).shows(1).shows(2, **OPEN).shows(3)
    scene.ledger.stable.clear()
    assert [one.missing for one in scene.judged.undecided if one.about == "freeze"] == [((4, 5),)]


def all_hold_it_open(**more: Any) -> Scene:
    scene = Scene(9, **more).shows(1, written(4), **OPEN).shows(2, written(4), **OPEN)
    return scene.shows(3, written(4), high_watermark=7, **OPEN)


def test_a_last_stable_offset_proves_nothing_of_a_log_that_has_not_come_to_its_high_watermark() -> None:
    scene = all_hold_it_open()
    scene.ledger.stable = {Stable(4, 5, 9, 0)}
    assert set(frozen(scene)) == {1, 2}
    scene.ledger.stable = {Stable(4, 5, 7, 0)}
    assert set(frozen(scene)) == {1, 2, 3}


def test_where_nothing_is_compacted_only_an_end_marker_ends_a_transaction() -> None:
    scene = all_hold_it_open(compacted=False)
    scene.ledger.stable = {Stable(4, 5, 7, 0)}
    assert frozen(scene) == {}


def test_another_whose_log_does_not_hold_the_beginning_has_not_seen_it_end() -> None:
    for other in ({"high_watermark": 4}, {"log_start": 5}):
        scene = Scene(9).shows(1, **other).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
        scene.ledger.stable.clear()
        assert frozen(scene) == {}
    scene = Scene(9).shows(1, log_start=4).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.clear()
    assert set(frozen(scene)) == {2, 3}


def test_a_last_stable_offset_of_all_of_an_epoch_that_another_followed_proves() -> None:
    here = ((0, 0), (1, 8))
    scene = Scene(9)
    for broker in (1, 2, 3):
        scene.shows(broker, written(4), record(7), epochs=here, **OPEN)
    scene.ledger.stable = {Stable(0, 5, 8, 0)}
    assert set(frozen(scene)) == {1, 2, 3}


def test_one_in_sync_is_a_witness_though_another_leads() -> None:
    scene = Scene(9, leader=2).shows(1, high_watermark=8).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.clear()
    assert set(frozen(scene)) == {2, 3}


def test_a_last_stable_offset_proves_nothing_of_a_log_whose_last_offset_was_overwritten() -> None:
    """Broker 3 is in sync and holds epoch 0 up to 8, where epoch 1 begins in the leader's log."""
    here = ((0, 0), (1, 8))
    scene = Scene(9)
    for broker, epochs in ((1, here), (2, here), (3, ((0, 0),))):
        scene.shows(broker, written(4), record(7), epochs=epochs, **OPEN)
    scene.ledger.stable = {Stable(0, 5, 9, 0)}
    assert frozen(scene) == {}
    scene.ledger.stable = {Stable(0, 5, 8, 0)}
    assert set(frozen(scene)) == {1, 2, 3}


def test_those_that_hold_it_open_are_not_all_where_another_has_seen_it_end() -> None:
    scene = Scene(9).shows(1, high_watermark=8).shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    scene.ledger.stable.clear()
    assert {(v.accused, v.everywhere) for v in scene.judged.verdicts} == {(2, False), (3, False)}
    moved = Scene(9, replicas=frozenset({2, 3})).read(1, *HELD).shows(1, *HELD)
    moved.shows(2, written(4), **OPEN).shows(3, written(4), **OPEN)
    found = {(v.accused, v.right, v.everywhere) for v in moved.judged.verdicts if v.about == "freeze"}
    assert found == {(2, frozenset({1}), False), (3, frozenset({1}), False)}, "1 is no replica any more, and is right"
