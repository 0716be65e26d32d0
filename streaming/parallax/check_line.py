"""What ``parallax check`` says: a line for each thing that it looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """The result of a line: whether something is wrong."""

    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ``parallax check``: a thing that it looked at, and the result.

    Attributes:
        about: the thing, as in ``broker 1`` or ``topic orders``.
        text: one sentence; if something is wrong, it also says what to do.
    """

    about: str
    result: Result
    text: str


def exit_code(lines: Sequence[Line]) -> int:
    """The exit code: 0 where nothing is wrong, and 1 where something is.

    It is 3 where something could not be looked at.
    """
    found = {line.result for line in lines}
    if Result.WRONG in found:
        return 1
    return 3 if Result.UNKNOWN in found else 0


def some(names: Sequence[str]) -> str:
    """The first five of some names, and how many more there are, as text."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


_NAMED = 5


__all__ = ["Line", "Result", "exit_code", "some"]
