"""What reading costs the brokers, by their own metrics; and that both ways to ask record the same."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java
from parallax.lab.broker import Broker
from parallax.lab.cluster import Cluster
from parallax.lab.ports import free_ports
from parallax.model import RowKind, TopicPartition
from parallax.replica.client import ReplicaClient, Watermarks
from tests.e2e.recording import VIEWS, Queries, settings, wait

BULK, STEADY_S = 20, 30
"""Megabytes that are there when reading begins, and for how long more is written."""


def jmx(broker: Broker) -> str:
    """The address of a broker's metrics; its JVM opens it when it is first asked to, for this machine alone."""
    java, (port,) = find_java(KAFKA_NEEDS), free_ports(1)
    assert broker.process is not None
    properties = ("port", "rmi.port"), ("authenticate", "ssl")
    switches = [f"jmxremote.{name}={port}" for name in properties[0]] + [f"jmxremote.{n}=false" for n in properties[1]]
    command = [java.path.with_name("jcmd"), str(broker.process.pid), "ManagementAgent.start", *switches]
    subprocess.run([*command, "jmxremote.host=127.0.0.1"], check=True, capture_output=True)
    return f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"


def bytes_out(kafka: Cluster, url: str, topic: str) -> int:
    """Bytes of records that a broker has sent to consumers of a topic, by its metric BytesOutPerSec."""
    name = f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}"
    tool = [find_java(KAFKA_NEEDS).path, "-Xmx64m", "-XX:+UseSerialGC", "-cp", class_path(kafka_jars(kafka.version))]
    asked = ["--jmx-url", url, "--object-name", name, "--attributes", "Count", "--one-time", "--report-format", "raw"]
    done = subprocess.run([*tool, "org.apache.kafka.tools.JmxTool", *asked], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1].rpartition(",")[2])


def log_size(broker: Broker, topic: str) -> int:
    return sum(path.stat().st_size for path in broker.folder.rglob(f"{topic}-*/*.log"))


def write(kafka: Cluster, topic: str) -> Callable[[], bool]:
    """Write plain records; each call writes more, some in a short transaction, and says whether it is enough."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5}
    plain = Producer(servers)
    transactional = Producer({**servers, "transactional.id": topic})
    transactional.init_transactions(60)
    for number in range(BULK * 1000):
        plain.produce(topic, value=b"%07d" % number * 143, partition=number % 2)
        plain.poll(0)
    plain.flush(60)
    until: list[float] = []

    def some() -> bool:
        until.append(time.monotonic() + STEADY_S)
        transactional.begin_transaction()
        for number in range(20):
            transactional.produce(topic, value=b"%07d" % number * 20, partition=number % 2)
        # An abort purges what was not sent, and a transaction that no broker knows cannot be ended.
        assert transactional.flush(60) == 0
        (transactional.abort_transaction if time.monotonic_ns() % 3 == 0 else transactional.commit_transaction)(60)
        for number in range(200):
            plain.produce(topic, value=b"%07d" % number * 143, partition=number % 2)
        plain.flush(60)
        return time.monotonic() > until[0]

    return some


def rows(path: Path, view: str) -> Any:
    """What a view holds of the logs, in order, without position rows."""
    if not DeltaTable.is_deltatable(str(path / view)):
        return None
    table: Any = DeltaTable(str(path / view)).to_pyarrow_table(filters=[("kind", "!=", int(RowKind.POSITION))])
    table = table.drop_columns(["payload", "position", "recorded_on"])
    return table.sort_by([(name, "ascending") for name in ("broker", "partition", "offset", "kind")])


def is_read(path: Path, kafka: Cluster, topic: str) -> bool:
    """Whether both views stand at the end of every log, and no transaction or replica is on its way there."""
    ends: dict[tuple[int, int], int] = {}
    with closing(ReplicaClient({"bootstrap.servers": kafka.bootstrap_servers}, timeout_ms=60_000)) as client:
        for broker in kafka.brokers:
            for place, marks in client.watermarks(broker, [TopicPartition(topic, n) for n in (0, 1)]).items():
                assert isinstance(marks, Watermarks), marks
                if not marks.last_stable_offset == marks.high_watermark == marks.log_end_offset:
                    return False
                ends[broker, place.partition] = marks.log_end_offset
    agree = len({(partition, end) for (_, partition), end in ends.items()}) == 2
    return agree and all(_positions(path, view) == ends for view in VIEWS)


def _positions(path: Path, view: str) -> dict[tuple[int, int], int]:
    if not DeltaTable.is_deltatable(str(path / view)):
        return {}
    columns, told = ["broker", "partition", "offset"], [("kind", "=", int(RowKind.POSITION))]
    found: dict[tuple[int, int], int] = {}
    for row in DeltaTable(str(path / view)).to_pyarrow_table(columns=columns, filters=told).to_pylist():
        place = row["broker"], row["partition"]
        found[place] = max(row["offset"], found.get(place, 0))
    return found


@pytest.mark.release
@pytest.mark.timeout(900)
def test_shared_fetches_take_each_byte_once_and_record_what_separate_ones_record(
    spark: Any, kafka: Cluster, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2, replicas=[1, 2, 3])
    urls = {broker.id: jmx(broker) for broker in kafka.brokers.values()}
    some = write(kafka, topic)
    ratios: dict[str, dict[int, float]] = {}
    before = dict.fromkeys(urls, 0)
    ended = False
    for mode in ("shared", "separate"):
        document = settings(
            kafka, topic, tmp_path / mode, grouping="all", fetch=mode, hash_key="0f" * 16, request_timeout_ms=60_000
        )
        with Queries(spark, document) as running:
            if not ended:
                wait(lambda mode=mode: is_read(tmp_path / mode, kafka, topic), "what was there", running, 480)
                bulk = {broker: bytes_out(kafka, url, topic) for broker, url in urls.items()}
                print(
                    {b: (bulk[b] / log_size(kafka.brokers[b], topic), log_size(kafka.brokers[b], topic)) for b in urls}
                )
            while not ended:
                ended = some()
            wait(lambda mode=mode: is_read(tmp_path / mode, kafka, topic), "all that was written", running, 480)
        sent = {broker: bytes_out(kafka, url, topic) for broker, url in urls.items()}
        ratios[mode] = {b: (sent[b] - before[b]) / log_size(kafka.brokers[b], topic) for b in urls}
        before = sent
    print(f"bytes sent, in sizes of the log: {ratios}")
    assert all(ratio <= 1.1 for ratio in ratios["shared"].values()), ratios
    assert all(1.9 <= ratio <= 2.3 for ratio in ratios["separate"].values()), ratios
    for view in VIEWS:
        one, other = rows(tmp_path / "shared", view), rows(tmp_path / "separate", view)
        assert one.num_rows == other.num_rows, view
        assert [name for name in one.column_names if not one[name].equals(other[name])] == [], view
