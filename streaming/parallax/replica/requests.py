"""Makes the requests that only read, and turns their responses into the plain values of `parallax.replica.types`.

It sends nothing. Requests that change something on the cluster are made in `parallax.replica.changes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListPartitionReassignmentsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from parallax.model import IsolationLevel, MissingRight, TopicPartition
from parallax.replica import topic_ids, versions
from parallax.replica.errors import NotHosted, ReplicaError, Unsupported, from_code
from parallax.replica.fetch_response import FetchAnswer, PartitionAnswer
from parallax.replica.old_format import as_batches, is_old
from parallax.replica.types import (
    Config,
    FetchedPartition,
    FetchPosition,
    LogDir,
    PartitionMetadata,
    ProducerState,
    TopicMetadata,
    TransactionListing,
)
from parallax.replica.versions import Versions

LATEST, EARLIEST_LOCAL = -1, -4
"""ListOffsets' special timestamps; asked by the debugging replica, LATEST is the log end offset."""

_CONSUMER = -1
_TOPIC, _BROKER = 2, 4
"""DescribeConfigs' resource types (``ConfigResource.Type``)."""
_INVALID_REQUEST, _ANOTHER_BROKER = 42, "nexpected broker id"
"""How a broker refuses to describe another broker (``ConfigHelper.describeConfigs``, every version since 0.11)."""
_DYNAMIC_TOPIC_CONFIG = 1
_TRANSACTIONAL_ID_REFUSED = 53
"""``TRANSACTIONAL_ID_AUTHORIZATION_FAILED``; what may be described and is nowhere has another code."""
_OFFLINE = 56
"""``KAFKA_STORAGE_ERROR``, of a log directory: it is offline (``ReplicaManager.describeLogDirs``)."""
_ALTER_CONFIGS = 11
"""Its code in ``org.apache.kafka.common.acl.AclOperation``."""

T = TypeVar("T")


class Request(NamedTuple):
    """A request of kafka-python (kafka.protocol), and the versions in which it may be sent."""

    message: Any
    versions: Versions


def metadata(topics: Sequence[str] | None) -> Request:
    """Make a Metadata request for topics by name; None asks for all, and an empty list for none."""
    kind = MetadataRequest.MetadataRequestTopic
    names = None if topics is None else [kind(name=name) for name in topics]
    return Request(MetadataRequest(topics=names, allow_auto_topic_creation=False), versions.METADATA)


def operations(topics: Sequence[str]) -> Request:
    """Make a Metadata request that also asks what the client's user may do with the topics (KIP-430)."""
    named = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=named, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    return Request(request, versions.METADATA_WITH_OPERATIONS)


def may_alter_configs_of(response: Any) -> dict[str, bool]:
    """Whether the user may change the settings of each topic (ALTER_CONFIGS), from the response to `operations`.

    Topics for which the response does not say so are left out.

    Args:
        response: the response.
    """
    return {
        topic.name: _ALTER_CONFIGS in topic.authorized_operations
        for topic in response.topics
        if not topic.error_code and topic.authorized_operations is not None
    }


def topics_of(response: Any) -> dict[str, TopicMetadata]:
    """The topics in the response to `metadata`, by name.

    Args:
        response: the response.
    """
    return {topic.name: _topic(topic) for topic in response.topics if topic.name}


def _topic(answer: Any) -> TopicMetadata:
    topic_id = "" if answer.topic_id is None else topic_ids.text(answer.topic_id.bytes)
    partitions = {
        item.partition_index: PartitionMetadata(
            leader=item.leader_id,
            leader_epoch=item.leader_epoch,
            replicas=tuple(item.replica_nodes),
            isr=tuple(item.isr_nodes),
        )
        for item in answer.partitions or ()
    }
    # LEADER_NOT_AVAILABLE (5) shows as leader -1 of its partitions.
    error = None
    if answer.error_code not in (0, 5):
        error = from_code(answer.error_code, topic=answer.name, needs=MissingRight.DESCRIBE)
    return TopicMetadata(answer.name, topic_id, dict(sorted(partitions.items())), error)


def describe_configs(topics: Sequence[str], names: Sequence[str]) -> Request:
    """Make the request for settings of topics (DescribeConfigs).

    Args:
        topics: names of the topics.
        names: names of the settings.
    """
    kind = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [kind(resource_type=_TOPIC, resource_name=t, configuration_keys=list(names)) for t in topics]
    return Request(DescribeConfigsRequest(resources=wanted), versions.DESCRIBE_CONFIGS)


def configs_of(response: Any) -> dict[str, dict[str, str] | ReplicaError]:
    """The values of settings, by topic and name, from the response to `describe_configs` or `describe_broker`.

    If a broker refuses for a topic, the topic's value is the error. Settings without a value are left out. For
    `describe_broker`, the broker's id as text takes the topic's place.

    Args:
        response: the response.
    """
    return {
        result.resource_name: from_code(
            result.error_code, topic=result.resource_name, needs=MissingRight.DESCRIBE_CONFIGS
        )
        if result.error_code
        else {config.name: config.value for config in result.configs if config.value is not None}
        for result in response.results
    }


def own_configs_of(broker: int, response: Any) -> dict[str, dict[str, Config] | ReplicaError]:
    """The settings of topics as one broker applies them, from its response to `describe_configs`.

    Args:
        broker: id of the broker, for errors.
        response: the response.

    Returns:
        By topic: the settings by name, or the error if the broker refused. Each setting says whether it is the topic's
            own value or a default of the broker. Settings without a value are left out.
    """
    return {
        result.resource_name: from_code(
            result.error_code, broker=broker, topic=result.resource_name, needs=MissingRight.DESCRIBE_CONFIGS
        )
        if result.error_code
        else {
            config.name: Config(config.value, config.config_source == _DYNAMIC_TOPIC_CONFIG)
            for config in result.configs
            if config.value is not None
        }
        for result in response.results
    }


def describe_broker(broker: int, names: Sequence[str]) -> Request:
    """Make the request for settings of the broker that it is sent to; a broker refuses it for another broker's id.

    Args:
        broker: the broker's id.
        names: names of the settings.
    """
    kind = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [kind(resource_type=_BROKER, resource_name=str(broker), configuration_keys=list(names))]
    return Request(DescribeConfigsRequest(resources=wanted), versions.DESCRIBE_CONFIGS)


def who_answers(broker: int) -> Request:
    """Make a request that only the broker with a given id serves; `is_another` reads the answer.

    Args:
        broker: the id.
    """
    return describe_broker(broker, ["broker.id"])


def is_another(response: Any) -> bool | None:
    """Whether a broker with another id than the intended one answered, from the response to `who_answers`.

    None if the response does not say, as when DESCRIBE_CONFIGS on the cluster is missing.

    Args:
        response: the response.
    """
    codes = {(result.error_code, result.error_message or "") for result in response.results}
    if any(code == _INVALID_REQUEST and _ANOTHER_BROKER in message for code, message in codes):
        return True
    return None if not codes or any(code for code, _ in codes) else False


def list_reassignments() -> Request:
    """Make the request for all reassignments that are under way (KIP-455)."""
    return Request(ListPartitionReassignmentsRequest(topics=None), versions.LIST_PARTITION_REASSIGNMENTS)


def reassignments_of(response: Any) -> dict[TopicPartition, tuple[int, ...]]:
    """All partitions that are being reassigned, each with the ids of the brokers that will hold it in the end.

    Args:
        response: the response to `list_reassignments`.

    Raises:
        ReplicaError: the request was refused.
    """
    if response.error_code:
        raise from_code(response.error_code, detail=response.error_message or "", needs=MissingRight.CLUSTER)
    return {
        TopicPartition(topic.name, part.partition_index): tuple(
            broker for broker in part.replicas if broker not in part.removing_replicas
        )
        for topic in response.topics
        for part in topic.partitions
    }


def describe_log_dirs(partitions: Iterable[TopicPartition], accepted: Versions = versions.DESCRIBE_LOG_DIRS) -> Request:
    """Make the request for a broker's log directories, and for the sizes of some partitions in them.

    Args:
        partitions: the partitions; none if only the directories are wanted.
        accepted: the acceptable versions of the request.
    """
    kind = DescribeLogDirsRequest.DescribableLogDirTopic
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    wanted = [kind(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
    return Request(DescribeLogDirsRequest(topics=wanted), accepted)


def log_dirs_of(broker: int, response: Any) -> list[LogDir]:
    """The log directories of a broker, from the response to `describe_log_dirs`.

    Args:
        broker: id of the broker, for the error.
        response: the response.

    Raises:
        ReplicaError: the broker refused, or one of the directories has failed.
    """
    codes = [response.error_code or 0, *(one.error_code for one in response.results)]
    if any(codes):
        raise from_code(next(filter(None, codes)), broker=broker, needs=MissingRight.CLUSTER)
    if not response.results:
        # Without DESCRIBE on the cluster the list is empty, without an error.
        raise from_code(31, broker=broker, needs=MissingRight.CLUSTER)
    return [
        LogDir(
            one.log_dir,
            one.total_bytes,
            one.usable_bytes,
            {
                TopicPartition(topic.name, part.partition_index): part.partition_size
                for topic in one.topics
                for part in topic.partitions
            },
        )
        for one in response.results
    ]


def log_dir_states_of(broker: int, response: Any) -> dict[str, bool]:
    """Whether each log directory of a broker is online, by its path, from the response to `describe_log_dirs`.

    Args:
        broker: id of the broker, for the error.
        response: the response.

    Raises:
        ReplicaError: the broker refused.
    """
    if response.error_code or not response.results:
        # Without DESCRIBE on the cluster the list is empty, up to version 2 without an error.
        raise from_code(response.error_code or 31, broker=broker, needs=MissingRight.CLUSTER)
    for code in {one.error_code for one in response.results} - {0, _OFFLINE}:
        raise from_code(code, broker=broker, needs=MissingRight.CLUSTER)
    return {one.log_dir: one.error_code != _OFFLINE for one in response.results}


def fetch(
    positions: Sequence[FetchPosition],
    *,
    isolation: IsolationLevel,
    max_bytes: int,
    max_wait_ms: int = 0,
    accepted: Versions | None = None,
) -> Request:
    """Make a Fetch of records from one broker's replicas, as a consumer of an isolation level.

    Topics are named by id if each position has an id and the broker speaks that version.

    Args:
        positions: the offset to begin at, for each partition.
        isolation: the isolation level.
        max_bytes: limit for all records together.
        max_wait_ms: how long the broker may wait for records, in milliseconds.
        accepted: the acceptable versions, if not the usual ones.
    """
    kind = FetchRequest.FetchTopic
    grouped: dict[tuple[str, str], list[Any]] = {}
    for position in positions:
        partition = kind.FetchPartition(
            partition=position.partition,
            current_leader_epoch=-1,
            fetch_offset=position.offset,
            last_fetched_epoch=position.after_epoch,
            log_start_offset=-1,
            partition_max_bytes=position.max_bytes,
        )
        grouped.setdefault((position.topic, position.topic_id), []).append(partition)
    if accepted is None:
        accepted = versions.FETCH_BY_ID if all(topic_id for _, topic_id in grouped) else versions.FETCH
    is_named = accepted.highest < versions.FETCH_BY_ID.highest
    message = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=int(isolation),
        # Session 0 with epoch -1 is a Fetch without a session: nothing to keep or lose on the broker (KIP-227).
        session_id=0,
        session_epoch=-1,
        topics=[
            kind(topic=topic, topic_id=None if is_named else topic_ids.of(topic_id), partitions=partitions)
            for (topic, topic_id), partitions in grouped.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    return Request(message, accepted)


def fetched(broker: int, positions: Sequence[FetchPosition], response: FetchAnswer) -> list[FetchedPartition]:
    """Turn a Fetch response into one `FetchedPartition` for each requested position, in their order.

    Args:
        broker: id of the broker that answered, for errors.
        positions: what the Fetch asked for.
        response: the response.
    """
    answers = {(p.topic, p.topic_id, p.partition): p for p in response.partitions}
    found = (
        answers.get(("", position.topic_id, position.partition))
        or answers.get((position.topic, "", position.partition))
        for position in positions
    )
    return [fetched_one(broker, position, answer) for position, answer in zip(positions, found, strict=True)]


def fetched_one(broker: int, position: FetchPosition, answer: PartitionAnswer | None) -> FetchedPartition:
    """Turn the part of a Fetch response that is about one position into a `FetchedPartition`.

    Args:
        broker: id of the broker that answered, for errors.
        position: what the Fetch asked for.
        answer: the part of the response; None if the response has none about that partition.
    """
    topic, partition = position.topic, position.partition
    error: ReplicaError | None = None
    if answer is None:
        error = left_out(broker, topic, partition)
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
        records=as_batches(answer.records) if is_old(answer.records) else answer.records,
        diverging=answer.diverging_epoch,
    )


def describe_producers(partitions: Sequence[TopicPartition]) -> Request:
    """Make the request for the producers that a broker's replicas remember (KIP-664); followers answer too."""
    kind = DescribeProducersRequest.TopicRequest
    topics = [kind(name=topic, partition_indexes=indexes) for topic, indexes in _by_topic(partitions).items()]
    return Request(DescribeProducersRequest(topics=topics), versions.DESCRIBE_PRODUCERS)


def producers_of(
    broker: int, partitions: Sequence[TopicPartition], response: Any
) -> dict[TopicPartition, list[ProducerState] | ReplicaError]:
    """The producers that each partition's replica remembers, from the response to `describe_producers`.

    Args:
        broker: id of the broker that answered, for errors.
        partitions: the partitions that were asked about.
        response: the response.

    Returns:
        By partition, the producers; or the error if the broker refused, or left the partition out.
    """
    return _each(broker, partitions, response, _producers, MissingRight.READ)


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


def list_transactions(producer_ids: Sequence[int]) -> Request:
    """Make the request for the transactions that a broker coordinates (KIP-664).

    Args:
        producer_ids: list only transactions of these producers; all if empty.
    """
    message = ListTransactionsRequest(state_filters=[], producer_id_filters=list(producer_ids), duration_filter=-1)
    return Request(message, versions.LIST_TRANSACTIONS)


def transactions_of(broker: int, response: Any) -> list[TransactionListing]:
    """The transactions in the response to `list_transactions` of one coordinator.

    Args:
        broker: id of the coordinator.
        response: the response.

    Raises:
        ReplicaError: the coordinator refused to list them.
    """
    if response.error_code:
        raise from_code(response.error_code, broker=broker)
    return [
        TransactionListing(state.transactional_id, state.producer_id, state.transaction_state, broker)
        for state in response.transaction_states
    ]


def describe_transactions(transactional_ids: Sequence[str]) -> Request:
    """Make the request for details of some transactions; send it to the broker that coordinates them (KIP-664).

    Args:
        transactional_ids: the transactional ids.
    """
    return Request(
        DescribeTransactionsRequest(transactional_ids=list(transactional_ids)), versions.DESCRIBE_TRANSACTIONS
    )


def described_transactions(broker: int, response: Any) -> list[TransactionListing]:
    """The transactions with their partitions, in a coordinator's response to `describe_transactions`.

    Transactions that the broker refuses to describe, or no longer coordinates, are left out.

    Args:
        broker: id of the coordinator.
        response: the response.
    """
    return [
        TransactionListing(
            state.transactional_id,
            state.producer_id,
            state.transaction_state,
            broker,
            frozenset(TopicPartition(t.topic, partition) for t in state.topics for partition in t.partitions),
            state.transaction_start_time_ms,
        )
        for state in response.transaction_states
        if not state.error_code
    ]


def may_describe_transactions_of(response: Any) -> bool:
    """Whether the user has permission to describe the transactions of a response to `describe_transactions`.

    The transactions need not exist, because a broker checks the permission before it looks for them.

    Args:
        response: the response.
    """
    return all(state.error_code != _TRANSACTIONAL_ID_REFUSED for state in response.transaction_states)


def left_out(broker: int, topic: str, partition: int) -> NotHosted:
    """The error for a partition that a broker's response does not contain, though it was asked about.

    Args:
        broker: id of the broker.
        topic: the topic's name.
        partition: the partition's number.
    """
    return NotHosted("the broker's answer leaves it out", broker=broker, topic=topic, partition=partition)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _each(
    broker: int, partitions: Sequence[TopicPartition], response: Any, use: Callable[[Any], T], needs: MissingRight
) -> dict[TopicPartition, T | ReplicaError]:
    """By partition, what its answer says, or the error for its error code."""
    answers: Mapping[TopicPartition, Any] = {
        TopicPartition(t.name, p.partition_index): p for t in response.topics for p in t.partitions
    }
    found: dict[TopicPartition, T | ReplicaError] = {}
    for place in partitions:
        answer = answers.get(place)
        if answer is None:
            found[place] = left_out(broker, *place)
        elif answer.error_code:
            said: dict[str, Any] = {"broker": broker, "topic": place[0], "partition": place[1]}
            found[place] = from_code(answer.error_code, needs=needs, **said)
        else:
            found[place] = use(answer)
    return found
