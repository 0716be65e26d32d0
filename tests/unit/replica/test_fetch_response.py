from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from parallax.replica import topic_ids
from parallax.replica.fetch_response import parse

_offset = st.integers(-1, 2**62)
_topic = FetchResponse.FetchableTopicResponse
_partition = _topic.PartitionData
_aborted = st.builds(_partition.AbortedTransaction, producer_id=_offset, first_offset=_offset)
_partitions = st.builds(
    _partition,
    partition_index=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 120),
    high_watermark=_offset,
    last_stable_offset=_offset,
    log_start_offset=_offset,
    aborted_transactions=st.none() | st.lists(_aborted, max_size=3),
    preferred_read_replica=st.integers(-1, 9),
    records=st.none() | st.binary(max_size=200),
)
_ids = st.uuids()
_responses = st.builds(
    FetchResponse,
    throttle_time_ms=st.integers(0, 1000),
    error_code=st.integers(0, 120),
    session_id=st.just(0),
    responses=st.lists(
        st.builds(_topic, topic=st.text(max_size=20), topic_id=_ids, partitions=st.lists(_partitions, max_size=3)),
        max_size=3,
    ),
)


def encoded(response: Any, version: int) -> memoryview:
    return memoryview(bytes(response.encode(version=version)))


@given(_responses, st.sampled_from([11, 12, 13]))
def test_an_answer_is_read_as_kafka_python_wrote_it(response: Any, version: int) -> None:
    answer = parse(encoded(response, version), version)
    assert (answer.throttle_time_ms, answer.error_code) == (response.throttle_time_ms, response.error_code)
    topics = [
        ("", topic_ids.text(topic.topic_id.bytes)) if version >= 13 else (topic.topic, "")
        for topic in response.responses
    ]
    written = [(said, p) for said, topic in zip(topics, response.responses, strict=True) for p in topic.partitions]
    assert len(answer.partitions) == len(written)
    for got, (topic, p) in zip(answer.partitions, written, strict=True):
        assert ((got.topic, got.topic_id), got.partition, got.error_code) == (topic, p.partition_index, p.error_code)
        assert (got.high_watermark, got.last_stable_offset) == (p.high_watermark, p.last_stable_offset)
        assert (got.log_start_offset, got.preferred_read_replica) == (p.log_start_offset, p.preferred_read_replica)
        listed = [[a.producer_id, a.first_offset] for a in p.aborted_transactions or []]
        assert got.aborted.tolist() == listed
        assert got.aborted.shape == (len(listed), 2)
        assert bytes(got.records) == (p.records or b"")


def test_the_diverging_epoch_is_read() -> None:
    partition = _partition(partition_index=0, diverging_epoch=_partition.EpochEndOffset(epoch=3, end_offset=17))
    response = FetchResponse(responses=[_topic(topic="t", partitions=[partition])], version=12)
    assert parse(encoded(response, 12), 12).partitions[0].diverging_epoch == (3, 17)


def test_records_are_not_copied() -> None:
    response = FetchResponse(responses=[_topic(topic="t", partitions=[_partition(records=b"records")])], version=11)
    body = memoryview(bytearray(encoded(response, 11)))
    records = parse(body, 11).partitions[0].records
    body[:] = bytes(len(body))
    assert bytes(records) == bytes(7)


@given(_responses, st.sampled_from([11, 12, 13]), st.data())
def test_a_cut_or_garbled_answer_raises_and_never_reads_beyond(
    response: Any, version: int, data: st.DataObject
) -> None:
    body = bytearray(encoded(response, version))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises((ValueError, struct.error)):
        parse(memoryview(body[:cut]), version)
    body[cut] ^= data.draw(st.integers(1, 255))
    with suppress(ValueError, struct.error):
        parse(memoryview(body), version)
