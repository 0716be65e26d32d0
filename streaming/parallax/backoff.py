"""How long to wait before something that failed is tried again.

The wait doubles with each try, up to a bound. A random part of it is left out. So things that failed together are not
all tried again together.
"""

from __future__ import annotations

from random import Random

_JITTER = 0.25
"""The largest share of a wait that is left out at random."""
_DOUBLINGS = 32


def backoff(tries: int, first: float, most: float, draw: Random) -> float:
    """The wait before the next try, in the unit of ``first`` and ``most``.

    Args:
        tries: how many tries have failed, from 1.
        first: the wait after the first failed try, before the random part is left out.
        most: the longest wait.
        draw: random numbers; up to a quarter of the wait is left out.
    """
    wait = min(first * 2 ** min(tries - 1, _DOUBLINGS), most)
    return wait * (1 - _JITTER * draw.random())
