"""Reads the answer to a Fetch of version 11 to 13 without copying the records.

kafka-python's decoder would copy them, which would take much of a reader's time. The layout is that of
FetchResponse.json of Kafka's clients. Version 12 is the first with compact lengths and tagged fields (KIP-482). Version
13 is the first that names topics by their ids (KIP-516).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parallax.replica import topic_ids

BY_ID = 13
"""The first version of Fetch in which topics go by id."""


def no_aborted() -> np.ndarray[Any, np.dtype[np.int64]]:
    """An empty list of aborted transactions: int64[0, 2] of producer id and first offset."""
    return np.empty((0, 2), np.int64)


@dataclass
class PartitionAnswer:
    """What a Fetch answer says of one partition, in the fields of Kafka's FetchResponse.

    Attributes:
        topic: the topic's name; empty if the answer names topics by id.
        partition: the partition's number.
        error_code: Kafka's error code; 0 for none.
        high_watermark, last_stable_offset, log_start_offset: the replica's own offsets, as the answer has them.
        aborted: the aborted transactions that the answer lists, int64[m, 2] of producer id and first offset.
        preferred_read_replica: id of the broker to which the consumer is redirected; -1 if it is not.
        records: the record batches, as they lie in the answer.
        topic_id: the topic's id; empty if the answer names topics by name.
    """

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=no_aborted)
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """(epoch, end offset), where the fetch position's epoch ends earlier in this log."""
    records: memoryview = field(default_factory=lambda: memoryview(b""))
    topic_id: str = ""


@dataclass(frozen=True)
class FetchAnswer:
    """The answer to a Fetch: its own fields, and one `PartitionAnswer` for each partition."""

    throttle_time_ms: int
    error_code: int
    partitions: list[PartitionAnswer]


def parse(body: memoryview, version: int) -> FetchAnswer:
    """Read the answer to a Fetch; its ``records`` are views of ``body``, not copies.

    Args:
        body: the answer's bytes.
        version: the version of the Fetch.

    Raises:
        ValueError: the answer is truncated, or its lengths make no sense.
        struct.error: the answer is truncated.
    """
    cursor = Cursor(body, flexible=version >= 12)
    throttle, error_code, _session = cursor.take(">ihi")
    partitions = []
    for _ in range(cursor.count()):
        name, topic_id = cursor.topic(version)
        partitions += [partition_answer(cursor, name, topic_id) for _ in range(cursor.count())]
        cursor.tags()
    cursor.tags()
    return FetchAnswer(throttle, error_code, partitions)


def partition_answer(cursor: Cursor, topic: str, topic_id: str = "") -> PartitionAnswer:
    """Read the part of an answer that is about one partition of a topic.

    Args:
        cursor: where that part begins; it moves past the part.
        topic: the topic's name; empty if the answer names topics by id.
        topic_id: the topic's id; empty if the answer names topics by name.

    Raises:
        ValueError: the answer is truncated, or its lengths make no sense.
        struct.error: the answer is truncated.
    """
    answer = PartitionAnswer(topic, *cursor.take(">ihqqq"))
    answer.topic_id = topic_id
    listed = cursor.count()
    if cursor.flexible:
        pairs = []
        for _ in range(listed):
            pairs.append(cursor.take(">qq"))
            cursor.tags()
        answer.aborted = np.array(pairs, np.int64).reshape(-1, 2)
    else:
        answer.aborted = np.frombuffer(cursor.bytes(16 * listed), ">i8").astype(np.int64).reshape(-1, 2)
    (answer.preferred_read_replica,) = cursor.take(">i")
    answer.records = cursor.bytes(cursor.count())
    diverging = cursor.tags().get(0)
    if diverging is not None:
        epoch, end_offset = struct.unpack_from(">iq", diverging)
        answer.diverging_epoch = (epoch, end_offset)
    return answer


class Cursor:
    """Reads forward through the bytes of an answer, never beyond their end.

    Args:
        body: the answer's bytes.
        flexible: whether lengths are compact, and tagged fields follow (KIP-482).
    """

    def __init__(self, body: memoryview, *, flexible: bool) -> None:
        self._body = body
        self._at = 0
        self.flexible = flexible

    def take(self, layout: str) -> tuple[Any, ...]:
        """Read the next values, as a tuple; ``layout`` is a format string of ``struct``."""
        values = struct.unpack_from(layout, self._body, self._at)
        self._at += struct.calcsize(layout)
        return values

    def peek(self, layout: np.dtype[Any], count: int) -> np.ndarray[Any, Any] | None:
        """The next ``count`` items of one type, without moving forward; None if too few bytes are left."""
        size = layout.itemsize * count
        return np.frombuffer(self._body, layout, count, self._at) if size <= len(self._body) - self._at else None

    def bytes(self, size: int) -> memoryview:
        """Read the next ``size`` bytes, as a view and not a copy.

        Raises:
            ValueError: fewer bytes are left.
        """
        if size > len(self._body) - self._at:
            raise ValueError("a length runs beyond the answer's end")
        self._at += size
        return self._body[self._at - size : self._at]

    def count(self) -> int:
        """Read the next length or number of items; 0 for null."""
        if self.flexible:
            return max(self._varint() - 1, 0)
        (count,) = self.take(">i")
        return max(int(count), 0)

    def string(self) -> str:
        """Read the next text; empty for null."""
        size = self.count() if self.flexible else max(self.take(">h")[0], 0)
        return str(self.bytes(size), "utf-8")

    def topic(self, version: int) -> tuple[str, str]:
        """Read the next topic as (name, id); one of them is empty.

        Args:
            version: the version of the Fetch. Up to 12 the id is empty, from 13 on the name.
        """
        return ("", topic_ids.text(bytes(self.bytes(topic_ids.SIZE)))) if version >= BY_ID else (self.string(), "")

    def tags(self) -> dict[int, memoryview]:
        """Read the tagged fields that follow, by their tag; none before version 12."""
        if not self.flexible:
            return {}
        found = {}
        for _ in range(self._varint()):
            tag = self._varint()
            found[tag] = self.bytes(self._varint())
        return found

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(">B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("a length is longer than five bytes")
