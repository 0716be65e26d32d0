from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse, ListOffsetsRequest, ListOffsetsResponse

from parallax.model import IsolationLevel, TopicPartition
from parallax.replica import looking, requests, topic_ids, versions
from parallax.replica.errors import NotHosted, ReplicaError, Throttled, Unauthorized, Unsupported
from parallax.replica.fetch_response import parse
from parallax.replica.places import Marks, Places
from parallax.replica.types import FetchPosition, Watermarks

_listed = ListOffsetsResponse.ListOffsetsTopicResponse
_fetched = FetchResponse.FetchableTopicResponse
_partition = _fetched.PartitionData
_offset = st.integers(0, 1 << 40)

_hosted = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8),
    st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True),
    min_size=1,
    max_size=4,
).map(lambda topics: [(topic, number) for topic, numbers in topics.items() for number in numbers])
_errors = st.sampled_from([0, 0, 0, 1, 3, 29])


def written(request: Any, version: int) -> bytes:
    request.message.API_VERSION = version
    request.message.with_header(correlation_id=7, client_id="parallax")
    return bytes(request.message.encode(framed=True, header=True))


def body(response: Any, version: int) -> memoryview:
    response.API_VERSION = version
    return memoryview(response.encode(framed=False, header=False))


@given(_hosted, st.sampled_from([4, 5, 6, 7, 8, 9]))
def test_a_request_for_offsets_is_what_kafka_python_would_send(hosted: list[tuple[str, int]], version: int) -> None:
    places, kind = Places(hosted), ListOffsetsRequest.ListOffsetsTopic
    theirs = ListOffsetsRequest(
        replica_id=-2,
        isolation_level=0,
        topics=[
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=n, current_leader_epoch=-1, timestamp=-4)
                    for t, n in hosted
                    if t == topic
                ],
            )
            for topic in places.topics
        ],
    )
    ours = looking.list_offsets(1, places, -4, versions.LIST_LOCAL_OFFSETS)
    assert written(ours, version) == written(requests.Request(theirs, ours.versions), version)


def ids_of(hosted: list[tuple[str, int]]) -> dict[str, str]:
    names = dict.fromkeys(topic for topic, _ in hosted)
    return {topic: topic_ids.text(bytes([*range(1, 16), at])) for at, topic in enumerate(names)}


@given(_hosted, st.sampled_from([11, 12, 13]), st.data())
def test_a_fetch_of_log_ends_is_the_same_as_a_fetch(hosted: list[tuple[str, int]], version: int, data: Any) -> None:
    ids = ids_of(hosted) if version >= 13 else {}
    places = Places(hosted, ids)
    ends = np.array(data.draw(st.lists(_offset, min_size=len(places), max_size=len(places))), np.int64)
    positions = [
        FetchPosition(*place, int(end), 1, topic_id=ids.get(place.topic, ""))
        for place, end in zip(places, ends, strict=True)
    ]
    theirs = requests.fetch(positions, isolation=IsolationLevel.READ_COMMITTED, max_bytes=1)
    assert looking.fetch_ends(1, places, ends, {}).versions == theirs.versions
    assert written(looking.fetch_ends(1, places, ends, {}), version) == written(theirs, version)


@given(_hosted, st.sampled_from([4, 7, 9]), st.data())
def test_offsets_are_read_as_they_were_answered(hosted: list[tuple[str, int]], version: int, data: Any) -> None:
    places = Places(hosted)
    said = {place: (data.draw(_errors), data.draw(_offset)) for place in places}
    topics = [
        _listed(
            name=topic,
            partitions=[
                _listed.ListOffsetsPartitionResponse(
                    partition_index=n, error_code=said[t, n][0], timestamp=-1, offset=said[t, n][1], leader_epoch=3
                )
                for t, n in reversed(places)
                if t == topic
            ],
        )
        for topic in data.draw(st.permutations(places.topics))
    ]
    answer = body(ListOffsetsResponse(throttle_time_ms=0, topics=topics), version)
    offsets, errors = looking.list_offsets(1, places, -1, versions.LIST_OFFSETS).message.parse(answer, version)
    for at, place in enumerate(places):
        code, offset = said[place]
        assert (at in errors) == (code != 0)
        assert offsets[at] == offset
    assert all(isinstance(errors[at], Unauthorized) for at, p in enumerate(places) if said[p][0] == 29)


_answers = st.builds(
    _partition,
    error_code=_errors,
    high_watermark=_offset,
    last_stable_offset=_offset,
    log_start_offset=_offset,
    aborted_transactions=st.one_of(
        st.none(),
        st.lists(st.builds(_partition.AbortedTransaction, producer_id=_offset, first_offset=_offset), max_size=2),
    ),
    preferred_read_replica=st.sampled_from([-1, -1, -1, 5]),
    records=st.sampled_from([b"", b"", None, b"records"]),
)


@given(_hosted, st.sampled_from([11, 12, 13]), st.data())
def test_a_look_says_what_the_answers_taken_one_by_one_say(
    hosted: list[tuple[str, int]], version: int, data: Any
) -> None:
    ids = ids_of(hosted)
    places = Places(hosted, ids)
    ends = np.arange(len(places)) * 100
    told = {place: data.draw(_answers) for place in data.draw(st.permutations(places)) if data.draw(st.integers(0, 9))}
    for (_, number), answer in told.items():
        answer.partition_index = number
    response = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,
        responses=[
            _fetched(
                topic=topic,
                topic_id=topic_ids.of(ids[topic]),
                partitions=[a for (t, _), a in told.items() if t == topic],
            )
            for topic in {t: None for t, _ in told}
        ],
    )
    raw = body(response, version)
    marks = looking.fetch_ends(1, places, ends, {}).message.parse(raw, version)
    positions = [
        FetchPosition(*place, int(end), 1, topic_id=ids[place.topic]) for place, end in zip(places, ends, strict=True)
    ]
    for at, one in enumerate(requests.fetched(1, positions, parse(raw, version))):
        seen = marks[places[at]]
        if one.error is not None:
            assert (type(seen), str(seen)) == (type(one.error), str(one.error))
        else:
            offsets = one.high_watermark, one.last_stable_offset, one.log_start_offset
            assert seen == Watermarks(*offsets, int(ends[at]))


def test_what_was_refused_before_is_not_asked_for_and_stays_refused() -> None:
    places, refused = Places([("t", 0), ("t", 1)]), {1: Unauthorized("no", topic="t", partition=1)}
    request = looking.fetch_ends(1, places, np.array([5, -1]), refused)
    sent = written(request, 12)
    assert (1 << 62).to_bytes(8, "big") in sent
    told = [_partition(partition_index=0, high_watermark=5, last_stable_offset=5, log_start_offset=0)]
    told.append(_partition(partition_index=1, error_code=1))
    marks = request.message.parse(body(FetchResponse(responses=[_fetched(topic="t", partitions=told)]), 12), 12)
    assert marks[TopicPartition("t", 1)] is refused[1]
    assert marks[TopicPartition("t", 0)] == Watermarks(5, 5, 0, 5)
    assert marks.log_end_offset.tolist() == [5, -1]


def test_an_answer_about_something_else_is_none() -> None:
    places = Places([("t", 0)])
    for name, number in (("t", 1), ("u", 0)):
        told = [_fetched(topic=name, partitions=[_partition(partition_index=number, high_watermark=5)])]
        with pytest.raises(ValueError, match="not asked for"):
            looking.fetch_ends(1, places, np.array([5]), {}).message.parse(body(FetchResponse(responses=told), 12), 12)


def test_what_an_answer_leaves_out_is_not_hosted() -> None:
    parsed = looking.fetch_ends(1, Places([("t", 0)]), np.array([5]), {}).message.parse
    assert isinstance(parsed(body(FetchResponse(responses=[]), 12), 12)[TopicPartition("t", 0)], NotHosted)


@pytest.mark.parametrize(("said", "kind"), [({"throttle_time_ms": 70}, Throttled), ({"error_code": 70}, ReplicaError)])
def test_what_concerns_the_broker_as_a_whole_is_returned_as_an_error(said: dict[str, int], kind: type) -> None:
    parsed = looking.fetch_ends(1, Places([("t", 0)]), np.array([5]), {}).message.parse
    assert isinstance(parsed(body(FetchResponse(responses=[], **said), 12), 12), kind)


def test_a_redirected_look_is_an_error() -> None:
    told = [_fetched(topic="t", partitions=[_partition(partition_index=0, high_watermark=5, preferred_read_replica=2)])]
    parsed = looking.fetch_ends(1, Places([("t", 0)]), np.array([5]), {}).message.parse
    assert isinstance(parsed(body(FetchResponse(responses=told), 12), 12)[TopicPartition("t", 0)], Unsupported)


def test_marks_of_another_mapping_are_its_columns() -> None:
    refused = Unauthorized("no", topic="t", partition=1)
    marks = Marks.of({TopicPartition("t", 1): refused, TopicPartition("t", 0): Watermarks(5, 4, 0, 6)})
    assert dict(marks) == {("t", 1): refused, ("t", 0): Watermarks(5, 4, 0, 6)}
    assert marks.high_watermark.tolist() == [-1, 5]
    assert Marks.of(marks) is marks


def test_topics_go_by_name_where_one_of_them_has_no_id() -> None:
    known = topic_ids.text(bytes(range(16)))
    places = Places([("t", 0), ("u", 0)], {"t": known})
    assert looking.fetch_ends(1, places, np.array([5, 5]), {}).versions == versions.FETCH
    positions = [FetchPosition("t", 0, 5, topic_id=known), FetchPosition("u", 0, 5)]
    fetch = requests.fetch(positions, isolation=IsolationLevel.READ_COMMITTED, max_bytes=1)
    assert fetch.versions == versions.FETCH
    assert b"\0\1t" in written(fetch, 11)
