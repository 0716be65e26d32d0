"""One line of ``parallax check``, and the exit code that all lines together give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """What ``parallax check`` found about one thing: fine, worth a note, wrong, or not known."""

    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ``parallax check``: a thing that it checked, and the result.

    Attributes:
        about: the thing, as in ``broker 1`` or ``topic orders``.
        result: whether it is fine, worth a note, wrong, or not known.
        text: one sentence; if something is wrong, it also says what to do.
    """

    about: str
    result: Result
    text: str


def exit_code(lines: Sequence[Line]) -> int:
    """The exit code of ``parallax check``, by its lines.

    It is 1 if a line is wrong, else 3 if a line is unknown, else 0.
    """
    found = {line.result for line in lines}
    if Result.WRONG in found:
        return 1
    return 3 if Result.UNKNOWN in found else 0


def some(names: Sequence[str]) -> str:
    """Names as one text: the first five, and how many more there are, as in ``a, b, c, d, e and 3 more``.

    They keep the order of ``names``.
    """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_NAMED = 5


__all__ = ["Line", "Result", "exit_code", "some"]
