"""What one log says of a place, and what several say together."""

from __future__ import annotations

import pytest

from parallax.evidence.atoms import EpochEnd, Place, has_entry
from parallax.evidence.log import Belongs, Log, Logs

YES, NO, PERHAPS = Belongs.YES, Belongs.NO, Belongs.PERHAPS
PLACE = Place(20, 4)


def log(end: int | None, log_end: int = 100, *held: Place, knows: bool = True) -> Log:
    return Log(log_end, {4: end}, frozenset({4} if knows else ()), frozenset(held))


@pytest.mark.parametrize(
    ("one", "belongs", "said"),
    [
        (Log(100), PERHAPS, PERHAPS),
        (log(20), NO, NO),
        (log(21), PERHAPS, YES),
        (log(21, 100, PLACE), YES, YES),
        (log(21, 100, Place(20, 5)), PERHAPS, YES),
        (log(100), YES, YES),
        (log(21, 100, PLACE, knows=False), PERHAPS, PERHAPS),
        (log(20, 20), PERHAPS, PERHAPS),
        (log(15, 20), NO, NO),
        (log(None), NO, NO),
        (log(None, 20), PERHAPS, PERHAPS),
    ],
    ids=[
        "not asked",
        "a newer one begins there",
        "begins above, which may be too high",
        "a batch of it is there",
        "a batch of another is there",
        "it is the last",
        "it has no entry",
        "it ends there, or is behind",
        "a newer one begins before its end",
        "none as new, and it goes on",
        "none as new, and it is behind",
    ],
)
def test_a_log_holds_the_place_whose_epoch_it_holds_there_or_beyond(one: Log, belongs: Belongs, said: Belongs) -> None:
    assert one.of(PLACE) is belongs
    assert one.of(PLACE, at_its_word=True) is said


def test_what_a_log_held_is_lost_if_its_epoch_has_no_entry_or_another_has_begun() -> None:
    assert log(20).has_lost(PLACE)
    assert log(30, knows=False).has_lost(PLACE)
    assert not log(21).has_lost(PLACE)
    assert not log(20, 20).has_lost(PLACE)
    assert not Log(100).has_lost(PLACE), "it was not asked"


def test_a_log_has_an_entry_of_an_epoch_that_ends_above_the_one_before() -> None:
    ends = {0: EpochEnd(0, 4), 1: EpochEnd(1, 4), 2: EpochEnd(2, 9), 3: EpochEnd(2, 9), 5: EpochEnd(5, 12), 6: None}
    assert [has_entry(ends, epoch) for epoch in range(8)] == [True, False, True, False, False, True, False, False]


def logs(*each: Log, leader: int = 1, in_sync: tuple[int, ...] = (), whole: bool = True) -> Logs:
    return Logs(dict(enumerate(each, 1)), leader, frozenset(in_sync), whole)


def test_any_log_that_reached_an_epoch_as_new_may_know_that_another_leader_wrote_there() -> None:
    assert logs(log(30), log(15)).of(PLACE, 1) is NO
    assert logs(log(30), log(15)).of(PLACE, 2) is NO
    assert logs(log(30), log(None)).of(PLACE, 1) is YES, "it may be behind the others"
    assert logs(log(30), log(None)).of(PLACE, 2) is NO


def test_the_accused_the_leader_or_one_in_sync_is_seen_to_hold_it() -> None:
    unknowing = log(30, knows=False)
    assert logs(unknowing, unknowing, log(30)).of(PLACE, 2) is PERHAPS
    assert logs(unknowing, unknowing, log(30), in_sync=(3,)).of(PLACE, 2) is YES
    assert logs(log(30), unknowing, unknowing).of(PLACE, 2) is YES
    assert logs(unknowing, log(30), unknowing).of(PLACE, 2) is YES


def test_where_one_is_away_that_may_know_better_a_batch_is_wanted() -> None:
    assert logs(log(30), whole=False).of(PLACE, 1) is PERHAPS
    assert logs(log(30, 100, PLACE), whole=False).of(PLACE, 1) is YES


def test_what_was_shown_before_was_in_the_leaders_log() -> None:
    behind = logs(log(20, 20), log(100))
    assert behind.of(PLACE, 2) is YES
    assert behind.of(PLACE, 2, before=True) is NO
    assert behind.leader_lacks(PLACE)
    assert not logs(log(21, 21), log(100)).leader_lacks(PLACE)
    assert not logs(log(20, 20), log(100), leader=3).leader_lacks(PLACE), "it did not answer"


def test_what_nobody_says_anything_of_counts_as_it_was_shown() -> None:
    assert logs(Log(100), Log(100)).counts(PLACE, 1)
    assert not logs(log(30, knows=False), Log(100)).counts(PLACE, 1)
    assert logs(log(30), Log(100)).counts(PLACE, 2)
    assert not logs(log(20), Log(100)).counts(PLACE, 2)


def test_what_was_shown_before_counts_only_if_the_leaders_log_still_reaches_it() -> None:
    behind = logs(log(20, 20), log(100))
    assert behind.counts(PLACE, 2)
    assert not behind.counts(PLACE, 2, before=True)
    assert logs(log(21, 21), log(100)).counts(PLACE, 2, before=True)


def test_all_hold_it_where_each_is_seen_to_and_none_where_each_is_another() -> None:
    assert logs(log(100), log(30, 100, PLACE)).all_hold(PLACE)
    assert not logs(log(100), log(30)).all_hold(PLACE)
    assert not logs(log(100), whole=False).all_hold(PLACE)
    assert logs(log(20), log(15)).none_holds(PLACE)
    assert not logs(log(20), log(20, 20)).none_holds(PLACE)
