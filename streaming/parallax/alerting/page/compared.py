"""Remembers how far each partition had been compared at each minute of the last hour, for the page's drawings.

No table holds this, so it is lost when the job ends.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from datetime import UTC, datetime

from parallax.alerting.state import Snapshot
from parallax.model import TopicPartition

MOST = 20_000
"""How many partitions are remembered; of others only the present is known."""
_EVERY_S = 60
_KEPT = 61
"""How many changes of a partition are kept: at most one a minute, for an hour."""
_FIELDS = 3
"""The numbers of one change: when, in seconds since 1970 UTC, and the offset at each isolation level."""

Steps = Sequence[tuple[datetime, tuple[int, int]]]
"""Times, each with the offsets up to which a partition was compared from then on, the oldest first.

The offsets are indexed by isolation level (`parallax.model.IsolationLevel`).
"""


class Compared:
    """Remembers up to which offsets partitions had been compared, and when; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[TopicPartition, array[int]] = {}
        self._noted = 0.0

    def note(self, snapshot: Snapshot) -> None:
        """Remember up to which offsets each partition is compared in a snapshot; once a minute at most."""
        if snapshot.taken_at - self._noted < _EVERY_S:
            return
        with self._lock:
            self._noted = snapshot.taken_at
            for place in self._kept.keys() - snapshot.coverage.keys():
                del self._kept[place]
            for place, coverage in snapshot.coverage.items():
                own = self._kept.get(place)
                if own is None and len(self._kept) < MOST:
                    own = self._kept[place] = array("q")
                if own is not None and tuple(own[-2:]) != coverage.compared_up_to:
                    own.extend((int(snapshot.taken_at), *coverage.compared_up_to))
                    del own[: -_KEPT * _FIELDS]

    def of(self, place: TopicPartition, snapshot: Snapshot) -> Steps:
        """Up to which offsets a partition was compared, change by change over the last hour, the oldest first.

        Each change is a time and the offset for each isolation level. Empty if nothing was compared.

        Args:
            place: the partition.
            snapshot: what the job knows now; its coverage is the last change.
        """
        with self._lock:
            own = self._kept.get(place, array("q"))
            steps = [(own[i], (own[i + 1], own[i + 2])) for i in range(0, len(own), _FIELDS)]
        coverage = snapshot.coverage.get(place)
        if coverage is not None:
            steps.append((int(snapshot.taken_at), coverage.compared_up_to))
        return [(datetime.fromtimestamp(at, UTC), upto) for at, upto in steps if min(upto) >= 0]
