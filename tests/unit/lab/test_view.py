"""Batches as brokers serve them, written by kafka-python's own builder."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from kafka.record import MemoryRecordsBuilder

from parallax.lab.view import read_replica
from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.replica.client import FetchedPartition, FetchPosition, Watermarks

CONTROL = 0x20
ATTRIBUTES_AT = 21


def batch(offset: int, records: Sequence[tuple[bytes, bytes | None]], producer: int = -1) -> bytearray:
    transactional = producer >= 0
    builder = MemoryRecordsBuilder(
        2, 0, 1 << 20, offset, transactional, producer, 0 if transactional else -1, 0 if transactional else -1
    )
    for key, value in records:
        builder.append(1_000, key, value)
    builder.close()
    return bytearray(builder.records()._buffer)


def marker(offset: int, producer: int, *, commit: bool) -> bytearray:
    made = batch(offset, [(struct.pack(">hh", 0, int(commit)), b"\0\0\0\0\0\0")], producer)
    made[ATTRIBUTES_AT + 1] |= CONTROL
    return made


class Replica:
    """Answers fetches from a log in memory, one batch at a time; stands in for a broker's log at its worst."""

    def __init__(self, log: Mapping[int, bytearray], lso: int, hw: int, aborted: list[tuple[int, int]]) -> None:
        self.log, self.lso, self.hw, self.aborted = dict(sorted(log.items())), lso, hw, aborted

    def watermarks(
        self, broker: int, places: Sequence[TopicPartition], *, timeout_ms: float | None
    ) -> dict[TopicPartition, Watermarks]:
        del broker, timeout_ms
        return dict.fromkeys(places, Watermarks(self.hw, self.lso, min(self.log), self.hw))

    def fetch(
        self, broker: int, positions: Sequence[FetchPosition], *, isolation: IsolationLevel, max_bytes: int
    ) -> list[FetchedPartition]:
        (position,) = positions
        assert position.offset >= min(self.log), "a broker answers OFFSET_OUT_OF_RANGE below its log start"
        committed = isolation is IsolationLevel.READ_COMMITTED
        end = self.lso if committed else self.hw
        records = b"".join(bytes(b) for offset, b in self.log.items() if position.offset <= offset < end)
        listed: Any = np.array(self.aborted if committed else [], np.int64).reshape(-1, 2)
        return [
            FetchedPartition(
                position.topic,
                0,
                high_watermark=self.hw,
                last_stable_offset=self.lso,
                log_start_offset=0,
                aborted=listed,
                records=memoryview(records),
            )
        ]


def view_of(log: Mapping[int, bytearray], *, lso: int, hw: int, aborted: list[tuple[int, int]] | None = None) -> Any:
    return read_replica(Replica(log, lso, hw, aborted or []), 2, "t")  # type: ignore[arg-type]


def test_the_latest_value_of_each_key_is_visible_and_a_deleted_key_is_not() -> None:
    view = view_of({0: batch(0, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)])}, lso=4, hw=4)
    assert view.visible == {"a": "2"}
    assert [record.outcome for record in view.records.values()] == [Outcome.NONE] * 4


def test_a_log_that_has_lost_its_head_is_read_from_where_it_begins() -> None:
    assert view_of({5: batch(5, [(b"a", b"1")])}, lso=6, hw=6).visible == {"a": "1"}


def test_one_producer_aborts_and_commits_and_each_record_goes_with_its_own_transaction() -> None:
    log = {
        0: batch(0, [(b"a", b"dropped")], 7),
        1: marker(1, 7, commit=False),
        2: batch(2, [(b"b", b"kept")], 7),
        3: marker(3, 7, commit=True),
    }
    view = view_of(log, lso=4, hw=4, aborted=[(7, 0)])
    assert [record.outcome for record in view.records.values()] == [Outcome.ABORTED, Outcome.COMMITTED]
    assert view.markers == {1: RowKind.ABORT, 3: RowKind.COMMIT}
    assert (view.visible, view.aborted_from) == ({"b": "kept"}, {0})


def test_an_abort_that_lost_its_commit_takes_both_transactions_with_it() -> None:
    log = {0: batch(0, [(b"a", b"1")], 7), 5: batch(5, [(b"b", b"2")], 7), 6: marker(6, 7, commit=False)}
    view = view_of(log, lso=7, hw=7, aborted=[(7, 0)])
    assert {record.outcome for record in view.records.values()} == {Outcome.ABORTED}
    assert view.visible == {}


def test_records_above_the_last_stable_offset_are_undecided_and_not_visible() -> None:
    log = {0: batch(0, [(b"a", b"1")]), 1: batch(1, [(b"a", b"2")], 7), 2: batch(2, [(b"c", b"3")])}
    view = view_of(log, lso=1, hw=3)
    assert [record.outcome for record in view.records.values()] == [Outcome.NONE, Outcome.UNDECIDED, Outcome.NONE]
    assert view.visible == {"a": "1"}
    assert (view.last_stable_offset, view.high_watermark) == (1, 3)
    assert view.holds(2)
    assert not view.holds(3)


def test_a_view_is_written_on_one_line_without_the_filler() -> None:
    view = view_of({0: batch(0, [(b"a", None), (b"filler-1", b"x")]), 2: marker(2, 7, commit=True)}, lso=3, hw=3)
    assert str(view) == (
        "broker 2 t: high watermark 3, last stable offset 3, aborted from [], records 0:a=None(none), markers 2:COMMIT"
    )


def test_what_arrives_between_the_two_readings_does_not_belong_to_the_view() -> None:
    log = {0: batch(0, [(b"a", b"1")]), 1: batch(1, [(b"b", b"2")], 7), 2: marker(2, 7, commit=True)}
    replica = Replica(log, lso=1, hw=2, aborted=[])
    fetch = replica.fetch

    def fetch_while_the_log_grows(
        broker: int, positions: Sequence[FetchPosition], **more: Any
    ) -> list[FetchedPartition]:
        if more["isolation"] is IsolationLevel.READ_UNCOMMITTED:
            replica.lso = replica.hw = 3
        return fetch(broker, positions, **more)

    replica.fetch = fetch_while_the_log_grows  # type: ignore[method-assign]
    view = read_replica(replica, 2, "t")  # type: ignore[arg-type]
    assert (view.last_stable_offset, view.high_watermark, list(view.markers)) == (1, 2, [])
    assert view.records[1].outcome is Outcome.UNDECIDED
