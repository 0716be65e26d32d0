"""The lines of ``parallax check``: one for each thing that it looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """The result for one thing that ``parallax check`` looked at."""

    FINE = "ok"
    NOTE = "note"
    WRONG = "wrong"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of ``parallax check``: a thing that it looked at, and the result.

    Attributes:
        about: the thing, as in ``broker 1`` or ``topic orders``.
        result: whether it is fine, wrong, or not known.
        text: one sentence; if something is wrong, it also says what to do.
    """

    about: str
    result: Result
    text: str


def exit_code(lines: Sequence[Line]) -> int:
    """The exit code of ``parallax check``.

    It is 1 if something is wrong, else 3 if something could not be looked at, else 0.
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
