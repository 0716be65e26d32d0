"""Views of replicas, recorded micro-batch by micro-batch as a job's Spark tasks write them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from parallax.model import CONTENT_VERSION, IsolationLevel, ReadEvent, TopicPartition
from parallax.source.columns import Position, position_batch
from parallax.source.offsets import Range, Reader
from parallax.source.planning import Piece
from parallax.source.schema import VIEW_WITH_ISOLATION
from parallax.views import recording
from parallax.views.appending import Appender

PLACE = TopicPartition("t", 0)
BROKERS = (1, 2, 3)

Change = Callable[[int, IsolationLevel, dict[str, Any]], dict[str, Any] | None]
"""Takes broker, level and a row, and returns what that replica shows instead; None for nothing."""

_numbers = itertools.count()


def row(offset: int, **more: Any) -> dict[str, Any]:
    same = {"topic": "t", "partition": 0, "kind": 0, "leader_epoch": 3, "producer_id": -1, "producer_epoch": -1}
    same |= {"outcome": 0, "key_size": 4, "value_size": 9, "content_version": CONTENT_VERSION}
    same |= {"timestamp": datetime(2026, 1, 1, tzinfo=UTC), "key_hash_hi": offset % 7, "key_hash_lo": 1}
    return {**same, "offset": offset, "content_hash": offset * 3, **more}


def read(
    storage: str,
    start: int,
    end: int,
    change: Change = lambda _, __, row: row,
    *,
    brokers: Collection[int] = BROKERS,
    place: TopicPartition = PLACE,
    event: ReadEvent = ReadEvent.OK,
) -> None:
    """A micro-batch in which each replica is read in a range of offsets. Each level gets its files."""
    number = next(_numbers)
    for level in IsolationLevel:
        files = []
        for broker in brokers:
            reader = Reader(int(level), broker, *place)
            file = recording._ViewFile(storage, int(level), broker, bytes(16))
            made = [
                change(broker, level, row(n, topic=place.topic, partition=place.partition)) for n in range(start, end)
            ]
            of = [{**one, "broker": broker, "isolation": int(level)} for one in made if one is not None]
            if of:
                file.take(pa.RecordBatch.from_pylist(of, schema=VIEW_WITH_ISOLATION))
            told = Position(reader, end, 1_000_000 + number, event, "", "id", end, end, 0, epoch=3)
            file.take(position_batch([told], with_isolation=True))
            files.append(file.close([Piece(reader, Range(start, end, "id"))]))
        Appender(storage, level.option).append_files(files, "test", number)
