"""Compares what a record costs in the views with ``storage.record: rows``, with ``differing`` and with ``blocks``.

Three replicas show the same, at both isolation levels: six rows for each record. The files are those of micro-batches
of a given size, joined by upkeep. Time is that of one thread. ``python -m benchmarks.bench_shared [--quick]``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.bench_audit import BROKERS, PLACE, record
from parallax.model import TopicPartition
from parallax.views.compaction import compact
from parallax.views.maintenance import size_of
from parallax.views.settled import Settled
from parallax.views.shared import rows_of
from parallax.views.sharing import share
from parallax.views.tables import VIEWS, rust_uri
from parallax.views.unkept import drop_agreed

PARTITIONS = 8
AGREED = {TopicPartition(PLACE.topic, n): Settled(frozenset(BROKERS), 1 << 40) for n in range(PARTITIONS)}


def took(run: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def read(storage: str) -> None:
    """Read the offsets of all rows of both views, and count them."""
    for name in VIEWS:
        uri = rust_uri(storage, name)
        for batch in rows_of(uri, DeltaTable(uri), ["offset", "broker"], pc.field("offset") >= 0, threads=False):
            batch.num_rows  # noqa: B018 - it is read by now


def size(storage: str) -> int:
    return sum(size_of(storage, name).size for name in VIEWS)


def shared(storage: str) -> None:
    for name in VIEWS:
        share(storage, name, lambda _: True, date.max, set())


def of(name: str) -> Any:
    """The further arguments of `drop_agreed`, with nothing open in any partition."""
    return name, lambda _: True, lambda: AGREED, date.max, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables: shows that it runs, not how fast")
    options = parser.parse_args()
    count = 10_000 if options.quick else 100_000
    heads = ("records a micro-batch", "rows B", "differing B", "blocks B", "shared M rows/s", "dropped M rows/s")
    heads = (*heads, "read M rows/s", "after sharing")
    print(f"{PARTITIONS * count:,} records of {PARTITIONS} partitions; bytes a record, six rows each")
    print(f"{heads[0]:<36}" + "".join(f"{head:>17}" for head in heads[1:]))
    for transactional in (False, True):
        for commit in (200_000, 2_000):
            with tempfile.TemporaryDirectory(prefix="parallax-bench-") as storage:
                record(storage, count, transactional=transactional, partitions=PARTITIONS, commit=commit)
                for name in VIEWS:
                    compact(storage, name)
                shutil.copytree(storage, other := f"{storage}-blocks")
                records, sizes, reading = PARTITIONS * count, [size(storage)], took(lambda at=storage: read(at))
                sharing = took(lambda at=storage: shared(at))
                dropping = took(lambda at=other: [drop_agreed(at, *of(name)) for name in VIEWS])
                shared(other)
                sizes += [size(storage), size(other)]
                reading_after = took(lambda at=storage: read(at))
                shutil.rmtree(other)
            kind = "in transactions" if transactional else "plain"
            rates = (6e-6 * records / seconds for seconds in (sharing, dropping, reading, reading_after))
            print(
                f"{f'{commit:,}, {kind}':<36}"
                + "".join(f"{one / records:>17.1f}" for one in sizes)
                + "".join(f"{rate:>17.2f}" for rate in rates)
            )


if __name__ == "__main__":
    main()
