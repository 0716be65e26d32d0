"""What a job costs, by the number of its partitions; with ``--rate 0`` while nothing is written.

It runs the job as ``parallax demo`` does on three real brokers, for each number of partitions in turn. Light traffic is
spread over all of them. For a steady stretch it prints the processor time of the job and of the brokers, the job's
memory, the micro-batches of each query, new files, and the size of the newest offset in each checkpoint.

From several numbers of partitions it computes two figures, by a straight line: what a job costs without any partition,
and what each hundred of them adds (``--partitions 6 100 500 1000 --heap 1g``).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from math import isnan, nan
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

import psutil
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks.bench_latency import Watch
from benchmarks.simulated import BROKERS, PER_TOPIC, SimulatedCluster
from parallax.demo import demo_settings
from parallax.job import Job
from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until

MEMORY_EVERY = 20
"""Seconds between two looks at the memory: each costs some milliseconds of a core."""


@dataclass
class Cost:
    """What one job cost while it was watched.

    Attributes:
        partitions: how many partitions it had, of all topics.
        rate: records a second that were to be written.
        taken: records a second that the brokers acknowledged while it was watched; nan if they are simulated.
        started_s: seconds from the start of the job until all partitions were read.
        processor: percent of a core, by kind of process.
        memory: MB of all its processes, one value for each look (proportional set size).
        files_per_hour: new files below the storage.
        batches: seconds of each micro-batch, by query.
        offsets: bytes of the newest offset, by query.
    """

    partitions: int
    rate: int
    taken: float = nan
    started_s: float = 0.0
    processor: dict[str, float] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)
    files_per_hour: float = 0.0
    batches: dict[str, list[float]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)


class Batches(Watch):
    """Watches micro-batches only, because measuring memory twice a second costs more than an idle job."""

    def _measure(self) -> None:
        """Measure nothing."""


class Traffic(threading.Thread):
    """Writes records of a hundred bytes: one to each partition, then ``rate`` a second.

    Args:
        servers: ``bootstrap.servers``.
        topics: names of the topics.
        partitions: how many partitions each topic has.
        rate: records a second, over all partitions.
    """

    def __init__(self, servers: str, topics: list[str], partitions: int, rate: int) -> None:
        super().__init__(daemon=True)
        self._servers, self._topics, self._partitions, self._rate = servers, topics, partitions, rate
        self._ended = threading.Event()
        self.taken = 0
        """Records that the brokers have acknowledged."""

    def _taken(self, error: object, _: object) -> None:
        self.taken += error is None

    def run(self) -> None:
        """Write until `stop` is called."""
        producer, number = Producer({"bootstrap.servers": self._servers, "linger.ms": 100, "acks": 1}), 0
        for topic, partition in product(self._topics, range(self._partitions)):
            producer.produce(topic, b"v" * 90, b"first", partition=partition)
        producer.flush()
        while not self._ended.wait(0.1):
            for _ in range(self._rate // 10):
                key = f"k{number % 10_000}".encode()
                producer.produce(self._topics[number % len(self._topics)], b"v" * 90, key, on_delivery=self._taken)
                number += 1
            producer.poll(0)
        producer.flush()

    def stop(self) -> None:
        """End the writing, and wait for its thread."""
        self._ended.set()
        self.join()


def _processes() -> Iterator[tuple[str, psutil.Process]]:
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        kind = "brokers" if "kafka.Kafka" in words or "benchmarks.simulated" in words else "workers"
        if "org.apache.spark.deploy.SparkSubmit" in words:
            kind = "Spark's JVM"
        yield "driver" if process.pid == own.pid else kind, process


class Processor:
    """Adds up the processor time of the job and the brokers, by kind of process.

    It includes processes that have ended since they were last looked at.
    """

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}
        self.used: dict[str, float] = {}
        self.look()
        self.used = {}

    def look(self) -> None:
        """Add the processor time since the last look; of a new process, all of its time."""
        for kind, process in _processes():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total = times.user + times.system
            self.used[kind] = self.used.get(kind, 0.0) + total - self._seen.get(process.pid, 0.0)
            self._seen[process.pid] = total


def _memory() -> float:
    """Megabytes of the job's processes, proportional: what several share counts once."""
    used = 0.0
    for kind, process in _processes():
        if kind != "brokers":
            with suppress(psutil.Error):
                used += process.memory_full_info().pss / 1e6
    return used


def _new_files(folder: Path, known: set[str]) -> int:
    before = len(known)
    for where, _, names in os.walk(folder):
        known.update(f"{where}/{name}" for name in names)
    return len(known) - before


class Source(NamedTuple):
    """The brokers that a job is run on.

    Attributes:
        servers: their address, ``bootstrap.servers``.
        topic: name of the last topic.
        partition: number of its last partition.
        taken: returns how many records they have acknowledged; nan if they are simulated.
    """

    servers: str
    topic: str
    partition: int
    taken: Callable[[], float]


@contextmanager
def real(partitions: int, rate: int, heap: str) -> Iterator[Source]:
    """Three real brokers under traffic, within this context.

    Args:
        partitions: how many partitions there are.
        rate: records a second.
        heap: the heap of each broker, such as ``512m``.
    """
    per_topic = PER_TOPIC if partitions >= PER_TOPIC else 1
    names = [f"demo.{number}" for number in range(max(1, partitions // per_topic))]
    with Cluster(heap=heap) as cluster:
        for number, topic in enumerate(names):
            first = number % 3  # the first of the replicas leads
            cluster.create_topic(topic, partitions=per_topic, replicas=[*BROKERS[first:], *BROKERS[:first]])
        traffic = Traffic(cluster.bootstrap_servers, names, per_topic, rate)
        traffic.start()
        try:
            yield Source(cluster.bootstrap_servers, names[-1], per_topic - 1, lambda: traffic.taken)
        finally:
            traffic.stop()


@contextmanager
def simulated(partitions: int, rate: int) -> Iterator[Source]:
    """Three simulated brokers, within this context; ``rate`` partitions get a record each second."""
    with SimulatedCluster(partitions, rate / partitions) as cluster:
        yield Source(cluster.bootstrap_servers, f"demo.{partitions // PER_TOPIC - 1:04d}", PER_TOPIC - 1, lambda: nan)


def measure(cost: Cost, source: AbstractContextManager[Source], seconds: float, settle: float) -> Cost:
    """Start a job, wait until it is steady, and watch it; returns ``cost``, filled in.

    Args:
        cost: the number of partitions and the rate.
        source: makes the brokers.
        seconds: for how long the job is watched.
        settle: how many seconds to wait before, once all partitions are read.
    """
    with source as (servers, topic, partition, taken), tempfile.TemporaryDirectory(prefix="parallax-bench-") as name:
        folder = Path(name)
        job = Job(demo_settings(servers, folder))
        begun = time.monotonic()
        job.start()
        watch = Batches(job)
        watch.start()
        try:
            until(lambda: job.has_recorded(topic, partition, 3, 0), "all to be read", timeout=600)
            cost.started_s = time.monotonic() - begun
            time.sleep(settle)
            watch.batches.clear()
            processor, known, at = Processor(), set[str](), time.monotonic()
            _new_files(folder, known)
            files, had, looks = 0, taken(), 0
            while time.monotonic() < at + seconds:
                time.sleep(1)
                processor.look()
                files += _new_files(folder, known)
                if looks % MEMORY_EVERY == 0:
                    cost.memory.append(_memory())
                looks += 1
            took = time.monotonic() - at
            cost.taken = (taken() - had) / took
            cost.processor = {kind: used / took * 100 for kind, used in processor.used.items()}
            cost.files_per_hour = files / took * 3600
            cost.batches = {query: sorted(seen.values()) for query, seen in watch.batches.items()}
            for offsets in folder.rglob("checkpoints/*/offsets"):
                newest = max((f for f in offsets.iterdir() if f.name.isdecimal()), key=lambda f: int(f.name))
                cost.offsets[offsets.parent.name] = newest.stat().st_size
        finally:
            watch.stop()
            job.stop()
    return cost


def slopes(costs: Sequence[Cost]) -> Table:
    """A table of what a job costs without partitions and for each hundred of them.

    Each cost is a straight line through the measured ones.
    """
    table = Table(
        "cost",
        "of a job",
        "by 100 partitions",
        "of these, each broker",
        *(str(cost.partitions) for cost in costs),
        title="by the number of partitions, a straight line (three brokers, a replica of each partition on each)",
    )
    kinds = {"driver": "main process, %", "workers": "Python, %", "Spark's JVM": "JVM, %"}
    rows = {name: [cost.processor.get(kind, 0.0) for cost in costs] for kind, name in kinds.items()}
    rows["together, %"] = [sum(values) for values in zip(*rows.values(), strict=True)]
    rows["memory, MB"] = [median(cost.memory) for cost in costs]
    rows["all read after, s"] = [cost.started_s for cost in costs]
    for query in sorted({query for cost in costs for query, seen in cost.batches.items() if seen}):
        rows[f"{query}, median s"] = [median(cost.batches[query]) if cost.batches.get(query) else nan for cost in costs]
    for query in sorted({query for cost in costs for query in cost.offsets}):
        rows[f"{query}, offset bytes"] = [float(cost.offsets.get(query, nan)) for cost in costs]
    for name, values in rows.items():
        known = [(cost.partitions / 100, value) for cost, value in zip(costs, values, strict=True) if not isnan(value)]
        slope, base = linear_regression(*zip(*known, strict=True)) if len(known) > 1 else (nan, nan)
        table.add_row(name, *(f"{value:.2f}" for value in (base, slope, slope / len(BROKERS), *values)))
    return table


def main() -> None:
    """Measure a job for each number of partitions, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="six partitions, for a short time")
    parser.add_argument("--partitions", type=int, nargs="*", default=[6, 100, 500])
    parser.add_argument("--rate", type=int, default=200, help="records a second; 0 for an idle job")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=30, help="seconds before it is watched")
    parser.add_argument("--simulated", action="store_true", help="brokers that are simulated: for many partitions")
    parser.add_argument("--heap", default="512m", help="of each broker, such as 1g")
    options = parser.parse_args()
    console = Console(width=170)
    counts, seconds = ([6], 10.0) if options.quick else (options.partitions, options.seconds)
    table = Table(
        "partitions", "records/s", "acknowledged", "all read after s", title="cost of a job, three brokers, RF 3"
    )
    for name in ("driver %", "workers %", "JVM %", "together %", "brokers %", "MB", "at most", "new files/h"):
        table.add_column(name)
    costs: list[Cost] = []
    batches = Table("partitions", "query", "batches seen", "median s", "95 % s", "offset bytes", title="micro-batches")
    for count in counts:
        source = simulated(count, options.rate) if options.simulated else real(count, options.rate, options.heap)
        cost = measure(Cost(count, options.rate), source, seconds, options.settle)
        costs.append(cost)
        mine = [cost.processor.get(kind, 0.0) for kind in ("driver", "workers", "Spark's JVM")]
        row = [*mine, sum(mine), cost.processor.get("brokers", 0.0)]
        table.add_row(
            str(count),
            str(cost.rate),
            f"{cost.taken:.0f}",
            f"{cost.started_s:.1f}",
            *(f"{value:.1f}" for value in row),
            f"{median(cost.memory):.0f}",
            f"{max(cost.memory):.0f}",
            f"{cost.files_per_hour:.0f}",
        )
        for query, values in sorted(cost.batches.items()):
            tail = f"{values[int(len(values) * 0.95)]:.2f}"
            size = str(cost.offsets.get(query, ""))
            batches.add_row(str(count), query, str(len(values)), f"{median(values):.2f}", tail, size)
    console.print(table)
    console.print(batches)
    if len(costs) > 1:
        console.print(slopes(costs))


if __name__ == "__main__":
    main()
