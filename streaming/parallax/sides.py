"""The sides of a difference: which replicas show the same, what they show, and whether that has changed.

Tables hold a side as text (`Side.text`). Only `Side.parse` reads that text; all other code uses the fields of a side.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parallax.model import UNKNOWN

_OFFSET_DIGITS = 19
"""Digits that the largest offset has."""


class Shows(StrEnum):
    """What the replicas of one side show."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"
    """They hold the transaction open."""
    ENDED = "ended"
    ENDED_AS_READ = "ended, as it was read"
    VALUE = "value at offset"
    """They show the key's value that lies at the side's offset."""
    SOME_VALUE = "a value"
    NO_VALUE = "no value"
    """They show no value of the key. If the side has an offset, they were read from there on only."""
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
    """One side of a difference: what some replicas show.

    Attributes:
        shows: what they show, such as a value, an outcome, or a record's content.
        offset: the offset that belongs to this, such as that of the value; -1 if there is none.
        content: what a record or an end marker holds, in words.
    """

    shows: Shows
    offset: int = UNKNOWN
    content: str = ""

    @property
    def text(self) -> str:
        """The side in words, as tables and texts for people name it."""
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
        """The side that a text names (`text`); unknown words are taken for the content of a record.

        Raises:
            ValueError: the text should name an offset, and does not.
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
        """What the side shows, without offsets and without how it is known that a transaction ended.

        Two sides with equal values of this show the same.
        """
        shows = Shows.ENDED if self.shows is Shows.ENDED_AS_READ else self.shows
        return shows, re.sub("[0-9]+", "", self.content.partition(",")[0])


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS):
        raise ValueError("no offset")
    return int(text)


Sides = Mapping[Side, Collection[int]]
"""By side, the ids of the brokers that are on it."""


def parsed(document: Any) -> dict[Side, tuple[int, ...]]:
    """By side, the ids of its brokers, from a document in a table (`as_document`); empty without a document.

    Raises:
        ValueError: the document names a side that cannot be read.
    """
    return {Side.parse(text): tuple(brokers) for text, brokers in (document or {}).items()}


def as_document(sides: Sides) -> dict[str, list[int]]:
    """Sides with the ids of their brokers, as a document for JSON; `parsed` reads it."""
    return {side.text: list(brokers) for side, brokers in sides.items()}


def in_order(sides: Sides) -> dict[Side, tuple[int, ...]]:
    """The same sides, sorted by their texts, each with its brokers sorted; sides without brokers are left out."""
    every = sorted(sides.items(), key=lambda one: one[0].text)
    return {side: tuple(sorted(brokers)) for side, brokers in every if brokers}


def by_broker(shown: Mapping[int, Side]) -> dict[Side, list[int]]:
    """By side, ids of the brokers that are on it.

    Args:
        shown: by broker, its side.
    """
    sides: dict[Side, list[int]] = {}
    for broker, side in shown.items():
        sides.setdefault(side, []).append(broker)
    return sides


def standing(sides: Sides) -> frozenset[int]:
    """Ids of the brokers that are on any side."""
    return frozenset(broker for brokers in sides.values() for broker in brokers)


def against(sides: Sides, broker: int) -> list[frozenset[int]]:
    """For each side that a broker is not on, its brokers' ids; empty sides are left out."""
    return [frozenset(brokers) for brokers in sides.values() if brokers and broker not in brokers]


def are_outcomes(sides: Collection[Side], *others: Shows) -> bool:
    """Whether each side shows that a transaction committed or aborted, or shows one of ``others``."""
    return {side.shows for side in sides} <= OUTCOMES.union(others)


def outcomes_on(sides: Sides, broker: int) -> frozenset[str]:
    """The outcomes (``committed``, ``aborted``) on the sides that a broker is on."""
    return frozenset(str(side.shows) for side, on in sides.items() if broker in on and side.shows in OUTCOMES)


def values(sides: Collection[Side]) -> dict[Side, int]:
    """By side that shows a key's value at a known offset, this offset; other sides are left out."""
    return {side: side.offset for side in sides if side.shows is Shows.VALUE}


def showing_the_value_of(sides: Sides, brokers: Collection[int]) -> frozenset[int]:
    """The given brokers' ids, and those of all that show the same value as one of them."""
    alike = [sides[side] for side in values(sides.keys()) if not set(sides[side]).isdisjoint(brokers)]
    return frozenset(brokers).union(*alike)


def showing_a_value_below(sides: Sides, offset: int) -> frozenset[int]:
    """Ids of the brokers that show a value of the key whose record lies below an offset."""
    return frozenset().union(*(sides[side] for side, at in values(sides.keys()).items() if at < offset))


def sides_differ(before: Sides, now: Sides) -> bool:
    """Whether a replica has changed its side, or has joined one; False if there were no sides before.

    A replica that is on no side now was not read, and counts as unchanged. Two other things are no change, if the same
    replicas are together as before: another offset of a side, or new words for all sides.

    Args:
        before: the sides as they were.
        now: the sides as they are.
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
