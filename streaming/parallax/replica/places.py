"""Partitions as columns, so that one request asks about ten thousand of them without an object for each.

A `Places` is made once for the partitions that a broker hosts, and used for many requests. The bytes of these requests
are made once, and only the offsets in them change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np

from parallax.model import UNKNOWN, TopicPartition
from parallax.replica.errors import ReplicaError
from parallax.replica.types import OFFSETS, Watermarks

Array = np.ndarray[Any, Any]


class Places(Sequence[TopicPartition]):
    """Partitions in a fixed order, each with an index; those of one topic are side by side.

    Args:
        partitions: the partitions, in any order; each counts once.
        topic_ids: by topic name, Kafka's id of the topic. If all are known, replicas are asked by id, so that another
            topic of the same name does not answer.
    """

    def __init__(self, partitions: Iterable[tuple[str, int]], topic_ids: Mapping[str, str] | None = None) -> None:
        by_topic: dict[str, dict[int, None]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, {})[partition] = None
        self.topics = tuple(by_topic)
        """The names, in the order of the columns."""
        self.topic_ids = tuple((topic_ids or {}).get(topic, "") for topic in self.topics)
        """In the same order; empty where it is not known."""
        ends = np.cumsum([0, *(len(mine) for mine in by_topic.values())])
        self.slices = tuple(slice(start, end) for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        """Where each topic's partitions lie."""
        self.partitions: Array = np.array([p for mine in by_topic.values() for p in mine], np.int64)
        """The number of each partition within its topic."""
        self._made: dict[Any, Any] = {}

    @classmethod
    def of(cls, partitions: Sequence[tuple[str, int]]) -> Places:
        """Partitions as `Places`; these are returned as they are if they are `Places` already."""
        return partitions if isinstance(partitions, Places) else Places(partitions)

    @cached_property
    def located(self) -> Mapping[TopicPartition, int]:
        """By partition, its index in the columns."""
        return {place: at for at, place in enumerate(self._listed)}

    @cached_property
    def topic_index(self) -> Mapping[str, int]:
        """By topic, its index in `topics`."""
        return {topic: at for at, topic in enumerate(self.topics)}

    def topic_id(self, topic: str) -> str:
        """Kafka's id of a topic; empty if it is not known."""
        at = self.topic_index.get(topic)
        return "" if at is None else self.topic_ids[at]

    @cached_property
    def _listed(self) -> list[TopicPartition]:
        numbers = self.partitions.tolist()
        spans = zip(self.topics, self.slices, strict=True)
        return [TopicPartition(topic, number) for topic, span in spans for number in numbers[span]]

    @cached_property
    def _is_counted(self) -> list[bool]:
        """Whether a topic's partitions are 0, 1, 2 and so on, so that a number is its own place."""
        found = (self.partitions[span] for span in self.slices)
        return [bool((mine == np.arange(len(mine))).all()) for mine in found]

    def at(self, topic: int, numbers: Array) -> Array:
        """The indexes of some partitions of one topic.

        Args:
            topic: the topic's index in `topics`.
            numbers: the n partition numbers.

        Returns:
            int64[n]; -1 for a partition that is not one of these `Places`.
        """
        span = self.slices[topic]
        mine = self.partitions[span]
        if self._is_counted[topic]:
            at: Array = numbers.astype(np.int64)
            known = (at >= 0) & (at < len(mine))
        else:
            order = np.argsort(mine, kind="stable")
            at = order[np.minimum(np.searchsorted(mine[order], numbers), len(mine) - 1)]
            known = mine[at] == numbers
        return np.where(known, at + span.start, UNKNOWN)

    def among(self, others: Places) -> Array:
        """The index that each of these partitions has in another `Places`: int64[n], -1 if it is not there."""
        if others is self:
            return np.arange(len(self))
        return np.array([others.located.get(place, UNKNOWN) for place in self], np.int64)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """A value that is computed once for these partitions, and kept.

        Args:
            key: what the value is kept under.
            make: computes the value, on the first call with this key.
        """
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def __len__(self) -> int:
        return len(self.partitions)

    @overload
    def __getitem__(self, at: int) -> TopicPartition: ...
    @overload
    def __getitem__(self, at: slice) -> list[TopicPartition]: ...
    def __getitem__(self, at: int | slice) -> TopicPartition | list[TopicPartition]:
        return self._listed[at]


@dataclass(frozen=True, slots=True)
class Marks(Mapping[TopicPartition, "Watermarks | ReplicaError"]):
    """How far the logs of one broker's replicas go: a mapping by partition, which also has the values as columns.

    Attributes:
        places: the n partitions.
        high_watermark: int64[n], -1 if the replica did not say.
        last_stable_offset: int64[n], -1 if the replica did not say.
        log_start_offset: int64[n], -1 if the replica did not say.
        log_end_offset: int64[n], -1 if the replica did not say.
        errors: by index of the partition, why its replica did not say.
    """

    places: Places
    high_watermark: Array
    last_stable_offset: Array
    log_start_offset: Array
    log_end_offset: Array
    errors: Mapping[int, ReplicaError]

    @classmethod
    def of(cls, marks: Mapping[TopicPartition, Watermarks | ReplicaError]) -> Marks:
        """A mapping by partition as `Marks`; it is returned as it is if it is `Marks` already."""
        if isinstance(marks, Marks):
            return marks
        places = Places(marks)
        said = [marks[place] for place in places]
        rows = [_SILENT if isinstance(one, ReplicaError) else one for one in said]
        columns = {name: np.array([getattr(one, name) for one in rows], np.int64) for name in OFFSETS}
        errors = {at: one for at, one in enumerate(said) if isinstance(one, ReplicaError)}
        return cls(places, errors=errors, **columns)

    def said(self, at: int) -> Watermarks | ReplicaError:
        """How far a replica's log goes, or why that is not known.

        Args:
            at: index of its partition.
        """
        if at in self.errors:
            return self.errors[at]
        columns = self.high_watermark, self.last_stable_offset, self.log_start_offset, self.log_end_offset
        return Watermarks(*(int(column[at]) for column in columns))

    def __getitem__(self, place: TopicPartition) -> Watermarks | ReplicaError:
        return self.said(self.places.located[place])

    def __iter__(self) -> Any:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


_SILENT = Watermarks(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)

__all__ = ["Array", "Marks", "Places"]
