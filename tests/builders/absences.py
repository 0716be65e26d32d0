"""Replicas that are away, and such as were back too late."""

from __future__ import annotations

from typing import Any

from parallax.guard.absences import Absence, Late, Presence
from parallax.model import TopicPartition


def absence(broker: int = 3, topic: str = "orders", partition: int = 0, **more: Any) -> Absence:
    """One away since second 5 that lacks offset 10 and all above. The cleaner may take these from second 65 on."""
    known: dict[str, Any] = {
        "presence": Presence.AWAY,
        "lacks_from": 10,
        "since_ms": 5_000,
        "retention_ms": 60_000,
        "bound_ms": 65_000,
        "unclear": None,
    }
    return Absence(TopicPartition(topic, partition), broker, **(known | more))


def late(was: Absence, at_ms: int = 9_000, broker: int | None = None) -> Late:
    """That a replica copied something too late, or another one of the same partition did."""
    return Late(was.place, was.broker if broker is None else broker, at_ms, was)
