"""What `ReplicaClient` asks brokers, and what they answer, as plain values without kafka-python's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from parallax.model import UNKNOWN, TopicPartition
from parallax.replica.errors import ReplicaError, UnknownTopic
from parallax.replica.fetch_response import no_aborted

_NO_RECORDS = memoryview(b"")


@dataclass(frozen=True)
class PartitionMetadata:
    """Who leads a partition and who holds it, from a broker's metadata.

    Attributes:
        leader: id of the broker that leads; -1 while none does.
        leader_epoch: the epoch in which it leads.
        replicas: ids of the brokers that hold the partition, the preferred leader first.
        isr: ids of the brokers whose replicas are in sync.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class HowGone(StrEnum):
    """Why a partition no longer exists, according to a broker's metadata about its topic."""

    TOPIC = "topic"
    """There is no topic of that name."""
    RECREATED = "recreated"
    """Another topic has the name by now."""
    PARTITION = "partition"
    """The topic has fewer partitions."""


@dataclass(frozen=True)
class TopicMetadata:
    """A topic as a broker's metadata describe it, with its partitions by number."""

    name: str
    topic_id: str
    """As Kafka's tools print it: 16 bytes in URL-safe base64 without padding."""
    partitions: dict[int, PartitionMetadata]
    error: ReplicaError | None = None
    """Why nothing is known (UnknownTopic, Unauthorized, ...); the other topics are not affected."""
    cleanup_policy: str | None = None
    """The setting ``cleanup.policy``, as it was at ``policy_at_ms``; None if it was not asked for or not answered."""
    policy_at_ms: int = 0
    """When these two settings were asked for, in ms since 1970 UTC; 0 if they were not."""
    delete_retention_ms: int | None = None
    """The setting ``delete.retention.ms``; None if it was not asked for or not answered."""

    def gone(self, partition: int, topic_id: str = "") -> HowGone | None:
        """Why a partition of the topic no longer exists; None if it exists, or if the broker did not say.

        Args:
            partition: the partition's number.
            topic_id: Kafka's id of the topic that the caller means; empty if the caller does not know it.
        """
        if self.error is not None:
            return HowGone.TOPIC if isinstance(self.error, UnknownTopic) else None
        if topic_id and self.topic_id and self.topic_id != topic_id:
            return HowGone.RECREATED
        return None if partition in self.partitions else HowGone.PARTITION


@dataclass(frozen=True)
class Config:
    """A topic's setting on one broker: its value, and whether it is the topic's own or a default."""

    value: str
    is_own: bool
    """True if it is a value of the topic's own, False if it is a default."""


@dataclass(frozen=True)
class LogDir:
    """A log directory of a broker.

    Attributes:
        path: its path on the broker.
        total: bytes of its volume; -1 if the broker does not say.
        usable: free bytes of its volume; -1 if the broker does not say.
        sizes: bytes of the broker's replicas in it, by partition, for the partitions that were asked about.
    """

    path: str
    total: int
    usable: int
    sizes: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class FetchPosition:
    """One partition in a Fetch: from which offset, and how many bytes at most."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20
    after_epoch: int = -1
    """Leader epoch of the last batch that was read below ``offset``; -1: not checked.

    If that epoch ends below the offset in a replica's log, the replica answers with ``diverging`` and no records
    (KIP-595).
    """
    topic_id: str = ""
    """Id of the intended topic: a replica of another topic of that name answers with an error. Empty: any topic of the
    name. This needs Kafka 3.1, and an id for each position of the same Fetch."""


@dataclass(frozen=True)
class FetchedPartition:
    """One replica's answer to a Fetch of one partition.

    High watermark, last stable offset and log start are this replica's own; with an ``error`` they are -1. ``records``
    holds record batches as they lie in the log. The last batch may be truncated, and the first may begin below the
    requested offset.
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
    diverging: tuple[int, int] | None = None
    """(epoch, end offset): this log's largest epoch up to ``after_epoch``, and where it ends."""


@dataclass(frozen=True)
class Greeting:
    """What a broker showed when a connection was made: its Kafka version, TLS version and certificate's end.

    Attributes:
        version: the version of Kafka, concluded from the requests that the broker speaks. For a broker that is newer
            than any version that Parallax knows, it is the newest known one.
        tls: the version of TLS; None without TLS.
        certificate_ends: when the broker's certificate expires, in seconds since 1970 UTC; None if it was not checked.
    """

    version: tuple[int, ...]
    tls: str | None
    certificate_ends: int | None


@dataclass(frozen=True)
class Watermarks:
    """Log start, last stable offset, high watermark and log end of one replica, as that replica reports them."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int


OFFSETS = ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset")
"""The fields of `Watermarks` in their order; columns of watermarks have these names as well."""


@dataclass(frozen=True)
class ProducerState:
    """The state of one producer as a replica remembers it, with its open transaction (DescribeProducers, KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    """Timestamp of its last batch, in ms since 1970 UTC."""
    coordinator_epoch: int
    current_transaction_start_offset: int
    """-1 where this replica knows of no open transaction of the producer."""


@dataclass(frozen=True)
class TransactionListing:
    """A transaction as its coordinator lists it.

    Attributes:
        state: Kafka's name of the transaction's state, such as ``Ongoing``.
        coordinator: the broker that coordinates it.
        partitions: the partitions that an ongoing transaction has written to; if it is ending, only those without an
            end marker yet. None if the coordinator was not asked for them.
        started_ms: when it began, by the coordinator's clock, in ms since 1970 UTC; -1 if that is not known.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    partitions: frozenset[TopicPartition] | None = None
    started_ms: int = UNKNOWN

    @property
    def is_over(self) -> bool:
        """Whether its coordinator will write no end marker of it any more, in any partition."""
        return self.state in {"Empty", "CompleteCommit", "CompleteAbort", "Dead"}


@dataclass(frozen=True)
class TransactionListings:
    """The transactions that all brokers together list, and which brokers have answered.

    Attributes:
        transactions: the transactions.
        unanswered: the error for each broker that did not answer, by its id.
        answered: ids of the brokers that answered.
    """

    transactions: list[TransactionListing]
    unanswered: dict[int, ReplicaError]
    answered: frozenset[int]
