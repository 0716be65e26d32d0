"""Finds the newest visible record of keys on one replica, from known offsets of their records. No IO.

A log only ever loses records below its end, as long as it is the same log. *Example.* All of ``[100, 200)`` was read
once, and a key had records at 120 and 150. Then the key has no other record in that range now. So it is enough to read
150, perhaps 120, and everything from 200 on. Offsets below 100 have to be read only if nothing visible is found above.

So known offsets only save reading. Each record that is returned has just been read.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parallax.findings.answers import ABORTED, KeyShown, RecordShown
from parallax.findings.keys import Key
from parallax.findings.requests import Keys, KeysShown, Points, PointsShown
from parallax.model import IsolationLevel, hash_text

_STEP_MOST = 8
"""At most so many of a key's known offsets are read together, after 1, 2 and 4. It is nearly always the newest."""
_MOST_STEPS = 64
"""After so many steps a key's older offsets are left unread, and so is everything below them."""
_FOREIGN = 8
"""How many offsets are tried that only other replicas were recorded to show. A log that holds one is another log."""


@dataclass(frozen=True, slots=True)
class Known:
    """The known offsets of one key's records in one replica's log, and the range of the log that was read for them.

    Attributes:
        start: the first offset of the range that was read. In the range ``[start, end)``, ``offsets`` has every record
            of the key.
        end: the end of that range; equal to ``start`` if nothing is known.
        offsets: offsets of the key's records, newest first. Below ``start`` there may be others.
        foreign: offsets in the range where the views recorded the key for other replicas, but not for this one; newest
            first.
    """

    start: int = 0
    end: int = 0
    offsets: Sequence[int] = ()
    foreign: Sequence[int] = ()

    def joined(self, other: Known) -> Known:
        """Return what this and another `Known` say together about the same key of the same replica.

        If their ranges touch, they become one range. Otherwise only the range that ends higher is kept.
        """
        if self.end <= self.start:
            return other
        if other.end <= other.start:
            return self
        low, high = sorted((self, other), key=lambda known: known.end)
        start = min(low.start, high.start) if low.end >= high.start else high.start
        offsets = tuple(sorted({*low.offsets, *high.offsets}, reverse=True))
        foreign = tuple(sorted({*low.foreign, *high.foreign} - set(offsets), reverse=True))
        return Known(start, high.end, offsets, foreign)


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """A question: where are the records of some keys known to be? The answer maps each key to its `Known`.

    Attributes:
        keys: the keys.
        end: the offset up to which the caller has to know the records.
    """

    keys: frozenset[Key]
    end: int


@dataclass(frozen=True, slots=True)
class RecordsOfKeys:
    """A question: which records of some keys does read_committed show in a range of offsets?

    The answer is a `StretchShown`.

    Attributes:
        keys: the keys.
        start: the first offset of the range.
        end: one past its last offset.
        head: whether nothing is known of the keys in this range. Reading such a range is not begun if it is too long
            for one probe.
        scan: whether a range that is too long is then scanned in the background.
    """

    keys: frozenset[Key]
    start: int
    end: int
    head: bool = False
    scan: bool = False


@dataclass(frozen=True, slots=True)
class StretchShown:
    """The answer to `RecordsOfKeys`: the newest records of the keys in its range.

    Attributes:
        reached: the offset below which everything that the replica shows was read.
        visible: by key, its newest record that is not aborted.
        newest: by key, the offset of its newest record, aborted or not.
        key_bytes: by hash of the key, the key itself, where keys are read at all.
        why: why the range was not read to its end; None if it was.
    """

    reached: int
    visible: Mapping[Key, RecordShown] = field(default_factory=dict)
    newest: Mapping[Key, int] = field(default_factory=dict)
    key_bytes: Mapping[Key, bytes] = field(default_factory=dict)
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Replaced:
    """A notice to the caller: another log has replaced the one where the keys' records were found.

    The caller has to forget the known offsets of these keys. The answer is None.
    """

    keys: frozenset[Key]


class _Search:
    """The search for one key, with what was found so far."""

    def __init__(self, key: Key, known: Known, asked: Keys) -> None:
        start, end = asked.start, asked.end
        self.key = key
        self.known = replace(known, end=min(known.end, end))
        self.text = hash_text(*key)
        self.visible: RecordShown | None = None
        self.newest = -1
        self.floor = known.start if known.end > known.start else end
        """All records of the key at or above it are known."""
        low, high = max(start, known.start), self.known.end
        self.replaced = any(low <= o < high and o not in known.offsets for o in asked.held.get(self.text, ()))
        """The replica shows a record that it was known not to hold."""
        self._left = [o for o in known.offsets if low <= o < high]
        self._foreign = [o for o in known.foreign if low <= o < high][:_FOREIGN]
        self._never = frozenset(self._foreign)
        self._steps = 0
        self.unread = False
        """Offsets were wanted, and not read."""

    def next(self) -> list[int]:
        """Return the offsets to read next: of those that may be newer than what was found."""
        above = -1 if self.visible is None else self.visible.offset
        self._left = [o for o in self._left if o > above]
        step = min(_STEP_MOST, 1 << min(self._steps, 8))
        wanted, self._left = self._left[:step], self._left[step:]
        foreign, self._foreign = self._foreign, []
        self._steps += 1
        if self._left and self._steps >= _MOST_STEPS:
            self.floor, self._left = wanted[-1], []
        return wanted + foreign

    @property
    def is_over(self) -> bool:
        """Whether no offset is left that may be newer than what was found."""
        above = -1 if self.visible is None else self.visible.offset
        return not self.unread and not self._foreign and all(o <= above for o in self._left)

    def take(self, record: RecordShown) -> None:
        """Take in a record of the key."""
        self.replaced |= record.offset in self._never
        self.newest = max(self.newest, record.offset)
        if record.outcome != ABORTED and (self.visible is None or self.visible.offset < record.offset):
            self.visible = record

    def result(self, start: int) -> KeyShown:
        """Return what is known of the key now; ``start`` is where the log begins."""
        if self.visible is not None:
            return KeyShown(self.visible, True, self.newest, start)
        return KeyShown(None, self.floor <= start, self.newest, max(start, self.floor))


def newest_of_keys(keys: Collection[Key], asked: Keys) -> Generator[Any, Any, KeysShown]:
    """Find the newest visible record of each key on one replica.

    It is a generator: it yields its questions (`KnownPlaces`, `RecordsOfKeys`, `Replaced`, `Points`), and the caller
    sends it the answers. The answer to `Points` may also be a text that says why nothing was read.

    Args:
        keys: the keys to look for.
        asked: the range to look in: from the log start up to the last stable offset.

    Returns:
        The newest visible record of each key. A key is left out as long as its newest record is not known. It is not
        complete if there may be a record below its ``complete_from``. In both cases ``error`` says why.
    """
    start, end = asked.start, asked.end
    known: Mapping[Key, Known] = yield KnownPlaces(frozenset(keys), end)
    searches = [_Search(key, known.get(key, Known()), asked) for key in sorted(keys)]
    # The replica shows less than was read of it: it was restarted a moment ago, or its log is another one.
    ahead = [s for s in searches if known.get(s.key, Known()).end > end]
    pointed = [s for s in searches if s not in ahead and s.known.end > max(s.known.start, start)]
    unknown = [s for s in searches if s not in ahead and s not in pointed]
    key_bytes: dict[Key, bytes] = {}
    why: str | None = None
    low = min((s.known.end for s in pointed), default=end)
    if low < end and (why := (yield from _stretch(pointed, low, end, key_bytes))) is not None:
        pointed = []
    if (left := (yield from _points(pointed, key_bytes))) is not None:
        why = why or left
        pointed = [s for s in pointed if s.is_over]
    if any(s.replaced for s in pointed):
        # What was known of the other keys is about the lost log as well.
        yield Replaced(frozenset(s.key for s in pointed))
        unknown += [_Search(s.key, Known(), asked) for s in pointed]
        pointed = []
    complete = list(pointed)
    for heads in (ahead, unknown, [s for s in pointed if s.visible is None and s.floor > start]):
        if not heads:
            continue
        until = end if heads is ahead else max(s.floor for s in heads)
        missing = yield from _stretch(heads, start, until, key_bytes, head=True, scan=heads is not ahead)
        why = why or missing
        if missing is None:
            for search in heads:
                search.floor = start
            complete += [s for s in heads if s not in complete]
    return KeysShown({s.key: s.result(start) for s in complete}, key_bytes, why)


def _stretch(
    searches: Sequence[_Search], start: int, end: int, key_bytes: dict[Key, bytes], **how: bool
) -> Generator[Any, Any, str | None]:
    """Read a stretch for some keys; returns why not all of it was read."""
    shown: StretchShown = yield RecordsOfKeys(frozenset(s.key for s in searches), start, end, **how)
    if shown.why is not None:
        return shown.why
    key_bytes |= shown.key_bytes
    for search in searches:
        search.newest = max(search.newest, shown.newest.get(search.key, -1))
        if (record := shown.visible.get(search.key)) is not None:
            search.take(record)
    return None


def _points(searches: Sequence[_Search], key_bytes: dict[Key, bytes]) -> Generator[Any, Any, str | None]:
    """Read the known offsets of keys, newest first, until each key's newest visible record is found.

    Returns:
        Why some were not read; None where all were that matter.
    """
    while True:
        wanted: dict[int, list[_Search]] = {}
        for search in searches:
            for offset in search.next():
                wanted.setdefault(offset, []).append(search)
        if not wanted:
            return None
        shown: PointsShown | str = yield Points(frozenset(wanted), IsolationLevel.READ_COMMITTED)
        if isinstance(shown, str):
            for search in (s for some in wanted.values() for s in some):
                search.unread = True
            return shown
        key_bytes |= shown.key_bytes
        for offset, record in shown.records.items():
            for search in wanted.get(offset, ()):
                if record.key_hash == search.text:
                    search.take(record)
