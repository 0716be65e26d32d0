"""What one replica shows, waited for while brokers come and go."""

from __future__ import annotations

from parallax.lab.view import ReplicaView, read_replica
from parallax.lab.waiting import until
from parallax.replica.client import ReplicaClient
from parallax.replica.errors import ReplicaError


def view(client: ReplicaClient, broker: int, topic: str) -> ReplicaView:
    """Read a replica of partition 0 as soon as it answers."""

    def read() -> ReplicaView | None:
        try:
            return read_replica(client, broker, topic)
        except ReplicaError:
            return None

    return until(read, f"broker {broker} to answer for {topic}")
