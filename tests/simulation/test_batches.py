"""The simulator's encoder of record batches, read by another client's decoder than the product's."""

from __future__ import annotations

import struct

from kafka.record.default_records import DefaultRecordBatch

from tests.simulation.batches import encode, header_list, key_bytes, value_bytes
from tests.simulation.records import Batch, End, Record

RECORDS = (Record(7, 1, 35), Record(9, 2, None), Record(10, None, 0), Record(12, 3, 8))
GZIP = 1
"""The codecs up to this one need no further library to be read."""
SALTS = range(40)
"""Enough to meet every codec and kind of timestamp."""


def read(batch: Batch, salt: int) -> DefaultRecordBatch:
    found = DefaultRecordBatch(encode(batch, salt))
    assert found.validate_crc()
    assert (found.base_offset, found.base_offset + found.last_offset_delta) == (batch.base, batch.last)
    assert (found.leader_epoch, found.producer_id, found.producer_epoch) == (
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
    )
    assert (found.is_transactional, found.is_control_batch) == (batch.transactional, batch.control)
    return found


def test_data_of_every_codec_come_back_as_they_were_written() -> None:
    codecs, kinds = set(), set()
    for salt in SALTS:
        batch = Batch(5, 14, 9_000, 3, 100, 2, transactional=True, records=RECORDS)
        found = read(batch, salt)
        codecs.add(found.compression_type)
        kinds.add(found.timestamp_type)
        if found.compression_type > GZIP:
            continue
        shown = [(r.offset, r.timestamp, r.key, r.value, list(map(list, r.headers))) for r in found]
        assert shown == [
            (
                r.offset,
                9_000,
                key_bytes(r.key),
                value_bytes(r.value),
                [[n.decode(), v] for n, v in header_list(r.value)],
            )
            for r in RECORDS
        ]
    assert codecs == {0, 1, 2, 3, 4}
    assert kinds == {0, 1}


def test_a_delete_horizon_is_the_first_timestamp_and_changes_no_records() -> None:
    batch = Batch(5, 14, 9_000, 3, records=RECORDS, horizon=11_000)
    for salt in SALTS:
        found = read(batch, salt)
        assert found.attributes & 0x40
        assert found.first_timestamp == 11_000
        assert found.compression_type > GZIP or [r.timestamp for r in found] == [9_000] * len(RECORDS)


def test_a_marker_holds_its_type_and_an_emptied_batch_nothing() -> None:
    for end in End:
        batch = Batch(5, 5, 9_000, 3, 100, 2, transactional=True, control=True, marker=end)
        (record,) = read(batch, 0)
        assert struct.unpack(">hh", record.key) == (0, end)
    for control in (False, True):
        for salt in SALTS:
            emptied = Batch(5, 8, 9_000, 3, 100, 2, transactional=True, control=control)
            assert struct.unpack_from(">i", encode(emptied, salt), 57) == (0,)
            assert len(encode(emptied, salt)) == 61
            read(emptied, salt)
