"""How long a partition's page takes to open if the tables hold an hour of thousands of partitions.

The table of progress is as a job leaves it: one commit for each tick of the last quarter of an hour, and everything
before compacted into files of one row group. The peer reads the same files without a filter and then picks the
partition.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties, write_deltalake

from parallax.alerting.page.timeline import Recent, recorded
from parallax.model import TopicPartition
from parallax.source.schema import TIMESTAMP
from parallax.views.tables import PROGRESS, RECORDED_ON, create_tables, rust_uri

TICK_S = 2
BROKERS = 3
QUARTER_S = 900
ONE_GROUP = WriterProperties(max_row_group_size=1 << 26)


def ticks(first: datetime, count: int, partitions: int) -> pa.Table:
    """The progress rows of three replicas of each partition, for ticks in a row.

    Args:
        first: the time of the first tick, UTC.
        count: how many ticks.
        partitions: how many partitions.
    """
    replicas = partitions * BROKERS
    index = np.arange(replicas)
    names = pa.array([f"topic-{number:04}" for number in range((partitions + 9) // 10)])
    topic = pa.DictionaryArray.from_arrays(pa.array(np.tile(index // (10 * BROKERS), count), pa.int32()), names)
    times = np.datetime64(first.replace(tzinfo=None), "us") + np.arange(count) * np.timedelta64(TICK_S, "s")
    at = np.repeat(times, replicas)
    offsets = np.repeat(np.arange(count) * 50, replicas) + np.tile(index * 1000, count)
    return pa.table(
        {
            "topic": topic.cast(pa.string()),
            "partition": pa.array(np.tile(index // BROKERS % 10, count), pa.int32()),
            "broker": pa.array(np.tile(index % BROKERS + 1, count), pa.int32()),
            "observed_at": pa.array(at).cast(pa.timestamp("us")).cast(TIMESTAMP),
            "reachable": pa.array(np.ones(len(at), bool)),
            "high_watermark": pa.array(offsets),
            "last_stable_offset": pa.array(offsets - 3),
            "log_start_offset": pa.array(np.zeros(len(at), np.int64)),
            "log_end_offset": pa.array(offsets),
            RECORDED_ON: pa.array(at.astype("datetime64[D]")),
        }
    )


def record(storage: str, partitions: int, now: datetime) -> int:
    """Write the table of progress for the last hour; returns how many rows it has.

    Args:
        storage: folder of the tables.
        partitions: how many partitions.
        now: the end of the hour, UTC.
    """
    create_tables(storage)
    began = now - timedelta(hours=1)
    rows = 0
    for quarter in range(4):
        first = began + timedelta(seconds=quarter * QUARTER_S)
        each = QUARTER_S // TICK_S if quarter < 3 else 1
        for done in range(0, QUARTER_S // TICK_S, each):
            table = ticks(first + timedelta(seconds=done * TICK_S), each, partitions)
            write_deltalake(
                rust_uri(storage, PROGRESS), table, mode="append", schema_mode="merge", writer_properties=ONE_GROUP
            )
            rows += table.num_rows
    return rows


def unfiltered(storage: str, place: TopicPartition) -> int:
    """How many rows a partition has, by the peer's way: read all rows, then pick."""
    columns = [
        "topic",
        "partition",
        "broker",
        "observed_at",
        "log_start_offset",
        "last_stable_offset",
        "high_watermark",
    ]
    table = DeltaTable(rust_uri(storage, PROGRESS)).to_pyarrow_dataset().to_table(columns)
    mine = pc.and_(pc.equal(table["topic"], place.topic), pc.equal(table["partition"], place.partition))
    return table.filter(mine).num_rows


def timed(work: Callable[[], object], repetitions: int) -> list[float]:
    """The seconds that each of some repetitions took."""
    found = []
    for _ in range(repetitions):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    partitions = 100 if options.quick else options.partitions
    place = TopicPartition(f"topic-{(partitions - 1) // 20:04}", 5)
    with TemporaryDirectory(prefix="parallax-page-") as folder:
        now = datetime.now(UTC)
        rows = record(folder, partitions, now)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.parquet"))
        print(f"{rows:,} rows of {partitions:,} partitions, {size / 1e6:,.0f} MB")
        since = now - timedelta(hours=1)
        seconds = timed(lambda: recorded(folder, place, since, now), options.repetitions)
        print(f"a partition is opened: first {seconds[0]:.2f} s, median {median(seconds):.2f} s")
        recent = Recent(folder, lambda: now)
        recent.of(place)
        seconds = timed(lambda: recent.of(place), options.repetitions)
        print(f"its page is loaded again: median {median(seconds):.2f} s")
        (peer,) = timed(lambda: unfiltered(folder, place), 1)
        print(f"all rows, picked afterwards: {peer:.2f} s")


if __name__ == "__main__":
    main()
