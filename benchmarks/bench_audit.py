"""Compares how fast an audit of recorded tables is by the sums of blocks, and how fast by all rows.

The tables hold three replicas that agree, in both isolation levels, recorded as a job's tasks record them: six rows for
each offset. Both ways compare the same tables in one Spark session, in turns. A first run of each, which Spark needs to
start, is not counted. Reading the footers of the files counts. ``python -m benchmarks.bench_audit [--quick]``.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.audit import frames, inputs
from parallax.audit.agreeing import agreeing, recorded_blocks
from parallax.audit.compare import Comparer, parse
from parallax.audit.plan import PartitionPlan, TopicTraits
from parallax.compare.blocks import Agreed
from parallax.config import CompareSettings, SparkSettings
from parallax.model import CONTENT_VERSION, IsolationLevel, ReadEvent, TopicPartition
from parallax.source.columns import ROWS, Position, position_batch
from parallax.source.offsets import Range, Reader
from parallax.source.planning import Piece
from parallax.source.schema import VIEW, VIEW_WITH_ISOLATION
from parallax.views import recording
from parallax.views.appending import Appender
from parallax.views.session import build_session
from parallax.views.tables import create_tables

BROKERS = (1, 2, 3)
COMMIT = 250_000
"""Offsets that a micro-batch reads."""
PLACE = TopicPartition("t", 0)
KEY = bytes(16)
RECORDS = 10
"""Records of a transaction; its end marker follows."""


def batch(reader: Reader, offsets: Any, *, transactional: bool) -> pa.RecordBatch:
    """The rows in which one reader shows some offsets, as a record batch with the columns of a view.

    Args:
        reader: the reader.
        offsets: int64[n], the offsets.
        transactional: whether they are transactions of ten records and an end marker.
    """
    n = len(offsets)
    is_end = (offsets % (RECORDS + 1) == RECORDS) if transactional else np.zeros(n, bool)
    of_data = 0 if not transactional else 3 if reader.isolation == 0 else 1
    hashes = {"key_hash_hi": 7919, "key_hash_lo": 104_729, "content_hash": 31}
    columns: dict[str, Any] = {
        "topic": [reader.topic] * n,
        "partition": np.full(n, reader.partition, np.int32),
        "broker": np.full(n, reader.broker, np.int32),
        "kind": is_end.astype(np.int8),
        "offset": offsets,
        "timestamp": pa.array(offsets * 1000).view(VIEW.field("timestamp").type),
        "leader_epoch": np.zeros(n, np.int32),
        "producer_id": offsets // (RECORDS + 1) % 20 if transactional else np.full(n, -1),
        "producer_epoch": np.full(n, 0 if transactional else -1, np.int32),
        "outcome": np.where(is_end, 1, of_data).astype(np.int8),
        **{name: np.where(is_end, 0, offsets * factor) for name, factor in hashes.items()},
        "key_size": np.where(is_end, -1, 8).astype(np.int32),
        "value_size": np.where(is_end, -1, 90).astype(np.int32),
        "content_version": np.full(n, CONTENT_VERSION, np.int8),
        "isolation": np.full(n, reader.isolation, np.int8),
    }
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(n, field.type)
        for field in VIEW_WITH_ISOLATION
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=VIEW_WITH_ISOLATION)


def record(storage: str, count: int, *, transactional: bool, partitions: int = 1, commit: int = COMMIT) -> None:
    """Write the views of three replicas that agree, commit by commit.

    Args:
        storage: folder of the tables, which are made.
        count: how many offsets each partition has.
        transactional: whether the records are in transactions.
        partitions: how many partitions there are.
        commit: how many offsets of all partitions together a micro-batch reads.
    """
    create_tables(storage)
    tables = {level: Appender(storage, level.option) for level in IsolationLevel}
    for number, start in enumerate(range(0, count, commit // partitions)):
        end = min(start + commit // partitions, count)
        for level, table in tables.items():
            files = []
            for broker in BROKERS:
                readers = [Reader(int(level), broker, PLACE.topic, n) for n in range(partitions)]
                file = recording._ViewFile(storage, int(level), broker, KEY)  # noqa: SLF001
                for reader in readers:
                    for first in range(start, end, ROWS):
                        offsets = np.arange(first, min(first + ROWS, end))
                        file.take(batch(reader, offsets, transactional=transactional))
                stands = [Position(reader, end, number, ReadEvent.OK, "", "a", end, end, 0) for reader in readers]
                file.take(position_batch(stands, with_isolation=True))
                files.append(file.close([Piece(reader, Range(start, end, "a")) for reader in readers]))
            table.append_files(files, "bench", number)


def audited(session: Any, storage: str, count: int, agreed: Mapping[TopicPartition, Agreed]) -> None:
    plan = PartitionPlan(*PLACE, "a", TopicTraits(), BROKERS, (count, count), dict.fromkeys(BROKERS, 0))
    comparer = Comparer(
        inputs.from_tables([plan], [], 2, agreed), CompareSettings(), 2, last=True, from_log_start=False
    )
    chunks = frames.table_chunks(session, storage, {PLACE: (count, count)}, agreed)
    (row,) = frames.compared(frames.openings(session, [PLACE]), chunks, comparer).select("result").collect()
    compared, suspects, _ = parse(row["result"])
    # Where the last transaction goes on, its records are not compared to the end of read_committed.
    if suspects or compared.compared_up_to[0] != count or compared.rows < 6 * count:
        raise SystemExit(f"the replicas agree, and yet: {suspects}, {compared}")


def by_blocks(session: Any, storage: str, count: int) -> None:
    plan = PartitionPlan(*PLACE, "a", TopicTraits(), BROKERS, (count, count))
    audited(session, storage, count, agreeing(recorded_blocks(storage), [plan]))


def by_rows(session: Any, storage: str, count: int) -> None:
    audited(session, storage, count, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables: shows that it runs, not how fast")
    parser.add_argument("--records", type=int, default=2_000_000, help="offsets of the partition")
    options = parser.parse_args()
    count, rounds = (50_000, 1) if options.quick else (options.records, 3)
    spark = build_session(SparkSettings(master="local[2]", driver_memory="2g"))
    print(f"{6 * count:,} recorded rows of one partition; medians of {rounds}")
    print(f"{'replicas that agree':<36} {'by rows s':>10} {'by blocks s':>12} {'M rows/s':>9} {'M rows/s':>9}")
    try:
        session = frames.session_of(spark, 2)
        for transactional in (False, True):
            storage = tempfile.mkdtemp(prefix="parallax-bench-")
            try:
                record(storage, count, transactional=transactional)
                took: dict[Any, list[float]] = {by_rows: [], by_blocks: []}
                for run in took:
                    run(session, storage, count)
                for _ in range(rounds):
                    for run, times in took.items():
                        started = time.perf_counter()
                        run(session, storage, count)
                        times.append(time.perf_counter() - started)
            finally:
                shutil.rmtree(storage, ignore_errors=True)
            rows, blocks = (statistics.median(times) for times in took.values())
            name = f"transactions of {RECORDS} records" if transactional else "plain records"
            rates = 6 * count / rows / 1e6, 6 * count / blocks / 1e6
            print(f"{name:<36} {rows:>10.2f} {blocks:>12.2f} {rates[0]:>9.2f} {rates[1]:>9.2f}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
