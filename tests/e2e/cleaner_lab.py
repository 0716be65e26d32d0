"""Many generated logs on one broker whose cleaner runs when the test says so, and all that the broker reports of them.

A held cleaner (``log.cleaner.min.cleanable.ratio`` 1, which no log exceeds) makes no pass. Let go, it makes exactly one
over every log that has a closed dirty segment, since after that pass nothing is dirty any more. Which segments are
closed is decided by the records' own timestamps: a segment rolls by these (LogSegment.shouldRoll), not by the clock.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.record import MemoryRecords

from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.traffic import TransactionalProducer, transactional_producers
from parallax.lab.waiting import until
from parallax.model import IsolationLevel
from parallax.replica.client import FetchPosition, ReplicaClient
from tests.simulation.records import Aborted, Batch, End, Record

BROKER = 1
HOUR = 3_600_000
SEGMENT_MS = HOUR
NEVER_MS = 2**31 - 1
FILLER = 99
SETTINGS = {
    "log.cleaner.min.cleanable.ratio": "1.0",
    "producer.id.expiration.ms": str(NEVER_MS),
    "log.cleaner.backoff.ms": "100",
    "file.delete.delay.ms": "0",
    "num.io.threads": "4",
    # Hundreds of segments: their preallocated indexes cost more time than their records.
    "log.index.size.max.bytes": "65536",
}
_SECONDS = 180.0
_BYTES = 4 << 20
_HORIZON = 0x40


def now_ms() -> int:
    """The clock that the broker has, too."""
    return int(time.time() * 1000)


# -- writing -----------------------------------------------------------------------------------------------------------


class Writer(Protocol):
    """Writes batches to many logs."""

    def write(self, topic: str, records: Sequence[tuple[int, int | None]], timestamp: int) -> None:
        """Hand in (key, value) records of one timestamp; they are one batch where the client can do that."""

    def flush(self) -> None:
        """Wait until everything that was handed in is in the logs."""


class ConfluentWriter:
    """confluent-kafka: plain, idempotent, or with transactions as before KIP-890."""

    def __init__(self, servers: str, transactional_id: str = "", **more: str) -> None:
        if transactional_id:
            more |= {"transactional.id": transactional_id, "transaction.timeout.ms": "900000"}
        self._producer = ConfluentProducer(client_settings(servers, **{"linger.ms": 500, **more}))
        if transactional_id:
            self._producer.init_transactions(_SECONDS)
        self._failures: list[str] = []

    def write(self, topic: str, records: Sequence[tuple[int, int | None]], timestamp: int) -> None:
        """Queue the records for one batch."""
        for key, value in records:
            self._producer.produce(
                topic, _value(value), str(key).encode(), 0, timestamp=timestamp, on_delivery=self._delivered
            )

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def flush(self) -> None:
        """Send what is queued; fails where a record was not written."""
        left = self._producer.flush(_SECONDS)
        assert not left, f"{left} records were not acknowledged"
        assert not self._failures, self._failures

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()

    def end(self, end: End) -> None:
        """End it."""
        if end is End.COMMIT:
            self._producer.commit_transaction(_SECONDS)
        else:
            self._producer.abort_transaction(_SECONDS)


class JavaWriter:
    """Kafka's own client: transactions of version 2, each record a batch of its own, at the time of the clock."""

    def __init__(self, producer: TransactionalProducer) -> None:
        self._producer = producer

    def write(self, topic: str, records: Sequence[tuple[int, int | None]], timestamp: int) -> None:
        """Write the records one by one."""
        for key, value in records:
            self._producer.send(topic, str(key), None if value is None else str(value))

    def flush(self) -> None:
        """Nothing is ever waiting."""

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin()

    def end(self, end: End) -> None:
        """End it."""
        (self._producer.commit if end is End.COMMIT else self._producer.abort)()


def _value(value: int | None) -> bytes | None:
    return None if value is None else str(value).encode()


@dataclass
class Script:
    """Writes the generated logs, all of them step by step together: transactions span logs, what is in them differs.

    Attributes:
        topics: one log each.
        plain: writers without transactions, by name.
        transactional: writers with transactions, by name.
    """

    topics: Sequence[str]
    rng: random.Random
    plain: Mapping[str, Writer]
    transactional: Mapping[str, ConfluentWriter | JavaWriter]
    time: dict[str, int] = field(init=False)
    open: dict[str, set[str]] = field(default_factory=dict)
    """Writers with an open transaction, and the logs that have data of it."""

    def __post_init__(self) -> None:
        # A log that begins in the past rolls at the first marker, which bears the time of the clock.
        self.time = {t: now_ms() - self.rng.choice([0, 40 * HOUR]) for t in self.topics}

    def step(self) -> None:
        """Begin transactions, write to every log what chance says, end transactions."""
        for name, writer in self.transactional.items():
            if name not in self.open and self.rng.random() < 0.6:
                writer.begin()
                self.open[name] = set()
        writers: dict[str, Writer] = {**self.plain, **{n: self.transactional[n] for n in self.open}}
        for name in self.rng.sample(sorted(writers), len(writers)):
            is_java = isinstance(writers[name], JavaWriter)
            for topic in self.topics:
                if self.rng.random() < (0.1 if is_java else 0.25):
                    self._write(name, writers[name], topic)
            writers[name].flush()
        for name in self.rng.sample(sorted(self.open), len(self.open)):
            if self.rng.random() < 0.4:
                self.end(name, self.rng.choice([End.ABORT, End.COMMIT]))

    def _write(self, name: str, writer: Writer, topic: str) -> None:
        if self.rng.random() < 0.2:
            self.time[topic] += 2 * HOUR
        tombstones = self.rng.choice([0.1, 0.5])
        records = [
            (self.rng.randrange(5), None if self.rng.random() < tombstones else self.rng.randrange(1000))
            for _ in range(self.rng.choice([1, 1, 2, 3]))
        ]
        writer.write(topic, records, self.time[topic])
        if name in self.open:
            self.open[name].add(topic)

    def end(self, name: str, end: End) -> None:
        """End an open transaction in all its logs."""
        self.transactional[name].end(end)
        del self.open[name]

    def roll(self) -> None:
        """Close the segment of every log with a filler record in the next one."""
        for topic in self.topics:
            self.time[topic] = max(self.time[topic], now_ms()) + 2 * HOUR
            self.plain["plain"].write(topic, [(FILLER, 0)], self.time[topic])
        self.plain["plain"].flush()


@contextmanager
def scripted(cluster: Cluster, topics: Sequence[str], rng: random.Random) -> Iterator[Script]:
    """A script with a plain writer, an idempotent one, and transactional ones of both protocols."""
    servers = cluster.bootstrap_servers
    plain = {
        "plain": ConfluentWriter(servers),
        "idempotent": ConfluentWriter(servers, **{"enable.idempotence": "true", "compression.type": "gzip"}),
    }
    legacy = {f"legacy-{i}": ConfluentWriter(servers, f"legacy-{i}") for i in range(4)}
    with transactional_producers(cluster, "java", [f"java-{i}" for i in range(3)]) as java:
        yield Script(topics, rng, plain, {**legacy, **{i: JavaWriter(p) for i, p in java.items()}})


# -- the broker --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Producer:
    """What DescribeProducers tells of a producer."""

    epoch: int
    timestamp: int
    first: int | None


@dataclass
class Log:
    """Everything that the broker tells of one log."""

    batches: list[Batch]
    high_watermark: int
    last_stable_offset: int
    producers: dict[int, Producer]
    segments: list[int]
    aborted: list[Aborted]
    cleaned_to: int

    @property
    def closed_to(self) -> int:
        """Where the cleaner stops: at the segment of the last stable offset, or at the active one."""
        bound = min(self.last_stable_offset, self.segments[-1])
        return max(s for s in self.segments if s <= bound)


class CleaningBroker:
    """The single broker of a cluster that was made with `SETTINGS`."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._topics = topics
        self._data = cluster.brokers[BROKER].folder / "data"
        self._client = ReplicaClient({"bootstrap.servers": cluster.bootstrap_servers}, timeout_ms=20_000)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def configure(self, settings: Mapping[str, str], topics: Iterable[str] = ()) -> None:
        """Alter the broker's settings, or those of topics, and wait until the broker says that it has them."""
        names = list(topics)
        kind = ConfigResource.Type.TOPIC if names else ConfigResource.Type.BROKER
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
        wanted = [ConfigResource(kind, n, incremental_configs=entries) for n in names or [str(BROKER)]]
        for altered in self._cluster.admin.incremental_alter_configs(wanted, request_timeout=_SECONDS).values():
            altered.result(_SECONDS)

        def applied() -> bool:
            asked = self._cluster.admin.describe_configs(
                [ConfigResource(kind, r.name) for r in wanted], request_timeout=_SECONDS
            )
            described = [future.result(_SECONDS) for future in asked.values()]
            return all(t[name].value == value for t in described for name, value in settings.items())

        until(applied, f"the broker to take over {settings}")

    def await_markers(self, open_writers: Mapping[str, set[str]]) -> None:
        """Wait until each log has exactly the open transactions that its writers have."""
        wanted = {t: sum(t in logs for logs in open_writers.values()) for t in self._topics}

        def arrived() -> bool:
            seen = self._producers()
            return all(sum(p.first is not None for p in seen[t].values()) == n for t, n in wanted.items())

        until(arrived, "the end markers")

    def await_expiry(self) -> int:
        """Wait until no idle producer is remembered that wrote before now, and give that time."""
        deadline = now_ms() + 1

        def forgotten() -> bool:
            seen = self._producers().values()
            return not any(p.first is None and p.timestamp < deadline for log in seen for p in log.values())

        until(forgotten, "the producers' expiry")
        return deadline

    def clean(self, logs: Mapping[str, Log]) -> tuple[int, int]:
        """Let the cleaner go until it has made its pass over every log, and hold it again.

        Args:
            logs: as they are now.

        Returns:
            The times between which the passes were made, in ms.
        """
        before = self.cleaned_to()
        closed = {topic: log.closed_to for topic, log in logs.items()}
        expected = {topic: end for topic, end in closed.items() if end > before.get(topic, 0)}
        started = now_ms()
        self.configure({"log.cleaner.min.cleanable.ratio": "0.0"})
        until(lambda: self.cleaned_to().items() >= expected.items(), "one pass of the cleaner over every log")
        self.configure({"log.cleaner.min.cleanable.ratio": "1.0"})
        return started, now_ms()

    def cleaned_to(self) -> dict[str, int]:
        """The first dirty offset of each log that has been cleaned."""
        file = self._data / "cleaner-offset-checkpoint"
        rows = [line.split() for line in file.read_text().splitlines()[2:]] if file.exists() else []
        return {topic: int(offset) for topic, _, offset in rows if topic in self._topics}

    def logs(self) -> dict[str, Log]:
        """Read everything, by topic."""
        producers, cleaned = self._producers(), self.cleaned_to()
        batches: dict[str, list[Batch]] = {t: [] for t in self._topics}
        watermarks = dict.fromkeys(self._topics, (0, 0))
        positions = dict.fromkeys(self._topics, 0)
        while positions:
            wanted = [FetchPosition(t, 0, offset, _BYTES) for t, offset in positions.items()]
            answers = self._client.fetch(
                BROKER, wanted, isolation=IsolationLevel.READ_UNCOMMITTED, max_bytes=8 * _BYTES, timeout_ms=20_000
            )
            for answer in answers:
                assert answer.error is None, answer.error
                watermarks[answer.topic] = answer.high_watermark, answer.last_stable_offset
                batches[answer.topic] += _batches(bytes(answer.records))
                positions[answer.topic] = batches[answer.topic][-1].last + 1 if batches[answer.topic] else 0
            positions = {t: offset for t, offset in positions.items() if offset < watermarks[t][0]}
        return {
            t: Log(batches[t], *watermarks[t], producers[t], *self._on_disk(t), cleaned.get(t, 0)) for t in self._topics
        }

    def _producers(self) -> dict[str, dict[int, Producer]]:
        answers = self._client.describe_producers(BROKER, [(t, 0) for t in self._topics], timeout_ms=20_000)
        producers: dict[str, dict[int, Producer]] = {}
        for (topic, _), answer in answers.items():
            assert isinstance(answer, list), answer
            producers[topic] = {
                p.producer_id: Producer(
                    p.producer_epoch,
                    p.last_timestamp,
                    None if p.current_transaction_start_offset < 0 else p.current_transaction_start_offset,
                )
                for p in answer
            }
        return producers

    def _on_disk(self, topic: str) -> tuple[list[int], list[Aborted]]:
        """First offsets of the segments, and the entries of their transaction indexes (AbortedTxn, version 0)."""
        folder: Path = self._data / f"{topic}-0"
        segments = sorted(int(file.stem) for file in folder.glob("*.log"))
        aborted = []
        for base in segments:
            index = folder / f"{base:020}.txnindex"
            entries = struct.iter_unpack(">hqqqq", index.read_bytes()) if index.exists() else ()
            aborted += [Aborted(producer, first, last) for _, producer, first, last, _ in entries]
        return segments, aborted


def _batches(records: bytes) -> Iterator[Batch]:
    """The batches of a Fetch response in the model's words; decoded by kafka-python."""
    for batch in MemoryRecords(records):
        rows = list(batch)
        yield Batch(
            base=batch.base_offset,
            last=batch.last_offset,
            timestamp=batch.max_timestamp,
            leader_epoch=batch.leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            transactional=batch.is_transactional,
            control=batch.is_control_batch,
            marker=(End.ABORT if rows[0].abort else End.COMMIT) if batch.is_control_batch and rows else None,
            records=() if batch.is_control_batch else tuple(Record(r.offset, int(r.key), _int(r.value)) for r in rows),
            horizon=batch.first_timestamp if batch.attributes & _HORIZON else None,
        )


def _int(value: bytes | None) -> int | None:
    return None if value is None else int(value)
