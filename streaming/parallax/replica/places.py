"""Partitions as columns, so that one request asks about ten thousand of them without a Python object for each.

One `Places` holds the partitions that a broker hosts. It is used for many requests: their bytes are made once, and only
the offsets in them change.
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
    """A list of partitions in a fixed order, each with an index; those of one topic have consecutive indexes.

    Args:
        partitions: the partitions, in any order; a repeated one is kept once.
        topic_ids: Kafka's id of each topic, by topic name. If all are known, requests name topics by id, so that
            another topic of the same name does not answer.
    """

    def __init__(self, partitions: Iterable[tuple[str, int]], topic_ids: Mapping[str, str] | None = None) -> None:
        by_topic: dict[str, dict[int, None]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, {})[partition] = None
        self.topics = tuple(by_topic)
        """The topics' names, in the order of the partitions."""
        self.topic_ids = tuple((topic_ids or {}).get(topic, "") for topic in self.topics)
        """Kafka's id of each topic, in the order of ``topics``; empty where it is not known."""
        ends = np.cumsum([0, *(len(mine) for mine in by_topic.values())])
        self.slices = tuple(slice(start, end) for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        """The indexes of each topic's partitions, in the order of ``topics``."""
        self.partitions: Array = np.array([p for mine in by_topic.values() for p in mine], np.int64)
        """int64[n]: the number of each partition within its topic."""
        self._made: dict[Any, Any] = {}

    @classmethod
    def of(cls, partitions: Sequence[tuple[str, int]]) -> Places:
        """Make `Places` of partitions; a `Places` is returned unchanged."""
        return partitions if isinstance(partitions, Places) else Places(partitions)

    @cached_property
    def located(self) -> Mapping[TopicPartition, int]:
        """By partition, its index in this list; made once, so that a partition need not be searched for."""
        return {place: at for at, place in enumerate(self._listed)}

    @cached_property
    def topic_index(self) -> Mapping[str, int]:
        """The index of each topic in `topics`, by name."""
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
        """For each of these partitions, its index in another `Places`: int64[n], -1 if it is not there.

        With it, arrays of two looks can be compared.
        """
        if others is self:
            return np.arange(len(self))
        return np.array([others.located.get(place, UNKNOWN) for place in self], np.int64)

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, which is called only the first time; later calls with the same key return it again.

        Args:
            key: names the value.
            make: computes the value, which must depend on nothing but these partitions.
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
    """Log start, LSO, high watermark and log end of one broker's replicas, as one look has shown them.

    It is a mapping by partition, and has the same values as columns.

    Attributes:
        places: the n partitions.
        high_watermark: int64[n], -1 if the replica did not answer.
        last_stable_offset: int64[n], -1 if the replica did not answer.
        log_start_offset: int64[n], -1 if the replica did not answer.
        log_end_offset: int64[n], -1 if the replica did not answer.
        errors: for replicas that did not answer, the error by index of the partition.
    """

    places: Places
    high_watermark: Array
    last_stable_offset: Array
    log_start_offset: Array
    log_end_offset: Array
    errors: Mapping[int, ReplicaError]

    @classmethod
    def of(cls, marks: Mapping[TopicPartition, Watermarks | ReplicaError]) -> Marks:
        """Make `Marks` of a mapping by partition; a `Marks` is returned unchanged."""
        if isinstance(marks, Marks):
            return marks
        places = Places(marks)
        said = [marks[place] for place in places]
        rows = [_SILENT if isinstance(one, ReplicaError) else one for one in said]
        columns = {name: np.array([getattr(one, name) for one in rows], np.int64) for name in OFFSETS}
        errors = {at: one for at, one in enumerate(said) if isinstance(one, ReplicaError)}
        return cls(places, errors=errors, **columns)

    def said(self, at: int) -> Watermarks | ReplicaError:
        """The four offsets of one replica, or the error if it did not answer.

        Args:
            at: index of the replica's partition.
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
