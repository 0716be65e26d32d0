"""How late readers are, in seconds: for how long a replica has shown offsets that are not read."""

from __future__ import annotations

from collections.abc import Callable

from parallax.model import IsolationLevel

View = tuple[tuple[str, int, int], IsolationLevel]
"""A replica as topic, partition and broker, and the isolation level at which it is read."""

_FINE = 16
"""An end is remembered if the last one is older than one part in 16 of the lag. So a lag of days needs some hundred."""


class Lags:
    """Remembers, for each replica and isolation level, when the replica first showed offsets that are not read yet.

    A replica with an isolation level is a `View` here. Times are seconds on any running clock.
    """

    def __init__(self) -> None:
        self._ends: dict[View, list[tuple[float, int]]] = {}

    def shown(self, view: View, end: int, position: int | None, now: float) -> None:
        """Take in the offset below which a replica shows records now, and when. `since` uses it.

        Args:
            view: the replica and the isolation level.
            end: the offset below which it shows records.
            position: the next offset to read; None if that is not known.
            now: when the replica reported it, in seconds.
        """
        if position is not None and end <= position:
            self._ends.pop(view, None)
            return
        # Of a log that was truncated nothing is unread above its new end.
        ends = [one for one in self._ends.get(view, ()) if one[1] <= end]
        if not ends or (ends[-1][1] < end and now - ends[-1][0] >= (now - ends[0][0]) / _FINE):
            ends.append((now, end))
        self._ends[view] = ends

    def read(self, view: View, position: int) -> None:
        """Take in that a replica was read up to an offset. `since` then only counts the offsets from there on.

        Args:
            view: the replica and the isolation level.
            position: the next offset to read.
        """
        if view in self._ends:
            self._ends[view] = [one for one in self._ends[view] if one[1] > position]
            if not self._ends[view]:
                del self._ends[view]

    def hold_up(self, is_held_up: Callable[[View], bool], now: float) -> None:
        """Let the lag begin at ``now`` for each replica and isolation level that cannot, or must not, be read now.

        Call it at each look. So unread offsets count as late only from the time at which reading may go on.

        Args:
            is_held_up: called with a replica and isolation level; returns whether it cannot, or must not, be read now.
            now: the present, in seconds.
        """
        for view, ends in self._ends.items():
            if is_held_up(view):
                self._ends[view] = [(now, ends[-1][1])]

    def since(self) -> dict[View, float]:
        """By replica and isolation level with unread offsets, when the replica first showed the lowest, in seconds."""
        return {view: ends[0][0] for view, ends in self._ends.items()}

    def forget(self, is_gone: Callable[[View], bool]) -> None:
        """Forget each replica and isolation level for which ``is_gone`` returns true, because its log is gone."""
        self._ends = {view: ends for view, ends in self._ends.items() if not is_gone(view)}
