"""Which partitions have been compared completely since their last outage or pause. Pure, no clock.

When a stopped job starts again, a broker comes back, or a pause ends, some offsets have not been compared. Until they
have been, nobody can say that all replicas agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from parallax.alerting.blind import HeldUp
from parallax.alerting.snapshot import Replica, ReplicaState
from parallax.compare.suspect import Coverage
from parallax.model import UNKNOWN, TopicPartition

_Ends = tuple[int, int]
"""By isolation level, the offset below which a log shows records; `UNKNOWN` (-1) where it shows none."""


class CatchingUp:
    """Knows which partitions are *catching up*: their comparison has not come to their *goal* yet.

    The goal is the furthest end of the partition's logs. It is noted when the partition is first seen, and again after
    each time in which its comparison did not go on, e.g. an outage. The partition has caught up once the comparison has
    come to the goal and no offset below waits for a verdict. Offsets that need an audit do not wait.
    """

    def __init__(self) -> None:
        self._brokers: dict[TopicPartition, frozenset[int]] = {}
        self._told: set[TopicPartition] = set()
        """Of which somebody has said what brokers hold them."""
        self._void: dict[TopicPartition, int] = {}
        """What was compared until then, milliseconds since 1970, is of a log that is gone."""
        self._ends: dict[TopicPartition, _Ends] = {}
        self._done: set[TopicPartition] = set()

    def observe(self, replica: Replica, brokers: Collection[int] | None) -> None:
        """Take in which replicas a partition has, by a row of progress about one of them.

        A replica that is new makes the partition catch up again. In `look`, the partition has no goal, and so has not
        caught up, until each of its replicas has reported offsets.

        Args:
            replica: the replica that the row of progress is about; the row need not have its offsets.
            brokers: ids of the brokers that hold the partition, as the row says. None or empty if it does not say: as
                long as no row has, the replicas are those that rows were about.
        """
        place = TopicPartition(*replica[:2])
        before = self._brokers.get(place, frozenset())
        if brokers:
            self._told.add(place)
            self._brokers[place] = frozenset(brokers)
        elif place not in self._told:
            self._brokers[place] = before | {replica[2]}
        if self._brokers[place] - before:
            self._drop([place])

    def look(
        self,
        replicas: Mapping[Replica, ReplicaState],
        coverages: Mapping[TopicPartition, Coverage],
        held: HeldUp,
        told_until: float = 0.0,
    ) -> dict[TopicPartition, bool]:
        """By partition that `observe` has named, whether it has caught up.

        A partition that has caught up stays so, until its comparison does not go on (``held``) or it has a new replica.
        While its comparison does not go on, the value is False.

        Args:
            replicas: by replica, the offsets that it reported last.
            coverages: by partition, how far it has been compared.
            held: the partitions whose comparison does not go on now.
            told_until: offsets that were reported until then make no goal, in seconds since 1970 UTC: a partition that
                had to catch up may have grown since.
        """
        if held:
            self._drop([place for place in (*self._ends, *self._done) if place in held])
        for place in self._brokers.keys() - self._done:
            now = None if place in held else self._ends_of(place, replicas, told_until)
            if now is None:
                continue
            # Of a log that was truncated nothing is left to compare above its end.
            first = self._ends.get(place, now)
            ends = min(first[0], now[0]), min(first[1], now[1])
            self._ends[place] = ends
            coverage = coverages.get(place)
            if coverage is not None and coverage.compared_at <= self._void.get(place, UNKNOWN):
                coverage = None
            if all(end == UNKNOWN or _is_compared(coverage, view, end) for view, end in enumerate(ends)):
                self._done.add(place)
        return {place: place in self._done for place in self._brokers}

    def renew(self, topic: str, coverages: Iterable[Coverage]) -> None:
        """Forget how far a topic's partitions were compared, because the topic was deleted and created again.

        Args:
            topic: the topic's name.
            coverages: how far partitions have been compared by now. For this topic these are about the deleted logs, so
                `look` ignores them from now on.
        """
        self.forget(lambda place: place.topic == topic)
        self._void |= {one.place: one.compared_at for one in coverages if one.topic == topic}

    def forget(self, is_gone: Callable[[TopicPartition], bool]) -> None:
        """Forget each partition for which ``is_gone`` returns true, because no broker reports on it any more."""
        gone = [place for place in self._brokers if is_gone(place)]
        self._drop(gone)
        for place in gone:
            del self._brokers[place]
            self._told.discard(place)
            self._void.pop(place, None)

    def _drop(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._ends.pop(place, None)
            self._done.discard(place)

    def _ends_of(
        self, place: TopicPartition, replicas: Mapping[Replica, ReplicaState], told_until: float
    ) -> _Ends | None:
        """How far the furthest of its logs goes; None if not every replica has said so since a time."""
        states = [replicas.get((*place, broker)) for broker in self._brokers[place]]
        known = [s for s in states if s is not None and s.high_watermark is not None and s.offsets_at >= told_until]
        if len(known) < len(states):
            return None
        return (
            max(_shown(state, state.high_watermark) for state in known),
            max(_shown(state, state.last_stable_offset) for state in known),
        )


def _shown(state: ReplicaState, end: int | None) -> int:
    return UNKNOWN if end is None or end <= (state.log_start_offset or 0) else end


def _is_compared(coverage: Coverage | None, view: int, end: int) -> bool:
    """Whether what lies below an offset waits for no verdict that comes by itself."""
    if coverage is None or coverage.compared_up_to[view] < end:
        return False
    return coverage.waits_from[view] == UNKNOWN or coverage.waits_from[view] >= end


__all__ = ["CatchingUp"]
