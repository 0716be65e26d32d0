"""A *tick* as arrays: what every replica of every partition reports when all brokers are asked at one time.

Rows are made only of what is recorded (`parallax.source.repeats`). Pure: no clock, no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parallax.model import UNKNOWN
from parallax.replica.places import Array, Places
from parallax.replica.types import OFFSETS

Row = dict[str, Any]
"""A row of progress: a value for each column, by its name."""

NOT_ASKED, NONE_OPEN, SOME_OPEN = 0, 1, 2
"""How a replica answered about open transactions: it was not asked, it listed none, or it listed some."""


class Layout:
    """The partitions and replicas of a tick, in the order of its arrays.

    Ticks share one layout as long as the cluster stays the same.

    Args:
        replicas: by partition, the ids of its replicas.
        facts: by partition, what rows of progress say of the partition as a whole: leader, leader epoch, ISR, topic id
            and topic settings.
        retention_ms: by partition, ``delete.retention.ms``; None where it is not known.
        asked: ids of the brokers that are asked; None for all.
    """

    def __init__(
        self,
        replicas: Mapping[tuple[str, int], Sequence[int]],
        facts: Mapping[tuple[str, int], Hashable],
        retention_ms: Mapping[tuple[str, int], int | None],
        asked: Sequence[int] | None = None,
    ) -> None:
        self.places = Places(replicas)
        self.replicas = [tuple(replicas[place]) for place in self.places]
        self.facts = [(self.replicas[at], facts[place]) for at, place in enumerate(self.places)]
        told = [retention_ms[place] for place in self.places]
        self.retention_us = np.array([UNKNOWN if ms is None else ms * 1000 for ms in told], np.int64)
        """int64[n]: ``delete.retention.ms`` of each partition in microseconds, -1 where it is not known."""
        self.hosted: dict[int, tuple[Places, Array, Array]] = {}
        """By broker: its m partitions; int64[m], their indexes in ``places``; int64[m], its index in ``replicas``."""
        mine: dict[int, list[tuple[int, int]]] = {}
        for at, brokers in enumerate(self.replicas):
            for slot, broker in enumerate(brokers):
                if asked is None or broker in asked:
                    mine.setdefault(broker, []).append((at, slot))
        for broker, pairs in sorted(mine.items()):
            at, slot = np.array(pairs, np.int64).T
            self.hosted[broker] = Places(self.places[i] for i in at.tolist()), at, slot
        self.width = max((len(brokers) for brokers in self.replicas), default=0)
        self.is_slot = np.arange(self.width) < np.array([len(b) for b in self.replicas], np.int64)[:, None]
        """bool[n, width]: whether the partition has a replica in this column."""

    def same(self, other: Layout) -> Array:
        """The index that each partition has in another layout, as int64[n].

        It is -1 if the partition is missing there, or if its replicas or facts differ.
        """
        if other is self:
            return np.arange(len(self.places))
        at: Array = self.places.among(other.places)
        differs = [i for i, j in enumerate(at.tolist()) if j >= 0 and self.facts[i] != other.facts[j]]
        at[differs] = UNKNOWN
        return at


@dataclass(frozen=True)
class Tick:
    """What every replica reported when all brokers were asked at one time.

    It has n partitions, with up to ``width`` replicas each.

    Attributes:
        layout: the partitions, and the replicas in their order.
        observed_us: int64[n, width], when each replica answered, or when it was no longer waited for; microseconds
            since 1970 UTC.
        reachable: bool[n, width], whether the replica answered.
        offsets: int64[4, n, width], the offsets that it reported, in the order of `OFFSETS`.
        listed: int8[n, width], its answer about open transactions: `NOT_ASKED`, `NONE_OPEN` or `SOME_OPEN`.
        silence: int16[n, width], 0 where the replica answered. Otherwise a code for why it did not; equal codes mean
            the same kind of failure.
        rows_of: makes the rows of some partitions, from their indexes in ``layout``.
    """

    layout: Layout
    observed_us: Array
    reachable: Array
    offsets: Array
    listed: Array
    silence: Array
    rows_of: Callable[[Iterable[int]], list[Row]]

    @classmethod
    def blank(cls, layout: Layout, rows_of: Callable[[Iterable[int]], list[Row]]) -> Tick:
        """A tick in which no replica has answered yet; the caller fills its arrays."""
        shape = len(layout.places), layout.width
        return cls(
            layout,
            np.full(shape, UNKNOWN, np.int64),
            np.zeros(shape, np.bool_),
            np.full((len(OFFSETS), *shape), UNKNOWN, np.int64),
            np.full(shape, NOT_ASKED, np.int8),
            np.zeros(shape, np.int16),
            rows_of,
        )

    def at(self) -> Array:
        """When the last replica of each partition answered: int64[n], in microseconds since 1970 UTC."""
        last: Array = self.observed_us.max(axis=1, initial=UNKNOWN)
        return last

    def in_step(self) -> Array:
        """Whether all replicas of a partition answered and show the same offsets: bool[n].

        Their last stable offset must also be at the log end. Then no transaction is open, and every record is on all
        replicas.
        """
        none = ~self.layout.is_slot
        is_like_first = (self.offsets == self.offsets[:, :, :1]).all(axis=0)
        has_ended = self.offsets[OFFSETS.index("last_stable_offset")] == self.offsets[OFFSETS.index("log_end_offset")]
        alike: Array = (none | (self.reachable & is_like_first & has_ended)).all(axis=1)
        return alike & self.layout.is_slot.any(axis=1)

    def rows(self) -> list[Row]:
        """The rows of all replicas, partition by partition."""
        return self.rows_of(range(len(self.layout.places)))


__all__ = ["NONE_OPEN", "NOT_ASKED", "OFFSETS", "SOME_OPEN", "Layout", "Row", "Tick"]
