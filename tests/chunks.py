"""All chunks of a range that the product's reader reads, whether or not it comes to the end."""

from __future__ import annotations

from collections.abc import Iterator

from parallax.replica.errors import ReplicaError
from parallax.replica.reader import Chunk


def read_all(chunks: Iterator[Chunk]) -> tuple[list[Chunk], int | None, ReplicaError | None]:
    """Take all chunks of a range: (chunks, position reached or None, the failure that ended it or None)."""
    taken: list[Chunk] = []
    failure: ReplicaError | None = None
    try:
        taken.extend(chunks)
    except ReplicaError as error:
        failure = error
    return taken, taken[-1].position if taken else None, failure
