"""Does to a cluster what an operator does: moves leaders and replicas, changes topics, loses a disk.

It uses confluent_kafka's AdminClient, and kafka-python's for elections and reassignments. A function that changes
something returns when the brokers' metadata show the change.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaError as RefusedError
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    KafkaError,
    NoError,
    PreferredLeaderNotAvailableError,
    for_code,
)
from kafka.structs import OffsetAndMetadata

from parallax.lab.asking import SECONDS, answers
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError
from parallax.lab.waiting import until
from parallax.model import TopicPartition as ReplicaPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

_T = TypeVar("_T")

_CHECKPOINTS = (
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
"""Files in a log folder: a version, a count, then ``topic partition offset`` a line (OffsetCheckpointFile)."""


# --- leaders and replicas -------------------------------------------------------------------------------------------


def elect_leaders(
    cluster: Cluster, topic: str, partition: int = 0, *, broker: int | None = None, unclean: bool = False
) -> int:
    """Make the controller elect a partition's leader; returns its id once every broker names it as the leader.

    Args:
        cluster: the cluster.
        topic: name of the topic.
        partition: the partition's number.
        broker: id of the broker that is to lead; it is made the preferred leader first. It cannot be chosen in an
            unclean election. None for the one that the controller elects.
        unclean: if no replica in sync is left, elect one that is not in sync.

    Raises:
        LabError: the brokers refuse, or some broker still names another leader after five minutes.
    """
    if broker is not None and not unclean:
        _prefer(cluster, topic, partition, broker)
    what = f"{topic}-{partition}: election of {'a leader' if broker is None else f'broker {broker}'}"

    def elected(admin: KafkaAdminClient) -> int | None:
        answer = admin.elect_leaders(int(unclean), {topic: [partition]}, timeout_ms=10_000, raise_errors=False)
        for result in (r for t in answer.replica_election_results for r in t.partition_result):
            if for_code(result.error_code) not in _NO_REFUSAL:
                raise LabError(f"{what} was refused ({for_code(result.error_code).__name__})")
        leader = cluster.named_leader(topic, partition)
        return leader if broker in (None, leader) else None

    with _kafka_python(cluster, what) as admin:
        return until(lambda: _unless_away(lambda: elected(admin)), what, interval=0.2)


_NO_REFUSAL = (NoError, ElectionNotNeededError, PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError)
"""Answers that refuse nothing.

A broker that has just come back is not eligible yet, so the controller is asked again.
"""


def _prefer(cluster: Cluster, topic: str, partition: int, broker: int) -> None:
    state = _known(cluster, topic, partition)
    if broker not in state:
        raise LabError(f"{topic}-{partition}: broker {broker} is no replica of it ({', '.join(map(str, state))} are)")
    reassign(cluster, topic, partition, replicas=[broker, *(other for other in state if other != broker)])


def _known(cluster: Cluster, topic: str, partition: int) -> list[int]:
    state = until(lambda: cluster.partition(topic, partition), f"{topic}-{partition} to be known")
    return sorted(state.replicas)


def reassign(cluster: Cluster, topic: str, partition: int = 0, *, replicas: Sequence[int]) -> None:
    """Move a partition to other brokers, and wait until all of them are in sync.

    A broker that is not in ``replicas`` deletes its replica from disk. If a later call assigns the partition to it
    again, it begins with an empty log.

    Args:
        cluster: the cluster.
        topic: name of the topic.
        partition: the partition's number.
        replicas: ids of the brokers, the preferred leader first.

    Raises:
        LabError: the brokers refuse, or the move takes more than five minutes.
    """
    what = f"{topic}-{partition}: reassignment to brokers {', '.join(map(str, replicas))}"
    place = KafkaPythonPartition(topic, partition)
    with _kafka_python(cluster, what) as admin:
        answer = until(lambda: _unless_away(lambda: admin.alter_partition_reassignments({place: list(replicas)})), what)
        if answer[place] is not None:
            raise LabError(f"{what} was refused ({answer[place].__name__})")
        listed = partial(admin.list_partition_reassignments, [place])
        until(lambda: _unless_away(listed) == {}, what, interval=0.2)
    wanted = frozenset(replicas)

    def moved() -> bool:
        said = cluster.everywhere(topic, partition)
        return bool(said) and all(
            state is not None and state.replicas == state.isr == wanted and state.leader in wanted for state in said
        )

    until(moved, f"{what} to show in the metadata", interval=0.2)


def wipe_replica(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> None:
    """Delete a partition's folder from the disk of a broker that is down, as if the disk had been replaced.

    Args:
        cluster: the cluster.
        broker: id of the broker.
        topic: name of the topic.
        partition: the partition's number.

    Raises:
        LabError: the broker runs, or holds no such partition.
    """
    if cluster.brokers[broker].running:
        raise LabError(f"broker {broker} runs; stop it before its disk is wiped")
    data = cluster.brokers[broker].folder / "data"
    folder = data / f"{topic}-{partition}"
    if not folder.is_dir():
        raise LabError(f"broker {broker} holds no {topic}-{partition} ({folder} is not there)")
    shutil.rmtree(folder)
    for name in _CHECKPOINTS:
        _strike_out(data / name, topic, partition)


def lose_head(cluster: Cluster, broker: int, topic: str, partition: int = 0, *, segments: int) -> int:
    """Delete the first segments of a partition from the disk of a broker that is down.

    Args:
        cluster: the cluster.
        broker: id of the broker.
        topic: the topic's name.
        partition: the partition's number.
        segments: how many segments to delete; at least one other must be left.

    Returns:
        The offset at which the log begins now.

    Raises:
        LabError: the broker runs, or no segment would be left.
    """
    if cluster.brokers[broker].running:
        raise LabError(f"broker {broker} runs; stop it before it loses anything")
    folder = cluster.brokers[broker].folder / "data" / f"{topic}-{partition}"
    bases = sorted(path.stem for path in folder.glob("*.log"))
    if len(bases) <= segments:
        raise LabError(f"broker {broker} holds {len(bases)} segments of {topic}-{partition}, no more than {segments}")
    for base in bases[:segments]:
        for path in folder.glob(f"{base}.*"):
            path.unlink()
    return int(bases[segments])


def _strike_out(checkpoint: Path, topic: str, partition: int) -> None:
    """Take a partition out of a checkpoint file; one that was never written is empty, or not there."""
    lines = checkpoint.read_text(encoding="ascii").splitlines() if checkpoint.exists() else []
    if lines:
        version, _, *entries = lines
        kept = [entry for entry in entries if entry.split()[:2] != [topic, str(partition)]]
        checkpoint.write_text("\n".join([version, str(len(kept)), *kept, ""]), encoding="ascii")


# --- topics ---------------------------------------------------------------------------------------------------------


def set_topic_config(cluster: Cluster, topic: str, config: Mapping[str, str | None]) -> None:
    """Change settings of a topic, and wait until every running broker knows the change.

    Args:
        cluster: the cluster.
        topic: the topic's name.
        config: the new value of each setting, by the setting's name; None goes back to the brokers' default.

    Raises:
        LabError: the brokers refuse.
    """
    changes = [
        ConfigEntry(
            name,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for name, value in config.items()
    ]
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    _alter_configs(cluster, wanted, f"{topic}: settings {config}")
    cluster.await_everywhere(partial(_has, topic, config), f"to have settings {config} of {topic}")


def _has(topic: str, config: Mapping[str, str | None], client: ReplicaClient, broker: int) -> bool:
    found = client.own_configs(broker, [topic], [*config])[topic]
    return not isinstance(found, ReplicaError) and config == {
        n: c.value if c.is_own else None for n, c in found.items()
    }


def topic_config(cluster: Cluster, topic: str) -> dict[str, str]:
    """All settings of a topic by name, as the brokers apply them, defaults included.

    Raises:
        LabError: the brokers refuse.
    """
    return _config_of(cluster, ConfigResource(ResourceType.TOPIC, topic), topic)


def _config_of(cluster: Cluster, resource: ConfigResource, what: str) -> dict[str, str]:
    (entries,) = answers(
        lambda: cluster.admin.describe_configs([resource], request_timeout=SECONDS), f"{what}: its settings"
    )
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}


def set_broker_config(cluster: Cluster, config: Mapping[str, str], *, brokers: Collection[int] | None = None) -> None:
    """Change dynamic settings of brokers, which override their ``server.properties``, and wait until these apply.

    The setting is changed on each broker by itself, because librdkafka cannot set the default of a whole cluster.

    Args:
        cluster: the cluster.
        config: the new value of each setting, by the setting's name.
        brokers: ids of the brokers; all that run by default.

    Raises:
        LabError: the brokers refuse.
    """
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()]
    running = [broker.id for broker in cluster.brokers.values() if broker.running]
    for broker in running if brokers is None else brokers:
        wanted = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=changes)
        _alter_configs(cluster, wanted, f"broker {broker}: settings {config}")
        _await_config(cluster, broker, config)


def _alter_configs(cluster: Cluster, wanted: ConfigResource, what: str) -> None:
    answers(lambda: cluster.admin.incremental_alter_configs([wanted], request_timeout=SECONDS), what)


def _await_config(cluster: Cluster, broker: int, config: Mapping[str, str]) -> None:
    what = f"broker {broker} to have settings {config}"
    until(lambda: config.items() <= broker_config(cluster, broker).items(), what, interval=0.2)


def broker_config(cluster: Cluster, broker: int) -> dict[str, str]:
    """All settings of a broker by name, as it applies them, defaults included.

    Raises:
        LabError: the broker refuses.
    """
    return _config_of(cluster, ConfigResource(ResourceType.BROKER, str(broker)), f"broker {broker}")


def delete_records(cluster: Cluster, topic: str, partition: int = 0, *, before: int) -> int:
    """Delete all records below an offset (DeleteRecords); returns the leader's new log start.

    Followers delete these records after their next fetches from the leader.

    Args:
        cluster: the cluster.
        topic: name of the topic.
        partition: the partition's number.
        before: the offset; the record there stays.

    Raises:
        LabError: the brokers refuse.
    """
    place = TopicPartition(topic, partition, before)

    def delete() -> dict[TopicPartition, Any]:
        # librdkafka takes "no leader" in its cache for final (rd_kafka_topic_partition_list_get_leaders), and renews
        # the cache for another request only.
        cluster.partition(topic, partition)
        return dict(cluster.admin.delete_records([place], request_timeout=SECONDS))

    (deleted,) = answers(delete, f"{topic}-{partition}: deleting records below offset {before}")
    return int(deleted.low_watermark)


def add_partitions(cluster: Cluster, topic: str, count: int, *, replicas: Sequence[int] | None = None) -> None:
    """Add partitions to a topic, and wait until brokers have them.

    Args:
        cluster: the cluster.
        topic: the topic's name.
        count: how many partitions the topic has then, the old ones included.
        replicas: ids of the brokers that hold the new partitions, the leader first; all brokers by default. Kafka
            requires as many replicas as the old partitions have.

    Raises:
        LabError: the brokers refuse, or do not bring them up within five minutes.
    """
    assignment = list(replicas or cluster.brokers)
    known = until(
        lambda: cluster.admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions, f"{topic} to be known"
    )
    wanted = NewPartitions(topic, count, [assignment] * (count - len(known)))
    answers(
        lambda: cluster.admin.create_partitions([wanted], request_timeout=SECONDS),
        f"{topic}: {count} partitions",
        done_before=[RefusedError.INVALID_PARTITIONS],
    )
    places = [ReplicaPartition(topic, number) for number in range(len(known), count)]
    for place in places:

        def settled(number: int = place.partition) -> bool:
            state = cluster.partition(topic, number)
            return state is not None and state.isr == set(assignment) and state.leader in assignment

        until(settled, f"{topic}-{place.partition} to come up")
    cluster.await_partitions(places, assignment)


def delete_topics(cluster: Cluster, topics: Collection[str]) -> None:
    """Delete topics and wait until no broker's metadata name them.

    Args:
        cluster: the cluster.
        topics: names of the topics.

    Raises:
        LabError: the brokers refuse, or still know them after five minutes.
    """
    answers(
        lambda: cluster.admin.delete_topics(list(topics), request_timeout=SECONDS),
        f"deleting {', '.join(topics)}",
        done_before=[RefusedError.UNKNOWN_TOPIC_OR_PART],
    )

    def gone(client: ReplicaClient, broker: int) -> bool:
        said = client.own_configs(broker, sorted(topics), ["cleanup.policy"])
        return all(isinstance(answer, ReplicaError) for answer in said.values())

    cluster.await_everywhere(gone, f"to know {', '.join(topics)} no more")


def recreate_topic(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int = 1,
    replicas: Sequence[int] | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Delete a topic, and create one of the same name.

    Args:
        cluster: the cluster.
        topic: the topic's name.
        partitions: how many partitions the new topic has.
        replicas: ids of the brokers that hold each partition, the preferred leader first; all brokers by default.
        config: settings of the new topic, value by name.

    Raises:
        LabError: the brokers refuse.
    """
    delete_topics(cluster, [topic])
    cluster.create_topic(topic, partitions=partitions, replicas=replicas, config=config)


# --- consumer groups ------------------------------------------------------------------------------------------------


def commit_offsets(cluster: Cluster, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets in a topic for a consumer group, as one of the group's consumers would.

    The first commit in a cluster creates the topic ``__consumer_offsets``.

    Args:
        cluster: the cluster.
        group: the group's id.
        topic: the topic that the group reads.
        offsets: by partition number, the offset that the group reads next.

    Raises:
        LabError: the group's coordinator does not accept them within five minutes.
    """
    wanted = {KafkaPythonPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}

    def commit(admin: KafkaAdminClient) -> bool:
        return all(error is NoError for error in admin.alter_group_offsets(group, wanted).values())

    _until_done(cluster, commit, f"the offsets of group {group} to be committed")


def delete_group(cluster: Cluster, group: str) -> None:
    """Delete a consumer group together with its committed offsets.

    Args:
        cluster: the cluster.
        group: the group's id.

    Raises:
        LabError: the group's coordinator does not delete it within five minutes.
    """

    def delete(admin: KafkaAdminClient) -> bool:
        found = admin.delete_groups([group])
        return all(error in (NoError, "OK") for error in dict(found).values())

    _until_done(cluster, delete, f"group {group} to be deleted")


def _until_done(cluster: Cluster, work: Callable[[KafkaAdminClient], bool], what: str) -> None:
    """Ask until it is done: a coordinator takes a moment to load its part of the offsets topic."""
    with _kafka_python(cluster, what) as admin:

        def done() -> bool:
            try:
                return work(admin)
            except KafkaError:
                return False

        until(done, what, interval=0.2)


def _unless_away(ask: Callable[[], _T]) -> _T | None:
    """Return what the brokers answer; None if the one asked has just gone, or is not the controller any more."""
    try:
        return ask()
    except KafkaError as error:
        if not error.retriable:
            raise
        return None


@contextmanager
def _kafka_python(cluster: Cluster, what: str) -> Iterator[KafkaAdminClient]:
    running = [broker.address for broker in cluster.brokers.values() if broker.running]
    try:
        admin = KafkaAdminClient(bootstrap_servers=running)
        try:
            yield admin
        finally:
            admin.close()
    except KafkaError as error:
        raise LabError(f"{what} failed ({error})") from error


__all__ = [
    "add_partitions",
    "broker_config",
    "commit_offsets",
    "delete_group",
    "delete_records",
    "delete_topics",
    "elect_leaders",
    "lose_head",
    "reassign",
    "recreate_topic",
    "set_broker_config",
    "set_topic_config",
    "topic_config",
    "wipe_replica",
]
