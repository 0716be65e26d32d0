"""Where keys are in the logs of replicas, as probes have found, so that nothing is read twice."""

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
"""How many keys of one replica are remembered: the last ones asked for."""


@dataclass
class ReplicaIndex:
    """Where keys are in the log of one replica. Thread-safe.

    Attributes:
        since_ms: when the oldest of it was read, milliseconds since 1970 UTC.
        read_to: the offset below which something was read.
        epoch: leader epoch of the last batch below it; -1 where it is not known.
        density: bytes per offset, as far as the log was read; 0.0 where it was not.
        topic_id: of the topic whose log it is.
        views_void: the log is another one than the views recorded, and their readers did not notice.
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
        """Return for each key at which offsets of the log it is, as far as that is known."""
        with self._lock:
            found = {key: self._keys[key] for key in keys if key in self._keys}
            for key in found:
                self._keys.move_to_end(key)
            return found

    def learn(self, known: Mapping[Key, Known], read_to: int = -1, epoch: int = -1) -> None:
        """Remember at which offsets of the log keys were found.

        Args:
            known: of each key.
            read_to: up to where the log was read for it; -1 where it was not.
            epoch: leader epoch of the last batch below that; -1 where it is not known.
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
        """Take in how many bytes a number of offsets took, to estimate the cost of later reads."""
        if offsets > 0:
            self.density = size / offsets

    def forget(self) -> None:
        """Forget everything, because the log is another one."""
        with self._lock:
            self._keys.clear()
            self.read_to, self.epoch, self.density = 0, -1, 0.0

    @property
    def is_empty(self) -> bool:
        """Whether the index knows of no key at all."""
        return not self._keys


class Indexes:
    """The index of each replica's log: where keys are. An index is made when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replicas: dict[tuple[int, TopicPartition], ReplicaIndex] = {}

    def of(self, broker: int, place: TopicPartition) -> ReplicaIndex:
        """Return the index of one replica, always the same object; may be called from any thread."""
        with self._lock:
            return self._replicas.setdefault((broker, place), ReplicaIndex())


def learnt(scan: KeyScan, keys: Collection[Key], start: int, end: int) -> dict[Key, Known]:
    """Return where keys are in a log, from the result of a scan of ``[start, end)``."""
    return {
        key: Known(max(start, scan.floors.get(key, start)), end, tuple(reversed(scan.offsets.get(key, ()))))
        for key in keys
    }
