"""Messages of format v0 and v1 read as the batches that Kafka's cleaner makes of them."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from parallax.replica.decode import ContentHasher, Payload, decode, decode_slices
from parallax.replica.errors import CorruptBatch
from parallax.replica.fetch_response import PartitionAnswer
from parallax.replica.old_format import as_batches, is_old
from parallax.replica.requests import fetched_one
from parallax.replica.types import FetchPosition
from tests.unit.replica.batches import Batch, Record
from tests.unit.replica.old_messages import CODECS, ROWS, Row, dated, message, wrapped

HASHER = ContentHasher(bytes(range(16)))


def read(data: bytes) -> list[Row]:
    columns = decode(as_batches(memoryview(data)), hasher=HASHER, payload=Payload.FULL)
    assert columns.keys is not None
    assert columns.values is not None
    assert set(columns.producer_id.tolist()) | set(columns.leader_epoch.tolist()) <= {-1}
    rows = zip(columns.offset, columns.timestamp, columns.keys.to_pylist(), columns.values.to_pylist(), strict=True)
    return [(int(offset), int(time), key, value) for offset, time, key, value in rows]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_are_read(magic: int) -> None:
    data = b"".join(message(magic, *row) for row in ROWS)
    assert is_old(memoryview(data))
    assert read(data) == dated(magic, ROWS)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_compressed_sets_are_read_and_so_is_what_lies_around_them(magic: int, codec: int) -> None:
    data = message(magic, 2, 69, b"a", b"b") + wrapped(magic, codec, ROWS) + message(magic, 301, 73, b"c", b"d")
    assert read(data) == dated(magic, [(2, 69, b"a", b"b"), *ROWS, (301, 73, b"c", b"d")])


def test_a_set_that_the_broker_dated_gives_all_its_messages_that_time() -> None:
    data = wrapped(1, 1, ROWS, attributes=0x08, time=99)
    assert [time for _, time, _, _ in read(data)] == [99] * 4


@pytest.mark.parametrize("magic", [0, 1])
def test_what_another_implementation_writes_is_read(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 16)
    for at, (_, time, key, value) in enumerate(ROWS):
        builder.append(at, time, key, value)
    assert read(bytes(builder.build())) == dated(magic, [(at, *row[1:]) for at, row in enumerate(ROWS)])


def test_content_and_key_are_those_of_the_same_record_in_the_format_of_today() -> None:
    old = decode(as_batches(memoryview(message(1, 3, 7, b"k", b"v"))), hasher=HASHER)
    new = decode(Batch(3, [Record(b"k", b"v")], base_time=7).encode(), hasher=HASHER)
    for name in ("offset", "timestamp", "key_hash_hi", "key_hash_lo", "content_hash", "key_size", "value_size"):
        assert getattr(old, name).tolist() == getattr(new, name).tolist(), name


def test_batches_of_today_behind_old_messages_stay_as_they_are() -> None:
    data = message(1, 3, 7, b"k", b"v") + Batch(4, [Record(b"k")], epoch=-1).encode()
    assert [row[0] for row in read(data)] == [3, 4]


def test_a_message_that_is_cut_short_is_left_out_and_one_alone_is_no_batch() -> None:
    first, second = message(1, 3, 7, b"k", b"v"), message(1, 4, 7, b"k", b"v" * 99)
    assert [row[0] for row in read(first + second[:-1])] == [3]
    alone = as_batches(memoryview(second[:-1]))
    assert len(alone)  # so that a reader asks for more bytes
    assert read(bytes(alone)) == []


@pytest.mark.parametrize("at", [13, 20, -1])
def test_one_that_is_broken_is_corrupt_and_what_stands_in_front_of_it_is_read(at: int) -> None:
    broken = bytearray(message(0, 4, 0, b"key", b"value"))
    broken[at] ^= 1
    data = message(0, 3, 0, b"k", b"v") + bytes(broken)
    assert [row[0] for row in read(data)] == [3]
    with pytest.raises(CorruptBatch, match="message of format v0 at offset 4"):
        read(bytes(broken))


@pytest.mark.parametrize(
    "body",
    [
        message(1, 4, 0, None, None, 1),
        message(1, 4, 0, None, b"no gzip", 1),
        message(1, 4, 0, None, b"no lz4", 3),
        message(1, 4, 0, None, gzip.compress(b""), 1),
        message(1, 4, 0, None, gzip.compress(message(0, 0, 0, b"k", b"v")), 1),
        message(1, 4, 0, None, gzip.compress(message(1, 5, 0, b"k", b"v")), 1),
        message(1, 4, 0, None, gzip.compress(message(1, 0, 0, None, b"", 1)), 1),
        message(1, 4, 0, None, b"zstd", 4),
    ],
    ids=["null", "gzip", "lz4", "empty", "another format", "offsets", "nested", "codec"],
)
def test_a_compressed_set_that_kafka_would_refuse_is_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch, match="message of format v1 at offset 4"):
        read(body)


@given(st.binary(max_size=200), st.integers(0, 1))
def test_whatever_bytes_follow_a_message_is_read_whole(noise: bytes, magic: int) -> None:
    made = as_batches(memoryview(message(magic, 3, 0, b"k", b"v") + noise))
    assert next(decode_slices(made, hasher=HASHER)).offset.tolist() == [3]


def test_an_answer_of_a_broker_is_given_as_batches_of_today() -> None:
    answer = PartitionAnswer("old", 0, 0, 9, 9, 0)
    answer.records = memoryview(message(1, 3, 7, b"k", b"v"))
    shown = fetched_one(1, FetchPosition("old", 0, 3), answer)
    assert decode(shown.records, hasher=HASHER).offset.tolist() == [3]
