"""The state of a partition, by what its readers recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from parallax.compare.observations import Observations
from parallax.compare.state import (
    UNREAD_REASONS,
    PartitionState,
    new_broker,
)
from parallax.model import UnknownReason
from tests.unit.compare.history import RC, RU, Row

VIEWS = (RU, RC)


def observed(*batches: list[Row]) -> Observations:
    return Observations.of("t", 0, [row for batch in batches for row in batch])


def state(*brokers: int, member: bool = True, **fields: Any) -> PartitionState:
    made = PartitionState()
    made.brokers = np.concatenate([new_broker(b) for b in brokers])
    made.brokers["member"] = member
    made.partition["members_known"] = member
    for name, value in fields.items():
        made.brokers[name] = value
    return made


def left_behind(made: PartitionState, reason: UnknownReason = UnknownReason.SKIPPED) -> list[int]:
    """How many offsets of each view were left without verdict, for one reason; of what a log held no more as well."""
    ranges = made.unread[made.unread["reason"] == UNREAD_REASONS.index(reason)]
    gone = made.partition["skipped"][0] * (reason is UnknownReason.SKIPPED)
    return [int(gone[v] + (ranges["end"] - ranges["start"])[ranges["view"] == v].sum()) for v in VIEWS]
