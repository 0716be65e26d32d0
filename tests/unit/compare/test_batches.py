"""Rows of the tables become observations by partition."""

from __future__ import annotations

from dataclasses import fields

import pytest

from parallax.compare.batches import VIEW_COLUMNS, progress_observations, view_observations
from parallax.compare.observations import EVENT_CODE, topic_id_code
from parallax.compare.results import from_json, to_json
from parallax.model import ReadEvent
from tests.unit.compare.arrow import as_views, progress_batch, progress_row, view_batch
from tests.unit.compare.history import Comparison, both, everywhere, record, tick


def test_rows_of_views_are_parted_by_partition_in_their_order() -> None:
    packed = {(o.topic, o.partition): o.rows for o in view_observations(view_batch()).each()}
    assert {key: rows.offset.tolist() for key, rows in packed.items()} == {
        ("a", 0): [0, 2],
        ("b", 1): [1],
        ("a", 1): [3],
    }
    progress = packed["a", 1]
    assert progress.high_watermark.tolist() == [7]
    assert progress.event.tolist() == [EVENT_CODE[ReadEvent.LOG_TRUNCATED]]
    assert progress.topic_id.tolist() == [topic_id_code("abc")]
    assert packed["a", 0].high_watermark.tolist() == [-1, -1]
    assert packed["a", 0].topic_id.tolist() == [0, 0]


@pytest.mark.parametrize("length", [1, 3])
def test_a_batch_of_one_partition_is_taken_as_it_is(length: int) -> None:
    row = dict.fromkeys(VIEW_COLUMNS, 1) | {"topic": "a", "partition": 4, "event": None, "topic_id": None}
    assert list(view_observations(as_views([])).each()) == []
    (observed,) = view_observations(as_views([row | {"offset": at} for at in range(length)])).each()
    assert (observed.topic, observed.partition) == ("a", 4)
    assert observed.rows.offset.tolist() == list(range(length))


@pytest.mark.parametrize("places", [[("a", 0), ("a", 1)], [("a", 0), ("b", 0)]])
def test_partitions_that_differ_in_topic_or_number_alone_are_parted(places: list[tuple[str, int]]) -> None:
    row = dict.fromkeys(VIEW_COLUMNS, 1) | {"event": None, "topic_id": None}
    batch = as_views([row | {"topic": topic, "partition": number} for topic, number in places])
    assert [(o.topic, o.partition, len(o.rows)) for o in view_observations(batch).each()] == [
        (*place, 1) for place in places
    ]


def test_progress_tells_no_open_transaction_from_an_unknown_list() -> None:
    policies = {1: "compact,delete", 2: "delete", 3: None}
    listed = [{"producer_id": 9, "start_offset": 4}]
    rows = [
        progress_row("t", 0, b, open_transactions=o, cleanup_policy=policies[b])
        for b, o in ((1, listed), (2, []), (3, None))
    ]
    (observed,) = progress_observations(progress_batch(rows)).each()
    assert observed.progress.described.tolist() == [True, True, False]
    assert observed.progress.compacted.tolist() == [1, 0, -1]
    assert observed.open_transactions.producer_id.tolist() == [9]
    assert observed.open_transactions.broker.tolist() == [1]
    assert sorted(set(observed.replica_sets.broker.tolist())) == [1, 2]


def test_progress_is_parted_by_partition_each_with_the_lists_of_its_own_rows() -> None:
    def opened(*transactions: tuple[int | None, int | None]) -> list[dict[str, int | None]]:
        return [{"producer_id": producer, "start_offset": start} for producer, start in transactions]

    rows = [
        progress_row("b", 0, 1, observed_at=5, replicas=[1, 2, 3], open_transactions=opened((7, 1), (8, 2))),
        progress_row("a", 0, 1, observed_at=6, replicas=[4], open_transactions=None),
        progress_row("b", 0, 2, observed_at=7, replicas=None, open_transactions=opened((9, 3))),
        progress_row("a", 1, 3, observed_at=8, replicas=[], open_transactions=opened((6, 4), (None, None))),
    ]
    rows[1] |= {"reachable": None, "high_watermark": None, "leader": None}
    assert list(progress_observations(progress_batch(rows[:0])).each()) == []
    made = {(o.topic, o.partition): o for o in progress_observations(progress_batch(rows)).each()}

    def lists(name: str) -> dict[tuple[str, int], list[tuple[int, ...]]]:
        parts = {at: getattr(o, name) for at, o in made.items()}
        return {
            at: list(zip(*(getattr(p, f.name).tolist() for f in fields(p)), strict=True)) for at, p in parts.items()
        }

    ticks = {
        at: list(zip(o.progress.broker.tolist(), o.progress.observed_at.tolist(), strict=True))
        for at, o in made.items()
    }
    assert ticks == {("a", 0): [(1, 6)], ("a", 1): [(3, 8)], ("b", 0): [(1, 5), (2, 7)]}
    assert lists("open_transactions") == {
        ("a", 0): [],
        ("a", 1): [(3, 8, 6, 4), (3, 8, -1, -1)],
        ("b", 0): [(1, 5, 7, 1), (1, 5, 8, 2), (2, 7, 9, 3)],
    }
    assert lists("replica_sets") == {("a", 0): [(6, 4)], ("a", 1): [], ("b", 0): [(5, 1), (5, 2), (5, 3)]}
    away = made["a", 0].progress
    assert (away.reachable.tolist(), away.high_watermark.tolist(), away.leader.tolist()) == ([False], [-1], [-1])


def test_suspects_and_coverage_survive_their_text() -> None:
    comparison = Comparison()
    wrong = {**record(0, "K", "V"), "content_hash": 5}
    good = record(0, "K", "V")
    comparison.feed(tick(0, everywhere(1)), both(1, [good], 1), both(2, [wrong], 1), both(3, [good], 1))
    assert comparison.last is not None
    result = comparison.last
    assert len(result.suspects) == 1
    assert from_json(to_json(result.suspects, result.coverage)) == (result.suspects, result.coverage)
