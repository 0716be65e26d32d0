"""Transactions of which consumers see all outcomes, and some that no coordinator knows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Producer
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient, Watermarks
from parallax.replica.connection import Deadline
from parallax.replica.requests import Request
from parallax.replica.versions import Versions

HELD_OPEN = {"transaction.timeout.ms": 600_000}
"""Options of a producer whose transaction is open while a test looks: by default brokers abort it after a minute."""
_VERIFICATION = "transaction.partition.verification.enable"


def transactions(kafka: Cluster, topic: str) -> None:
    """Offsets: 0 plain; 1 plain, null; 2 committed, 3 its marker; 4 aborted, 5 its marker."""
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(topic, key=b"a", value=b"1", partition=0)
    plain.produce(topic, key=None, value=None, partition=0, headers={"h": b"x"})
    plain.flush()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, key=b"b", value=b"in a transaction", partition=0)
        producer.flush()
        end(60)
    all_show(kafka, topic, 6)


def all_show(kafka: Cluster, topic: str, stable: int, partition: int = 0) -> None:
    """Wait until every replica's last stable offset is there: markers come late, and followers a fetch later."""
    client = ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=30_000)

    def last_stable_offset(broker: int) -> int:
        marks = client.watermarks(broker, [(topic, partition)])[topic, partition]
        return marks.last_stable_offset if isinstance(marks, Watermarks) else -1

    until(lambda: all(last_stable_offset(broker) == stable for broker in kafka.brokers), "every replica to catch up")
    client.close()


@contextmanager
def unverified_by(cluster: Cluster) -> Iterator[None]:
    """Brokers take a transaction without asking its coordinator meanwhile, as those before Kafka 3.6 do."""
    admin.set_broker_config(cluster, {_VERIFICATION: "false"})
    try:
        yield
    finally:
        admin.set_broker_config(cluster, {_VERIFICATION: "true"})


def send_late(cluster: Cluster, topic: str, producer_id: int, key: str = "key") -> None:
    """Send one transactional batch without AddPartitionsToTxn, as a request that comes after its producer is gone."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer_id, 0, 0, 16384)
    builder.append(0, int(time.time() * 1000), key.encode(), b"late", [])
    kind = ProduceRequest.TopicProduceData
    partition = kind.PartitionProduceData(index=0, records=bytes(builder.build()))
    data = [kind(name=topic, partition_data=[partition])]
    message = ProduceRequest(transactional_id=f"gone-{producer_id}", acks=-1, timeout_ms=60_000, topic_data=data)
    with closing(ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=60_000)) as client:
        leader = client.metadata([topic])[topic].partitions[0].leader
        answer = client._connections.exchange(leader, Request(message, Versions(3, 9)), Deadline(60_000))
    (part,) = answer.responses[0].partition_responses
    assert part.error_code == 0
