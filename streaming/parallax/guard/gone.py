"""Asks the cluster which partitions with absent or late replicas are gone. Nothing of these can be lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from parallax.errors import one_line
from parallax.model import TopicPartition
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError

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


class GoneThread:
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
        self._client = client
        self._partitions = partitions
        self._on_look = on_look
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gone topics", daemon=True)

    def start(self) -> None:
        """Start the thread. It asks immediately."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join(10)

    def look(self) -> None:
        """Ask once. While no broker answers, what was known before counts."""
        try:
            self._on_look(gone(self._client, self._partitions()))
        except ReplicaError as error:
            log.debug("which topics are gone is not known", error=one_line(error))

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                log.exception("which topics are gone is not known, by a fault of Parallax; it is asked again")
            if self._stop.wait(self._every_s):
                return


__all__ = ["GoneThread", "gone"]
