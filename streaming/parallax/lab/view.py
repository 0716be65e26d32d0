"""Reads all that one replica shows of a small partition, for scenarios that check what they have made.

kafka-python decodes the records here, and not ``parallax.replica``. So a fault in the job's own decoder cannot hide
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka.record import MemoryRecords

from parallax.model import IsolationLevel, Outcome, RowKind, TopicPartition
from parallax.replica.client import FetchedPartition, FetchPosition, ReplicaClient, watermarks_of

_MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class Record:
    """A record as one replica shows it, with the outcome that read_committed consumers of the replica get.

    ``key`` and ``value`` are text, as `key_text` makes it. ``key`` is empty if the record has none. ``value`` is None
    for a tombstone.
    """

    offset: int
    key: str
    value: str | None
    producer_id: int
    outcome: Outcome
    """UNDECIDED at and above the replica's last stable offset."""


@dataclass
class ReplicaView:
    """What one broker's replica of a topic's partition 0 shows, from log start to high watermark.

    Both watermarks are -1 until the replica was read.
    """

    broker: int
    topic: str
    high_watermark: int = -1
    last_stable_offset: int = -1
    records: dict[int, Record] = field(default_factory=dict)
    """The records by offset."""
    markers: dict[int, RowKind] = field(default_factory=dict)
    """COMMIT or ABORT by offset of the end marker; markers that the cleaner has emptied are left out."""
    aborted_from: set[int] = field(default_factory=set)
    """First offsets of the transactions that this replica lists as aborted."""

    @property
    def visible(self) -> dict[str, str]:
        """The latest value of each key for a read_committed consumer of this replica; deleted keys are left out."""
        latest: dict[str, str | None] = {}
        for record in self.records.values():
            if record.outcome in (Outcome.NONE, Outcome.COMMITTED) and record.offset < self.last_stable_offset:
                latest[record.key] = record.value
        return {key: value for key, value in latest.items() if value is not None}

    def holds(self, offset: int) -> bool:
        """Whether the replica has a record or an end marker at the offset."""
        return offset in self.records or offset in self.markers

    def __str__(self) -> str:
        records = [f"{r.offset}:{r.key}={r.value}({r.outcome.name.lower()})" for r in self._written()]
        marks = [f"{offset}:{kind.name}" for offset, kind in self.markers.items()]
        return (
            f"broker {self.broker} {self.topic}: high watermark {self.high_watermark}, "
            f"last stable offset {self.last_stable_offset}, aborted from {sorted(self.aborted_from)}, "
            f"records {' '.join(records) or 'none'}, markers {' '.join(marks) or 'none'}"
        )

    def _written(self) -> Iterator[Record]:
        return (record for record in self.records.values() if not record.key.startswith("filler-"))


def read_replica(client: ReplicaClient, broker: int, topic: str) -> ReplicaView:
    """Read all that one broker's replica of a topic's partition 0 shows.

    It is read as read_committed up to the replica's LSO, and as read_uncommitted above.

    Args:
        client: asks the broker.
        broker: id of the broker.
        topic: name of the topic.

    Raises:
        ReplicaError: the broker does not answer, or not for this partition.
    """
    view = ReplicaView(broker, topic)
    start = watermarks_of(client, broker, TopicPartition(topic, 0)).log_start_offset
    position = _read(client, view, start, IsolationLevel.READ_COMMITTED)
    # What is written meanwhile does not belong to the view: both watermarks stay those of the last committed answer.
    _read(client, view, position, IsolationLevel.READ_UNCOMMITTED)
    for seen in (view.records, view.markers):
        for offset in [offset for offset in seen if offset >= view.high_watermark]:
            del seen[offset]
    return view


def _read(client: ReplicaClient, view: ReplicaView, position: int, isolation: IsolationLevel) -> int:
    """Read on until nothing more comes; give the next offset."""
    while True:
        wanted = FetchPosition(view.topic, 0, position, _MAX_BYTES)
        (answer,) = client.fetch(view.broker, [wanted], isolation=isolation, max_bytes=_MAX_BYTES)
        if answer.error is not None:
            raise answer.error
        if isolation is IsolationLevel.READ_COMMITTED:
            view.last_stable_offset = answer.last_stable_offset
            view.high_watermark = answer.high_watermark
        following = _take(view, answer, position, isolation)
        if following == position:
            return position
        position = following


def _take(view: ReplicaView, answer: FetchedPartition, position: int, isolation: IsolationLevel) -> int:
    """Add one answer's batches to the view, deciding outcomes as Kafka's consumer does; give the next offset.

    A producer counts as aborted from the first offset of a listed transaction on, until its ABORT marker
    (org.apache.kafka.clients.consumer.internals.CompletedFetch).
    """
    listed = sorted((int(first), int(producer)) for producer, first in answer.aborted)
    view.aborted_from.update(first for first, _ in listed)
    aborting: set[int] = set()
    for batch in MemoryRecords(bytes(answer.records)):
        while listed and listed[0][0] <= batch.last_offset:
            aborting.add(listed.pop(0)[1])
        for record in batch:
            if record.offset < position:
                continue
            if batch.is_control_batch:
                view.markers[record.offset] = _marker(record, batch, aborting)
            else:
                view.records[record.offset] = _record(record, batch, isolation, aborting)
        position = max(position, batch.next_offset)
    return position


def _marker(record: Any, batch: Any, aborting: set[int]) -> RowKind:
    if not record.abort:
        return RowKind.COMMIT
    aborting.discard(batch.producer_id)
    return RowKind.ABORT


def key_text(data: bytes) -> str:
    """A key or value as text, as in `Record`; bytes that are not UTF-8 are escaped.

    Args:
        data: the bytes of the key or value.
    """
    return data.decode("utf-8", "backslashreplace")


def _record(record: Any, batch: Any, isolation: IsolationLevel, aborting: set[int]) -> Record:
    if not batch.is_transactional:
        outcome = Outcome.NONE
    elif isolation is IsolationLevel.READ_UNCOMMITTED:
        outcome = Outcome.UNDECIDED
    else:
        outcome = Outcome.ABORTED if batch.producer_id in aborting else Outcome.COMMITTED
    value = None if record.value is None else key_text(record.value)
    return Record(record.offset, key_text(record.key or b""), value, batch.producer_id, outcome)


__all__ = ["Record", "ReplicaView", "key_text", "read_replica"]
