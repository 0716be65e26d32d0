"""How far views are behind their replicas in time: for how long there have been offsets to read."""

from __future__ import annotations

from collections.abc import Callable

from parallax.model import IsolationLevel

View = tuple[tuple[str, int, int], IsolationLevel]
"""Topic, partition and broker of a replica, and how it is read."""

_FINE = 16
"""An end is remembered if the last one is older than this part of the lag. So a lag of days needs some hundred ends."""


class Lags:
    """Remembers the ends of logs that views have not been read up to. Times are seconds on any running clock."""

    def __init__(self) -> None:
        self._ends: dict[View, list[tuple[float, int]]] = {}

    def shown(self, view: View, end: int, position: int | None, now: float) -> None:
        """Keep up to which offset a replica shows records now, and when, so that its lag can be computed.

        Args:
            view: the replica, and how it is read.
            end: the offset below which it shows records.
            position: the next offset to read; None if that is not known.
            now: when the replica reported it.
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
        """Lower a replica's lag: it has been read up to ``position``, the next offset to read."""
        if view in self._ends:
            self._ends[view] = [one for one in self._ends[view] if one[1] > position]
            if not self._ends[view]:
                del self._ends[view]

    def hold_up(self, is_held_up: Callable[[View], bool], now: float) -> None:
        """Stop the clock of each replica that must not, or cannot, be read now.

        While reading is held up, the lag of such a replica is not timed. Its unread offsets count as late only from the
        time at which reading may go on.

        Args:
            is_held_up: says of a view of a replica whether reading it is held up.
            now: the present time in seconds.
        """
        for view, ends in self._ends.items():
            if is_held_up(view):
                self._ends[view] = [(now, ends[-1][1])]

    def since(self) -> dict[View, float]:
        """By view that is behind, since when its replica has shown offsets that were not read."""
        return {view: ends[0][0] for view, ends in self._ends.items()}

    def forget(self, is_gone: Callable[[View], bool]) -> None:
        """Forget views for which a given function returns true, because their logs are gone."""
        self._ends = {view: ends for view, ends in self._ends.items() if not is_gone(view)}
