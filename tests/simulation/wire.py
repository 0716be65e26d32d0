"""A replica behind the wire: what it holds as bytes, answered as a broker answers a Fetch, and read by the product.

The product's own reader, decoder and outcomes make rows of it. They must be those that the model gives directly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from parallax.model import IsolationLevel, ReadEvent, RowKind, TopicPartition
from parallax.replica.client import FetchedPartition, FetchPosition
from parallax.replica.errors import BrokerTooOld, LogTruncated, OffsetOutOfRange
from parallax.replica.reader import Shown, Span, read_ranges
from parallax.source import reading
from parallax.source.options import ReplicaOptions
from parallax.source.planning import Piece
from tests.simulation.batches import encode
from tests.simulation.content import HASH_KEY, HASHER
from tests.simulation.replica import Replica

_COLUMNS = (
    "kind",
    "offset",
    "timestamp",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "key_hash_hi",
    "key_hash_lo",
    "content_hash",
    "key_size",
    "value_size",
)


@dataclass
class Broker:
    """Stands in for the client: answers each Fetch with what one replica of the model holds at this moment.

    Args:
        replica: the replica that is asked.
        draw: how much more than it must the broker says is drawn from here.
        salt: of the encoding.
    """

    replica: Replica
    draw: random.Random
    salt: int
    throttle_ms: int = 0

    def begin_fetch(
        self, _broker: int, positions: Sequence[FetchPosition], *, isolation: IsolationLevel, **_: Any
    ) -> Broker:
        """Take a request in; the answer is that of the moment in which it is waited for."""
        self._asked, self._isolation = positions[0], isolation
        return self

    def result(self, *_: Any) -> list[FetchedPartition]:
        """Answer the request."""
        replica, asked = self.replica, self._asked
        if asked.after_epoch >= 0 and (refused := self._checked(asked)) is not None:
            return [refused]
        committed = self._isolation is IsolationLevel.READ_COMMITTED
        bound = replica.lso if committed else replica.hw
        batches = [b for b in replica.batches if b.last >= asked.offset and b.base < bound]
        parts = [encode(b, self.salt) for b in batches]
        data = b"".join(parts)
        # The first batch comes whole, however large; the last may be truncated.
        size = max(asked.max_bytes, len(parts[0])) if parts else 0
        aborted = self._aborted(asked.offset, batches[-1].last + 1 if batches else bound) if committed else []
        return [
            FetchedPartition(
                asked.topic,
                asked.partition,
                high_watermark=replica.hw,
                last_stable_offset=replica.lso,
                log_start_offset=replica.log_start,
                aborted=np.array(aborted, np.int64).reshape(-1, 2),
                records=memoryview(data[:size]),
            )
        ]

    def _checked(self, asked: FetchPosition) -> FetchedPartition | None:
        """What the broker answers where its log may not hold what was read (``Partition.readRecords``, KIP-595)."""
        found = self.replica.epoch_end(asked.after_epoch)
        if found is None:
            return FetchedPartition(asked.topic, asked.partition, OffsetOutOfRange("no such epoch"))
        if found[0] == asked.after_epoch and found[1] >= asked.offset:
            return None
        replica = self.replica
        marks = replica.hw, replica.lso, replica.log_start
        return FetchedPartition(asked.topic, asked.partition, None, *marks, diverging=found)

    def _aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """The entries of the transaction index that overlap the range; the broker may take its end too high."""
        end = self.draw.choice((end, self.replica.leo))
        listed = [(a.producer_id, a.first) for a in self.replica.aborted if a.last >= start and a.first < end]
        self.draw.shuffle(listed)
        return listed

    def local_log_starts(self, _broker: int, _partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """It knows no tiered storage."""
        raise BrokerTooOld("a broker of the model")

    def cancel(self) -> None:
        """Nothing is under way."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of reading a range.

    Attributes:
        rows: of the view.
        position: where it ended.
        epoch: leader epoch of the last batch below; -1 where it is not known.
        cut: where reading goes on, where the log was found to be another one; None where it was not.
    """

    rows: list[dict[str, int]]
    position: int
    epoch: int
    cut: int | None = None


def read(
    broker: Broker, view: int, start: int, end: int, after_epoch: int = -1, *, may_be_another: bool = False
) -> Done:
    """Read ``[start, end)`` as the product does.

    Raises:
        ReplicaError: as the product's reader raises it.
    """
    span = Span("t", 0, start, end, after_epoch, may_be_another=may_be_another)
    size = broker.draw.choice((1, 200, 1_000, 1 << 20))
    events = read_ranges(
        broker,  # type: ignore[arg-type]
        broker.replica.id,
        [span],
        isolation=IsolationLevel(view),
        hasher=HASHER,
        max_bytes=size,
    )
    rows: list[dict[str, int]] = []
    cut, epoch, at = None, after_epoch, start
    for event in events:
        if isinstance(event, Shown):
            ((_, mark),) = event.marks
            epoch, at = (mark.epoch if mark.position > at else epoch), mark.position
            rows += _rows(event, view, broker.replica.id)
        elif isinstance(event.error, LogTruncated):
            cut = min(at, event.error.end)
        else:
            raise event.error
    return Done(rows, at, epoch, cut)


def read_pieces(broker: Broker, pieces: Sequence[Piece]) -> dict[int, Done]:
    """Read the pieces of both isolation levels of a log as a task does that shares its Fetches; by isolation level."""
    options = ReplicaOptions(
        kafka={},
        topics=("t",),
        pattern=None,
        brokers=None,
        with_isolation=True,
        hash_key=HASH_KEY,
        feedback="unused",
        fetch_bytes=broker.draw.choice((1024, 4096, 1 << 20)),
        shared=True,
    )
    with patch.object(reading, "_client", lambda *_: broker):
        rows = [row for batch in reading.read_pieces(options, pieces) for row in batch.to_pylist()]
    found: dict[int, Done] = {}
    for piece in pieces:
        mine = [row for row in rows if row["isolation"] == piece.reader.isolation]
        *shown, end = [row for row in mine if row["kind"] != RowKind.POSITION] + [mine[-1]]
        event = end["position"]["event"]
        assert event in (ReadEvent.OK, ReadEvent.LOG_TRUNCATED), end
        cut = end["offset"] if event == ReadEvent.LOG_TRUNCATED else None
        told = [_row(row, broker.replica.id) for row in shown]
        found[piece.reader.isolation] = Done(told, end["offset"], end["leader_epoch"], cut)
    return found


def _row(row: dict[str, Any], broker: int) -> dict[str, int]:
    told = {name: row[name] for name in ("outcome", *_COLUMNS)}
    told["timestamp"] = round(row["timestamp"].timestamp() * 1000)
    return {"view": row["isolation"], "broker": broker, **told}


def _rows(shown: Shown, view: int, broker: int) -> list[dict[str, int]]:
    columns = [getattr(shown.columns, name).tolist() for name in _COLUMNS]
    names = ("view", "broker", "outcome", *_COLUMNS)
    return [
        dict(zip(names, (view, broker, outcome, *values), strict=True))
        for outcome, *values in zip(shown.outcome.tolist(), *columns, strict=True)
    ]
