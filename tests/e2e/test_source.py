"""The data sources by themselves, on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.model import Outcome, RowKind
from tests.e2e.transactional import HELD_OPEN, all_show, transactions

PATIENT = {"request.timeout.ms": "30000"}
"""Of what is read once: a broker that does not answer in time is left out."""


@pytest.fixture
def read(spark: Any, kafka: Cluster) -> Callable[..., Any]:
    """Rows of a batch read."""

    def rows(topic: str, **options: str) -> list[Any]:
        given = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topics": topic, **PATIENT}
        given |= {name.replace("_", "."): value for name, value in options.items()}
        frame = spark.read.format("kafka-replica").options(**given).load()
        return frame.orderBy("broker", "partition", "offset", "kind").collect()

    return rows


def test_a_batch_read_shows_what_each_replica_shows_to_each_consumer(
    kafka: Cluster, topic: str, read: Callable[..., Any]
) -> None:
    kafka.create_topic(topic)
    transactions(kafka, topic)
    rows = read(topic, isolation_level="both")
    for broker in kafka.brokers:
        for isolation, outcomes in (
            (0, [Outcome.NONE, Outcome.NONE, Outcome.UNDECIDED, Outcome.UNDECIDED]),
            (1, [Outcome.NONE, Outcome.NONE, Outcome.COMMITTED, Outcome.ABORTED]),
        ):
            mine = [row for row in rows if row.broker == broker and row.isolation == isolation]
            records = [row for row in mine if row.kind == RowKind.RECORD]
            assert [row.offset for row in records] == [0, 1, 2, 4]
            assert [row.outcome for row in records] == outcomes
            assert [(row.kind, row.offset) for row in mine if row.kind in (RowKind.COMMIT, RowKind.ABORT)] == [
                (RowKind.COMMIT, 3),
                (RowKind.ABORT, 5),
            ]
            (begin, end) = [row for row in mine if row.kind == RowKind.POSITION]
            assert (begin.offset, begin.position.event) == (0, "partition_added")
            assert (end.offset, end.position.event) == (6, "ok")
            assert (end.position.high_watermark, end.position.last_stable_offset) == (6, 6)


def test_the_same_record_has_the_same_hashes_on_every_broker(
    kafka: Cluster, topic: str, read: Callable[..., Any]
) -> None:
    kafka.create_topic(topic)
    transactions(kafka, topic)
    identities = {
        (row.offset, row.key_hash_hi, row.key_hash_lo, row.content_hash, row.key_size, row.value_size)
        for row in read(topic, isolation_level="read_uncommitted", hash_key="ab" * 16)
        if row.kind == RowKind.RECORD
    }
    assert sorted(identity[0] for identity in identities) == [0, 1, 2, 4]
    assert [identity[1:3] + identity[4:] for identity in identities if identity[0] == 1] == [(0, 0, -1, -1)]


def test_payload_is_kept_only_where_it_is_asked_for(kafka: Cluster, topic: str, read: Callable[..., Any]) -> None:
    kafka.create_topic(topic)
    transactions(kafka, topic)
    first = {payload: read(topic, payload=payload, brokers="1")[0].payload for payload in ("hash", "key", "full")}
    assert first["hash"] is None
    assert (bytes(first["key"].key), first["key"].value) == (b"a", None)
    assert (bytes(first["full"].key), bytes(first["full"].value)) == (b"a", b"1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"isolation_level": "dirty"}, "option isolation.level is 'dirty'; it must be one of"),
        ({"fetchsize": "1"}, "option fetchsize is no option of this source"),
        ({"brokers": "9"}, "option brokers names 9, which hosts no replica"),
    ],
)
def test_a_bad_option_is_named_in_one_line(
    kafka: Cluster, topic: str, read: Callable[..., Any], options: dict[str, str], message: str
) -> None:
    kafka.create_topic(topic)
    with pytest.raises(Exception, match=message):
        read(topic, **options)


def test_a_topic_that_does_not_exist_is_named(topic: str, read: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match=f"topics names {topic}, which does not exist"):
        read(topic)


def test_a_stream_goes_on_where_it_stopped_and_finds_partitions_that_were_added(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    seen: list[Any] = []

    def run() -> list[Any]:
        before = len(seen)
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topics": topic, **PATIENT}
        options["maxBytesPerTrigger"] = "200"
        frame = spark.readStream.format("kafka-replica").options(**options).load()
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.foreachBatch(lambda batch, _: seen.extend(batch.collect())).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        return seen[before:]

    for value in range(5):
        producer.produce(topic, value=b"%d" % value * 50, partition=0)
        producer.flush()
    all_show(kafka, topic, 5)
    first = run()
    admin.add_partitions(kafka, topic, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value=b"5", partition=0)
    producer.produce(topic, value=b"0", partition=1)
    producer.flush()
    all_show(kafka, topic, 6)
    all_show(kafka, topic, 1, partition=1)
    second = run()
    for broker in kafka.brokers:
        assert offsets(first, broker, 0) == [0, 1, 2, 3, 4]
        assert offsets(second, broker, 0) == [5]
        assert offsets(second, broker, 1) == [0]
    assert {row.partition for row in second if row.kind == 3 and row.position.event == "partition_added"} == {1}


def offsets(rows: list[Any], broker: int, partition: int) -> list[int]:
    return [
        row.offset for row in rows if row.broker == broker and row.partition == partition and row.kind == RowKind.RECORD
    ]


def test_progress_tells_watermarks_and_open_transactions_of_every_replica(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, **HELD_OPEN})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value=b"open", partition=0)
    producer.flush()
    ticks: list[list[Any]] = []
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topics": topic}
    frame = spark.readStream.format("kafka-progress").options(**options).load()
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = (
        writer.foreachBatch(lambda batch, _: ticks.append(batch.collect()))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        rows = wait_for(
            ticks, query, lambda rows: rows and all(row.high_watermark == 1 and row.open_transactions for row in rows)
        )
    finally:
        query.stop()
        producer.abort_transaction(60)
    assert sorted(row.broker for row in rows) == sorted(kafka.brokers)
    for row in rows:
        assert row.reachable
        assert (row.last_stable_offset, row.log_start_offset, row.log_end_offset) == (0, 0, 1)
        assert [(t.start_offset, t.producer_epoch) for t in row.open_transactions] == [(0, 0)]
        assert sorted(row.replicas) == sorted(kafka.brokers)


def wait_for(ticks: list[list[Any]], query: Any, condition: Callable[[list[Any]], bool]) -> list[Any]:
    """The newest row of each broker, once they are as expected."""

    def newest() -> list[Any] | None:
        assert query.isActive, query.exception()
        told = sorted((row for tick in list(ticks) for row in tick), key=lambda row: row.observed_at)
        last = list({row.broker: row for row in told}.values())
        return last if condition(last) else None

    return until(newest, "ticks as expected")
