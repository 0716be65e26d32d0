"""Many byte strings in one array.

So the states of many partitions are handled while they stay packed. It is a module of its own because a process that
only plans need not load the compiled code of `parallax.compare.joint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from parallax.compare.observations import Array


class Blobs(NamedTuple):
    """Many byte strings (*pieces*), such as the packed states of partitions, one after another in one array.

    Attributes:
        data: the bytes of all pieces, uint8[n].
        start: for each piece, the index of its first byte in ``data``.
        size: for each piece, how many bytes it has.
    """

    data: Array
    start: Array
    size: Array

    @classmethod
    def of(cls, pieces: Sequence[bytes]) -> Self:
        """Put several byte strings (``pieces``) into one array, in their order."""
        size = np.array([len(piece) for piece in pieces], np.int64)
        return cls(np.frombuffer(b"".join(pieces), np.uint8), np.cumsum(size) - size, size)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join several `Blobs` into one that has the byte strings of all of them, in order."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.data) for part in parts)])
        start = [part.start + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
        return cls(*(np.concatenate(one) for one in ([p.data for p in parts], start, [p.size for p in parts])))

    def piece(self, n: int) -> bytes:
        """The byte string of index ``n``."""
        return bytes(self.data[self.start[n] : self.start[n] + self.size[n]])
