"""Each thing that decides whether a place is of the log that stands, with its example and its counter-example."""

from __future__ import annotations

from dataclasses import replace

from parallax.evidence.atoms import NEVER, Place, Reading
from parallax.evidence.log import Belongs
from tests.unit.evidence.scene import Scene, record

CUT = ((0, 0), (1, 6))
"""A log whose epoch 0 ends at 6, where epoch 1 begins."""


def all_show(top: int = 9, epochs: tuple[tuple[int, int], ...] = CUT, **brokers: tuple[tuple[int, int], ...]) -> Scene:
    scene = Scene(top)
    for broker in (1, 2, 3):
        scene.shows(broker, epochs=brokers.get(f"b{broker}", epochs))
    return scene


def test_nobody_says_where_the_leader_does_not_answer() -> None:
    scene = Scene(9).shows(2).shows(3)
    assert scene.lineage.of(Place(4, 0)) is Belongs.PERHAPS


def test_what_the_leader_holds_of_an_epoch_holds_all_of_it_below() -> None:
    scene = Scene(9).shows(1, record(5), epochs=CUT)
    assert scene.lineage.of(Place(3, 0)) is Belongs.YES, "one that was not asked knows nothing else"
    assert scene.lineage.of(Place(8, 1)) is Belongs.YES


def test_where_another_epoch_begins_nothing_of_the_one_before_stands() -> None:
    lineage = all_show().lineage
    assert lineage.of(Place(6, 0)) is Belongs.NO
    assert lineage.of(Place(5, 0)) is Belongs.YES


def test_the_lowest_end_counts_for_a_copy_of_a_cleaned_log_names_one_too_high() -> None:
    lineage = all_show(b1=((0, 0), (1, 8)), b2=((0, 0), (1, 6))).lineage
    assert lineage.of(Place(6, 0)) is Belongs.NO
    alone = Scene(9, in_sync=frozenset({1})).shows(1, epochs=((0, 0), (1, 8))).shows(2, epochs=CUT).shows(3)
    assert alone.lineage.of(Place(6, 0)) is not Belongs.NO, "who is not in sync may hold another log"


def test_what_an_earlier_leader_said_of_its_log_holds_of_one_that_goes_on_from_there() -> None:
    exact, copied = ((0, 0), (1, 6)), ((0, 0), (1, 8))
    scene = Scene(9, leader=2).shows(2, epochs=exact)
    scene.leader = 1
    scene.shows(1, epochs=copied).shows(2, epochs=copied).shows(3, epochs=copied)
    assert scene.lineage.of(Place(6, 0)) is Belongs.NO
    other = Scene(9, leader=2).shows(2, epochs=exact)
    other.leader = 1
    other.shows(1, epochs=((0, 0), (2, 8))).shows(2, epochs=((0, 0), (2, 8))).shows(3, epochs=((0, 0), (2, 8)))
    assert other.lineage.of(Place(6, 0)) is not Belongs.NO, "the log of epoch 1 was left behind"


def test_the_newest_epoch_of_a_log_may_still_grow() -> None:
    scene = Scene(9).shows(1, epochs=((0, 0),)).shows(2, epochs=((0, 0),), high_watermark=5).shows(3)
    assert scene.lineage.of(Place(7, 0)) is Belongs.YES


def test_epochs_only_grow_along_a_log() -> None:
    epochs = ((0, 0), (2, 8))
    scene = Scene(9).shows(1, record(7), epochs=epochs).shows(2, epochs=epochs).shows(3, epochs=epochs)
    assert scene.lineage.of(Place(4, 1)) is Belongs.NO, "the leader's log holds epoch 0 up to 7"
    assert scene.lineage.of(Place(7, 1)) is Belongs.NO
    assert scene.lineage.of(Place(8, 2)) is Belongs.YES


def test_an_epoch_that_the_leader_does_not_know_may_have_been_cleaned_before_the_copy() -> None:
    epochs = ((0, 0), (2, 8))
    scene = (
        Scene(9).shows(1, record(3), epochs=epochs).shows(2, epochs=epochs).shows(3, epochs=((0, 0), (1, 4), (2, 8)))
    )
    assert scene.lineage.of(Place(4, 1)) is Belongs.PERHAPS, "3 may have kept it when it was cut"
    scene.ledger.read(1, Reading(0, 6, 0, 1))
    assert scene.lineage.of(Place(4, 1)) is Belongs.YES, "it was read to hold that epoch"


def test_a_newer_record_that_the_leader_holds_voids_what_an_older_epoch_had_there() -> None:
    scene = all_show(epochs=((0, 0), (1, 8)))  # All copied a cleaned log: epoch 1 began at 6 in truth.
    scene.ledger.fact(record(6, epoch=1), 2, 0)
    assert scene.lineage.of(Place(6, 0)) is Belongs.NO
    assert scene.lineage.of(Place(5, 0)) is not Belongs.NO


def test_what_one_in_sync_holds_stands() -> None:
    scene = Scene(9).shows(1, epochs=((0, 0), (1, 8))).shows(2, record(5), epochs=((0, 0), (1, 8)))
    assert scene.lineage.of(Place(5, 0)) is Belongs.YES, "though 3 was not asked"


def test_one_that_was_not_asked_may_know_better_where_an_epoch_ends() -> None:
    scene = Scene(9).shows(1, epochs=((0, 0), (1, 8))).shows(2, epochs=((0, 0), (1, 8)))
    assert scene.lineage.of(Place(5, 0)) is Belongs.PERHAPS
    assert scene.shows(3, epochs=((0, 0), (1, 8))).lineage.of(Place(5, 0)) is Belongs.YES


def test_what_may_be_cut_with_something_that_was_cut_is_in_doubt() -> None:
    scene = all_show(epochs=((0, 0), (1, 8)))
    assert scene.lineage.of(Place(5, 0)) is Belongs.YES
    scene.ledger.fact(record(8), 3, 0)  # Epoch 0 went on to 8 in a log that was cut.
    assert scene.lineage.cut_epochs == {0}
    assert scene.lineage.of(Place(5, 0)) is Belongs.PERHAPS


def test_a_leadership_that_is_newer_than_the_look_is_not_judged_by_it() -> None:
    assert all_show().lineage.of(Place(9, 4)) is Belongs.PERHAPS


def test_a_log_is_the_one_that_stands_below_what_may_be_cut_of_it() -> None:
    lineage = all_show().lineage
    assert lineage.stands_below(0) == 6
    assert lineage.stands_below(1) == NEVER
    assert Scene(9).shows(2).lineage.stands_below(0) == 0


def test_a_log_of_which_nobody_was_asked_where_an_epoch_ends_stands_up_to_its_last_batch() -> None:
    scene = Scene(9).shows(1, record(5), record(8, epoch=1), epochs=CUT)
    scene.looks[1] = replace(scene.looks[1], ends={})
    scene.ledger.at.clear()
    assert scene.lineage.stands_below(0) == 6
    assert [scene.lineage.of(Place(offset, 0)) for offset in (5, 6)] == [Belongs.YES, Belongs.PERHAPS]


def test_what_was_cut_of_a_newer_epoch_leaves_an_older_one_where_that_epoch_goes_on() -> None:
    scene = all_show(epochs=((0, 0), (1, 6), (2, 8)))
    scene.ledger.fact(record(8, epoch=1), 3, 0)
    assert scene.lineage.cut_epochs == {1}
    assert scene.lineage.of(Place(5, 0)) is Belongs.YES, "epoch 1 stands up to 6, and so does what lies below"
    assert scene.lineage.of(Place(7, 1)) is Belongs.PERHAPS
    assert scene.lineage.of(Place(9, 2)) is Belongs.YES


def test_a_newer_record_at_the_last_offset_of_the_leader_voids_what_an_older_epoch_had_there() -> None:
    scene = Scene(7).shows(1, record(6, epoch=1), epochs=CUT)
    scene.looks[1] = replace(scene.looks[1], ends={})
    scene.ledger.fact(record(6), 2, 0)
    assert scene.lineage.of(Place(6, 0)) is Belongs.NO


def test_what_the_leader_holds_is_not_cut_though_one_in_sync_says_that_its_epoch_ends_there() -> None:
    scene = Scene(9).shows(1, record(5), epochs=CUT).shows(2, epochs=((0, 0), (1, 5)))
    assert scene.lineage.cut_epochs == set()
    assert scene.lineage.of(Place(5, 0)) is Belongs.YES
