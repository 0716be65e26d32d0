"""Three real Kafka brokers (KRaft, combined mode) on free local ports, started, harmed and stopped from Python."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from parallax.jars import DEFAULT_KAFKA_VERSION, Progress, kafka_jars
from parallax.java import KAFKA_NEEDS, Java, find_java
from parallax.lab.archive import archive_options
from parallax.lab.asking import SECONDS, answers
from parallax.lab.broker import Broker, ProxiedListener
from parallax.lab.errors import LabError
from parallax.lab.ports import free_ports
from parallax.lab.properties import BROKER_SETTINGS, server_properties
from parallax.lab.storage import format_storage, kafka_uuid
from parallax.lab.waiting import until
from parallax.lab.watchdog import Watchdog
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import DeadlineExceeded, ReplicaError, Unreachable


@dataclass(frozen=True)
class PartitionState:
    """Leader, replicas and replicas in sync of one partition, as broker ids, from the brokers' metadata.

    ``leader`` is -1 while there is none.
    """

    leader: int
    replicas: frozenset[int]
    isr: frozenset[int]


class Cluster:
    """A cluster of local brokers with ids 1, 2, ...; use it as a context manager, or call ``start`` and ``stop``.

    At the end its folder is removed. After an exception, or with ``keep_logs`` set, the folder stays, and the exception
    names it. Brokers die with this process, except those of a ``detached`` cluster.
    """

    def __init__(
        self,
        version: str = DEFAULT_KAFKA_VERSION,
        *,
        brokers: int = 3,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        detached: bool = False,
        proxied: bool = False,
        progress: Progress | None = None,
        heap: str = "256m",
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Choose ports and a folder; nothing is started yet.

        Args:
            version: Kafka's version; its jars are resolved on ``start``.
            brokers: how many brokers; their ids are 1, 2, and so on.
            folder: where everything is kept; a new temporary folder by default.
            settings: broker settings, value by name; they override BROKER_SETTINGS.
            detached: whether the brokers outlive this process (the lab of the command line).
            proxied: whether each broker has a second listener (``Broker.proxied``), for clients that are to reach it
                through a proxy of the caller's.
            progress: called with a line of text: what is being resolved or started.
            heap: how much memory each broker's JVM may use, as its ``-Xmx`` has it.
            jvm_options: more options of each broker's JVM.
        """
        self.version = version
        self._jvm_options = (f"-Xmx{heap}", *jvm_options)
        self.cluster_id = kafka_uuid()
        self.keep_logs = False
        self.on_processes: Callable[[Cluster], None] | None = None
        """Called with this cluster whenever it has started or stopped a broker; None for nothing."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="parallax-lab-"))
        each = 4 if proxied else 2
        ports = free_ports(each * brokers)
        self.brokers = {}
        for i in range(1, brokers + 1):
            port, controller_port, *more = ports[each * (i - 1) : each * i]
            second = ProxiedListener(*more) if more else None
            self.brokers[i] = Broker(i, port, controller_port, self.folder / f"broker-{i}", second)
        self._settings = {**BROKER_SETTINGS, **(settings or {})}
        self._detached = detached
        self._progress = progress or (lambda _: None)
        self._watchdog: Watchdog | None = None
        self._admin: Any = None

    @classmethod
    def attached(cls, version: str, cluster_id: str, folder: Path, brokers: Sequence[Broker]) -> Self:
        """A `Cluster` for brokers that an earlier process started as ``detached``; it starts nothing.

        Args:
            version: Kafka's version.
            cluster_id: the cluster's id.
            folder: the folder that holds its files.
            brokers: its brokers.
        """
        cluster = cls(version, brokers=0, folder=folder, detached=True)
        cluster.cluster_id = cluster_id
        cluster.brokers = {broker.id: broker for broker in brokers}
        return cluster

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException as error:
            self._fail(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._fail(error)
        self.stop()

    def _fail(self, error: BaseException) -> None:
        self.keep_logs = True
        error.add_note(f"the brokers' logs are kept in {self.folder}")
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, separated by commas, for Kafka's option ``bootstrap.servers``."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Resolve the jars, format the storage, start all brokers and wait until they are one cluster.

        Raises:
            LabError: there is no JDK or no jars, or a broker ended or did not answer within three minutes.
        """
        java = find_java(KAFKA_NEEDS)
        jars = kafka_jars(self.version, progress=self._progress)
        archive_options(java, jars, self.version, self._progress)
        if not self._detached:
            self._watchdog = Watchdog()
            atexit.register(self.stop)
        for broker in self.brokers.values():
            self._prepare(broker, java, jars)
        self._progress(f"starting {len(self.brokers)} brokers of Kafka {self.version}")
        for broker in self.brokers.values():
            self.start_broker(broker.id)
        self.wait_ready()

    def _prepare(self, broker: Broker, java: Java, jars: Path) -> None:
        broker.folder.mkdir(parents=True, exist_ok=True)
        data = broker.folder / "data"
        format_storage(
            data,
            java=java,
            jars=jars,
            version=self.version,
            cluster_id=self.cluster_id,
            node_id=broker.id,
        )
        text = server_properties(broker, self.brokers.values(), self._settings)
        (broker.folder / "server.properties").write_text(text, encoding="utf-8")

    def stop(self) -> None:
        """Kill every broker, and delete the brokers' folders unless ``keep_logs`` is set.

        A second call does nothing.
        """
        for broker in self.brokers.values():
            broker.kill()
        self._admin = None
        if self._watchdog is not None:
            self._watchdog.guard(())
            self._watchdog.close()
            self._watchdog = None
            atexit.unregister(self.stop)
        if not self.keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- one broker ---------------------------------------------------------------------------------------------------

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that is down; returns before it answers.

        Args:
            broker_id: the broker's id.

        Raises:
            LabError: the broker runs already.
        """
        java = find_java(KAFKA_NEEDS)
        jars = kafka_jars(self.version)
        options = archive_options(java, jars, self.version, self._progress)
        self.brokers[broker_id].start(java.path, jars, [*self._jvm_options, *options])
        self._processes_changed()

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in good order (SIGTERM), and wait until it has ended.

        Args:
            broker_id: the broker's id.
        """
        self.brokers[broker_id].stop()
        self._processes_changed()

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker as a power cut would (SIGKILL), and wait until it has ended.

        Args:
            broker_id: the broker's id.
        """
        self.brokers[broker_id].kill()
        self._processes_changed()

    def add_broker(self) -> int:
        """Start one more broker, which is no controller; returns its id once it has joined the cluster.

        Raises:
            LabError: the broker ended, or did not join within three minutes.
        """
        number = max(self.brokers) + 1
        port, controller_port = free_ports(2)
        broker = Broker(number, port, controller_port, self.folder / f"broker-{number}", controller=False)
        self.brokers[number] = broker
        self._prepare(broker, find_java(KAFKA_NEEDS), kafka_jars(self.version))
        self.start_broker(number)
        self.wait_ready()
        return number

    def remove_broker(self, broker_id: int) -> None:
        """Stop a broker for good and delete its folder. Call it only once other brokers hold all its partitions.

        Args:
            broker_id: the broker's id.

        Raises:
            LabError: the broker is a controller, which the others need.
        """
        if self.brokers[broker_id].controller:
            raise LabError(f"broker {broker_id} is a controller; only brokers that were added can be removed")
        self.stop_broker(broker_id)
        shutil.rmtree(self.brokers.pop(broker_id).folder)
        self._admin = None  # It may have taken this broker for the one to send requests for the controller to.
        self._processes_changed()

    def pause_broker(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP): it keeps its connections and answers nothing.

        Args:
            broker_id: the broker's id.
        """
        self.brokers[broker_id].pause()

    def resume_broker(self, broker_id: int) -> None:
        """Let a frozen broker go on (SIGCONT).

        Args:
            broker_id: the broker's id.
        """
        self.brokers[broker_id].resume()

    def _processes_changed(self) -> None:
        if self.on_processes is not None:
            self.on_processes(self)
        if self._watchdog is not None:
            self._watchdog.guard(b.process.pid for b in self.brokers.values() if b.process is not None and b.running)

    # --- what the cluster says ----------------------------------------------------------------------------------------

    @property
    def admin(self) -> Any:
        """A confluent_kafka AdminClient of this cluster."""
        if self._admin is None:
            self._admin = AdminClient(
                client_settings(self.bootstrap_servers, **{"topic.metadata.refresh.interval.ms": "-1"})
            )
        return self._admin

    def wait_ready(self, timeout: float = 180.0) -> None:
        """Wait until every broker that runs has joined the cluster.

        Args:
            timeout: how many seconds to wait, at most.

        Raises:
            LabError: a broker has ended, or the time is up; the text names the broker's log.
        """
        expected = {broker.id for broker in self.brokers.values() if broker.running}

        def ready() -> bool:
            for i in expected:
                if not self.brokers[i].running:
                    raise LabError(f"broker {i} ended: {self.brokers[i].last_words()} (log: {self.brokers[i].log})")
            try:
                return set(self.admin.list_topics(timeout=1).brokers) >= expected
            except KafkaException:
                return False

        until(ready, f"brokers {sorted(expected)} to join (logs: {self.folder}/broker-*/broker.log)", timeout=timeout)

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Leader, replicas and ISR of a partition; None if the brokers do not know it or do not answer.

        Args:
            topic: name of the topic.
            partition: the partition's number.
        """
        try:
            found = self.admin.list_topics(topic, timeout=2).topics[topic].partitions.get(partition)
        except KafkaException:
            return None
        return PartitionState(found.leader, frozenset(found.replicas), frozenset(found.isrs)) if found else None

    def named_leader(self, topic: str, partition: int = 0) -> int | None:
        """The leader of a partition that every broker names; None while they name several, or nobody.

        Args:
            topic: name of the topic.
            partition: the partition's number.
        """
        named = {-1 if state is None else state.leader for state in self.everywhere(topic, partition)}
        leader = named.pop() if len(named) == 1 else -1
        return leader if leader >= 0 else None

    def everywhere(self, topic: str, partition: int = 0) -> list[PartitionState | None]:
        """What each broker says of a partition; None for one that does not know it, or does not answer.

        The controller makes a change first, and each broker learns of it a moment later. Brokers that are stopped,
        paused or cannot be reached are left out.

        Args:
            topic: name of the topic.
            partition: the partition's number.
        """
        asked = [broker.address for broker in self.brokers.values() if broker.running and not broker.paused]
        return [said for said in (_said_by(address, topic, partition) for address in asked) if said != _NOT_THERE]

    def wait_isr(self, topics: str | Collection[str], brokers: Collection[int], *, timeout: float = 180.0) -> None:
        """Wait until all brokers say that the ISR of every topic's partition 0 is exactly these, and one of them leads.

        Args:
            topics: the name of one topic, or several names.
            brokers: ids of the brokers.
            timeout: how many seconds to wait for all topics together, at most.

        Raises:
            LabError: the time is up; the text says what the ISR was.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        wanted = frozenset(brokers)
        deadline = time.monotonic() + timeout
        for name in names:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                until(lambda name=name: self._settled(name, wanted), "the ISR", timeout=left, interval=0.1)  # type: ignore[misc]
            except LabError as error:
                seen = self.partition(name)
                raise LabError(
                    f"{name}: waited {timeout:.0f} s in vain for ISR {sorted(wanted)}; "
                    f"it is {sorted(seen.isr) if seen else 'unknown'} (logs: {self.folder})"
                ) from error

    def _settled(self, topic: str, isr: frozenset[int]) -> bool:
        def is_so(state: PartitionState | None) -> bool:
            return state is not None and state.isr == isr and state.leader in isr

        return is_so(self.partition(topic)) and all(map(is_so, self.everywhere(topic)))

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: Sequence[int] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until all replicas are in sync, and every broker that answers knows it.

        Args:
            topic: the topic's name.
            partitions: how many partitions it has.
            replicas: ids of the brokers that hold each partition, the preferred leader first; all brokers by default.
            config: settings of the topic, value by name.

        Raises:
            LabError: the brokers refuse, or do not bring it up within three minutes.
        """
        self.create_topics([topic], partitions=partitions, replicas=replicas, config=config)

    def create_topics(
        self,
        topics: Sequence[str],
        *,
        partitions: int = 1,
        replicas: Sequence[int] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create several topics that are alike, and wait until all replicas are in sync and the brokers know them.

        Args:
            topics: the topics' names.
            partitions: how many partitions each has.
            replicas: ids of the brokers that hold each partition, the preferred leader first; all brokers by default.
            config: settings of each topic, value by name.

        Raises:
            LabError: the brokers refuse, or do not bring them up within three minutes.
        """
        assignment = list(replicas or self.brokers)
        wanted = [
            NewTopic(
                t, num_partitions=partitions, replica_assignment=[assignment] * partitions, config=dict(config or {})
            )
            for t in topics
        ]
        answers(
            lambda: self.admin.create_topics(wanted, operation_timeout=20, request_timeout=SECONDS),
            f"creating {', '.join(topics)}",
            done_before=[KafkaError.TOPIC_ALREADY_EXISTS],
        )
        self.wait_isr(topics, assignment)
        self.await_partitions([TopicPartition(t, number) for t in topics for number in range(partitions)], assignment)

    def await_partitions(self, places: Sequence[TopicPartition], replicas: Collection[int]) -> None:
        """Wait until every broker that answers knows some new partitions, and the brokers in ``replicas`` host them.

        Args:
            places: the partitions.
            replicas: ids of the brokers.

        Raises:
            LabError: the time is up.
        """
        self.await_everywhere(partial(_knows, places, replicas), f"to know {', '.join({p.topic: 0 for p in places})}")

    def await_everywhere(self, shows: Callable[[ReplicaClient, int], bool], what: str) -> None:
        """Wait until every broker that answers shows a change.

        The controller makes a change first, and each broker learns of it a moment later.

        Args:
            shows: called with a client and a broker's id; True if this broker shows the change. A ``ReplicaError``
                counts as False.
            what: the change, as words that fit behind "waited for broker 1", e.g. ``to know orders``.

        Raises:
            LabError: the time is up.
        """
        with closing(ReplicaClient({"bootstrap.servers": self.bootstrap_servers})) as client:
            for number in [number for number, broker in self.brokers.items() if broker.running and not broker.paused]:
                until(partial(_shows, shows, client, number), f"broker {number} {what}")


_NOT_THERE = PartitionState(-1, frozenset(), frozenset())
"""The answer of a broker that cannot be reached. A real partition has a replica at least."""


def _said_by(address: str, topic: str, partition: int) -> PartitionState | None:
    """What the broker at an address says of a partition; None if nothing, `_NOT_THERE` if it cannot be reached."""
    # A client that knows no other address yet asks this broker.
    with closing(ReplicaClient({"bootstrap.servers": address})) as client:
        try:
            found = client.metadata([topic])[topic].partitions.get(partition)
        except DeadlineExceeded:
            return None
        except Unreachable:
            return _NOT_THERE
        except ReplicaError:
            return None
    return None if found is None else PartitionState(found.leader, frozenset(found.replicas), frozenset(found.isr))


def _shows(shows: Callable[[ReplicaClient, int], bool], client: ReplicaClient, broker: int) -> bool:
    try:
        return shows(client, broker)
    except DeadlineExceeded:
        return False
    except Unreachable:
        return True
    except ReplicaError:
        return False


def _knows(places: Sequence[TopicPartition], replicas: Collection[int], client: ReplicaClient, broker: int) -> bool:
    """Whether a broker knows the topics, and holds what it is to hold."""
    known = client.own_configs(broker, sorted({place.topic for place in places}), ["cleanup.policy"])
    held = client.log_end_offsets(broker, places) if broker in replicas else {}
    return not any(isinstance(said, ReplicaError) for said in (*known.values(), *held.values()))


def client_settings(bootstrap_servers: str, **more: Any) -> dict[str, Any]:
    """Settings of a confluent_kafka client that logs nothing while brokers come and go, value by name.

    The client reconnects immediately. If a broker does not answer for some seconds, e.g. because it is paused, the
    client turns to another one.

    Args:
        bootstrap_servers: addresses of brokers, as ``host:port[,host:port]``.
        more: further settings, which override these.
    """
    return {
        "bootstrap.servers": bootstrap_servers,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "socket.timeout.ms": 4000,
        "log_level": 0,
        "logger": logging.getLogger("parallax.lab.librdkafka"),
        **more,
    }


__all__ = ["Cluster", "PartitionState", "client_settings"]
