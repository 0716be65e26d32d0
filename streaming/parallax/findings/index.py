"""An index of where probes have found keys in the logs of replicas.

With it no probe searches a part of a log that another has searched.
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
    """At which offsets keys are in the log of one replica. Thread-safe.

    Attributes:
        since_ms: when the oldest entry was read, milliseconds since 1970 UTC.
        read_to: the highest offset up to which the log was read.
        epoch: leader epoch of the last batch below ``read_to``; -1 where it is not known.
        density: bytes per offset in the part that was read; 0.0 if nothing was.
        topic_id: id of the topic that the log is of.
        views_void: whether the recorded views are about another log, which this one has replaced unnoticed.
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
        """Return what is known of the keys' offsets in the log.

        Keys of which nothing is known are left out.
        """
        with self._lock:
            found = {key: self._keys[key] for key in keys if key in self._keys}
            for key in found:
                self._keys.move_to_end(key)
            return found

    def learn(self, known: Mapping[Key, Known], read_to: int = -1, epoch: int = -1) -> None:
        """Add what a read of the log has shown about keys.

        Args:
            known: by key, its offsets, and the part of the log that was read for it.
            read_to: the offset up to which the log was read; -1 where it was not.
            epoch: leader epoch of the last batch below ``read_to``; -1 where it is not known.
        """
        with self._lock:
            if not self._keys:
                self.since_ms = now_ms()
            for key, one in known.items():
                self._keys[key] = self._keys.pop(key, Known()).joined(one)
            while len(self._keys) > _KEYS:
                self._keys.popitem(last=False)
            if read_to >= self.read_to and epoch >= 0:
                self.read_to, self.epoch = read_to, epoch

    def weigh(self, size: int, offsets: int) -> None:
        """Keep how many bytes a read of the log took, to estimate what later reads cost.

        Args:
            size: bytes that were read.
            offsets: how many offsets they covered.
        """
        if offsets > 0:
            self.density = size / offsets

    def forget(self) -> None:
        """Forget all keys, because the log was replaced by another one."""
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
        """Return the index of one replica: the same object at each call. It may be called from any thread."""
        with self._lock:
            return self._replicas.setdefault((broker, place), ReplicaIndex())


def learnt(scan: KeyScan, keys: Collection[Key], start: int, end: int) -> dict[Key, Known]:
    """Return by key where its records are in a log that was read from ``start`` to below ``end``.

    Args:
        scan: what was found of the keys in these offsets.
        keys: the keys that were looked for.
        start: the first offset that was read.
        end: the offset after the last one that was read.
    """
    return {
        key: Known(max(start, scan.floors.get(key, start)), end, tuple(reversed(scan.offsets.get(key, ()))))
        for key in keys
    }
