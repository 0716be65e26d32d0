"""What writes during a soak: plain producers of every codec, and transactions of both protocols that end as they like.

Each writer is a thread with random numbers of its own. What it could not write because brokers were away is counted
and written off: the run is about what the brokers hold, not about delivery.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaException, Producer

from parallax.jars import kafka_jars
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.errors import LabError
from parallax.lab.traffic import JavaProducers, JavaTransactionalProducer
from tests.soak import brokers
from tests.soak.load import Tally, Worker
from tests.soak.plan import (
    BUSY,
    CODECS,
    IDLE,
    JAVA_PRODUCERS,
    LEGACY_PRODUCERS,
    PATTERN,
    PLAIN_RATE,
    TOPICS,
    TRANSACTION_TIMEOUT_S,
    Plan,
    Topic,
)

_BIG_BYTES = 200_000
_KEYS = 60
_NEW_KEYS_PER_S = 1.0
_FATES = {"commit": "committed", "abort": "aborted", "vanish": "left to time out", "fence": "fenced"}


@dataclass(frozen=True)
class Draft:
    """A record to be written."""

    topic: str
    partition: int
    key: str | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it counts as."""
        named = {
            "null key": self.key is None,
            "tombstone": self.value is None,
            "big record": self.value is not None and len(self.value) >= _BIG_BYTES,
            "record with headers": bool(self.headers),
        }
        return tuple(name for name, holds in named.items() if holds)


class Drafts:
    """Draws records. Keys come and go: a window of them moves on, and what falls behind it is deleted or left."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._started = time.monotonic()

    def draw(self) -> Draft:
        random = self._random
        topic = random.choice(BUSY)
        return self.draw_for(topic, random.randrange(topic.partitions))

    def draw_for(self, topic: Topic, partition: int) -> Draft:
        random = self._random
        oldest = int((time.monotonic() - self._started) * _NEW_KEYS_PER_S)
        key: str | None = f"key-{oldest + random.randrange(_KEYS)}"
        value: bytes | None = random.randbytes(random.randint(10, 300))
        if topic.null_keys and random.random() < 0.3:
            key = None
        elif random.random() < 0.2:
            key, value = f"key-{max(0, oldest + random.randrange(-_KEYS // 2, _KEYS))}", None
        elif random.random() < 0.002:
            value = random.randbytes(_BIG_BYTES) + bytes(_BIG_BYTES)
        headers = [(f"header-{i}", random.randbytes(8)) for i in range(random.randint(1, 3))]
        return Draft(topic.name, partition, key, value, headers if random.random() < 0.2 else ())


class Writer(Worker):
    """A thread that writes until ``stopping`` is set."""

    def written(self, draft: Draft, kind: str) -> None:
        """Count a record that the brokers have acknowledged."""
        self.tally.add(f"records, {kind}")
        for name in draft.kinds:
            self.tally.add(f"of these: {name}")


def _on_delivery(writer: Writer, draft: Draft, kind: str) -> Any:
    def count(error: Any, _: Any) -> None:
        if error is None:
            writer.written(draft, kind)
        else:
            writer.tally.add("records not acknowledged")

    return count


def _produce(producer: Any, draft: Draft, on_delivery: Any) -> None:
    key = None if draft.key is None else draft.key.encode()
    while True:
        try:
            producer.produce(
                draft.topic,
                draft.value,
                key,
                partition=draft.partition,
                headers=list(draft.headers),
                on_delivery=on_delivery,
            )
        except BufferError:
            producer.poll(0.5)
            continue
        producer.poll(0)
        return


class PlainWriter(Writer):
    """A producer outside of transactions, with one codec; every other one is idempotent."""

    def __init__(self, number: int, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        self._codec = CODECS[number]
        super().__init__(f"plain {self._codec}", plan, tally)
        self._settings = client_settings(
            cluster.bootstrap_servers,
            **{
                "acks": "all",
                "linger.ms": 500,
                "compression.type": self._codec,
                "enable.idempotence": number % 2 == 1,
                "delivery.timeout.ms": 60_000,
            },
        )

    def work(self) -> None:
        producer = Producer(self._settings)
        drafts = Drafts(self.random)
        for partition in range(IDLE.partitions):
            draft = drafts.draw_for(IDLE, partition)
            _produce(producer, draft, _on_delivery(self, draft, "plain"))
        while not self.stopping.wait(self.random.expovariate(PLAIN_RATE)):
            draft = drafts.draw()
            try:
                _produce(producer, draft, _on_delivery(self, draft, "plain"))
            except KafkaException:  # an idempotent producer that cannot go on
                self.tally.add("plain producers replaced")
                producer = Producer(self._settings)
        producer.flush(60)


class LegacyWriter(Writer):
    """Transactions by librdkafka, which ends them as before KIP-890."""

    def __init__(self, number: int, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        super().__init__(f"legacy {number}", plan, tally)
        self._cluster = cluster
        self._generation = 0
        self._codec = CODECS[number % len(CODECS)]
        self._producer: Any = None

    def _open(self, *, fresh_id: bool) -> None:
        """Open a producer under a new id, or under the present one, which fences the present producer."""
        self._generation += fresh_id
        producer = Producer(
            client_settings(
                self._cluster.bootstrap_servers,
                **{
                    "transactional.id": f"soak-{self.name}-{self._generation}",
                    "transaction.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
                    "delivery.timeout.ms": int(TRANSACTION_TIMEOUT_S * 1000),
                    "linger.ms": 100,
                    "compression.type": self._codec,
                },
            )
        )
        producer.init_transactions(30)
        self._producer = producer

    def work(self) -> None:
        drafts = Drafts(self.random)
        while not self.stopping.is_set():
            try:
                if self._producer is None:
                    self._open(fresh_id=False)
                self._transaction(drafts)
            except KafkaException as error:
                self._give_up(error)
            self.stopping.wait(self.random.uniform(0.05, 0.6))

    def _give_up(self, error: KafkaException) -> None:
        """End a transaction that failed: by ABORT where the error allows it, else by a new producer of the same id."""
        self.tally.add("transactions that failed, legacy")
        try:
            if self._producer is not None and error.args[0].txn_requires_abort():
                self._producer.abort_transaction(30)
                return
        except KafkaException:
            pass
        self._producer = None

    def _transaction(self, drafts: Drafts) -> None:
        random = self.random
        self._producer.begin_transaction()
        for _ in range(random.randint(1, 15)):
            draft = drafts.draw()
            _produce(self._producer, draft, _on_delivery(self, draft, "legacy transactions"))
            time.sleep(random.uniform(0, 0.06))
        self._producer.flush(30)
        fate = random.choices(("commit", "abort", "vanish", "fence"), (60, 30, 4, 4))[0]
        if random.random() < 0.1:
            self.tally.add("transactions held open for seconds")
            self.stopping.wait(random.uniform(3, 12))
        self._end(fate)

    def _end(self, fate: str) -> None:
        if fate == "commit":
            self._producer.commit_transaction(30)
        elif fate == "abort":
            self._producer.abort_transaction(30)
        else:
            self._open(fresh_id=fate == "vanish")  # under a new id nobody ends the transaction but its timeout
        self.tally.add(f"transactions {_FATES[fate]}, legacy")


class JavaWriter(Writer):
    """Transactions by Kafka's own client with transaction.version 2, interleaved, in one JVM that is killed once."""

    def __init__(self, cluster: Cluster, plan: Plan, tally: Tally) -> None:
        super().__init__("java", plan, tally)
        self._cluster = cluster
        self._crash_at = time.monotonic() + plan.java_crash_s
        self._generation = 0

    def work(self) -> None:
        jvm = self._start()
        try:
            producers = self._producers(jvm)
            while not self.stopping.wait(self.random.uniform(0.01, 0.08)):
                if self._generation == 1 and time.monotonic() > self._crash_at:
                    self.tally.add(f"transactions {_FATES['vanish']}, java", sum(p.is_open for p in producers))
                    jvm.close()
                    jvm = self._start()
                    producers = self._producers(jvm)
                self.random.choice(producers).step()
            for producer in producers:
                producer.finish()
        finally:
            jvm.close()

    def _start(self) -> JavaProducers:
        self._generation += 1
        log = self._cluster.folder / "soak-java-producers.log"
        jvm = JavaProducers(self._cluster.bootstrap_servers, kafka_jars(self._cluster.version), Path(log))
        jvm.wait_ready()
        return jvm

    def _producers(self, jvm: JavaProducers) -> list[_JavaProducer]:
        return [_JavaProducer(self, jvm, f"soak-java-{self._generation}-{i}") for i in range(JAVA_PRODUCERS)]


class _JavaProducer:
    """One of the JVM's producers: each step does one thing, so that the transactions of several lie over each other."""

    def __init__(self, writer: JavaWriter, jvm: JavaProducers, transactional_id: str) -> None:
        self._writer = writer
        self._jvm = jvm
        self._id = transactional_id
        self._producer: JavaTransactionalProducer | None = None
        self._drafts = Drafts(writer.random)
        self._left = 0
        self._not_before = 0.0
        self.is_open = False

    def step(self) -> None:
        try:
            self._step()
        except LabError:
            self._writer.tally.add("transactions that failed, java")
            self.is_open = False
            self._producer = None

    def _step(self) -> None:
        if self._producer is None:
            self._reopen()
        elif not self.is_open:
            self._producer.begin()
            self.is_open = True
            self._left = self._writer.random.randint(1, 10)
            if self._writer.random.random() < 0.1:
                self._writer.tally.add("transactions held open for seconds")
                self._not_before = time.monotonic() + self._writer.random.uniform(3, 12)
        elif self._left:
            self._send(self._producer)
        elif time.monotonic() >= self._not_before:
            self._end(self._producer)

    def _reopen(self) -> None:
        self._producer = JavaTransactionalProducer(self._jvm, self._id, int(TRANSACTION_TIMEOUT_S * 1000))

    def _send(self, producer: JavaTransactionalProducer) -> None:
        draft = self._drafts.draw()
        key = draft.key or "without"
        text = None if draft.value is None else draft.value.hex()
        producer.send(draft.topic, key, text)
        self._left -= 1
        sent = Draft(draft.topic, -1, key, None if text is None else text.encode())
        self._writer.written(sent, "version 2 transactions")

    def _end(self, producer: JavaTransactionalProducer) -> None:
        fate = self._writer.random.choices(("commit", "abort", "fence"), (60, 30, 5))[0]
        if fate == "commit":
            producer.commit()
        elif fate == "abort":
            producer.abort()
        else:
            self._reopen()
        self.is_open = False
        self._writer.tally.add(f"transactions {_FATES[fate]}, java")

    def finish(self) -> None:
        """Abort what is open."""
        if self.is_open and self._producer is not None:
            try:
                self._producer.abort()
            except LabError:
                self._writer.tally.add(f"transactions {_FATES['vanish']}, java")


class Traffic:
    """All writers together: see ``tests.soak.load.Load``."""

    watched: Mapping[str, Any] = {"pattern": PATTERN}
    work: Mapping[str, tuple[str, ...]] = {}

    def __init__(self, cluster: Cluster, plan: Plan) -> None:
        self.tally = Tally()
        self._cluster = cluster
        self._plan = plan
        self._writers: list[Writer] = [PlainWriter(i, cluster, plan, self.tally) for i in range(len(CODECS))]
        self._writers += [LegacyWriter(i, cluster, plan, self.tally) for i in range(LEGACY_PRODUCERS)]
        self._writers.append(JavaWriter(cluster, plan, self.tally))

    def create(self) -> None:
        brokers.create_topics(self._cluster, TOPICS, self._plan.delete_retention_s)

    def topics(self) -> tuple[Topic, ...]:
        return TOPICS

    def start(self) -> None:
        for writer in self._writers:
            writer.start()

    def check(self) -> None:
        """Raise what ended a writer, if one has ended."""
        for writer in self._writers:
            if writer.failure is not None:
                raise LabError(f"writer {writer.name} failed: {writer.failure!r}") from writer.failure

    def stop(self) -> dict[str, bool]:
        """Let the writers end what they are at; transactions they cannot end are left to their timeout."""
        for writer in self._writers:
            writer.stopping.set()
        deadline = time.monotonic() + 150
        for writer in self._writers:
            writer.join(max(0.1, deadline - time.monotonic()))
            if writer.is_alive():
                raise LabError(f"writer {writer.name} did not stop")
        self.check()
        return {}

    def close(self) -> None:
        """Nothing is left: the writers are threads, and the JVM of one of them ends with it."""
