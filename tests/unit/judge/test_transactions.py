"""How a record ended: by the first end marker behind it, where there is no room for a lower one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from parallax.evidence.atoms import End, Fact
from tests.unit.evidence.scene import PRODUCER, Scene, abort, commit, record, written

BOTH = (End.COMMIT, End.ABORT)


def options(scene: Scene, offset: int) -> tuple[End, ...]:
    return scene.case.transactions.of[offset].options


def test_an_end_marker_directly_behind_a_record_ends_it() -> None:
    scene = Scene(9).shows(1, written(4), commit(5))
    assert options(scene, 4) == (End.COMMIT,)
    assert scene.case.transactions.of[4].missing == ()


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


VERSION_2 = (written(1, key="other", of=5), commit(2, of=6))
"""By this the producer is of version 2, and its epoch 6 is one transaction."""


@pytest.mark.parametrize(("end", "how"), [(commit, End.COMMIT), (abort, End.ABORT)])
def test_a_transaction_of_version_2_ends_by_the_marker_of_the_next_epoch(end: Callable[..., Fact], how: End) -> None:
    scene = Scene(12).shows(1, *VERSION_2, written(4, of=6), end(9, of=7))
    assert options(scene, 4) == (how,)
    assert scene.case.transactions.of[4].missing == ()


@pytest.mark.parametrize(
    "facts",
    [
        (*VERSION_2, written(4, of=6), commit(9, of=8)),
        (*VERSION_2, written(4, of=5), commit(9, of=6)),
        (written(1, of=6), commit(2, of=6), written(4, of=6), abort(9, of=7)),
        (written(1, of=5), abort(2, of=6), written(4, of=6), abort(9, of=7)),
        (written(1, of=5), commit(3, of=6), written(4, of=6), commit(9, of=7)),
    ],
    ids=[
        "the end marker is of a later transaction",
        "the producer may have been of version 1 still",
        "it is of version 1",
        "it was fenced, and may be of version 1",
        "the COMMIT may have ended another transaction",
    ],
)
def test_nothing_is_known_by_name_where(facts: tuple[Fact, ...]) -> None:
    assert options(Scene(12).shows(1, *facts), 4) == BOTH


@pytest.mark.parametrize(("there", "left"), [(End.COMMIT, (End.COMMIT,)), (End.ABORT, (End.ABORT,))])
def test_another_partition_of_the_transaction_says_how_it_ended(there: End, left: tuple[End, ...]) -> None:
    scene = Scene(12).shows(1, *VERSION_2, written(4, of=6), commit(9, of=8))
    scene.ledger.elsewhere[PRODUCER, 7] = there
    assert options(scene, 4) == left
    assert scene.case.transactions.of[4].end_marker < 0, "the COMMIT at 9 ended another one"


def test_the_end_marker_of_another_partition_may_come_before_that_of_this_one() -> None:
    scene = Scene(9).shows(1, *VERSION_2, written(4, of=6), open={PRODUCER: 4})
    scene.ledger.elsewhere[PRODUCER, 7] = End.COMMIT
    assert options(scene, 4) == (End.OPEN, End.COMMIT)


def test_nothing_is_known_by_name_where_an_unclean_election_may_have_cut_an_end_marker() -> None:
    scene = Scene(12, unclean=True).shows(1, *VERSION_2, written(4, of=6), commit(9, of=7))
    scene.ledger.elsewhere[PRODUCER, 7] = End.COMMIT
    assert options(scene, 4) == BOTH


def test_an_end_marker_that_perhaps_stands_is_missing_where_all_was_read_in_time() -> None:
    scene = Scene(9).read(2, written(4), abort(5), commit(7))
    scene.ledger.fact(record(5), 3, 0)
    scene.shows(1, written(4), record(5), commit(7))
    assert options(scene, 4) == BOTH
    assert scene.case.transactions.of[4].missing == ((5, 6),)


def test_where_all_was_read_in_time_the_end_marker_of_what_has_ended_lies_further_up() -> None:
    scene = Scene(9).read(2, written(4)).shows(1, written(4))
    assert options(scene, 4) == BOTH
    assert scene.case.transactions.of[4].missing == ((5, 10),)


def test_what_may_be_open_still_names_what_is_missing() -> None:
    scene = Scene(9).shows(1, *VERSION_2, written(4, of=6), open={PRODUCER: 4})
    scene.ledger.elsewhere[PRODUCER, 7] = End.COMMIT
    assert scene.case.transactions.of[4].missing == ((5, 9),)


def test_each_of_several_transactions_of_version_2_ends_by_its_own_marker() -> None:
    facts = [*VERSION_2, written(4, of=6), abort(6, of=7), written(8, of=7), commit(10, of=8)]
    scene = Scene(14).shows(1, *facts, written(11, of=8), commit(13, of=8))
    assert [options(scene, offset) for offset in (1, 4, 8, 11)] == [
        (End.COMMIT,),
        (End.ABORT,),
        (End.COMMIT,),
        BOTH,
    ]


@pytest.mark.parametrize("offset", [4, 5])
def test_an_end_marker_of_a_newer_epoch_at_the_offset_of_a_known_fact_ends_nothing_between(offset: int) -> None:
    scene = Scene(9).shows(1, written(4), commit(5))
    scene.ledger.fact(abort(offset, epoch=4), 2, 0)
    assert {fact.offset for fact in scene.case.doubted} == {offset}
    assert options(scene, 4) == (End.COMMIT,)


def test_another_partition_says_nothing_of_a_transaction_that_may_be_of_version_1() -> None:
    """The producer is of version 2 from epoch 6 on: with epoch 5, two transactions may bear one name."""
    scene = Scene(12).shows(1, *VERSION_2, written(4, of=5), commit(9, of=8))
    scene.ledger.elsewhere[PRODUCER, 6] = End.COMMIT
    assert options(scene, 4) == BOTH


@pytest.mark.parametrize(("doubted", "missing"), [(4, ((5, 7),)), (7, ((5, 7),)), (6, ((5, 7), (6, 7)))])
def test_of_end_markers_that_perhaps_stand_those_between_record_and_end_are_missing(
    doubted: int, missing: tuple[tuple[int, int], ...]
) -> None:
    scene = Scene(9).shows(1, written(4), commit(7))
    scene.ledger.fact(abort(doubted, epoch=4), 2, 0)
    scene.ledger.fact(replace(abort(5, epoch=4), producer=8), 2, 0)
    assert {fact.offset for fact in scene.case.doubted} == {5, doubted}
    assert scene.case.transactions.of[4].missing == missing


def test_of_many_records_those_before_one_end_marker_without_room_between_are_one_transaction() -> None:
    facts = [written(1), written(2), written(3), commit(4), written(5), abort(6), written(7), written(8), commit(10)]
    of = Scene(11).shows(1, *facts).case.transactions.of
    assert of[1] is of[2] is of[3]
    assert [of[offset].end for offset in (1, 5, 7)] == [End.COMMIT, End.ABORT, None]
    assert of[7] is of[8]
    assert [of[offset].end_marker for offset in (1, 5, 7)] == [4, 6, 10]
    assert of[7].missing == ((9, 10),)


def test_the_end_marker_of_each_record_may_lie_before_the_next_record() -> None:
    of = Scene(9).shows(1, written(1), written(4), written(6), commit(8)).case.transactions.of
    assert [of[offset].missing for offset in (1, 4, 6)] == [((2, 4),), ((5, 6),), ((7, 8),)]
    assert [of[offset].end_marker for offset in (1, 4, 6)] == [8, 8, 8]


@pytest.mark.parametrize(("end", "is_open"), [(5, True), (6, False)])
def test_what_the_leaders_log_does_not_reach_may_be_open(end: int, is_open: bool) -> None:
    """The records at 4 and 5 are of one transaction, of which nobody knows the end."""
    scene = Scene(6).read(2, written(4), written(5)).shows(1, high_watermark=4, log_end=end)
    scene.shows(2, written(4), written(5))
    assert options(scene, 4) == ((*BOTH, End.OPEN) if is_open else BOTH)
    assert scene.case.transactions.of[4].missing == ((6, 7),)


def test_below_the_last_stable_offset_of_the_leader_nothing_is_open_though_nobody_asked() -> None:
    for stable, found in ((4, (*BOTH, End.OPEN)), (5, BOTH)):
        scene = Scene(9).shows(1, written(4), open=None, last_stable=stable)
        assert options(scene, 4) == found


def test_an_end_marker_of_the_transactions_name_below_its_records_ends_nothing() -> None:
    """No broker writes that: it shows that names do not mean what they should."""
    facts = [*VERSION_2, abort(3, of=7), written(4, of=6), commit(9, of=8)]
    assert options(Scene(12).shows(1, *facts), 4) == BOTH
