"""Rows of many partitions, side by side."""

from __future__ import annotations

import numpy as np

from parallax.compare.gathered import Gathered
from parallax.compare.joint import MANY_ROWS
from parallax.compare.observations import Observations
from parallax.compare.segments import bucket_of
from parallax.compare.together import Gathering
from parallax.model import TopicPartition
from tests.unit.compare.history import RU, Row, everywhere, record, shown, tick

PLACES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]


def rows_of(place: TopicPartition, start: int, end: int) -> list[Row]:
    return shown(RU, 1, [record(n, f"{place}", "V") for n in range(start, end)], end)


def gathered(*parts: tuple[TopicPartition, int, int]) -> Gathered:
    made = [Gathered.one(Observations.of(*place, rows_of(place, start, end))) for place, start, end in parts]
    return Gathered.concat(made, PLACES)


def offsets(found: Gathered) -> dict[tuple[str, int], list[int]]:
    return {(one.topic, one.partition): one.rows.offset.tolist() for one in found.each()}


def test_each_partition_has_its_rows_in_the_order_in_which_they_came() -> None:
    a, _, b = PLACES
    found = gathered((b, 5, 6), (a, 0, 2), (b, 6, 7))
    assert found.counts.tolist() == [3, 0, 4]
    assert offsets(found) == {a: [0, 1, 2], b: [5, 6, 6, 7]}
    assert found.ordered().at[0].tolist() == [0, 3, 3, 7]


def test_those_of_some_partitions_are_left_and_all_of_them_are_what_was() -> None:
    a, _, b = PLACES
    found = gathered((b, 5, 6), (a, 0, 2))
    assert found.only(np.ones(3, np.bool_)) is found
    only = found.only(np.array([False, True, True]))
    assert only.places == PLACES[1:]
    assert offsets(only) == {b: [5, 6]}


def test_progress_keeps_its_lists() -> None:
    ticks = [Observations.of(*place, tick(n, everywhere(n), open={2: [(n, 1)]})) for n, place in enumerate(PLACES, 1)]
    found = Gathered.concat([Gathered.one(one) for one in reversed(ticks)], PLACES)
    for before, after in zip(ticks, found.each(), strict=True):
        for name in ("progress", "open_transactions", "replica_sets"):
            left, right = getattr(before, name), getattr(after, name)
            assert all(getattr(left, c).tolist() == getattr(right, c).tolist() for c in left.dtypes())


def test_a_partition_of_many_rows_is_kept_by_itself_in_their_order() -> None:
    a, c, b = PLACES
    gathering = Gathering(4, frozenset(range(4)))
    for part in ((a, 0, 3), (b, 0, MANY_ROWS), (c, 0, 1), (b, MANY_ROWS, MANY_ROWS + 2)):
        gathering.take(gathered(part))
    seen = gathering.seen({})
    (parts,) = (places[b] for places in seen.many.values())
    assert Observations.concat(parts).rows.offset.tolist() == [*range(MANY_ROWS + 1), *range(MANY_ROWS, MANY_ROWS + 3)]
    assert sorted(seen.few.places) == [a, c]
    assert list(seen.buckets) == [bucket_of(*place, 4) for place in seen.few.places] == sorted(seen.buckets)
    assert seen.touched == sorted({bucket_of(*place, 4) for place in PLACES})


def test_a_task_wants_the_partitions_of_its_buckets_alone() -> None:
    mine = bucket_of("a", 0, 4)
    gathering = Gathering(4, frozenset({mine}))
    assert [gathering.wants(*place) for place in PLACES] == [bucket_of(*place, 4) == mine for place in PLACES]
