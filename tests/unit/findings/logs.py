"""Brokers that hold logs as bytes and answer what a prober asks: stands in for the client."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parallax.model import TopicPartition
from parallax.replica.errors import DeadlineExceeded
from parallax.replica.types import (
    FetchedPartition,
    FetchPosition,
    PartitionMetadata,
    TopicMetadata,
    Watermarks,
)
from tests.unit.replica.batches import Batch, Record

TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)


@dataclass
class Log:
    """The log of one replica: batches of one record, by offset."""

    batches: dict[int, bytes] = field(default_factory=dict)
    end: int = 0
    epoch: int = 0

    def put(self, offset: int, key: bytes, value: bytes | None) -> None:
        self.batches[offset] = Batch(offset, [Record(key, value)], epoch=self.epoch).encode()
        self.end = max(self.end, offset + 1)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """The first batch whole, and as much as there is room for."""
        offsets = sorted(self.batches)
        data = b""
        for at in offsets[bisect.bisect_left(offsets, offset) :]:
            if data and len(data) >= max_bytes:
                break
            data += self.batches[at]
        return data


@dataclass
class Fetch:
    answer: Callable[[], FetchedPartition]
    throttle_ms: int = 0

    def result(self, *_: Any) -> list[FetchedPartition]:
        return [self.answer()]

    def cancel(self) -> None:
        pass


@dataclass
class Brokers:
    """A client of some brokers, each with a log of the one partition.

    Attributes:
        hang: brokers that answer nothing in time.
        fetched: (broker, offset) of each Fetch.
        before: called before each Fetch.
    """

    logs: Mapping[int, Log]
    topic_id: str = "one"
    hang: set[int] = field(default_factory=set)
    fetched: list[tuple[int, int]] = field(default_factory=list)
    before: Callable[[int, int], None] = lambda *_: None

    def metadata(self, _topics: Sequence[str], **_: Any) -> dict[str, TopicMetadata]:
        ids = tuple(self.logs)
        place = PartitionMetadata(ids[0], 0, ids, ids)
        return {TOPIC: TopicMetadata(TOPIC, self.topic_id, {0: place})}

    def watermarks(self, broker: int, _places: Sequence[Any], **_: Any) -> dict[TopicPartition, Watermarks]:
        if broker in self.hang:
            raise DeadlineExceeded("no answer in time", broker=broker)
        end = self.logs[broker].end
        return {PLACE: Watermarks(end, end, 0, end)}

    def begin_fetch(self, broker: int, positions: Sequence[FetchPosition], **_: Any) -> Fetch:
        (asked,) = positions
        self.fetched.append((broker, asked.offset))
        self.before(broker, asked.offset)
        return Fetch(lambda: self._fetch(broker, asked))

    def fetch(self, broker: int, positions: Sequence[FetchPosition], **_: Any) -> list[FetchedPartition]:
        return self.begin_fetch(broker, positions).result()

    def _fetch(self, broker: int, asked: FetchPosition) -> FetchedPartition:
        log = self.logs[broker]
        marks = log.end, log.end, 0
        if asked.after_epoch >= 0 and asked.after_epoch != log.epoch:
            return FetchedPartition(*PLACE, None, *marks, diverging=(log.epoch, 0))
        records = memoryview(log.read(asked.offset, asked.max_bytes))
        return FetchedPartition(*PLACE, None, *marks, records=records)

    def end_offset_for_epoch(self, broker: int, _topic: str, _partition: int, epoch: int, **_: Any) -> Any:
        log = self.logs[broker]
        return (log.epoch, log.end) if epoch >= log.epoch else None
