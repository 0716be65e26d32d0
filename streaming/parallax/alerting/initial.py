"""Whether each replica has been read up to where its log ended when the job started. Pure, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from parallax.alerting.refusals import Replica
from parallax.model import IsolationLevel, TopicPartition


class InitialReading:
    """Follows whether each replica has been read up to its *goal*: where its log ended at the start.

    The start of a replica is its first answer to this job.
    """

    def __init__(self) -> None:
        self._marks: dict[TopicPartition, dict[int, Mapping[IsolationLevel, int] | None]] = {}
        self._starts: dict[Replica, int] = {}
        self._done: set[TopicPartition] = set()
        self._topic_ids: dict[str, str] = {}

    def observe(self, replica: Replica, row: Mapping[str, Any]) -> bool:
        """Take in a row of progress about one replica.

        The first row in which the replica answers says where its log ended at the start.

        Args:
            replica: the replica that the row is about.
            row: the row, by column.

        Returns:
            True if the row's topic id differs from an earlier one. Then the topic was created again, and what was read
            before was a deleted log.
        """
        topic, partition, broker = replica
        recreated = self._is_recreated(topic, row.get("topic_id"))
        if recreated:
            self._drop(place for place in self._marks if place[0] == topic)
        marks = self._marks.setdefault(TopicPartition(topic, partition), {})
        marks.setdefault(broker, None)
        if row["reachable"] and marks[broker] is None:
            start = row["log_start_offset"]
            shown = {
                IsolationLevel.READ_UNCOMMITTED: row["high_watermark"],
                IsolationLevel.READ_COMMITTED: row["last_stable_offset"],
            }
            self._starts[replica] = start
            # Where nothing is shown there is nothing to read, and no position.
            marks[broker] = {level: -1 if offset <= start else offset for level, offset in shown.items()}
        for left in set(marks).difference(row.get("replicas") or marks):
            del marks[left]
        return recreated

    def _is_recreated(self, topic: str, topic_id: str | None) -> bool:
        if not topic_id:
            return False
        before, self._topic_ids[topic] = self._topic_ids.get(topic, topic_id), topic_id
        return before != topic_id

    def _drop(self, places: Iterable[TopicPartition]) -> None:
        for place in tuple(places):
            for broker in self._marks.pop(place):
                self._starts.pop((*place, broker), None)
            self._done.discard(place)

    def read(self, positions: Mapping[tuple[Replica, IsolationLevel], int]) -> dict[TopicPartition, bool]:
        """Whether every replica of a partition was read up to where its log ended at the start, by partition.

        It is true once both isolation levels were read that far, and stays true.

        Args:
            positions: by replica and isolation level, the next offset to read.
        """
        for place, marks in self._marks.items():
            if place not in self._done and all(
                mark is not None
                and all(positions.get(((*place, b), level), -1) >= offset for level, offset in mark.items())
                for b, mark in marks.items()
            ):
                self._done.add(place)
        return {place: place in self._done for place in self._marks}

    def left(self, positions: Mapping[tuple[Replica, IsolationLevel], int]) -> dict[Replica, int]:
        """By replica, how many offsets of the log that it had at the start are still to be read.

        The offsets of both isolation levels are added. Replicas with none left are left out.

        Args:
            positions: by replica and isolation level, the next offset to read.
        """
        found = {}
        for place, marks in self._marks.items():
            for broker, mark in marks.items() if place not in self._done else ():
                replica = (*place, broker)
                start = self._starts.get(replica, 0)
                levels = (mark or {}).items()
                n = sum(max(0, offset - max(start, positions.get((replica, level), start))) for level, offset in levels)
                if n:
                    found[replica] = n
        return found

    def forget(self, alive: Collection[TopicPartition]) -> None:
        """Forget all partitions except those in ``alive``, because no broker reports on the others any more."""
        self._drop(place for place in self._marks if place not in alive)
        topics = {topic for topic, _ in alive}
        self._topic_ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic in topics}


__all__ = ["InitialReading"]
