"""Looks at the replicas of one partition, for the tests of the clock and of the guard."""

from __future__ import annotations

from typing import Any

from parallax.guard.clock import Clock
from parallax.guard.looks import Look
from parallax.model import TopicPartition

PLACE = TopicPartition("orders", 0)
HOUR = 3_600_000
SKEW = 5_000
LOOK = 1_000
METADATA = 10_000
START = 1_700_000_000_000


def clock() -> Clock:
    return Clock(clock_skew_ms=SKEW, look_ms=LOOK, metadata_ms=METADATA)


def tick(at: int, ends: dict[int, int | None], isr: tuple[int, ...], **said: Any) -> list[Look]:
    """All replicas at one time, in ms after the start: where their logs end, None where one does not answer."""
    retention = said.pop("retention", HOUR)
    at_ms = START + at
    return [
        Look(
            place=said.get("place", PLACE),
            broker=broker,
            at_ms=at_ms,
            high_watermark=None if end is None else said.get("marks", {}).get(broker, end),
            log_end_offset=end,
            leader=said.get("leader", isr[0] if isr else -1),
            leader_epoch=said.get("epoch", 0),
            isr=isr,
            replicas=tuple(ends),
            topic_id=said.get("topic_id", "a"),
            policy=said.get("policy", "compact"),
            policy_at_ms=None if retention is None else at_ms,
            retention_ms=retention,
        )
        for broker, end in ends.items()
    ]
