"""How far readers came, as the views record it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from parallax.model import ReadEvent
from parallax.source.columns import Position, position_batch
from parallax.source.offsets import Reader
from parallax.views.tables import RECORDED_ON


def midnight(on: date) -> int:
    """When a date begins, milliseconds since 1970 UTC."""
    return int(datetime(on.year, on.month, on.day, tzinfo=UTC).timestamp() * 1000)


def position(reader: Reader, offset: int, at_ms: int = 1, event: ReadEvent = ReadEvent.OK, **more: Any) -> Position:
    """That a reader has read up to an offset of a log that ends at 9."""
    of = {"detail": "", "topic_id": "A", "high_watermark": 9, "last_stable_offset": 9, "log_start_offset": 0}
    return Position(reader, offset, at_ms, event, **(of | more))


def record_positions(storage: Path | str, recorded_on: date, *positions: Position) -> None:
    """Append them to the view of committed records, as a micro-batch of that date would."""
    table = pa.Table.from_batches([position_batch(positions, with_isolation=False)])
    table = table.append_column(RECORDED_ON, pa.array([recorded_on] * len(positions), pa.date32()))
    write_deltalake(f"{storage}/read_committed", table, mode="append")
