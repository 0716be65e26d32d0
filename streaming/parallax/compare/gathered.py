"""What a micro-batch showed of many partitions, as columns; an index says which partition each row is of.

There may be thousands of partitions with a few rows each. An object and its arrays for each would cost more than
comparing them. So rows stay together, in the order in which they were recorded, until a caller asks for one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from parallax.compare.observations import (
    Array,
    Columns,
    Observations,
    OpenTransactions,
    ProgressRows,
    ReplicaSets,
    ViewRows,
)
from parallax.model import TopicPartition

KINDS: tuple[type[Columns], ...] = (ViewRows, ProgressRows, OpenTransactions, ReplicaSets)
"""The types of the column sets in `Observations`, in order."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What was observed of several partitions, as columns in the order in which it was recorded.

    Attributes:
        places: the partitions.
        tables: four column sets of the types `KINDS`, each with the rows of all partitions. Each partition's rows are
            in the order of `Observations`.
        of: for each table, an array with the partition of each row, as an index into ``places``.
    """

    places: Sequence[TopicPartition]
    tables: tuple[Any, ...]
    of: tuple[Array, ...]

    @classmethod
    def one(cls, observations: Observations) -> Self:
        """Turn the observations of a single partition into a `Gathered`."""
        o = observations
        tables = o.rows, o.progress, o.open_transactions, o.replica_sets
        indexes = tuple(np.zeros(len(rows), np.int64) for rows in tables)
        return cls([TopicPartition(o.topic, o.partition)], tables, indexes)

    @classmethod
    def concat(cls, parts: Iterable[Self], places: Sequence[TopicPartition]) -> Self:
        """Join several `Gathered` into one; rows keep the order of the parts.

        Args:
            parts: observations of some of the partitions.
            places: the partitions of the result; they include those of all parts.
        """
        number = {place: n for n, place in enumerate(places)}
        tables: list[list[Any]] = [[] for _ in KINDS]
        indexes: list[list[Array]] = [[np.empty(0, np.int64)] for _ in KINDS]
        for part in parts:
            numbers = np.array([number[place] for place in part.places], np.int64)
            for kind, rows in enumerate(part.tables):
                tables[kind].append(rows)
                indexes[kind].append(numbers[part.of[kind]])
        joined = tuple(kind.concat(tables[n]) for n, kind in enumerate(KINDS))
        return cls(places, joined, tuple(np.concatenate(index) for index in indexes))

    @property
    def counts(self) -> Array:
        """For each partition, how many rows it has in all tables together."""
        return sum(
            (np.bincount(of, minlength=len(self.places)) for of in self.of), np.zeros(len(self.places), np.int64)
        )

    def only(self, chosen: Array) -> Self:
        """The observations of some of the partitions; the object itself if all are chosen.

        Args:
            chosen: for each of ``places``, whether the partition is kept.
        """
        if chosen.all():
            return self
        number = np.cumsum(chosen) - 1
        places = [place for place, is_chosen in zip(self.places, chosen.tolist(), strict=True) if is_chosen]
        at = [np.flatnonzero(chosen[of]) for of in self.of]
        tables = tuple(rows.take(i) if len(i) else type(rows).none() for rows, i in zip(self.tables, at, strict=True))
        return type(self)(places, tables, tuple(number[of[i]] for of, i in zip(self.of, at, strict=True)))

    def ordered(self) -> Ordered:
        """The same observations, sorted by partition, so that each partition's rows are one slice of a table."""
        tables, bounds = [], []
        for rows, of in zip(self.tables, self.of, strict=True):
            is_sorted = bool((of[1:] >= of[:-1]).all())
            tables.append(rows if is_sorted else rows.take(np.argsort(of, kind="stable")))
            ends = np.cumsum(np.bincount(of, minlength=len(self.places)))
            bounds.append(np.concatenate([[0], ends]).astype(np.int64))
        return Ordered(self.places, tuple(tables), tuple(bounds))

    def each(self) -> Iterator[Observations]:
        """Yield the observations of each partition that has any row, in the order of ``places``."""
        ordered, counts = self.ordered(), self.counts
        yield from (ordered.observations(n) for n in np.flatnonzero(counts).tolist())


@dataclass(frozen=True, slots=True)
class Ordered:
    """What was observed of several partitions, sorted by partition: one partition's rows after another's.

    Attributes:
        places: the partitions.
        tables: four column sets of the types `KINDS`.
        at: for each table, the index of each partition's first row, and as last entry the number of rows.
    """

    places: Sequence[TopicPartition]
    tables: tuple[Any, ...]
    at: tuple[Array, ...]

    def observations(self, n: int) -> Observations:
        """The observations of the partition whose index in ``places`` is ``n``."""
        made = [
            rows.take(slice(at[n], at[n + 1])) if at[n] < at[n + 1] else type(rows).none()
            for rows, at in zip(self.tables, self.at, strict=True)
        ]
        return Observations(*self.places[n], *made)


__all__ = ["KINDS", "Gathered", "Ordered"]
