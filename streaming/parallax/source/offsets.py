"""Spark's offset for ``kafka-replica``: from which to which offset each reader reads in a micro-batch.

It also holds the event that the micro-batch records of a reader, e.g. that its log was truncated. A *reader* is one
(isolation level, broker, topic, partition). Spark keeps its offset as JSON in its offset log. A micro-batch is planned
from that JSON alone, so if Spark runs the micro-batch again, it reads the same ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from parallax.model import IsolationLevel, ReadEvent, TopicPartition

VERSION = 1


class Reader(NamedTuple):
    """Names one reader: it reads one replica (a broker's copy of a partition) at one isolation level.

    Attributes:
        isolation: number of the `IsolationLevel`.
        broker: the broker's id.
        topic: the topic's name.
        partition: the partition's number.
    """

    isolation: int
    broker: int
    topic: str
    partition: int

    @property
    def place(self) -> TopicPartition:
        """The reader's topic and partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets that one reader reads in one micro-batch, and the event that the micro-batch records of the reader.

    Attributes:
        start: first offset to read.
        end: the offset after the last one to read; equal to ``start`` if there is nothing to read.
        topic_id: id of the topic that the offsets belong to.
        state: the reader's last event, e.g. ``ok``, or ``topic_deleted``, after which there is nothing to read.
        fresh: whether ``state`` is new. Then the micro-batch records it, in a row that says that the reader is at
            ``start``.
        detail: the state in words, for that row.
    """

    start: int
    end: int
    topic_id: str
    state: ReadEvent = ReadEvent.OK
    fresh: bool = False
    detail: str = ""

    @property
    def may_be_another(self) -> bool:
        """Whether another log may have replaced the one that was read, and nothing was read of it since."""
        return self.state is ReadEvent.LOG_TRUNCATED

    @property
    def empty(self) -> bool:
        """Whether the micro-batch has nothing to do for the reader: no offset to read, no event to record."""
        return self.start >= self.end and not self.fresh

    def settled(self) -> Range:
        """The reader's range once it has read this one: it is empty, and lies at this one's end."""
        return Range(self.end, self.end, self.topic_id, self.state)


Ranges = Mapping[Reader, Range]


def to_json(ranges: Ranges) -> dict[str, Any]:
    """Spark's offset as a JSON value, from the range of each reader; `from_json` reads it."""
    readers: dict[str, Any] = {}
    for reader in sorted(ranges):
        span = ranges[reader]
        brokers = readers.setdefault(IsolationLevel(reader.isolation).option, {})
        # Replicas may differ in the topic id that they were last read with, never one topic within one broker for long.
        name = f"{reader.topic}/{span.topic_id}"
        partitions = brokers.setdefault(str(reader.broker), {}).setdefault(name, {})
        row: list[Any] = [span.start, span.end]
        if span.state is not ReadEvent.OK or span.fresh:
            row += [span.state.value, span.fresh, span.detail]
        partitions[str(reader.partition)] = row
    return {"version": VERSION, "readers": readers}


def from_json(value: Mapping[str, Any]) -> dict[Reader, Range]:
    """The range of each reader, from Spark's offset as a JSON value.

    Raises:
        ValueError: another version of this source has written it.
    """
    if value.get("version") != VERSION:
        raise ValueError(
            f"the checkpoint's offset has version {value.get('version')}, this program writes {VERSION}; "
            "delete the checkpoint (positions are taken from the tables)"
        )
    return dict(_rows(value["readers"]))


def _rows(readers: Mapping[str, Any]) -> Iterator[tuple[Reader, Range]]:
    for level, brokers in readers.items():
        isolation = int(IsolationLevel[level.upper()])
        for broker, topics in brokers.items():
            for name, partitions in topics.items():
                topic, _, topic_id = name.partition("/")  # Kafka allows no slash in a topic's name
                for number, (start, end, *said) in partitions.items():
                    state, fresh, detail = said or (ReadEvent.OK, False, "")
                    reader = Reader(isolation, int(broker), topic, int(number))
                    yield reader, Range(start, end, topic_id, ReadEvent(state), fresh, detail)
