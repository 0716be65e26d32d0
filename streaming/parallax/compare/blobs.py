"""Many byte strings in one array: the form of states while they stay packed.

It is apart from the kernels that take states in, so a process that only plans does not load those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from parallax.compare.observations import Array


class Blobs(NamedTuple):
    """Many byte strings (*pieces*), such as the packed states of partitions, one after another in one array.

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
        """Put several byte strings into one array, in their order."""
        size = np.array([len(piece) for piece in pieces], np.int64)
        return cls(np.frombuffer(b"".join(pieces), np.uint8), np.cumsum(size) - size, size)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join several of these arrays into one that has all of their byte strings, in order."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.data) for part in parts)])
        start = [part.start + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
        return cls(*(np.concatenate(one) for one in ([p.data for p in parts], start, [p.size for p in parts])))

    def piece(self, n: int) -> bytes:
        """One of the byte strings, by its index."""
        return bytes(self.data[self.start[n] : self.start[n] + self.size[n]])
