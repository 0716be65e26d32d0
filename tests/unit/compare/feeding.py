"""A comparison that is fed from the tables."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parallax.compare.feed import QUERY, ComparisonReader
from parallax.compare.query import ComparisonSink
from parallax.compare.suspect import Coverage, Suspect
from parallax.compare.work import Options
from parallax.config import CompareSettings
from parallax.model import IsolationLevel, RowKind
from parallax.replica.digests import COLUMNS
from parallax.source.offsets import Range, Reader
from parallax.source.planning import Piece
from parallax.views import sink
from parallax.views.appending import Appender
from parallax.views.blocks import AddingUp
from parallax.views.filesystem import filesystem
from parallax.views.parquet import TableFile
from parallax.views.recording import Recorded
from parallax.views.tables import PROGRESS, RECORDED_ON, table_path
from tests.unit.compare.history import BROKERS, RC, RU, Row
from tests.unit.compare.tabled import tables_of

WHOLE = {**dict.fromkeys(COLUMNS, 0), "leader_epoch": 0, "key_size": -1, "value_size": -1, "content_version": 1}
"""A row of a view is whole, as a reader makes it."""

READERS = [(view, broker) for view in (RU, RC) for broker in BROKERS]


class Rows:
    """A micro-batch's DataFrame, as far as the sink looks at it."""

    def __init__(self, batches: list[Any]) -> None:
        self._batches = batches
        self.sparkSession = self.sparkContext = self

    def toArrow(self) -> Any:  # noqa: N802 - Spark's name
        return pa.Table.from_batches(self._batches)

    def getLocalProperty(self, _: str) -> str:  # noqa: N802 - Spark's name
        return "query"


class Prompt(ComparisonReader):
    """It waits for nothing: what a test compares has been appended."""

    @staticmethod
    def _sleep(to: float, until: float) -> bool:
        del until
        return to <= time.monotonic()


class Comparison:
    """The query without Spark: plans, runs the tasks, takes in what they tell; each instance is a new process."""

    def __init__(self, storage: Path, *, from_log_start: bool = True, **more: Any) -> None:
        checkpoint = str(storage / "checkpoints" / QUERY)
        self.options = Options(str(storage), 1, CompareSettings(**more), from_log_start, checkpoint=checkpoint)
        self.storage = str(storage)
        self.told: list[tuple[list[Suspect], list[Coverage]]] = []
        self.sink = ComparisonSink(self.storage, lambda s, c: self.told.append((list(s), list(c))))
        self.sink.prepare(checkpoint)
        self.offset: dict[str, Any] = self.reader().initialOffset()
        self.batch = 0

    def reader(self) -> ComparisonReader:
        return Prompt(Options.from_json(self.options.to_json()))

    def tasks(self, end: dict[str, Any] | None = None) -> list[Any]:
        reader = self.reader()
        end = end or reader.latestOffset(self.offset, None)  # type: ignore[arg-type]
        return [batch for part in reader.partitions(self.offset, end) for batch in reader.read(part)]

    def step(self) -> None:
        """One micro-batch."""
        end = self.reader().latestOffset(self.offset, None)  # type: ignore[arg-type]
        self.sink(Rows(self.tasks(end)), self.batch)
        self.offset, self.batch = end, self.batch + 1

    @property
    def compared_up_to(self) -> dict[str, tuple[int, int]]:
        return {c.topic: c.compared_up_to for _, coverages in self.told for c in coverages}

    def suspects(self) -> list[tuple[str, int]]:
        return [(str(s.kind), s.broker) for raised, _ in self.told for s in raised]


def record_as_the_job_does(
    storage: Path, batch: int, *rows: Row, starts: Mapping[tuple[int, int], int] | None = None
) -> None:
    """Commit rows by the product's own way, all tables in one micro-batch.

    Args:
        storage: ``storage.path``.
        batch: number of the micro-batch.
        rows: of views and progress.
        starts: by view and broker, where its range begins; with it each file has its sums in the footer.
    """
    for name, table in tables_of(rows):
        made = table.drop_columns([RECORDED_ON])
        if name == PROGRESS:
            sink.append(Appender(str(storage), name), made, "progress", batch)
            continue
        files = filesystem(table_path(str(storage), name))
        recorded = []
        for broker in sorted(set(made["broker"].to_pylist())):
            folder = f"broker={broker}/recorded_on=2026-01-01"
            files.create_dir(folder, recursive=True)
            file = TableFile(files, f"{folder}/part-{batch}.parquet")
            mine = made.filter(pc.equal(made["broker"], broker))
            is_position = pc.equal(mine["kind"], RowKind.POSITION)
            sums = AddingUp(bytes(16))
            reader = Reader(int(IsolationLevel[name.upper()]), broker, "t", 0)
            start = (starts or {}).get((reader.isolation, broker))
            for part in mine.filter(pc.invert(is_position)).to_batches():
                if start is not None:  # Rows of tests that have no sums may lack what sums are made of.
                    sums.take(part)
                file.take(part)
            file.divide()
            for part in mine.filter(is_position).to_batches():
                if start is not None:
                    sums.take_positions(part)
                file.take(part)
            told = {} if start is None else sums.blocks([Piece(reader, Range(start, start, "a"))]).told()
            size = file.close(told)
            recorded.append(Recorded(1, broker, "2026-01-01", file.path, size, file.rows, file.statistics, b""))
        sink.commit(Appender(str(storage), name), recorded, "views", batch)
