"""How fast one thread fetches and decodes a replica's log, and how fast the usual consumers read the same topic.

It prints for each reader the median time for half of the topic and for all of it, and the marginal rate. That is the
rate of the second half, so it leaves out what starting up costs. All readers take turns in the same run, on one topic
of one broker on this machine. ``python -m benchmarks.bench_read [--quick]``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import crc32c
import nacl.bindings
import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka.record import MemoryRecords

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java
from parallax.lab.cluster import Cluster, client_settings
from parallax.model import IsolationLevel
from parallax.replica import kernels
from parallax.replica.client import FetchedPartition, FetchPosition, ReplicaClient
from parallax.replica.decode import Columns, ContentHasher, Inflater, Payload, decode
from parallax.replica.digests import COLUMNS, Digester
from parallax.replica.outcomes import outcomes
from parallax.replica.reader import Buffers, read_range
from parallax.source.columns import ROWS

TOPIC = "bench-read"
FETCH = 8 << 20
ROUNDS = 3
HASHER = ContentHasher(bytes(range(16)))
DIGESTER = Digester(HASHER.key)
Reader = Callable[[Cluster, int], None]


def fill(cluster: Cluster, topic: str, records: int, codec: str = "lz4") -> None:
    """Create a topic with records of a 100-byte value and an 11-byte key.

    Args:
        cluster: the broker.
        topic: name of the topic.
        records: how many records.
        codec: the producer's compression.
    """
    cluster.create_topic(topic)
    more = {"compression.type": codec, "linger.ms": 50, "batch.size": 1 << 18, "batch.num.messages": 100_000}
    room = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1 << 20}
    producer = Producer(client_settings(cluster.bootstrap_servers, **more, **room))
    text = b'{"id": %09d, "account": "user-%05d", "amount": %07d, "state": "open", "note": "plain text"}'
    for i in range(records):
        value = text % (i, i * 7919 % 100_000, i * 104_729 % 9_999_991)
        while True:
            try:
                producer.produce(topic, value, b"key-%07d" % (i % 1_000_003), 0)
                break
            except BufferError:
                producer.poll(0.05)
        if i % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit("the topic could not be filled")


def ours(cluster: Cluster, records: int, payload: Payload = Payload.HASH) -> None:
    """Read the topic as Parallax does, in one thread: Fetch, CRC, decompression, decoding, hashes, outcomes.

    Args:
        cluster: the broker.
        records: how many records to read.
        payload: which bytes of a record to copy, besides the hashes.
    """
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=30_000)
    rows = 0
    for chunk in read_range(
        client,
        1,
        TOPIC,
        0,
        0,
        records,
        isolation=IsolationLevel.READ_COMMITTED,
        hasher=HASHER,
        payload=payload,
        max_bytes=FETCH // 2,
        deadline_ms=30_000,
        buffers=BUFFERS,
    ):
        rows += len(chunk.columns)
    client.close()
    expect(rows, records)


BUFFERS = Buffers()


def ours_with_payload(cluster: Cluster, records: int) -> None:
    """Read the topic as `ours` does, and copy keys, values and headers into Arrow arrays."""
    ours(cluster, records, Payload.FULL)


def confluent(cluster: Cluster, records: int) -> None:
    """Read the topic by confluent-kafka's consumer, with larger fetches and queues, in lists of 10,000."""
    more = {
        "group.id": uuid4().hex,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.message.max.bytes": FETCH,
        "fetch.max.bytes": 4 * FETCH,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 1 << 20,
    }
    consumer = Consumer(client_settings(cluster.bootstrap_servers, **more))
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    rows = 0
    while rows < records:
        rows += len(consumer.consume(10_000, 10))
    consumer.close()


def perf_test(cluster: Cluster, records: int) -> None:
    """Read the topic by Kafka's kafka-consumer-perf-test with larger fetches; the whole process counts."""
    jars = class_path(kafka_jars())
    settings = cluster.folder / "perf.properties"
    sizes = f"max.partition.fetch.bytes={FETCH}\nreceive.buffer.bytes=1048576\nmax.poll.records=10000\n"
    settings.write_text(f"isolation.level=read_committed\nfetch.max.bytes={4 * FETCH}\n{sizes}", encoding="utf-8")
    where = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", TOPIC, "--messages", str(records)]
    sized = ["--fetch-size", str(FETCH), "--consumer.config", str(settings), "--hide-header"]
    main = "org.apache.kafka.tools.ConsumerPerformance"
    command = [find_java(KAFKA_NEEDS).path, "-Xmx512m", "-cp", jars, main, *where, *sized]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    fields = done.stdout.strip().splitlines()[-1].split(", ")
    if int(fields[4]) < records:
        raise SystemExit(f"the perf test read {fields[4]} of {records} records: {done.stderr}")


def expect(rows: int, records: int) -> None:
    if rows != records:
        raise SystemExit(f"read {rows} of {records} records")


READERS: dict[str, Reader] = {
    "parallax, one thread": ours,
    "parallax, payload full": ours_with_payload,
    "kafka-consumer-perf-test": perf_test,
    "confluent-kafka, tuned": confluent,
}


def measure(cluster: Cluster, records: int) -> dict[str, tuple[float, float, float]]:
    """The seconds for half of the records and for all, and the marginal records a second, by reader.

    Each is the median of the rounds.

    Args:
        cluster: the broker.
        records: how many records the topic has.
    """
    times: dict[tuple[str, int], list[float]] = {}
    for reader in READERS.values():
        reader(cluster, records // 4)
    for _ in range(ROUNDS):
        for name, reader in READERS.items():
            for count in (records // 2, records):
                start = time.perf_counter()
                reader(cluster, count)
                times.setdefault((name, count), []).append(time.perf_counter() - start)
    found = {}
    for name in READERS:
        half, full = (statistics.median(times[name, n]) for n in (records // 2, records))
        found[name] = half, full, (records - records // 2) / max(full - half, 1e-9)
    return found


def report(found: dict[str, tuple[float, float, float]], records: int) -> None:
    own = found["parallax, one thread"][2]
    print(f"{records:,} records of 111 bytes, lz4, one partition; medians of {ROUNDS}; {os.cpu_count()} cores,")
    print("shared with the broker")
    print(f"{'reader':<26} {'half s':>8} {'all s':>8} {'M rec/s':>8} {'parallax is':>12}")
    for name, (half, full, rate) in found.items():
        print(f"{name:<26} {half:>8.2f} {full:>8.2f} {rate / 1e6:>8.2f} {own / rate:>11.2f}x")


def kernels_report(cluster: Cluster) -> None:
    """Print the thread time of each step of reading, and of a peer where there is one."""
    answer, plain = fetched(cluster, TOPIC), fetched(cluster, f"{TOPIC}-plain")
    data = bytes(answer.records)
    frozen = np.frombuffer(data, np.uint8)
    inflater = Inflater()
    columns = decode(data, hasher=HASHER, inflater=inflater)
    n, objects, outcome = len(columns), 5000, outcomes(columns, answer.aborted)
    keys = [b"key-%07d" % i for i in range(10_000)]
    small = frozen[:500]
    steps: list[tuple[str, Callable[[], Any], int]] = [
        ("decode, all of it", lambda: decode(data, hasher=HASHER, inflater=inflater), n),
        ("  peer: kafka-python, uncompressed", lambda: kafka_python(bytes(plain.records), objects), objects),
        ("walk the batch headers", lambda: kernels.walk(frozen), n),
        ("outcomes", lambda: outcomes(columns, answer.aborted), n),
        ("digests of blocks", lambda: digested(columns, outcome), n),
        ("SipHash-2-4-128 by call", lambda: [HASHER.key_hash(key) for key in keys], len(keys)),
        ("  peer: PyNaCl", lambda: [nacl.bindings.crypto_shorthash_siphashx24(k, HASHER.key) for k in keys], len(keys)),
        ("CRC32C of 500 bytes", lambda: [kernels.crc32c(small, 0, 500) for _ in range(1000)], 1000),
        ("  peer: crc32c (hardware)", lambda: [crc32c.crc32c(data[:500]) for _ in range(1000)], 1000),
    ]
    print(f"\n{'step':<34} {'ns each':>9}")
    for name, run, count in steps:
        print(f"{name:<34} {fastest(run) / count * 1e9:>9.1f}")


def fetched(cluster: Cluster, topic: str) -> FetchedPartition:
    """The answer to a first Fetch of the topic's only partition."""
    client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers})
    position = [FetchPosition(topic, 0, 0, FETCH // 2)]
    (answer,) = client.fetch(1, position, isolation=IsolationLevel.READ_COMMITTED, max_bytes=FETCH // 2)
    client.close()
    return answer


def digested(columns: Columns, outcome: Any) -> None:
    """Add up the rows of an answer by blocks, in record batches as large as a Spark task's."""
    for start in range(0, len(columns), ROWS):
        part = slice(start, start + ROWS)
        mine = {name: getattr(columns, name)[part] for name in COLUMNS if name != "outcome"}
        rows = len(mine["offset"])
        DIGESTER.add_up(np.array([0, rows]), np.zeros(1, np.int32), {**mine, "outcome": outcome[part]})


def kafka_python(data: bytes, count: int) -> None:
    """Decode ``count`` records by kafka-python, which makes a Python object of each."""
    records = MemoryRecords(data)
    seen = 0
    while records.has_next():
        for _ in records.next_batch():
            seen += 1
            if seen == count:
                return


def fastest(run: Callable[[], Any]) -> float:
    """The thread seconds of the fastest of seven runs: it was disturbed least."""
    run()
    times = []
    for _ in range(7):
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 records: shows that it runs, not how fast")
    parser.add_argument("--records", type=int, default=6_000_000)
    options = parser.parse_args()
    records = 200_000 if options.quick else options.records
    with Cluster(brokers=1) as cluster:
        fill(cluster, TOPIC, records)
        fill(cluster, f"{TOPIC}-plain", 20_000, "none")
        report(measure(cluster, records), records)
        kernels_report(cluster)


if __name__ == "__main__":
    main()
