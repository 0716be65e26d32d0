"""Upkeep may take out only what nothing is open about."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.alerting.settled import settled
from parallax.compare.suspect import DeferredRange, UnreadRange
from parallax.model import TopicPartition, UnknownReason
from parallax.views.settled import Settled
from tests.builders.coverage import broker as replica
from tests.builders.coverage import coverage

PLACE = TopicPartition("orders", 0)


def of(**fields: Any) -> Settled | None:
    brokers = [replica(1), replica(2, log_start_offset=7)]
    whole: dict[str, Any] = {"compared_up_to": (90, 80), "brokers": brokers, "unknown": {}, "candidates": 0}
    return settled([coverage(*PLACE, **(whole | fields))], ()).get(PLACE)


def test_a_partition_is_settled_as_far_as_both_levels_were_compared() -> None:
    assert of() == Settled(frozenset({1, 2}), 80)
    assert of(compared_up_to=(-1, 80)) == Settled(frozenset({1, 2}), -1)


@pytest.mark.parametrize("fields", [{"waits_from": (40, 70)}, {"waits_from": (-1, 40)}, {"withheld_from": 40}])
def test_what_waits_for_a_verdict_or_may_be_read_again_is_not_settled(fields: dict[str, Any]) -> None:
    assert of(**fields) == Settled(frozenset({1, 2}), 40)


@pytest.mark.parametrize("fields", [{"candidates": 1}, {"deferred": (DeferredRange(0, 3, 9),)}, {"error": "broken"}])
def test_nothing_is_settled_where_an_absence_waits_or_rows_were_not_compared(fields: dict[str, Any]) -> None:
    assert of(**fields) is None


def test_ranges_that_are_unknown_are_left_out() -> None:
    unread = UnreadRange(0, 3, 9, UnknownReason.BEFORE_FIRST_READING, 1)
    assert of(unread=(unread,)) == Settled(frozenset({1, 2}), 80, ((3, 9),))
    apart = {UnknownReason.LOG_START_DIFFERS: (7, 7)}
    assert of(unknown=apart) == Settled(frozenset({1, 2}), 80, ((0, 7),))


def test_nothing_is_settled_where_a_finding_or_a_suspect_is_open() -> None:
    both = [coverage("orders", 0), coverage("orders", 1)]
    assert set(settled(both, {PLACE})) == {TopicPartition("orders", 1)}
