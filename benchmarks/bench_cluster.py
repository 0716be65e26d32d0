"""How recording and comparing get faster with the cores of a Spark cluster, and how fast a local job is.

A topic of eight partitions on three brokers is recorded in both isolation levels, as the job does it, then compared.
That makes six rows for each record. Rates are marginal: they are of the second half of the records.

The standalone master, its workers and the brokers are on this machine too. So the figures show what a cluster costs,
and how far its tasks run in parallel, up to the cores that there are.

    python -m benchmarks.bench_cluster --records 3000000
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc
from confluent_kafka import Producer

from parallax.compare.query import comparison_query
from parallax.config import Settings, SparkSettings, validate
from parallax.lab.cluster import Cluster
from parallax.model import IsolationLevel, RowKind
from parallax.views.positions import open_table
from parallax.views.queries import view_queries
from parallax.views.session import build_session
from tests.e2e.spark_cluster import SparkCluster, spark_installation

PARTITIONS, BROKERS, SIDES = 8, 3, 6


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": "lz4",
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 2_000_000,
            "acks": "all",
        }
    )
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"0123456789" * 9, b"k%d" % number, number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def settings_of(bootstrap: str, topic: str, storage: Path) -> Settings:
    return validate(
        {
            "kafka": {"bootstrap.servers": bootstrap},
            "topics": {"include": [topic]},
            "storage": {"path": str(storage)},
            "read": {"trigger_ms": 0},
            "compare": {"trigger_ms": 0},
        }
    )


def both(spark: Any, settings: Settings, records: int) -> tuple[float, float]:
    """The seconds to record a topic from its brokers, and the seconds to compare the recorded rows."""
    *views, progress = view_queries(settings)
    query = progress.start(spark)  # As in a job, who the replicas are is known before their first rows.
    while not query.lastProgress:
        time.sleep(0.05)
    query.stop()
    began = time.perf_counter()
    queries = [spec.start(spark) for spec in views]
    for query in queries:
        query.processAllAvailable()
    recording = time.perf_counter() - began
    for query in queries:
        query.stop()
    rows = sum(_records(settings, isolation) for isolation in IsolationLevel)
    if rows != SIDES * records:
        raise SystemExit(f"{rows} rows were recorded, not {SIDES * records}")
    began = time.perf_counter()
    query = comparison_query(settings).start(spark)
    query.processAllAvailable()
    comparing = time.perf_counter() - began
    query.stop()
    return recording, comparing


def _records(settings: Settings, isolation: IsolationLevel) -> int:
    dataset = open_table(settings.storage.path, isolation.option).to_pyarrow_dataset()
    return int(dataset.count_rows(filter=pc.field("kind") == int(RowKind.RECORD)))


@contextmanager
def session(master: str, conf: dict[str, str]) -> Iterator[Any]:
    spark = build_session(SparkSettings(master=master, driver_memory="1g", conf=conf), storage="/unused")
    try:
        spark.sparkContext.parallelize(range(8), 8).map(lambda n: n).collect()  # The executors are there, and Python.
        yield spark
        spark.sparkContext.setLogLevel("OFF")
    finally:
        spark.stop()


def measure(name: str, spark: Any, bootstrap: str, topics: tuple[str, str], records: int, repetitions: int) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="parallax-bench-"))
    taken: dict[str, list[tuple[float, float]]] = {topic: [] for topic in topics}
    try:
        for number in range(repetitions + 1):
            for topic, count in zip(topics, (records // 2, records), strict=True):
                if number == 0 and count == records:
                    continue  # Half of them warm up.
                storage = scratch / f"{topic}-{number}"
                times = both(spark, settings_of(bootstrap, topic, storage), count)
                if number:
                    taken[topic].append(times)
                shutil.rmtree(storage)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    half, whole = (taken[topic] for topic in topics)
    gained = [statistics.median(w[n] - h[n] for w, h in zip(whole, half, strict=True)) for n in (0, 1)]
    rates = [records / 2 * SIDES / max(seconds, 1e-9) / 1e6 for seconds in gained]
    print(f"| {name} | {rates[0]:.2f} | {rates[1]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs: shows that it runs, not how fast")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--repetitions", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.records, chosen.repetitions = 40_000, 1
    topics = ("half", "whole")
    folder = Path(tempfile.mkdtemp(prefix="parallax-bench-spark-"))
    try:
        with Cluster(brokers=BROKERS) as kafka:
            for topic, count in zip(topics, (chosen.records // 2, chosen.records), strict=True):
                kafka.create_topic(topic, partitions=PARTITIONS, replicas=[1, 2, 3])
                fill(kafka.bootstrap_servers, topic, count)
            where = f"{chosen.records:,} records, three brokers, both levels; {psutil.cpu_count()} cores in all"
            print(f"| {where} | recording, M rows/s | comparing, M rows/s |\n|---|---|---|")
            of = (kafka.bootstrap_servers, topics, chosen.records, chosen.repetitions)
            with session("local[2]", {}) as spark:
                measure("local[2]", spark, *of)
            home = spark_installation(folder)
            mine = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            with SparkCluster(folder / "cluster", home, 2, 1, 1024, mine, same_user=True) as cluster:
                conf = {"spark.driver.host": "127.0.0.1", "spark.authenticate": "true", "spark.executor.memory": "512m"}
                conf["spark.authenticate.secret"] = cluster.secret
                for cores in (1, 2):
                    with session(cluster.url, conf | {"spark.cores.max": str(cores)}) as spark:
                        measure(f"a cluster, executors of one core: {cores}", spark, *of)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
