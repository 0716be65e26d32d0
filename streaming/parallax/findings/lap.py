"""A scan of one replica's log for some keys that begins again at its end, as new keys come. No IO.

A key joins at the scan's position, and has been looked for everywhere when the scan reaches that place again. So one
reading serves all keys, whenever they come, and none waits for more than one round.
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
    """A key that the scan looks for, and what it has found of it so far.

    Attributes:
        joined: the scan's position when the key came.
        wrapped: where the range ended when the scan reached its end; -1 where it has not since the key came.
        floor: the lowest offset of a record that was kept; -1 where none was left out.
        offsets: of its records, in the order in which they were found.
    """

    joined: int
    wrapped: int = -1
    floor: int = -1
    offsets: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Lap:
    """The state of a scan of offsets ``[start, end)`` of a log; `position` is the next offset to read.

    Attributes:
        topic_id: of the topic whose log it is.
        since_ms: when it began, milliseconds since 1970 UTC.
        read_to: the highest offset below which something was read, in the leader epoch `epoch`.
        found: what is known of keys that have been looked for everywhere; of the last `_FOUND` only.
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
        """Add keys to the scan of a log. It covers the log from its present start."""
        self.start = max(self.start, start)
        self.position = max(self.position, start)
        self.end = max(self.end, end)
        for key in keys:
            self.keys.setdefault(key, Seeker(self.position))

    def took(
        self, reached: int, offsets: Mapping[Key, Collection[int]], floors: Mapping[Key, int], epoch: int
    ) -> dict[Key, Known]:
        """Take in the records that were found from the position up to an offset that was reached.

        Args:
            reached: above the position, at most ``end``.
            offsets: of each key that was found there.
            floors: of each key of which some were left out, the lowest offset that was kept.
            epoch: leader epoch of the last batch that was read; -1 where there was none.

        Returns:
            What is known now of the keys that have been looked for everywhere; the scan no longer looks for them.
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
        """Return the offset up to which the scan must go on for at least one of the keys."""
        if any(s.wrapped < 0 for s in self.keys.values()):
            return self.end
        return max((s.joined for s in self.keys.values()), default=self.position)

    def share(self, key: Key) -> float:
        """Return the share of the log in which a key has been looked for, from 0 to 1."""
        seeker = self.keys.get(key)
        if seeker is None or self.end <= self.start:
            return 1.0
        passed = self.position - seeker.joined
        if seeker.wrapped >= 0:
            passed += self.end - self.start
        return min(1.0, max(0.0, passed / (self.end - self.start)))

    def as_json(self) -> dict[str, Any]:
        """Return the whole state of the scan in a JSON-able form."""
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
        """Make a scan from what `as_json` gave.

        Raises:
            ValueError: it is of another version, or incomplete.
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
