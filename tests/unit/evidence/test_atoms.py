"""A look answers whether its log is the one that was read."""

from __future__ import annotations

import pytest

from parallax.evidence.atoms import EpochEnd, Look, Place

LOOK = Look(
    1,
    0,
    0,
    9,
    9,
    12,
    tops=(Place(3, 0), Place(8, 2)),
    ends={0: EpochEnd(0, 5), 1: EpochEnd(0, 5), 2: EpochEnd(2, 12), 3: None},
)


@pytest.mark.parametrize(
    ("upto", "epoch", "goes_on"),
    [
        (5, 0, True),
        (6, 0, False),
        (4, 1, False),
        (12, 2, True),
        (13, 2, False),
        (4, 3, False),
        (4, 9, False),
        (4, -1, False),
    ],
    ids=[
        "the epoch ends there",
        "the epoch ends below",
        "it does not know that epoch",
        "it may hold more of its latest one",
        "it ends below",
        "it knows none as new",
        "it was not asked",
        "the epoch is unknown",
    ],
)
def test_a_log_goes_on_where_it_holds_the_epoch_up_to_there(upto: int, epoch: int, goes_on: bool) -> None:
    assert LOOK.goes_on(upto, epoch) is goes_on


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (3, 0), (4, 2), (8, 2), (9, -1)])
def test_the_epoch_at_an_offset_is_that_of_the_next_batch(offset: int, epoch: int) -> None:
    assert LOOK.epoch_at(offset) == epoch


def test_a_log_knows_an_epoch_that_it_holds_or_that_ends_above_the_one_before() -> None:
    ends = {0: EpochEnd(0, 4), 1: EpochEnd(1, 4), 2: EpochEnd(2, 9), 3: EpochEnd(2, 9), 4: EpochEnd(4, 12)}
    look = Look(1, 0, 0, 12, 12, 12, tops=(Place(10, 4),), ends=ends, latest_epoch=4)
    assert [look.knows(epoch) for epoch in range(6)] == [False, False, True, False, True, False]


def test_without_an_answer_about_the_epoch_before_an_answer_is_no_entry() -> None:
    ends = {3: EpochEnd(3, 8), 5: EpochEnd(5, 12), 6: EpochEnd(6, 14)}
    look = Look(1, 0, 0, 12, 12, 14, ends=ends)
    assert [look.knows(epoch) for epoch in (5, 6)] == [False, True]


def test_a_transaction_has_ended_unless_one_that_began_there_or_below_is_listed() -> None:
    look = Look(1, 0, 0, 9, 4, 9, open={7: 4})
    assert [look.has_ended(7, offset) for offset in (3, 4, 5)] == [True, False, False]
    assert look.has_ended(8, 5) is True
    unasked = Look(1, 0, 0, 9, 4, 9, open=None)
    assert [unasked.has_ended(7, offset) for offset in (3, 4)] == [True, None]


def test_a_log_knows_an_epoch_of_which_its_look_says_so() -> None:
    look = Look(1, 0, 0, 12, 12, 12, entries=frozenset({3}))
    assert [look.knows(epoch) for epoch in (3, 4)] == [True, False]
