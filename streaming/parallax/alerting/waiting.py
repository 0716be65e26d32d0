"""How long partitions have waited at one offset for verdicts that should come by themselves.

Under traffic some offsets always wait for a verdict, but the first of them (`Coverage.waits_from`) moves on. Pure, no
clock.
"""

from __future__ import annotations

from collections.abc import Callable

from parallax.compare.suspect import Coverage
from parallax.model import UNKNOWN, IsolationLevel, TopicPartition

_NOTHING_COMPARED = -2


class Waiting:
    """Remembers since when each partition has waited at one offset. Times are seconds on any running clock."""

    def __init__(self) -> None:
        self._since: dict[tuple[TopicPartition, IsolationLevel], tuple[int, float]] = {}
        self._reported_at: dict[TopicPartition, float] = {}

    def reported(self, place: TopicPartition, now: float) -> None:
        """Begin to count how long a partition waits to be compared, by a row of progress of one of its replicas.

        A partition of which nothing has been compared waits since its first such row.
        """
        if place not in self._reported_at:
            for view in IsolationLevel:
                self._since.setdefault((place, view), (_NOTHING_COMPARED, now))
        self._reported_at[place] = now

    def covered(self, coverage: Coverage, now: float) -> None:
        """Set at which offset a partition waits to be compared.

        If that is a new offset, the wait begins now.
        """
        self._reported_at.setdefault(coverage.place, now)
        for view, offset in zip(IsolationLevel, coverage.waits_from, strict=True):
            key = coverage.place, view
            if offset == UNKNOWN:
                self._since.pop(key, None)
            elif self._since.get(key, (UNKNOWN,))[0] != offset:
                self._since[key] = offset, now

    def hold_up(self, is_held_up: Callable[[TopicPartition], bool], now: float) -> None:
        """Stop the clock of each partition with a replica that is not read now.

        Such a partition counts as waiting only from the time at which all its replicas are read again.

        Args:
            is_held_up: says of a partition whether one of its replicas is not read.
            now: the present time in seconds.
        """
        self._since = {key: (offset, now if is_held_up(key[0]) else at) for key, (offset, at) in self._since.items()}

    def seconds(self) -> dict[tuple[TopicPartition, IsolationLevel], float]:
        """By partition and view, for how many seconds it had waited when progress of it last came.

        Nothing reports on a deleted topic, so its partitions do not seem to wait longer and longer.
        """
        return {key: max(0.0, self._reported_at[key[0]] - since) for key, (_, since) in self._since.items()}

    def forget(self, is_gone: Callable[[TopicPartition], bool]) -> None:
        """Forget partitions for which a given function returns true, because nothing reports on them any more."""
        self._since = {key: one for key, one in self._since.items() if not is_gone(key[0])}
        self._reported_at = {place: at for place, at in self._reported_at.items() if not is_gone(place)}


__all__ = ["Waiting"]
