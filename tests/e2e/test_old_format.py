"""Logs in message format v0 and v1, and what Kafka's own cleaner makes of them: both are read as the same records."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from parallax.lab import admin
from parallax.lab.cluster import Cluster
from parallax.lab.traffic import PlainProducer
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, TopicPartition
from parallax.replica.client import FetchPosition, ReplicaClient
from parallax.replica.decode import Columns, ContentHasher, Payload, decode
from tests.e2e.auditing import results, run_here, written

HASHER = ContentHasher.random()
BEGAN = int(time.time() * 1000) - 86_400_000
ROWS = [(f"k{n}".encode(), f"old {n}".encode()) for n in range(8)] + [(b"gone", None)]
"""Each key once: a cleaner leaves all of them, and writes them anew."""


def old(magic: int, codec: int, rows: Sequence[tuple[bytes, bytes | None]] = ROWS) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 16)
    for n, (key, value) in enumerate(rows):
        builder.append(n, BEGAN + n, key, value)
    data = bytearray(builder.build())
    if codec:  # a broker gives a set the offset of its last message
        struct.pack_into(">q", data, 0, len(ROWS) - 1)
    return bytes(data)


TOPICS = {"old.v0": old(0, 0), "old.v0gzip": old(0, 1), "old.v1": old(1, 0), "old.v1gzip": old(1, 1)}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "delete.retention.ms": "3600000",
    "min.cleanable.dirty.ratio": "1",
}


def hold(cluster: Cluster, broker: int, logs: Mapping[str, bytes]) -> dict[str, Path]:
    """Stop a broker, give it the logs of topics, and start it; returns their folders."""
    cluster.stop_broker(broker)
    folders = {name: cluster.brokers[broker].folder / "data" / f"{name}-0" for name in logs}
    for name, data in logs.items():
        (folders[name] / "00000000000000000000.log").write_bytes(data)
        for index in folders[name].glob("*.*index"):
            index.unlink()
    cluster.start_broker(broker)
    cluster.wait_ready()
    cluster.await_partitions([TopicPartition(name, 0) for name in logs], [broker])
    return folders


def test_old_messages_are_the_records_that_the_cleaner_makes_of_them(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(brokers=1)
    cluster.create_topics(list(TOPICS), replicas=[1], config=CONFIG)
    folders = hold(cluster, 1, TOPICS)
    with closing(ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers})) as client:

        def shown(name: str) -> Columns:
            position = FetchPosition(name, 0, 0)
            (answer,) = client.fetch(1, [position], isolation=IsolationLevel.READ_COMMITTED, max_bytes=1 << 20)
            assert answer.error is None
            return decode(answer.records, hasher=HASHER, payload=Payload.FULL, end=len(ROWS))

        before = {name: until(lambda name=name: (c := shown(name)) and len(c) and c, "records") for name in TOPICS}
        producer = PlainProducer(cluster.bootstrap_servers)
        for name, columns in before.items():
            assert (columns.keys, columns.values) == (
                pa.array([k for k, _ in ROWS], pa.binary()),
                pa.array([v for _, v in ROWS], pa.binary()),
            )
            dates = [BEGAN + n for n in range(len(ROWS))] if "v1" in name else [-1] * len(ROWS)
            assert columns.timestamp.tolist() == dates
            admin.set_topic_config(cluster, name, {"min.cleanable.dirty.ratio": "0.001"})

        def converted() -> bool:
            producer.fill(TOPICS, 1)
            try:
                heads = [(folder / "00000000000000000000.log").read_bytes()[16:17] for folder in folders.values()]
            except FileNotFoundError:  # the cleaner is about to put another one in its place
                return False
            return set(heads) == {b"\x02"}

        until(converted, "the cleaner to write all logs anew", interval=0.2)
        for name, columns in before.items():
            after = shown(name)
            for field in ("offset", "timestamp", "key_hash_hi", "content_hash", "producer_id", "producer_epoch"):
                assert getattr(after, field).tolist() == getattr(columns, field).tolist(), (name, field)


@pytest.mark.release
def test_an_audit_compares_replicas_of_old_messages_to_their_end(
    make_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    cluster = make_cluster(brokers=2)
    logs = {f"gone-v{magic}-{what}": old(magic, 0) for magic in (0, 1) for what in ("same", "other")}
    cluster.create_topics(list(logs), replicas=[1], config=CONFIG)
    hold(cluster, 1, logs)
    for name in logs:
        admin.reassign(cluster, name, replicas=[1, 2])
    others = [(key, value and value.replace(b"old 3", b"new 3")) for key, value in ROWS]
    hold(cluster, 2, {f"gone-v{magic}-other": old(magic, 0, others) for magic in (0, 1)})
    cluster.wait_isr(list(logs), [1, 2])
    ended = run_here(written(cluster, tmp_path), "--format", "json")
    found = results(ended)
    assert {name: (one["result"], set(one["compared_up_to"].values())) for name, one in found.items()} == {
        name: ("consistent" if "same" in name else "diverged", {len(ROWS)}) for name in logs
    }, ended.stdout
