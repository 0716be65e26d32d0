"""Rows of a history as rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from parallax import moments
from parallax.source.schema import PROGRESS as PROGRESS_SCHEMA
from parallax.source.schema import VIEW
from parallax.views.tables import PROGRESS, RECORDED_ON
from tests.unit.compare.history import RC, RU, Row


def tables_of(rows: Iterable[Row]) -> Iterator[tuple[str, Any]]:
    """The rows as those of the tables, by name."""
    today = date.fromisoformat(moments.today())
    rows = [{**r, **_times(r)} for r in rows]
    tables = {
        "read_uncommitted": (VIEW, [_view(r) for r in rows if r.get("view") == RU]),
        "read_committed": (VIEW, [_view(r) for r in rows if r.get("view") == RC]),
        PROGRESS: (PROGRESS_SCHEMA, [_progress(r) for r in rows if "observed_at" in r]),
    }
    for name, (schema, part) in tables.items():
        if part:
            data = pa.Table.from_pylist(part, schema=schema)
            yield name, data.append_column(RECORDED_ON, pa.array([today] * len(part)))


def _times(row: Row) -> Row:
    return {
        name: datetime.fromtimestamp(row[name] / 1000, UTC) for name in ("timestamp", "observed_at") if name in row
    } | {"topic": row.get("topic", "t"), "partition": 0}


def _view(row: Row) -> Row:
    fields = ("high_watermark", "last_stable_offset", "log_start_offset", "event")
    position = {name: row[name] for name in fields} | {"topic_id": "a"} if row["kind"] == 3 else None
    return {**row, "kind": int(row["kind"]), "outcome": int(row.get("outcome", 0)), "position": position}


def _progress(row: Row) -> Row:
    opened = row.get("open_transactions")
    listed = None if opened is None else [{"producer_id": p, "start_offset": s} for p, s in opened]
    return {**row, "replicas": list(row.get("replicas", ())), "open_transactions": listed}
