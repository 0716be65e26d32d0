"""Asks the cluster which partitions with absent or late replicas are gone. Nothing of these can be lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from parallax.errors import one_line
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError
from parallax.rounds import Rounds

log = structlog.get_logger(__name__)

Partitions = Mapping[TopicPartition, str]
"""Partitions, each with Kafka's id of its topic; the id is empty if it is not known."""


def gone(client: ReplicaClient, partitions: Partitions) -> Partitions:
    """Return those of some partitions that no longer exist.

    The cluster has no such topic, or another one of its name. What a broker does not say counts as existing.

    Args:
        client: asks the cluster for its metadata.
        partitions: the partitions.

    Raises:
        ReplicaError: no broker answers.
    """
    topics = client.metadata(sorted({place.topic for place in partitions})) if partitions else {}
    return {
        place: topic_id
        for place, topic_id in partitions.items()
        if place.topic in topics and topics[place.topic].gone(place.partition, topic_id) is not None
    }


class GoneThread(Rounds):
    """Asks again and again which partitions no longer exist, in a thread of its own.

    Args:
        client: asks the cluster for its metadata.
        partitions: returns the partitions to ask about; while there are none, nobody is asked.
        on_look: called after each answer with those that no longer exist.
        every_s: seconds between two looks.
    """

    def __init__(
        self,
        client: ReplicaClient,
        partitions: Callable[[], Partitions],
        on_look: Callable[[Partitions], None],
        every_s: float,
    ) -> None:
        super().__init__("gone topics", every_s, is_prompt=True)
        self._client = client
        self._partitions = partitions
        self._on_look = on_look

    def look(self) -> None:
        """Ask once. While no broker answers, what was known before counts."""
        try:
            self._on_look(gone(self._client, self._partitions()))
        except ReplicaError as error:
            log.debug("which topics are gone is not known", error=one_line(error))

    def failed(self, error: Exception) -> None:
        """Log a fault of Parallax.

        Args:
            error: what the look has raised.
        """
        log.error("which topics are gone is not known, by a fault of Parallax; it is asked again", exc_info=error)


__all__ = ["GoneThread", "gone"]
