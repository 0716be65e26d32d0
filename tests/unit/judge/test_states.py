"""Who is wrong, right or neither in the worlds of a key: each rule with the case next to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest

from parallax.evidence.atoms import End, Place
from parallax.judge.worlds import Component, Record, ShownRecord, ShownRecords, Worlds, worlds_of
from parallax.model import UNKNOWN

COMMIT, ABORT, OPEN = End.COMMIT, End.ABORT, End.OPEN
GONE = None


def there(offset: int, value: int | None = 1, end: End | int = COMMIT) -> Record:
    """A record of the current log."""
    return Record(Place(offset, 0), value, end)


def shown(offset: int, value: int | None = 1, outcome: End | None = None, *, epoch: int = 0) -> ShownRecord:
    """A record that broker 1 shows; of a transaction if it has an outcome."""
    return ShownRecord(Place(offset, epoch), value, outcome is not None, outcome)


class Said(NamedTuple):
    """What the only world says of broker 1."""

    wrong: bool
    unsaid: bool


RIGHT, WRONG, UNSAID = Said(False, False), Said(True, False), Said(False, True)


def worlds(
    records: Iterable[Record],
    shows: Iterable[ShownRecord],
    *,
    committed: bool = True,
    bound: int = 9,
    full: int = 9,
    start: int = 0,
    lost_below: int = UNKNOWN,
    gaps: tuple[int, ...] = (),
) -> Worlds:
    one = ShownRecords(1, bound, tuple(shows), lost_below)
    found = worlds_of(Component(committed, tuple(records), (), (), gaps, (one,), full, start))
    assert found is not None
    return found


def said(found: Worlds) -> Said:
    (world,) = found.distinct
    return Said(1 in world.wrong, 1 in world.unsaid)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(
    ("records", "shows", "how"),
    [
        ([there(4)], [shown(4)], RIGHT),
        ([there(4)], [], WRONG),
        ([there(4), there(6, 2)], [shown(4)], WRONG),
        ([there(4), there(6, GONE)], [shown(4)], WRONG),
        ([there(4), there(6, GONE)], [], RIGHT),
        ([there(4), there(6, GONE)], [shown(6, GONE), shown(4)], RIGHT),
        ([there(3, GONE), there(6, GONE)], [shown(3, GONE)], RIGHT),
        ([there(3, GONE), there(6)], [shown(3, GONE)], WRONG),
        ([], [], RIGHT),
    ],
    ids=[
        "the newest record",
        "nothing, though there is a value",
        "an older value",
        "a deleted value",
        "nothing of a deleted key",
        "the deletion itself",
        "an older deletion of a deleted key",
        "an older deletion of a key that was written again",
        "nothing of a key that never was",
    ],
)
def test_who_shows_what_a_world_shows_is_right(
    records: list[Record], shows: list[ShownRecord], how: Said, committed: bool
) -> None:
    assert said(worlds(records, shows, committed=committed)) == how


@pytest.mark.parametrize(
    ("records", "shows", "how"),
    [
        ([there(2)], [shown(2, epoch=1)], UNSAID),
        ([there(2, 2)], [shown(2, epoch=1)], WRONG),
        ([there(3)], [shown(2, epoch=1)], WRONG),
        ([], [shown(2, epoch=1)], WRONG),
        ([], [shown(2, GONE, epoch=1)], UNSAID),
        ([there(4, GONE)], [shown(2, GONE, epoch=1)], UNSAID),
        ([there(4)], [shown(2, GONE, epoch=1)], WRONG),
        ([there(4, GONE)], [shown(2, epoch=1)], WRONG),
    ],
    ids=[
        "the same was written again there",
        "another value is there",
        "the same was written elsewhere",
        "a value of a key that never was",
        "a deletion of a key that never was",
        "a deletion of a deleted key",
        "a deletion of a key that has a value",
        "a value of a deleted key",
    ],
)
def test_who_shows_a_record_of_another_log_is_wrong_unless_the_current_log_says_the_same(
    records: list[Record], shows: list[ShownRecord], how: Said
) -> None:
    assert said(worlds(records, shows)) == how


def test_what_lies_below_a_log_start_may_be_deleted_or_not() -> None:
    assert [said(worlds([there(2)], [shown(2)], start=start)) for start in (2, 3)] == [RIGHT, UNSAID]
    assert [said(worlds([], [], start=start)) for start in (0, 1)] == [RIGHT, UNSAID]
    assert said(worlds([there(4)], [], start=3)) == WRONG


def test_who_has_lost_its_head_is_judged_by_what_lies_above() -> None:
    assert [said(worlds([there(4)], [], lost_below=below)) for below in (UNKNOWN, 4, 5)] == [WRONG, WRONG, UNSAID]
    assert said(worlds([], [], lost_below=5)) == UNSAID
    assert said(worlds([there(4)], [shown(4)], lost_below=4)) == RIGHT
    assert said(worlds([there(4), there(6, 2)], [shown(4)], lost_below=4)) == WRONG


@pytest.mark.parametrize(
    ("offset", "end", "full", "how"),
    [(5, COMMIT, 6, UNSAID), (5, COMMIT, 5, WRONG), (5, OPEN, 6, WRONG), (5, ABORT, 6, WRONG)],
    ids=["cleaners may have come there", "they have not", "it is open", "it was aborted"],
)
def test_who_is_behind_is_not_wrong_in_what_was_written_again_where_cleaners_may_have_come(
    offset: int, end: End, full: int, how: Said
) -> None:
    again = there(offset, 2, end)
    assert said(worlds([there(1), again], [], committed=False, bound=3, full=full)) == how
    assert said(worlds([there(1), again], [shown(1)], committed=False, bound=3, full=full)) == UNSAID


def test_who_is_behind_is_not_called_right() -> None:
    for bound, how in ((8, UNSAID), (9, RIGHT)):
        assert said(worlds([there(4)], [shown(4)], bound=bound)) == how


def test_read_committed_consumers_get_what_a_replica_shows_as_committed() -> None:
    older, ended = there(2), {end: there(4, 2, end) for end in (COMMIT, ABORT)}
    for outcome, right in ((COMMIT, COMMIT), (ABORT, ABORT), (COMMIT, ABORT), (ABORT, COMMIT)):
        found = worlds([older, ended[right]], [shown(4, 2, outcome), shown(2)])
        assert said(found) == (RIGHT if outcome is right else WRONG)
    assert said(worlds([older, ended[ABORT]], [shown(4, 2, COMMIT)])) == WRONG


@pytest.mark.parametrize(
    ("records", "shows", "how"),
    [
        ([there(2), there(4, 2, ABORT)], [shown(4, 2, COMMIT), shown(2)], UNSAID),
        ([there(4, 2, ABORT)], [shown(4, 2, ABORT)], UNSAID),
        ([there(4, 2, ABORT), there(6)], [shown(4, 2, ABORT)], WRONG),
        ([there(4, 2, ABORT), there(6, GONE)], [shown(4, 2, ABORT)], RIGHT),
        ([there(4, GONE, ABORT), there(6, GONE)], [shown(4, GONE, ABORT)], UNSAID),
        ([there(4, GONE, ABORT), there(6)], [shown(4, GONE, ABORT)], WRONG),
        ([there(2), there(4, 2, COMMIT)], [shown(4, 2, ABORT), shown(2)], RIGHT),
        ([there(2), there(4, 2, OPEN)], [shown(4, 2, ABORT), shown(2)], RIGHT),
        ([there(2), there(4, 2, OPEN)], [shown(2)], WRONG),
    ],
    ids=[
        "above the newest record",
        "of a key that has no other record",
        "below a newer value",
        "below a deletion",
        "an aborted deletion below a deletion",
        "an aborted deletion below a value",
        "a record that was committed in truth",
        "a record that is open in truth",
        "an open record is lost",
    ],
)
def test_read_uncommitted_consumers_may_get_an_aborted_record_or_not(
    records: list[Record], shows: list[ShownRecord], how: Said
) -> None:
    assert said(worlds(records, shows, committed=False)) == how


@pytest.mark.parametrize(
    ("records", "shows", "explained"),
    [
        ([there(4)], [], False),
        ([there(4, 1, COMMIT)], [shown(4, 1, ABORT)], True),
        ([there(2), there(4), there(6)], [shown(4), shown(2, 1, ABORT)], False),
        ([there(2, 1, ABORT), there(4, 1, ABORT)], [shown(4, 1, ABORT), shown(2, 1, COMMIT)], True),
        ([there(4, 1, ABORT), there(6)], [shown(4, 1, ABORT)], False),
        ([there(6)], [shown(4, 1, COMMIT, epoch=1)], False),
        ([there(4)], [shown(4)], True),
    ],
    ids=[
        "it lacks a value",
        "it shows the newest record as aborted",
        "consumers get nothing of what it shows as aborted",
        "it shows the next one as committed",
        "it shows as aborted what was aborted",
        "it shows a record of another log",
        "nobody is wrong",
    ],
)
def test_a_wrong_outcome_explains_who_is_wrong_if_consumers_get_the_record_by_it(
    records: list[Record], shows: list[ShownRecord], explained: bool
) -> None:
    assert worlds(records, shows).explained is explained


def test_a_wrong_outcome_explains_nothing_to_read_uncommitted_consumers() -> None:
    records, shows = [there(2), there(6)], [shown(2, 1, ABORT)]
    assert worlds(records, shows).explained
    assert not worlds(records, shows, committed=False).explained


def test_a_deletion_that_nobody_was_shown_makes_a_value_wrong_and_its_absence_unsaid() -> None:
    found = worlds([there(4)], [shown(4)], gaps=(6,))
    assert [Said(1 in world.wrong, 1 in world.unsaid) for world in found.distinct] == [RIGHT, WRONG]
    assert found.choices == 2
    assert found.explained, "only worlds without one decide that"
    lacking = worlds([there(4)], [], gaps=(6,))
    assert [Said(1 in world.wrong, 1 in world.unsaid) for world in lacking.distinct] == [WRONG, UNSAID]
    assert not lacking.explained
    behind = worlds([there(4)], [], gaps=(6,), bound=6)
    assert [Said(1 in world.wrong, 1 in world.unsaid) for world in behind.distinct] == [WRONG, UNSAID]
    several = worlds([there(4)], [shown(4)], gaps=(2, 6, 7))
    assert several.choices == 8
    assert len(several.distinct) == 2
