"""Decides whether a reader may pass over a batch that no replica can show.

The records in that batch are then unknown, and reading goes on behind it.
"""

from __future__ import annotations

from parallax.model import IsolationLevel
from parallax.replica.client import ReplicaClient
from parallax.replica.decode import ContentHasher
from parallax.replica.errors import BatchError, ReplicaError
from parallax.replica.reader import Span, read_range
from parallax.source.offsets import Reader


def end_of_unreadable(
    client: ReplicaClient,
    reader: Reader,
    position: int,
    error: ReplicaError,
    *,
    timeout_ms: float,
    topic_id: str = "",
) -> int | None:
    """The offset after a batch that a reader cannot read, if no replica can show that batch either.

    All replicas are asked. The reader's own is asked again, because the network hardly damages a batch twice.

    Args:
        client: connections to the cluster.
        reader: the reader that cannot read the batch.
        position: the reader's position.
        error: the error that the reader has met.
        timeout_ms: how long each request may take, in ms.
        topic_id: id of the topic that the reader reads; empty for any topic of its name.

    Returns:
        The offset after the batch, where the reader may go on; None if the reader has to wait. It has to wait if a
            replica did not answer, shows a record of the batch, or shows that it holds none; also if nobody knows where
            the batch ends.
    """
    if not isinstance(error, BatchError) or error.last_offset < position:
        return None
    end = error.last_offset + 1
    try:
        partition = client.metadata([reader.topic])[reader.topic].partitions[reader.partition]
        span = Span(reader.topic, reader.partition, position, end, topic_id=topic_id)
        if all(_is_unreadable(client, broker, span, timeout_ms) for broker in partition.replicas):
            return end
    except (ReplicaError, KeyError):
        pass
    return None


def _is_unreadable(client: ReplicaClient, broker: int, span: Span, timeout_ms: float) -> bool:
    """Whether a replica shows nothing of a range because it cannot decode a batch there."""
    chunks = read_range(
        client,
        broker,
        span.topic,
        span.partition,
        span.start,
        span.end,
        isolation=IsolationLevel.READ_UNCOMMITTED,
        hasher=ContentHasher(bytes(16)),
        deadline_ms=timeout_ms,
        topic_id=span.topic_id,
    )
    try:
        if any(len(chunk.columns) for chunk in chunks):
            return False
    except BatchError as error:
        return 0 <= error.base_offset < span.end and error.last_offset >= span.start
    return False


__all__ = ["end_of_unreadable"]
