"""A batch that cannot be read: waited for as long as any replica may show what lies there, else passed over."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from parallax.model import ReadEvent
from parallax.replica.client import FetchedPartition
from parallax.replica.errors import ReplicaError, Unreachable
from parallax.source import reading
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planning import Piece
from tests.unit.replica.batches import Batch, Record

END = 20


def batch(base: int, count: int) -> bytes:
    return Batch(base, [Record(b"k", b"v", delta=i) for i in range(count)]).encode()


def broken(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


GOOD, BAD = [batch(0, 5), batch(5, 5), batch(10, 10)], [batch(0, 5), broken(batch(5, 5)), batch(10, 10)]


class Brokers:
    """Stands in for the client: each broker's log, as batches, or why it does not answer."""

    throttle_ms = 0

    def __init__(self, logs: dict[int, list[bytes] | ReplicaError]) -> None:
        self.logs = logs
        self.asked: list[tuple[int, int]] = []

    def metadata(self, topics: Any) -> Any:
        return {"t": SimpleNamespace(partitions={0: SimpleNamespace(replicas=tuple(self.logs))})}

    def begin_fetch(self, broker: int, positions: Any, **_: Any) -> Any:
        self.asked.append((broker, positions[0].offset))
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        broker, offset = self.asked[-1]
        log = self.logs[broker]
        if isinstance(log, ReplicaError):
            raise log
        # As a broker: from the batch on that holds the offset or lies behind it; last offsets by the header.
        data = b"".join(b for b in log if int.from_bytes(b[:8], "big") + int.from_bytes(b[23:27], "big") >= offset)
        return [FetchedPartition("t", 0, None, END, END, 0, records=memoryview(data))]

    def cancel(self) -> None:
        pass


def read(
    monkeypatch: pytest.MonkeyPatch, logs: dict[int, list[bytes] | ReplicaError], brokers: type[Brokers] = Brokers
) -> tuple[int, str, str]:
    monkeypatch.setattr(reading, "_client", lambda *_: brokers(logs))
    options = replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"})
    piece = Piece(Reader(0, 1, "t", 0), Range(0, END, "A"))
    rows = [row for made in reading.read_pieces(options, [piece]) for row in made.to_pylist()]
    assert [row["offset"] for row in rows[:-1]] == [0, 1, 2, 3, 4]
    return rows[-1]["offset"], rows[-1]["position"]["event"], rows[-1]["position"]["detail"]


def test_a_batch_that_no_replica_can_be_read_at_is_passed_over_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    offset, event, detail = read(monkeypatch, {1: BAD, 2: BAD, 3: BAD})
    assert (offset, event) == (10, ReadEvent.BATCH_SKIPPED)
    assert detail.startswith("no replica can be read at offsets 5 to 9: broker 1, t-0: batch at offset 5: its CRC32C")


@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_that_was_passed_over_is_said_though_the_time_for_reading_is_over(
    monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """Another partition of the same read answers too slowly."""

    class Two(Brokers):
        now = 0.0

        def begin_fetch(self, broker: int, positions: Any, **more: Any) -> Any:
            answers = []
            for position in positions:
                log = BAD if position.partition == 0 else GOOD[position.offset // 5 :][:1]
                answers.append(
                    FetchedPartition("t", position.partition, None, END, END, 0, records=memoryview(b"".join(log)))
                )
            return SimpleNamespace(result=lambda *_: self.answered(answers), cancel=self.cancel, throttle_ms=0)

        def answered(self, answers: list[FetchedPartition]) -> list[FetchedPartition]:
            self.now = 0.0 if answers[0].partition == 0 else 1e9
            return answers

    client = Two({1: BAD})
    monkeypatch.setattr(reading, "_client", lambda *_: client)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: client.now))
    given = {"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"}
    options = replace(replica_options(given), shared=shared, with_isolation=shared)
    levels = (1, 0) if shared else (0,)
    pieces = [Piece(Reader(level, 1, "t", number), Range(0, END, "A")) for number in (0, 1) for level in levels]
    rows = [row for made in reading.read_pieces(options, pieces) for row in made.to_pylist()]
    said = {(row["partition"], row["offset"], row["position"]["event"]) for row in rows if row["position"]}
    # read_uncommitted, whose rows came with those of read_committed, stands in front of the batch: it meets it next.
    before = {(0, 5, ReadEvent.UNREACHABLE)} if shared else set()
    assert said == {(0, 10, ReadEvent.BATCH_SKIPPED), (1, 10, ReadEvent.UNREACHABLE), *before}


def test_the_only_replica_is_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, {1: BAD})[:2] == (10, ReadEvent.BATCH_SKIPPED)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(GOOD, id="it can be read there"),
        pytest.param([batch(0, 5), batch(10, 10)], id="it has compacted what lay there"),
        pytest.param(Unreachable("gone"), id="it does not answer"),
        pytest.param([batch(0, 5), batch(5, 5), broken(batch(10, 10))], id="it is broken elsewhere"),
    ],
)
def test_a_batch_that_a_replica_may_show_is_waited_for(monkeypatch: pytest.MonkeyPatch, other: Any) -> None:
    assert read(monkeypatch, {1: BAD, 2: BAD, 3: other})[:2] == (5, ReadEvent.CORRUPT_BATCH)


def test_a_batch_that_was_garbled_on_the_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Once(Brokers):
        def result(self, *asked: Any) -> list[FetchedPartition]:
            answer = super().result(*asked)
            self.logs = {1: GOOD}
            return answer

    assert read(monkeypatch, {1: BAD}, Once)[:2] == (5, ReadEvent.CORRUPT_BATCH)
