"""Logs why suspects wait for a verdict, once they have waited for long, and again while they wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from parallax.model import TopicPartition

log = structlog.get_logger(__name__)

AFTER_S = 300.0
"""How many seconds the suspects of a partition may wait before that is logged."""

AGAIN_S = 600.0
"""After how many seconds a wait that goes on is logged again."""

AT_ONCE = 10
"""How many partitions are named at most in one look; the others are named in later ones."""

_WHAT = "replicas may differ there; it is asked again until there is a verdict"


class Waits:
    """Logs which partitions have suspects that wait for a verdict, and why.

    Args:
        clock: returns monotonic seconds; tests give their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[TopicPartition, float] = {}

    def observe(self, waits: Mapping[TopicPartition, str]) -> None:
        """Log the waits that have become long.

        Args:
            waits: all waits of the present: by partition, why suspects of it are pending. A wait that is
                missing here is over; if the partition waits again, that is a new wait.
        """
        now = self._clock()
        self._due = {place: self._due.get(place, now + AFTER_S) for place in waits}
        for place in [place for place, due in self._due.items() if due <= now][:AT_ONCE]:
            self._due[place] = now + AGAIN_S
            log.warning(
                "suspects wait for a verdict",
                topic=place.topic,
                partition=place.partition,
                why=waits[place],
                what=_WHAT,
            )


__all__ = ["AFTER_S", "AGAIN_S", "AT_ONCE", "Waits"]
