"""The producers that write to the lab's topics: a plain one, and transactional ones of two protocols.

``legacy`` is confluent-kafka: librdkafka ends a transaction as before KIP-890, on every broker. ``java`` is Kafka's own
client. On brokers with ``transaction.version`` 2 (new clusters of Kafka 4), it raises the producer's epoch at the end
of each transaction.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from confluent_kafka import KafkaException, Producer

from parallax.jars import class_path, kafka_jars
from parallax.java import KAFKA_NEEDS, find_java
from parallax.lab.cluster import Cluster, client_settings
from parallax.lab.errors import LabError

ProducerKind = Literal["legacy", "java"]

_SECONDS = 120.0
_TRANSACTION_TIMEOUT_MS = 600_000
_ACKNOWLEDGED_MS = 30_000
"""Without idempotence a record that is sent once more is in the log twice. A broker that waits for a replica to leave
the ISR, or for the processor, answers within this time."""


class TransactionalProducer(Protocol):
    """A producer with a transactional id.

    Each method returns when the brokers have acknowledged its request. It raises LabError if they refuse it, or do not
    answer within two minutes.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, key: str, value: str | None) -> int:
        """Write one record to partition 0 of a topic, in a batch of its own; returns its offset.

        Args:
            topic: name of the topic.
            key: the record's key, written as UTF-8.
            value: its value, written as UTF-8; None for a tombstone.
        """

    def commit(self) -> None:
        """End the transaction with COMMIT; the markers follow shortly after."""

    def abort(self) -> None:
        """End the transaction with ABORT; the markers follow shortly after."""


class PlainProducer:
    """Writes records outside of transactions, without idempotence, acknowledged by the whole ISR."""

    def __init__(self, bootstrap_servers: str) -> None:
        more = {"acks": "all", "linger.ms": 0, "socket.timeout.ms": _ACKNOWLEDGED_MS}
        self._producer = Producer(client_settings(bootstrap_servers, **more))

    def send(self, topic: str, key: str, value: str | None) -> int:
        """Write one record to partition 0 of a topic; returns its offset.

        Args:
            topic: name of the topic.
            key: the record's key, written as UTF-8.
            value: its value, written as UTF-8; None for a tombstone.

        Raises:
            LabError: the brokers did not acknowledge it within two minutes.
        """
        return _send(self._producer, topic, key, value)

    def fill(self, topics: Iterable[str], count: int) -> None:
        """Write ``count`` records with the keys ``filler-0``, ``filler-1``, ... to partition 0 of each topic.

        They are in one batch of each topic, if possible.

        Args:
            topics: names of the topics.
            count: how many records each topic gets.

        Raises:
            LabError: the brokers did not acknowledge all of them within two minutes.
        """
        for topic in topics:
            for i in range(count):
                self._producer.produce(topic, b"filling", f"filler-{i}".encode(), partition=0)
        if self._producer.flush(_SECONDS):
            raise LabError("filler records were not acknowledged; see the brokers' logs")


def _send(producer: Any, topic: str, key: str, value: str | None) -> int:
    offsets: list[int] = []
    failures: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error.str())
        else:
            offsets.append(message.offset())

    producer.produce(topic, None if value is None else value.encode(), key.encode(), partition=0, on_delivery=delivered)
    producer.flush(_SECONDS)
    if not offsets:
        raise LabError(f"{topic}: a record was not acknowledged ({(failures or ['no answer'])[0]})")
    return offsets[0]


class LegacyTransactionalProducer:
    """A transactional producer of confluent-kafka.

    Args:
        bootstrap_servers: addresses of brokers, as ``host:port[,host:port]``.
        transactional_id: its transactional id. If another producer with this id is open, Kafka fences that one.

    Raises:
        LabError: the brokers refuse it.
    """

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._id = transactional_id
        more = {"transactional.id": transactional_id, "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS, "linger.ms": 0}
        self._producer = Producer(client_settings(bootstrap_servers, **more))
        self._call("init_transactions", _SECONDS)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("begin_transaction")

    def send(self, topic: str, key: str, value: str | None) -> int:
        """Write one record to partition 0 of a topic, in the open transaction; returns its offset.

        Args:
            topic: name of the topic.
            key: the record's key, written as UTF-8.
            value: its value, written as UTF-8; None for a tombstone.
        """
        return _send(self._producer, topic, key, value)

    def commit(self) -> None:
        """End the transaction with COMMIT."""
        self._call("commit_transaction", _SECONDS)

    def abort(self) -> None:
        """End the transaction with ABORT.

        librdkafka drops records that are still queued then. None are, because ``send`` waits for each.
        """
        self._call("abort_transaction", _SECONDS)

    def _call(self, method: str, *arguments: float) -> None:
        try:
            getattr(self._producer, method)(*arguments)
        except KafkaException as error:
            raise LabError(f"transactional producer {self._id}: {method} failed ({error.args[0].str()})") from error


class JavaProducers:
    """A JVM that runs transactional producers of Kafka's Java client (TransactionalProducer.java)."""

    def __init__(self, bootstrap_servers: str, jars: Path, log: Path) -> None:
        """Start the JVM, which compiles the program first.

        Args:
            bootstrap_servers: addresses of brokers, as ``host:port[,host:port]``.
            jars: the folder of Kafka's jars.
            log: the file to which the JVM's error output is appended.
        """
        source = Path(__file__).with_name("TransactionalProducer.java")
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]
        flags.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        java = find_java(KAFKA_NEEDS).path
        self._log = log
        with log.open("ab") as errors:
            self._jvm = subprocess.Popen(
                [java, *flags, "-cp", class_path(jars), source, bootstrap_servers],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until the JVM's program is ready for commands.

        Raises:
            LabError: the program did not start; the text names its log.
        """
        self._answer("start")

    def command(self, *words: str) -> str:
        """Send one command to the JVM's program; returns what follows ``ok`` in its answer.

        Args:
            words: the command's words, such as ``begin`` and a transactional id.

        Raises:
            LabError: the producer refused, or the JVM has ended.
        """
        assert self._jvm.stdin is not None  # noqa: S101 - stdin=PIPE; tells the type checker so
        try:
            self._jvm.stdin.write("\t".join(words) + "\n")
            self._jvm.stdin.flush()
        except OSError as error:
            raise LabError(f"the JVM of the Java producers has ended (log: {self._log})") from error
        return self._answer(" ".join(words[:2]))

    def _answer(self, what: str) -> str:
        assert self._jvm.stdout is not None  # noqa: S101 - stdout=PIPE; tells the type checker so
        line = self._jvm.stdout.readline().rstrip("\n")
        if not line:
            raise LabError(f"Java producer: {what}: the JVM has ended; is it a full JDK? (log: {self._log})")
        state, _, rest = line.partition(" ")
        if state != "ok":
            raise LabError(f"Java producer: {what} failed ({rest})")
        return rest

    def close(self) -> None:
        """End the JVM; open transactions stay open on the brokers until they time out."""
        self._jvm.kill()
        self._jvm.communicate()


class JavaTransactionalProducer:
    """One producer in the JVM of ``JavaProducers``.

    If another producer with the same transactional id is open, Kafka fences that one.

    Args:
        jvm: the JVM.
        transactional_id: its transactional id.
        timeout_ms: after how many ms the brokers abort a transaction of it that is still open.

    Raises:
        LabError: the producer could not be opened.
    """

    def __init__(self, jvm: JavaProducers, transactional_id: str, timeout_ms: int = _TRANSACTION_TIMEOUT_MS) -> None:
        self._jvm = jvm
        self._id = transactional_id
        jvm.command("open", transactional_id, str(timeout_ms))

    def begin(self) -> None:
        """Begin a transaction."""
        self._jvm.command("begin", self._id)

    def send(self, topic: str, key: str, value: str | None) -> int:
        """Write one record to partition 0 of a topic, in the open transaction; returns its offset.

        Args:
            topic: name of the topic.
            key: the record's key, written as UTF-8.
            value: its value, written as UTF-8; None for a tombstone.
        """
        return int(self._jvm.command("send", self._id, topic, _base64(key), "-" if value is None else _base64(value)))

    def commit(self) -> None:
        """End the transaction with COMMIT."""
        self._jvm.command("commit", self._id)

    def abort(self) -> None:
        """End the transaction with ABORT."""
        self._jvm.command("abort", self._id)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@contextmanager
def transactional_producers(
    cluster: Cluster, kind: ProducerKind, transactional_ids: Sequence[str]
) -> Iterator[dict[str, TransactionalProducer]]:
    """Open producers of one kind for a ``with`` block; they are closed at its end.

    Args:
        cluster: the cluster.
        kind: ``legacy`` or ``java``.
        transactional_ids: the transactional id of each producer.

    Yields:
        The producers, by transactional id.

    Raises:
        LabError: a producer could not be opened.
    """
    if kind == "legacy":
        yield {i: LegacyTransactionalProducer(cluster.bootstrap_servers, i) for i in transactional_ids}
        return
    log = cluster.folder / "java-producers.log"
    jvm = JavaProducers(cluster.bootstrap_servers, kafka_jars(cluster.version), log)
    try:
        jvm.wait_ready()
        yield {i: JavaTransactionalProducer(jvm, i) for i in transactional_ids}
    finally:
        jvm.close()


__all__ = [
    "JavaProducers",
    "JavaTransactionalProducer",
    "PlainProducer",
    "ProducerKind",
    "TransactionalProducer",
    "transactional_producers",
]
