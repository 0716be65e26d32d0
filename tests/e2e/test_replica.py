"""What parallax.replica reads from real brokers, with confluent-kafka's consumer as the oracle."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java
from parallax.lab.admin import delete_topics
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, Outcome, RowKind
from parallax.model import TopicPartition as Place
from parallax.replica.client import FetchPosition, ReplicaClient, Watermarks
from parallax.replica.decode import ContentHasher, Payload
from parallax.replica.errors import (
    DeadlineExceeded,
    NotABroker,
    NotHosted,
    OffsetOutOfRange,
    ReplicaError,
    UnknownTopic,
    Unreachable,
)
from parallax.replica.places import Places
from parallax.replica.reader import Chunk, read_range
from tests.chunks import read_all
from tests.e2e.transactional import HELD_OPEN

HASHER = ContentHasher(bytes(range(16)))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@pytest.fixture(scope="module")
def client(kafka: Cluster) -> Iterator[ReplicaClient]:
    made = ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=30_000)
    yield made
    made.close()


# --- both sides as plain rows ---


def consumed(cluster: Cluster, topic: str, isolation: IsolationLevel) -> list[Row]:
    """All records that confluent-kafka's consumer shows."""
    consumer = Consumer(
        client_settings(
            cluster.bootstrap_servers,
            **{
                "group.id": uuid4().hex,
                "enable.partition.eof": True,
                "isolation.level": isolation.option,
                "enable.auto.commit": False,
                "check.crcs": True,
            },
        )
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows: list[Row] = []
    try:
        while True:
            message = consumer.poll(120)
            assert message is not None, "the oracle came to no end"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return rows
            headers = tuple(message.headers() or ())
            rows.append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
    finally:
        consumer.close()


def rows_of(chunk: Chunk, isolation: IsolationLevel) -> Iterator[Row]:
    columns = chunk.columns
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.headers is not None
    keys, values, headers = columns.keys.to_pylist(), columns.values.to_pylist(), columns.headers.to_pylist()
    for i in range(len(columns)):
        hidden = isolation is IsolationLevel.READ_COMMITTED and chunk.outcome[i] == Outcome.ABORTED
        if columns.kind[i] == RowKind.RECORD and not hidden:
            place = int(columns.offset[i]), int(columns.timestamp[i])
            yield (*place, keys[i], values[i], tuple(unpacked(headers[i])))


def unpacked(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    at = 0

    def varint() -> int:
        nonlocal at
        raw, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)

    def take() -> bytes | None:
        nonlocal at
        size = varint()
        if size < 0:
            return None
        at += size
        return data[at - size : at]

    for _ in range(varint()):
        name = take()
        assert name is not None
        yield name.decode(), take()
    assert at == len(data)


def read(
    client: ReplicaClient, broker: int, topic: str, isolation: IsolationLevel, max_bytes: int = 1 << 20, start: int = 0
) -> tuple[list[Row], int]:
    """The rows that a broker shows, and the position behind them."""
    marks = watermarks(client, broker, topic)
    end = marks.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else marks.high_watermark
    chunks = read_range(
        client,
        broker,
        topic,
        0,
        start,
        end,
        isolation=isolation,
        hasher=HASHER,
        payload=Payload.FULL,
        max_bytes=max_bytes,
        deadline_ms=60_000,
    )
    taken, position, failure = read_all(chunks)
    assert failure is None, failure
    rows = [row for chunk in taken for row in rows_of(chunk, isolation)]
    assert position == (end if end > start else None)
    return rows, end


def watermarks(client: ReplicaClient, broker: int, topic: str) -> Watermarks:
    found = client.watermarks(broker, [(topic, 0)])[topic, 0]
    assert isinstance(found, Watermarks), found
    return found


def wait_replicated(client: ReplicaClient, cluster: Cluster, topic: str, open_transactions: int = 0) -> None:
    """Until all replicas agree on log end, high watermark and last stable offset, and nothing else is to come.

    Args:
        client: asks each broker.
        cluster: its brokers.
        topic: the topic.
        open_transactions: how many have not been ended. Of the others, each marker comes after the answer to the end.
    """

    def settled() -> bool:
        marks = [watermarks(client, broker, topic) for broker in cluster.brokers]
        ends = {m.log_end_offset for m in marks} | {m.high_watermark for m in marks}
        opened = {open_in(client, broker, topic) for broker in cluster.brokers}
        return len(ends) == 1 and len({m.last_stable_offset for m in marks}) == 1 and opened == {open_transactions}

    until(settled, f"{topic} to be replicated")


def open_in(client: ReplicaClient, broker: int, topic: str) -> int:
    """How many transactions a broker holds for open."""
    found = client.describe_producers(broker, [(topic, 0)])[topic, 0]
    assert isinstance(found, list), found
    return sum(producer.current_transaction_start_offset >= 0 for producer in found)


# --- same records, same order, same visibility ---

_bytes = st.binary(max_size=30)
_headers = st.lists(st.tuples(st.text("abcé", max_size=4), st.none() | _bytes), max_size=2)
_value = st.none() | _bytes | st.builds(lambda b, n: b * n, st.binary(min_size=1, max_size=8), st.integers(1, 3000))


@dataclass(frozen=True)
class Send:
    """Some records by one producer, and how its transaction ends: None leaves it open for now."""

    producer: str
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
    end: bool | None


_sends = st.lists(
    st.builds(
        Send,
        st.sampled_from([*CODECS, "txn-lz4", "txn-zstd"]),
        st.lists(st.tuples(st.none() | _bytes, _value, _headers), min_size=1, max_size=6),
        st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@pytest.fixture(scope="module")
def producers(kafka: Cluster) -> dict[str, Producer]:
    """One producer per codec, and two transactional ones."""
    made = {c: Producer(client_settings(kafka.bootstrap_servers, **{"compression.type": c})) for c in CODECS}
    for codec in ("lz4", "zstd"):
        name = f"txn-{codec}"
        options = {"compression.type": codec, "transactional.id": f"{name}-{uuid4().hex}", **HELD_OPEN}
        made[name] = Producer(client_settings(kafka.bootstrap_servers, **options))
        made[name].init_transactions(120)
    return made


def produce(producers: dict[str, Producer], topic: str, sends: list[Send]) -> list[str]:
    """Send it all, and return the producers whose transaction is still open."""
    still_open: list[str] = []
    for send in sends:
        producer = producers[send.producer]
        transactional = send.producer.startswith("txn-")
        if transactional and send.producer not in still_open:
            producer.begin_transaction()
            still_open.append(send.producer)
        for key, value, headers in send.records:
            producer.produce(topic, value, key, 0, headers=headers)
        assert producer.flush(120) == 0
        if transactional and send.end is not None:
            finish(producers, send.producer, commit=send.end)
            still_open.remove(send.producer)
    return still_open


def finish(producers: dict[str, Producer], name: str, *, commit: bool) -> None:
    producer = producers[name]
    producer.commit_transaction(120) if commit else producer.abort_transaction(120)


@given(sends=_sends, max_bytes=st.sampled_from([1, 500, 1 << 20]), last=st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_replica_shows_what_the_consumer_shows(
    kafka: Cluster,
    client: ReplicaClient,
    producers: dict[str, Producer],
    sends: list[Send],
    max_bytes: int,
    last: bool,
) -> None:
    topic = f"same-{uuid4().hex}"
    kafka.create_topic(topic)
    still_open = produce(producers, topic, sends)
    try:
        assert_same_view(kafka, client, topic, max_bytes, len(still_open))
    finally:
        for name in still_open:
            finish(producers, name, commit=last)
    assert_same_view(kafka, client, topic, max_bytes)


def assert_same_view(
    cluster: Cluster, client: ReplicaClient, topic: str, max_bytes: int, open_transactions: int = 0
) -> None:
    wait_replicated(client, cluster, topic, open_transactions)
    for isolation in IsolationLevel:
        expected = consumed(cluster, topic, isolation)
        for broker in cluster.brokers:
            rows, end = read(client, broker, topic, isolation, max_bytes)
            assert rows == expected, f"broker {broker}, {isolation.option}"
            middle = end // 2
            rows, _ = read(client, broker, topic, isolation, max_bytes, start=middle)
            assert rows == [row for row in expected if row[0] >= middle]


def test_log_append_time_is_the_brokers(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        producers[codec].produce(topic, b"v", b"k", 0, timestamp=1_000_000)
        assert producers[codec].flush(120) == 0
    wait_replicated(client, kafka, topic)
    rows, _ = read(client, 2, topic, IsolationLevel.READ_UNCOMMITTED)
    assert rows == consumed(kafka, topic, IsolationLevel.READ_UNCOMMITTED)
    assert all(row[1] > 1_600_000_000_000 for row in rows)


def test_a_compacted_log_is_read_with_its_gaps_and_to_its_end(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.0",
        "delete.retention.ms": "100",
    }
    kafka.create_topic(topic, config=config)

    def cleaned() -> bool:
        send = Send("txn-lz4", [(b"k%d" % (i % 7), b"v%d" % i, []) for i in range(40)], True)
        produce(producers, topic, [send, Send("none", [(b"k1", None, [])], None)])
        rows, end = read(client, 1, topic, IsolationLevel.READ_UNCOMMITTED)
        return len(rows) < end // 2

    until(cleaned, "the cleaner")
    leader = client.metadata([topic])[topic].partitions[0].leader

    def same() -> bool:
        # The cleaner may run between the two readings; what is compared is one state of the log.
        rows, end = read(client, leader, topic, IsolationLevel.READ_COMMITTED, max_bytes=300)
        return rows == consumed(kafka, topic, IsolationLevel.READ_COMMITTED) and len(rows) < end // 2

    until(same, "a moment without the cleaner")


def test_a_batch_larger_than_what_is_asked_for_comes_whole(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    kafka.create_topic(topic)
    value = bytes(range(256)) * 2000
    producers["none"].produce(topic, value, b"large", 0)
    producers["none"].produce(topic, b"small", b"small", 0)
    assert producers["none"].flush(120) == 0
    wait_replicated(client, kafka, topic)
    rows, _ = read(client, 3, topic, IsolationLevel.READ_COMMITTED, max_bytes=10)
    assert [row[3] for row in rows] == [value, b"small"]


# --- what a replica reports about itself ---


def test_a_follower_reports_its_open_transaction(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    kafka.create_topic(topic)
    produce(producers, topic, [Send("none", [(b"k", b"v", [])], None), Send("txn-lz4", [(b"k", b"v", [])], None)])
    try:
        for broker in kafka.brokers:
            marks = until(
                lambda b=broker: (m := watermarks(client, b, topic)).high_watermark == 2 and m, "the watermark"
            )
            assert (marks.last_stable_offset, marks.log_start_offset, marks.log_end_offset) == (1, 0, 2)
            found = client.describe_producers(broker, [(topic, 0)])[topic, 0]
            assert isinstance(found, list)
            open_at = {p.producer_id: p.current_transaction_start_offset for p in found}
            assert max(open_at.values()) == 1
        listings = client.list_transactions(list(open_at))
        assert not listings.unanswered
        (listed,) = [t for t in listings.transactions if t.producer_id in open_at]
        assert listed.state == "Ongoing"
        (described,) = client.describe_transactions(listed.coordinator, [listed.transactional_id, "of nobody"])
        assert described.started_ms > 0, "which only its coordinator's description says"
        assert described == replace(listed, partitions=frozenset({Place(topic, 0)}), started_ms=described.started_ms)
    finally:
        finish(producers, "txn-lz4", commit=True)


def test_the_end_of_an_epoch_comes_from_the_replica_itself(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    kafka.create_topic(topic)
    produce(producers, topic, [Send("none", [(b"k", b"v", [])] * 3, None)])
    wait_replicated(client, kafka, topic)
    for broker in kafka.brokers:
        assert client.end_offset_for_epoch(broker, topic, 0, 0) == (0, 3)
        assert client.end_offset_for_epoch(broker, topic, 0, 99) is None


def test_what_cannot_be_answered_is_reported_per_partition(kafka: Cluster, client: ReplicaClient, topic: str) -> None:
    kafka.create_topic(topic, replicas=[1])

    def one(broker: int, name: str, offset: int) -> Any:
        position = FetchPosition(name, 0, offset)
        fine = FetchPosition(topic, 0, 0) if name != topic else position
        answers = client.fetch(broker, [position, fine], isolation=IsolationLevel.READ_COMMITTED, max_bytes=1 << 20)
        return answers[0].error

    until(lambda: one(1, topic, 0) is None, "broker 1 to lead the topic")
    assert isinstance(one(1, topic, 5), OffsetOutOfRange)
    assert isinstance(one(1, f"no-{topic}", 0), UnknownTopic)
    until(lambda: isinstance(one(2, topic, 0), NotHosted), "broker 2 to know of the topic")
    assert isinstance(client.log_end_offsets(2, [(topic, 0)])[topic, 0], NotHosted)
    assert isinstance(client.describe_producers(2, [(topic, 0)])[topic, 0], NotHosted)
    metadata = client.metadata([topic, f"no-{topic}"])
    assert metadata[topic].partitions[0].replicas == (1,)
    assert len(metadata[topic].topic_id) == 22
    assert isinstance(metadata[f"no-{topic}"].error, UnknownTopic)


def test_a_topic_that_was_re_created_does_not_answer_for_the_one_that_it_replaced(
    kafka: Cluster, client: ReplicaClient, producers: dict[str, Producer], topic: str
) -> None:
    def shown(broker: int, topic_id: str) -> Any:
        position = FetchPosition(topic, 0, 0, topic_id=topic_id)
        (answer,) = client.fetch(broker, [position], isolation=IsolationLevel.READ_COMMITTED, max_bytes=1 << 20)
        marks = client.watermarks(broker, Places([(topic, 0)], {topic: topic_id}))[topic, 0]  # type: ignore[index]
        return answer.error or len(answer.records), marks

    def created() -> str:
        kafka.create_topic(topic)
        produce(producers, topic, [Send("none", [(b"k", b"v", [])] * 3, None)])
        known = partial(client.metadata, [topic])
        topic_id = until(lambda: ({known()[topic].topic_id} - {"", dead} or {""}).pop(), "the topic's id")
        for broker in kafka.brokers:
            until(lambda b=broker: shown(b, topic_id)[1] == Watermarks(3, 3, 0, 3), f"the records on broker {broker}")
        return topic_id

    dead = ""
    dead = created()
    delete_topics(kafka, [topic])
    alive = created()
    for broker in kafka.brokers:
        assert shown(broker, alive)[0] > 0
        assert [type(said) for said in shown(broker, dead)] == [UnknownTopic, UnknownTopic]


# --- brokers that fail ---


def test_a_paused_or_killed_broker_fails_in_time_and_is_found_again(
    make_cluster: Callable[..., Cluster], topic: str
) -> None:
    cluster = make_cluster(brokers=2)
    cluster.create_topic(topic)
    producer = Producer(client_settings(cluster.bootstrap_servers))
    producer.produce(topic, b"v" * 1000, b"k", 0)
    assert producer.flush(120) == 0
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=30_000)
    until(lambda: watermarks(client, 2, topic).high_watermark == 1, "the record on broker 2")
    position = [FetchPosition(topic, 0, 0)]

    def fetch(broker: int, timeout_ms: int = 30_000) -> Any:
        how: dict[str, Any] = {"isolation": IsolationLevel.READ_COMMITTED, "max_bytes": 1 << 20}
        (answer,) = client.fetch(broker, position, timeout_ms=timeout_ms, **how)
        return answer

    def assert_fails_in_time(kind: type[ReplicaError]) -> None:
        start = time.monotonic()
        with pytest.raises(kind, match="broker 2"):
            fetch(2, 500)
        assert time.monotonic() - start < 10
        assert fetch(1).error is None

    cluster.pause_broker(2)
    for _ in range(3):
        assert_fails_in_time(DeadlineExceeded)
    assert client.metadata([topic])[topic].error is None
    cluster.resume_broker(2)
    assert until(lambda: answered(fetch, 2), "broker 2 after its pause").high_watermark == 1
    cluster.kill_broker(2)
    assert_fails_in_time(Unreachable)
    cluster.start_broker(2)
    until(lambda: answered(fetch, 2), "broker 2 after its restart")
    client.close()


def answered(fetch: Callable[[int], Any], broker: int) -> Any:
    try:
        answer = fetch(broker)
    except Unreachable:
        return None
    return answer if answer.error is None else None


def test_a_broker_that_dies_in_the_middle_of_a_range_leaves_the_chunks_before_standing(
    make_cluster: Callable[..., Cluster], topic: str
) -> None:
    cluster = make_cluster(brokers=1)
    cluster.create_topic(topic)
    producer = Producer(client_settings(cluster.bootstrap_servers, **{"batch.size": 20_000}))
    for i in range(2000):
        producer.produce(topic, b"v" * 1000, b"%d" % i, 0)
    assert producer.flush(120) == 0
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=30_000)
    chunks = read_range(
        client,
        1,
        topic,
        0,
        0,
        2000,
        isolation=IsolationLevel.READ_COMMITTED,
        hasher=HASHER,
        max_bytes=50_000,
        deadline_ms=20_000,
    )
    first = next(chunks)
    cluster.kill_broker(1)
    rest, position, failure = read_all(chunks)
    assert isinstance(failure, Unreachable)
    assert (failure.broker, failure.topic, failure.partition) == (1, topic, 0)
    held = [first, *rest]
    offsets = [int(offset) for chunk in held for offset in chunk.columns.offset]
    assert offsets == list(range(held[-1].position))
    assert position is None or position < 2000
    client.close()


# --- quotas ---


def set_quota(cluster: Cluster, client_id: str, bytes_per_second: int) -> None:
    """As an operator would, by Kafka's own tool."""
    tool = [find_java(KAFKA_NEEDS).path, "-Xmx128m", "-cp", class_path(kafka_jars()), "kafka.admin.ConfigCommand"]
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "clients", "--entity-name", client_id]
    change = ["--alter", "--add-config", f"consumer_byte_rate={bytes_per_second}"]
    subprocess.run([*tool, *where, *change], check=True, capture_output=True)


def test_a_client_quota_slows_the_reading_down_and_ends_it_nowhere(kafka: Cluster, topic: str) -> None:
    kafka.create_topic(topic, replicas=[2])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "batch.size": 100_000, "linger.ms": 20})
    for number in range(700):
        producer.produce(topic, value=random.Random(number).randbytes(10_000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    client = ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers, "client.id": topic})
    set_quota(kafka, topic, 400_000)

    def took_s() -> float:
        began = time.monotonic()
        chunks = read_range(
            client,
            2,
            topic,
            0,
            0,
            700,
            isolation=IsolationLevel.READ_COMMITTED,
            hasher=HASHER,
            max_bytes=1_500_000,
            deadline_ms=3000,
        )
        assert sum(len(chunk.columns.offset) for chunk in chunks) == 700
        return time.monotonic() - began

    # The quota counts over a window of eleven seconds, so that the first four megabytes come at once. What is asked for
    # at once is paid for in more than the time that an answer may take.
    with closing(client):
        until(lambda: took_s() > 2, "the broker to know of the quota")


def test_a_controller_is_told_from_a_broker_that_is_too_old(kafka: Cluster) -> None:
    controller = kafka.brokers[1].controller_port
    with closing(ReplicaClient({"bootstrap.servers": f"127.0.0.1:{controller}"}, timeout_ms=30_000)) as client:
        with pytest.raises(
            Unreachable, match=rf"127\.0\.0\.1:{controller} is a KRaft controller, .*bootstrap\.servers"
        ):
            client.metadata()
        (answer,) = client.clusters().values()
    assert isinstance(answer, NotABroker)
