from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parallax.model import MissingRight, TopicPartition
from parallax.replica.errors import NotHosted, ReplicaError, Unauthorized, Unreachable
from parallax.replica.places import Marks, Places
from parallax.replica.types import PartitionMetadata, ProducerState, TopicMetadata, Watermarks
from parallax.source.feedback import write_awaited
from parallax.source.options import progress_options
from parallax.source.progress_source import (
    Described,
    ProgressStreamReader,
    ProgressWatch,
    SteadyClock,
    observe,
)

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
OPEN = ProducerState(7, 0, 0, 0, 0, 4)
IDLE = ProducerState(8, 0, 0, 0, 0, -1)
CALM = Watermarks(10, 10, 0, 10)
HELD = Watermarks(10, 4, 0, 10)
REFUSED = Unauthorized("not authorized", missing=MissingRight.READ, broker=1, topic="orders", partition=0)


class Client:
    """Stands beside real brokers to refuse on command; real ones are in tests/e2e/test_replica_security.py."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, int], Any] = {ORDERS: CALM}
        self.described: list[list[tuple[str, int]]] = []
        self.down: ReplicaError | None = None
        self.ends: Any = {}

    def metadata(self, topics: Any = None) -> dict[str, TopicMetadata]:
        return {"orders": TopicMetadata("orders", "A", {0: PartitionMetadata(1, 0, (1,), (1,))})}

    def topic_configs(self, topics: Any, names: Any) -> dict[str, Any]:
        return {}

    def watermarks(self, broker: int, partitions: Sequence[Any], *, timeout_ms: float) -> Mapping[Any, Any]:
        if self.down is not None:
            raise self.down
        return {place: self.marks[place] for place in partitions}

    def describe_producers(self, broker: int, partitions: Sequence[Any], *, timeout_ms: float) -> Mapping[Any, Any]:
        self.described.append(list(partitions))
        return {place: [OPEN, IDLE] for place in partitions}

    def log_end_offsets(self, broker: int, partitions: Sequence[Any], *, timeout_ms: float) -> Mapping[Any, Any]:
        return {place: self.ends[place] for place in partitions}

    def close(self) -> None: ...


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def watch(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProgressWatch]:
    monkeypatch.setattr("parallax.replica.client.ReplicaClient", lambda *_, **__: client)
    given = {"kafka.bootstrap.servers": "nowhere:1", "topics": "orders", "planning.patience.ms": "20000"}
    made = ProgressWatch(progress_options(given))
    yield made
    made.close()


def test_a_replica_that_may_not_be_read_is_not_reachable_and_says_which_right_is_missing(
    client: Client, watch: ProgressWatch
) -> None:
    client.marks[ORDERS], client.ends = REFUSED, {ORDERS: 85}
    (row,) = watch.tick().rows()
    assert (row["reachable"], row["problem"], row["missing_right"]) == (False, "unauthorized", "read")
    assert row["log_end_offset"] == 85
    assert "not authorized" in row["error"]


def test_where_not_even_the_end_of_the_log_may_be_asked_it_is_not_known(client: Client, watch: ProgressWatch) -> None:
    client.marks[ORDERS], client.ends = REFUSED, {ORDERS: REFUSED}
    assert watch.tick().rows()[0]["log_end_offset"] is None


@pytest.mark.parametrize(
    ("error", "problem", "right"),
    [
        (Unreachable("refused", broker=1), "unreachable", None),
        (Unauthorized("wrong password", broker=1), "unauthorized", "credentials"),
        (ReplicaError("strange", broker=1), "unreachable", None),
    ],
)
def test_a_broker_that_says_nothing_at_all_has_its_reason_in_every_row(
    client: Client, watch: ProgressWatch, error: ReplicaError, problem: str, right: str | None
) -> None:
    client.down = error
    (row,) = watch.tick().rows()
    assert (row["reachable"], row["problem"], row["missing_right"]) == (False, problem, right)


def test_a_replica_that_is_not_hosted_is_neither_unreachable_nor_unauthorized(
    client: Client, watch: ProgressWatch
) -> None:
    client.marks[ORDERS] = NotHosted("no replica")
    (row,) = watch.tick().rows()
    assert (row["problem"], row["missing_right"]) == ("not_hosted", None)


def test_only_transactions_that_are_open_are_listed(client: Client) -> None:
    listed = observe(client, 1, Places([ORDERS]), 1000, Described(), lambda: 5).transactions[ORDERS]
    assert not isinstance(listed, ReplicaError)
    assert [t["producer_id"] for t in listed] == [7]


def test_producers_are_asked_for_at_a_still_last_stable_offset_and_else_now_and_then() -> None:
    now = [100.0]
    described = Described(10.0, clock=lambda: now[0])
    moved = Watermarks(12, 6, 0, 12)
    asked = []
    for marks in (CALM, CALM, HELD, HELD, moved, CALM):
        asked.append(described.due(Marks.of({ORDERS: marks})))
        now[0] += 1
    assert asked == [[ORDERS], [], [], [ORDERS], [], []]
    now[0] += 10
    assert described.due(Marks.of({ORDERS: CALM})) == [ORDERS]
    assert described.due(Marks.of({ORDERS: CALM, OTHER: CALM})) == [OTHER]


def test_a_replica_that_was_not_asked_for_its_producers_does_not_seem_to_have_none(client: Client) -> None:
    described = Described()
    places = Places([ORDERS])
    assert observe(client, 1, places, 1000, described, lambda: 5).transactions[ORDERS] == [
        {"producer_id": 7, "producer_epoch": 0, "start_offset": 4, "last_timestamp": 0, "coordinator_epoch": 0}
    ]
    assert observe(client, 1, places, 1000, described, lambda: 5).transactions == {}
    assert client.described == [[ORDERS]]


def test_a_clock_that_is_set_does_not_move_the_time_of_the_rows() -> None:
    wall, ran = [1_000_000_000_000], [0]
    clock = SteadyClock(wall=lambda: wall[0], monotonic=lambda: ran[0])
    assert clock() == 1_000_000
    wall[0], ran[0] = 9_000_000_000_000, 5_000_000
    assert clock() == 1_000_005


@pytest.fixture
def reader(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProgressStreamReader]:
    monkeypatch.setattr("parallax.replica.client.ReplicaClient", lambda *_, **__: client)
    given = {"kafka.bootstrap.servers": "nowhere:1", "topics": "orders", "planning.patience.ms": "20000"}
    given["awaited.path"] = str(tmp_path / "awaited.json")
    made = ProgressStreamReader(progress_options(given))
    yield made
    made.stop()


def latest(reader: ProgressStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, None)  # type: ignore[arg-type]


def rows(reader: ProgressStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [row.get("high_watermark") for part in reader.partitions(start, end) for row in part.rows]  # type: ignore[attr-defined]


def test_a_clock_that_is_set_back_between_two_starts_does_not_take_the_rows_back(reader: ProgressStreamReader) -> None:
    ahead = SteadyClock()() + 3_600_000
    first = latest(reader, {"tick": 4, "at": ahead})
    assert first["tick"] == 5
    assert first["at"] > ahead


def test_an_offset_of_an_earlier_version_has_no_time(reader: ProgressStreamReader) -> None:
    before = SteadyClock()()
    assert latest(reader, {"tick": 4})["at"] >= before


def test_what_only_repeats_the_tick_before_is_no_tick(client: Client, reader: ProgressStreamReader) -> None:
    first = latest(reader, reader.initialOffset())
    assert rows(reader, reader.initialOffset(), first) == [10]
    assert latest(reader, first) == first
    client.marks[ORDERS] = Watermarks(11, 11, 0, 11)
    second = latest(reader, first)
    assert rows(reader, first, second) == [10, 11]


@pytest.mark.parametrize("error", [REFUSED, NotHosted("no replica")])
def test_a_replica_that_does_not_answer_is_a_tick_and_so_is_the_next_one(
    client: Client, reader: ProgressStreamReader, error: ReplicaError
) -> None:
    at = latest(reader, reader.initialOffset())
    client.marks[ORDERS], client.ends = error, {ORDERS: 10}
    for _ in range(2):
        before, at = at, latest(reader, at)
        assert at["tick"] == before["tick"] + 1
    client.marks[ORDERS] = CALM
    after = latest(reader, at)
    assert rows(reader, at, after) == [10]
    assert latest(reader, after) == after


def test_what_the_comparison_awaits_is_a_tick_whatever_it_says(reader: ProgressStreamReader, tmp_path: Path) -> None:
    first = latest(reader, reader.initialOffset())
    write_awaited(tmp_path / "awaited.json", [TopicPartition("orders", 0)])
    second = latest(reader, first)
    assert rows(reader, first, second) == [10]
    write_awaited(tmp_path / "awaited.json", [])
    assert latest(reader, second) == second


def test_a_file_of_what_is_awaited_that_cannot_be_read_names_nothing(
    reader: ProgressStreamReader, tmp_path: Path
) -> None:
    (tmp_path / "awaited.json").write_text("[[1")
    first = latest(reader, reader.initialOffset())
    assert latest(reader, first) == first


def test_a_tick_that_is_run_again_asks_again(reader: ProgressStreamReader) -> None:
    assert rows(reader, {"tick": 6}, {"tick": 7, "at": 1}) == [10]
