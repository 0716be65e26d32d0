"""Files of the views, as a task records them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from parallax.model import CONTENT_VERSION, ReadEvent
from parallax.source import reading
from parallax.source.columns import Position, position_batch
from parallax.source.offsets import Range, Reader
from parallax.source.options import replica_options
from parallax.source.planning import Piece
from parallax.source.schema import VIEW_WITH_ISOLATION
from parallax.views import recording
from parallax.views.tables import create_tables

KEY = bytes(range(16))
OPTIONS = replace(
    replica_options({"kafka.bootstrap.servers": "nowhere:1", "topics": "t", "feedback.path": "unused"}), hash_key=KEY
)


def rows(topic: str, partition: int, offsets: range, isolation: int = 0) -> pa.RecordBatch:
    same = {"topic": topic, "partition": partition, "broker": 1, "kind": 0, "leader_epoch": 3, "producer_id": -1}
    same |= {"producer_epoch": -1, "outcome": 0, "key_size": 4, "value_size": 9, "isolation": isolation}
    same |= {"content_version": CONTENT_VERSION}
    of = [
        {**same, "offset": n, "timestamp": n * 1000, "key_hash_hi": n, "key_hash_lo": -n, "content_hash": 7 * n}
        for n in offsets
    ]
    return pa.RecordBatch.from_pylist(of, schema=VIEW_WITH_ISOLATION)


def piece(topic: str, partition: int, start: int, end: int, isolation: int = 0, **more: Any) -> Piece:
    return Piece(Reader(isolation, 1, topic, partition), Range(start, end, f"id of {topic}"), **more)


def position(of: Piece, offset: int, event: ReadEvent = ReadEvent.OK) -> pa.RecordBatch:
    told = [Position(of.reader, offset, 1, event, "", of.span.topic_id, 9, 9, 0, epoch=3)]
    return position_batch(told, with_isolation=True)


def recorded(
    storage: Path | str, monkeypatch: pytest.MonkeyPatch, pieces: list[Piece], batches: list[pa.RecordBatch]
) -> list[recording.Recorded]:
    """What a task writes of rows that it reads."""
    monkeypatch.setattr(reading, "read_pieces", lambda *_: iter(batches))
    create_tables(str(storage))
    return recording._write(replace(OPTIONS, with_isolation=True), str(storage), pieces)
