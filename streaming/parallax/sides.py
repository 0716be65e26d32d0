"""The sides of a difference: which replicas show the same, what they show, and whether that has changed.

E.g. brokers 1 and 3 show a key's value at offset 7 (one side), and broker 2 shows no value (the other side). Tables
hold a side as text (`Side.text`). Only `Side.parse` reads that text; all other code uses the fields of a side.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parallax.model import UNKNOWN

_OFFSET_DIGITS = 19
"""How many digits the largest offset has."""


class Shows(StrEnum):
    """The kind of answer that makes a side, e.g. that its replicas show a transaction as committed."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """They show the transaction as open."""
    ENDED = "ended"
    ENDED_AS_READ = "ended, as it was read"
    VALUE = "value at offset"
    """They show a value of the key: that of the record at the side's offset."""
    SOME_VALUE = "a value"
    NO_VALUE = "no value"
    """They show no value of the key. If the side has an offset, they were read only from that offset on."""
    TOMBSTONE = "tombstone at offset"
    LACKS_VALUE = "no value at offset"
    LACKS_TOMBSTONE = "no tombstone at offset"
    RECORD = "record at offset"
    NO_RECORD = "no record there"
    NOT_READ = "not read"
    """They cannot be asked."""
    CONTENT = "content"
    """They show a record or an end marker that holds the side's content."""


OUTCOMES = frozenset({Shows.COMMITTED, Shows.ABORTED})
_AT_OFFSETS = tuple(s for s in Shows if s.endswith(" at offset"))
_BY_TEXT = {str(s): s for s in Shows if s not in (*_AT_OFFSETS, Shows.CONTENT)}
_FROM = f"{Shows.NO_VALUE}, read from offset {{offset}} on"


@dataclass(frozen=True, slots=True)
class Side:
    """What the replicas of one side show; who they are is in `Sides`, the mapping of sides to broker ids.

    Attributes:
        shows: the kind of answer, such as a value, an outcome, or a record's content.
        offset: the offset that belongs to the answer, such as that of the value; -1 if it has none.
        content: if ``shows`` is ``content``, a description of the record or end marker; else empty.
    """

    shows: Shows
    offset: int = UNKNOWN
    content: str = ""

    @property
    def text(self) -> str:
        """What the replicas of the side show, in words for tables and people, e.g. ``value at offset 7``."""
        match self.shows:
            case Shows.CONTENT:
                return self.content
            case Shows.NO_VALUE if self.offset != UNKNOWN:
                return _FROM.format(offset=self.offset)
            case shows if shows in _AT_OFFSETS:
                return f"{shows} {self.offset}"
            case shows:
                return str(shows)

    @classmethod
    def parse(cls, text: str) -> Side:
        """The side that a text describes, as `text` writes it. Any other text is a record's content.

        Raises:
            ValueError: the text is of a kind that has an offset, and its offset is not a number.
        """
        for shows in _AT_OFFSETS:
            if text.startswith(f"{shows} "):
                return cls(shows, _offset(text.removeprefix(f"{shows} ")))
        before, after = _FROM.split("{offset}")
        if text.startswith(before) and text.endswith(after):
            return cls(Shows.NO_VALUE, _offset(text.removeprefix(before).removesuffix(after)))
        return cls(_BY_TEXT[text]) if text in _BY_TEXT else cls(Shows.CONTENT, content=text)

    @property
    def alike(self) -> tuple[Shows, str]:
        """The kind of answer and the content as a tuple, without offsets: sides show the same if it is equal.

        ``ended`` and ``ended, as it was read`` are alike. They differ only in how it is known that the transaction
        ended.
        """
        shows = Shows.ENDED if self.shows is Shows.ENDED_AS_READ else self.shows
        return shows, re.sub("[0-9]+", "", self.content.partition(",")[0])


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS):
        raise ValueError("no offset")
    return int(text)


Sides = Mapping[Side, Collection[int]]
"""By side, the ids of the brokers on it."""


def parsed(document: Any) -> dict[Side, tuple[int, ...]]:
    """The broker ids of each side, from a document of `as_document`; empty for None.

    Raises:
        ValueError: the document names a side that cannot be read.
    """
    return {Side.parse(text): tuple(brokers) for text, brokers in (document or {}).items()}


def as_document(sides: Sides) -> dict[str, list[int]]:
    """A JSON document of sides: the text of each, with its brokers' ids; `parsed` reads it."""
    return {side.text: list(brokers) for side, brokers in sides.items()}


def in_order(sides: Sides) -> dict[Side, tuple[int, ...]]:
    """The given sides, sorted by `Side.text`, each with its broker ids in ascending order.

    Sides without brokers are left out.
    """
    every = sorted(sides.items(), key=lambda one: one[0].text)
    return {side: tuple(sorted(brokers)) for side, brokers in every if brokers}


def by_broker(shown: Mapping[int, Side]) -> dict[Side, list[int]]:
    """The broker ids of each side, from the side of each broker.

    Args:
        shown: the side of each broker, by broker id.
    """
    sides: dict[Side, list[int]] = {}
    for broker, side in shown.items():
        sides.setdefault(side, []).append(broker)
    return sides


def standing(sides: Sides) -> frozenset[int]:
    """Ids of all brokers that are on some side, whatever that side shows.

    It is not about open findings, which are also called standing.
    """
    return frozenset(broker for brokers in sides.values() for broker in brokers)


def against(sides: Sides, broker: int) -> list[frozenset[int]]:
    """The broker ids of each side that ``broker`` is not on; empty sides are left out.

    They are in the order of ``sides``.
    """
    return [frozenset(brokers) for brokers in sides.values() if brokers and broker not in brokers]


def are_outcomes(sides: Collection[Side], *others: Shows) -> bool:
    """Whether all sides are about how a transaction ended: each shows committed, aborted, or one of ``others``."""
    return {side.shows for side in sides} <= OUTCOMES.union(others)


def outcomes_on(sides: Sides, broker: int) -> frozenset[str]:
    """The outcome of a transaction that ``broker`` shows, ``committed`` or ``aborted``; empty if it shows none."""
    return frozenset(str(side.shows) for side, on in sides.items() if broker in on and side.shows in OUTCOMES)


def values(sides: Collection[Side]) -> dict[Side, int]:
    """By side that shows a key's value at a known offset, that offset.

    Sides that show anything else are left out.
    """
    return {side: side.offset for side in sides if side.shows is Shows.VALUE}


def showing_the_value_of(sides: Sides, brokers: Collection[int]) -> frozenset[int]:
    """Ids of the given brokers, and of others that show the value that one of them shows."""
    alike = [sides[side] for side in values(sides.keys()) if not set(sides[side]).isdisjoint(brokers)]
    return frozenset(brokers).union(*alike)


def showing_a_value_below(sides: Sides, offset: int) -> frozenset[int]:
    """Ids of the brokers whose value of the key is a record at a lower offset than ``offset``."""
    return frozenset().union(*(sides[side] for side, at in values(sides.keys()).items() if at < offset))


def sides_differ(before: Sides, now: Sides) -> bool:
    """Whether a replica has changed its side, or is new on one; False if ``before`` is empty.

    A replica that is on no side now was not read, and counts as unchanged. While the same replicas are together, two
    things are no change: a side has another offset, or all sides are described in other terms than before (e.g. the
    sides that differed by their records now differ by the key's value).

    Args:
        before: the broker ids of each side, earlier.
        now: the broker ids of each side, now.
    """
    if not before:
        return False
    was, stands = _by_broker(before), _by_broker(now)
    if stands.keys() - was.keys():
        return True
    moves = {(was[broker], stands[broker]) for broker in stands}
    if any(len({move[i] for move in moves}) < len(moves) for i in (0, 1)):
        return True
    kinds = [(old.alike, new.alike) for old, new in moves]
    is_told_alike = not {old for old, _ in kinds}.isdisjoint(new for _, new in kinds)
    return is_told_alike and any(old != new for old, new in kinds)


def _by_broker(sides: Sides) -> dict[int, Side]:
    return {broker: side for side, brokers in sides.items() for broker in brokers}
