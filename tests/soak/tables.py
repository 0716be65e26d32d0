"""What the job's tables hold at the end of a soak, read without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from parallax.model import IsolationLevel, ReadEvent, RowKind
from parallax.views.positions import open_table


@dataclass(frozen=True)
class Recorded:
    """Rows of the views.

    Attributes:
        tombstones: broker to how many were recorded, in the topics that are only compacted.
        markers: the same, of both types.
        records: in the read_uncommitted view, over all brokers.
        twice: rows that stand in either view more than once.
        events: what position rows of either view reported beside the position.
    """

    tombstones: Counter[int]
    markers: Counter[int]
    records: int
    twice: int
    events: dict[str, int]


def recorded(storage: str, topics: Iterable[str], compacted: Iterable[str]) -> Recorded:
    """Count the rows of some topics, of which some are only compacted."""
    names = list(topics)
    views = {isolation: _rows(storage, isolation, names) for isolation in IsolationLevel}
    uncommitted = views[IsolationLevel.READ_UNCOMMITTED]
    is_record = pc.field("kind") == int(RowKind.RECORD)
    is_compacted = pc.field("topic").isin(list(compacted))
    is_tombstone = is_record & (pc.field("value_size") < 0)
    is_marker = pc.field("kind").isin([int(RowKind.COMMIT), int(RowKind.ABORT)])
    return Recorded(
        _by_broker(uncommitted.filter(is_tombstone & is_compacted)),
        _by_broker(uncommitted.filter(is_marker & is_compacted)),
        uncommitted.filter(is_record).num_rows,
        sum(_twice(rows) for rows in views.values()),
        dict(sum((_events(rows) for rows in views.values()), Counter())),
    )


def _rows(storage: str, isolation: IsolationLevel, topics: list[str]) -> Any:
    dataset = open_table(storage, isolation.option).to_pyarrow_dataset()
    columns = {name: pc.field(name) for name in ("topic", "partition", "broker", "kind", "offset", "value_size")}
    columns["event"] = pc.field("position", "event")
    return dataset.to_table(columns=columns, filter=pc.field("topic").isin(topics))


def _by_broker(rows: Any) -> Counter[int]:
    return Counter({each["values"]: each["counts"] for each in pc.value_counts(rows["broker"]).to_pylist()})


def _twice(rows: Any) -> int:
    shown = rows.filter(pc.field("kind") != int(RowKind.POSITION))
    places = shown.group_by(["topic", "partition", "broker", "offset"]).aggregate([])
    return int(shown.num_rows - places.num_rows)


def _events(rows: Any) -> Counter[str]:
    events = rows.filter(pc.field("kind") == int(RowKind.POSITION))["event"].to_pylist()
    return Counter(event for event in events if event not in (None, str(ReadEvent.OK)))


def suspects(storage: str) -> list[dict[str, Any]]:
    """All suspects that were ever raised; none where there is no such table."""
    try:
        return list(open_table(storage, "suspects").to_pyarrow_table().to_pylist())
    except Exception:  # noqa: BLE001 - no suspect yet, no table
        return []
