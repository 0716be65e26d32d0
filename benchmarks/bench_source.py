"""How fast the source feeds Spark and Delta, and how fast peers read the same topic in the same run.

Rates are marginal: the time for all records less the time for half of them. So they leave out what a query costs before
its first row. Each is the median of the repetitions. There are three modes:

- ``rate`` compares the source with its peers.
- ``levels`` reads both isolation levels, by separate Fetches and by shared ones.
- ``steady`` runs the recording queries while some records a second are written. It prints how long a micro-batch takes,
  and how much of a core the driver JVM and the Python workers use.

::

    python benchmarks/bench_source.py rate --records 10000000
    python benchmarks/bench_source.py steady --seconds 60
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition
from deltalake import DeltaTable

from parallax.config import SparkSettings, validate
from parallax.lab.cluster import Cluster
from parallax.model import IsolationLevel
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.reader import read_range
from parallax.views.queries import view_queries
from parallax.views.recording import STORAGE, RecordingSource
from parallax.views.session import build_session
from parallax.views.sink import ViewSink
from parallax.views.tables import create_tables

PARTITIONS = 2


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
    filler = b"0123456789abcdef" * 5
    for number in range(records):
        while True:
            try:
                producer.produce(topic, filler + b"%010d" % number, b"k%d" % (number % 1_000_000), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()


def seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def marginal(run: Callable[[str], None], whole: str, half: str, records: int, repetitions: int) -> float:
    """The rows a second between half and all of the records, the median of several runs.

    A first run of half of them warms up, and is not counted.

    Args:
        run: reads a topic.
        whole: name of a topic with all of the records.
        half: name of a topic with half of them.
        records: how many records all are.
        repetitions: how many runs of each are counted.
    """
    run(half)
    gained = [seconds(lambda: run(whole)) - seconds(lambda: run(half)) for _ in range(repetitions)]
    return records / 2 / max(statistics.median(gained), 1e-9)


def pinned(bootstrap: str) -> Callable[[str], None]:
    def run(topic: str) -> None:
        client = ReplicaClient({"bootstrap.servers": bootstrap})
        for partition in range(PARTITIONS):
            end = client.watermarks(1, [(topic, partition)])[topic, partition].high_watermark  # type: ignore[union-attr]
            for _ in read_range(
                client,
                1,
                topic,
                partition,
                0,
                end,
                isolation=IsolationLevel.READ_UNCOMMITTED,
                hasher=ContentHasher(bytes(16)),
            ):
                pass
        client.close()

    return run


def confluent(bootstrap: str) -> Callable[[str], None]:
    def run(topic: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 8 << 20,
                "fetch.max.bytes": 64 << 20,
                "queued.max.messages.kbytes": 1 << 20,
                "queued.min.messages": 1_000_000,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ended = 0
        while ended < PARTITIONS:
            ended += sum(message.error() is not None for message in consumer.consume(100_000, 1.0))
        consumer.close()

    return run


def options_of(bootstrap: str, topic: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": bootstrap, "topics": topic, "brokers": "1"}
    return given | {"isolation.level": "read_uncommitted", "parallelism": "2"}


def source(spark: Any, bootstrap: str) -> Callable[[str], None]:
    def run(topic: str) -> None:
        rows = spark.read.format("kafka-replica").options(**options_of(bootstrap, topic)).load()
        rows.write.format("noop").mode("overwrite").save()

    return run


def recording(spark: Any, bootstrap: str, scratch: Path, fetch: str | None = None) -> Callable[[str], None]:
    """A function that records a topic as the job does: Spark's tasks write files, and the sink commits them.

    Args:
        spark: the Spark session.
        bootstrap: ``bootstrap.servers``.
        scratch: folder for the tables and the checkpoint.
        fetch: ``separate`` or ``shared``, to read both isolation levels in that way; None to read read_uncommitted
            only.
    """
    levels = [IsolationLevel.READ_UNCOMMITTED] if fetch is None else list(IsolationLevel)
    how = {} if fetch is None else {"isolation.level": "both", "fetch": fetch}

    def run(topic: str) -> None:
        storage, feedback = str(scratch / "recorded"), str(scratch / "feedback.json")
        shutil.rmtree(scratch, ignore_errors=True)
        create_tables(storage)
        sink = ViewSink(storage, levels, feedback)
        sink.prepare()
        options = options_of(bootstrap, topic) | {"feedback.path": feedback, STORAGE: storage} | how
        stream = spark.readStream.format(RecordingSource.name()).options(**options).load().writeStream
        stream = stream.option("checkpointLocation", str(scratch / "checkpoint")).foreachBatch(sink)
        query = stream.trigger(availableNow=True).start()
        assert query.awaitTermination(600)

    return run


def bytes_a_row(scratch: Path) -> float:
    """How many bytes of Parquet a row takes in the view that the last run has written."""
    actions: Any = pa.table(DeltaTable(str(scratch / "recorded" / "read_uncommitted")).get_add_actions(flatten=True))
    return float(pc.sum(actions["size_bytes"]).as_py() / pc.sum(actions["num_records"]).as_py())


def rate(records: int, repetitions: int, java_options: str | None) -> None:
    with Cluster() as kafka, session(java_options) as spark, folder() as scratch:
        whole, half = "bench-whole", "bench-half"
        for topic, count in ((whole, records), (half, records // 2)):
            kafka.create_topic(topic, partitions=PARTITIONS, replicas=[1, 2, 3])
            fill(kafka.bootstrap_servers, topic, count)
        peers: list[tuple[str, Callable[[str], None]]] = [
            ("confluent-kafka Python consumer, sizes raised", confluent(kafka.bootstrap_servers)),
            ("pinned read and decode, one thread", pinned(kafka.bootstrap_servers)),
            ("rows into Spark, and away", source(spark, kafka.bootstrap_servers)),
            ("replica to Delta, as the job records it", recording(spark, kafka.bootstrap_servers, scratch / "job")),
        ]
        print(f"| reader, {records:,} records, {psutil.cpu_count()} cores | marginal rows/s |\n|---|---|")
        for name, run in peers:
            print(f"| {name} | {marginal(run, whole, half, records, repetitions):,.0f} |", flush=True)
        print(f"\n{bytes_a_row(scratch / 'job'):.1f} bytes a row in Delta; resident: {resident()}")


def levels(records: int, repetitions: int, java_options: str | None) -> None:
    """Print how fast both isolation levels of a replica are recorded, by separate Fetches and by shared ones.

    Args:
        records: how many records the topic has.
        repetitions: how many runs are counted.
        java_options: ``spark.driver_java_options``; None for the default.
    """
    with Cluster() as kafka, session(java_options) as spark, folder() as scratch:
        whole, half = "bench-whole", "bench-half"
        for topic, count in ((whole, records), (half, records // 2)):
            kafka.create_topic(topic, partitions=PARTITIONS, replicas=[1, 2, 3])
            fill(kafka.bootstrap_servers, topic, count)
        print(
            f"| read.fetch, {records:,} records | marginal records/s, each to both views | CPU seconds of the workers |"
        )
        print("|---|---|---|")
        for fetch in ("separate", "shared"):
            run, before = recording(spark, kafka.bootstrap_servers, scratch / "job", fetch), cpu_seconds()
            found = marginal(run, whole, half, records, repetitions)
            used = cpu_seconds().get("Python workers", 0.0) - before.get("Python workers", 0.0)
            print(f"| {fetch} | {found:,.0f} | {used:.1f} |", flush=True)


def steady(grouping: str, duration: float, java_options: str | None) -> None:
    with Cluster() as kafka, session(java_options) as spark, folder() as scratch:
        kafka.create_topic("steady", partitions=PARTITIONS, replicas=[1, 2, 3])
        document = {
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
            "topics": {"include": ["steady"]},
            "storage": {"path": str(scratch / "data")},
            "read": {"grouping": grouping},
        }
        began = time.perf_counter()
        with trickle(kafka.bootstrap_servers, "steady"):
            queries = [spec.start(spark) for spec in view_queries(validate(document), brokers=[1, 2, 3])]
            while not all(query.lastProgress for query in queries):
                time.sleep(0.05)
            print(f"first batch of every query after {time.perf_counter() - began:.1f} s")
            time.sleep(duration / 2)  # the JVM compiles what it runs often; what comes after is steady
            marks, cpu = {query.name: query.lastProgress["batchId"] for query in queries}, cpu_seconds()
            time.sleep(duration / 2)
            used = {name: value - cpu.get(name, 0.0) for name, value in cpu_seconds().items()}
            for query in queries:
                after = [p for p in query.recentProgress if p["batchId"] > marks[query.name] and p["numInputRows"]]
                took = [p["durationMs"]["triggerExecution"] for p in after]
                if took:
                    median = statistics.median(took)
                    print(f"{query.name}: {len(took)} batches, median {median:.0f} ms, max {max(took)} ms")
            print({name: f"{value / (duration / 2):.0%} of a core" for name, value in used.items()}, resident())
            spark.sparkContext.setLogLevel("OFF")
            for query in queries:
                query.stop()


@contextmanager
def trickle(bootstrap: str, topic: str) -> Iterator[None]:
    """Write some two hundred records a second to a topic within this context."""
    stop = threading.Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        number = 0
        while not stop.wait(0.05):
            for _ in range(10):
                producer.produce(topic, b"v" * 90, b"k%d" % number, number % PARTITIONS)
                number += 1
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def session(java_options: str | None = None) -> Iterator[Any]:
    began = time.perf_counter()
    chosen = {} if java_options is None else {"driver_java_options": java_options}
    spark = build_session(SparkSettings(**chosen))
    print(f"session after {time.perf_counter() - began:.1f} s")
    yield spark
    spark.stop()


@contextmanager
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="parallax-bench-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _spark_processes() -> Iterator[tuple[str, psutil.Process]]:
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "org.apache.spark" in line:
            yield "driver JVM", child
        elif "parallax.daemon" in line or "pyspark" in line:
            yield "Python workers", child


def cpu_seconds() -> dict[str, float]:
    used: dict[str, float] = {}
    for name, process in _spark_processes():
        times = process.cpu_times()
        used[name] = used.get(name, 0.0) + times.user + times.system
    return used


def resident() -> dict[str, str]:
    """The memory of Spark's processes, by kind of process, in words.

    Pages that workers share with the process they were forked from are counted once (proportional set size).
    """
    used: dict[str, int] = {}
    for name, process in _spark_processes():
        used[name] = used.get(name, 0) + process.memory_full_info().pss
    return {name: f"{size / 1e6:.0f} MB" for name, size in used.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("rate", "levels", "steady"), default="rate")
    parser.add_argument("--quick", action="store_true", help="small inputs: shows that it runs, not how fast")
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--grouping", choices=("all", "isolation", "broker", "reader"), default="isolation")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--java-options", help="instead of the default of spark.driver_java_options")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.records, chosen.repetitions, chosen.seconds = 200_000, 1, 20.0
    if chosen.what in ("rate", "levels"):
        (rate if chosen.what == "rate" else levels)(chosen.records, chosen.repetitions, chosen.java_options)
    else:
        steady(chosen.grouping, chosen.seconds, chosen.java_options)


if __name__ == "__main__":
    main()
