"""Many pieces of bytes in one array: the form of states while they stay packed.

It is apart from the kernels that take states in, so a process that only plans does not load those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from parallax.compare.observations import Array


class Blobs(NamedTuple):
    """Many pieces of bytes in one array.

    Attributes:
        data: uint8[n].
        start: where each piece begins.
        size: how long it is.
    """

    data: Array
    start: Array
    size: Array

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> Self:
        """Make an array of pieces from Python's bytes."""
        size = np.array([len(piece) for piece in pieces], np.int64)
        return cls(np.frombuffer(b"".join(pieces), np.uint8), np.cumsum(size) - size, size)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join several arrays of pieces."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.data) for part in parts)])
        start = [part.start + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
        return cls(*(np.concatenate(one) for one in ([p.data for p in parts], start, [p.size for p in parts])))

    def piece(self, n: int) -> bytes:
        """The bytes of one piece, by its index."""
        return bytes(self.data[self.start[n] : self.start[n] + self.size[n]])
