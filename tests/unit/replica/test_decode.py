from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from dataclasses import replace

import crc32c
import nacl.bindings as nacl
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from parallax.model import RowKind
from parallax.replica import kernels
from parallax.replica.decode import Columns, ContentHasher, Payload, decode, decode_slices
from parallax.replica.errors import CorruptBatch, ReplicaError, Unsupported
from parallax.replica.inflate import Inflater

from .batches import (
    APPEND_TIME,
    CONTROL,
    HORIZON,
    TRANSACTIONAL,
    Batch,
    Record,
    compress,
    java_text,
    logs,
    marker,
    sized,
    varint,
)

HASHER = ContentHasher(bytes(range(16)))
MASK = (1 << 64) - 1


def decoded(*batches: Batch, **options: object) -> Columns:
    data = b"".join(batch.encode() for batch in batches)
    return decode(data, **{"hasher": HASHER, "payload": Payload.FULL, **options})  # type: ignore[arg-type]


def expected_rows(batches: list[Batch]) -> list[tuple[object, ...]]:
    rows = []
    for batch in batches:
        for record in batch.records:
            time = batch.max_time if batch.flags & APPEND_TIME else batch.base_time + record.time_delta
            rows.append(
                (
                    batch.base + record.delta,
                    time,
                    batch.epoch,
                    batch.producer,
                    batch.producer_epoch,
                    bool(batch.flags & TRANSACTIONAL),
                    record.key,
                    record.value,
                    record.header_bytes,
                )
            )
    return rows


def actual_rows(columns: Columns) -> list[tuple[object, ...]]:
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.headers is not None
    return list(
        zip(
            columns.offset.tolist(),
            columns.timestamp.tolist(),
            columns.leader_epoch.tolist(),
            columns.producer_id.tolist(),
            columns.producer_epoch.tolist(),
            columns.transactional.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            strict=True,
        )
    )


@given(logs())
def test_every_record_comes_out_as_it_was_written(batches: list[Batch]) -> None:
    columns = decoded(*batches)
    assert actual_rows(columns) == expected_rows(batches)
    assert columns.next_offset == (batches[-1].last + 1 if batches else 0)
    for array in (columns.kind, columns.key_hash_hi, columns.content_hash, columns.key_size, columns.value_size):
        assert len(array) == len(columns)


@given(logs())
def test_hashes_are_those_of_the_reference_implementation(batches: list[Batch]) -> None:
    columns = decoded(*batches)
    records = [record for batch in batches for record in batch.records]
    for i, record in enumerate(records):
        digest = bytes(16) if record.key is None else nacl.crypto_shorthash_siphashx24(record.key, HASHER.key)
        got = (int(columns.key_hash_hi[i]) & MASK) << 64 | int(columns.key_hash_lo[i]) & MASK
        assert got == int.from_bytes(digest, "little")
        content = nacl.crypto_shorthash_siphash24(record.content, HASHER.key)
        assert int(columns.content_hash[i]) & MASK == int.from_bytes(content, "little")
        assert columns.key_size[i] == (-1 if record.key is None else len(record.key))
        assert columns.value_size[i] == (-1 if record.value is None else len(record.value))


@given(st.binary(max_size=600), st.binary(min_size=16, max_size=16))
def test_single_hashes_agree_with_the_reference_for_every_length(data: bytes, key: bytes) -> None:
    hasher = ContentHasher(key)
    high, low = hasher.key_hash(data)
    assert ((high & MASK) << 64 | low & MASK).to_bytes(16, "little") == nacl.crypto_shorthash_siphashx24(data, key)
    assert (hasher.content_hash(data) & MASK).to_bytes(8, "little") == nacl.crypto_shorthash_siphash24(data, key)


def test_a_null_value_an_empty_value_and_a_header_have_different_contents() -> None:
    records = [
        Record(b"k", None),
        Record(b"k", b"", delta=1),
        Record(b"k", b"", [(b"", b"")], delta=2),
        Record(b"k", b"", [(b"", None)], delta=3),
        Record(None, b"ab", delta=4),
        Record(None, b"a", [(b"b", b"")], delta=5),
    ]
    columns = decoded(Batch(0, records))
    assert len(set(columns.content_hash.tolist())) == len(records)
    assert (columns.key_hash_hi[4], columns.key_hash_lo[4], columns.key_size[4]) == (0, 0, -1)


def test_the_hash_key_must_be_16_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        ContentHasher(b"short")


@given(logs(), st.data())
def test_only_rows_of_the_range_asked_for_come_out(batches: list[Batch], data: st.DataObject) -> None:
    offsets = [row[0] for row in expected_rows(batches)]
    low = min(offsets, default=0) - 1  # type: ignore[type-var]
    high = max(offsets, default=0) + 2  # type: ignore[type-var]
    start = data.draw(st.integers(low, high))  # type: ignore[arg-type]
    end = data.draw(st.integers(start, high))  # type: ignore[arg-type]
    columns = decoded(*batches, start=start, end=end)
    assert columns.offset.tolist() == [offset for offset in offsets if start <= offset < end]  # type: ignore[operator]


@given(logs(), st.integers(1, 200))
def test_a_batch_that_is_truncated_at_the_end_is_ignored(batches: list[Batch], cut: int) -> None:
    whole = [batch.encode() for batch in batches]
    last = Batch(10**15, [Record(b"key", b"v" * 140)]).encode()
    columns = decode(b"".join(whole) + last[:-cut], hasher=HASHER, payload=Payload.FULL)
    assert actual_rows(columns) == expected_rows(batches)


@given(logs(), st.data())
@settings(max_examples=300)
def test_a_changed_byte_is_reported_or_outside_the_crc_but_never_crashes(
    batches: list[Batch], data: st.DataObject
) -> None:
    encoded = bytearray(b"".join(batch.encode() for batch in batches))
    for _ in range(data.draw(st.integers(1, 4))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(CorruptBatch, Unsupported):
        decode(bytes(encoded), hasher=HASHER, payload=Payload.FULL)


@given(st.binary(max_size=300), st.integers(0, 40), st.sampled_from([0, TRANSACTIONAL, CONTROL]))
@settings(max_examples=500)
def test_garbage_with_a_valid_crc_is_reported_and_never_read_beyond(body: bytes, count: int, flags: int) -> None:
    batch = Batch(5, [], last_delta=100, count=count, body=body, flags=flags)
    with suppress(CorruptBatch):
        assert len(decoded(batch)) <= count


@given(st.binary(max_size=200), st.integers(1, 4))
@example(b"\x80\x80\x80\x80\x05", 2)  # snappy, of what would be 1.25 GiB
def test_compressed_garbage_is_reported(body: bytes, codec: int) -> None:
    batch = Batch(5, [], last_delta=0, count=1, body=b"").encode()
    covered = bytearray(batch[21:] + body)
    covered[0:2] = struct.pack(">h", codec)
    forged = batch[:8] + struct.pack(">i", 9 + len(covered)) + batch[12:17]
    forged += struct.pack(">I", crc32c.crc32c(bytes(covered))) + bytes(covered)
    with pytest.raises((CorruptBatch, Unsupported)) as caught:
        decode(forged, hasher=HASHER)
    if isinstance(caught.value, CorruptBatch):
        assert caught.value.base_offset == 5
    else:
        assert "a block of snappy" in str(caught.value)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("codec", "of"), [(1, "flags that gzip reserves"), (3, "the end mark of lz4")])
def test_what_only_other_decoders_refuse_is_read_as_by_kafkas_clients(
    codec: int, of: str, large: bool, request: pytest.FixtureRequest
) -> None:
    if large:
        request.getfixturevalue("small_windows")
    data = bytearray(Batch(3, [Record(b"k", b"v" * 500)], codec=codec).encode())
    if of == "flags that gzip reserves":
        data[data.index(b"\x1f\x8b\x08") + 3] |= 0xE0
    else:
        assert data.endswith(bytes(4))
        data[-1] = 0x80
    data[17:21] = struct.pack(">I", crc32c.crc32c(bytes(data[21:])))
    assert decode(bytes(data), hasher=HASHER).offset.tolist() == [3]


def test_a_wrong_crc_names_the_base_offset() -> None:
    for size in (10, 5000):
        data = bytearray(Batch(3, [Record(b"k")]).encode() + Batch(77, [Record(b"k", b"v" * size)]).encode())
        data[-3] ^= 1
        with pytest.raises(CorruptBatch, match="batch at offset 77: its CRC32C does not match") as caught:
            decode(bytes(data), hasher=HASHER)
        assert caught.value.base_offset == 77


def test_a_message_format_that_is_not_known_is_unsupported() -> None:
    data = bytearray(Batch(3, [Record(b"k")]).encode())
    data[16] = 3
    with pytest.raises(Unsupported, match="batch at offset 3: a message format that is not known"):
        decode(bytes(data), hasher=HASHER)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_older_format_that_was_left_as_it_is_is_broken(magic: int) -> None:
    data = bytearray(Batch(3, [Record(b"k")]).encode())
    data[16] = magic
    with pytest.raises(CorruptBatch, match=f"message of format v{magic} at offset 3: its checksum") as caught:
        decode(bytes(data), hasher=HASHER)
    assert (caught.value.base_offset, caught.value.last_offset) == (3, 3)


def test_batches_end_where_an_older_format_begins_which_the_next_answer_begins_with() -> None:
    data = bytearray(Batch(3, [Record(b"k")]).encode() * 2)
    data[len(data) // 2 + 16] = 1
    columns = decode(bytes(data), hasher=HASHER)
    assert (list(columns.offset), columns.next_offset) == ([3], 4)


def test_an_unknown_codec_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="codec 5"):
        decode(Batch(3, [Record(b"k")], flags=5).encode(), hasher=HASHER)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Batch(9, [Record(delta=6)], last_delta=5), "offset lies beyond"),
        (Batch(9, [Record()], last_delta=5, body=Record().encode() + b"x"), "left over"),
        (Batch(9, [Record()], last_delta=5, count=2), "number of records"),
        (Batch(9, [Record(value=b"x" * 20)], last_delta=5, count=2), "runs beyond"),
        (Batch(9, [Record()], last_delta=-1), "number of records"),
        (Batch(9, [Record()], last_delta=0, count=2**31 - 1), "number of records"),
        (Batch(9, [Record(key=b"\0\0")], flags=CONTROL), "control record has no type"),
        (Batch(9, [], last_delta=0, count=1, body=varint(3) + b"\0" * 3), "number of records"),
    ],
)
def test_a_broken_structure_is_named(batch: Batch, reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason) as caught:
        decoded(batch)
    assert caught.value.base_offset == 9


def test_offsets_that_run_backwards_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="run backwards"):
        decoded(Batch(5, [Record()]), Batch(5, [Record()]))


def test_markers_become_rows_without_key_and_value() -> None:
    columns = decoded(marker(5, 40, commit=True, epoch=3), marker(6, 41, commit=False))
    assert columns.kind.tolist() == [RowKind.COMMIT, RowKind.ABORT]
    assert columns.offset.tolist() == [5, 6]
    assert columns.producer_id.tolist() == [40, 41]
    assert columns.producer_epoch.tolist() == [3, 0]
    assert columns.transactional.tolist() == [True, True]
    assert columns.key_size.tolist() == columns.value_size.tolist() == [-1, -1]
    assert not columns.content_hash.any()
    assert columns.keys is not None
    assert columns.keys.to_pylist() == [None, None]


def test_other_control_records_are_left_out() -> None:
    leader_change = Record(key=struct.pack(">hh", 0, 2), value=b"x")
    columns = decoded(Batch(5, [leader_change], flags=CONTROL))
    assert len(columns) == 0
    assert columns.next_offset == 6


def test_the_next_offset_moves_past_empty_batches() -> None:
    empty = Batch(3, [], last_delta=6, flags=HORIZON)
    empty_control = Batch(10, [], last_delta=0, flags=CONTROL | TRANSACTIONAL, producer=1)
    columns = decoded(Batch(0, [Record(b"a", b"b")]), empty, empty_control)
    assert columns.offset.tolist() == [0]
    assert columns.next_offset == 11


def test_the_leader_epoch_of_what_is_left_at_an_offset_or_above() -> None:
    empty = Batch(3, [], last_delta=6, flags=HORIZON, epoch=4)
    columns = decoded(Batch(1, [Record(b"a", b"b")], epoch=2), empty, Batch(15, [Record()], epoch=7))
    assert columns.epochs_at([0, 1, 2, 9, 10, 15, 16]) == {0: 2, 1: 2, 2: 4, 9: 4, 10: 7, 15: 7}
    assert columns.epochs_at([]) == {}


def test_no_whole_batch_leaves_the_next_offset_at_the_start() -> None:
    assert decode(b"", hasher=HASHER, start=17).next_offset == 17
    assert decode(Batch(17, [Record()]).encode()[:-1], hasher=HASHER, start=17).next_offset == 17


def test_raw_snappy_is_understood() -> None:
    import cramjam

    record = Record(b"key", b"value" * 50)
    batch = Batch(0, [record], codec=0, flags=2, body=bytes(cramjam.snappy.compress_raw(record.encode())))
    assert actual_rows(decoded(batch)) == expected_rows([replace(batch, flags=0)])


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_memory_is_reused_from_a_large_response_to_a_small_one_and_back(codec: int) -> None:
    inflater = Inflater()
    large = [Batch(i * 100, [Record(b"k", bytes([i]) * 300_000)], codec=codec) for i in range(12)]
    small = [Batch(5, [Record(b"key", b"value")], codec=codec)]
    for batches in (small, large, small, large):
        assert actual_rows(decoded(*batches, inflater=inflater)) == expected_rows(batches)


def over_long(value: int, size: int) -> bytes:
    """A varint of so many bytes, more than it needs."""
    shortest = varint(value)
    return bytes(b | 0x80 for b in shortest) + b"\x80" * (size - len(shortest) - 1) + b"\0"


def raw_record(*fields: bytes) -> bytes:
    body = b"\0" + b"".join(fields)
    return varint(len(body)) + body


@pytest.mark.parametrize("size", [-2, -5, -(2**31)])
def test_every_negative_length_is_null_as_for_kafkas_clients(size: int) -> None:
    null = varint(size)
    record = raw_record(varint(0), varint(0), null, null, varint(1), sized(b"h"), null)
    columns = decoded(Batch(7, [], last_delta=0, count=1, body=record))
    expected = decoded(Batch(7, [Record(None, None, [(b"h", None)])]))
    assert (columns.key_size[0], columns.value_size[0]) == (-1, -1)
    assert columns.content_hash.tolist() == expected.content_hash.tolist()
    assert columns.values is not None
    assert columns.values.to_pylist() == [None]


def test_a_negative_length_of_a_headers_name_is_corrupt() -> None:
    record = raw_record(varint(0), varint(0), sized(None), sized(None), varint(1), varint(-1), sized(b""))
    with pytest.raises(CorruptBatch, match="a record runs beyond"):
        decoded(Batch(7, [], last_delta=0, count=1, body=record))


@pytest.mark.parametrize("size", [3, 4, 5])
def test_lengths_in_a_longer_form_than_they_need_are_the_same_content(size: int) -> None:
    fields = (over_long(3, size), b"key", over_long(5, size), b"value", over_long(1, size))
    header = (over_long(1, size), b"h", over_long(2, size), b"hv")
    record = raw_record(over_long(4, 9), over_long(0, size), *fields, *header)
    columns = decoded(Batch(7, [], last_delta=0, count=1, body=record))
    expected = decoded(Batch(7, [Record(b"key", b"value", [(b"h", b"hv")], time_delta=4)]))
    for name in ("timestamp", "key_hash_hi", "key_hash_lo", "content_hash", "key_size", "value_size"):
        assert getattr(columns, name).tolist() == getattr(expected, name).tolist(), name


def test_a_length_of_six_bytes_is_corrupt() -> None:
    record = raw_record(varint(0), varint(0), sized(None), over_long(1, 6), b"v", varint(0))
    with pytest.raises(CorruptBatch, match="a record runs beyond"):
        decoded(Batch(7, [], last_delta=0, count=1, body=record))


@given(st.binary(max_size=24) | st.text(max_size=8).map(str.encode))
@example(b"\xed\xa0\x80")
@example(b"\xf0\x9f\x98")
def test_a_headers_name_is_hashed_as_a_broker_that_cleans_writes_it(name: bytes) -> None:
    written = decoded(Batch(0, [Record(b"k", b"v", [(name, b"1")])]))
    cleaned = decoded(Batch(0, [Record(b"k", b"v", [(java_text(name), b"1")])]))
    assert written.content_hash.tolist() == cleaned.content_hash.tolist()


def test_records_that_kafkas_consumer_skips_are_skipped() -> None:
    records = [Record(b"a", delta=2), Record(b"b", delta=2), Record(b"c", delta=1), Record(b"d", delta=3)]
    columns = decoded(Batch(9, records, last_delta=3))
    assert columns.keys is not None
    assert list(zip(columns.offset.tolist(), columns.keys.to_pylist(), strict=True)) == [(11, b"a"), (12, b"d")]


def test_an_emptied_batch_may_have_bytes_left() -> None:
    assert decoded(Batch(9, [Record()], last_delta=5, count=0)).next_offset == 15


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("inflate", "parts"):
        monkeypatch.setattr(f"parallax.replica.{module}.WINDOW", 48)
    for module in ("decode", "parts"):
        monkeypatch.setattr(f"parallax.replica.{module}.SLICE_ROWS", 2)


@pytest.mark.usefixtures("small_windows")
@given(batches=logs(), start=st.integers(0, 2**40))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_that_are_decoded_part_by_part_have_the_same_rows(batches: list[Batch], start: int) -> None:
    data = b"".join(batch.encode() for batch in batches)
    slices = list(decode_slices(data, hasher=HASHER, start=start))
    whole = reference_rows(batches, start)
    assert [row for part in slices for row in rows_of(part)] == whole
    assert all(len(part) <= 2 for part in slices)
    reached = [part.next_offset for part in slices]
    assert reached == sorted(reached)
    assert reached[-1:] == [batch.last + 1 for batch in batches][-1:]
    for part in slices:  # what comes later does not belong below where the part said that it ends
        assert all(row[0] < part.next_offset for row in rows_of(part))
    joined = decode(data, hasher=HASHER, start=start)
    assert rows_of(joined) == whole
    assert int(joined.batches[:, kernels.ROWS].sum()) == len(whole)


def rows_of(columns: Columns) -> list[tuple[object, ...]]:
    names = ("offset", "timestamp", "leader_epoch", "producer_id", "transactional", "key_hash_hi", "key_hash_lo")
    names += ("content_hash", "key_size", "value_size")
    return list(zip(*(getattr(columns, name).tolist() for name in names), strict=True))


def reference_rows(batches: list[Batch], start: int) -> list[tuple[object, ...]]:
    """The same by the encoder's own knowledge and libsodium."""
    rows: list[tuple[object, ...]] = []
    for batch in batches:
        for record in batch.records:
            high, low = HASHER.key_hash(record.key)
            content = int.from_bytes(nacl.crypto_shorthash_siphash24(record.content, HASHER.key), "little", signed=True)
            time = batch.max_time if batch.flags & APPEND_TIME else batch.base_time + record.time_delta
            sizes = [-1 if field is None else len(field) for field in (record.key, record.value)]
            identity = (batch.producer, bool(batch.flags & TRANSACTIONAL), high, low, content)
            rows.append((batch.base + record.delta, time, batch.epoch, *identity, *sizes))
    return [row for row in rows if row[0] >= start]  # type: ignore[operator]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("payload", list(Payload))
def test_the_payload_of_a_large_batch_is_copied_part_by_part(codec: int, payload: Payload) -> None:
    records = [Record(b"key-%d" % i, b"value", [(b"h", b"%d" % i)], delta=i) for i in range(9)]
    records.append(Record(b"large", b"v" * 500, [(b"n" * 60, b"h" * 70)], delta=9))
    columns = decoded(Batch(0, records, codec=codec), payload=payload)
    if payload is Payload.HASH:
        assert columns.keys is columns.values is columns.headers is None
        return
    assert columns.keys is not None
    assert columns.keys.to_pylist() == [record.key for record in records]
    if payload is Payload.FULL:
        assert columns.values is not None
        # Of a record that is larger than the window the key is copied out and no more.
        assert columns.values.to_pylist()[:-1] == [b"value"] * 9
        assert columns.values.to_pylist()[-1] == (b"v" * 500 if codec == 0 else None)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_what_stands_in_front_of_a_fault_in_a_large_batch_comes_out_before_the_error(codec: int) -> None:
    good = b"".join(Record(b"key", b"value", delta=i).encode() for i in range(9))
    for tail in (b"\x05", varint(10**6) + b"xyz", b"\0" * 20, Record(b"k", b"v" * 100, delta=99).encode()[:-1]):
        batch = Batch(4, [], last_delta=9, count=10, body=good + tail, codec=codec)
        taken = []
        with pytest.raises(CorruptBatch) as caught:
            taken.extend(decode_slices(batch.encode(), hasher=HASHER))
        assert (caught.value.base_offset, caught.value.last_offset) == (4, 13)
        assert [offset for part in taken for offset in part.offset.tolist()] == list(range(4, 13))
        assert taken[-1].next_offset == 13


@pytest.mark.usefixtures("small_windows")
@given(body=st.binary(max_size=300), count=st.integers(1, 40), codec=st.integers(0, 4), cut=st.integers(0, 3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_in_a_large_batch_is_reported(body: bytes, count: int, codec: int, cut: int) -> None:
    packed = compress(codec, body)
    forged = Batch(5, [], last_delta=100, count=count, body=packed[: len(packed) - cut], flags=codec)
    with suppress(CorruptBatch, Unsupported):
        for part in decode_slices(forged.encode(), hasher=HASHER):
            assert len(part) <= 2


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_inflates_far_beyond_the_window_is_read_in_bounded_memory(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("inflate", "parts"):
        monkeypatch.setattr(f"parallax.replica.{module}.WINDOW", 1 << 18)
    records = [Record(b"k%d" % i, bytes(size), delta=i) for i, size in enumerate([10, 16 << 20, 20, 1 << 17, 1 << 17])]
    batch = Batch(3, records, codec=codec)
    data = batch.encode()
    decode(Batch(0, [Record()]).encode(), hasher=HASHER)
    tracemalloc.start()
    try:
        columns = decode(data, hasher=HASHER)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows_of(columns) == reference_rows([batch], 0)
    assert peak < 2 << 20


def test_a_batch_beyond_the_largest_is_unsupported_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallax.replica.inflate.WINDOW", 1 << 16)
    monkeypatch.setattr("parallax.replica.parts.WINDOW", 1 << 16)
    monkeypatch.setattr("parallax.replica.parts._LARGEST_BATCH", 1 << 20)
    with pytest.raises(Unsupported, match="batch at offset 8: it decompresses to more than") as caught:
        decoded(Batch(8, [Record(None, bytes(4 << 20))], codec=4))
    assert (caught.value.base_offset, caught.value.last_offset) == (8, 8)


def test_the_payload_setting_decides_what_is_copied_out() -> None:
    batch = Batch(0, [Record(b"k", b"v", [(b"h", b"1")])])
    hashed, keyed = decoded(batch, payload=Payload.HASH), decoded(batch, payload=Payload.KEY)
    assert (hashed.keys, hashed.values, hashed.headers) == (None, None, None)
    assert keyed.keys is not None
    assert keyed.keys.to_pylist() == [b"k"]
    assert (keyed.values, keyed.headers) == (None, None)


def test_columns_have_the_types_that_the_contract_names() -> None:
    columns = decoded(Batch(0, [Record(b"k", b"v")]))
    types = {name: getattr(columns, name).dtype for name in ("kind", "offset", "leader_epoch", "producer_epoch")}
    assert types == {"kind": np.int8, "offset": np.int64, "leader_epoch": np.int32, "producer_epoch": np.int16}
    assert columns.transactional.dtype == np.bool_


def test_errors_survive_the_way_between_processes() -> None:
    import pickle

    error = CorruptBatch("bad", base_offset=9).at(broker=2, topic="t", partition=1)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, ReplicaError)
    assert (str(again), again.base_offset) == ("broker 2, t-1: bad", 9)


def test_compression_helper_frames_several_blocks() -> None:
    record = Record(b"key", b"0123456789" * 10_000)
    assert len(compress(2, record.encode())) > 0
    assert actual_rows(decoded(Batch(0, [record], codec=2))) == expected_rows([Batch(0, [record])])
