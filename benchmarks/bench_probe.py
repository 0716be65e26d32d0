"""What a verdict on a key costs: seconds, and bytes read from each replica, for partitions of 1 GB and of 50 GB.

Three brokers have a replica each. Broker 2 has lost a tombstone; on the others it was cleaned, together with the value
that it deletes. The brokers are simulated: they make each answer when they are asked. So no disk has to hold 50 GB, and
no network delays an answer. Everything else is the product's: the prober with its default settings and its throttle,
the reader and decoder, the recorded table with a row for each record and replica, the decision.

Each row of the result is one of these:

- a suspect, where the views hold the offsets of its key
- the same claim when it is checked again as a finding
- a suspect of which the views hold nothing, so that it waits for scans (1 GB only, at ten times the default rate)
- the peer: the log of one replica, read whole and as fast as possible. A probe without recorded offsets has to do that
  for each of its four readings.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from rich.console import Console
from rich.table import Table

from parallax.config import FindingSettings
from parallax.findings.claim import Claim
from parallax.findings.decide import ClaimState, Decision, decide
from parallax.findings.history import RecordedHistory
from parallax.findings.probe import Prober
from parallax.model import FindingKind, Outcome, RowKind, Rule, TopicPartition
from parallax.replica.decode import ContentHasher, Payload, decode_slices
from parallax.replica.reader import read_range
from parallax.replica.types import FetchedPartition, FetchPosition, PartitionMetadata, TopicMetadata, Watermarks
from parallax.source.schema import VIEW

PLACE = TopicPartition("orders", 0)
BROKERS = (1, 2, 3)
HASHER = ContentHasher(bytes(16))
BATCH = 16
"""Records in a batch."""
UNREAD = 1000
"""Offsets at the end of the log that the views have not recorded yet."""
ROWS_PER_FILE = 1_000_000


def varint(value: int) -> bytes:
    """A number as Kafka's records hold it: a zigzag varint."""
    raw, out = (value << 1) ^ (value >> 63), bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(out) + bytes([raw])


def encoded(base: int, records: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """The bytes of a record batch of 16 offsets.

    Args:
        base: its first offset.
        records: offset, key and value of each record.
    """
    body = b""
    for offset, key, value in records:
        fields = b"\0" + varint(0) + varint(offset - base) + varint(len(key)) + key + varint(len(value)) + value + b"\0"
        body += varint(len(fields)) + fields
    covered = struct.pack(">hiqqqhii", 0, BATCH - 1, 0, 0, -1, -1, -1, len(records)) + body
    return struct.pack(">qiibI", base, 9 + len(covered), 0, 2, crc32c.crc32c(covered)) + covered


@dataclass(frozen=True)
class Shape:
    """A partition: its size, and by that the offsets of the key's value and of its tombstone.

    Attributes:
        gigabytes: size of the log, in GiB.
        value_bytes: size of each value.
    """

    gigabytes: int
    value_bytes: int

    @property
    def records(self) -> int:
        """How many records the log has, a multiple of a batch."""
        return (self.gigabytes << 30) // (self.value_bytes + 20) // BATCH * BATCH

    @property
    def value_at(self) -> int:
        """Offset of the value that the tombstone deletes."""
        return self.records // 5

    @property
    def tombstone_at(self) -> int:
        """Offset of the tombstone that broker 2 lost."""
        return self.records * 3 // 5


class Brokers:
    """Stands in for the client of three brokers, and makes their logs when it is asked.

    Args:
        shape: the partition.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        value = np.random.default_rng(1).bytes(shape.value_bytes)
        self._usual = encoded(0, [(i, b"another", value) for i in range(BATCH)])[8:]
        self._special = {}
        for at in (shape.value_at, shape.tombstone_at):
            base = at // BATCH * BATCH
            rest = [(o, b"another", value) for o in range(base, base + BATCH) if o != at]
            without = encoded(base, rest)
            stale = encoded(base, sorted([*rest, (at, b"key", value)])) if at == shape.value_at else without
            self._special[base] = {1: without, 2: stale, 3: without}

    def metadata(self, _topics: Sequence[str], **_: Any) -> dict[str, TopicMetadata]:
        """Metadata in which all three brokers have a replica of the partition."""
        place = PartitionMetadata(1, 0, BROKERS, BROKERS)
        return {PLACE.topic: TopicMetadata(PLACE.topic, "id", {0: place})}

    def watermarks(self, _broker: int, _places: Sequence[Any], **_: Any) -> dict[TopicPartition, Watermarks]:
        """The watermarks of a replica; they are the same on all brokers."""
        end = self.shape.records
        return {PLACE: Watermarks(end, end, 0, end)}

    def end_offset_for_epoch(self, *_: Any, **__: Any) -> tuple[int, int]:
        """The leader epoch 0, and the end of the log: all records have this epoch."""
        return 0, self.shape.records

    def begin_fetch(self, broker: int, positions: Sequence[FetchPosition], **_: Any) -> Answer:
        """A Fetch whose answer is made when it is waited for."""
        return Answer(lambda: self._fetch(broker, positions[0]))

    def _fetch(self, broker: int, asked: FetchPosition) -> FetchedPartition:
        data = bytearray()
        base = asked.offset // BATCH * BATCH
        while base < self.shape.records and (not data or len(data) < asked.max_bytes):
            special = self._special.get(base)
            data += special[broker] if special else base.to_bytes(8) + self._usual
            base += BATCH
        end = self.shape.records
        return FetchedPartition(*PLACE, None, end, end, 0, records=memoryview(data))


@dataclass(frozen=True)
class Answer:
    """A Fetch that was sent; its answer is made when it is waited for.

    Attributes:
        answer: makes the answer.
        throttle_ms: how long the broker asks to wait before the next request; 0.
    """

    answer: Callable[[], FetchedPartition]
    throttle_ms: int = 0

    def result(self, *_: Any) -> list[FetchedPartition]:
        """The answer to the Fetch."""
        return [self.answer()]

    def cancel(self) -> None:
        """Give the Fetch up; there is nothing to end."""


def hashed(key: bytes) -> tuple[int, int]:
    data = memoryview(encoded(0, [(0, key, b"")]))
    (columns,) = decode_slices(data, hasher=HASHER, payload=Payload.HASH, start=0, end=1)
    return int(columns.key_hash_hi[0]), int(columns.key_hash_lo[0])


KEY, NOWHERE = hashed(b"key"), hashed(b"nowhere")


def record_views(shape: Shape, storage: Path) -> None:
    """Write the view read_committed as the job would have left it: all records of all replicas, and positions.

    Args:
        shape: the partition.
        storage: folder of the tables.
    """
    draw = np.random.default_rng(2)
    end = shape.records - UNREAD
    for broker in BROKERS:
        positions = [(0, "partition_added"), (end, "ok")]
        _write(storage, broker, np.array([o for o, _ in positions]), draw, [event for _, event in positions])
        for first in range(0, end, ROWS_PER_FILE):
            _write(storage, broker, np.arange(first, min(first + ROWS_PER_FILE, end)), draw, None, shape)


def _write(
    storage: Path,
    broker: int,
    offsets: np.ndarray[Any, Any],
    draw: np.random.Generator,
    events: Sequence[str] | None,
    shape: Shape | None = None,
) -> None:
    n = len(offsets)
    high, low = (draw.integers(-(1 << 63), (1 << 63) - 1, n, np.int64) for _ in range(2))
    for at in () if shape is None else (shape.value_at, *((shape.tombstone_at,) if broker != 2 else ())):
        high[offsets == at], low[offsets == at] = KEY
    kind = RowKind.RECORD if events is None else RowKind.POSITION
    stamps = pa.array([datetime.now(UTC)] * n, pa.timestamp("us", "UTC"))
    known = pa.table(
        {
            "topic": pa.array([PLACE.topic] * n),
            "partition": pa.array(np.zeros(n, np.int32)),
            "broker": pa.array(np.full(n, broker, np.int32)),
            "kind": pa.array(np.full(n, int(kind), np.int8)),
            "offset": pa.array(offsets.astype(np.int64)),
            "timestamp": stamps,
            "outcome": pa.array(np.full(n, int(Outcome.NONE), np.int8)),
            "key_hash_hi": pa.array(high),
            "key_hash_lo": pa.array(low),
            "leader_epoch": pa.array(np.zeros(n, np.int32)),
            "position": pa.array([{"event": e} for e in (events or [None] * n)], VIEW.field("position").type),
        }
    )
    rows = pa.table([known[f.name] if f.name in known.column_names else pa.nulls(n, f.type) for f in VIEW], VIEW)
    write_deltalake(str(storage / "read_committed"), rows, mode="append", partition_by=["broker"])


def claim(shape: Shape, key: tuple[int, int]) -> Claim:
    kind = FindingKind.DELETED_RECORD_RESURRECTED
    at = shape.tombstone_at
    return Claim("s", Rule.LATEST_VALUE, kind, *PLACE, 2, at, key_hash_hi=key[0], key_hash_lo=key[1])


@dataclass(frozen=True)
class Measured:
    """One row of the result.

    Attributes:
        what: what was measured.
        seconds: how long it took.
        read: bytes that were read, by broker id.
        verdict: the verdict and the accused, in words; empty for the peer.
    """

    what: str
    seconds: float
    read: dict[int, int]
    verdict: str


def judged(prober: Prober, about: Claim, what: str, most: int | None = None) -> Measured:
    """Probe a claim until there is a verdict, and return how long that took and how much it read.

    Args:
        prober: asks the brokers.
        about: the claim.
        what: the name of the row.
        most: how many bytes it may read of all replicas; None: as many as it likes.

    Raises:
        AssertionError: it reads more: the offsets that were recorded are not used.
    """
    before, began = dict(prober.read_bytes), time.monotonic()
    while (decision := _once(prober, about)).verdict is ClaimState.PENDING:
        spent = sum(prober.read_bytes.values()) - sum(before.values())
        if most is not None and spent > most:
            raise AssertionError(f"{what}: {spent} bytes are read, more than {most}")
        time.sleep(0.2)
    took = time.monotonic() - began
    read = {broker: size - before.get(broker, 0) for broker, size in sorted(prober.read_bytes.items())}
    return Measured(what, took, read, f"{decision.verdict}, broker {decision.accused}")


def _once(prober: Prober, about: Claim) -> Decision:
    (answers,) = prober.probe([about])
    return decide(about, answers)


def whole(client: Any, shape: Shape) -> Measured:
    """The peer's row: one replica's log is read from its beginning to its end."""
    began, read = time.monotonic(), 0
    for chunk in read_range(client, 2, *PLACE, 0, shape.records, isolation=1, hasher=HASHER):  # type: ignore[arg-type]
        read += int(chunk.columns.value_size.sum()) + 20 * len(chunk.columns)
    return Measured("peer: one log read whole, unthrottled", time.monotonic() - began, {2: read}, "")


def measured(shape: Shape, storage: Path) -> Iterator[Measured]:
    """Yield the rows of the result for one partition.

    Args:
        shape: the partition.
        storage: folder of the tables, which are written first.
    """
    record_views(shape, storage)
    client: Any = Brokers(shape)
    history = RecordedHistory(str(storage))
    prober = Prober(client, HASHER, FindingSettings(), history=history, recorded=history)
    yield judged(prober, claim(shape, KEY), "suspect, offsets recorded", most=shape.gigabytes << 28)
    yield judged(prober, replace(claim(shape, KEY), confirmed_at_ms=1), "checked again")
    prober.close()
    if shape.gigabytes <= 1:
        settings = FindingSettings(max_bytes_per_second=100 << 20)
        prober = Prober(client, HASHER, settings, scans=str(storage / "scans"))
        yield judged(prober, claim(shape, KEY), "suspect, nothing recorded: scans, 100 MiB/s")
        yield judged(prober, claim(shape, KEY), "checked again")
        prober.close()
        yield whole(client, shape)


def main() -> None:
    """Measure both partitions, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1 GB only")
    options = parser.parse_args()
    table = Table(
        "partition", "what", "s", *(f"MiB of broker {b}" for b in BROKERS), "verdict", title="one claim on a key"
    )
    for shape in (Shape(1, 1024), Shape(50, 10240)) if not options.quick else (Shape(1, 1024),):
        with tempfile.TemporaryDirectory(prefix="parallax-bench-") as folder:
            name = f"{shape.gigabytes} GB, {shape.records / 1e6:.1f} M records"
            for row in measured(shape, Path(folder)):
                sizes = [f"{row.read.get(b, 0) / (1 << 20):.2f}" for b in BROKERS]
                table.add_row(name, row.what, f"{row.seconds:.2f}", *sizes, row.verdict)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
