"""Logs errors of the comparison: each one once, and again after ten minutes if it goes on.

If a partition's error changes, the new error is logged immediately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from parallax.compare.suspect import Coverage
from parallax.model import TopicPartition

log = structlog.get_logger(__name__)

AGAIN_S = 600.0
"""After how many seconds an error that goes on is logged again."""

AT_ONCE = 10
"""How many partitions one micro-batch names in the log; of further ones only their number is logged."""

_WHAT = "it begins again: what it holds is unknown until an audit of the partition has ended"


class Trouble:
    """Logs which partitions could not be compared, without repeating the same error for each micro-batch.

    Args:
        clock: returns monotonic seconds; tests give their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[TopicPartition | None, tuple[str, float]] = {}

    def observe(self, coverages: Iterable[Coverage], problems: Sequence[str]) -> None:
        """Log the errors that a micro-batch reported, unless they were logged in the last ten minutes.

        Args:
            coverages: the coverage of each partition; one that could not be compared has an ``error``.
            problems: errors because of which Spark tasks could not compare quiet partitions together
                (`parallax.compare.together.TaskReport`).
        """
        now = self._clock()
        self._said = {place: (error, at) for place, (error, at) in self._said.items() if now - at < AGAIN_S}
        fresh = [c for c in coverages if c.error and self._is_news(c.place, c.error, now)]
        for one in fresh[:AT_ONCE]:
            log.error(
                "a partition was not compared", topic=one.topic, partition=one.partition, what=_WHAT, error=one.error
            )
        if more := fresh[AT_ONCE:]:
            log.error("more partitions were not compared", partitions=len(more), what=_WHAT, error=more[0].error)
        for problem in problems[:1]:
            if self._is_news(None, problem, now):
                what = "each is compared by itself, which takes longer"
                log.error("partitions were not compared together", what=what, error=problem)

    def _is_news(self, place: TopicPartition | None, error: str, now: float) -> bool:
        if place in self._said and self._said[place][0] == error:
            return False
        self._said[place] = error, now
        return True


__all__ = ["AGAIN_S", "AT_ONCE", "Trouble"]
