"""How long to wait before the next try: the waits double, with jitter, up to a bound."""

from __future__ import annotations

from random import Random

_JITTER = 0.25
"""The share of a wait that is drawn, so that what failed together is not tried again together."""
_DOUBLINGS = 32


def backoff(tries: int, first: float, most: float, draw: Random) -> float:
    """The wait after a number of tries that failed, in the unit of ``first`` and ``most``.

    Args:
        tries: how many tries have failed, from 1.
        first: the wait after the first try, without jitter.
        most: the longest wait; jitter only ever shortens it.
        draw: random numbers for the jitter.
    """
    wait = min(first * 2 ** min(tries - 1, _DOUBLINGS), most)
    return wait * (1 - _JITTER * draw.random())
