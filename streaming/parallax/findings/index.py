"""An index of where probes have found the records of keys in each replica's log.

With it no probe reads a part of a log again that an earlier one has read for the key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from parallax.findings.keys import Key, KeyScan
from parallax.findings.pointing import Known
from parallax.model import TopicPartition
from parallax.moments import now_ms

_KEYS = 10_000
"""How many keys of one replica are remembered: those that were asked for last."""


@dataclass
class ReplicaIndex:
    """The offsets at which keys have records in the log of one replica, as earlier probes found them. Thread-safe.

    Attributes:
        since_ms: when the first key entered the empty index, milliseconds since 1970 UTC.
        read_to: the offset below which probes or the views have read the log, as far as any has come.
        epoch: leader epoch of the last batch below ``read_to``; -1 while the index is empty.
        density: bytes per offset in the part of the log that the last read covered; 0.0 if there was none.
        topic_id: id of the topic that the log is of.
        views_void: True once a probe has found that this log replaced the one that the views have recorded, and that
            no reader of the views noticed. From then on, offsets in the views say nothing about this log.
    """

    since_ms: int = 0
    read_to: int = 0
    epoch: int = -1
    density: float = 0.0
    topic_id: str = ""
    views_void: bool = False
    _keys: OrderedDict[Key, Known] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def known(self, keys: Iterable[Key]) -> dict[Key, Known]:
        """Return by key the offsets of its records, and the part of the log that was read for it.

        Keys that the index does not have are left out.
        """
        with self._lock:
            found = {key: self._keys[key] for key in keys if key in self._keys}
            for key in found:
                self._keys.move_to_end(key)
            return found

    def learn(self, known: Mapping[Key, Known], read_to: int, epoch: int) -> None:
        """Add the offsets of keys that a read of the log has found.

        Nothing is added if the epoch is not known: nobody could tell later whether the log is still the same.

        Args:
            known: by key, the offsets of its records, and the part of the log that was read for it.
            read_to: the offset up to which the log was read.
            epoch: leader epoch of the last batch below ``read_to``; -1 where it is not known.
        """
        if epoch < 0:
            return
        with self._lock:
            if not self._keys:
                self.since_ms = now_ms()
            for key, one in known.items():
                self._keys[key] = self._keys.pop(key, Known()).joined(one)
            while len(self._keys) > _KEYS:
                self._keys.popitem(last=False)
            if read_to >= self.read_to:
                self.read_to, self.epoch = read_to, epoch

    def weigh(self, size: int, offsets: int) -> None:
        """Set ``density`` from one read of the log; later probes estimate from it what a read will cost.

        Args:
            size: bytes that were read.
            offsets: how many offsets they covered.
        """
        if offsets > 0:
            self.density = size / offsets

    def forget(self) -> None:
        """Drop all keys, because another log has replaced the one that they were found in."""
        with self._lock:
            self._keys.clear()
            self.read_to, self.epoch, self.density = 0, -1, 0.0

    @property
    def is_empty(self) -> bool:
        """Whether the index holds no key."""
        return not self._keys


class Indexes:
    """The indexes of all replicas, one for each. An index is made when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replicas: dict[tuple[int, TopicPartition], ReplicaIndex] = {}

    def of(self, broker: int, place: TopicPartition) -> ReplicaIndex:
        """Return the index of the broker's replica of a partition, so that later probes use what earlier ones found.

        It is the same object at each call. Thread-safe.
        """
        with self._lock:
            return self._replicas.setdefault((broker, place), ReplicaIndex())


def learnt(scan: KeyScan, keys: Collection[Key], start: int, end: int) -> dict[Key, Known]:
    """Return by key the offsets of its records in one part of a log: from ``start`` to below ``end``.

    Args:
        scan: the records of the keys that were found in this part.
        keys: the keys that were looked for.
        start: the first offset that was read.
        end: the offset after the last one that was read.
    """
    return {
        key: Known(max(start, scan.floors.get(key, start)), end, tuple(reversed(scan.offsets.get(key, ()))))
        for key in keys
    }
