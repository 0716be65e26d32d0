"""Counts in texts for people: singular for one thing, plural for any other number."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_NAMED = 3


def agreed(number: int, one: str, many: str) -> str:
    """The form of a word that goes with a number, such as ``is`` or ``are``.

    Args:
        number: how many.
        one: the form for 1.
        many: the form for any other number.
    """
    return one if number == 1 else many


def counted(number: int, noun: str, many: str | None = None) -> str:
    """A number with its noun: ``1 replica``, ``2,000 replicas``.

    Args:
        number: how many.
        noun: the noun for one.
        many: the noun for any other number; the default adds an s.
    """
    return f"{number:,} {agreed(number, noun, f'{noun}s' if many is None else many)}"


def named(names: Iterable[str]) -> str:
    """The first three of some names, in alphabetical order, and how many more there are: ``a, b, c and 2 more``."""
    return first_of(sorted(set(names)))


def first_of(names: Iterable[str]) -> str:
    """The first three of some names, in their order, and how many more there are: ``c, a, b and 2 more``."""
    known = list(dict.fromkeys(names))
    more = [f"{len(known) - _NAMED:,} more"] if known[_NAMED:] else []
    return " and ".join([", ".join(known[:_NAMED]), *more])


def brokers_text(brokers: Collection[int]) -> str:
    """Brokers as text for a sentence: ``broker 1``, ``brokers 1, 2 and 3``.

    Args:
        brokers: their ids, at least one, in any order.
    """
    *most, last = sorted(brokers)
    return f"brokers {', '.join(map(str, most))} and {last}" if most else f"broker {last}"
