"""Which share of recorded rows the comparison need not read, because the sums of all replicas are equal.

A job records two partitions of plain records and one of transactions from three real brokers, at both isolation levels.
The records come at a steady rate. For each ``compare.trigger_ms`` it prints the share of rows that sums spare in the
job's micro-batches. The other figure is the share if each took all that was committed by then.

This is done for two ways of reading. By default each isolation level is read by a query of its own. The other way is
``read.grouping: all`` with ``read.fetch: shared``: one Fetch serves both levels. ``python -m benchmarks.bench_spared``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from parallax.compare.feed import QUERY
from parallax.compare.following import Follower, Part, TablePoint
from parallax.compare.footers import sparing
from parallax.config import Settings, validate
from parallax.job import Job
from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.views.commits import TableLog
from parallax.views.tables import VIEWS

PLAIN, TRANSACTIONAL = "plain", "transactional"
VALUE = b"0123456789" * 9


READ = {"isolation": {}, "all": {"grouping": "all", "fetch": "shared"}}
"""By ``read.grouping``, the settings of reading."""


def settings_of(bootstrap: str, storage: Path, grouping: str, trigger_ms: int) -> Settings:
    return validate(
        {
            "kafka": {"bootstrap.servers": bootstrap},
            "topics": {"include": [PLAIN, TRANSACTIONAL]},
            "storage": {"path": str(storage)},
            "read": READ[grouping],
            "compare": {"trigger_ms": trigger_ms},
            "alerting": {"metrics_port": 0},
        }
    )


def produce(bootstrap: str, per_second: int, is_over: Callable[[], bool]) -> None:
    """Write records at a steady rate to each of the three partitions. Those of one are in transactions of 60."""

    def plain() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        began, written = time.monotonic(), 0
        while not is_over():
            while written < (time.monotonic() - began) * per_second * 2:
                producer.produce(PLAIN, VALUE, b"k%d" % (written % 5_000), written % 2)
                written += 1
            producer.poll(0)
            time.sleep(0.005)
        producer.flush()

    def transactional() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "transactional.id": "spared"})
        producer.init_transactions()
        began, written = time.monotonic(), 0
        while not is_over():
            producer.begin_transaction()
            for _ in range(60):
                producer.produce(TRANSACTIONAL, VALUE, b"k%d" % (written % 5_000), 0)
                written += 1
            producer.flush()  # librdkafka's abort drops what is still queued
            producer.abort_transaction() if written % 600 == 0 else producer.commit_transaction()
            time.sleep(max(0.0, began + written / per_second - time.monotonic()))

    threads = [threading.Thread(target=one) for one in (plain, transactional)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Planned(threading.Thread):
    """Collects what the job has planned: Spark keeps the offsets of few micro-batches."""

    def __init__(self, storage: Path) -> None:
        super().__init__(daemon=True)
        self._storage, self._offsets = storage, dict[int, dict[str, Any]]()
        self._is_over = threading.Event()

    def run(self) -> None:
        """Collect until `batches` is called."""
        while not self._is_over.wait(0.3):
            for path in (self._storage / "checkpoints" / QUERY / "offsets").glob("[0-9]*"):
                if int(path.name) not in self._offsets:
                    with suppress(OSError, ValueError, IndexError):  # it is being written, or is gone by now
                        self._offsets[int(path.name)] = json.loads(path.read_text().splitlines()[-1])

    def batches(self) -> Iterator[list[Part]]:
        """The files of each micro-batch whose beginning and end are known; it collects no more."""
        self._is_over.set()
        self.join()
        followers = {name: Follower(name, TableLog(str(self._storage), name)) for name in VIEWS}
        for one, other in pairwise(sorted(self._offsets)):
            if other == one + 1:
                since, end = (self._offsets[number] for number in (one, other))
                yield [
                    part
                    for name, follower in followers.items()
                    for part in follower.between(*(TablePoint.from_json(offset[name]) for offset in (since, end)))
                ]


def by_time(storage: Path, every_ms: int) -> Iterator[list[Part]]:
    """Micro-batches that begin at a fixed interval, each with all that was committed by then."""
    logs = {name: Follower(name, TableLog(str(storage), name)) for name in VIEWS}
    parts = sorted(
        (part for one in logs.values() for part in one.appended(TablePoint(-1))), key=lambda part: part.at_ms
    )
    at, taken = parts[0].at_ms, list[Part]()
    for part in parts:
        if part.at_ms > at:
            yield taken
            taken, at = [], at + -(-(part.at_ms - at) // every_ms) * every_ms
        taken.append(part)
    yield taken


def share(storage: Path, batches: Iterable[Sequence[Part]], since_ms: int, until_ms: int) -> tuple[float, int]:
    """The share of rows that are not read, and how many micro-batches had rows. Only those between two times count."""
    opened = {name: TableLog(str(storage), name).files for name in VIEWS}
    rows = left = count = 0
    for parts in batches:
        mine = [part for part in parts if part.rows]
        if not mine or not all(since_ms <= part.at_ms <= until_ms for part in mine):
            continue
        files = [(part.table, file) for part in mine for file in part.files]
        rows += sum(part.rows for part in mine)
        left += sparing(files, opened, lambda *_: True, {}).rows
        count += 1
    return 1 - left / max(rows, 1), count


def measure(bootstrap: str, grouping: str, trigger_ms: int, per_second: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="parallax-bench-") as folder:
        storage = Path(folder)
        job = Job(settings_of(bootstrap, storage, grouping, trigger_ms))
        job.start()
        batches = Planned(storage)
        batches.start()
        try:
            stop = threading.Event()
            writing = threading.Thread(target=produce, args=(bootstrap, per_second, stop.is_set))
            writing.start()
            until(lambda: job.has_recorded(TRANSACTIONAL, 0, 2, 1), "the first records", timeout=120)
            time.sleep(10)
            since = time.time_ns() // 1_000_000
            time.sleep(seconds)
            end = time.time_ns() // 1_000_000
            stop.set()
            writing.join()
        finally:
            job.stop()
        found, count = share(storage, batches.batches(), since, end)
        other, _ = share(storage, by_time(storage, max(trigger_ms, 1)), since, end)
        print(f"| {grouping} | {trigger_ms} ms | {found:.0%} | {other:.0%} | {count / seconds:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short run: shows that it runs")
    parser.add_argument("--rate", type=int, default=3_000, help="records a second and partition")
    parser.add_argument("--triggers", type=int, nargs="+", default=[1_000, 4_000])
    parser.add_argument("--groupings", nargs="+", choices=READ, default=list(READ), help="of the readers")
    parser.add_argument("--seconds", type=float, default=40.0)
    options = parser.parse_args()
    if options.quick:
        options.triggers, options.seconds = [1_000], 10.0
    with Cluster() as cluster:
        cluster.create_topic(PLAIN, partitions=2, replicas=[1, 2, 3])
        cluster.create_topic(TRANSACTIONAL, partitions=1, replicas=[1, 2, 3])
        print(f"{options.rate:,} records a second and partition; share of rows that are not read")
        print("| read.grouping | compare.trigger_ms | as planned | whatever is committed | micro-batches a second |")
        print("|---|---|---|---|---|", flush=True)
        for grouping in options.groupings:
            for trigger_ms in options.triggers:
                measure(cluster.bootstrap_servers, grouping, trigger_ms, options.rate, options.seconds)


if __name__ == "__main__":
    main()
