"""The exceptions that are raised when a broker is asked; the text of each tells a person what to do.

Every failure of this package is a :class:`ReplicaError`. Its text is one line: the place (broker, topic, partition),
what was wrong, and what to do. Its attributes say the same to programs.
"""

# ruff: noqa: N818 - the names say what happened, as Kafka's own do; all are ReplicaErrors.

from __future__ import annotations

from typing import Any, ClassVar, Self

from parallax.errors import PassingError
from parallax.model import MissingRight, ReadEvent


class ReplicaError(Exception):
    """A replica could not be asked, or its answer could not be used.

    Attributes:
        broker: id of the broker that was asked; None if the error is about no broker.
        topic: the topic that the error is about, or None.
        partition: the partition that the error is about, or None.
        problem: the text without broker, topic and partition.
        event: the `ReadEvent` that a reader records for such a failure; None if the class alone does not decide it.
    """

    event: ClassVar[ReadEvent | None] = None

    def __init__(
        self,
        problem: str,
        *,
        broker: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        self.problem = " ".join(str(problem).split())
        self.broker = broker
        self.topic = topic
        self.partition = partition
        super().__init__(self.problem)

    def __str__(self) -> str:
        place = self.place
        return f"{place}: {self.problem}" if place else self.problem

    @property
    def place(self) -> str:
        """The broker and the partition in words, as far as they are known: ``broker 2, orders-0``."""
        parts = []
        if self.broker is not None:
            parts.append(f"broker {self.broker}")
        if self.topic is not None:
            parts.append(self.topic if self.partition is None else f"{self.topic}-{self.partition}")
        return ", ".join(parts)

    def at(self, *, broker: int | None = None, topic: str | None = None, partition: int | None = None) -> Self:
        """Set broker, topic and partition where the error does not name them yet; returns this same error."""
        self.broker = broker if self.broker is None else self.broker
        self.topic = topic if self.topic is None else self.topic
        self.partition = partition if self.partition is None else self.partition
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (Spark's workers); the default would lose the keyword arguments.
        return _rebuild, (type(self), self.__dict__.copy())


def _rebuild(kind: type[ReplicaError], state: dict[str, Any]) -> ReplicaError:
    error = kind(state["problem"])
    error.__dict__.update(state)
    return error


class Unreachable(ReplicaError, PassingError):
    """The broker refused or closed the connection, or its answer follows no protocol."""

    event = ReadEvent.UNREACHABLE


class OtherCluster(Unreachable):
    """Another cluster than the intended one answers at an address; its answers are not used.

    Attributes:
        cluster_id: the id of the cluster that answers; empty if it gives none.
    """

    passes = False

    def __init__(self, problem: str, *, cluster_id: str = "", **place: Any) -> None:
        super().__init__(problem, **place)
        self.cluster_id = cluster_id


class NotABroker(Unreachable):
    """A KRaft controller answers at an address; it does not serve clients."""

    passes = False


class ReadingPaused(Unreachable):
    """An operator has paused the reading of this broker's records."""


class DeadlineExceeded(Unreachable):
    """The broker did not answer in time."""


class Throttled(DeadlineExceeded):
    """The broker gave no records, because the client has used up its quota.

    The broker answers nothing more on this connection for a while.

    Attributes:
        wait_ms: for how many milliseconds the broker answers nothing.
    """

    def __init__(self, wait_ms: int, **place: Any) -> None:
        super().__init__(f"throttled for {wait_ms} ms by the broker's quota; raise it", **place)
        self.wait_ms = wait_ms


class NotHosted(ReplicaError):
    """The broker holds no usable replica of the partition."""

    event = ReadEvent.NOT_HOSTED


class OffsetOutOfRange(ReplicaError):
    """The requested offset is below the replica's log start or above its log end (Kafka's error 1).

    The broker's answer does not say where the log begins and ends.
    """


class MovedToTieredStorage(ReplicaError):
    """The record at the offset is in tiered storage only (KIP-405); the replica itself no longer holds it."""

    event = ReadEvent.UNSUPPORTED


class LogTruncated(ReplicaError):
    """The log was truncated below the reader's position, or another log may have replaced it.

    The log may have grown since, and may hold other records at these offsets.

    Attributes:
        end: the offset below which the reader goes on. If the log's leader epochs show where it was truncated, it is
            that offset. Otherwise the log has no entry for the epoch that was read, and may hold less.
    """

    event = ReadEvent.LOG_TRUNCATED

    def __init__(self, problem: str, *, end: int = -1, **place: Any) -> None:
        super().__init__(problem, **place)
        self.end = end


class UnknownTopic(ReplicaError):
    """The topic or partition does not exist, or no longer exists."""

    event = ReadEvent.TOPIC_DELETED


class Unauthorized(ReplicaError):
    """Authentication failed, or an ACL is missing.

    Attributes:
        missing: the permission that would have to be granted.
    """

    event = ReadEvent.UNAUTHORIZED

    def __init__(self, problem: str, *, missing: MissingRight = MissingRight.CREDENTIALS, **place: Any) -> None:
        super().__init__(problem, **place)
        self.missing = missing


class BrokerTooOld(ReplicaError):
    """The broker does not speak a version that Parallax needs; Fetch v11 (Kafka 2.3) is the lowest."""

    event = ReadEvent.UNSUPPORTED


class BatchError(ReplicaError):
    """One record batch of a response cannot be used, e.g. because it is corrupt.

    Attributes:
        base_offset: base offset of the batch by its header; -1 if it is not known which batch it is.
        last_offset: last offset of the batch by its header; -1 if it is not known which batch it is. If the batch's
            CRC is wrong, both offsets may be wrong as well.
    """

    def __init__(self, problem: str, *, base_offset: int = -1, last_offset: int = -1, **place: Any) -> None:
        super().__init__(problem, **place)
        self.base_offset = base_offset
        self.last_offset = last_offset


class CorruptBatch(BatchError):
    """A record batch is corrupt: its CRC or its structure is wrong."""

    event = ReadEvent.CORRUPT_BATCH


class Unsupported(BatchError):
    """Parallax does not read this: an unknown format or codec, too large a batch, or a redirected consumer.

    A broker may redirect consumers to another broker's replica, its preferred read replica (KIP-392). Parallax does not
    follow, because it wants the replica of the broker that it asked.
    """

    event = ReadEvent.UNSUPPORTED


class BadOption(ReplicaError):
    """A client option of Kafka is unknown or ill-typed, or needs something that is missing.

    Attributes:
        option: name of the option.
    """

    def __init__(self, problem: str, *, option: str = "", **place: Any) -> None:
        super().__init__(problem, **place)
        self.option = option


_CHECK_ACL = "grant it with kafka-acls.sh, or use other credentials"

_BY_CODE: dict[int, tuple[type[ReplicaError], str]] = {
    1: (OffsetOutOfRange, "offset out of range of this replica's log"),
    2: (CorruptBatch, "the broker found a corrupt message in its log (CORRUPT_MESSAGE); look at the broker's log"),
    3: (UnknownTopic, "no such topic or partition; check the topic's name"),
    6: (NotHosted, "the broker holds no replica of this partition (NOT_LEADER_OR_FOLLOWER)"),
    9: (NotHosted, "the broker's replica is not available (REPLICA_NOT_AVAILABLE)"),
    35: (BrokerTooOld, "the broker does not know this version of the request; upgrade it to Kafka 3.0 or later"),
    56: (NotHosted, "the replica's log folder is offline (KAFKA_STORAGE_ERROR); look at the broker's disks"),
    76: (Unsupported, "the broker cannot send this codec to us (UNSUPPORTED_COMPRESSION_TYPE)"),
    100: (UnknownTopic, "the broker knows no topic with this id"),
    103: (UnknownTopic, "the broker's log is of another topic of this name"),
    109: (MovedToTieredStorage, "the offset is in tiered storage only, not in this replica's log"),
}


_MISSING: dict[int, tuple[MissingRight, str]] = {
    29: (MissingRight.READ, ""),
    30: (MissingRight.GROUP, f"not authorized: DESCRIBE on the group is needed; {_CHECK_ACL}"),
    31: (MissingRight.CLUSTER, ""),
    53: (MissingRight.TRANSACTIONAL_ID, f"not authorized: DESCRIBE on the transactional id is needed; {_CHECK_ACL}"),
    58: (MissingRight.CREDENTIALS, "authentication failed; check sasl.mechanism, sasl.username and sasl.password"),
}
"""By error code: what is missing. Of a topic (29) and of the cluster (31) it depends on the request."""


def from_code(
    code: int,
    *,
    broker: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    detail: str = "",
    needs: MissingRight = MissingRight.READ,
) -> ReplicaError:
    """The error for one of Kafka's error codes (org.apache.kafka.common.protocol.Errors).

    Args:
        code: the error code of a response; not 0.
        broker: broker that answered.
        topic: topic that the answer is about.
        partition: partition that the answer is about.
        detail: the broker's own words, if it sent any.
        needs: the permission on the topic that the request needs; the error names it if it is missing. Of the cluster
            the request needs DESCRIBE, or DESCRIBE_CONFIGS if this says so.

    Returns:
        The error, of the class for this code, such as `NotHosted`; a plain `ReplicaError` if the code has no class.
    """
    if code in _MISSING:
        return _unauthorized(code, needs, detail, broker=broker, topic=topic, partition=partition)
    kind, problem = _BY_CODE.get(code, (ReplicaError, ""))
    if not problem:
        from kafka import errors as kafka_errors

        name = kafka_errors.for_code(code).__name__
        problem = f"the broker answered with error {code} ({name})"
    if detail:
        problem = f"{problem}: {detail}"
    return kind(problem, broker=broker, topic=topic, partition=partition)


def _unauthorized(code: int, needs: MissingRight, detail: str, **place: Any) -> Unauthorized:
    missing, problem = _MISSING[code]
    if missing is MissingRight.CLUSTER:
        right = needs if needs is MissingRight.DESCRIBE_CONFIGS else MissingRight.DESCRIBE
        problem = f"not authorized: {right.name} on the cluster is needed; {_CHECK_ACL}"
    elif not problem:
        missing = needs
        problem = f"not authorized: {needs.name} on the topic is needed; {_CHECK_ACL}"
    return Unauthorized(f"{problem}: {detail}" if detail else problem, missing=missing, **place)
