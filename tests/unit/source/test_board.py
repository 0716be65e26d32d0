from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parallax.model import IsolationLevel, ReadEvent, TopicPartition
from parallax.replica.client import PartitionMetadata, TopicMetadata, Watermarks
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.replica.places import Marks, Places
from parallax.source.board import Board, boards
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.source.planning import next_range
from parallax.source.survey import Surveyed

UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
PLACE = TopicPartition("orders", 0)

_small = st.integers(0, 4)
_marks = st.one_of(st.builds(Watermarks, _small, _small, _small, _small), st.just(UnknownTopic("no such topic")))
_recorded = st.builds(Recorded, _small, st.sampled_from(["A", "B", ""]), st.sampled_from(ReadEvent))


def board(topic_id: str = "A", brokers: tuple[int, ...] = (1,), partitions: int = 1) -> Board:
    placed = dict.fromkeys(range(partitions), PartitionMetadata(1, 0, brokers, brokers))
    return boards({"orders": TopicMetadata("orders", topic_id, placed)}, [UNCOMMITTED, COMMITTED], None)[brokers[0]]


@given(st.sampled_from(IsolationLevel), st.none() | _recorded, _marks, st.sampled_from(["A", ""]))
def test_a_reader_that_is_left_out_had_nothing_to_do(
    isolation: IsolationLevel, recorded: Recorded | None, marks: Watermarks | ReplicaError, topic_id: str
) -> None:
    one, reader = board(topic_id), Reader(int(isolation), 1, *PLACE)
    if recorded is not None:
        one.note(reader, recorded)
    said = Marks.of({PLACE: marks})
    log = Surveyed(said).log(PLACE)
    assert log is not None
    planned = next_range(reader, None, recorded, log, topic_id)
    if not one.busy(isolation, said):
        assert planned is not None
        assert planned.empty


def test_a_reader_at_the_end_of_its_log_rests_and_one_behind_it_does_not() -> None:
    one = board()
    one.note(Reader(0, 1, *PLACE), Recorded(10, "A", ReadEvent.OK))
    one.note(Reader(1, 1, *PLACE), Recorded(7, "A", ReadEvent.OK))
    said = Marks.of({PLACE: Watermarks(10, 8, 0, 10)})
    assert one.busy(UNCOMMITTED, said) == []
    assert one.busy(COMMITTED, said) == [0]


def test_of_a_log_that_nothing_was_said_of_nothing_follows() -> None:
    one = board(partitions=2)
    assert one.busy(UNCOMMITTED, Marks.of({TopicPartition("orders", 1): Watermarks(10, 10, 0, 10)})) == [1]


def test_the_reader_that_is_furthest_behind_is_the_lowest() -> None:
    one = board(partitions=2)
    for isolation, position in ((0, 10), (1, 7)):
        one.note(Reader(isolation, 1, *PLACE), Recorded(position, "A", ReadEvent.OK))
    assert one.lowest().tolist() == [7, -1]
    planned = [(Reader(isolation, 1, "orders", 1), end) for isolation, end in ((0, 5), (1, 4))]
    assert one.lowest(planned).tolist() == [7, 4]
    assert one.lowest(planned[:1]).tolist() == [7, -1]
    assert one.lowest().tolist() == [7, -1]


def test_a_place_is_found_by_its_number_whatever_the_order() -> None:
    places = Places([("b", 5), ("a", 0), ("b", 2), ("a", 1), ("b", 5)])
    assert list(places) == [("b", 5), ("b", 2), ("a", 0), ("a", 1)]
    assert places.at(0, np.array([2, 5, 3])).tolist() == [1, 0, -1]
    assert places.at(1, np.array([1, 0, 2, -1])).tolist() == [3, 2, -1, -1]
    assert places.among(Places([("a", 1), ("b", 5)])).tolist() == [1, -1, -1, 0]
