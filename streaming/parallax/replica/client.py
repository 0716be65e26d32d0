"""A Kafka client whose caller chooses the broker that answers each request.

A consumer asks the leader. Parallax compares brokers, so a request here goes to one broker by its id, and is answered
from that broker's own log. `parallax.replica.versions` says which versions of the requests this needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from parallax.model import IsolationLevel, TopicPartition
from parallax.replica import changes, eligible, groups, looking, options, requests, versions
from parallax.replica.changes import EndMarker, MayRepair
from parallax.replica.connection import Deadline, ReceiveBuffer
from parallax.replica.connections import Connections, Exchange
from parallax.replica.errors import BrokerTooOld, DeadlineExceeded, ReadingPaused, ReplicaError, Throttled, from_code
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
    """A Fetch that has been sent to one broker, and whose answer can be waited for later."""

    def __init__(
        self, connections: Connections, broker: int, positions: Sequence[FetchPosition], exchange: Exchange
    ) -> None:
        self._connections = connections
        self._broker = broker
        self._positions = positions
        self._exchange = exchange
        self.throttle_ms = 0
        """For how many ms after its answer the broker answers nothing more on this connection (KIP-219)."""

    def result(self, timeout_ms: float, into: ReceiveBuffer | None = None) -> list[FetchedPartition]:
        """Wait for the answer to this Fetch.

        Args:
            timeout_ms: how long to wait from now, in milliseconds.
            into: memory to receive into; fresh memory by default. The next answer that is received into it overwrites
                this one.

        Returns:
            One answer for each position that the Fetch asked for, in the same order.

        Raises:
            Throttled: the answer has no records, because the client's quota is used up.
            ReplicaError: the broker as a whole could not be asked.
        """
        response = self._connections.finish(self._broker, self._exchange, Deadline(timeout_ms), into)
        if response.error_code:
            raise from_code(response.error_code, broker=self._broker)
        if not response.partitions and response.throttle_time_ms > 0:
            raise Throttled(response.throttle_time_ms, broker=self._broker)
        self.throttle_ms = response.throttle_time_ms
        return requests.fetched(self._broker, self._positions, response)

    def cancel(self) -> None:
        """Give up this Fetch and close its connection, on which the answer would still arrive."""
        self._exchange.drop()


class ReplicaClient:
    """Sends each request to the broker that the caller names by its id; thread-safe.

    Calls to different brokers run in parallel. Every call ends within its deadline, even if the broker hangs. After a
    failure the connection is closed, and the next call to that broker looks up its address again.

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
        """From now on, send no Fetch to paused brokers; they still get all other requests.

        Args:
            is_paused: called with a broker's id before each Fetch; returns whether reading that broker is paused.
        """
        self._is_paused = is_paused

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that this client asks; empty if it has none. The first access asks the cluster."""
        if self._connections.identity.cluster_id is None:
            self.metadata([])
        return self._connections.identity.cluster_id or ""

    def clusters(self, *, timeout_ms: float | None = None) -> dict[Address, str | ReplicaError]:
        """Find out which cluster answers at each address of ``bootstrap.servers``, and at each broker's address.

        Args:
            timeout_ms: how long each address has to answer, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By address, those of ``bootstrap.servers`` first: the id of the cluster that answers there, or the error if
                nobody does. It is ``OtherCluster`` if another cluster than the client's answers.
        """
        return self._connections.ask_each(self._timeout_ms if timeout_ms is None else timeout_ms)

    def brokers(self, *, timeout_ms: float | None = None) -> dict[int, Address]:
        """The address (host, port) of every broker by its id, brokers that have gone down since included.

        Args:
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker and no bootstrap server answered.
        """
        self._connections.ask_metadata([], self._deadline(timeout_ms))
        return dict(self._connections.addresses)

    def greeting(self, broker: int, *, timeout_ms: float | None = None) -> Greeting:
        """What a broker shows when a connection is made: version, TLS, and until when its certificate is valid.

        Args:
            broker: id of the broker.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker could not be reached.
        """
        return self._connections.greeting(broker, self._deadline(timeout_ms))

    def metadata(
        self, topics: Sequence[str] | None = None, *, timeout_ms: float | None = None
    ) -> dict[str, TopicMetadata]:
        """Topics by name, with their partitions, leaders and replicas; any broker may answer.

        Args:
            topics: names of topics; None for all topics, an empty list for none.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker and no bootstrap server answered; DeadlineExceeded if one had not answered in time.
        """
        return requests.topics_of(self._connections.ask_metadata(topics, self._deadline(timeout_ms)))

    def eligible_leaders(
        self, topics: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """The eligible leader replicas (ELR) of each partition: they may be elected if no replica is in sync (KIP-966).

        Any broker may answer.

        Args:
            topics: names of the topics.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By partition, the ids of the brokers. Partitions without any are left out. If the brokers do not know ELR
                yet, it is empty.

        Raises:
            Unreachable: no broker answered.
        """
        found: dict[TopicPartition, tuple[int, ...]] = {}
        deadline, after = self._deadline(timeout_ms), None
        try:
            while topics:
                response = self._connections.ask_any(eligible.describe(topics, after), deadline)
                found |= eligible.eligible_of(response)
                if (after := eligible.ended_at(response)) is None:
                    break
        except BrokerTooOld:
            return {}
        return found

    def topic_configs(
        self, topics: Sequence[str], names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, dict[str, str] | ReplicaError]:
        """Settings of topics as the brokers apply them (DescribeConfigs); any broker may answer.

        Args:
            topics: names of the topics.
            names: names of the settings.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By topic: the settings' values by name, or the error if the broker refuses (DESCRIBE_CONFIGS on the topic is
                needed).

        Raises:
            Unreachable: no broker answered.
        """
        request = requests.describe_configs(topics, names)
        return requests.configs_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def own_configs(
        self, broker: int, topics: Sequence[str], names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, dict[str, Config] | ReplicaError]:
        """The settings of topics as one broker applies them; each says whether it is the topic's own or a default.

        Args:
            broker: id of the broker.
            topics: names of the topics.
            names: names of the settings.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By topic: the settings by name, or the error if the broker refuses for this topic.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        request = requests.describe_configs(topics, names)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return requests.own_configs_of(broker, response)

    def may_alter_configs(self, topics: Sequence[str], *, timeout_ms: float | None = None) -> dict[str, bool]:
        """Whether the user may change the settings of topics (ALTER_CONFIGS), by topic. This only asks.

        Topics that no broker shows the user are left out.

        Args:
            topics: names of the topics.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered.
        """
        answer = self._connections.ask_any(requests.operations(topics), self._deadline(timeout_ms))
        return requests.may_alter_configs_of(answer)

    def alter_configs(self, topic: str, settings: Mapping[str, str | None], *, timeout_ms: float | None = None) -> None:
        """Change settings of a topic; any broker may be asked.

        Args:
            topic: the topic's name.
            settings: the new value of each setting, by the setting's name; None removes the topic's own value.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered, so it is unknown whether the change was made.
            ReplicaError: the change was refused (ALTER_CONFIGS on the topic is needed).
        """
        request = changes.alter_configs(topic, settings)
        changes.check_altered(topic, self._connections.ask_any(request, self._deadline(timeout_ms)))

    def write_end_marker(self, leader: int, marker: EndMarker, *, timeout_ms: float | None = None) -> None:
        """Make a partition's leader write an end marker, which ends the producer's open transaction for good.

        Args:
            leader: id of the broker that leads the partition.
            marker: the marker; it names the partition.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable, DeadlineExceeded: the leader did not answer, so it is unknown whether it wrote the marker.
            ReplicaError: the marker was refused (see `changes.MARKER_RIGHTS`).
        """
        response = self._connections.exchange(leader, changes.write_end_marker(marker), self._deadline(timeout_ms))
        changes.check_written(leader, marker, response)

    def may_repair(self, *, timeout_ms: float | None = None) -> MayRepair | None:
        """The user's permissions on the cluster that a repair needs. This only asks.

        Which permission is enough to write end markers depends on the oldest live broker's version.

        Args:
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            The permissions; None if the user lacks DESCRIBE on the cluster.

        Raises:
            ReplicaError: a live broker did not answer.
        """
        deadline = self._deadline(timeout_ms)
        answer = self._connections.ask_any(changes.cluster_operations(), deadline)
        shown = [self._connections.greeting(broker.broker_id, deadline).version for broker in answer.brokers]
        return changes.may_repair_of(answer, min(shown))

    def reassign(
        self, place: TopicPartition, replicas: Sequence[int] | None, *, timeout_ms: float | None = None
    ) -> None:
        """Begin to reassign a partition to exactly the given brokers, or cancel the reassignment that is under way.

        Args:
            place: the partition.
            replicas: ids of the brokers, the preferred leader first; None to cancel, which changes nothing where no
                reassignment is under way.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable, DeadlineExceeded: no broker answered, so it is unknown whether it was taken.
            ReplicaError: it was refused (ALTER on the cluster is needed).
        """
        answer = self._connections.ask_any(changes.reassign(place, replicas), self._deadline(timeout_ms))
        changes.check_reassigned(place, answer)

    def elect(self, place: TopicPartition, *, timeout_ms: float | None = None) -> bool:
        """Elect a partition's preferred leader; returns whether it leads now, False if it is not in sync yet.

        Args:
            place: the partition.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable, DeadlineExceeded: no broker answered, so it is unknown whether the election took place.
            ReplicaError: the election was refused (ALTER on the cluster is needed).
        """
        return changes.check_elected(place, self._connections.ask_any(changes.elect(place), self._deadline(timeout_ms)))

    def reassignments(self, *, timeout_ms: float | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """All partitions that are being reassigned, each with the ids of the brokers that will hold it in the end.

        It needs DESCRIBE on the cluster.

        Args:
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered.
            ReplicaError: the brokers did not say.
        """
        answer = self._connections.ask_any(requests.list_reassignments(), self._deadline(timeout_ms))
        return requests.reassignments_of(answer)

    def log_dirs(
        self, broker: int, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> list[LogDir]:
        """The log directories of a broker, with the sizes of its replicas of some partitions.

        It needs DESCRIBE on the cluster.

        Args:
            broker: id of the broker.
            partitions: the partitions whose replicas' sizes are wanted.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            BrokerTooOld: the broker does not say how large the volumes are (below Kafka 3.3).
            ReplicaError: the broker could not be asked, or did not say.
        """
        request = requests.describe_log_dirs(partitions)
        return requests.log_dirs_of(broker, self._connections.exchange(broker, request, self._deadline(timeout_ms)))

    def log_dir_states(self, broker: int, *, timeout_ms: float | None = None) -> dict[str, bool]:
        """Whether each log directory of a broker is online, by its path. This needs DESCRIBE on the cluster.

        Args:
            broker: id of the broker.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

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
            positions: what to fetch.
            isolation: read_committed answers end at the replica's last stable offset and list aborted transactions.
            max_bytes: limit for all records together; the first batch comes whole even if it is larger.
            max_wait_ms: how long the broker may wait for records, in milliseconds; added to the deadline.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            One answer for each position, in the same order.

        Raises:
            ReplicaError: the broker as a whole could not be asked. An error about one partition is in the ``error`` of
                that partition's answer.
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
        """Send a Fetch and return without waiting for its answer, for which `PendingFetch.result` waits.

        Args:
            broker: id of the broker to ask.
            positions: what to fetch.
            isolation: read_committed answers end at the replica's last stable offset and list aborted transactions.
            max_bytes: limit for all records together; the first batch comes whole even if it is larger.
            max_wait_ms: how long the broker may wait for records, in milliseconds.
            timeout_ms: how long connecting and sending may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReadingPaused: reading this broker is paused (:meth:`pause`).
            ReplicaError: the broker could not be reached.
        """
        if self._is_paused(broker):
            raise ReadingPaused("no records are read of it: parallax resume has it read again", broker=broker)
        request = requests.fetch(positions, isolation=isolation, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        exchange = self._connections.begin(broker, request, self._deadline(timeout_ms))
        return PendingFetch(self._connections, broker, positions, exchange)

    def log_end_offsets(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | ReplicaError]:
        """The log end offset of one broker's replicas by partition, or the error if a replica did not answer.

        The request is ListOffsets with the replica id that Kafka reserves for debugging, which followers answer too.

        Args:
            broker: id of the broker.
            partitions: the partitions to ask about.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        places = Places.of(partitions)
        return _listed(places, *self._list_offsets(broker, places, requests.LATEST, versions.LIST_OFFSETS, timeout_ms))

    def local_log_starts(
        self, broker: int, partitions: Sequence[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int | ReplicaError]:
        """The first offset on the disk of one broker's replicas, by partition, or the error if one did not answer.

        Lower offsets are in tiered storage (KIP-405). Without tiered storage the value is the log start.

        Args:
            broker: id of the broker.
            partitions: the partitions to ask about.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

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
        """Log start, LSO, high watermark and log end of one broker's replicas, by partition. No record is fetched.

        It asks for the log ends first, and then sends a Fetch at these offsets, whose answer has the other three.

        Args:
            broker: id of the broker to ask.
            partitions: the partitions to ask about. Given as `Places`, repeated calls are faster.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By partition, the four offsets, or the error if its replica did not answer.

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
        """The producers that one broker's replicas remember, by partition, with their open transactions (KIP-664).

        If a replica did not answer, its partition's value is the error.

        Args:
            broker: id of the broker.
            partitions: the partitions to ask about.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        request = requests.describe_producers(partitions)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return requests.producers_of(broker, partitions, response)

    def list_transactions(
        self, producer_ids: Sequence[int] = (), *, timeout_ms: float | None = None
    ) -> TransactionListings:
        """The transactions that each broker coordinates, and which brokers did not answer (KIP-664).

        Args:
            producer_ids: list only transactions of these producers; all if empty.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered where the brokers are.
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
        return TransactionListings(listed, unanswered, frozenset(brokers) - unanswered.keys())

    def _list_transactions(
        self, broker: int, producer_ids: Sequence[int], deadline: Deadline
    ) -> list[TransactionListing]:
        response = self._connections.exchange(broker, requests.list_transactions(producer_ids), deadline)
        return requests.transactions_of(broker, response)

    def describe_transactions(
        self, broker: int, transactional_ids: Sequence[str], *, timeout_ms: float | None = None
    ) -> list[TransactionListing]:
        """Some transactions with their partitions, as the broker that coordinates them describes them (KIP-664).

        Transactions that this broker refuses to describe are left out.

        Args:
            broker: id of the broker that coordinates them.
            transactional_ids: the transactional ids.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker could not be asked.
        """
        request = requests.describe_transactions(transactional_ids)
        return requests.described_transactions(
            broker, self._connections.exchange(broker, request, self._deadline(timeout_ms))
        )

    def may_describe_transactions(self, *, timeout_ms: float | None = None) -> bool:
        """Whether the user may see all transactions: has DESCRIBE on all transactional ids, or does not need it.

        Without this permission, a coordinator silently leaves transactions out of its list. So this asks a coordinator
        to describe an id that no transaction has. A coordinator checks the permission before it looks for the id
        (``KafkaApis.handleDescribeTransactionsRequest``).

        Args:
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered.
        """
        request = requests.describe_transactions([f"parallax-{uuid4()}"])
        return requests.may_describe_transactions_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def groups(self, broker: int, *, timeout_ms: float | None = None) -> list[str]:
        """The ids of the consumer groups that a broker coordinates and that the user may describe, sorted.

        Args:
            broker: id of the broker.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker could not be asked.
        """
        response = self._connections.exchange(broker, groups.list_groups(), self._deadline(timeout_ms))
        return groups.groups_of(broker, response)

    def committed(
        self, broker: int, ids: Sequence[str], place: TopicPartition, *, timeout_ms: float | None = None
    ) -> dict[str, int | ReplicaError]:
        """The offset that each of some consumer groups has committed in a partition, that is, will read next.

        Args:
            broker: id of the broker that coordinates the groups.
            ids: ids of the groups.
            place: the partition; DESCRIBE on its topic and on the groups is needed.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            By the group's id, the offset, or the error if it is not known. Groups that have committed nothing in the
                partition are left out.

        Raises:
            ReplicaError: the broker as a whole could not be asked.
        """
        request = groups.fetch_committed(ids, place)
        response = self._connections.exchange(broker, request, self._deadline(timeout_ms))
        return groups.committed_of(broker, place, response)

    def may_describe_groups(self, *, timeout_ms: float | None = None) -> bool:
        """Whether the user may see all consumer groups: has DESCRIBE on groups of any name, or does not need it.

        Args:
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            Unreachable: no broker answered.
        """
        request = groups.fetch_committed([f"parallax-{uuid4()}"], TopicPartition("parallax", 0))
        return groups.may_describe_of(self._connections.ask_any(request, self._deadline(timeout_ms)))

    def broker_configs(
        self, broker: int, names: Sequence[str], *, timeout_ms: float | None = None
    ) -> dict[str, str] | ReplicaError:
        """Settings of one broker by name, or the error if it refuses (DESCRIBE_CONFIGS on the cluster is needed).

        Args:
            broker: id of the broker.
            names: names of the settings.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Raises:
            ReplicaError: the broker could not be asked.
        """
        request = requests.describe_broker(broker, names)
        found = requests.configs_of(self._connections.exchange(broker, request, self._deadline(timeout_ms)))
        return found.get(str(broker), {})

    def end_offset_for_epoch(
        self, broker: int, topic: str, partition: int, leader_epoch: int, *, timeout_ms: float | None = None
    ) -> tuple[int, int] | None:
        """At which offset a leader epoch ends in one replica's log, by that replica's own epoch cache.

        Only the leader answers OffsetForLeaderEpoch. So this sends a Fetch v12 that says that the epoch was read far
        beyond the log's end. Any replica answers it with the epoch's true end (KIP-595's diverging epoch).

        Args:
            broker: id of the broker whose replica is asked.
            topic: the topic's name.
            partition: the partition's number.
            leader_epoch: the leader epoch.
            timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

        Returns:
            (epoch, end offset) of the largest epoch not above ``leader_epoch``, or None if the replica knows none.

        Raises:
            ReplicaError: the broker could not be asked, or not about this partition.
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
        """Close all idle connections; calls that are under way still end normally."""
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
    """Log start, LSO, high watermark and log end of one replica.

    Args:
        client: asks the broker.
        broker: id of the broker to ask.
        place: the partition.
        timeout_ms: how long this call may take, in milliseconds; None for the client's ``timeout_ms``.

    Raises:
        ReplicaError: the broker did not answer, or not for this partition.
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
