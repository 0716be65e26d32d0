"""What a task makes of a replica that breaks off in the middle of a range."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from parallax.model import ReadEvent
from parallax.replica.client import FetchedPartition
from parallax.replica.errors import BrokerTooOld, ReplicaError, Unreachable, from_code
from parallax.replica.types import Watermarks
from parallax.source import reading
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planning import Piece
from parallax.source.standing import Progress


class Breaking:
    """Stands in for a client whose broker answers with one partition error or answer; counts from a local log start."""

    throttle_ms = 0

    def __init__(self, answer: FetchedPartition, local_log_start: int = 0) -> None:
        self.answer, self.local_log_start = answer, local_log_start
        self.epochs: list[int] = []

    def begin_fetch(self, broker: int, positions: Any, **_: Any) -> Any:
        self.epochs.append(positions[0].after_epoch)
        self.asked = positions
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        asked = [position.partition for position in self.asked]
        return [replace(self.answer, error=copy(self.answer.error), partition=number) for number in asked]

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


def test_an_empty_answer_for_what_is_in_tiered_storage_passes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Breaking(FetchedPartition("t", 0, None, 90, 90, 0), local_log_start=40)
    (row,) = position_rows(monkeypatch, client, Piece(READER, Range(10, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (40, ReadEvent.LOG_START_ADVANCED)
    assert row["position"]["detail"] == "offsets 10 to 39 are no longer in the replica's own log but in tiered storage"
    (row,) = position_rows(monkeypatch, client, Piece(READER, Range(40, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (90, ReadEvent.OK)


def test_a_broker_that_knows_no_tiered_storage_is_asked_where_its_log_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(Breaking):
        def local_log_starts(self, broker: int, partitions: Any) -> dict[Any, int]:
            raise BrokerTooOld("below Kafka 3.6")

        def watermarks(self, broker: int, partitions: Any) -> dict[Any, Watermarks]:
            return dict.fromkeys(partitions, Watermarks(90, 90, 40, 90))

    (row,) = position_rows(monkeypatch, Old(failed(from_code(1))), Piece(READER, Range(10, 90, "A")))
    assert (row["offset"], row["position"]["event"]) == (40, ReadEvent.LOG_START_ADVANCED)


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


def test_an_epoch_that_the_log_does_not_know_is_kept_until_another_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nobody would notice if that log is then truncated below the position."""

    class Another(Breaking):
        def result(self, *_: Any) -> list[FetchedPartition]:
            is_asked = self.epochs[-1] >= 0
            return [FetchedPartition("t", 0, None, 90, 90, 0, diverging=(1, 30) if is_asked else None)]

    (row,) = position_rows(monkeypatch, Another(failed(Unreachable(""))), Piece(READER, Range(20, 90, "A"), epoch=3))
    assert (row["offset"], row["position"]["event"], row["leader_epoch"]) == (20, ReadEvent.LOG_TRUNCATED, 3)
    span = Range(20, 90, "A", ReadEvent.LOG_TRUNCATED)
    client = Another(failed(Unreachable("")))
    (row,) = position_rows(monkeypatch, client, Piece(READER, span, epoch=3))
    assert (row["offset"], row["position"]["event"], client.epochs) == (90, ReadEvent.OK, [3, -1])


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


OPTIONS = replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"})
PIECES = [Piece(Reader(0, 2, "t", number), Range(10, 90, "A")) for number in (0, 1)]


def details(monkeypatch: pytest.MonkeyPatch, client: Any, pieces: Any = PIECES) -> dict[int, tuple[str, str]]:
    monkeypatch.setattr(reading, "_client", lambda *_: client)
    rows = [row for batch in reading.read_pieces(OPTIONS, pieces) for row in batch.to_pylist()]
    return {row["partition"]: (row["position"]["event"], row["position"]["detail"] or "") for row in rows}


def test_a_broker_that_fails_has_failed_at_all_that_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down(Breaking):
        def result(self, *_: Any) -> list[FetchedPartition]:
            raise Unreachable("refused", broker=2)

    client = Down(FetchedPartition("t", 0, None))
    assert details(monkeypatch, client) == dict.fromkeys((0, 1), (ReadEvent.UNREACHABLE, "broker 2: refused"))
    assert len(client.epochs) == 1


def test_a_broker_that_has_failed_is_not_asked_in_the_other_isolation_level(monkeypatch: pytest.MonkeyPatch) -> None:
    class Down(Breaking):
        def result(self, *_: Any) -> list[FetchedPartition]:
            raise Unreachable("refused", broker=2)

    client = Down(FetchedPartition("t", 0, None))
    pieces = [PIECES[0], Piece(Reader(1, 2, "t", 0), Range(10, 90, "A"))]
    assert details(monkeypatch, client, pieces) == {0: (ReadEvent.UNREACHABLE, "broker 2: refused")}
    assert len(client.epochs) == 1


def test_what_is_wrong_with_one_partition_is_said_of_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Breaking):
        def result(self, *_: Any) -> list[FetchedPartition]:
            whole = FetchedPartition("t", 1, None, 90, 90, 0)
            return [self.answer if p.partition == 0 else whole for p in self.asked]

    assert details(monkeypatch, Half(failed(from_code(56)))) == {
        0: (
            ReadEvent.NOT_HOSTED,
            "broker 2, t-0: the replica's log folder is offline (KAFKA_STORAGE_ERROR); look at the broker's disks",
        ),
        1: (ReadEvent.OK, ""),
    }


@pytest.mark.parametrize("shared", [False, True])
def test_what_keeps_one_partition_from_being_read_is_not_said_of_the_next_wave(
    monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    class Half(Breaking):
        def result(self, *_: Any) -> list[FetchedPartition]:
            whole = FetchedPartition("t", 1, None, 90, 90, 0)
            return [self.answer if p.partition == 0 else whole for p in self.asked]

    client = Half(failed(Unreachable("no answer", broker=2, topic="t", partition=0)))
    levels = (1, 0) if shared else (0,)
    pieces = [Piece(Reader(level, 2, "t", 0), Range(10, 90, "A")) for level in levels]
    monkeypatch.setattr(reading, "_client", lambda *_: client)
    later = Piece(Reader(1 - levels[0], 2, "t", 1), Range(10, 90, "A"))
    rows = [
        row
        for batch in reading.read_pieces(replace(OPTIONS, shared=shared, with_isolation=shared), [*pieces, later])
        for row in batch.to_pylist()
    ]
    said = {row["partition"]: (row["position"]["event"], row["position"]["detail"]) for row in rows}
    assert said == {0: (ReadEvent.UNREACHABLE, "broker 2, t-0: no answer"), 1: (ReadEvent.OK, None)}


@pytest.mark.parametrize(("readers", "beyond"), [(1, 100_000), (50, 2_000), (400, 1_000)])
def test_what_came_since_the_plan_is_taken_with_the_last_answer_up_to_a_shared_bound(readers: int, beyond: int) -> None:
    options = replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"})
    pieces = [Piece(Reader(0, 2, "t", number), Range(10, 90, "A")) for number in range(readers)]
    spans = reading._spans(options, [(Progress.of(piece), piece.span.end) for piece in pieces])
    assert {span.most for span in spans} == {90 + beyond}


def test_of_a_large_range_as_much_again_is_taken_and_nothing_where_its_end_is_sharp() -> None:
    given = {"kafka.bootstrap.servers": "nowhere:1", "topics": "t"}
    progress = Progress.of(Piece(READER, Range(0, 500_000, "A")))
    (open_end,) = reading._spans(replica_options({**given, "feedback.path": "unused"}), [(progress, 500_000)])
    (sharp,) = reading._spans(replica_options(given), [(progress, 500_000)])
    assert (open_end.most, sharp.most) == (1_000_000, -1)


class OfTopic(Breaking):
    """A broker that holds a log of one topic id: it shows nothing of it to who asks for another one."""

    def result(self, *_: Any) -> list[FetchedPartition]:
        wrong = from_code(103, broker=2, topic="t", partition=0)
        return [self.answer if p.topic_id == "B" else FetchedPartition("t", 0, wrong) for p in self.asked]


def test_nothing_is_read_of_another_topic_of_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = FetchedPartition("t", 0, high_watermark=7, last_stable_offset=7, log_start_offset=0)
    for isolation in (0, 1):
        (row,) = position_rows(monkeypatch, OfTopic(ends), Piece(Reader(isolation, 2, "t", 0), Range(5, 60, "A")))
        assert (row["offset"], row["position"]["event"], row["position"]["topic_id"]) == (5, "not_hosted", "A")
        assert "another topic of this name" in row["position"]["detail"]
        (row,) = position_rows(monkeypatch, OfTopic(ends), Piece(Reader(isolation, 2, "t", 0), Range(5, 60, "B")))
        assert (row["offset"], row["position"]["event"]) == (7, "ok")
