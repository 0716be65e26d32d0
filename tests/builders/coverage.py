"""What the comparison and the progress query report of partitions of three replicas, which end at offset 100."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from parallax.compare.suspect import BrokerCoverage, Coverage

BROKERS = (1, 2, 3)
OBSERVED_AT = datetime(2026, 1, 2, tzinfo=UTC)
"""When brokers were asked, where a test does not say."""
_MARKS = {"high_watermark": 100, "last_stable_offset": 100, "log_start_offset": 0, "log_end_offset": 100}


def broker(number: int, **more: Any) -> BrokerCoverage:
    """A replica that was read to its end."""
    whole = {"reachable": True, "read_uncommitted": 100, "read_committed": 100, "frozen_for_s": 0.0} | _MARKS
    return BrokerCoverage(number, **(whole | more))


def coverage(topic: str = "orders", partition: int = 0, **more: Any) -> Coverage:
    """A partition that was compared to its end, now."""
    whole: dict[str, Any] = {
        "compared_up_to": (100, 100),
        "unknown": {},
        "deferred": (),
        "candidates": 0,
        "state_bytes": 0,
        "brokers": tuple(map(broker, BROKERS)),
        "compared_at": int(datetime.now(UTC).timestamp() * 1000),
    }
    whole |= more
    return Coverage(topic, partition, **(whole | {"brokers": tuple(whole["brokers"])}))


def progress(topic: str = "orders", partition: int = 0, broker: int = 1, **more: Any) -> dict[str, Any]:
    """A row of progress of a replica that answered."""
    of = {"topic": topic, "partition": partition, "broker": broker, "reachable": True, "replicas": list(BROKERS)}
    return of | {"observed_at": OBSERVED_AT} | _MARKS | more
