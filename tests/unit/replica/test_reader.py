from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from parallax.model import IsolationLevel
from parallax.replica import reader
from parallax.replica.client import FetchedPartition
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import CorruptBatch, LogTruncated, OffsetOutOfRange, ReplicaError, Throttled, Unreachable
from parallax.replica.reader import Chunk, Failed, Shown, Span, read_range, read_ranges
from tests.chunks import read_all

from .batches import Batch, Record, not_below


@dataclass
class Log:
    """Stands in for the client where a fault must come at a given moment; answers as a broker with this log."""

    data: bytes
    high_watermark: int
    failure: ReplicaError | None = None
    fail_after: int = 10**9
    throttle_ms: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def begin_fetch(self, broker: int, positions: Any, *, max_bytes: int, **_: Any) -> Any:
        self.asked.append((positions[0].offset, max_bytes))
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        if len(self.asked) > self.fail_after:
            assert self.failure is not None
            raise self.failure
        at, size = self.asked[-1]
        hw = self.high_watermark
        return [FetchedPartition("t", 0, None, hw, hw, 0, records=memoryview(not_below(self.data, at))[:size])]

    def cancel(self) -> None:
        pass


def read(log: Any, start: int, end: int, max_bytes: int = 1 << 20, after_epoch: int = -1) -> Iterator[Chunk]:
    return read_range(
        log,
        2,
        "t",
        0,
        start,
        end,
        isolation=IsolationLevel.READ_UNCOMMITTED,
        hasher=ContentHasher(bytes(16)),
        max_bytes=max_bytes,
        after_epoch=after_epoch,
    )


def batch(base: int, records: int) -> bytes:
    return Batch(base, [Record(b"k", b"v", delta=i) for i in range(records)]).encode()


def test_what_is_in_front_of_a_corrupt_batch_is_yielded_and_then_the_error_raised() -> None:
    broken = bytearray(batch(3, 2))
    broken[-1] ^= 1
    chunks, position, failure = read_all(read(Log(batch(0, 3) + bytes(broken), 5), 0, 5))
    assert [c.columns.offset.tolist() for c in chunks] == [[0, 1, 2]]
    assert position == 3
    assert isinstance(failure, CorruptBatch)
    assert (failure.base_offset, failure.broker, failure.topic) == (3, 2, "t")


def test_a_corrupt_first_batch_yields_nothing() -> None:
    broken = bytearray(batch(0, 2))
    broken[-1] ^= 1
    chunks, position, failure = read_all(read(Log(bytes(broken), 5), 0, 5))
    assert (chunks, position) == ([], None)
    assert isinstance(failure, CorruptBatch)


def test_an_empty_tail_moves_the_position_to_the_end_or_to_what_the_replica_shows() -> None:
    for high_watermark, expected in ((9, 8), (7, 7)):
        chunks, position, failure = read_all(read(Log(batch(0, 5), high_watermark), 0, 8))
        assert failure is None
        assert position == expected
        assert sum(len(c.columns) for c in chunks) == 5


def test_nothing_below_the_watermark_never_moves_the_position_back() -> None:
    _, position, _ = read_all(read(Log(b"", 3), 6, 8))
    assert position == 6


def test_a_batch_that_does_not_fit_is_asked_for_with_more_bytes() -> None:
    log = Log(batch(0, 5), 5)
    _, position, _ = read_all(read(log, 0, 5, max_bytes=30))
    assert position == 5
    assert [size for _, size in log.asked][:3] == [30, 60, 120]


def test_a_failure_comes_after_the_chunks_before_it() -> None:
    log = Log(batch(0, 3), 9, failure=Unreachable("gone"), fail_after=1)
    chunks, position, failure = read_all(read(log, 0, 9))
    assert position == 3
    assert len(chunks) == 1
    assert str(failure) == "broker 2, t-0: gone"


def test_a_partitions_error_is_raised() -> None:
    log = Log(b"", 0, failure=OffsetOutOfRange("out"), fail_after=0)
    with pytest.raises(OffsetOutOfRange):
        list(read(log, 0, 5))


def test_an_empty_range_asks_nothing() -> None:
    log = Log(b"", 0)
    assert list(read(log, 5, 5)) == []
    assert log.asked == []


class Epochs:
    """Stands in for a client whose broker's log has these (epoch, start offset), and batches from offset 0 on.

    Answers as Kafka's ``Partition.readRecords``: where the last fetched epoch ends below the position, with that end.
    """

    throttle_ms = 0

    def __init__(self, epochs: list[tuple[int, int]], end: int) -> None:
        self.epochs, self.end = epochs, end
        self.asked: list[tuple[int, int]] = []

    def begin_fetch(self, broker: int, positions: Any, **_: Any) -> Any:
        self.asked.append((positions[0].offset, positions[0].after_epoch))
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        offset, epoch = self.asked[-1]
        answer: dict[str, Any] = {}
        if epoch >= 0:
            known = max((e for e, _ in self.epochs if e <= epoch), default=epoch)
            later = [start for e, start in self.epochs if e > epoch]
            if not later and known != epoch:
                return [FetchedPartition("t", 0, OffsetOutOfRange("the epoch is not known"))]
            ends_at = min(later, default=self.end)
            if known < epoch or ends_at < offset:
                answer = {"diverging": (known, ends_at)}
        if not answer and offset < self.end:
            answer = {"records": memoryview(batch(offset, self.end - offset))}
        return [FetchedPartition("t", 0, None, self.end, self.end, 0, **answer)]

    def cancel(self) -> None:
        pass


def test_a_log_that_was_truncated_and_has_grown_past_the_position_is_noticed() -> None:
    log = Epochs([(0, 0), (4, 7)], end=30)
    with pytest.raises(LogTruncated, match="leader epoch 3 ends at offset 7, it was read up to 20") as cut:
        list(read(log, 20, 30, after_epoch=3))
    assert cut.value.end == 7


def test_a_log_that_still_holds_what_was_read_is_read_on() -> None:
    log = Epochs([(3, 0), (4, 20)], end=30)
    (chunk,) = read(log, 20, 30, after_epoch=3)
    assert chunk.position == 30
    assert log.asked == [(20, 3)]


@pytest.mark.parametrize("begins", [20, 25], ids=["at the position", "above it"])
def test_a_log_of_older_epochs_up_to_the_position_may_have_replaced_the_one_that_was_read(
    begins: int,
) -> None:
    # Epoch 3 was read below offset 20. After a second unclean election the log is of epoch 0 there.
    log = Epochs([(0, 0), (4, begins)], end=30)
    with pytest.raises(LogTruncated, match="does not know leader epoch 3") as cut:
        list(read(log, 20, 30, after_epoch=3))
    assert cut.value.end == 20
    assert log.asked == [(20, 3)]


def test_a_log_that_begins_with_a_newer_epoch_at_the_position_says_nothing_of_what_was_read() -> None:
    log = Epochs([(4, 20)], end=30)
    (chunk,) = read(log, 20, 30, after_epoch=3)
    assert chunk.position == 30


def test_a_log_that_knows_neither_the_epoch_nor_a_later_one_is_not_the_one_that_was_read() -> None:
    with pytest.raises(LogTruncated, match="does not know leader epoch 3") as cut:
        list(read(Epochs([(0, 0)], end=30), 20, 30, after_epoch=3))
    assert cut.value.end == 20


def doubted(log: Epochs) -> Shown | Failed:
    """What comes of a log that was read to 20 in epoch 3, where it is known that another may have replaced it."""
    span = Span("t", 0, 20, 30, after_epoch=3, may_be_another=True)
    hasher = ContentHasher(bytes(16))
    (event,) = read_ranges(log, 2, [span], isolation=IsolationLevel.READ_UNCOMMITTED, hasher=hasher)  # type: ignore[arg-type]
    return event


@pytest.mark.parametrize("epochs", [[(0, 0), (4, 20)], [(0, 0), (4, 25)], [(0, 0)]])
def test_that_a_log_may_be_another_is_said_once_and_then_it_is_read_on(epochs: list[tuple[int, int]]) -> None:
    log = Epochs(epochs, end=30)
    event = doubted(log)
    assert isinstance(event, Shown)
    assert [mark.position for _, mark in event.marks] == [30]
    assert log.asked == [(20, 3), (20, -1)]


def test_a_log_that_was_replaced_and_is_then_truncated_below_the_position_is_noticed() -> None:
    event = doubted(Epochs([(0, 0), (5, 12)], end=30))
    assert isinstance(event, Failed)
    assert isinstance(event.error, LogTruncated)
    assert event.error.end == 12


def test_an_offset_out_of_range_is_raised_as_such_whatever_epoch_was_asked_with() -> None:
    log = Log(b"", 0, failure=OffsetOutOfRange("out"), fail_after=0)
    with pytest.raises(OffsetOutOfRange):
        list(read(log, 3, 5, after_epoch=1))


@pytest.mark.parametrize("end", [3, 5])
def test_a_batch_whose_base_offset_was_garbled_moves_no_position_past_what_it_hides(end: int) -> None:
    garbled = bytearray(batch(2, 3))
    garbled[4] ^= 2  # the base offset, 2^25 further on: the CRC does not cover it
    chunks, position, failure = read_all(read(Log(batch(0, 2) + bytes(garbled), 5), 0, end))
    assert [c.columns.offset.tolist() for c in chunks] == [[0, 1]]
    assert position == 2
    assert isinstance(failure, CorruptBatch)
    assert "contradict" in str(failure)


@pytest.mark.parametrize("base", [(1 << 63) - 4096, (1 << 63) - 1, 1 << 62])
def test_an_offset_that_no_log_reaches_is_corrupt_though_the_high_watermark_agrees(base: int) -> None:
    garbled = bytearray(batch(2, 3))
    garbled[:8] = base.to_bytes(8, "big")
    log = Log(batch(0, 2) + bytes(garbled), (1 << 63) - 1)
    chunks, position, failure = read_all(read(log, 0, (1 << 63) - 1))
    assert [c.columns.offset.tolist() for c in chunks] == [[0, 1]]
    assert position == 2
    assert isinstance(failure, CorruptBatch)


@dataclass
class Restarted(Log):
    """Reports a high watermark from before it has read its log, for the first answers."""

    stale: int = 1

    def result(self, *asked: Any) -> list[FetchedPartition]:
        (answer,) = super().result(*asked)
        return [replace(answer, high_watermark=2)] if len(self.asked) <= self.stale else [answer]


def test_a_high_watermark_from_before_the_log_was_read_makes_no_batch_corrupt() -> None:
    log = Restarted(batch(0, 2) + batch(2, 3), 5)
    chunks, reached, failure = read_all(read(log, 0, 5))
    assert (reached, failure, sum(len(chunk.columns) for chunk in chunks)) == (5, None, 5)
    log = Restarted(batch(0, 3) + batch(3, 2), 5, stale=2)
    assert read_all(read(log, 0, 5))[1:] == (5, None)


def test_a_batch_that_every_answer_contradicts_is_corrupt() -> None:
    log = Restarted(batch(0, 3) + batch(3, 2), 5, stale=99)
    _, reached, failure = read_all(read(log, 0, 5))
    assert reached is None
    assert isinstance(failure, CorruptBatch)
    assert len(log.asked) == 3


def test_a_batch_that_was_written_while_the_answer_was_made_is_no_contradiction() -> None:
    """A broker notes its high watermark before it reads, so an answer may hold younger batches than that."""
    chunks, position, failure = read_all(read(Log(batch(0, 3) + batch(3, 2), 3), 0, 3))
    assert failure is None
    assert position == 3
    assert [c.columns.offset.tolist() for c in chunks] == [[0, 1, 2]]


@dataclass
class Quota(Log):
    """Gives nothing, and asks to wait, now and then."""

    refuse: frozenset[int] = frozenset()
    wait_ms: int = 400

    def result(self, timeout_ms: float, *_: Any) -> list[FetchedPartition]:
        self.patience.append(timeout_ms)
        if len(self.asked) in self.refuse:
            raise Throttled(self.wait_ms, broker=2)
        return super().result()

    patience: list[float] = field(default_factory=list)


class OneByOne(Quota):
    """Gives one batch with each answer."""

    def result(self, timeout_ms: float, *_: Any) -> list[FetchedPartition]:
        self.data = batch(self.asked[-1][0], 1)
        return super().result(timeout_ms)


def test_a_quota_is_waited_out_and_the_reading_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(reader.time, "sleep", slept.append)
    log = Quota(batch(0, 5), 5, refuse=frozenset({1, 2}))
    assert [chunk.position for chunk in read(log, 0, 5)] == [5]
    assert slept == [0.4, 0.4]
    assert [offset for offset, _ in log.asked] == [0, 0, 0]


def test_a_broker_that_answers_with_records_and_will_be_silent_for_a_while_is_given_that_time() -> None:
    log = OneByOne(b"", 3, throttle_ms=7000)
    assert [chunk.position for chunk in read(log, 0, 3)] == [1, 2, 3]
    assert log.patience == [3000, 10000, 10000]


def test_a_quota_that_never_ends_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader.time, "sleep", lambda _: None)
    log = Quota(b"", 5, refuse=frozenset(range(1000)), wait_ms=11_000)
    with pytest.raises(Throttled, match="11000 ms by the broker's quota"):
        list(read(log, 0, 5))
    assert len(log.asked) == 6
