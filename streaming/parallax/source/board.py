"""The positions of all readers of one broker, as arrays, to find quickly the readers that have anything to do.

Of ten thousand partitions, a micro-batch moves a few. The readers of all others have read to the end of their logs and
have nothing to report. Only readers that have something to do are planned one by one (`parallax.source.planning`).
Pure: no broker is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from parallax.model import UNKNOWN, IsolationLevel, TopicPartition
from parallax.replica.client import TopicMetadata
from parallax.replica.places import Array, Marks, Places
from parallax.source.feedback import Recorded
from parallax.source.offsets import Reader
from parallax.source.planning import STANDING


class Board:
    """The recorded position of each reader of one broker, one array for each isolation level.

    The planner has one board for each broker.

    Args:
        broker: the broker's id.
        isolations: the isolation levels that are read.
        places: the partitions that the broker hosts.
        topics: the topics of the cluster, by name.
    """

    def __init__(
        self, broker: int, isolations: Sequence[IsolationLevel], places: Places, topics: Mapping[str, TopicMetadata]
    ) -> None:
        self.broker = broker
        self.places = places
        self._topics = topics
        self._positions: dict[int, Array] = {int(i): np.full(len(places), UNKNOWN, np.int64) for i in isolations}
        self._is_well: dict[int, Array] = {int(i): np.zeros(len(places), np.bool_) for i in isolations}

    def hosts(self, reader: Reader) -> bool:
        """Whether a reader has an entry here: its isolation level is read, and the broker hosts its partition.

        A reader without one is planned no more: its replica was moved away or deleted.
        """
        return reader.isolation in self._positions and reader.place in self.places.located

    def note(self, reader: Reader, recorded: Recorded) -> None:
        """Set a reader's recorded position and event.

        Args:
            reader: the reader; `hosts` must be true of it.
            recorded: what the tables hold of it.
        """
        at = self.places.located[reader.place]
        self._positions[reader.isolation][at] = recorded.position
        # An id that is not known may be another: that is for the planning to see.
        is_same = recorded.topic_id == self._topics[reader.topic].topic_id
        self._is_well[reader.isolation][at] = is_same and recorded.event not in STANDING

    def lowest(self, planned: Iterable[tuple[Reader, int]] = ()) -> Array:
        """For each partition of ``places``, in that order, the lowest position of its readers: int64[n].

        A partition has one reader for each isolation level. The value is -1 if one of these readers has no position
        yet.

        Args:
            planned: readers that have a planned range, but no recorded position yet, each with the end of that range.
                The end counts as the reader's position.
        """
        positions = self._positions
        if planned:
            positions = {isolation: column.copy() for isolation, column in positions.items()}
            for reader, end in planned:
                positions[reader.isolation][self.places.located[reader.place]] = end
        lowest: Array = np.min(list(positions.values()), axis=0)
        return lowest

    def busy(self, isolation: int, marks: Marks) -> list[int]:
        """Indexes of the partitions whose reader of one isolation level has offsets to read or an event to report.

        Args:
            isolation: the isolation level.
            marks: the watermarks that the broker reported. A partition that it left out has nothing to do.

        Returns:
            Indexes into ``places``, in ascending order.
        """
        at = self.places.among(marks.places)
        position, bound = self._positions[isolation], marks.high_watermark
        if isolation == IsolationLevel.READ_COMMITTED:
            bound = marks.last_stable_offset
        has_failed = np.zeros(len(marks.places), np.bool_)
        has_failed[list(marks.errors)] = True
        rests = (
            self._is_well[isolation]
            & (position != UNKNOWN)
            & ~has_failed[at]
            & (marks.log_start_offset[at] <= position)
            & (bound[at] <= position)
            & (position <= marks.log_end_offset[at])
        )
        found: list[int] = np.flatnonzero((at != UNKNOWN) & ~rests).tolist()
        return found

    def readers(self, isolation: int, at: Sequence[int] | None = None) -> Iterator[Reader]:
        """Yield the readers of an isolation level, in the order of their partitions.

        Args:
            isolation: the isolation level.
            at: indexes into ``places``, to get only the readers of these partitions; None for all.
        """
        for place in self.places if at is None else (self.places[i] for i in at):
            yield Reader(isolation, self.broker, *place)


def boards(
    topics: Mapping[str, TopicMetadata], isolations: Sequence[IsolationLevel], chosen: Sequence[int] | None
) -> dict[int, Board]:
    """Make a new `Board` for each broker that is read and hosts a replica; no reader has a position in it yet.

    Args:
        topics: topics by name.
        isolations: the isolation levels that are read.
        chosen: ids of the brokers that are read; None for all.

    Returns:
        The boards by broker id, in ascending order.
    """
    hosted: dict[int, list[TopicPartition]] = {}
    for topic in topics.values():
        for number, partition in topic.partitions.items():
            for broker in partition.replicas:
                if chosen is None or broker in chosen:
                    hosted.setdefault(broker, []).append(TopicPartition(topic.name, number))
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return {broker: Board(broker, isolations, Places(mine, ids), topics) for broker, mine in sorted(hosted.items())}


__all__ = ["Board", "boards"]
