"""Finds in the tables how far each reader has read.

*Position rows* of a view say it (`RowKind.POSITION`): each has the next offset that a reader reads, and what happened
there. A job goes on from these positions, even if its checkpoints are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from parallax.model import GAPS, IsolationLevel, ReadEvent, RowKind
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views import order
from parallax.views.tables import RECORDED_ON, rust_uri

RESETS = (ReadEvent.LOG_TRUNCATED, ReadEvent.TOPIC_RECREATED)
"""Events after which a reader's position may be lower than before.

It may also be lower if the topic id has changed, or if the topic was deleted before. Then its readers had been
forgotten (`parallax.views.deleted`).
"""

_COLUMNS = ("topic", "partition", "broker", "offset", "leader_epoch", "position")


def positions_since(storage: str, isolation: IsolationLevel, after_ms: int) -> tuple[dict[Reader, Recorded], int]:
    """The position of each reader that has moved since one of a view's commits.

    If the table ends before that commit, it is another table, such as one put back from a copy. Then the positions of
    the whole table are returned.

    Args:
        storage: ``storage.path``.
        isolation: the isolation level of the view.
        after_ms: the time of the commit (`parallax.views.order`); -1 for all of the table.

    Returns:
        A tuple: by reader that has moved, its newest position; and the time of the table's last commit, -1 for a table
        without files.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    table = open_table(storage, isolation.option)
    files = order.files_of(table)
    reached = order.last_of(files)
    if reached < after_ms:
        after_ms = -1
    young: Any = pc.greater(files[order.AT_MS], pa.scalar(after_ms, pa.int64()))
    new = files.filter(young)
    return (latest(position_rows(table, _COLUMNS, new), isolation) if new.num_rows else {}), reached


def position_rows(table: Any, columns: Iterable[str], files: pa.Table) -> Any:
    """The position rows (`RowKind.POSITION`) in some files of a view, with the date on which they were recorded.

    Args:
        table: the view, a ``deltalake.DeltaTable``.
        columns: names of the columns to read.
        files: the files, in the form of `parallax.views.order.files_of`.

    Returns:
        A ``pyarrow.Table`` with these columns and ``recorded_on``, in the order in which the rows were recorded.
    """
    whole: Any = table.to_pyarrow_dataset()
    fragments = {fragment.path: fragment for fragment in whole.get_fragments()}
    wanted = [fragments[path] for path in files[order.PATH].to_pylist()]
    dataset: Any = pds.FileSystemDataset(wanted, whole.schema, whole.format, whole.filesystem)
    return dataset.to_table(columns=[*columns, RECORDED_ON], filter=pc.field("kind") == int(RowKind.POSITION))


def latest(rows: Any, isolation: IsolationLevel) -> dict[Reader, Recorded]:
    """The current position of each reader, from rows of kind POSITION of a view.

    Args:
        rows: ``pyarrow.Table`` with the columns topic, partition, broker, offset, leader_epoch and position, in the
            order in which they were recorded.
        isolation: the isolation level of the view.
    """
    found: dict[Reader, Recorded] = {}
    for row in rows.take(pa.array(last_rows(rows).values(), pa.int64())).to_pylist():
        position = row["position"]
        found[Reader(int(isolation), row["broker"], row["topic"], row["partition"])] = Recorded(
            row["offset"], position["topic_id"] or "", ReadEvent(position["event"]), epoch=row["leader_epoch"]
        )
    return found


def last_rows(rows: Any) -> dict[tuple[str, int, int], int]:
    """The row that holds each reader's current position: the highest offset since its last reset.

    A reset is an event after which a reader begins at a lower offset, e.g. a truncation. The row is usually the
    reader's last one. It is not if a version without an order of commits recorded rows while the clock was set back.

    Args:
        rows: rows of kind POSITION, with the columns that `latest` needs.

    Returns:
        The index of the row in ``rows``, by topic, partition and broker.
    """
    events, ids = (pc.struct_field(rows["position"], name).to_pylist() for name in ("event", "topic_id"))
    columns = [rows[name].to_pylist() for name in ("topic", "partition", "broker", "offset")]
    found: dict[tuple[str, int, int], int] = {}
    for number, (topic, partition, broker, offset) in enumerate(zip(*columns, strict=True)):
        known = found.get((topic, partition, broker))
        if known is None or offset >= columns[3][known] or _is_reset(events, ids, known, number):
            found[topic, partition, broker] = number
    return found


def _is_reset(events: Sequence[str], ids: Sequence[str | None], known: int, number: int) -> bool:
    """Whether a row begins the reader again at an offset that may be lower than in the earlier row."""
    is_of_another = bool(ids[known] and ids[number]) and ids[known] != ids[number]
    begins_anew = events[number] == ReadEvent.PARTITION_ADDED and events[known] == ReadEvent.TOPIC_DELETED
    return events[number] in RESETS or is_of_another or begins_anew


def gaps(positions: Iterable[tuple[int, int, str]]) -> dict[int, list[tuple[int, int]]]:
    """The offsets of which a view may lack rows, although readers have passed them (`parallax.model.GAPS`).

    Args:
        positions: broker id, offset and event of each position row of one partition, in the order of time.

    Returns:
        By broker, the ranges: first offset, and one past the last.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    last: dict[int, int] = {}
    for broker, offset, event in positions:
        if event in GAPS:
            # Retention may have dropped the position before.
            found.setdefault(broker, []).append((last.get(broker, 0), offset))
        last[broker] = offset
    return found


def open_table(storage: str, name: str) -> Any:
    """Open a table with delta-rs, which needs no Spark and reads the log in milliseconds.

    Args:
        storage: ``storage.path``.
        name: name of the table.

    Returns:
        A ``deltalake.DeltaTable``.

    Raises:
        deltalake.exceptions.DeltaError: the table cannot be read.
    """
    from deltalake import DeltaTable

    return DeltaTable(rust_uri(storage, name))
