"""What the tables say has been read: the truth from which a job goes on, whatever became of its checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.views.tables import rust_uri

RESETS = (ReadEvent.LOG_TRUNCATED, ReadEvent.TOPIC_RECREATED)
"""Events after which a position is lower than before, and right."""

_COLUMNS = ("topic", "partition", "broker", "offset", "timestamp", "leader_epoch", "event", "topic_id")


def recorded_positions(storage: str, isolation: IsolationLevel, since_ms: int = 0) -> dict[Reader, Recorded]:
    """Rebuild positions of a view's readers from its table.

    Args:
        storage: ``storage.path``.
        isolation: which view.
        since_ms: only files written at or after this time are read, milliseconds since the epoch.

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
    return latest(_position_rows(table, paths), isolation) if paths else {}


def _position_rows(table: Any, paths: Iterable[str]) -> Any:
    wanted = set(paths)
    whole: Any = table.to_pyarrow_dataset()
    fragments = [fragment for fragment in whole.get_fragments() if fragment.path in wanted]
    dataset: Any = pds.FileSystemDataset(fragments, whole.schema, whole.format, whole.filesystem)
    columns: Any = {name: pc.field(name) for name in _COLUMNS[:6]}
    columns |= {name: pc.field("position", name) for name in _COLUMNS[6:]}
    return dataset.to_table(columns=columns, filter=pc.field("kind") == int(RowKind.POSITION))


def latest(rows: Any, isolation: IsolationLevel) -> dict[Reader, Recorded]:
    """Take each reader's position out of position rows in any order.

    It is the highest since the last reset; by time only across resets, so that a clock that was set back does no harm.

    Args:
        rows: ``pyarrow.Table`` with the columns topic, partition, broker, offset, timestamp, leader_epoch, event and
            topic_id.
        isolation: whose rows they are.
    """
    found: dict[Reader, Recorded] = {}
    # A reset and the end of its range may share a millisecond; the reset comes first.
    in_order = rows.sort_by([("timestamp", "ascending"), ("offset", "ascending")])
    columns = [in_order[name].to_pylist() for name in _COLUMNS]
    for topic, partition, broker, offset, _, epoch, event, topic_id in zip(*columns, strict=True):
        reader = Reader(int(isolation), broker, topic, partition)
        known = found.get(reader)
        if known is None or event in RESETS or offset >= known.position:
            found[reader] = Recorded(offset, topic_id or "", ReadEvent(event), epoch=epoch)
    return found


_LOOK_BACK = 2000
"""Commits that are searched for the last batch of a query. What is further back was followed by so many others that
Spark has long recorded it as done; and positions keep even its rows from being recorded twice."""


def batch_mark(query_id: str, batch_id: int) -> str:
    """Return what a commit carries as ``userMetadata``, so that the batch it records is known by the log alone."""
    return json.dumps({"query": query_id, "batch": batch_id}, separators=(",", ":"))


def last_batch(storage: str, name: str, query_id: str) -> int:
    """The last micro-batch that a query has committed to a table, by the marks of its commits; -1 if none."""
    for commit in open_table(storage, name).history(_LOOK_BACK):
        text = commit.get("userMetadata")
        mark = json.loads(text) if text else {}
        if mark.get("query") == query_id:
            return int(mark["batch"])
    return -1


def open_table(storage: str, name: str) -> Any:
    """Open a table with delta-rs, which needs no Spark and reads the log in milliseconds."""
    from deltalake import DeltaTable

    return DeltaTable(rust_uri(storage, name))
