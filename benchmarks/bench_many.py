"""What a micro-batch costs the comparison if there are many partitions, in seconds of processor and without Spark.

It writes files of the three tables as the job does, for partitions with three replicas that agree. The first files hold
the start of all partitions. Then come micro-batches in which a share of the partitions moves (a record in both views,
and a tick), and some that are ticks alone. One task reads, compares and writes its state. Then the driver takes in what
the task returns. The seconds of the two are printed separately.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import fs

from parallax.alerting.state import MonitorState
from parallax.compare.passes import compared
from parallax.compare.results import told_by
from parallax.compare.segments import Manifest, Segment, Store
from parallax.compare.work import Options, Stretch, Work
from parallax.config import CompareSettings
from parallax.model import ReadEvent
from parallax.source.schema import PROGRESS, VIEW
from parallax.views.commits import DataFile
from parallax.views.parquet import OF_PROGRESS, OF_VIEWS, Shape, TableFile
from parallax.views.tables import PROGRESS as PROGRESS_TABLE
from parallax.views.tables import VIEWS, create_tables, table_path

BROKERS = (1, 2, 3)
PER_TOPIC = 50
POSITION = 3
BEGAN_MS = 1_700_000_000_000


class Tables:
    """Writes files of both views and of progress, as a job would for partitions that agree.

    Args:
        storage: folder of the tables.
        partitions: how many partitions there are.
    """

    def __init__(self, storage: str, partitions: int) -> None:
        self._storage = storage
        self._ends = np.zeros(partitions, np.int64)
        self._files = 0
        self._now_ms = BEGAN_MS

    def tick(self, moved: Any) -> list[tuple[str, DataFile]]:
        """Write a tick: progress rows of all replicas of some partitions.

        Args:
            moved: int64[n], numbers of the partitions.

        Returns:
            The table's name and the new file.
        """
        self._now_ms += 1000
        number = np.repeat(moved, len(BROKERS))
        n = len(number)
        end = self._ends[number]
        columns = {
            **_places(number),
            "broker": pa.array(np.tile(BROKERS, len(moved)), pa.int32()),
            "observed_at": _times(np.full(n, self._now_ms)),
            "reachable": pa.array(np.ones(n, bool)),
            **dict.fromkeys(("high_watermark", "last_stable_offset", "log_end_offset"), pa.array(end)),
            "log_start_offset": pa.array(np.zeros(n, np.int64)),
            "leader": pa.array(1 + number % PER_TOPIC % len(BROKERS), pa.int32()),
            "replicas": pa.array([list(BROKERS)] * n, PROGRESS.field("replicas").type),
            "topic_id": pa.array([f"id-{i // PER_TOPIC}" for i in number]),
            "open_transactions": pa.array([[]] * n, PROGRESS.field("open_transactions").type),
            "cleanup_policy": pa.array(["compact"] * n),
            "policy_at": _times(np.full(n, self._now_ms // 60_000 * 60_000)),
            "delete_retention_ms": pa.array(np.full(n, 86_400_000)),
        }
        return [(PROGRESS_TABLE, self._written(PROGRESS_TABLE, OF_PROGRESS, _batch(PROGRESS, columns, n), None))]

    def move(self, moved: Any, *, is_start: bool = False) -> list[tuple[str, DataFile]]:
        """Write one more record of some partitions, as each replica shows it at both isolation levels.

        Args:
            moved: int64[n], numbers of the partitions.
            is_start: whether to write also that the reading of these partitions begins.

        Returns:
            The table's name and the file, for each new file.
        """
        self._now_ms += 500
        offset = self._ends[moved].copy()
        self._ends[moved] += 1
        made = []
        for table in VIEWS:
            for broker in BROKERS:
                parts = [self._positions(moved, broker, offset, ReadEvent.PARTITION_ADDED)] if is_start else []
                parts.append(self._records(moved, broker, offset))
                parts.append(self._positions(moved, broker, offset + 1, ReadEvent.OK))
                made.append((table, self._written(table, OF_VIEWS, pa.concat_batches(parts), broker)))
        return made

    def _records(self, moved: Any, broker: int, offset: Any) -> pa.RecordBatch:
        n = len(moved)
        key = moved * 7919 + offset
        return self._rows(
            moved,
            broker,
            offset,
            kind=pa.array(np.zeros(n), pa.int8()),
            key_hash_hi=pa.array(key),
            key_hash_lo=pa.array(key * 104_729),
            content_hash=pa.array(key * 31),
            key_size=pa.array(np.full(n, 5), pa.int32()),
            value_size=pa.array(np.full(n, 90), pa.int32()),
        )

    def _positions(self, moved: Any, broker: int, offset: Any, event: ReadEvent) -> pa.RecordBatch:
        n, end = len(moved), self._ends[moved].tolist()
        position = pa.array(
            [
                {
                    "high_watermark": e,
                    "last_stable_offset": e,
                    "log_start_offset": 0,
                    "event": str(event),
                    "topic_id": f"id-{i // PER_TOPIC}",
                }
                for i, e in zip(moved, end, strict=True)
            ],
            VIEW.field("position").type,
        )
        return self._rows(moved, broker, offset, kind=pa.array(np.full(n, POSITION), pa.int8()), position=position)

    def _rows(self, moved: Any, broker: int, offset: Any, **more: Any) -> pa.RecordBatch:
        n = len(moved)
        columns = {
            **_places(moved),
            "broker": pa.array(np.full(n, broker), pa.int32()),
            "offset": pa.array(offset),
            "timestamp": _times(np.full(n, self._now_ms)),
            "leader_epoch": pa.array(np.zeros(n), pa.int32()),
            "producer_id": pa.array(np.full(n, -1)),
            "producer_epoch": pa.array(np.full(n, -1), pa.int32()),
            "outcome": pa.array(np.zeros(n), pa.int8()),
            **{name: pa.array(np.zeros(n, np.int64)) for name in ("key_hash_hi", "key_hash_lo", "content_hash")},
            **{name: pa.array(np.full(n, -1), pa.int32()) for name in ("key_size", "value_size")},
            "content_version": pa.array(np.ones(n), pa.int8()),
        }
        return _batch(VIEW, columns | more, n)

    def _written(self, table: str, shape: Shape, batch: pa.RecordBatch, broker: int | None) -> DataFile:
        self._files += 1
        name = f"{self._files}.parquet"
        order = pa.compute.sort_indices(batch, [("topic", "ascending"), ("partition", "ascending")])
        file = TableFile(fs.SubTreeFileSystem(table_path(self._storage, table), fs.LocalFileSystem()), name, shape)
        file.take(batch.take(order))
        file.close()
        return DataFile(name, batch.num_rows, broker)


def _places(number: Any) -> dict[str, Any]:
    topics = [f"demo.{i:04d}" for i in range(int(number.max(initial=0)) // PER_TOPIC + 1)]
    return {
        "topic": pa.array(topics).take(pa.array(number // PER_TOPIC)),
        "partition": pa.array(number % PER_TOPIC, pa.int32()),
    }


def _times(ms: Any) -> Any:
    return pa.array(ms * 1000, pa.timestamp("us", "UTC"))


def _batch(schema: pa.Schema, columns: dict[str, Any], n: int) -> pa.RecordBatch:
    arrays = [columns[f.name] if f.name in columns else pa.nulls(n, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Comparison:
    """One comparison with its Spark tasks and its driver, all in this process.

    Args:
        storage: folder of the tables.
        tasks: into how many tasks each micro-batch is divided.
    """

    def __init__(self, storage: str, tasks: int) -> None:
        self._options = Options(storage, tasks, CompareSettings(), checkpoint=f"{storage}/checkpoints/compare")
        self._store = Store(self._options.checkpoint)
        self._store.prepare()
        self._manifest = Manifest()
        self._state = MonitorState()
        self._tasks = tasks

    def step(self, files: Sequence[tuple[str, DataFile]]) -> tuple[float, float, int]:
        """Compare one micro-batch.

        Args:
            files: the new files, each with the name of its table.

        Returns:
            The processor seconds of all tasks, those of the driver, and how many partitions the tasks reported.
        """
        started = time.process_time()
        work = Work((Stretch(tuple(files), 0),), "", "", self._manifest, BEGAN_MS)
        everything = range(self._manifest.buckets)
        shares = [frozenset(everything[n :: self._tasks]) for n in range(self._tasks)]
        rows = [row for share in shares for row in compared(self._options, work, share, self._store).to_pylist()]
        done = time.process_time()
        suspects, coverages = told_by(rows)
        if suspects:
            raise SystemExit(f"the benchmark's rows agree, and yet {len(suspects)} suspects were raised")
        self._state.update_coverage(coverages)
        new = {row["bucket"]: Segment(row["segment"], tuple(row["files"])) for row in rows if row["segment"]}
        self._manifest = self._manifest.with_segments(new)
        self._store.commit(f"{self._manifest.number}", self._manifest)
        return done - started, time.process_time() - done, len(coverages)


def run(partitions: int, share: float, batches: int, profile: Callable[[str], Any]) -> None:
    """Compare all micro-batches, and print what each costs.

    Args:
        partitions: how many partitions there are.
        share: the share of them that moves in a micro-batch.
        batches: how many such micro-batches there are.
        profile: makes a context, from the micro-batch's name, in which it is compared.
    """
    everyone = np.arange(partitions)
    with tempfile.TemporaryDirectory(prefix="parallax-bench-") as storage:
        create_tables(storage)
        tables, comparison = Tables(storage, partitions), Comparison(storage, 1)
        print(f"{partitions:,} partitions of three replicas; seconds of processor")
        print(f"{'micro-batch':44} {'told':>7} {'tasks s':>8} {'driver s':>8}")

        def feed(name: str, files: Sequence[tuple[str, DataFile]]) -> None:
            with profile(name):
                tasks, driver, told = comparison.step(files)
            memory = psutil.Process().memory_info().rss / 2**20
            print(f"{name:44} {told:7,} {tasks:8.2f} {driver:8.2f}   {memory:.0f} MB", flush=True)

        feed("start: a tick of all", tables.tick(everyone))
        feed("start: all begin", tables.move(everyone, is_start=True))
        draw = np.random.default_rng(1)
        for _ in range(batches):
            moved = np.sort(draw.choice(partitions, max(1, int(partitions * share)), replace=False))
            feed(f"{share:.0%} moved, and a tick of these", [*tables.tick(moved), *tables.move(moved)])
        feed("all moved, and a tick", [*tables.tick(everyone), *tables.move(everyone)])
        for _ in range(2):
            feed("a tick of all", tables.tick(everyone))
        feed("five ticks of all", [file for _ in range(5) for file in tables.tick(everyone)])


class _Profiled(cProfile.Profile):
    def __init__(self, name: str, lines: int) -> None:
        super().__init__()
        self._name, self._lines = name, lines

    def __exit__(self, *about: object) -> None:
        self.disable()
        print(f"-- {self._name}")
        pstats.Stats(self).sort_stats("tottime").print_stats(self._lines)


class _Plain:
    def __enter__(self) -> None:
        """Measure nothing."""

    def __exit__(self, *about: object) -> None:
        """Measure nothing."""


def main() -> None:
    """Read the options, and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few partitions")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.01, help="of the partitions that move in a micro-batch")
    parser.add_argument("--profile", type=int, default=0, metavar="LINES", help="of each micro-batch, the dearest")
    options = parser.parse_args()
    profile = (lambda name: _Profiled(name, options.profile)) if options.profile else (lambda _: _Plain())
    run(500 if options.quick else options.partitions, options.share, 3, profile)


if __name__ == "__main__":
    main()
