"""What the tables say has been read: the truth from which a job goes on, whatever became of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views.tables import RECORDED_ON, rust_uri

RESETS = (ReadEvent.LOG_TRUNCATED, ReadEvent.TOPIC_RECREATED)
"""Events after which a position is lower than before, and right."""

_SKEW_MS = 3_600_000
"""How far the clock of a worker, which dates the rows, may be behind the driver's, which dates the files.

What retention carries over is a day old at least."""

_COLUMNS = ("topic", "partition", "broker", "offset", "timestamp", "leader_epoch", "position")


def recorded_positions(storage: str, isolation: IsolationLevel, since_ms: int = 0) -> dict[Reader, Recorded]:
    """Rebuild positions of a view's readers from its table.

    Args:
        storage: ``storage.path``.
        isolation: which view.
        since_ms: only files written at or after this time are read, milliseconds since the epoch, and of these no rows
            that are older by far: retention carries old rows over into new files.

    Returns:
        The readers that have a position row in those files.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    table = open_table(storage, isolation.option)
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    written: Any = pc.cast(pc.cast(actions["modification_time"], pa.timestamp("ms")), pa.int64())
    young: Any = pc.greater_equal(written, pa.scalar(since_ms, pa.int64()))
    paths: list[Any] = actions.filter(young)["path"].to_pylist()
    return latest(position_rows(table, _COLUMNS, paths, since_ms - _SKEW_MS), isolation) if paths else {}


def position_rows(table: Any, columns: Iterable[str], paths: Iterable[str] | None = None, since_ms: int = 0) -> Any:
    """The position rows of a view, with the date on which they were recorded.

    Args:
        table: ``deltalake.DeltaTable``.
        columns: of the view.
        paths: of the files to read; None for all.
        since_ms: leaves out rows recorded before this time, milliseconds since the epoch.

    Returns:
        A ``pyarrow.Table``, in no order.
    """
    whole: Any = table.to_pyarrow_dataset()
    wanted = None if paths is None else set(paths)
    fragments = [f for f in whole.get_fragments() if wanted is None or f.path in wanted]
    dataset: Any = pds.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)
    since = pa.scalar(max(since_ms, 0), pa.timestamp("ms", "UTC"))
    wanted_rows = (pc.field("kind") == int(RowKind.POSITION)) & (pc.field("timestamp") >= since)
    return dataset.to_table(columns=[*columns, RECORDED_ON], filter=wanted_rows)


def latest(rows: Any, isolation: IsolationLevel) -> dict[Reader, Recorded]:
    """Take each reader's position out of position rows in any order; see `last_rows`.

    Args:
        rows: ``pyarrow.Table`` with the columns topic, partition, broker, offset, timestamp, leader_epoch and position.
        isolation: whose rows they are.
    """
    found: dict[Reader, Recorded] = {}
    for row in rows.take(pa.array(last_rows(rows).values(), pa.int64())).to_pylist():
        position = row["position"]
        found[Reader(int(isolation), row["broker"], row["topic"], row["partition"])] = Recorded(
            row["offset"], position["topic_id"] or "", ReadEvent(position["event"]), epoch=row["leader_epoch"]
        )
    return found


def last_rows(rows: Any) -> dict[tuple[str, int, int], int]:
    """Find the position row that says where each reader stands.

    It is the highest since the last reset; by time only across resets, so that a clock that was set back does no harm.

    Args:
        rows: as `latest` takes them.

    Returns:
        By topic, partition and broker, the number of the row.
    """
    events = pc.struct_field(rows["position"], "event")
    # A reset and the end of its range may share a millisecond; the reset comes first.
    order = pc.sort_indices(rows, sort_keys=[("timestamp", "ascending"), ("offset", "ascending")])
    columns = [rows[name].take(order).to_pylist() for name in ("topic", "partition", "broker", "offset")]
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    told = zip(*columns, events.take(order).to_pylist(), order.to_pylist(), strict=True)
    for topic, partition, broker, offset, event, number in told:
        known = found.get((topic, partition, broker))
        if known is None or event in RESETS or offset >= known[0]:
            found[topic, partition, broker] = offset, number
    return {reader: number for reader, (_, number) in found.items()}


def open_table(storage: str, name: str) -> Any:
    """Open a table with delta-rs, which needs no Spark and reads the log in milliseconds."""
    from deltalake import DeltaTable

    return DeltaTable(rust_uri(storage, name))
