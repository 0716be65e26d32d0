from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parallax.model import MissingRight, ReadEvent
from parallax.replica.client import PartitionMetadata, TopicMetadata, Watermarks
from parallax.replica.errors import BadOption, Unauthorized, UnknownTopic, Unreachable, from_code
from parallax.source.feedback import ALL, Recorded, write, write_paused
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planner import Planner
from tests.patience import PATIENCE_S
from tests.unit.source.headers import batch


class FaultyClient:
    """Stands beside real brokers to break on command; real ones are in the end-to-end tests."""

    def __init__(self) -> None:
        self.topics = {"orders": self.topic("orders", "A", 1)}
        self.ends = {1: 100, 2: 100}
        self.down: set[int] = set()
        self.asked: list[int] = []
        self.tiered_below = 0
        self.unknown_to: set[int] = set()
        self.sample = b""
        self.hidden: set[str] = set()
        """Topics on which neither READ nor DESCRIBE is granted."""

    @staticmethod
    def topic(name: str, topic_id: str, partitions: int, replicas: tuple[int, ...] = (1, 2)) -> TopicMetadata:
        place = PartitionMetadata(1, 0, replicas, replicas)
        return TopicMetadata(name, topic_id, dict.fromkeys(range(partitions), place))

    def metadata(self, topics: Sequence[str] | None = None) -> dict[str, TopicMetadata]:
        if topics is None:
            return {name: topic for name, topic in self.topics.items() if name not in self.hidden}
        refused = Unauthorized("not authorized", missing=MissingRight.DESCRIBE)
        known = {n: TopicMetadata(n, "", {}, refused) if n in self.hidden else t for n, t in self.topics.items()}
        return {name: known.get(name, TopicMetadata(name, "", {}, UnknownTopic("no such topic"))) for name in topics}

    def watermarks(self, broker: int, partitions: Sequence[Any], *, timeout_ms: float) -> Mapping[Any, Any]:
        self.asked.append(broker)
        if broker in self.down:
            raise Unreachable("refused", broker=broker)
        if self.hidden:
            return dict.fromkeys(partitions, Unauthorized("not authorized", broker=broker))
        if broker in self.unknown_to:
            return dict.fromkeys(partitions, UnknownTopic("no such topic", broker=broker))
        end = self.ends[broker]
        return {partition: Watermarks(end, end, 0, end) for partition in partitions}

    def fetch(self, broker: int, positions: Sequence[Any], **_: Any) -> list[Any]:
        return [SimpleNamespace(records=memoryview(self.sample)) for _ in positions]

    def local_log_starts(self, broker: int, partitions: Sequence[Any], *, timeout_ms: float) -> Mapping[Any, int]:
        return dict.fromkeys(partitions, self.tiered_below)


@pytest.fixture
def client() -> FaultyClient:
    return FaultyClient()


@pytest.fixture
def make(client: FaultyClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    planners: list[Planner] = []
    for name in ("_READ_RETRY_S", "_READ_RETRY_MAX_S"):
        monkeypatch.setattr(f"parallax.source.planner.{name}", 1000.0)
    write(tmp_path / "feedback.json", {})

    def planner(**more: str) -> Planner:
        given = {
            "kafka.bootstrap.servers": "nowhere:1",
            "topics": "orders",
            "isolation.level": "read_uncommitted",
            "metadata.refresh.ms": "1",
            "planning.patience.ms": str(int(PATIENCE_S * 1000)),
            "retry.backoff.ms": "1",
            "feedback.path": str(tmp_path / "feedback.json"),
        }
        planners.append(Planner(replica_options(given | more), client))  # type: ignore[arg-type]
        return planners[-1]

    yield planner
    for one in planners:
        one.close()


def reader(broker: int, partition: int = 0) -> Reader:
    return Reader(0, broker, "orders", partition)


def plan_until(planner: Planner, previous: Mapping[Reader, Range], wanted: Any) -> dict[Reader, Range]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        ranges = planner.plan(previous)
        if ranges is not None and wanted(ranges):
            return ranges
        time.sleep(0.005)
    raise AssertionError("the plan never came")


def test_every_replica_is_read_by_a_reader_of_its_own(make: Any) -> None:
    ranges = make().plan({})
    assert {r: (s.start, s.end) for r, s in ranges.items()} == {reader(1): (0, 100), reader(2): (0, 100)}


def test_there_is_no_batch_where_there_is_nothing_to_do(make: Any) -> None:
    planner = make()
    ranges = planner.plan({})
    settled = {r: s.settled() for r, s in ranges.items()}
    assert planner.plan(settled) is None


def test_a_broker_that_is_down_is_left_out_and_joins_when_it_is_back(make: Any, client: FaultyClient) -> None:
    client.down.add(2)
    planner = make()
    first = planner.plan({})
    assert list(first) == [reader(1)]
    client.down.clear()
    ranges = plan_until(planner, first, lambda r: reader(2) in r)
    assert (ranges[reader(2)].start, ranges[reader(2)].end) == (0, 100)


def test_what_the_sink_recorded_is_where_the_next_range_begins(make: Any, tmp_path: Path) -> None:
    write(tmp_path / "feedback.json", {reader(1): Recorded(40, "A", ReadEvent.OK)})
    ranges = make().plan({reader(1): Range(0, 100, "A"), reader(2): Range(0, 100, "A")})
    assert (ranges[reader(1)].start, ranges[reader(1)].end) == (40, 100)
    assert ranges[reader(2)].empty


def test_a_broker_that_failed_while_it_was_read_gets_a_pause(make: Any, client: FaultyClient, tmp_path: Path) -> None:
    failed = Recorded(40, "A", ReadEvent.UNREACHABLE, batch=3)
    write(tmp_path / "feedback.json", {reader(1): failed, reader(2): Recorded(100, "A", ReadEvent.OK, batch=3)})
    planner = make()
    assert planner.plan({reader(1): Range(0, 100, "A"), reader(2): Range(0, 100, "A")}) is None
    assert client.asked == [2]


def test_a_broker_whose_reading_is_paused_is_not_read_and_goes_on_where_it_stood(
    make: Any, client: FaultyClient, tmp_path: Path
) -> None:
    write(tmp_path / "feedback.json", {reader(b): Recorded(40, "A", ReadEvent.OK) for b in (1, 2)})
    planner, switch = make(**{"paused.path": str(tmp_path / "paused.json")}), tmp_path / "paused.json"
    for brokers, read in (([2], [1]), ([ALL], []), ([], [1, 2])):
        write_paused(switch, brokers)
        planned = planner.plan({}) or {}
        assert [r.broker for r, span in sorted(planned.items()) if not span.empty] == read
        assert all(span.start == 40 for span in planned.values())
    assert client.asked.count(2) < client.asked.count(1)


def test_what_was_planned_before_a_pause_is_left_out_where_its_position_is_recorded(make: Any, tmp_path: Path) -> None:
    write(tmp_path / "feedback.json", {reader(2): Recorded(40, "A", ReadEvent.OK)})
    write_paused(tmp_path / "paused.json", [2])
    planner = make(**{"paused.path": str(tmp_path / "paused.json")})
    planned = {reader(1): Range(40, 90, "A"), reader(2): Range(40, 90, "A"), reader(2, 1): Range(0, 90, "A")}
    assert set(planner.without_paused(planned)) == {reader(1), reader(2, 1)}


def test_of_the_batch_before_only_what_moved_has_to_be_known(make: Any, client: FaultyClient, tmp_path: Path) -> None:
    recorded = {reader(1): Recorded(40, "A", ReadEvent.OK), reader(2): Recorded(100, "A", ReadEvent.OK)}
    write(tmp_path / "feedback.json", recorded)
    planner = make(startingOffsets="latest")
    ranges = planner.plan({reader(1): Range(0, 40, "A")})
    assert {r: (s.start, s.end) for r, s in ranges.items()} == {reader(1): (40, 100)}
    client.topics = {"orders": client.topic("orders", "A", 2)}
    added = plan_until(planner, {}, lambda r: reader(1, 1) in r)[reader(1, 1)]
    assert (added.state, added.start) == (ReadEvent.PARTITION_ADDED, 0)
    client.topics = {}
    gone = plan_until(planner, {}, lambda r: reader(2) in r and r[reader(2)].state is ReadEvent.TOPIC_DELETED)
    assert gone[reader(2)].fresh


def test_a_partition_that_fails_on_a_broker_that_shows_others_holds_up_itself_only(
    make: Any, client: FaultyClient, tmp_path: Path
) -> None:
    client.topics = {"orders": client.topic("orders", "A", 2)}
    failed, read = (Recorded(40, "A", event, batch=3) for event in (ReadEvent.UNREACHABLE, ReadEvent.OK))
    write(tmp_path / "feedback.json", {reader(1): failed, reader(1, 1): read, reader(2): read, reader(2, 1): read})
    ranges = make().plan({})
    assert {r for r, span in ranges.items() if span.empty} == {reader(1)}


def test_a_batch_that_cannot_be_read_holds_up_its_own_reader_only(make: Any, tmp_path: Path) -> None:
    broken = Recorded(40, "A", ReadEvent.CORRUPT_BATCH, batch=3)
    write(tmp_path / "feedback.json", {reader(1): broken, reader(2): Recorded(50, "A", ReadEvent.OK, batch=3)})
    ranges = make().plan({reader(1): Range(0, 100, "A"), reader(2): Range(0, 50, "A")})
    assert ranges[reader(1)].empty
    assert (ranges[reader(2)].start, ranges[reader(2)].end) == (50, 100)


def test_a_deleted_topic_is_reported_once(make: Any, client: FaultyClient) -> None:
    planner = make()
    before = planner.plan({})
    client.topics = {}
    ranges = plan_until(planner, before, lambda r: r[reader(1)].state is ReadEvent.TOPIC_DELETED)
    assert all(span.fresh and span.start == span.end == 100 for span in ranges.values())
    assert planner.plan(ranges) is None


def test_a_recreated_topic_is_read_from_its_start(make: Any, client: FaultyClient) -> None:
    planner = make()
    before = planner.plan({})
    client.topics = {"orders": client.topic("orders", "B", 1)}
    ranges = plan_until(planner, before, lambda r: r[reader(1)].state is ReadEvent.TOPIC_RECREATED)
    assert (ranges[reader(1)].start, ranges[reader(1)].end, ranges[reader(1)].topic_id) == (0, 100, "B")


def test_a_partition_that_was_added_is_read_whole_even_from_latest(make: Any, client: FaultyClient) -> None:
    planner = make(startingOffsets="latest")
    before = planner.plan({})
    assert before[reader(1)].start == 100
    client.topics = {"orders": client.topic("orders", "A", 2)}
    ranges = plan_until(planner, before, lambda r: reader(1, 1) in r)
    assert ranges[reader(1, 1)].state is ReadEvent.PARTITION_ADDED
    assert (ranges[reader(1, 1)].start, ranges[reader(1, 1)].end) == (0, 100)


def test_a_replica_that_moved_away_is_reported_once(make: Any, client: FaultyClient) -> None:
    planner = make()
    before = planner.plan({})
    client.topics = {"orders": client.topic("orders", "A", 1, replicas=(1, 3))}
    client.ends[3] = 100
    ranges = plan_until(planner, before, lambda r: r[reader(2)].state is ReadEvent.NOT_HOSTED)
    assert "no longer a replica" in ranges[reader(2)].detail


def test_a_new_stream_refuses_topics_and_brokers_that_are_not_there(make: Any) -> None:
    with pytest.raises(BadOption, match="topics names invoices, which does not exist"):
        make(topics="orders,invoices").plan({})
    with pytest.raises(BadOption, match="brokers names 9"):
        make(brokers="1,9").plan({})


def test_only_the_brokers_that_were_chosen_are_asked(make: Any, client: FaultyClient) -> None:
    assert list(make(brokers="2").plan({})) == [reader(2)]
    assert client.asked == [2]


@pytest.mark.parametrize(
    ("records", "taken"),
    [pytest.param(10_000, 10_000, id="a log of records"), pytest.param(100, 100_000, id="a log that was compacted")],
)
def test_records_that_are_compressed_to_a_few_bytes_count_for_more(
    make: Any, client: FaultyClient, records: int, taken: int
) -> None:
    client.ends = {1: 100_000}
    client.sample = batch(0, 9_999, 100_000, records)
    planned = make(maxBytesPerTrigger="1000000", brokers="1").plan({})
    assert planned[reader(1)].end == taken


def test_a_log_that_is_tiered_is_read_from_where_the_replica_holds_it(make: Any, client: FaultyClient) -> None:
    client.tiered_below = 60
    ranges = make().plan({})
    assert {(s.start, s.end) for s in ranges.values()} == {(60, 100)}
    assert all("offsets 0 to 59 are no longer in the replica's own log" in s.detail for s in ranges.values())


def test_a_topic_that_one_broker_alone_does_not_know_is_not_deleted(make: Any, client: FaultyClient) -> None:
    client.unknown_to.add(2)
    planner = make(**{"metadata.refresh.ms": "3600000"})
    before = {reader(1): Range(0, 9, "A"), reader(2): Range(0, 9, "A")}
    first = planner.plan(before)
    assert first[reader(2)].empty, "the metadata known are older than the broker's word"
    ranges = plan_until(planner, before, lambda r: r[reader(2)].fresh)
    assert ranges[reader(2)].state is ReadEvent.NOT_HOSTED
    again = plan_until(planner, {r: s.settled() for r, s in ranges.items()} | before, lambda r: not r[reader(1)].empty)
    assert again[reader(2)].state in (ReadEvent.OK, ReadEvent.NOT_HOSTED)


class OneLog(FaultyClient):
    """A broker whose log of "orders" is of one topic, whatever the metadata say; it answers by topic id."""

    def __init__(self) -> None:
        super().__init__()
        self.shown("A", 0, 500)
        self.metadata_know("A")

    def metadata_know(self, topic_id: str) -> None:
        self.topics = {"orders": self.topic("orders", topic_id, 1, (2,))}

    def shown(self, topic_id: str, start: int, end: int) -> None:
        self.log = topic_id, Watermarks(end, end, start, end)

    def watermarks(self, broker: int, partitions: Any, *, timeout_ms: float) -> Mapping[Any, Any]:
        (topic_id,), (held, marks) = partitions.topic_ids, self.log
        return dict.fromkeys(partitions, marks if topic_id == held else from_code(100, broker=broker))


class TestWhereATopicWasRecreated:
    @pytest.fixture
    def client(self) -> OneLog:
        return OneLog()

    @pytest.fixture
    def planner(self, make: Any, tmp_path: Path) -> Planner:
        write(tmp_path / "feedback.json", {reader(2): Recorded(500, "A", ReadEvent.OK, 1)})
        found: Planner = make()
        return found

    def test_what_its_predecessors_log_says_is_not_said_of_it(self, planner: Planner, client: OneLog) -> None:
        client.shown("A", 300, 500)
        assert planner.plan({}) is None
        client.metadata_know("B")
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            planned = (planner.plan({}) or {}).values()
            assert {span.state for span in planned} <= {ReadEvent.NOT_HOSTED}, "B's log is not there yet"
        client.shown("B", 0, 30)
        span = plan_until(planner, {}, lambda r: r[reader(2)].state is ReadEvent.TOPIC_RECREATED)[reader(2)]
        assert (span.start, span.end, span.topic_id) == (0, 30, "B")

    def test_it_is_not_read_on_where_the_metadata_are_older(self, make: Any, tmp_path: Path, client: OneLog) -> None:
        write(tmp_path / "feedback.json", {reader(2): Recorded(5, "A", ReadEvent.OK, 1)})
        client.shown("A", 0, 5)
        planner = make(**{"metadata.refresh.ms": "3600000"})
        assert planner.plan({}) is None
        client.metadata_know("B")
        client.shown("B", 0, 60)
        assert planner.plan({}) is None, "what is there beyond the position is another topic's"
        span = plan_until(planner, {}, lambda r: bool(r))[reader(2)]
        assert (span.state, span.start, span.end) == (ReadEvent.TOPIC_RECREATED, 0, 60)

    def test_an_answer_that_was_asked_for_by_the_old_id_is_left_out(self, make: Any, client: OneLog) -> None:
        answer, asked, gates = client.watermarks, threading.Semaphore(0), threading.Semaphore(0)

        def slow(*args: Any, **more: Any) -> Mapping[Any, Any]:
            said = answer(*args, **more)
            asked.release()
            gates.acquire(timeout=PATIENCE_S)
            return said

        client.shown("A", 300, 500)
        client.watermarks = slow  # type: ignore[method-assign]
        planner = make(**{"planning.patience.ms": "1"})
        before = {reader(2): Range(0, 500, "A")}
        assert planner.plan(before) is None
        assert asked.acquire(timeout=PATIENCE_S)
        client.metadata_know("B")
        client.shown("B", 0, 30)
        for _ in range(100):
            assert planner.plan(before) is None
            time.sleep(0.002)
        gates.release()
        while not asked.acquire(blocking=False):  # Once it is asked again, the first answer has been looked at.
            assert planner.plan(before) is None
            time.sleep(0.002)
        gates.release(1000)
        span = plan_until(planner, before, lambda r: r[reader(2)].fresh)[reader(2)]
        assert (span.state, span.start, span.end) == (ReadEvent.TOPIC_RECREATED, 0, 30)


def test_a_log_that_ends_below_the_position_is_truncated_only_if_the_topic_is_still_the_same(
    make: Any, client: FaultyClient
) -> None:
    planner = make(**{"metadata.refresh.ms": "3600000"})
    before = planner.plan({})
    client.ends = {1: 30, 2: 100}
    client.topics = {"orders": client.topic("orders", "B", 1)}
    assert planner.plan(before) is None, "the metadata known are older than the short log"
    ranges = plan_until(planner, before, lambda r: any(span.fresh for span in r.values()))
    assert {span.state for span in ranges.values()} == {ReadEvent.TOPIC_RECREATED}


def test_a_truncated_log_is_reported_as_soon_as_younger_metadata_know_the_same_topic(
    make: Any, client: FaultyClient
) -> None:
    planner = make(**{"metadata.refresh.ms": "3600000"})
    before = planner.plan({})
    client.ends = {1: 30, 2: 100}
    ranges = plan_until(planner, before, lambda r: r[reader(1)].fresh)
    assert (ranges[reader(1)].state, ranges[reader(1)].start) == (ReadEvent.LOG_TRUNCATED, 30)


def states(plan: Mapping[Reader, Range]) -> set[ReadEvent]:
    return {span.state for span in plan.values()}


@pytest.mark.parametrize("chosen", [{"topics": "orders"}, {"topics.pattern": "ord.*"}])
def test_a_topic_that_may_not_be_seen_any_more_is_unauthorized_and_not_deleted(
    make: Any, client: FaultyClient, chosen: dict[str, str]
) -> None:
    planner = make(**{"topics": "", **chosen})
    first = plan_until(planner, {}, lambda plan: len(plan) == 2)
    client.hidden = {"orders"}
    refused = plan_until(planner, first, lambda plan: ReadEvent.OK not in states(plan))
    assert states(refused) == {ReadEvent.UNAUTHORIZED}
    assert all(span.fresh for span in refused.values())
    client.hidden = set()
    again = plan_until(planner, refused, lambda plan: states(plan) == {ReadEvent.OK})
    assert {span.detail for span in again.values()} == {"readable again after unauthorized"}


def test_after_a_restart_a_topic_that_may_not_be_seen_is_not_deleted_either(make: Any, client: FaultyClient) -> None:
    previous = {reader(1): Range(5, 5, "A"), reader(2): Range(5, 5, "A")}
    client.hidden = {"orders"}
    planner = make(**{"topics": "", "topics.pattern": "ord.*"})
    refused = plan_until(planner, previous, lambda plan: len(plan) == 2)
    assert states(refused) == {ReadEvent.UNAUTHORIZED}


def test_a_topic_that_is_not_listed_and_not_known_by_name_is_deleted(make: Any, client: FaultyClient) -> None:
    planner = make(**{"topics": "", "topics.pattern": "ord.*"})
    first = plan_until(planner, {}, lambda plan: len(plan) == 2)
    client.topics = {}
    gone = plan_until(planner, first, lambda plan: states(plan) == {ReadEvent.TOPIC_DELETED})
    assert len(gone) == 2


def test_what_is_gone_is_reported_once_and_again_once_the_cluster_has_changed(
    make: Any, client: FaultyClient, tmp_path: Path
) -> None:
    client.topics["other"] = client.topic("other", "B", 1)
    mine, gone = Recorded(100, "A", ReadEvent.OK), Recorded(100, "C", ReadEvent.TOPIC_DELETED)
    stranger = Reader(0, 1, "gone", 0)
    write(tmp_path / "feedback.json", {reader(1): mine, reader(2): mine, stranger: gone})
    planner = make(**{"metadata.refresh.ms": "60000"})
    assert planner.plan({}) is None
    assert planner._strangers == set()
    client.topics["gone"] = client.topic("gone", "D", 1)
    planner._catalog.refresh()
    assert plan_until(planner, {}, lambda r: stranger in r)[stranger].state is ReadEvent.TOPIC_RECREATED


def test_a_topic_whose_readers_were_forgotten_is_not_asked_for_and_begins_anew_when_back(
    make: Any, client: FaultyClient, tmp_path: Path
) -> None:
    mine, stranger = Recorded(100, "A", ReadEvent.OK), Reader(0, 1, "gone", 0)
    gone = Recorded(100, "C", ReadEvent.TOPIC_DELETED)
    write(tmp_path / "feedback.json", {reader(1): mine, reader(2): mine, stranger: gone})
    planner = make(**{"topics.pattern": "orders|gone", "startingOffsets": "latest"})
    assert planner.plan({}) is None
    assert planner._catalog._remembered == {"orders", "gone"}
    write(tmp_path / "feedback.json", {reader(1): mine, reader(2): mine})
    assert planner.plan({}) is None
    assert planner._catalog._remembered == {"orders"}
    client.topics["gone"] = client.topic("gone", "D", 1)
    span = plan_until(planner, {}, lambda ranges: stranger in ranges)[stranger]
    assert (span.start, span.state) == (0, ReadEvent.PARTITION_ADDED)
