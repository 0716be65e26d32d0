"""The state of a *scan*: one reading of a replica's whole log to find the records of some keys. No IO.

Keys can join while the scan runs. A key joins at the scan's present position. At the end of the log the scan begins
again at the start. When it reaches the offset at which a key has joined, it has looked for that key everywhere.
*Example.* A key joins at 600 of 1,000 offsets: the scan reads 600 to 999, then 0 to 599. So one reading of the log
serves all keys, and no key waits for longer than the log takes to be read once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parallax.findings.keys import Key
from parallax.findings.pointing import Known

_VERSION = 1
_FOUND = 1000


@dataclass(slots=True)
class Seeker:
    """One key that a scan looks for, and which of its records the scan has found so far.

    A *scan* reads one replica's whole log in the background.

    Attributes:
        joined: the scan's position when the key joined.
        wrapped: -1 until the scan reaches the end of its range after the key has joined; then the offset of that end.
        floor: the lowest offset that was kept, if the key has more records than are kept; -1: all were kept.
        offsets: offsets of the key's records, in the order in which they were found.
    """

    joined: int
    wrapped: int = -1
    floor: int = -1
    offsets: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Lap:
    """The state of one scan, which reads a replica's log to find records of some keys. It can be saved as JSON.

    Attributes:
        start: the first offset that the scan reads.
        end: one past the last offset that it reads.
        position: the next offset to read.
        topic_id: id of the topic whose log it is.
        since_ms: when the scan began, milliseconds since 1970 UTC.
        read_to: the highest offset that the scan has read up to.
        epoch: leader epoch of the last batch below ``read_to``; -1 where nothing was read.
        keys: the keys that the scan still looks for.
        found: the offsets of a key's records, for the last `_FOUND` keys that were looked for everywhere.
    """

    start: int
    end: int
    position: int
    topic_id: str = ""
    since_ms: int = 0
    read_to: int = 0
    epoch: int = -1
    keys: dict[Key, Seeker] = field(default_factory=dict)
    found: dict[Key, Known] = field(default_factory=dict)

    def want(self, keys: Iterable[Key], start: int, end: int) -> None:
        """Add keys whose records the scan has to find.

        Args:
            keys: the keys to look for; one that is looked for already does not join again.
            start: the log start; the scan skips offsets below it.
            end: the offset up to which to look for the keys; ``Lap.end`` grows to it, and never shrinks.
        """
        self.start = max(self.start, start)
        self.position = max(self.position, start)
        self.end = max(self.end, end)
        for key in keys:
            self.keys.setdefault(key, Seeker(self.position))

    def took(
        self, reached: int, offsets: Mapping[Key, Collection[int]], floors: Mapping[Key, int], epoch: int
    ) -> dict[Key, Known]:
        """Note that the log was read up to an offset, and which records of the keys were found.

        Args:
            reached: the offset up to which the log was read: above the position, at most ``end``.
            offsets: by key, the offsets of its records that the reading found.
            floors: by key whose older records the reading left out, the lowest offset that it kept.
            epoch: leader epoch of the last batch that was read; -1 where there was none.

        Returns:
            By key that has now been looked for everywhere, the offsets of its records. The scan no longer looks for it.
        """
        self.position = reached
        if reached >= self.read_to and epoch >= 0:
            self.read_to, self.epoch = reached, epoch
        for key, found in offsets.items():
            if key in self.keys:
                seeker = self.keys[key]
                seeker.offsets += [o for o in found if o not in seeker.offsets[-1:]]
                seeker.floor = max(seeker.floor, floors.get(key, -1))
        if reached >= self.end:
            for seeker in self.keys.values():
                if seeker.wrapped < 0:
                    seeker.wrapped = self.end
            self.position = self.start
        done = {key: s for key, s in self.keys.items() if s.wrapped >= 0 and s.joined <= self.position}
        for key in done:
            del self.keys[key]
        known = {
            key: Known(max(self.start, s.floor), s.wrapped, tuple(sorted(set(s.offsets), reverse=True)))
            for key, s in done.items()
        }
        self.found |= known
        for key in list(self.found)[:-_FOUND]:
            del self.found[key]
        return known

    @property
    def next_end(self) -> int:
        """The offset up to which the scan has to read next.

        It is the end as long as some key was not looked for up to there. After that the scan begins again at the start,
        and reads up to the highest offset at which a key joined.
        """
        if any(s.wrapped < 0 for s in self.keys.values()):
            return self.end
        return max((s.joined for s in self.keys.values()), default=self.position)

    def share(self, key: Key) -> float:
        """Return in what share of the log, from 0 to 1, the scan has looked for a key."""
        seeker = self.keys.get(key)
        if seeker is None or self.end <= self.start:
            return 1.0
        passed = self.position - seeker.joined
        if seeker.wrapped >= 0:
            passed += self.end - self.start
        return min(1.0, max(0.0, passed / (self.end - self.start)))

    def as_json(self) -> dict[str, Any]:
        """Return the scan's state as values that JSON can hold; `parse` reads them."""
        return {
            "version": _VERSION,
            "topic_id": self.topic_id,
            "since_ms": self.since_ms,
            "range": [self.start, self.end],
            "position": self.position,
            "read_to": self.read_to,
            "epoch": self.epoch,
            "keys": [[*k, s.joined, s.wrapped, s.floor, s.offsets] for k, s in self.keys.items()],
            "found": [[*k, known.start, known.end, list(known.offsets)] for k, known in self.found.items()],
        }

    @classmethod
    def parse(cls, document: Any) -> Lap:
        """Return the scan from ``document``, which `as_json` returned before a restart, so that the scan goes on.

        Raises:
            ValueError: another version of Parallax saved it, or it is incomplete.
        """
        try:
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']}")
            start, end = document["range"]
            keys = {(int(h), int(lo)): Seeker(j, w, f, list(o)) for h, lo, j, w, f, o in document["keys"]}
            found = {(int(h), int(lo)): Known(s, e, tuple(o)) for h, lo, s, e, o in document["found"]}
            return cls(
                int(start),
                int(end),
                int(document["position"]),
                str(document["topic_id"]),
                int(document["since_ms"]),
                int(document["read_to"]),
                int(document["epoch"]),
                keys,
                found,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not a scan: {error}") from error
