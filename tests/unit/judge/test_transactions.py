"""How a record ended: by the first end marker behind it, where there is no room for a lower one."""

from __future__ import annotations

import pytest

from parallax.evidence.atoms import End
from tests.unit.evidence.scene import PRODUCER, Scene, abort, commit, record, written

BOTH = (End.COMMIT, End.ABORT)


def options(scene: Scene, offset: int) -> tuple[End, ...]:
    return scene.case.transactions.of[offset].options


def test_an_end_marker_directly_behind_a_record_ends_it() -> None:
    scene = Scene(9).shows(1, written(4), commit(5))
    assert options(scene, 4) == (End.COMMIT,)


def test_with_room_between_another_end_marker_may_have_been_there() -> None:
    scene = Scene(9).shows(1, written(4), commit(7))
    assert options(scene, 4) == BOTH
    assert scene.case.transactions.of[4].missing == ((5, 7),)
    assert options(scene.read(2), 4) == (End.COMMIT,), "what lies between was read in time"


def test_records_of_others_leave_no_room() -> None:
    scene = Scene(9).shows(1, written(4), record(5), record(6), commit(7))
    assert options(scene, 4) == (End.COMMIT,)


def test_records_without_room_between_are_of_one_transaction() -> None:
    case = Scene(9).shows(1, written(3), written(4), abort(5)).case
    assert case.transactions.of[3] is case.transactions.of[4]
    assert case.transactions.of[3].end is End.ABORT


def test_records_with_room_between_may_be_of_two() -> None:
    scene = Scene(9).shows(1, written(2), written(4), abort(5))
    assert (options(scene, 2), options(scene, 4)) == (BOTH, (End.ABORT,))
    assert scene.case.transactions.of[2].missing == ((3, 4),)


def test_records_on_both_sides_of_an_end_marker_are_of_two() -> None:
    scene = Scene(9).shows(1, written(2), commit(3), written(4), abort(5))
    assert (options(scene, 2), options(scene, 4)) == ((End.COMMIT,), (End.ABORT,))


@pytest.mark.parametrize(
    ("facts", "more", "found"),
    [
        ([written(8)], {"open": {PRODUCER: 8}}, (End.OPEN,)),
        ([written(4)], {"open": {PRODUCER: 4}}, (End.OPEN, *BOTH)),
        ([written(4)], {}, BOTH),
        ([written(4)], {"open": {PRODUCER: 6}}, BOTH),
    ],
    ids=["nothing lies behind", "there is room behind", "the leader holds nothing open", "it holds a later one open"],
)
def test_without_an_end_marker_the_leader_says_whether_it_is_open(
    facts: list, more: dict, found: tuple[End, ...]
) -> None:
    assert options(Scene(9).shows(1, *facts, **more), facts[0].offset) == found


def test_what_the_leader_had_not_got_when_it_was_asked_may_be_open() -> None:
    scene = Scene(9).shows(1, high_watermark=4).shows(2, written(8))
    assert options(scene, 8) == (*BOTH, End.OPEN)


def test_an_end_marker_that_perhaps_stands_may_end_a_record() -> None:
    scene = Scene(9).shows(1, written(4), record(5), commit(6))
    scene.ledger.fact(abort(5), 2, 0)  # Unlike what 1 shows at that place.
    case = scene.case
    assert case.transactions.of[4].options == (End.COMMIT,) or (5, 6) in case.transactions.of[4].missing
