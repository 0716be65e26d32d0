"""For how long each partition has waited for a verdict at one offset. Pure, no clock.

Under traffic some offsets always wait for a verdict, but the first of them (`Coverage.waits_from`) moves on. Where it
does not, the comparison is stuck.
"""

from __future__ import annotations

from collections.abc import Callable

from parallax.compare.suspect import Coverage
from parallax.model import UNKNOWN, IsolationLevel, TopicPartition

_NOTHING_COMPARED = -2


class Waiting:
    """Remembers, by partition and isolation level, the first offset that waits for a verdict, and since when.

    Times are seconds on any running clock.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[TopicPartition, IsolationLevel], tuple[int, float]] = {}
        self._reported_at: dict[TopicPartition, float] = {}

    def reported(self, place: TopicPartition, now: float) -> None:
        """Take in that a row of progress is about a partition.

        Until it is first compared, the partition waits since the first such row, at both isolation levels.

        Args:
            place: the partition.
            now: the present, in seconds.
        """
        if place not in self._reported_at:
            for view in IsolationLevel:
                self._since.setdefault((place, view), (_NOTHING_COMPARED, now))
        self._reported_at[place] = now

    def covered(self, coverage: Coverage, now: float) -> None:
        """Take in from which offset on a partition waits for verdicts (`Coverage.waits_from`).

        If that offset is new, the wait begins now.

        Args:
            coverage: the partition's coverage.
            now: the present, in seconds.
        """
        self._reported_at.setdefault(coverage.place, now)
        for view, offset in zip(IsolationLevel, coverage.waits_from, strict=True):
            key = coverage.place, view
            if offset == UNKNOWN:
                self._since.pop(key, None)
            elif self._since.get(key, (UNKNOWN,))[0] != offset:
                self._since[key] = offset, now

    def hold_up(self, is_held_up: Callable[[TopicPartition], bool], now: float) -> None:
        """Let the wait of each partition whose comparison cannot go on at present begin again, at ``now``.

        It is called at each look. So only the time counts since the comparison could go on.

        Args:
            is_held_up: called with a partition; returns whether its comparison cannot go on at present.
            now: the present, in seconds.
        """
        self._since = {key: (offset, now if is_held_up(key[0]) else at) for key, (offset, at) in self._since.items()}

    def seconds(self) -> dict[tuple[TopicPartition, IsolationLevel], float]:
        """By partition and isolation level, for how many seconds it had waited when it was last reported on.

        So a deleted topic, which nobody reports on, does not seem to wait longer and longer.
        """
        return {key: max(0.0, self._reported_at[key[0]] - since) for key, (_, since) in self._since.items()}

    def forget(self, is_gone: Callable[[TopicPartition], bool]) -> None:
        """Forget each partition for which ``is_gone`` returns true, because no broker reports on it any more."""
        self._since = {key: one for key, one in self._since.items() if not is_gone(key[0])}
        self._reported_at = {place: at for place, at in self._reported_at.items() if not is_gone(place)}


__all__ = ["Waiting"]
