"""Who stands where among the replicas that differ, and whether they stand otherwise than they did."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

Sides = Mapping[str, Collection[int]]
"""By what they show, the brokers."""
VALUE = "value at offset "
"""What begins the name of a side that shows a value of a key; its offset follows."""
NO_VALUE = "no value"


def standing(sides: Sides) -> frozenset[int]:
    """The brokers that stand on any side."""
    return frozenset(broker for brokers in sides.values() for broker in brokers)


def showing_the_value_of(sides: Sides, brokers: Collection[int]) -> frozenset[int]:
    """Those that show the very value of a key that one of these shows, with these."""
    alike = [side for text, side in sides.items() if text.startswith(VALUE) and not set(side).isdisjoint(brokers)]
    return frozenset(brokers).union(*alike)


def against(sides: Sides, broker: int) -> list[frozenset[int]]:
    """The sides that a broker does not stand on, but for empty ones."""
    return [frozenset(brokers) for brokers in sides.values() if brokers and broker not in brokers]


def sides_differ(before: Sides, now: Sides) -> bool:
    """Whether a replica has gone over to another side, or stands on one for the first time.

    One that stands on none now was not read, which changes nothing. Nor does it that a side shows another offset by
    now, or that all sides are told by other things than before.
    """
    if not before:
        return False
    was, stands = _by_broker(before), _by_broker(now)
    if stands.keys() - was.keys():
        return True
    moves = {(was[broker], stands[broker]) for broker in stands}
    if any(len({move[i] for move in moves}) < len(moves) for i in (0, 1)):
        return True
    kinds = [(_in_kind(old), _in_kind(new)) for old, new in moves]
    is_told_alike = not {old for old, _ in kinds}.isdisjoint(new for _, new in kinds)
    return is_told_alike and any(old != new for old, new in kinds)


def _by_broker(sides: Sides) -> dict[int, str]:
    return {broker: text for text, brokers in sides.items() for broker in brokers}


def _in_kind(text: str) -> str:
    """Return what a side shows, without where, and without how that is known."""
    return re.sub("[0-9]+", "", text.partition(",")[0])


def showing_a_value_below(sides: Sides, offset: int) -> frozenset[int]:
    """The brokers that show a value of the key that was written below an offset."""
    older = (side for text, side in sides.items() if text.startswith(VALUE) and int(text.removeprefix(VALUE)) < offset)
    return frozenset().union(*older)
