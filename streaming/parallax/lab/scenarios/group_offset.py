"""The scenario ``group-offset``: broker 2 misses that a consumer group was deleted, in ``__consumer_offsets``.

Clients cannot write to that topic directly. A group's commit of an offset writes a record there, and deleting the group
writes a tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from parallax.lab import admin
from parallax.lab.asking import SECONDS
from parallax.lab.cluster import Cluster
from parallax.lab.scenarios.conductor import Conductor
from parallax.lab.scenarios.stage import LEADER, Cleaning, Divergence, Outage, Return, Script, Stage
from parallax.lab.view import ReplicaView, key_text
from parallax.lab.waiting import until
from parallax.model import FindingKind

OFFSETS_TOPIC = "__consumer_offsets"
_FILLED = 10
"""Partitions of the topic that the groups consume: so many records a commit of the other group makes."""


class GroupStage(Stage):
    """What a script works with if it commits offsets of the consumer group ``group``, or deletes the group.

    The group's records lie in partition 0 of the offsets topic.

    Args:
        cluster: the cluster.
        consumed: name of the topic that the group reads.
        read: called with a broker's id; reads that broker's replica of the offsets topic's partition 0.
        keep: called without arguments; stops all brokers from cleaning the offsets topic.
        producer: writes nothing here, because clients cannot write to that topic directly.
    """

    def __init__(
        self,
        cluster: Cluster,
        consumed: str,
        read: Callable[[int], ReplicaView],
        keep: Callable[[], None],
        producer: Any,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, producer, producer, read, keep)
        self._cluster = cluster
        self._consumed = consumed
        self.group = group_of_partition(cluster, f"{consumed}-readers", 0)
        self.key = key_text(offset_key(self.group, consumed, 0))

    def commit_offset(self) -> int:
        """Commit the group's offset; returns the offset that this record has in ``__consumer_offsets``."""
        admin.commit_offsets(self._cluster, self.group, self._consumed, {0: 7})
        return self._note(self._newest(lambda value: value is not None))

    def delete_group(self) -> int:
        """Delete the group; returns the offset that the tombstone has in ``__consumer_offsets``."""
        admin.delete_group(self._cluster, self.group)
        return self._note(self._newest(lambda value: value is None))

    def _newest(self, wanted: Callable[[str | None], bool]) -> int:
        """The offset of the newest record of the group's key on the leader, once it is of the kind that is wanted."""

        def found() -> list[int]:
            mine = [record for record in self._read(LEADER).records.values() if record.key == self.key]
            return [mine[-1].offset + 1] if mine and wanted(mine[-1].value) else []

        return until(found, f"the record of group {self.group} on broker {LEADER}")[0] - 1


def group_offset_resurrected(stage: Stage) -> Script:
    """The script after which broker 2, the victim, lacks the tombstone of a deleted group's offset.

    If the victim leads, the group reads on from the deleted offset.
    """
    if not isinstance(stage, GroupStage):
        raise TypeError("this script plays on a GroupStage")
    old = stage.commit_offset()
    yield Outage()
    tombstone = stage.delete_group()
    yield Cleaning(superseded=[old], evidence=[tombstone])
    yield Return(
        wrong=lambda view: view.high_watermark > tombstone and stage.key in view.visible,
        right=lambda view: stage.key not in view.visible,
    )
    return Divergence(FindingKind.DELETED_RECORD_RESURRECTED, old, stage.group)


class GroupConductor(Conductor):
    """Plays one script on Kafka's own topic ``__consumer_offsets``, instead of on a topic made for it."""

    def __init__(self, *arguments: Any, topic_prefix: str, **more: Any) -> None:
        super().__init__(*arguments, topic_prefix="", **more)
        self._consumed = f"{topic_prefix}consumed"

    def _create_topics(self) -> None:
        """A topic to consume; then the offsets topic, which Kafka makes at the first commit, cleaned within seconds."""
        cluster = self._cluster
        cluster.create_topic(self._consumed, partitions=_FILLED)
        admin.commit_offsets(cluster, f"{self._consumed}-first", self._consumed, {0: 0})
        cluster.wait_isr(OFFSETS_TOPIC, cluster.brokers)
        admin.set_topic_config(cluster, OFFSETS_TOPIC, self._config())
        admin.elect_leaders(cluster, OFFSETS_TOPIC, broker=LEADER)
        self._filler = group_of_partition(cluster, f"{self._consumed}-others", 0)

    def _stage(self, topic: str, producer: Any) -> Stage:
        read, keep = partial(self._read, topic=topic), partial(self._keep, topic)
        return GroupStage(self._cluster, self._consumed, read, keep, producer)

    def _fill(self, topics: Collection[str]) -> None:
        del topics
        admin.commit_offsets(self._cluster, self._filler, self._consumed, dict.fromkeys(range(_FILLED), 1))


def group_of_partition(cluster: Cluster, name: str, partition: int) -> str:
    """A group id, ``name`` with a number, whose records Kafka puts in a given partition of ``__consumer_offsets``.

    Kafka chooses the partition by ``Utils.abs(groupId.hashCode) % partitions`` (GroupCoordinator.partitionFor).

    Args:
        cluster: the cluster, in which that topic exists.
        name: how the id begins.
        partition: number of the partition.
    """
    count = len(cluster.admin.list_topics(OFFSETS_TOPIC, timeout=SECONDS).topics[OFFSETS_TOPIC].partitions)
    return next(group for i in range(10_000) if _java_hash(group := f"{name}-{i}") % count == partition)


def _java_hash(text: str) -> int:
    """The absolute value of String.hashCode of ASCII, 0 for the one integer that has none (``Utils.abs``)."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFF_FFFF
    return code if code < 1 << 31 else ((1 << 32) - code) % (1 << 31)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """The key that a committed offset's record has in ``__consumer_offsets`` (OffsetCommitKey of version 1).

    Args:
        group: the group's id.
        topic: name of the topic that the group reads.
        partition: number of the partition that the group reads.
    """
    texts = b"".join(struct.pack(">h", len(text)) + text.encode() for text in (group, topic))
    return struct.pack(">h", 1) + texts + struct.pack(">i", partition)
