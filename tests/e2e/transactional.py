"""Transactions of which consumers see all outcomes."""

from __future__ import annotations

from confluent_kafka import Producer

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient, Watermarks


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
