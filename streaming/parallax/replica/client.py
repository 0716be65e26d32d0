"""A client that asks the broker it is told to ask.

Consumers choose the broker themselves; Parallax compares brokers, so each request here goes to one broker by its id and
is answered from that broker's own log. What that takes (Kafka 4.2's ReplicaManager, FetchParams, KafkaApis):

- Fetch of version 11 or 12 is served by a follower as a consumer's; below 11 only the leader answers, above 12 topics
  go by id.
- ListOffsets with replica id -2 (the debugging replica) is served by a follower, and LATEST is then its log end offset.
- DescribeProducers is served by any replica.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from parallax.model import IsolationLevel
from parallax.replica import options
from parallax.replica.connection import Connection, Deadline, ReceiveBuffer
from parallax.replica.errors import (
    BrokerTooOld,
    DeadlineExceeded,
    NotHosted,
    ReplicaError,
    Unreachable,
    Unsupported,
    from_code,
)
from parallax.replica.fetch_response import PartitionAnswer, no_aborted
from parallax.replica.options import Address

_CONSUMER, _DEBUGGING_REPLICA = -1, -2
_LATEST = -1
_TRANSACTION = 1
"""FindCoordinator's key type for a transactional id."""
_TOPIC = 2
"""DescribeConfigs' resource type for a topic."""
_IDLE_CONNECTIONS = 4
_NO_RECORDS = memoryview(b"")

Partition = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True)
class PartitionMetadata:
    """Where a partition lives, as the controller's metadata say."""

    leader: int
    """-1 while there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True)
class TopicMetadata:
    """A topic and its partitions."""

    name: str
    topic_id: str
    """As Kafka's tools print it: 16 bytes in URL-safe base64 without padding."""
    partitions: dict[int, PartitionMetadata]
    error: ReplicaError | None = None
    """Why there is nothing to tell (UnknownTopic, Unauthorized, ...); the other topics are not affected."""


@dataclass(frozen=True)
class FetchPosition:
    """From where one partition is to be fetched, and how much."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20


@dataclass(frozen=True)
class FetchedPartition:
    """What one replica answered for one partition.

    The watermarks are this replica's own, -1 where ``error`` is set. ``records`` holds whole record batches as they lie
    in the log; the last may be cut off, and the first may begin below the offset asked for.
    """

    topic: str
    partition: int
    error: ReplicaError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=no_aborted)
    """int64[n, 2]: producer id and first offset of the aborted transactions that the records may hold."""
    records: memoryview = _NO_RECORDS


@dataclass(frozen=True)
class Watermarks:
    """How far one replica's log goes, by that replica itself."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True)
class ProducerState:
    """A producer that a replica remembers (DescribeProducers, KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    """Milliseconds since the epoch."""
    coordinator_epoch: int
    current_transaction_start_offset: int
    """-1 where this replica knows of no open transaction of the producer."""


@dataclass(frozen=True)
class TransactionListing:
    """A transaction as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """A transaction as its coordinator knows it."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    """-1 while no transaction is ongoing."""
    partitions: frozenset[Partition]


@dataclass(frozen=True)
class TransactionListings:
    """All coordinators' listings; those that did not answer are named, never left out in silence."""

    transactions: list[TransactionListing]
    unanswered: dict[int, ReplicaError]


class PendingFetch:
    """A Fetch that has been sent; the broker works on it while the caller does something else."""

    def __init__(
        self,
        connections: _Connections,
        broker: int,
        positions: Sequence[FetchPosition],
        request: Any,
        deadline: Deadline,
    ) -> None:
        self._positions = positions
        self._broker = broker
        self._exchange = _Exchange(connections, broker, request, 11, 12)
        self._exchange.send(deadline)

    def result(self, timeout_ms: float, into: ReceiveBuffer | None = None) -> list[FetchedPartition]:
        """Wait for the answer.

        Args:
            timeout_ms: how long from now, in milliseconds.
            into: memory to receive into, overwritten by the next answer received into it; fresh memory by default.

        Raises:
            ReplicaError: as :meth:`ReplicaClient.fetch`.
        """
        response = self._exchange.receive(Deadline(timeout_ms), into)
        if response.error_code:
            raise from_code(response.error_code, broker=self._broker)
        answers = {(p.topic, p.partition): p for p in response.partitions}
        if not answers and response.throttle_time_ms > 0:
            wait = response.throttle_time_ms
            raise DeadlineExceeded(f"throttled for {wait} ms by the broker's quota; raise it", broker=self._broker)
        return [_fetched(self._broker, position, answers) for position in self._positions]

    def cancel(self) -> None:
        """Forget the answer; its connection is closed, since the answer would still come."""
        self._exchange.drop()


class ReplicaClient:
    """Requests pinned to brokers by id; thread-safe, calls to different brokers run side by side.

    Every call ends within its deadline, whatever the broker does. After a failure the connection is dropped, and the
    next call to that broker looks its address up again.

    Args:
        kafka: options in Kafka's spelling; see :mod:`parallax.replica.options`.
        timeout_ms: deadline of a call in milliseconds, unless the call is given its own.

    Raises:
        BadOption: an option is unknown or ill-typed. No broker is asked before the first call.
    """

    def __init__(self, kafka: Mapping[str, str], *, timeout_ms: int = 3000) -> None:
        self._timeout_ms = timeout_ms
        self._connections = _Connections(options.parse(kafka))

    @property
    def cluster_id(self) -> str:
        """The cluster's id; asked for once."""
        if self._connections.cluster_id is None:
            self.metadata([])
        return self._connections.cluster_id or ""

    def brokers(self, *, timeout_ms: float | None = None) -> dict[int, Address]:
        """Id to (host, port) of every broker seen since the client was made, also of those that are down now."""
        self._connections.ask_metadata([], self._deadline(timeout_ms))
        return dict(self._connections.addresses)

    def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicMetadata]:
        """Describe topics, all by default, asking any broker that answers.

        Raises:
            Unreachable: no broker and no bootstrap server answered; DeadlineExceeded if one was still silent.
        """
        response = self._connections.ask_metadata(topics, self._deadline(timeout_ms))
        return {topic.name: _topic(topic) for topic in response.topics if topic.name}

    def topic_configs(
        self, topics: Sequence[str], names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, dict[str, str] | ReplicaError]:
        """Settings of topics as they are in force, defaults included; a name that the brokers do not know is left out.

        Any broker answers. Needs DESCRIBE_CONFIGS on the topics.

        Raises:
            Unreachable: no broker answered; DeadlineExceeded if one was still silent.
        """
        response = self._connections.ask_configs(topics, names, self._deadline(timeout_ms))
        return {
            result.resource_name: from_code(result.error_code, topic=result.resource_name)
            if result.error_code
            else {config.name: config.value for config in result.configs if config.value is not None}
            for result in response.results
        }

    def fetch(
        self,
        broker: int,
        positions: Sequence[FetchPosition],
        *,
        isolation: IsolationLevel,
        max_bytes: int,
        max_wait_ms: int = 0,
        timeout_ms: float | None = None,
    ) -> list[FetchedPartition]:
        """Fetch from one replica, as a consumer of that isolation level.

        Args:
            broker: id of the broker to ask.
            positions: what to fetch; the answers come in the same order.
            isolation: read_committed answers end at the replica's last stable offset and list aborted transactions.
            max_bytes: of all records together; the first batch comes whole even if it is larger.
            max_wait_ms: how long the broker may wait for records; added to the deadline.
            timeout_ms: deadline of this call.

        Raises:
            ReplicaError: the broker as a whole could not be asked. What concerns one partition is in its ``error``.
        """
        budget = (self._timeout_ms if timeout_ms is None else timeout_ms) + max_wait_ms
        pending = self.begin_fetch(
            broker, positions, isolation=isolation, max_bytes=max_bytes, max_wait_ms=max_wait_ms, timeout_ms=budget
        )
        return pending.result(budget)

    def begin_fetch(
        self,
        broker: int,
        positions: Sequence[FetchPosition],
        *,
        isolation: IsolationLevel,
        max_bytes: int,
        max_wait_ms: int = 0,
        timeout_ms: float | None = None,
    ) -> PendingFetch:
        """Send a Fetch and return without waiting for the answer; see :meth:`fetch`."""
        request = _fetch_request(positions, isolation=isolation, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        return PendingFetch(self._connections, broker, positions, request, self._deadline(timeout_ms))

    def log_end_offsets(
        self, broker: int, partitions: Sequence[Partition], *, timeout_ms: float | None = None
    ) -> dict[Partition, int | ReplicaError]:
        """Log end offsets of one broker's replicas, by ListOffsets as the debugging replica."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        topics = [
            kind(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=_LATEST)
                    for index in indexes
                ],
            )
            for topic, indexes in _by_topic(partitions).items()
        ]
        request = ListOffsetsRequest(
            replica_id=_DEBUGGING_REPLICA, isolation_level=int(IsolationLevel.READ_UNCOMMITTED), topics=topics
        )
        response = self._connections.exchange(broker, request, 1, 7, self._deadline(timeout_ms))
        answers = {(t.name, p.partition_index): p for t in response.topics for p in t.partitions}
        return _each(broker, partitions, answers, lambda answer: int(answer.offset))

    def watermarks(
        self, broker: int, partitions: Sequence[Partition], *, timeout_ms: float | None = None
    ) -> dict[Partition, Watermarks | ReplicaError]:
        """How far one broker's replicas go, without fetching a record: a Fetch at each log end offset."""
        deadline = self._deadline(timeout_ms)
        ends = self.log_end_offsets(broker, partitions, timeout_ms=deadline.remaining() * 1000)
        found: dict[Partition, Watermarks | ReplicaError] = {}
        positions = []
        for (topic, partition), end in ends.items():
            if isinstance(end, ReplicaError):
                found[topic, partition] = end
            else:
                positions.append(FetchPosition(topic, partition, end, 1))
        if positions:
            left = deadline.remaining() * 1000
            committed = IsolationLevel.READ_COMMITTED
            answers = self.fetch(broker, positions, isolation=committed, max_bytes=1, timeout_ms=left)
            for position, answer in zip(positions, answers, strict=True):
                found[answer.topic, answer.partition] = answer.error or Watermarks(
                    answer.high_watermark, answer.last_stable_offset, answer.log_start_offset, position.offset
                )
        return {partition: found[partition] for partition in ends}

    def describe_producers(
        self, broker: int, partitions: Sequence[Partition], *, timeout_ms: float | None = None
    ) -> dict[Partition, list[ProducerState] | ReplicaError]:
        """The producers that one broker's replicas remember, with their open transactions (KIP-664)."""
        kind = DescribeProducersRequest.TopicRequest
        topics = [kind(name=topic, partition_indexes=indexes) for topic, indexes in _by_topic(partitions).items()]
        request = DescribeProducersRequest(topics=topics)
        response = self._connections.exchange(broker, request, 0, 0, self._deadline(timeout_ms))
        answers = {(t.name, p.partition_index): p for t in response.topics for p in t.partitions}
        return _each(broker, partitions, answers, _producers)

    def list_transactions(
        self, producer_ids: Sequence[int] = (), *, timeout_ms: float | None = None
    ) -> TransactionListings:
        """Ask every broker for the transactions that it coordinates, all by default (KIP-664)."""
        deadline = self._deadline(timeout_ms)
        self._connections.ask_metadata([], deadline.part(0.4))
        listed: list[TransactionListing] = []
        unanswered: dict[int, ReplicaError] = {}
        brokers = sorted(self._connections.addresses)
        for done, broker in enumerate(brokers):
            try:
                share = deadline.part(1 / (len(brokers) - done))
                listed += self._list_transactions(broker, producer_ids, share)
            except TimeoutError:
                unanswered[broker] = DeadlineExceeded("no time was left to ask it", broker=broker)
            except ReplicaError as error:
                unanswered[broker] = error
        return TransactionListings(listed, unanswered)

    def _list_transactions(
        self, broker: int, producer_ids: Sequence[int], deadline: Deadline
    ) -> list[TransactionListing]:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=list(producer_ids), duration_filter=-1)
        response = self._connections.exchange(broker, request, 0, 1, deadline)
        if response.error_code:
            raise from_code(response.error_code, broker=broker)
        return [
            TransactionListing(state.transactional_id, state.producer_id, state.transaction_state, broker)
            for state in response.transaction_states
        ]

    def describe_transactions(
        self, transactional_ids: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription | ReplicaError]:
        """Ask each transactional id's coordinator how its transaction stands (KIP-664)."""
        found: dict[str, TransactionDescription | ReplicaError] = {}
        for name in transactional_ids:
            try:
                found[name] = self._describe_transaction(name, self._deadline(timeout_ms))
            except ReplicaError as error:
                found[name] = error
        return found

    def _describe_transaction(self, name: str, deadline: Deadline) -> TransactionDescription:
        coordinator = self._connections.coordinator(name, deadline)
        request = DescribeTransactionsRequest(transactional_ids=[name])
        response = self._connections.exchange(coordinator, request, 0, 0, deadline)
        (state,) = response.transaction_states
        if state.error_code:
            raise from_code(state.error_code, broker=coordinator, detail=f"transactional id {name}")
        return TransactionDescription(
            transactional_id=name,
            coordinator=coordinator,
            state=state.transaction_state,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            timeout_ms=state.transaction_timeout_ms,
            start_time_ms=state.transaction_start_time_ms,
            partitions=frozenset((t.topic, index) for t in state.topics for index in t.partitions),
        )

    def end_offset_for_epoch(
        self, broker: int, topic: str, partition: int, leader_epoch: int, *, timeout_ms: float | None = None
    ) -> tuple[int, int] | None:
        """Where a leader epoch ends in one replica's log, by that replica's own epoch cache.

        OffsetForLeaderEpoch is answered by the leader only. A Fetch v12 that claims to have fetched far beyond the log
        in that epoch is answered by any replica with the epoch's true end (KIP-595's diverging epoch).

        Returns:
            (epoch, end offset) of the largest epoch not above ``leader_epoch``, or None if the replica knows none.
        """
        position = FetchPosition(topic, partition, 1 << 62, 1)
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        request = _fetch_request([position], isolation=uncommitted, max_bytes=1, max_wait_ms=0, epoch=leader_epoch)
        response = self._connections.exchange(broker, request, 12, 12, self._deadline(timeout_ms))
        answers = {(p.topic, p.partition): p for p in response.partitions}
        answer = answers.get((topic, partition))
        if answer is None:
            raise NotHosted("the broker's answer leaves it out", broker=broker, topic=topic, partition=partition)
        diverging = answer.diverging_epoch
        if answer.error_code not in (0, 1):
            raise from_code(answer.error_code, broker=broker, topic=topic, partition=partition)
        return None if answer.error_code == 1 or diverging is None or diverging[1] < 0 else diverging

    def close(self) -> None:
        """Close all idle connections; calls still running end as they would."""
        self._connections.close()

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)


class _Connections:
    """Addresses, idle connections, and who answered last; the part of the client that threads share."""

    def __init__(self, opts: options.Options) -> None:
        self._options = opts
        self._lock = threading.Lock()
        self._idle: dict[int | Address, list[Connection]] = {}
        self._failed_at: dict[Address, float] = {}
        self._stale: set[int] = set()
        self.addresses: dict[int, Address] = {}
        self.cluster_id: str | None = None

    def exchange(self, broker: int, request: Any, lowest: int, highest: int, deadline: Deadline) -> Any:
        exchange = _Exchange(self, broker, request, lowest, highest)
        exchange.send(deadline)
        return exchange.receive(deadline, None)

    def take(self, broker: int, deadline: Deadline, *, fresh: bool = False) -> Connection:
        """An idle connection to the broker, or a new one."""
        with self._lock:
            idle = self._idle.get(broker)
            if idle and not fresh:
                connection = idle.pop()
                connection.reused = True
                return connection
        return Connection(self._address(broker, deadline), self._options, deadline)

    def give_back(self, broker: int, connection: Connection) -> None:
        with self._lock:
            idle = self._idle.setdefault(broker, [])
            if len(idle) < _IDLE_CONNECTIONS and connection.address == self.addresses.get(broker):
                idle.append(connection)
                return
        connection.close()

    def failed(self, broker: int) -> None:
        """Drop what is idle to the broker and look its address up again before it is asked the next time."""
        with self._lock:
            dropped = self._idle.pop(broker, [])
            self._stale.add(broker)
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def ask_metadata(self, topics: Sequence[str] | None, deadline: Deadline) -> Any:
        """Metadata from the first address that answers; what it says of the brokers is remembered."""
        kind = MetadataRequest.MetadataRequestTopic
        names = None if topics is None else [kind(name=name) for name in topics]

        def request() -> Any:
            return MetadataRequest(topics=names, allow_auto_topic_creation=False)

        response = self._ask_any(request, 5, 12, deadline)
        with self._lock:
            self.cluster_id = response.cluster_id or self.cluster_id
            for broker in response.brokers:
                self.addresses[broker.node_id] = (broker.host, broker.port)
                self._stale.discard(broker.node_id)
        return response

    def ask_configs(self, topics: Sequence[str], names: Sequence[str], deadline: Deadline) -> Any:
        """DescribeConfigs of topics from the first address that answers."""
        kind = DescribeConfigsRequest.DescribeConfigsResource

        def request() -> Any:
            resources = [
                kind(resource_type=_TOPIC, resource_name=topic, configuration_keys=list(names)) for topic in topics
            ]
            return DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)

        return self._ask_any(request, 1, 4, deadline)

    def coordinator(self, transactional_id: str, deadline: Deadline) -> int:
        """Id of the broker that coordinates a transactional id."""

        def request() -> Any:
            return FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])

        (found,) = self._ask_any(request, 4, 4, deadline).coordinators
        if found.error_code:
            raise from_code(found.error_code, detail=f"coordinator of transactional id {transactional_id}")
        with self._lock:
            self.addresses[found.node_id] = (found.host, found.port)
        return int(found.node_id)

    def _ask_any(self, request: Callable[[], Any], lowest: int, highest: int, deadline: Deadline) -> Any:
        """Ask one address after the other, each with a fair share of the time, those that failed lately last."""
        with self._lock:
            known = dict.fromkeys([*self.addresses.values(), *self._options.bootstrap])
            order = sorted(known, key=lambda address: self._failed_at.get(address, 0.0))
        failures: list[tuple[Address, Exception]] = []
        for done, address in enumerate(order):
            try:
                return self._ask(address, request(), lowest, highest, deadline.part(1 / (len(order) - done)))
            except (OSError, BrokerTooOld) as error:
                self._failed_at[address] = time.monotonic()
                failures.append((address, error))
        raise _nobody_answered(failures, deadline)

    def _ask(self, address: Address, request: Any, lowest: int, highest: int, deadline: Deadline) -> Any:
        with self._lock:
            idle = self._idle.get(address)
            connection = idle.pop() if idle else None
        if connection is not None:
            try:
                return self._call(address, connection, request, lowest, highest, deadline)
            except ConnectionError:
                pass  # It was idle and has been closed meanwhile: that says nothing about the broker.
        connection = Connection(address, self._options, deadline)
        response = self._call(address, connection, request, lowest, highest, deadline)
        self._failed_at.pop(address, None)
        return response

    def _call(
        self, address: Address, connection: Connection, request: Any, lowest: int, highest: int, deadline: Deadline
    ) -> Any:
        try:
            response = connection.call(request, lowest, highest, deadline)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            idle = self._idle.setdefault(address, [])
            if not idle:
                idle.append(connection)
                return response
        connection.close()
        return response

    def _address(self, broker: int, deadline: Deadline) -> Address:
        with self._lock:
            address = self.addresses.get(broker)
            stale = broker in self._stale
        if address is None or stale:
            try:
                self.ask_metadata([], deadline.part(0.5))
            except (ReplicaError, TimeoutError):
                if address is None:
                    raise
            address = self.addresses.get(broker)
        if address is None:
            known = ", ".join(map(str, sorted(self.addresses)))
            raise Unreachable(
                f"not among the cluster's live brokers ({known}); start it, or correct the id", broker=broker
            )
        return address


class _Exchange:
    """One request to one broker and its response; a pooled connection that has died meanwhile is replaced once."""

    def __init__(self, connections: _Connections, broker: int, request: Any, lowest: int, highest: int) -> None:
        self._connections = connections
        self._broker = broker
        self._request = request
        self._versions = lowest, highest
        self._connection: Connection | None = None

    def send(self, deadline: Deadline) -> None:
        self._guard(lambda: self._send(deadline), deadline)

    def receive(self, deadline: Deadline, into: ReceiveBuffer | None) -> Any:
        response = self._guard(lambda: self._receive(deadline, into), deadline)
        if self._connection is not None:
            self._connections.give_back(self._broker, self._connection)
            self._connection = None
        return response

    def drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send(self, deadline: Deadline, *, fresh: bool = False) -> None:
        self._connection = self._connections.take(self._broker, deadline, fresh=fresh)
        try:
            self._connection.send(self._request, *self._versions, deadline)
        except ConnectionError:
            if fresh or not self._connection.reused:
                raise
            self.drop()
            self._send(deadline, fresh=True)

    def _receive(self, deadline: Deadline, into: ReceiveBuffer | None) -> Any:
        if self._connection is None:
            raise Unreachable("the request was given up before its answer came")
        try:
            return self._connection.receive(self._request, deadline, into)
        except ConnectionError:
            if not self._connection.reused:
                raise
            self.drop()
            self._send(deadline, fresh=True)
            return self._connection.receive(self._request, deadline, into)

    def _guard(self, step: Callable[[], T], deadline: Deadline) -> T:
        try:
            return step()
        except BaseException as error:
            self.drop()
            translated = _translate(error, self._broker, deadline)
            if translated is None:
                raise
            if isinstance(translated, Unreachable):
                self._connections.failed(self._broker)
            raise translated from error


def _translate(error: BaseException, broker: int | None, deadline: Deadline) -> ReplicaError | None:
    """The error as ours; None where it is not for us to translate."""
    if isinstance(error, ReplicaError):
        return error if error.broker is not None or broker is None else error.at(broker=broker)
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(
            f"no answer within {deadline.timeout_ms:.0f} ms; is it paused or overloaded?", broker=broker
        )
    if isinstance(error, OSError):
        return Unreachable(f"{error.strerror or error}; is it running, is the address right?", broker=broker)
    return None


def _nobody_answered(failures: Sequence[tuple[Address, Exception]], deadline: Deadline) -> ReplicaError:
    too_old = [error for _, error in failures if isinstance(error, BrokerTooOld)]
    if too_old:
        return too_old[0]
    reasons = "; ".join(f"{host}:{port} {_reason(error)}" for (host, port), error in failures)
    kind = DeadlineExceeded if any(isinstance(error, TimeoutError) for _, error in failures) else Unreachable
    return kind(f"bootstrap.servers: no broker answered within {deadline.timeout_ms:.0f} ms ({reasons})")


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "did not answer"
    return str(getattr(error, "strerror", None) or error)


def _fetch_request(
    positions: Sequence[FetchPosition], *, isolation: IsolationLevel, max_bytes: int, max_wait_ms: int, epoch: int = -1
) -> Any:
    kind = FetchRequest.FetchTopic
    grouped: dict[str, list[Any]] = {}
    for position in positions:
        partition = kind.FetchPartition(
            partition=position.partition,
            current_leader_epoch=-1,
            fetch_offset=position.offset,
            last_fetched_epoch=epoch,
            log_start_offset=-1,
            partition_max_bytes=position.max_bytes,
        )
        grouped.setdefault(position.topic, []).append(partition)
    return FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=int(isolation),
        # Session 0 with epoch -1 is a Fetch without a session: nothing to keep or lose on the broker (KIP-227).
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic=topic, partitions=partitions) for topic, partitions in grouped.items()],
        forgotten_topics_data=[],
        rack_id="",
    )


def _fetched(broker: int, position: FetchPosition, answers: Mapping[Partition, PartitionAnswer]) -> FetchedPartition:
    topic, partition = position.topic, position.partition
    answer = answers.get((topic, partition))
    error: ReplicaError | None = None
    if answer is None:
        error = NotHosted("the broker's answer leaves it out", broker=broker, topic=topic, partition=partition)
    elif answer.error_code:
        error = from_code(
            answer.error_code,
            broker=broker,
            topic=topic,
            partition=partition,
            detail=f"offset {position.offset}" if answer.error_code == 1 else "",
        )
    elif answer.preferred_read_replica >= 0 and not answer.records:
        # Only a custom replica.selector.class redirects a consumer without a rack (KIP-392). The log was not read.
        replica = answer.preferred_read_replica
        problem = f"the broker redirects consumers to broker {replica}; check its replica.selector.class"
        error = Unsupported(problem, broker=broker, topic=topic, partition=partition)
    if answer is None or error is not None:
        return FetchedPartition(topic, partition, error)
    return FetchedPartition(
        topic=topic,
        partition=partition,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        aborted=answer.aborted,
        records=answer.records,
    )


def _topic(answer: Any) -> TopicMetadata:
    topic_id = base64.urlsafe_b64encode(answer.topic_id.bytes).decode().rstrip("=") if answer.topic_id else ""
    partitions = {
        item.partition_index: PartitionMetadata(
            leader=item.leader_id,
            leader_epoch=item.leader_epoch,
            replicas=tuple(item.replica_nodes),
            isr=tuple(item.isr_nodes),
            offline=tuple(item.offline_replicas or ()),
        )
        for item in answer.partitions or ()
    }
    # LEADER_NOT_AVAILABLE (5) is told by leader -1 of its partitions.
    error = from_code(answer.error_code, topic=answer.name) if answer.error_code not in (0, 5) else None
    return TopicMetadata(answer.name, topic_id, dict(sorted(partitions.items())), error)


def _producers(answer: Any) -> list[ProducerState]:
    return [
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_transaction_start_offset=state.current_txn_start_offset,
        )
        for state in answer.active_producers
    ]


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _each(
    broker: int, partitions: Sequence[Partition], answers: Mapping[Partition, Any], use: Callable[[Any], T]
) -> dict[Partition, T | ReplicaError]:
    """What each partition's answer says, or the error that stands for it."""
    found: dict[Partition, T | ReplicaError] = {}
    for topic, partition in partitions:
        answer = answers.get((topic, partition))
        if answer is None:
            problem = "the broker's answer leaves it out"
            found[topic, partition] = NotHosted(problem, broker=broker, topic=topic, partition=partition)
        elif answer.error_code:
            found[topic, partition] = from_code(answer.error_code, broker=broker, topic=topic, partition=partition)
        else:
            found[topic, partition] = use(answer)
    return found


__all__ = [
    "FetchPosition",
    "FetchedPartition",
    "PartitionMetadata",
    "PendingFetch",
    "ProducerState",
    "ReplicaClient",
    "TopicMetadata",
    "TransactionDescription",
    "TransactionListing",
    "TransactionListings",
    "Watermarks",
]
