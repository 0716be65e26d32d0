"""A client whose every request goes to the broker that the caller names.

Consumers choose the broker themselves. Parallax compares brokers, so each request here goes to one broker by its id and
is answered from that broker's own log. `parallax.replica.versions` says which versions of the requests this needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from parallax.model import IsolationLevel, TopicPartition
from parallax.replica import changes, groups, looking, options, requests, versions
from parallax.replica.changes import EndMarker, MayRepair
from parallax.replica.connection import Deadline, ReceiveBuffer
from parallax.replica.connections import Connections, Exchange
from parallax.replica.errors import DeadlineExceeded, ReadingPaused, ReplicaError, Throttled, from_code
from parallax.replica.options import Address
from parallax.replica.places import Array, Marks, Places
from parallax.replica.types import (
    Config,
    FetchedPartition,
    FetchPosition,
    Greeting,
    LogDir,
    PartitionMetadata,
    ProducerState,
    TopicMetadata,
    TransactionListing,
    TransactionListings,
    Watermarks,
)
from parallax.replica.versions import Versions


class PendingFetch:
    """A Fetch that has been sent; the broker works on it while the caller does something else."""

    def __init__(
        self, connections: Connections, broker: int, positions: Sequence[FetchPosition], exchange: Exchange
    ) -> None:
        self._connections = connections
        self._broker = broker
        self._positions = positions
        self._exchange = exchange
        self.throttle_ms = 0
        """For how long from its answer on the broker answers nothing more on the connection (KIP-219)."""

    def result(self, timeout_ms: float, into: ReceiveBuffer | None = None) -> list[FetchedPartition]:
        """Wait for the answer to this Fetch.

        Args:
            timeout_ms: how long from now, in milliseconds.
            into: memory to receive into, overwritten by the next answer received into it; fresh memory by default.

        Raises:
            Throttled: the answer holds nothing, because a quota is used up.
            ReplicaError: as :meth:`ReplicaClient.fetch`.
        """
        response = self._connections.finish(self._broker, self._exchange, Deadline(timeout_ms), into)
        if response.error_code:
            raise from_code(response.error_code, broker=self._broker)
        if not response.partitions and response.throttle_time_ms > 0:
            raise Throttled(response.throttle_time_ms, broker=self._broker)
        self.throttle_ms = response.throttle_time_ms
        return requests.fetched(self._broker, self._positions, response)

    def cancel(self) -> None:
        """Forget the answer to this Fetch; its connection is closed, since the answer would still come."""
        self._exchange.drop()


class ReplicaClient:
    """Requests pinned to brokers by id; thread-safe, and calls to different brokers run in parallel.

    Every call ends within its deadline, even if the broker hangs. After a failure the connection is dropped, and the
    next call to that broker looks up its address again.

    Args:
        kafka: options in Kafka's spelling; see :mod:`parallax.replica.options`.
        timeout_ms: deadline of a call in milliseconds, unless the call is given its own.

    Raises:
        BadOption: an option is unknown or ill-typed. No broker is asked before the first call.
    """

    def __init__(self, kafka: Mapping[str, str], *, timeout_ms: int = 3000) -> None:
        self._timeout_ms = timeout_ms
        self._connections = Connections(options.parse(kafka))
        self._is_paused: Callable[[int], bool] = lambda _: False

    def pause(self, is_paused: Callable[[int], bool]) -> None:
        """Send no Fetch to brokers that a given function names; they still get all other requests."""
        self._is_paused = is_paused

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that every answer comes from; empty where it has none. It is asked for once."""
        if self._connections.identity.cluster_id is None:
            self.metadata([])
        return self._connections.identity.cluster_id or ""

    def clusters(self, *, timeout_ms: float | None = None) -> dict[Address, str | ReplicaError]:
        """Ask every address of ``bootstrap.servers``, and each that a broker advertises now, by itself.

        Returns:
            By address, those of ``bootstrap.servers`` first: the id of the cluster that answers there, or why nobody
                does. It is ``OtherCluster`` where another cluster than the client's answers.
        """
        return self._connections.ask_each(self._timeout_ms if timeout_ms is None else timeout_ms)

    def brokers(self, *, timeout_ms: float | None = None) -> dict[int, Address]:
        """By id, (host, port) of every broker seen since the client was made, also if it is down."""
        self._connections.ask_metadata([], self._deadline(timeout_ms))
        return dict(self._connections.addresses)

    def greeting(self, broker: int, *, timeout_ms: float | None = None) -> Greeting:
        """What a broker shows of itself: version, TLS, and until when its certificate is valid.

        Raises:
            ReplicaError: it could not be connected to.
        """
        return self._connections.greeting(broker, self._deadline(timeout_ms))

    def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicMetadata]:
        """Describe topics, all by default, asking any broker that answers.

        Raises:
            Unreachable: no broker and no bootstrap server answered; DeadlineExceeded if one was still silent.
        """
        return requests.topics_of(self._connections.ask_metadata(topics, self._deadline(timeout_ms)))

    def topic_configs(
        self, topics: Sequence[str], names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, dict[str, str] | ReplicaError]:
        """Settings of topics as the brokers apply them (DescribeConfigs), asking any broker that answers.

        Returns:
            By topic: value by name, or why they are not given. DESCRIBE_CONFIGS on the topic is needed.

        Raises:
            Unreachable: no broker answered.
        """
        request = requests.describe_configs(topics, names)
        return requests.configs_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def own_configs(
        self, broker: int, topics: Sequence[str], names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, dict[str, Config] | ReplicaError]:
        """Settings of topics as one broker shows them, and whether each is the topic's own.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        request = requests.describe_configs(topics, names)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return requests.own_configs_of(broker, response)

    def may_alter_configs(self, topics: Sequence[str], *, timeout_ms: float | None = None) -> dict[str, bool]:
        """By topic that any broker shows, whether the user may change its settings (ALTER_CONFIGS). It only asks.

        Raises:
            Unreachable: no broker answered.
        """
        answer = self._connections.ask_any(requests.operations(topics), self._deadline(timeout_ms))
        return requests.may_alter_configs_of(answer)

    def alter_configs(self, topic: str, settings: Mapping[str, str | None], *, timeout_ms: float | None = None) -> None:
        """Change settings of a topic, by any broker.

        Args:
            topic: its name.
            settings: value by name; None removes the topic's own value.
            timeout_ms: deadline of this call.

        Raises:
            Unreachable: no broker answered, so that nobody knows whether the change was made.
            ReplicaError: it was refused (ALTER_CONFIGS on the topic is needed).
        """
        request = changes.alter_configs(topic, settings)
        changes.check_altered(topic, self._connections.ask_any(request, self._deadline(timeout_ms)))

    def write_end_marker(self, leader: int, marker: EndMarker, *, timeout_ms: float | None = None) -> None:
        """Write an end marker into a partition, by its leader; it stays in the log, and ends what is open there.

        Raises:
            Unreachable, DeadlineExceeded: the leader did not answer, so that nobody knows whether it was written.
            ReplicaError: it was refused (ALTER or CLUSTER_ACTION on the cluster is needed).
        """
        response = self._connections.exchange(leader, changes.write_end_marker(marker), self._deadline(timeout_ms))
        changes.check_written(leader, marker, response)

    def may_repair(self, *, timeout_ms: float | None = None) -> MayRepair | None:
        """The rights on the cluster that a repair needs; it only asks. None where DESCRIBE on it is missing.

        Raises:
            Unreachable: no broker answered.
        """
        answer = self._connections.ask_any(changes.cluster_operations(), self._deadline(timeout_ms))
        return changes.may_repair_of(answer)

    def reassign(self, place: TopicPartition, replicas: Sequence[int], *, timeout_ms: float | None = None) -> None:
        """Have brokers hold a partition, the preferred leader first; it is under way when this returns.

        Raises:
            Unreachable, DeadlineExceeded: no broker answered, so that nobody knows whether it was begun.
            ReplicaError: it was refused (ALTER on the cluster is needed).
        """
        answer = self._connections.ask_any(changes.reassign(place, replicas), self._deadline(timeout_ms))
        changes.check_reassigned(place, answer)

    def elect(self, place: TopicPartition, *, timeout_ms: float | None = None) -> bool:
        """Have a partition's preferred leader lead; False where it is not in sync yet. Errors as of `reassign`."""
        return changes.check_elected(place, self._connections.ask_any(changes.elect(place), self._deadline(timeout_ms)))

    def reassignments(self, *, timeout_ms: float | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """By partition that is being reassigned, the brokers that are to hold it in the end (DESCRIBE on the cluster).

        Raises:
            Unreachable: no broker answered.
            ReplicaError: it was refused.
        """
        answer = self._connections.ask_any(requests.list_reassignments(), self._deadline(timeout_ms))
        return requests.reassignments_of(answer)

    def log_dirs(
        self, broker: int, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> list[LogDir]:
        """The log directories of a broker, and how large its replicas of partitions are.

        It needs DESCRIBE on the cluster.

        Raises:
            BrokerTooOld: the broker does not say how large the volumes are (below Kafka 3.3).
            ReplicaError: it could not be asked, or did not say.
        """
        request = requests.describe_log_dirs(partitions)
        return requests.log_dirs_of(broker, self._connections.exchange(broker, request, self._deadline(timeout_ms)))

    def log_dir_states(self, broker: int, *, timeout_ms: float | None = None) -> dict[str, bool]:
        """By path of a broker's log directories, whether it is online; this needs DESCRIBE on the cluster.

        Raises:
            ReplicaError: the broker could not be asked, or did not say.
        """
        request = requests.describe_log_dirs((), versions.LOG_DIR_STATES)
        return requests.log_dir_states_of(
            broker, self._connections.exchange(broker, request, self._deadline(timeout_ms))
        )

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
            max_bytes: limit for all records together; the first batch comes whole even if it is larger.
            max_wait_ms: how long the broker may wait for records; added to the deadline.
            timeout_ms: deadline of this call.

        Raises:
            ReplicaError: the broker as a whole could not be asked. An error of one partition is in its ``error``.
        """
        budget = (self._timeout_ms if timeout_ms is None else timeout_ms) + max_wait_ms
        end = time.monotonic() + budget / 1000
        while True:
            pending = self.begin_fetch(
                broker, positions, isolation=isolation, max_bytes=max_bytes, max_wait_ms=max_wait_ms, timeout_ms=budget
            )
            try:
                return pending.result(budget)
            except Throttled as told:
                budget = (end - time.monotonic()) * 1000 - told.wait_ms
                if budget <= 0:
                    raise
                time.sleep(told.wait_ms / 1000)

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
        """Send a Fetch and return without waiting for the answer; see :meth:`fetch`.

        Raises:
            ReadingPaused: this broker's records are not to be read (:meth:`pause`).
        """
        if self._is_paused(broker):
            raise ReadingPaused("no records are read of it: parallax resume has it read again", broker=broker)
        request = requests.fetch(positions, isolation=isolation, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        exchange = self._connections.begin(broker, request, self._deadline(timeout_ms))
        return PendingFetch(self._connections, broker, positions, exchange)

    def log_end_offsets(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | ReplicaError]:
        """Log end offsets of one broker's replicas, by ListOffsets, asked as Kafka's debugging replica."""
        places = Places.of(partitions)
        return _listed(places, *self._list_offsets(broker, places, requests.LATEST, versions.LIST_OFFSETS, timeout_ms))

    def local_log_starts(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | ReplicaError]:
        """The first offset that each of one broker's replicas holds itself.

        What is below is in tiered storage (KIP-405). Without tiered storage it is the log start.

        Raises:
            BrokerTooOld: the broker does not know of tiered storage (below Kafka 3.6).
            ReplicaError: the broker as a whole could not be asked.
        """
        places, accepted = Places.of(partitions), versions.LIST_LOCAL_OFFSETS
        return _listed(places, *self._list_offsets(broker, places, requests.EARLIEST_LOCAL, accepted, timeout_ms))

    def _list_offsets(
        self, broker: int, places: Places, timestamp: int, accepted: Versions, timeout_ms: float | None
    ) -> tuple[Array, dict[int, ReplicaError]]:
        request = looking.list_offsets(broker, places, timestamp, accepted)
        found: tuple[Array, dict[int, ReplicaError]]
        found = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return found

    def watermarks(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> Marks:
        """How far one broker's replicas go, without fetching a record: a Fetch at each log end offset.

        Args:
            broker: id of the broker to ask.
            partitions: the partitions to ask about. What can be prepared for `Places` is prepared only once.
            timeout_ms: deadline of this call.

        Returns:
            By partition, how far it goes or why that is not known; a mapping that also gives its columns.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        deadline, places = self._deadline(timeout_ms), Places.of(partitions)
        left_ms = deadline.remaining() * 1000
        ends, refused = self._list_offsets(broker, places, requests.LATEST, versions.LIST_OFFSETS, left_ms)
        request = looking.fetch_ends(broker, places, ends, refused)
        while True:
            said: Marks | ReplicaError = self._connections.exchange(broker, request, deadline)
            if isinstance(said, Marks):
                return said
            if not isinstance(said, Throttled) or deadline.remaining() <= said.wait_ms / 1000:
                raise said
            time.sleep(said.wait_ms / 1000)

    def describe_producers(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, list[ProducerState] | ReplicaError]:
        """The producers that one broker's replicas remember, with their open transactions (KIP-664)."""
        request = requests.describe_producers(partitions)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return requests.producers_of(broker, partitions, response)

    def list_transactions(
        self, producer_ids: Sequence[int] = (), *, timeout_ms: float | None = None
    ) -> TransactionListings:
        """Ask every broker for the transactions that it coordinates (KIP-664).

        These are all transactions, unless producer ids are given.
        """
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
        response = self._connections.exchange(broker, requests.list_transactions(producer_ids), deadline)
        return requests.transactions_of(broker, response)

    def describe_transactions(
        self, broker: int, transactional_ids: Sequence[str], *, timeout_ms: float | None = None
    ) -> list[TransactionListing]:
        """Ask a coordinator for transactions with their partitions, without those that it refuses (KIP-664)."""
        request = requests.describe_transactions(transactional_ids)
        return requests.described_transactions(
            broker, self._connections.exchange(broker, request, self._deadline(timeout_ms))
        )

    def may_describe_transactions(self, *, timeout_ms: float | None = None) -> bool:
        """Whether DESCRIBE on transactional ids in general is granted, or no authorizer asks for it.

        A coordinator leaves out of its list what may not be described, without an error. So this asks for an id that
        nobody has: the right is checked before the id is looked up (``KafkaApis.handleDescribeTransactionsRequest``).

        Raises:
            Unreachable: no broker answered.
        """
        request = requests.describe_transactions([f"parallax-{uuid4()}"])
        return requests.may_describe_transactions_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def groups(self, broker: int, *, timeout_ms: float | None = None) -> list[str]:
        """The ids of the consumer groups that a broker coordinates, as far as they may be described.

        Raises:
            ReplicaError: the broker could not be asked.
        """
        response = self._connections.exchange(broker, groups.list_groups(), self._deadline(timeout_ms))
        return groups.groups_of(broker, response)

    def committed(
        self, broker: int, ids: Sequence[str], place: TopicPartition, *, timeout_ms: float | None = None
    ) -> dict[str, int | ReplicaError]:
        """By group that has committed anything of a partition, the offset of the record that it reads next.

        Args:
            broker: which coordinates the groups.
            ids: of the groups.
            place: the partition; DESCRIBE on its topic and on the groups is needed.
            timeout_ms: deadline of this call.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        request = groups.fetch_committed(ids, place)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return groups.committed_of(broker, place, response)

    def may_describe_groups(self, *, timeout_ms: float | None = None) -> bool:
        """Whether DESCRIBE on consumer groups in general is granted, or no authorizer asks for it.

        Raises:
            Unreachable: no broker answered.
        """
        request = groups.fetch_committed([f"parallax-{uuid4()}"], TopicPartition("parallax", 0))
        return groups.may_describe_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def broker_configs(
        self, broker: int, names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, str] | ReplicaError:
        """Settings of one broker by name, or why the broker does not give them (it needs DESCRIBE_CONFIGS).

        Raises:
            ReplicaError: the broker could not be asked.
        """
        request = requests.describe_broker(broker, names)
        found = requests.configs_of(self._connections.exchange(broker, request, self._deadline(timeout_ms)))
        return found.get(str(broker), {})

    def end_offset_for_epoch(
        self, broker: int, topic: str, partition: int, leader_epoch: int, *, timeout_ms: float | None = None
    ) -> tuple[int, int] | None:
        """Where a leader epoch ends in one replica's log, by that replica's own epoch cache.

        Only the leader answers OffsetForLeaderEpoch. So this sends a Fetch v12 that claims to have fetched far beyond
        the log in that epoch. Any replica answers it with the epoch's true end (KIP-595's diverging epoch).

        Returns:
            (epoch, end offset) of the largest epoch not above ``leader_epoch``, or None if the replica knows none.
        """
        position = FetchPosition(topic, partition, 1 << 62, 1, leader_epoch)
        uncommitted = IsolationLevel.READ_UNCOMMITTED
        request = requests.fetch([position], isolation=uncommitted, max_bytes=1, accepted=versions.FETCH_WITH_EPOCH)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        answer = next((p for p in response.partitions if (p.topic, p.partition) == (topic, partition)), None)
        if answer is None:
            raise requests.left_out(broker, topic, partition)
        diverging = answer.diverging_epoch
        if answer.error_code not in (0, 1):
            raise from_code(answer.error_code, broker=broker, topic=topic, partition=partition)
        return None if answer.error_code == 1 or diverging is None or diverging[1] < 0 else diverging

    def close(self) -> None:
        """Close all idle connections; calls that still run end as they would."""
        self._connections.close()

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)


def _listed(
    places: Places, offsets: Array, errors: Mapping[int, ReplicaError]
) -> dict[TopicPartition, int | ReplicaError]:
    return {
        place: errors.get(at, offset) for at, (place, offset) in enumerate(zip(places, offsets.tolist(), strict=True))
    }


def watermarks_of(
    client: ReplicaClient, broker: int, place: TopicPartition, *, timeout_ms: float | None = None
) -> Watermarks:
    """How far one replica's log goes; for the arguments see `ReplicaClient.watermarks`.

    Raises:
        ReplicaError: the broker does not say.
    """
    marks = client.watermarks(broker, [place], timeout_ms=timeout_ms)[place]
    if isinstance(marks, ReplicaError):
        raise marks
    return marks


__all__ = [
    "FetchPosition",
    "FetchedPartition",
    "PartitionMetadata",
    "PendingFetch",
    "ProducerState",
    "ReplicaClient",
    "TopicMetadata",
    "TransactionListing",
    "TransactionListings",
    "Watermarks",
    "watermarks_of",
]
