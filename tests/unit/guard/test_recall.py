from __future__ import annotations

from pathlib import Path

import pytest

from parallax.guard.absences import Absence, Unclear
from parallax.guard.clock import Clock
from parallax.guard.recall import recall
from parallax.model import TopicPartition
from parallax.views.tables import create_tables
from tests.unit.guard.looking import HOUR, START, clock, tick
from tests.unit.guard.recording import ALL, REST, history, write


def recalled(storage: Path, now: int) -> Clock:
    known = clock()
    recall(str(storage), known, START + now)
    return known


def only(known: Clock) -> Absence:
    (absence,) = known.absences()
    return absence


def test_a_clock_that_starts_knows_the_bound_of_an_absence_that_it_did_not_see_begin(tmp_path: Path) -> None:
    ticks = history(away_from=10 * 60_000, until=30 * 60_000)
    write(tmp_path, *ticks)
    live = clock()
    for one in ticks:
        live.observe(one)
    assert only(recalled(tmp_path, HOUR)).bound_ms == only(live).bound_ms


@pytest.mark.parametrize("minutes", [12, 90], ids=["a short outage", "one that is longer than looks are kept"])
def test_a_clock_that_starts_knows_the_bounds_of_all_partitions_whatever_was_seen_of_others(
    tmp_path: Path, minutes: int
) -> None:
    of_each = [TopicPartition("orders", n) for n in range(3)]
    each = [history(away_from=5 * 60_000, until=minutes * 60_000, place=place) for place in of_each]
    # Of one nothing has been written for long, so that nothing was recorded of it either.
    each.append(history(away_from=HOUR, until=3 * 60_000, place=TopicPartition("idle", 0)))
    write(tmp_path, *(one for ticks in each for one in ticks))
    live = clock()
    for at in zip(*each[:3], strict=True):
        live.observe([look for one in at for look in one])
    known = recalled(tmp_path, 3 * HOUR)
    bounds = {one.place: one.bound_ms for one in live.absences()}
    assert {one.place: one.bound_ms for one in known.absences()} == bounds
    assert len(bounds) == 3
    known.observe(tick(3 * HOUR, {1: 200, 2: None, 3: 200}, REST, place=of_each[0]))
    assert {one.place: one.bound_ms for one in known.absences()} == bounds, "the others are looked at in turn"


def test_it_goes_on_from_there(tmp_path: Path) -> None:
    ticks = history(away_from=10 * 60_000, until=30 * 60_000)
    write(tmp_path, *ticks)
    known = recalled(tmp_path, HOUR)
    before = only(known).bound_ms
    known.observe(tick(HOUR // 2, {1: 90, 2: None, 3: 90}, REST))
    assert only(known).bound_ms == before
    (late,) = known.observe(tick(2 * HOUR, {1: 90, 2: 90, 3: 90}, ALL))
    assert late.broker == 2


def test_an_outage_that_began_while_nothing_was_recorded_counts_from_the_last_look_before(tmp_path: Path) -> None:
    write(tmp_path, *history(away_from=HOUR, until=10 * 60_000))
    known = recalled(tmp_path, HOUR)
    known.observe(tick(HOUR // 2, {1: 90, 2: None, 3: 90}, REST))
    assert only(known).since_ms == START + 9 * 60_000 - 1_000
    assert only(known).unclear is None


def test_a_retention_that_was_lower_meanwhile_is_remembered(tmp_path: Path) -> None:
    away = history(away_from=10 * 60_000, until=30 * 60_000)
    low = tick(31 * 60_000, {1: 90, 2: None, 3: 90}, REST, retention=HOUR // 4)
    high = tick(40 * 60_000, {1: 90, 2: None, 3: 90}, REST)
    write(tmp_path, *away, low, high)
    assert only(recalled(tmp_path, HOUR)).retention_ms == HOUR // 4


def test_what_was_recorded_of_another_topic_of_that_name_does_not_count(tmp_path: Path) -> None:
    old = history(away_from=HOUR, until=5 * 60_000)
    new = tick(6 * 60_000, {1: 5, 2: None, 3: 5}, REST, topic_id="b")
    write(tmp_path, *old, new)
    assert only(recalled(tmp_path, HOUR)).unclear is Unclear.BEFORE_WATCH


def test_a_row_that_is_dated_in_the_future_counts_from_now(tmp_path: Path) -> None:
    write(tmp_path, *history(away_from=HOUR, until=10 * 60_000))
    known = recalled(tmp_path, 4 * 60_000)
    known.observe(tick(5 * 60_000, {1: 90, 2: None, 3: 90}, REST))
    assert only(known).since_ms <= START + 4 * 60_000


@pytest.mark.parametrize("create", [False, True])
def test_nothing_recorded_is_nothing_known(tmp_path: Path, create: bool) -> None:
    if create:
        create_tables(str(tmp_path))
    assert recalled(tmp_path, 0).absences() == []


def test_what_was_read_until_the_recording_stopped_is_told_and_nothing_else(tmp_path: Path) -> None:
    gone, kept = TopicPartition("gone", 0), TopicPartition("kept", 0)
    left = [tick(0, dict.fromkeys(ALL, 10), ALL, place=gone), *history(HOUR, 20 * 60_000, place=kept)]
    denied = tick(19 * 60_000, dict.fromkeys(ALL), ALL, place=TopicPartition("deleted", 0))
    assert recall(str(tmp_path), clock(), START) == frozenset()
    write(tmp_path, *left, denied)
    assert recall(str(tmp_path), clock(), START + HOUR) == {kept}
