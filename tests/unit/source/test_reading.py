"""What a task makes of a replica that breaks off in the middle of a range."""

from __future__ import annotations

from typing import Any

import pytest

from parallax.model import ReadEvent
from parallax.replica.client import FetchedPartition
from parallax.replica.errors import ReplicaError, Unreachable, from_code
from parallax.source import reading
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planning import Piece


class Breaking:
    """Stands in for a client whose broker answers with one partition error or answer; counts from a local log start."""

    throttle_ms = 0

    def __init__(self, answer: FetchedPartition, local_log_start: int = 0) -> None:
        self.answer, self.local_log_start = answer, local_log_start
        self.epochs: list[int] = []

    def begin_fetch(self, broker: int, positions: Any, **_: Any) -> Any:
        self.epochs.append(positions[0].after_epoch)
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        return [self.answer]

    def cancel(self) -> None:
        pass

    def local_log_starts(self, broker: int, partitions: Any) -> dict[Any, int]:
        return dict.fromkeys(partitions, self.local_log_start)


def position_rows(monkeypatch: pytest.MonkeyPatch, client: Breaking, piece: Piece) -> list[dict[str, Any]]:
    monkeypatch.setattr(reading, "_client", lambda *_: client)
    options = replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"})
    return [row for batch in reading.read_pieces(options, [piece]) for row in batch.to_pylist()]


def failed(error: ReplicaError) -> FetchedPartition:
    return FetchedPartition("t", 0, error)


READER = Reader(0, 2, "t", 0)


@pytest.mark.parametrize(("code", "where"), [(109, " but in tiered storage"), (1, "")])
def test_what_has_left_the_replicas_own_log_is_passed_over_and_said(
    monkeypatch: pytest.MonkeyPatch, code: int, where: str
) -> None:
    client = Breaking(failed(from_code(code)), local_log_start=40)
    (row,) = position_rows(monkeypatch, client, Piece(READER, Range(10, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (40, ReadEvent.LOG_START_ADVANCED)
    assert row["position"]["detail"] == f"offsets 10 to 39 are no longer in the replica's own log{where}"


def test_an_offset_out_of_range_of_a_log_that_holds_it_is_left_to_the_next_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Breaking(failed(from_code(1)), local_log_start=5)
    (row,) = position_rows(monkeypatch, client, Piece(READER, Range(10, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (10, ReadEvent.UNREACHABLE)


def test_a_truncated_log_is_reported_with_the_epoch_that_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = FetchedPartition("t", 0, None, 90, 90, 0, diverging=(3, 7))
    client = Breaking(cut)
    (row,) = position_rows(monkeypatch, client, Piece(READER, Range(20, 90, "A"), epoch=3))
    assert client.epochs == [3]
    assert (row["offset"], row["position"]["event"], row["leader_epoch"]) == (7, ReadEvent.LOG_TRUNCATED, 3)


def test_a_range_that_does_not_follow_on_what_was_read_is_read_without_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Breaking(FetchedPartition("t", 0, None, 90, 90, 0))
    span = Range(7, 90, "A", ReadEvent.LOG_TRUNCATED, fresh=True, detail="cut")
    event, end = position_rows(monkeypatch, client, Piece(READER, span, epoch=3))
    assert client.epochs == [-1]
    assert (event["offset"], event["leader_epoch"]) == (7, 3)
    assert (end["offset"], end["position"]["event"], end["leader_epoch"]) == (90, ReadEvent.OK, -1)


def test_one_brokers_word_does_not_make_a_topic_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = position_rows(monkeypatch, Breaking(failed(from_code(3))), Piece(READER, Range(10, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (10, ReadEvent.NOT_HOSTED)


def test_a_broker_that_fails_one_partition_is_not_said_to_have_failed_at_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Breaking(failed(Unreachable("refused", broker=2, topic="t", partition=0)))
    monkeypatch.setattr(reading, "_client", lambda *_: client)
    options = replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"})
    pieces = [Piece(Reader(0, 2, "t", number), Range(10, 90, "A")) for number in (0, 1)]
    rows = [row for batch in reading.read_pieces(options, pieces) for row in batch.to_pylist()]
    details = {row["partition"]: row["position"]["detail"] for row in rows}
    assert details == {0: "broker 2, t-0: refused", 1: "broker 2: refused"}
    assert {row["position"]["event"] for row in rows} == {ReadEvent.UNREACHABLE}
