"""How many rows a second the comparison takes in: the step alone, packing rows, and the whole query in Spark.

The rows are of three replicas in both views, so there are six for each record of the topic. The query reads tables that
are written as a job writes them. Its rate is marginal, between a small and a large input in one session.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from parallax.audit.packing import pack, unpack
from parallax.compare.batches import VIEW_COLUMNS, view_observations
from parallax.compare.observations import Observations, OpenTransactions, ProgressRows, ReplicaSets, ViewRows
from parallax.compare.state import PartitionState
from parallax.compare.step import step
from parallax.config import CompareSettings

BROKERS = (1, 2, 3)
COMMIT = 100_000
"""Offsets that a commit of the tables holds."""
SETTINGS = CompareSettings()


def rows_of(start: int, count: int, *, keep: dict[int, float], transactional: bool) -> ViewRows:
    """The rows in which three replicas show ``count`` offsets, in both views.

    Args:
        start: the first offset.
        count: how many offsets.
        keep: the share of the records that each broker has not compacted away, by broker id.
        transactional: whether the records are in transactions of 100 offsets.
    """
    offsets = np.arange(start, start + count)
    parts = []
    for view in (0, 1):
        for broker in BROKERS:
            offset = offsets[np.random.default_rng(start + broker).random(count) < keep[broker]]
            n = len(offset)
            base = {
                "view": np.full(n + 1, view),
                "broker": np.full(n + 1, broker),
                "kind": np.append(np.zeros(n), 3),
                "offset": np.append(offset, start + count),
                "timestamp": np.append(offset, start + count),
                "key_hash_hi": np.append(offset * 7919, 0),
                "key_hash_lo": np.append(offset * 104729, 0),
                "content_hash": np.append(offset * 31, 0),
                "key_size": np.append(np.full(n, 8), -1),
                "value_size": np.append(np.full(n, 90), -1),
                "high_watermark": np.append(np.full(n, -1), start + count),
                "last_stable_offset": np.append(np.full(n, -1), start + count),
            }
            if transactional:
                base["producer_id"] = np.append(offset // 100 % 10, -1)
                outcome = np.full(n, 3 if view == 0 else 1)
                base["outcome"] = np.append(outcome, 0)
                if view == 0:
                    base["kind"][:-1][offset % 100 == 99] = 1
            parts.append(ViewRows.of(base))
    return ViewRows.concat(parts)


def observations(start: int, count: int, **options: Any) -> Observations:
    end = start + count
    at = np.full(3, end)
    return Observations(
        "t",
        0,
        rows_of(start, count, **options),
        ProgressRows.of(
            {
                "broker": np.array(BROKERS),
                "observed_at": at,
                "reachable": np.ones(3, bool),
                "described": np.ones(3, bool),
                "high_watermark": at,
                "last_stable_offset": at,
                "log_start_offset": np.zeros(3),
                "log_end_offset": at,
            }
        ),
        OpenTransactions(),
        ReplicaSets.of({"observed_at": at, "broker": np.array(BROKERS)}),
    )


def rate(run: Callable[[], int], repeats: int) -> float:
    """The median rows a second of several runs, after one that warms up.

    Args:
        run: does the work once, and returns how many rows it has taken in.
        repeats: how many runs are counted.
    """
    run()
    rates = []
    for _ in range(repeats):
        started = time.perf_counter()
        rows = run()
        rates.append(rows / (time.perf_counter() - started))
    return statistics.median(rates)


def steps(batches: list[Observations]) -> int:
    """Give micro-batches to the step one after the other; returns how many rows they had.

    The state becomes bytes after each of them, as in the job.
    """
    state, rows, raised = b"", 0, 0
    for batch in batches:
        result = step(PartitionState.from_bytes(state), batch, SETTINGS, 0)
        state = result.state.to_bytes()
        rows += len(batch.rows)
        raised += len(result.suspects)
    if raised:
        raise SystemExit(f"the benchmark's rows agree, and yet {raised} suspects were raised")
    return rows


def lagging(count: int, batch: int) -> list[Observations]:
    """Micro-batches in which broker 2 is read one behind the others, so that half of the rows wait in the state.

    Args:
        count: how many offsets in all.
        batch: how many offsets a micro-batch has.
    """
    made = []
    late: ViewRows | None = None
    for start in range(0, count, batch):
        whole = observations(start, batch, keep=dict.fromkeys(BROKERS, 1.0), transactional=False)
        behind = whole.rows.broker == 2
        rows = whole.rows.take(~behind) if late is None else ViewRows.concat([whole.rows.take(~behind), late])
        late = whole.rows.take(behind)
        made.append(Observations("t", 0, rows, whole.progress, whole.open_transactions, whole.replica_sets))
    return made


def bench_core(count: int, repeats: int) -> None:
    batch = count // 4
    same = dict.fromkeys(BROKERS, 1.0)
    cases = {
        "step: records that agree": [
            observations(s, batch, keep=same, transactional=False) for s in range(0, count, batch)
        ],
        "step: transactions": [observations(s, batch, keep=same, transactional=True) for s in range(0, count, batch)],
        "step: one replica behind": lagging(count, batch),
    }
    for name, batches in cases.items():
        print(f"{name:34} {rate(lambda b=batches: steps(b), repeats):12,.0f} rows/s")  # type: ignore[misc]
    small = [observations(s, 100, keep=same, transactional=False) for s in range(0, 5000, 100)]
    started = time.perf_counter()
    steps(small)
    print(f"{'step of 600 rows':34} {(time.perf_counter() - started) / len(small) * 1000:12.2f} ms")
    whole = observations(0, batch, keep=same, transactional=False).rows
    record_batch = arrow(whole)
    print(f"{'Arrow to observations':34} {rate(lambda: packed(record_batch), repeats):12,.0f} rows/s")
    blob = pack(Observations("t", 0, whole))
    print(f"{'unpack':34} {rate(lambda: len(unpack('t', 0, blob).rows), repeats):12,.0f} rows/s")


def arrow(rows: ViewRows) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: getattr(rows, name) for name in ViewRows.dtypes() if name in VIEW_COLUMNS}
    columns["event"] = pa.nulls(len(rows), pa.string())
    columns["topic_id"] = pa.nulls(len(rows), pa.string())
    columns |= {"topic": pa.array(["t"] * len(rows)), "partition": np.zeros(len(rows), np.int32)}
    return pa.RecordBatch.from_pydict({name: columns[name] for name in VIEW_COLUMNS})


def packed(batch: pa.RecordBatch) -> int:
    for _ in view_observations(batch).each():
        pass
    return int(batch.num_rows)


REPEATS = 3
CASES = {
    "one partition": (1, False),
    "eight partitions": (8, False),
    "one partition, in transactions of 10": (1, True),
}
"""By name, how many partitions, and whether records are in transactions."""


def bench_spark(count: int) -> None:
    """Print how fast the comparison's query takes in recorded tables, for each of `CASES`.

    Args:
        count: offsets of the large input, each of which is six rows; the small one has a tenth.
    """
    from parallax.config import SparkSettings, validate
    from parallax.views.session import build_session

    spark = build_session(SparkSettings(master="local[2]", driver_memory="1g"))
    try:
        for name, (partitions, transactional) in CASES.items():
            few, many = count // 10, count
            taken: dict[int, list[float]] = {few: [], many: []}
            # The first run starts the Python workers and compiles; it does not count.
            for n, rows in enumerate((many, *(few, many) * REPEATS)):
                folder = tempfile.mkdtemp(prefix="parallax-bench-")
                settings = validate(
                    {
                        "kafka": {"bootstrap.servers": "unused:9092"},
                        "topics": {"include": ["t"]},
                        "storage": {"path": folder},
                        "compare": {"trigger_ms": 0},
                    }
                )
                try:
                    _record(spark, folder, rows, partitions, transactional=transactional)
                    seconds = _run_query(spark, settings, rows, partitions)
                    if n:
                        taken[rows].append(seconds)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
            print(f"query over Delta, {name}, each {REPEATS} times")
            for rows, seconds_each in taken.items():
                told = ", ".join(f"{one:.2f}" for one in sorted(seconds_each))
                rate_of = f"{rows * 6 / statistics.median(seconds_each):,.0f}"
                print(f"  {rows * 6:,} rows in {told} s{'':8} {rate_of:>12} rows/s with what a micro-batch costs")
            more = statistics.median(taken[many]) - statistics.median(taken[few])
            said = f"{(many - few) * 6 / more:12,.0f} rows/s" if more > 0 else "the large input took no longer"
            print(f"{'  marginal':34} {said}", flush=True)
    finally:
        spark.stop()


def _record(spark: Any, path: str, count: int, partitions: int, *, transactional: bool) -> None:
    """What the replicas show of ``count`` offsets of all partitions together, and who the replicas are."""
    from pyspark.sql import functions as sf

    from benchmarks.bench_audit import record
    from parallax.views.tables import PROGRESS, create_tables, table_path

    create_tables(path)
    # As in a job: who the replicas are is known before their first rows.
    progress = spark.read.format("delta").load(table_path(path, PROGRESS))
    end = count // partitions
    values = {
        "topic": "'t'",
        "partition": "partition",
        "broker": "broker",
        "observed_at": "timestamp_millis(1)",
        "reachable": "true",
        "high_watermark": f"{end}",
        "last_stable_offset": f"{end}",
        "log_start_offset": "0",
        "log_end_offset": f"{end}",
        "replicas": "array(1, 2, 3)",
        "recorded_on": "current_date()",
    }
    columns = [sf.expr(values.get(f.name, "null")).cast(f.dataType).alias(f.name) for f in progress.schema.fields]
    said = [(n, broker) for n in range(partitions) for broker in BROKERS]
    rows = spark.createDataFrame(said, "partition int, broker int").select(*columns).coalesce(1)
    rows.write.format("delta").mode("append").save(table_path(path, PROGRESS))
    record(path, end, transactional=transactional, partitions=partitions, commit=COMMIT)


def _run_query(spark: Any, settings: Any, count: int, partitions: int) -> float:
    """Seconds that the query's micro-batches took for ``count`` records of the topic."""
    from parallax.compare.query import comparison_query

    ends: dict[int, Any] = {}
    found: list[Any] = []

    def told(suspects: Any, coverages: Any) -> None:
        found.extend(suspects)
        ends.update((one.partition, one.compared_up_to) for one in coverages)

    query = comparison_query(settings, told).start(spark)
    query.processAllAvailable()
    seconds = sum(p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"]) / 1000
    query.stop()
    end = count // partitions
    if found or set(ends.values()) != {(end, end)} or len(ends) != partitions:
        raise SystemExit(f"the query compared up to {ends}, not {end}, and suspects {found}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--no-spark", action="store_true", help="leave the streaming query out")
    options = parser.parse_args()
    bench_core(20_000 if options.quick else 400_000, 1 if options.quick else 3)
    if not options.no_spark:
        bench_spark(20_000 if options.quick else 5_000_000)


if __name__ == "__main__":
    main()
