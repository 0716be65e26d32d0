"""What the brokers of a soak are asked: are all replicas in sync, how far do they go, what has been cleaned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from parallax.lab.cluster import Cluster
from parallax.lab.waiting import until
from parallax.model import IsolationLevel, RowKind
from parallax.replica.client import ReplicaClient, Watermarks
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import ReplicaError
from parallax.replica.reader import read_range
from tests.soak.plan import Topic

Partition = tuple[str, int]

_CLEANED = re.compile(
    r"cleaned log (?P<log>\S+)-\d+ \(dirty section.*?"
    r"Start size: [^(]*\((?P<before>[\d,]+) messages\).*?End size: [^(]*\((?P<after>[\d,]+) messages\)",
    re.DOTALL,
)
"""What the cleaner says of a pass (org.apache.kafka.storage.internals.log.LogCleaner)."""
_DELETED = re.compile(r"Deleting segment LogSegment\(baseOffset=\d+.*? due to (?:local )?log retention", re.DOTALL)


def create_topics(cluster: Cluster, topics: Iterable[Topic], delete_retention_s: float) -> None:
    """Create topics whose partitions are led by the brokers in turn, and wait until all replicas are in sync."""
    brokers = list(cluster.brokers)
    wanted = []
    for topic in topics:
        turns = [brokers[p % len(brokers) :] + brokers[: p % len(brokers)] for p in range(topic.partitions)]
        config = topic.config(delete_retention_s)
        wanted.append(NewTopic(topic.name, num_partitions=topic.partitions, replica_assignment=turns, config=config))
    for future in cluster.admin.create_topics(wanted, operation_timeout=20, request_timeout=30).values():
        future.result(30)
    await_in_sync(cluster)


def await_in_sync(cluster: Cluster) -> None:
    """Wait until all replicas of all topics are in sync.

    Raises:
        LabError: they are not within a minute.
    """
    until(lambda: all_in_sync(cluster), "the new topics to be in sync", timeout=60, interval=0.2)


def all_in_sync(cluster: Cluster) -> bool:
    """Whether every partition, Kafka's own included, has a leader and all of its replicas in sync."""
    try:
        topics = cluster.admin.list_topics(timeout=2).topics.values()
    except KafkaException:
        return False
    partitions = [p for topic in topics for p in topic.partitions.values()]
    return all(len(p.isrs) == len(p.replicas) and p.leader in p.isrs for p in partitions) and len(partitions) > 0


def topics_but(cluster: Cluster, prefix: str) -> tuple[Topic, ...]:
    """All topics of a cluster, Kafka's own included, but for those whose names begin so.

    Raises:
        KafkaException: the brokers do not answer.
    """
    found = {t.topic: len(t.partitions) for t in cluster.admin.list_topics(timeout=5).topics.values()}
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(found) if not name.startswith(prefix)]
    asked = cluster.admin.describe_configs(wanted, request_timeout=10)
    policies = {resource.name: future.result(15)["cleanup.policy"].value for resource, future in asked.items()}
    return tuple(Topic(name, found[name], policy) for name, policy in sorted(policies.items()))


def partitions_of(topics: Iterable[Topic]) -> tuple[Partition, ...]:
    """Their partitions."""
    return tuple((topic.name, partition) for topic in topics for partition in range(topic.partitions))


def ends(
    client: ReplicaClient, brokers: Iterable[int], partitions: Sequence[Partition]
) -> dict[Partition, dict[int, Watermarks]] | None:
    """The watermarks of every replica of some partitions; None while one of them cannot be had."""
    found: dict[Partition, dict[int, Watermarks]] = {partition: {} for partition in partitions}
    for broker in brokers:
        try:
            answers = client.watermarks(broker, partitions)
        except ReplicaError:
            return None
        for partition, answer in answers.items():
            if isinstance(answer, ReplicaError):
                return None
            found[partition][broker] = answer
    return found


def restless(found: dict[Partition, dict[int, Watermarks]]) -> dict[Partition, dict[int, Watermarks]]:
    """The partitions whose replicas do not go equally far, or hold a transaction open."""
    return {
        partition: replicas
        for partition, replicas in found.items()
        if len({w.high_watermark for w in replicas.values()}) > 1
        or any(w.last_stable_offset < w.high_watermark for w in replicas.values())
    }


# --- cleaning -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cleaning:
    """What the brokers say that their cleaners did to the topics under traffic."""

    passes: int
    removed: int
    """Records and markers, over all replicas."""
    segments_expired: int
    """Segments deleted because retention was over."""


def cleaning(logs: Iterable[Path], topics: Collection[str]) -> Cleaning:
    """Read in the brokers' logs what was cleaned of some topics."""
    counts: Counter[str] = Counter()
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace")
        for before, after in _passes(text, topics):
            counts["passes"] += 1
            counts["removed"] += before - after
        counts["expired"] += len(_DELETED.findall(text))
    return Cleaning(counts["passes"], counts["removed"], counts["expired"])


def _passes(text: str, topics: Collection[str]) -> Iterator[tuple[int, int]]:
    for match in _CLEANED.finditer(text):
        if match["log"] in topics:
            yield int(match["before"].replace(",", "")), int(match["after"].replace(",", ""))


@dataclass
class Held:
    """What one replica set holds, summed over its partitions: broker to number."""

    records: Counter[int]
    tombstones: Counter[int]
    markers: Counter[int]

    def of(self, broker: int) -> Left:
        """What one of the brokers holds."""
        return Left(self.records[broker], self.tombstones[broker], self.markers[broker])


@dataclass(frozen=True)
class Left:
    """What one broker holds: records, tombstones among them, and end markers."""

    records: int
    tombstones: int
    markers: int


def held(client: ReplicaClient, brokers: Iterable[int], topics: Iterable[Topic]) -> Held:
    """Read whole logs, and count what is left in them.

    Raises:
        ReplicaError: a broker does not answer.
    """
    found = Held(Counter(), Counter(), Counter())
    hasher = ContentHasher.random()
    wanted = partitions_of(topics)
    for broker in brokers:
        for (topic, partition), marks in client.watermarks(broker, wanted).items():
            if isinstance(marks, ReplicaError):
                raise marks
            chunks = read_range(
                client,
                broker,
                topic,
                partition,
                marks.log_start_offset,
                marks.high_watermark,
                isolation=IsolationLevel.READ_UNCOMMITTED,
                hasher=hasher,
                deadline_ms=10_000,
            )
            for chunk in chunks:
                is_record = chunk.columns.kind == int(RowKind.RECORD)
                found.records[broker] += int(is_record.sum())
                found.tombstones[broker] += int((is_record & (chunk.columns.value_size < 0)).sum())
                found.markers[broker] += int((~is_record).sum())
    return found
