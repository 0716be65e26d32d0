"""Which rows of a tick are worth recording: a run of equal ticks is told by its first and its last.

The comparison learns two things from a tick: what has changed, and that nothing had until then. Where nothing happens,
the second can wait until something does: then the last tick before that is recorded as well, so that what was known
then is known still. A partition of which something is out of step is recorded with every tick, for a verdict may
depend on how long that lasts; so is one that the comparison awaits a report of (`Coverage.awaits_report`). And nothing
waits for longer than it may vouch for a reading (docs/theory.md, "What is unknown"), nor than a reader of the tables
may be left to wonder.

Pure: no clock, no broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from parallax.model import TopicPartition

LONGEST_US = 300_000_000
"""How old the newest row of a replica may become while nothing happens, in microseconds."""

RETENTIONS = 4
"""Rows vouch for each other where this many lie within ``delete.retention.ms``."""

_NOT_SAID = frozenset({"observed_at", "policy_at", "open_transactions"})
"""Columns that differ from tick to tick and say nothing by it; the last is looked at by itself."""

_IN_STEP = ("high_watermark", "last_stable_offset", "log_start_offset", "log_end_offset")

Row = dict[str, Any]


@dataclass(slots=True)
class _Told:
    """What was recorded last of a partition, and the last tick since that only repeated it."""

    rows: Sequence[Row]
    held: Sequence[Row] = field(default_factory=list)

    @property
    def at(self) -> int:
        return _at(self.rows)


class Repeats:
    """Leaves out of each tick what only repeats the one before. One for each query; a new one leaves out nothing."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, _Told] = {}

    def without(self, rows: Iterable[Row], awaited: Collection[TopicPartition] = ()) -> list[Row]:
        """The rows of a tick that are worth recording, with those that were held back and are now.

        Args:
            rows: all of the tick, as ``kafka-progress`` gives them.
            awaited: partitions that are recorded whatever is said of them.

        Returns:
            By partition, in the order of time.
        """
        ticks = {
            TopicPartition(*place): list(mine)
            for place, mine in groupby(sorted(rows, key=_place_and_broker), key=_place)
        }
        before, self._told = self._told, {}
        repeated = {
            place: mine for place, mine in ticks.items() if place not in awaited and _repeats(before.get(place), mine)
        }
        # What is due soon is recorded with what is due: one commit instead of many.
        share = 0.5 if any(_age(before[place], mine) >= _longest(mine) for place, mine in repeated.items()) else 1.0
        worth: list[Row] = []
        for place, mine in ticks.items():
            told = before.get(place)
            if told is not None and place in repeated and _age(told, mine) < share * _longest(mine):
                self._told[place] = _Told(told.rows, mine)
                continue
            worth += [*(told.held if told is not None and place not in repeated else ()), *mine]
            self._told[place] = _Told(mine)
        return worth


def _place(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _place_and_broker(row: Row) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["broker"]


def _at(rows: Sequence[Row]) -> int:
    return int(max(row["observed_at"] for row in rows))


def _age(told: _Told, mine: Sequence[Row]) -> int:
    return _at(mine) - told.at


def _longest(mine: Sequence[Row]) -> int:
    """For how long these rows may be held back, in microseconds; as long as may be where the retention is not known."""
    told = [row["delete_retention_ms"] for row in mine if row["delete_retention_ms"] is not None]
    return min([LONGEST_US, *(retention * 1000 // RETENTIONS for retention in told)])


def _repeats(told: _Told | None, mine: Sequence[Row]) -> bool:
    """Whether all replicas are in step, and say what they said."""
    return (
        told is not None
        and len(told.rows) == len(mine)
        and all(_same(before, now) for before, now in zip(told.rows, mine, strict=True))
        and _in_step(mine)
    )


def _same(before: Row, now: Row) -> bool:
    if any(before.get(name) != value for name, value in now.items() if name not in _NOT_SAID):
        return False
    # A replica that does not answer has no such column.
    listed = now.get("open_transactions")
    return listed is None or listed == before.get("open_transactions")


def _in_step(rows: Sequence[Row]) -> bool:
    """Whether all replicas can be asked and show the same, all of it: nothing is open, nothing is on its way."""
    first = rows[0]
    return all(
        row["reachable"]
        and row["last_stable_offset"] == row["log_end_offset"]
        and all(row[name] == first[name] for name in _IN_STEP)
        for row in rows
    ) and len(rows) == len(first["replicas"])


__all__ = ["LONGEST_US", "RETENTIONS", "Repeats"]
